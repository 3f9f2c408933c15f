"""A model as the rest of the package sees it: what reads texts, what runs, what hides words, and the task it is for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption, ModelFailed, WrongModel
from wherefrom.model import probing
from wherefrom.model.hiding import Hiding, TokenHiding
from wherefrom.model.network import ModuleNetwork, Network, check_mode, inputs_of, pad_id
from wherefrom.model.reading import Reading, TextAndPair, TokenizerReading, limit_of
from wherefrom.model.tasks import TargetSpec, Task, find_task

if TYPE_CHECKING:
    from wherefrom.core.target import Target
    from wherefrom.model.filling import SampledWords


@dataclass
class PassCount:
    """Rows sent through the model, forward and backward."""

    forwards: int = 0
    backwards: int = 0


@dataclass(frozen=True, eq=False)
class TextModel:
    """To explain something else about the same model, take `dataclasses.replace(model, task=...)`."""

    name: str
    task: Task
    reading: Reading
    network: Network
    hiding: Hiding
    # What a regression model's values are measured in; None for the deviation of each text's own (see `case/spread`).
    spread: float | None = None
    batch_tokens: int = 4096  # how many tokens, with padding, go through the model at once
    sampled_words: SampledWords | None = None  # what the fill "sample" puts in place of hidden words

    def __post_init__(self) -> None:
        if self.spread is not None and not 0 < self.spread < math.inf:
            raise BadOption(f"The spread of a model's values is a number above zero, not {self.spread}.")

    @classmethod
    def of(
        cls,
        module: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str = "model",
        task: Task | None = None,
        spread: float | None = None,
        batch_tokens: int = 4096,
    ) -> TextModel:
        """A Hugging Face model and its tokenizer. Nothing is changed on either. What has to be tried out is tried here,
        so that no explanation pays for it and no recording sees it.
        """
        if not getattr(tokenizer, "is_fast", False):
            raise WrongModel(
                "Wherefrom needs a fast tokenizer, because only that says where each token is in the text."
            )
        check_mode(module)
        network = ModuleNetwork(module)
        model = cls(
            name=name,
            task=task or find_task("classification"),
            reading=TokenizerReading(tokenizer, limit_of(module, tokenizer)),
            network=network,
            hiding=TokenHiding(tokenizer, pad_id(network)),
            spread=spread,
            batch_tokens=batch_tokens,
        )
        return probing.probed(model, network)

    @cached_property
    def labels(self) -> list[str]:
        return self.task.labels(self)

    @cached_property
    def independent(self) -> bool:
        """True where labels do not exclude each other (multi-label), or there is only one."""
        return self.task.independent(self)

    @cached_property
    def regression(self) -> bool:
        """Whether the outputs are values and no probabilities."""
        return self.task.regression(self)

    @cached_property
    def shares_prefixes(self) -> bool:
        """Whether rows that begin alike may share what the model computes of their beginning. Tried when it is first
        worth something.
        """
        return self.network.facts.takes_cache and probing.shares_prefixes(self)

    @cached_property
    def causal(self) -> bool:
        """Whether a position sees no later one, so that a language model reads a continuation at once."""
        return probing.is_causal(self)

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        for part in (text,) if pair is None else (text, pair):
            self.reading.check(part)
        return self.task.check_text(self, self.task.read(self, text, pair))

    def encode_all(self, texts: Sequence[TextAndPair]) -> list[Encoding]:
        """The same for several texts, with or without a pair, in less time. Raises if one of them cannot be read."""
        for part in (part for parts in texts for part in parts if part is not None):
            self.reading.check(part)
        return [self.task.check_text(self, encoding) for encoding in self.task.read_all(self, texts)]

    def target(self, spec: TargetSpec) -> Target:
        """A target that does not depend on the text: a label or a token."""
        target = self.task.fixed_target(self, spec)
        if target is None:
            raise BadOption(f"What {spec!r} is depends on the text, so it is no target by itself.")
        return target

    def run(
        self,
        inputs: dict[str, Tensor],
        count: PassCount | None = None,
        embeddings: Tensor | None = None,
        *,
        whole: bool = False,
        check: bool = True,
        cache: DynamicCache | None = None,
    ) -> Tensor:
        """The logits of one forward pass.

        Args:
            inputs: ids, which decide positions and padding, and masks: see `network.inputs_of`.
            count: incremented by the number of rows.
            embeddings: word vectors in place of those of the ids.
            whole: run all of the model, not only what the decision reads.
            check: raise where the answer to a row is not finite.
            cache: keys and values of the tokens before these; it is added to.
        """
        if count is not None:
            count.forwards += len(inputs["input_ids"])
        positions = self.task.positions(self, inputs)
        call = self.task.call(self, inputs, embeddings)
        output, positions = self.network.run(call, positions, whole=whole, cache=cache)
        logits = self.task.logits(output, inputs, positions)
        if check:
            check_answers(logits)
        return logits


def rows_without_answer(logits: Tensor) -> list[int]:
    """The rows of a pass whose answer is NaN or infinite."""
    fixed = logits.detach()  # padding is -inf where positions compete, so only the largest has to be finite
    bad = torch.isnan(fixed).any(-1) | ~torch.isfinite(fixed.amax(-1))  # (row,), or (row, 2) for the ends of an answer
    rows: list[int] = (
        bad.flatten(1).any(-1).nonzero().flatten().tolist() if bad.ndim > 1 else bad.nonzero()[:, 0].tolist()
    )
    return rows


def check_answers(logits: Tensor) -> None:
    """Raise an error that names the rows of a pass whose answer is NaN or infinite."""
    if rows := rows_without_answer(logits):
        raise ModelFailed(
            "The model answered NaN or infinity. Its weights may be damaged, or its precision too low for this text.",
            rows,
        )


def read_weights(model: TextModel, encoding: Encoding, target: Target) -> Tensor:
    """How much of each position the decision reads: one at [CLS], the mask, the last token or the answer's own token,
    or all alike. (token,)
    """
    weights = torch.zeros(len(encoding), dtype=model.network.module.dtype, device=model.network.device)
    if target.places:
        weights[list(target.places)] = 1
        return weights
    if model.task.two_stacks:  # the decoder's last token
        weights[-1] = 1
        return weights
    positions = model.task.positions(model, inputs_of(model.network, [encoding]))
    if positions is None:
        return weights + 1 / len(encoding)
    weights[positions] = 1
    return weights
