from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lively import TEXT, lively
from rich.console import Console
from tiny_models import make_network, tokenizer
from typer.testing import CliRunner

import wherefrom.cli.flow  # noqa: F401  # brings its command
from wherefrom.api import Model
from wherefrom.cli.main import app
from wherefrom.core.flow import Flow
from wherefrom.errors import BadFile
from wherefrom.report import plots
from wherefrom.report.flow_terminal import print_flow


def by_hand(**more: object) -> Flow:
    """Two layers over [CLS] A film: the first hands half of A to film, the second half of film to [CLS]."""
    first = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]
    second = [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    flow = Flow(
        text="A film",
        tokens=("[CLS]", "A", "film"),
        offsets=((0, 0), (0, 1), (2, 6)),
        segment=(-1, 0, 0),
        layers=np.array([first, second]),
        read=(1.0, 0.0, 0.0),
        method="alti",
        prediction="good",
        probability=0.75,
    )
    return replace(flow, **more)  # type: ignore[arg-type]


def test_accumulated_and_scores_by_hand() -> None:
    flow = by_hand()
    assert flow.accumulated[0].tolist() == flow.layers[0].tolist()
    assert flow.accumulated[1].tolist() == [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]
    assert flow.scores.tolist() == [0.5, 0.25, 0.25]
    assert by_hand(read=(0.5, 0.5, 0.0)).scores.tolist() == [0.25, 0.625, 0.125]


def test_scores_are_the_explanations() -> None:
    model = Model(lively("llama"))
    assert model.flow(TEXT).scores == pytest.approx(model.explain(TEXT, "alti").scores, abs=1e-12)
    assert np.triu(model.flow(TEXT).layers, 1).max() == 0  # a decoder takes nothing from what comes later


def test_saved_and_loaded(tmp_path: Path) -> None:
    flow = Model(lively("bert")).flow(TEXT, "globenc")
    flow.save(tmp_path / "flow.json")
    again = Flow.load(tmp_path / "flow.json")
    assert np.abs(again.layers - flow.layers).max() < 1e-8
    assert {**again.to_dict(), "layers": 0} == {**flow.to_dict(), "layers": 0}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"wherefrom_flow": 1}', '{"wherefrom_flow": 1, "tokens": 3}'])
def test_a_bad_file_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(content, encoding="utf-8")
    with pytest.raises(BadFile, match=r"bad\.json"):
        Flow.load(tmp_path / "bad.json")
    with pytest.raises(BadFile, match="There is no file"):
        Flow.load(tmp_path / "missing.json")


def test_a_file_of_other_size_is_refused(tmp_path: Path) -> None:
    by_hand(tokens=("A", "film")).save(tmp_path / "bad.json")
    with pytest.raises(BadFile, match="not equally many"):
        Flow.load(tmp_path / "bad.json")


def test_the_page_holds_every_share() -> None:
    flow = Model(lively("bert")).flow(TEXT)
    found = re.search(r'data-shares="([A-Za-z0-9+/=]*)"', flow.to_html())
    assert found
    shares = np.frombuffer(base64.b64decode(found[1]), dtype="<u2").reshape(flow.layers.shape) / 65535
    assert np.abs(shares - flow.layers).max() <= 0.5 / 65535 + 1e-12


def test_the_page_shows_the_decision_without_scripts() -> None:
    chips = re.findall(
        r'<span class="chip t only([^"]*)"[^>]*style="--s:([^"]*)" title="([^"]*)">([^<]*)</span>', by_hand().to_html()
    )
    assert chips == [
        (" mark chosen", "1.000", "50.0%", "[CLS]"),
        ("", "1.000", "25.0%", "A"),
        ("", "1.000", "25.0%", "film"),
    ]


@pytest.mark.parametrize(
    "evil", ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", '" onclick="x']
)
def test_every_text_is_escaped(evil: str) -> None:
    page = by_hand(
        text=evil,
        tokens=("[CLS]", evil, "b"),
        offsets=((0, 0), (0, len(evil)), (0, 0)),
        method=evil,
        prediction=evil,
        model=evil,
        notes=(evil,),
    ).to_html()
    assert evil not in page
    assert page.count("<script") == by_hand().to_html().count("<script")


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = by_hand().to_html()
    assert not re.search(r"""(src|href)=|@import|url\(|fetch\(|import\(""", page)
    assert re.findall(r"https?://[^\s\"']+", page) == [
        "http://www.w3.org/2000/svg"
    ]  # a name, not an address that is fetched


def test_a_flow_needs_no_torch() -> None:
    code = (
        "import sys, wherefrom.core.flow, wherefrom.report.flow, wherefrom.report.plots;"
        " assert not {'torch', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("draw", [plots.flow_layers, plots.flow_matrix])
def test_pictures_are_drawn(draw: object, tmp_path: Path) -> None:
    assert callable(draw)
    draw(
        by_hand(tokens=("[CLS]", "$\\frac{$", "🙂")), tmp_path / "flow.png"
    )  # neither mathematics nor a glyph that no font has
    assert (tmp_path / "flow.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(BadFile, match="could not be written"):
        draw(by_hand(), tmp_path / "no such folder" / "flow.png")


def test_the_command(tmp_path: Path) -> None:
    make_network("bert").save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    files = [tmp_path / name for name in ("flow.html", "flow.png", "flow.json")]
    told = [
        str(part) for name, file in zip(("--html", "--plot", "--save"), files, strict=True) for part in (name, file)
    ]
    result = CliRunner().invoke(
        app, ["flow", "A fine film.", "--model", str(tmp_path / "model"), "-o", "norm=l2", *told]
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"token +1 +2 +3\n", result.output)
    assert "[CLS]" in result.output
    assert all(file.stat().st_size > 1000 for file in files)
    assert Flow.load(files[2]).params == {"norm": "l2", "ln2": False}


def deep(layers: int = 30) -> Flow:
    """Many layers, over tokens that the tokenizer writes otherwise than the text."""
    mixed = np.full((layers, 3, 3), 1 / 3)
    return by_hand(tokens=("<s>", "ĠA", "Ġfilm"), layers=mixed, read=(0.0, 0.0, 1.0))


@pytest.mark.parametrize("width", [40, 80, 100, 400])
def test_no_number_is_cut_off_and_tokens_are_the_texts(width: int) -> None:
    out = io.StringIO()
    print_flow(deep(), console=Console(file=out, width=width))
    shown = out.getvalue()
    assert "…" not in shown
    assert "Ġ" not in shown
    assert max(map(len, shown.splitlines())) <= max(width, 1)
    assert shown.count("0.333") == 3 * 30
    numbers = [
        int(one) for line in shown.splitlines() if re.fullmatch(r"token[ \d]+", line) for one in line.split()[1:]
    ]
    assert numbers == list(range(1, 31))
    assert "What “film” contains" in " ".join(shown.split())


def test_a_notebook_gets_a_table_that_needs_no_script() -> None:
    shown = by_hand()._repr_html_()
    assert "<script" not in shown
    assert re.findall(r"<td[^>]*>([^<]*)</td>", shown) == ["100.0%", "50.0%", "0.0%", "25.0%", "0.0%", "25.0%"]
    assert "<caption>" in shown
    evil = "<img src=x onerror=alert(1)>"
    assert evil not in by_hand(text=evil, tokens=(evil,) * 3, method=evil, notes=(evil,))._repr_html_()
