"""The report of runs: what it says is what the rows say, whatever texts and names are in them."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from wherefrom.benchmark import Run, RunPlan
from wherefrom.benchmark.parts import Part
from wherefrom.benchmark.statistics import Energy, Standing
from wherefrom.benchmark.store import new_manifest, open_store
from wherefrom.benchmark.summary import Summary, ranks_over_data_sets, summarise, with_distinct_names
from wherefrom.benchmark.words import WordChoice
from wherefrom.cli import main as cli
from wherefrom.cli import run as command_module
from wherefrom.core.statistics import Interval
from wherefrom.errors import WherefromError
from wherefrom.report.benchmark import _view, report_page, shown_metrics
from wherefrom.report.leaderboard_files import as_csv, as_latex, latex, metric_title
from wherefrom.report.page_table import number

EVIL = "<script>alert('x')</script> & \u202e$x_1$"
METHODS = ["good", "optimus", "random", EVIL]
MODEL = {"name": f"model {EVIL}", "fingerprint": "0123", "labels": ["NO", "YES"]}
ORDER = {"good": [3.0, 1.0, 2.0], "optimus": [1.0, 3.0, 2.0], "random": [2.0, 2.5, 1.0], EVIL: [1.0, 2.0, 3.0]}


def written(
    folder: Path, values: dict[str, float | None], *, finished: bool = True, name: str = "few", evil: str = EVIL
) -> Run:
    """A run of three examples in two parts; every example has the method's value, a little more or less."""
    model = MODEL | {"name": f"model {evil}"}
    versions = {"wherefrom": "0", "torch": "0"}
    plan = RunPlan(name, methods=[one.replace(EVIL, evil) for one in METHODS], metrics=["aopc", "auprc"]).to_manifest()
    manifest = new_manifest(
        {"plan": plan["plan"], "model": model, "versions": versions},
        parts=2,
        facts={
            "how": plan["how"],
            "data": name,
            "examples": 3,
            "model": model,
            "metrics": [{"asked": "aopc", "better": "higher"}, {"asked": "auprc", "better": "higher"}],
        },
    )
    with open_store(folder, manifest) as store:
        store.write(0, part(values, [0, 1], evil))
        if finished:
            store.write(1, part(values, [2], evil))
    return Run.load(folder)


def part(values: dict[str, float | None], numbers: list[int], evil: str = EVIL) -> Part:
    explanations: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for example in numbers:
        for method in METHODS:
            key = {"example": f"e{example}", "target": "YES", "method": method.replace(EVIL, evil)}
            params = {"winner": ("mean", "mean", "product")[example]} if method == "optimus" else {}
            explanations.append(
                key
                | {
                    "prediction": "YES",
                    "probability": 0.9,
                    "label": ("YES", "NO", "YES")[example],
                    "text": f"so {evil}",
                    "pair": None,
                    "rationale": ([[0, 2], [3, 4]], [], None)[example],
                }
                | {
                    "level": "token",
                    "tokens": ["[CLS]", "so", "<", evil[1:]],
                    "scores": [9.0, *ORDER[method]],
                    "segment": [-1, 0, 0, 0],
                }
                | {
                    "offsets": [[0, 0], [0, 2], [3, 4], [4, 3 + len(evil)]],
                    "input_ids": [1, 2, 3, 4],
                    "signed": method == "good",
                }
                | {"params": json.dumps(params), "notes": "[]", "cut": 0, "seconds": 0.1, "forwards": 1, "backwards": 0}
            )
            value = values[method]
            curve = json.dumps({"curve": [0.0, 0.5, 1.0]})
            shown = None if value is None else value + 0.01 * (example - 1)
            scores.append(
                key | {"metric": "aopc", "value": shown, "why": "" if value else "not for this one", "details": curve}
            )
            scores.append(key | {"metric": "auprc", "value": None, "why": "no rationale", "details": "{}"})
    errors = (
        [{"example": "bad", "method": None, "where": f"{evil}, line 3", "error": f"no {evil}"}] if 0 in numbers else []
    )
    alone = [
        {"method": method.replace(EVIL, evil), "seconds": 0.5, "forwards": 2, "backwards": 1} for method in METHODS
    ]
    costs = {"examples": len(numbers) + len(errors), "asked": 100, "distinct": 41, "rows": 40, "seconds": 60.0}
    return Part(explanations, scores, errors, costs, alone)


