"""What the two kinds of language model share: their targets are tokens of the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.labels import SPELLINGS, blank_label, is_blank
from wherefrom.core.target import Target
from wherefrom.errors import NotDefined, UnknownName
from wherefrom.model.reading import token_ids
from wherefrom.model.tasks.task import TargetSpec, Task, rather_than, two_of
from wherefrom.registry import Reference

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

SHOWN = 5  # of the likeliest tokens, in views


class TokenTask(Task):
    """A task whose targets are tokens; where they are predicted is the task's own matter."""

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        rows = torch.arange(len(inputs["input_ids"]), device=output.logits.device)
        at_positions: Tensor = output.logits[rows, positions]
        return at_positions

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        if spec is None:
            return None
        if isinstance(spec, tuple):
            return rather_than(*(token_target(model, part) for part in two_of(spec)))
        return token_target(model, spec)

    def predicted(self, model: TextModel, logits: Tensor, _encoding: Encoding) -> Target:
        return token_target(model, int(logits.argmax()))

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        raise NotDefined("a language model's tokens are too many to compare with each")

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        del target
        likely = logits.double().softmax(-1).topk(min(SHOWN, logits.shape[-1]))
        chances = zip(likely.values.tolist(), likely.indices.tolist(), strict=True)
        by_token: dict[str, float] = {}
        for chance, token in chances:
            name = _name_of(model, token)
            by_token[f"{name} (token {token})" if name in by_token else name] = chance
        return by_token

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        del model, logits, encoding, targets
        return ()

    def offers(self, model: TextModel) -> frozenset[Reference]:
        del model
        return frozenset()


def token_target(model: TextModel, spec: str | int) -> Target:
    """A token of the vocabulary, by its text or its number."""
    if isinstance(spec, int):
        if not 0 <= spec < len(model.reading.tokenizer):
            raise UnknownName(f"There is no token {spec}: the vocabulary has {len(model.reading.tokenizer)}.")
        return Target(spec, _name_of(model, spec), generated=model.task.generates)
    token = _token_of(model, spec)
    # " Paris" is the token that is predicted as "Paris": one token has one name, in whichever way it was asked for.
    name = _name_of(model, token) if is_blank(spec) or _text_of(model, token) == spec.strip() else spec
    return Target(token, name, generated=model.task.generates)


def _token_of(model: TextModel, word: str) -> int:
    """A word as one token of the vocabulary, with a space before it if the vocabulary distinguishes the two; a
    punctuation mark without one, unless the text has one before it.
    """
    if is_blank(word):
        return _blank_token(model, word)
    listed, plain = _listed(model, word), word.strip()
    if listed is not None and not (word[:1].isspace() or plain[:1].isalnum()):
        return listed
    for text in (f" {plain}", word):
        ids = token_ids(model.reading, text)
        if len(ids) == 1 and ids[0] != model.reading.tokenizer.unk_token_id:
            return int(ids[0])
    if listed is not None:
        return listed
    raise UnknownName(f"{word!r} is not one token of this model's vocabulary; only single tokens can be explained.")


def _blank_token(model: TextModel, word: str) -> int:
    """A token of white space, by itself or by the signs for it, as a vocabulary may write it."""
    found = (_listed(model, blank_label(word).translate(spelling)) for spelling in SPELLINGS)
    token = next((token for token in found if token is not None), None)
    if token is None:
        raise UnknownName(f"{word!r} is not one token of this model's vocabulary; only single tokens can be explained.")
    return token


def _listed(model: TextModel, word: str) -> int | None:
    """The token that the vocabulary writes like this. The whole vocabulary as a dictionary would be made anew each
    time, which takes longer than a pass through a small model.
    """
    tokenizer = model.reading.tokenizer
    token: Any = tokenizer.convert_tokens_to_ids(word)
    return None if token is None or (token == tokenizer.unk_token_id and word != tokenizer.unk_token) else int(token)


def _name_of(model: TextModel, token: int) -> str:
    """A token's text. Where asking for that text gives another token, which differs by the space before it, that is
    said too: "Paris" is the word, and "Paris (no space before)" continues the word before it.
    """
    text = _text_of(model, token)
    try:
        meaning = _token_of(model, text)
    except UnknownName:
        return text
    if meaning == token or _text_of(model, meaning) != text:
        return text
    twice = str(model.reading.tokenizer.decode([token, token])).strip()
    return f"{text} ({'a' if twice != text + text else 'no'} space before)"


def _text_of(model: TextModel, token: int) -> str:
    """Without spaces around it; white space alone as a sign for it; where it is no whole character, as the vocabulary
    writes it.
    """
    decoded = str(model.reading.tokenizer.decode([token]))
    if decoded.strip() and "\ufffd" not in decoded:
        return decoded.strip()
    piece = str(model.reading.tokenizer.convert_ids_to_tokens(token))
    return blank_label(piece) if is_blank(blank_label(piece)) else piece
