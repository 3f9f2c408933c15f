"""Which method for which task: every method on every data set by every metric, measured alike. The default method of
each task rests on it, and so does the page over all studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wherefrom.catalogue import catalogue
from wherefrom.typing import Numbers
from wherefrom_studies.bench import (
    ALL_PREDICTED,
    LABELLED,
    PREDICTED,
    SetAndBase,
    StudyBase,
    StudyBench,
    StudyModel,
    StudyRuns,
)
from wherefrom_studies.claims import Claim, Estimate, JudgedClaim, estimates
from wherefrom_studies.comparisons import ordered
from wherefrom_studies.data import SETS
from wherefrom_studies.pages import BASES, StudyCell, StudyTable, cell
from wherefrom_studies.study import Measured, Study, StudyRequest, each_set, measured_sets
from wherefrom_studies.tables import means_table

# A task and the data sets that it is measured on.
TASKS = {
    "one sentence": ("sst2", "hatexplain"),
    "longer texts": ("ais", "amazon", "yelp", "imdb", "movies"),
    "pairs of texts": ("qqp", "qqp_duplicates", "mnli", "esnli"),
    "several labels": ("ethos", "hummingbird", "hoc"),
    "answers": ("squad1", "squad2"),
    "a masked word": ("agreement",),
    "the next token": ("next_word",),
}
DATASETS = tuple(name for names in TASKS.values() for name in names)
# Only where they are asked for: texts of hundreds of tokens, and a part of another set.
LEFT_OUT = ("movies", "hoc", "qqp_duplicates")
# Those that take at most a few passes, and beside them some that take many. `mask_lrp` needs heads to be found first,
# and has a study of its own; `best` is one of the others.
CHEAP = (
    "raw_attention",
    "attention_rollout",
    "attention_gradients",
    "attention_x_gradient",
    "cam",
    "gradcam",
    "cat",
    "attcat",
    "norms",
    "globenc",
    "alti",
    "logit_contributions",
    "saliency",
    "input_x_gradient",
    "lrp",
    "partial_lrp",
    "gae",
    "transatt",
    "cp_lrp",
    "attn_lrp",
)
DEAR = ("attention_flow", "optimus", "integrated_gradients", "occlusion", "lime", "kernel_shap")
METHODS = (*CHEAP, *DEAR, "random")
BY_CLASS = tuple(name for name in CHEAP if catalogue("method")[name].get("per_class"))
EARLIER = "attcat"  # the default before anything was measured
JUDGED_BY = "comprehensiveness"
# By group, as `compare` counts them: each group once. The sign turns what is better upwards.
GROUPS: dict[str, dict[str, float]] = {
    "erasure": {"comprehensiveness": 1.0, "sufficiency": -1.0, "aopc": 1.0, "log_odds": -1.0},
    "one at a time": {"rft": 1.0, "monotonicity": 1.0, "faithfulness_violation": -1.0},
}
METRICS = tuple(metric for group in GROUPS.values() for metric in group)
CHOSEN_BY = {"optimus": "rft"}  # a method is not ranked by the metric that chooses its scores
# Shown, not counted: variants of what is counted, and what people marked, as a model need not decide as people do.
VARIANTS = ("faithfulness", "faithful_truthfulness", "truthfulness")
MARKED, ANSWERED, OF_CLASSES = "auprc", "precision_at_k", "kendall_confidence"
MeasuredSets = Mapping[SetAndBase, StudyRuns]


def metrics_of(name: str) -> tuple[str, ...]:
    """Everything that a data set is measured by."""
    study_set = SETS[name]
    return (
        *METRICS,
        *VARIANTS,
        *((MARKED,) if study_set.rationales else ()),
        *((ANSWERED,) if study_set.task == "answer" else ()),
    )


def target_of(name: str) -> str:
    """What is explained: the prediction; of several labels all that are predicted; of two verbs the right form rather
    than the wrong one, as the rows say.
    """
    return {"several_labels": ALL_PREDICTED, "two_words": LABELLED}.get(SETS[name].task, PREDICTED)


@dataclass(frozen=True)
class MethodsResult:
    """All results of one data set with one base."""

    model: StudyModel
    runs: StudyRuns
    by_class: StudyRuns | None = None  # what is measured on the scores for two classes

    @property
    def every_run(self) -> Sequence[StudyRuns]:
        return [self.runs] if self.by_class is None else [self.runs, self.by_class]


MethodsResults = Mapping[SetAndBase, MethodsResult]


def measure_set(bench: StudyBench, base: StudyBase, name: str, seed: int = 0) -> MethodsResult:
    """Measure one data set with the model of a base; what the bench's folder contains is read."""
    model = bench.model(name, base, seed)
    runs = bench.run(name, model, METHODS, metrics_of(name), seed=seed, target=target_of(name))
    one_label = SETS[name].task == "one_label"
    by_class = bench.run(name, model, BY_CLASS, (OF_CLASSES,), seed=seed) if one_label else None
    return MethodsResult(model, runs, by_class)