VALUES: dict[str, float | None] = {"good": 0.5, "optimus": 0.3, "random": 0.1, EVIL: None}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summarise(written(tmp_path_factory.mktemp("run") / "few", VALUES), Energy())


def test_a_summary_by_hand(summary: Summary) -> None:
    assert (summary.examples, summary.finished) == (3, True)
    assert summary.accuracy == pytest.approx(2 / 3)
    assert [one.method for one in summary.boards["aopc"]] == ["good", "optimus", "random", EVIL]
    assert summary.boards["aopc"][1].mean == pytest.approx(0.3)
    assert summary.boards["aopc"][1].behind == pytest.approx(-0.2)
    assert summary.ranks.overall == [1.0, 2.0, 3.0, None]
    assert summary.winners == {"optimus": [("mean", 2), ("product", 1)]}
    assert summary.counts == {"examples": 4, "asked": 200, "distinct": 82, "rows": 80, "seconds": 120.0}
    assert summary.costs[0].seconds == 2.0
    assert summary.curves["aopc"]["good"].means == [0.0, 0.5, 1.0]
    assert [one.example for one in summary.disputed] == ["e0", "e1", "e2"]
    assert summary.disputed[0].explanations[0].scores == (9.0, 3.0, 1.0, 2.0)


def test_what_people_marked_is_drawn(summary: Summary) -> None:
    assert [one.rationale for one in summary.disputed] == [(((0, 2), (3, 4)), ()), ((), ()), None]
    page = report_page([summary])
    shown = [method for method in METHODS if method != "random"]  # which is not worth a look
    assert page.count('<mark class="people">') == len(shown)  # one box in the first example, by every method
    assert '<span class="people" aria-hidden="true">box</span> marked by people' in page
    assert page.count("people marked nothing") == 1


class Page(HTMLParser):
    """Sees that everything that is opened is closed, and collects the tables."""

    VOID = ("meta", "br", "input", "hr", "img", "link")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts = 0
        self.text: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page(summary: Summary) -> None:
    page = report_page([summary], Energy())
    read = Page(page)
    words = " ".join(" ".join(read.text).split())
    assert read.scripts == 1  # ours, which sorts; nothing that a text or a name brought
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)  # nothing from the network
    assert "60.0% of the questions saved" in words
    assert "1 of them could not be explained" in words
    assert "the model is right in 66.7%" in words
    assert page.count("<svg") == 5  # intervals, curves, faithfulness against cost, cost, agreement
    for said in (
        "Leaderboard",
        "How sure is that?",
        "Perturbation curves",
        "What it costs",
        "Operations that won",
        "Which words carry a class?",
        "Look at examples",
    ):
        assert said in words
    row = re.search(r'<tr><th scope="row" data-v="optimus">.*?</tr>', page)
    assert row is not None
    assert re.findall(r">([^<]+)</td>", row[0]) == ["2.0", "0.300", "–"]
    assert 'data-v="0.3' in row[0]


def test_the_words_of_the_page(summary: Summary) -> None:
    """`good` is recommended; it gives 3.0 to "so" in three texts, and the others to what is no word or holds markup."""
    (only,) = summary.words
    assert (only.target, only.method, only.texts) == ("YES", "good", 3)
    so = next(one for one in only.heaviest if one.word == "so")
    assert (so.total, so.mean, so.low, so.high, so.texts) == (9.0, 3.0, 3.0, 3.0, 3)
    page = report_page([summary])
    table = page[page.index("Which words carry a class?") : page.index("Look at examples")]
    row = re.search(r'<tr><th scope="row" data-v="so">.*?</tr>', table, re.DOTALL)
    assert row is not None
    cells = re.findall(r">([^<]+)</td>", row[0])
    assert cells[:-1] == ["9.000", "3.000", "3.000 to 3.000", "3", "3", "100.0%", "0.0%"]
    assert cells[-1].startswith("so &lt;script&gt;alert(")


