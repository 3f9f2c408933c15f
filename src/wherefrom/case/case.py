"""One question put to one model. Whatever it takes to answer is computed once and shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal

import torch
from torch import Tensor

from wherefrom.case.asking import Asker
from wherefrom.case.kinds import not_for_two_stacks
from wherefrom.case.passes import Passes, Shared
from wherefrom.case.sublayers import Sublayer, stack_tokens, sublayers_of
from wherefrom.case.targeted import Capture, RelevancePlace, TargetedPasses, clear_when_overwritten
from wherefrom.core.encoding import Encoding
from wherefrom.core.masks import unit_masks
from wherefrom.core.target import Target
from wherefrom.core.units import Level
from wherefrom.errors import NotSeen
from wherefrom.model.anatomy import Anatomy, rebuild_error
from wherefrom.model.attention import Attention
from wherefrom.model.decomposition import BlockContributions, decompose
from wherefrom.model.network import inputs_of
from wherefrom.model.recording import Recording, mean_of_heads
from wherefrom.model.relevance.propagation import MaskVariant, Operation, Propagation, RuleSet
from wherefrom.model.text_model import PassCount, TextModel, read_weights
from wherefrom.registry import Reads


@dataclass(frozen=True)
class Attribution:
    """What a method gives back when it has more to say than scores."""

    scores: Tensor  # (token,) or (layer, token)
    gap: float | None = None
    unassigned: float | None = None
    standard_errors: Tensor | None = None  # (unit,), where scores rest on a random draw: how far they vary with it
    signed: bool | None = None  # where an option takes the sign away from a signed method
    params: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    selection: Mapping[str, object] | None = None  # what the scores were chosen among, and why: plain data
    flow: Callable[[], Tensor] | None = None  # what tokens pass to tokens: (layer, query, key), computed on demand


class Case:
    """One text, one target, one model: what a method is given."""

    def __init__(
        self,
        view: TargetedPasses,
        row: int,
        *,
        level: Level = "token",
        components: Sequence[Target] | None = None,
        count: PassCount | None = None,
    ) -> None:
        self.view, self.row, self.level = view, row, level
        self.passes, self.model = view.passes, view.passes.model
        self.encoding = view.passes.encodings[row]
        self.own_count = count or PassCount()  # rows of this case alone, beside those of the whole batch
        self._components = components
        self._parts: dict[bool, list[BlockContributions]] = {}

    def toward(self, target: Target) -> Case:
        """The same text with another target; everything but the backward pass is shared."""
        return Case(self.passes.toward([target] * len(self.passes.encodings)), self.row, level=self.level)

    @property
    def components(self) -> tuple[Target, ...]:
        """The targets whose explanations are added up, as an answer's start and end are; mostly the one."""
        return tuple(self._components or (self.target,))

    @property
    def component_cases(self) -> list[Case]:
        """A case for every component of the target, this one among them."""
        if self._components is None or len(self._components) == 1:
            return [self]
        return [self if target == self.target else self._sibling(target) for target in self._components]

    def _sibling(self, target: Target) -> Case:
        view = self.passes.toward([target] * len(self.passes.encodings))
        return Case(view, self.row, level=self.level, components=self._components, count=self.own_count)

    def once(self, key: object, compute: Callable[[], Shared]) -> Shared:
        """What is computed once for all components of this text's target."""
        return self.passes.once((self.row, self.level, self.components, key), compute)

    def once_for_text(self, key: object, compute: Callable[[], Shared]) -> Shared:
        """A value computed once for this text and level, for all targets; it must not depend on the target."""
        return self.passes.once((self.row, self.level, key), compute)

    @property
    def target(self) -> Target:
        return self.view.targets[self.row]

    @property
    def logits(self) -> Tensor:
        """(class,), or (2, token) for the two ends of an answer."""
        return self.passes.logits_of(self.row)

    @property
    def anatomy(self) -> Anatomy:
        return self.model.network.anatomy

    @cached_property
    def special(self) -> Tensor:
        """True at tokens that the tokenizer added. (token,)"""
        return torch.tensor(self.encoding.special, device=self.model.network.device)

    @cached_property
    def units(self) -> Tensor:
        """Which tokens belong to each unit of the level. (unit, token)"""
        masks = unit_masks(self.encoding.members(self.level), len(self.encoding))
        return torch.from_numpy(masks).to(self.model.network.device)

    @cached_property
    def capture(self) -> Capture:
        """What was recorded of the pass. Where the gradient at the last attention alone was announced, attention scores
        are not kept.
        """
        made = self.passes.forward(next(iter(self.passes.announced(["last_attention_gradient"])), "gradients"))
        return self._slice(Capture(self.passes.leaf, made.hidden, made.recording.attention))

    def _record(self, need: Reads) -> Recording:
        return self.passes.forward(need).recording

    @property
    def sublayers(self) -> list[Sublayer]:
        """The attentions of the model, in the order in which they run: one in every layer, or those of an encoder and a
        decoder. Known once a pass was recorded.
        """
        passes = self.passes
        return sublayers_of(passes.stacks, len(self.encoding), passes.output, self.target.position)

    def by_layer(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What there is of every sublayer, as one tensor for each layer of the stack that the decision is read from:
        those of a decoder's layer are added.
        """
        layers: dict[int, Tensor] = {}
        for sublayer, part in zip(self.sublayers, parts, strict=True):
            if sublayer.decides:
                known = layers.get(sublayer.layer)
                layers[sublayer.layer] = part if known is None else known + part
        return list(layers.values())

    def attention(self, *, scores: bool) -> list[Tensor]:
        """Every layer's attention, before the softmax or after it, without a graph; of a model with one stack of
        layers. (head, query, key) a layer
        """
        if scores:
            n, layers = len(self.encoding), self._record("scores").attention
            return [self._of_row(layer.scores)[:, :n, :n] for layer in layers]
        blocks = self.head_attention
        if len(self.passes.stacks) > 1:
            raise NotSeen(not_for_two_stacks())
        return blocks

    @property
    def head_attention(self) -> list[Tensor]:
        """Every sublayer's attention probabilities over all tokens, without a graph. (head, query, key) each"""
        n, blocks = len(self.encoding), self._record("head_attention").attention
        pairs = zip(self.sublayers, blocks, strict=True)
        return [sublayer.placed(self._of_row(part.probs), n) for sublayer, part in pairs]

    @property
    def mean_attention(self) -> list[Tensor]:
        """Every sublayer's attention probabilities over all tokens, the mean over heads, without a graph. (query, key)
        each

        Where no method announced that it reads single heads, only the mean was kept.
        """
        n, blocks = len(self.encoding), self._record("mean_attention").attention
        return [
            sublayer.placed(mean_of_heads(self._of_row(part.probs)[:, : sublayer.size[0], : sublayer.size[1]]), n)
            for sublayer, part in zip(self.sublayers, blocks, strict=True)
        ]

    def hidden_states(self, at: Literal["input", "output"]) -> Tensor:
        """What every block is given, or what it gives. (layer, token, hidden)"""
        return self._joined(self.passes.forward("hidden_gradients").hidden, at)

    def hidden_gradients(self, at: Literal["input", "output"]) -> Tensor:
        """The gradient of the target's score at what every block is given, or at what it gives. (layer, token,
        hidden)
        """
        return self._joined(self.view.gradient("hidden_gradients"), at)

    def _joined(self, parts: Sequence[Tensor], at: Literal["input", "output"]) -> Tensor:
        """The inputs of all blocks, and then the output of each stack's last, as one tensor over all tokens; zero in
        layers that the shallower stack does not have. (layer, token, hidden)
        """
        stacks, columns = self.passes.stacks, []
        ends, depth = parts[-len(stacks) :], max(stacks)
        edges = [0, *accumulate(stacks)]
        tokens = stack_tokens(stacks, len(self.encoding), self.passes.output)
        for (first, last), end, span in zip(pairwise(edges), ends, tokens, strict=True):
            states = [*parts[first:last], end]
            chosen = states[:-1] if at == "input" else states[1:]
            column = torch.stack([state[self.row, : span.stop - span.start].detach() for state in chosen])
            columns.append(torch.nn.functional.pad(column, (0, 0, 0, 0, 0, depth - len(column))))
        return torch.cat(columns, 1)

    def parts(self, *, second_norm: bool = False) -> list[BlockContributions]:
        """Every layer's attention block as a sum of what each token brought (see `model/decomposition`); needs no
        gradient.
        """
        if second_norm not in self._parts:
            record, n = self._record("attention"), len(self.encoding)
            # Where every block's second norm was seen once, in its order, its input need not be computed again.
            seen = [x[self.row, :n].detach() for x in record.before_norms if x.shape == record.inputs[0].shape]
            sums = seen if len(seen) == len(record.blocks) else [None] * len(record.blocks)
            self._parts[second_norm] = [
                decompose(
                    self.anatomy.block_of(module),
                    x[self.row, :n].detach(),
                    self._of_row(layer.probs)[:, :n, :n],
                    self._of_row(layer.value)[:, :n],
                    second_norm=second_norm,
                    summed=before,
                )
                for module, x, layer, before in zip(record.blocks, record.inputs, record.attention, sums, strict=True)
            ]
        return self._parts[second_norm]

    def parts_error(self) -> float:
        """How far the blocks' outputs are from what the sums of their parts give, relative to the largest output."""
        record, n, worst = self._record("attention"), len(self.encoding), 0.0
        for parts, module, x, y in zip(self.parts(), record.blocks, record.inputs, record.outputs, strict=True):
            x, y = x[self.row, :n].detach(), y[self.row, :n].detach()
            with torch.no_grad():
                finished = self.anatomy.block_of(module).finish(x, parts.sum().to(x.dtype))
            worst = max(worst, ((finished - y).abs().max() / y.abs().max()).item())
        return worst

    @cached_property
    def gradients(self) -> Capture:
        """The gradient of the target's score at everything captured."""
        return self._slice(self.view.gradients)

    @property
    def last_attention_gradient(self) -> Tensor:
        """The gradient at the attention probabilities of the last layer, over all tokens. (head, query, key)"""
        gradient, n = self.view.gradient("last_attention_gradient"), len(self.encoding)
        placed = (sub.placed(self._of_row(part), n) for sub, part in zip(self.last_sublayers, gradient, strict=True))
        first, *others = placed
        return first + others[0] if others else first

    @property
    def last_sublayers(self) -> list[Sublayer]:
        """The attentions of the last layer."""
        return self.sublayers[-len(self.passes.stacks) :]

    def attention_x_gradients(self, *, positive: bool) -> list[Tensor]:
        """Every sublayer's attention times its gradient, or times its positive gradients alone, over all tokens; the
        mean over heads. (query, key) each
        """
        n, products = len(self.encoding), self.view.gradient("attention_x_gradients")
        half = len(products) // 2
        pairs = zip(self.sublayers, products[half:] if positive else products[:half], strict=True)
        return [sublayer.placed(part[self.row], n) for sublayer, part in pairs]

    def relevance(
        self,
        rules: RuleSet,
        at: RelevancePlace,
        *,
        heads: tuple[tuple[float, ...], ...] | None = None,
        variant: MaskVariant = "paper",
        double: bool = False,
        trace: list[Operation] | None = None,
    ) -> list[Tensor]:
        """What the rules carry from the target's logit to a place in the model.

        at: the word embeddings, (token, size); every block's input and the last one's output, (token, hidden) each;
            every layer's attention probabilities, (head, query, key) each; or the top layer's alone, for which little
            of the model is gone through.
        heads: how much each head's relevance counts, by layer. variant: see
            `wherefrom.model.relevance.rules.through_heads`.
        double: in double precision, also with a model in single precision. trace: a list that is given every operation.
        """
        relevance = self.view.relevance(Propagation(rules, heads, variant, double), at, trace)
        if at in ("words", "blocks"):
            return [part[self.row, : len(self.encoding)] for part in relevance]
        n = len(self.encoding)
        return [self._of_row(part)[:, :n, :n] for part in relevance]

    @property
    def block_inputs(self) -> list[Tensor]:
        """What every block was given, and what the last one gave, in the pass that modified gradients go back through.
        (token, hidden) each
        """
        hidden = self.passes.forward("modified_gradient").hidden
        return [part[self.row, : len(self.encoding)].detach() for part in hidden]

    def heads(self, *, double: bool) -> tuple[int, int]:
        """How many layers, and how many heads in each, relevance goes through."""
        layers = [layer.probs for layer in self._record("relevance_double" if double else "relevance").attention]
        rows = len(self.passes.encodings)
        return len(layers), layers[0].shape[-3] // (rows if layers[0].ndim == 3 else 1)

    def weighted_attention(self, propagation: Propagation) -> list[Tensor]:
        """Every layer's attention weighted by its gradient and its relevance, E_h (dy/dA * R_A)+. (query, key) each"""
        n = len(self.encoding)
        return [part[self.row, :n, :n] for part in self.view.weighted_attention(propagation)]

    def _of_row(self, tensor: Tensor) -> Tensor:
        """Some families fold batch and heads into one dimension."""
        rows = len(self.passes.encodings)
        return (tensor if tensor.ndim == 4 else tensor.view(rows, -1, *tensor.shape[1:]))[self.row].detach()

    @property
    def embeddings(self) -> Tensor:
        """(token, size)"""
        return self.passes.leaf[self.row, : len(self.encoding)].detach()

    @property
    def embedding_gradient(self) -> Tensor:
        """The gradient of the target's score at the word embeddings. (token, size)"""
        return self.view.gradient("embeddings")[0][self.row, : len(self.encoding)]

    def _slice(self, batched: Capture) -> Capture:
        row, n, of_row = self.row, len(self.encoding), self._of_row
        return Capture(
            batched.embeddings[row, :n].detach(),
            [hidden[row, :n].detach() for hidden in batched.hidden],
            [
                Attention(
                    of_row(a.scores)[:, :n, :n] if a.scores.numel() else a.scores,  # empty where they were not kept
                    of_row(a.probs)[:, :n, :n],
                    of_row(a.value)[:, :n],
                )
                for a in batched.attention
            ],
        )

    def read(self, matrix: Tensor) -> Tensor:
        """The row of the position that the decision is read from. (..., query, key) -> (..., key)"""
        return self.row_read.to(matrix.dtype) @ matrix

    @cached_property
    def row_read(self) -> Tensor:
        """How much of each position the decision reads: mostly one at a single position. (token,)"""
        return read_weights(self.model, self.encoding, self.target)

    def _repeated(self, rows: int) -> dict[str, Tensor]:
        return {name: value.expand(rows, -1) for name, value in inputs_of(self.model.network, [self.encoding]).items()}

    def chunks(self, rows: int, *, with_graph: bool = False) -> list[slice]:
        """Row numbers cut into batches that fit the model; a graph for the backward pass takes more room."""
        room = self.model.batch_tokens // (2 if with_graph else 1)
        size = max(1, room // len(self.encoding)) if self.model.network.facts.takes_batches else 1
        return [slice(start, start + size) for start in range(0, rows, size)]

    @torch.no_grad()
    def score_along(self, embeddings: Tensor) -> Tensor:
        """Scores when the word embeddings are these. (row, token, size) -> (row,)"""
        return self.target.score(self.model.run(self._repeated(len(embeddings)), self.own_count, embeddings))

    def gradient_along(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and their gradients when the word embeddings are these. (row, token, size) -> (row,), (row, token,
        size)
        """
        leaf, logits = self.passes.along(embeddings, self._repeated(len(embeddings)), self.own_count)
        scores = self.target.score(logits)
        self.own_count.backwards += len(embeddings)
        with clear_when_overwritten():
            slope = torch.autograd.grad(scores.sum(), leaf, retain_graph=self.passes.keeps_path)[0]
        return scores.detach(), slope

    def ask(self, keep: Tensor, fill: str) -> Tensor:
        """The target's score, of a generated token its log-probability, when only the tokens of `keep` are left, the
        others hidden by `fill`. (row, token) bool -> (row,)
        """
        return self.target.compared(self.answers(keep, fill))

    def answers(self, keep: Tensor, fill: str) -> Tensor:
        """The logits of every row; no question is put twice. (row, token) bool -> (row, class)"""
        asker = self.passes.asker
        asker.know(self.encoding, self.logits)
        pending, before = asker.note(self.encoding, keep, fill), asker.rows
        asker.run()
        self.own_count.forwards += asker.rows - before
        return pending.logits

    def announce_questions(self, keep: Tensor, fill: str) -> None:
        """Announce the queries that `ask` will make, so that those about all texts of a list run together. (row, token)
        bool
        """
        self.passes.asker.note(self.encoding, keep, fill)

    def rebuild_error(self) -> float:
        """How far the blocks are from what their recorded parts give back (see `anatomy`)."""
        record, capture = self._record("gradients"), self.capture
        outputs = [y[self.row, : len(self.encoding)] for y in record.outputs]
        alone = Recording(capture.hidden[:-1], outputs, capture.attention, record.blocks)
        return rebuild_error(self.anatomy, alone)


def make_cases(
    model: TextModel,
    encodings: Sequence[Encoding],
    targets: Sequence[Target | None],
    *,
    level: Level = "token",
    asker: Asker | None = None,
    reads: Iterable[Reads] = (),
) -> Iterator[dict[int, Case]]:
    """Cases by their place in `encodings`, a batch of texts of similar length at a time.

    asker: runs the queries of all cases; None for one asker per batch.
    reads: what will be read of each, so that one pass serves all of it.
    """
    for places in batches_by_length(model, [len(encoding) for encoding in encodings]):
        passes = Passes(model, [encodings[place] for place in places], asker)
        passes.announce(reads)
        view = passes.toward([targets[place] for place in places])
        yield {place: Case(view, row, level=level) for row, place in enumerate(places)}


def batches_by_length(model: TextModel, lengths: Sequence[int]) -> list[list[int]]:
    """Places of texts in groups of similar length, each small enough for one pass."""
    groups: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        fits = (
            groups
            and model.network.facts.takes_batches
            and model.network.facts.lengths.alike(lengths[groups[-1][0]], lengths[place])
            and (len(groups[-1]) + 1) * lengths[place] <= model.batch_tokens
        )
        if not fits:
            groups.append([])
        groups[-1].append(place)
    return groups
