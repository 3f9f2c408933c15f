"""Any function from texts to numbers behind the same door: it can be queried with words hidden, and nothing else.

A text is cut into pieces (see `pieces`). One that is hidden is deleted with the blanks before it, or replaced by the
text of the fill token; the rest is joined and sent to the function.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from wherefrom.errors import BadOption, NotSeen, UnknownName, WrongModel
from wherefrom.model.anatomy import Anatomy
from wherefrom.model.network import Facts, NetworkCall
from wherefrom.model.pieces import BETWEEN, PieceHiding, PieceReading, Pieces, Problem, StandIn
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel

# What the numbers of an answer are: probabilities of classes that exclude each other; of labels that do not; scores of
# classes, of which a softmax makes probabilities; or values, which are no probabilities at all.
Outputs = Literal["probabilities", "independent", "logits", "values"]
Answering = Callable[[list[Any]], Any]  # a list of texts, or of (text, pair) tuples -> (n, classes)

KIND: dict[Outputs, Problem] = {
    "probabilities": "single_label_classification",
    "independent": "multi_label_classification",
    "logits": "single_label_classification",
    "values": "regression",
}
TRIAL: tuple[list[Any], ...] = (["Is it so?", "It is."], [("Is it so?", "It is."), ("It is.", "Is it so?")])
LEAST = 1e-12  # replaces a probability of zero, whose logarithm would be infinite
SUM_TOLERANCE = 1e-3  # how far probabilities may be from a sum of one
CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class FunctionNetwork:
    """A function that answers texts. There is nothing inside to look at."""

    module: PreTrainedModel  # a `StandIn`, which has what is read of one
    facts: Facts
    name: str
    function: Answering
    outputs: Outputs
    pieces: Pieces
    device: torch.device = CPU

    @property
    def anatomy(self) -> Anatomy:
        raise NotSeen(f"This method looks inside the model, and {self.name} is a function that only answers.")

    def embed(self, input_ids: Tensor) -> Tensor:
        """There are no word vectors: the numbers of the pieces themselves. (row, token, 1)"""
        return input_ids[..., None].to(torch.float64)

    def run(
        self,
        call: NetworkCall,
        positions: Tensor | None = None,
        *,
        whole: bool = False,
        cache: DynamicCache | None = None,
    ) -> tuple[Any, Tensor | None]:
        del whole, cache
        ids, lengths = call.arguments["input_ids"], call.arguments["attention_mask"].sum(-1).tolist()
        embeddings = call.lookups[0][1]
        shown = ids if embeddings is None else embeddings.detach()[..., 0].round().long()
        rows = [
            self._text(row[:length], pieces[:length])
            for row, pieces, length in zip(ids.tolist(), shown.tolist(), lengths, strict=True)
        ]
        answers = numbers(self.function, rows, self.module.config.num_labels)
        return ModelOutput(logits=_logits(answers, self.outputs)), positions

    def _text(self, ids: Sequence[int], shown: Sequence[int]) -> str | tuple[str, str]:
        """The text of a row. ids: its pieces as in the original text; shown: the pieces in their places."""
        pieces, parts = self.pieces, [""]
        fills = frozenset(pieces.fills.values())
        for original, piece in zip(ids, shown, strict=True):
            if piece == BETWEEN:
                parts.append("")
            elif piece in fills:
                parts[-1] += pieces.texts[piece] if original in pieces.glued else f" {pieces.texts[piece]}"
            else:
                parts[-1] += pieces.texts[piece]
        stripped = [part.strip() for part in parts]
        return stripped[0] if len(stripped) == 1 else (stripped[0], stripped[1])


def is_function(source: Any) -> bool:
    """Whether this is a function of texts, and not a model or a pipeline, which can be called as well."""
    known = isinstance(source, nn.Module | str) or (hasattr(source, "model") and hasattr(source, "tokenizer"))
    return callable(source) and not known


def numbers(function: Answering, texts: list[Any], classes: int | None = None) -> Tensor:
    """What a function answers, as (row, class); an error where it is no such table."""
    outputs = function(texts)
    try:
        values = (
            outputs.detach().cpu() if isinstance(outputs, Tensor) else torch.from_numpy(np.asarray(outputs, np.float64))
        )
    except (TypeError, ValueError) as error:
        raise WrongModel(
            "A callable answers n texts with an array of n rows and a column for every class, not with"
            f" {type(outputs).__name__} that cannot be read as numbers ({error})."
        ) from error
    values = values.double()
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != len(texts) or (classes is not None and values.shape[1] != classes):
        columns = "a column for every class" if classes is None else f"{classes} columns"
        raise WrongModel(
            f"A callable answers {len(texts)} texts with {len(texts)} rows and {columns}, not with an array of shape"
            f" {tuple(values.shape)}."
        )
    return values


def _logits(answers: Tensor, outputs: Outputs) -> Tensor:
    """Numbers of which the target's softmax or sigmoid makes the probabilities again."""
    if outputs in ("logits", "values"):
        return answers
    if bool((answers < -SUM_TOLERANCE).any()) or bool((answers > 1 + SUM_TOLERANCE).any()):
        raise WrongModel(_not_probabilities("a number below 0 or above 1"))
    if outputs == "probabilities" and bool(((answers.sum(-1) - 1).abs() > SUM_TOLERANCE).any()):
        raise WrongModel(_not_probabilities(f"a row that adds up to {answers.sum(-1).tolist()[0]:g}"))
    chances = answers.clamp(LEAST, 1)
    if outputs == "probabilities":
        return chances.log()
    return chances.log() - (1 - answers).clamp(LEAST, 1).log()


