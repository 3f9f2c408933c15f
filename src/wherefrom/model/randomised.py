"""A copy of a model that has learned nothing."""

from __future__ import annotations

import copy

import torch

from wherefrom.errors import NotDefined
from wherefrom.model.text_model import TextModel


def randomised(model: TextModel, seed: int = 0) -> TextModel:
    """A copy in which the entries of every weight have changed places at random: each weight keeps the spread of its
    values, and loses what it has learned. It takes as much memory as the model.
    """
    if model.network.facts.only_answers:
        raise NotDefined("the model is a function of texts, and has no weights to shuffle")
    module = copy.deepcopy(model.network.module)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():  # a shared one once
            order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
            weight.copy_(weight.flatten()[order].view_as(weight))
    return TextModel.of(
        module, model.reading.tokenizer, name=f"{model.name}, randomised", task=model.task, spread=model.spread,
        batch_tokens=model.batch_tokens,
    )  # fmt: skip
