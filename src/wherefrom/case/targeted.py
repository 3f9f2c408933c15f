"""The passes over a batch of texts, seen toward one target for each text: all that takes a backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from wherefrom.case.kinds import BACKWARD
from wherefrom.case.memory import clear_when_memory_ends
from wherefrom.core.names import join_names
from wherefrom.core.target import Target
from wherefrom.errors import NotSeen
from wherefrom.model.attention import AT_ONCE, Attention, AttentionCall
from wherefrom.model.relevance.propagation import Operation, Propagation
from wherefrom.registry import Reads, methods_reading

if TYPE_CHECKING:
    from wherefrom.case.passes import Passes

# Where relevance is read: see `Case.relevance`.
RelevancePlace = Literal["words", "blocks", "attention", "top", "contexts"]


@contextmanager
def clear_when_overwritten() -> Iterator[None]:
    """Turn autograd's error about an operation in place within the block into one that says what to do."""
    try:
        yield
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        raise NotSeen(
            "This model overwrites what its gradient needs (an operation in place), so that it has none for this text."
            f" Take a method that only queries it: {join_names(methods_reading('answers'), 'or')}."
        ) from error


@dataclass(frozen=True)
class Capture:
    """Everything of one pass over one stack of layers, for one text: no batch dimension. `gradients` has the same
    shape.
    """

    embeddings: Tensor  # (token, size): the word embeddings, the leaf that every gradient reaches
    hidden: list[Tensor]  # (token, hidden): the input of each block, and the output of the last
    attention: list[Attention]  # one a layer


