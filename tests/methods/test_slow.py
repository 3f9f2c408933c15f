"""Each method against a slow rewrite of its formula, entry by entry, on attention and hidden states that transformers
gives itself.
"""

from __future__ import annotations

import pytest
import torch
from captum.attr import IntegratedGradients, Saliency
from tiny_models import make_model
from torch import Tensor
from toys import case_of

from wherefrom.case.case import Attribution, Case
from wherefrom.model.hiding import fill_vector
from wherefrom.model.network import inputs_of
from wherefrom.registry import find_method

TEXT = "the film was not bad, but dull!"


class Slow:
    """One eager pass of transformers' own, with gradients at everything it returns."""

    def __init__(self, case: Case, target: int) -> None:
        eager = make_model("bert", dtype=torch.float64, attn_implementation="eager").network.module
        out = eager(**inputs_of(case.model.network, [case.encoding]), output_attentions=True, output_hidden_states=True)
        kept = [*out.attentions, *out.hidden_states]
        slopes = torch.autograd.grad(out.logits[0, target], kept)
        self.layers, (_, self.heads, self.tokens, _) = len(out.attentions), out.attentions[0].shape
        self.a = [tensor[0].detach() for tensor in out.attentions]  # (head, query, key)
        self.da = [tensor[0] for tensor in slopes[: self.layers]]
        self.h = [tensor[0].detach() for tensor in out.hidden_states]
        self.dh = [tensor[0] for tensor in slopes[self.layers :]]

    def mean(self, matrix: Tensor, query: int, key: int) -> Tensor:
        return torch.stack([matrix[head, query, key] for head in range(self.heads)]).mean()

    def raw_attention(self, i: int) -> Tensor:
        return self.mean(self.a[-1], 0, i)

    def attention_rollout(self, i: int) -> Tensor:
        joint = torch.eye(self.tokens, dtype=torch.float64)
        for layer in self.a:
            joint = torch.stack(
                [
                    sum(
                        ((0.5 * self.mean(layer, q, k) + 0.5 * float(q == k)) * joint[k] for k in range(self.tokens)),
                        torch.zeros(self.tokens),
                    )
                    for q in range(self.tokens)
                ]
            )
        return joint[0, i]

    def attention_gradients(self, i: int) -> Tensor:
        return self.mean(self.da[-1], 0, i)

    def attention_x_gradient(self, i: int) -> Tensor:
        return torch.stack([self.mean(a * da, 0, i) for a, da in zip(self.a, self.da, strict=True)]).sum()

    def cam(self, i: int) -> Tensor:
        return torch.stack([self.mean(self.da[-1], query, i) for query in range(self.tokens)]).mean().clamp(min=0)

    def gradcam(self, i: int) -> Tensor:
        weights = [self.da[-1][head].sum() / self.tokens**2 for head in range(self.heads)]
        return torch.stack([w * self.a[-1][head, 0, i] for head, w in enumerate(weights)]).mean().clamp(min=0)

    def cat(self, i: int) -> Tensor:
        return torch.stack([(self.h[layer][i] * self.dh[layer][i]).sum() for layer in range(self.layers)]).sum()

    def attcat(self, i: int) -> Tensor:
        received = [
            torch.stack([self.mean(self.a[layer], query, i) for query in range(self.tokens)]).mean()
            for layer in range(self.layers)
        ]
        return torch.stack(
            [received[layer] * (self.h[layer][i] * self.dh[layer][i]).sum() for layer in range(self.layers)]
        ).sum()


@pytest.mark.parametrize("target", [0, 2])
@pytest.mark.parametrize("method", [name for name in vars(Slow) if not name.startswith("_") and name != "mean"])
def test_equals_slow_rewrite(method: str, target: int) -> None:
    case = case_of(make_model("bert", dtype=torch.float64), TEXT, target=target)
    slow = Slow(case, target)
    expected = torch.stack([getattr(slow, method)(i) for i in range(slow.tokens)])
    given = find_method(method)(case)
    scores = given.scores if isinstance(given, Attribution) else given
    torch.testing.assert_close(scores.sum(0) if scores.ndim == 2 else scores, expected, rtol=1e-9, atol=1e-12)


def test_capture_is_what_transformers_computes() -> None:
    case = case_of(make_model("bert", dtype=torch.float64), TEXT, target=1)
    slow = Slow(case, 1)
    for layer in range(slow.layers):
        torch.testing.assert_close(case.capture.attention[layer].probs, slow.a[layer], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(case.gradients.attention[layer].probs, slow.da[layer], rtol=1e-9, atol=1e-13)
    for state, slope, own, gradient in zip(case.capture.hidden, case.gradients.hidden, slow.h, slow.dh, strict=True):
        torch.testing.assert_close(state, own, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(slope, gradient, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "gpt2"])
def test_gradient_methods_equal_captum(family: str) -> None:
    case = case_of(make_model(family, dtype=torch.float64), TEXT, target=1)
    model, inputs = case.model, inputs_of(case.model.network, [case.encoding])

    def score(embeddings: Tensor) -> Tensor:
        rows = {name: value.expand(len(embeddings), -1) for name, value in inputs.items()}
        return model.run(rows, case.own_count, embeddings)

    leaf = case.embeddings[None].requires_grad_()
    slopes = Saliency(score).attribute(leaf, target=1, abs=False)[0]
    torch.testing.assert_close(find_method("saliency")(case), slopes.norm(dim=-1), rtol=1e-9, atol=1e-12)
    hidden = fill_vector(model, model.hiding.usual_fill())
    baseline = torch.where(case.special[:, None], case.embeddings, hidden)[None]
    expected = IntegratedGradients(score).attribute(
        leaf, baselines=baseline, target=1, n_steps=20, method="gausslegendre"
    )
    given = find_method("integrated_gradients")(case, steps=20)
    assert isinstance(given, Attribution)
    torch.testing.assert_close(
        given.scores, expected[0].sum(-1), rtol=1e-6, atol=1e-7
    )  # captum keeps its steps in single precision


def test_the_gap_is_what_the_scores_miss() -> None:
    case = case_of(make_model("bert", dtype=torch.float64), TEXT, target=1)
    gaps = {}
    for steps in (2, 50, 400):
        given = find_method("integrated_gradients")(case, steps=steps)
        start = torch.where(case.special[:, None], case.embeddings, fill_vector(case.model, "mask"))[None]
        promised = case.target.score(case.logits[None]) - case.score_along(start)
        assert given.gap == pytest.approx((promised - given.scores.sum()).item(), abs=1e-12)
        gaps[steps] = abs(given.gap)
    assert gaps[400] < 1e-6 < gaps[2]
