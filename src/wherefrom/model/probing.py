"""What only a trial tells about a model: where its decision is read, whether padding changes its answers, what may be
left out of a pass, and whether it continues from a cache.

A trial that fails means no: then the model runs as it is, every row by itself and from its start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from wherefrom.core.encoding import Encoding
from wherefrom.core.family import DecisionPosition
from wherefrom.errors import WrongModel
from wherefrom.model.lengths import ModuleState, has_moving_rope, lengths_of
from wherefrom.model.network import ModuleNetwork, NetworkCall, embedding_table, inputs_of, pad_id, padded_inputs
from wherefrom.model.prefix import Prefix

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

Result = TypeVar("Result")

# Words before the sample of a task, so that rows need odd and even amounts of padding.
LONGER = ("", "Well ", "Well. ", "Well, well ", "Well, well. ", "Well, well, well ")
SHARED = 2  # tokens that rows share in the trial of prefixes


def probed(model: TextModel, network: ModuleNetwork) -> TextModel:
    """The model with the facts about its network."""

    def known(**facts: Any) -> TextModel:
        nonlocal network
        network = network.with_facts(**facts)
        return replace(model, network=network)

    def same_with(**facts: Any) -> bool:
        """Whether the model answers the samples alike with other facts, which leave out what is not read."""
        if model.task.positions(model, inputs_of(network, rows)) is None:
            return False
        short = _logits(replace(model, network=network.with_facts(**facts)), rows)
        return _same_answer(short, _logits(model, rows) if full is None else full)

    state = ModuleState(network.module.modules())
    model = known(
        lengths=lengths_of(network.module),
        takes_cache="past_key_values" in inspect.signature(network.module.forward).parameters,
        no_gradient_through=_quantised_layer(network.module),
    )
    model = known(decision_position=_decision_position(model, network))
    rows = _attempt(lambda: _samples(model)) or []
    full = _attempt(lambda: _logits(model, rows)) if len(rows) > 1 and _may_batch(model, network) else None
    if full is None or not _attempt(partial(_alone_equals_batched, model, network, rows, full)):
        model, rows, full = known(takes_batches=False), rows[:1], None
    head = network.module.get_output_embeddings()
    if head is not None and _attempt(lambda: same_with(vocabulary_head=head)):
        model = known(vocabulary_head=head)
    if network.last_block is not None and _attempt(lambda: same_with(skips_unread=True)):
        model = known(skips_unread=True)
    changing = {*state.changed(), *filter(has_moving_rope, network.module.modules())}
    state.restore()
    return known(changing=tuple(changing))


def _attempt(trial: Callable[[], Result]) -> Result | None:
    """What a trial gives; None where it fails, whatever a model unlike its kind makes of it."""
    try:
        with torch.no_grad():
            return trial()
    except Exception:
        return None


def _quantised_layer(module: nn.Module) -> str | None:
    """The name of a layer that gradients do not pass, such as torch's quantised ones; None where all do."""
    return next((name for name, part in module.named_modules() if ".quantized" in type(part).__module__), None)


def _samples(model: TextModel) -> list[Encoding]:
    """What the task reads, in up to three lengths: the last is the longest, and the others need an odd and an even
    number of padding tokens beside it. Convolutions and pooling show on one of them, though perhaps not on both.
    """
    task = model.task
    sample = task.sample.format(mask=model.reading.tokenizer.mask_token)
    read = [model.encode(f"{words}{sample}", task.sample_pair) for words in LONGER]
    *shorter, longest = sorted(read, key=len)
    by_parity = {(len(longest) - len(row)) % 2: row for row in reversed(shorter) if len(row) < len(longest)}
    return [*sorted(by_parity.values(), key=len), longest]


def _logits(model: TextModel, rows: Sequence[Encoding]) -> Tensor:
    return model.run(inputs_of(model.network, rows), check=False)


def _may_batch(model: TextModel, network: ModuleNetwork) -> bool:
    """Decoders that classify find the last token by the padding id, so that they need one to answer batches."""
    return not model.task.finds_end_by_padding or pad_id(network) is not None


