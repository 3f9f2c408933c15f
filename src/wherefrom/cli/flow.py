"""The command `wherefrom flow`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wherefrom.cli.arguments import (
    DeviceOption,
    ModelOption,
    OpenOption,
    app,
    check_names,
    check_open,
    examples,
    load,
    method_and_options,
    read_text,
    write_page,
)


@app.command(
    rich_help_panel="Explain one text",
    epilog=examples(
        'wherefrom flow "A gorgeous, witty film."',
        'wherefrom flow "A fine film." --method globenc --html flow.html --open',
    ),
)
def flow(
    text: Annotated[str | None, typer.Argument(help="The text to follow; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
    method: Annotated[str, typer.Option(help="alti, globenc, norms or attention_rollout.")] = "alti",
    option: Annotated[
        list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a self-contained page: point at a token, see where it came from.", metavar="FILE"),
    ] = None,
    open_page: OpenOption = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of every layer (.png, .pdf, .svg).")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the numbers as JSON.")] = None,
    device: DeviceOption = None,
) -> None:
    """Show which tokens the content of each position comes from, layer by layer."""
    name, options = method_and_options(method, option)
    words = read_text(text)
    check_open(html, open_page)
    check_names("method", name)

    inputs: Any = words if pair is None else (words, pair)
    result = load(model, device=device).flow(inputs, name, **options)
    write_page(html, result.to_html, open_it=open_page)
    if plot is not None:
        from wherefrom.report.plots import flow_layers

        flow_layers(result, plot)
    if save is not None:
        result.save(save)
    result.show()
