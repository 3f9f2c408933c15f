"""The command `wherefrom audit`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from wherefrom.cli import arguments as cli
from wherefrom.cli.run import pairs, print_damage, print_estimate, reporting_when_stopped
from wherefrom.core.files import reading
from wherefrom.errors import BadFile, BadOption
from wherefrom.progress import bar

if TYPE_CHECKING:
    from wherefrom.cli.run import RunProgress
    from wherefrom.core.audit import Audit
    from wherefrom.core.gate import GateRule

FOLDERS = Path("audits")  # where audits are kept unless --out names a folder


@cli.app.command(
    rich_help_panel="Whole data sets",
    epilog=cli.examples(
        "wherefrom audit sample:reviews --html audit.html",
        "wherefrom audit reviews.csv --model ./my-model --against ./old-model --html audit.html --pdf audit.pdf",
        "wherefrom audit reviews.csv --model ./my-model --gate rules.toml --json audit.json --card card.md",
    ),
)
def audit(
    data: Annotated[
        str,
        typer.Argument(
            help="A file, a folder, layout:path, hf:NAME, sample:NAME, or a ready name; @SPLIT after it takes one part."
        ),
    ],
    model: cli.ModelOption = "embedded",
    against: Annotated[
        str | None, typer.Option(help="An older model: which decisions and words changed.", metavar="MODEL")
    ] = None,
    gate: Annotated[
        Path | None,
        typer.Option(
            help='Rules that must hold, one a line, as in accuracy = ">= 0.88": exit code 1 and a list of what failed.',
            metavar="FILE",
        ),
    ] = None,
    html: cli.HtmlOption = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything as JSON.", metavar="FILE")] = None,
    card: Annotated[
        Path | None, typer.Option(help="Write the section for a model card, in Markdown.", metavar="FILE")
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option(help="Print the page to a PDF, by Chromium or Chrome.", metavar="FILE")
    ] = None,
    open_page: cli.OpenOption = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder that the work is kept in. The same command resumes an audit that was stopped.",
            show_default="audits/DATA-MODEL",
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="What explains decisions: a name from 'wherefrom methods'.", show_default="by task")
    ] = "auto",
    metadata: Annotated[
        str | None,
        typer.Option(help="Columns whose values may be shortcuts, between commas: source,author.", metavar="COLUMNS"),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with terms to swap with each other: one group a line, a name and a list of terms.",
            metavar="FILE",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Take the first N examples.", metavar="N")] = None,
    seed: Annotated[int | None, typer.Option(help="With --limit: take N at random instead.", metavar="S")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The folder of data sets with ready names.")] = None,
    columns: Annotated[str | None, typer.Option(help="Fields by other names: text=sentence,label=gold.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="The data set's labels in the model's words: 0=NEGATIVE,1=POSITIVE; or 'none'.")
    ] = None,
    candidates: cli.CandidatesOption = None,
    template: cli.TemplateOption = None,
    multi_label: cli.MultiLabelOption = False,
    spread: cli.SpreadOption = None,
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="How many work at once.", show_default="one a core; one on a GPU")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster.", show_default="one of this machine's own")
    ] = None,
    storage: Annotated[str | None, typer.Option(help="Where workers write their tables, as in wherefrom run.")] = None,
    device: cli.DeviceOption = None,
) -> None:
    """Show what a model leans on over a whole data set, and hold it against rules."""
    cli.check_data(data)
    cli.check_open(html, open_page)
    if method != "auto":
        cli.check_names("method", method)
    rules = read_gate(gate)
    zero_shot = cli.candidate_labels(candidates, template, multi_label=multi_label)
    folder = out or FOLDERS / f"{_file_name(data)}-{_file_name(model)}"
    plan = {
        "data": data,
        "model": model,
        "method": method,
        "metadata": tuple(name.strip() for name in (metadata or "").split(",") if name.strip()),
        "groups": read_groups(groups),
        "limit": limit,
        "seed": seed,
        "data_dir": data_dir,
        "columns": pairs(columns, "--columns"),
        "labels": "none" if labels == "none" else pairs(labels, "--labels"),
        "candidates": zero_shot.get("labels", ()),
        "template": zero_shot.get("template"),
        "multi_label": multi_label,
        "spread": spread,
        "engine": engine,
        "workers": workers,
        "address": address,
        "storage": storage,
        "device": device,
    }
    with reporting_when_stopped(folder / "run") as progress:
        result = _audit(plan, folder, against, progress)
    failed = failures_of(rules, result)  # a rule about a number that there is not: an error before anything is written
    cli.write_page(html, result.to_html, open_it=open_page)
    if json_file is not None:
        cli.write_file(json_file, result.to_json(indent=1) + "\n")
    if card is not None:
        cli.write_file(card, result.to_markdown())
    if pdf is not None:
        from wherefrom.report.pdf import print_pdf

        print_pdf(result.to_html(), pdf)
        cli.problems.print(Text(f"The PDF: {pdf}", "dim"), soft_wrap=True)
    result.show()
    if rules:
        _report_gate(rules, failed)


def _audit(plan: dict[str, Any], folder: Path, against: str | None, progress: RunProgress) -> Audit:
    from wherefrom.audit.build import audit as build
    from wherefrom.audit.plan import AuditPlan

    with bar("examples") as show:

        def on_progress(_: int, total: int) -> None:
            progress.examples = total

        return build(
            AuditPlan(**plan),
            folder,
            against=against,
            on_progress=on_progress,
            on_work=show,
            on_damage=print_damage,
            on_estimate=print_estimate,
        )


def read_gate(path: Path | None) -> Sequence[GateRule]:
    """The rules of --gate, before anything runs."""
    if path is None:
        return ()
    from wherefrom.core.gate import read_rules

    return read_rules(path)


def failures_of(rules: Sequence[GateRule], result: Audit) -> list[str]:
    """Why the rules are not met."""
    if not rules:
        return []
    from wherefrom.core.gate import failures

    return failures(rules, result)


def _report_gate(rules: Sequence[GateRule], failed: Sequence[str]) -> None:
    console = Console(highlight=False)
    if not failed:
        console.print(f"The gate: all {len(rules)} rules are met.", soft_wrap=True)
        return
    for why in failed:
        cli.problems.print(Text.assemble(("failed: ", "bold red"), why), soft_wrap=True)
    cli.problems.print(f"The gate: {len(failed)} of {len(rules)} rules are not met.", soft_wrap=True)
    sys.stdout.flush()
    raise typer.Exit(1)


def read_groups(path: Path | None) -> dict[str, list[str]]:
    """The terms of --groups."""
    if path is None:
        return {}
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        groups = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadFile(f'{path} is not TOML: {error}. A group is written as in: names = ["Anna", "Mohammed"]') from error
    for name, terms in groups.items():
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise BadOption(f'{path}: {name} is not a list of terms. Write it as in: {name} = ["Anna", "Mohammed"]')
    return groups


def _file_name(source: str) -> str:
    """The last part of a path or name, in letters that every file system takes."""
    last = Path(source.rpartition(":")[2]).stem or source
    return re.sub(r"[^\w.-]+", "-", last).strip("-.") or "audit"
