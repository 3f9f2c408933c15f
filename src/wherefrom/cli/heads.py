"""The command `wherefrom heads`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wherefrom.cli.arguments import (
    DeviceOption,
    JsonOption,
    ModelOption,
    app,
    examples,
    load,
    print_json,
    read_examples,
)
from wherefrom.errors import BadOption
from wherefrom.samples import resolve

STYLES = {
    "other": ("·", "dim"),
    "positional": ("P", "bold blue"),
    "syntactic": ("S", "bold yellow"),
    "both": ("B", "bold magenta"),
}


@app.command(
    rich_help_panel="Look into a model",
    epilog=examples(
        "wherefrom heads --data sample:trees --gold",
        "wherefrom heads --data sample:trees --gold --out heads.json --plot heads.png",
        "wherefrom heads --data sample:reviews --search comprehensiveness --limit 30 --out heads.json",
    ),
)
def heads(
    data: Annotated[
        str,
        typer.Option(
            help="Texts: JSON lines with 'text' (and trees as 'tokens'), or CoNLL-U; without trees any other data that"
            " 'wherefrom run' reads; sample:trees."
        ),
    ],
    model: ModelOption = "embedded",
    out: Annotated[
        Path | None, typer.Option(help="Write the head map here, for: explain --method mask_lrp -o heads=FILE")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the head map to this picture file.")] = None,
    parser: Annotated[
        str | None, typer.Option(help="A spaCy pipeline.", show_default="an English one that is installed")
    ] = None,
    gold: Annotated[
        bool, typer.Option("--gold", help="Use the trees of the data itself; no parser is needed.")
    ] = False,
    syntax: Annotated[bool, typer.Option(help="Look for syntactic heads, too.")] = True,
    limit: Annotated[int | None, typer.Option(min=1, help="Read only so many texts.")] = None,
    positional: Annotated[
        float, typer.Option(help="How often a positional head looks at its distance, at least.")
    ] = 0.8,
    syntactic: Annotated[
        float, typer.Option(help="How much oftener than the usual distance a syntactic head is right.")
    ] = 0.1,
    itself: Annotated[bool, typer.Option(help="Count a token's own position as a distance.")] = False,
    reverse: Annotated[bool, typer.Option(help="From governor to dependent instead.")] = False,
    search: Annotated[
        str | None,
        typer.Option(
            help="Instead: search the heads through which mask_lrp does best by this metric, such as comprehensiveness,"
            " on two thirds of the texts; what they are worth is measured on the others."
        ),
    ] = None,
    as_json: JsonOption = False,
    device: DeviceOption = None,
) -> None:
    """Find the heads that look at a fixed distance or along syntax; or search those that explain best."""
    if search is not None:
        _search(data, model, out, plot, limit, search, as_json, device)
        return
    if gold and parser:
        raise BadOption("--gold uses the data's own trees and --parser makes them: give one of the two.")
    from wherefrom.heads.find import find_heads
    from wherefrom.heads.trees import Tree, parse, read_trees

    path = Path(resolve(data))
    if path.suffix.lower() in (".jsonl", ".json", ".conllu", ".conll"):
        trees = read_trees(path, limit=limit)
    elif gold:
        raise BadOption(
            f"--gold uses the data's own trees, and {data} has none: give CoNLL-U, or JSON lines with tokens."
        )
    else:
        trees = [Tree(example.text) for example in read_examples(data, limit)]
    if syntax and not gold:
        trees = parse(trees, parser)
    loaded = load(model, device=device).text_model
    head_map = find_heads(
        loaded, trees, positional=positional, syntactic=syntactic, itself=itself, reverse=reverse, syntax=syntax
    )
    if out is not None:
        head_map.save(out)
    if plot is not None:
        from wherefrom.report.head_map import head_map_plot

        head_map_plot(head_map.kinds(), plot, title=f"{head_map.model}: heads in {head_map.texts} texts")
    kinds, mask = head_map.kinds(), head_map.mask()
    if as_json:
        print_json({"kinds": kinds, "mask": mask})
        return
    console = Console(highlight=False)
    _print_grid(console, [[Text(*STYLES[kind]) for kind in row] for row in kinds])
    console.print(
        Text.assemble(*(part for kind, (sign, style) in STYLES.items() for part in ((sign, style), f" {kind}   ")))
    )
    for name, relation in head_map.relations.items():
        best = max(max(row) for row in relation.follows)
        console.print(
            f"{name}: {relation.count} pairs; the best head finds {best:.0%},"
            f" the usual distance ({relation.distance:+d}) {relation.baseline:.0%}"
        )
    _print_kept(console, mask, out)


def _print_grid(console: Console, cells: list[list[Text]]) -> None:
    """A table with a row for each layer, the last on top, and a column for each head."""
    grid = Table("layer", *(str(i + 1) for i in range(len(cells[0]))), box=None, title="head", padding=(0, 1))
    for layer in reversed(range(len(cells))):
        grid.add_row(str(layer + 1), *cells[layer])
    console.print(grid)
    console.print(Text("Layers and heads are counted from 1 here, from 0 in files and options.", "dim"))


def _print_kept(console: Console, mask: Sequence[Sequence[float]], out: Path | None) -> None:
    kept = sum(1 for row in mask for weight in row if weight)
    console.print(f"{kept} of {len(mask) * len(mask[0])} heads are kept" + (f": {out}" if out else ""))


def _search(
    data: str,
    model: str,
    out: Path | None,
    plot: Path | None,
    limit: int | None,
    metric: str,
    as_json: bool,
    device: str | None,
) -> None:
    """The heads that explain best."""
    if plot is not None:
        raise BadOption("--plot draws what heads look at; a search does not find that out.")
    from wherefrom.registry import check_name

    check_name("metric", metric)
    import numpy as np

    from wherefrom.core.statistics import bootstrap
    from wherefrom.heads.search import search_heads
    from wherefrom.progress import bar

    examples_read = read_examples(data, limit)
    loaded = load(model, device=device).text_model
    texts = [(example.text,) if example.pair is None else (example.text, example.pair) for example in examples_read]
    with bar("masks") as moved:
        result = search_heads(loaded, [loaded.encode(*text) for text in texts], metric=metric, on_progress=moved)
    if out is not None:
        result.save(out)
    gain = float(np.mean(result.held_out)) if result.held_out else None
    if as_json:
        scores = {"score": result.score, "score_of_all": result.score_of_all, "held_out_gain": gain}
        print_json({"mask": result.mask} | scores)
        return
    console = Console(highlight=False)
    _print_grid(console, [[Text("x", "bold") if kept else Text("·", "dim") for kept in row] for row in result.mask])
    _print_kept(console, result.mask, out)
    console.print(
        f"{metric} on the {result.texts} texts searched on: {result.score:.3f}, with all heads"
        f" {result.score_of_all:.3f} (higher is better; {result.tried} masks tried)"
    )
    if gain is None:
        console.print(f"{metric} has no value for any of the texts that were held out.")
        return
    (interval,) = bootstrap(np.array(result.held_out)[:, None])
    around = "" if interval is None else f" [{interval.low:+.3f}, {interval.high:+.3f}]"
    console.print(f"On {len(result.held_out)} texts that were held out they gain {gain:+.3f}{around} over all heads.")