def test_the_words_of_another_method(tmp_path: Path) -> None:
    run = written(tmp_path / "run", VALUES)
    (only,) = summarise(run, words=WordChoice("random")).words
    assert next(one.total for one in only.heaviest if one.word == "so") == 6.0
    assert not only.signed
    assert "have no sign" in report_page([summarise(run, words=WordChoice("random"))])
    with pytest.raises(WherefromError, match="No method of this run is called 'attcat'"):
        summarise(run, words=WordChoice("attcat"))


def test_the_words_in_the_terminal(command: Any, tmp_path: Path) -> None:
    folder = str(written(tmp_path / "run", VALUES).folder)
    assert "words by" not in command("report", folder).out
    told = command("report", folder, "--words", "best").out
    assert "YES: words by good, 3 texts" in told
    assert re.search(r"^so +9\.000 +3\.000 +3\.000 to 3\.000 +3 +3 +100\.0% +0\.0%$", told, re.MULTILINE)
    assert "so: so <script>" in told
    assert not re.search(r"^so ", command("report", folder, "--words", "good", "--stop-words", "so").out, re.MULTILINE)
    assert not re.search(
        r"^so ", command("report", folder, "--words", "good", "--stop-words", "english").out, re.MULTILINE
    )
    assert "No word occurs in enough texts" in command("report", folder, "--words", "good", "--least", "9").out
    wrong = command("report", folder, "--words", "optimum")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
    assert "Did you mean 'optimus'?" in wrong.err


def test_the_page_recommends_first_and_says_how_sure_that_is(summary: Summary) -> None:
    page = report_page([summary])
    words = " ".join(" ".join(Page(page).text).split())
    answer = "Take good. It has the best mean rank in 100% of 2,000 redraws of the 3 examples."
    assert f"{answer} By the only metric it is better than random beyond chance." in words
    assert words.index("Take good.") < words.index("Leaderboard")
    assert "CO2e are left out" in words
    assert "g CO2e" not in words


def test_the_page_opens_with_the_picture_and_ends_with_the_bookkeeping(summary: Summary) -> None:
    page = report_page([summary]).split("<main>")[1]
    places = [page.index(part) for part in ("Take good.", "<svg", "<table", "About this run", 'class="headline"')]
    assert places == sorted(places)


def test_the_first_table_has_three_metrics_and_the_rest_is_behind_a_disclosure(summary: Summary) -> None:
    names = ["comprehensiveness", "sufficiency", "aopc", "rft", "entropy"]
    several = replace(
        summary,
        boards=dict.fromkeys(names, summary.boards["aopc"]),
        better=dict.fromkeys(names, "higher"),
        curves={},
    )
    # One for each question that metrics put to the model, then others; entropy only describes scores.
    assert shown_metrics(several) == ["comprehensiveness", "sufficiency", "rft"]
    assert shown_metrics(summary) == list(summary.boards)
    view = _view(several, None, {})
    assert [title.split()[0] for title, _ in view.board.columns] == ["rank", "comprehensiveness", "sufficiency", "RFT"]
    assert view.whole_board is not None
    assert len(view.whole_board.columns) == 6
    page = report_page([several])
    assert "<summary>All 5 metrics</summary>" in page
    assert "<summary>All" not in report_page([summary])


def test_energy_is_told_where_the_power_is_known(tmp_path: Path) -> None:
    energy = Energy(power=65.0)
    page = report_page([summarise(written(tmp_path / "run", VALUES), energy)], energy)
    assert "Energy at 65 W" in page
    assert "g CO2e" in page


def test_examples_say_what_can_be_filtered(summary: Summary) -> None:
    assert [(one.example, one.prediction, one.wrong) for one in summary.disputed] == [
        ("e0", "YES", False),
        ("e1", "YES", True),
        ("e2", "YES", False),
    ]
    page = report_page([summary])
    assert "wrong predictions (1)" in page
    assert "methods disagree (3)" in page
    assert re.findall(r'<div class="disputed" data-label="(\w+)"( data-wrong)? data-disagree>', page) == [
        ("YES", ""),
        ("NO", " data-wrong"),
        ("YES", ""),
    ]
    assert "<option>NO</option><option>YES</option>" in page


