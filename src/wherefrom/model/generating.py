"""How a causal language model continues, or what a model with an encoder and a decoder makes of a text: outputs,
and greedy generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption, WrongModel
from wherefrom.model.network import NetworkCall, inputs_of
from wherefrom.model.reading import continuation_ids, output_ids
from wherefrom.model.tasks.continuation import Continuation, ContinuationByPrefix
from wherefrom.model.tasks.next_token import NextToken
from wherefrom.model.tasks.seq2seq import Seq2Seq, with_decoder_tokens
from wherefrom.model.tasks.served import ServedContinuation, ServedText
from wherefrom.model.text_model import TextModel

MOST_TOKENS = 20  # are generated, unless a caller says how many


def check_generates(model: TextModel) -> None:
    """Raise where a model generates no text."""
    if not isinstance(model.task, NextToken | Seq2Seq):
        raise WrongModel(
            "Only a causal language model, or one with an encoder and a decoder, generates text; this one was made for"
            f" {model.task.name}."
        )


def tokens_of(model: TextModel, prompt: Encoding, text: str) -> tuple[int, ...]:
    """A continuation, or the output of a model with an encoder and a decoder, as tokens."""
    if not isinstance(text, str):
        raise BadOption(f"A continuation is given as text, not as {type(text).__name__}.")
    if isinstance(model.task, Seq2Seq):
        return output_ids(model.reading, text)
    return continuation_ids(model.reading, prompt, text)


def compared_tokens(model: TextModel, prompt: Encoding, ids: Sequence[int], other: str | None) -> list[int | None]:
    """The token at the same place of another output; None where that is the same, or has ended."""
    rest = () if other is None else tokens_of(model, prompt, other)
    pairs = zip(ids, [*rest, *[None] * len(ids)], strict=False)
    return [None if b is None or a == b else b for a, b in pairs]


@torch.no_grad()
def generate(model: TextModel, prompt: Encoding, most: int, *, may_end: bool = False) -> tuple[int, ...]:
    """The likeliest token again and again, until the text ends or there are so many.

    may_end: whether the text may end at once, so that there is no token; else the end itself is the first one.
    """
    if isinstance(most, bool) or not hasattr(most, "__index__") or most < 1:
        raise BadOption(f"At least one token must be generated, and a whole number of them, not {most!r:.80}.")
    if isinstance(model.task, ServedText):
        return model.task.generate(model, prompt, most, may_end=may_end)
    ends = _ends(model)
    if isinstance(model.task, Seq2Seq):
        return _output(model, prompt, most, ends)
    ids = torch.tensor([prompt.input_ids], device=model.network.device)
    inputs: dict[str, Any] = {"input_ids": ids}
    tokens: list[int] = []
    room = most if model.reading.limit is None else min(most, model.reading.limit - len(prompt))
    while len(tokens) < room:
        output, _ = model.network.run(NetworkCall(inputs | {"use_cache": True}, ()))
        token = int(output.logits[0, -1].argmax())
        if token in ends and (tokens or may_end):
            return tuple(tokens)
        tokens.append(token)
        step = torch.tensor([[token]], device=model.network.device)
        ids = torch.cat([ids, step], 1)
        alike = model.network.facts.lengths.alike(ids.shape[1] - 1, ids.shape[1])
        cache = getattr(output, "past_key_values", None) if alike else None
        inputs = {"input_ids": ids} if cache is None else {"input_ids": step, "past_key_values": cache}
    if not tokens:
        raise BadOption(f"The prompt has {len(prompt)} tokens, as many as the model reads: there is no room to go on.")
    return tuple(tokens)


def _output(model: TextModel, prompt: Encoding, most: int, ends: set[int]) -> tuple[int, ...]:
    """The likeliest output, token by token: the source is read once."""
    inputs = inputs_of(model.network, [prompt])
    call = dict(model.task.call(model, inputs, None).arguments)
    tokens: list[int] = []
    begun = call["decoder_input_ids"].shape[1]
    room = most if model.reading.limit is None else min(most, model.reading.limit - begun)
    never = _never(model)
    while len(tokens) < room:
        output, _ = model.network.run(NetworkCall(call, ()))
        logits = output.logits[0, -1]
        logits[list(never)] = -torch.inf
        token = int(logits.argmax())
        if token in ends and tokens:
            break
        tokens.append(token)
        step = torch.tensor([[token]], device=model.network.device)
        call["decoder_input_ids"] = torch.cat([call["decoder_input_ids"], step], 1)
        call.pop("input_ids", None)
        call["encoder_outputs"] = (output.encoder_last_hidden_state,)
    return tuple(tokens)


def _never(model: TextModel) -> set[int]:
    """Tokens that the model's own settings forbid, as Marian's padding is."""
    settings = getattr(model.network.module, "generation_config", None)
    single = [entry[0] for entry in getattr(settings, "bad_words_ids", None) or () if len(entry) == 1]
    return {int(entry) for entry in (*single, *(getattr(settings, "suppress_tokens", None) or ()))}


def _ends(model: TextModel) -> set[int]:
    ids = getattr(getattr(model.network.module, "generation_config", None), "eos_token_id", None)
    listed = ids if isinstance(ids, list) else [ids, model.reading.tokenizer.eos_token_id]
    return {int(token) for token in listed if token is not None}


def continued(
    model: TextModel, prompt: Encoding, tokens: Sequence[int], versus: Sequence[int | None]
) -> tuple[TextModel, Encoding]:
    """The model bound to these tokens, and the prompt followed by them; they are never hidden."""
    task, longer = model.task, with_decoder_tokens(model, prompt, tuple(tokens))
    length = task.decoder_length(model) + len(tokens) if isinstance(task, Seq2Seq) else len(longer)
    if model.reading.limit is not None and length > model.reading.limit:
        read = "The output has" if isinstance(task, Seq2Seq) else "Prompt and continuation have"
        raise BadOption(f"{read} {length} tokens; the model reads {model.reading.limit}.")
    label = _label(model, tokens, versus)
    if isinstance(task, Seq2Seq):
        return replace(model, task=task.asked_about(tuple(tokens), tuple(versus), label, tuple(_never(model)))), longer
    kind = _continuation(model, len(prompt), len(longer))
    return replace(model, task=kind(tokens=tuple(tokens), versus=tuple(versus), label=label)), longer


def _continuation(model: TextModel, prompt: int, length: int) -> type[Continuation]:
    """How a continuation is read: at once by a causal model, else a prefix at a time. Numbers of tokens, without and
    with the continuation.
    """
    if isinstance(model.task, ServedText):
        return ServedContinuation
    at_once = model.causal and model.network.facts.lengths.alike(prompt, length)
    return Continuation if at_once else ContinuationByPrefix


def _label(model: TextModel, tokens: Sequence[int], versus: Sequence[int | None]) -> str:
    """The output as it is written; rather than the other, where there is one."""
    text = "".join(model.reading.token_text(token) for token in tokens).strip()
    if not any(other is not None for other in versus):
        return text
    pairs = zip(tokens, versus, strict=True)
    return f"{text} rather than {''.join(model.reading.token_text(a if b is None else b) for a, b in pairs).strip()}"


def unbound(model: TextModel) -> TextModel:
    """The model of a continuation, asked about the next token again."""
    assert isinstance(model.task, Continuation)
    return replace(model, task=model.task.unbound())
