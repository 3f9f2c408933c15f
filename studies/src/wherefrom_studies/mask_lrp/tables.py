"""The tables of Mask-LRP's paper, measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import mean_of
from wherefrom_studies.mask_lrp.judging import column_of, corrupted_table
from wherefrom_studies.mask_lrp.measuring import MaskFound, thresholds_named
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


def tables(found: Mapping[SetAndBase, MaskFound], parser: Sequence[tuple[str, Sequence[str]]] = ()) -> list[StudyTable]:
    texts = {key: one for key, one in found.items() if key[0] in TEXT_SETS}
    answers = {key: one for key, one in found.items() if key[0] in ANSWER_SETS}
    shown = []
    order = [*PAPER, *BESIDE, "Random mask", *MASKS]

    def add(
        some: Mapping[SetAndBase, MaskFound],
        metric: str,
        title: str,
        note: str,
        printed: Mapping[str, Sequence[float | None]],
        sets: Sequence[str],
        names: Sequence[str],
    ) -> None:
        rows = []
        for name in names:
            cells = []
            for (dataset, _), one in some.items():
                there = bool(one.randoms) if name == "Random mask" else name in one.methods
                values = column_of(one, metric, "randoms" if name == "Random mask" else name).tolist() if there else []
                paper = printed.get(name)
                cells.append(cell(mean_of(values), None if paper is None else paper[sets.index(dataset)]))
            rows.append((name, cells))
        shown.append(StudyTable(title, note, [f"{name} {base}" for name, base in some], rows))

    if texts:
        seeds = max(len(one.randoms) for one in texts.values())
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
    if found:
        shown += [_heads_table(found), _thresholds_table(found)]
    shown += [_corruption_table(key, one) for key, one in texts.items() if one.corrupted]
    shown += [_sweep_table(key, one) for key, one in texts.items() if one.swept]
    if parser:
        columns = [f"{what}, {by}" for by in ("gold", "parser") for what in ("pairs", "usual distance", "best head")]
        note = "How often governors stand at their most usual distance, and how often the best head finds them."
        rows = [(name, [StudyCell(one) for one in cells]) for name, cells in parser]
        shown.append(StudyTable("The parser beside gold trees (UD English EWT)", note, columns, rows))
    return shown


def _heads_table(found: Mapping[SetAndBase, MaskFound]) -> StudyTable:
    depth = max(len(one.heads.frequency) for one in found.values())
    rows = []
    for (name, base), one in found.items():
        kinds = one.heads.kinds()
        cells = []
        for layer in range(depth):
            if layer >= len(kinds):
                cells.append(StudyCell(""))
                continue
            row = kinds[layer]
            cells.append(StudyCell(f"{sum(k in ('positional', 'both') for k in row)} + {_count(row)}"))
        rows.append((f"{name} {base} ({one.heads.texts} texts)", cells))
    note = "Positional + syntactic heads of every layer, by the paper's thresholds (.8 and .1)."
    return StudyTable("Figure 5: heads", note, [f"layer {number + 1}" for number in range(depth)], rows)


def _count(kinds: Sequence[str]) -> int:
    return sum(kind in ("syntactic", "both") for kind in kinds)


def _thresholds_table(found: Mapping[SetAndBase, MaskFound]) -> StudyTable:
    rows = []
    for positional, syntactic in THRESHOLDS:
        cells = []
        for one in found.values():
            other = replace(one.heads, positional_threshold=positional, syntactic_threshold=syntactic)
            kept = [sum(1 for weight in row if weight) for row in other.mask()]
            cells.append(StudyCell(f"{sum(kept)}: {' '.join(map(str, kept))}"))
        rows.append((thresholds_named(positional, syntactic), cells))
    columns = [f"{name} {base}" for name, base in found]
    return StudyTable("Heads kept by other thresholds", "All of them, then layer by layer.", columns, rows)


def _corruption_table(key: SetAndBase, one: MaskFound) -> StudyTable:
    found = corrupted_table(one)
    assert found is not None
    shares, values = found
    cells = [cell(mean_of(values[:, place].tolist())) for place in range(len(shares))]
    seeds = len(next(iter((one.corrupted or {}).values())))
    note = f"The share of the left out heads that is switched on; mean over {seeds} seeds. With all of them: TransAtt."
    columns = [f"{share:.0%}" for share in shares]
    return StudyTable(f"Figure 4: AOPC of corrupted masks, {' '.join(key)}", note, columns, [("AOPC", cells)])


def _sweep_table(key: SetAndBase, one: MaskFound) -> StudyTable:
    rows = []
    for title, method in (one.swept or {}).items():
        values = one.runs.table(AOPC, [method])[:, 0]
        odds = one.runs.table(ODDS, [method])[:, 0]
        rows.append((title, [cell(mean_of(values.tolist())), cell(mean_of(odds.tolist()))]))
    note = "Blocks without a chosen head are not masked (bare=skip). Shown, not chosen by: these are test texts."
    return StudyTable(f"Thresholds: {' '.join(key)}", note, ["AOPC", "log-odds"], rows)
