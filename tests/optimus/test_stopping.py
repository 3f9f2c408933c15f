"""Early stopping: the certain rule by hand and against the whole search, and what an explanation says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model, tiny

import wherefrom
from wherefrom.api import Model
from wherefrom.core.arrays import Indices, Numbers
from wherefrom.errors import BadOption, WherefromError
from wherefrom.grading.evidence import Answers
from wherefrom.metrics.rft import Rft, rft
from wherefrom.model.text_model import TextModel
from wherefrom.optimus.stopping import PASS, STEPS, EndedSearch, Slopes, Stop, ask_until_clear, step_of

TEXT = "the film was not bad, but dull!"
LONG = "the film was not bad, but dull! a great plot, and never a good movie: very fine acting, the music was slow"


def raced(weights: Numbers, effects: Numbers, whole: Sequence[float], stop: Stop, step: int = 1) -> EndedSearch:
    """effects: (aim, unit)"""
    order: list[int] = []

    def ask(units: Indices) -> Numbers:
        assert not set(order) & set(units.tolist())  # no unit is asked twice
        order.extend(units.tolist())
        return effects[:, units]

    found = ask_until_clear(Slopes(*Rft(normalise=False).slopes(weights)), ask, stop=stop, whole=whole, step=step)
    assert sorted(order) == np.flatnonzero(found.queried).tolist()
    return found


def score(weights: Numbers, effects: Numbers) -> Numbers:
    """By the metric itself, the mean over targets."""
    found: Numbers = np.mean([rft(weights, one, normalise=False) for one in effects], 0)
    return found


def test_the_bound_by_hand() -> None:
    """Two combinations rank three units as 1, 2, 3 and as 2, 1, 3: they differ by 1/2 at the first unit, by -1/2 at the
    second, and not at all at the third. The probability is 0.9, so hiding a unit lowers it by 0.9 or raises it by 0.1.
    """
    slopes = Slopes(*Rft(normalise=False).slopes(np.array([[3.0, 2.0, 1.0], [2.0, 3.0, 1.0]])))
    second = np.array([False, True, False])
    # At worst the second unit takes 1/2 * 0.9 from the first combination's lead, and 1/2 * 0.1 from the other's.
    assert slopes.least_lead(0, [0.9], second).tolist() == pytest.approx([0, -0.45])
    assert slopes.least_lead(1, [0.9], second).tolist() == pytest.approx([-0.05, 0])
    assert slopes.least_lead(0, [0.9], np.array([False, True, True])).tolist() == pytest.approx([0, -0.45])
    # Of two targets each has its own probability: the mean of 0.45 and 0.1.
    assert slopes.least_lead(0, [0.9, 0.2], second).tolist() == pytest.approx([0, -0.275])


@pytest.mark.parametrize(("effect", "asked"), [(0.3, 1), (0.04, 2)])
def test_signs_by_hand(effect: float, asked: int) -> None:
    """Opposite signs differ by twice the first effect and by the second, which is -0.1 at least where p is 0.9: a lead
    of 0.6 is out of reach, one of 0.08 is not.
    """
    ended = raced(np.array([[3.0, 1.0], [-3.0, -1.0]]), np.array([[effect, 0.5]]), [0.9], "certain")
    assert ended.queried.sum() == asked
    if asked == 1:
        assert ended.totals[0] == pytest.approx(effect)
        assert np.isnan(ended.totals[1])


def test_ties_by_hand() -> None:
    """Equal weights share the worst rank: 1/3 each, beside 1, 1/2 and 1/3. An effect of 0.3 is a lead of 0.2; the
    second unit can take 1/6 * 0.1.
    """
    ended = raced(np.array([[1.0, 1.0, 1.0], [3.0, 2.0, 1.0]]), np.array([[0.3, 0.0, 0.0]]), [0.9], "certain")
    assert ended.queried.tolist() == [True, False, False]
    assert int(np.nanargmax(ended.totals)) == 1


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("step", [1, 3])
def test_the_certain_rule_finds_the_winner_of_the_whole_search(signed: bool, step: int) -> None:
    rng, saved = np.random.default_rng(step + 2 * signed), 0
    for number in range(150):
        units, targets = int(rng.integers(2, 9)), int(rng.integers(1, 4))
        weights = rng.normal(size=(int(rng.integers(2, 6)), units))
        weights = weights if signed else np.abs(weights)
        weights[rng.random(weights.shape) < 0.1] = 0  # counts against, whatever the effect
        weights = weights.round(1)  # some tie
        whole = rng.random(targets)
        # Mostly one unit decides, as in real texts: then there is something to save.
        answers = np.where(rng.random((targets, units)) < 0.4, rng.random((targets, units)), whole[:, None])
        effects = whole[:, None] - answers
        found = raced(weights, effects, whole.tolist(), "certain", step)
        expected = score(weights, effects)
        best = int(np.nanargmax(found.totals)) if not found.queried.all() else int(expected.argmax())
        assert expected[best] >= expected.max() - 1e-12, number
        if not found.queried.all():
            saved += 1
            dropped = np.isnan(found.totals)
            assert (expected[dropped] < expected.max()).all(), number  # nobody who could have won was dropped
            same = (weights == weights[best]).all(1) | ~dropped
            assert best == int(np.flatnonzero(same & ~dropped)[0])  # the first of equals
    assert saved > 5  # or the test says nothing


def test_what_each_unit_adds_is_the_score() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(20, 7)).round(1)
    effects = rng.normal(size=7)
    answers = Answers(0.0, -effects, np.zeros((7, 7), dtype=np.bool_))
    for normalise in (True, False):
        metric = Rft(normalise=normalise)
        slopes = Slopes(*metric.slopes(weights))
        added = slopes.added(effects[None], np.arange(7))
        np.testing.assert_allclose(added, metric.score_many(weights, answers), rtol=1e-12)


def test_the_likely_rule_ends_where_effects_are_small() -> None:
    """Ten units in opposite orders; the first lowers the probability by 0.3, the others do next to nothing. Units are
    asked from both ends, two at a time. The first two give a lead of 0.3 (1 - 1/10) = 0.27; then two without effect
    make the others unlikely to change it, though the six that are left could still take back 0.35, and four 0.14.
    """
    weights = np.array([[10.0 - i for i in range(10)], [i + 1.0 for i in range(10)]])
    effects = np.full((1, 10), 1e-6)
    effects[0, 0] = 0.3
    for stop, asked in (("likely", [0, 1, 8, 9]), ("certain", [0, 1, 2, 7, 8, 9])):
        ended = raced(weights, effects, [0.9], stop, 2)  # type: ignore[arg-type]
        assert np.flatnonzero(ended.queried).tolist() == asked
        assert int(np.nanargmax(ended.totals)) == 0


def test_combinations_that_rank_alike_are_not_asked_apart() -> None:
    weights = np.array([[3.0, 2.0, 1.0], [30.0, 20.0, 10.0]])
    ended = raced(weights, np.array([[0.1, 0.2, 0.3]]), [0.5], "certain")
    assert ended.queried.sum() == 1
    assert int(np.nanargmax(ended.totals)) == 0


def test_steps_are_large_enough_for_a_pass() -> None:
    assert step_of(126, 128) == -(-126 // STEPS)
    assert step_of(14, 16) * 16 >= PASS
    assert step_of(1, 3) >= 1


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny texts would be asked in one step otherwise."""
    monkeypatch.setattr("wherefrom.optimus.search.step_of", lambda units, tokens: 2)