def _alone_equals_batched(model: TextModel, network: ModuleNetwork, rows: Sequence[Encoding], batched: Tensor) -> bool:
    """Whether a text is answered alike alone and beside a longer one. Padding that is masked in the attention may still
    be convolved or pooled with its neighbours, or be read as the last token. Alone means without any padding, even
    where a task makes several rows of a text.
    """
    apart = replace(model, network=network.with_facts(takes_batches=False))
    for row, logits in zip(rows[:-1], batched, strict=False):
        alone, beside = _logits(apart, [row])[0], model.task.own_logits(model, logits, row.input_ids)
        room = max(1e-3, 10 * torch.finfo(alone.dtype).eps)  # half precision rounds differently in another batch
        scale = float(alone[alone.isfinite()].abs().max())
        if not torch.allclose(beside, alone, rtol=room, atol=room * scale):
            return False
    return True


def _decision_position(model: TextModel, network: ModuleNetwork) -> DecisionPosition | None:
    """Where a classification head reads the last hidden states. The family's row says where its heads usually read; a
    model may have another head, so the gradient of its logits at the last hidden states decides.
    """
    try:
        anatomy = network.anatomy
    except WrongModel:
        return None
    expected, last = anatomy.reads, anatomy.blocks[-1].output
    if expected == "every" or not model.task.position_depends_on_family:
        return expected
    hidden: list[Tensor] = []

    def cut_off(_: nn.Module, __: Any, output: Any) -> Any:
        states = (output[0] if isinstance(output, tuple) else output).detach().requires_grad_()
        hidden[:] = [states.transpose(0, 1) if anatomy.family.tokens_first else states]
        return (states, *output[1:]) if isinstance(output, tuple) else states

    handle = last.register_forward_hook(cut_off)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            inputs = inputs_of(network, [model.encode(model.task.sample, model.task.sample_pair)])
            output, _ = network.run(model.task.call(model, inputs, None))
            (slope,) = torch.autograd.grad(output.logits.square().sum(), hidden)
    except Exception:  # whatever a model unlike its family makes of it; methods that look inside it will say so
        return expected
    finally:
        handle.remove()
    read = slope[0].abs().amax(-1).nonzero().flatten().tolist()
    only = [0] if expected == "first" else [slope.shape[1] - 1]
    return expected if read == only else "every"


def shares_prefixes(model: TextModel) -> bool:
    """Whether rows that begin alike may share what the model computes of their beginning: only a trial tells whether a
    model is causal and continues from a cache as it should.
    """
    return _attempt(lambda: _continues_from_cache(model)) is True


def _continues_from_cache(model: TextModel) -> bool:
    network, text = model.network, list(model.encode(model.task.sample).input_ids)
    rows, first_read = [text], torch.zeros(1)
    while int(first_read.min()) <= SHARED:
        rows = [rows[-1] + text, rows[-1] + text + text][: 1 + network.facts.takes_batches]
        inputs = padded_inputs(network, rows, [None])
        read = model.task.first_read(model, inputs)
        if read is None:
            return False
        first_read = read
    # Another word after what is shared: a model that is not causal would have seen it from there.
    inputs["input_ids"][:, SHARED] = (inputs["input_ids"][:, SHARED] + 1) % len(embedding_table(network))
    full = model.run(inputs, check=False)
    short = Prefix.of(model, rows[-1], None).run(model, SHARED, inputs)
    return _same_answer(short, full)


def is_causal(model: TextModel) -> bool:
    """Whether the answer at a position is the same whatever the last token is."""
    return _attempt(lambda: _sees_nothing_later(model)) is True


def _sees_nothing_later(model: TextModel) -> bool:
    network, ids = model.network, list(model.encode(model.task.sample).input_ids)
    others = [*ids[:-1], (ids[-1] + 1) % len(embedding_table(network))]
    logits = [
        network.run(NetworkCall(padded_inputs(network, [row], [None]), ()))[0].logits[0, :-1] for row in (ids, others)
    ]
    return _same_answer(*logits)


def _same_answer(logits: Tensor, expected: Tensor) -> bool:
    return torch.allclose(logits, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))
