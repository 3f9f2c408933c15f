"""The only place that runs a model. Whoever wraps a `Network` (to take turns, to count) sees every forward pass."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from wherefrom.core.encoding import Encoding
from wherefrom.core.family import DecisionPosition, Family
from wherefrom.errors import ModelFailed, ModelIsTraining, NotSeen, WrongModel
from wherefrom.model.anatomy import Anatomy, Block, dissect
from wherefrom.model.device import put
from wherefrom.model.lengths import Lengths, ModuleState


@dataclass(frozen=True)
class NetworkCall:
    """The arguments of one forward pass, and its lookups: the ids, and the word vectors that replace theirs, in the
    order in which the network looks them up. Without vectors, the network looks up its own.
    """

    arguments: dict[str, Any]
    lookups: tuple[tuple[Tensor, Tensor | None], ...]


@dataclass(frozen=True)
class Facts:
    """What is known of a network beside its weights: see `probing`."""

    # Where a classification head reads the last hidden states; None where the family is unknown.
    decision_position: DecisionPosition | None = None
    takes_batches: bool = True  # whether a row has the same answer alone and padded beside a longer one
    lengths: Lengths = field(default_factory=Lengths)  # which rows may be padded to one length
    changing: tuple[nn.Module, ...] = ()  # modules that a forward pass changes; they are restored after every pass
    takes_cache: bool = False  # whether it accepts keys and values of earlier tokens
    skips_unread: bool = False  # whether the last MLP may run only at the position that the decision reads
    # The module that gives a logit to every word of the vocabulary, where it can be run only at the positions read.
    vocabulary_head: nn.Module | None = None
    no_gradient_through: str | None = None  # the name of a layer that gradients do not pass
    only_answers: bool = False  # a function: no gradients, no attention, nothing inside
    family: Family | None = None  # that of a model of an unknown type, where one proved itself on it
    recognised: str = ""  # and the note that says so
    identity: bytes | None = None  # represents in the fingerprint a model whose weights cannot be read


class Network(Protocol):
    """What runs. The whole package reaches a model's weights and forward passes through these members."""

    @property
    def module(self) -> PreTrainedModel: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def anatomy(self) -> Anatomy: ...

    @property
    def device(self) -> torch.device: ...

    def embed(self, input_ids: Tensor) -> Tensor:
        """Word embeddings, as the first layer gives them. (row, token) -> (row, token, size)"""

    def run(
        self,
        call: NetworkCall,
        positions: Tensor | None = None,
        *,
        whole: bool = False,
        cache: DynamicCache | None = None,
    ) -> tuple[Any, Tensor | None]:
        """One forward pass: the module's output, and at which of its positions the decision is read.

        Args:
            call: the arguments, and the word vectors that replace those of the ids.
            positions: where each row's decision is read; what only other positions need is then left out.
            whole: leave nothing out, for whoever looks inside.
            cache: keys and values of the tokens before these; those of the tokens of this pass are added.
        """


