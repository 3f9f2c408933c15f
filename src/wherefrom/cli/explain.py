"""The command `wherefrom explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from wherefrom.catalogue import AUTO
from wherefrom.cli.arguments import (
    CandidatesOption,
    DeviceOption,
    HtmlOption,
    JsonOption,
    LevelOption,
    ModelOption,
    MultiLabelOption,
    OpenOption,
    SpreadOption,
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
    read_spans,
    read_text,
    target_of_versus,
    write_page,
)
from wherefrom.cli.completion import complete_label, complete_method
from wherefrom.core.files import json_text
from wherefrom.errors import BadOption, UnknownName

if TYPE_CHECKING:
    from wherefrom.case.windows import LongTexts
    from wherefrom.core.explanation import Explanation, Theme
    from wherefrom.core.units import Level


@app.command(
    rich_help_panel="Explain one text",
    epilog=examples(
        'wherefrom explain "A gorgeous, witty film."',
        'wherefrom explain "A fine film." --method integrated_gradients -o steps=100 --level word --html page.html',
    ),
)
def explain(
    text: Annotated[str | None, typer.Argument(help="The text to explain; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
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
    target: Annotated[
        str | None,
        typer.Option(
            help="The label, token or answer to explain.",
            show_default="the predicted one",
            autocompletion=complete_label,
        ),
    ] = None,
    versus: Annotated[
        str | None, typer.Option(help="Another label or token: explain why the target rather than this.")
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="One explanation for every label that a multi-label model predicts.")
    ] = False,
    level: LevelOption = "token",
    units: UnitsOption = None,
    long: Annotated[
        str, typer.Option(help="A text that is longer than the model reads: cut, or windows, which overlap.")
    ] = "cut",
    option: Annotated[
        list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
    open_page: OpenOption = False,
    special: Annotated[bool, typer.Option(help="Show the tokens that the tokenizer added, too.")] = False,
    check: Annotated[
        bool, typer.Option(help="Hide the strongest units, and as many at random, and say what the model did.")
    ] = True,
    theme: Annotated[
        str, typer.Option(help="The terminal's background: light, dark, none (no colour), or auto to find out.")
    ] = "auto",
    spread: SpreadOption = None,
    candidates: CandidatesOption = None,
    template: TemplateOption = None,
    multi_label: MultiLabelOption = False,
    device: DeviceOption = None,
) -> None:
    """Show which tokens made the model decide so."""
    words, chosen = read_text(text), read_spans("unit", units)
    method, options = method_and_options(method, option)
    check_open(html, open_page)
    check_names("method", None if method == AUTO else method, minus)
    check_target(target, versus)
    from wherefrom.core.explanation import Theme as Themes

    if theme not in get_args(Themes):
        raise UnknownName.among("theme", theme, get_args(Themes))
    colours = cast("Theme", theme)
    zero_shot = candidate_labels(candidates, template, multi_label=multi_label)

    inputs: Any = words if pair is None else (words, pair)
    loaded = load(model, device=device, spread=spread, **zero_shot)
    depth = cast("Level", level)  # explain() says what is wrong with it
    aim = target if versus is None else (target_of_versus(target), versus)
    reading = cast("LongTexts", long)
    if each:
        if target is not None or minus is not None:
            raise BadOption("--each explains every predicted label: give neither --target nor --minus with it.")
        _present_each(
            loaded.explain(
                inputs, method, loaded.predicted(inputs), depth, check=check, units=chosen, long=reading, **options
            ),
            as_json=as_json,
            html=html,
            open_page=open_page,
            special=special,
            theme=colours,
        )
        return
    check = check and (minus is None or html is not None)  # a difference has no check; its page shows both explanations
    shown = [loaded.explain(inputs, method, aim, depth, check=check, units=chosen, long=reading, **options)]
    if minus is not None:
        shown.append(loaded.explain(inputs, minus, aim, depth, check=check, units=chosen, long=reading))
    _present(shown, as_json=as_json, html=html, open_page=open_page, special=special, theme=colours)


def _present_each(
    shown: list[Explanation], *, as_json: bool, html: Path | None, open_page: bool, special: bool, theme: Theme
) -> None:
    _write(shown, html, special=special, open_page=open_page)
    if as_json:
        sys.stdout.write(json_text([explanation.to_dict() for explanation in shown]) + "\n")
        return
    for explanation in shown:
        explanation.show(special=special, theme=theme)


def _present(
    shown: list[Explanation], *, as_json: bool, html: Path | None, open_page: bool, special: bool, theme: Theme
) -> None:
    result = shown[0] if len(shown) == 1 else shown[0].minus(shown[1])
    _write(shown, html, special=special, open_page=open_page)
    if as_json:
        sys.stdout.write(result.to_json() + "\n")
    else:
        result.show(special=special, theme=theme)


def _write(shown: list[Explanation], html: Path | None, *, special: bool, open_page: bool) -> None:
    def page() -> str:
        from wherefrom.report.html import page

        return page(shown, special=special)

    write_page(html, page, open_it=open_page)
