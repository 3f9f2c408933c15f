"""Layer-wise relevance by rules that wrap torch functions: no model is patched, none is written anew.

A forward pass within `Rules` computes what it always computes, but leaves a step behind at every operation that has a rule. A
backward pass over those steps then carries whatever its rule set hands on, so one forward pass serves them all:

- gradient: the ordinary gradient.
- zplus: relevance. It starts as one at the target's logit and is shared out by the z+ rules of Chefer et al. (2021); what an operation
  is given, it hands on.
- attn_lrp, cp_lrp: gradient times input is relevance (Achtibat et al. 2024; Ali et al. 2022). A norm is a fixed rescaling, an activation
  the factor y/x, a product of two hands each half; the softmax has its own gradient in attn_lrp and none in cp_lrp.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from whence.errors import NotSeen
from whence.model.tap import Gate, spelled_out

RuleSet = Literal["gradient", "zplus", "attn_lrp", "cp_lrp"]
MaskVariant = Literal["paper", "published"]

SHORT = 64  # a sum of as many products has a positive one

# What a torch function is to the rules, by its name.
ADDS = {"add", "__add__", "__radd__", "add_", "__iadd__"}
SUBTRACTS = {"sub", "__sub__", "subtract", "sub_", "__isub__"}
PRODUCTS = {"matmul", "__matmul__", "bmm"}
MULTIPLIES = {"mul", "__mul__", "__rmul__", "multiply", "mul_", "__imul__"}
SCALES = {"div", "__truediv__", "true_divide", "neg", "__neg__", "negative", "div_", "__itruediv__"}
POINTWISE = {"gelu", "relu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "mish", "hardswish"}
NORMS = {"layer_norm", "rms_norm"}
SPREADS = {"rsqrt", "sqrt"}  # inside a norm
SUMS = {"sum", "mean"}
# Functions that move numbers about: their gradient moves relevance back the same way.
MOVES = {
    *("view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "flatten", "unflatten", "expand", "expand_as"),
    *("view_as", "swapaxes", "swapdims", "t", "movedim", "narrow", "select", "clone", "__getitem__", "chunk", "split", "unbind"),
    *("tensor_split", "cat", "concat", "stack", "to", "float", "double", "type_as", "type", "gather", "index_select", "repeat"),
    *("repeat_interleave", "masked_fill", "where", "dropout", "T.__get__", "mT.__get__", "roll", "flip", "pad"),
}
LOOKS = {
    "size",
    "dim",
    "numel",
    "__len__",
    "__get__",
    "is_floating_point",
    "stride",
    "element_size",
    "data_ptr",
    "is_contiguous",
    "__repr__",
}


def depends(x: object) -> bool:
    """Whether a tensor depends on the words: within `Rules`, nothing else has a gradient."""
    return isinstance(x, Tensor) and x.requires_grad


def ratio(numerator: Tensor, divisor: Tensor) -> Tensor:
    """numerator / divisor, and nothing where the divisor is nothing."""
    return (numerator / divisor).nan_to_num_(0.0, 0.0, 0.0)


def fitted(x: Tensor, shape: torch.Size) -> Tensor:
    """Summed over what was broadcast."""
    return x if x.shape == shape else x.sum_to_size(shape)


# The z+ rules. Each is given the relevance of the result, the result and what went into it, and hands on one relevance for each.


def zplus_linear(relevance: Tensor, x: Tensor, matrix: Tensor, bare: Tensor, room: Tensor | None = None) -> Tensor:
    """For bare = x @ matrix: in proportion to the positive products. x+ W+ + x- W- is half of (x W + |x| |W|); |W| goes to `room`.

    Where there is no positive product, which only short sums know, all are negative, and share in proportion to themselves.
    """
    size, weight = x.abs(), torch.abs(matrix, out=room)
    all_sizes = size @ weight
    positive = torch.add(bare, all_sizes).mul_(0.5)
    if x.shape[-1] < SHORT:
        none = positive <= all_sizes * (16 * torch.finfo(x.dtype).eps)
        negative = (x * (ratio(relevance, bare).where(none, 0) @ matrix.mT)) if bool(none.any()) else 0
        share = ratio(relevance, positive).masked_fill_(none, 0)
    else:
        negative, share = 0, ratio(relevance, positive)
    return (x * (share @ matrix.mT)).add_(size.mul_(share @ weight.mT)).mul_(0.5).add_(negative)


def zplus_add(rows: int, relevance: Tensor, result: Tensor, *operands: Tensor) -> list[Tensor]:
    """In proportion to the summands; then rescaled, sample by sample, by the size of their sums, so that opposite signs do not blow up."""
    share = ratio(relevance, result)
    parts = [(share * operand).reshape(rows, -1) for operand in operands]
    sums = torch.stack([part.sum(1) for part in parts])  # (operand, row)
    sizes = ratio(sums.abs(), sums.abs().sum(0))
    factors = ratio(sizes * relevance.reshape(rows, -1).sum(1), sums)
    return [part.mul_(factor[:, None]).view_as(result) for part, factor in zip(parts, factors, strict=True)]


def zplus_product(relevance: Tensor, result: Tensor, a: Tensor, b: Tensor) -> list[Tensor]:
    """For result = a @ b: in proportion to the products, half to either side."""
    share = ratio(relevance, result).mul_(0.5)
    return [fitted(a * (share @ b.mT), a.shape), fitted(b * (a.mT @ share), b.shape)]


def zplus_sum(relevance: Tensor, x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """For a sum or a mean: in proportion to the positive summands, or to all where there is none. The sum keeps its dimensions."""
    positive = x.clamp(min=0)
    chosen = torch.where(positive.sum(dims, keepdim=True) == 0, x, positive)
    return chosen * ratio(relevance, chosen.sum(dims, keepdim=True))


@dataclass
class Operation:
    """One operation of one pass: where it stands, and how much relevance came in from above and was handed on."""

    layer: int  # -1 before the first block
    name: str
    entering: float
    leaving: float


@dataclass
class Engine:
    """What the backward passes over one forward pass need to know; set by `carrying`, looked up by every step."""

    rows: int
    rules: RuleSet = "gradient"
    heads: Tensor | None = None  # (layer, head): what is left of each head's relevance
    variant: MaskVariant = "paper"
    trace: list[Operation] | None = None
    lost: dict[int, Tensor] = field(default_factory=dict)  # relevance that found no head to go through, by layer. (row,)
    _rooms: dict[object, Tensor] = field(default_factory=dict)

    @contextmanager
    def carrying(
        self, rules: RuleSet, *, heads: Tensor | None = None, variant: MaskVariant = "paper", trace: list[Operation] | None = None
    ) -> Iterator[None]:
        """Within this context, backward passes hand on what these rules say."""
        self.rules, self.heads, self.variant, self.trace, self.lost = rules, heads, variant, trace, {}
        try:
            yield
        finally:
            self.rules, self.heads, self.variant, self.trace, self.lost = "gradient", None, "paper", None, {}

    def room(self, matrix: Tensor) -> Tensor:
        """Memory for a matrix like this one, used again for the next: asking for it anew each time costs more than filling it."""
        key = (matrix.shape, matrix.stride(), matrix.dtype)
        return self._rooms.setdefault(key, torch.empty_like(matrix)) if key not in self._rooms else self._rooms[key]

    def gate(self, point: str, layer: int, x: Tensor) -> Tensor:
        """Mark a tensor at which relevance is weighted by head (see `through_heads`)."""
        gated: Tensor = Step.apply(self, point, (layer, point), x, x)  # type: ignore[no-untyped-call]
        return gated

    def note(self, place: tuple[int, str], entering: Tensor, leaving: Sequence[Tensor | None]) -> None:
        if self.trace is not None:
            handed = sum(part.sum().item() for part in leaving if part is not None)
            self.trace.append(Operation(place[0], place[1], entering.sum().item(), handed))


class Step(torch.autograd.Function):
    """An operation beside its relevance: the gradient goes back through `result`, relevance goes to the operands by the rule."""

    @staticmethod
    def forward(ctx: Any, engine: Engine, kind: str, place: tuple[int, str], result: Tensor, *operands: Tensor) -> Tensor:
        ctx.engine, ctx.kind, ctx.place = engine, kind, place
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(result, *operands)
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *handed: Tensor | None) -> tuple[Any, ...]:
        given, engine = handed[0], ctx.engine
        nothing: list[Tensor | None] = [None] * (len(ctx.needs_input_grad) - 3)
        if given is None:
            return (None, None, None, *nothing)
        if engine.rules == "gradient":
            return (None, None, None, given, *nothing[1:])
        result, *operands = ctx.saved_tensors
        if engine.rules == "zplus":
            parts = [None, *_zplus(engine, ctx.kind, ctx.place[0], given, result, operands)]
        else:
            parts = _gradient_rule(engine.rules, ctx.kind, given, result, operands)
        kept = [part if wanted else None for part, wanted in zip(parts, ctx.needs_input_grad[3:], strict=True)]
        engine.note(ctx.place, given, kept)
        return (None, None, None, *kept)


def _zplus(engine: Engine, kind: str, layer: int, given: Tensor, result: Tensor, operands: list[Tensor]) -> Sequence[Tensor | None]:
    if kind == "add":
        return zplus_add(engine.rows, given, result, *operands)
    if kind == "subtract":
        a, b = operands
        return zplus_add(engine.rows, given, result, a, -b)
    if kind == "product":
        return zplus_product(given, result, *operands)
    if kind == "multiply":
        return [fitted(given / 2, operand.shape) for operand in operands]
    if kind in ("input", "scores", "context", "value"):
        return [through_heads(engine, kind, layer, given)]
    handed: list[Tensor | None] = [None] * len(operands)
    handed[0] = fitted(given, operands[0].shape)  # activation, norm, softmax, scale: as it comes
    return handed


def through_heads(engine: Engine, point: str, layer: int, given: Tensor) -> Tensor:
    """Leave relevance only to the heads of the mask.

    paper: at the context (what the heads read), rescaled so that nothing is lost. A block of which no head is left hands its
    relevance on by the residual alone: what the attention was given is added, in proportion, at the block's input.
    published: what flows on to scores and values is masked and not rescaled, as the paper's code does.
    """
    if engine.heads is None:
        return given
    kept = engine.heads[layer].to(given)
    by_head = given.reshape(engine.rows, len(kept), *given.shape[-2:]) if point != "input" else given
    if engine.variant == "published":
        return (by_head * kept[:, None, None]).view_as(given) if point in ("scores", "value") else given
    if point == "context":
        whole, masked = by_head.flatten(1).sum(1), by_head * kept[:, None, None]
        if not bool(kept.any()):
            engine.lost[layer] = whole
            return torch.zeros_like(given)
        factor = ratio(whole, masked.flatten(1).sum(1)) if not bool((kept == 1).all()) else torch.ones_like(whole)
        return (masked * factor[:, None, None, None]).view_as(given)
    if point == "input" and layer in engine.lost:
        arrived = given.flatten(1).sum(1)
        return given * ratio(arrived + engine.lost[layer], arrived)[:, None, None]
    return given


def _gradient_rule(rules: RuleSet, kind: str, given: Tensor, result: Tensor, operands: list[Tensor]) -> list[Tensor | None]:
    """Gradient rules: what goes back through the result itself, and what goes to the operands beside it."""
    beside: list[Tensor | None] = [None] * len(operands)
    if kind == "multiply" or (kind == "product" and rules == "attn_lrp"):  # in cp_lrp attention is a constant, and takes nothing
        return [given / 2, *beside]
    if kind == "activation":
        return [None, given * ratio(result, operands[0])]
    if kind == "softmax" and rules == "cp_lrp":
        return [torch.zeros_like(given), *beside]
    if kind == "spread":  # a norm's standard deviation is taken as fixed
        return [torch.zeros_like(given), *beside]
    if kind in NORMS:
        x, weight, epsilon = operands
        inner = x - x.mean(-1, keepdim=True) if kind == "layer_norm" else x
        back = given * weight * (inner.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        return [None, back - back.mean(-1, keepdim=True) if kind == "layer_norm" else back, *beside[1:]]
    return [given, *beside]


class Linear(torch.autograd.Function):
    """x @ matrix + bias. Rows without relevance, as most are in the top block, cost nothing.

    Where x is wider than the weights, the way back is in the weights' precision: there nothing is divided by a small difference.
    """

    @staticmethod
    def forward(ctx: Any, engine: Engine, place: tuple[int, str], x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        ctx.engine, ctx.place = engine, place
        wide = matrix.to(x.dtype)
        y = functional.linear(x, wide.mT, None if bias is None else bias.to(x.dtype)) if matrix.ndim == 2 else x @ wide
        ctx.save_for_backward(x.to(matrix.dtype), matrix, y.to(matrix.dtype), bias)
        return y

    @staticmethod
    def backward(ctx: Any, *handed: Tensor) -> tuple[Any, ...]:
        engine = ctx.engine
        x, matrix, y, bias = ctx.saved_tensors
        whole = given = handed[0].to(matrix.dtype)
        rows = _busy(given) if matrix.ndim == 2 else None
        if rows is not None:
            given, x, y = (t.reshape(-1, t.shape[-1])[rows] for t in (given, x, y))
        if engine.rules == "zplus":
            part = zplus_linear(given, x, matrix, y if bias is None else y - bias, engine.room(matrix))
        else:
            part = given @ matrix.mT
        if rows is not None:
            part = part.new_zeros(whole.shape[:-1].numel(), x.shape[-1]).index_copy_(0, rows, part).view(*whole.shape[:-1], -1)
        engine.note(ctx.place, whole, [part])
        return None, None, fitted(part, ctx.saved_tensors[0].shape), None, None


def _busy(given: Tensor) -> Tensor | None:
    """The rows that have any relevance, or None where most have."""
    flat = given.reshape(-1, given.shape[-1])
    rows = flat.ne(0).any(-1).nonzero()[:, 0]
    return rows if 2 * len(rows) < len(flat) else None


class Total(torch.autograd.Function):
    """A sum or mean over dimensions, beside its relevance."""

    @staticmethod
    def forward(ctx: Any, engine: Engine, place: tuple[int, str], result: Tensor, x: Tensor, dims: tuple[int, ...] | None) -> Tensor:
        ctx.engine, ctx.place, ctx.dims = engine, place, dims
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(result, x)
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *handed: Tensor | None) -> tuple[Any, ...]:
        given, engine = handed[0], ctx.engine
        if given is None or engine.rules != "zplus":
            return None, None, given, None, None
        _, x = ctx.saved_tensors
        dims = ctx.dims if ctx.dims is not None else tuple(range(x.ndim))
        kept = [1 if i in {dim % x.ndim for dim in dims} else size for i, size in enumerate(x.shape)]
        part = zplus_sum(given.reshape(kept), x, dims)
        engine.note(ctx.place, given, [part])
        return None, None, None, part, None


class Rules(TorchFunctionMode):
    """Within this context every operation on what depends on the words leaves a step with its rule; values stay what they are.

    Parameters are held fixed. With `wide`, single precision is widened to double wherever it meets it, and the model itself
    stays as it is.
    """

    def __init__(self, engine: Engine, *, wide: bool) -> None:
        super().__init__()
        self.engine, self.wide = engine, wide
        self.layer = -1
        self.passive = 0  # inside a norm or an activation, which has its rule as a whole

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        args, kwargs = _fixed(args), {key: _fixed(x) for key, x in (kwargs or {}).items()}
        if self.wide and not (name in ("linear", "addmm") and not self.passive):
            args, kwargs = _widened(args, kwargs)
        if not any(map(_concerns, (*args, *kwargs.values()))):
            return func(*args, **kwargs)
        if self.passive:
            result = func(*args, **kwargs)
            return self._step("spread", name, result, args[0]) if name in SPREADS else result
        if func is functional.scaled_dot_product_attention:
            with self:
                return spelled_out(*args, **kwargs)[1]
        return self._with_rule(func, name, args, kwargs)

    def _with_rule(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "linear" and not depends(args[1]):
            return self._linear(name, args[0], args[1].mT, args[2] if len(args) > 2 else kwargs.get("bias"))
        if name == "addmm" and depends(args[1]) and not depends(args[2]) and not kwargs:
            return self._linear(name, args[1], args[2], args[0])
        if name in PRODUCTS:
            return self._product(func, name, args[0], args[1])
        if name in ADDS | SUBTRACTS | MULTIPLIES:
            return self._pair(func, name, args, kwargs)
        if name in SCALES and not any(map(depends, args[1:])):
            return self._step("scale", name, _fresh(func, name)(*args, **kwargs), args[0])
        if name in POINTWISE:
            return self._step("activation", name, func(*args, **kwargs), args[0])
        if name == "softmax":
            return self._step("softmax", name, func(*args, **kwargs), args[0])
        if name in NORMS:
            return self._step(name, name, func(*args, **kwargs), args[0], *_weight_and_epsilon(name, *args, **kwargs))
        if name in SUMS:
            dims = args[1] if len(args) > 1 else kwargs.get("dim")
            result = func(*args, **kwargs)
            dims = (dims,) if isinstance(dims, int) else dims
            return Total.apply(self.engine, (self.layer, name), result, args[0], dims)  # type: ignore[no-untyped-call]
        if name in MOVES or name in LOOKS or (name.startswith("__") and name not in ("__pow__", "__rtruediv__")):
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if depends(result):
            raise NotSeen(
                f"There is no relevance rule for torch's {name!r}, which this model uses, so relevance methods cannot explain it."
            )
        return result

    def _linear(self, name: str, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        y: Tensor = Linear.apply(self.engine, (self.layer, name), x, matrix, bias)  # type: ignore[no-untyped-call]
        return y

    def _step(self, kind: str, name: str, result: Tensor, *operands: Tensor) -> Tensor:
        stepped: Tensor = Step.apply(self.engine, kind, (self.layer, name), result, *operands)  # type: ignore[no-untyped-call]
        return stepped

    def whole(self, module: nn.Module, y: Tensor, x: Tensor) -> Tensor:
        """A norm's or an activation's one step."""
        return self._step("activation" if _is_activation(module) else "norm", type(module).__name__, y, x)

    def _product(self, func: Any, name: str, a: Tensor, b: Tensor) -> Tensor:
        if depends(a) and depends(b):
            return self._step("product", name, a @ b, a, b)
        return self._linear(name, a, b, None) if depends(a) else self._linear(name, b.mT, a.mT, None).mT

    def _pair(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        a, b = args[:2]
        result = _fresh(func, name)(*args, **kwargs)
        both = depends(a) and depends(b)
        if name in MULTIPLIES:
            return self._step("multiply", name, result, a, b) if both else self._step("scale", name, result, a if depends(a) else b)
        positions = self.layer < 0 and isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape[-2:] == b.shape[-2:]
        if both or positions:  # positions take their share beside the words, other constants take nothing
            return self._step("subtract" if name in SUBTRACTS else "add", name, result, *torch.broadcast_tensors(a, b))
        if name in SUBTRACTS and depends(b):
            return self._step("scale", name, result, b)
        return result


def _fixed(x: Any) -> Any:
    """Parameters do not depend on the words."""
    if isinstance(x, nn.Parameter):
        return x.detach()
    return type(x)(map(_fixed, x)) if type(x) in (list, tuple) else x


def _widened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments among which something is in double precision are all brought to it; casts back are left out."""
    listed = [x for many in args if isinstance(many, (list, tuple)) for x in many]
    if not any(isinstance(x, Tensor) and x.dtype is torch.float64 for x in (*args, *kwargs.values(), *listed)):
        # a mask still in single precision, filled with the least number of double precision
        return tuple(_clamped(x) for x in args), {key: _clamped(x) for key, x in kwargs.items()}

    def wide(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x.double() if x.is_floating_point() else x
        if isinstance(x, torch.dtype):
            return torch.float64 if x.is_floating_point else x
        return type(x)(map(wide, x)) if type(x) in (list, tuple) else x

    return wide(args), {key: wide(x) for key, x in kwargs.items()}


def _clamped(x: Any) -> Any:
    largest = torch.finfo(torch.float32).max
    return max(-largest, min(x, largest)) if isinstance(x, float) and math.isfinite(x) else x


def _weight_and_epsilon(
    name: str, x: Tensor, shape: Any, weight: Tensor | None = None, bias: Any = None, eps: float | None = None
) -> tuple[Tensor, Tensor]:
    """Of a norm; the arguments of layer_norm, or of rms_norm, which has no bias."""
    if name == "rms_norm" and eps is None:
        eps = bias
    small = torch.finfo(x.dtype).eps if name == "rms_norm" else 1e-5  # torch's defaults
    return torch.ones_like(x[..., :1]) if weight is None else weight, torch.tensor(small if eps is None else eps, dtype=x.dtype)


def _concerns(x: Any) -> bool:
    return depends(x) or (isinstance(x, (list, tuple)) and any(map(depends, x)))


IN_PLACE: dict[str, Callable[..., Tensor]] = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "truediv": torch.div}


