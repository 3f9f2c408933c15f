"""The tables of the page over all studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wherefrom.statistics import weighted_means
from wherefrom.typing import Numbers
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import Estimate, figure
from wherefrom_studies.methods import TASKS
from wherefrom_studies.overview.collecting import Collected, SetScores
from wherefrom_studies.overview.ranking import (
    FLOOR,
    best_of,
    costs,
    diagnosticity,
    drawings,
    groups_of,
    higher,
    mean_by_round,
    metric_agreement,
    placed,
    with_interval,
)
from wherefrom_studies.pages import StudyCell, StudyTable, cell

RATIONALE = "auprc"
# What a user asks about, by the data sets that stand for it.


def tables(found: Collected) -> list[StudyTable]:
    sets = found.sets
    shown = []
    if found.claims:
        shown += [verdicts_table(found.claims), all_claims_table(found.claims)]
    if sets:
        ranked = {group: placed(sets, group) for group in groups_of(sets)}
        shown += [
            _places_table(ranked),
            _tasks_table(sets),
            _agreement_table(sets),
            _diagnosticity_table(sets),
            _cost_table(sets),
            *_metric_tables(sets),
        ]
    return shown


def verdicts_table(claims: Sequence[Mapping[str, Any]]) -> StudyTable:
    verdicts = ("confirmed", "refuted", "open")
    rows = []
    for study in dict.fromkeys(one["study"] for one in claims):
        own = [one for one in claims if one["study"] == study]
        counts = [Counter(str(one.get(kind)) for one in own) for kind in ("verdict", "corrected")]
        rows.append((study, [StudyCell(str(count[name])) for count in counts for name in verdicts]))
    note = "Claims by their verdict, and by that after Holm's correction over the claims of the same paper."
    return StudyTable("What holds of each paper", note, [*verdicts, *(f"{name} after Holm" for name in verdicts)], rows)


def all_claims_table(claims: Sequence[Mapping[str, Any]]) -> StudyTable:
    rows = []
    for one in claims:
        value = one.get("found")
        measured = "not measured"
        if value is not None:
            estimate = Estimate(value["value"], value["low"], value["high"], value["texts"])
            pair = f"({one['pair']})" if one.get("pair") else ""
            measured = "; ".join(filter(None, (f"{estimate} {pair}".rstrip(), one.get("outlook"))))
        cells = [
            StudyCell(one["study"]),
            StudyCell(one["words"]),
            StudyCell(measured),
            StudyCell(f"**{one['verdict']}**"),
            StudyCell(str(one.get("corrected") or "–")),
        ]
        rows.append((one["name"], cells))
    return StudyTable("All claims", "", ["study", "what is claimed", "found", "verdict", "after Holm"], rows)


def _places_table(ranked: Mapping[str, Mapping[str, Estimate]]) -> StudyTable:
    every = list(dict.fromkeys(method for one in ranked.values() for method in one))

    def overall(method: str) -> float:
        return float(np.mean([one[method].value for one in ranked.values() if method in one]))

    every.sort(key=overall)
    rows = [
        (
            f"`{method}`",
            [StudyCell(figure(overall(method))), *(cell(one.get(method)) for one in ranked.values())],
        )
        for method in every
    ]
    note = (
        "The share of the other methods that are better, mean over metrics, then over data sets: 0 is the first, 1 the"
        " last. Methods are held against those that were measured on the same data sets. A group of metrics counts once"
        " in the mean of all."
    )
    return StudyTable("Mean place by group of metrics", note, ["all groups", *ranked], rows)


def _tasks_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    groups = groups_of(sets)
    rows = []
    for task, names in TASKS.items():
        own = {key: one for key, one in sets.items() if key[0] in names}
        if not own:
            continue
        cells = [StudyCell(", ".join(f"{name} {base}" for name, base in own))]
        for group in groups:
            best, ranked = best_of(own, group)
            text = ""
            if best:
                others = ", ".join(f"`{one}`" for one in best[1:6])
                text = f"`{best[0]}` {ranked[best[0]]}" + (f"; also {others}" if others else "")
                text += f" and {len(best) - 6} more" if len(best) > 6 else ""
            cells.append(StudyCell(text or "–"))
        rows.append((task, cells))
    note = "The method with the best mean place, and those whose interval reaches into its own."
    return StudyTable("Which method for which task", note, ["data sets", *groups], rows)


def _agreement_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    pairs = with_interval(sets, {f"{a}|{b}": values for (a, b), values in metric_agreement(sets).items()})
    metrics = sorted({name for pair in pairs for name in pair.split("|")})
    rows = []
    for one in metrics:
        cells = []
        for other in metrics:
            found = pairs.get(f"{min(one, other)}|{max(one, other)}")
            whole = found is not None and RATIONALE in (one, other)
            cells.append(
                StudyCell(
                    "" if one == other else "–" if found is None else str(found) if whole else figure(found.value)
                )
            )
        rows.append((f"`{one}`", cells))
    note = (
        "Spearman's correlation of the orders in which two metrics put the methods, mean over data sets; with"
        f" rationales (`{RATIONALE}`) with its interval."
    )
    return StudyTable("Which metrics agree", note, [f"`{name}`" for name in metrics], rows)


def _diagnosticity_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    metrics = sorted({metric for one in sets.values() for metric in one.tables})

    by_metric: dict[str, list[Numbers]] = {}
    for one, weights in drawings(sets):
        for metric, (methods, table) in one.tables.items():
            if FLOOR in methods:  # it has no scores for classes
                share = diagnosticity(table, methods, higher(metric))
                by_metric.setdefault(metric, []).append(weighted_means(share[:, None], weights)[:, 0])
    found = with_interval(sets, {metric: mean_by_round(values) for metric, values in by_metric.items()})
    metrics = sorted((one for one in metrics if one in found), key=lambda one: -found[one].value)
    rows = []
    for metric in metrics:
        cells = [cell(found[metric])]
        for one in sets.values():
            own = one.tables.get(metric)
            if own is None or FLOOR not in own[0]:
                cells.append(StudyCell("–"))
                continue
            value = weighted_means(diagnosticity(own[1], own[0], higher(metric)))
            cells.append(StudyCell(figure(float(value)) if np.isfinite(value) else "–"))
        rows.append((f"`{metric}`", cells))
    note = "How often a metric prefers a method to `random`, text by text: .5 is chance."
    return StudyTable("Diagnosticity", note, ["all", *(f"{name} {base}" for name, base in sets)], rows)


def _cost_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    found = costs(sets)
    rows = []
    for method in sorted(found, key=lambda one: found[one][0]):
        cells = [StudyCell(f"{found[method][0]:.2g}"), StudyCell(f"{found[method][1]:.0f}")]
        cells += [StudyCell(f"{one.seconds[method]:.3g}" if method in one.seconds else "–") for one in sets.values()]
        rows.append((f"`{method}`", cells))
    note = (
        "One explanation alone, nothing shared: seconds, first in those of a data set's median method (geometric mean);"
        " and rows sent through the model, forth or back."
    )
    columns = ["beside the median", "rows", *(f"{name} {base}" for name, base in sets)]
    return StudyTable("What a method costs", note, columns, rows)


def _metric_tables(sets: Mapping[SetAndBase, SetScores]) -> Iterable[StudyTable]:
    for metric in sorted({metric for one in sets.values() for metric in one.tables}):
        own = {key: one.tables[metric] for key, one in sets.items() if metric in one.tables}
        found = {key: dict(zip(methods, weighted_means(table), strict=True)) for key, (methods, table) in own.items()}
        methods = list(dict.fromkeys(method for one in found.values() for method in one))
        sign = higher(metric)

        def place(method: str, found: Mapping[SetAndBase, Mapping[str, float]] = found, sign: float = sign) -> float:
            own = [one[method] for one in found.values() if method in one and np.isfinite(one[method])]
            return -sign * float(np.mean(own)) if own else np.inf

        rows = [
            (
                f"`{method}`",
                [
                    StudyCell(figure(float(one[method])) if method in one and np.isfinite(one[method]) else "–")
                    for one in found.values()
                ],
            )
            for method in sorted(methods, key=place)
        ]
        counts = ", ".join(
            f"{name} {base} {(~np.isnan(table)).any(1).sum()}" for (name, base), (_, table) in own.items()
        )
        note = f"{'Higher' if sign > 0 else 'Lower'} is better. Texts: {counts}."
        yield StudyTable(f"`{metric}`", note, [f"{name} {base}" for name, base in own], rows)
