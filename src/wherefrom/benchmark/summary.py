"""Everything that a report says about a run, as plain data, for the page, CSV and LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wherefrom.benchmark.columns import explanation_of, rationale_of
from wherefrom.benchmark.recommendation import RedrawnRanks, recommend, redrawn_ranks
from wherefrom.benchmark.statistics import (
    Better,
    Curve,
    Energy,
    MethodAgreement,
    MethodCost,
    Ranks,
    Standing,
    agreement,
    average_ranks,
    costs,
    curves,
    leaderboard,
    macro_f1,
    winners,
)
from wherefrom.benchmark.words import ClassWords, WordChoice, list_words
from wherefrom.catalogue import floor_method
from wherefrom.core.comparison import Rationale
from wherefrom.core.explanation import SMALL_GAP, Explanation
from wherefrom.errors import BadFile, BadOption, UnknownName

if TYPE_CHECKING:
    import pandas

    from wherefrom.benchmark.store import Run

SHOWN = 48  # examples that can be looked at: a third of them the most disputed, a third wrong, the rest from all over
CHARACTERS = 20_000  # of all their texts; each is shown once for every method, so a page of more would be slow
CURVES = ("aopc", "log_odds")
# The columns that are read, because all of a large run would not fit into memory: for agreement, and for words.
RANKED = ("example", "target", "method", "segment", "scores")
WORDED = ("example", "target", "method", "signed", "level", "text", "pair", "segment", "offsets", "scores")


@dataclass(frozen=True)
class Disputed:
    """An example, and how far methods agree on it."""

    example: str
    agreement: float
    label: str | None
    prediction: str
    wrong: bool | None  # whether the prediction is; None where the label is not known
    explanations: list[Explanation]
    rationale: Rationale | None = None  # what people marked


@dataclass(frozen=True)
class Summary:
    """One run in numbers."""

    name: str  # of the data set
    manifest: Mapping[str, Any]
    finished: bool
    examples: int
    accuracy: float | None  # of the model, where labels are known
    macro_f1: float | None  # of the model, where labels are known: the mean over labels
    values: tuple[float, float, float] | None  # what a regression model predicts: the least, the mean, the largest
    boards: dict[str, list[Standing]]  # metric -> leaderboard
    better: dict[str, Better]
    curves: dict[str, dict[str, Curve]]  # metric -> method -> curve
    costs: list[MethodCost]
    agreement: MethodAgreement
    winners: dict[str, list[tuple[str, int]]]  # method -> operation and how often it was chosen
    gaps: dict[str, int]  # method -> explanations whose scores do not add up to what they should
    disputed: list[Disputed]  # the examples that are shown, those on which methods agree least first
    redrawn: RedrawnRanks | None  # for the recommendation
    errors: list[dict[str, Any]]
    counts: dict[str, float]  # examples, asked, distinct, rows, seconds of the whole run
    words: Sequence[ClassWords] = ()  # of one method, class by class

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was asked for, as the manifest has it."""
        return dict(self.manifest["configuration"]["plan"])

    @property
    def methods(self) -> list[str]:
        return list(self.plan["methods"])

    @cached_property
    def ranks(self) -> Ranks:
        return average_ranks({self.name: self.boards})


