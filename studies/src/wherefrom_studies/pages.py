"""The page of every study: tables with intervals and the paper's numbers beside them, the verdict of every claim, what
was trained, pictures, cost, and what was not reached. Markdown and a self-contained HTML file for people, JSON for
programs, all from the same data.

Names come from files and models, so the HTML escapes them, and its policy allows no script and no request.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from wherefrom.errors import MissingExtra
from wherefrom.files import write_atomically
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


OVER_TEXTS = "the bootstrap's 95% interval over texts"
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
    intervals: str = OVER_TEXTS  # what the square brackets of the tables are
    trainings: list[dict[str, Any]] = field(default_factory=list)  # numbers of single trainings, for the JSON alone


def cell(estimate: Estimate | None, paper: float | str | None = None) -> StudyCell:
    """A number with its interval; a dash where nothing was measured."""
    beside = "" if paper is None else paper if isinstance(paper, str) else shortened(paper)
    return StudyCell("–" if estimate is None else str(estimate), beside, estimate)


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
            written = [f"{entry.measured} ({entry.paper})" if entry.paper else entry.measured for entry in cells]
            lines.append(f"| {name} | " + " | ".join(written) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


CLAIM_COLUMNS = ("claim", "what is claimed", "what was computed", "found", "verdict", "after Holm")


def _claim_row(judged: JudgedClaim) -> tuple[str, ...]:
    """The cells of a claim, one for each of `CLAIM_COLUMNS`."""
    claim = judged.claim
    test = f"{claim.side} 0" if claim.margin is None else f"within ±{claim.margin:g}"
    value = judged.why or "not measured"
    if judged.estimate is not None:
        pair = f"({judged.rival})" if judged.rival else ""
        value = "; ".join(filter(None, (f"{judged.estimate} {pair}".rstrip(), judged.sets, judged.outlook)))
    return claim.name, claim.words, f"{claim.statistic}; {test}", value, judged.verdict, judged.corrected


def claims_table(claims: Sequence[JudgedClaim]) -> str:
    """Every claim with its statistic, the interval and the verdict."""
    lines = [f"| {' | '.join(CLAIM_COLUMNS)} |", "|---" * len(CLAIM_COLUMNS) + "|"]
    for judged in claims:
        *cells, verdict, after_holm = _claim_row(judged)
        lines.append(f"| {' | '.join(cells)} | **{verdict}** | {after_holm} |")
    return "\n".join(lines) + "\n"


def verdicts_note(claims: Sequence[JudgedClaim]) -> str:
    """What the verdicts mean, and how many there are of each."""
    verdicts: tuple[ClaimVerdict, ...] = ("confirmed", "refuted", "open")
    counts, after_holm = (
        ", ".join(f"{names.count(verdict)} {verdict}" for verdict in verdicts)
        for names in ([judged.verdict for judged in claims], [judged.corrected for judged in claims])
    )
    return (
        "Confirmed: the 95% interval of the statistic is on the claimed side of zero (for equality: within the margin)."
        " Refuted: it is on the other side. Open: neither. A claim that one method is better than several is confirmed"
        " if this holds for every one of them, and refuted if one of them is better after Holm's correction; the number"
        " is that of the weakest pair. Intervals are over data sets where there are several, else over texts."
        f" Here {counts}; after Holm's correction over the claims of this page {after_holm}."
    )


def markdown_page(page: StudyPage) -> str:
    """The page without what a person concludes from it."""
    parts = [
        f"# {page.title}",
        page.about,
        "## What was measured",
        "\n".join(f"- {fact}" for fact in page.facts),
    ]
    if page.claims:
        parts += ["## The claims", verdicts_note(page.claims), claims_table(page.claims).rstrip()]
    printed = any(number.paper for table in page.tables for _, cells in table.rows for number in cells)
    beside = "; in round brackets the paper's number, of another model and other texts" if printed else ""
    parts += [
        "## The tables",
        f"Ours with {page.intervals}{beside}.",
        markdown_tables(page.tables).rstrip(),
    ]
    if page.pictures:
        parts.append("## Pictures")
        parts += [
            f"![{picture.title}]({picture.file})\n\n{picture.title}. {picture.note}".rstrip()
            for picture in page.pictures
        ]
    if page.contradictions:
        parts += ["## Where the paper contradicts itself", "\n".join(f"- {entry}" for entry in page.contradictions)]
    if page.missing:
        parts += ["## What was not reached", "\n".join(f"- {entry}" for entry in page.missing)]
    return "\n\n".join(parts) + "\n"


def html_page(page: StudyPage, folder: Path) -> str:
    """The page as a self-contained HTML file; `folder` contains its pictures."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("wherefrom_studies"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["words"] = lambda text: text.replace("`", "").replace("**", "")  # cells are Markdown
    style = templates.get_template("study.css").render()
    hash_of_style = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    pictures = [
        (picture, f"data:image/png;base64,{base64.b64encode((folder / picture.file).read_bytes()).decode()}")
        for picture in page.pictures
    ]
    return templates.get_template("study.html").render(
        page=page,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{hash_of_style}'; img-src data:; base-uri 'none';"
        " form-action 'none'",
        verdicts=verdicts_note(page.claims),
        claim_columns=CLAIM_COLUMNS,
        claim_rows=[_claim_row(judged) for judged in page.claims],
        pictures=pictures,
    )


def check_page_packages() -> None:
    """Raise where a package that a page is made with is missing: before hours of work, not after."""
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        raise MissingExtra("The page of a study", "report")


def write_page(page: StudyPage, folder: Path) -> None:
    """Write the page into a folder: NAME.md, NAME.html and NAME.json."""
    numbers = json.dumps(as_plain(page), indent=1, allow_nan=False) + "\n"
    for ending, content in (("md", markdown_page(page)), ("html", html_page(page, folder)), ("json", numbers)):
        write_atomically(folder / f"{page.name}.{ending}", content, "page")


def as_plain(page: StudyPage) -> dict[str, Any]:
    """The same as plain data, for JSON."""
    return {
        "study": page.name,
        "made": page.made,
        "facts": page.facts,
        "claims": [
            {
                "name": claim.claim.name,
                "words": claim.claim.words,
                "statistic": claim.claim.statistic,
                "side": claim.claim.side,
                "margin": claim.claim.margin,
                "found": _plain(claim.estimate),
                "verdict": claim.verdict,
                "why": claim.why,
                "corrected": claim.corrected,
                "pair": claim.rival,
                "outlook": claim.outlook,
                "sets": {name: _plain(estimate) for name, estimate in claim.by_set.items()},
            }
            for claim in page.claims
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
                            {"paper": entry.paper or None} | (_plain(entry.estimate) or {"shown": entry.measured})
                            for entry in cells
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


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: None if number is None else round(number, 5) for name, number in numbers.items()} | {
        "texts": estimate.texts
    }
