"""A short name for a model's weights, so that what was measured on one model is not used with another."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

SAMPLES = 16  # numbers read of each weight: enough to tell a fine-tuned model from its origin


@torch.no_grad()
def fingerprint(network: nn.Module) -> str:
    """The same for the same weights in single or double precision."""
    digest = hashlib.sha256()
    for name, weight in network.named_parameters():
        places = torch.linspace(0, weight.numel() - 1, SAMPLES, dtype=torch.float64).round().long().to(weight.device)
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().flatten()[places].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
