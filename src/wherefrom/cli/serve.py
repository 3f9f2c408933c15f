"""The command `wherefrom serve`."""

from __future__ import annotations

import sys
import threading
import webbrowser
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wherefrom.cli import arguments as cli
from wherefrom.errors import BadFile, BadOption

PATIENCE = 1.5  # seconds in which a browser that is open already shows the page


@cli.app.command(
    rich_help_panel="Explain one text",
    epilog=cli.examples(
        "wherefrom serve",
        "wherefrom serve ./my-model --port 9000 --no-open",
        "wherefrom serve embedded ./my-model",
        "wherefrom serve runs/reviews",
    ),
)
def serve(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="'embedded', folders of models, hub ids, or folders of runs or audits.",
            metavar="[MODEL ...]",
            show_default="embedded",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port.", show_default="8421, or another if it is taken")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
    host: Annotated[
        str,
        typer.Option(help="The address to listen on. Other machines need the token in the printed address."),
    ] = "127.0.0.1",
    candidates: cli.CandidatesOption = None,
    template: cli.TemplateOption = None,
    multi_label: cli.MultiLabelOption = False,
) -> None:
    """Open a page on which you try a text: hide words, compare methods, look inside."""
    zero_shot = cli.candidate_labels(candidates, template, multi_label=multi_label)
    from wherefrom.explorer.loading import load_source
    from wherefrom.explorer.serve import ExplorerServer

    models, runs = split_sources(sources or [])
    load = partial(load_source, **zero_shot)
    server = ExplorerServer(models, runs, host=host, port=port, load=load, patience=PATIENCE)
    sys.stdout.write(f"The explorer: {server.address}\n")
    sys.stdout.flush()
    cli.problems.print("Ctrl-C ends it.", style="dim")
    if not no_open:
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    server.run()


def split_sources(sources: list[str]) -> tuple[list[str], list[Path]]:
    """The models and the runs among what was named. A run alone brings the model that it was made with."""
    places = {source: _run_in(Path(source)) for source in sources}
    runs = [place for place in places.values() if place is not None]
    models = [source for source in sources if places[source] is None]
    if len(set(sources)) < len(sources):
        raise BadOption("A model or a run is named twice.")
    if runs and not models:
        from wherefrom.benchmark.store import read_manifest

        planned = read_manifest(runs[0])["configuration"]["plan"].get("model")
        if not isinstance(planned, str):
            raise BadFile(f"{runs[0]} does not say which model it was made with: name the model as well.")
        models = [planned]
    return models or ["embedded"], runs


def _run_in(folder: Path) -> Path | None:
    """The run that a folder is, or that an audit's folder contains; None where it is neither."""
    return next((place for place in (folder, folder / "run") if (place / "manifest.json").is_file()), None)