def bert() -> Model:
    return Model(tiny("bert", torch.float64))


@pytest.mark.parametrize("raw", ["A", "both"])
@pytest.mark.parametrize("level", ["token", "word"])
def test_certain_is_the_whole_search(raw: Any, level: Any) -> None:
    model = bert()
    whole, certain = (model.explain(TEXT, "optimus", raw=raw, level=level, stop=stop) for stop in ("never", "certain"))
    assert certain.params["winner"] == whole.params["winner"]
    assert certain.scores == whole.scores
    report = certain.selection[0]
    assert 0 < report["asked"] <= report["units"] == len(whole.units())
    assert certain.forwards == 1 + report["asked"]
    if report["asked"] == report["units"]:
        assert report["score"] == pytest.approx(whole.selection[0]["score"], rel=1e-12)


@pytest.mark.parametrize("family", ["bert", "modernbert", "gpt2", "llama"])
def test_likely_asks_fewer_rows_and_says_so(family: str) -> None:
    model = Model(tiny(family, torch.float64))
    found = model.explain(LONG, "optimus", stop="likely")
    report = found.selection[0]
    assert report["asked"] < report["units"]
    assert (report["score"], report["baseline_score"]) == (None, None)
    assert f"after {report['asked']} of {report['units']} units were hidden" in found.notes[0]
    assert "likely" in found.notes[0]
    again = model.explain(LONG, "optimus", combination=report["chosen"])
    assert again.scores == pytest.approx(found.scores, rel=1e-5)
    assert wherefrom.Explanation.from_json(found.to_json()) == found


def test_the_order_of_texts_and_their_batches_change_nothing() -> None:
    model = bert()
    texts = [LONG, TEXT, "a great film", LONG + " indeed"]
    alone = [model.explain(text, "optimus", stop="likely") for text in texts]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        together = model.explain([texts[place] for place in order], "optimus", stop="likely")
        for place, found in zip(order, together, strict=True):
            assert found.params["winner"] == alone[place].params["winner"]
            assert found.selection[0]["asked"] == alone[place].selection[0]["asked"]


def test_several_labels_and_answers() -> None:
    labels = Model(make_model("bert", labels=5, problem_type="multi_label_classification", dtype=torch.float64, seed=4))
    answers = Model(make_model("bert", task="question_answering", dtype=torch.float64))
    pair = ("is the plot good ?", "a fine film . the acting was never dull")
    for model, asked in ((labels, TEXT), (answers, pair)):
        whole, certain = (model.explain(asked, "optimus", stop=stop) for stop in ("never", "certain"))
        assert certain.params["winner"] == whole.params["winner"]


def test_values_have_no_bounds() -> None:
    model = Model(make_model("bert", labels=1, problem_type="regression", dtype=torch.float64))
    with pytest.raises(BadOption, match="no bounds"):
        model.explain(TEXT, "optimus", stop="certain")
    assert model.explain(LONG, "optimus", stop="likely").selection[0]["units"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": "soon"}, r"stop = never \| certain \| likely"),
        ({"stop": "likely", "metric": "comprehensiveness"}, "comprehensiveness does not"),
        ({"stop": "certain", "all_scores": True}, "all_scores needs the score of every unit"),
        ({"stop": "certain", "fallback": "baseline"}, "fallback=baseline needs the score of every unit"),
    ],
)
def test_what_it_does_not_go_with(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WherefromError, match=message):
        bert().explain(TEXT, "optimus", **options)


def test_the_whole_search_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []
    whole = TextModel.run

    def counted(self: TextModel, inputs: Any, *more: Any, **named: Any) -> Any:
        batches.append(len(inputs["input_ids"]))
        return whole(self, inputs, *more, **named)

    monkeypatch.setattr(TextModel, "run", counted)
    found = bert().explain(TEXT, "optimus")
    assert batches == [1 + len(found.units())]  # the text and every hidden unit, in one batch
    assert "asked" not in found.selection[0]
