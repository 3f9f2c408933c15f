"""Every formula against a slow rewrite, straight from its paper, on random cases."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import ceil, log
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wherefrom.grading.choosing import chosen_metrics
from wherefrom.grading.evidence import Answers, Evidence, Measured

SCORE = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 3.0])  # few, so that there are ties
CHANCE = st.floats(0.01, 0.99)


@dataclass(frozen=True)
class Text:
    scores: list[float]
    other: list[float]
    special: list[bool]
    marked: list[bool]
    whole: float
    weights: list[float]  # what a unit adds to the logit while it is kept


@st.composite
def texts(draw: st.DrawFn) -> Text:
    n = draw(st.integers(1, 12)) + 2
    scores, other = (draw(st.lists(SCORE, min_size=n, max_size=n)) for _ in range(2))
    marked = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    weights = draw(st.lists(st.floats(-1, 1), min_size=n, max_size=n))
    return Text(scores, other, [True, *[False] * (n - 2), True], marked, draw(CHANCE), weights)


def chance(text: Text, kept: Any) -> float:
    total = sum(weight for weight, keep in zip(text.weights, kept, strict=True) if keep)
    return float(1 / (1 + np.exp(-total)))


def fast(metric: str, text: Text) -> float:
    flags = np.asarray(text.marked) & ~np.asarray(text.special)
    evidence = Evidence(
        np.asarray(text.scores),
        np.asarray(text.special),
        others=np.asarray([text.other]),
        rationale=flags,
        answer=flags,
        second=np.asarray(text.other),
        edited=edited(text),
        edits=("whole", "part"),
        randomised=np.asarray(text.other),
    )
    one = chosen_metrics([metric])[0].metric
    if hasattr(one, "questions"):
        keep = one.questions(evidence)
        found = one.score(evidence, Answers(text.whole, np.asarray([chance(text, row) for row in keep]), keep))
    else:
        found = one.score(evidence)
    return float(found.value if isinstance(found, Measured) else found)


def edited(text: Text) -> Any:
    """The scores of two edited texts: one with all units, one with the marked units alone."""
    part = [score if there else np.nan for score, there in zip(text.other, text.marked, strict=True)]
    return np.asarray([text.other, part])


def units(text: Text) -> list[int]:
    return [i for i, special in enumerate(text.special) if not special]


def ranked(text: Text) -> list[int]:
    return sorted(units(text), key=lambda i: (-text.scores[i], i))


def without(text: Text, hidden: list[int]) -> float:
    return chance(text, [i not in hidden for i in range(len(text.scores))])


def slow_aopc(text: Text) -> float:
    order, falls = ranked(text), []
    for k in range(0, 101, 10):
        top = order[: ceil(k * len(order) / 100)]
        falls.append(text.whole - without(text, top) if top else 0.0)
    return sum(falls) / 11


def slow_log_odds(text: Text) -> float:
    order, changes = ranked(text), []
    for k in range(0, 101, 10):
        top = order[: ceil(k * len(order) / 100)]
        changes.append(log(without(text, top) / text.whole) if top else 0.0)
    return sum(changes) / 11


def slow_comprehensiveness(text: Text) -> float:
    order = ranked(text)
    return sum(text.whole - without(text, order[: ceil(k * len(order) / 100)]) for k in (5, 10, 20, 50)) / 6


def slow_sufficiency(text: Text) -> float:
    order = ranked(text)
    return sum(text.whole - without(text, order[ceil(k * len(order) / 100) :]) for k in (5, 10, 20, 50)) / 6


def value(text: Text, i: int) -> float:
    fall, weight = text.whole - without(text, [i]), text.scores[i]
    return float(fall if weight > 0 else -fall if weight < 0 else -abs(fall))


def slow_rft(text: Text) -> float:
    total = 0.0
    for i in units(text):
        rank = sum(abs(text.scores[j]) >= abs(text.scores[i]) for j in units(text))  # ties share the worst
        total += value(text, i) / rank
    return total / len(units(text))


def slow_faithful_truthfulness(text: Text) -> float:
    return sum(value(text, i) for i in units(text)) / len(units(text))


def slow_faithfulness(text: Text) -> float:
    return value(text, ranked(text)[0])


def slow_truthfulness(text: Text) -> float:
    return sum(value(text, i) > 0 for i in units(text)) / len(units(text))


def slow_faithfulness_violation(text: Text) -> float:
    wrong = [text.scores[i] * (text.whole - without(text, [i])) < 0 for i in units(text)]
    return sum(wrong) / len(wrong)


def correlation(a: list[float], b: list[float]) -> float:
    assume(len(set(a)) > 1 and len(set(b)) > 1 and np.std(a) > 1e-6 and np.std(b) > 1e-6)
    x, y = (np.asarray(one) - np.mean(one) for one in (a, b))
    return float(sum(x * y) / np.sqrt(sum(x * x) * sum(y * y)))


def slow_monotonicity(text: Text) -> float:
    return correlation([text.scores[i] for i in units(text)], [text.whole - without(text, [i]) for i in units(text)])


def slow_kendall_confidence(text: Text) -> float:
    a, b = ([getattr(text, name)[i] for i in units(text)] for name in ("scores", "other"))
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    pairs = list(combinations(range(len(a)), 2))
    signs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in pairs]
    return float(sum(x * y for x, y in signs) / np.sqrt(sum(x != 0 for x, _ in signs) * sum(y != 0 for _, y in signs)))


def wanted(text: Text) -> set[int]:
    found = {i for i in units(text) if text.marked[i]}
    assume(found)
    return found


def slow_precision_at_k(text: Text) -> float:
    assume(len(units(text)) > 3)
    return len(wanted(text) & set(ranked(text)[:3])) / len(wanted(text))


def rationale(text: Text) -> set[int]:
    found = wanted(text)
    assume(found != set(units(text)))  # the whole text: not defined
    return found


def slow_auprc(text: Text) -> float:
    right, area, before = rationale(text), 0.0, 0.0
    for threshold in sorted({text.scores[i] for i in units(text)}, reverse=True):
        passed = [i for i in units(text) if text.scores[i] >= threshold]
        hits = len(right & set(passed))
        area += (hits / len(right) - before) * hits / len(passed)
        before = hits / len(right)
    return area


def slow_auroc(text: Text) -> float:
    right = rationale(text)
    rest = set(units(text)) - right
    wins = [(text.scores[i] > text.scores[j]) + 0.5 * (text.scores[i] == text.scores[j]) for i in right for j in rest]
    return sum(wins) / len(wins)


def slow_token_f1(text: Text) -> float:
    right = rationale(text)
    found = set(ranked(text)[: len(right)])
    precision, recall = len(found & right) / len(found), len(found & right) / len(right)
    return 2 * precision * recall / (precision + recall) if found & right else 0.0


def stretches(places: set[int]) -> list[set[int]]:
    starts = [i for i in sorted(places) if i - 1 not in places]
    return [{j for j in places if j >= i and all(k in places for k in range(i, j))} for i in starts]


def slow_iou_f1(text: Text) -> float:
    right = rationale(text)
    gold, found = stretches(right), stretches(set(ranked(text)[: len(right)]))

    def matched(one: set[int], others: list[set[int]]) -> bool:
        return any(len(one & other) / len(one | other) >= 0.5 for other in others)

    precision = sum(matched(one, gold) for one in found) / len(found)
    recall = sum(matched(one, found) for one in gold) / len(gold)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def slow_entropy(text: Text) -> float:
    sizes = [abs(text.scores[i]) for i in units(text)]
    assume(sum(sizes) > 0)
    nats = -sum(size / sum(sizes) * log(size / sum(sizes)) for size in sizes if size)
    return nats / log(len(sizes)) if len(sizes) > 1 else 0.0


def slow_nonzero_share(text: Text) -> float:
    return sum(text.scores[i] != 0 for i in units(text)) / len(units(text))


def shares(text: Text) -> list[float]:
    scores = [text.scores[i] for i in units(text)]
    assume(min(scores) < max(scores))
    return [(score - min(scores)) / (max(scores) - min(scores)) for score in scores]


def slow_soft_comprehensiveness(text: Text) -> float:
    """Where `chance` counts a unit as long as anything of it is kept, in every draw alike."""
    gone = [i for i, share in zip(units(text), shares(text), strict=True) if share == 1]
    return max(0.0, text.whole - without(text, gone))


def slow_soft_sufficiency(text: Text) -> float:
    gone = [i for i, share in zip(units(text), shares(text), strict=True) if share == 0]
    return 1 - max(0.0, text.whole - without(text, gone))


def slow_jaccard_25(text: Text) -> float:
    n = ceil(len(units(text)) / 4)
    one, other = (set(sorted(units(text), key=lambda i: (-scores[i], i))[:n]) for scores in (text.scores, text.other))
    return len(one & other) / len(one | other)


def slow_spearman(text: Text) -> float:
    def ranks(name: str) -> list[float]:
        scores = [getattr(text, name)[i] for i in units(text)]
        return [sum(other < one for other in scores) + (scores.count(one) + 1) / 2 for one in scores]

    return correlation(ranks("scores"), ranks("other"))


def slow_randomisation(text: Text) -> float:
    return abs(slow_spearman(text))


def slow_stability(text: Text) -> float:
    def ranks(scores: list[float]) -> list[float]:
        return [sum(other < one for other in scores) + (scores.count(one) + 1) / 2 for one in scores]

    found = []
    for row in edited(text).tolist():
        both = [i for i in units(text) if row[i] == row[i]]
        one, other = ([scores[i] for i in both] for scores in (text.scores, row))
        if len(set(one)) > 1 and len(set(other)) > 1:
            found.append(correlation(ranks(one), ranks(other)))
    assume(found)
    return sum(found) / len(found)


SLOW = {name.removeprefix("slow_"): function for name, function in dict(globals()).items() if name.startswith("slow_")}


@pytest.mark.parametrize("metric", SLOW)
@settings(max_examples=60, deadline=None)
@given(text=texts())
def test_a_metric_equals_its_slow_rewrite(metric: str, text: Text) -> None:
    expected = SLOW[metric](text)
    if metric == "monotonicity":
        assert fast(metric, text) == pytest.approx(expected, abs=1e-6)
    else:
        assert fast("precision_at_k:k=3" if metric == "precision_at_k" else metric, text) == pytest.approx(
            expected, abs=1e-12
        )


def test_every_metric_has_a_slow_rewrite() -> None:
    from wherefrom.registry import all_metrics

    assert {row.name for row in all_metrics() if row.function.__module__.startswith("wherefrom.")} == set(SLOW)
