"""Scores that do not add up to what they should say so in every view."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from toys import additive_model

from wherefrom.api import Model
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.benchmark.statistics import Energy
from wherefrom.benchmark.summary import summarise
from wherefrom.core.comparison import Comparison
from wherefrom.doctor import examine
from wherefrom.methods import integrated_gradients as module
from wherefrom.report.benchmark import report_page
from wherefrom.report.comparison_terminal import print_comparison
from wherefrom.report.terminal import print_explanation

TEXT = "good bad film"
SAID = "Do not rely on these scores: they miss 1 of what they should add up to, and are 5.5 together"


@pytest.fixture(scope="module")
def compared() -> Comparison:
    model = Model(additive_model(good=2.0, bad=-3.0, film=0.5))
    return model.compare(TEXT, ["integrated_gradients", "random"], ["rft"], target=1, check=False)


def test_a_gap_is_small_beside_what_the_scores_move(compared: Comparison) -> None:
    exact = compared.explanations[0]
    assert not exact.gap_stays
    assert not replace(exact, gap=0.27).gap_stays  # of 5.5
    assert replace(exact, gap=-0.28).gap_stays
    assert not replace(exact, gap=None).gap_stays


def test_every_view_marks_it(compared: Comparison) -> None:
    exact, other = compared.explanations
    wrong = replace(exact, gap=1.0)
    pair = replace(compared, explanations=(wrong, other))
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        print_explanation(wrong, console=console)
        print_comparison(pair, console=console)
    printed = " ".join(captured.get().split())
    assert printed.count(SAID) == 2
    assert "integrated_gradients (!)" in printed
    for page in (wrong.to_html(), wrong._repr_html_(), pair.to_html()):
        assert SAID in page
    assert "integrated_gradients (!)" in pair.to_html()
    with console.capture() as captured:
        print_explanation(exact, console=console)
        print_comparison(compared, console=console)
    assert "Do not rely" not in captured.get()
    assert "(!)" not in captured.get()


def test_a_report_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    integrated = module._integrated

    def too_little(*given: object) -> object:
        return 0.5 * integrated(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_integrated", too_little)
    data = tmp_path / "rows.jsonl"
    data.write_text('{"text": "good film"}\n{"text": "a film"}\n')
    model = Model(additive_model(good=2.0, bad=-3.0, film=0.5))
    done = run(RunPlan(str(data), model, ["integrated_gradients:steps=4", "random"], ["rft"]), tmp_path / "run")
    summary = summarise(done, Energy())
    assert summary.gaps == {"integrated_gradients:steps=4": 2}
    assert "does not add up for" in report_page([summary], Energy())


def test_the_doctor_names_the_fills_with_their_tokens() -> None:
    facts = examine(Model(additive_model(good=2.0)))["facts"]
    assert facts["can hide tokens by"] == ["mask ([MASK])", "unk ([UNK])", "pad ([PAD])", "eos ([SEP])", "delete"]
    assert facts["hides tokens by"] == "mask ([MASK])"
