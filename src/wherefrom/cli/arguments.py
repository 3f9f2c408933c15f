"""What the commands share: the application, common options, and how these are parsed."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer
from rich.console import Console
from rich.text import Text

from wherefrom.cli.completion import complete_label, complete_level, complete_methods, complete_metrics
from wherefrom.core.files import json_text, reading
from wherefrom.errors import BadFile, BadOption, EmptyText

if TYPE_CHECKING:
    from wherefrom.api import Model
    from wherefrom.core.example import Example

app = typer.Typer(
    help="Where a transformer's decision comes from, and whether to believe the answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
SETS = ("default", "fast", "main", "all")  # each is short for several names
problems = Console(stderr=True, highlight=False)

TextArgument = Annotated[str | None, typer.Argument(help="The text to explain; '-' reads standard input.")]
ChatOption = Annotated[
    str | None,
    typer.Option(
        help="The messages of a chat instead of a text: a JSON file, '-' for standard input, or a JSON list.",
        metavar="FILE",
    ),
]
PairOption = Annotated[str | None, typer.Option(help="The second text, for models that read two.")]
ModelOption = Annotated[str, typer.Option("--model", "-m", help="'embedded', a folder, or a hub id.")]
AgainstOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Another model, for metrics that compare two. Named several times, these give the mean.", metavar="MODEL"
    ),
]
MethodsOption = Annotated[
    str,
    typer.Option(
        help="Names between commas, with options as alti:norm=l2; or 'default' (eight of all families), 'fast' (all"
        " but the slow ones), 'all'.",
        autocompletion=complete_methods,
    ),
]
MetricsOption = Annotated[
    str,
    typer.Option(
        help="Names between commas, with options as aopc:fill=pad; or 'default' (four that ask different things) or"
        " 'all'.",
        autocompletion=complete_metrics,
    ),
]
RunMetricsOption = Annotated[
    str,
    typer.Option(
        help="Names between commas, with options as aopc:fill=pad; or 'main' (three, and one for each reference that"
        " the data has), 'default' (four that ask different things) or 'all'.",
        autocompletion=complete_metrics,
    ),
]
MethodParamsOption = Annotated[
    list[str] | None, typer.Option("-o", help="An option of the method, as key=value; may be repeated.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="The label, token or answer to explain.", show_default="the predicted one", autocompletion=complete_label
    ),
]
VersusOption = Annotated[
    str | None, typer.Option(help="Another label or token: explain why the target rather than this.")
]
LevelOption = Annotated[
    str, typer.Option(help="token, word or sentence; of a chat, also turn.", autocompletion=complete_level)
]
ViewLevelOption = Annotated[
    str | None,
    typer.Option(
        help="token, word or sentence; of a chat, also turn.", show_default="word", autocompletion=complete_level
    ),
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...")]
FillModelOption = Annotated[
    str | None,
    typer.Option(
        help="A masked language model with the same vocabulary: the check replaces hidden words by those that it"
        " expects there, and so does the fill 'sample' of methods and metrics.",
        show_default="none",
    ),
]
SpreadOption = Annotated[
    float | None,
    typer.Option(
        help="Of a regression model: what changes of its value are measured in.",
        show_default="its deviation over maskings of the text",
    ),
]
CandidatesOption = Annotated[
    str | None,
    typer.Option(
        help="Labels to choose among, between commas, for a model of entailment (zero-shot).", metavar="LABEL,LABEL..."
    ),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        help="The hypothesis for --candidates, with {} for the label.",
        metavar="SENTENCE",
        show_default="This example is {}.",
    ),
]
MultiLabelOption = Annotated[
    bool, typer.Option("--multi-label", help="Several of the --candidates may be right: each has its own probability.")
]
UnitsOption = Annotated[
    str | None,
    typer.Option(help="Spans of the text that are scored as wholes, in characters: 'start:end,start:end'."),
]
HtmlOption = Annotated[Path | None, typer.Option(help="Also write a self-contained page to this file.", metavar="FILE")]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page that --html writes, in a browser.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a view.")]


def load(model: str, **options: Any) -> Model:
    """Load the model that a command names. Calling it imports torch and transformers."""
    with _no_garbage_collection():
        from wherefrom.api import load as load_model

        return load_model(model, **options)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Importing creates several hundred thousand objects that stay alive. Scanning them for garbage would add 7% to the
    time it takes to load torch, transformers and a small model.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def examples(*commands: str) -> str:
    """Commands for the end of a help text, one a line. Square brackets would be read as markup."""
    return "\n\n".join(["Examples:", *(f"$ {command}" for command in commands)])


def read_text(text: str | None) -> str:
    if text is None and sys.stdin.isatty():
        raise EmptyText("Give a text to explain: wherefrom explain \"A fine film.\" (or '-' to read standard input).")
    if text not in (None, "-"):
        return str(text)
    try:
        return sys.stdin.buffer.read().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadFile(f"Standard input is not UTF-8 text: {error.reason} at byte {error.start}.") from error


def read_input(text: str | None, pair: str | None, chat: str | None = None) -> Any:
    """The text, with its pair where there is one; or the messages of a chat."""
    if chat is not None:
        if text is not None or pair is not None:
            raise BadOption("A text, or the messages of a chat with --chat: give one of them.")
        return read_chat(chat)
    return read_text(text) if pair is None else (read_text(text), pair)


def read_chat(chat: str) -> list[Any]:
    """Messages from a file, from standard input, or as they are: a JSON list, or an object that has it as messages."""
    written, place = chat, "--chat"
    if chat == "-":
        written, place = read_text(chat), "Standard input"
    elif not chat.lstrip().startswith(("[", "{")):
        place = chat
        with reading(chat):
            written = Path(chat).read_text(encoding="utf-8")
    try:
        messages = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{place} is no JSON: {error}.") from error
    if isinstance(messages, dict):
        messages = messages.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise BadFile(f"{place} has no list of messages, each an object with a role and a content.")
    return messages


def read_spans(name: str, option: str | None) -> list[tuple[int, int]] | None:
    """Spans of characters, as start:end,start:end; None where the option is not used."""
    if option is None:
        return None
    spans = []
    for part in option.split(","):
        start, colon, end = part.strip().partition(":")
        if not (colon and start.strip().isdecimal() and end.strip().isdecimal()):
            raise BadOption(
                f"A {name} is given in characters as start:end,start:end, such as 2:10,15:20, not {part.strip()!r}."
            )
        spans.append((int(start), int(end)))
    return spans


def view_level(level: str | None, units: Sequence[tuple[int, int]] | None) -> Any:
    """The level at which one text is shown: words, unless another level is named or units are chosen by hand. The
    library raises on a level that it does not know.
    """
    if level is not None:
        return level
    return "word" if units is None else "token"


def check_target(*targets: str | None) -> None:
    """Raise on an empty target, which a language model would take for a token."""
    if "" in targets:
        raise BadOption("The target is empty: name a label or a token, or leave --target out for what is predicted.")


def read_target(target: str | None, versus: str | None) -> str | tuple[str, str] | None:
    """The target; with what it is compared with, a tuple of both."""
    check_target(target, versus)
    if versus is None:
        return target
    if target is None:
        raise BadOption("--versus compares with a --target: give both.")
    return target, versus


def candidate_labels(candidates: str | None, template: str | None, *, multi_label: bool) -> dict[str, Any]:
    """The arguments of `load` for candidate labels; none where no candidates are named."""
    if candidates is None:
        if template is not None or multi_label:
            raise BadOption("--template and --multi-label belong to candidate labels: give --candidates, too.")
        return {}
    labels = [label.strip() for label in candidates.split(",") if label.strip()]
    if not labels:
        raise BadOption("--candidates takes labels with commas between them, as in --candidates sports,politics.")
    return {"labels": labels, "template": template, "multi_label": multi_label}


def check_names(kind: Literal["method", "metric"], *options: str | None) -> None:
    """Raise on a name that does not exist, before torch and a model are loaded. Each may be several between commas."""
    from wherefrom.registry import check_name

    for option in options:
        for name in (option or "").split(","):
            if name.strip() and option not in SETS:
                check_name(kind, name.strip())


def check_second(metrics: str, against: Sequence[str] | None) -> None:
    """Raise where a metric compares two models and only one is named, before anything is loaded."""
    from wherefrom.registry import listed

    two = {row.name for row in listed("metric") if row.get("needs") == "second"}
    chosen = [name.strip() for name in metrics.split(",") if name.strip().partition(":")[0] in two]
    if chosen and not against:
        raise BadOption(f"{', '.join(chosen)} compares two models: name the other one with --against.")


def check_data(data: str) -> None:
    """Raise an error about a missing file where `data` looks like a path, instead of listing the named data sets."""
    path = Path(data)
    named = ":" in data.replace(":\\", "") or "@" in data
    if not named and (path.suffix or path.parent != Path()) and not path.exists():
        near = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        close = get_close_matches(path.name, near, n=1)
        hint = f" Did you mean {str(path.parent / close[0])!r}?" if close else ""
        raise BadFile(f"There is no file or folder {data!r}.{hint}")


def read_examples(data: str, limit: int | None, *, data_dir: Path | None = None) -> list[Example]:
    """The examples of a data set, read as `wherefrom run` reads them."""
    from wherefrom.benchmark.datasets import DataSet

    check_data(data)
    rows = list(DataSet(data, data_dir, limit, ignore_labels=True))
    if not rows:
        raise BadFile(f"{data} contains no text.")
    return rows


def read_options(pairs: list[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BadOption(f"-o takes key=value, such as -o steps=100, not {pair!r}.")
        options[key.strip().replace("-", "_")] = value.strip()
    return options


def method_and_options(method: str, pairs: list[str] | None) -> tuple[str, dict[str, str]]:
    """The name of a method, and its options: those of `alti:norm=l2`, overridden by those of -o."""
    name, *suffixes = method.split(":")
    return name, read_options(suffixes) | read_options(pairs or [])


def check_open(path: Path | None, open_it: bool) -> None:
    if path is None and open_it:
        raise BadOption("--open opens the page that --html writes: say where, as in --html page.html --open.")


class Presentable(Protocol):
    """What a command computed: it can be printed, written as JSON and shown on a page."""

    def show(self) -> None: ...
    def to_json(self) -> str: ...
    def to_html(self) -> str: ...


def present(
    result: Presentable, *, as_json: bool, html: Path | None, open_page: bool, show: Callable[[], None] | None = None
) -> None:
    """Write the page that --html names, and print the result. show: prints it otherwise than `result.show`."""
    write_page(html, result.to_html, open_it=open_page)
    if as_json:
        sys.stdout.write(result.to_json() + "\n")
    else:
        (show or result.show)()


def print_json(record: Any) -> None:
    sys.stdout.write(json_text(record) + "\n")


def write_page(path: Path | None, make: Callable[[], str], *, open_it: bool) -> None:
    """Write the page that --html names, report it on standard error, and open it if `open_it`."""
    if path is None:
        return
    write_file(path, make())
    problems.print(Text(f"The page: {path}", "dim"), soft_wrap=True)
    if open_it:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def write_file(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise BadFile(f"{path} could not be written: {error.strerror or error}.") from error
