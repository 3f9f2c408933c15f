"""The tables of Optimus' paper, measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wherefrom.optimus import Combination
from wherefrom.typing import Numbers
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import Statistic, estimate
from wherefrom_studies.data import SETS
from wherefrom_studies.optimus.analyses import as_printed, winning_operations
from wherefrom_studies.optimus.measuring import OptimusResult, OptimusResults, costs_of, table_of, winners
from wherefrom_studies.optimus.paper import (
    AUPRC,
    COMP,
    FT,
    NAMES,
    ORDER,
    PRINTED_AUPRC,
    PRINTED_CORRELATIONS,
    PRINTED_ORDER,
    PRINTED_RFT,
    PRINTED_RFT_SENTENCES,
    RFT,
    SUFF,
    F,
)
from wherefrom_studies.pages import StudyCell, StudyTable, cell
from wherefrom_studies.tables import means_table


def tables(results: OptimusResults) -> list[StudyTable]:
    marked = {key: of_set for key, of_set in results.items() if of_set.combinations is not None}
    shown = [_statistics(results)]
    if marked:
        shown.append(_correlations(marked))
    shown.append(
        _graded(results, RFT, "Table 3: RFT", "Sums, as the paper prints them. Optimus chooses by it.", PRINTED_RFT)
    )
    by_sentence = {key: of_set for key, of_set in results.items() if of_set.sentences is not None}
    if by_sentence:
        shown.append(_graded(by_sentence, RFT, "Table 3: RFT of sentences", "", PRINTED_RFT_SENTENCES, sentences=True))
    if marked:
        shown.append(_graded(marked, AUPRC, "Table 4: AUPRC", "Against what people marked.", PRINTED_AUPRC))
    for metric, title in ((F, "F"), (FT, "FT"), (COMP, "comprehensiveness"), (SUFF, "sufficiency (lower is better)")):
        shown.append(_graded(results, metric, f"Beside: {title}", "Not what Optimus chose by.", {}))
    shown += [_ranks(results), _costs(results)]
    note = "How far attention between the other tokens moves when the token that receives the most is hidden."
    fills = {fill: fill for fill in ("delete", "unk", "mask")}
    title = "Figure 3: change of attention"
    shown.append(means_table(title, note, results, fills, lambda result, fill: result.changes[fill], names=NAMES))
    shown.append(_winning(results))
    return shown


def _statistics(results: OptimusResults) -> StudyTable:
    rows = []
    for (name, base), result in results.items():
        labels, scores = len(SETS[name].labels), result.model.scores
        words = np.mean([len(row["text"].split()) + len((row.get("pair") or "").split()) for row in result.rows])
        rows.append(
            (
                f"{NAMES[name]} {base}",
                [
                    StudyCell("–" if result.model.rows is None else f"{result.model.rows:,}"),
                    StudyCell(str(len(result.rows))),
                    StudyCell(str(labels)),
                    StudyCell(f"{words:.0f}"),
                    StudyCell(f"{scores['accuracy']:.2f}"),
                    StudyCell(f"{scores['macro_f1']:.2f}"),
                ],
            )
        )
    return StudyTable(
        "Table 1: the data", "", ["trained on", "measured on", "labels", "words", "accuracy", "macro F1"], rows
    )


def _correlations(marked: OptimusResults) -> StudyTable:
    rows = []
    for (name, base), result in marked.items():
        grades, paper = result.combinations, PRINTED_CORRELATIONS.get(name)
        assert grades is not None
        cells = []
        for ranks in (False, True):
            for place, metric in enumerate(("faithfulness", "rft", "faithful_truthfulness")):
                printed = None if paper is None or place > 1 else f"{paper[2 * ranks + place]:.2f}".lstrip("0")
                cells.append(cell(grades.correlation(metric, ranks=ranks), printed))
        rows.append((f"{NAMES[name]} {base}, {len(grades.names)} combinations", cells))
    names = [f"{kind} {metric}" for kind in ("Pearson", "Spearman") for metric in ("F", "RFT", "FT")]
    return StudyTable(
        "Table 2: correlation with AUPRC over all combinations of A",
        "Intervals by drawing the texts again.",
        names,
        rows,
    )


def _graded(
    results: OptimusResults,
    metric: str,
    title: str,
    note: str,
    printed: Mapping[str, Sequence[float]],
    *,
    sentences: bool = False,
) -> StudyTable:
    def values(result: OptimusResult, method: str) -> Numbers:
        runs, methods = (result.sentences, result.sentence_methods) if sentences else (result.runs, result.methods)
        assert runs is not None
        return runs.table(metric, [methods[method]])[:, 0]

    def paper(key: SetAndBase, method: str) -> float | None:
        known = key[0] in printed and method in PRINTED_ORDER
        return printed[key[0]][PRINTED_ORDER.index(method)] if known else None

    return means_table(title, note, results, {name: name for name in ORDER}, values, paper, NAMES)


def _ranks(results: OptimusResults) -> StudyTable:
    """Average ranks over data sets, 1 the best; methods that are the same share a rank."""
    counted = [name for name in ORDER if name != "OB on test"]
    places = [ORDER.index(name) for name in counted]
    columns, by_method = [], {name: list[StudyCell]() for name in counted}
    for metric, sign in ((RFT, 1.0), (AUPRC, 1.0), (F, 1.0), (COMP, 1.0), (SUFF, -1.0)):
        some = [result for key, result in results.items() if metric != AUPRC or SETS[key[0]].rationales]
        values = [table_of(result.runs, metric, result.methods)[:, places] for result in some]
        columns.append(metric.partition(":")[0])
        for place, name in enumerate(counted):
            by_method[name].append(cell(estimate(values, _rank_of(place, sign), rounds=500)))
    return StudyTable(
        "Table 4: average ranks over data sets",
        "1 is the best of twelve. By RFT Optimus chooses, so that column is shown and not counted.",
        columns,
        list(by_method.items()),
    )


def _rank_of(place: int, sign: float) -> Statistic:
    """The mean over data sets of one column's rank; equals share the mean of their ranks."""

    def rank(row: Numbers) -> float:
        better = (sign * (row - row[place]) > 1e-12).sum()
        same = (np.abs(row - row[place]) <= 1e-12).sum()
        return float(better + (same + 1) / 2)

    return lambda means: float(np.mean([rank(row) for row in means]))


