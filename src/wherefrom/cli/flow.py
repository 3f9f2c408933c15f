"""The command `wherefrom flow`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wherefrom.cli import arguments as cli


@cli.app.command(
    rich_help_panel="Explain one text",
    epilog=cli.examples(
        'wherefrom flow "A gorgeous, witty film."',
        'wherefrom flow "A fine film." --method globenc --html flow.html --open',
    ),
)
def flow(
    text: cli.TextArgument = None,
    pair: cli.PairOption = None,
    model: cli.ModelOption = "embedded",
    method: Annotated[str, typer.Option(help="alti, globenc, norms or attention_rollout.")] = "alti",
    option: cli.MethodParamsOption = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a self-contained page: point at a token, see where it came from.", metavar="FILE"),
    ] = None,
    open_page: cli.OpenOption = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of every layer (.png, .pdf, .svg).")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the numbers as JSON.")] = None,
    device: cli.DeviceOption = None,
) -> None:
    """Show which tokens the content of each position comes from, layer by layer."""
    name, options = cli.method_and_options(method, option)
    inputs = cli.read_input(text, pair)
    cli.check_open(html, open_page)
    cli.check_names("method", name)

    result = cli.load(model, device=device).flow(inputs, name, **options)
    cli.write_page(html, result.to_html, open_it=open_page)
    if plot is not None:
        from wherefrom.report.plots import flow_layers

        flow_layers(result, plot)
    if save is not None:
        result.save(save)
    result.show()
