"""Each rule against a slow rewrite of its formula, and small models whose relevance can be worked out on paper."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from wherefrom.errors import NotSeen
from wherefrom.model.recording import recording
from wherefrom.model.relevance.double import graph_tensor, in_double, paired
from wherefrom.model.relevance.mode import relevance_mode
from wherefrom.model.relevance.propagation import Operation, Propagation, PropagationState, RuleSet
from wherefrom.model.relevance.rewritten import grouped_mm
from wherefrom.model.relevance.rules import BY_KIND, RULES, BackwardCall, gradient
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


def test_a_difference_by_hand() -> None:
    """3 - 1 = 2: the summands 3 and -1 share the relevance by their sizes, 3 : 1. In the second row the relevance
    [1, 1] is shared as [3, 1] / [2, -1] and [-1, -2] / [2, -1], whose sums 1/2 and 3/2 already add up to it. With
    the wrong sign b would receive -1/4, and [1/2, -2].
    """

    class Difference(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a - b

    a = torch.tensor([[3.0, 0.0], [3.0, 1.0]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[1.0, 0.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    with relevance_mode(Difference(), 2, double=False) as mode:
        mode.layer = 0
        y = Difference()(a, b)
    with mode.state.propagating(Propagation("zplus")):
        received = torch.autograd.grad(y, (a, b), torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    torch.testing.assert_close(received[0], torch.tensor([[0.75, 0.0], [1.5, -1.0]], dtype=torch.float64))
    torch.testing.assert_close(received[1], torch.tensor([[0.25, 0.0], [-0.5, 2.0]], dtype=torch.float64))


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


@pytest.mark.parametrize("rules", ["attnlrp", "cplrp"])
def test_gradient_rules_are_the_gradient_of_a_model_with_fixed_factors(rules: RuleSet) -> None:
    model, x = small()

    def half(t: Tensor) -> Tensor:
        return t / 2 + (t / 2).detach()

    def factor(t: Tensor, y: Tensor) -> Tensor:
        return t * (y / t).detach()

    key = model.dense(x)
    if rules == "attnlrp":
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


# Rules by the table


def test_every_function_has_one_row() -> None:
    names = [name for rule in RULES for name in rule.functions]
    assert len(names) == len(set(names))
    assert len(BY_KIND) == len(RULES)
    for rule in RULES:
        assert rule.with_constant is None or rule.with_constant in BY_KIND
        assert (rule.form == "no step") == (rule.zplus is rule.attn_lrp is rule.cp_lrp is gradient)


def propagated(network: nn.Module, x: Tensor, rules: RuleSet, trace: list[Operation] | None = None) -> Tensor:
    """What one row of x receives from the sum of the outputs, with the layer counted as inside of a block."""
    with relevance_mode(network, len(x), double=False) as mode:
        mode.layer = 0
        y = network(x)
    torch.testing.assert_close(y, network(x), rtol=1e-13, atol=1e-13)
    with mode.state.propagating(Propagation(rules), trace=trace):
        return torch.autograd.grad(y.sum(), x)[0]


class Function(nn.Module):
    """A network of one function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


CONSTANT = random(2, 1, 3, seed=5)


@pytest.mark.parametrize("rules", ["gradient", "zplus", "attnlrp", "cplrp"])
@pytest.mark.parametrize(("beta", "alpha"), [(1.0, 1.0), (0.5, 0.3), (0.0, 2.0)])
def test_baddbmm_is_a_product_that_is_scaled_and_added(rules: RuleSet, beta: float, alpha: float) -> None:
    x = random(2, 3, 4, seed=3).requires_grad_()

    def by_name(t: Tensor) -> Tensor:
        return CONSTANT.baddbmm(batch1=t, batch2=(t * 2).mT, beta=beta, alpha=alpha)

    def by_position(t: Tensor) -> Tensor:
        return torch.baddbmm(CONSTANT, t, (t * 2).mT, beta=beta, alpha=alpha)

    def written_out(t: Tensor) -> Tensor:
        return (t @ (t * 2).mT) * alpha + CONSTANT * beta

    expected = propagated(Function(written_out), x, rules)
    for function in (by_name, by_position):
        torch.testing.assert_close(propagated(Function(function), x, rules), expected)
    if rules == "zplus":  # the constant takes nothing
        torch.testing.assert_close(expected.sum(), torch.tensor(18.0, dtype=torch.float64))


