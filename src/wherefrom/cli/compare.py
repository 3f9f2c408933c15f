"""The command `wherefrom compare`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer

from wherefrom.cli.arguments import (
    AgainstOption,
    CandidatesOption,
    DeviceOption,
    HtmlOption,
    JsonOption,
    LevelOption,
    MethodsOption,
    MetricsOption,
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
    check_second,
    check_target,
    examples,
    load,
    read_spans,
    read_text,
    target_of_versus,
    write_page,
)


@app.command(
    rich_help_panel="Explain one text",
    epilog=examples(
        'wherefrom compare "A gorgeous, witty film, but the plot drags."',
        'wherefrom compare "A fine film." --methods attcat,alti:norm=l2,random --metrics all --html page.html',
    ),
)
def compare(
    text: Annotated[str | None, typer.Argument(help="The text to explain; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
    methods: MethodsOption = "default",
    metrics: MetricsOption = "default",
    target: Annotated[
        str | None, typer.Option(help="The label, token or answer to explain.", show_default="the predicted one")
    ] = None,
    versus: Annotated[
        str | None, typer.Option(help="Another label or token: explain why the target rather than this.")
    ] = None,
    level: LevelOption = "token",
    units: UnitsOption = None,
    rationale: Annotated[
        str | None, typer.Option(help="What people marked in the text, in characters: 'start:end,start:end'.")
    ] = None,
    rationale_pair: Annotated[str | None, typer.Option(help="The same for the second text.")] = None,
    answer: Annotated[
        str | None, typer.Option(help="The right answer to a question.", show_default="the predicted one")
    ] = None,
    against: AgainstOption = None,
    as_json: JsonOption = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Put every explanation to its own test, too.")
    ] = True,
    html: HtmlOption = None,
    open_page: OpenOption = False,
    spread: SpreadOption = None,
    candidates: CandidatesOption = None,
    template: TemplateOption = None,
    multi_label: MultiLabelOption = False,
    device: DeviceOption = None,
) -> None:
    """Explain one text by many methods, and measure how faithful each is."""
    words, chosen = read_text(text), read_spans("unit", units)
    marked, marked_pair = read_spans("rationale", rationale), read_spans("rationale", rationale_pair)
    check_open(html, open_page)
    check_names("method", methods)
    check_names("metric", metrics)
    check_second(metrics, against)
    check_target(target, versus)
    aim = target if versus is None else (target_of_versus(target), versus)
    zero_shot = candidate_labels(candidates, template, multi_label=multi_label)

    inputs: Any = words if pair is None else (words, pair)
    comparison = load(model, device=device, spread=spread, **zero_shot).compare(
        inputs,
        methods,
        metrics,
        aim,
        cast("Any", level),  # compare() says what is wrong with it
        rationale=marked,
        rationale_pair=marked_pair,
        answer=answer,
        check=check,
        units=chosen,
        against=[load(other, device=device, **zero_shot) for other in against or ()],
    )
    write_page(html, comparison.to_html, open_it=open_page)
    if as_json:
        sys.stdout.write(comparison.to_json() + "\n")
    else:
        comparison.show()
