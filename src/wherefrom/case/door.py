"""The one place that resolves an input and a target to the model, the encoding and the targets to explain.

An input is a text, a text and its pair, or the messages of a chat; several of them come in a list.

Most targets are components of the model's answer to the text as it is. A whole output is not: what a model with an
encoder and a decoder writes, or a continuation of several tokens. For it the model is bound to the tokens of the
output, which are appended to the text, and every one of them is a component of the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding, check_decoded, check_turns
from wherefrom.core.labels import is_blank
from wherefrom.core.target import SavedTarget, Target, joint_probability
from wherefrom.core.units import Level, Span, Turn
from wherefrom.errors import BadOption, WrongModel
from wherefrom.model.generating import MOST_TOKENS, compared_tokens, continued, generate, tokens_of
from wherefrom.model.hiding import fill_token
from wherefrom.model.network import inputs_of
from wherefrom.model.reading import read_chat, read_turns, token_ids
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.model.tasks.next_token import NextToken
from wherefrom.model.tasks.seq2seq import Seq2Seq, with_decoder_tokens
from wherefrom.model.tasks.task import TargetSpec, has_classes, two_of
from wherefrom.model.text_model import PassCount, TextModel


def several_inputs(inputs: Any) -> list[Any] | None:
    """The inputs of a list, a generator or a column; None where it is one text, pair or chat. A pair may be a list of
    two texts there.
    """
    if isinstance(inputs, str | tuple) or is_chat(inputs):
        return None
    if isinstance(inputs, bytes | Mapping | Set) or hasattr(inputs, "columns") or not isinstance(inputs, Iterable):
        raise BadOption(
            "A text is a str, or a (text, pair) tuple of two str; several of them come in a list, a generator, a pandas"
            f" Series or a numpy array, not in a {type(inputs).__name__}."
        )
    listed = [item.tolist() if hasattr(item, "tolist") else item for item in inputs]
    return [tuple(item) if isinstance(item, list) and not is_chat(item) else item for item in listed]


def is_chat(value: Any) -> bool:
    """Whether a value is the messages of one chat: a list whose entries have roles, and are no texts or chats."""
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Mapping)


def read_input(model: TextModel, value: Any, level: Level = "token") -> Encoding:
    """A text, a pair or a chat as the model reads it. Raises on anything else."""
    parts = (value,) if isinstance(value, str) else value
    if is_chat(parts):
        return _read_messages(model, parts)
    if not (isinstance(parts, tuple) and len(parts) in (1, 2) and all(isinstance(part, str) for part in parts)):
        kind = "" if isinstance(parts, tuple) else f", not {type(parts).__name__}"
        raise BadOption(
            f"A text is a str, or a (text, pair) tuple of two str{kind}; a chat is a list of messages, each with a role"
            " and a content; several of them come in a list."
        )
    if level == "turn":
        check_turns(())
    return model.encode(*parts)


def _read_messages(model: TextModel, messages: Any) -> Encoding:
    if isinstance(model.task, Seq2Seq):
        raise BadOption(
            "A model with an encoder and a decoder reads one text: give a str, and no pair or messages of a chat."
        )
    if not isinstance(model.task, NextToken):
        raise WrongModel(
            f"Only a causal language model reads the messages of a chat; this one was made for {model.task.name}."
        )
    return _checked_chat(model, read_chat(model.reading, messages))


def _checked_chat(model: TextModel, encoding: Encoding) -> Encoding:
    limit = model.reading.limit
    if limit is not None and len(encoding) > limit:
        raise BadOption(
            f"The chat has {len(encoding)} tokens, the model reads {limit}: leave out or shorten some of its messages."
        )
    return encoding


def continued_chat(model: TextModel, encoding: Encoding, begun: str) -> Encoding:
    """A chat with the beginning of the model's answer, which is one more turn."""
    start = len(encoding.text)
    turns = (*encoding.turns, ("assistant", start, start + len(begun)))
    return _checked_chat(model, read_turns(model.reading, encoding.text + begun, turns))