def test_baddbmm_onto_what_depends_on_the_input_is_a_sum() -> None:
    x, trace = random(2, 3, 3, seed=3).requires_grad_(), list[Operation]()
    found = propagated(Function(lambda t: torch.baddbmm(t, t, torch.tanh(t), beta=0.5, alpha=2)), x, "zplus", trace)
    expected = propagated(Function(lambda t: t * 0.5 + (t @ torch.tanh(t)) * 2), x, "zplus")
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.sum(), torch.tensor(18.0, dtype=torch.float64))
    assert [o.leaving for o in trace] == pytest.approx([o.entering for o in trace])


def test_addmm_that_is_no_linear_layer() -> None:
    x = random(3, 3, seed=3).requires_grad_()
    found = propagated(Function(lambda t: torch.addmm(t, t, torch.tanh(t), alpha=2)), x, "zplus")
    expected = propagated(Function(lambda t: t + (t @ torch.tanh(t)) * 2), x, "zplus")
    torch.testing.assert_close(found, expected)


def test_addmm_with_constants_is_a_linear_layer() -> None:
    x, weight, bias = random(3, 4, seed=3).requires_grad_(), random(5, 4, seed=1), random(5, seed=2)
    expected = propagated(Function(lambda t: functional.linear(t, weight, bias)), x, "zplus")
    for function in (
        lambda t: torch.addmm(bias, t, weight.mT),
        lambda t: functional.linear(t, weight, bias=bias),
    ):
        torch.testing.assert_close(propagated(Function(function), x, "zplus"), expected)
    torch.testing.assert_close(expected.sum(), torch.tensor(15.0, dtype=torch.float64))


@pytest.mark.parametrize("rules", ["attnlrp", "cplrp"])
def test_a_root_mean_square_norm_has_a_fixed_divisor(rules: RuleSet) -> None:
    x, weight = torch.tensor([[3.0, 4.0]], dtype=torch.float64, requires_grad=True), torch.tensor([1.0, 2.0]).double()
    received = propagated(Function(lambda t: functional.rms_norm(t, (2,), weight, 0.5)), x, rules)
    torch.testing.assert_close(received, weight[None] / 13**0.5)  # (9 + 16) / 2 + 0.5 = 13


@pytest.mark.parametrize("rules", ["zplus", "attnlrp", "cplrp"])
def test_an_einsum_of_two_is_a_matrix_product(rules: RuleSet) -> None:
    x = random(2, 3, 4, seed=3).requires_grad_()
    expected = propagated(Function(lambda t: (t @ torch.tanh(t).mT).mT), x, rules)
    found = propagated(Function(lambda t: torch.einsum("bij,bkj->bki", t, torch.tanh(t))), x, rules)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("equation", ["ij,jk,kl->il", "ij,jk->i"])
def test_other_einsums_are_not_guessed(equation: str) -> None:
    def function(t: Tensor) -> Tensor:
        return torch.einsum(equation, *[t] * (equation.count(",") + 1))

    with pytest.raises(NotSeen, match="einsum of 'ij,jk"):
        propagated(Function(function), random(3, 3).requires_grad_(), "zplus")


def test_rows_in_groups_each_have_their_matrix() -> None:
    """Two rows by the first matrix, none by the second, one by the third."""
    x, weight = random(3, 2), random(3, 2, 4, seed=1)
    product = grouped_mm(x, weight, offs=torch.tensor([2, 2, 3]))
    torch.testing.assert_close(product, torch.stack([x[0] @ weight[0], x[1] @ weight[0], x[2] @ weight[2]]))


@pytest.mark.parametrize("rules", ["zplus", "attnlrp", "cplrp"])
def test_a_power_is_a_product_with_itself(rules: RuleSet) -> None:
    x = random(2, 3, 4, seed=3).requires_grad_()
    expected = propagated(Function(lambda t: t * t * t), x, rules)
    for cube in (lambda t: torch.pow(t, 3.0), lambda t: t**3, lambda t: t.square() * t):
        torch.testing.assert_close(propagated(Function(cube), x, rules), expected)
    by_hand = torch.ones_like(x) if rules == "zplus" else x.detach().square()  # as it comes; y / x
    torch.testing.assert_close(expected, by_hand)