class TargetedPasses:
    """The passes over a batch of texts, seen towards one target a row: everything that needs a backward pass."""

    def __init__(self, passes: Passes, targets: Sequence[Target | None]) -> None:
        self.passes, self._given, self._rows = passes, targets, len(targets)
        self._relevance: dict[object, list[Tensor]] = {}
        self._gradients: dict[Reads, list[Tensor]] = {}

    @cached_property
    def targets(self) -> tuple[Target, ...]:
        """The target of each row; what the model predicts, where none was given."""
        model, passes = self.passes.model, self.passes
        rows = zip(self._given, passes.encodings, strict=True)
        return tuple(
            target or model.task.predicted(model, passes.logits_of(row), encoding)
            for row, (target, encoding) in enumerate(rows)
        )

    def gradient(self, need: Reads) -> list[Tensor]:
        """The gradients of every row's own target that a method reads, with a batch in front; all that were announced
        come from one backward pass.

        At the word embeddings (one tensor); at the input of every block and the output of each stack's last; at the
        last layer's attention probabilities (one, or two of a decoder's layer); at every attention's, times these
        probabilities and averaged over heads: as they are, and then with positive gradients alone. For everything
        recorded, see `gradients`.
        """
        if need not in self._gradients:
            # An announced method may find that this model cannot be looked into; the others do without it.
            together = self.passes.served_with(need) - {"gradients"}
            needs = dict.fromkeys([need, *self.passes.announced(BACKWARD)])
            self._gradients |= self._differentiated([other for other in needs if other in together])
        return self._gradients[need]

    def _differentiated(self, needs: Sequence[Reads]) -> dict[Reads, list[Tensor]]:
        """One backward pass for all of these."""
        made = self.passes.forward(needs[0])
        places: dict[Reads, list[Tensor]] = {"embeddings": [self.passes.leaf]}
        if set(needs) != {"embeddings"}:
            record, last = made.recording, made.last_layer
            # Where attention is one step, its gradient is that of the context times the value.
            contexts = record.contexts if made.propagation is None else []
            places["hidden_gradients"] = made.hidden
            places["last_attention_gradient"] = contexts[-len(last) :] or [layer.probs for layer in last]
            # The backward pass must reach the first block of every stack.
            places["attention_x_gradients"] = [record.inputs[first] for first in (0, *made.stacks[:-1])]
        products: dict[int, tuple[Tensor, Tensor]] = {}
        with ExitStack() as hooks:
            if "attention_x_gradients" in needs:
                # Taken while the backward pass runs, so that no layer's gradient stays in memory.
                for number, layer in enumerate(record.attention):
                    place = contexts[number] if contexts else layer.probs
                    call = record.calls[number] if record.calls and not layer.probs.numel() else None

                    def take(
                        slope: Tensor, number: int = number, layer: Attention = layer, call: AttentionCall | None = call
                    ) -> None:
                        products[number] = self._products(layer, call, slope, through_context=bool(contexts))

                    hooks.callback(place.register_hook(take).remove)
            derivatives = iter(self._backward(made.logits, [place for need in needs for place in places[need]]))
        gradients = {need: [next(derivatives) for _ in places[need]] for need in needs}
        if "last_attention_gradient" in needs and contexts:
            gradients["last_attention_gradient"] = [
                slope @ layer.value.detach().transpose(-2, -1)
                for slope, layer in zip(gradients["last_attention_gradient"], last, strict=True)
            ]
        if "attention_x_gradients" in needs:
            signed, positive = zip(*(products[number] for number in range(len(record.attention))), strict=True)
            gradients["attention_x_gradients"] = [*signed, *positive]
        return gradients

    def _products(
        self, layer: Attention, call: AttentionCall | None, slope: Tensor, *, through_context: bool
    ) -> tuple[Tensor, Tensor]:
        """Attention times its gradient, and times its positive gradients alone: the means over heads. (row, query, key)

        Some heads at a time, because all at once would take as much memory again as the attention itself.
        call: where the probabilities are still to be computed.
        """
        rows, queries = self._rows, slope.shape[-2]
        keys = layer.probs.shape[-1] if call is None else call.key.shape[-2]
        slope = slope.detach().view(rows, -1, *slope.shape[-2:])
        heads, height = slope.shape[1], max(1, AT_ONCE // (rows * queries * keys))
        signed, positive = (slope.new_zeros(rows, queries, keys) for _ in range(2))
        for first in range(0, heads, height):
            some = range(first, min(first + height, heads))
            part = self._of_heads(layer, some) if call is None else call.of_heads(some)
            gradient = slope[:, some.start : some.stop]
            gradient = gradient @ part.value.transpose(-2, -1) if through_context else gradient
            weighted = part.probs * gradient
            signed += weighted.sum(1)
            positive += weighted.clamp_(min=0).sum(1)  # attention is never negative
        return signed / heads, positive / heads

    def _of_heads(self, layer: Attention, some: range) -> Attention:
        """Some heads of what was recorded, without a graph. (row, head, ...)"""
        return Attention(
            *(
                part.detach().view(self._rows, -1, *part.shape[-2:])[:, some.start : some.stop]
                for part in (layer.probs, layer.probs, layer.value)
            )
        )

    @cached_property
    def gradients(self) -> Capture:
        """The gradient of every row's own target at everything recorded: one backward pass. With a batch in front."""
        made = self.passes.forward("gradients")
        record = made.recording
        attention = [t for layer in record.attention for t in (layer.scores, layer.probs, layer.value)]
        gradients = self._backward(made.logits, [self.passes.leaf, *made.hidden, *attention])
        edge = 2 + len(record.inputs)
        layers = [Attention(*gradients[i : i + 3]) for i in range(edge, len(gradients), 3)]
        return Capture(gradients[0], list(gradients[1:edge]), layers)

    def relevance(
        self, propagation: Propagation, at: RelevancePlace, trace: list[Operation] | None = None
    ) -> list[Tensor]:
        """What the rules carry from every row's own target to `at`, with a batch in front."""
        self._check_heads(propagation)
        need: Reads = "relevance_double" if propagation.double else "relevance"
        cheaper = at == "words" or (at == "blocks" and not self.passes.batch.words_only)
        if need == "relevance" and propagation.rules != "zplus" and cheaper and trace is None:
            need = "modified_gradient"  # so little is read that a cheaper pass may do
        made = self.passes.forward(need)
        record, state = made.recording, made.state
        key, layers = (propagation, at), [layer.probs for layer in record.attention]
        if key not in self._relevance or trace is not None:
            places = {
                "words": [self.passes.leaf],
                "blocks": made.hidden if made.stacks else [],
                "attention": layers,
                "top": layers[-1:],
                "contexts": record.contexts,
            }[at]
            last = {"attention": 0, "top": len(layers) - 1}.get(at)
            with state.propagating(propagation, trace=trace, last=last, keeps_attention=last is not None):
                self._relevance[key] = list(self._backward(made.logits, places))
        return self._relevance[key]

    def _check_heads(self, propagation: Propagation) -> None:
        """What a layer without any head received is added at the block's input, which must then be one place."""
        if not propagation.heads:
            return
        family, heads = self.passes.model.network.anatomy.family, propagation.heads
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
        return [part.view(self._rows, -1, *part.shape[-2:]).mean(1) for part in by_head]

    def _backward(self, logits: Tensor, leaves: list[Tensor], *, may_be_nothing: bool = False) -> tuple[Tensor, ...]:
        self.passes.count.backwards += len(self.targets)
        score = torch.stack([target.score(logits[i : i + 1])[0] for i, target in enumerate(self.targets)]).sum()
        with clear_when_memory_ends(max(map(len, self.passes.encodings))), clear_when_overwritten():
            return torch.autograd.grad(score, leaves, retain_graph=True, allow_unused=may_be_nothing)
