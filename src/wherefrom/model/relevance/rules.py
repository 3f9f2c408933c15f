"""The table of relevance rules: a row for every kind of operation, a column for every rule set.

A row says which torch functions it is about, what each rule set does in the backward pass, what is saved for it, and
whether the result has to be exact. To support another torch function, add its name to the row whose rules fit, or add a
row. A function that is made of others which have rows goes to `rewritten.py` instead. Nothing else has to change.

scaled_dot_product_attention has no row: it is the rows `product`, `softmax` and `product` one after another.
`attention.py` has steps that take these three together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from wherefrom.model.relevance.propagation import PropagationState, RuleSet, through_heads
from wherefrom.model.relevance.zplus import fitted, ratio, zplus_add, zplus_linear, zplus_product, zplus_sum


@dataclass(frozen=True, slots=True)
class BackwardCall:
    """What a rule is given in the backward pass."""

    relevance: Tensor  # at the result; with attn_lrp and cp_lrp, the modified gradient there
    shapes: Sequence[torch.Size]  # of the operands
    saved: Sequence[Tensor]  # what the row's `reads` names, in this order
    state: PropagationState
    place: tuple[int, str]  # the layer, and the name of the function or of the point of a hook
    dims: tuple[int, ...] | None = None  # over which a sum is taken; None: all


# A rule gives back first what goes through the result itself, so that the operation's own gradient takes it further,
# then what each operand receives. What is left out at the end is None: nothing.
Share = Callable[[BackwardCall], Sequence[Tensor | None]]

# How the arguments of a row's functions are understood.
Form = Literal[
    "one",  # the first argument is the operand, the others are settings
    "two",  # the first two arguments, broadcast against each other
    "matrices",  # the matrix product of the first two arguments
    "linear",  # an input, a constant matrix and a constant bias
    "norm",  # the first argument, with a weight and an epsilon
    "sum",  # the first argument, and the dimensions that are summed over
    "no step",  # all three rules are the gradient, so nothing has to be added to the graph
]


@dataclass(frozen=True)
class Rule:
    """A row: one kind of operation."""

    kind: str
    functions: tuple[str, ...]  # names of torch functions
    form: Form
    zplus: Share
    attn_lrp: Share
    cp_lrp: Share
    reads: tuple[Literal["result", "operands"], ...] = ()  # saved for the backward pass
    exact: bool = False  # whether rules divide by the result, which nearly cancels: kept as exact as it can be
    with_constant: str | None = None  # the row that applies where only one of two operands depends on the input
    positions: bool = (
        False  # before the first block, a constant of the same shape is positions: a summand like the words
    )
    inside_norm: bool = False  # applies inside norms and activations, where no other row does: their module has a rule

    @property
    def reads_for_gradients(self) -> bool:
        """Whether the modified gradients read what is saved, too."""
        return not (isinstance(self.attn_lrp, GradientTimes) and isinstance(self.cp_lrp, GradientTimes))

    @property
    def only_gradient(self) -> bool:
        """Whether the modified gradients are the gradient here, so that they need no step."""
        return self.attn_lrp == gradient and self.cp_lrp == gradient

    @property
    def local_linear(self) -> Share:
        """No column of its own: cp_lrp's rule where that holds something fixed, else the gradient."""
        return self.cp_lrp if self.cp_lrp in (no_gradient, fixed_deviation, fixed_mean_square) else gradient

    def share(self, rules: RuleSet) -> Share:
        """The column of a rule set."""
        return gradient if rules == "gradient" else COLUMNS[rules](self)


COLUMNS: Mapping[str, Callable[[Rule], Share]] = {
    "zplus": lambda rule: rule.zplus,
    "attnlrp": lambda rule: rule.attn_lrp,
    "cplrp": lambda rule: rule.cp_lrp,
    "local_linear": lambda rule: rule.local_linear,
}


# Rules of the gradient kind.


@dataclass(frozen=True)
class GradientTimes:
    """The operation's own gradient times a constant."""

    factor: float

    def __call__(self, call: BackwardCall) -> Sequence[Tensor | None]:
        return [self.of(call.relevance)]

    def of(self, relevance: Tensor) -> Tensor:
        """What goes back through the result."""
        if self.factor == 0:
            return torch.zeros_like(relevance)
        return relevance if self.factor == 1 else relevance * self.factor


gradient = GradientTimes(1)
half_gradient = GradientTimes(0.5)  # because both operands of a product receive the whole
no_gradient = GradientTimes(0)  # the result is held fixed


