"""A regression model predicts a value: no view calls it a probability, and metrics measure it by its spread."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tiny_models import make_model
from toys import additive_regression

from wherefrom import Explanation
from wherefrom.api import Model
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.benchmark.statistics import Energy
from wherefrom.benchmark.summary import summarise
from wherefrom.case.asking import Asker
from wherefrom.case.spread import MASKINGS, maskings, note_spread
from wherefrom.doctor import examine
from wherefrom.errors import BadOption
from wherefrom.model.network import inputs_of
from wherefrom.report.benchmark import report_page
from wherefrom.report.comparison_terminal import print_comparison
from wherefrom.report.terminal import print_explanation

WEIGHTS = {"good": 2.0, "bad": -3.0, "film": 0.5}  # their value is -0.5
# Every word is there or not, with a chance of one half: the variance of each is a quarter of its weight's square.
SPREAD = math.sqrt(sum(weight**2 for weight in WEIGHTS.values())) / 2
TEXT = "good bad film"


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(additive_regression(**WEIGHTS))


def test_the_value_is_no_probability(model: Model) -> None:
    found = model.explain(TEXT, "occlusion")
    assert (found.value, found.probability, found.prediction, found.probabilities) == (-0.5, None, "-0.50", {})
    assert [unit.score for unit in found.units()] == pytest.approx([2.0, -3.0, 0.5])
    assert model.predicted(TEXT) == [found.target]
    again = Explanation.from_json(found.to_json())
    assert again == found
    assert json.loads(found.to_json())["value"] == -0.5


def test_metrics_take_the_value_in_units_of_its_spread(model: Model) -> None:
    metrics = ["comprehensiveness", "sufficiency", "faithfulness", "rft", "faithfulness_violation", "log_odds"]
    (grades,) = model.compare(TEXT, ["occlusion"], metrics).grades
    values = [grade.value for grade in grades]
    # By score: good, film, bad. Of three words, 5, 10 and 20% are one and 50% are two; ALTI divides by six.
    assert values[0] == pytest.approx((2 + 2 + 2 + 2.5) / 6 / SPREAD)
    assert values[1] == pytest.approx(3 * (-0.5 - 2) / 6 / SPREAD + (-0.5 - 2.5) / 6 / SPREAD)
    assert values[2] == pytest.approx(2 / SPREAD)
    assert values[3] == pytest.approx((3 / 1 + 2 / 2 + 0.5 / 3) / 3 / SPREAD)
    assert values[4] == 0
    assert values[5] is None
    assert "no odds" in grades[5].why


def test_a_spread_that_is_given_is_taken_instead() -> None:
    given = Model(additive_regression(spread=4.0, **WEIGHTS))
    (grades,) = given.compare(TEXT, ["occlusion"], ["faithfulness"]).grades
    assert grades[0].value == pytest.approx(2 / 4)
    with pytest.raises(BadOption, match="above zero"):
        additive_regression(spread=0.0, **WEIGHTS)


def test_a_value_that_does_not_move_has_no_spread() -> None:
    (grades,) = Model(additive_regression(good=0.0)).compare(TEXT, ["random"], ["faithfulness", "rft"]).grades
    assert [grade.value for grade in grades] == [None, None]
    assert "no spread" in grades[0].why


def test_the_maskings_of_a_longer_text_differ_and_depend_on_nothing_but_it(model: Model) -> None:
    encoding = model.text_model.encode("the film was good and the plot was bad")
    keep = maskings(encoding)
    assert keep.shape == (MASKINGS, len(encoding))
    assert len({tuple(row) for row in keep.tolist()}) == MASKINGS
    assert keep[:, [0, -1]].all()  # special tokens stay
    assert (keep == maskings(encoding)).all()
    asker = Asker(model.text_model)
    pending = note_spread(encoding, asker)
    assert pending is not None
    asker.run()
    words = [WEIGHTS.get(token, 0.0) for token in encoding.tokens]
    by_hand = torch.tensor(keep).double() @ torch.tensor(words).double()
    assert pending.of([model.text_model.target(0)]) == pytest.approx(by_hand.std(correction=0).item())


def test_the_check_is_in_values(model: Model) -> None:
    # Of nine words the three strongest are hidden. good and fine make up nearly all of the value.
    one = Model(additive_regression(good=2.0, fine=1.0, film=0.01, bad=-0.5))
    found = one.explain("a good film and a fine plot was bad", "occlusion", check=True)
    check = found.check
    assert check is not None
    assert check.strongest is not None
    assert check.whole == found.value == pytest.approx(2.51)
    assert check.strongest.hidden == pytest.approx(-0.5)
    assert check.strongest.kept == pytest.approx(3.01)
    assert check.spread is not None
    assert check.verdict == "supported"
    assert Explanation.from_json(found.to_json()).check == check
    # A value that moves by less than a tenth of the spread supports nothing.
    given = Model(additive_regression(spread=1000.0, good=2.0, fine=1.0, film=0.01, bad=-0.5))
    unmoved = given.explain("a good film and a fine plot was bad", "occlusion", check=True).check
    assert unmoved is not None
    assert unmoved.verdict != "supported"


def shown(view: Any, *given: Any) -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        view(*given, console=console)
    return captured.get()


def test_every_view_says_what_is_predicted(model: Model) -> None:
    found = model.explain("good bad film", "occlusion", check=True)
    compared = model.compare("good bad film", ["occlusion", "random"], ["faithfulness"])
    views = [
        shown(print_explanation, found),
        found.to_html(),
        found._repr_html_(),
        shown(print_comparison, compared),
        compared.to_html(),
        compared._repr_html_(),
    ]
    for view in views:
        assert "predicts -0.50" in view
        assert "37.8%" not in view  # the sigmoid
    assert "%" not in views[0]


def test_a_flow_has_a_value_and_no_percentage() -> None:
    flow = Model(make_model("bert", labels=1)).flow("the film was good", "attention_rollout")
    assert flow.probability is None
    assert float(flow.prediction) == pytest.approx(
        Model(make_model("bert", labels=1)).explain("the film was good", "random").value, abs=0.006
    )
    assert flow.prediction in flow.to_html()


def test_a_run_keeps_and_reports_values(tmp_path: Path) -> None:
    data = tmp_path / "scores.csv"
    data.write_text("text,label\ngood bad film,3.5\na good film,1.25\nthe plot was bad and the acting was good,2\n")
    plan = RunPlan(
        str(data), Model(additive_regression(**WEIGHTS)), ["occlusion", "random"], ["faithfulness", "log_odds"]
    )
    done = run(plan, tmp_path / "run")
    rows = done.explanations[done.explanations["method"] == "occlusion"].set_index("text")
    assert rows.loc["a good film", "value"] == pytest.approx(2.5)
    assert done.explanations["probability"].isna().all()
    summary = summarise(done, Energy())
    assert summary.accuracy is None
    assert summary.values == pytest.approx((-1.0, 1 / 3, 2.5))
    page = report_page([summary], Energy())
    assert "-1.00 to 2.50, 0.33 on average" in page
    assert "predicts -0.50" in page


def test_what_is_a_regression_model() -> None:
    assert make_model("bert", labels=1).regression
    assert make_model("bert", labels=3, problem_type="regression").regression
    one = make_model("bert", labels=1, problem_type="multi_label_classification")
    assert not one.regression
    assert Model(one).explain("a film", "random").probability is not None
    several = Model(make_model("bert", labels=3, problem_type="regression"))
    third = several.explain("the film was good", "saliency", target=2)
    logits = several.text_model.network.module(
        **inputs_of(several.text_model.network, [several.text_model.encode("the film was good")])
    )
    assert third.value == pytest.approx(logits.logits[0, 2].item(), abs=1e-5)
    assert len(several.predicted("the film was good")) == 3


def test_there_is_no_decision_to_change(model: Model) -> None:
    with pytest.raises(BadOption, match="decides for nothing"):
        model.flip(TEXT)


def test_the_doctor_says_that_it_is_one() -> None:
    assert "regression" in examine(Model(additive_regression(**WEIGHTS)))["facts"]["labels exclude each other"]
