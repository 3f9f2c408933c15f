"""What was chosen among, on the page and in the terminal; and the command."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tiny_models import make_network, tiny, tokenizer
from typer.testing import CliRunner

import wherefrom
import wherefrom.cli.optimus
from wherefrom.api import Model
from wherefrom.cli.main import app
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadFile, UnknownName
from wherefrom.optimus.combination import Fitted
from wherefrom.report.selection import candidate_tables, operation_maps
from wherefrom.report.terminal import print_explanation

TEXT = "the film was not bad, but dull!"


def printed(explanation: Explanation) -> str:
    out = io.StringIO()
    print_explanation(explanation, console=Console(file=out, width=120))
    return out.getvalue()


def test_the_page_has_a_map_for_each_matrix_operation_and_frames_the_chosen_one() -> None:
    explanation = Model(tiny("bert")).explain(TEXT, "optimus", raw="both", all_scores=True)
    maps = operation_maps(explanation)
    assert [one.title for one in maps] == [
        f"{raw}, {m}" for raw in ("A", "A*") for m in ("from", "to", "mean_columns", "max_columns")
    ]
    framed = [cell.tip for one in maps for row in one.cells for cell in row if cell.chosen]
    assert framed == [f"{explanation.params['winner']}: {explanation.selection[0]['score']:+.4g}"]
    sides = {cell.side: cell.tip for one in maps for row in one.cells for cell in row}
    assert ": +" in sides["for"]
    assert ": -" in sides["against"]
    page = explanation.to_html()
    assert page.count(' picked"') == 1
    assert framed[0] in page
    assert "Every combination of attention operations" not in Model(tiny("bert")).explain(TEXT, "optimus").to_html()


def test_maps_say_where_a_score_is_not_defined() -> None:
    explanation = Model(tiny("bert")).explain(TEXT, "optimus", all_scores=True)
    table = {"heads": ["mean"], "layers": [0], "scores": {"from": [[None]]}}
    (shown,) = operation_maps(replace(explanation, selection=({"chosen": "", "scores": {"A": table}},)))
    assert shown.cells[0][0].tip == "A, mean of heads, layer 0, from: not defined"


def test_standings_on_the_page_and_in_the_terminal() -> None:
    explanation = Model(tiny("bert")).explain(TEXT, "best", candidates="alti,attcat,saliency", judges="rft,sufficiency")
    (found,) = candidate_tables(explanation)
    assert found.metrics == ["comprehensiveness ↑", "rft ↑", "sufficiency ↓"]
    assert [row.mark for row in found.rows] == ["chosen", "runner-up", ""]
    assert found.rows[0].name == explanation.params["winner"]
    assert found.rows[2].grades[1:] == ["-", "-"]
    page, text = explanation.to_html(), printed(explanation)
    for shown in (page, text):
        for row in found.rows:
            assert row.name in shown
            assert row.grades[0] in shown
    assert f"{found.rows[0].name} (chosen)" in text
    assert candidate_tables(Model(tiny("bert")).explain(TEXT, "alti")) == []


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small random model in the embedded one's place."""
    load = wherefrom.load
    network = make_network("bert", labels=2, id2label={0: "NEGATIVE", 1: "POSITIVE"})

    def load_small(_: Any = "embedded", **__: Any) -> wherefrom.Model:
        return load((network, tokenizer()))

    monkeypatch.setattr("wherefrom.api.load", load_small)


@pytest.mark.usefixtures("embedded")
def test_the_command_fits_and_explain_uses_it(tmp_path: Path) -> None:
    data, out = tmp_path / "texts.jsonl", tmp_path / "combination.json"
    rows = [{"text": "a dull film"}, {"text_a": "a great plot", "text_b": "never bad"}, {"text": "not read"}]
    data.write_text("\n".join(map(json.dumps, rows)))
    ran = CliRunner().invoke(app, ["optimus", "--data", str(data), "--out", str(out), "--limit", "2", "--raw", "both"])
    assert ran.exit_code == 0, ran.output
    fitted = Fitted.load(out)
    assert fitted.texts == 2
    assert str(fitted.combination) in ran.output
    as_json = CliRunner().invoke(app, ["optimus", "--data", str(data), "--json"])
    assert json.loads(as_json.output)["texts"] == 3
    shown = CliRunner().invoke(app, ["explain", "a dull film", "--method", "optimus", "-o", f"combination={out}"])
    assert shown.exit_code == 0, shown.output
    assert "Fitted on 2 texts by rft" in " ".join(shown.output.split())
    best = CliRunner().invoke(app, ["explain", "a dull film", "--method", "best", "-o", "candidates=alti,attcat"])
    assert "(chosen)" in best.output


@pytest.mark.usefixtures("embedded")
def test_the_command_reads_data_as_a_run_does(tmp_path: Path) -> None:
    """A first line of names is no text, and quotation marks are none of its letters."""
    table = tmp_path / "texts.csv"
    table.write_text('id,text,label\n1,"a dull film, and bad",0\n2,a great plot,1\n')
    for data, count in ((str(table), 2), ("sample:pairs", 3)):
        ran = CliRunner().invoke(app, ["optimus", "--data", data, "--limit", "3", "--json"])
        assert ran.exit_code == 0, ran.output
        assert json.loads(ran.output)["texts"] == count


@pytest.mark.parametrize(("name", "written"), [("baseline", "A, mean of heads"), ("A*-baseline", "A*, mean of heads")])
def test_a_combination_has_a_name_without_commas(name: str, written: str) -> None:
    model = wherefrom.Model(tiny("bert"))
    full = f"{written}, mean of layers, from"
    (found,) = model.compare("a dull film", f"optimus:combination={name}", "rft").explanations
    assert found.params["combination"] == full
    assert found.scores == model.explain("a dull film", "optimus", combination=full).scores


@pytest.mark.usefixtures("embedded")
def test_what_the_command_refuses(tmp_path: Path) -> None:
    plain = tmp_path / "texts.txt"
    plain.write_text("a dull film\n\n a great plot\n")
    assert CliRunner().invoke(app, ["optimus", "--data", str(plain)]).exit_code == 0
    wrong = CliRunner().invoke(app, ["optimus", "--data", str(plain), "--raw", "b"])
    assert isinstance(wrong.exception, UnknownName)
    assert isinstance(CliRunner().invoke(app, ["optimus", "--data", str(tmp_path / "none.txt")]).exception, BadFile)
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "a film"}\n{"words": 3}\n')
    ran = CliRunner().invoke(app, ["optimus", "--data", str(broken)])
    assert "line 2" in str(ran.exception)
