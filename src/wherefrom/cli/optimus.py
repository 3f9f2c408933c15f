"""The command of Optimus: `wherefrom optimus` fits a combination of attention operations on texts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from wherefrom.cli import arguments as cli
from wherefrom.errors import UnknownName


@cli.app.command(
    rich_help_panel="Look into a model",
    epilog=cli.examples(
        "wherefrom optimus --data sample:reviews --limit 10",
        "wherefrom optimus --data texts.txt --out combination.json --metric rft",
    ),
)
def optimus(
    data: Annotated[
        str, typer.Option(help="Texts or pairs, read as 'wherefrom run' reads them: a file (.txt has one a line), ...")
    ],
    model: cli.ModelOption = "embedded",
    out: Annotated[
        Path | None, typer.Option(help="Write the combination here, for: explain --method optimus -o combination=FILE")
    ] = None,
    raw: Annotated[str, typer.Option(help="A (after the softmax), A* (before it) or both.")] = "A",
    metric: Annotated[str, typer.Option(help="The metric that chooses the combination.")] = "rft",
    level: cli.LevelOption = "token",
    fallback: Annotated[
        str, typer.Option(help="If nothing scores above zero: the maximum all the same, or the baseline.")
    ] = "maximum",
    limit: Annotated[int | None, typer.Option(min=1, help="Read only so many texts.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The folder of data sets with ready names.")] = None,
    as_json: cli.JsonOption = False,
    device: cli.DeviceOption = None,
) -> None:
    """Fit one combination of attention operations on texts (Optimus Batch); never on those it is tried on."""
    for name, value, known in (
        ("raw", raw, ("A", "A*", "both")),
        ("level", level, ("token", "word", "sentence")),
        ("fallback", fallback, ("maximum", "baseline")),
    ):
        if value not in known:
            raise UnknownName.among(name, value, known)
    cli.check_names("metric", metric)
    texts = [example.asked for example in cli.read_examples(data, limit, data_dir=data_dir)]
    from wherefrom.optimus import fit

    chosen: dict[str, Any] = {"raw": raw, "metric": metric, "level": level, "fallback": fallback}
    fitted = fit(cli.load(model, device=device), texts, **chosen)
    if out is not None:
        fitted.save(out)
    if as_json:
        cli.print_json(asdict(fitted))
        return
    console = Console(highlight=False)
    console.print(f"{fitted.combination}" + (f": {out}" if out else ""), style="bold", markup=False)
    console.print(
        f"mean {metric} over {fitted.texts} texts: {fitted.score:.4g}, the baseline {fitted.baseline:.4g}", markup=False
    )
