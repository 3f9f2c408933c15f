"""The command `wherefrom explain`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from wherefrom.catalogue import AUTO
from wherefrom.cli import arguments as cli
from wherefrom.cli.completion import complete_method
from wherefrom.errors import BadOption, UnknownName

if TYPE_CHECKING:
    from wherefrom.core.explanation import Theme


@cli.app.command(
    rich_help_panel="Explain one text",
    epilog=cli.examples(
        'wherefrom explain "A gorgeous, witty film."',
        'wherefrom explain "A fine film." --method integrated_gradients -o steps=100 --level token --html page.html',
        "wherefrom explain --chat chat.json --model MODEL --level turn",
    ),
)
def explain(
    text: cli.TextArgument = None,
    pair: cli.PairOption = None,
    chat: cli.ChatOption = None,
    model: cli.ModelOption = "embedded",
    method: Annotated[
        str,
        typer.Option(
            help="A name from 'wherefrom methods'; auto is attn_lrp for most tasks, and where that cannot look into the"
            " model, one that can.",
            autocompletion=complete_method,
        ),
    ] = AUTO,
    minus: Annotated[
        str | None, typer.Option(help="A second method: show where the first gives more (+) or less (-).")
    ] = None,
    target: cli.TargetOption = None,
    versus: cli.VersusOption = None,
    each: Annotated[
        bool, typer.Option("--each", help="One explanation for every label that a multi-label model predicts.")
    ] = False,
    level: cli.ViewLevelOption = None,
    units: cli.UnitsOption = None,
    long: Annotated[
        str, typer.Option(help="For texts longer than the model reads: cut, or windows, which overlap.")
    ] = "cut",
    option: cli.MethodParamsOption = None,
    as_json: cli.JsonOption = False,
    html: cli.HtmlOption = None,
    open_page: cli.OpenOption = False,
    special: Annotated[bool, typer.Option(help="Also show the tokens that the tokenizer added.")] = False,
    check: Annotated[
        bool, typer.Option(help="Check the explanation: hide the strongest units, then as many random ones.")
    ] = True,
    theme: Annotated[
        str, typer.Option(help="The terminal's background: light, dark, none (no colour), or auto to find out.")
    ] = "auto",
    spread: cli.SpreadOption = None,
    fill_model: cli.FillModelOption = None,
    candidates: cli.CandidatesOption = None,
    template: cli.TemplateOption = None,
    multi_label: cli.MultiLabelOption = False,
    device: cli.DeviceOption = None,
) -> None:
    """Show which words made the model decide so."""
    inputs: Any = cli.read_input(text, pair, chat)
    spans = cli.read_spans("unit", units)
    aim: Any = cli.read_target(target, versus)
    method, params = cli.method_and_options(method, option)
    options: Any = params
    cli.check_open(html, open_page)
    cli.check_names("method", None if method == AUTO else method, minus)
    from wherefrom.core.explanation import Theme as Themes

    if theme not in get_args(Themes):
        raise UnknownName.among("theme", theme, get_args(Themes))
    colours = cast("Theme", theme)
    zero_shot = cli.candidate_labels(candidates, template, multi_label=multi_label)
    if each and (target is not None or minus is not None):
        raise BadOption("--each explains every predicted label: give neither --target nor --minus with it.")
    check = check and (minus is None or html is not None)  # a difference has no check; its page shows both explanations
    # explain() raises on a way with long texts that it does not know.
    settings: Any = {"level": cli.view_level(level, spans), "check": check, "units": spans, "long": long}
    loaded = cli.load(model, device=device, spread=spread, fill_model=fill_model, **zero_shot)
    if each:
        explanations = loaded.explain(inputs, method, loaded.predicted(inputs), **settings, **options)
    else:
        explanations = [loaded.explain(inputs, method, aim, **settings, **options)]
    if minus is not None:
        explanations.append(loaded.explain(inputs, minus, aim, **settings))

    def page() -> str:
        from wherefrom.report.html import page

        return page(explanations, special=special)

    cli.write_page(html, page, open_it=open_page)
    printed = explanations if minus is None else [explanations[0].minus(explanations[1])]
    if not as_json:
        for explanation in printed:
            explanation.show(special=special, theme=colours)
    elif each:
        cli.print_json([explanation.to_dict() for explanation in printed])
    else:
        sys.stdout.write(printed[0].to_json() + "\n")