def test_several_data_sets(tmp_path: Path, summary: Summary) -> None:
    other = summarise(written(tmp_path / "other", VALUES | {"random": 0.9}, name="other"), Energy())
    page = report_page([summary, other], Energy())
    Page(page)
    assert "Average ranks over 2 data sets" in page
    ranks = ranks_over_data_sets([summary, other])
    assert dict(zip(ranks.methods, ranks.overall, strict=True)) == {
        "good": 1.5,
        "random": 2.0,
        "optimus": 2.5,
        EVIL: None,
    }


def test_runs_of_one_data_set_are_told_apart(summary: Summary) -> None:
    assert [one.name for one in with_distinct_names([summary, summary], ["a", "b"])] == ["few (a)", "few (b)"]
    assert [one.name for one in with_distinct_names([summary], ["a"])] == ["few"]


def test_a_run_that_is_not_finished_says_so(tmp_path: Path) -> None:
    page = report_page([summarise(written(tmp_path / "half", VALUES, finished=False), Energy())], Energy())
    assert "some parts are missing" in page


def test_a_run_without_scores_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    facts = {"how": {}, "data": "few", "examples": 1, "model": MODEL, "metrics": []}
    with open_store(folder, new_manifest({"plan": {"methods": []}}, parts=1, facts=facts)):
        pass
    with pytest.raises(WherefromError, match="has no scores yet"):
        summarise(Run.load(folder), Energy())


def test_a_run_in_which_everything_failed_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    facts = {"how": {}, "data": "few", "examples": 3, "model": MODEL, "metrics": []}
    errors = [
        {"example": f"e{number}", "method": None, "where": "few.jsonl", "error": why}
        for number, why in enumerate(["no luck", "NaN", "NaN"])
    ]
    with open_store(folder, new_manifest({"plan": {"methods": []}}, parts=1, facts=facts)) as store:
        store.write(0, Part(errors=errors, costs={"examples": 3}))
    with pytest.raises(WherefromError, match=r"No example .* 3 of 3 were tried. The commonest error, 2 times: NaN"):
        summarise(Run.load(folder), Energy())


def test_csv(summary: Summary) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv([summary]))))
    assert len(rows) == 8
    first, second, *_, last = rows
    assert (first["data"], first["metric"], first["method"], first["rank"], first["less_best_low"]) == (
        "few",
        "aopc",
        "good",
        "1.0",
        "",
    )
    assert float(second["mean"]) == pytest.approx(0.3)
    assert float(second["less_best_low"]) == pytest.approx(-0.2)
    assert (last["metric"], last["mean"], last["why"]) == ("auprc", "", "no rationale")
    assert rows[3]["method"] == EVIL


def test_latex(summary: Summary) -> None:
    table = as_latex([summary])
    assert latex("a_b & 50% \\x{}") == r"a\_b \& 50\% \textbackslash{}x\{\}"
    assert r"good & \textbf{0.500} {\scriptsize$\pm$0.0" in table
    assert r"optimus & $0.300$ {\scriptsize" in table
    assert table.count(r"\\") == 5
    lines = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {3}
    assert r"AOPC $\uparrow$" in table


def test_names_and_numbers() -> None:
    assert [metric_title(one) for one in ("aopc", "faithfulness_violation", "aopc:fill=pad")] == [
        "AOPC",
        "faithfulness violation",
        "AOPC (fill=pad)",
    ]
    assert [number(value) for value in (0.12345, -0.5, -0.0001, 0.0)] == ["0.123", "−0.500", "0.000", "0.000"]
    assert number(0.00012, 0.0005) == "1.20e−04"
    assert Standing("a", 1.0, behind_interval=Interval(-1.0, 1.0)).as_good_as_the_best


class Done:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["wherefrom", *arguments])
        monkeypatch.setattr(cli, "problems", Console(file=sys.stderr, highlight=False))
        monkeypatch.setenv("COLUMNS", "200")
        capfd.readouterr()
        try:
            cli.main()
        except SystemExit as ended:
            return Done(int(ended.code or 0), *capfd.readouterr())
        return Done(0, *capfd.readouterr())

    return call


