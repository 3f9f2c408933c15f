"""LIME and Kernel SHAP: known weights, exact Shapley values, slow rewrites of both fits, and what a seeded draw must
leave alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from math import comb, factorial
from typing import Any

import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnLinearRegression
from captum.attr._core.lime import Lime, get_exp_kernel_similarity_function
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, Ridge
from tiny_models import FAMILIES, WORDS, make_model, tiny
from toys import additive_case, additive_model, case_of

from wherefrom.api import Model
from wherefrom.case.case import Attribution, Case
from wherefrom.core.explanation import Explanation
from wherefrom.core.units import Level
from wherefrom.errors import BadFile, BadOption
from wherefrom.methods.coalitions import choose, draw_pairs, fit_pairs
from wherefrom.methods.lime import fit_linear
from wherefrom.methods.surrogate import every_part
from wherefrom.model.network import embedding_table
from wherefrom.registry import find_method

BOTH = ["lime", "kernel_shap"]
TEXT = "the film was not bad, but dull!"
Numbers = NDArray[np.float64]


def run(method: str, case: Case, **options: Any) -> Attribution:
    given: Attribution = find_method(method)(case, **options)
    return given


@pytest.mark.parametrize("method", BOTH)
def test_recovers_known_weights(method: str) -> None:
    found = run(method, additive_case(good=2.0, bad=-3.0, film=0.5))
    torch.testing.assert_close(
        found.scores, torch.tensor([0, 2.0, -3.0, 0.5, 0], dtype=torch.float64), rtol=0, atol=3e-6
    )
    assert found.params == {"fill": "mask", "samples": 8}


@pytest.mark.parametrize("method", BOTH)
def test_also_from_a_draw(method: str) -> None:
    weights = {word: float(place - 4) for place, word in enumerate(WORDS[:10])}
    found = run(method, additive_case(**weights), samples=40)
    torch.testing.assert_close(
        found.scores, torch.tensor([0, *weights.values(), 0], dtype=torch.float64), rtol=0, atol=1e-5
    )
    assert found.params["samples"] == 40
    if method == "lime":
        assert found.notes == ("The linear model tells 100% of how the score varies between 40 samples.",)


def test_a_score_that_never_changes_is_told_wholly() -> None:
    found = run("lime", additive_case(good=0.0, bad=0.0, film=1e-9))
    assert found.notes == ("The linear model tells 100% of how the score varies between 8 samples.",)
    constant = additive_model(good=0.0)
    embedding_table(constant.network).data[constant.reading.tokenizer.cls_token_id] = torch.tensor(
        [0.1, 0.6]
    )  # never hidden, and no round number
    told = run("lime", case_of(constant, "good film", target=1))
    assert told.scores.abs().max() < 1e-6
    assert told.notes == ("The linear model tells 100% of how the score varies between 4 samples.",)


@pytest.mark.parametrize("method", BOTH)
def test_words_and_sentences_are_hidden_whole(method: str) -> None:
    model = additive_model(good=2.0, bad=-3.0, film=0.5, x=1.0)
    embedding_table(model.network).data[model.reading.tokenizer.convert_tokens_to_ids("##x")] = torch.tensor([2.0, 2.0])
    words = Model(model).explain("good xx. bad film.", method, target=1, level="word")
    assert dict(zip(words.tokens, words.scores, strict=True))["xx"] == pytest.approx(
        5.0, abs=1e-5
    )  # x and ##x together
    sentences = Model(model).explain("Good xx. Bad film.", method, target=1, level="sentence")
    assert [unit.score for unit in sentences.units()] == pytest.approx([7.0, -2.5], abs=1e-5)
    assert sentences.forwards == 4  # two sentences, four combinations


def worth(case: Case, fill: str = "mask") -> dict[tuple[bool, ...], float]:
    """The score of every part of the real units, one question at a time."""
    real = case.units[~(case.units & case.special).any(-1)]
    parts = list(itertools.product([False, True], repeat=len(real)))
    return {part: case.ask((real & torch.tensor(part)[:, None]).any(0)[None], fill).item() for part in parts}


def shapley(value: dict[tuple[bool, ...], float]) -> list[float]:
    """Straight from the definition: the mean, over all orders, of what a unit adds to those before it."""
    n = len(next(iter(value)))
    found = [0.0] * n
    for part, before in value.items():
        for i in (i for i in range(n) if not part[i]):
            size = sum(part)
            share = factorial(size) * factorial(n - size - 1) / factorial(n)
            found[i] += share * (value[(*part[:i], True, *part[i + 1 :])] - before)
    return found


LEVELS: list[tuple[str, Level]] = [
    ("the film was not bad", "token"),
    ("xyz was never dull", "word"),
    ("A film. Not dull! Bad?", "sentence"),
]


@pytest.mark.parametrize(("text", "level"), LEVELS)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_kernel_shap_is_exact_where_every_part_is_asked(family: str, text: str, level: Level) -> None:
    case = case_of(tiny(family, torch.float64), text, level=level)
    found = run("kernel_shap", case, fill="mask")
    real = ~(case.units & case.special).any(-1)
    expected = torch.tensor(shapley(worth(case)), dtype=torch.float64)
    torch.testing.assert_close(found.scores[real], expected, rtol=0, atol=1e-5 * expected.abs().max().item())
    assert found.scores[~real].tolist() == [0.0] * int((~real).sum())


def fitted(parts: Numbers, answers: Numbers, weights: Numbers, ridge: float = 0.0) -> tuple[Numbers, float]:
    """Weighted least squares by its normal equations in double precision, the constant free; and the weighted R^2."""
    table = np.hstack([np.ones((len(parts), 1)), parts])
    penalty = ridge * np.diag([0.0, *np.ones(parts.shape[1])])
    found = np.linalg.solve(table.T @ (weights[:, None] * table) + penalty, table.T @ (weights * answers))
    share = weights / weights.sum()
    spread, missed = share @ (answers - share @ answers) ** 2, share @ (answers - table @ found) ** 2
    return found[1:].astype(np.float64), float(1 - missed / spread)


class Spy:
    """Sees which parts a method asks about, and what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
        self.case, self.seen, self.told = case, np.zeros((0, 0)), np.zeros(0)
        ask = case.ask

        def watched(keep: torch.Tensor, fill: str) -> torch.Tensor:
            answers = ask(keep, fill)
            if len(keep) > len(self.seen):
                self.seen, self.told = keep[:, ~case.special].double().numpy(), answers.double().numpy()
            return answers

        monkeypatch.setattr(case, "ask", watched)


