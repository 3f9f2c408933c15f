"""Models whose right explanation is known by hand."""

from __future__ import annotations

from typing import Any

import torch
from tiny_models import tokenizer
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from wherefrom.case.case import Case, make_cases
from wherefrom.core.encoding import Encoding
from wherefrom.model.text_model import TextModel


class ToyConfig(PretrainedConfig):
    model_type = "wherefrom-toy"


class AdditiveModel(PreTrainedModel):
    """The second class's logit is the sum of the tokens' weights; the first class's is zero."""

    config_class = ToyConfig
    base_model_prefix = ""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(len(tokenizer()), 2)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> SequenceClassifierOutput:
        weights = self.embeddings(input_ids).sum(-1) * attention_mask
        total = weights.sum(-1)
        return SequenceClassifierOutput(logits=torch.stack([torch.zeros_like(total), total], -1))  # type: ignore[arg-type]


def additive_model(**weights: float) -> TextModel:
    """A model in which each word adds its weight; the mask, and every other token, adds nothing."""
    network = AdditiveModel(ToyConfig.from_dict({"num_labels": 2, "pad_token_id": 0})).eval().double()
    with torch.no_grad():
        network.embeddings.weight.zero_()
        for word, weight in weights.items():
            network.embeddings.weight[tokenizer().convert_tokens_to_ids(word)] = torch.tensor(
                [0.25 * weight, 0.75 * weight]
            )
    return TextModel.of(network, tokenizer(), name="additive")


class AdditiveRegression(AdditiveModel):
    """One output, the sum of the tokens' weights: a value, and no class."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> SequenceClassifierOutput:
        total = (self.embeddings(input_ids).sum(-1) * attention_mask).sum(-1, keepdim=True)
        return SequenceClassifierOutput(logits=total)


def additive_regression(*, spread: float | None = None, **weights: float) -> TextModel:
    """A model whose value is the sum of its words' weights."""
    network = AdditiveRegression(ToyConfig.from_dict({"num_labels": 1, "pad_token_id": 0})).eval().double()
    network.load_state_dict(additive_model(**weights).network.module.state_dict())
    return TextModel.of(network, tokenizer(), name="sum", spread=spread)


class AdditiveLabels(AdditiveModel):
    """Three labels by the sum of the words' weights: at least 0.5, at most -0.5, at least 2.5."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> SequenceClassifierOutput:
        total = (self.embeddings(input_ids).sum(-1) * attention_mask).sum(-1, keepdim=True)
        return SequenceClassifierOutput(logits=torch.cat([total - 0.5, -total - 0.5, total - 2.5], -1))  # type: ignore[arg-type]


def additive_labels(**weights: float) -> TextModel:
    """A multi-label model with the labels fine, poor and splendid."""
    settings = {
        "num_labels": 3,
        "id2label": {0: "fine", 1: "poor", 2: "splendid"},
        "pad_token_id": 0,
        "problem_type": "multi_label_classification",
    }
    network = AdditiveLabels(ToyConfig.from_dict(settings)).eval().double()
    network.load_state_dict(additive_model(**weights).network.module.state_dict())
    return TextModel.of(network, tokenizer(), name="labels")


def additive_case(**weights: float) -> Case:
    """The words of `weights` as a text, in that order, between [CLS] and [SEP]."""
    model = additive_model(**weights)
    return case_of(model, model.encode(" ".join(weights)), target=1)


def case_of(model: TextModel, encoding: Encoding | str, *, target: int | None = None, **more: Any) -> Case:
    read = model.encode(encoding) if isinstance(encoding, str) else encoding
    (cases,) = make_cases(model, [read], [None if target is None else model.target(target)], **more)
    return cases[0]
