"""The command line: thin commands over the Python interface. Torch is loaded only when a model is."""

from __future__ import annotations

import json
import sys
import warnings
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence import __version__
from whence.errors import BadFile, BadOption, EmptyText, WhenceError

if TYPE_CHECKING:
    from whence.core.explanation import Explanation
    from whence.core.units import Level

app = typer.Typer(
    help="Where a transformer's decision comes from, and whether to believe the answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
problems = Console(stderr=True, highlight=False)

ModelOption = Annotated[str, typer.Option("--model", "-m", help="'embedded', a folder, or a hub id.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a view.")]


@app.command()
def explain(
    text: Annotated[str | None, typer.Argument(help="The text to explain; '-' reads standard input.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    model: ModelOption = "embedded",
    method: Annotated[str, typer.Option(help="A name from 'whence methods'.")] = "attcat",
    minus: Annotated[str | None, typer.Option(help="A second method: show where the first gives more (+) or less (-).")] = None,
    target: Annotated[str | None, typer.Option(help="The label, token or answer to explain. [default: the predicted one]")] = None,
    versus: Annotated[str | None, typer.Option(help="Another label or token: explain why the target rather than this.")] = None,
    each: Annotated[bool, typer.Option("--each", help="One explanation for every label that a multi-label model predicts.")] = False,
    level: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    option: Annotated[list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")] = None,
    as_json: JsonOption = False,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page to this file.")] = None,
    special: Annotated[bool, typer.Option(help="Show the tokens that the tokenizer added, too.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...")] = None,
) -> None:
    """Show which tokens made the model decide so."""
    words, options = _text(text), _options(option or [])
    from whence.api import load

    asked: Any = words if pair is None else (words, pair)
    loaded = load(model, device=device)
    depth = cast("Level", level)  # explain() says what is wrong with it
    aim = target if versus is None else (_needed(target), versus)
    if each:
        if target is not None or minus is not None:
            raise BadOption("--each explains every predicted label: give neither --target nor --minus with it.")
        _present_each(loaded.explain(asked, method, loaded.predicted(asked), depth, **options), as_json=as_json, html=html, special=special)
        return
    shown = [loaded.explain(asked, method, aim, depth, **options)]
    if minus is not None:
        shown.append(loaded.explain(asked, minus, aim, depth))
    _present(shown, as_json=as_json, html=html, special=special)


def _present_each(shown: list[Explanation], *, as_json: bool, html: Path | None, special: bool) -> None:
    if html is not None:
        from whence.report.html import page

        _write(html, page(shown, special=special))
    if as_json:
        sys.stdout.write(json.dumps([one.to_dict() for one in shown], ensure_ascii=False) + "\n")
        return
    for one in shown:
        one.show(special=special)


def _present(shown: list[Explanation], *, as_json: bool, html: Path | None, special: bool) -> None:
    result = shown[0] if len(shown) == 1 else shown[0].minus(shown[1])
    if html is not None:
        from whence.report.html import page

        _write(html, page(shown, special=special))
    if as_json:
        sys.stdout.write(result.to_json() + "\n")
    else:
        result.show(special=special)


@app.command()
def methods(as_json: JsonOption = False) -> None:
    """List the methods."""
    from whence.registry import all_methods, options_of

    rows = all_methods()
    options = {row.name: {name: p.default for name, p in options_of(row.function).items()} for row in rows}
    if as_json:
        plain = ("name", "family", "signed", "per_class", "reads", "summary", "paper")
        listed = [{key: getattr(row, key) for key in plain} | {"options": options[row.name]} for row in rows]
        sys.stdout.write(json.dumps(listed, ensure_ascii=False) + "\n")
        return
    console = Console(highlight=False)
    for family, members in groupby(rows, key=lambda row: row.family):
        console.print(Text(f"\n{family}", "bold underline"))
        for row in members:
            traits = [_sign(row.signed), "depends on the class" if row.per_class else "the same for every class"]
            settings = " ".join(f"-o {name}={value}" for name, value in options[row.name].items())
            console.print(Text.assemble((row.name, "bold cyan"), (f"  {', '.join(traits)}", "dim")))
            body = Text(row.summary)
            body.append(f"\n{row.paper}" if row.paper != "none" else "", "dim")
            body.append(f"\n{settings}" if settings else "", "green")
            console.print(Padding(body, (0, 0, 0, 4)))


def _sign(signed: bool) -> str:
    return "for and against" if signed else "importance only"


@app.command()
def doctor(
    model: Annotated[str, typer.Argument(help="'embedded', a folder, or a hub id.")] = "embedded",
    relevance: Annotated[bool, typer.Option("--relevance", help="Follow relevance through the model, layer by layer.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what was found in a model, check it, and try every method on it."""
    from whence.api import load
    from whence.doctor import examine

    if relevance:
        from whence.cli_heads import follow_relevance

        follow_relevance(model, as_json=as_json)
        return
    found = examine(load(model))
    if as_json:
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
    else:
        console = Console(highlight=False)
        facts = Table.grid(padding=(0, 2))
        for name, value in found["facts"].items():
            facts.add_row(Text(name, style="bold"), Text(", ".join(map(str, value)) if isinstance(value, list) else str(value)))
        console.print(facts, "")
        table = Table("method", "works", "why not")
        for name, reason in found["methods"].items():
            table.add_row(Text(name), Text("yes", "green") if reason is None else Text("no", "red"), Text(reason or ""))
        console.print(table)
    if found["broken"]:
        raise typer.Exit(1)


def _text(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise EmptyText("Give a text to explain: whence explain \"A fine film.\" (or '-' to read standard input).")
    if given not in (None, "-"):
        return str(given)
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadFile(f"Standard input is not UTF-8 text: {error.reason} at byte {error.start}.") from error


def _needed(target: str | None) -> str:
    if target is None:
        raise BadOption("--versus compares with a --target: give both.")
    return target


def _options(given: list[str]) -> dict[str, str]:
    options = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BadOption(f"-o takes key=value, such as -o steps=100, not {pair!r}.")
        options[key.strip().replace("-", "_")] = value.strip()
    return options


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise BadFile(f"{path} could not be written: {error.strerror or error}.") from error


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"whence {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False) -> None:
    pass


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
) -> None:
    problems.print(Text.assemble(("warning: ", "yellow"), str(message)))


def main() -> None:
    """A user's mistake is one line on standard error: exit code 2 for usage, 1 for failures."""
    import whence.cli_compare  # each brings its commands
    import whence.cli_flow
    import whence.cli_heads
    import whence.cli_optimus
    import whence.cli_run
    import whence.cli_study  # noqa: F401

    warnings.showwarning = _warn
    try:
        app()
    except WhenceError as error:
        problems.print(Text.assemble(("error: ", "bold red"), " ".join(str(error).split())), soft_wrap=True)
        sys.exit(error.exit_code)
