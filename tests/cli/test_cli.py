"""The command line as a user meets it: what it prints, where, and its exit code."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from tiny_models import make_network, tokenizer

from wherefrom.cli import main as cli
from wherefrom.model.loading import quiet


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    with quiet():
        make_network("bert").save_pretrained(path)
        tokenizer().save_pretrained(path)
    return path


Done = subprocess.CompletedProcess[str]


class Run:
    """The command in this process: as `main` sees it, without paying for a start each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capfd = monkeypatch, capfd

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Done:
        self.monkeypatch.setattr(sys, "argv", ["wherefrom", *arguments])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self.monkeypatch.setattr(cli, "problems", Console(file=sys.stderr, highlight=False))
        self.monkeypatch.setenv("COLUMNS", "120")
        self.capfd.readouterr()
        code = 0
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            try:
                cli.main()
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Done(arguments, code, *self.capfd.readouterr())


@pytest.fixture
def wherefrom(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capfd)


def test_a_long_text_is_read_in_windows(wherefrom: Run, folder: Path) -> None:
    words = ("explain", "the film was not bad , but dull ! " * 20, "--model", str(folder), "--method", "saliency")
    found = wherefrom(*words, "--no-check", "--json", "--long", "windows")
    assert (found.returncode, found.stderr) == (0, "")  # nothing is cut, so that there is no warning
    assert "windows that overlap" in json.loads(found.stdout)["notes"][0]
    wrong = wherefrom(*words, "--long", "window")
    assert wrong.returncode == 2
    assert "Did you mean 'windows'?" in wrong.stderr


def test_a_real_process(folder: Path) -> None:
    def run(*arguments: str) -> Done:
        command = [sys.executable, "-m", "wherefrom", *arguments, "--model", str(folder)]
        return subprocess.run(
            command, capture_output=True, check=False, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )

    right, wrong = run("explain", "the film was not bad", "--json"), run("explain", "a film", "--method", "atcat")
    assert (right.returncode, right.stderr) == (0, "")
    assert json.loads(right.stdout)["method"] == "attn_lrp"
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (
        2,
        "",
        "error: No method is called 'atcat'. Did you mean 'attcat'?\n",
    )


def test_explain_checks_itself_unless_told_not_to(wherefrom: Run, folder: Path) -> None:
    text = "the film was not bad and the plot was good"
    told = json.loads(wherefrom("explain", text, "--model", str(folder), "--json").stdout)["check"]
    assert told["verdict"] in ("supported", "weak", "not supported")
    assert told["whole"] == pytest.approx(
        json.loads(wherefrom("explain", text, "--model", str(folder), "--json").stdout)["probability"]
    )
    shown = " ".join(wherefrom("explain", text, "--model", str(folder)).stdout.split())
    assert "at random" in shown
    silent = wherefrom("explain", text, "--model", str(folder), "--no-check")
    assert "at random" not in " ".join(silent.stdout.split())
    assert (
        json.loads(wherefrom("explain", text, "--model", str(folder), "--no-check", "--json").stdout)["check"] is None
    )


def test_explain_shows_the_text_and_its_scores(wherefrom: Run, folder: Path) -> None:
    done = wherefrom("explain", "the film was not bad", "--model", str(folder))
    assert done.returncode == 0, done.stderr
    assert "film" in done.stdout
    assert "attn_lrp" in done.stdout
    assert done.stderr == ""


def test_one_text_is_shown_by_word_unless_a_level_is_named(wherefrom: Run) -> None:
    """As in the explorer: the embedded model reads "drags" as two tokens."""
    text = "The plot drags."
    words = json.loads(wherefrom("explain", text, "--json", "--no-check").stdout)
    assert (words["level"], words["tokens"][1:-1]) == ("word", ["The", "plot", "drags", "."])
    tokens = json.loads(wherefrom("explain", text, "--json", "--no-check", "--level", "token").stdout)
    assert tokens["level"] == "token"
    assert len(tokens["tokens"]) > len(words["tokens"])
    spans = json.loads(wherefrom("explain", text, "--json", "--no-check", "--units", "4:14").stdout)
    assert spans["level"] == "span"
    assert "plot drags" in spans["tokens"]
    compared = wherefrom("compare", text, "--methods", "attcat", "--json", "--no-check").stdout
    assert json.loads(compared)["explanations"][0]["level"] == "word"


