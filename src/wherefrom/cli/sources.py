"""The command `wherefrom sources`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from wherefrom.cli.arguments import (
    DeviceOption,
    HtmlOption,
    JsonOption,
    OpenOption,
    app,
    check_open,
    examples,
    load,
    method_and_options,
    read_text,
    write_page,
)
from wherefrom.core.sources import Division
from wherefrom.errors import BadFile, BadOption


@app.command(
    rich_help_panel="Explain one text",
    epilog=examples(
        'wherefrom sources "Who designed the library?" --context library.txt --context town.txt --model MODEL',
        'wherefrom sources "Who designed the library?" --context library.txt --model MODEL --answer "Clara Voss."',
        'wherefrom sources "Who designed the library?" --context library.txt --model MODEL --html why.html',
        'wherefrom sources "Who designed it?" --context library.txt --model MODEL --methods leave_one_out,attn_lrp',
        'wherefrom sources "Who designed it?" --context library.txt --model http://127.0.0.1:8000/v1',
    ),
)
def sources(
    question: Annotated[str | None, typer.Argument(help="The question; '-' reads standard input.")] = None,
    context: Annotated[
        list[Path] | None, typer.Option(help="A text file with a passage; may be repeated, and is named by its file.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="A folder or hub id of a causal language model, or the address of a server."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Of a model on a server: the folder or hub id of its tokenizer, for its chats.")
    ] = None,
    answer: Annotated[
        str | None, typer.Option(help="The answer to explain.", show_default="what the model answers")
    ] = None,
    by: Annotated[Division, typer.Option(help="What a source is: sentence, paragraph or document.")] = "sentence",
    method: Annotated[
        str,
        typer.Option(
            help="leave_one_out, context_cite, hierarchical, kernel_shap, random, or a name from 'wherefrom methods'.",
        ),
    ] = "auto",
    methods: Annotated[
        str | None,
        typer.Option(help="Grade several methods instead, with commas: what happens without their highest sources."),
    ] = None,
    tokens: Annotated[int, typer.Option(help="How many tokens are generated at most.")] = 64,
    option: Annotated[
        list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
    open_page: OpenOption = False,
    device: DeviceOption = None,
) -> None:
    """Show which passages made a language model give an answer, and test it by removing them."""
    words = read_text(question)
    name, options = method_and_options(method, option)
    check_open(html, open_page)
    if model is None:
        raise BadOption("Name a causal language model: --model FOLDER. The embedded one only classifies.")
    if not context:
        raise BadOption("There is no passage: give text files with --context FILE.")
    passages: dict[str, str] = {}
    for file in context:
        try:
            passages[_name(file, passages)] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise BadFile(f"{file} is not text in UTF-8.") from error
        except OSError as error:
            raise BadFile(f"{file} cannot be read: {error.strerror}.") from error
    if tokenizer is not None and not model.startswith(("http://", "https://")):
        raise BadOption("--tokenizer belongs to the address of a server: a folder or hub id has its own.")
    if methods is not None:
        if html is not None or option or method != "auto":
            raise BadOption("--methods prints a table: leave out --method, -o and --html, or --methods.")
        names = [name.strip() for name in methods.split(",") if name.strip()]
        comparison = load(model, tokenizer=tokenizer, device=device).compare_sources(
            words, passages, answer, by=by, methods=names, tokens=tokens
        )
        if as_json:
            sys.stdout.write(comparison.to_json() + "\n")
        else:
            comparison.show()
        return
    result = load(model, tokenizer=tokenizer, device=device).sources(
        words,
        passages,
        answer,
        by=by,
        method=name,
        tokens=tokens,
        **options,  # type: ignore[arg-type]
    )
    write_page(html, result.to_html, open_it=open_page)
    if as_json:
        sys.stdout.write(result.to_json() + "\n")
    else:
        result.show()


def _name(file: Path, taken: dict[str, str]) -> str:
    """The file's name; with its folder where another file has the same."""
    return str(file) if file.name in taken else file.name
