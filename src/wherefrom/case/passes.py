"""Texts that go through the model together, and the passes over them.

What will be read is announced first. Then the cheapest forward pass that serves everything announced is made once, when
the first of it is read: which passes are made does not depend on the order in which methods read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from wherefrom.case.asking import Asker, JoinedBatch
from wherefrom.case.memory import LIGHT, clear_when_memory_ends, free_memory, is_out_of_memory, not_enough_memory
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Target
from wherefrom.errors import ModelFailed, NotEnoughMemory, NotSeen, TextWithoutAnswer, WrongModel
from wherefrom.model.device import give_back_memory
from wherefrom.model.recording import (
    AT_ONCE,
    Attend,
    Attention,
    AttentionCall,
    Keep,
    Recording,
    averaged_attention,
    explicit_attention,
    fused_attention,
    keep_all,
    keep_mean,
    keep_no_scores,
    keep_nothing,
    keep_probs,
    kernel_attention,
    later_attention,
    pass_through,
    recording,
)
from wherefrom.model.relevance.double import graph_tensor, paired
from wherefrom.model.relevance.mode import RelevanceMode, relevance_mode
from wherefrom.model.relevance.propagation import Operation, Propagation, PropagationState
from wherefrom.model.text_model import PassCount, TextModel, check_answers
from wherefrom.registry import Reads

Shared = TypeVar("Shared")


@dataclass(frozen=True)
class Capture:
    """Everything of one pass, for one text: no batch dimension. `gradients` has the same shape."""

    embeddings: Tensor  # (token, size): the word embeddings, the leaf that every gradient reaches
    hidden: list[Tensor]  # (token, hidden): the input of each block, and last the output of the last
    attention: list[Attention]  # one a layer


@dataclass(frozen=True)
class ForwardPass:
    """What one forward pass left behind, with a batch in front."""

    logits: Tensor  # with its autograd graph, where the pass keeps one
    record: Recording | None = None
    propagation: PropagationState | None = None  # what relevance is propagated with, for passes that leave rules behind

    @property
    def recording(self) -> Recording:
        """What was recorded, of a pass that `SERVES` names as one that records."""
        assert self.record is not None
        return self.record

    @property
    def state(self) -> PropagationState:
        """What relevance is propagated with, of a pass made for it."""
        assert self.propagation is not None
        return self.propagation


# Where relevance is read: see `Case.relevance`.
RelevancePlace = Literal["words", "blocks", "attention", "top", "contexts"]
PassKind = Literal[
    "plain",
    "embeddings",
    "mean_attention",
    "head_attention",
    "attention",
    "scores",
    "hidden_graph",
    "mean_graph",
    "product_graph",
    "graph",
    "gradients",
    "modified_gradient",
    "relevance",
    "relevance_double",
]

_PLAIN: frozenset[Reads] = frozenset({"nothing", "answers", "path"})  # these read nothing of it but the logits
_MEAN: frozenset[Reads] = _PLAIN | {"mean_attention"}
_HEADS: frozenset[Reads] = _MEAN | {"head_attention"}
_ATTENTION: frozenset[Reads] = _HEADS | {"attention"}
_SCORES: frozenset[Reads] = _ATTENTION | {"scores"}
# Gradients that one backward pass over the graph finds. The first is the cheapest, and the last takes the most memory.
BACKWARD: tuple[Reads, ...] = (
    "embeddings",
    "hidden_gradients",
    "last_attention_gradient",
    "attention_x_gradients",
    "gradients",
)
_HIDDEN: frozenset[Reads] = _PLAIN | {"embeddings", "hidden_gradients"}
_GRAPH: frozenset[Reads] = _ATTENTION | set(BACKWARD[:-1])
_GRADIENTS: frozenset[Reads] = _GRAPH | {"scores", "gradients"}
# What each kind of pass serves, from the cheapest to the richest. The pass in double precision stands apart: its
# attention is one step of the backward pass, so that nobody can read probabilities from it.
SERVES: dict[PassKind, frozenset[Reads]] = {
    "plain": _PLAIN,
    "embeddings": _PLAIN | {"embeddings"},
    "mean_attention": _MEAN,
    "head_attention": _HEADS,
    "attention": _ATTENTION,
    "scores": _SCORES,
    "hidden_graph": _HIDDEN,
    "mean_graph": _HIDDEN | _MEAN,
    "product_graph": _HIDDEN | {"attention_x_gradients"},
    "graph": _GRAPH,
    "gradients": _GRADIENTS,
    "modified_gradient": _PLAIN | {"embeddings", "modified_gradient"},
    "relevance": _GRADIENTS | {"modified_gradient", "relevance"},
    "relevance_double": _PLAIN | {"relevance_double"},
}


# Passes that nobody reads a hidden state of: what the decision does not read is left out of the last block, and the
# questions about a single text go through the model with it.
NO_HIDDEN: frozenset[PassKind] = frozenset({"plain", "mean_attention", "head_attention"})

TWO_STACKS = (
    "Not yet for models with an encoder and a decoder: this method follows one stack of layers, and there are two, with"
    " attention between them. Take attn_lrp, saliency, integrated_gradients, occlusion, attention_rollout, attcat or"
    " gae."
)
# How the passes that record a model as it is compute attention, and what of it they keep.
RECORDS: dict[PassKind, tuple[Attend, Keep]] = {
    "mean_attention": (averaged_attention, keep_mean),
    "head_attention": (explicit_attention, keep_probs),
    "attention": (explicit_attention, keep_no_scores),
    "scores": (explicit_attention, keep_all),
    "hidden_graph": (kernel_attention, keep_nothing),
    "mean_graph": (averaged_attention, keep_mean),
    "product_graph": (later_attention, keep_no_scores),
    "graph": (fused_attention, keep_no_scores),
    "gradients": (explicit_attention, keep_all),
}
# What a pass of each kind keeps in every layer: tensors as large as the attention probabilities of all heads, as those
# of one head, and as the hidden states. Counted in the code, and compared with what passes were measured to take.
KEEPS: dict[PassKind, tuple[int, int, int]] = {
    "plain": (0, 0, 0),
    "embeddings": (0, 0, 20),
    "mean_attention": (0, 1, 4),
    "head_attention": (1, 0, 4),
    "attention": (1, 0, 4),
    "scores": (2, 0, 4),
    "hidden_graph": (0, 0, 20),
    "mean_graph": (0, 1, 20),
    "product_graph": (0, 2, 20),
    "graph": (1, 0, 20),
    "gradients": (4, 0, 24),
    "modified_gradient": (0, 0, 24),
    "relevance": (4, 0, 28),
    "relevance_double": (1, 0, 32),
}
# Methods that keep no attention, and the pass that serves them: to be advised where others take too much memory.
LIGHTER: dict[str, PassKind] = dict(zip(LIGHT, ("embeddings", "embeddings", "modified_gradient", "plain"), strict=True))
PASSING = 3  # tensors as large as one layer's attention that come and go
SMALL = 2**27  # bytes; nobody looks whether these are free


class Passes:
    """Texts in one padded batch and the forward passes over them, each made once. It knows no target."""

    def __init__(self, model: TextModel, encodings: Sequence[Encoding], asker: Asker | None = None) -> None:
        self.model, self.encodings = model, encodings
        self.asker = asker or Asker(model)
        self.count = PassCount()
        self._announced: set[Reads] = set()
        self._several_targets = False
        self._made: dict[PassKind, ForwardPass] = {}
        self._failed: dict[PassKind, WrongModel] = {}
        self._path: tuple[Tensor, Tensor] | None = None
        self._shared: dict[object, Any] = {}
        # Weak, because these hold the passes: with a reference cycle, whole autograd graphs would stay in memory until
        # the garbage collector comes by.
        self._toward: WeakValueDictionary[tuple[Target, ...], TargetedPasses] = WeakValueDictionary()

    def announce(self, needs: Iterable[Reads], *, several_targets: bool = False) -> None:
        """Say what will be read, before anything is.

        several_targets: the same texts will be explained towards several targets, so that a forward pass along a path
            of embeddings is worth keeping for the next of them.
        """
        self._announced |= set(needs)
        self._several_targets = self._several_targets or several_targets

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        return self.model.batch(self.encodings)

    @cached_property
    def leaf(self) -> Tensor:
        """The word embeddings, which every gradient reaches. (row, token, size)"""
        with torch.no_grad():
            return self.model.embed(self.inputs["input_ids"]).requires_grad_()

    @cached_property
    def logits(self) -> Tensor:
        """What the model answers, by the pass that will be read anyway; by a plain one if none will. (row, class)"""
        inside = sorted(self._announced - _PLAIN, key=lambda need: (need == "relevance_double", need))
        for need in inside:
            # A model that cannot be looked into still answers; the method that looks into it gets the error.
            with suppress(WrongModel, NotEnoughMemory):
                return self.forward(need).logits.detach().to(self.leaf.dtype)
        return self.forward("nothing").logits.detach().to(self.leaf.dtype)

    def logits_of(self, row: int) -> Tensor:
        """What the model answers to one of the texts. (class,)"""
        return self.model.task.own_logits(self.model, self.logits[row], self.encodings[row].input_ids)

    def served_with(self, need: Reads) -> frozenset[Reads]:
        """All that the pass that serves a need serves."""
        self.forward(need)
        return next(serves for kind, serves in SERVES.items() if kind in self._made and need in serves)

    def announced(self, needs: Iterable[Reads]) -> list[Reads]:
        """Those of these needs that were announced."""
        return [need for need in needs if need in self._announced]

    def forward(self, need: Reads) -> ForwardPass:
        """The pass that serves a need: one that was made, else the cheapest that also serves all that was announced."""
        serving = [kind for kind, serves in SERVES.items() if need in serves]
        for kind in serving:
            if kind in self._made:
                return self._made[kind]
        waiting = {other for other in self._announced if not any(other in SERVES[kind] for kind in self._made)}
        too_large: list[int] = []
        for kind in sorted(serving, key=lambda kind: len((waiting - {"relevance_double"}) - SERVES[kind])):
            if kind in self._failed:
                continue
            if not self._fits(kind):
                too_large.append(self.needed_memory(kind) or 0)  # a pass that serves less may do
                continue
            try:
                with clear_when_memory_ends(self._longest):
                    self._made[kind] = self._make_with_questions(kind)
            except NotEnoughMemory:
                raise
            except WrongModel as error:
                self._failed[kind] = error.with_traceback(None)
            except ModelFailed as error:  # the rows of this pass are texts, so that the others can do without them
                raise TextWithoutAnswer(str(error), error.rows) from error
            else:
                return self._made[kind]
        if too_large:
            raise self._does_not_fit(min(too_large))
        raise next(self._failed[kind] for kind in serving).with_traceback(None)

    @property
    def _longest(self) -> int:
        return max(map(len, self.encodings))

    def needed_memory(self, kind: PassKind) -> int | None:
        """How many bytes a pass will take, from the shapes of what it keeps; None where the model does not say them."""
        config, n = self.model.network.config.get_text_config(), self._longest
        sizes = [getattr(config, name, None) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")]
        if not all(isinstance(size, int) for size in sizes):
            return None
        layers, heads, hidden = (int(size) for size in sizes if size is not None)
        of_all_heads, of_one_head, vectors = KEEPS[kind]
        matrices = (layers * of_all_heads + PASSING * bool(of_all_heads)) * heads
        matrices += layers * of_one_head
        if of_one_head and getattr(config, "_attn_implementation", None) != "sdpa":
            matrices += PASSING * heads  # where the model itself computes them, all heads are there at once
        numbers = matrices * n * n + layers * vectors * n * hidden
        return numbers * len(self.encodings) * self.model.network.dtype.itemsize

    def _fits(self, kind: PassKind) -> bool:
        """Whether there is memory for a pass, known before it is begun; True where nobody says how much there is."""
        needed = self.needed_memory(kind) or 0
        free = None if needed < SMALL else free_memory(self.model.device)
        return free is None or needed <= free

    def _does_not_fit(self, needed: int) -> NotEnoughMemory:
        """The error where no pass fits that serves a need. It names the one that takes least, and what would fit."""
        lighter = [method for method, kind in LIGHTER.items() if self._fits(kind)]
        return not_enough_memory(self._longest, needed, free_memory(self.model.device), lighter)

    def _make_with_questions(self, kind: PassKind) -> ForwardPass:
        """Questions that wait go through the model with the one text that they are about. Where memory does not suffice
        for all of them, the text goes alone, and they wait.
        """
        if kind in NO_HIDDEN and len(self.encodings) == 1:
            joined = self.asker.joined_with(self.encodings[0])
            try:
                return self._make(kind, joined)
            except (RuntimeError, MemoryError) as error:
                if joined is None or not is_out_of_memory(error):
                    raise
            give_back_memory()
        return self._make(kind)

    def _make(self, kind: PassKind, joined: JoinedBatch | None = None) -> ForwardPass:
        if kind == "plain":
            with torch.no_grad():
                return ForwardPass(self._logits_of_texts(None, joined))
        if kind == "embeddings":
            with torch.enable_grad():
                return ForwardPass(self.model.logits(self.inputs, self.count, self.leaf))
        if kind == "modified_gradient" and self.records_no_layer:
            return self._to_words()
        if self.model.task.two_stacks:
            raise NotSeen(TWO_STACKS)
        if kind in ("modified_gradient", "relevance", "relevance_double"):
            return self._with_rules(kind)
        with torch.set_grad_enabled("embeddings" in SERVES[kind]):
            whole = kind not in NO_HIDDEN
            return ForwardPass(*self._record(self.leaf, *RECORDS[kind], whole=whole, joined=joined))

    def _logits_of_texts(self, leaf: Tensor | None, joined: JoinedBatch | None, *, whole: bool = False) -> Tensor:
        """One forward pass; what it answers to the questions beside the text, the asker is given. (text, class)"""
        if joined is None:
            return self.model.logits(self.inputs, self.count, leaf, whole=whole)
        logits = self.model.logits(joined.inputs, self.count, self.model.embed(joined.words), check=False)
        check_answers(logits[:1])
        self.asker.take_joined(joined, logits)
        return logits[:1]

    @property
    def records_no_layer(self) -> bool:
        """Whether modified gradients can be followed to the words alone: there are two stacks, or several rows."""
        return self.model.task.two_stacks or self.model.task.several_rows is not None

    def _to_words(self) -> ForwardPass:
        """The forward pass that modified gradients go back through to the words, whatever stands between: two stacks,
        or several rows for one text. No layer of it is recorded.
        """
        network, two = self.model.network, self.model.task.two_stacks
        routers = () if two else self.model.anatomy.routers
        mode_of = partial(relevance_mode, network, len(self.encodings), routers=routers)
        with torch.enable_grad(), mode_of(double=False, gradient_rules=True) as mode:
            logits = graph_tensor(self.model.logits(self.inputs, self.count, self.leaf))
            return ForwardPass(logits, Recording(), mode.state)

    def _with_rules(self, kind: PassKind) -> ForwardPass:
        """The forward pass that relevance goes back through; its values in double precision if asked for."""
        network, routers, double = self.model.network, self.model.anatomy.routers, kind == "relevance_double"
        gradient_rules = kind == "modified_gradient"
        mode_of = partial(relevance_mode, network, len(self.encodings), routers=routers)
        with torch.enable_grad(), mode_of(double=double, gradient_rules=gradient_rules) as mode:
            leaf = paired(self.leaf, self.leaf.detach().double()) if double else self.leaf
            logits, record = self._record(leaf, mode.attend, mode=mode, whole=not (double or gradient_rules))
            record.contexts = mode.contexts
            return ForwardPass(logits, record, mode.state)

    def _record(
        self,
        leaf: Tensor,
        attend: Attend,
        keep: Keep = keep_all,
        mode: RelevanceMode | None = None,
        *,
        whole: bool = True,
        joined: JoinedBatch | None = None,
    ) -> tuple[Tensor, Recording]:
        task = self.model.task
        if task.several_rows is not None:
            raise NotSeen(
                f"Not yet for {task.name}: this method looks at the layers of one pass, and there are several, because"
                f" {task.several_rows}. Take saliency, input_x_gradient, integrated_gradients, or a method that only"
                " asks, such as occlusion."
            )
        family, blocks = self.model.anatomy.family, self.model.anatomy.blocks
        if family.unseen is not None:
            raise NotSeen(f"Not defined for {family.model_types[0]}: {family.unseen}")
        with recording(
            [b.module for b in blocks],
            [b.attention for b in blocks],
            pass_through if mode is None else mode.hook,
            attend,
            outputs=[b.output for b in blocks],
            tokens_first=family.tokens_first,
            keep=keep,
            rows=len(self.encodings),
            beside=0 if joined is None else len(joined.places) - 1,
            norms=[b.mlp_norm for b in blocks if b.order == "post"] if mode is None and whole else [],
        ) as record:
            logits = graph_tensor(self._logits_of_texts(leaf, joined, whole=whole))
        if not record.attention or len(record.attention) != len(record.blocks):
            raise NotSeen(
                f"{len(record.blocks)} blocks ran but {len(record.attention)} attentions were seen, so nothing is"
                " explained rather than something wrong. Load the model with attn_implementation='eager' or 'sdpa',"
                " not compiled."
            )
        return logits, record

    def along(self, embeddings: Tensor, inputs: dict[str, Tensor], count: PassCount) -> tuple[Tensor, Tensor]:
        """A forward pass of one text with other word embeddings, and its autograd graph: the leaf, and the logits.

        The last one is kept where several targets were announced, because the next of them goes along the same path.
        """
        if self._path is not None:
            leaf, logits = self._path
            if leaf.shape == embeddings.shape and torch.equal(leaf, embeddings):
                return leaf, logits
        with torch.enable_grad():
            leaf = embeddings.detach().requires_grad_()
            logits = self.model.logits(inputs, count, leaf)
        if self._several_targets:
            self._path = (leaf, logits)
        return leaf, logits

    @property
    def keeps_path(self) -> bool:
        """Whether the autograd graph of a pass along a path is still needed after a backward pass over it."""
        return self._several_targets

    def once(self, key: object, compute: Callable[[], Shared]) -> Shared:
        """What is computed once for these texts. It must not hold on to a case, which would be a reference cycle."""
        if key not in self._shared:
            self._shared[key] = compute()
        found: Shared = self._shared[key]
        return found

    def toward(self, targets: Sequence[Target | None]) -> TargetedPasses:
        """The same passes towards one target a row; None stands for what the model predicts."""
        known = tuple(target for target in targets if target is not None)
        if len(known) < len(targets):
            return TargetedPasses(self, targets)
        found = self._toward.get(known)
        if found is None:
            found = self._toward[known] = TargetedPasses(self, targets)
        return found


class TargetedPasses:
    """The passes over a batch of texts, seen towards one target a row: everything that needs a backward pass."""

    def __init__(self, passes: Passes, asked: Sequence[Target | None]) -> None:
        self.passes, self.asked = passes, asked
        self._relevance: dict[object, list[Tensor]] = {}
        self._gradients: dict[Reads, list[Tensor]] = {}

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """What each row is asked about; what it predicts, where nothing was said."""
        model, passes = self.passes.model, self.passes
        rows = zip(self.asked, passes.encodings, strict=True)
        return tuple(
            asked or model.task.predicted(model, passes.logits_of(row), encoding)
            for row, (asked, encoding) in enumerate(rows)
        )

    def gradient(self, need: Reads) -> list[Tensor]:
        """The gradients of every row's own target that a method reads, with a batch in front; all that were announced
        come from one backward pass.

        At the word embeddings (one tensor); at the input of every block and the output of the last; at the last layer's
        attention probabilities (one); at every layer's, times these probabilities and averaged over heads: as they
        are, and then with positive gradients alone. For everything recorded, see `gradients`.
        """
        if need not in self._gradients:
            # An announced method may find that this model cannot be looked into; the others do without it.
            together = self.passes.served_with(need) - {"gradients"}
            wanted = dict.fromkeys([need, *self.passes.announced(BACKWARD)])
            self._gradients |= self._found([other for other in wanted if other in together])
        return self._gradients[need]

    def _found(self, needs: Sequence[Reads]) -> dict[Reads, list[Tensor]]:
        """One backward pass for all of these."""
        made = self.passes.forward(needs[0])
        places: dict[Reads, list[Tensor]] = {"embeddings": [self.passes.leaf]}
        if set(needs) != {"embeddings"}:
            record = made.recording
            # Where attention is one step, its gradient is that of the context times the value.
            contexts = record.contexts if made.propagation is None else []
            places["hidden_gradients"] = [*record.inputs, record.outputs[-1]]
            places["last_attention_gradient"] = [contexts[-1] if contexts else record.attention[-1].probs]
            places["attention_x_gradients"] = [record.inputs[0]]  # so far the backward pass must go
        products: list[tuple[Tensor, Tensor]] = []
        with ExitStack() as hooks:
            if "attention_x_gradients" in needs:
                # Taken as the backward pass goes by, so that no layer's gradient stays in memory. From the last layer.
                for number, layer in enumerate(record.attention):
                    place = contexts[number] if contexts else layer.probs
                    call = record.calls[number] if record.calls and not layer.probs.numel() else None
                    take = partial(self._take_products, layer, call, products, through_context=bool(contexts))
                    hooks.callback(place.register_hook(take).remove)
            found = iter(self._backward(made.logits, [place for need in needs for place in places[need]]))
        gradients = {need: [next(found) for _ in places[need]] for need in needs}
        if "last_attention_gradient" in needs and contexts:
            (slope,) = gradients["last_attention_gradient"]
            gradients["last_attention_gradient"] = [slope @ record.attention[-1].value.detach().transpose(-2, -1)]
        if "attention_x_gradients" in needs:
            signed, positive = zip(*reversed(products), strict=True)
            gradients["attention_x_gradients"] = [*signed, *positive]
        return gradients

    def _take_products(
        self,
        layer: Attention,
        call: AttentionCall | None,
        products: list[tuple[Tensor, Tensor]],
        slope: Tensor,
        *,
        through_context: bool,
    ) -> None:
        """Attention times its gradient, and times its positive gradients alone: the means over heads. (row, query, key)

        Some heads after the others, because all at once would take as much memory again as the attention itself.
        call: where the probabilities are still to be computed.
        """
        rows, queries = len(self.asked), slope.shape[-2]
        slope = slope.detach().view(rows, -1, *slope.shape[-2:])
        heads, height = slope.shape[1], max(1, AT_ONCE // (rows * queries * queries))
        signed, positive = (slope.new_zeros(rows, queries, queries) for _ in range(2))
        for first in range(0, heads, height):
            some = range(first, min(first + height, heads))
            own = self._of_heads(layer, some) if call is None else call.of_heads(some)
            gradient = slope[:, some.start : some.stop]
            gradient = gradient @ own.value.transpose(-2, -1) if through_context else gradient
            weighted = own.probs * gradient
            signed += weighted.sum(1)
            positive += weighted.clamp_(min=0).sum(1)  # attention is never negative
        products.append((signed / heads, positive / heads))

    def _of_heads(self, layer: Attention, some: range) -> Attention:
        """Some heads of what was recorded, without a graph. (row, head, ...)"""
        return Attention(
            *(
                part.detach().view(len(self.asked), -1, *part.shape[-2:])[:, some.start : some.stop]
                for part in (layer.probs, layer.probs, layer.value)
            )
        )

    @cached_property
    def gradients(self) -> Capture:
        """The gradient of every row's own target at everything recorded: one backward pass. With a batch in front."""
        made = self.passes.forward("gradients")
        record = made.recording
        attention = [t for layer in record.attention for t in (layer.scores, layer.probs, layer.value)]
        found = self._backward(made.logits, [self.passes.leaf, *record.inputs, record.outputs[-1], *attention])
        edge = 2 + len(record.inputs)
        layers = [Attention(*found[i : i + 3]) for i in range(edge, len(found), 3)]
        return Capture(found[0], list(found[1:edge]), layers)

    def relevance(
        self, propagation: Propagation, at: RelevancePlace, trace: list[Operation] | None = None
    ) -> list[Tensor]:
        """What the rules carry from every row's own target to `at`, with a batch in front."""
        self._check_heads(propagation)
        need: Reads = "relevance_double" if propagation.double else "relevance"
        cheaper = at == "words" or (at == "blocks" and not self.passes.records_no_layer)
        if need == "relevance" and propagation.rules != "zplus" and cheaper and trace is None:
            need = "modified_gradient"  # so little is read that a cheaper pass may do
        made = self.passes.forward(need)
        record, state = made.recording, made.state
        key, layers = (propagation, at), [layer.probs for layer in record.attention]
        if key not in self._relevance or trace is not None:
            wanted = {
                "words": [self.passes.leaf],
                "blocks": [*record.inputs, *record.outputs[-1:]],
                "attention": layers,
                "top": layers[-1:],
                "contexts": record.contexts,
            }[at]
            last = {"attention": 0, "top": len(layers) - 1}.get(at)
            with state.propagating(propagation, trace=trace, last=last, keeps_attention=last is not None):
                self._relevance[key] = list(self._backward(made.logits, wanted))
        return self._relevance[key]

    def _check_heads(self, propagation: Propagation) -> None:
        """What a layer without any head received is added at the block's input, which must then be one place."""
        if not propagation.heads:
            return
        family, heads = self.passes.model.anatomy.family, propagation.heads
        if family.output is not None and propagation.variant == "paper" and not all(map(any, heads)):
            raise NotSeen(
                f"Not defined for {family.model_types[0]} where a layer has no head left: no module is the whole block,"
                " so that what its attention received cannot be handed to the residual. Keep a head in every layer, or"
                " take variant='published'."
            )

    def weighted_attention(self, propagation: Propagation) -> list[Tensor]:
        """Every layer's E_h (dy/dA * R_A)+: the gradient of its attention times its relevance, the mean over heads.
        (row, query, key)
        """
        key = (propagation, "weighted attention")
        if key not in self._relevance:
            self._relevance[key] = self._weighted_attention(propagation)
        return self._relevance[key]

    def _weighted_attention(self, propagation: Propagation) -> list[Tensor]:
        self._check_heads(propagation)
        made = self.passes.forward("relevance_double" if propagation.double else "relevance")
        record, state = made.recording, made.state
        layers, plain = [layer.probs for layer in record.attention], Propagation(double=propagation.double)
        if len(record.contexts) == len(layers):  # so that neither of the two factors is ever whole in memory
            with state.propagating(propagation, last=0, gradients=self.relevance(plain, "contexts")):
                self._backward(made.logits, layers, may_be_nothing=True)
                return [state.mixed[layer] for layer in range(len(layers))]
        pairs = zip(self.relevance(propagation, "attention"), self.relevance(plain, "attention"), strict=True)
        by_head = [(a * b).clamp_(min=0) for a, b in pairs]
        return [part.view(len(self.asked), -1, *part.shape[-2:]).mean(1) for part in by_head]

    def _backward(self, logits: Tensor, wanted: list[Tensor], *, may_be_nothing: bool = False) -> tuple[Tensor, ...]:
        self.passes.count.backwards += len(self.targets)
        score = torch.stack([target.score(logits[i : i + 1])[0] for i, target in enumerate(self.targets)]).sum()
        with clear_when_memory_ends(max(map(len, self.passes.encodings))):
            return torch.autograd.grad(score, wanted, retain_graph=True, allow_unused=may_be_nothing)
