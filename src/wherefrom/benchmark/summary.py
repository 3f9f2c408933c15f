"""Everything that a report says about a run, as plain data, for the page, CSV and LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wherefrom.benchmark.columns import explanation_of, rationale_of
from wherefrom.benchmark.counted import (
    MEASURED,
    PREDICTED,
    Key,
    Predictions,
    ScoreTable,
    as_arrow,
    entries_of,
    is_right,
    lengths_of,
    numbers_of,
)
from wherefrom.benchmark.recommendation import RedrawnRanks, recommend, redrawn_ranks
from wherefrom.benchmark.statistics import (
    CURVED,
    RANKED,
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
from wherefrom.core.arrays import Flags
from wherefrom.core.comparison import Rationale
from wherefrom.core.explanation import SMALL_GAP, Explanation
from wherefrom.errors import BadFile, BadOption, UnknownName

if TYPE_CHECKING:
    from wherefrom.benchmark.store import Run

SHOWN = 48  # examples that can be looked at: a third of them the most disputed, a third wrong, the rest from all over
CHARACTERS = 20_000  # of all their texts; each is shown once for every method, so a page of more would be slow
CURVES = ("aopc", "log_odds")
# The columns that are read, because all of a large run would not fit into memory.
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
    said = Predictions.of(run.batches("explanations", PREDICTED))
    if run.done and not said.examples and not run.errors.empty:
        commonest, count = Counter(run.errors["error"]).most_common(1)[0]
        raise BadFile(
            f"No example of the run in {run.folder} could be explained, so there is nothing to report:"
            f" {run.errors['example'].nunique()} of {run.manifest['examples']} were tried. The commonest error, {count}"
            f" times: {commonest}"
        )
    scores = ScoreTable.of(run.batches("scores", MEASURED))
    if not run.done or not scores.metrics:
        raise BadOption(
            f"The run in {run.folder} has no scores yet. Continue it: 'wherefrom run' with the same options."
        )
    better: dict[str, Better] = {row["asked"]: row["better"] for row in run.manifest["metrics"]}
    scores = scores.only(better)
    metrics = [metric for metric in better if metric in scores.metrics]
    agreed = agreement(run.batches("explanations", RANKED), run.manifest["configuration"]["plan"]["methods"])
    curved = [metric for metric in metrics if metric.partition(":")[0] in CURVES]
    known = sum(answer.texts for answer in said.labelled)
    right = sum(answer.texts for answer in said.labelled if is_right(answer.label, answer.prediction))
    values, chosen = said.values, winners(run.batches("explanations", ["method", "params"]))
    found = Summary(
        name=run.name,
        manifest=run.manifest,
        finished=run.finished,
        examples=said.examples,
        accuracy=right / known if known else None,
        macro_f1=macro_f1(said.labelled),
        values=(float(values.min()), float(values.mean()), float(values.max())) if len(values) else None,
        boards={metric: leaderboard(scores.metrics[metric], better[metric], seed=seed) for metric in metrics},
        better=better,
        curves=curves(run.batches("scores", CURVED), curved),
        costs=costs(run.alone, energy),
        agreement=agreed,
        winners={method: counted.most_common() for method, counted in chosen.items()},
        gaps=_gaps(run),
        disputed=_disputed(run, agreed, said),
        redrawn=redrawn_ranks(scores, better, seed=seed),
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
    counts = Counter[str]()
    for batch in run.batches("explanations", ["method", "gap", "scores"]):
        known = batch.filter(batch["gap"].is_valid())
        for method, misses in zip(known["method"].to_pylist(), _missing(known).tolist(), strict=True):
            counts[method] += misses
    return {method: count for method, count in counts.items() if count}


def _missing(batch: Any) -> Flags:
    """Which rows lack more than a small share of what their scores should add up to. (row,)"""
    gap, lengths = numbers_of(batch["gap"]), lengths_of(batch["scores"])
    owner, scores = np.repeat(np.arange(len(gap)), lengths), entries_of(batch["scores"])
    sums, sizes = (np.bincount(owner, part, minlength=len(gap)) for part in (scores, np.abs(scores)))
    missing: Flags = np.abs(gap) > SMALL_GAP * np.maximum(sizes, np.abs(sums + gap))
    return missing


def _disputed(run: Run, agreed: MethodAgreement, said: Predictions) -> list[Disputed]:
    """The examples that are shown: some on which methods agree least, some that the model gets wrong, some of all."""
    order = np.argsort(agreed.means, kind="stable")
    if not len(order):
        return []
    place, third = said.places(agreed.keys)[order], SHOWN // 3
    chosen = dict.fromkeys([*range(min(third, len(order))), *np.flatnonzero(said.wrong[place])[:third].tolist()])
    rest, room = np.setdiff1d(np.arange(len(order)), list(chosen)), SHOWN - len(chosen)
    chosen |= dict.fromkeys((rest if len(rest) <= room else rest[:: -(-len(rest) // room)]).tolist())
    listed = agreed.keys.take(as_arrow(order[list(chosen)])).to_pylist()
    keys = {(row["example"], row["target"]): number for row, number in zip(listed, chosen, strict=True)}
    rows: dict[Key, list[dict[str, Any]]] = {key: [] for key in keys}
    for row in run.rows("explanations", examples={example for example, _ in keys}):
        if (key := (row["example"], row["target"])) in rows:
            rows[key].append(row)
    shown, characters = list[Disputed](), 0
    for key, number in keys.items():
        characters += len(rows[key][0]["text"])
        if shown and characters > CHARACTERS:
            continue
        at = place[number]
        label = said.labels[said.label[at]]
        shown.append(
            Disputed(
                key[0],
                float(agreed.means[order[number]]),
                label,
                said.names[said.prediction[at]],
                None if label is None else bool(said.wrong[at]),
                [explanation_of(row) for row in rows[key]],
                rationale_of(rows[key][-1]),
            )
        )
    return sorted(shown, key=lambda disputed: disputed.agreement)


def with_distinct_names(summaries: Sequence[Summary], folders: Sequence[str]) -> list[Summary]:
    """Summaries whose names are distinct: runs on the same data set have their folders in their names as well."""
    names = [summary.name for summary in summaries]
    return [
        replace(summary, name=f"{summary.name} ({folder})") if names.count(summary.name) > 1 else summary
        for summary, folder in zip(summaries, folders, strict=True)
    ]


def ranks_over_data_sets(summaries: Sequence[Summary]) -> Ranks:
    return average_ranks({summary.name: summary.boards for summary in summaries})
