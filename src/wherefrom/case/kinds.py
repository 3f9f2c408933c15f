"""The kinds of forward pass: one row for each, with what it serves, what it records and what it keeps in memory.

Rows are ordered from the cheapest to the richest. `wherefrom.case.passes` makes the cheapest that serves what was
announced; docs/walk-of-a-sentence.md shows the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from wherefrom.catalogue import catalogue
from wherefrom.model.attention import (
    Attend,
    averaged_attention,
    explicit_attention,
    fused_attention,
    kernel_attention,
    later_attention,
)
from wherefrom.model.recording import Keep, keep_all, keep_mean, keep_no_scores, keep_nothing, keep_probs
from wherefrom.registry import Reads

# Only the logits; the logits from word embeddings that gradients reach; layers recorded as the model runs; the same
# while rules wrap every operation: those that are a modified gradient alone, or all of them.
MadeBy = Literal["plain", "embeddings", "recording", "gradient_rules", "rules"]


@dataclass(frozen=True, eq=False)
class PassKind:
    """One kind of forward pass.

    heads, matrices, vectors: what it keeps in every layer, as numbers of tensors: as large as the attention
        probabilities of all heads, as those of one head, and as the hidden states. Counted in the code, and compared
        with measured memory.
    """

    name: str
    serves: frozenset[Reads]
    about: str
    made_by: MadeBy = "recording"
    graph: bool = True  # whether the autograd graph is kept, for backward passes
    attend: Attend = explicit_attention  # how attention is computed, in a recorded pass
    keep: Keep = keep_all  # what of each attention is recorded
    # Whether hidden states are read. If not, the last block computes only what the decision reads, and pending queries
    # about a single text run in the same batch.
    hidden: bool = True
    double: bool = False  # in double precision, whatever the model's own
    heads: int = 0
    matrices: int = 0
    vectors: int = 0

    @property
    def light(self) -> bool:
        """Whether it keeps no attention, whose size grows with the square of the text's length."""
        return not (self.heads or self.matrices)


_PLAIN: frozenset[Reads] = frozenset({"nothing", "answers", "path"})  # these read only the logits of it
_MEAN: frozenset[Reads] = _PLAIN | {"mean_attention"}
_HEADS: frozenset[Reads] = _MEAN | {"head_attention"}
_ATTENTION: frozenset[Reads] = _HEADS | {"attention"}
_HIDDEN: frozenset[Reads] = _PLAIN | {"embeddings", "hidden_gradients"}
# Gradients that one backward pass over the graph computes, from the cheapest to the one that takes the most memory.
BACKWARD: tuple[Reads, ...] = (
    "embeddings",
    "hidden_gradients",
    "last_attention_gradient",
    "attention_x_gradients",
    "gradients",
)
_GRAPH: frozenset[Reads] = _ATTENTION | set(BACKWARD[:-1])
_GRADIENTS: frozenset[Reads] = _GRAPH | {"scores", "gradients"}

_ROWS = (
    PassKind("plain", _PLAIN, "the prediction", "plain", graph=False, hidden=False),
    PassKind("embeddings", _PLAIN | {"embeddings"}, "the gradient at the word embeddings", "embeddings", vectors=20),
    PassKind(
        "mean_attention",
        _MEAN,
        "attention probabilities, the mean over heads",
        graph=False,
        attend=averaged_attention,
        keep=keep_mean,
        hidden=False,
        matrices=1,
        vectors=4,
    ),
    PassKind(
        "head_attention",
        _HEADS,
        "attention probabilities of every head",
        graph=False,
        keep=keep_probs,
        hidden=False,
        heads=1,
        vectors=4,
    ),
    PassKind(
        "attention",
        _ATTENTION,
        "the same with values and hidden states",
        graph=False,
        keep=keep_no_scores,
        heads=1,
        vectors=4,
    ),
    PassKind(
        "scores", _ATTENTION | {"scores"}, "the same with scores before the softmax", graph=False, heads=2, vectors=4
    ),
    PassKind(
        "hidden_graph",
        _HIDDEN,
        "gradients at embeddings and hidden states; attention by torch's kernel",
        attend=kernel_attention,
        keep=keep_nothing,
        vectors=20,
    ),
    PassKind(
        "mean_graph",
        _HIDDEN | _MEAN,
        "the same with attention probabilities, the mean over heads",
        attend=averaged_attention,
        keep=keep_mean,
        matrices=1,
        vectors=20,
    ),
    PassKind(
        "product_graph",
        _HIDDEN | {"attention_x_gradients"},
        "gradients at embeddings and hidden states, and attention times its gradient, some heads at a time",
        attend=later_attention,
        keep=keep_no_scores,
        matrices=2,
        vectors=20,
    ),
    PassKind(
        "graph",
        _GRAPH,
        "attention probabilities, and gradients at embeddings, hidden states and attention; attention by torch's"
        " kernel, with the probabilities computed beside it",
        attend=fused_attention,
        keep=keep_no_scores,
        heads=1,
        vectors=20,
    ),
    PassKind(
        "gradients",
        _GRADIENTS,
        "all of the above with the scores: attention step by step, all in the autograd graph",
        heads=4,
        vectors=24,
    ),
    PassKind(
        "modified_gradient",
        _PLAIN | {"embeddings", "modified_gradient"},
        "the gradient at the word embeddings, as it is and under the rules of AttnLRP",
        "gradient_rules",
        hidden=False,
        vectors=24,
    ),
    PassKind(
        "relevance",
        _GRADIENTS | {"modified_gradient", "relevance"},
        "all of the above, and relevance in the model's own precision",
        "rules",
        heads=4,
        vectors=28,
    ),
    # Its attention is one step of the backward pass, so that no probabilities can be read from it.
    PassKind(
        "relevance_double",
        _PLAIN | {"relevance_double"},
        "relevance in double precision, and nothing else",
        "rules",
        hidden=False,
        double=True,
        heads=1,
        vectors=32,
    ),
)
KINDS: dict[str, PassKind] = {row.name: row for row in _ROWS}

# What is defined for a single stack of layers only, and not for an encoder and a decoder.
ONE_STACK: frozenset[Reads] = frozenset({"attention", "scores", "gradients", "relevance", "relevance_double"})


def methods_served(kinds: Iterable[PassKind]) -> list[str]:
    """The names of our methods that read one thing, which one of these kinds of pass serves. Slow ones are left out."""
    served: set[Reads] = set().union(*(kind.serves for kind in kinds)) - {"nothing"}
    if "embeddings" not in served:  # each pass along a path keeps a graph as large as that for this gradient
        served.discard("path")
    rows = catalogue("method").items()
    return [name for name, row in rows if row.get("reads") in served and not row.get("slow")]


def either(names: Sequence[str]) -> str:
    """As a sentence has them: a, b or c."""
    return " or ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def not_for_two_stacks() -> str:
    """What an error says about a method that follows one stack of layers."""
    kinds = [kind for kind in KINDS.values() if kind.made_by != "rules"]
    others = [name for name in methods_served(kinds) if catalogue("method")[name].get("reads") not in ONE_STACK]
    return (
        "Not yet for models with an encoder and a decoder: this method follows one stack of layers, and there are two,"
        f" with attention between them. Take {either(others)}."
    )
