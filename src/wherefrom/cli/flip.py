"""The command `wherefrom flip`."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from wherefrom.cli import arguments as cli


@cli.app.command(
    rich_help_panel="Explain one text",
    epilog=cli.examples(
        'wherefrom flip "A gorgeous, witty film, but the plot drags."',
        'wherefrom flip "A fine film, and well played." --fill mask --level token --html flip.html',
    ),
)
def flip(
    text: cli.TextArgument = None,
    pair: cli.PairOption = None,
    chat: cli.ChatOption = None,
    model: cli.ModelOption = "embedded",
    to: Annotated[
        str | None, typer.Option(help="The label or token that it should become.", show_default="any other")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="The method whose scores order the search in texts of more than 12 units.",
            show_default="hiding each alone",
        ),
    ] = None,
    level: cli.LevelOption = "word",
    units: cli.UnitsOption = None,
    fill: Annotated[str, typer.Option(help="How units are hidden: delete, mask, unk, pad or eos.")] = "delete",
    option: cli.MethodParamsOption = None,
    as_json: cli.JsonOption = False,
    html: cli.HtmlOption = None,
    open_page: cli.OpenOption = False,
    candidates: cli.CandidatesOption = None,
    template: cli.TemplateOption = None,
    multi_label: cli.MultiLabelOption = False,
    device: cli.DeviceOption = None,
) -> None:
    """Find the smallest set of words whose hiding changes the decision."""
    inputs, spans = cli.read_input(text, pair, chat), cli.read_spans("unit", units)
    name, options = (None, cli.read_options(option or [])) if method is None else cli.method_and_options(method, option)
    cli.check_open(html, open_page)
    cli.check_names("method", name)
    cli.check_target(to)
    zero_shot = cli.candidate_labels(candidates, template, multi_label=multi_label)

    depth = cast("Any", level)  # flip() raises on an unknown level
    result = cli.load(model, device=device, **zero_shot).flip(
        inputs, to, name, depth, fill=fill, units=spans, **options
    )
    cli.present(result, as_json=as_json, html=html, open_page=open_page)
