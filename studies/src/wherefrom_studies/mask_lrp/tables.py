"""The tables of Mask-LRP's paper, measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wherefrom.typing import Numbers
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import mean_of
from wherefrom_studies.mask_lrp.judging import column_of, corrupted_table
from wherefrom_studies.mask_lrp.measuring import MaskResult, MaskResults, thresholds_named
from wherefrom_studies.mask_lrp.paper import (
    ANSWER_SETS,
    AOPC,
    BESIDE,
    MASKS,
    ODDS,
    PAPER,
    PRECISION,
    PRINTED_AOPC,
    PRINTED_ODDS,
    PRINTED_PRECISION,
    PRINTED_SETS,
    TEXT_SETS,
    THRESHOLDS,
)
from wherefrom_studies.pages import StudyCell, StudyTable, cell
from wherefrom_studies.tables import layer_columns, means_table


def tables(results: MaskResults) -> list[StudyTable]:
    texts = {key: of_set for key, of_set in results.items() if key[0] in TEXT_SETS}
    answers = {key: of_set for key, of_set in results.items() if key[0] in ANSWER_SETS}
    shown = []
    order = [*PAPER, *BESIDE, "Random mask", *MASKS]

    def add(
        some: MaskResults,
        metric: str,
        title: str,
        note: str,
        printed: Mapping[str, Sequence[float | None]],
        sets: Sequence[str],
        names: Sequence[str],
    ) -> None:
        def values(result: MaskResult, name: str) -> Sequence[float] | Numbers:
            there = bool(result.randoms) if name == "Random mask" else name in result.methods
            return column_of(result, metric, "randoms" if name == "Random mask" else name) if there else []

        def paper(key: SetAndBase, name: str) -> float | None:
            row = printed.get(name)
            return None if row is None else row[sets.index(key[0])]

        shown.append(means_table(title, note, some, {name: name for name in names}, values, paper))

    if texts:
        seeds = max(len(of_set.randoms) for of_set in texts.values())
        note = (
            f"Higher is better. The random mask is the mean of {seeds}, of as many heads as Ours. A dash: no head"
            " passes the thresholds."
        )
        add(texts, AOPC, "Tables 1, 3, 4: AOPC", note, PRINTED_AOPC, PRINTED_SETS, order)
        add(texts, ODDS, "Tables 1, 3, 4: log-odds", "Lower is better.", PRINTED_ODDS, PRINTED_SETS, order)
    if answers:
        note = "The share of the answer's tokens among the first 20; the paper's numbers are those of BERT."
        names = [name for name in order if name != "Random mask"]
        add(answers, PRECISION, "Table 2: answers", note, PRINTED_PRECISION, ANSWER_SETS, names)
    if results:
        shown += [_heads_table(results), _thresholds_table(results)]
    shown += [_corruption_table(key, of_set) for key, of_set in texts.items() if of_set.corrupted]
    shown += [_sweep_table(key, of_set) for key, of_set in texts.items() if of_set.swept]
    return shown


def _heads_table(results: MaskResults) -> StudyTable:
    depth = max(len(result.heads.frequency) for result in results.values())
    rows = []
    for (name, base), result in results.items():
        kinds = result.heads.kinds()
        cells = []
        for layer in range(depth):
            if layer >= len(kinds):
                cells.append(StudyCell(""))
                continue
            row = kinds[layer]
            cells.append(StudyCell(f"{sum(k in ('positional', 'both') for k in row)} + {_count(row)}"))
        rows.append((f"{name} {base} ({result.heads.texts} texts)", cells))
    note = "Positional + syntactic heads of every layer, by the paper's thresholds (.8 and .1)."
    return StudyTable("Figure 5: heads", note, layer_columns(depth), rows)


def _count(kinds: Sequence[str]) -> int:
    return sum(kind in ("syntactic", "both") for kind in kinds)


def _thresholds_table(results: MaskResults) -> StudyTable:
    rows = []
    for positional, syntactic in THRESHOLDS:
        cells = []
        for result in results.values():
            other = replace(result.heads, positional_threshold=positional, syntactic_threshold=syntactic)
            kept = [sum(1 for weight in row if weight) for row in other.mask()]
            cells.append(StudyCell(f"{sum(kept)}: {' '.join(map(str, kept))}"))
        rows.append((thresholds_named(positional, syntactic), cells))
    columns = [f"{name} {base}" for name, base in results]
    return StudyTable("Heads kept by other thresholds", "All of them, then layer by layer.", columns, rows)


def _corruption_table(key: SetAndBase, result: MaskResult) -> StudyTable:
    corrupted = corrupted_table(result)
    assert corrupted is not None
    shares, values = corrupted
    cells = [cell(mean_of(values[:, place].tolist())) for place in range(len(shares))]
    seeds = len(next(iter((result.corrupted or {}).values())))
    note = f"The share of the left out heads that is switched on; mean over {seeds} seeds. With all of them: TransAtt."
    columns = [f"{share:.0%}" for share in shares]
    return StudyTable(f"Figure 4: AOPC of corrupted masks, {' '.join(key)}", note, columns, [("AOPC", cells)])


def _sweep_table(key: SetAndBase, result: MaskResult) -> StudyTable:
    rows = []
    for title, method in (result.swept or {}).items():
        values = result.runs.table(AOPC, [method])[:, 0]
        odds = result.runs.table(ODDS, [method])[:, 0]
        rows.append((title, [cell(mean_of(values.tolist())), cell(mean_of(odds.tolist()))]))
    note = "Blocks without a chosen head are not masked (bare=skip). Shown, not chosen by: these are test texts."
    return StudyTable(f"Thresholds: {' '.join(key)}", note, ["AOPC", "log-odds"], rows)