def measure(bench: StudyBench, request: StudyRequest) -> Measured[MethodsResults]:
    results = {
        (name, base.name): measure_set(bench, base, name)
        for base, name in each_set(bench, request)
        if base.causal == (SETS[name].task == "next_word")
    }
    return measured_sets(bench, results, DATASETS, [EXPLAINED])


EXPLAINED = (
    "What is explained is what the model predicts (of several labels every predicted one, of a masked verb the right"
    " form rather than the wrong one); special tokens are never ranked."
)


# Ranks


@dataclass(frozen=True)
class TaskChoice:
    """The method that a task should be explained by."""

    task: str
    method: str
    rank: Estimate
    alike: tuple[str, ...]  # cheap methods whose mean rank is not clearly worse


def of_task(measured: MeasuredSets, task: str) -> list[Numbers]:
    """The values of a task's data sets."""
    return [graded(runs) for (name, _), runs in measured.items() if name in TASKS[task]]


def graded(runs: StudyRuns) -> Numbers:
    """Every text's values: all methods by the first metric, then by the next. (text, metric x method)"""
    by_metric = []
    for metric in METRICS:
        values = runs.table(metric, METHODS).copy()
        values[:, [CHOSEN_BY.get(name) == metric for name in METHODS]] = np.nan
        by_metric.append(values)
    return np.concatenate(by_metric, axis=1)


def mean_ranks(row: Numbers) -> Numbers:
    """Each method's mean rank, 1 the best, from the means of one data set: each group of metrics counts once, each
    metric alike within its group. Equals share the mean of their ranks; a metric without values for a method leaves
    that method out. (method,)
    """
    by_metric = row.reshape(len(METRICS), len(METHODS))
    place, groups = 0, []
    for group in GROUPS.values():
        ranks = np.array([_ranks(sign * by_metric[place + number]) for number, sign in enumerate(group.values())])
        known = np.isfinite(ranks)
        groups.append(np.where(known, ranks, 0.0).sum(0) / known.sum(0))
        place += len(group)
    means: Numbers = np.mean(groups, axis=0)
    return means


def _ranks(values: Numbers) -> Numbers:
    known = np.isfinite(values)
    better = (values[None] > values[:, None] + 1e-12) & known[None]
    same = (np.abs(values[None] - values[:, None]) <= 1e-12) & known[None]
    ranks: Numbers = np.where(known, better.sum(1) + (same.sum(1) + 1) / 2, np.nan)
    return ranks


def all_ranks(means: Sequence[Numbers]) -> Numbers:
    """Every method's mean rank, mean over data sets. (method,)"""
    ranks: Numbers = np.mean([mean_ranks(row) for row in means], axis=0)
    return ranks


def ranked(values: Sequence[Numbers]) -> dict[str, Estimate | None]:
    """Every method's mean rank with its interval."""
    return dict(zip(METHODS, estimates(values, all_ranks, rounds=500), strict=True))


def behind(values: Sequence[Numbers], method: str) -> dict[str, Estimate | None]:
    """How many ranks every method lies behind this one."""
    place = METHODS.index(method)

    def distances(means: Sequence[Numbers]) -> Numbers:
        ranks = all_ranks(means)
        differences: Numbers = ranks - ranks[place]
        return differences

    return dict(zip(METHODS, estimates(values, distances, rounds=500), strict=True))


