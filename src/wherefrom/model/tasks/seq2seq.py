"""Models with an encoder and a decoder: which token their output begins with, or all tokens of an output.

The decoder's tokens follow those of the source, in one row: first what every output begins with (the start token,
for some models a language), then, for a continuation, its tokens. They are never hidden. Before the network is called,
each row is taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import GeneratedToken, SavedTarget, Target
from wherefrom.errors import MissingToken, WherefromError, WrongModel
from wherefrom.model.network import NetworkCall
from wherefrom.model.tasks.continuation import (
    decided_output,
    kept_logits,
    no_other_output,
    output_notes,
    restored_output,
    targets_of_steps,
    whole_output,
)
from wherefrom.model.tasks.task import TargetSpec
from wherefrom.model.tasks.tokens import TokenTask
from wherefrom.registry import register_task

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel


@dataclass(frozen=True)
class Seq2Seq(TokenTask):
    """Asked alone, about the first token of the output; bound to the `tokens` of an output, about each of them."""

    name = "seq2seq"
    auto = "AutoModelForSeq2SeqLM"
    endings = ("ForConditionalGeneration", "MTModel")
    reads_pairs = False
    two_stacks = True
    generates = True
    tokens: tuple[int, ...] = ()
    versus: tuple[int | None, ...] = ()
    label: str = ""
    never: tuple[int, ...] = ()  # tokens that the model's own settings forbid, so that it never decides for them

    @property
    def bound(self) -> str:
        return repr((self.tokens, self.versus)) if self.tokens else ""

    def check_text(self, model: TextModel, encoding: Encoding) -> Encoding:
        """The source, followed by the tokens that every output begins with."""
        if not model.network.module.config.is_encoder_decoder:
            raise WrongModel(f"{model.name} generates from a text, but has no encoder and decoder: it is not known.")
        if encoding.pair is not None:
            raise WherefromError(
                "A model with an encoder and a decoder reads one text, so a pair means nothing to it. Write both texts"
                " into one, as the model was trained to read them, and leave --pair out."
            )
        return with_decoder_tokens(model, encoding, output_start(model))

    def call(self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None) -> NetworkCall:
        """Each row taken apart: the source for the encoder, the tokens at its end for the decoder."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        length = self.decoder_length(model)
        sources = mask.sum(-1) - length  # (row,)
        longest = int(sources.max())
        read = torch.arange(longest, device=ids.device) < sources[:, None]  # (row, token)
        source = ids[:, :longest].masked_fill(~read, model.network.module.config.pad_token_id or 0)
        places = sources[:, None] + torch.arange(length, device=ids.device)  # (row, token)
        output = ids.gather(1, places)
        arguments = {
            "input_ids": source,
            "attention_mask": read.to(mask.dtype),
            "decoder_input_ids": output,
            "use_cache": False,
        }
        if embeddings is None:
            return NetworkCall(arguments, ((source, None), (output, None)))
        rows = torch.arange(len(ids), device=ids.device)[:, None]
        return NetworkCall(arguments, ((source, embeddings[:, :longest]), (output, embeddings[rows, places])))

    def decoder_length(self, model: TextModel) -> int:
        """How many tokens at the end of a row are the decoder's."""
        return len(output_start(model)) + len(self.tokens)

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, word), or of a continuation (row, step * 4)"""
        del inputs, positions
        if not self.tokens:
            first: Tensor = output.logits[:, -1]
            return first
        rows, length, _ = output.logits.shape
        places = torch.arange(length - 1 - len(self.tokens), length - 1, device=output.logits.device)
        each = torch.arange(rows, device=output.logits.device)[:, None]
        return kept_logits(output.logits, each, places.expand(rows, -1), self.tokens, self.versus, self.never)

    def step_targets(self, labels: tuple[str, ...], first: int) -> list[GeneratedToken]:
        """The target of every step. first: the position that the first one is read at."""
        return targets_of_steps(self.tokens, self.versus, labels, first)

    def asked_about(
        self, tokens: tuple[int, ...], versus: tuple[int | None, ...], label: str, never: tuple[int, ...]
    ) -> Seq2Seq:
        """The same, asked about these tokens."""
        return replace(self, tokens=tokens, versus=versus, label=label, never=never)

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        if not self.tokens:
            return super().fixed_target(model, spec)
        no_other_output(model, spec)
        return None

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        if not self.tokens:
            return super().targets(model, spec, logits, encoding)
        no_other_output(model, spec)
        return whole_output(self, self.label, encoding)

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        if not self.tokens:
            return super().restored(model, label, saved, logits, encoding)
        return restored_output(self, label, saved, encoding)

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        if not self.tokens:
            return super().predicted(model, logits, encoding)
        return self.targets(model, None, logits, encoding)[0]

    def decided(
        self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]
    ) -> Sequence[Target]:
        if not self.tokens:
            return super().decided(model, logits, encoding, targets)
        return decided_output(logits, targets)

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        return {} if self.tokens else super().probabilities(model, logits, target)

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        del model, logits, encoding
        if self.tokens:
            return output_notes(targets)
        return ("This explains the token that the output begins with; generate_and_explain gives every token of it.",)


def with_decoder_tokens(model: TextModel, encoding: Encoding, tokens: tuple[int, ...]) -> Encoding:
    """The encoding, followed by tokens that the model writes, which are never hidden, ranked or removed."""
    types, count = encoding.token_type_ids, len(tokens)
    return replace(
        encoding,
        tokens=(*encoding.tokens, *model.reading.names(tokens)),
        input_ids=(*encoding.input_ids, *tokens),
        token_type_ids=None if types is None else (*types, *[types[-1]] * count),
        offsets=(*encoding.offsets, *[(0, 0)] * count),
        segment=(*encoding.segment, *[-1] * count),
    )


def output_start(model: TextModel) -> tuple[int, ...]:
    """What every output begins with: the decoder's start token, then the token that is forced after it, if any."""
    settings = (getattr(model.network.module, "generation_config", None), model.network.module.config)

    def set_to(name: str) -> int | None:
        return next((token for place in settings if (token := getattr(place, name, None)) is not None), None)

    start = set_to("decoder_start_token_id")
    start = set_to("bos_token_id") if start is None else start
    if start is None:
        raise MissingToken(
            "The model does not say what its output begins with: set model.generation_config.decoder_start_token_id."
        )
    forced = set_to("forced_bos_token_id")
    return (int(start),) if forced is None else (int(start), int(forced))


register_task(Seq2Seq())
