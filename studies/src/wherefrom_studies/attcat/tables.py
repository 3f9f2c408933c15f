"""The tables of AttCAT's paper, measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom_studies.attcat.measuring import stacked
from wherefrom_studies.attcat.paper import (
    ANSWER_METHODS,
    CLASS_SPECIFIC,
    DEPTHS,
    METHODS,
    PAPER,
    PRINTED_AOPC,
    PRINTED_KENDALL,
    PRINTED_ODDS,
    PRINTED_SETS,
)
from wherefrom_studies.bench import SetAndBase, StudyRuns
from wherefrom_studies.claims import mean_of
from wherefrom_studies.pages import StudyCell, StudyTable, cell


def tables(
    texts: Mapping[SetAndBase, Sequence[StudyRuns]],
    answers: Mapping[SetAndBase, Sequence[StudyRuns]],
    entropies: Mapping[SetAndBase, Sequence[Sequence[float]]],
) -> list[StudyTable]:
    names = {ours: theirs for theirs, ours in PAPER.items()}
    found = []

    def shown(
        metric: str, title: str, note: str, printed: Mapping[str, Sequence[float]], methods: Sequence[str]
    ) -> None:
        rows = []
        for method in methods:
            cells = []
            for (name, _), runs in texts.items():
                paper = printed.get(names.get(method, ""))
                values = stacked(runs, metric, [method])[:, 0]
                cells.append(cell(mean_of(values.tolist()), None if paper is None else paper[PRINTED_SETS.index(name)]))
            rows.append((f"{names.get(method, '')} `{method}`".strip(), cells))
        found.append(StudyTable(title, note, [f"{name} {base}" for name, base in texts], rows))

    if texts:
        eight = [*PAPER.values(), "random"]
        specific = [*CLASS_SPECIFIC, *(name for name in METHODS if name not in PAPER.values() and name != "random")]
        below = "Higher is better. Below the paper's eight methods: others, and variants of AttCAT and CAT."
        shown("aopc", "Table 1: AOPC", below, PRINTED_AOPC, METHODS)
        shown("log_odds", "Table 1: log-odds", "Lower is better.", PRINTED_ODDS, METHODS)
        note = "Lower is better. By the right definition: of the scores for two classes."
        shown("kendall_confidence", "Table 2: Kendall's correlation between classes", note, {}, specific)
        note = "Of the lists of positions that sorting gives, special tokens included, instead of the ranks."
        published = "kendall_confidence:variant=published"
        shown(published, "Table 2: the same by the public code", note, PRINTED_KENDALL, CLASS_SPECIFIC)
        note = "Absolute changes in nine steps; special tokens are ranked, but stay."
        shown("aopc:variant=published", "AOPC as the public code computes it", note, {}, eight)
        shown("log_odds:variant=published", "Log-odds as the public code computes it", "", {}, eight)
        note = (
            "The share of tokens whose hiding moves the probability as the sign of their score says; higher is better."
        )
        shown("truthfulness", "Signs: truthfulness", note, {}, METHODS)
        note = "The share of tokens whose hiding moves it the other way; lower is better."
        shown("faithfulness_violation", "Signs: violation", note, {}, METHODS)
    if answers:
        found += [_precision(answers, names, detail) for detail in ("count", "")]
    if entropies:
        depth = max(len(one[0]) for one in entropies.values() if one)
        rows = [
            (
                f"{name} {base}",
                [
                    cell(mean_of([text[layer] for text in one])) if one and layer < len(one[0]) else StudyCell("")
                    for layer in range(depth)
                ],
            )
            for (name, base), one in entropies.items()
        ]
        found.append(
            StudyTable(
                "Figure 4: how evenly impact is spread in each layer",
                "Normalised entropy of the size of AttCAT's scores: 1 where all tokens have the same.",
                [f"layer {number + 1}" for number in range(depth)],
                rows,
            )
        )
    return found


def _precision(answers: Mapping[SetAndBase, Sequence[StudyRuns]], names: Mapping[str, str], detail: str) -> StudyTable:
    columns, rows = [], []
    for name, base in answers:
        columns += [f"{name} {base} K={k}" for k in DEPTHS]
    for method in ANSWER_METHODS:
        cells = []
        for runs in answers.values():
            for k in DEPTHS:
                values = stacked(runs, f"precision_at_k:k={k}", [method], detail)[:, 0]
                cells.append(cell(mean_of(values.tolist())))
        rows.append((f"{names.get(method, '')} `{method}`".strip(), cells))
    what = (
        "tokens of the answer among the first K, as a count"
        if detail
        else "the share of the answer's tokens among the first K"
    )
    note = "The paper's largest counts at K = 20 are 3.72 (version 1) and 3.84 (version 2)." if detail else ""
    return StudyTable(f"Figure 3: {what}", note, columns, rows)
