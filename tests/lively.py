"""Tiny models whose biases and norms are not ones and zeros, so that a part forgotten or a norm misread shows."""

from __future__ import annotations

import warnings
from functools import cache

import torch
from tiny_models import CONFIGS, make_network, tokenizer
from torch import Tensor, nn

from wherefrom.case.case import Case, make_cases
from wherefrom.model.anatomy import Block
from wherefrom.model.text_model import TextModel

TEXT = "The film was not bad, but dull!"


class Centred(nn.Module):
    """Layer norm as the paper's appendix writes it."""

    def __init__(self, gamma: Tensor, beta: Tensor, eps: float) -> None:
        super().__init__()
        self.gamma, self.beta, self.eps = gamma, beta, eps

    def forward(self, u: Tensor) -> Tensor:
        return self.gamma * (u - u.mean(-1, keepdim=True)) / self.sigma(u) + self.beta

    def sigma(self, u: Tensor) -> Tensor:
        return (u.var(-1, keepdim=True, unbiased=False) + self.eps).sqrt()

    def linear(self, u: Tensor) -> Tensor:
        size = len(self.gamma)
        matrix = torch.diag(self.gamma) @ (torch.eye(size) - torch.full((size, size), 1 / size)).to(u)
        return u @ matrix.T


class Uncentred(Centred):
    """Root-mean-square norm."""

    def forward(self, u: Tensor) -> Tensor:
        return self.gamma * u / self.sigma(u) + self.beta

    def sigma(self, u: Tensor) -> Tensor:
        return (u.square().mean(-1, keepdim=True) + self.eps).sqrt()

    def linear(self, u: Tensor) -> Tensor:
        return u * self.gamma


def by_hand(norm: nn.Module) -> Centred:
    """A model's norm from its weights: the only place where the tests tell norms apart, by their names."""
    name = type(norm).__name__
    assert isinstance(norm.weight, Tensor)
    weight = norm.weight.detach()
    eps = next(float(getattr(norm, field)) for field in ("eps", "variance_epsilon") if hasattr(norm, field))
    if name in ("LayerNorm", "DebertaLayerNorm"):
        assert isinstance(norm.bias, Tensor)
        return Centred(weight, norm.bias.detach(), eps)
    return Uncentred(1 + weight if name.startswith("Gemma") else weight, torch.zeros_like(weight), eps)


@cache
def lively(family: str, dtype: torch.dtype = torch.float64) -> TextModel:
    with warnings.catch_warnings():  # transformers' own use of torch.jit
        warnings.simplefilter("ignore", DeprecationWarning)
        network = make_network(family, dtype=dtype)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator).to(dtype))
    if dtype is torch.float64:  # two families compute these norms in single precision, whatever the model's
        for module in list(network.modules()):
            for name, child in module.named_children():
                if type(child).__name__ in ("DebertaLayerNorm", "Gemma2RMSNorm"):
                    setattr(module, name, by_hand(child))
    _, pad, ends = CONFIGS[family]
    return TextModel.of(network, tokenizer(pad, ends), name=f"lively-{family}")


def case_of(model: TextModel, text: str = TEXT) -> Case:
    (cases,) = make_cases(model, [model.encode(text)], [None])
    return cases[0]


@cache
def lively_case(family: str) -> Case:
    """One that tests share; in double precision."""
    return case_of(lively(family))


def by_hand_or_itself(norm: nn.Module) -> Centred:
    return norm if isinstance(norm, Centred) else by_hand(norm)


@cache
@torch.no_grad()
def spelled_out(case: Case, second_norm: bool) -> list[tuple[Tensor, Tensor]]:
    """For each layer every T_i(x_j), (query, key, hidden), and y_i, (query, hidden): straight from the paper, one loop
    a sum.
    """
    record = case.passes.forward("gradients").recording
    layers = []
    for module, x, attention in zip(record.blocks, case.capture.hidden, case.capture.attention, strict=False):
        block: Block = case.anatomy.block_of(module)
        heads, tokens, size = attention.value.shape
        out = block.attention_out
        assert isinstance(out.weight, Tensor)
        weight = out.weight.detach()
        into = weight if isinstance(out, nn.Linear) else weight.T  # (hidden, head * size)
        bias = out.bias.detach() if isinstance(out.bias, Tensor) else torch.zeros(len(into)).to(x)
        parts = torch.zeros(tokens, tokens, x.shape[-1]).to(x)
        for i in range(tokens):
            for j in range(tokens):
                for h in range(heads):
                    parts[i, j] += attention.probs[h, i, j] * (
                        into[:, h * size : (h + 1) * size] @ attention.value[h, j]
                    )
        whole = parts.sum(1) + bias  # (token, hidden): all that attention adds
        diagonal = torch.arange(tokens)
        if block.order == "post":
            norm = by_hand_or_itself(block.attention_norm)
            parts[diagonal, diagonal] += x
            parts = norm.linear(parts) / norm.sigma(whole + x)[:, None]
            y = norm(whole + x)
            if second_norm:
                second = by_hand_or_itself(block.mlp_norm)
                before = y + block.through_mlp(y)
                parts, y = second.linear(parts) / second.sigma(before)[:, None], second(before)
        elif block.order == "sandwich":
            norm = by_hand_or_itself(block.attention_after)
            parts = norm.linear(parts) / norm.sigma(whole)[:, None]
            parts[diagonal, diagonal] += x
            y = norm(whole) + x
        else:
            parts[diagonal, diagonal] += x
            y = whole + x
        layers.append((parts, y))
    return layers
