"""A linear model of what a text model answers about parts of one text: captum weighs and fits, the case is asked.

captum's Lime takes the parts, their weights and the linear model as arguments; its KernelShap is that same class with
all three filled in. Parts are drawn here: captum draws from torch's global generator, which other threads use too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from wherefrom.case.case import Case
from wherefrom.errors import BadOption, MissingExtra

Similarity = Callable[
    ..., float
]  # captum's: (the whole, a part, the same part as it was drawn, ...) -> the part's weight
USUAL_SAMPLES = 256


@dataclass(frozen=True)
class Surrogate:
    """A linear model: a score for every unit, and how far to trust it."""

    scores: Tensor  # (unit,), zero for special tokens
    explained: float  # the share of the answers' variance that it tells
    notes: tuple[str, ...]


def needed(method: str) -> tuple[ModuleType, ModuleType]:
    """captum's LIME, and the linear models that it can fit. Loaded when used: not everyone has them."""
    try:
        import sklearn.linear_model  # noqa: F401  # captum fits with it, but asks for it only in the middle of the work
        from captum._utils.models import linear_model
        from captum.attr._core import lime
    except ModuleNotFoundError as missing:
        raise MissingExtra(method, "perturbation") from missing
    return lime, linear_model


def hideable(case: Case) -> Tensor:
    """True for units that can be hidden: all but special tokens. (unit,)"""
    return ~(case.units & case.special).any(-1)


def left_of(case: Case, kept: Tensor) -> Tensor:
    """The tokens of the units that are left of those that can be hidden. (part, unit) bool -> (part, token) bool"""
    tokens = case.units[hideable(case)].float()  # (unit, token)
    return kept.to(tokens) @ tokens > 0


def budget(method: str, samples: int | None, units: int) -> int:
    """How many parts are asked about, at most."""
    if samples is None:
        return max(USUAL_SAMPLES, 4 * units)
    if samples < min(4, 2**units):
        raise BadOption(f"{method} takes at least 4 samples, not {samples}: fewer tell nothing.")
    return samples


def every_part(units: int) -> Tensor:
    """Every choice of units, from none to all. (part, unit) bool"""
    return torch.arange(2**units)[:, None].bitwise_right_shift(torch.arange(units)).bitwise_and(1).bool()


def fit_surrogate(
    case: Case, fill: str, kept: Tensor, similarity: Similarity, linear: Any, captum: ModuleType
) -> Surrogate:
    """A linear model fitted to the answers about the parts. kept: which of the units that can be hidden are left,
    (part, unit) bool.
    """
    real = hideable(case)
    scores = torch.zeros(len(real), dtype=torch.float64)
    if not bool(real.any()):  # only a mask, or nothing but special tokens
        return Surrogate(scores, 1.0, ())
    weights: list[float] = []
    told = case.ask(left_of(case, kept), fill)  # (part,), all at once, before captum comes to it

    def parts(*_: Any, **__: Any) -> Iterator[Tensor]:
        yield from kept[:, None].long()

    def weighed(*given: Any, **more: Any) -> float:
        weights.append(similarity(*given, **more))
        return weights[-1]

    explainer = captum.Lime(lambda _: told, interpretable_model=linear, similarity_func=weighed, perturb_func=parts)
    whole = torch.ones(1, kept.shape[1])
    with _OwnNumbers():
        found = explainer.attribute(
            whole, n_samples=len(kept), perturbations_per_eval=len(kept), return_input_shape=False
        )
    scores[real.cpu()] = found.flatten().double().cpu()
    with torch.no_grad():
        predicted = linear(kept.float()).flatten().double()
    explained = _explained(told.double().cpu(), predicted, torch.tensor(weights, dtype=torch.float64))
    return Surrogate(scores, explained, too_few(*kept.shape))


class _OwnNumbers(TorchFunctionMode):
    """Gives a generator of its own to what captum's fit draws from torch's global one (a loader's seed, weights that it
    then replaces).
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        own = {"generator": torch.Generator()} if "generator" in kwargs else {}
        return function(*args, **(kwargs | own))


def _explained(answers: Tensor, predicted: Tensor, weights: Tensor) -> float:
    """The weighted R^2; one where the answers are all the same, but for the fit's single precision."""
    share = weights / weights.sum()
    spread = share @ (answers - share @ answers) ** 2
    missed = share @ (answers - predicted) ** 2
    return (1 - missed / spread).item() if spread > 1e-12 * (share @ answers**2) else 1.0


def too_few(samples: int, units: int) -> tuple[str, ...]:
    """What to say where the fit has hardly more answers than unknowns."""
    if samples >= min(2**units, 2 * (units + 1)):
        return ()
    return (f"{samples} samples are few for {units} units: another seed would give other scores. Raise samples.",)