def test_the_commands(command: Any, tmp_path: Path, model_folder: Path, texts: Path) -> None:
    run = [
        "run",
        str(texts),
        "--out",
        str(tmp_path / "run"),
        "--model",
        str(model_folder),
        "--methods",
        "attcat,random:seed=3",
    ]
    done = command(*run, "--metrics", "aopc,entropy", "--workers", "1", "--part", "4", "--limit", "6", "--seed", "2")
    assert done.code == 0
    (line,) = done.err.splitlines()  # what it costs, and no bar where there is no terminal
    assert re.fullmatch(r"by the first part: about [\d,]+ forward passes and .+ for the other 2 examples", line)
    assert "6 examples" in done.out
    assert "0 examples with errors" in done.out
    (tmp_path / "run" / "scores" / "00000-00001.parquet").write_bytes(b"")
    failed = command("report", str(tmp_path / "run"))
    assert failed.code == 1
    assert "was cut short or changed" in failed.err
    again = command(
        *run, "--metrics", "aopc,entropy", "--workers", "1", "--part", "4", "--limit", "6", "--seed", "2", "--resume"
    )
    assert again.code == 0
    assert "warning: " in again.err
    assert "It was set aside" in again.err
    outputs = [f"--{kind}={tmp_path / kind}" for kind in ("html", "csv", "latex", "thermostat")]
    told = command("report", str(tmp_path / "run"), *outputs)
    assert told.code == 0, told.err
    assert "random:seed=3" in told.out
    assert "films: 6 examples" in told.out
    assert (tmp_path / "html").read_text().startswith("<!doctype html>")
    assert len((tmp_path / "thermostat").read_text().splitlines()) == 12
    assert "AOPC" in (tmp_path / "latex").read_text()
    assert (tmp_path / "csv").read_text().startswith("data,metric,")


def test_runs_inside_of_a_folder_are_named(command: Any, tmp_path: Path) -> None:
    written(tmp_path / "runs" / "a", VALUES)
    written(tmp_path / "runs" / "b", VALUES)
    done = command("report", str(tmp_path / "runs"))
    assert done.code == 1
    assert f"contains 2: {tmp_path / 'runs' / 'a'}, {tmp_path / 'runs' / 'b'}." in done.err


def test_the_table_in_the_terminal_has_three_metrics_unless_all_are_wanted(
    summary: Summary, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = ("comprehensiveness", "sufficiency", "rft", "aopc", "log_odds")
    board = summary.boards["aopc"]
    several = replace(summary, boards=dict.fromkeys(metrics, board), better=dict.fromkeys(metrics, "higher"))
    command_module._show([several], words=False)
    short = capsys.readouterr().out
    assert "2 more metrics: --all" in short
    assert "AOPC" not in short
    command_module._show([several], words=False, everything=True)
    whole = capsys.readouterr().out
    assert "AOPC" in whole
    assert "more metrics" not in whole


@pytest.mark.parametrize("width", [50, 80, 149])
def test_the_table_never_cuts_a_number(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    written(tmp_path / "run", VALUES)
    wide = command("report", str(tmp_path / "run")).out
    monkeypatch.setattr(command_module, "Console", partial(Console, width=width))
    narrow = command("report", str(tmp_path / "run")).out
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= width

    def numbers(shown: str) -> list[str]:
        return sorted(re.findall(r"-?\d+\.\d+", shown))

    assert numbers(narrow) == numbers(wide)
    assert numbers(wide)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "nothing", "--out", "x"], 2, "There is no file or folder 'nothing'"),
        (["run", "nothing.csv", "--out", "x"], 1, "error: There is no file or folder 'nothing.csv'.\n"),
        (["run", "--out", "x"], 2, "Name the data"),
        (["run", "--data", "some/nothing", "--out", "x"], 1, "error: There is no file or folder 'some/nothing'.\n"),
        (["run", "nothing", "--out", "x", "--target", ""], 2, "The target is empty"),
        (["report", "nothing", "--open"], 2, "--open opens the page that --html writes"),
        (
            ["run", "nothing", "--out", "x", "--columns", "text"],
            2,
            "--columns takes name=name pairs with commas between, not 'text'",
        ),
        (["report", "nothing"], 1, "nothing is not the folder of a run"),
        (["report", "a", "b", "--thermostat", "x"], 1, "a is not the folder of a run"),
    ],
)
def test_mistakes_are_one_line(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.code == code
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
