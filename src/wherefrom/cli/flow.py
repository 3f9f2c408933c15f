"""The command `wherefrom flow`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wherefrom.cli.arguments import ModelOption, app, check_names, read_options, read_text, write_file


@app.command()
def flow(
    text: Annotated[str | None, typer.Argument(help="The text to follow; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
    method: Annotated[str, typer.Option(help="alti, globenc, norms or attention_rollout.")] = "alti",
    option: Annotated[
        list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a self-contained page: point at a token, see where it came from.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of every layer (.png, .pdf, .svg).")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the numbers as JSON.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...")] = None,
) -> None:
    """Show where what each token holds came from, layer by layer."""
    words, options = read_text(text), read_options(option or [])
    check_names("method", method)
    from wherefrom.api import load

    asked: Any = words if pair is None else (words, pair)
    found = load(model, device=device).flow(asked, method, **options)
    if html is not None:
        write_file(html, found.to_html())
    if plot is not None:
        from wherefrom.report.plots import flow_layers

        flow_layers(found, plot)
    if save is not None:
        found.save(save)
    found.show()
