"""One template for the page of a study: tables with intervals and the paper's numbers in brackets, the verdict of every
claim, what was trained, pictures, cost, and what was not reached. Markdown for people, JSON for programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wherefrom_studies.claims import ClaimVerdict, Estimate, JudgedClaim


class StudyCell(NamedTuple):
    """One number, as it is shown, and the paper's beside it."""

    measured: str
    paper: str = ""
    estimate: Estimate | None = None  # the number itself, where there is one


class StudyTable(NamedTuple):
    title: str
    note: str
    columns: list[str]
    rows: list[tuple[str, list[StudyCell]]]


class StudyPicture(NamedTuple):
    file: str  # beside the page
    title: str
    note: str = ""


BASES = "M6 is all-MiniLM-L6-v2 (six layers, twelve heads), M3 the three-layer sentiment model that Wherefrom ships."


@dataclass(frozen=True)
class StudyPage:
    """Everything that a study has found."""

    name: str
    title: str
    about: str
    facts: list[str]  # what was trained, how many texts, where, how long
    tables: list[StudyTable]
    claims: list[JudgedClaim]
    pictures: list[StudyPicture] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what was not reached
    contradictions: list[str] = field(default_factory=list)  # of the paper with itself
    made: dict[str, Any] = field(default_factory=dict)
    intervals: str = "the bootstrap's 95% interval over texts"  # what the square brackets of the tables are
    trainings: list[dict[str, Any]] = field(default_factory=list)  # numbers of single trainings, for the JSON alone


def cell(found: Estimate | None, paper: float | str | None = None) -> StudyCell:
    """A number with its interval; a dash where nothing was measured."""
    beside = "" if paper is None else paper if isinstance(paper, str) else shortened(paper)
    return StudyCell("–" if found is None else str(found), beside, found)


def shortened(value: float) -> str:
    """As papers print it: .371, -1.319."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def markdown_tables(shown: Sequence[StudyTable], heading: str = "###") -> str:
    """The tables as text; the paper's numbers in brackets."""
    parts = []
    for table in shown:
        lines = [
            f"{heading} {table.title}",
            "",
            *([table.note, ""] if table.note else []),
            "| | " + " | ".join(table.columns) + " |",
            "|---" * (len(table.columns) + 1) + "|",
        ]
        for name, cells in table.rows:
            written = [f"{one.measured} ({one.paper})" if one.paper else one.measured for one in cells]
            lines.append(f"| {name} | " + " | ".join(written) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def claims_table(claims: Sequence[JudgedClaim]) -> str:
    """Every claim with its statistic, the interval and the verdict."""
    lines = ["| claim | what is claimed | what was computed | found | verdict |", "|---|---|---|---|---|"]
    for one in claims:
        claim = one.claim
        test = f"{claim.side} 0" if claim.margin is None else f"within ±{claim.margin:g}"
        found = str(one.found) if one.found is not None else one.why or "not measured"
        lines.append(f"| {claim.name} | {claim.words} | {claim.statistic}; {test} | {found} | **{one.verdict}** |")
    return "\n".join(lines) + "\n"


def markdown_page(page: StudyPage) -> str:
    """The page without what a person concludes from it."""
    counted: dict[ClaimVerdict, int] = {
        verdict: sum(one.verdict == verdict for one in page.claims) for verdict in ("confirmed", "refuted", "open")
    }
    parts = [
        f"# {page.title}",
        page.about,
        "## What was measured",
        "\n".join(f"- {fact}" for fact in page.facts),
    ]
    if page.claims:
        parts += [
            "## The claims",
            "Confirmed: the 95% interval of the statistic lies on the claimed side of zero (for equality: within the"
            " margin). Refuted: it lies on the other side. Open: neither."
            f" Here {counted['confirmed']} confirmed, {counted['refuted']} refuted, {counted['open']} open.",
            claims_table(page.claims).rstrip(),
        ]
    printed = any(one.paper for table in page.tables for _, cells in table.rows for one in cells)
    beside = "; in round brackets the paper's number, of another model and other texts" if printed else ""
    parts += [
        "## The tables",
        f"Ours with {page.intervals}{beside}.",
        markdown_tables(page.tables).rstrip(),
    ]
    if page.pictures:
        parts.append("## Pictures")
        parts += [f"![{one.title}]({one.file})\n\n{one.title}. {one.note}".rstrip() for one in page.pictures]
    if page.contradictions:
        parts += ["## Where the paper contradicts itself", "\n".join(f"- {one}" for one in page.contradictions)]
    if page.missing:
        parts += ["## What was not reached", "\n".join(f"- {one}" for one in page.missing)]
    return "\n\n".join(parts) + "\n"


def as_plain(page: StudyPage) -> dict[str, Any]:
    """The same as plain data, for JSON."""
    return {
        "study": page.name,
        "made": page.made,
        "facts": page.facts,
        "claims": [
            {
                "name": one.claim.name,
                "words": one.claim.words,
                "statistic": one.claim.statistic,
                "side": one.claim.side,
                "margin": one.claim.margin,
                "found": _plain(one.found),
                "verdict": one.verdict,
                "why": one.why,
            }
            for one in page.claims
        ],
        "tables": [
            {
                "title": table.title,
                "note": table.note,
                "columns": table.columns,
                "rows": [
                    {
                        "name": name,
                        "cells": [
                            {"paper": one.paper or None} | (_plain(one.estimate) or {"shown": one.measured})
                            for one in cells
                        ],
                    }
                    for name, cells in table.rows
                ],
            }
            for table in page.tables
        ],
        "missing": page.missing,
        "contradictions": page.contradictions,
        **({"trainings": page.trainings} if page.trainings else {}),
    }


def _plain(found: Estimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    numbers = {"value": found.value, "low": found.low, "high": found.high}
    return {name: None if one is None else round(one, 5) for name, one in numbers.items()} | {"texts": found.texts}
