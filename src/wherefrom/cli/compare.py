"""The command `wherefrom compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from wherefrom.cli import arguments as cli


@cli.app.command(
    rich_help_panel="Explain one text",
    epilog=cli.examples(
        'wherefrom compare "A gorgeous, witty film, but the plot drags."',
        'wherefrom compare "A fine film." --methods attcat,alti:norm=l2,random --metrics all --all --html page.html',
    ),
)
def compare(
    text: cli.TextArgument = None,
    pair: cli.PairOption = None,
    chat: cli.ChatOption = None,
    model: cli.ModelOption = "embedded",
    methods: cli.MethodsOption = "default",
    metrics: cli.MetricsOption = "default",
    target: cli.TargetOption = None,
    versus: cli.VersusOption = None,
    level: cli.ViewLevelOption = None,
    units: cli.UnitsOption = None,
    rationale: Annotated[
        str | None, typer.Option(help="What people marked in the text, in characters: 'start:end,start:end'.")
    ] = None,
    rationale_pair: Annotated[str | None, typer.Option(help="The same for the second text.")] = None,
    answer: Annotated[
        str | None, typer.Option(help="The right answer to a question.", show_default="the predicted one")
    ] = None,
    against: cli.AgainstOption = None,
    as_json: cli.JsonOption = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every metric, with ranks and passes, instead of three.")
    ] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Also check every explanation.")] = True,
    html: cli.HtmlOption = None,
    open_page: cli.OpenOption = False,
    spread: cli.SpreadOption = None,
    fill_model: cli.FillModelOption = None,
    candidates: cli.CandidatesOption = None,
    template: cli.TemplateOption = None,
    multi_label: cli.MultiLabelOption = False,
    device: cli.DeviceOption = None,
) -> None:
    """Explain one text by many methods, and measure how faithful each is."""
    inputs, spans, aim = (
        cli.read_input(text, pair, chat),
        cli.read_spans("unit", units),
        cli.read_target(target, versus),
    )
    marked, marked_pair = cli.read_spans("rationale", rationale), cli.read_spans("rationale", rationale_pair)
    cli.check_open(html, open_page)
    cli.check_names("method", methods)
    cli.check_names("metric", metrics)
    cli.check_second(metrics, against)
    zero_shot = cli.candidate_labels(candidates, template, multi_label=multi_label)

    comparison = cli.load(model, device=device, spread=spread, fill_model=fill_model, **zero_shot).compare(
        inputs,
        methods,
        metrics,
        aim,
        cli.view_level(level, spans),
        rationale=marked,
        rationale_pair=marked_pair,
        answer=answer,
        check=check,
        units=spans,
        against=[cli.load(other, device=device, **zero_shot) for other in against or ()],
    )
    cli.present(
        comparison, as_json=as_json, html=html, open_page=open_page, show=lambda: comparison.show(full=everything)
    )