def choice_of(measured: MeasuredSets, task: str) -> TaskChoice | None:
    """The cheap method with the best mean rank, and those that cannot be told from it."""
    values = of_task(measured, task)
    if not values:
        return None
    known = {name: rank for name, rank in ranked(values).items() if name in CHEAP and rank is not None}
    best = min(known, key=lambda name: known[name].value)
    distance = behind(values, best)
    alike = [
        name
        for name in known
        if name != best and (estimate := distance[name]) is not None and (estimate.low is None or estimate.low <= 0)
    ]
    return TaskChoice(task, best, known[best], tuple(alike))


# The page


def tables(results: MethodsResults) -> list[StudyTable]:
    measured = {key: result.runs for key, result in results.items()}
    by_class = {key: result.by_class for key, result in results.items() if result.by_class is not None}
    by_task = {task: ranked(values) for task in TASKS if (values := of_task(measured, task))}
    groups = "; ".join(f"{name}: {', '.join(group)}" for name, group in GROUPS.items())
    ranks = StudyTable(
        "Mean ranks by task",
        f"1 is the best of {len(METHODS)}: the mean over data sets of the mean over groups of metrics ({groups})."
        " Optimus is not ranked by RFT, which chooses its scores.",
        list(by_task),
        [(f"`{name}`", [cell(places[name]) for places in by_task.values()]) for name in METHODS],
    )
    rows = []
    for task in by_task:
        choice = choice_of(measured, task)
        assert choice is not None
        alike = ", ".join(f"`{name}`" for name in choice.alike) or "none"
        rows.append((task, [StudyCell(f"`{choice.method}`"), cell(choice.rank), StudyCell(alike)]))
    chosen = StudyTable(
        "The choice",
        "The best mean rank among methods that take a few passes at most; beside it the cheap methods that these texts"
        " cannot tell from it (the interval of the difference in mean rank reaches zero).",
        ["method", "mean rank", "not told from it"],
        rows,
    )
    shown = [chosen, ranks, _costs(measured)]
    shown += [_details(measured, metric) for metric in (*METRICS, *VARIANTS)]
    for metric in (MARKED, ANSWERED):
        shown += _some_details({key: runs for key, runs in measured.items() if metric in metrics_of(key[0])}, metric)
    return shown + _some_details(by_class, OF_CLASSES, BY_CLASS)


def _some_details(measured: MeasuredSets, metric: str, methods: Sequence[str] = METHODS) -> list[StudyTable]:
    return [_details(measured, metric, methods)] if measured else []


def _details(measured: MeasuredSets, metric: str, methods: Sequence[str] = METHODS) -> StudyTable:
    better = f"{str(catalogue('metric')[metric].get('better')).capitalize()} is better."
    rows = {f"`{name}`": name for name in methods}
    return means_table(metric, better, measured, rows, lambda runs, name: runs.table(metric, [name])[:, 0])


def _costs(measured: MeasuredSets) -> StudyTable:
    frames = {key: runs.alone() for key, runs in measured.items()}
    rows = []
    for name in METHODS:
        cells = []
        for frame in frames.values():
            of_method = frame[frame["method"] == name]
            cells.append(
                StudyCell(
                    f"{of_method['forwards'].mean():.0f} + {of_method['backwards'].mean():.0f}"
                    if len(of_method)
                    else "–"
                )
            )
        rows.append((f"`{name}`", cells))
    note = "Forward and backward passes of one explanation alone, mean over the texts."
    return StudyTable("Cost", note, [f"{name} {base}" for name, base in measured], rows)


def judged(results: MethodsResults) -> list[JudgedClaim]:
    """Of every task: whether the default is better than what was the default before, and than chance. Ranks shrink to
    the middle when texts are drawn again, so that paired differences are compared.
    """
    claims = []
    for task, names in TASKS.items():
        tables = {key: result.runs.table(JUDGED_BY, METHODS) for key, result in results.items() if key[0] in names}
        for other in (EARLIER, "random"):
            claim = Claim(
                f"{task}: {other}",
                f"`attn_lrp` is more faithful than `{other}`",
                f"`attn_lrp` less `{other}` by {JUDGED_BY}, paired",
            )
            claims.append(claim.judged(*ordered(tables, METHODS, [("attn_lrp", other)])))
    return claims


STUDY = Study(
    name="methods",
    title="Which method for which task",
    about=f"Methods of every family, measured alike on every task by metrics that ask different things. {BASES}",
    measure=measure,
    tables=tables,
    judged=judged,
)
