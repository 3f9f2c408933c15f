"""The tables, claims and picture of the study of sources.

Questions about the same paragraph are not independent: they are averaged first, and intervals are over paragraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from wherefrom.report.plots import new_figure, save_figure
from wherefrom.statistics import draw_counts, interval_of
from wherefrom.typing import Numbers
from wherefrom_studies.claims import ROUNDS, Claim, Estimate, JudgedClaim, mean_of
from wherefrom_studies.comparisons import ordered
from wherefrom_studies.journal import Record
from wherefrom_studies.pages import StudyCell, StudyPicture, StudyTable, cell
from wherefrom_studies.sources.measuring import ANSWERABLE, METHODS, METRICS, UNANSWERABLE

ABOUT = {
    "gold_at_1": "Share of questions whose highest source contains the answer.",
    "gold_recall": "Share of the sources that contain the answer among the three highest.",
    "top_1_drop": "By how much the answer's log-probability falls without the highest source. `leave_one_out` is the"
    " best by construction.",
    "top_3_drop": "The same without the three highest sources.",
    "top_5_drop": "The same without the five highest sources.",
    "lds": "Rank correlation of the scores with the answer's log-probability, over removals that the method did not"
    " use. A dash: too few such removals.",
}
RANGES = {"gold_at_1": (0.0, 1.0), "gold_recall": (0.0, 1.0), "lds": (-1.0, 1.0)}
GROUNDING: dict[str, Callable[[Record], float]] = {
    "drop of the answer": lambda record: float(record["grounding"]),
    "drop for each token": lambda record: float(record["grounding"] / record["tokens"]),
    "drop less the margin": lambda record: float(record["grounding"] - record["margin"]),
}
Values = Callable[[Record], float | None]


def sets_of(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The questions that count, by the number of passages."""
    sets: dict[str, list[Record]] = {}
    for record in records:
        if record["counts"] and "methods" in record:
            sets.setdefault(record["set"], []).append(record)
    return sets


def by_paragraph(records: Sequence[Record], values: Sequence[Values]) -> Numbers:
    """Means over the questions of every paragraph; NaN where none of them has a value. (paragraph, column)"""
    paragraphs: dict[str, list[Record]] = {}
    for record in records:
        paragraphs.setdefault(record["paragraph"], []).append(record)
    rows = [[_mean([value(record) for record in group]) for value in values] for group in paragraphs.values()]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(values))


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")


def _metric(method: str, metric: str) -> Values:
    def value(record: Record) -> float | None:
        number: float | None = record["methods"][method][metric]
        return number

    return value


def graded(records: Sequence[Record], metric: str) -> Numbers:
    """Every method by one metric. (paragraph, method)"""
    return by_paragraph(records, [_metric(method, metric) for method in METHODS])


def tables(records: Sequence[Record]) -> list[StudyTable]:
    sets = sets_of(records)
    shown = [_metric_table(sets, metric) for metric in METRICS]
    return [*shown, _costs(sets), *_grounding(records)]


def _metric_table(sets: dict[str, list[Record]], metric: str) -> StudyTable:
    by_set = {name: graded(records, metric) for name, records in sets.items()}
    rows = [
        (f"`{method}`", [cell(_estimate(values[:, place], metric)) for values in by_set.values()])
        for place, method in enumerate(METHODS)
    ]
    return StudyTable(metric, ABOUT[metric], list(sets), rows)


def _estimate(values: Numbers, metric: str) -> Estimate | None:
    """The mean with its interval, which is within the range of the metric."""
    estimate = mean_of(values.tolist())
    if estimate is None or estimate.low is None or estimate.high is None or metric not in RANGES:
        return estimate
    lowest, highest = RANGES[metric]
    return estimate._replace(low=max(estimate.low, lowest), high=min(estimate.high, highest))


def _costs(sets: dict[str, list[Record]]) -> StudyTable:
    def passes(records: Sequence[Record], method: str) -> StudyCell:
        forwards, backwards = (
            np.mean([record["methods"][method][kind] for record in records]) for kind in ("forwards", "backwards")
        )
        return StudyCell(f"{forwards:.1f} + {backwards:.1f}")

    rows = [(f"`{method}`", [passes(records, method) for records in sets.values()]) for method in METHODS]
    sizes = ", ".join(f"{np.mean([r['sources'] for r in records]):.1f} with {name}" for name, records in sets.items())
    note = f"Forward and backward passes of one answer, mean over questions. Sources on average: {sizes}."
    return StudyTable("Cost", note, list(sets), rows)


