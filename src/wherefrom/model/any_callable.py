"""Any function from texts to numbers behind the same door: it can be queried with words hidden, and nothing else.

A text is cut into words, or into the tokens of a tokenizer that is given. Each has the characters from the end
of the one before it to its own end, so that all of them together are the text. A word that is hidden is deleted with
the blanks before it, or replaced by the text of the fill token; the rest is joined and sent to the function.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from wherefrom.core.encoding import Encoding
from wherefrom.core.units import Span, words
from wherefrom.errors import BadOption, EmptyText, NotSeen, UnknownName, WrongModel
from wherefrom.model.anatomy import Anatomy
from wherefrom.model.hiding import FILLS
from wherefrom.model.network import Facts, NetworkCall
from wherefrom.model.reading import TextAndPair
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel

# What the numbers of an answer are: probabilities of classes that exclude each other; of labels that do not; scores of
# classes, of which a softmax makes probabilities; or values, which are no probabilities at all.
Outputs = Literal["probabilities", "independent", "logits", "values"]
Answering = Callable[[list[Any]], Any]  # a list of texts, or of (text, pair) tuples -> (n, classes)

Problem = Literal["regression", "single_label_classification", "multi_label_classification"]
KIND: dict[Outputs, Problem] = {
    "probabilities": "single_label_classification",
    "independent": "multi_label_classification",
    "logits": "single_label_classification",
    "values": "regression",
}
TRIAL: tuple[list[Any], ...] = (["Is it so?", "It is."], [("Is it so?", "It is."), ("It is.", "Is it so?")])
LEAST = 1e-12  # replaces a probability of zero, whose logarithm would be infinite
SUM_TOLERANCE = 1e-3  # how far probabilities may be from a sum of one
WITHOUT_TOKENIZER = {"mask": "[MASK]", "unk": "[UNK]"}  # what replaces a hidden word where there is no tokenizer
CPU = torch.device("cpu")
NOTHING, BETWEEN = 0, 1  # ids of pieces: nothing at all, and the boundary between the two texts of a pair


class _Pieces:
    """Pieces of texts by number, in the order in which they were first seen. It only grows."""

    def __init__(self, fills: dict[str, str]) -> None:
        self.texts = ["", "", *fills.values()]
        self.fills = {kind: 2 + number for number, kind in enumerate(fills)}
        self.glued: set[int] = set()  # those that follow the piece before without a blank
        self._number: dict[str, int] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase | None) -> _Pieces:
        if tokenizer is None:
            return cls(WITHOUT_TOKENIZER)
        special = {kind: getattr(tokenizer, f"{kind}_token", None) for kind in FILLS}
        return cls({kind: str(token) for kind, token in special.items() if token is not None})

    def number(self, text: str) -> int:
        with self._lock:
            if text not in self._number:
                self._number[text] = len(self.texts)
                if text == text.lstrip():
                    self.glued.add(len(self.texts))
                self.texts.append(text)
            return self._number[text]


@dataclass(frozen=True, eq=False)
class PieceReading:
    """Reading for a function: words, or the tokens of a tokenizer."""

    tokenizer: PreTrainedTokenizerBase
    pieces: _Pieces
    limit: int | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def check(self, text: str) -> None:
        if not self._spans(text):
            raise EmptyText("There is no text to explain: it is empty or blank.")

    def tokenize_all(self, texts: Sequence[TextAndPair], limit: int | None) -> list[Encoding]:
        return [self.tokenize(text, pair, limit) for text, pair in texts]

    def tokenize(self, text: str, pair: str | None, limit: int | None) -> Encoding:
        del limit
        tokens, ids, offsets, segment = list[str](), list[int](), list[Span](), list[int]()
        for number, part in enumerate((text,) if pair is None else (text, pair)):
            if number:
                tokens, ids = [*tokens, "[SEP]"], [*ids, BETWEEN]
                offsets, segment = [*offsets, (0, 0)], [*segment, -1]
            reached = len(part) - len(part.lstrip())
            for start, end in self._spans(part):
                tokens.append(part[start:end])
                ids.append(self.pieces.number(part[reached : max(reached, end)]))
                offsets.append((start, end))
                segment.append(number)
                reached = max(reached, end)
        return Encoding(text, pair, tuple(tokens), tuple(ids), None, tuple(offsets), tuple(segment))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces.texts[piece] for piece in ids)

    def _spans(self, text: str) -> list[Span]:
        if self.tokenizer is None:
            return words(text)
        read = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [(int(start), int(end)) for start, end in read["offset_mapping"]]


@dataclass(frozen=True, eq=False)
class PieceHiding:
    """Hiding for a function: the text of a fill token replaces a piece."""

    pieces: _Pieces

    @property
    def fills(self) -> dict[str, int]:
        return self.pieces.fills

    @property
    def marks(self) -> frozenset[int]:
        """Pieces without a blank before them: two rows with the same fills differ where their blanks do."""
        return frozenset(self.pieces.glued)

    def usual_fill(self) -> str:
        return next(iter(self.fills), "delete")

    def start_token(self) -> int:
        return NOTHING


class FunctionModule(nn.Module):
    """What a module says of itself, where there is only a function."""

    dtype = torch.float64

    def __init__(self, labels: Sequence[str], outputs: Outputs) -> None:
        super().__init__()
        self.config = PreTrainedConfig(id2label=dict(enumerate(labels)), problem_type=KIND[outputs])
        self.config.pad_token_id = NOTHING
        self.eval()


@dataclass(frozen=True, eq=False)
class FunctionNetwork:
    """A function that answers texts. There is nothing inside to look at."""

    module: PreTrainedModel  # a FunctionModule, which has what is read of one
    facts: Facts
    name: str
    function: Answering
    outputs: Outputs
    pieces: _Pieces
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
    # A function cannot be read: its name and its labels stand for it.
    identity = json.dumps([name, named, kind, None if tokenizer is None else len(tokenizer)]).encode()
    facts = Facts(only_answers=True, identity=hashlib.sha256(identity).digest())
    module: Any = FunctionModule(named, kind)
    cutter: Any = tokenizer
    pieces = _Pieces.of(tokenizer)
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
