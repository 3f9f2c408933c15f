"""Contributions to the logit: against a slow rewrite in double precision, block by block with the matrices written out,
and the law that they and what is unassigned sum to the logit, the unassigned part counted by itself.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, make_model, tiny
from torch import Tensor, nn
from torch.autograd.functional import jacobian
from toys import case_of

from wherefrom.api import Model
from wherefrom.case.case import make_cases
from wherefrom.errors import BadOption
from wherefrom.methods.logit_contributions import logit_contributions
from wherefrom.model.network import inputs_of
from wherefrom.registry import find_method

TEXT = "the film was not bad, but dull!"


def norm_matrix(norm: nn.LayerNorm, u: Tensor) -> Tensor:
    """A layer norm of one vector as a matrix, its deviation a number: gamma / sigma (1 - mean)."""
    size = len(u)
    sigma = ((u - u.mean()).square().mean() + norm.eps).sqrt()
    return torch.diag(norm.weight.detach() / sigma) @ (torch.eye(size) - torch.ones(size, size) / size).to(u)


def slowly(text: str, target: int) -> tuple[list[Tensor], list[float], float]:
    """For every layer the contributions of its positions, and what no position contributes behind it; and the logit."""
    model = make_model("bert", dtype=torch.float64, attn_implementation="eager")
    network: Any = model.network.module
    out = network(**inputs_of(model.network, [model.encode(text)]), output_attentions=True, output_hidden_states=True)
    hidden = [one[0].detach() for one in out.hidden_states]
    last = out.hidden_states[-1]
    (slope,) = torch.autograd.grad(out.logits[0, target], last)
    g, logit = slope[0], float(out.logits[0, target].detach())
    lost = logit - float((g * hidden[-1]).sum())  # of the head, to its local linear map
    found, unassigned = [(g * hidden[-1]).sum(-1)], [lost]
    for number in reversed(range(len(network.bert.encoder.layer))):
        layer, x, probs = network.bert.encoder.layer[number], hidden[number], out.attentions[number][0].detach()
        own, dense = layer.attention.self, layer.attention.output.dense
        heads, size = len(probs), len(own.value.weight) // len(probs)
        attended = torch.zeros_like(x)
        for i in range(len(x)):
            attended[i] += dense.bias.detach()
            for h in range(heads):
                part = slice(h * size, (h + 1) * size)
                for j in range(len(x)):
                    value = own.value.weight[part].detach() @ x[j] + own.value.bias[part].detach()
                    attended[i] += probs[h, i, j] * (dense.weight[:, part].detach() @ value)
        before, to_x = torch.zeros_like(g), torch.zeros_like(g)
        for i in range(len(x)):
            u = x[i] + attended[i]
            middle = layer.attention.output.LayerNorm(u).detach()

            def mlp(v: Tensor, layer: Any = layer) -> Tensor:
                made: Tensor = layer.output.dense(layer.intermediate(v[None]))[0]
                return made

            through = jacobian(mlp, middle)
            summed = middle + mlp(middle).detach()
            back = norm_matrix(layer.output.LayerNorm, summed).T @ g[i]
            lost += float(g[i] @ layer.output.LayerNorm.bias.detach())
            lost += float(back @ (mlp(middle).detach() - through @ middle))
            back = back + through.T @ back
            lost += float(back @ layer.attention.output.LayerNorm.bias.detach())
            before[i] = norm_matrix(layer.attention.output.LayerNorm, u).T @ back
            to_x[i] += before[i]
            lost += float(before[i] @ dense.bias.detach())
        for i in range(len(x)):
            for h in range(heads):
                part = slice(h * size, (h + 1) * size)
                at_value = dense.weight[:, part].detach().T @ before[i]
                for j in range(len(x)):
                    to_x[j] += probs[h, i, j] * (own.value.weight[part].detach().T @ at_value)
                    lost += float(probs[h, i, j] * (at_value @ own.value.bias[part].detach()))
        g = to_x
        found.append((g * x).sum(-1))
        unassigned.append(lost)
    return found[::-1], unassigned[::-1], logit


def test_the_slow_rewrite() -> None:
    case = case_of(make_model("bert", dtype=torch.float64), TEXT, target=1)
    scores, unassigned, logit = slowly(TEXT, 1)
    assert float(case.target.score(case.logits[None])) == pytest.approx(logit, abs=1e-10)
    for layer, (expected, lost) in enumerate(zip(scores, unassigned, strict=True)):
        found = logit_contributions(case, layer=layer)
        torch.testing.assert_close(found.scores, expected, atol=1e-9, rtol=1e-7)
        assert found.unassigned == pytest.approx(lost, abs=1e-9)  # counted operation by operation
        assert float(expected.sum()) + lost == pytest.approx(logit, abs=1e-9)  # the law


@pytest.mark.parametrize("family", FAMILIES)
def test_the_two_sides_of_the_pass_agree(family: str) -> None:
    """Through torch's own kernel and through attention written out; and the sum is the logit."""
    model = tiny(family, torch.float64)
    encodings, targets = [model.encode(TEXT), model.encode("a great film")], [model.target(1)] * 2
    (short,) = make_cases(model, encodings, targets, reads=["modified_gradient"])
    (full,) = make_cases(model, encodings, targets, reads=["modified_gradient", "relevance"])
    for place in range(2):
        one, other = logit_contributions(short[place]), logit_contributions(full[place])
        torch.testing.assert_close(one.scores, other.scores, atol=1e-8, rtol=1e-6)
        assert one.unassigned is not None
        logit = float(short[place].target.score(short[place].logits[None]))
        assert float(one.scores.sum()) + one.unassigned == pytest.approx(logit, abs=1e-8)


def test_without_mlp_and_activation_it_is_cp_lrp() -> None:
    """What differs from cp_lrp are activations: without any, and counted at the words, the two are the same."""
    model = make_model("llama", dtype=torch.float64)  # no positions are added, and no bias
    with torch.no_grad():
        for block in model.network.anatomy.blocks:
            for part in block.mlp:
                for weight in part.parameters():
                    weight.zero_()
    case = case_of(model, TEXT, target=1)
    found = logit_contributions(case)
    torch.testing.assert_close(found.scores, find_method("cp_lrp")(case).scores, atol=1e-10, rtol=1e-8)
    assert found.unassigned == pytest.approx(0, abs=1e-6)  # its norms round to single precision


def test_another_class_has_other_contributions_and_layers_are_checked() -> None:
    model = Model(tiny("bert", torch.float64))
    one, other = (model.explain(TEXT, "logit_contributions", target=label) for label in (0, 1))
    assert one.scores != pytest.approx(other.scores)
    with pytest.raises(BadOption, match="There is no block 9"):
        model.explain(TEXT, "logit_contributions", layer=9)