@contextmanager
def tables_must_fit(run: Run) -> Iterator[None]:
    """Tables may be from anybody, with right checksums: what cannot be counted in them is an error about the run."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise BadFile(
            f"The tables of the run in {run.folder} do not fit its manifest ({type(error).__name__}: {why}). They were"
            " not made by 'wherefrom run', or changed since."
        ) from error


def summarise(run: Run, energy: Energy | None = None, *, seed: int = 0, words: WordChoice | None = None) -> Summary:
    """words: which words are listed; by the method that is recommended unless given."""
    with tables_must_fit(run):
        return _summarised(run, energy, seed, words)


def _summarised(run: Run, energy: Energy | None, seed: int, words: WordChoice | None) -> Summary:
    explained = run.frame("explanations", ["example", "target", "label", "prediction", "predicted", "value"])
    if run.done and explained.empty and not run.errors.empty:
        commonest, count = Counter(run.errors["error"]).most_common(1)[0]
        raise BadFile(
            f"No example of the run in {run.folder} could be explained, so there is nothing to report:"
            f" {run.errors['example'].nunique()} of {run.manifest['examples']} were tried. The commonest error, {count}"
            f" times: {commonest}"
        )
    if not run.done or run.scores.empty:
        raise BadOption(
            f"The run in {run.folder} has no scores yet. Continue it: 'wherefrom run' with the same options."
        )
    better: dict[str, Better] = {row["asked"]: row["better"] for row in run.manifest["metrics"]}
    metrics = [metric for metric in better if metric in set(run.scores["metric"])]
    agreed = agreement(run.rows("explanations", columns=RANKED), run.manifest["configuration"]["plan"]["methods"])
    frame = explained[["example", "label", "prediction", "predicted"]].drop_duplicates("example")
    labelled = frame[frame["label"].notna()]
    predicted = [  # runs of earlier versions have the likeliest label alone
        [likeliest] if every is None else list(every)
        for likeliest, every in zip(labelled["prediction"], labelled["predicted"], strict=True)
    ]
    values = explained.drop_duplicates(["example", "target"])["value"].dropna()
    right = [_right(*pair) for pair in zip(labelled["label"], labelled["prediction"], strict=True)]
    chosen = run.rows("explanations", columns=["method", "params"])
    found = Summary(
        name=run.name,
        manifest=run.manifest,
        finished=run.finished,
        examples=len(frame),
        accuracy=sum(right) / len(right) if right else None,
        macro_f1=macro_f1([label.split(", ") for label in labelled["label"]], predicted),
        values=None if values.empty else (float(values.min()), float(values.mean()), float(values.max())),
        boards={metric: leaderboard(run.scores, metric, better[metric], seed=seed) for metric in metrics},
        better=better,
        curves={
            metric: found
            for metric in metrics
            if metric.partition(":")[0] in CURVES and (found := curves(run.scores, metric))
        },
        costs=costs(run.alone, energy),
        agreement=agreed,
        winners={method: counted.most_common() for method, counted in winners(chosen).items()},
        gaps=_gaps(run),
        disputed=_disputed(run, agreed, explained),
        redrawn=redrawn_ranks(run.scores[run.scores["metric"].isin(metrics)], better, seed=seed),
        errors=list(run.rows("errors")),
        counts={name: float(run.costs[name].sum()) for name in run.costs.columns if name != "part"},
    )
    return replace(found, words=_words(run, found, words or WordChoice()))


def _words(run: Run, summary: Summary, choice: WordChoice) -> list[ClassWords]:
    if choice.method is not None and choice.method not in summary.methods:
        raise UnknownName.among("method of this run", choice.method, summary.methods)
    recommendation = recommend([summary.redrawn])
    ranked = [method for method in summary.ranks.methods if method != floor_method()]
    method = choice.method or (recommendation.method if recommendation else None) or next(iter(ranked), None)
    return [] if method is None else list_words(run.rows("explanations", method, columns=WORDED), choice)


def _gaps(run: Run) -> dict[str, int]:
    """How many explanations of each method miss a part of what they should add up to, where any do."""
    known = run.frame("explanations", ["method", "gap"])
    counts = Counter[str]()
    for method in known["method"][known["gap"].notna()].unique():
        for row in run.rows("explanations", method, columns=["method", "gap", "scores"]):
            scores, gap = row["scores"], row["gap"]
            moved = None if gap is None else max(sum(map(abs, scores)), abs(sum(scores) + gap))
            counts[method] += moved is not None and abs(gap) > SMALL_GAP * moved
    return {method: count for method, count in counts.items() if count}


def _right(label: str, predicted: str) -> bool:
    return predicted in (label, *label.split(", "))


def _disputed(run: Run, agreed: MethodAgreement, explained: pandas.DataFrame) -> list[Disputed]:
    """The examples that are shown: some on which methods agree least, some that the model gets wrong, some of all."""
    order = sorted(agreed.by_example, key=lambda key: agreed.by_example[key])
    frame = explained[["example", "target", "label", "prediction"]].drop_duplicates(["example", "target"])
    about = {(row.example, row.target): row for row in (frame.itertuples() if order else ())}
    labels = {key: about[key].label if isinstance(about[key].label, str) else None for key in order}
    wrong = {
        key: None if label is None else not _right(label, str(about[key].prediction)) for key, label in labels.items()
    }
    third = SHOWN // 3
    chosen = dict.fromkeys(order[:third] + [key for key in order if wrong[key]][:third])
    rest = [key for key in order if key not in chosen]
    room = SHOWN - len(chosen)
    chosen |= dict.fromkeys(rest if len(rest) <= room else rest[:: -(-len(rest) // room)])
    examples = {key[0] for key in chosen}
    texts = {
        (row["example"], row["target"]): row["text"]
        for row in run.rows("explanations", columns=["example", "target", "text"], examples=examples)
    }
    shown: set[tuple[str, str]] = set()
    characters = 0
    for key in chosen:
        characters += len(texts[key])
        if not shown or characters <= CHARACTERS:
            shown.add(key)
    explanations_of: dict[tuple[str, str], list[Explanation]] = {key: [] for key in order if key in shown}
    marked: dict[tuple[str, str], Rationale | None] = {}
    for row in run.rows("explanations", examples=examples):
        key = (row["example"], row["target"])
        if key in explanations_of:
            explanations_of[key].append(explanation_of(row))
            marked[key] = rationale_of(row)
    return [
        Disputed(
            key[0], agreed.by_example[key], labels[key], about[key].prediction, wrong[key], explanations, marked[key]
        )
        for key, explanations in explanations_of.items()
    ]


def with_distinct_names(summaries: Sequence[Summary], folders: Sequence[str]) -> list[Summary]:
    """Summaries whose names are distinct: runs on the same data set have their folders in their names as well."""
    names = [summary.name for summary in summaries]
    return [
        replace(summary, name=f"{summary.name} ({folder})") if names.count(summary.name) > 1 else summary
        for summary, folder in zip(summaries, folders, strict=True)
    ]


def ranks_over_data_sets(summaries: Sequence[Summary]) -> Ranks:
    return average_ranks({summary.name: summary.boards for summary in summaries})