@pytest.mark.parametrize(
    "options", [{}, {"ridge": 0.01}, {"width": 0.1}, {"samples": 60, "seed": 3}, {"samples": 60, "ridge": 0.5}]
)
def test_lime_is_the_weighted_fit(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    case = case_of(tiny("bert", torch.float64), TEXT)
    spy = Spy(monkeypatch, case)
    found = run("lime", case, **options)
    near = np.sqrt(spy.seen.mean(1))  # the cosine of a part and of the whole, ones and zeros both
    weights = np.exp(-((1 - near) ** 2) / (2 * options.get("width", 0.25) ** 2))
    scores, explained = fitted(spy.seen, spy.told, weights, options.get("ridge", 0.0) * len(spy.seen))
    assert found.scores[~case.special].tolist() == pytest.approx(list(scores), abs=1e-9 * np.abs(scores).max())
    told = re.fullmatch(
        r"The linear model tells (\d+)% of how the score varies between (\d+) samples\.", found.notes[0]
    )
    assert told is not None
    assert int(told[1]) == pytest.approx(100 * explained, abs=0.5 + 1e-3)  # rounded, and half a per cent either way
    assert int(told[2]) == len(spy.seen)
    assert len(spy.seen) == options.get("samples", 256)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_fit_is_scikit_learn_s(ridge: float) -> None:
    chance = np.random.default_rng(4)
    samples, answers, weights = chance.random((40, 6)) < 0.5, chance.normal(size=40), chance.random(40)
    reference = (Ridge(alpha=ridge, solver="svd") if ridge else LinearRegression()).fit(samples, answers, weights)
    numbers = [torch.from_numpy(values.astype(np.float64)) for values in (samples, answers, weights)]
    coefficients, explained = fit_linear(numbers[0], numbers[1], numbers[2], ridge)
    np.testing.assert_allclose(coefficients.numpy(), reference.coef_, rtol=0, atol=1e-9)
    assert explained == pytest.approx(reference.score(samples, answers, weights), abs=1e-9)


def test_lime_is_captum_s_on_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """captum fits in single precision."""
    case = case_of(tiny("bert", torch.float64), TEXT)
    spy = Spy(monkeypatch, case)
    found = run("lime", case, samples=60, seed=3)
    parts = torch.from_numpy(spy.seen).long()

    def drawn(*_: Any, **__: Any) -> Iterator[torch.Tensor]:
        yield from parts[:, None]

    reference = Lime(
        lambda _: torch.from_numpy(spy.told),
        interpretable_model=SkLearnLinearRegression(),
        similarity_func=get_exp_kernel_similarity_function("cosine", kernel_width=0.25),
        perturb_func=drawn,
    )
    with torch.random.fork_rng():
        theirs = reference.attribute(
            torch.ones(1, parts.shape[1]), n_samples=60, perturbations_per_eval=60, return_input_shape=False
        )
    scores = found.scores[~case.special]
    np.testing.assert_allclose(scores.numpy(), theirs.flatten().numpy(), rtol=0, atol=1e-5 * float(scores.abs().max()))


def kernel(units: int, size: int) -> float:
    return (units - 1) / (comb(units, size) * size * (units - size))


def test_kernel_shap_is_the_bound_fit_of_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(tiny("bert", torch.float64), TEXT)
    spy = Spy(monkeypatch, case)
    found = run("kernel_shap", case, samples=60)
    whole, nothing, parts, answers = spy.told[0], spy.told[1], spy.seen[2:], spy.told[2:]
    # 29 pairs: all nine of one unit, and twenty that stand for the 246 of two to four units, whose weight they share.
    sizes = np.minimum(parts.sum(1), 9 - parts.sum(1)).astype(int)
    assert (sizes == 1).sum() == 2 * 9
    others = 2 * sum(comb(9, size) * kernel(9, size) for size in (2, 3, 4))
    weights = np.where(sizes == 1, kernel(9, 1), others / (sizes > 1).sum())
    # the bound solved for the last unit, so that it holds exactly: b_n = whole - nothing - sum of the others
    rest, root = parts[:, :-1] - parts[:, -1:], np.sqrt(weights)
    told = answers - nothing - parts[:, -1] * (whole - nothing)
    first = np.linalg.lstsq(rest * root[:, None], told * root, rcond=None)[0]
    expected = [*first, whole - nothing - first.sum()]
    assert found.scores[~case.special].tolist() == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(("units", "samples"), [(9, 256), (9, 511), (12, 300), (13, 4095), (20, 64), (60, 256), (5, 9)])
def test_no_coalition_is_drawn_twice_and_none_without_its_complement(units: int, samples: int) -> None:
    pairs = draw_pairs(units, samples, seed=3)
    drawn = [tuple(row) for row in torch.cat([pairs.chosen, ~pairs.chosen]).tolist()]
    assert len(set(drawn)) == len(drawn) == 2 * ((samples - 2) // 2)
    assert not {(True,) * units, (False,) * units} & set(drawn)


def test_small_sizes_are_asked_whole_and_the_others_by_their_weight() -> None:
    counts = []
    for seed in range(50):
        pairs = draw_pairs(12, 500, seed)  # 249 pairs: all 12 + 66 of one and two units, and 171 of the other 1,969
        sizes = pairs.chosen.sum(1).numpy()
        assert (sizes == 1).sum() == 12
        assert (sizes == 2).sum() == 66
        counts.append(np.bincount(sizes, minlength=7)[3:])
    weight = np.array([1 / (3 * 9), 1 / (4 * 8), 1 / (5 * 7), 0.5 / (6 * 6)])  # of six units, half are complements
    share = 171 * weight / weight.sum()
    assert all(np.abs(count - share).max() < 1 for count in counts)  # rounded up or down
    assert np.mean(counts, axis=0) == pytest.approx(share, abs=0.3)  # by chance: right on average


def test_the_weights_of_a_draw_are_those_of_all_coalitions() -> None:
    pairs = draw_pairs(12, 500, seed=1)
    sizes = pairs.chosen.sum(1)
    assert pairs.weight[sizes == 1].sum().item() == pytest.approx(1 / 11)
    assert pairs.weight[sizes == 2].sum().item() == pytest.approx(1 / 20)
    rest = 1 / (3 * 9) + 1 / (4 * 8) + 1 / (5 * 7) + 0.5 / (6 * 6)
    assert pairs.weight[sizes > 2].tolist() == pytest.approx([rest / 171] * 171)
    assert pairs.left_out[sizes <= 2].tolist() == [0.0] * 78
    assert pairs.left_out[sizes == 4].unique().item() == pytest.approx(1 - 171 / (32 * rest) / comb(12, 4))


def test_a_long_text_has_more_coalitions_than_can_be_counted() -> None:
    """Of 130 units all 130 of size one are in, since their share of 2,000 pairs is larger; of 60 units and more, none
    to speak of.
    """
    pairs = draw_pairs(130, 4002, seed=0)
    sizes = pairs.chosen.sum(1)
    assert len(sizes) == 2000
    assert (sizes == 1).sum() == 130
    assert set(sizes.tolist()) >= {2, 30, 60, 64}
    assert pairs.left_out[sizes == 1].tolist() == [0.0] * 130
    assert pairs.left_out[sizes >= 60].tolist() == pytest.approx([1.0] * int((sizes >= 60).sum()), abs=1e-9)


def test_every_coalition_of_a_size_is_as_likely_as_any_other() -> None:
    generator, seen = torch.Generator().manual_seed(0), torch.zeros(6)
    for _ in range(600):
        seen += choose(6, 2, 3, generator).sum(0)
    assert seen.tolist() == pytest.approx([600 * 3 * 2 / 6] * 6, rel=0.1)
    halves = choose(6, 3, 10, generator)
    assert halves[:, 0].all()  # the complements are the ten without it
    assert len({tuple(row) for row in halves.tolist()}) == 10


def games(units: int, seed: int) -> Numbers:
    """What each coalition of a made-up game is worth: units, pairs and triples. (coalition,)"""
    draw, kept = np.random.default_rng(seed), every_part(units).numpy().astype(float)
    worth = kept @ draw.normal(size=units)
    for order, size in ((2, 0.5), (3, 0.5)):
        for members in itertools.combinations(range(units), order):
            worth += size * draw.normal() * kept[:, members].prod(1)
    return worth


def played(worth: Numbers, samples: int, seed: int) -> tuple[Numbers, Numbers]:
    """Scores and standard errors of a game."""
    units = len(worth).bit_length() - 1
    pairs = draw_pairs(units, samples, seed)
    place = (pairs.chosen.long() * 2 ** torch.arange(units)).sum(1).numpy()
    odd = torch.tensor(worth[place] - worth[-1 - place]) / 2
    scores, errors = fit_pairs(pairs, odd, worth[-1] - worth[0])
    assert errors is not None
    return scores.numpy(), errors.numpy()


def test_the_standard_error_is_how_far_scores_vary_between_seeds() -> None:
    worth = games(9, seed=0)
    truth = played(worth, 512, 0)[0]
    value = {tuple(part): float(told) for part, told in zip(every_part(9).tolist(), worth, strict=True)}
    assert truth.tolist() == pytest.approx(shapley(value), abs=1e-9)
    for samples in (64, 256):
        runs = [played(worth, samples, seed) for seed in range(200)]
        missed = np.sqrt(np.mean([(scores - truth) ** 2 for scores, _ in runs], axis=0))
        said = np.sqrt(np.mean([errors**2 for _, errors in runs], axis=0))
        assert (said / missed).tolist() == pytest.approx([1.0] * 9, abs=0.3)
        covered = np.mean([np.abs(scores - truth) <= 2 * errors for scores, errors in runs])
        assert covered > 0.9
        assert np.mean([scores - truth for scores, _ in runs], axis=0).tolist() == pytest.approx(
            [0.0] * 9, abs=4 * missed.max() / np.sqrt(200)
        )  # and they vary around the truth


def test_nine_units_and_half_of_all_coalitions_come_within_a_tenth() -> None:
    case = case_of(tiny("bert", torch.float64), TEXT)
    exact = run("kernel_shap", case, samples=512)
    assert exact.standard_errors is not None
    assert not exact.standard_errors.any()
    largest = exact.scores.abs().max()
    missed = [
        ((run("kernel_shap", case, seed=seed).scores - exact.scores).abs().max() / largest).item() for seed in range(20)
    ]
    assert np.median(missed) < 0.1


def test_no_standard_error_where_there_are_no_more_answers_than_unknowns() -> None:
    few = run("kernel_shap", case_of(tiny("bert", torch.float64), TEXT), samples=16)
    assert few.standard_errors is None
    assert few.notes == ("16 samples are few for 9 units: another seed would give other scores. Raise samples.",)
    assert run("kernel_shap", case_of(tiny("bert", torch.float64), TEXT), samples=24).standard_errors is not None


def test_standard_errors_go_with_the_explanation() -> None:
    model = Model(tiny("bert", torch.float64))
    found = model.explain(TEXT, "kernel_shap", samples=64)
    assert found.standard_errors is not None
    assert [error == 0 for error in found.standard_errors] == list(found.special)
    assert Explanation.from_json(found.to_json()) == found
    assert found.at("word").standard_errors is None  # those of a word's tokens are not independent
    assert found.minus(model.explain(TEXT, "lime")).standard_errors is None
    words = model.explain("xyz was never dull but fine and good all over", "kernel_shap", samples=64, level="word")
    assert words.standard_errors is not None
    assert len(words.standard_errors) == len(words.scores)
    damaged = {**found.to_dict(), "standard_errors": [0.1]}
    with pytest.raises(BadFile, match="standard errors"):
        Explanation.from_dict(damaged)
    answer = Model(make_model("bert", task="question_answering", dtype=torch.float64))
    question = ("is it good?", "the film was not bad but dull")
    whole, *ends = (answer.explain(question, "kernel_shap", one, samples=64) for one in (None, "start", "end"))
    added = [sum(pair) for pair in zip(*(one.standard_errors or () for one in ends), strict=True)]
    assert list(whole.standard_errors or ()) == pytest.approx(added)


def test_every_part_is_every_part() -> None:
    assert sorted(map(tuple, every_part(4).tolist())) == list(itertools.product([False, True], repeat=4))
    assert every_part(0).shape == (1, 0)
    sizes = [comb(5, k) for k in range(6)]
    assert every_part(5).sum(1).bincount().tolist() == sizes


@pytest.mark.parametrize("family", FAMILIES)
def test_shapley_values_add_up(family: str) -> None:
    case = case_of(tiny(family), "never a good plot and the acting was very bad . a fine xyz")
    found = run("kernel_shap", case, samples=64)
    ends = torch.stack([torch.ones_like(case.special), case.special])
    whole, nothing = case.ask(ends, str(found.params["fill"])).double().tolist()
    assert found.gap == pytest.approx(whole - nothing - found.scores.sum().item(), abs=1e-12)
    assert abs(found.gap or 0.0) < 1e-9 * max(1.0, abs(whole - nothing))


ASKED: list[tuple[str, str, Any, Any, str]] = [
    ("bert", "question_answering", ("good?", "the film was not bad"), "start", "mask"),
    ("bert", "masked_lm", "the film was [MASK] bad", ("not", "very"), "mask"),
    ("gpt2", "causal_lm", "the film was not", "bad", "delete"),
]


@pytest.mark.parametrize(("family", "task", "text", "target", "fill"), ASKED, ids=[task for _, task, *_ in ASKED])
def test_every_kind_of_target(family: str, task: str, text: Any, target: Any, fill: str) -> None:
    model = make_model(family, task=task, dtype=torch.float64)
    found = Model(model).explain(text, "kernel_shap", target)
    case = case_of(model, model.encode(*(text if isinstance(text, tuple) else (text,))))
    (aim,) = model.task.targets(model, target, case.logits, case.encoding)
    expected = shapley(worth(case.toward(aim), fill))
    assert [unit.score for unit in found.units()] == pytest.approx(expected, abs=1e-5 * max(map(abs, expected)))
    assert abs(found.gap or 0.0) < 1e-5


@pytest.mark.parametrize("method", BOTH)
def test_an_answer_is_the_sum_of_its_ends(method: str) -> None:
    model = Model(make_model("bert", task="question_answering", dtype=torch.float64))
    whole, start, end = (
        model.explain(("is it good?", "the film was not bad"), method, target) for target in (None, "start", "end")
    )
    assert whole.scores == pytest.approx([a + b for a, b in zip(start.scores, end.scores, strict=True)], abs=1e-9)


@pytest.mark.parametrize("method", BOTH)
def test_a_text_of_one_unit_scores_what_hiding_it_loses(method: str) -> None:
    model = Model(tiny("bert", torch.float64))
    assert model.explain("dull", method).scores == pytest.approx(model.explain("dull", "occlusion").scores, rel=1e-5)
    assert model.explain("dull", method).notes[1:] == ()
    assert model.explain("dull", method, samples=2).params["samples"] == 2  # all there are


def test_no_question_is_asked_twice() -> None:
    case = case_of(tiny("bert", torch.float64), "a fine film")
    run("lime", case)
    assert (case.passes.count.forwards, case.own_count.forwards) == (
        1,
        7,
    )  # eight combinations; the whole text was asked before
    run("kernel_shap", case)
    run("occlusion", case)
    assert (case.passes.count.forwards, case.own_count.forwards) == (1, 7)


@pytest.mark.parametrize("method", BOTH)
def test_the_budget_is_kept(method: str) -> None:
    model = Model(tiny("bert"))
    few = model.explain(TEXT, method, samples=17)
    assert few.forwards <= 17 + 1
    asked = few.params["samples"]
    assert asked == (17 if method == "lime" else 16)  # kernel_shap asks in pairs
    assert few.notes[-1] == f"{asked} samples are few for 9 units: another seed would give other scores. Raise samples."
    assert not any("few" in note for note in model.explain(TEXT, method, samples=20).notes)
    long = " ".join(
        ["film plot"] * 30
    )  # 60 units and two ends: the usual budget; 65 and more would get four times the units
    assert model.explain(long, method).params["samples"] == 256


@pytest.mark.parametrize("method", BOTH)
def test_a_seed_settles_everything_and_nothing_global_is_touched(method: str) -> None:
    model = Model(tiny("bert", torch.float64))
    torch.manual_seed(1)
    before, numbers = torch.get_rng_state(), str(np.random.get_state())
    first = model.explain(TEXT, method, samples=60, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert str(np.random.get_state()) == numbers
    torch.manual_seed(2)
    assert model.explain(TEXT, method, samples=60, seed=5).scores == first.scores
    assert model.explain(TEXT, method, samples=60, seed=6).scores != first.scores


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("lime", {"samples": 3}, "at least 4 samples, not 3"),
        ("kernel_shap", {"samples": 0}, "at least 4 samples, not 0"),
        ("kernel_shap", {"samples": 1}, "at least 4 samples, not 1"),
        ("lime", {"width": 0.01}, "a width from 0.05"),
        ("lime", {"ridge": float("inf")}, "a ridge from 0"),
        ("lime", {"ridge": -1.0}, "a ridge from 0"),
        ("lime", {"fill": "zero"}, "fill = auto"),
    ],
)
def test_options_that_do_not_fit(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        Model(tiny("bert")).explain("a fine film", method, **options)