def test_json_html_standard_input_options_and_levels(wherefrom: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = wherefrom(
        *("explain", "-", "--pair", "very dull", "--model", str(folder), "--method", "saliency", "-o", "norm=l1"),
        *("--target", "LABEL_2", "--level", "word", "--json", "--html", str(page)),
        stdin=b"the film was xyz",
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["tokens"] == ["[CLS]", "the", "film", "was", "xyz", "[SEP]", "very", "dull", "[SEP]"]
    assert (data["target"], data["level"], data["params"]["norm"]) == ("LABEL_2", "word", "l1")
    assert "xyz" in page.read_text()


def test_difference_of_two_methods(wherefrom: Run, folder: Path) -> None:
    done = wherefrom("explain", "the film", "--model", str(folder), "--minus", "saliency", "--json")
    assert json.loads(done.stdout)["method"] == "attn_lrp - saliency"


def test_one_label_rather_than_another(wherefrom: Run, folder: Path) -> None:
    done = wherefrom(
        "explain", "the film", "--model", str(folder), "--target", "LABEL_2", "--versus", "LABEL_0", "--json"
    )
    assert json.loads(done.stdout)["target"] == "LABEL_2 rather than LABEL_0"
    alone = wherefrom("explain", "the film", "--model", str(folder), "--versus", "LABEL_0")
    assert (alone.returncode, "give both" in alone.stderr) == (2, True)


def test_methods_and_doctor(wherefrom: Run, folder: Path) -> None:
    listed = json.loads(wherefrom("methods", "--json").stdout)
    assert {"name", "family", "signed", "per_class", "summary", "paper"} <= set(listed[0])
    assert "attcat" in wherefrom("methods").stdout
    done = wherefrom("doctor", str(folder))
    assert done.returncode == 0, done.stderr
    assert "blocks rebuilt from their parts" in done.stdout
    assert done.stdout.rstrip().endswith("methods work.")  # one line, not one for each
    assert json.loads(wherefrom("doctor", str(folder), "--json").stdout)["methods"]["attcat"] is None


def test_doctor_names_methods_with_the_same_reason_together(capfd: pytest.CaptureFixture[str]) -> None:
    from wherefrom.cli.doctor import _print_methods

    _print_methods(Console(width=80), {"lime": None, "alti": "no attention", "gae": "no attention", "lrp": "no rule"})
    assert capfd.readouterr().out.splitlines() == [
        "1 of 4 methods work; 3 do not:",
        "alti, gae: no attention",
        "lrp: no rule",
    ]


def test_one_method_and_one_metric_are_described(wherefrom: Run) -> None:
    shown = wherefrom("methods", "attn_lrp").stdout
    assert "The sum over e * g" in shown  # beyond the summary
    assert "arXiv:2402.05602" in shown
    assert "for and against" in shown
    assert "depends on the class" in shown
    assert '$ wherefrom explain "A fine film." --method attn_lrp' in shown
    assert json.loads(wherefrom("methods", "attn_lrp", "--json").stdout)["name"] == "attn_lrp"
    shown = wherefrom("metrics", "comprehensiveness").stdout
    assert "higher is better" in shown
    assert "variant=paper" in shown
    assert json.loads(wherefrom("metrics", "aopc", "--json").stdout)["name"] == "aopc"
    unknown = wherefrom("methods", "atn_lrp")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "Did you mean 'attn_lrp'" in unknown.stderr


def test_flow_says_what_it_shows(wherefrom: Run) -> None:
    shown = " ".join(wherefrom("flow", "A fine film.").stdout.split())
    assert "The decision is read at “[CLS]”" in shown
    assert "After the last layer most of it comes from “fine”" in shown
    assert "it is the same for every class" in shown


def test_the_flip_of_the_readme_finds_something(wherefrom: Run) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (line,) = (line for line in readme.splitlines() if line.startswith("wherefrom flip "))
    found = json.loads(wherefrom(*shlex.split(line.partition("#")[0])[1:], "--json").stdout)
    assert found["hidden"]
    assert found["becomes"] != found["decision"]


def test_metrics_are_listed(wherefrom: Run) -> None:
    listed = json.loads(wherefrom("metrics", "--json").stdout)
    assert {"name", "better", "fill", "needs", "group", "summary", "paper", "options"} == set(listed[0])
    shown = wherefrom("metrics").stdout
    assert "higher is better" in shown
    assert "aopc:fill=delete:variant=paper" in shown


def test_compare(wherefrom: Run, folder: Path, tmp_path: Path) -> None:
    some = ["--model", str(folder), "--methods", "attcat,alti:norm=l2", "--metrics", "aopc,sufficiency,auprc"]
    done = wherefrom(
        "compare", "the film was not bad", *some, "--rationale", "4:8,13:16", "--html", str(tmp_path / "page.html")
    )
    assert done.returncode == 0, done.stderr
    assert "alti:norm=l2" in done.stdout
    assert "alti:norm=l2" in (tmp_path / "page.html").read_text()
    found = json.loads(
        wherefrom("compare", "-", *some, "--level", "word", "--json", stdin=b"the film was not bad").stdout
    )
    assert found["names"] == ["attcat", "alti:norm=l2"]
    assert [grade["value"] is None for grade in found["grades"][0]] == [False, False, True]
    again = wherefrom("compare", "the film", *some[:4], "--metrics", "spearman", "--against", str(folder), "--json")
    assert json.loads(again.stdout)["grades"][0][0]["value"] == pytest.approx(1.0)


def test_each_predicted_label(wherefrom: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = json.loads(
        wherefrom("explain", "the film", "--model", str(folder), "--each", "--json", "--html", str(page)).stdout
    )
    assert [one["target"] for one in found] == [found[0]["prediction"]]
    assert page.exists()
    assert "explains" in wherefrom("explain", "the film", "--model", str(folder), "--each").stdout


def test_a_text_that_was_cut_is_a_warning(wherefrom: Run, folder: Path) -> None:
    done = wherefrom("explain", "film " * 100, "--model", str(folder), "--json")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: The text has 102 tokens")
    assert json.loads(done.stdout)["cut"] == 38


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["explain", ""], 2, "empty or blank"),
        (["explain", "-"], 2, "empty or blank"),
        (["explain", "a film", "--method", "atcat"], 2, "Did you mean 'attcat'?"),
        (["explain", "a film", "--method", "attcat", "-o", "hiden=input"], 2, "Did you mean 'hidden'?"),
        (["explain", "a film", "-o", "hidden"], 2, "key=value"),
        (["explain", "a film", "--target", "LABEL_9"], 2, "No label is called 'LABEL_9'"),
        (["explain", "a film", "--target", ""], 2, "The target is empty"),
        (["compare", "a film", "--target", ""], 2, "The target is empty"),
        (["compare", "a film", "--open"], 2, "--open opens the page that --html writes"),
        (["explain", "a film", "--level", "words"], 2, "Did you mean 'word'?"),
        (["explain", "a film", "--theme", "ligth"], 2, "Did you mean 'light'?"),
        (["explain", "a film", "--html", "/no/such/folder/page.html"], 1, "could not be written"),
        (["explain", "a film", "--model", "/no/such/model"], 2, "not a folder"),
        (["explain", "a film", "--each", "--target", "LABEL_1"], 2, "neither --target nor --minus"),
        (["compare", "a film", "--rationale", "3:99"], 2, "lies outside of the text, which has 6 characters"),
        (["compare", "a film", "--rationale", "three"], 2, "start:end"),
        (["compare", "a film", "--metrics", "aopcc"], 2, "Did you mean 'aopc'?"),
        (["compare", "a film", "--metrics", "spearman"], 2, "compares two models: name the other one with --against"),
        (["compare", "a film", "--methods", "alti:norm=l3"], 2, "alti takes norm"),
        (["compare", "", "--methods", "attcat"], 2, "empty or blank"),
        (["doctor", "/no/such/model"], 2, "not a folder"),
    ],
)
def test_a_mistake_is_one_clear_line(
    arguments: list[str], code: int, message: str, wherefrom: Run, folder: Path
) -> None:
    if arguments[0] in ("explain", "compare") and "--model" not in arguments:
        arguments = [*arguments, "--model", str(folder)]
    done = wherefrom(*arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_input_that_is_no_text(wherefrom: Run, folder: Path) -> None:
    done = wherefrom("explain", "-", "--model", str(folder), stdin=b"\xff\xfe\x00")
    assert done.returncode == 1
    assert "not UTF-8" in done.stderr


@pytest.mark.parametrize("arguments", [["explan"], ["explain", "a", "--colour"], ["explain", "a", "b"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str], wherefrom: Run) -> None:
    done = wherefrom(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_loads_no_torch() -> None:
    run = "try: cli.main()\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    code = f"import sys; sys.argv = ['wherefrom', '--help']; from wherefrom.cli import main as cli\n{run}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_no_module_of_another_command_is_imported() -> None:
    code = (
        "import sys; sys.argv = ['wherefrom', 'methods']; from wherefrom.cli import main as cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "others = {f'wherefrom.cli.{module}' for module in cli.MODULES.values()} - {'wherefrom.cli.methods'}\n"
        "sys.exit(' '.join(others & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert "attcat" in done.stdout


def test_every_module_of_a_command_is_known_and_registers_it() -> None:
    folder = Path(cli.__file__).parent
    others = {"__init__", "arguments", "completion", "listing", "main", "source_rows"}
    assert {path.stem for path in folder.glob("*.py")} - others == set(cli.MODULES.values())
    cli.register_commands()
    root: Any = typer.main.get_command(cli.app)
    assert set(root.commands) == set(cli.MODULES)


def test_a_misspelt_command_is_told_of_the_one_that_was_meant(wherefrom: Run) -> None:
    assert "Did you mean 'methods'" in " ".join(wherefrom("metods").stderr.split())


def test_help_and_version(wherefrom: Run) -> None:
    assert "explain" in wherefrom("--help").stdout
    assert wherefrom("--version").stdout.startswith("wherefrom ")


def commands() -> dict[str, Any]:
    """Every command by its name, with those of groups as "group command"."""
    cli.register_commands()
    root: Any = typer.main.get_command(cli.app)
    found: dict[str, Any] = {}
    for name, one in root.commands.items():
        found |= (
            {f"{name} {inner}": own for inner, own in one.commands.items()} if hasattr(one, "commands") else {name: one}
        )
    return found


@pytest.mark.parametrize("name", commands())
def test_every_command_has_two_examples_that_can_be_parsed(name: str) -> None:
    one = commands()[name]
    examples = [line.removeprefix("$ ") for line in (one.epilog or "").split("\n\n") if line.startswith("$ ")]
    assert len(examples) >= 2
    for example in examples:
        assert example == f"wherefrom {name}" or example.startswith(f"wherefrom {name} ")
        one.make_context(name, shlex.split(example)[1 + len(name.split()) :])  # raises on an option that is not there


@pytest.mark.parametrize("name", commands())
def test_help_eats_no_brackets(name: str, wherefrom: Run) -> None:
    """What stands in square brackets is markup: defaults that are no values are given as `show_default`."""
    for one in commands()[name].params:
        assert "[" not in (one.help or "")
    shown = " ".join(wherefrom(*name.split(), "--help").stdout.split())
    assert "Examples:" in shown


def test_commands_come_in_groups(wherefrom: Run) -> None:
    shown = wherefrom("--help").stdout
    for title in ("Explain one text", "Whole data sets", "Look into a model", "Look something up"):
        assert title in shown


def test_a_flag_means_the_same_in_every_command() -> None:
    """One spelling for one thing; a model is always --model or -m."""
    for name, one in commands().items():
        flags = {flag for parameter in one.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert not flags & {"--output", "--dataset", "--file", "--input", "--gpu", "--options"}, name
        assert ("--model" in flags) <= ("-m" in flags and "--device" in flags), name
        assert ("--open" in flags) <= ("--html" in flags), name


def test_html_says_what_was_written_and_opens_it(
    wherefrom: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = tmp_path / "page.html"
    asked = ["--model", str(folder), "--methods", "attcat,random", "--metrics", "aopc", "--json", "--html", str(page)]
    done = wherefrom("compare", "the film", *asked, "--open")
    assert json.loads(done.stdout)["names"] == ["attcat", "random"]  # nothing else on standard output
    assert f"The page: {page}" in done.stderr
    assert opened == [page.as_uri()]
    wherefrom("flow", "the film", "--model", str(folder), "--html", str(page))
    assert len(opened) == 1
    told = wherefrom("explain", "the film", "--model", str(folder), "--html", str(page), "--open")
    assert (told.stderr, len(opened)) == (f"The page: {page}\n", 2)


def test_options_behind_a_method_or_by_o(wherefrom: Run, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "flow.json"
    done = wherefrom(
        *("flow", "the film", "--model", str(folder), "--method", "alti:norm=l2:ln2=true", "-o", "ln2=false"),
        *("--save", str(saved)),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(saved.read_text())["params"] == {"norm": "l2", "ln2": False}
    shown = wherefrom("explain", "the film", "--model", str(folder), "--method", "saliency:norm=l1", "--json")
    assert json.loads(shown.stdout)["params"]["norm"] == "l1"
