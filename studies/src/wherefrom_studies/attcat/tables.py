"""The tables of AttCAT's paper, measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom.typing import Numbers
from wherefrom_studies.attcat.measuring import AttcatResult, AttcatResults, answer_sets, text_sets
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
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import mean_of
from wherefrom_studies.pages import StudyTable, cell
from wherefrom_studies.tables import layers_table, means_table

PAPER_NAMES = {ours: theirs for theirs, ours in PAPER.items()}


def tables(results: AttcatResults) -> list[StudyTable]:
    texts, answers = text_sets(results), answer_sets(results)
    shown = []

    def add(metric: str, title: str, note: str, printed: Mapping[str, Sequence[float]], methods: Sequence[str]) -> None:
        def values(result: AttcatResult, method: str) -> Numbers:
            return result.table(metric, [method])[:, 0]

        def paper(key: SetAndBase, method: str) -> float | None:
            row = printed.get(PAPER_NAMES.get(method, ""))
            return None if row is None else row[PRINTED_SETS.index(key[0])]

        shown.append(means_table(title, note, texts, _rows(methods), values, paper))

    if texts:
        eight = [*PAPER.values(), "random"]
        specific = [*CLASS_SPECIFIC, *(name for name in METHODS if name not in PAPER.values() and name != "random")]
        below = "Higher is better. Below the paper's eight methods: others, and variants of AttCAT and CAT."
        add("aopc", "Table 1: AOPC", below, PRINTED_AOPC, METHODS)
        add("log_odds", "Table 1: log-odds", "Lower is better.", PRINTED_ODDS, METHODS)
        note = "Lower is better. By the right definition: of the scores for two classes."
        add("kendall_confidence", "Table 2: Kendall's correlation between classes", note, {}, specific)
        note = "Of the lists of positions that sorting gives, special tokens included, instead of the ranks."
        published = "kendall_confidence:variant=published"
        add(published, "Table 2: the same by the public code", note, PRINTED_KENDALL, CLASS_SPECIFIC)
        note = "Absolute changes in nine steps; special tokens are ranked, but stay."
        add("aopc:variant=published", "AOPC as the public code computes it", note, {}, eight)
        add("log_odds:variant=published", "Log-odds as the public code computes it", "", {}, eight)
        note = (
            "The share of tokens whose hiding moves the probability as the sign of their score says; higher is better."
        )
        add("truthfulness", "Signs: truthfulness", note, {}, METHODS)
        note = "The share of tokens whose hiding moves it the other way; lower is better."
        add("faithfulness_violation", "Signs: violation", note, {}, METHODS)
    if answers:
        shown += [_precision(answers, detail) for detail in ("count", "")]
    if texts:
        shown.append(
            layers_table(
                "Figure 4: how evenly impact is spread in each layer",
                "Normalised entropy of the size of AttCAT's scores: 1 where all tokens have the same.",
                {" ".join(key): result.entropies for key, result in texts.items()},
            )
        )
    return shown


def _rows(methods: Sequence[str]) -> dict[str, str]:
    """Methods by the titles of their rows."""
    return {f"{PAPER_NAMES.get(method, '')} `{method}`".strip(): method for method in methods}


def _precision(answers: AttcatResults, detail: str) -> StudyTable:
    columns = [f"{name} {base} K={k}" for name, base in answers for k in DEPTHS]
    rows = []
    for title, method in _rows(ANSWER_METHODS).items():
        values = [
            result.table(f"precision_at_k:k={k}", [method], detail)[:, 0] for result in answers.values() for k in DEPTHS
        ]
        rows.append((title, [cell(mean_of(column)) for column in values]))
    what = (
        "tokens of the answer among the first K, as a count"
        if detail
        else "the share of the answer's tokens among the first K"
    )
    note = "The paper's largest counts at K = 20 are 3.72 (version 1) and 3.84 (version 2)." if detail else ""
    return StudyTable(f"Figure 3: {what}", note, columns, rows)
