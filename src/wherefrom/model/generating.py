"""What a causal language model goes on with: prompts, chats, continuations, and greedy generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption, EmptyText, WrongModel
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.model.tasks.next_token import NextToken
from wherefrom.model.text_model import TextModel

ChatMessage = Mapping[str, str]  # role and content
Turn = tuple[str, int, int]  # a role, and the characters of what it says


def read_prompt(model: TextModel, prompt: str | Sequence[ChatMessage]) -> tuple[Encoding, tuple[Turn, ...]]:
    """The prompt as the model reads it; of a chat also who says what, where the tokens of the template are special."""
    if not isinstance(model.task, NextToken):
        raise WrongModel(f"Only a causal language model goes on with a text; this one was made for {model.task.name}.")
    if isinstance(prompt, str):
        return model.encode(prompt), ()
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
    """A continuation as tokens, with a space in front where the prompt has none at its end."""
    glued = continuation[:1].isspace() or prompt.text[-1:].isspace()
    ids = model.tokenizer(continuation if glued else f" {continuation}", add_special_tokens=False)["input_ids"]
    if not ids:
        raise EmptyText("The continuation is empty: give some text, or leave it out for what the model generates.")
    return tuple(ids)


def several_tokens(model: TextModel, spec: Any) -> bool:
    """Whether a target is a continuation of more than one token, which only a causal language model can have."""
    if not isinstance(spec, str) or not isinstance(model.task, NextToken):
        return False
    single = (model.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (spec, f" {spec.strip()}"))
    return spec not in model.tokenizer.get_vocab() and all(len(ids) > 1 for ids in single)


@torch.no_grad()
def generate(model: TextModel, prompt: Encoding, most: int) -> tuple[int, ...]:
    """The likeliest token again and again, until the text ends or there are so many."""
    if most < 1:
        raise BadOption(f"At least one token must be generated, not {most}.")
    model.check_mode()
    ends = _ends(model)
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


def _ends(model: TextModel) -> set[int]:
    given = getattr(getattr(model.network, "generation_config", None), "eos_token_id", None)
    listed = given if isinstance(given, list) else [given, model.tokenizer.eos_token_id]
    return {int(one) for one in listed if one is not None}


def continued(
    model: TextModel, prompt: Encoding, tokens: Sequence[int], versus: Sequence[int | None]
) -> tuple[TextModel, Encoding]:
    """The model asked about these tokens, and the prompt with them behind it; they are never hidden."""
    length = len(prompt) + len(tokens)
    if model.limit is not None and length > model.limit:
        raise BadOption(f"Prompt and continuation have {length} tokens; the model reads {model.limit}.")
    types, count = prompt.token_type_ids, len(tokens)
    longer = replace(
        prompt,
        tokens=(*prompt.tokens, *model.tokenizer.convert_ids_to_tokens(list(tokens))),
        input_ids=(*prompt.input_ids, *tokens),
        token_type_ids=None if types is None else (*types, *[types[-1]] * count),
        offsets=(*prompt.offsets, *[(0, 0)] * count),
        segment=(*prompt.segment, *[-1] * count),
    )
    return replace(model, task=Continuation(tokens=tuple(tokens), versus=tuple(versus))), longer


def written(model: TextModel, token: int) -> str:
    """A token as it is written, with the space in front of it."""
    return str(model.tokenizer.decode([token])) or str(model.tokenizer.convert_ids_to_tokens(token))
