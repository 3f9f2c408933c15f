"""The command of Optimus: `wherefrom optimus` fits a combination of attention operations on texts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from wherefrom.cli.arguments import DeviceOption, JsonOption, LevelOption, ModelOption, app, check_names, examples
from wherefrom.core.files import json_text
from wherefrom.errors import BadFile, UnknownName
from wherefrom.samples import resolve


@app.command(
    rich_help_panel="Look into a model",
    epilog=examples(
        "wherefrom optimus --data sample:reviews --limit 10",
        "wherefrom optimus --data texts.txt --out combination.json --metric rft",
    ),
)
def optimus(
    data: Annotated[
        Path, typer.Option(help="Texts: JSON lines with 'text' (or 'text_a' and 'text_b'), or one text a line.")
    ],
    model: ModelOption = "embedded",
    out: Annotated[
        Path | None, typer.Option(help="Write the combination here, for: explain --method optimus -o combination=FILE")
    ] = None,
    raw: Annotated[str, typer.Option(help="A (behind the softmax), A* (before it) or both.")] = "A",
    metric: Annotated[str, typer.Option(help="What makes a combination good.")] = "rft",
    level: LevelOption = "token",
    fallback: Annotated[
        str, typer.Option(help="If nothing scores above zero: the maximum all the same, or the baseline.")
    ] = "maximum",
    limit: Annotated[int | None, typer.Option(min=1, help="Read only so many texts.")] = None,
    as_json: JsonOption = False,
    device: DeviceOption = None,
) -> None:
    """Fit one combination of attention operations on texts (Optimus Batch); never on those it is tried on."""
    for name, value, known in (
        ("raw", raw, ("A", "A*", "both")),
        ("level", level, ("token", "word", "sentence")),
        ("fallback", fallback, ("maximum", "baseline")),
    ):
        if value not in known:
            raise UnknownName.among(name, value, known)
    check_names("metric", metric)
    texts = read_texts(Path(resolve(str(data))), limit)
    from wherefrom.api import load
    from wherefrom.optimus import fit

    chosen: dict[str, Any] = {"raw": raw, "metric": metric, "level": level, "fallback": fallback}
    found = fit(load(model, device=device), texts, **chosen)
    if out is not None:
        found.save(out)
    if as_json:
        sys.stdout.write(json_text(asdict(found)) + "\n")
        return
    console = Console(highlight=False)
    console.print(f"{found.combination}" + (f": {out}" if out else ""), style="bold", markup=False)
    console.print(
        f"mean {metric} over {found.texts} texts: {found.score:.4g}, the baseline {found.baseline:.4g}", markup=False
    )


def read_texts(path: Path, limit: int | None) -> list[str | tuple[str, str]]:
    """Texts or pairs, as many as there are or are wanted; blank lines are skipped."""
    from wherefrom.core.files import read_json_lines, reading

    if path.suffix in (".jsonl", ".json"):
        return [_text_of(where, row) for where, row in islice(read_json_lines(path), limit)]
    with reading(path), path.open(encoding="utf-8") as lines:
        return list(islice((line.rstrip("\n") for line in lines if line.strip()), limit))


def _text_of(where: str, row: Mapping[str, Any]) -> str | tuple[str, str]:
    if "text" in row:
        return str(row["text"])
    if "text_a" not in row or "text_b" not in row:
        raise BadFile(f"{where}: an object needs the field 'text', or 'text_a' and 'text_b'.")
    return str(row["text_a"]), str(row["text_b"])
