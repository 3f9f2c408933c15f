"""A model of an unknown type is recognised by laws that hold on it, and is not where one does not."""

from __future__ import annotations

from types import MethodType
from typing import Any

import pytest
import torch
from tiny_models import CONFIGS, GROUPED, make_network, tokenizer

import wherefrom
from wherefrom.case import recognise
from wherefrom.errors import NotSeen
from wherefrom.model.families import FAMILIES

TEXT = "the film was not bad , and very fine"


def unknown(family: str, **more: Any) -> tuple[Any, Any]:
    """A small model whose type nobody has heard of."""
    network = make_network(family, dtype=torch.float64, **more)
    config: Any = network.config
    config.model_type = f"my-{family}"
    _, pad, ends = CONFIGS[family]
    return network, tokenizer(pad, ends)


def row_of(family: str) -> Any:
    return next(row for row in FAMILIES if family in row.model_types)


@pytest.mark.parametrize("family", ["bert", "modernbert", "llama", "gemma2", "granite", "mixtral"])
def test_a_model_is_recognised_by_what_it_computes(family: str) -> None:
    model = wherefrom.load(unknown(family))
    found = model.text_model.network.facts.family
    assert found is not None
    assert (found.order, found.scale_option, found.router) == (
        row_of(family).order,
        row_of(family).scale_option,
        row_of(family).router,
    )
    known = wherefrom.load((make_network(family, dtype=torch.float64), unknown(family)[1]))
    for method in ("alti", "attn_lrp", "gae"):
        ours, theirs = model.explain(TEXT, method), known.explain(TEXT, method)
        assert ours.scores == pytest.approx(theirs.scores, abs=1e-9), method
        assert any("-like; rebuild error" in note for note in ours.notes)
        assert not any("-like; rebuild error" in note for note in theirs.notes)
    assert not any("-like" in note for note in model.explain(TEXT, "occlusion").notes)


def changed(self: Any, hidden_states: torch.Tensor, *rest: Any, **more: Any) -> Any:
    """A block that adds something of its own, as no family does."""
    found = type(self).forward(self, hidden_states, *rest, **more)
    return (found[0] + 0.01 * hidden_states, *found[1:]) if isinstance(found, tuple) else found + 0.01 * hidden_states


def test_a_model_that_no_family_describes_is_refused() -> None:
    network, reader = unknown("llama")
    for layer in network.base_model.layers:
        layer.forward = MethodType(changed, layer)
    model = wherefrom.load((network, reader))
    assert model.text_model.network.facts.family is None
    with pytest.raises(NotSeen, match=r"None of the \d+ model types that Wherefrom knows is built as this my-llama"):
        model.explain(TEXT, "alti")
    assert len(model.explain(TEXT, "saliency").scores) > 0


def test_what_is_not_in_a_row_is_seen_by_what_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemma 4 multiplies what a block gives by a number of its own, which is one unless it was trained."""
    settings = GROUPED | {"head_dim": 8, "global_head_dim": 8, "hidden_size_per_layer_input": 0, "sliding_window": 4}
    monkeypatch.setitem(CONFIGS, "gemma4_text", (settings, 0, "none"))
    network: Any = make_network("gemma4_text", task="causal_lm", dtype=torch.float64)
    pair = (network, tokenizer(0, "none"))
    assert "-like" in wherefrom.load(pair).text_model.network.facts.recognised
    for layer in network.base_model.layers:
        layer.layer_scalar.fill_(0.5)
    assert wherefrom.load(pair).text_model.network.facts.family is None


def test_a_finding_is_kept_by_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognise, "_found", {})
    pair = unknown("llama")
    first = wherefrom.load(pair).text_model.network.facts.recognised
    monkeypatch.setattr(recognise, "_tried", lambda *_: pytest.fail("the model was tried again"))
    assert wherefrom.load(pair).text_model.network.facts.recognised == first
    assert "-like" in first
