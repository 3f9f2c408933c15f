"""Classifiers whose decision is read from one attention over their encoder's outputs, with any projection.

h = encoder(embeddings)        a BiLSTM, or a Transformer of two layers with one head
a_i = v' tanh(W h_i + b)       additive alignment; or w' h_i / sqrt(m), dot: there is no query but what is learned
alpha = projection(a)          over the words only: START, END and PAD have no score
y = sigmoid(u' sum_i alpha_i h_i + b)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from wherefrom_studies.sparse.data import PAD, is_word
from wherefrom_studies.sparse.projections import Projection

EncoderKind = Literal["bilstm", "transformer"]
Alignment = Literal["additive", "dot"]


@dataclass(frozen=True)
class Architecture:
    encoder: EncoderKind
    projection: str = "softmax"
    alignment: Alignment = "additive"
    inside: bool = True  # the projection also acts inside the Transformer's self-attention, not only in the pooling
    size: int = 128
    layers: int = 2  # of the Transformer
    spread: float = 0.1  # standard deviation of the word embeddings before training


class ClassifierOutput(NamedTuple):
    logit: Tensor  # (row,)
    attention: Tensor  # (row, place)
    hidden: Tensor  # (row, place, m)


class BiLSTM(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, size, batch_first=True, bidirectional=True)
        self.width = 2 * size

    def forward(self, embeddings: Tensor, read: Tensor) -> Tensor:
        # The backward direction reads each text from its own end, so padding, which comes last, changes nothing.
        # Packed sequences would do the same, but their gradient costs the square of the length.
        place = torch.arange(embeddings.shape[1])
        backwards = torch.where(read, read.sum(-1, keepdim=True) - 1 - place, place)  # (row, place), its own inverse
        weights = list(self.lstm.parameters())
        half = len(weights) // 2
        forward = self._one_direction(embeddings, weights[:half])
        backward = _reordered(self._one_direction(_reordered(embeddings, backwards), weights[half:]), backwards)
        return torch.cat([forward, backward], -1) * read[..., None]

    def _one_direction(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        start = x.new_zeros(1, len(x), self.lstm.hidden_size)
        hidden: Tensor = torch.lstm(x, (start, start), list(weights), True, 1, 0.0, self.training, False, True)[0]
        return hidden


def _reordered(x: Tensor, order: Tensor) -> Tensor:
    """(row, place, m), (row, place) -> (row, place, m)"""
    return x.gather(1, order[..., None].expand_as(x))


class SelfAttention(nn.Module):
    def __init__(self, size: int, projection: Projection) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(size, size) for _ in range(4))
        self.projection = projection

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(x.shape[-1])  # (row, query, key)
        attended: Tensor = self.out(self.projection(scores, mask=read[:, None]) @ self.value(x))
        return attended


class EncoderBlock(nn.Module):
    def __init__(self, size: int, projection: Projection) -> None:
        super().__init__()
        self.attention = SelfAttention(size, projection)
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        self.attention_norm, self.mlp_norm = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x, read))
        normed: Tensor = self.mlp_norm(x + self.mlp(x))
        return normed


class Transformer(nn.Module):
    def __init__(self, size: int, layers: int, projection: Projection) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(size, projection) for _ in range(layers))
        self.width = size

    def forward(self, embeddings: Tensor, read: Tensor) -> Tensor:
        x = embeddings * math.sqrt(embeddings.shape[-1]) + positions(*embeddings.shape[1:]).to(embeddings)
        for block in self.blocks:
            x = block(x, read)
        return x


def positions(length: int, size: int) -> Tensor:
    """Sines and cosines of falling frequency. (place, size)"""
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, size, 2) * (-math.log(10_000) / size))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :size]


class Pooling(nn.Module):
    """The attention from which the decision is read; all that an adversary may change."""

    def __init__(self, width: int, size: int, alignment: Alignment, projection: Projection) -> None:
        super().__init__()
        self.alignment, self.projection = alignment, projection
        self.inner = nn.Linear(width, size) if alignment == "additive" else nn.Identity()
        self.query = nn.Linear(size if alignment == "additive" else width, 1, bias=False)

    def scores(self, hidden: Tensor) -> Tensor:
        """(row, place, m) -> (row, place)"""
        if self.alignment == "additive":
            return self.query(self.inner(hidden).tanh()).squeeze(-1)  # type: ignore[no-any-return]
        return self.query(hidden).squeeze(-1) / math.sqrt(hidden.shape[-1])  # type: ignore[no-any-return]

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        return self.projection(self.scores(hidden), mask=words)


class Classifier(nn.Module):
    def __init__(self, architecture: Architecture, vocabulary: int) -> None:
        super().__init__()
        self.architecture = architecture
        size, projection = architecture.size, Projection.parse(architecture.projection)
        inside = projection if architecture.inside else Projection("softmax")
        self.embedding = nn.Embedding(vocabulary, size, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=architecture.spread)
        self.encoder = (
            BiLSTM(size) if architecture.encoder == "bilstm" else Transformer(size, architecture.layers, inside)
        )
        self.pooling = Pooling(self.encoder.width, size, architecture.alignment, projection)
        self.decoder = nn.Linear(self.encoder.width, 1)

    def forward(self, ids: Tensor) -> ClassifierOutput:
        return self.read(self.embedding(ids), ids)

    def read(self, embeddings: Tensor, ids: Tensor) -> ClassifierOutput:
        """The answer when the embeddings are these; the ids still say what is a word and what is padding."""
        hidden = self.encoder(embeddings, ids != PAD)
        attention = self.pooling(hidden, is_word(ids))
        return ClassifierOutput(self.decide(attention, hidden), attention, hidden)

    def decide(self, attention: Tensor, hidden: Tensor) -> Tensor:
        """(..., place), (..., place, m) -> (...)"""
        context = (attention.unsqueeze(-2) @ hidden).squeeze(-2)
        return self.decoder(context).squeeze(-1)  # type: ignore[no-any-return]


def build(architecture: Architecture, vocabulary: int, *, seed: int) -> Classifier:
    """A new classifier; the same seed gives the same one, and the caller's random numbers are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Classifier(architecture, vocabulary)
