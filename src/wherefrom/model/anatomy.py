"""Find a model's blocks by its family's row, and check the row by rebuilding a block from its recorded parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from wherefrom.core.family import BlockOrder, DecisionPosition, Family
from wherefrom.errors import NotSeen
from wherefrom.model.families import TWO_STACKS, family_of, known_types, stacks_of
from wherefrom.model.recording import Recording
from wherefrom.registry import methods_reading

FUSED = ("flash", "flex", "paged")  # attention kernels that do not return their probabilities


@dataclass(frozen=True)
class Block:
    """The parts of one block, and how they are put together."""

    module: nn.Module
    attention: nn.Module
    attention_out: nn.Module
    attention_norm: nn.Module
    mlp: tuple[nn.Module, ...]
    mlp_norm: nn.Module
    order: BlockOrder
    attention_after: nn.Module
    mlp_after: nn.Module
    output: nn.Module  # gives the block's output; mostly `module`, which is given its input
    enter: nn.Module
    between: tuple[nn.Module, ...] = ()
    tail: tuple[tuple[str, nn.Module], ...] = ()  # with "+" or "&" in front: see `Family`
    scale: float = 1.0  # of what attention and mlp add to the residual stream

    def rebuild(self, x: Tensor, probs: Tensor, value: Tensor) -> Tensor:
        """The block's output from its input and its attention. x (token, hidden), probs (head, query, key), value
        (head, key, size)
        """
        return self.finish(x, self.mixed(x, self.attend(probs, value)))

    def attend(self, probs: Tensor, value: Tensor) -> Tensor:
        """What the attention adds to each position. (token, hidden)"""
        heads, _, size = value.shape
        context = (probs.to(value.dtype) @ value).transpose(0, 1).reshape(probs.shape[-2], heads * size)
        attended: Tensor = self.attention_out(context)
        return attended if self.scale == 1 else attended * self.scale

    def mixed(self, x: Tensor, attended: Tensor) -> Tensor:
        """The residual stream after the attention, the last point in a block where tokens mix. (token, hidden)"""
        start: Tensor = self.enter(x)
        h: Tensor = (
            self.attention_norm(start + attended) if self.order == "post" else start + self.attention_after(attended)
        )
        return h

    def finish(self, x: Tensor, h: Tensor) -> Tensor:
        """The block's output from its input and the residual stream after its attention: each position by itself.
        (token, hidden)
        """
        for part in self.between:
            h = part(h)
        if self.order == "post":
            y: Tensor = self.mlp_norm(h + self.through_mlp(h))
            for sign, part in self.tail:
                y = y + part(y) if sign == "+" else part(y, x) if sign == "&" else part(y)
            return y
        added: Tensor = self.mlp_after(self.through_mlp(self.mlp_norm(x if self.order == "parallel" else h)))
        return h + (added if self.scale == 1 else added * self.scale)

    def through_mlp(self, x: Tensor) -> Tensor:
        """What the feed-forward part makes of each position; experts take and give a batch, and what chose them."""
        y = x[None]
        for part in self.mlp:
            output = part(y)
            y = output[0] if isinstance(output, tuple) else output
        return y[0]


@dataclass(frozen=True)
class Anatomy:
    """A model's blocks (a block that serves several layers once), and the position its classification head reads."""

    family: Family
    blocks: tuple[Block, ...]
    reads: DecisionPosition
    routers: tuple[nn.Module, ...] = ()  # what chooses experts

    def block_of(self, module: nn.Module) -> Block:
        return next(block for block in self.blocks if block.module is module)


def _walk(root: nn.Module, path: str) -> Iterator[nn.Module]:
    for choice in path.split("|")[:-1]:
        with suppress(AttributeError):
            nodes = list(_walk(root, choice))
            if None not in nodes:  # a block may say so where it does not have a part
                yield from nodes
                return
    path = path.rpartition("|")[2]
    if path == ".":
        yield root
        return
    head, _, rest = path.partition(".")
    children = list(root.children()) if head == "*" else [getattr(root, head)]
    for child in children:
        yield from _walk(child, rest) if rest else [child]


def _order(family: Family, config: PretrainedConfig) -> BlockOrder:
    """How this model's blocks are put together: as the family's are, unless its config says otherwise."""
    if family.parallel_option and getattr(config, family.parallel_option):
        return "parallel"
    if family.pre_option:
        return "pre" if getattr(config, family.pre_option) else "post"
    return family.order


EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def counts_experts(config: PretrainedConfig) -> bool:
    """Whether a model's configuration says that its feed-forward parts choose among experts."""
    return any((getattr(config, name, None) or 0) > 1 for name in EXPERTS)


