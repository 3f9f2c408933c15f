"""Each rule against a slow rewrite of its formula, and small models whose relevance can be worked out on paper."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from wherefrom.errors import NotSeen
from wherefrom.model.relevance.double import graph_tensor, in_double, paired
from wherefrom.model.relevance.mode import relevance_mode
from wherefrom.model.relevance.propagation import Operation, Propagation, PropagationState, RuleSet
from wherefrom.model.relevance.zplus import zplus_add, zplus_linear, zplus_product, zplus_sum


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_linear(relevance: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """Eq. 4 of Mask-LRP, one product at a time."""
    given = torch.zeros_like(x)
    for token in range(len(x)):
        for out in range(matrix.shape[1]):
            products = [(x[token, j] * matrix[j, out]).item() for j in range(matrix.shape[0])]
            chosen = [j for j, p in enumerate(products) if p >= 0] or list(range(len(products)))
            total = sum(products[j] for j in chosen)
            for j in chosen:
                given[token, j] += products[j] / total * relevance[token, out]
    return given


@pytest.mark.parametrize("width", [3, 70])
def test_linear(width: int) -> None:
    x, matrix, relevance = random(4, width), random(width, 5, seed=1), random(4, 5, seed=2)
    found = zplus_linear(relevance, x, matrix, x @ matrix)
    torch.testing.assert_close(found, slow_linear(relevance, x, matrix))
    torch.testing.assert_close(found.sum(), relevance.sum())


def test_linear_without_a_positive_product() -> None:
    x, matrix = torch.tensor([[1.0, 2.0]], dtype=torch.float64), torch.tensor([[-1.0], [-1.5]], dtype=torch.float64)
    found = zplus_linear(torch.tensor([[1.0]], dtype=torch.float64), x, matrix, x @ matrix)
    torch.testing.assert_close(found, torch.tensor([[0.25, 0.75]], dtype=torch.float64))


def test_add_sample_by_sample() -> None:
    a, b, relevance = random(2, 3, 4), random(2, 3, 4, seed=1), random(2, 3, 4, seed=2)
    found = zplus_add(2, relevance, a + b, a, b)
    for row in range(2):
        parts = [x[row] * relevance[row] / (a[row] + b[row]) for x in (a, b)]
        sizes = [abs(part.sum().item()) for part in parts]
        for part, size, mine in zip(parts, sizes, found, strict=True):
            torch.testing.assert_close(mine[row], part * (size / sum(sizes)) * (relevance[row].sum() / part.sum()))
        torch.testing.assert_close(sum(mine[row].sum() for mine in found), relevance[row].sum())


def test_summands_that_cancel_take_nothing() -> None:
    one = torch.ones(1, 2, dtype=torch.float64)
    a = torch.tensor([[1.0, 3.0]], dtype=torch.float64)
    b = torch.tensor([[-1.0, 1.0]], dtype=torch.float64)
    found = zplus_add(1, one, a + b, a, b)
    assert [part[0, 0].item() for part in found] == [0, 0]
    assert sum(part.sum().item() for part in found) == pytest.approx(2)


def test_product() -> None:
    a, b, relevance = random(2, 3, 4), random(2, 4, 5, seed=1), random(2, 3, 5, seed=2)
    slow_a, slow_b = torch.zeros_like(a), torch.zeros_like(b)
    for n in range(2):
        for i in range(3):
            for k in range(5):
                for j in range(4):
                    part = a[n, i, j] * b[n, j, k] / (a[n, i] @ b[n, :, k]) * relevance[n, i, k]
                    slow_a[n, i, j] += part / 2
                    slow_b[n, j, k] += part / 2
    for mine, slow in zip(zplus_product(relevance, a @ b, a, b), (slow_a, slow_b), strict=True):
        torch.testing.assert_close(mine, slow)


def test_sum_goes_to_positive_summands() -> None:
    x = torch.tensor([[3.0, -1.0], [-2.0, -2.0], [1.0, -1.0]])
    found = zplus_sum(torch.tensor([[2.0, 4.0]]), x, (0,))
    torch.testing.assert_close(found, torch.tensor([[1.5, 1.0], [0.0, 2.0], [0.5, 1.0]]))


class Small(nn.Module):
    """Every operation that has a rule of its own, in a few lines."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.gate = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.act, self.norm = nn.GELU(), nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        attended = functional.scaled_dot_product_attention(x, self.dense(x), x)
        h = self.norm(x + attended)
        gated = self.act(self.dense(h)) * self.gate(h)
        h = h - gated / 2
        h = torch.tanh(h / 3) * 3
        pooled: Tensor = (h * torch.ones(3, 1, dtype=h.dtype)).mean(1)
        return pooled


