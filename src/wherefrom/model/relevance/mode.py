"""Layer-wise relevance by rules that wrap torch functions: no model is patched, none is written anew.

A forward pass within `relevance_mode` computes the same values as without it, but puts a step of its own into the
autograd graph at every operation that has a rule (see `rules`). A backward pass over those steps propagates relevance
by the rule set in force, so one forward pass serves all rule sets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from wherefrom.errors import NotSeen
from wherefrom.model.recording import Attention, Hook, explicit_attention, pass_through
from wherefrom.model.relevance.attention import AttentionStep, as_bias, fill_scores
from wherefrom.model.relevance.double import depends, first_that_depends, graph_tensor, in_double, paired, side_of
from wherefrom.model.relevance.rules import NORMS, LinearStep, PropagationState, RuleStep, SumStep

# What a torch function is to the rules, by its name.
ADDS = {"add", "__add__", "__radd__", "add_", "__iadd__"}
SUBTRACTS = {"sub", "__sub__", "subtract", "sub_", "__isub__"}
PRODUCTS = {"matmul", "__matmul__", "bmm"}
MULTIPLIES = {"mul", "__mul__", "__rmul__", "multiply", "mul_", "__imul__"}
SCALES = {"div", "__truediv__", "true_divide", "neg", "__neg__", "negative", "div_", "__itruediv__"}
POINTWISE = {"gelu", "relu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "mish", "hardswish"}
SPREADS = {"rsqrt", "sqrt"}  # inside a norm
SUMS = {"sum", "mean"}
# Functions that move numbers about: their gradient moves relevance back the same way.
MOVES = {
    *(
        "view",
        "reshape",
        "transpose",
        "permute",
        "contiguous",
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
        "expand",
        "expand_as",
    ),
    *(
        "view_as",
        "swapaxes",
        "swapdims",
        "t",
        "movedim",
        "narrow",
        "select",
        "clone",
        "__getitem__",
        "chunk",
        "split",
        "unbind",
    ),
    *(
        "tensor_split",
        "cat",
        "concat",
        "stack",
        "to",
        "float",
        "double",
        "type_as",
        "type",
        "gather",
        "index_select",
        "repeat",
    ),
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
# Sums and products that nearly cancel: what is divided by has to be as exact as it can be.
DIVISORS = {"add", "subtract", "product"}
CASTS = {Tensor.float, Tensor.double, Tensor.half, Tensor.bfloat16}


class RelevanceMode(TorchFunctionMode):
    """Within this context every operation on what depends on the words leaves a step with its rule; values stay what
    they are.

    Parameters are held fixed. With `double`, values are computed in double precision beside the graph (`double.py`) and
    attention is one step; the model itself stays as it is.
    """

    def __init__(self, state: PropagationState, *, double: bool) -> None:
        super().__init__()
        self.state, self.double = state, double
        self.layer = -1
        self.contexts: list[Tensor] = []  # what the heads read, of every recorded layer whose attention is one step
        self.passive = 0  # inside a norm or an activation, which has its rule as a whole

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "__get__" and not isinstance(found := func(*args), Tensor):
            return found  # a shape, a device
        args = _fixed(args)
        kwargs = {key: _fixed(x) for key, x in kwargs.items()} if kwargs else kwargs
        if first_that_depends(args) is None and first_that_depends(kwargs.values()) is None:
            return func(*args, **kwargs)
        if self.passive:
            return (
                self._step("spread", name, func, args, kwargs, args[0])
                if name in SPREADS
                else self._plain(func, args, kwargs)
            )
        if func is functional.scaled_dot_product_attention:
            with self:
                return self.attend(*args, **kwargs)[1]
        return self._with_rule(func, name, args, kwargs)

    def _with_rule(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "linear" and not depends(args[1]):
            return self._linear(name, args[0], args[1].mT, args[2] if len(args) > 2 else kwargs.get("bias"))
        if name == "addmm" and depends(args[1]) and not depends(args[2]) and not kwargs:
            return self._linear(name, args[1], args[2], args[0])
        if name in PRODUCTS:
            return self._product(func, name, args[0], args[1])
        if name in ADDS | SUBTRACTS | MULTIPLIES:
            return self._pair(_fresh(func, name), name, args, kwargs)
        if name in SCALES and not any(map(depends, args[1:])):
            return self._step("scale", name, _fresh(func, name), args, kwargs, args[0])
        if name in POINTWISE:
            return self._step("activation", name, func, args, kwargs, args[0])
        if name == "softmax":
            return self._step("softmax", name, func, args, kwargs, args[0])
        if name in NORMS:
            return self._step(name, name, func, args, kwargs, args[0], *_weight_and_epsilon(name, *args, **kwargs))
        if name in SUMS:
            return self._total(func, name, args, kwargs)
        if name in MOVES or name in LOOKS or (name.startswith("__") and name not in ("__pow__", "__rtruediv__")):
            return self._plain(func, args, kwargs)
        result = self._inside(func, args, kwargs)
        if depends(result):
            raise NotSeen(
                f"There is no relevance rule for torch's {name!r}, which this model"
                " uses, so relevance methods cannot explain it."
            )
        return result

    # What torch computes: in the graph, beside it, or both.

    def _inside(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._on_side(func, "graph", args, kwargs) if self.double else func(*args, **kwargs)

    def _beside(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._on_side(func, "exact", args, kwargs) if self.double else None

    def _on_side(
        self, func: Any, side: Literal["graph", "exact"], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        known = None if side == "exact" else first_that_depends((*args, *kwargs.values()))
        dtype = torch.float64 if known is None else known.dtype
        if func in CASTS:  # the graph's precision is the same all over
            return side_of(args[0], side, dtype)
        return func(
            *[side_of(x, side, dtype) for x in args], **{key: side_of(x, side, dtype) for key, x in kwargs.items()}
        )

    def _plain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Without a step: the gradient is the rule."""
        result = self._inside(func, args, kwargs)
        if not self.double or first_that_depends((result,)) is None:
            return result
        return paired(result, self._beside(func, args, kwargs))

    def _paired(self, result: Tensor, exact: Tensor | None) -> Tensor:
        found: Tensor = result if exact is None else paired(result, exact)
        return found

    def _step(
        self, kind: str, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *operands: Tensor
    ) -> Tensor:
        result, exact = self._inside(func, args, kwargs), self._beside(func, args, kwargs)
        value = result.detach()
        if exact is not None and kind in DIVISORS:
            value.copy_(exact)
        return self._paired(self._stepped(kind, name, value, result, *operands), exact)

    def _stepped(self, kind: str, name: str, value: Tensor, result: Tensor, *operands: Tensor) -> Tensor:
        seen = tuple(graph_tensor(x) for x in operands)
        stepped: Tensor = RuleStep.apply(self.state, kind, (self.layer, name), value, result, *seen)  # type: ignore[no-untyped-call]
        return stepped

    def whole(self, module: nn.Module, y: Tensor, x: Tensor) -> Tensor:
        """A norm's or an activation's one step."""
        kind, result = "activation" if _is_activation(module) else "norm", graph_tensor(y)
        return self._paired(
            self._stepped(kind, type(module).__name__, result.detach(), result, x), getattr(y, "exact", None)
        )

    def hook(self, point: str, layer: int, x: Tensor) -> Tensor:
        """A `Hook` for `recording`: the state's, which also tells in which layer the pass is."""
        self.layer = layer
        return self._paired(self.state.hook(point, layer, graph_tensor(x)), getattr(x, "exact", None))

    def _linear(self, name: str, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        inner, exact = graph_tensor(x), None
        with torch.no_grad():
            if self.double:
                double = (
                    matrix if matrix.dtype is torch.float64 else self.state.buffer(matrix, torch.float64).copy_(matrix)
                )
                exact = _affine(in_double(x), double, None if bias is None else bias.double())
                y, (matrix, bias) = exact.to(inner.dtype), side_of((matrix, bias), "graph", inner.dtype)
            else:
                y = _affine(inner, matrix, bias)
        result: Tensor = LinearStep.apply(self.state, (self.layer, name), y, inner, matrix, bias)  # type: ignore[no-untyped-call]
        return self._paired(result, exact)

    def _product(self, func: Any, name: str, a: Tensor, b: Tensor) -> Tensor:
        if depends(a) and depends(b):
            return self._step("product", name, torch.matmul, (a, b), {}, a, b)
        if depends(a):
            return self._linear(name, a, b, None)
        turned: Tensor = self._linear(name, self._plain(torch.transpose, (b, -1, -2), {}), a.mT, None)
        return self._plain(torch.transpose, (turned, -1, -2), {})  # type: ignore[no-any-return]

    def _pair(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        a, b = args[:2]
        both = depends(a) and depends(b)
        if name in MULTIPLIES:
            kind = "multiply" if both else "scale"
            return self._step(kind, name, func, args, kwargs, *((a, b) if both else (a,) if depends(a) else (b,)))
        positions = self.layer < 0 and isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape[-2:] == b.shape[-2:]
        if both or positions:  # positions take their share beside the words, other constants take nothing
            kind = "subtract" if name in SUBTRACTS else "add"
            return self._step(
                kind, name, func, args, kwargs, *torch.broadcast_tensors(graph_tensor(a), graph_tensor(b))
            )
        if name in SUBTRACTS and depends(b):
            return self._step("scale", name, func, args, kwargs, b)
        return self._plain(func, args, kwargs)  # type: ignore[no-any-return]

    def _total(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        dims = args[1] if len(args) > 1 else kwargs.get("dim")
        dims = (dims,) if isinstance(dims, int) else dims
        result = self._inside(func, args, kwargs)
        total: Tensor = SumStep.apply(self.state, (self.layer, name), result, graph_tensor(args[0]), dims)  # type: ignore[no-untyped-call]
        return self._paired(total, self._beside(func, args, kwargs))

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
        hook: Hook = pass_through,
        layer: int | None = None,
    ) -> tuple[Attention, Tensor]:
        """scaled_dot_product_attention: written out, or, where values are exact, as one step."""
        if not self.double or query.ndim != 4 or depends(attn_mask):
            options = {"scale": scale, "enable_gqa": enable_gqa, "hook": hook, "layer": layer or 0}
            return explicit_attention(query, key, value, attn_mask, dropout_p, is_causal, **options)  # type: ignore[arg-type]
        if enable_gqa:
            shared = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(shared, -3), value.repeat_interleave(shared, -3)
        query = query * (query.shape[-1] ** -0.5 if scale is None else scale)
        if layer is not None:
            self.layer = layer
        with torch._C.DisableTorchFunction():
            return self._attend(query, key, value, attn_mask, is_causal, layer)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, layer: int | None
    ) -> tuple[Attention, Tensor]:
        inner = [graph_tensor(x) for x in (query, key, value)]
        with torch.no_grad():
            scores = inner[0].new_empty(*query.shape[:-1], key.shape[-2])
            spread, bias = scores.new_empty(*scores.shape[:-1], 1), as_bias(mask, causal, scores)
            exact = fill_scores(
                scores,
                spread,
                in_double(query),
                in_double(key),
                in_double(value),
                None if bias is None else bias.double(),
            )
        anchor = scores.new_zeros(1).expand_as(scores).requires_grad_()
        kept, plain = (scores, spread, bias), exact.to(scores.dtype)
        context: Tensor = AttentionStep.apply(self.state, layer, plain, kept, anchor, *inner)  # type: ignore[no-untyped-call]
        if layer is not None:
            self.contexts.append(context)
        return Attention(scores.new_empty(0), anchor, inner[2]), self._paired(context, exact)


def _fixed(x: Any) -> Any:
    """Parameters do not depend on the words."""
    if type(x) is not Tensor and isinstance(x, nn.Parameter):
        return x.detach()
    return type(x)([_fixed(y) for y in x]) if type(x) in (list, tuple) else x


def _affine(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    if matrix.ndim == 2:
        return functional.linear(x, matrix.mT, bias)
    return x @ matrix if bias is None else x @ matrix + bias


def _weight_and_epsilon(
    name: str, x: Tensor, shape: Any, weight: Tensor | None = None, bias: Any = None, eps: float | None = None
) -> tuple[Tensor, Tensor]:
    """Of a norm; the arguments of layer_norm, or of rms_norm, which has no bias."""
    if name == "rms_norm" and eps is None:
        eps = bias
    small = torch.finfo(x.dtype).eps if name == "rms_norm" else 1e-5  # torch's defaults
    return torch.ones_like(x[..., :1]) if weight is None else weight, torch.tensor(
        small if eps is None else eps, dtype=x.dtype
    )


IN_PLACE: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "truediv": torch.div,
}


def _fresh(func: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """`a += b` as `a + b`: what a step has seen must not be overwritten, and the name on the left is bound to the new
    one anyway.
    """
    changed = (
        name.removeprefix("__i").removesuffix("__")
        if name.startswith("__i")
        else name[:-1]
        if name.endswith("_")
        else ""
    )
    return IN_PLACE.get(changed, func)


def _is_activation(module: nn.Module) -> bool:
    return type(module).__module__ in ("transformers.activations", "torch.nn.modules.activation")


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Norm") and not isinstance(module, (nn.LayerNorm, nn.RMSNorm))


@contextmanager
def relevance_mode(network: nn.Module, rows: int, *, double: bool) -> Iterator[RelevanceMode]:
    """Within this context the network's operations leave steps behind."""
    mode, thread = RelevanceMode(PropagationState(rows), double=double), threading.get_ident()

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

    with ExitStack() as stack:
        for module in network.modules():
            if _is_activation(module) or _is_norm(module):
                stack.callback(module.register_forward_pre_hook(enter).remove)
                stack.callback(module.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(mode)
        yield mode
