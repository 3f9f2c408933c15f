"""Which method for which task: candidates of every family, measured alike on every task by metrics that ask different
things. The default method of each task rests on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wherefrom.core.arrays import Numbers
from wherefrom.studies.bench import SetAndBase, StudyBase, StudyBench, StudyModel, StudyRuns, provenance, seconds_of
from wherefrom.studies.claims import Claim, Estimate, JudgedClaim, Statistic, estimate, mean_of
from wherefrom.studies.data import SETS
from wherefrom.studies.pages import BASES, StudyCell, StudyPage, StudyTable, cell

# A task, the name of its file in `model/tasks`, and the data sets that it is measured on.
TASKS = {
    "one text": ("classification", ("sst2", "amazon", "yelp", "imdb", "hatexplain")),
    "pairs of texts": ("classification", ("qqp", "mnli", "esnli")),
    "question answering": ("question_answering", ("squad1",)),
    "a masked word": ("masked_lm", ("agreement",)),
    "the next token": ("causal_lm", ("next_word",)),
}
DATASETS = tuple(name for _, names in TASKS.values() for name in names)
# Those that take at most a few passes, and beside them two that take many.
CHEAP = (
    "attention_rollout",
    "attention_x_gradient",
    "attcat",
    "gradcam",
    "gae",
    "alti",
    "transatt",
    "attn_lrp",
    "saliency",
    "input_x_gradient",
)
DEAR = ("integrated_gradients", "occlusion")
METHODS = (*CHEAP, *DEAR, "random")
EARLIER = "attcat"  # the default before anything was measured
# By group, as `compare` counts them: each group once. The sign turns what is better upwards.
GROUPS: dict[str, dict[str, float]] = {
    "erasure": {"comprehensiveness": 1.0, "sufficiency": -1.0, "log_odds": -1.0},
    "one at a time": {"rft": 1.0, "faithfulness_violation": -1.0},
}
METRICS = tuple(metric for group in GROUPS.values() for metric in group)
BESIDE = "auprc"  # what people marked: shown, not counted, as a model need not decide as people do
Ranked = Mapping[SetAndBase, StudyRuns]


def study(bench: StudyBench, bases: Sequence[StudyBase], datasets: Sequence[str]) -> StudyPage:
    """Train, run, and put together the page."""
    for name in datasets:
        bench.splits(name)  # all of them first, so that a missing file is reported before hours of work
    models: dict[SetAndBase, StudyModel] = {}
    found: dict[SetAndBase, StudyRuns] = {}
    for base in bases:
        for name in datasets:
            if base.causal != (SETS[name].task == "next_word"):
                continue
            model = models[(name, base.name)] = bench.model(name, base)
            metrics = (*METRICS, BESIDE) if SETS[name].rationales else METRICS
            found[(name, base.name)] = bench.run(name, model, METHODS, metrics)
    return page_of(bench, models, found, datasets)


def page_of(
    bench: StudyBench,
    models: Mapping[SetAndBase, StudyModel],
    found: Ranked,
    datasets: Sequence[str],
) -> StudyPage:
    alone = {key: [runs] for key, runs in found.items()}
    measured = {name for name, _ in found}
    return StudyPage(
        name="methods",
        title="Which method for which task",
        about=(f"Methods of every family, measured alike on every task by metrics that ask different things. {BASES}"),
        facts=[
            *bench.facts(models, alone),
            "What is explained is what the model predicts; special tokens are never ranked.",
        ],
        tables=tables(found),
        claims=judged(found),
        missing=[f"{name}: not measured." for name in DATASETS if name not in measured or name not in datasets],
        made=provenance(seconds_of(alone)),
    )


# Ranks


@dataclass(frozen=True)
class TaskChoice:
    """The method that a task should be explained by."""

    task: str
    method: str
    rank: Estimate
    alike: tuple[str, ...]  # cheap methods whose mean rank is not clearly worse


def of_task(found: Ranked, task: str) -> dict[SetAndBase, StudyRuns]:
    return {key: runs for key, runs in found.items() if key[0] in TASKS[task][1]}


def graded(runs: StudyRuns) -> Numbers:
    """Every text's values: all methods by the first metric, then by the next. (text, metric x method)"""
    return np.concatenate([runs.table(metric, METHODS) for metric in METRICS], axis=1)


def mean_ranks(row: Numbers) -> Numbers:
    """Each method's mean rank, 1 the best, from the means of one data set: each group of metrics counts once, each
    metric alike within its group. Equals share the mean of their ranks; a metric without values for a method leaves
    that method out. (method,)
    """
    by_metric = row.reshape(len(METRICS), len(METHODS))
    place, groups = 0, []
    for group in GROUPS.values():
        ranks = [_ranks(sign * by_metric[place + number]) for number, sign in enumerate(group.values())]
        groups.append(np.nanmean(ranks, axis=0))
        place += len(group)
    found: Numbers = np.mean(groups, axis=0)
    return found


