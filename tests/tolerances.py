"""How far floats may be trusted: the one home of every law about precision.

Another processor, another number of threads and another shape of the batch add numbers up in another order. A test may
therefore promise of floats that are computed anew what their precision promises, and of an order only what differs by
more than that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from wherefrom.model.network import padded_inputs
from wherefrom.model.text_model import TextModel

TEXT = "the film was not bad, but dull!"

# By the precision that a model really computes in (`precision_of`): how far scores may lie apart that are equal but for
# rounding, as a share of the largest. Rounding is 1e-16 and 6e-8; gradients through three blocks, and methods that
# divide by small sums, make hundreds of it. (Without vector instructions, attcat of a tiny BERT in single precision
# gave 1.8e-5 between a batch and a text alone.)
TOLERANCE: dict[torch.dtype, float] = {torch.float64: 1e-9, torch.float32: 1e-4}

# A whole model in single precision against the same in double: every layer adds its rounding, and softmax, norms and
# differences of large numbers raise it.
SINGLE_AGAINST_DOUBLE = 1e-3

# Options with which a method may be held to that. partial_lrp divides by sums that nearly cancel, in the precision of
# the model unless told otherwise: weights moved by one rounding (6e-8) moved its scores on a real BERT by up to 12% of
# the largest. What its single precision gives is no law, then; what its double precision gives is.
STABLE: dict[str, dict[str, Any]] = {"partial_lrp": {"precision": "double"}}


class _Narrowest(TorchFunctionMode):
    """Notes the narrowest floats among everything that depends on the model's weights or words.

    Rotary angles depend on neither: they are the same numbers in every batch, and single precision does no harm there.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.is_floating_point() and out.requires_grad and out.itemsize < self.itemsize:
            self.dtype = out.dtype
        return out

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize


def precision_of(model: TextModel) -> torch.dtype:
    """The narrowest precision on the way from the words to the logits, found by watching one pass.

    Many families round to single precision inside of a model in double: RMS norms, DeBERTa's norms, ModernBERT's rotary
    embedding, Gemma 2's softmax. What differs by a last bit of a double may then differ by one of a single. Which
    families do so changes with the version of transformers, so it is looked at and not listed.
    """
    with torch.enable_grad(), _Narrowest(model.network.module.dtype) as seen:
        logits = model.network.module(
            **padded_inputs(model.network, [model.reading.tokenizer(TEXT)["input_ids"]], [None])
        )[0]
    assert logits.requires_grad, "precision is seen on what requires a gradient"
    found: torch.dtype = seen.dtype
    return found


def tolerance_of(model: TextModel) -> float:
    return TOLERANCE[precision_of(model)]


def _numbers(given: Any) -> Tensor:
    return torch.as_tensor(given, dtype=torch.float64).detach()  # Python's floats would become single precision


def assert_close(found: Any, expected: Any, *, tolerance: float, what: object = "") -> None:
    """Equal but for rounding: each number to `tolerance` of itself, or of the largest of them, from which a small one
    may be the difference that is left.
    """
    a, b = _numbers(found), _numbers(expected)
    finite = b[b.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    torch.testing.assert_close(
        a, b, rtol=tolerance, atol=tolerance * max(1e-6, largest), msg=lambda said: f"{what} {said}"
    )


def assert_ranked_alike(found: Any, expected: Any, *, tolerance: float, what: object = "") -> None:
    """Whatever `expected` puts above another by more than the tolerance, as a share of its largest, `found` puts above
    it, too. What lies closer is a tie, and may come in any order.
    """
    a, b = _numbers(found), _numbers(expected)
    assert a.shape == b.shape, (a.shape, b.shape)
    apart = b[:, None] - b[None, :] > tolerance * b.abs().max()
    turned = apart & ~(a[:, None] > a[None, :])
    assert not turned.any(), f"{what} ranked otherwise: {turned.nonzero().tolist()} of {b.tolist()}, found {a.tolist()}"


def assert_sorted(values: Sequence[float], *, tolerance: float, what: object = "") -> None:
    """The largest first; neighbours that tie may stand in either order."""
    room = tolerance * max(map(abs, values))
    for one, following in itertools.pairwise(values):
        assert following - one <= room, f"{what} not sorted: {values}"


def assert_best(place: int, scores: Any, *, tolerance: float, what: object = "") -> None:
    """`place` holds the largest score, or one that ties with it."""
    numbers = _numbers(scores)
    missed = float(numbers.max() - numbers[place])
    assert missed <= tolerance * float(numbers.abs().max()), f"{what} {place} is {missed} below {int(numbers.argmax())}"
