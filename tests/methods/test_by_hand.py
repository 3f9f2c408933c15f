"""Methods on cases small enough to work out on paper."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model
from torch import Tensor
from toys import additive_case, additive_model, case_of

from wherefrom.api import Model
from wherefrom.case.case import Attribution, Case
from wherefrom.case.sublayers import sublayers_of
from wherefrom.errors import BadOption
from wherefrom.methods import integrated_gradients
from wherefrom.methods.attcat import _rollout
from wherefrom.methods.integrated_gradients import quadrature
from wherefrom.model.attention import Attention
from wherefrom.model.hiding import fill_vector
from wherefrom.model.network import embedding_table
from wherefrom.registry import find_method


def scores_of(method: str, case: Any, **options: Any) -> Tensor:
    given = find_method(method)(case, **options)
    return given.scores if isinstance(given, Attribution) else given


@pytest.mark.parametrize("method", ["input_x_gradient", "integrated_gradients", "occlusion"])
def test_recovers_known_weights(method: str) -> None:
    case = additive_case(good=2.0, bad=-3.0, film=0.5)
    torch.testing.assert_close(scores_of(method, case), torch.tensor([0, 2.0, -3.0, 0.5, 0], dtype=torch.float64))


def test_integrated_gradients_of_a_sum_leave_no_gap() -> None:
    given = find_method("integrated_gradients")(additive_case(good=2.0, bad=-3.0), steps=3)
    assert given.gap == pytest.approx(0, abs=1e-12)
    assert given.params == {"baseline": "mask", "steps": 3}


def test_integrated_gradients_go_one_path_for_all_ways_to_reduce(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[int] = []
    once = integrated_gradients._integrated

    def counted(case: Case, start: Tensor, steps: int) -> Tensor:
        gone.append(steps)
        return once(case, start, steps)

    monkeypatch.setattr(integrated_gradients, "_integrated", counted)
    case = additive_case(good=2.0, bad=-3.0)
    signed, sizes = (scores_of("integrated_gradients", case, steps=3, reduce=reduce) for reduce in ("sum", "mean"))
    assert gone == [3]
    torch.testing.assert_close(sizes, signed.abs() / 2)  # the mean of two numbers of one sign
    scores_of("integrated_gradients", case, steps=4)
    scores_of("integrated_gradients", case, steps=3, baseline="zero")
    assert gone == [3, 4, 3]  # another path is another path


def test_saliency_of_a_sum_is_the_same_everywhere() -> None:
    # the score is the plain sum of two numbers a token, so its gradient is (1, 1) at every one of them
    case = additive_case(good=2.0, bad=-3.0)
    ones = torch.ones(4, dtype=torch.float64)
    torch.testing.assert_close(scores_of("saliency", case, norm="l2"), ones * 2**0.5)
    torch.testing.assert_close(scores_of("saliency", case, norm="l1"), ones * 2)
    torch.testing.assert_close(scores_of("saliency", case, norm="mean"), ones)


def test_reductions_of_input_x_gradient() -> None:
    case = additive_case(good=2.0, bad=-4.0)  # embeddings (0.5, 1.5) and (-1, -3), gradients (1, 1)
    torch.testing.assert_close(
        scores_of("input_x_gradient", case, reduce="mean"), torch.tensor([0, 1.0, 2.0, 0]).double()
    )
    torch.testing.assert_close(
        scores_of("input_x_gradient", case, reduce="l2"), torch.tensor([0, 2.5**0.5, 10**0.5, 0]).double()
    )


def test_occlusion_hides_whole_words_and_sentences() -> None:
    model = additive_model(good=2.0, bad=-3.0, film=0.5, x=1.0)
    embedding_table(model.network).data[model.reading.tokenizer.convert_tokens_to_ids("##x")] = torch.tensor([2.0, 2.0])
    words = Model(model).explain("good xx. bad film.", "occlusion", target=1, level="word")
    assert dict(zip(words.tokens, words.scores, strict=True))["xx"] == pytest.approx(5.0)  # x and ##x together
    sentences = Model(model).explain("Good xx. Bad film.", "occlusion", target=1, level="sentence")
    assert [unit.text for unit in sentences.units()] == ["Good xx.", "Bad film."]
    assert [unit.score for unit in sentences.units()] == pytest.approx([7.0, -2.5])


class HandMade:
    """Two tokens, two layers, two heads, read at the first token."""

    def __init__(self) -> None:
        first = torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.75, 0.25]]])  # (head, query, key)
        second = torch.tensor([[[0.25, 0.75], [0.5, 0.5]], [[0.75, 0.25], [0.0, 1.0]]])
        slope = torch.tensor([[[1.0, -2.0], [3.0, 2.0]], [[-1.0, 2.0], [-3.0, -4.0]]])
        nothing = torch.zeros(2, 2, 1)
        states = [
            torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
            torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
            torch.tensor([[2.0, 2.0], [1.0, 1.0]]),
        ]
        slopes = [
            torch.tensor([[1.0, 1.0], [0.0, -1.0]]),
            torch.tensor([[2.0, 9.0], [9.0, 3.0]]),
            torch.tensor([[1.0, 0.5], [0.0, 2.0]]),
        ]
        self.capture = SimpleNamespace(
            hidden=states, attention=[Attention(first, first, nothing), Attention(second, second, nothing)]
        )
        self.states, self.slopes, self.last_attention_gradient = torch.stack(states), torch.stack(slopes), slope
        self.encoding = [None, None]
        self.sublayers = sublayers_of((2,), 2, 0, None)
        self.last_sublayers, self.head_attention = self.sublayers[-1:], [first, second]
        self.row_read = torch.tensor([1.0, 0.0])
        self.embeddings = states[0]

    def hidden_states(self, at: str) -> Tensor:
        return self.states[:-1] if at == "input" else self.states[1:]

    def hidden_gradients(self, at: str) -> Tensor:
        return self.slopes[:-1] if at == "input" else self.slopes[1:]

    def by_layer(self, parts: list[Tensor]) -> list[Tensor]:
        return parts

    @property
    def mean_attention(self) -> list[Tensor]:
        return [layer.probs.mean(0) for layer in self.capture.attention]

    def attention_x_gradients(self, *, positive: bool) -> list[Tensor]:
        slope = self.last_attention_gradient.relu() if positive else self.last_attention_gradient
        return [(layer.probs * slope).mean(0) for layer in self.capture.attention]

    def read(self, matrix: Tensor) -> Tensor:
        return matrix[..., 0, :]


HAND = {
    "raw_attention": [0.5, 0.5],
    # layer means: first [[.75 .25][.5 .5]], second [[.5 .5][.25 .75]]; halved with I: [[.875 .125][.25 .75]], [[.75
    # .25][.125 .875]]
    "attention_rollout": [0.75 * 0.875 + 0.25 * 0.25, 0.75 * 0.125 + 0.25 * 0.75],
    # to token 0: .75 by (0,0), then min(.25, .25) through token 1; to token 1: min(.75, .125) and min(.25, .75)
    "attention_flow": [1.0, 0.375],
    "attention_gradients": [0.0, 0.0],
    # head means of slope * probs at row 0; first layer (.5 - 1) / 2, (-1 + 0) / 2; second (.25 - .75) / 2, (-1.5 + .5)
    # / 2
    "attention_x_gradient": [-0.25 - 0.25, -0.5 - 0.5],
    # means over heads and queries: (1 + 3 - 1 - 3) / 4, (-2 + 2 + 2 - 4) / 4
    "cam": [0.0, 0.0],
    # head weights 1 and -1.5: row 0 of the mean (.25 - 1.125) / 2 and (.75 - .375) / 2, cut at zero
    "gradcam": [0.0, 0.1875],
    # first layer 1 + 2, 0 - 4; second 2 + 0, 0 + 3
    "cat": [5.0, -1.0],
    # received in the first layer .625, .375; in the second .375, .625
    "attcat": [0.625 * 3 + 0.375 * 2, 0.375 * -4 + 0.625 * 3],
}


@pytest.mark.parametrize("method", HAND)
def test_formulas_on_paper(method: str) -> None:
    scores = scores_of(method, HandMade())
    torch.testing.assert_close((scores.sum(0) if scores.ndim == 2 else scores).float(), torch.tensor(HAND[method]))


def test_rounding_has_no_shares_in_the_rollout_of_attcat() -> None:
    """A query that receives nothing but rounding is as one that receives nothing."""
    impact = torch.tensor([[[0.0, 0.0], [0.25, -0.5]]])
    rounding = torch.tensor([[[3e-8, -1e-8], [0.0, 0.0]]])
    torch.testing.assert_close(_rollout(impact), torch.tensor([1 / 3, 1 / 12]))  # of (1/2, 0) and (1/6, 1/6)
    torch.testing.assert_close(_rollout(impact + rounding), _rollout(impact))


def test_options_on_paper() -> None:
    case = HandMade()
    torch.testing.assert_close(scores_of("raw_attention", case, layer=0, head=1), torch.tensor([1.0, 0.0]))
    # positive slopes only: first layer (.5 + 0) / 2, (0 + 0) / 2; second (.25 + 0) / 2, (0 + .5) / 2
    torch.testing.assert_close(scores_of("attention_x_gradient", case, relu=True).sum(0), torch.tensor([0.375, 0.25]))
    torch.testing.assert_close(scores_of("attcat", case, layers="last"), torch.tensor([0.375 * 2, 0.625 * 3]))
    # impact before the mean over queries: first layer [[2.25 -1] [1.5 -2]], second [[1 1.5] [.5 2.25]]; every row is
    # divided by the sum of its sizes, halved with I, multiplied, and the mean of its rows is taken
    first = 0.5 * torch.eye(2) + 0.5 * torch.tensor([[2.25 / 3.25, -1 / 3.25], [1.5 / 3.5, -2 / 3.5]])
    second = 0.5 * torch.eye(2) + 0.5 * torch.tensor([[1 / 2.5, 1.5 / 2.5], [0.5 / 2.75, 2.25 / 2.75]])
    torch.testing.assert_close(scores_of("attcat", case, layers="rollout"), (second @ first).mean(0))
    # outputs: second state 2 + 0, 0 + 3; third 2 + 1, 0 + 2
    torch.testing.assert_close(scores_of("cat", case, hidden="output"), torch.tensor([[2.0, 3.0], [3.0, 2.0]]))


def test_flow_equals_another_solver() -> None:
    import networkx

    torch.manual_seed(0)
    case = HandMade()
    n, layers = 5, 3
    case.capture.attention = [Attention(p, p, p) for p in torch.randn(layers, 2, n, n).mul(2).softmax(-1)]
    case.encoding = [None] * n
    case.row_read = torch.eye(n)[0]
    graph = networkx.DiGraph()
    for number, layer in enumerate(case.capture.attention):
        for query in range(n):
            for key in range(n):
                width = 0.5 * float(layer.probs[:, query, key].double().mean()) + (0.5 if query == key else 0)
                graph.add_edge((number + 1, query), (number, key), capacity=width)
    expected = [networkx.maximum_flow_value(graph, (layers, 0), (0, key)) for key in range(n)]
    torch.testing.assert_close(
        scores_of("attention_flow", case), torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-7
    )


def test_flow_of_a_long_text_is_refused_with_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    case, flow = HandMade(), import_module("wherefrom.methods.attention_flow")
    expected = scores_of("attention_flow", case)
    monkeypatch.setattr(flow, "MOST", 1)
    with pytest.raises(BadOption, match=r"solves 2 maximum-flow problems over \d+ pipes each, .* patient=True"):
        scores_of("attention_flow", case)
    torch.testing.assert_close(scores_of("attention_flow", case, patient=True), expected)


def test_random_is_seeded_and_differs_between_texts() -> None:
    model = additive_model(good=1.0)
    again = [
        find_method("random")(case_of(model, text), seed=seed)
        for text, seed in [("good film", 0), ("good film", 0), ("good film", 1)]
    ]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])
    assert not torch.equal(again[0], find_method("random")(case_of(model, "bad film"), seed=0))


def test_quadrature_is_exact_for_polynomials_and_cut_into_panels_where_it_is_large() -> None:
    for steps in (1, 7, 200, 201, 450, 100_000):
        places, weights = quadrature(steps)
        assert len(places) == len(weights) == steps
        assert weights.sum() == pytest.approx(1)
        assert bool((np.diff(places) > 0).all())
        assert (weights * places).sum() == pytest.approx(1 / 2)
        if steps > 1:
            assert (weights * places**3).sum() == pytest.approx(1 / 4)


def test_steps_are_doubled_until_the_gap_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that rises in a narrow place: 50 gradients miss it, a few hundred do not."""
    case = additive_case(good=2.0, bad=-3.0)
    leaf = case.embeddings
    start = torch.where(case.special[:, None], leaf, fill_vector(case.model, "mask"))

    def gradient_along(embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        way = (leaf - start).flatten()
        along = ((embeddings - start).flatten(1) @ way / (way @ way)).double()  # (row,)
        slope = SHARP / (1 + (SHARP * (along - 0.503)) ** 2)
        return along, slope[:, None, None] * (leaf - start) / (way @ way)

    def promised() -> float:
        ends = np.arctan(SHARP * (np.array([1.0, 0.0]) - 0.503))
        return float(ends[0] - ends[1])

    monkeypatch.setattr(case, "gradient_along", gradient_along)
    monkeypatch.setattr(type(case.target), "score", lambda self, logits: torch.tensor([promised()]))
    monkeypatch.setattr(case, "score_along", lambda embeddings: torch.tensor([0.0]))
    found = find_method("integrated_gradients")(case)
    assert found.params["steps"] in (200, 400, 800)
    assert abs(found.gap) < 0.05 * promised()
    assert found.notes == ()
    few = find_method("integrated_gradients")(case, steps=50)
    assert abs(few.gap) > 0.05 * promised()
    assert "do not rely on them" in few.notes[0]


SHARP = 900.0


def test_input_x_gradient_says_where_it_is_rounding() -> None:
    """A layer norm right behind the word embeddings takes their length away, so e * dy/de is zero."""
    model = make_model("deberta-v2", position_biased_input=False, dtype=torch.float32)
    found = Model(model).explain("the film was not bad", "input_x_gradient")
    assert "rounding" in found.notes[0]
    beside = Model(model).explain("the film was not bad", "input_x_gradient", baseline="mask")
    assert beside.notes == ()
    assert max(map(abs, beside.scores)) > 100 * max(map(abs, found.scores))
    assert Model(make_model("bert")).explain("the film was not bad", "input_x_gradient").notes == ()


def test_methods_may_delete_what_they_hide() -> None:
    model = additive_model(good=2.0, bad=-3.0, film=0.5)
    found = Model(model).explain("good bad film", "occlusion", target=1, fill="delete")
    assert found.params["fill"] == "delete"
    assert [unit.score for unit in found.units()] == pytest.approx([2.0, -3.0, 0.5])
