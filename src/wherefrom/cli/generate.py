"""The command `wherefrom generate`."""

from __future__ import annotations

from typing import Annotated

import typer

from wherefrom.catalogue import AUTO
from wherefrom.cli import arguments as cli
from wherefrom.errors import BadOption


@cli.app.command(
    rich_help_panel="Explain one text",
    epilog=cli.examples(
        'wherefrom generate "The keys to the cabinet" --model MODEL --tokens 10',
        'wherefrom generate "The keys to the cabinet" --model MODEL --target "are old" --versus "is old"',
        'wherefrom generate "translate English to German: The house is old." --model T5 --html page.html',
    ),
)
def generate(
    prompt: Annotated[str | None, typer.Argument(help="The prompt; '-' reads standard input.")] = None,
    chat: cli.ChatOption = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A folder or hub id of a model that generates text.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="A name from 'wherefrom methods'; auto is attn_lrp, or the first that can look into the model."
        ),
    ] = AUTO,
    tokens: Annotated[int, typer.Option(help="How many tokens are generated at most.")] = 20,
    target: Annotated[
        str | None,
        typer.Option(help="What follows the prompt, or the output.", show_default="what the model generates"),
    ] = None,
    versus: Annotated[
        str | None, typer.Option(help="Another continuation: explain each token rather than this one's.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Hide the strongest words of each token, and as many at random, and say what the model did.",
        ),
    ] = True,
    option: cli.MethodParamsOption = None,
    as_json: cli.JsonOption = False,
    html: cli.HtmlOption = None,
    open_page: cli.OpenOption = False,
    device: cli.DeviceOption = None,
) -> None:
    """Let a language model continue or translate a text, and show what each generated token came from."""
    words = cli.read_input(prompt, None, chat)
    name, options = cli.method_and_options(method, option)
    cli.check_open(html, open_page)
    cli.check_names("method", None if name == AUTO else name)
    cli.check_target(target, versus)
    if model is None:
        raise BadOption("Name a model that generates text: --model FOLDER. The embedded one only classifies.")

    generation = cli.load(model, device=device).generate_and_explain(
        words, name, tokens=tokens, continuation=target, rather_than=versus, check=check, **options
    )
    cli.present(generation, as_json=as_json, html=html, open_page=open_page)
