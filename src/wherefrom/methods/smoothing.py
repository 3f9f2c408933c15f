"""SmoothGrad: the mean gradient at word embeddings with random noise, in place of the gradient at the embeddings.

Smilkov et al. 2017, arXiv:1706.03825. The noise of a token is normal, with `noise` times the range of its embedding's
numbers (the largest less the smallest) as its standard deviation. It is drawn token by token, so that a token has the
same noise whatever comes after it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.errors import BadOption

MOST_SAMPLES = 10_000


def embedding_gradient(case: Case, noise: float, samples: int, seed: int) -> Tensor:
    """The gradient of the target's score at the word embeddings; with noise, its mean. (token, size)"""
    if noise == 0:
        return case.embedding_gradient
    if not 0 < noise <= 1 or not 1 <= samples <= MOST_SAMPLES:
        raise BadOption(
            f"SmoothGrad takes noise from 0 to 1 and 1 to {MOST_SAMPLES:,} samples, not noise={noise} and"
            f" samples={samples}."
        )
    embeddings = case.embeddings
    drawn = noise_like(embeddings, noise, samples, seed)  # (sample, token, size)
    total = torch.zeros_like(embeddings)
    for part in case.chunks(samples, with_graph=True):
        _, gradient = case.gradient_along(embeddings + drawn[part])
        total += gradient.sum(0)
    return total / samples


def noise_like(embeddings: Tensor, noise: float, samples: int, seed: int) -> Tensor:
    """(token, size) -> (sample, token, size)"""
    generator = torch.Generator().manual_seed(seed)
    size = embeddings.shape[-1]
    drawn = [torch.randn(samples, size, generator=generator, dtype=torch.float64) for _ in range(len(embeddings))]
    deviation = noise * (embeddings.amax(-1) - embeddings.amin(-1))  # (token,)
    return torch.stack(drawn, 1).to(embeddings) * deviation[:, None]
