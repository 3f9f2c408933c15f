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


def tables(collected: Collected) -> list[StudyTable]:
    sets = collected.sets
    shown = []
    if collected.claims:
        shown += [verdicts_table(collected.claims), all_claims_table(collected.claims)]
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
    for study in dict.fromkeys(claim["study"] for claim in claims):
        of_study = [claim for claim in claims if claim["study"] == study]
        counts = [Counter(str(claim.get(kind)) for claim in of_study) for kind in ("verdict", "corrected")]
        rows.append((study, [StudyCell(str(count[name])) for count in counts for name in verdicts]))
    note = "Claims by their verdict, and by that after Holm's correction over the claims of the same paper."
    return StudyTable("What holds of each paper", note, [*verdicts, *(f"{name} after Holm" for name in verdicts)], rows)


def all_claims_table(claims: Sequence[Mapping[str, Any]]) -> StudyTable:
    rows = []
    for claim in claims:
        value = claim.get("found")
        measured = "not measured"
        if value is not None:
            estimate = Estimate(value["value"], value["low"], value["high"], value["texts"])
            pair = f"({claim['pair']})" if claim.get("pair") else ""
            measured = "; ".join(filter(None, (f"{estimate} {pair}".rstrip(), claim.get("outlook"))))
        cells = [
            StudyCell(claim["study"]),
            StudyCell(claim["words"]),
            StudyCell(measured),
            StudyCell(f"**{claim['verdict']}**"),
            StudyCell(str(claim.get("corrected") or "–")),
        ]
        rows.append((claim["name"], cells))
    return StudyTable("All claims", "", ["study", "what is claimed", "found", "verdict", "after Holm"], rows)


def _places_table(ranked: Mapping[str, Mapping[str, Estimate]]) -> StudyTable:
    every = list(dict.fromkeys(method for ranking in ranked.values() for method in ranking))

    def overall(method: str) -> float:
        return float(np.mean([ranking[method].value for ranking in ranked.values() if method in ranking]))

    every.sort(key=overall)
    rows = [
        (
            f"`{method}`",
            [StudyCell(figure(overall(method))), *(cell(ranking.get(method)) for ranking in ranked.values())],
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
        of_task = {key: collected_set for key, collected_set in sets.items() if key[0] in names}
        if not of_task:
            continue
        cells = [StudyCell(", ".join(f"{name} {base}" for name, base in of_task))]
        for group in groups:
            best, ranked = best_of(of_task, group)
            text = ""
            if best:
                others = ", ".join(f"`{method}`" for method in best[1:6])
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
    for metric in metrics:
        cells = []
        for other in metrics:
            agreement = pairs.get(f"{min(metric, other)}|{max(metric, other)}")
            whole = agreement is not None and RATIONALE in (metric, other)
            cells.append(
                StudyCell(
                    ""
                    if metric == other
                    else "–"
                    if agreement is None
                    else str(agreement)
                    if whole
                    else figure(agreement.value)
                )
            )
        rows.append((f"`{metric}`", cells))
    note = (
        "Spearman's correlation of the orders in which two metrics put the methods, mean over data sets; with"
        f" rationales (`{RATIONALE}`) with its interval."
    )
    return StudyTable("Which metrics agree", note, [f"`{name}`" for name in metrics], rows)


def _diagnosticity_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    metrics = sorted({metric for collected_set in sets.values() for metric in collected_set.tables})

    by_metric: dict[str, list[Numbers]] = {}
    for collected_set, weights in drawings(sets):
        for metric, (methods, table) in collected_set.tables.items():
            if FLOOR in methods:  # it has no scores for classes
                share = diagnosticity(table, methods, higher(metric))
                by_metric.setdefault(metric, []).append(weighted_means(share[:, None], weights)[:, 0])
    estimates = with_interval(sets, {metric: mean_by_round(values) for metric, values in by_metric.items()})
    metrics = sorted(
        (collected_set for collected_set in metrics if collected_set in estimates),
        key=lambda metric: -estimates[metric].value,
    )
    rows = []
    for metric in metrics:
        cells = [cell(estimates[metric])]
        for collected_set in sets.values():
            of_set = collected_set.tables.get(metric)
            if of_set is None or FLOOR not in of_set[0]:
                cells.append(StudyCell("–"))
                continue
            value = weighted_means(diagnosticity(of_set[1], of_set[0], higher(metric)))
            cells.append(StudyCell(figure(float(value)) if np.isfinite(value) else "–"))
        rows.append((f"`{metric}`", cells))
    note = "How often a metric prefers a method to `random`, text by text: .5 is chance."
    return StudyTable("Diagnosticity", note, ["all", *(f"{name} {base}" for name, base in sets)], rows)


def _cost_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    by_method = costs(sets)
    rows = []
    for method in sorted(by_method, key=lambda name: by_method[name][0]):
        cells = [StudyCell(f"{by_method[method][0]:.2g}"), StudyCell(f"{by_method[method][1]:.0f}")]
        cells += [
            StudyCell(f"{collected_set.seconds[method]:.3g}" if method in collected_set.seconds else "–")
            for collected_set in sets.values()
        ]
        rows.append((f"`{method}`", cells))
    note = (
        "One explanation alone, nothing shared: seconds, first in those of a data set's median method (geometric mean);"
        " and rows sent through the model, forth or back."
    )
    columns = ["beside the median", "rows", *(f"{name} {base}" for name, base in sets)]
    return StudyTable("What a method costs", note, columns, rows)


def _metric_tables(sets: Mapping[SetAndBase, SetScores]) -> Iterable[StudyTable]:
    for metric in sorted({metric for collected_set in sets.values() for metric in collected_set.tables}):
        measured = {
            key: collected_set.tables[metric] for key, collected_set in sets.items() if metric in collected_set.tables
        }
        means = {
            key: dict(zip(methods, weighted_means(table), strict=True)) for key, (methods, table) in measured.items()
        }
        methods = list(dict.fromkeys(method for collected_set in means.values() for method in collected_set))
        sign = higher(metric)

        def place(method: str, means: Mapping[SetAndBase, Mapping[str, float]] = means, sign: float = sign) -> float:
            measured = [
                collected_set[method]
                for collected_set in means.values()
                if method in collected_set and np.isfinite(collected_set[method])
            ]
            return -sign * float(np.mean(measured)) if measured else np.inf

        rows = [
            (
                f"`{method}`",
                [
                    StudyCell(
                        figure(float(collected_set[method]))
                        if method in collected_set and np.isfinite(collected_set[method])
                        else "–"
                    )
                    for collected_set in means.values()
                ],
            )
            for method in sorted(methods, key=place)
        ]
        counts = ", ".join(
            f"{name} {base} {(~np.isnan(table)).any(1).sum()}" for (name, base), (_, table) in measured.items()
        )
        note = f"{'Higher' if sign > 0 else 'Lower'} is better. Texts: {counts}."
        yield StudyTable(f"`{metric}`", note, [f"{name} {base}" for name, base in measured], rows)
