"""The figures of Optimus' paper, drawn again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wherefrom.optimus import Combination
from wherefrom.report.plots import token_labels
from wherefrom_studies import plots
from wherefrom_studies.data import SETS
from wherefrom_studies.optimus.analyses import emissions, winning_operations
from wherefrom_studies.optimus.measuring import OptimusResult, OptimusResults, costs_of, winners
from wherefrom_studies.optimus.paper import NAMES
from wherefrom_studies.pages import StudyPicture


def pictures(results: OptimusResults, folder: Path) -> list[StudyPicture]:
    shown = []
    read = [Combination.read(name) for result in results.values() for name in winners(result)]
    won = [combination for combination in read if combination is not None]
    if won:
        shares = winning_operations(won)
        parts = {"heads": shares.heads, "layers": shares.layers, "matrices": shares.matrices}
        plots.shares(parts, folder / "optimus-figure4.png")
        shown.append(StudyPicture("optimus-figure4.png", "Figure 4: operations that win by RFT"))
    costs = costs_of(results)
    if costs:
        key, first = next(iter(costs.items()))
        plots.lines(emissions(first), folder / "optimus-figure7.png", across="texts", up="grams of CO2 equivalent")
        shown.append(StudyPicture("optimus-figure7.png", f"Figure 7: emissions, {NAMES[key[0]]} {key[1]}"))
    for (name, base), result in results.items():
        if not SETS[name].rationales:
            continue
        example = _example(result)
        if example is not None:
            file = f"optimus-figure5-{name}-{base}.png"
            plots.impact_map(*example, folder / file)
            note = "The first row is what people marked."
            shown.append(StudyPicture(file, f"Figures 5 and 6: an example of {NAMES[name]}, {base}", note))
            break
    return shown


def _example(result: OptimusResult) -> tuple[dict[str, list[float]], list[str]] | None:
    """The shortest text of at least eight tokens, with what people marked, and the scores of every method."""
    wanted = {result.methods[name]: name for name in ("IG", "B", "OP")}
    by_text: dict[str, dict[str, dict[str, Any]]] = {}
    for row in result.runs.explanations():
        if row["method"] in wanted:
            by_text.setdefault(row["example"], {})[wanted[row["method"]]] = row
    whole = [rows for rows in by_text.values() if len(rows) == len(wanted) and len(rows["OP"]["tokens"]) >= 10]
    if not whole:
        return None
    rows = min(whole, key=lambda candidate: len(candidate["OP"]["tokens"]))
    source = next(row for row in result.rows if row["id"] == rows["OP"]["example"])
    marks = source["rationale"]
    if isinstance(marks, Mapping):
        marks = marks.get(rows["OP"]["target"], [])
    spans = (marks, source.get("pair_rationale") or [])
    first = rows["OP"]
    kept = [place for place, part in enumerate(first["segment"]) if part >= 0]
    flags = [
        float(
            any(first["offsets"][place][0] < end and start < first["offsets"][place][1] for start, end in spans[part])
        )
        for place, part in ((place, first["segment"][place]) for place in kept)
    ]
    drawn = {"marked": flags} | {name: [row["scores"][place] for place in kept] for name, row in rows.items()}
    names = token_labels(first["tokens"], first["offsets"], first["segment"], first["text"], first["pair"])
    return drawn, [names[place] for place in kept]
