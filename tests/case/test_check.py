"""An explanation's own test, by hand on a model whose logit is the sum of its words' weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import make_model
from toys import additive_model

import wherefrom
from wherefrom.case.asking import Asker
from wherefrom.case.check import (
    ToCheck,
    _hiding,
    check_explanations,
    plan_of,
    verdict_of,
)
from wherefrom.case.explain import cases_of
from wherefrom.case.passes import Passes
from wherefrom.case.spread import note_spread
from wherefrom.core.check import DRAWS, Check, how_many, long_enough
from wherefrom.core.explanation import Explanation
from wherefrom.grading.evidence import Evidence
from wherefrom.grading.grade import ConfiguredMetric, GradingTask, grade
from wherefrom.registry import all_methods, options_of

WEIGHTS = {
    "good": 1.5,
    "fine": 1.25,
    "great": 1.0,
    "the": 0.0,
    "film": 0.0,
    "was": 0.0,
    "a": 0.0,
    "not": -0.5,
    "bad": -1.0,
    "dull": -0.75,
}


def sigmoid(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


def text() -> str:
    return " ".join(WEIGHTS)


def checked(scores: dict[str, float], *, signed: bool = True) -> Check:
    """The check of an explanation that gives each word this score."""
    model = additive_model(**WEIGHTS)
    encoding = model.encode(" ".join(scores))
    with torch.inference_mode(False):
        ((case,),) = cases_of(Passes(model, [encoding]), [0], [1], "token").values()
    explanation = Explanation(
        text=encoding.text,
        tokens=encoding.tokens,
        scores=(0.0, *scores.values(), 0.0),
        offsets=encoding.offsets,
        segment=encoding.segment,
        target="LABEL_1",
        probability=sigmoid(sum(WEIGHTS[word] for word in scores)),
        prediction="LABEL_1",
        method="by hand",
        signed=signed,
    )
    (found,) = check_explanations([ToCheck.of(explanation, [case])], Asker(model))
    return found


def test_right_scores_are_supported_by_numbers_known_by_hand() -> None:
    check = checked(WEIGHTS)
    assert check.verdict == "supported"
    assert (check.k, check.fill) == (3, "delete")
    assert 3 + DRAWS <= check.rows <= 3 + DRAWS + 2  # both sides share the draws, but for their own choices
    assert check.whole == pytest.approx(sigmoid(1.5))
    assert check.strongest is not None
    assert check.strongest.texts == ("good", "fine", "great")
    assert check.strongest.hidden == pytest.approx(sigmoid(1.5 - 3.75))
    assert check.strongest.kept == pytest.approx(sigmoid(3.75))
    assert check.strongest.draws == DRAWS
    assert check.strongest.beyond == 1.0
    assert check.strongest.hidden < check.strongest.low <= check.strongest.mean <= check.strongest.high
    assert check.against is not None
    assert check.against.texts == ("bad", "dull", "not")
    assert check.against.hidden == pytest.approx(sigmoid(1.5 + 2.25))
    assert (check.against.verdict, check.against.kept, check.against.beyond) == ("supported", None, 1.0)
    assert check.effect == pytest.approx(sigmoid(1.5) - sigmoid(-2.25))


def test_the_draws_are_what_the_sum_says() -> None:
    """The mean and the interval over the random choices, each computed by hand."""
    check = checked(WEIGHTS)
    plan = plan_of(explained(WEIGHTS))
    words = [None, *WEIGHTS, None]
    by_hand = [sigmoid(1.5 - sum(WEIGHTS[str(words[place])] for place in choice)) for choice in plan.draws]
    assert check.strongest is not None
    assert check.strongest.mean == pytest.approx(np.mean(by_hand))
    assert (check.strongest.low, check.strongest.high) == pytest.approx(tuple(np.percentile(by_hand, [5, 95])))


def explained(scores: dict[str, float], **more: object) -> Explanation:
    model = additive_model()
    encoding = model.encode(" ".join(scores))
    return Explanation(
        encoding.text,
        encoding.tokens,
        (0.0, *scores.values(), 0.0),
        encoding.offsets,
        encoding.segment,
        "LABEL_1",
        0.5,
        "LABEL_1",
        "by hand",
        **more,  # type: ignore[arg-type]
    )


def test_scores_turned_around_are_not_supported() -> None:
    check = checked({word: -weight for word, weight in WEIGHTS.items()})
    assert check.verdict == "not supported"
    assert check.strongest is not None
    assert check.strongest.texts == ("bad", "dull", "not")
    assert check.strongest.beyond == 0.0
    assert check.against is not None
    assert check.against.verdict == "not supported"


def test_units_that_move_nothing_are_not_supported_by_a_hard_fall_of_the_others() -> None:
    """Units against the target must raise the probability themselves, however far random choices lower it."""
    verdicts = [
        _hiding(explained(WEIGHTS), (4, 5, 6), np.array([hidden, *[0.5] * 20]), None, 0.9, enough=True, sign=-1).verdict
        for hidden in (0.9, 0.905, 0.95)
    ]
    assert verdicts == ["not supported", "weak", "supported"]


def test_a_method_without_sign_has_the_strongest_only() -> None:
    check = checked({word: abs(weight) for word, weight in WEIGHTS.items()}, signed=False)
    assert check.against is None
    assert check.strongest is not None
    assert check.strongest.texts == ("good", "fine", "great")
    assert check.rows == 2 + DRAWS


def test_scores_that_are_all_zero_or_all_negative() -> None:
    nothing = checked(dict.fromkeys(WEIGHTS, 0.0))
    assert (nothing.verdict, nothing.strongest, nothing.against, nothing.rows) == ("not supported", None, None, 0)
    negative = checked({word: weight - 5 for word, weight in WEIGHTS.items()})
    assert negative.strongest is None
    assert negative.against is not None
    assert negative.verdict == negative.against.verdict == "supported"


def test_fewer_units_than_k_have_a_score() -> None:
    scores = {word: weight if word in ("good", "bad", "dull") else 0.0 for word, weight in WEIGHTS.items()}
    plan = plan_of(explained(scores))
    assert (len(plan.strongest), len(plan.against)) == (1, 2)
    assert {len(choice) for choice in plan.draws} == {1}
    assert {len(choice) for choice in plan.draws_against} == {2}
    check = checked(scores)
    assert check.verdict == "too short"  # nine other words to choose are too few to tell one by
    assert check.against is not None
    assert (check.against.draws, check.against.verdict) == (19, "supported")
    assert check.rows == 2 + 9 + 1 + 19  # of ten words, nine others to choose


@pytest.mark.parametrize(
    ("units", "k", "enough"), [(1, 1, False), (6, 2, False), (7, 2, True), (8, 2, True), (9, 3, True)]
)
def test_how_many_units_are_hidden_and_when_a_text_is_too_short(units: int, k: int, enough: bool) -> None:
    assert (how_many(units), long_enough(units)) == (k, enough)


def test_a_short_text_is_asked_about_but_not_judged() -> None:
    check = checked({"good": 1.5, "film": 0.0, "bad": -1.0})
    assert check.verdict == "too short"
    assert check.strongest is not None
    assert check.strongest.hidden == pytest.approx(sigmoid(-1.0))
    assert check.strongest.draws == 2
    alone = checked({"good": 1.5})
    assert (alone.verdict, alone.strongest and alone.strongest.draws) == ("too short", 0)


@pytest.mark.parametrize(
    ("beyond", "margin", "whole", "expected"),
    [
        (1.0, 0.5, 0.9, "supported"),
        (1.0, 0.011, 0.9, "supported"),
        (0.95, 0.5, 0.9, "weak"),  # 19 of 20: a meaningless choice is there with a chance of 2 in 21
        (0.80, 0.5, 0.9, "weak"),
        (1.0, 0.005, 0.9, "weak"),  # half a point
        (0.75, 0.5, 0.9, "not supported"),
        (1.0, 0.0005, 0.9, "not supported"),
        (1.0, 0.0011, 0.01, "supported"),  # a tenth of a small probability
        (1.0, 0.0009, 0.01, "weak"),
    ],
)
def test_verdicts(beyond: float, margin: float, whole: float, expected: str) -> None:
    assert verdict_of(beyond, margin, whole) == expected


def test_draws_are_distinct_depend_on_the_text_alone_and_leave_the_own_choice_out() -> None:
    first, second = plan_of(explained(WEIGHTS)), plan_of(explained({word: -w for word, w in WEIGHTS.items()}))
    assert len(set(first.draws)) == DRAWS
    assert tuple(sorted(first.strongest)) not in first.draws
    assert len(set(first.draws) & set(second.draws)) >= DRAWS - 1
    other = plan_of(replace(explained(WEIGHTS), text="another"))
    assert first.draws != other.draws
    long = explained(dict(WEIGHTS))
    many = replace(
        long,
        tokens=("x",) * 300,
        scores=tuple(float(one) for one in range(1, 301)),
        offsets=((0, 1),) * 300,
        segment=(0,) * 300,
    )
    assert len(set(plan_of(many).draws)) == DRAWS  # too many choices to list


def test_nothing_is_asked_twice() -> None:
    """Neither of what the erasure metrics asked, nor of what another explanation of the text shares."""
    model = additive_model(**WEIGHTS)
    encoding = model.encode(text())
    with torch.inference_mode(False):
        ((case,),) = cases_of(Passes(model, [encoding]), [0], [1], "token").values()
    explanation = replace(explained(WEIGHTS), probability=sigmoid(1.5))
    asker = Asker(model)
    metrics = [ConfiguredMetric.read(name) for name in ("comprehensiveness", "sufficiency", "aopc")]
    grade([GradingTask.of([case], Evidence.of(explanation))], metrics, asker)
    before = asker.rows
    check_explanations([ToCheck.of(explanation, [case])], asker)
    own = asker.rows - before
    check_explanations([ToCheck.of(explanation, [case])], asker)
    assert asker.rows - before == own  # the second time everything is known
    fresh = Asker(model)
    check_explanations([ToCheck.of(explanation, [case])], fresh)
    assert own < fresh.rows <= 42  # the metrics had asked a part of it


def test_the_check_of_a_list_and_of_several_targets() -> None:
    model = wherefrom.Model(make_model("bert"))
    texts = ["the film was not bad and the plot was good", "a fine film"]
    together = model.explain(texts, "input_x_gradient", check=True)
    alone = [model.explain(one, "input_x_gradient", check=True) for one in texts]
    for one, other in zip(together, alone, strict=True):
        assert one.check is not None
        assert other.check is not None
        assert one.check.verdict == other.check.verdict
        assert one.check.strongest is not None
        assert other.check.strongest is not None
        assert one.check.strongest.units == other.check.strongest.units
        assert one.check.strongest.hidden == pytest.approx(other.check.strongest.hidden, abs=1e-5)
    both = model.explain(texts[0], "input_x_gradient", ["LABEL_0", "LABEL_1"], check=True)
    assert [one.check is not None for one in both] == [True, True]
    assert model.explain(texts[0], "input_x_gradient").check is None


@pytest.mark.parametrize(
    ("family", "task", "given", "target"),
    [
        ("bert", "question_answering", ("it was bad ?", "the film was not bad and the plot was good"), None),
        ("bert", "masked_lm", "the film was [MASK] bad and the plot was good", None),
        ("gpt2", "causal_lm", "the film was not bad and the plot was", None),
        ("bert", "classification", "the film was not bad and the plot was good", ("LABEL_1", "LABEL_0")),
    ],
)
def test_every_kind_of_target(family: str, task: str, given: object, target: object) -> None:
    model = wherefrom.Model(make_model(family, task=task))
    found = model.explain(given, "input_x_gradient", target, "word", check=True)  # type: ignore[call-overload]
    assert found.check.whole == found.probability
    strongest = found.check.strongest
    assert 0 <= strongest.low <= strongest.mean <= strongest.high <= 1
    assert 0 <= strongest.hidden <= 1
    again = model.explain(given, "input_x_gradient", target, "word", check=True)  # type: ignore[call-overload]
    assert replace(again.check, seconds=0.0) == replace(found.check, seconds=0.0)


def test_a_check_is_saved_and_read_back_and_does_not_outlive_its_units() -> None:
    found = wherefrom.Model(make_model("bert")).explain("the film was not bad and the plot was good", check=True)
    assert Explanation.from_json(found.to_json()) == found
    assert found.to_dict()["check"]["verdict"] in ("supported", "weak", "not supported")
    assert found.at("word").check is None
    assert found.minus(found).check is None
    with pytest.raises(wherefrom.WherefromError, match="check"):
        Explanation.from_dict({**found.to_dict(), "check": {"verdict": "weak"}})


def test_no_method_has_an_option_of_the_same_name() -> None:
    assert not [row.name for row in all_methods() if "check" in options_of(row.function)]


def test_units_must_move_the_probability_farther_than_chance() -> None:
    """Hiding them costs 0.03, hiding others 0.025 on average: more than each of these, but hardly more than chance."""
    found = _hiding(explained(WEIGHTS), (1, 2, 3), np.array([0.87, *[0.875] * 20]), None, 0.9, enough=True)
    assert found.beyond == 1
    assert found.verdict == "weak"


def test_only_values_have_a_spread_and_one_of_zero_supports_nothing() -> None:
    model = additive_model(**WEIGHTS)
    asker = Asker(model)
    assert note_spread(model.encode(text()), asker) is None
    assert asker.asked == 0
    assert verdict_of(1.0, 0.5, 0.9, spread=0.0) == "not supported"
