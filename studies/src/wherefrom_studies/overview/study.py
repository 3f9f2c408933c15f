"""Put the page over all studies together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wherefrom.errors import BadFile
from wherefrom.files import write_atomically
from wherefrom_studies import plots
from wherefrom_studies.bench import provenance
from wherefrom_studies.overview.collecting import STUDIES, Collected, collect, family_of
from wherefrom_studies.overview.ranking import against_cost
from wherefrom_studies.overview.tables import tables
from wherefrom_studies.pages import StudyPage, StudyPicture, markdown_tables
from wherefrom_studies.study import Measured, Study

BEGIN, END = "<!-- what `wherefrom study all` writes begins here -->", "<!-- and ends here -->"


def overview(folders: Sequence[Path]) -> Study[Collected]:
    """The page over the studies in these folders."""
    return Study(
        name="all",
        title="All studies on one page",
        about=(
            "Every method on every data set by every metric of the studies, under one protocol: the same texts, the"
            " same target, special tokens never ranked."
        ),
        measure=lambda _bench, _request: _collected(folders),
        tables=tables,
        pictures=pictures,
    )


def _collected(folders: Sequence[Path]) -> Measured[Collected]:
    """What the folders contain; nothing is measured for this page alone."""
    collected = collect(folders)
    if not collected.sets and not collected.claims:
        raise BadFile(
            f"There is no finished run of a study in {', '.join(map(str, folders))}: run 'wherefrom study attcat' and"
            " the others first, and name their folders."
        )
    counts = ", ".join(
        f"{name} {base} {max(len(table) for _, table in collected_set.tables.values())}"
        for (name, base), collected_set in collected.sets.items()
    )
    facts = [
        f"Texts: {counts or 'none'}.",
        "Read from the folders of the studies; nothing is measured for this page alone.",
    ]
    missing = [f"The study {name}: no page in these folders." for name in STUDIES if name not in _studies(collected)]
    return Measured(collected, facts, provenance(0.0), [*missing, *collected.unread])


def pictures(collected: Collected, folder: Path) -> list[StudyPicture]:
    drawn = against_cost(collected.sets)
    if not drawn:
        return []
    plots.faithfulness_against_cost(drawn, {name: family_of(name) for name in drawn}, folder / "all-cost.png")
    note = "Cheaper to the left, better above; bars are 95% intervals over texts."
    return [StudyPicture("all-cost.png", "Faithfulness (erasure metrics) against cost", note)]


def _studies(collected: Collected) -> set[str]:
    return {str(claim["study"]) for claim in collected.claims}


def write_into(page: StudyPage, path: Path) -> None:
    """Put the tables of the page between the two marks of a text file, in place of what stands there."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path} could not be read: {error.strerror or error}.") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise BadFile(f"{path} has no place for the tables: a line {BEGIN!r} and, below it, a line {END!r}.")
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    facts = "\n".join(f"- {fact}" for fact in page.facts)
    write_atomically(path, f"{before}{BEGIN}\n\n{facts}\n\n{markdown_tables(page.tables)}\n{after}", "page")
