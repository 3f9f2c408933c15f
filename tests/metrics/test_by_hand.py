"""Every metric on a text whose answers are known: the logit is the sum of the words' weights, and a hidden word adds
nothing.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from toys import additive_model

from wherefrom.api import Model
from wherefrom.core.comparison import Comparison
from wherefrom.errors import BadOption, NotDefined
from wherefrom.grading.choosing import chosen_metrics
from wherefrom.grading.evidence import Answers, Evidence, Measured
from wherefrom.metrics.rft import Rft
from wherefrom.registry import all_metrics

WEIGHTS = {"good": 2.0, "bad": -3.0, "film": 0.5}
TEXT = "good bad film"
OURS = [row.name for row in all_metrics() if row.function.__module__.startswith("wherefrom.")]


def s(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


WHOLE = s(-0.5)
# good is hidden, then film too, then bad
FALLS = [WHOLE - s(-2.5), WHOLE - s(-3.0), WHOLE - s(0.0)]
LOGS = [log(s(-2.5) / WHOLE), log(s(-3.0) / WHOLE), log(s(0.0) / WHOLE)]
# each alone is hidden
GOOD, BAD, FILM = WHOLE - s(-2.5), WHOLE - s(2.5), WHOLE - s(-1.0)
KNOWN = {
    # ceil(k * 3) for k = 10% ... 100% is 1 1 1 2 2 2 3 3 3 3, and k = 0 adds nothing
    "aopc": (3 * FALLS[0] + 3 * FALLS[1] + 4 * FALLS[2]) / 11,
    "log_odds": (3 * LOGS[0] + 3 * LOGS[1] + 4 * LOGS[2]) / 11,
    # 5%, 10%, 20% are one word, 50% are two
    "comprehensiveness": (3 * FALLS[0] + FALLS[1]) / 6,
    # 1%, 5%, 10%, 20% are one word, 50% are two, and ERASER takes the mean over these five
    "comprehensiveness:bins=eraser": (4 * FALLS[0] + FALLS[1]) / 5,
    "sufficiency": (3 * (WHOLE - s(2.0)) + (WHOLE - s(2.5))) / 6,
    "sufficiency:bins=eraser": (4 * (WHOLE - s(2.0)) + (WHOLE - s(2.5))) / 5,
    "rft": (-BAD / 1 + GOOD / 2 + FILM / 3) / 3,
    "rft:normalise=false": -BAD / 1 + GOOD / 2 + FILM / 3,
    "faithful_truthfulness": (GOOD - BAD + FILM) / 3,
    "faithfulness": GOOD,
    "truthfulness": 1.0,
    "monotonicity": float(np.corrcoef([2.0, -3.0, 0.5], [GOOD, BAD, FILM])[0, 1]),
    "faithfulness_violation": 0.0,
    "faithfulness_violation:of=top": 0.0,
    "auprc": (1.0 + 2 / 3) / 2,  # good and bad are marked: the first and the last of the order
    "auroc": 0.5,
    "token_f1": 0.5,
    "iou_f1": 2
    * 0.5
    * 1.0
    / 1.5,  # {good} is half of {good, bad}: one of two runs that were found matches, and the one that was marked
    "entropy": -sum(share * log(share) for share in (2 / 5.5, 3 / 5.5, 0.5 / 5.5)) / log(3),
    "nonzero_share": 1.0,
    "stability": 1.0,  # a word adds the same in every text
    "stability:by=top": 1.0,
}


@pytest.fixture(scope="module")
def compared() -> Comparison:
    model = Model(additive_model(**WEIGHTS))
    return model.compare(TEXT, ["input_x_gradient"], list(KNOWN), target=1, rationale=[(0, 8)])


def test_the_toy_is_explained_rightly(compared: Comparison) -> None:
    assert compared.explanations[0].scores == pytest.approx((0, 2.0, -3.0, 0.5, 0))


@pytest.mark.parametrize("metric", KNOWN)
def test_a_metric_has_its_known_value(metric: str, compared: Comparison) -> None:
    assert compared.grade("input_x_gradient", metric).value == pytest.approx(KNOWN[metric], abs=1e-12)


def test_every_metric_is_known_by_hand() -> None:
    elsewhere = {"precision_at_k", "jaccard_25", "spearman", "kendall_confidence"}  # beneath
    elsewhere |= {"soft_comprehensiveness", "soft_sufficiency", "randomisation"}  # test_soft, test_randomisation
    assert {name.partition(":")[0] for name in KNOWN} | elsewhere == set(OURS)


def evidence(scores: list[float], **more: Any) -> Evidence:
    """Scores between two special tokens, which score more than all."""
    padded: dict[str, Any] = {
        name: one if np.ndim(one) == 2 or name == "edits" else np.asarray([0, *one, 0]) for name, one in more.items()
    }
    return Evidence(np.asarray([9.0, *scores, 9.0]), np.asarray([True, *[False] * len(scores), True]), **padded)


def measured(metric: str, of: Evidence, answers: list[float] | None = None) -> float:
    one = chosen_metrics([metric])[0].metric
    if hasattr(one, "questions"):
        found = one.score(of, Answers(0.5, np.asarray(answers), one.questions(of)))
    else:
        found = one.score(of)
    return float(found.value if isinstance(found, Measured) else found)


def test_precision_at_k() -> None:
    of = evidence([4, 1, 3, 2], answer=[True, False, True, True])
    assert measured("precision_at_k:k=1", of) == pytest.approx(1 / 3)
    assert measured("precision_at_k:k=2", of) == pytest.approx(2 / 3)
    found = chosen_metrics(["precision_at_k:k=3"])[0].metric.score(of)
    assert found.details == {"count": 3, "of": 3}


def test_kendall_confidence() -> None:
    opposite = np.asarray([[0.0, -2.0, 3.0, -0.5, 0.0]])
    assert measured("kendall_confidence", evidence([2.0, -3.0, 0.5], others=opposite)) == pytest.approx(-1.0)
    # one of three pairs is turned round, in one of two other classes
    others = np.asarray([[0.0, 0.5, -3.0, 2.0, 0.0], [0.0, 2.0, -3.0, 0.5, 0.0]])
    assert measured("kendall_confidence", evidence([2.0, -3.0, 0.5], others=others)) == pytest.approx((1 / 3 + 1) / 2)


def test_two_models() -> None:
    of = evidence([4, 3, 2, 1, 0, 0, 0, -1], second=[4, 3, 2, 1, 0, 0, 0, -1])
    assert [measured("jaccard_25", of), measured("spearman", of)] == pytest.approx([1.0, 1.0])
    of = evidence([4, 3, 2, 1], second=[1, 2, 3, 4])
    assert [measured("jaccard_25", of), measured("spearman", of)] == pytest.approx([0.0, -1.0])
    # the top half of one is {0, 1}, of the other {1, 2}
    assert measured("jaccard_25:share=0.5", evidence([4, 3, 2, 1], second=[1, 4, 3, 2])) == pytest.approx(1 / 3)


def test_stability() -> None:
    """One edit turns the order, one keeps it and has one word less, one leaves a single unit, one has no order."""
    nan = np.nan
    edited = np.asarray([[0, 1, 2, 3, 0], [0, 5, nan, 4, 0], [0, nan, nan, 4, 0], [0, 1, 1, 1, 0]], dtype=float)
    of = evidence([3, 2, 1], edited=edited, edits=["turned", "less", "single", "flat"])
    found = chosen_metrics(["stability"])[0].metric.score(of)
    assert found.details == {"edits": {"turned": pytest.approx(-1.0), "less": pytest.approx(1.0)}}
    assert found.value == pytest.approx(0.0)
    assert measured("stability:by=top", of) == pytest.approx((0 + 1 + 1) / 3)


def test_equal_scores_stay_in_the_order_of_the_text() -> None:
    of = evidence([1, 1, 2, 1])
    assert of.order.tolist() == [3, 1, 2, 4]
    np.testing.assert_array_equal(of.without([2])[0], [True, False, True, False, True, True])
    np.testing.assert_array_equal(of.only([2])[0], [True, True, False, True, False, True])


def test_percent_are_counted_in_whole_numbers() -> None:
    of = evidence([0.0] * 10)
    assert [of.count_of(k) for k in (0, 1, 10, 70, 71, 100)] == [0, 1, 1, 7, 8, 10]


def test_ties_share_the_worst_rank() -> None:
    assert measured("rft:normalise=false", evidence([1, -1, 3]), [0.4, 0.7, 0.4]) == pytest.approx(
        0.1 / 3 + 0.2 / 3 + 0.1 / 1
    )


def test_zero_counts_against_whatever_happens() -> None:
    of = evidence([0, 0, 2])
    assert measured("rft:normalise=false", of, [0.4, 0.7, 0.4]) == pytest.approx(-0.1 / 3 - 0.2 / 3 + 0.1)
    assert measured("truthfulness", of, [0.4, 0.7, 0.4]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("metric", "of", "reason"),
    [
        ("kendall_confidence", evidence([1, 2]), "no other class"),
        ("kendall_confidence", evidence([1], others=np.zeros((1, 3))), "one unit"),
        ("kendall_confidence", evidence([1, 2], others=np.zeros((1, 4))), "are equal"),
        ("auprc", evidence([1, 2]), "no rationale was given"),
        ("auprc", evidence([1, 2], rationale=[False, False]), "lies in the rationale"),
        *[
            (metric, evidence([1, 2], rationale=[True, True]), "the rationale is the whole text")
            for metric in ("auroc", "auprc", "auprc:variant=published", "token_f1", "iou_f1")
        ],
        ("token_f1", evidence([1, 2]), "no rationale was given"),
        ("iou_f1", evidence([1, 2]), "no rationale was given"),
        ("precision_at_k", evidence([1, 2], answer=[True, False]), "k = 20 is not less than the 2 units"),
        ("precision_at_k", evidence([1, 2]), "no answer"),
        ("monotonicity", evidence([1, 1]), "all scores are equal"),
        ("soft_comprehensiveness", evidence([1, 1]), "all scores are equal"),
        ("soft_sufficiency", evidence([1, 1]), "all scores are equal"),
        ("entropy", evidence([0, 0]), "every score is zero"),
        ("spearman", evidence([1, 1], second=[1, 2]), "are equal"),
        ("randomisation", evidence([1, 2], randomised=[1, 1]), "all scores are equal"),
        ("randomisation", evidence([1, 2]), "shuffled weights"),
        ("jaccard_25", evidence([1, 1]), "compares two models"),
        ("stability", evidence([1, 2]), "no edited text"),
        ("stability", evidence([1, 2], edited=np.full((1, 4), np.nan), edits=["full_stop"]), "shares two units"),
    ],
)
def test_what_is_not_defined_says_why(metric: str, of: Evidence, reason: str) -> None:
    with pytest.raises(NotDefined, match=reason):
        measured(metric, of, [0.1, 0.2])


def test_a_probability_of_zero_has_no_logarithm() -> None:
    with pytest.raises(NotDefined, match="no logarithm"):
        measured("log_odds", evidence([1, 2]), [0.1, 0.0])


@pytest.mark.parametrize(
    "metric", ["precision_at_k:k=0", "iou_f1:threshold=0", "jaccard_25:share=2", "aopc:fill=blank", "rft:normalise=2"]
)
def test_an_option_that_does_not_fit_is_an_error(metric: str) -> None:
    with pytest.raises(BadOption):
        chosen_metrics([metric])


@pytest.mark.parametrize("normalise", [True, False])
def test_slopes_of_rft_add_up_to_it(normalise: bool) -> None:
    """Row by row: each unit's effect, times its slope for a fall or for a rise of the probability."""
    metric = Rft(normalise=normalise)
    scores, drops = np.array([[3.0, -1.0, 0.5], [0.0, 2.0, -2.0]]), np.array([0.4, -0.2, 0.1])
    falls, rises = metric.slopes(scores)
    units = 3 if normalise else 1
    np.testing.assert_allclose(falls * units, [[1, -1 / 2, 1 / 3], [-1 / 3, 1 / 2, -1 / 2]])
    total = (falls * drops.clip(min=0) + rises * -drops.clip(max=0)).sum(-1)
    np.testing.assert_allclose(total * units, [0.4 + 0.2 / 2 + 0.1 / 3, -0.4 / 3 - 0.2 / 2 - 0.1 / 2])
