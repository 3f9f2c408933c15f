"""The tables of ALTI's paper, measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom.typing import Numbers
from wherefrom_studies.alti.measuring import AltiResult, AltiResults
from wherefrom_studies.alti.paper import (
    ABLATIONS,
    BERT,
    COLUMN,
    COMP,
    DISTIL,
    MOST_ATTRACTORS,
    NAMES,
    PRINTED_COLUMNS,
    PRINTED_COMP,
    PRINTED_SUFF,
    PUBLISHED,
    ROBERTA,
    SUFF,
)
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import mean_of
from wherefrom_studies.pages import StudyCell, StudyTable, cell
from wherefrom_studies.tables import layers_table, means_table


def _paper_model(base: str) -> str:
    """Which of the paper's models a base stands in for; the numbers in brackets are that one's."""
    return {"M6": BERT, "M3": DISTIL}.get(base, ROBERTA)


def _printed(table: Mapping[str, Sequence[float]], method: str, key: SetAndBase) -> float | None:
    row = table.get(method)
    return None if row is None else row[PRINTED_COLUMNS.index((_paper_model(key[1]), key[0]))]


def tables(results: AltiResults) -> list[StudyTable]:
    shown = []

    def add(title: str, note: str, metric: str, printed: Mapping[str, Sequence[float]], methods: Sequence[str]) -> None:
        def values(result: AltiResult, method: str) -> Numbers:
            return result.runs.table(metric, [NAMES[method]])[:, 0]

        def paper(key: SetAndBase, method: str) -> float | None:
            return _printed(printed, method, key)

        shown.append(
            means_table(title, note, results, {_row_name(of_set): of_set for of_set in methods}, values, paper)
        )

    beside = "In brackets the paper's BERT for M6, its DistilBERT for M3, its RoBERTa for other bases."
    main = [name for name in NAMES if name not in ABLATIONS]
    add("Tables 2, 6, 7: comprehensiveness", f"Higher is better. {beside}", COMP, PRINTED_COMP, main)
    add("Tables 2, 6, 7: sufficiency", f"Lower is better. {beside}", SUFF, PRINTED_SUFF, main)
    ablations = ["ALTI", *ABLATIONS]
    add("Tables 4, 5: comprehensiveness of variants", "ALTI is that with l1.", COMP, PRINTED_COMP, ablations)
    add("Tables 4, 5: sufficiency of variants", "", SUFF, PRINTED_SUFF, ablations)
    note = "The lowest probability so far at ERASER's thresholds, divided by 6."
    add("Comprehensiveness as the public code computes it", note, PUBLISHED["comp"], {}, main)
    note = "The highest probability so far, that of the empty text included."
    add("Sufficiency as the public code computes it", note, PUBLISHED["suff"], {}, main)
    seeded = {key: of_set for key, of_set in results.items() if of_set.jaccard is not None}
    if seeded:
        shown.append(_robustness_table(seeded))
    if any(of_set.outputs for of_set in results.values()):
        shown.append(_anisotropy_table({key: of_set for key, of_set in results.items() if of_set.outputs}))
    shown += [_subject_table(of_set.subjects, base) for (_, base), of_set in results.items() if of_set.subjects]
    shown.append(_cost_table(results))
    return shown


def _row_name(method: str) -> str:
    return f"{method} `{NAMES[method]}`"


def _robustness_table(results: AltiResults) -> StudyTable:
    columns, rows = [], []
    for (name, base), result in results.items():
        texts = 0 if result.jaccard is None else len(result.jaccard)
        columns += [f"{name} {base} Jaccard ({texts} texts)", f"{name} {base} Spearman"]
    for method in NAMES:
        cells = []
        for result in results.values():
            for table in (result.jaccard, result.spearman):
                cells.append(cell(None if table is None else mean_of(table[:, COLUMN[method]].tolist())))
        rows.append((_row_name(method), cells))
    note = (
        "How alike the explanations of models are that were trained with different seeds: mean over pairs of models, on"
        " texts where all of them say the same. Higher is more alike; what ignores the model would be best."
    )
    return StudyTable("Figures 7, 8: Jaccard of the top quarters, and Spearman's correlation", note, columns, rows)


def _anisotropy_table(results: AltiResults) -> StudyTable:
    rows: dict[str, Sequence[Sequence[float]]] = {}
    for (name, base), result in results.items():
        rows |= {f"{name} {base} outputs": result.outputs, f"{name} {base} parts": result.parts}
    note = "Mean cosine of what two positions hold (outputs), and of what two tokens bring to one position (parts)."
    return layers_table("Figure 3: anisotropy", note, rows)


def _subject_table(subjects: Sequence[tuple[int, Mapping[str, float]]], base: str) -> StudyTable:
    counts = sorted({count for count, _ in subjects})
    many = {count: sum(nouns == count for nouns, _ in subjects) for count in counts}
    columns = [
        *(f"{count}{'+' if count == MOST_ATTRACTORS else ''} ({many[count]} texts)" for count in counts),
        f"all ({len(subjects)})",
    ]
    rows = []
    for method in NAMES:
        groups = [[hits for nouns, hits in subjects if nouns == count] for count in counts] + [[h for _, h in subjects]]
        cells = [cell(mean_of([hits.get(NAMES[method]) for hits in group])) for group in groups]
        rows.append((_row_name(method), cells))
    note = (
        "The share of texts whose strongest token is the subject, by the number of attractors (nouns of the other"
        " number between it and the verb). The subject is what the parser names, where that is one word in front of the"
        " verb and no relative pronoun."
    )
    return StudyTable(f"Subject-verb agreement, {base}: is the subject the strongest token?", note, columns, rows)


def _cost_table(results: AltiResults) -> StudyTable:
    columns, rows = [], []
    alone = [result.runs.alone() for result in results.values()]
    for name, base in results:
        columns += [f"{name} {base} seconds", f"{name} {base} rows"]
    for method in NAMES:
        cells = []
        for table in alone:
            costs = table[table["method"] == NAMES[method]]
            passes = costs["forwards"] + costs["backwards"]
            cells += [StudyCell(f"{costs['seconds'].mean():.3g}"), StudyCell(f"{passes.mean():.0f}")]
        rows.append((_row_name(method), cells))
    note = (
        "Of one explanation alone: seconds, and rows sent through the model forth or back. In a run IG goes one path."
    )
    return StudyTable("What a method costs", note, columns, rows)