def _fresh(func: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """`a += b` as `a + b`: what a step has seen must not be overwritten, and the name on the left is bound to the new one anyway."""
    changed = name.removeprefix("__i").removesuffix("__") if name.startswith("__i") else name[:-1] if name.endswith("_") else ""
    return IN_PLACE.get(changed, func)


def _is_activation(module: nn.Module) -> bool:
    return type(module).__module__ in ("transformers.activations", "torch.nn.modules.activation")


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Norm") and not isinstance(module, (nn.LayerNorm, nn.RMSNorm))


@contextmanager
def ruled(network: nn.Module, rows: int, *, wide: bool) -> Iterator[tuple[Engine, Gate]]:
    """Within this context the network's operations leave steps behind. Gives their engine, and a gate for `recording`."""
    engine, thread = Engine(rows), threading.get_ident()
    mode = Rules(engine, wide=wide)

    def enter(*_: Any) -> None:
        if threading.get_ident() == thread:
            mode.passive += 1

    def leave(module: nn.Module, args: tuple[Any, ...], y: Any) -> Any:
        if threading.get_ident() != thread:
            return y
        mode.passive -= 1
        if mode.passive or not isinstance(y, Tensor) or not args or not depends(args[0]):
            return y
        return mode.whole(module, y, args[0])

    def gate(point: str, layer: int, x: Tensor) -> Tensor:
        mode.layer = layer
        return engine.gate(point, layer, x)

    with ExitStack() as stack:
        for module in network.modules():
            if _is_activation(module) or _is_norm(module):
                stack.callback(module.register_forward_pre_hook(enter).remove)
                stack.callback(module.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(mode)
        yield engine, gate