def fixed_factor(call: BackwardCall) -> Sequence[Tensor | None]:
    """y = x * (y / x) with the factor held fixed."""
    y, x = call.saved
    return [None, call.relevance * ratio(y, x)]


def fixed_gate(call: BackwardCall) -> Sequence[Tensor | None]:
    """The error function of a GELU that is written out, x / 2 * (1 + erf(x / sqrt 2)): with the one that is added to
    it, a factor that is held fixed. The product hands half of the relevance to x, and the other half here.
    """
    y, x = call.saved
    return [None, call.relevance * ratio(y + 1, x)]


def fixed_deviation(call: BackwardCall) -> Sequence[Tensor | None]:
    """A layer norm whose standard deviation is held fixed."""
    x, weight, epsilon = call.saved
    back = call.relevance * weight * (x.var(-1, correction=0, keepdim=True) + epsilon).rsqrt()
    return [None, back - back.mean(-1, keepdim=True)]


def fixed_mean_square(call: BackwardCall) -> Sequence[Tensor | None]:
    """A root-mean-square norm whose divisor is held fixed."""
    x, weight, epsilon = call.saved
    return [None, call.relevance * weight * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()]


# Rules of z+: see `zplus` for those that share in proportion.


def unchanged(call: BackwardCall) -> Sequence[Tensor | None]:
    """The first operand receives the relevance as it is."""
    return [None, fitted(call.relevance, call.shapes[0])]


def halves(call: BackwardCall) -> Sequence[Tensor | None]:
    """Each of two operands receives half."""
    return [None, *(fitted(call.relevance / 2, shape) for shape in call.shapes)]


def summands(call: BackwardCall) -> Sequence[Tensor | None]:
    """In proportion to the two summands; the rescaling cancels the sign of a summand, so also of a difference. It is
    done row by row, so rows come first.
    """
    turned = call.state.tokens_first and call.relevance.ndim == 3
    tensors = [tensor.transpose(0, 1) if turned else tensor for tensor in (call.relevance, *call.saved)]
    parts = zplus_add(call.state.rows, *tensors)
    return [None, *(part.transpose(0, 1) if turned else part for part in parts)]


def products(call: BackwardCall) -> Sequence[Tensor | None]:
    """In proportion to the products that a matrix product sums, half to either side."""
    return [None, *zplus_product(call.relevance, *call.saved)]


def positive_products(call: BackwardCall) -> Sequence[Tensor | None]:
    """In proportion to the positive products of input and weight; the bias receives nothing."""
    y, x, matrix, *bias = call.saved
    buffer = call.state.buffer(matrix, matrix.dtype)
    return [None, zplus_linear(call.relevance, x, matrix, y - bias[0] if bias else y, buffer)]


def positive_summands(call: BackwardCall) -> Sequence[Tensor | None]:
    """In proportion to the positive ones of those that are summed."""
    (x,) = call.saved
    dims = tuple(range(x.ndim)) if call.dims is None else call.dims
    summed = {dim % x.ndim for dim in dims}
    kept = [1 if i in summed else size for i, size in enumerate(x.shape)]
    return [None, zplus_sum(call.relevance.reshape(kept), x, dims)]


def head_mask(call: BackwardCall) -> Sequence[Tensor | None]:
    """Weighted by head, where the propagation has a mask."""
    layer, point = call.place
    return [None, through_heads(call.state, point, layer, call.relevance)]


