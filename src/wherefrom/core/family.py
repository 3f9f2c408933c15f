"""A family of models: where a model keeps its attention, norms and feed-forward parts. Data, no code.

Paths start at the backbone (`model.base_model`), and `order` says how a block is put together:

- post: h = norm1(x + attention(x)); y = norm2(h + mlp(h))
- pre: h = x + attention(norm1(x)); y = h + mlp(norm2(h))
- parallel: y = x + attention(norm1(x)) + mlp(norm2(x))
- sandwich: h = x + after1(attention(norm1(x))); y = h + after2(mlp(norm2(h)))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from wherefrom.errors import BadOption

BlockOrder = Literal["post", "pre", "parallel", "sandwich"]
DecisionPosition = Literal["first", "last", "every"]


@dataclass(frozen=True)
class StackPaths:
    """Where the attentions of a family with an encoder and a decoder are, as paths from the base model."""

    model_types: tuple[str, ...]
    encoder: str
    decoder: str
    cross: str


@dataclass(frozen=True)
class Family:
    """A row of the table of families, by which Wherefrom looks inside a model. See docs/add-a-family.md.

    Example:
        >>> phi = Family(
        ...     ("phi",),
        ...     blocks="layers.*",
        ...     attention="self_attn",
        ...     attention_out="self_attn.dense",
        ...     attention_norm="input_layernorm",
        ...     mlp=("mlp",),
        ...     mlp_norm="input_layernorm",
        ...     order="parallel",
        ...     reads="last",
        ... )
    """

    model_types: tuple[str, ...]  # values of `config.model_type`
    blocks: str  # "*" stands for every child; a block that is used for several layers is listed once
    # From here on, paths start at the block. "a|b": the first of these that the block has.
    attention: str  # the module in which the attention probabilities arise
    attention_out: str
    attention_norm: str | None  # None: there is no such norm
    mlp: tuple[str, ...]
    mlp_norm: str | None
    order: BlockOrder
    # The position a classification head reads; "every" where it reads all, or another stack does.
    reads: DecisionPosition
    reads_option: str | None = None  # a setting of the model's config that says "cls" or "mean" instead
    parallel_option: str | None = None  # a setting of the model's config that makes a pre block parallel
    pre_option: str | None = None  # a setting of the model's config that says whether blocks are pre or post
    scale_option: str | None = None  # a setting by which the block multiplies what attention and mlp add
    attention_after: str | None = None  # the norms of a sandwich after attention and mlp
    mlp_after: str | None = None
    # Settings of the config that the row relies on: with others, the blocks are built differently.
    only_with: tuple[tuple[str, object], ...] = ()
    # What few families have. "^layer_norm2.#" starts at the backbone, and # is the block's number; "$name" is a setting
    # of the config; "." is the block itself.
    output: str | None = None  # the module that gives a block's output, where no module is the whole block
    enter: str | None = None  # what the residual passes on its way into the block, as MobileBERT's bottleneck
    between: tuple[str, ...] = ()  # modules between the attention and the feed-forward part
    # What comes after a post block, each given the one before: "+a" adds what it gives, "&a" is given the block's
    # input as well.
    tail: tuple[str, ...] = ()
    router: str | None = None  # the module of the feed-forward part that chooses experts and weighs what they give
    tokens_first: bool = False  # whether hidden states are (token, row, size), as XLNet's are
    # Why attention cannot be recorded as (query, key) probabilities by which tokens mix; methods that read it say so.
    unseen: str | None = None

    def __post_init__(self) -> None:
        for field in ("model_types", "mlp"):
            value = getattr(self, field)
            if not isinstance(value, tuple) or not value or not all(isinstance(item, str) for item in value):
                raise BadOption(f"{field} of a family is a tuple of names, such as ('mlp',), not {value!r}.")
        for field, known in (("order", get_args(BlockOrder)), ("reads", get_args(DecisionPosition))):
            if getattr(self, field) not in known:
                raise BadOption(f"{field} of a family is {' | '.join(known)}, not {getattr(self, field)!r}.")
        if self.order == "sandwich" and not (self.attention_after and self.mlp_after):
            raise BadOption("A family with order='sandwich' needs attention_after and mlp_after.")