def _grounding(records: Sequence[Record]) -> list[StudyTable]:
    drops = [[r for r in records if r["set"] == name and r["counts"]] for name in (ANSWERABLE, UNANSWERABLE)]
    if not all(drops):
        return []
    rows = []
    for title, value in GROUNDING.items():
        answerable, unanswerable = (np.array([value(record) for record in group]) for group in drops)
        rows.append((title, [cell(area_under_roc(answerable, unanswerable))]))
    for name, group in zip(("answerable", "unanswerable"), drops, strict=True):
        share = mean_of([float(record["grounding"] > record["margin"]) for record in group])
        rows.append((f"share called grounded, {name}", [cell(share)]))
    note = (
        "SQuAD 2: the chance that the answer to a question that the passage answers depends more on the passage than"
        " the answer to a question that it does not answer (area under the ROC curve), and how many answers are called"
        f" grounded. {len(drops[0])} and {len(drops[1])} questions; the model answers all of them."
    )
    return [StudyTable("Grounding", note, ["SQuAD 2"], rows)]


def area_under_roc(positive: Numbers, negative: Numbers, rounds: int = ROUNDS) -> Estimate:
    """The chance that a positive is larger than a negative, ties half, with the bootstrap's interval."""
    wins = (positive[:, None] > negative[None]) + 0.5 * (positive[:, None] == negative[None])
    chance = np.random.default_rng(0)
    first = draw_counts(len(positive), rounds, chance) / len(positive)
    second = draw_counts(len(negative), rounds, chance) / len(negative)
    redrawn = np.einsum("rp,pn,rn->r", first, wins, second, optimize=True)
    return Estimate(float(wins.mean()), *interval_of(redrawn), len(positive) + len(negative))


def judged(records: Sequence[Record]) -> list[JudgedClaim]:
    """Whether methods beat chance, and whether the default finds the sentence more often than the others."""
    measured = {(name, "model"): graded(group, "gold_at_1") for name, group in sets_of(records).items()}
    claims = []
    for number, (better, worse, words) in enumerate(
        [
            *((name, "random", f"`{name}` finds the sentence with the answer more often than chance")
              for name in ("leave_one_out", "context_cite", "attn_lrp", "saliency")),
            *(("leave_one_out", name, f"`leave_one_out` finds it more often than `{name}`")
              for name in ("context_cite", "attn_lrp", "cp_lrp", "saliency", "input_x_gradient")),
        ],
        1,
    ):  # fmt: skip
        claim = Claim(f"Q{number}", words, f"`{better}` less `{worse}` by gold_at_1, paired")
        claims.append(claim.judged(*ordered(measured, METHODS, [(better, worse)])))
    return claims


def pictures(records: Sequence[Record], folder: Path) -> list[StudyPicture]:
    """How often each method finds the sentence with the answer."""
    sets = sets_of(records)
    if not sets:
        return []
    figure = new_figure(6.4, 3.8)
    axes = figure.add_subplot()
    for number, (name, group) in enumerate(sets.items()):
        values = graded(group, "gold_at_1")
        for place in range(len(METHODS)):
            estimate = _estimate(values[:, place], "gold_at_1")
            if estimate is None or estimate.low is None or estimate.high is None:
                continue
            around = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
            height, label = place + 0.18 * number, name if place == 0 else None
            axes.errorbar(estimate.value, height, xerr=around, fmt="os^D"[number], color=f"C{number}", label=label)
    first = next(iter(sets.values()))
    passes = [first[0]["methods"][method] for method in METHODS]
    axes.set_yticks(range(len(METHODS)), [_cost_label(*pair) for pair in zip(METHODS, passes, strict=True)], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of questions whose highest source contains the answer")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    save_figure(figure, folder / "sources-gold.png")
    return [StudyPicture("sources-gold.png", "How often each method finds the sentence with the answer")]


def _cost_label(method: str, passes: Record) -> str:
    """The method, and whether it takes one backward pass or many forward passes."""
    if passes["backwards"]:
        return f"{method}\n1 forward, 1 backward"
    return f"{method}\nno pass" if not passes["forwards"] else f"{method}\nmany forward"