def small() -> tuple[Small, Tensor]:
    torch.manual_seed(0)
    return Small().double(), random(2, 3, 4, seed=3).requires_grad_()


def carried(rules: RuleSet, trace: list[Operation] | None = None) -> tuple[Tensor, Tensor, PropagationState]:
    model, x = small()
    with relevance_mode(model, 2, double=False) as mode:
        y = model(x)
    with mode.state.propagating(Propagation(rules), trace=trace):
        (found,) = torch.autograd.grad(y[:, 1].sum(), x)
    return found, y, mode.state


def test_values_and_gradients_stay_what_they_are() -> None:
    model, x = small()
    expected = model(x)
    found, y, _ = carried("gradient")
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-15)
    torch.testing.assert_close(found, torch.autograd.grad(expected[:, 1].sum(), x)[0])


def test_relevance_is_conserved_sample_by_sample_and_in_every_operation() -> None:
    trace: list[Operation] = []
    found, _, _ = carried("zplus", trace)
    torch.testing.assert_close(found.sum((1, 2)), torch.ones(2, dtype=torch.float64))
    assert {"linear", "softmax", "matmul", "layer_norm", "GELU", "mean", "tanh"} <= {o.name for o in trace}
    for operation in trace:
        assert operation.leaving == pytest.approx(operation.entering, abs=1e-12), operation


def test_rules_do_not_outlive_their_context() -> None:
    _, _, state = carried("zplus")
    assert state.rules == "gradient"
    assert state.trace is None
    with pytest.raises(RuntimeError), state.propagating(Propagation("zplus")):
        raise RuntimeError
    assert state.rules == "gradient"


@pytest.mark.parametrize("rules", ["attn_lrp", "cp_lrp"])
def test_gradient_rules_are_the_gradient_of_a_model_with_fixed_factors(rules: RuleSet) -> None:
    model, x = small()

    def half(t: Tensor) -> Tensor:
        return t / 2 + (t / 2).detach()

    def factor(t: Tensor, y: Tensor) -> Tensor:
        return t * (y / t).detach()

    key = model.dense(x)
    if rules == "attn_lrp":
        probs = (half(x * 4**-0.5) @ half(key).mT).softmax(-1)
        attended = half(probs) @ half(x)
    else:
        attended = (x * 4**-0.5 @ key.mT).softmax(-1).detach() @ x
    s = x + attended
    centred = s - s.mean(-1, keepdim=True)
    h = (
        centred * (centred.square().mean(-1, keepdim=True) + model.norm.eps).rsqrt().detach() * model.norm.weight
        + model.norm.bias
    )
    d = model.dense(h)
    h = h - half(factor(d, model.act(d))) * half(model.gate(h)) / 2
    h = factor(h / 3, torch.tanh(h / 3)) * 3
    (expected,) = torch.autograd.grad(h.mean(1)[:, 1].sum(), x)
    torch.testing.assert_close(carried(rules)[0], expected)


def test_a_function_without_a_rule_is_not_guessed() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cumsum(x, 1)

    with pytest.raises(NotSeen, match="no relevance rule for torch's 'cumsum'"), relevance_mode(Odd(), 1, double=False):
        Odd()(torch.ones(1, 2, requires_grad=True))
    assert torch.overrides._get_current_function_mode() is None


def test_parameters_in_single_precision_meet_words_in_double() -> None:
    torch.manual_seed(0)
    model = Small()
    x = random(2, 3, 4, seed=3).requires_grad_()
    with relevance_mode(model, 2, double=True):
        y = model(x)
    assert y.dtype is torch.float64
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    torch.testing.assert_close(y, model.double()(x), rtol=0, atol=1e-14)


def test_values_are_exact_beside_a_graph_in_single_precision() -> None:
    torch.manual_seed(0)
    model = Small()
    x = random(2, 3, 4, seed=3).float().requires_grad_()
    with relevance_mode(model, 2, double=True) as mode:
        y = model(paired(x, x.detach().double()))
    expected = model.double()(x.detach().double())
    assert y.dtype is graph_tensor(y).dtype is torch.float32
    torch.testing.assert_close(in_double(y), expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(graph_tensor(y).double(), expected, rtol=0, atol=1e-6)
    with mode.state.propagating(Propagation("zplus")):
        (found,) = torch.autograd.grad(graph_tensor(y)[:, 1].sum(), x)
    torch.testing.assert_close(found.double().sum((1, 2)), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-5)
