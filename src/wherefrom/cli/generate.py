"""The command `wherefrom generate`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wherefrom.cli.arguments import (
    DeviceOption,
    HtmlOption,
    JsonOption,
    OpenOption,
    app,
    check_names,
    check_open,
    check_target,
    examples,
    load,
    method_and_options,
    read_text,
    write_page,
)
from wherefrom.errors import BadOption


@app.command(
    rich_help_panel="Explain one text",
    epilog=examples(
        'wherefrom generate "The keys to the cabinet" --model MODEL --tokens 10',
        'wherefrom generate "The keys to the cabinet" --model MODEL --target "are old" --versus "is old"',
        'wherefrom generate "translate English to German: The house is old." --model T5 --html page.html',
    ),
)
def generate(
    prompt: Annotated[str | None, typer.Argument(help="The prompt; '-' reads standard input.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A folder or hub id of a model that generates text.")
    ] = None,
    method: Annotated[str, typer.Option(help="A name from 'wherefrom methods'.")] = "saliency",
    tokens: Annotated[int, typer.Option(help="How many tokens are generated at most.")] = 20,
    target: Annotated[
        str | None,
        typer.Option(help="What follows the prompt, or the output.", show_default="what the model generates"),
    ] = None,
    versus: Annotated[
        str | None, typer.Option(help="Another continuation: explain each token rather than this one's.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
    open_page: OpenOption = False,
    device: DeviceOption = None,
) -> None:
    """Let a language model continue or translate a text, and show what each generated token came from."""
    words = read_text(prompt)
    name, options = method_and_options(method, option)
    check_open(html, open_page)
    check_names("method", name)
    check_target(target, versus)
    if model is None:
        raise BadOption("Name a model that generates text: --model FOLDER. The embedded one only classifies.")

    generation = load(model, device=device).generate_and_explain(
        words, name, tokens=tokens, continuation=target, rather_than=versus, **options
    )
    write_page(html, generation.to_html, open_it=open_page)
    if as_json:
        sys.stdout.write(generation.to_json() + "\n")
    else:
        generation.show()
