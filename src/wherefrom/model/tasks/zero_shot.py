"""Zero-shot classification: a model of entailment is asked about one hypothesis for every candidate label. The labels
are the targets; the text is what is explained, and the hypotheses stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption, WherefromError, WrongModel
from wherefrom.model.network import pad_id
from wherefrom.model.tasks.classification import Classification
from wherefrom.model.tasks.several_rows import with_padding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedConfig

    from wherefrom.model.text_model import TextModel

TEMPLATE = "This example is {}."


@dataclass(frozen=True)
class ZeroShot(Classification):
    """candidates: the labels. template: the hypothesis, with {} for a label. several: whether more than one label may
    be right. entails, contradicts: the model's own classes.
    """

    name = "zero_shot"
    reads_pairs = False
    position_depends_on_family = False
    finds_end_by_padding = False
    several_rows = "the text goes through the model once for every candidate label"
    candidates: tuple[str, ...] = ()
    template: str = TEMPLATE
    several: bool = False
    entails: int = 0
    contradicts: int = 0

    @property
    def bound(self) -> str:
        return repr((self.candidates, self.template, self.several))

    @property
    def loading(self) -> dict[str, Any]:
        options = {"template": self.template} if self.template != TEMPLATE else {}
        return {"labels": list(self.candidates), **options, **({"multi_label": True} if self.several else {})}

    def labels(self, model: TextModel) -> list[str]:
        del model
        return list(self.candidates)

    def independent(self, model: TextModel) -> bool:
        del model
        return self.several or len(self.candidates) == 1

    def regression(self, model: TextModel) -> bool:
        del model
        return False

    def read(self, model: TextModel, text: str, pair: str | None) -> Encoding:
        if pair is not None:
            raise WherefromError("Zero-shot classification reads one text; the second is made of each label.")
        longest = max(len(ids) for ids, _ in self._hypotheses(model))
        return model.reading.tokenize(
            text, None, None if model.reading.limit is None else model.reading.limit - longest
        )

    def _hypotheses(self, model: TextModel) -> list[tuple[list[int], list[int]]]:
        """What follows the tokens of a text, for every label: ids and token types."""
        with model.reading.lock:
            alone, hypotheses = model.reading.tokenizer(self.sample)["input_ids"], []
            pairs = [model.reading.tokenizer(self.sample, self.template.format(label)) for label in self.candidates]
        for both in pairs:
            ids = list(both["input_ids"])
            if ids[: len(alone)] != list(alone):
                raise WrongModel("The tokenizer does not put the second text of a pair after the first.")
            types = both.get("token_type_ids") or [0] * len(ids)
            hypotheses.append((ids[len(alone) :], list(types)[len(alone) :]))
        return hypotheses

    def rows(
        self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """A row for every text and label, the labels of a text one after the other."""
        padding = pad_id(model.network) or 0
        lengths, device = inputs["attention_mask"].sum(-1).tolist(), inputs["input_ids"].device
        tails = [[torch.tensor(part, device=device) for part in both] for both in self._hypotheses(model)]
        ids, types, vectors = list[Tensor](), list[Tensor](), list[Tensor]()
        for row, length in enumerate(lengths):
            for tail, tail_types in tails:
                ids.append(torch.cat([inputs["input_ids"][row, :length], tail]))
                if "token_type_ids" in inputs:
                    types.append(torch.cat([inputs["token_type_ids"][row, :length], tail_types]))
                if embeddings is not None:
                    with torch.no_grad():
                        looked_up = model.network.embed(tail)
                    vectors.append(torch.cat([embeddings[row, :length], looked_up]))
        arguments = {
            "input_ids": _stacked(ids, padding),
            "attention_mask": _stacked([torch.ones_like(ids_of_row) for ids_of_row in ids], 0),
        }
        if types:
            arguments["token_type_ids"] = _stacked(types, 0)
        return arguments, with_padding(model, arguments, _stacked(vectors, 0)) if vectors else None

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """Of every label how far it is entailed; less how far it is contradicted, where labels do not compete. (row,
        label)
        """
        del inputs, positions
        by_label: Tensor = output.logits.unflatten(0, (-1, len(self.candidates)))  # (row, label, class)
        entailed = by_label[..., self.entails]
        return entailed - by_label[..., self.contradicts] if self.several or len(self.candidates) == 1 else entailed


def _stacked(rows: Sequence[Tensor], filler: int) -> Tensor:
    """Rows of different lengths in one tensor, padded on the right."""
    longest = max(map(len, rows))
    edges = [(0, 0)] * (rows[0].ndim - 1)
    return torch.stack(
        [pad(row, (*(0 for edge in edges for _ in edge), 0, longest - len(row)), value=filler) for row in rows]
    )


def zero_shot(name: str, config: PreTrainedConfig, labels: Sequence[str], template: str, *, several: bool) -> ZeroShot:
    """The task of a model of entailment with these labels; an error where it is no such model."""
    if isinstance(labels, str) or not labels or any(not str(label).strip() for label in labels):
        raise BadOption(f"Candidate labels are given in a list, such as ['sports', 'politics'], not as {labels!r}.")
    if len(set(labels)) < len(labels):
        raise BadOption("A candidate label is named twice.")
    try:
        distinct = template.format("a") != template.format("b")
    except (IndexError, KeyError, ValueError):
        distinct = False
    if not distinct:
        raise BadOption(f"The template has {{}} where the label stands, such as {TEMPLATE!r}, not {template!r}.")
    classes = {str(label).lower(): int(number) for number, label in (config.id2label or {}).items()}
    entails = next((number for label, number in classes.items() if label.startswith("entail")), None)
    contradicts = next((n for label, n in classes.items() if label.startswith(("contra", "not_entail"))), None)
    if entails is None or contradicts is None:
        raise WrongModel(
            f"Candidate labels need a model of entailment; the classes of {name} are {', '.join(classes) or 'none'}."
        )
    chosen = tuple(map(str, labels))
    return ZeroShot(candidates=chosen, template=template, several=several, entails=entails, contradicts=contradicts)
