"""Inside the model: every head's attention, how much of the decision goes through it, and the flow between tokens."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.core.labels import token_labels
from wherefrom.errors import WherefromError
from wherefrom.explorer.explaining import Explainer
from wherefrom.explorer.limits import TooMuch
from wherefrom.explorer.questions import TextQuestion
from wherefrom.explorer.service import ModelService, PlainData
from wherefrom.registry import find_method

FLOW = "alti"


def inside_steps(service: ModelService, question: TextQuestion) -> Iterator[PlainData]:
    """The patterns of all heads, weighted by their relevance to the target; then where each position's content comes
    from, layer by layer.
    """
    explainer = Explainer(service, question)
    encoding, most = explainer.encoding, service.limits.seen_tokens
    if len(encoding) > most:
        raise TooMuch(f"The text has {len(encoding)} tokens; patterns of attention are shown for up to {most}.")
    explainer.passes.announce({"gradients"})
    cases = explainer.cases
    patterns = [layer.probs for layer in cases[0].capture.attention]  # (head, query, key) each
    weights = head_relevance(cases)
    total = float(weights.sum()) or 1.0
    yield {
        "heads": {
            "tokens": token_labels(encoding.tokens, encoding.offsets, encoding.segment, encoding.text, encoding.pair),
            "special": list(encoding.special),
            "patterns": [[as_bytes(head) for head in layer] for layer in patterns],
            "relevance": (weights / total).tolist(),
            "read": [round(float(share), 4) for share in cases[0].row_read],
        }
    }
    method = find_method(FLOW)
    try:
        explainer.passes.announce(method.needs())
        attribution = method(cases[0])
    except WherefromError as error:
        yield {"flow": {"why": str(error)}}
        return
    assert isinstance(attribution, Attribution)
    assert attribution.flow is not None
    yield {"flow": {"method": FLOW, "layers": [as_bytes(layer) for layer in accumulated(attribution.flow())]}}


def head_relevance(cases: Sequence[Case]) -> Tensor:
    """How much of the target goes through each head: the size of attention times its gradient, added up over all pairs
    of tokens. (layer, head)
    """
    parts = [
        torch.stack(
            [
                (attention.probs * gradient.probs).abs().sum((-2, -1))
                for attention, gradient in zip(case.capture.attention, case.gradients.attention, strict=True)
            ]
        )
        for case in cases
    ]
    return torch.stack(parts).sum(0).double()


def accumulated(layers: Tensor) -> list[Tensor]:
    """Where each position's content came from, after every layer: rows sum to one. (query, key) each"""
    product, products = torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device), list[Tensor]()
    for layer in layers:
        product = layer @ product
        products.append(product)
    return products


def as_bytes(shares: Tensor) -> str:
    """Numbers between zero and one as one byte each, row after row, in base64: a picture shows no more."""
    return base64.b64encode(
        (shares.double().clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy().tobytes()
    ).decode()
