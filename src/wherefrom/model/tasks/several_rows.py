"""Rows of tokens that go through the network as several: an encoding contains the tokens of all of them, each once, and
its token types say which of the rows a token belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wherefrom.model.network import pad_id

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel


def codes_of(inputs: dict[str, Tensor]) -> list[list[int]]:
    """The token types of every row, without its padding."""
    lengths = inputs["attention_mask"].sum(-1).tolist()
    return [row[:length] for row, length in zip(inputs["token_type_ids"].tolist(), lengths, strict=True)]


def gathered(
    model: TextModel,
    inputs: dict[str, Tensor],
    embeddings: Tensor | None,
    chosen: Sequence[tuple[int, Sequence[int]]],
    types: Callable[[int], int] | None,
) -> tuple[dict[str, Tensor], Tensor | None]:
    """Rows made of tokens of other rows.

    chosen: of every new row the row it is made of, and the places of its tokens there. types: the network's own token
        type for a code of the encoding, where it has token types.
    """
    pad = pad_id(model.network) or 0
    device, longest = inputs["input_ids"].device, max(1, *(len(places) for _, places in chosen))
    rows = torch.tensor([row for row, _ in chosen], device=device)[:, None]
    index = torch.tensor([[*places, *[0] * (longest - len(places))] for _, places in chosen], device=device)
    there = torch.tensor([[1] * len(places) + [0] * (longest - len(places)) for _, places in chosen], device=device)
    arguments = {"input_ids": inputs["input_ids"][rows, index].masked_fill(there == 0, pad), "attention_mask": there}
    if types is not None:
        codes = inputs["token_type_ids"][rows, index]
        known = torch.tensor([types(code) for code in range(int(codes.max()) + 1)], device=device)
        arguments["token_type_ids"] = known[codes] * there
    return arguments, None if embeddings is None else with_padding(model, arguments, embeddings[rows, index])


def with_padding(model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor) -> Tensor:
    """The same word vectors, at padding that of the padding id: a network that convolves padding with its neighbours
    would otherwise answer word vectors unlike ids.
    """
    with torch.no_grad():
        padding = model.network.embed(torch.tensor([pad_id(model.network) or 0], device=embeddings.device))
    return torch.where(inputs["attention_mask"][..., None] == 1, embeddings, padding.to(embeddings.dtype))


def has_types(model: TextModel) -> bool:
    """Whether the tokenizer says which text of a pair a token belongs to, for the network to read."""
    return "token_type_ids" in model.reading.tokenizer.model_input_names
