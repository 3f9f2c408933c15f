"""Commands that run a paper's study again: thin over `wherefrom.studies`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from wherefrom.cli.arguments import app, examples, write_file
from wherefrom.errors import BadOption
from wherefrom.samples import resolve

study = typer.Typer(help="Run a paper's experiments again, its own numbers beside.", no_args_is_help=True)
app.add_typer(study, name="study", rich_help_panel="Look into a model")


@study.callback()
def _studies() -> None:  # keeps `sparse` a name of its own while it is the only one
    pass


@study.command(
    epilog=examples(
        "wherefrom study sparse --out study --data-dir data --quick",
        "wherefrom study sparse --out study --model embedded --texts sample:reviews --limit 50",
    )
)
def sparse(
    out: Annotated[
        Path,
        typer.Option(help="Where classifiers, numbers and the page are kept. A study that was stopped goes on there."),
    ],
    data_dir: Annotated[
        Path,
        typer.Option(
            help="The folder with jw_sst_train.jsonl and the like (sst2_dev.jsonl for --model).",
            show_default="this one",
        ),
    ] = Path(),
    datasets: Annotated[str, typer.Option(help="Of sst, 20news, imdb, with commas.")] = "sst,20news,imdb",
    seeds: Annotated[int, typer.Option(help="How many times everything is trained.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Four classifiers a dataset: no sweep of lambda, no adversary.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="Instead: project this model's attention at inference. 'embedded', a folder, or a hub id."),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="The texts for --model; sample:reviews is one.", show_default="sst2_dev.jsonl of the data folder"
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="How many of them.", show_default="300, with --quick 100")] = None,
) -> None:
    """Is sparse attention more interpretable? (Meister et al. 2021)"""
    if limit is not None and limit < 1:
        raise BadOption(f"--limit must be at least 1, not {limit}.")
    from wherefrom.studies.sparse.page import check_extra, study_page
    from wherefrom.studies.sparse.study import make_folder, read_json
    from wherefrom.studies.sparse.study import study as run_study
    from wherefrom.studies.sparse.tables import inference_table, markdown, tables

    check_extra()
    make_folder(out)
    if model is None:
        names = list(dict.fromkeys(name.strip().lower() for name in datasets.split(",") if name.strip()))
        run_study(data_dir, out, datasets=names, seeds=seeds, quick=quick, track=_bar)
    else:
        from wherefrom.api import load
        from wherefrom.studies.sparse.inference import TEXTS, project_at_inference, read_texts

        loaded = load(model)
        path = data_dir / TEXTS if texts is None else Path(resolve(str(texts)))
        rows = read_texts(path, limit or (100 if quick else 300), loaded.labels)
        project_at_inference(loaded.text_model, rows, out, track=_bar)
    kept = [path for path in (out / "results.json", out / "at-inference.json") if path.is_file()]
    found = {path.stem: read_json(path) for path in kept}
    results, inference = found.get("results"), found.get("at-inference")
    page = out / "index.html"
    write_file(page, study_page(results, inference))
    shown = (tables(results) if results else []) + ([inference_table(inference)] if inference else [])
    write_file(out / "tables.md", markdown(shown))
    Console(highlight=False).print(f"The page: {page}\nThe numbers: {', '.join(map(str, kept))}", soft_wrap=True)


def _bar(items: Sequence[Any], doing: str) -> Iterable[Any]:
    from rich.progress import track

    return track(items, description=doing, console=Console(stderr=True), transient=True)