@dataclass(frozen=True, eq=False)
class ModuleNetwork:
    """A Hugging Face module. Nothing on it is changed: hooks live as long as a pass, and act in its thread only."""

    module: PreTrainedModel
    facts: Facts = field(default_factory=Facts)
    # Held while modules are changed by a pass, and not otherwise: threads would see each other's changes.
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def with_facts(self, **changes: Any) -> ModuleNetwork:
        """The same module with other facts; what was read from the module is not read again."""
        other = copy.copy(self)
        object.__setattr__(other, "facts", replace(self.facts, **changes))
        return other

    @cached_property
    def anatomy(self) -> Anatomy:
        return dissect(self.module, self.facts.family)

    @property
    def device(self) -> torch.device:
        return embedding_table(self).device

    def embed(self, input_ids: Tensor) -> Tensor:
        embedded: Tensor = self.module.get_input_embeddings()(input_ids)
        return embedded

    def run(
        self,
        call: NetworkCall,
        positions: Tensor | None = None,
        *,
        whole: bool = False,
        cache: DynamicCache | None = None,
    ) -> tuple[Any, Tensor | None]:
        check_mode(self.module)
        if cache is None and positions is None and (lengths := self._lengths_apart(call)):
            return self._run_apart(call, lengths), None
        arguments, facts = dict(call.arguments), self.facts
        if cache is not None:
            mask = arguments["attention_mask"]
            seen = mask.new_ones(len(mask), cache.get_seq_length())
            arguments |= {"attention_mask": torch.cat([seen, mask], 1), "past_key_values": cache, "use_cache": True}
        with ExitStack() as hooks:
            hooks.enter_context(self._embeddings_are(call))
            if positions is not None and positions.ndim == 1 and facts.skips_unread and not whole:
                # The MLP's one row is added to the residual of every position by broadcasting, which is right at the
                # position that is read; the others are never used. This saves a ninth of a six-layer model's work.
                assert self.last_block is not None
                hooks.enter_context(runs_only_at(self.last_block.mlp[0], positions))
            if positions is not None and facts.vocabulary_head is not None:
                hooks.enter_context(runs_only_at(facts.vocabulary_head, positions))
            if facts.changing:
                hooks.enter_context(self._changing)
                hooks.callback(ModuleState(facts.changing).restore)
                hooks.enter_context(_without_warnings(self.module))
            try:
                output = self.module(**arguments)
            except (AssertionError, LookupError, ValueError) as error:  # what models check themselves
                why = " ".join(str(error).split())[:300]
                raise ModelFailed(f"The model does not take this text ({type(error).__name__}: {why})") from error
        if facts.vocabulary_head is not None and positions is not None:
            # The output has only the positions that are read.
            order = torch.arange(output.logits.shape[1], device=positions.device)
            positions = torch.zeros_like(positions) if positions.ndim == 1 else order.expand_as(positions)
        return output, positions

    def _lengths_apart(self, call: NetworkCall) -> list[int]:
        """The lengths of rows that may not be padded to one, which a task made of a single text; else nothing."""
        mask = call.arguments.get("attention_mask")
        if self.facts.takes_batches and self.facts.lengths.limit is None:
            return []
        if mask is None or mask.flatten(end_dim=-2).shape[0] != len(mask) or len(mask) == 1 or len(call.lookups) > 1:
            return []
        lengths: list[int] = mask.sum(-1).clamp(min=1).flatten().tolist()  # no token is left of a text: a masked one
        alike = (length == max(lengths) or self.facts.lengths.alike(length, max(lengths)) for length in lengths)
        if len(set(lengths)) == 1 or (self.facts.takes_batches and all(alike)):
            return []
        return lengths

    def _run_apart(self, call: NetworkCall, lengths: Sequence[int]) -> Any:
        """Each row in a pass of its own; answers at its positions are filled up with zeros, which are never used."""
        outputs = []
        for row, length in enumerate(lengths):
            arguments = {name: tensor[row : row + 1, ..., :length] for name, tensor in call.arguments.items()}
            lookups = tuple(
                (ids[row : row + 1, :length], None if vectors is None else vectors[row : row + 1, :length])
                for ids, vectors in call.lookups
            )
            outputs.append(self.run(NetworkCall(arguments, lookups), None)[0])
        name = "logits" if hasattr(outputs[0], "logits") else "last_hidden_state"
        parts = [output[0] if isinstance(output, tuple) else getattr(output, name) for output in outputs]
        if parts[0].ndim == 3:
            longest = max(lengths)
            parts = [nn.functional.pad(part, (0, 0, 0, longest - part.shape[1])) for part in parts]
        return SimpleNamespace(**{name: torch.cat(parts)})

    @cached_property
    def last_block(self) -> Block | None:
        """The last block; None where the family is unknown, or one block serves several layers and so is never last."""
        try:
            blocks = self.anatomy.blocks
        except WrongModel:
            return None
        return blocks[-1] if len(blocks) == self.module.config.num_hidden_layers else None

    @cached_property
    def _word_embeddings(self) -> list[nn.Module]:
        """Every module that turns ids into word vectors: the input embeddings, whatever they consist of, and others
        that look words up in the same table (an encoder's and a decoder's are two).
        """
        outer, table = self.module.get_input_embeddings(), embedding_table(self)
        inside = set(outer.modules())
        others = [m for m in self.module.modules() if isinstance(m, nn.Embedding) and m not in inside]
        return [outer, *(module for module in others if module.weight is table)]

    @contextmanager
    def _embeddings_are(self, call: NetworkCall) -> Iterator[None]:
        """Within this context the module reads the word vectors of the call. Raises if it did not."""
        thread = threading.get_ident()
        lookups = [(ids, embeddings) for ids, embeddings in call.lookups if embeddings is not None]
        arrived = [False] * len(lookups)

        def put_in(_: nn.Module, args: tuple[Any, ...], looked_up: Tensor) -> Tensor:
            if threading.get_ident() != thread or not args:
                return looked_up
            # Source and output may be the same ids; then the first lookup is the encoder's. What is looked up again
            # (a decoder that reads the text, too) gets the same vectors again.
            for number in sorted(range(len(lookups)), key=arrived.__getitem__):
                replaced = _in_place_of(args[0], looked_up, *lookups[number])
                if replaced is not None:
                    arrived[number] = True
                    return replaced
            return looked_up

        with ExitStack() as hooks:
            for module in self._word_embeddings if lookups else ():
                hooks.callback(module.register_forward_hook(put_in).remove)
            yield
        if not all(arrived):
            raise NotSeen(
                "The model does not look its words up as they were given (its embedding layer saw other ids), so hidden"
                " words would not be hidden. Methods that only read attention, and the prediction, still work."
            )


