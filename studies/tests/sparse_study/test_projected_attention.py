"""Attention projected at inference: every family, exactly, and without a trace."""

from __future__ import annotations

import pytest
import torch
from entmax import sparsemax as peer_sparsemax
from tiny_models import FAMILIES, make_model, tiny

from wherefrom.case.case import Case, make_cases
from wherefrom.errors import NotSeen
from wherefrom.model.text_model import TextModel
from wherefrom_studies.sparse.projected_attention import ProjectedAttention, projected
from wherefrom_studies.sparse.projections import Projection

TEXTS = ["a good film, not dull", "the plot was bad"]
SPARSE = Projection.parse("sparsemax")


def cases_of(model: TextModel) -> list[Case]:
    cases: dict[int, Case] = {}
    for found in make_cases(model, [model.encode(text) for text in TEXTS], [None] * len(TEXTS)):
        cases |= found
    return [cases[i] for i in range(len(TEXTS))]


def logits_of(model: TextModel) -> torch.Tensor:
    return torch.stack([case.logits for case in cases_of(model)])


def hooks_of(model: TextModel) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.network.module.modules())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # DeBERTa's own
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family: str) -> None:
    model = tiny(family)
    plain = logits_of(model)
    before = hooks_of(model)
    with projected(model.network.module, Projection("softmax")):
        torch.testing.assert_close(logits_of(model), plain, atol=1e-5, rtol=1e-4)
    with projected(model.network.module, SPARSE) as mode:
        unrecorded = logits_of(model)
        assert mode.calls >= 3
        cases = cases_of(model)
        captures = [case.capture for case in cases]
        recorded = torch.stack([case.logits for case in cases])
    torch.testing.assert_close(recorded, unrecorded, atol=1e-5, rtol=1e-4)  # the same whether it is looked at or not
    assert not torch.allclose(recorded, plain, atol=1e-3)
    for capture in captures:
        for layer in capture.attention:
            torch.testing.assert_close(layer.probs, peer_sparsemax(layer.scores, dim=-1), atol=1e-5, rtol=0)
    assert hooks_of(model) == before
    assert torch.equal(logits_of(model), plain)


def test_padding_changes_nothing() -> None:
    model = tiny("bert")
    with projected(model.network.module, SPARSE):
        together = logits_of(model)
        alone = [next(make_cases(model, [model.encode(text)], [None]))[0].logits for text in TEXTS]
    torch.testing.assert_close(together, torch.stack(alone), atol=1e-5, rtol=1e-4)


def test_no_trace_after_an_error() -> None:
    model = make_model("bert")
    before = hooks_of(model)
    with pytest.raises(RuntimeError, match="in between"), projected(model.network.module, SPARSE):
        raise RuntimeError("in between")
    assert hooks_of(model) == before
    with ProjectedAttention([], SPARSE):
        assert torch.equal(
            torch.softmax(torch.zeros(3, 4), -1), torch.full((3, 4), 0.25)
        )  # outside of attention nothing changes


def test_a_question_that_never_reached_attention_is_not_answered() -> None:
    with pytest.raises(NotSeen, match="nothing was projected"), projected(tiny("bert").network.module, SPARSE):
        pass


def test_gradients_reach_the_embeddings() -> None:
    model = tiny("bert")
    with projected(model.network.module, SPARSE):
        case = cases_of(model)[0]
        assert bool((case.gradients.embeddings.norm(dim=-1) > 0).all())
