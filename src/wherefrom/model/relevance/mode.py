"""Layer-wise relevance by rules that wrap torch functions: no model is patched, none is written anew.

A forward pass within `relevance_mode` computes the same values as without it, but puts a step of its own into the
autograd graph at every operation that has a rule (see the table in `rules`). A backward pass over those steps
propagates relevance by the rule set in force, so one forward pass serves all rule sets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from wherefrom.core.names import join_names
from wherefrom.errors import NotSeen
from wherefrom.model.attention import Attention, AttentionCall, Hook, explicit_attention, for_every_head, pass_through
from wherefrom.model.relevance.attention import AttentionStep, KernelStep, as_bias, fill_scores
from wherefrom.model.relevance.double import (
    all_held,
    depends,
    first_that_depends,
    graph_tensor,
    hold,
    in_double,
    is_held,
    paired,
    side_of,
)
from wherefrom.model.relevance.propagation import PropagationState
from wherefrom.model.relevance.rewritten import OUT_OF_PLACE, REWRITTEN, WAYS_OUT
from wherefrom.model.relevance.rules import BY_FUNCTION, BY_KIND, INSIDE_NORM, Form, Rule
from wherefrom.model.relevance.steps import LINEAR, LinearStep, RuleStep
from wherefrom.registry import methods_reading

# Names of functions of the row `move` that take one tensor and numbers, and leave the precision as it is.
MOVES = {"view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "flatten", "dropout"}
CASTS = {Tensor.float, Tensor.double, Tensor.half, Tensor.bfloat16}
Arguments = tuple[Any, ...]
Options = dict[str, Any]


class RelevanceMode(TorchFunctionMode):
    """Within this context every operation on a tensor that depends on the input gets a step with its rule; the values
    stay the same.

    Parameters are held fixed. With `double`, values are computed in double precision beside the graph (`double.py`) and
    attention is one step; the model itself stays as it is.
    """

    def __init__(self, state: PropagationState, *, double: bool) -> None:
        super().__init__()
        self.state, self.double = state, double
        self.layer = -1
        self.contexts: list[Tensor] = []  # what the heads read, of every recorded layer whose attention is one step
        # What was changed in place, and what it became: held here and not on the tensor, which would be a reference
        # cycle through the graph.
        self.changed: dict[int, tuple[Any, Any]] = {}
        self.passive = 0  # how many norms and activations this is inside of: each gets one step as a whole

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name == "__get__" and not isinstance(value := func(*args), Tensor):
            return value  # a shape, a device
        first = args[0] if args else None
        if type(first) is Tensor and not (kwargs or self.changed or self.passive or is_held(first)):
            value = self._of_one_tensor(func, name, first, args[1:])
            if value is not NotImplemented:
                return value
        args = self._current(args)
        kwargs = {key: self._current(x) for key, x in kwargs.items()} if kwargs else kwargs
        if first_that_depends(args) is None and first_that_depends(kwargs.values()) is None:
            return func(*args, **kwargs)
        result = self._dispatched(OUT_OF_PLACE.get(name, func), name, args, kwargs)
        if name in OUT_OF_PLACE:
            self.changed[id(first)] = (first, result)
        return result

    def _of_one_tensor(self, func: Any, name: str, x: Tensor, settings: Arguments) -> Any:
        """Most calls: a tensor that changes its shape or goes through a linear layer. `_dispatched` would give the same
        result, but for a short text looking up the rule takes longer than the operation itself.
        """
        if name in MOVES and not any(isinstance(setting, (Tensor, list, tuple)) for setting in settings):
            return self._moved(func, x, settings) if depends(x) else func(x, *settings)
        plain = name == "linear" and self.state.gradient_rules and LINEAR.only_gradient
        if plain and all(setting is None or isinstance(setting, nn.Parameter) for setting in settings):
            return func(x, *[None if setting is None else setting.detach() for setting in settings])
        return NotImplemented

    def _moved(self, func: Any, x: Tensor, settings: Arguments) -> Any:
        """A function of one tensor and of numbers, whose gradient is the rule."""
        if not self.double:
            return func(x, *settings)
        return paired(func(graph_tensor(x), *settings), func(in_double(x), *settings))

    def _dispatched(self, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        """A function of something that depends on the input."""
        if all_held((*args, *kwargs.values())):
            return hold(self._plain(func, args, kwargs))
        if self.passive:
            rule = INSIDE_NORM.get(name)
            return self._plain(func, args, kwargs) if rule is None else self._one(rule, func, name, args, kwargs)
        if func is functional.scaled_dot_product_attention:
            with self:
                return self.attend(AttentionCall(*args, **kwargs))[1]
        return self._with_rule(func, name, args, kwargs)

    def _current(self, x: Any) -> Any:
        """An argument as the rules take it: of parameters, which do not depend on the input, only the values, and what
        was changed in place as it is now.
        """
        if isinstance(x, Tensor):
            while id(x) in self.changed:
                x = self.changed[id(x)][1]
            return x.detach() if type(x) is not Tensor and isinstance(x, nn.Parameter) else x
        return type(x)([self._current(y) for y in x]) if type(x) in (list, tuple) else x

    def _with_rule(self, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        """Look the function up in the table and record it as its row says."""
        if not args and "input" in kwargs:
            args, kwargs = (kwargs["input"],), {key: x for key, x in kwargs.items() if key != "input"}
        rule = BY_FUNCTION.get(name)
        if rule is not None:
            output = FORMS[rule.form](self, rule, func, name, args, kwargs)
            if output is not NotImplemented:
                return output
        if name in REWRITTEN:
            with self:
                return REWRITTEN[name](*args, **kwargs)
        result = self._inside(func, args, kwargs)
        if first_that_depends((result,)) is not None:
            without_rules = join_names(methods_reading("path", "answers"), "or")
            raise NotSeen(
                f"There is no relevance rule for torch's {name!r}, which this model uses, so relevance methods cannot"
                f" explain it. {WAYS_OUT.get(name, f'Take {without_rules}, which need no rules.')}"
            )
        return result

    # What torch computes: in the graph, beside it, or both.

    def _inside(self, func: Any, args: Arguments, kwargs: Options) -> Any:
        return self._on_side(func, "graph", args, kwargs) if self.double else func(*args, **kwargs)

    def _beside(self, func: Any, args: Arguments, kwargs: Options) -> Any:
        return self._on_side(func, "exact", args, kwargs) if self.double else None

    def _on_side(self, func: Any, side: Literal["graph", "exact"], args: Arguments, kwargs: Options) -> Any:
        known = None if side == "exact" else first_that_depends((*args, *kwargs.values()))
        dtype = torch.float64 if known is None else known.dtype
        if func in CASTS:  # all of the graph has one precision
            return side_of(args[0], side, dtype)
        return func(
            *[side_of(x, side, dtype) for x in args], **{key: side_of(x, side, dtype) for key, x in kwargs.items()}
        )

    def _plain(self, func: Any, args: Arguments, kwargs: Options) -> Any:
        """Without a step: the gradient is the rule."""
        result = self._inside(func, args, kwargs)
        if not self.double or first_that_depends((result,)) is None:
            return result
        return paired(result, self._beside(func, args, kwargs))

    def _paired(self, result: Tensor, exact: Tensor | None) -> Tensor:
        pair: Tensor = result if exact is None else paired(result, exact)
        return pair

    def _computed(
        self,
        rule: Rule,
        func: Any,
        name: str,
        args: Arguments,
        kwargs: Options,
        *operands: Tensor,
        dims: tuple[int, ...] | None = None,
    ) -> Tensor:
        """The function's result, with a step that hands relevance to the operands."""
        result, exact = self._inside(func, args, kwargs), self._beside(func, args, kwargs)
        if self.state.gradient_rules and rule.only_gradient:
            return self._paired(result, exact)
        value = result.detach()
        if exact is not None and rule.exact:
            value.copy_(exact)
        return self._paired(self._stepped(rule, (self.layer, name), value, result, *operands, dims=dims), exact)

    def _stepped(
        self,
        rule: Rule,
        place: tuple[int, str],
        value: Tensor,
        result: Tensor,
        *operands: Tensor,
        dims: tuple[int, ...] | None = None,
    ) -> Tensor:
        inner = tuple(graph_tensor(x) for x in operands)
        stepped: Tensor = RuleStep.apply(self.state, rule, place, dims, value, result, *inner)  # type: ignore[no-untyped-call]
        return stepped

    def module_step(self, module: nn.Module, y: Tensor, x: Tensor) -> Tensor:
        """The one step of a norm or an activation, y = module(x)."""
        if not depends(y):  # a torch.autograd.Function of the module's own does not see the graph behind a stand-in
            with torch._C.DisableTorchFunction():
                y = paired(module.forward(graph_tensor(x)), module.forward(in_double(x)))
        rule, result = BY_KIND["activation" if _is_activation(module) else "norm"], graph_tensor(y)
        if self.state.gradient_rules and rule.only_gradient:
            return y
        stepped = self._stepped(rule, (self.layer, type(module).__name__), result.detach(), result, x)
        return self._paired(stepped, getattr(y, "exact", None))

    def routing_step(self, arguments: Any) -> Any:
        """What a router gave, held: relevance does not go back through the choice of experts, the gradient does."""
        if isinstance(arguments, (list, tuple)):
            return tuple(map(self.routing_step, arguments))
        if not depends(arguments):
            return arguments
        inner = graph_tensor(arguments)
        stepped = self._stepped(BY_KIND["routing"], (self.layer, "routing"), inner.detach(), inner)
        return hold(self._paired(stepped, getattr(arguments, "exact", None)))

    def hook(self, point: str, layer: int, x: Tensor) -> Tensor:
        """A `Hook` for `recording`: marks a tensor at which relevance is weighted by head. It also tells which layer
        the pass is in.
        """
        self.layer = layer
        if self.state.gradient_rules:
            return x
        inner = graph_tensor(x)
        stepped = self._stepped(BY_KIND["head_mask"], (layer, point), inner.detach(), inner, inner)
        return self._paired(stepped, getattr(x, "exact", None))

    # One method for each form of arguments (see `Form`). NotImplemented: the row does not cover these arguments.

    def _one(self, rule: Rule, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        if first_that_depends((*args[1:], *kwargs.values())) is not None:
            return NotImplemented
        return self._computed(rule, func, name, args, kwargs, args[0])

    def _two(self, rule: Rule, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        if len(args) < 2 or kwargs.get("alpha", 1) != 1:
            return NotImplemented
        a, b = args[:2]
        both = depends(a) and depends(b) and not (is_held(a) or is_held(b) or getattr(b, "maximum_of", None) is a)
        positions = rule.positions and self.layer < 0 and _same_positions(a, b)
        if both or positions:
            # a row that reads its operands finds them in the shape of the result
            operands = torch.broadcast_tensors(graph_tensor(a), graph_tensor(b)) if rule.reads else (a, b)
            return self._computed(rule, func, name, args, kwargs, *operands)
        constant = BY_KIND[rule.with_constant or "move"]
        if constant.form == "no step":
            return self._plain(func, args, kwargs)
        return self._computed(constant, func, name, args, kwargs, a if depends(a) and not is_held(a) else b)

    def _matrices(self, rule: Rule, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        if len(args) != 2 or kwargs:
            return NotImplemented
        a, b = args
        if depends(a) and depends(b):
            return self._computed(rule, torch.matmul, name, (a, b), {}, a, b)
        if depends(a):
            return self._affine(name, a, b, None)
        turned: Tensor = self._affine(name, self._plain(torch.transpose, (b, -1, -2), {}), a.mT, None)
        return self._plain(torch.transpose, (turned, -1, -2), {})

    def _linear(self, rule: Rule, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        if name == "addmm" and len(args) == 3 and not kwargs:
            bias, x, matrix = args
        elif name == "linear" and len(args) > 1:
            x, matrix, bias = args[0], args[1].mT, args[2] if len(args) > 2 else kwargs.get("bias")
        else:
            return NotImplemented
        return NotImplemented if depends(matrix) or depends(bias) else self._affine(name, x, matrix, bias)

    def _norm(self, rule: Rule, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        return self._computed(rule, func, name, args, kwargs, args[0], *_weight_and_epsilon(name, *args, **kwargs))

    def _sum(self, rule: Rule, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        dims = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
        dims = (dims,) if isinstance(dims, int) else dims
        return self._computed(rule, func, name, args, kwargs, args[0], dims=dims)

    def _no_step(self, rule: Rule, func: Any, name: str, args: Arguments, kwargs: Options) -> Any:
        return self._plain(func, args, kwargs)

    def _affine(self, name: str, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        """x @ matrix + bias as one step, with a constant matrix and a constant bias."""
        inner, exact = graph_tensor(x), None
        if self.state.gradient_rules and LINEAR.only_gradient:
            return _affine(inner, matrix, bias)
        with torch.no_grad():
            if self.double:
                exact = _affine(in_double(x), self._matrix_in_double(matrix), None if bias is None else bias.double())
                y, (matrix, bias) = exact.to(inner.dtype), side_of((matrix, bias), "graph", inner.dtype)
            else:
                y = _affine(inner, matrix, bias)
        result: Tensor = LinearStep.apply(self.state, (self.layer, name), y, inner, matrix, bias)  # type: ignore[no-untyped-call]
        return self._paired(result, exact)

    def _matrix_in_double(self, matrix: Tensor) -> Tensor:
        if matrix.dtype is torch.float64:
            return matrix
        return self.state.buffer(matrix, torch.float64).copy_(matrix)

    def attend(
        self, call: AttentionCall, hook: Hook = pass_through, layer: int | None = None
    ) -> tuple[Attention, Tensor]:
        """scaled_dot_product_attention: written out; or as one step, where values are exact; or by torch's own kernel,
        which keeps no probabilities, where only modified gradients go back through it.

        layer: None for attention that is not recorded.
        """
        if self.state.gradient_rules and not depends(call.attn_mask):
            with torch._C.DisableTorchFunction():
                query, key, value = KernelStep.apply(self.state, call.query, call.key, call.value)  # type: ignore[no-untyped-call]
                context = replace(call, query=query, key=key, value=value).kernel()
                nothing = context.new_empty(0)
            return Attention(nothing, nothing, value), context
        if not self.double or call.query.ndim != 4 or depends(call.attn_mask):
            return explicit_attention(call, hook, layer or 0)
        key, value = call.repeated()
        key, query = for_every_head(key, call.query), call.scaled_query()
        if layer is not None:
            self.layer = layer
        with torch._C.DisableTorchFunction():
            return self._attend(query, key, value, call.attn_mask, call.is_causal, layer)

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


FORMS: Mapping[Form, Callable[..., Any]] = {
    "one": RelevanceMode._one,
    "two": RelevanceMode._two,
    "matrices": RelevanceMode._matrices,
    "linear": RelevanceMode._linear,
    "norm": RelevanceMode._norm,
    "sum": RelevanceMode._sum,
    "no step": RelevanceMode._no_step,
}


def _same_positions(a: Any, b: Any) -> bool:
    """Whether both are tensors with as many positions of the same size."""
    return isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape[-2:] == b.shape[-2:]


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


def _is_activation(module: nn.Module) -> bool:
    if type(module).__module__ in ("transformers.activations", "torch.nn.modules.activation"):
        return True
    return type(module).__name__.lower().endswith("gelu")  # BLOOM has one of its own


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Norm") and not isinstance(module, (nn.LayerNorm, nn.RMSNorm))


@contextmanager
def relevance_mode(
    network: nn.Module,
    rows: int,
    *,
    double: bool,
    gradient_rules: bool = False,
    routers: Sequence[nn.Module] = (),
    tokens_first: bool = False,
) -> Iterator[RelevanceMode]:
    """Within this context the network's operations put steps with their rules into the graph. What `routers` give is
    held fixed.

    gradient_rules: only those of attn_lrp and cp_lrp, which takes less time and far less memory.
    tokens_first: whether hidden states are (token, row, size).
    """
    state, thread = PropagationState(rows, tokens_first, gradient_rules), threading.get_ident()
    mode = RelevanceMode(state, double=double)

    def enter(*_: Any) -> None:
        if threading.get_ident() == thread:
            mode.passive += 1

    def leave(module: nn.Module, args: tuple[Any, ...], y: Any) -> Any:
        if threading.get_ident() != thread:
            return y
        mode.passive -= 1
        if mode.passive or not isinstance(y, Tensor) or not args or not depends(args[0]):
            return y
        return mode.module_step(module, y, args[0])

    def routed(_: nn.Module, __: tuple[Any, ...], inputs: Any) -> Any:
        if threading.get_ident() != thread:
            return inputs
        mode.passive -= 1
        return mode.routing_step(inputs)

    with ExitStack() as stack:
        for module in routers:
            stack.callback(module.register_forward_pre_hook(enter).remove)
            stack.callback(module.register_forward_hook(routed, always_call=True).remove)
        for module in network.modules():
            if _is_activation(module) or _is_norm(module):
                stack.callback(module.register_forward_pre_hook(enter).remove)
                stack.callback(module.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(mode)
        stack.callback(mode.changed.clear)
        yield mode
