"""A Hugging Face model and its tokenizer behind one door. Nothing is changed on either."""

from __future__ import annotations

import copy
import inspect
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from wherefrom.core.encoding import Encoding
from wherefrom.core.family import DecisionPosition
from wherefrom.core.target import Target
from wherefrom.errors import BadOption, EmptyText, MissingToken, ModelFailed, ModelIsTraining, NotSeen, WrongModel
from wherefrom.model.anatomy import Anatomy, Block, dissect
from wherefrom.model.device import put
from wherefrom.model.prefix import Prefix, empty_cache
from wherefrom.model.tasks import TASKS, TargetSpec, Task
from wherefrom.model.tasks.call import NetworkCall

UNLIMITED = 100_000  # tokenizers without a limit of their own say something like 1e30


@dataclass
class PassCount:
    """Rows sent through the model, forth and back."""

    forwards: int = 0
    backwards: int = 0


def rows_without_answer(logits: Tensor) -> list[int]:
    """The rows of a pass whose answer is NaN or infinite."""
    found = logits.detach()  # padding is -inf where positions compete, so only the largest has to be finite
    bad = torch.isnan(found).any(-1) | ~torch.isfinite(found.amax(-1))  # (row,), or (row, 2) for the ends of an answer
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


@dataclass(frozen=True, eq=False)
class TextModel:
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str = "model"
    task: Task = TASKS["classification"]
    batch_tokens: int = 4096  # how many tokens, with padding, go through the model at once
    # What a regression model's values are measured in; None for the deviation of each text's own (see `case/spread`).
    spread: float | None = None
    # Where a classification head reads the last hidden states; None where nobody knows.
    decision_position: DecisionPosition | None = field(init=False, default=None)
    pads: bool = field(init=False, default=True)  # whether padding changes nothing, so that texts may share a batch
    skips_unread: bool = field(init=False, default=False)  # whether what the decision does not read is left out
    # The module that gives a logit to every word of the vocabulary, where it can be run at the positions read alone.
    vocabulary_head: nn.Module | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not getattr(self.tokenizer, "is_fast", False):
            raise WrongModel(
                "Wherefrom needs a fast tokenizer, because only that says where each token stands in the text."
            )
        if self.spread is not None and not 0 < self.spread < math.inf:
            raise BadOption(f"The spread of a model's values is a number above zero, not {self.spread}.")
        self.check_mode()
        # Found out once, when the model is loaded, so that no explanation pays for it and no recording sees it.
        object.__setattr__(self, "decision_position", self._find_decision_position())
        object.__setattr__(self, "pads", self._may_pad())
        object.__setattr__(self, "vocabulary_head", self._find_vocabulary_head())
        object.__setattr__(self, "skips_unread", self._may_skip_unread())

    def asked_by(self, task: Task) -> TextModel:
        """The same model, asked about something else. What was found out when it was loaded is not found out again."""
        other = copy.copy(self)
        object.__setattr__(other, "task", task)
        for depends_on_task in ("labels", "shares_prefixes"):
            other.__dict__.pop(depends_on_task, None)
        return other

    def check_mode(self) -> None:
        if self.network.training:
            raise ModelIsTraining

    # What the model is

    @cached_property
    def labels(self) -> list[str]:
        return self.task.labels(self)

    @property
    def independent(self) -> bool:
        """True where labels do not exclude each other (multi-label), or there is only one."""
        return self.task.independent(self)

    @property
    def regression(self) -> bool:
        """Whether the outputs are values and no probabilities."""
        return self.task.regression(self)

    @cached_property
    def anatomy(self) -> Anatomy:
        return dissect(self.network)

    def _find_decision_position(self) -> DecisionPosition | None:
        """The family's row says where its heads usually read. A model may have a head of its own, so the gradient of
        its logits at the last hidden states is asked.
        """
        try:
            expected, last = self.anatomy.reads, self.anatomy.blocks[-1].output
        except WrongModel:
            return None
        if expected == "every" or not self.task.position_depends_on_family:
            return expected
        hidden: list[Tensor] = []
        turned = self.anatomy.family.tokens_first

        def cut_off(_: nn.Module, __: Any, output: Any) -> Any:
            states = (output[0] if isinstance(output, tuple) else output).detach().requires_grad_()
            hidden[:] = [states.transpose(0, 1) if turned else states]
            return (states, *output[1:]) if isinstance(output, tuple) else states

        handle = last.register_forward_hook(cut_off)
        try:
            with torch.inference_mode(False), torch.enable_grad():
                logits = self.network(**self.batch([self.encode(self.task.sample)])).logits
                (slope,) = torch.autograd.grad(logits.square().sum(), hidden)
        except Exception:  # whatever a model unlike its family makes of it; methods that look inside it will say so
            return expected
        finally:
            handle.remove()
        read = slope[0].abs().amax(-1).nonzero().flatten().tolist()
        only = [0] if expected == "first" else [slope.shape[1] - 1]
        return expected if read == only else "every"

    @cached_property
    def limit(self) -> int | None:
        """How many tokens the model can read, or None."""
        config = self.network.config
        positions = getattr(config, "max_position_embeddings", None)
        for table in (m for name, m in self.network.named_modules() if name.endswith("position_embeddings")):
            if isinstance(table, nn.Embedding) and table.padding_idx is not None:  # RoBERTa counts positions from there
                positions = table.num_embeddings - table.padding_idx - 1
        known = [n for n in (positions, self.tokenizer.model_max_length) if n is not None and 0 < n < UNLIMITED]
        return min(known, default=None)

    @cached_property
    def no_gradient_through(self) -> str | None:
        """The name of a layer that gradients do not pass, as torch's own quantised ones; None where all do."""
        for name, module in self.network.named_modules():
            if ".quantized" in type(module).__module__:
                return str(name)
        return None

    @property
    def only_answers(self) -> bool:
        """Whether it can be asked and nothing else: no gradients, no attention, nothing inside."""
        return False

    @property
    def identity(self) -> bytes | None:
        """What stands for a model whose weights cannot be read, in its fingerprint; None where they can be."""
        return None

    @property
    def device(self) -> torch.device:
        return self.embedding_table.device

    @property
    def embedding(self) -> nn.Module:
        """The module that turns ids into word vectors: a table, or a table with an adapter around it."""
        found: nn.Module = self.network.get_input_embeddings()
        return found

    @property
    def embedding_table(self) -> Tensor:
        """The weights that words are looked up in. (word, size)"""
        return next(self.embedding.parameters())

    @cached_property
    def _word_embeddings(self) -> list[nn.Module]:
        """Every module that turns ids into word vectors: the model's own, whatever it consists of, and others that look
        words up in the same table (an encoder's and a decoder's are two).
        """
        outer, table = self.embedding, self.embedding_table
        inside = set(outer.modules())
        others = [m for m in self.network.modules() if isinstance(m, nn.Embedding) and m not in inside]
        return [outer, *(module for module in others if module.weight is table)]

    @property
    def takes_batches(self) -> bool:
        """Decoders that classify find the last token by the padding id; without one they answer one row at a time. So
        do models whose answer padding changes.
        """
        if self.task.finds_end_by_padding and self.network.config.get_text_config().pad_token_id is None:
            return False
        return self.pads

    # Reading

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        for part in (text,) if pair is None else (text, pair):
            if not part.strip():
                raise EmptyText("There is no text to explain: it is empty or blank.")
            if any("\ud800" <= character <= "\udfff" for character in part):
                raise BadOption(
                    "The text has half of a character in it (a lone surrogate): it was not decoded rightly."
                )
        return self.task.check_text(self, self.task.read(self, text, pair))

    def target(self, spec: TargetSpec) -> Target:
        """A target that does not depend on the text: a label or a token."""
        found = self.task.fixed_target(self, spec)
        if found is None:
            raise BadOption(f"What {spec!r} is depends on the text, so it is no target by itself.")
        return found

    def row_read(self, encoding: Encoding, target: Target) -> Tensor:
        """How much of each position the decision reads: one at [CLS], the mask, the last token or the answer's own
        token, or all alike. (token,)
        """
        weights = torch.zeros(len(encoding), dtype=self.network.dtype, device=self.device)
        if target.position is not None:
            weights[target.position] = 1
            return weights
        positions = self.task.positions(self, self.batch([encoding]))
        if self.task.two_stacks:  # the decoder's last token
            weights[-1] = 1
            return weights
        if positions is None:
            return weights + 1 / len(encoding)
        weights[positions] = 1
        return weights

    # Asking

    def batch(self, encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        """The model's inputs for several texts, padded on the right."""
        return self.padded([e.input_ids for e in encodings], [e.token_type_ids for e in encodings])

    def padded(self, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int] | None]) -> dict[str, Tensor]:
        longest = max(map(len, ids))
        pad = self.network.config.get_text_config().pad_token_id

        def full(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
            return put([[*row, *[filler] * (longest - len(row))] for row in rows], self.device)

        inputs = {"input_ids": full(ids, pad or 0), "attention_mask": full([[1] * len(row) for row in ids], 0)}
        if types[0] is not None:
            inputs["token_type_ids"] = full([row or () for row in types], 0)
        return inputs

    def embed(self, input_ids: Tensor) -> Tensor:
        """Word embeddings, as the model's first layer gives them."""
        embedded: Tensor = self.embedding(input_ids)
        return embedded

    def logits(
        self,
        inputs: dict[str, Tensor],
        count: PassCount,
        embeddings: Tensor | None = None,
        *,
        whole: bool = False,
        check: bool = True,
    ) -> Tensor:
        """One forward pass. With `embeddings`, these stand in for the words, while the ids still say positions and
        padding.

        Unless the `whole` model has to run, what the decision does not read is left out (see `_only_what_is_read`).
        Rows whose answer is not finite are an error that names them, unless the caller makes the `check` itself.
        """
        self.check_mode()
        count.forwards += len(inputs["input_ids"])
        logits = self._logits(inputs, embeddings, skip_unread=self.skips_unread and not whole)
        if check:
            check_answers(logits)
        return logits

    def prefix(self, ids: Sequence[int], types: Sequence[int] | None, count: PassCount) -> Prefix:
        """What a causal model keeps of a text, for `logits_behind`: one forward pass."""
        self.check_mode()
        count.forwards += 1
        return self._prefix(self.padded([ids], [types]))

    def _prefix(self, inputs: dict[str, Tensor]) -> Prefix:
        cache = empty_cache()
        self._logits(inputs, None, skip_unread=self.skips_unread, cache=cache)
        return Prefix.of(cache)

    def logits_behind(
        self, prefix: Prefix, length: int, inputs: dict[str, Tensor], count: PassCount, embeddings: Tensor
    ) -> Tensor:
        """The logits of rows that all begin with the first `length` tokens of a prefix: only what is behind these goes
        through the model. Inputs and embeddings are those of whole rows. See `shares_prefixes`.
        """
        self.check_mode()
        count.forwards += len(inputs["input_ids"])
        return self._behind(prefix, length, inputs, embeddings)

    def _behind(self, prefix: Prefix, length: int, inputs: dict[str, Tensor], embeddings: Tensor | None) -> Tensor:
        rest = {name: value[:, length:] for name, value in inputs.items()}
        cache = prefix.beginning(length, len(inputs["input_ids"]))
        behind = None if embeddings is None else embeddings[:, length:]
        return self._logits(rest, behind, skip_unread=self.skips_unread, cache=cache)

    @cached_property
    def takes_cache(self) -> bool:
        """Whether it can be given what it kept of tokens in front. One that cannot never shares beginnings."""
        return "past_key_values" in inspect.signature(self.network.forward).parameters

    @cached_property
    def shares_prefixes(self) -> bool:
        """Whether rows that begin alike may share what the model computes of their beginning. Tried, when it is first
        worth something, because only that tells whether a model is causal and continues from a cache as it should.
        """
        if not self.takes_cache:
            return False
        try:
            kept, text = 2, list(self.encode(self.task.sample).input_ids)  # so many tokens in front are shared
            rows, read = [text], torch.zeros(1)
            while int(read.min()) <= kept:
                rows = [rows[-1] + text, rows[-1] + text + text][: 1 + self.takes_batches]
                inputs = self.padded(rows, [None])
                if (found := self.task.first_read(self, inputs)) is None:
                    return False
                read = found
            longest = self.padded(rows[-1:], [None])
            # Another word behind what is shared: a model that is not causal would have seen it from there.
            inputs["input_ids"][:, kept] = (inputs["input_ids"][:, kept] + 1) % len(self.embedding_table)
            with torch.no_grad():
                full = self._logits(inputs, None, skip_unread=self.skips_unread)
                short = self._behind(self._prefix(longest), kept, inputs, None)
        except Exception:  # whatever a model without a cache makes of one: then all rows run from the start
            return False
        return _same_answer(short, full)

    def _logits(
        self,
        inputs: dict[str, Tensor],
        embeddings: Tensor | None,
        *,
        skip_unread: bool,
        cache: DynamicCache | None = None,
    ) -> Tensor:
        """cache: what the model keeps of tokens in front of these; it is added to."""
        positions = None if self._position_unknown else self.task.positions(self, inputs)
        only = self._only_what_is_read(positions) if skip_unread else nullcontext()
        call = self.task.call(self, inputs, embeddings)
        given = dict(call.arguments)
        if cache is not None:
            mask = inputs["attention_mask"]
            seen = mask.new_ones(len(mask), cache.get_seq_length())
            given |= {"attention_mask": torch.cat([seen, mask], 1), "past_key_values": cache, "use_cache": True}
        with self._embeddings_are(call), only, self._words_only_at(positions):
            output = self.network(**given)
        if self.vocabulary_head is not None and positions is not None:
            # only what is read was computed, and stands alone
            here = torch.arange(output.logits.shape[1], device=positions.device)
            positions = torch.zeros_like(positions) if positions.ndim == 1 else here.expand_as(positions)
        return self.task.logits(output, inputs, positions)

    @contextmanager
    def _embeddings_are(self, call: NetworkCall) -> Iterator[None]:
        """Within this context the model reads the word vectors of the call, and not those of its ids. Raises if it did
        not.
        """
        thread = threading.get_ident()
        wanted = [(ids, embeddings) for ids, embeddings in call.lookups if embeddings is not None]
        arrived = [False] * len(wanted)

        def put_in(_: nn.Module, args: tuple[Any, ...], looked_up: Tensor) -> Tensor:
            if threading.get_ident() != thread or not args:
                return looked_up
            # Source and output may be the same ids; then the first lookup is the encoder's. What is looked up again
            # (a decoder that reads the text, too) gets the same vectors again.
            for number in sorted(range(len(wanted)), key=arrived.__getitem__):
                replaced = _in_place_of(args[0], looked_up, *wanted[number])
                if replaced is not None:
                    arrived[number] = True
                    return replaced
            return looked_up

        with ExitStack() as hooks:
            for module in self._word_embeddings if wanted else ():
                hooks.callback(module.register_forward_hook(put_in).remove)
            yield
        if not all(arrived):
            raise NotSeen(
                "The model does not look its words up as they were given (its embedding layer saw other ids), so hidden"
                " words would not be hidden. Methods that only read attention, and the prediction, still work."
            )

    @contextmanager
    def _only_what_is_read(self, positions: Tensor | None) -> Iterator[None]:
        """The last block's MLP runs at the position that the decision reads, and nowhere else: a ninth of a six-layer
        model's work.

        Its one row is then added to the residual of every position by broadcasting, which is right at that position;
        the others are never looked at again.
        """
        block = self._last_block
        if block is None or positions is None or positions.ndim > 1:
            yield
            return
        with _runs_only_at(block.mlp[0], positions):
            yield

    @contextmanager
    def _words_only_at(self, positions: Tensor | None) -> Iterator[None]:
        """The vocabulary's head runs at the position that is read, and nowhere else. With a large vocabulary its logits
        at every position would cost as much as some layers, and far more memory.
        """
        if self.vocabulary_head is None or positions is None:
            yield
            return
        with _runs_only_at(self.vocabulary_head, positions):
            yield

    def _find_vocabulary_head(self) -> nn.Module | None:
        """The head of a language model, if running it at one position gives the same answer. Tried, because a model may
        compute its logits in another way.
        """
        try:
            head, inputs = self.network.get_output_embeddings(), self._sample_batch()
            positions = self.task.positions(self, inputs)
            if head is None or positions is None:
                return None
            with torch.no_grad():
                full = self.network(**inputs).logits
                with _runs_only_at(head, positions):
                    short = self.network(**inputs).logits
        except Exception:  # whatever a model unlike its kind makes of it: then it runs as it is
            return None
        read = full[torch.arange(len(full), device=full.device), positions]
        return head if short.shape[1] == 1 and _same_answer(short[:, 0], read) else None

    def _may_pad(self) -> bool:
        """Whether a text is answered alike alone and beside a longer one. Tried, because padding that is masked in the
        attention may still be convolved or pooled with its neighbours, or be read as the last token.
        """
        if not self.takes_batches:
            return True
        try:
            sample = self.task.sample.format(mask=self.tokenizer.mask_token)
            short, long = self.encode(sample), self.encode(f"Well, well, well. {sample}")
            with torch.no_grad():
                alone, padded = (
                    self._logits(self.batch(some), None, skip_unread=False)[0] for some in ([short], [short, long])
                )
        except Exception:  # whatever the model makes of a text that it cannot read: then it says so when it is asked
            return True
        padded = padded[..., : alone.shape[-1]]
        room = max(1e-3, 10 * torch.finfo(alone.dtype).eps)  # half precision rounds another way in another batch
        return torch.allclose(padded, alone, rtol=room, atol=room * float(alone[alone.isfinite()].abs().max()))

    def _may_skip_unread(self) -> bool:
        """Whether leaving out what is not read gives the same answer. Tried, because a model may have a head unlike its
        family's.
        """
        if self._last_block is None:
            return False
        try:
            inputs = self._sample_batch()
            if self.task.positions(self, inputs) is None:
                return False
            with torch.no_grad():
                short, full = (self._logits(inputs, None, skip_unread=skip) for skip in (True, False))
        except Exception:  # whatever a block unlike its family's makes of it: then the model runs as it is
            return False
        return _same_answer(short, full)

    def _sample_batch(self) -> dict[str, Tensor]:
        """Two texts of different lengths, or one where the model takes no batches."""
        sample = self.task.sample.format(mask=self.tokenizer.mask_token)
        return self.batch([self.encode(text) for text in (sample, f"Well. {sample}")[: 1 + self.takes_batches]])

    @cached_property
    def _last_block(self) -> Block | None:
        """The last block, where it is known and only one position of its output is read."""
        try:
            blocks = self.anatomy.blocks
        except WrongModel:
            return None
        # A block that serves several layers has no last turn.
        return blocks[-1] if len(blocks) == self.network.config.num_hidden_layers else None

    @property
    def _position_unknown(self) -> bool:
        """Whether the position that is read depends on a family that is not known."""
        if not self.task.position_depends_on_family:
            return False
        return self.decision_position is None

    # Hiding

    def filler(self, fill: str) -> int:
        """The id that stands for a hidden token."""
        found = getattr(self.tokenizer, f"{fill}_token_id", None)
        if found is None:
            has = [
                kind
                for kind in ("mask", "unk", "pad", "eos")
                if getattr(self.tokenizer, f"{kind}_token_id", None) is not None
            ]
            raise MissingToken(
                f"The tokenizer has no {fill} token to hide words with. Choose"
                f" another fill: {', '.join(has) or 'none'}."
            )
        return int(found)

    def fill_in_place(self, fill: str) -> str:
        """How tokens are hidden where this is asked for: nothing is deleted where every position has its own answer."""
        return self.usual_fill() if fill == "delete" and self.task.answers_by_position else fill

    def embedding_of(self, fill: str) -> Tensor:
        """The word embedding that stands for a hidden token. (1, size)"""
        with torch.no_grad():
            return self.embed(torch.tensor([self.filler(fill)], device=self.device))

    @cached_property
    def marks(self) -> frozenset[int]:
        """The ids that say where positions start and where a mask is, so that a row is not told by its words alone."""
        pad = self.network.config.get_text_config().pad_token_id
        return frozenset(one for one in (pad, self.tokenizer.mask_token_id) if one is not None)

    def start_token(self) -> int:
        """What stands alone where nothing is left of a text."""
        for kind in ("bos", "cls", "eos", "pad", "unk"):
            found = getattr(self.tokenizer, f"{kind}_token_id", None)
            if found is not None:
                return int(found)
        raise MissingToken(
            "Nothing is left of the text, and the tokenizer has no token that could stand for an empty one."
        )

    def usual_fill(self) -> str:
        """The best stand-in for a hidden token that this tokenizer has."""
        for kind in ("mask", "unk", "pad", "eos"):
            if getattr(self.tokenizer, f"{kind}_token_id", None) is not None:
                return kind
        raise MissingToken("The tokenizer has no mask, unk, pad or eos token, so no word can be hidden.")


@contextmanager
def _runs_only_at(module: nn.Module, positions: Tensor) -> Iterator[None]:
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


def _same_answer(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))


def _in_place_of(seen: Tensor, looked_up: Tensor, ids: Tensor, embeddings: Tensor) -> Tensor | None:
    """The word vectors that take the place of what was looked up, in the shape in which the model sees the ids; None
    where these are not the ids of the text.
    """
    length = ids.shape[1]
    if seen.shape == ids.shape and torch.equal(seen, ids):
        return embeddings
    if seen.shape == ids.shape[::-1] and torch.equal(seen, ids.T):  # tokens in front of rows, as XLNet has them
        return embeddings.transpose(0, 1)
    if seen.ndim != 2 or len(seen) != len(ids):
        return None
    if seen.shape[1] > length and torch.equal(seen[:, :length], ids):  # padded to a window, as Longformer does
        return torch.cat([embeddings, looked_up[:, length:]], 1)
    if seen.shape == ids.shape and torch.equal(seen[:, 1:], ids[:, :-1]):  # a decoder reads the text shifted by one
        return torch.cat([looked_up[:, :1], embeddings[:, :-1]], 1)
    return None
