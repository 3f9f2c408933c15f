"""The command `wherefrom compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from wherefrom.cli.arguments import (
    JsonOption,
    MethodsOption,
    MetricsOption,
    ModelOption,
    app,
    check_names,
    read_text,
    target_of_versus,
    write_file,
)
from wherefrom.errors import BadOption


@app.command()
def compare(
    text: Annotated[str | None, typer.Argument(help="The text to explain; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
    methods: MethodsOption = "default",
    metrics: MetricsOption = "default",
    target: Annotated[
        str | None, typer.Option(help="The label, token or answer to explain. [default: the predicted one]")
    ] = None,
    versus: Annotated[
        str | None, typer.Option(help="Another label or token: explain why the target rather than this.")
    ] = None,
    level: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    rationale: Annotated[
        str | None, typer.Option(help="What people marked in the text, in characters: 'start:end,start:end'.")
    ] = None,
    rationale_pair: Annotated[str | None, typer.Option(help="The same for the second text.")] = None,
    answer: Annotated[
        str | None, typer.Option(help="The right answer to a question. [default: the predicted one]")
    ] = None,
    against: Annotated[str | None, typer.Option(help="Another model, for metrics that compare two.")] = None,
    as_json: JsonOption = False,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page to this file.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...")] = None,
) -> None:
    """Explain one text by many methods, and measure how faithful each is."""
    words, marked, marked_pair = read_text(text), _spans(rationale), _spans(rationale_pair)
    check_names("method", methods)
    check_names("metric", metrics)
    check_second(metrics, against)
    aim = target if versus is None else (target_of_versus(target), versus)
    from wherefrom.api import load

    asked: Any = words if pair is None else (words, pair)
    found = load(model, device=device).compare(
        asked,
        methods,
        metrics,
        aim,
        cast("Any", level),  # compare() says what is wrong with it
        rationale=marked,
        rationale_pair=marked_pair,
        answer=answer,
        against=None if against is None else load(against, device=device),
    )
    if html is not None:
        write_file(html, found.to_html())
    if as_json:
        sys.stdout.write(found.to_json() + "\n")
    else:
        found.show()


def _spans(given: str | None) -> list[tuple[int, int]] | None:
    if given is None:
        return None
    spans = []
    for part in given.split(","):
        start, colon, end = part.strip().partition(":")
        if not (colon and start.strip().isdecimal() and end.strip().isdecimal()):
            raise BadOption(
                f"A rationale is given in characters as start:end,start:end, such as 2:10,15:20, not {part.strip()!r}."
            )
        spans.append((int(start), int(end)))
    return spans


def check_second(metrics: str, against: str | None) -> None:
    """Refuse metrics that compare two models where there is one, before anything is loaded."""
    from wherefrom.registry import listed

    two = {row.name for row in listed("metric") if row.get("needs") == "second"}
    asked = [name.strip() for name in metrics.split(",") if name.strip().partition(":")[0] in two]
    if asked and against is None:
        raise BadOption(f"{', '.join(asked)} compares two models: name the other one with --against.")