def read_again(model: TextModel, text: str, pair: str | None = None, turns: Sequence[Turn] = ()) -> Encoding:
    """The text of an explanation, which may be a chat as its template rendered it."""
    if turns:
        return read_turns(model.reading, text, turns)
    return model.encode(text) if pair is None else model.encode(text, pair)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is explained: a model, a text as it reads it, and a target."""

    model: TextModel  # bound to the output, where the target is a whole output
    encoding: Encoding  # with that output at its end
    target: TargetSpec  # None where the model is bound to the output, and for what it predicts

    def targets(self, logits: Tensor, encoding: Encoding | None = None) -> Sequence[Target]:
        """The components of the target. logits: of the text, or of another one, whose encoding is then given."""
        return self.model.task.targets(self.model, self.target, logits, encoding or self.encoding)

    def extended(self, encoding: Encoding) -> Encoding:
        """Another text for the same model: with the output at its end, where the model is bound to one."""
        return with_decoder_tokens(self.model, encoding, _bound_tokens(self.model))


def subject_of(model: TextModel, encoding: Encoding, spec: TargetSpec, most: int = MOST_TOKENS) -> Subject:
    """What is explained about a text. An output that is not given is generated, of at most so many tokens."""
    spec = check_target(model, spec)
    if not is_output(model, spec):
        return Subject(model, encoding, spec)
    first, other = _outputs(spec)
    with torch.inference_mode(False):
        ids = generate(model, encoding, most) if first is None else tokens_of(model, encoding, first)
        bound, longer = continued(model, encoding, ids, compared_tokens(model, encoding, ids, other))
    return Subject(bound, longer, None)


def saved_subject(model: TextModel, encoding: Encoding, saved: Sequence[Sequence[SavedTarget]]) -> Subject:
    """What saved explanations of one text explain: the model bound to their output, or as it is.

    saved: the target components of each explanation.
    """
    steps = list(saved[0])
    unbound = isinstance(model.task, NextToken | Seq2Seq) and not _bound_tokens(model)
    if not unbound or not steps or any(target.step is None for target in steps):
        return Subject(model, encoding, None)
    if not isinstance(model.task, Seq2Seq) and not any(len(components) > 1 for components in saved):
        return Subject(model, encoding, None)
    if any(list(other) != steps for other in saved):
        raise BadOption("These explanations are of different outputs: evaluate them one by one.")
    words = len(model.reading.tokenizer)
    if not all(has_classes(target, words) for target in steps):
        raise BadOption("The explanation is of tokens that this model does not have. Was another model explained?")
    bound = continued(model, encoding, [target.index for target in steps], [target.versus for target in steps])
    return Subject(*bound, None)


def is_output(model: TextModel, spec: TargetSpec) -> bool:
    """Whether a target is a whole output: of a model with an encoder and a decoder it always is; of a causal language
    model where it is a continuation of more than one token, or two such, one rather than the other.
    """
    if _bound_tokens(model):
        return False  # the model is bound to one already
    if isinstance(model.task, Seq2Seq):
        return True
    if not isinstance(model.task, NextToken):
        return False
    if isinstance(spec, tuple):
        return all(isinstance(part, str) for part in spec) and any(is_output(model, part) for part in spec)
    if not isinstance(spec, str) or (is_blank(spec) and not spec.isspace()):  # ↵ is how views call a line break
        return False
    single = (token_ids(model.reading, text) for text in (spec, f" {spec.strip()}"))
    return spec not in model.reading.tokenizer.get_vocab() and all(len(ids) > 1 for ids in single)


def check_target(model: TextModel, spec: object) -> TargetSpec:
    """A target as plain text and numbers; raises on what cannot be explained, before anything runs."""
    target = plain_target(spec)
    if is_output(model, target):
        _outputs(target)
    else:
        model.task.fixed_target(model, target)
    return target


def plain_target(spec: object) -> TargetSpec:
    """A target as plain text and numbers, which numpy and torch have types of their own for."""
    return two_of(tuple(map(_plain_part, spec))) if isinstance(spec, tuple) else _plain_part(spec)


def _plain_part(spec: Any) -> str | int | None:
    if getattr(spec, "shape", None) == ():
        spec = spec.item()
    if isinstance(spec, str):
        check_decoded(spec)
        return str(spec)
    if spec is None or (isinstance(spec, int) and not isinstance(spec, bool)):
        return spec
    raise BadOption(
        "A target is given by its name or its whole number, or as two of these, one rather than the other;"
        f" {spec!r:.80} is {type(spec).__name__}. Several targets are given in a list."
    )


@torch.no_grad()
def output_without(
    model: TextModel, prompt: Encoding, hidden: Sequence[Span], fill: str, most: int = MOST_TOKENS
) -> tuple[str, float]:
    """What the model writes of a text without these characters, and how likely that is.

    fill: "delete", or the name of the token that replaces those that are hidden.
    """
    gone = [
        part >= 0 and any(a < end and start < b for a, b in hidden)
        for (start, end), part in zip(prompt.offsets, prompt.segment, strict=True)
    ]
    kept = [place for place, away in enumerate(gone) if not (away and fill == "delete")]
    filler = None if fill == "delete" else fill_token(model, fill)
    ids = [token if filler is None or not away else filler for token, away in zip(prompt.input_ids, gone, strict=True)]
    rest = replace(prompt.part(kept), input_ids=tuple(ids[place] for place in kept), spans=())
    subject = subject_of(model, rest, None, most)
    logits = subject.model.run(inputs_of(subject.model.network, [subject.encoding]), PassCount())
    targets = subject.targets(logits[0])
    return targets[0].label, joint_probability(targets, logits).item()


def _bound_tokens(model: TextModel) -> tuple[int, ...]:
    """The tokens of the output that a model is bound to; none, mostly."""
    return model.task.tokens if isinstance(model.task, Continuation | Seq2Seq) else ()


def _outputs(spec: TargetSpec) -> tuple[str | None, str | None]:
    """An output, and what it is compared with."""
    both = spec if isinstance(spec, tuple) else (spec, None)
    first, other = both if len(both) == 2 else (0, 0)
    texts = all(part is None or isinstance(part, str) for part in (first, other))
    if not texts or (other is not None and first is None):
        raise BadOption(f"An output is given as text, or two as one rather than the other, not as {spec!r}.")
    return (None if first is None else str(first)), (None if other is None else str(other))