def _ranks(values: Numbers) -> Numbers:
    known = np.isfinite(values)
    better = (values[None] > values[:, None] + 1e-12) & known[None]
    same = (np.abs(values[None] - values[:, None]) <= 1e-12) & known[None]
    ranks: Numbers = np.where(known, better.sum(1) + (same.sum(1) + 1) / 2, np.nan)
    return ranks


def rank_of(method: str) -> Statistic:
    place = METHODS.index(method)
    return lambda means: float(np.mean([mean_ranks(row)[place] for row in means]))


def rank_behind(method: str, other: str) -> Statistic:
    """How many ranks a method lies behind another, mean over data sets."""
    places = METHODS.index(method), METHODS.index(other)

    def behind(means: Sequence[Numbers]) -> float:
        ranks = [mean_ranks(row) for row in means]
        return float(np.mean([row[places[0]] - row[places[1]] for row in ranks]))

    return behind


def choice_of(found: Ranked, task: str) -> TaskChoice | None:
    """The cheap method with the best mean rank, and those that cannot be told from it."""
    values = [graded(runs) for runs in of_task(found, task).values()]
    if not values:
        return None
    ranks = {name: estimate(values, rank_of(name), rounds=500) for name in CHEAP}
    known = {name: rank for name, rank in ranks.items() if rank is not None and np.isfinite(rank.value)}
    best = min(known, key=lambda name: known[name].value)
    alike = []
    for name in known:
        behind = estimate(values, rank_behind(name, best), rounds=500)
        if name != best and behind is not None and (behind.low is None or behind.low <= 0):
            alike.append(name)
    return TaskChoice(task, best, known[best], tuple(alike))


# The page


def tables(found: Ranked) -> list[StudyTable]:
    shown = [task for task in TASKS if of_task(found, task)]
    by_task = {task: [graded(runs) for runs in of_task(found, task).values()] for task in shown}
    groups = "; ".join(f"{name}: {', '.join(group)}" for name, group in GROUPS.items())
    ranks = StudyTable(
        "Mean ranks by task",
        f"1 is the best of {len(METHODS)}: the mean over data sets of the mean over groups of metrics ({groups}).",
        shown,
        [
            (f"`{name}`", [cell(estimate(by_task[task], rank_of(name), rounds=500)) for task in shown])
            for name in METHODS
        ],
    )
    rows = []
    for task in shown:
        choice = choice_of(found, task)
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
    details = [_details(found, metric, sign) for group in GROUPS.values() for metric, sign in group.items()]
    marked = {key: runs for key, runs in found.items() if SETS[key[0]].rationales}
    return [chosen, ranks, _costs(found), *details, *([_details(marked, BESIDE, 1.0)] if marked else [])]


def _details(found: Ranked, metric: str, sign: float) -> StudyTable:
    return StudyTable(
        metric,
        "Higher is better." if sign > 0 else "Lower is better.",
        [f"{name} {base}" for name, base in found],
        [
            (f"`{name}`", [cell(mean_of(runs.table(metric, [name])[:, 0].tolist())) for runs in found.values()])
            for name in METHODS
        ],
    )


def _costs(found: Ranked) -> StudyTable:
    frames = {key: runs.alone() for key, runs in found.items()}
    rows = []
    for name in METHODS:
        cells = []
        for frame in frames.values():
            own = frame[frame["method"] == name]
            cells.append(
                StudyCell(f"{own['forwards'].mean():.0f} + {own['backwards'].mean():.0f}" if len(own) else "–")
            )
        rows.append((f"`{name}`", cells))
    note = "Forward and backward passes of one explanation alone, mean over the texts."
    return StudyTable("Cost", note, [f"{name} {base}" for name, base in found], rows)


def judged(found: Ranked) -> list[JudgedClaim]:
    """Of every task: whether the default is better than what was the default before."""
    results = []
    for task in TASKS:
        runs = of_task(found, task)
        for other in (EARLIER, "random"):
            values = [graded(one) for one in runs.values()]
            claim = Claim(
                f"{task}: {other}",
                f"`attn_lrp` is more faithful than `{other}`",
                f"the mean rank of `{other}` less that of `attn_lrp`",
            )
            behind = estimate(values, rank_behind(other, "attn_lrp"), rounds=500) if values else None
            results.append(claim.judged(behind, "not measured"))
    return results