RULES: tuple[Rule, ...] = (
    Rule(
        "linear",
        ("linear", "addmm"),
        form="linear",
        zplus=positive_products,
        attn_lrp=gradient,
        cp_lrp=gradient,
        reads=("result", "operands"),
    ),
    Rule(
        "product",
        ("matmul", "__matmul__", "bmm"),
        form="matrices",
        zplus=products,
        attn_lrp=half_gradient,
        cp_lrp=gradient,  # of A V and Q K', A is fixed there, so V receives the whole
        reads=("result", "operands"),
        exact=True,
        with_constant="linear",
    ),
    Rule(
        "add",
        ("add", "__add__", "__radd__", "add_", "__iadd__"),
        form="two",
        zplus=summands,
        attn_lrp=gradient,
        cp_lrp=gradient,
        reads=("result", "operands"),
        exact=True,
        with_constant="move",
        positions=True,
    ),
    Rule(
        "subtract",
        ("sub", "__sub__", "subtract", "sub_", "__isub__"),
        form="two",
        zplus=summands,
        attn_lrp=gradient,
        cp_lrp=gradient,
        reads=("result", "operands"),
        exact=True,
        with_constant="scale",
        positions=True,
    ),
    Rule(
        "multiply",
        ("mul", "__mul__", "__rmul__", "multiply", "mul_", "__imul__"),
        form="two",
        zplus=halves,
        attn_lrp=half_gradient,
        cp_lrp=half_gradient,
        with_constant="scale",
    ),
    Rule(
        "scale",
        ("div", "__truediv__", "true_divide", "div_", "__itruediv__", "neg", "__neg__", "negative", "rsub", "__rsub__"),
        form="one",
        zplus=unchanged,
        attn_lrp=gradient,
        cp_lrp=gradient,
    ),
    Rule(
        "activation",  # also modules of activations, whatever they are made of
        ("gelu", "relu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "mish", "hardswish", "clamp"),
        form="one",
        zplus=unchanged,
        attn_lrp=fixed_factor,
        cp_lrp=fixed_factor,
        reads=("result", "operands"),
    ),
    Rule(
        "gelu gate",
        ("erf",),
        form="one",
        zplus=unchanged,
        attn_lrp=fixed_gate,
        cp_lrp=fixed_gate,
        reads=("result", "operands"),
    ),
    Rule(
        "power",  # x ** n as x * x ** (n - 1): what `multiply` gives x * x, written as one function
        ("pow", "__pow__", "square"),
        form="one",
        zplus=unchanged,
        attn_lrp=fixed_factor,
        cp_lrp=fixed_factor,
        reads=("result", "operands"),
    ),
    Rule(
        "softmax",
        ("softmax",),
        form="one",
        zplus=unchanged,
        attn_lrp=gradient,
        cp_lrp=no_gradient,
    ),
    Rule(
        "layer_norm",
        ("layer_norm",),
        form="norm",
        zplus=unchanged,
        attn_lrp=fixed_deviation,
        cp_lrp=fixed_deviation,
        reads=("operands",),
    ),
    Rule(
        "rms_norm",
        ("rms_norm",),
        form="norm",
        zplus=unchanged,
        attn_lrp=fixed_mean_square,
        cp_lrp=fixed_mean_square,
        reads=("operands",),
    ),
    Rule(
        "norm",  # a module of another norm: its gradient, with the row below inside it
        (),
        form="one",
        zplus=unchanged,
        attn_lrp=gradient,
        cp_lrp=gradient,
    ),
    Rule(
        "deviation",
        ("rsqrt", "sqrt"),
        form="one",
        zplus=unchanged,
        attn_lrp=no_gradient,
        cp_lrp=no_gradient,
        inside_norm=True,
    ),
    Rule(
        "sum",
        ("sum", "mean"),
        form="sum",
        zplus=positive_summands,
        attn_lrp=gradient,
        cp_lrp=gradient,
        reads=("operands",),
    ),
    Rule(
        "move",  # numbers change their place: the gradient brings relevance back to where it came from
        (
            *("view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze"),
            *("expand", "expand_as", "broadcast_to"),
            *("transpose", "permute", "swapaxes", "swapdims", "movedim", "t", "__get__", "contiguous", "clone"),
            *("__getitem__", "narrow", "select", "gather", "index_select", "roll", "flip", "pad"),
            *("chunk", "split", "unbind", "tensor_split", "cat", "concat", "stack", "repeat", "repeat_interleave"),
            *("to", "float", "double", "type", "type_as", "masked_fill", "masked_fill_", "where", "dropout"),
        ),
        form="no step",
        zplus=gradient,
        attn_lrp=gradient,
        cp_lrp=gradient,
    ),
    Rule(
        "routing",  # no function: what a router of experts gives, put into the graph by `RelevanceMode.routing_step`
        (),
        form="one",
        zplus=no_gradient,
        attn_lrp=no_gradient,
        cp_lrp=no_gradient,
    ),
    Rule(
        "head_mask",  # no function: put into the graph by `RelevanceMode.hook`
        (),
        form="one",
        zplus=head_mask,
        attn_lrp=gradient,
        cp_lrp=gradient,
    ),
)

BY_KIND: Mapping[str, Rule] = {rule.kind: rule for rule in RULES}
BY_FUNCTION: Mapping[str, Rule] = {name: rule for rule in RULES if not rule.inside_norm for name in rule.functions}
INSIDE_NORM: Mapping[str, Rule] = {name: rule for rule in RULES if rule.inside_norm for name in rule.functions}
