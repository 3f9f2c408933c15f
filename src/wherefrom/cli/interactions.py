"""The command `wherefrom interactions`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from wherefrom.cli import arguments as cli


@cli.app.command(
    rich_help_panel="Explain one text",
    epilog=cli.examples(
        'wherefrom interactions "The film is not bad."',
        'wherefrom interactions "A fine film, and well played." --html pairs.html',
    ),
)
def interactions(
    text: cli.TextArgument = None,
    pair: cli.PairOption = None,
    chat: cli.ChatOption = None,
    model: cli.ModelOption = "embedded",
    target: cli.TargetOption = None,
    level: cli.LevelOption = "word",
    units: cli.UnitsOption = None,
    fill: Annotated[
        str, typer.Option(help="How units are hidden: delete, mask, unk, pad or eos; auto: as the model allows.")
    ] = "auto",
    samples: Annotated[int, typer.Option(help="How many combinations are queried, about; all where they fit.")] = 1024,
    seed: Annotated[int, typer.Option(help="Of the combinations, where not all fit.")] = 0,
    as_json: cli.JsonOption = False,
    html: cli.HtmlOption = None,
    save: Annotated[Path | None, typer.Option(help="Write the result as JSON.", metavar="FILE")] = None,
    open_page: cli.OpenOption = False,
    device: cli.DeviceOption = None,
) -> None:
    """Find pairs of words that do together what neither does alone, such as "not bad"."""
    inputs, spans = cli.read_input(text, pair, chat), cli.read_spans("unit", units)
    cli.check_open(html, open_page)
    cli.check_target(target)

    depth = cast("Any", level)  # interactions() raises on an unknown level
    result = cli.load(model, device=device).interactions(
        inputs, target, depth, units=spans, fill=fill, samples=samples, seed=seed
    )
    if save is not None:
        result.save(save)
    cli.present(result, as_json=as_json, html=html, open_page=open_page)