@pytest.mark.parametrize(
    "function", [lambda t: 2.0**t, lambda t: t**t, lambda t: torch.sort(t)[0], lambda t: torch.add(t, t, alpha=3)]
)
def test_what_no_row_covers_is_not_guessed(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(NotSeen, match="no relevance rule"):
        propagated(Function(function), random(1, 2, 3).requires_grad_(), "zplus")


def test_a_constant_minus_the_input_hands_relevance_on() -> None:
    x = random(1, 2, 3, seed=3).requires_grad_()
    torch.testing.assert_close(propagated(Function(lambda t: 1 - t), x, "zplus"), torch.ones_like(x))
    torch.testing.assert_close(propagated(Function(lambda t: 1 - t), x, "cplrp"), -torch.ones_like(x))


# Whole models that need these rules and are in no family

SIZES: dict[str, Any] = {"vocab_size": 50, "hidden_size": 16, "num_labels": 2, "pad_token_id": 0}
MODELS: dict[str, tuple[dict[str, Any], str, str, str]] = {  # settings, blocks, attention, a function with a new rule
    "bloom": ({"n_layer": 2, "n_head": 4}, "h", "self_attention", "baddbmm"),
    "big_bird": (
        {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "attention_type": "original_full"},
        "encoder.layer",
        "attention.self",
        "pow",
    ),
}
IDS = torch.tensor([[5, 9, 20, 7, 31], [8, 3, 44, 0, 0]])


def tiny_network(model_type: str, dtype: torch.dtype) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **SIZES, **MODELS[model_type][0])
    network: PreTrainedModel = AutoModelForSequenceClassification.from_config(config).eval().to(dtype)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.35)
    return network


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("model_type", MODELS)
def test_relevance_goes_through_models_that_need_baddbmm_and_pow(model_type: str, double: bool) -> None:
    """All in double precision, or with double precision beside a graph in single."""
    _, path, attention, function = MODELS[model_type]
    network = tiny_network(model_type, torch.float32 if double else torch.float64)
    inputs = {"input_ids": IDS, "attention_mask": (IDS != 0).long()}
    words = network.get_input_embeddings()
    leaf = words(IDS).detach().requires_grad_()
    expected = network(**inputs).logits
    blocks, called = list(network.base_model.get_submodule(path).children()), set[str]()
    with relevance_mode(network, len(IDS), double=double) as mode, FunctionNames(called), ExitStack() as stack:
        given = paired(leaf, leaf.detach().double()) if double else leaf
        stack.callback(words.register_forward_hook(lambda *_: given).remove)
        attentions = [block.get_submodule(attention) for block in blocks]
        record = stack.enter_context(recording(blocks, attentions, mode.hook, mode.attend))
        y = network(**inputs).logits
    assert function in called
    assert len(record.attention) == len(blocks)
    torch.testing.assert_close(in_double(y), expected.double(), rtol=0, atol=5e-6 if double else 1e-12)

    trace: list[Operation] = []
    with mode.state.propagating(Propagation("zplus"), trace=trace):
        found = torch.autograd.grad(
            graph_tensor(y)[:, 1].sum(), [*record.inputs, record.outputs[-1]], retain_graph=True
        )
    assert {"linear", "layer_norm"} <= {o.name for o in trace}
    assert sum(o.name == "linear" for o in trace if o.layer == 0) >= 4  # attention and both halves of the MLP
    for relevance in found:
        ones = torch.ones(len(IDS), dtype=torch.float64)
        # BLOOM computes its softmax in single precision, also where all else is in double
        torch.testing.assert_close(relevance.double().sum((1, 2)), ones, rtol=0, atol=1e-4 if double else 1e-6)

    plain = words(IDS).detach().requires_grad_()
    with ExitStack() as stack:
        stack.callback(words.register_forward_hook(lambda *_: plain).remove)
        (slope,) = torch.autograd.grad(network(**inputs).logits[:, 1].sum(), plain)
    (gradient_found,) = torch.autograd.grad(graph_tensor(y)[:, 1].sum(), leaf)
    torch.testing.assert_close(gradient_found, slope, rtol=1e-4, atol=1e-5)


class FunctionNames(TorchFunctionMode):
    """Collects the names of the torch functions that are called."""

    def __init__(self, called: set[str]) -> None:
        super().__init__()
        self.called = called

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["add", "subtract"])
def test_summands_row_by_row_where_tokens_come_first(kind: str) -> None:
    """Hidden states of XLNet are (token, row, size): what a row receives depends on no other row."""
    a, b, relevance = random(5, 2, 4), random(5, 2, 4, seed=1), random(5, 2, 4, seed=2)
    result, share = a + b if kind == "add" else a - b, BY_KIND[kind].share("zplus")

    def received(rows: slice) -> list[Tensor]:
        tensors = [tensor[:, rows] for tensor in (relevance, result, a, b)]
        state = PropagationState(tensors[0].shape[1], tokens_first=True)
        parts = share(BackwardCall(tensors[0], [tensors[0].shape] * 2, tensors[1:], state, (0, kind)))[1:]
        return [part for part in parts if part is not None]

    both = received(slice(0, 2))
    for row in range(2):
        for part, alone in zip(both, received(slice(row, row + 1)), strict=True):
            torch.testing.assert_close(part[:, row : row + 1], alone)
