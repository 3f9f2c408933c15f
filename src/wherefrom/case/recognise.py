"""A model of an unknown type is tried with the families that are known, and one is accepted only if it proves itself.

The laws have to be true of that very model, on two texts: every block is what its parts give, rebuilt from its
attention and as a sum over tokens; the attention reads what the row's norm gives; recording leaves the answer as it is;
relevance stays the same from block to block, where there are rules for all of its operations; and a word that is hidden
by its vector gives the answer of the word replaced. A row that fails any of them is not used.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from wherefrom.case.case import Case, make_cases
from wherefrom.core.encoding import Encoding
from wherefrom.core.family import Family
from wherefrom.errors import WherefromError
from wherefrom.model.anatomy import counts_experts, dissect
from wherefrom.model.families import is_known
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.network import ModuleNetwork, NetworkCall, inputs_of
from wherefrom.model.probing import probed
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_families

LONGER = "Well, well. "  # before the sample of a task: the second text
# Of the largest number in a block's output. Some families compute their softmax in single precision in any case.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}
ROUGH = 2e-2  # in half precision
CONSERVED = 1e-4  # of the relevance at the output


@dataclass(frozen=True)
class Recognition:
    """A family whose laws are true of a model, and the largest error of rebuilding its blocks."""

    family: Family
    error: float

    @property
    def note(self) -> str:
        return f"Recognised as {self.family.model_types[0]}-like; rebuild error {self.error:.0e}."


_found: dict[Hashable, Recognition | None] = {}  # by the weights, the configuration and the classes of a model


def recognised(model: TextModel) -> TextModel:
    """The model with a known family that proved itself on it; as it is where its type is known or no family does."""
    network = model.network
    if not isinstance(network, ModuleNetwork) or network.facts.family is not None:
        return model
    if is_known(network.module):
        return model
    key = _key(model, network.module)
    found = _found[key] if key in _found else _tried(model, network)
    if key is not None:
        _found[key] = found
    if found is None:
        return model
    fresh = ModuleNetwork(network.module, replace(type(network.facts)(), family=found.family, recognised=found.note))
    return probed(replace(model, network=fresh), fresh)


def _key(model: TextModel, module: nn.Module) -> Hashable:
    """What decides how a model computes; None where one of its modules has a forward pass of its own."""
    modules = list(module.modules())
    if any("forward" in vars(part) for part in modules):
        return None
    return fingerprint(model), frozenset(map(type, modules))


def _tried(model: TextModel, network: ModuleNetwork) -> Recognition | None:
    """The first family whose laws are true."""
    for family in dict.fromkeys(all_families().values()):
        if family.unseen is not None:
            continue
        with suppress(WherefromError, AttributeError, TypeError, ValueError, RuntimeError, IndexError, LookupError):
            error = _proof(model, network, family)
            if error is not None:
                return Recognition(family, error)
    return None


def _proof(model: TextModel, network: ModuleNetwork, family: Family) -> float | None:
    """The error of rebuilding the blocks where all laws are true; None where one is not. Raises where the parts are not
    where the row says, or cannot be put together so.
    """
    anatomy = dissect(network.module, family)
    if bool(family.router) != bool(anatomy.routers) or (counts_experts(network.module.config) and not anatomy.routers):
        return None  # a row without a router takes it for a part of the feed-forward network
    trial = replace(model, network=ModuleNetwork(network.module, replace(network.facts, family=family)))
    room, worst = TOLERANCE.get(network.module.dtype, ROUGH), 0.0
    sample = model.task.sample.format(mask=model.reading.tokenizer.mask_token)
    for text in (sample, f"{LONGER}{sample}"):
        encoding = trial.encode(text, model.task.sample_pair)
        before = _logits(trial, encoding)
        ((_, case),) = [*next(make_cases(trial, [encoding], [None], reads=["gradients"])).items()]
        error = max(case.rebuild_error(), case.parts_error())
        attentions, blocks = len(case.capture.attention), len(case.capture.hidden) - 1
        if not error <= room or attentions != blocks:
            return None
        checks = (
            _close(case.logits, before, room),
            _close(_logits(trial, encoding), before, room),
            _reads_its_norm(trial, encoding, room),
            _conserves(case),
            _hides_as_it_replaces(trial, encoding, room),
        )
        if not all(checks):
            return None
        worst = max(worst, error)
    return worst


@torch.no_grad()
def _logits(model: TextModel, encoding: Encoding) -> Tensor:
    return model.run(inputs_of(model.network, [encoding]), whole=True)[0]


def _close(numbers: Tensor, expected: Tensor, room: float) -> bool:
    finite = expected[expected.isfinite()]
    return numbers.shape == expected.shape and torch.allclose(
        numbers, expected, rtol=10 * room, atol=10 * room * float(finite.abs().max())
    )


def _reads_its_norm(model: TextModel, encoding: Encoding, room: float) -> bool:
    """Whether the attention of every block is given what the row says is its norm."""
    given = list[Tensor]()
    gives = list[Tensor]()

    def keep_input(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        given.append(kwargs.get("hidden_states", tensors[0]).detach())

    def keep_output(_: nn.Module, __: Any, output: Tensor) -> None:
        gives.append(output.detach())

    for block in model.network.anatomy.blocks:
        if block.order == "post" or isinstance(block.attention_norm, nn.Identity):
            continue
        handles = (
            block.attention.register_forward_pre_hook(keep_input, with_kwargs=True),
            block.attention_norm.register_forward_hook(keep_output),
        )
        try:
            _logits(model, encoding)
        finally:
            for handle in handles:
                handle.remove()
        if not given or not gives or not _close(given[0], gives[0], room):
            return False
        given.clear()
        gives.clear()
    return True


def _conserves(case: Case) -> bool:
    """Whether relevance stays the same from block to block; true where an operation has no rule, which methods say."""
    try:
        sums = [part.sum().item() for part in case.relevance("zplus", "blocks", double=True)]
    except WherefromError:
        return True
    return all(abs(one - sums[-1]) <= CONSERVED * max(1.0, abs(sums[-1])) for one in sums)


def _hides_as_it_replaces(model: TextModel, encoding: Encoding, room: float) -> bool:
    """Whether another word's vector in place of a word gives the answer of that other word."""
    network, ids = model.network, inputs_of(model.network, [encoding])["input_ids"]
    real = [place for place, part in enumerate(encoding.segment) if part >= 0]
    first, last = real[0], real[-1]
    other = ids.clone()
    other[0, first] = ids[0, last] if int(ids[0, first]) != int(ids[0, last]) else (ids[0, last] + 1) % 5
    with torch.no_grad():
        swapped = replace(encoding, input_ids=tuple(other[0].tolist()))
        written = inputs_of(network, [encoding])
        by_vector = network.run(NetworkCall(dict(written), ((ids, network.embed(other)),)))[0]
        by_word = network.run(NetworkCall(inputs_of(network, [swapped]), ()))[0]
    names = ("logits", "start_logits", "last_hidden_state")
    return all(
        _close(getattr(by_vector, name), getattr(by_word, name), room)
        for name in names
        if isinstance(getattr(by_vector, name, None), Tensor)
    )
