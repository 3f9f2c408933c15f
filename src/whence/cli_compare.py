"""The commands `whence metrics` and `whence compare`."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from whence.cli import JsonOption, ModelOption, _needed, _text, _write, app
from whence.errors import BadOption

HEADINGS = {
    None: "measured on the model alone",
    "others": "measured against the other classes",
    "rationale": "measured against what people marked (--rationale)",
    "answer": "measured against a question's answer",
    "second": "measured against another model (--against)",
}


@app.command()
def metrics(as_json: JsonOption = False) -> None:
    """List the metrics."""
    from whence.registry import all_metrics, options_of

    rows = all_metrics()
    options = {row.name: {name: p.default for name, p in options_of(row.function).items()} for row in rows}
    if as_json:
        plain = ("name", "better", "fill", "needs", "summary", "paper")
        listed = [{key: getattr(row, key) for key in plain} | {"options": options[row.name]} for row in rows]
        sys.stdout.write(json.dumps(listed, ensure_ascii=False) + "\n")
        return
    console = Console(highlight=False)
    for needs, members in groupby(rows, key=lambda row: row.needs):
        console.print(Text(f"\n{HEADINGS[needs]}", "bold underline"))
        for row in members:
            settings = ":".join(f"{name}={value}" for name, value in options[row.name].items())
            console.print(Text.assemble((row.name, "bold cyan"), (f"  {row.better} is better", "dim")))
            body = Text(row.summary)
            body.append(f"\n{row.paper}", "dim")
            body.append(f"\n{row.name}:{settings}" if settings else "", "green")
            console.print(Padding(body, (0, 0, 0, 4)))


@app.command()
def compare(
    text: Annotated[str | None, typer.Argument(help="The text to explain; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
    methods: Annotated[str, typer.Option(help="Names between commas, with options as alti:norm=l2; or 'all'.")] = "all",
    metrics: Annotated[str, typer.Option(help="Names between commas, with options as aopc:fill=pad; or 'all'.")] = "all",
    target: Annotated[str | None, typer.Option(help="The label, token or answer to explain. [default: the predicted one]")] = None,
    versus: Annotated[str | None, typer.Option(help="Another label or token: explain why the target rather than this.")] = None,
    level: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    rationale: Annotated[str | None, typer.Option(help="What people marked in the text, in characters: 'start:end,start:end'.")] = None,
    rationale_pair: Annotated[str | None, typer.Option(help="The same for the second text.")] = None,
    answer: Annotated[str | None, typer.Option(help="The right answer to a question. [default: the predicted one]")] = None,
    against: Annotated[str | None, typer.Option(help="Another model, for metrics that compare two.")] = None,
    as_json: JsonOption = False,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page to this file.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...")] = None,
) -> None:
    """Explain one text by many methods, and measure how faithful each is."""
    words, marked, marked_pair = _text(text), _spans(rationale), _spans(rationale_pair)
    aim = target if versus is None else (_needed(target), versus)
    from whence.api import load

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
        _write(html, found.to_html())
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
            raise BadOption(f"A rationale is given in characters as start:end,start:end, such as 2:10,15:20, not {part.strip()!r}.")
        spans.append((int(start), int(end)))
    return spans
