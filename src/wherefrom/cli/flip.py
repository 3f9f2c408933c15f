"""The command `wherefrom flip`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer

from wherefrom.cli.arguments import (
    CandidatesOption,
    DeviceOption,
    HtmlOption,
    JsonOption,
    LevelOption,
    ModelOption,
    MultiLabelOption,
    OpenOption,
    TemplateOption,
    UnitsOption,
    app,
    candidate_labels,
    check_names,
    check_open,
    check_target,
    examples,
    load,
    method_and_options,
    read_options,
    read_spans,
    read_text,
    write_page,
)


@app.command(
    rich_help_panel="Explain one text",
    epilog=examples(
        'wherefrom flip "A gorgeous, witty film, but the plot drags."',
        'wherefrom flip "A fine film, and well played." --fill mask --level token --html flip.html',
    ),
)
def flip(
    text: Annotated[str | None, typer.Argument(help="The text; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
    to: Annotated[
        str | None, typer.Option(help="The label or token that it should become.", show_default="any other")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Whose scores are followed in texts of more than 12 units.", show_default="hiding each alone"
        ),
    ] = None,
    level: LevelOption = "word",
    units: UnitsOption = None,
    fill: Annotated[str, typer.Option(help="How units are hidden: delete, mask, unk, pad or eos.")] = "delete",
    option: Annotated[
        list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
    open_page: OpenOption = False,
    candidates: CandidatesOption = None,
    template: TemplateOption = None,
    multi_label: MultiLabelOption = False,
    device: DeviceOption = None,
) -> None:
    """Find the smallest set of words whose hiding changes the decision."""
    words, chosen = read_text(text), read_spans("unit", units)
    name, options = (None, read_options(option or [])) if method is None else method_and_options(method, option)
    check_open(html, open_page)
    check_names("method", name)
    check_target(to)
    zero_shot = candidate_labels(candidates, template, multi_label=multi_label)

    inputs: Any = words if pair is None else (words, pair)
    depth = cast("Any", level)  # flip() says what is wrong with it
    result = load(model, device=device, **zero_shot).flip(inputs, to, name, depth, fill=fill, units=chosen, **options)
    write_page(html, result.to_html, open_it=open_page)
    if as_json:
        sys.stdout.write(result.to_json() + "\n")
    else:
        result.show()
