"""The commands `wherefrom run` and `wherefrom report`: whole data sets."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from wherefrom.cli.arguments import ModelOption, app, problems, write_file
from wherefrom.errors import BadOption

if TYPE_CHECKING:
    from wherefrom.benchmark.run import OnProgress
    from wherefrom.benchmark.statistics import Standing
    from wherefrom.benchmark.store import Damage
    from wherefrom.benchmark.summary import Summary


@app.command()
def run(
    data: Annotated[
        str,
        typer.Argument(
            help="A file, a folder, layout:path, hf:NAME, sample:NAME, or a ready name; @SPLIT behind takes one part."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the run. The same command goes on there if it was stopped.")],
    model: ModelOption = "embedded",
    methods: Annotated[str, typer.Option(help="Names between commas, with options as alti:norm=l2; or 'all'.")] = "all",
    metrics: Annotated[
        str, typer.Option(help="Names between commas, with options as aopc:fill=pad; or 'all'.")
    ] = "all",
    target: Annotated[
        str, typer.Option(help="What is explained: predicted, label (the data set's), or a label's name.")
    ] = "predicted",
    level: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    limit: Annotated[int | None, typer.Option(help="Take the first N examples.", metavar="N")] = None,
    seed: Annotated[int | None, typer.Option(help="With --limit: take N at random instead.", metavar="S")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The folder of data sets with ready names.")] = None,
    columns: Annotated[str | None, typer.Option(help="Fields by other names: text=sentence,label=gold.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="The data set's labels in the model's words: 0=NEGATIVE,1=POSITIVE; or 'none'.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="How many work at once. [default: one a core; one on a GPU]")
    ] = None,
    address: Annotated[str | None, typer.Option(help="A Ray cluster. [default: one of this machine's own]")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with a run that is there already.")
    ] = True,
    strict: Annotated[
        bool, typer.Option("--strict", help="End at the first example that cannot be explained.")
    ] = False,
    part: Annotated[int, typer.Option(help="Examples that are worked on and kept together.")] = 16,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps, ...")] = None,
) -> None:
    """Explain and measure every example of a data set."""
    label_names: Any = "none" if labels == "none" else _pairs(labels, "--labels")
    with _says_what_is_kept(out) as kept:
        _run(
            plan={
                "data": data,
                "model": model,
                "methods": methods,
                "metrics": metrics,
                "target": target,
                "level": level,
                "limit": limit,
                "seed": seed,
                "data_dir": data_dir,
                "columns": _pairs(columns, "--columns"),
                "labels": label_names,
                "device": device,
                "engine": engine,
                "workers": workers,
                "address": address,
                "strict": strict,
                "examples_per_part": part,
            },
            out=out,
            resume=resume,
            kept=kept,
        )


class _Kept:
    """How many examples the data set has, once it was read: before that, nothing can have been kept."""

    everything: int | None = None
    code: int | None = None  # the command's, once it was stopped

    def leave(self) -> None:
        """End without taking torch and all its libraries down one by one, which takes seconds on a busy machine."""
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


class _Terminated(BaseException):
    """SIGTERM, as Ctrl-C is a KeyboardInterrupt."""


@contextmanager
def _says_what_is_kept(out: Path) -> Iterator[_Kept]:
    """A run that is stopped by Ctrl-C or SIGTERM says what was kept and how to go on."""
    kept = _Kept()
    atexit.register(kept.leave)  # before others register theirs, so that it is called after them

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: ending takes a moment
        raise _Terminated

    ours = threading.current_thread() is threading.main_thread()  # only there may a signal be dealt with
    usual = signal.signal(signal.SIGTERM, terminate) if ours else None
    try:
        yield kept
    except (KeyboardInterrupt, _Terminated) as stop:
        text = "stopped before the first example; the same command starts again."
        if kept.everything is not None:
            from wherefrom.benchmark.store import examples_kept

            count = examples_kept(out)
            text = f"stopped: {count} of {kept.everything} examples are kept in {out}; the same command goes on."
        problems.print(Text(text), soft_wrap=True)
        kept.code = 130 if isinstance(stop, KeyboardInterrupt) else 143
        raise typer.Exit(kept.code) from stop
    finally:
        if ours:
            signal.signal(signal.SIGTERM, usual)


def _run(plan: dict[str, Any], out: Path, *, resume: bool, kept: _Kept) -> None:
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run as run_plan

    with _progress_bar() as show:

        def on_progress(done: int, everything: int) -> None:
            kept.everything = everything
            show(done, everything)

        found = RunPlan(**plan)  # which says what is wrong with it
        done = run_plan(found, out, resume=resume, on_progress=on_progress, on_damage=_warn_of_damage)
    console, counts = Console(highlight=False), done.costs.sum()
    bad = done.errors["example"].nunique()
    console.print(
        f"{int(counts['examples']):,} examples, {int(counts['asked']):,} questions, {int(counts['rows']):,} rows;"
        f" {bad} example{'' if bad == 1 else 's'} with errors.\nThe page: wherefrom report {out} --html report.html",
        soft_wrap=True,
    )


def _warn_of_damage(damage: Damage) -> None:
    problems.print(
        Text.assemble(("warning: ", "yellow"), f"{damage.why}. It was set aside, and the part is computed again."),
        soft_wrap=True,
    )


class ExamplesPerMinute(ProgressColumn):
    """How many examples are done in a minute."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{60 * task.speed:.0f}/min", style="progress.data.speed")