def _costs(results: OptimusResults) -> StudyTable:
    rows = []
    for (name, base), costs in costs_of(results).items():
        for method, cost in costs.items():
            cells = [
                StudyCell(f"{cost.seconds:.3f}"),
                StudyCell(f"{cost.forwards:.0f}"),
                StudyCell(f"{cost.backwards:.0f}"),
                StudyCell(f"{cost.grams:.2g}"),
                StudyCell(f"{as_printed(cost.seconds):.2g}"),
            ]
            rows.append((f"{NAMES[name]} {base} {method}", cells))
    return StudyTable(
        "Table 5: what one explanation costs",
        "Alone, nothing shared, on a busy machine: passes can be compared, seconds hardly. Grams of CO2 equivalent by"
        " the paper's assumptions; beside them the number that its formula prints. Paper, HX: LIME 38.3 s, IG .393,"
        " OP 3.05.",
        ["seconds", "forward passes", "backward passes", "grams", "as printed"],
        rows,
    )


def _winning(results: OptimusResults) -> StudyTable:
    by_rft = [name for result in results.values() for name in winners(result)]
    by_auprc = [name for result in results.values() for name in result.by_auprc]
    rows = []
    for title, names in (("by RFT (OP)", by_rft), ("by AUPRC", by_auprc)):
        won = [combination for name in names if (combination := Combination.read(name)) is not None]
        if won:
            shares = winning_operations(won)
            cells = [
                StudyCell(", ".join(f"{kind} {share:.0%}" for kind, share in list(part.items())[:4]))
                for part in (shares.heads, shares.layers, shares.matrices)
            ]
            rows.append((f"{title}, {len(won)} texts", cells))
    note = "The four most frequent. Paper: heads mean 27%, layers mean 36%, From 43%, To 24%."
    return StudyTable("Figure 4: which operations win", note, ["heads", "layers", "matrices"], rows)
