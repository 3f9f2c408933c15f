"""Another projection in the place of the softmax in a trained model's attention, at inference.

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

from wherefrom.errors import NotSeen
from wherefrom.model.recording import explicit_attention
from wherefrom.model.text_model import TextModel
from wherefrom.studies.sparse.projections import Projection


class ProjectedAttention(TorchFunctionMode):
    """Within this context the attention of `modules` is projected. An AttentionRecorder entered inside it records the
    projected weights.
    """

    def __init__(self, modules: Sequence[nn.Module], projection: Projection) -> None:
        super().__init__()
        self.modules, self.projection = modules, projection
        self.calls = 0
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

    def _leave(self, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self._inside -= 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._inside:
            return func(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            record, _ = explicit_attention(*args, **kwargs)
            return self._project(record.scores, record.probs.dtype) @ record.value
        if getattr(func, "__name__", "") == "softmax":
            return self._softmax(*args, **kwargs)
        return func(*args, **kwargs)

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
def projected(model: TextModel, projection: Projection) -> Iterator[ProjectedAttention]:
    """Within this context everything asked of the model is answered with its attention projected."""
    modules = [block.attention for block in model.anatomy.blocks]
    with ProjectedAttention(modules, projection) as mode:
        yield mode
    if not mode.calls:
        raise NotSeen(
            "No softmax was seen inside the model's attention, so nothing was projected."
            " Load it with attn_implementation='eager'."
        )
