"""What a causal language model goes on with, or what a model with an encoder and a decoder makes of a text: prompts,
chats, outputs, and greedy generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption, EmptyText, WrongModel
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.model.tasks.next_token import NextToken
from wherefrom.model.tasks.seq2seq import Seq2Seq, with_decoder_tokens
from wherefrom.model.text_model import TextModel

ChatMessage = Mapping[str, str]  # role and content
Turn = tuple[str, int, int]  # a role, and the characters of what it says
MOST_TOKENS = 20  # are generated, unless a caller says how many


def read_prompt(model: TextModel, prompt: str | Sequence[ChatMessage]) -> tuple[Encoding, tuple[Turn, ...]]:
    """The prompt as the model reads it; of a chat also who says what, where the tokens of the template are special."""
    if not isinstance(model.task, NextToken | Seq2Seq):
        raise WrongModel(
            "Only a causal language model, or one with an encoder and a decoder, generates text; this one was made for"
            f" {model.task.name}."
        )
    if isinstance(prompt, str):
        return model.encode(prompt), ()
    if isinstance(model.task, Seq2Seq):
        raise BadOption(
            "A model with an encoder and a decoder reads one text: give a str, and no pair or messages of a chat."
        )
    messages = [dict(message) for message in prompt]
    if not messages or any({"role", "content"} - set(message) for message in messages):
        raise BadOption("A prompt is a str, or a list of messages, each with a role and a content.")
    if not model.tokenizer.chat_template:
        raise BadOption(
            "The tokenizer has no chat template, so that it cannot read messages: give the prompt as a str."
        )
    text = str(model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    turns, reached = [], 0
    for message in messages:
        said = message["content"].strip()
        start = text.find(said, reached)
        if not said or start < 0:
            raise BadOption(f"The chat template does not show what {message['role']!r} says as it was given.")
        reached = start + len(said)
        turns.append((message["role"], start, reached))
    return with_turns(model, text, tuple(turns)), tuple(turns)


def with_turns(model: TextModel, text: str, turns: Sequence[Turn]) -> Encoding:
    """The rendered chat, tokenised without what a tokenizer adds to a text, because the template brought that."""
    read = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    offsets = tuple((int(start), int(end)) for start, end in read["offset_mapping"])
    inside = [any(a < end and start < b and start < end for _, a, b in turns) for start, end in offsets]
    if not any(inside):
        raise EmptyText("The tokenizer finds nothing to read in what is said.")
    ids = tuple(read["input_ids"])
    types = read.get("token_type_ids")
    return Encoding(
        text=text,
        pair=None,
        tokens=tuple(model.tokenizer.convert_ids_to_tokens(list(ids))),
        input_ids=ids,
        token_type_ids=None if types is None else tuple(types),
        offsets=offsets,
        segment=tuple(0 if one else -1 for one in inside),
    )


def tokens_of(model: TextModel, prompt: Encoding, continuation: str) -> tuple[int, ...]:
    """A continuation as tokens, with a space in front where the prompt has none at its end. The output of a model with
    an encoder and a decoder begins anew.
    """
    if isinstance(model.task, Seq2Seq):
        ids = model.tokenizer(text_target=continuation, add_special_tokens=False)["input_ids"]
        if not ids:
            raise EmptyText("The output is empty: give some text, or leave it out for what the model generates.")
        return tuple(ids)
    glued = continuation[:1].isspace() or prompt.text[-1:].isspace()
    ids = model.tokenizer(continuation if glued else f" {continuation}", add_special_tokens=False)["input_ids"]
    if not ids:
        raise EmptyText("The continuation is empty: give some text, or leave it out for what the model generates.")
    return tuple(ids)


def compared_tokens(model: TextModel, prompt: Encoding, ids: Sequence[int], other: str | None) -> list[int | None]:
    """The token at the same place of another output; None where that is the same, or has ended."""
    rest = () if other is None else tokens_of(model, prompt, other)
    pairs = zip(ids, [*rest, *[None] * len(ids)], strict=False)
    return [None if b is None or a == b else b for a, b in pairs]


@torch.no_grad()
def generate(model: TextModel, prompt: Encoding, most: int) -> tuple[int, ...]:
    """The likeliest token again and again, until the text ends or there are so many."""
    if most < 1:
        raise BadOption(f"At least one token must be generated, not {most}.")
    model.check_mode()
    ends = _ends(model)
    if isinstance(model.task, Seq2Seq):
        return _output(model, prompt, most, ends)
    ids = torch.tensor([prompt.input_ids], device=model.device)
    inputs: dict[str, Any] = {"input_ids": ids}
    found: list[int] = []
    room = most if model.limit is None else min(most, model.limit - len(prompt))
    while len(found) < room:
        output = model.network(**inputs, use_cache=True)
        token = int(output.logits[0, -1].argmax())
        if token in ends and found:
            break
        found.append(token)
        step = torch.tensor([[token]], device=model.device)
        ids = torch.cat([ids, step], 1)
        cache = getattr(output, "past_key_values", None)
        inputs = {"input_ids": ids} if cache is None else {"input_ids": step, "past_key_values": cache}
    if not found:
        raise BadOption(f"The prompt has {len(prompt)} tokens, as many as the model reads: there is no room to go on.")
    return tuple(found)


def _output(model: TextModel, prompt: Encoding, most: int, ends: set[int]) -> tuple[int, ...]:
    """The likeliest output, token by token: the source is read once."""
    inputs = model.batch([prompt])
    call = dict(model.task.call(model, inputs, None).arguments)
    found: list[int] = []
    begun = call["decoder_input_ids"].shape[1]
    room = most if model.limit is None else min(most, model.limit - begun)
    never = _never(model)
    while len(found) < room:
        output = model.network(**call)
        logits = output.logits[0, -1]
        logits[list(never)] = -torch.inf
        token = int(logits.argmax())
        if token in ends and found:
            break
        found.append(token)
        step = torch.tensor([[token]], device=model.device)
        call["decoder_input_ids"] = torch.cat([call["decoder_input_ids"], step], 1)
        call.pop("input_ids", None)
        call["encoder_outputs"] = (output.encoder_last_hidden_state,)
    return tuple(found)


def _never(model: TextModel) -> set[int]:
    """Tokens that the model's own settings forbid, as Marian's padding is."""
    settings = getattr(model.network, "generation_config", None)
    single = [one[0] for one in getattr(settings, "bad_words_ids", None) or () if len(one) == 1]
    return {int(one) for one in (*single, *(getattr(settings, "suppress_tokens", None) or ()))}


def _ends(model: TextModel) -> set[int]:
    given = getattr(getattr(model.network, "generation_config", None), "eos_token_id", None)
    listed = given if isinstance(given, list) else [given, model.tokenizer.eos_token_id]
    return {int(one) for one in listed if one is not None}


def continued(
    model: TextModel, prompt: Encoding, tokens: Sequence[int], versus: Sequence[int | None]
) -> tuple[TextModel, Encoding]:
    """The model asked about these tokens, and the prompt with them behind it; they are never hidden."""
    task, longer = model.task, with_decoder_tokens(model, prompt, tuple(tokens))
    length = task.decoder_length(model) + len(tokens) if isinstance(task, Seq2Seq) else len(longer)
    if model.limit is not None and length > model.limit:
        read = "The output has" if isinstance(task, Seq2Seq) else "Prompt and continuation have"
        raise BadOption(f"{read} {length} tokens; the model reads {model.limit}.")
    label = _label(model, tokens, versus)
    if isinstance(task, Seq2Seq):
        return model.asked_by(task.asked_about(tuple(tokens), tuple(versus), label, tuple(_never(model)))), longer
    return model.asked_by(Continuation(tokens=tuple(tokens), versus=tuple(versus), label=label)), longer


def _label(model: TextModel, tokens: Sequence[int], versus: Sequence[int | None]) -> str:
    """The output as it is written; rather than the other, where there is one."""
    own = "".join(written(model, token) for token in tokens).strip()
    if not any(one is not None for one in versus):
        return own
    pairs = zip(tokens, versus, strict=True)
    return f"{own} rather than {''.join(written(model, a if b is None else b) for a, b in pairs).strip()}"


def unbound(model: TextModel) -> TextModel:
    """The model of a continuation, asked about the next token again."""
    return model.asked_by(NextToken())


def written(model: TextModel, token: int) -> str:
    """A token as it is written, with the space in front of it."""
    piece = str(model.tokenizer.convert_ids_to_tokens(token))
    text = str(model.tokenizer.decode([token])) or piece
    # Decoded alone, a token of SentencePiece loses the space in front of it.
    return f" {text}" if piece.startswith("\u2581") and not text.startswith((" ", "\u2581")) else text
