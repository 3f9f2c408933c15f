"""The commands `wherefrom run` and `wherefrom report`: whole data sets."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from wherefrom.cli import arguments as cli
from wherefrom.core.files import exists
from wherefrom.errors import BadFile, BadOption
from wherefrom.progress import bar

if TYPE_CHECKING:
    from wherefrom.benchmark.estimate import CostEstimate
    from wherefrom.benchmark.receipts import Damage
    from wherefrom.benchmark.statistics import Standing
    from wherefrom.benchmark.summary import Summary


@cli.app.command(
    rich_help_panel="Whole data sets",
    epilog=cli.examples(
        "wherefrom run sample:reviews --out runs/reviews --limit 20",
        "wherefrom run reviews.csv --out runs/mine --methods attcat,random --metrics aopc,rft --columns text=review",
    ),
)
def run(
    out: Annotated[Path, typer.Option(help="The folder of the run. The same command resumes a run that was stopped.")],
    data: Annotated[
        str | None,
        typer.Argument(
            help="A file, a folder, layout:path, hf:NAME, sample:NAME, or a ready name; @SPLIT after it takes one part."
        ),
    ] = None,
    data_option: Annotated[str | None, typer.Option("--data", help="The same as DATA.")] = None,
    model: cli.ModelOption = "embedded",
    against: cli.AgainstOption = None,
    methods: cli.MethodsOption = "fast",
    metrics: cli.RunMetricsOption = "main",
    target: Annotated[
        str,
        typer.Option(
            help="What to explain: predicted; all-predicted (every label of a multi-label model); label (the data"
            " set's, rather than its foil where it has one); or a label's name."
        ),
    ] = "predicted",
    level: cli.LevelOption = "token",
    task: Annotated[
        str | None,
        typer.Option(
            help="'sources' grades which passages an answer comes from: rows with question and context.",
            show_default="what the model was made for",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Take the first N examples.", metavar="N")] = None,
    seed: Annotated[int | None, typer.Option(help="With --limit: take N at random instead.", metavar="S")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The folder of data sets with ready names.")] = None,
    columns: Annotated[str | None, typer.Option(help="Fields by other names: text=sentence,label=gold.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="The data set's labels in the model's words: 0=NEGATIVE,1=POSITIVE; or 'none'.")
    ] = None,
    spread: cli.SpreadOption = None,
    candidates: cli.CandidatesOption = None,
    template: cli.TemplateOption = None,
    multi_label: cli.MultiLabelOption = False,
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Number of workers.", show_default="one a core; one on a GPU")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster.", show_default="one of this machine's own")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Where workers write their tables themselves: a folder that all of them reach, or an address such as"
            " s3://bucket/run.",
            show_default="the folder of the run, by this process",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Resume a run that exists already.")] = True,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first example that cannot be explained.")
    ] = False,
    part: Annotated[int, typer.Option(help="Number of examples that are processed and stored together.")] = 16,
    device: cli.DeviceOption = None,
) -> None:
    """Explain and measure every example of a data set."""
    data = data or data_option
    if data is None:
        raise BadOption("Name the data: wherefrom run reviews.csv --out runs/reviews (or sample:reviews to try it).")
    if task is not None:
        from wherefrom.cli.source_rows import run_source_rows

        if task != "sources":
            raise BadOption(f"--task is 'sources', or left out; not {task!r}.")
        run_source_rows(data, out, model=model, methods=methods, limit=limit, resume=resume, device=device)
        return
    cli.check_target(target)
    cli.check_data(data)
    cli.check_names("method", methods)
    cli.check_names("metric", metrics)
    cli.check_second(metrics, against)
    zero_shot = cli.candidate_labels(candidates, template, multi_label=multi_label)
    label_names: Any = "none" if labels == "none" else pairs(labels, "--labels")
    with reporting_when_stopped(out) as progress:
        _run(
            plan={
                "data": data,
                "model": model,
                "against": against or (),
                "methods": methods,
                "metrics": metrics,
                "target": target,
                "level": level,
                "limit": limit,
                "seed": seed,
                "data_dir": data_dir,
                "columns": pairs(columns, "--columns"),
                "labels": label_names,
                "spread": spread,
                "candidates": zero_shot.get("labels", ()),
                "template": zero_shot.get("template"),
                "multi_label": multi_label,
                "device": device,
                "engine": engine,
                "workers": workers,
                "address": address,
                "storage": storage,
                "strict": strict,
                "examples_per_part": part,
            },
            out=out,
            resume=resume,
            progress=progress,
        )


class RunProgress:
    """How many examples the data set has, once it was read: before that, no result can have been saved."""

    examples: int | None = None
    code: int | None = None  # the exit code, once the command was stopped

    def leave(self) -> None:
        """Exit without unloading torch and its libraries, which takes seconds on a busy machine."""
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


class _Terminated(BaseException):
    """SIGTERM, as Ctrl-C is a KeyboardInterrupt."""


@contextmanager
def reporting_when_stopped(out: Path) -> Iterator[RunProgress]:
    """When Ctrl-C or SIGTERM stops a run, print what is saved and how to resume."""
    progress = RunProgress()
    atexit.register(progress.leave)  # registered first, so that it is called last

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: ending takes a moment
        raise _Terminated

    in_main = threading.current_thread() is threading.main_thread()  # only this thread may set signal handlers
    previous = signal.signal(signal.SIGTERM, terminate) if in_main else None
    try:
        yield progress
    except (KeyboardInterrupt, _Terminated) as stop:
        text = "stopped before the first example; the same command starts again."
        if progress.examples is not None:
            from wherefrom.benchmark.receipts import examples_kept

            count = examples_kept(out)
            text = f"stopped: {count} of {progress.examples} examples are kept in {out}; the same command resumes."
        cli.problems.print(Text(text), soft_wrap=True)
        progress.code = 130 if isinstance(stop, KeyboardInterrupt) else 143
        raise typer.Exit(progress.code) from stop
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, previous)


def _run(plan: dict[str, Any], out: Path, *, resume: bool, progress: RunProgress) -> None:
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run as run_plan

    with bar("examples") as show:
        kept: list[int] = []  # examples that are done: at the beginning, and after every part

        def on_progress(done: int, total: int) -> None:
            progress.examples = total
            kept.append(done)

        def on_work(done: int, total: int) -> None:  # no time left is told before the first part is done
            show(done, total, known=len(kept) > 1)

        result = run_plan(
            RunPlan(**plan),  # raises on an invalid plan
            out,
            resume=resume,
            on_progress=on_progress,
            on_damage=print_damage,
            on_work=on_work,
            on_estimate=print_estimate,
        )
    console, counts = Console(highlight=False), result.costs.sum()
    failed = result.errors["example"].nunique()
    console.print(
        f"{int(counts['examples']):,} examples, {int(counts['asked']):,} questions, {int(counts['rows']):,} rows;"
        f" {failed} example{'' if failed == 1 else 's'} with errors.{_omissions(counts)}\n"
        f"The page: wherefrom report {out} --html report.html",
        soft_wrap=True,
    )


def print_estimate(estimate: CostEstimate) -> None:
    # One write, so that an interrupt cannot separate the line from its end; a progress bar moves out of its way.
    sys.stderr.write(f"{estimate}\n")
    sys.stderr.flush()


def _omissions(counts: Any) -> str:
    """What was omitted without being an error, in words."""
    lines = ""
    if counts.get("nothing_predicted"):
        lines += f"\n{int(counts['nothing_predicted'])} texts for which no label is predicted: nothing to explain."
    if counts.get("unanswerable"):
        lines += (
            f"\n{int(counts['unanswerable'])} questions without an answer: left out of the metrics that look for it."
        )
    return lines


def print_damage(damage: Damage) -> None:
    cli.problems.print(
        Text.assemble(
            ("warning: ", "yellow"),
            f"{damage.why}. It was set aside, and"
            f" {'the part is' if damage.parts == 1 else f'its {damage.parts} parts are'} computed again.",
        ),
        soft_wrap=True,
    )


def pairs(text: str | None, option: str) -> dict[str, str] | None:
    if text is None:
        return None
    pairs = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not (equals and key.strip() and value.strip()):
            raise BadOption(f"{option} takes name=name pairs with commas between, not {pair!r}.")
        pairs[key.strip()] = value.strip()
    return pairs


@cli.app.command(
    rich_help_panel="Whole data sets",
    epilog=cli.examples(
        "wherefrom report runs/reviews",
        "wherefrom report runs/reviews runs/mine --html report.html --open",
        "wherefrom report runs/reviews --words best --stop-words english",
    ),
)
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders that 'wherefrom run' made.", metavar="DIR...")],
    html: cli.HtmlOption = None,
    open_page: cli.OpenOption = False,
    csv: Annotated[Path | None, typer.Option(help="Write the leaderboards to this file, for other programs.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write the leaderboards to this file, for papers.")] = None,
    thermostat: Annotated[
        Path | None, typer.Option(help="Write the explanations as JSON lines, as Thermostat has them.")
    ] = None,
    watts: Annotated[
        float | None,
        typer.Option(
            "--watts",
            "--power",
            help="Measured power of this machine while it works; energy and CO2e are then estimated.",
        ),
    ] = None,
    pue: Annotated[float, typer.Option(help="Power usage effectiveness of the building.")] = 1.10,
    intensity: Annotated[float, typer.Option(help="kg CO2e per kWh.")] = 0.429,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.", min=0)] = 0,
    words: Annotated[
        str | None,
        typer.Option(
            help="List the words that carry each class by this method of the run; 'best': the one that is"
            " recommended, which the page takes unless told otherwise.",
            metavar="METHOD",
        ),
    ] = None,
    stop_words: Annotated[
        str | None,
        typer.Option(help="Words that are left out of that list, between commas; 'english' for those of grammar."),
    ] = None,
    keep_case: Annotated[bool, typer.Option("--keep-case", help="Distinguish Film from film in that list.")] = False,
    least: Annotated[int, typer.Option(help="Texts of a class that a listed word occurs in.", min=1)] = 2,
    everything: Annotated[bool, typer.Option("--all", help="Print every metric instead of three.")] = False,
) -> None:
    """Say which methods did best in one or several runs, and which words carry each class."""
    from wherefrom.benchmark import Run, write_thermostat
    from wherefrom.benchmark.statistics import Energy
    from wherefrom.benchmark.summary import summarise, with_distinct_names
    from wherefrom.benchmark.words import WordChoice
    from wherefrom.report.leaderboard_files import as_csv, as_latex

    if watts is not None and not 0 < watts < inf:
        raise BadOption(f"--watts takes what the machine draws, more than 0, not {watts:g}.")
    energy = None if watts is None else Energy(watts, pue, intensity)
    cli.check_open(html, open_page)
    for folder in folders:
        check_run(folder)
    runs = [Run.load(folder) for folder in folders]
    if thermostat is not None and len(runs) > 1:
        raise BadOption("--thermostat writes the explanations of one run: name one folder.")
    choice = WordChoice(None if words == "best" else words, least, not keep_case, _stop_words(stop_words))
    summaries = with_distinct_names(
        [summarise(run, energy, seed=seed, words=choice) for run in runs],
        [folder.name or str(folder) for folder in folders],
    )

    def page() -> str:
        from wherefrom.report.benchmark import report_page

        return report_page(summaries, energy)

    cli.write_page(html, page, open_it=open_page)
    if csv is not None:
        cli.write_file(csv, as_csv(summaries))
    if latex is not None:
        cli.write_file(latex, as_latex(summaries))
    if thermostat is not None:
        write_thermostat(runs[0], thermostat)
    _show(summaries, words=words is not None, everything=everything)


def _stop_words(option: str | None) -> frozenset[str]:
    from wherefrom.benchmark.words import ENGLISH

    if option == "english":
        return ENGLISH
    return frozenset(word.strip() for word in (option or "").split(",") if word.strip())


def check_run(folder: Path) -> None:
    """Raise an error that names the runs inside a folder that is not a run itself."""
    from wherefrom.benchmark.store import MANIFEST

    if exists(folder) and folder.is_dir() and not (folder / MANIFEST).exists():
        inside = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
        if inside:
            raise BadFile(
                f"{folder} is not a run itself, but contains {len(inside)}: {', '.join(map(str, inside[:20]))}"
                f"{', ...' if len(inside) > 20 else ''}. Name those you want a report of."
            )


def _style_of(standing: Standing | None) -> str:
    """Bold for the best; blue for those that do not differ significantly from it."""
    if standing is None or standing.mean is None:
        return ""
    if standing.behind == 0:
        return "bold blue"
    return "blue" if standing.as_good_as_the_best else ""


def _mean(standing: Standing | None) -> Text:
    text = "–" if standing is None or standing.mean is None else f"{standing.mean:.3f}"
    return Text(text, _style_of(standing))


def _show(summaries: list[Summary], *, words: bool, everything: bool = False) -> None:
    """A table for every run: ranks and three metrics, or every metric, in several blocks where the terminal is narrow.
    No number is ever cut off.
    """
    from wherefrom.benchmark.recommendation import recommend
    from wherefrom.core.labels import visible
    from wherefrom.report.benchmark import shown_metrics
    from wherefrom.report.columns import TerminalColumn, heading, print_columns
    from wherefrom.report.leaderboard_files import metric_title
    from wherefrom.report.recommendation import recommended, seconds_per_example
    from wherefrom.report.wording import ARROWS
    from wherefrom.report.words import print_words

    console = Console(highlight=False)
    advice = recommended(recommend([summary.redrawn for summary in summaries]), seconds_per_example(summaries))
    if advice is not None:
        console.print(Text.assemble((advice.headline, "bold"), " ", advice.sentence))
        console.print()
    for summary in summaries:
        console.print(Text(f"{summary.name}: {summary.examples} examples", "italic"))
        methods = list(zip(summary.ranks.methods, summary.ranks.overall, strict=True))
        columns = [
            TerminalColumn(("rank",), tuple(Text("–" if rank is None else f"{rank:.1f}") for _, rank in methods))
        ]
        metrics = list(summary.boards) if everything else shown_metrics(summary)
        for metric in metrics:
            standings = {standing.method: standing for standing in summary.boards[metric]}
            columns.append(
                TerminalColumn(
                    heading(f"{metric_title(metric)} {ARROWS[summary.better[metric]]}"),
                    tuple(_mean(standings.get(method)) for method, _ in methods),
                )
            )
        names = TerminalColumn(("method",), tuple(Text(visible(method)) for method, _ in methods))
        print_columns(console, (names, columns))
        if len(metrics) < len(summary.boards):
            more = len(summary.boards) - len(metrics)
            console.print(f"{more} more metric{'s' * (more != 1)}: --all", style="dim")
        for method, count in summary.gaps.items():
            console.print(Text(f"{method}: {count} explanations do not add up to what they should.", "yellow"))
        console.print()
        if words and not summary.words:
            console.print("No word occurs in enough texts of one class: see --least.", style="yellow")
        if words:
            print_words(console, summary.words)
    if not sys.stdout.isatty():
        return
    console.print("Bold: the best. Blue: not significantly different from the best.", style="dim")