@contextmanager
def _without_warnings(module: nn.Module) -> Iterator[None]:
    """A module that is restored after every pass would warn of the same switch in every pass; it did on loading."""
    logger = logging.getLogger(type(module).__module__)

    def drop(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING

    logger.addFilter(drop)
    try:
        yield
    finally:
        logger.removeFilter(drop)


def check_mode(module: nn.Module) -> None:
    if module.training:
        raise ModelIsTraining


def embedding_table(network: Network) -> Tensor:
    """The weights that words are looked up in. (word, size)"""
    return next(network.module.get_input_embeddings().parameters())


def pad_id(network: Network) -> int | None:
    """The id of padding, by the configuration."""
    token: int | None = getattr(network.module.config.get_text_config(), "pad_token_id", None)
    return token


def padded_inputs(
    network: Network, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int] | None]
) -> dict[str, Tensor]:
    """The network's inputs for several rows of tokens, padded on the right."""
    longest = max(map(len, ids))

    def full(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
        return put([[*row, *[filler] * (longest - len(row))] for row in rows], network.device)

    inputs = {
        "input_ids": full(ids, pad_id(network) or 0),
        "attention_mask": full([[1] * len(row) for row in ids], 0),
    }
    if types[0] is not None:
        inputs["token_type_ids"] = full([row or () for row in types], 0)
    return inputs


def inputs_of(network: Network, encodings: Sequence[Encoding]) -> dict[str, Tensor]:
    """The network's inputs for several texts."""
    return padded_inputs(network, [e.input_ids for e in encodings], [e.token_type_ids for e in encodings])


@contextmanager
def runs_only_at(module: nn.Module, positions: Tensor) -> Iterator[None]:
    """Within this context a module is given these positions of each row, and so gives no others. (row,), or (row,
    position) where it is more than one
    """
    rows, thread = torch.arange(len(positions), device=positions.device)[:, None], threading.get_ident()
    read = positions.reshape(len(positions), -1)  # (row, position)

    def narrow(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return (args[0][rows, read], *args[1:]) if threading.get_ident() == thread else None

    handle = module.register_forward_pre_hook(narrow)
    try:
        yield
    finally:
        handle.remove()


def _in_place_of(seen: Tensor, looked_up: Tensor, ids: Tensor, embeddings: Tensor) -> Tensor | None:
    """The word vectors that replace what was looked up, in the shape in which the module sees the ids; None where these
    are not the ids of the text.
    """
    length = ids.shape[1]
    if seen.shape == ids.shape and torch.equal(seen, ids):
        return embeddings
    if seen.shape == ids.shape[::-1] and torch.equal(seen, ids.T):  # tokens before rows, as in XLNet
        return embeddings.transpose(0, 1)
    if seen.ndim != 2 or len(seen) != len(ids):
        return None
    if seen.shape[1] > length and torch.equal(seen[:, :length], ids):  # padded to a window, as in Longformer
        return torch.cat([embeddings, looked_up[:, length:]], 1)
    if seen.shape == ids.shape and torch.equal(seen[:, 1:], ids[:, :-1]):  # a decoder reads the text shifted by one
        return torch.cat([looked_up[:, :1], embeddings[:, :-1]], 1)
    return None