def dissect(network: PreTrainedModel, family: Family | None = None) -> Anatomy:
    """The anatomy of a model; raises where it cannot be seen, saying what to do.

    family: in place of the row for the model's type.
    """
    config = network.config
    model_type = getattr(config, "model_type", "")
    family = family or family_of(model_type)
    if family is None:
        raise NotSeen(
            f"None of the {len(known_types())} model types that Wherefrom knows is built as this"
            f" {model_type or type(network).__name__} model is, so methods that read attention or hidden states do not"
            " work with it; those that only query the model or differentiate its embeddings do"
            f" ({', '.join(methods_reading('embeddings', 'path', 'answers'))})."
        )
    implementation = getattr(config, "_attn_implementation", None) or ""
    if any(word in implementation for word in FUSED):
        raise NotSeen(
            f"The model runs attention as {implementation!r}, which never shows its probabilities."
            " Load it with attn_implementation='sdpa' or 'eager'."
        )
    if isinstance(network, torch._dynamo.OptimizedModule):
        raise NotSeen("A compiled model does not show its inside. Give the model as it was before torch.compile.")
    for setting, value in family.only_with:
        if getattr(config, setting, value) != value:
            raise NotSeen(
                f"This {model_type} model has {setting}={getattr(config, setting)!r}, so its blocks differ from"
                f" those that Wherefrom knows ({setting}={value!r}), and methods that look inside do not work with it;"
                " those that only hide words or differentiate its embeddings do."
            )
    order = _order(family, config)
    reads: DecisionPosition = (
        "every"
        if family.reads_option and getattr(config, family.reads_option) in ("mean", "late")  # "late": of all answers
        else family.reads
    )
    nothing, backbone = nn.Identity(), network.base_model

    def parts(number: int, block: nn.Module, path: str) -> list[nn.Module]:
        path = re.sub(r"\$(\w+)", lambda setting: str(getattr(config, setting[1])), path.replace("#", str(number)))
        nodes = list(_walk(backbone, path[1:]) if path.startswith("^") else _walk(block, path))
        return [_Projection(node) if isinstance(node, nn.Parameter) else node for node in nodes]

    def part(number: int, block: nn.Module, path: str | None) -> nn.Module:
        return parts(number, block, path)[0] if path else nothing

    try:
        blocks = tuple(
            Block(
                module=block,
                attention=part(i, block, family.attention),
                attention_out=part(i, block, family.attention_out),
                attention_norm=part(i, block, family.attention_norm),
                mlp=tuple(part(i, block, path) for path in family.mlp),
                mlp_norm=part(i, block, family.mlp_norm),
                order=order,
                attention_after=part(i, block, family.attention_after),
                mlp_after=part(i, block, family.mlp_after),
                output=part(i, block, family.output or "."),
                enter=part(i, block, family.enter),
                between=tuple(module for path in family.between for module in parts(i, block, path)),
                tail=tuple((path[0], part(i, block, path.lstrip("+&"))) for path in family.tail),
                scale=float(getattr(config, family.scale_option)) if family.scale_option else 1.0,
            )
            for i, block in enumerate(_walk(backbone, family.blocks))
        )
    except (AttributeError, KeyError) as missing:
        raise NotSeen(f"This {model_type} model is not laid out as its family usually is: {missing}.") from missing
    routers: list[nn.Module] = []
    for number, block in enumerate(blocks):
        with suppress(AttributeError):  # a layer that has one feed-forward part and no experts
            routers += parts(number, block.module, family.router) if family.router else []
    return Anatomy(family, blocks, reads, tuple(routers))


class StackLayer(NamedTuple):
    """One layer of an encoder or a decoder: its block, and its attentions in the order in which they run."""

    block: nn.Module
    attention: tuple[nn.Module, ...]


def find_stacks(network: PreTrainedModel) -> tuple[list[StackLayer], list[StackLayer]]:
    """The layers of a model's encoder and of its decoder. A decoder's layer attends to the output, then to the
    source.
    """
    model_type = getattr(network.config, "model_type", "")
    known = stacks_of(model_type)
    if known is None:
        raise NotSeen(
            f"Wherefrom does not know where the attentions of a {model_type or type(network).__name__} model with an"
            " encoder and a decoder are; methods that only hide words or differentiate its embeddings work with it."
            f" Known: {', '.join(name for row in TWO_STACKS for name in row.model_types)}."
        )

    def layers(*paths: str) -> list[StackLayer]:
        blocks = _walk(network.base_model, f"{paths[0].partition('.*')[0]}.*")
        attentions = (_walk(network.base_model, path) for path in paths)
        return [StackLayer(block, tuple(each)) for block, *each in zip(blocks, *attentions, strict=True)]

    try:
        return layers(known.encoder), layers(known.decoder, known.cross)
    except AttributeError as missing:
        raise NotSeen(f"This {model_type} model is not laid out as its family usually is: {missing}.") from missing


class _Projection(nn.Module):
    """The projection after the heads, where a model keeps it as a parameter. (hidden, head, size)"""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight, self.in_features = weight, weight[0].numel()

    def forward(self, context: Tensor) -> Tensor:
        return nn.functional.linear(context, self.weight.flatten(1))


@torch.no_grad()
def rebuild_error(anatomy: Anatomy, record: Recording) -> float:
    """The largest difference between what the blocks computed and what their parts give, relative to the largest
    output.
    """
    worst = 0.0
    for module, x, y, attention in zip(record.blocks, record.inputs, record.outputs, record.attention, strict=True):
        rebuilt = anatomy.block_of(module).rebuild(x, attention.probs, attention.value)
        worst = max(worst, ((rebuilt - y).abs().max() / y.abs().max()).item())
    return worst
