"""Another projection in the place of the softmax in a model's attention, while it answers and while it is trained.

Every softmax inside the model's attention is replaced by a projection, through torch's own override point. Nothing is
changed on the model, and nothing is left on it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from wherefrom.errors import NotSeen
from wherefrom.networks import AttentionCall, attention_modules
from wherefrom_studies.sparse.projections import Projection

SOFTMAX = "softmax"
NOTHING_PROJECTED = (
    "No softmax was seen inside the model's attention, so nothing was projected."
    " Load it with attn_implementation='eager'."
)


class ProjectedAttention(TorchFunctionMode):
    """Within this context the attention of `modules` is projected. An AttentionRecorder entered inside it records the
    projected weights.
    """

    def __init__(self, modules: Sequence[nn.Module], projection: Projection) -> None:
        super().__init__()
        self.modules, self.projection = modules, projection
        self.entered = 0  # how often one of the modules was called
        self.calls = 0  # how often something was projected
        self._thread = threading.get_ident()
        self._inside = 0
        self._hooks = ExitStack()

    def __enter__(self) -> ProjectedAttention:
        for module in self.modules:
            self._hooks.callback(module.register_forward_pre_hook(self._enter).remove)
            self._hooks.callback(module.register_forward_hook(self._leave, always_call=True).remove)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: Any) -> None:
        self._hooks.close()
        super().__exit__(*exception)  # type: ignore[no-untyped-call]

    def _enter(self, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self._inside += 1
            self.entered += 1

    def _leave(self, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self._inside -= 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._inside:
            return func(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            return self._attend(AttentionCall(*args, **kwargs))
        if getattr(func, "__name__", "") == "softmax":
            return self._softmax(*args, **kwargs)
        return func(*args, **kwargs)

    def _attend(self, call: AttentionCall) -> Tensor:
        """scaled_dot_product_attention with its weights projected; with its dropout, where the model is trained."""
        record = call.probabilities()
        weights = self._project(record.scores, record.probs.dtype)
        return functional.dropout(weights, call.dropout_p, training=call.dropout_p > 0) @ record.value

    def _softmax(self, scores: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
        if dim not in (-1, scores.ndim - 1):
            raise NotSeen(
                f"This model's attention is normalised over dimension {dim} of {scores.ndim},"
                " not over the last one, so it cannot be projected."
            )
        return self._project(scores, dtype or scores.dtype)

    def _project(self, scores: Tensor, dtype: Any) -> Tensor:
        self.calls += 1
        return self.projection(scores.to(dtype))


@contextmanager
def projected(network: PreTrainedModel, projection: Projection, *, called: bool = True) -> Iterator[ProjectedAttention]:
    """Within this context a network's attention is projected, in training as well.

    called: raise where the network was not called at all.
    """
    with ProjectedAttention(attention_modules(network), projection) as mode:
        yield mode
    if not mode.calls and (called or mode.entered):
        raise NotSeen(NOTHING_PROJECTED)


@contextmanager
def attention_by(network: PreTrainedModel, written: str) -> Iterator[None]:
    """Within this context a network's attention is what the projection of that name makes of it, such as sparsemax or
    entmax:1.5; with softmax it is the network's own. The network need not be called.
    """
    if written == SOFTMAX:
        yield
        return
    with projected(network, Projection.parse(written), called=False):
        yield