def _not_probabilities(why: str) -> str:
    return (
        f"The callable answers probabilities, but gave {why}. Say what its numbers are: load(..., outputs='logits') for"
        " scores of classes, 'independent' for labels that do not exclude each other, 'values' for values."
    )


def load_callable(
    function: Answering,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    labels: Sequence[str] | None = None,
    outputs: str | None = None,
    spread: float | None = None,
) -> TextModel:
    """A model from a function. Its classes are counted by asking it once, about two short texts or pairs.

    outputs: what its numbers are; unless given, probabilities where each row adds up to one, values where there is one
        column, else scores that a softmax makes probabilities of.
    """
    if outputs is not None and outputs not in get_args(Outputs):
        raise UnknownName.among("kind of output", outputs, get_args(Outputs))
    tried = _tried(function)
    kind = cast("Outputs", outputs or _kind(tried))
    owner: Any = getattr(function, "__self__", function)  # a bound method, as scikit-learn's predict_proba is
    if labels is None and len(getattr(owner, "classes_", ())) == tried.shape[1]:
        labels = [str(label) for label in owner.classes_]
    named = [f"LABEL_{i}" for i in range(tried.shape[1])] if labels is None else [str(label) for label in labels]
    if len(named) != tried.shape[1]:
        raise BadOption(f"The callable answers with {tried.shape[1]} columns, and {len(named)} labels were given.")
    if tokenizer is not None and not getattr(tokenizer, "is_fast", False):
        raise WrongModel("A tokenizer that cuts texts for a callable must be a fast one, which says where it cuts.")
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    # The code of a function cannot be hashed: its name and labels are, instead.
    identity = json.dumps([name, named, kind, None if tokenizer is None else len(tokenizer)]).encode()
    facts = Facts(only_answers=True, identity=hashlib.sha256(identity).digest())
    module: Any = StandIn(named, KIND[kind])
    cutter: Any = tokenizer
    pieces = Pieces.of(tokenizer)
    return TextModel(
        name=name,
        task=find_task("classification"),
        reading=PieceReading(cutter, pieces),
        network=FunctionNetwork(module, facts, name, function, kind, pieces),
        hiding=PieceHiding(pieces),
        spread=spread,
    )


def _tried(function: Answering) -> Tensor:
    first: Exception | None = None
    for texts in TRIAL:
        try:
            return numbers(function, list(texts))
        except WrongModel:
            raise
        except Exception as error:  # whatever a function of the user's makes of texts where it expects pairs
            first = first or error
    raise WrongModel(
        "The callable was asked about a list of two texts, and about a list of two pairs, and raised on both:"
        f" {type(first).__name__}: {first}"
    ) from first


def _kind(answers: Tensor) -> Outputs:
    if answers.shape[1] == 1:
        return "values"
    within = bool((answers >= 0).all()) and bool(((answers.sum(-1) - 1).abs() < SUM_TOLERANCE).all())
    return "probabilities" if within else "logits"