@contextmanager
def _progress_bar() -> Iterator[OnProgress]:
    """Rate and time left, on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("examples"), BarColumn(), MofNCompleteColumn(), ExamplesPerMinute(), TimeElapsedColumn())
    with Progress(
        *columns,
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        speed_estimate_period=600,
    ) as bars:
        task: Any = None

        def on_progress(done: int, everything: int) -> None:
            nonlocal task
            if task is None:  # examples of an earlier start say nothing about the rate of this one
                task = bars.add_task("examples", total=everything, completed=done)
            bars.update(task, completed=done)

        yield on_progress


def _pairs(given: str | None, option: str) -> dict[str, str] | None:
    if given is None:
        return None
    found = {}
    for pair in given.split(","):
        key, equals, value = pair.partition("=")
        if not (equals and key.strip() and value.strip()):
            raise BadOption(f"{option} takes name=name pairs with commas between, not {pair!r}.")
        found[key.strip()] = value.strip()
    return found


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders that 'wherefrom run' made.", metavar="DIR...")],
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page to this file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the leaderboards to this file, for other programs.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the leaderboards to this file, for papers.")] = None,
    thermostat: Annotated[
        Path | None, typer.Option(help="Write the explanations as JSON lines, as Thermostat has them.")
    ] = None,
    power: Annotated[float, typer.Option(help="Watts, for the estimate of energy.")] = 271.0,
    pue: Annotated[float, typer.Option(help="Overhead of the building.")] = 1.10,
    intensity: Annotated[float, typer.Option(help="kg CO2e per kWh.")] = 0.429,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
) -> None:
    """Say which methods did best in one or several runs."""
    from wherefrom.benchmark import Run, write_thermostat
    from wherefrom.benchmark.statistics import Energy
    from wherefrom.benchmark.summary import summarise, with_distinct_names
    from wherefrom.report.leaderboard_files import as_csv, as_latex

    energy = Energy(power, pue, intensity)
    runs = [Run.load(folder) for folder in folders]
    if thermostat is not None and len(runs) > 1:
        raise BadOption("--thermostat writes the explanations of one run: name one folder.")
    summaries = with_distinct_names(
        [summarise(one, energy, seed=seed) for one in runs], [folder.name or str(folder) for folder in folders]
    )
    if html is not None:
        from wherefrom.report.benchmark import report_page

        write_file(html, report_page(summaries, energy))
    if csv is not None:
        write_file(csv, as_csv(summaries))
    if latex is not None:
        write_file(latex, as_latex(summaries))
    if thermostat is not None:
        write_thermostat(runs[0], thermostat)
    _show(summaries)


def _style_of(one: Standing | None) -> str:
    """The best is bold; what the examples do not tell from the best is green."""
    if one is None or one.mean is None:
        return ""
    if one.behind == 0:
        return "bold green"
    return "green" if one.as_good_as_the_best else ""


def _show(summaries: list[Summary]) -> None:
    from wherefrom.report.leaderboard_files import metric_title

    console = Console(highlight=False)
    for summary in summaries:
        table = Table(
            title=f"{summary.name}: {summary.examples} examples",
            title_justify="left",
            box=box.SIMPLE,
            pad_edge=False,
            collapse_padding=True,
        )
        table.add_column("method", no_wrap=True)
        table.add_column("rank", justify="right")
        for metric in summary.boards:
            table.add_column(
                f"{metric_title(metric)} {'↑' if summary.better[metric] == 'higher' else '↓'}",
                justify="right",
                overflow="fold",
                min_width=6,
            )
        found = {metric: {one.method: one for one in board} for metric, board in summary.boards.items()}
        for method, rank in zip(summary.ranks.methods, summary.ranks.overall, strict=True):
            cells = [Text(method), Text("–" if rank is None else f"{rank:.1f}")]
            for board in found.values():
                one = board.get(method)
                style = _style_of(one)
                cells.append(Text("–" if one is None or one.mean is None else f"{one.mean:.3f}", style))
            table.add_row(*cells)
        console.print(table)
    if not sys.stdout.isatty():
        return
    console.print("Bold: the best. Green: the examples do not tell it from the best.", style="dim")
