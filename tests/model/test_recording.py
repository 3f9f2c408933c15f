"""Recording while other threads use the same model, and what of attention is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, make_model, tiny
from torch.nn import functional

from wherefrom.case import targeted as targeted_module
from wherefrom.case.passes import Passes
from wherefrom.model import attention as attention_module
from wherefrom.model.attention import AttentionCall, averaged_attention, explicit_attention
from wherefrom.model.network import inputs_of
from wherefrom.model.recording import keep_mean, recording
from wherefrom.model.text_model import PassCount
from wherefrom.registry import Reads


def test_a_hook_that_another_thread_calls_while_it_goes_does_nothing() -> None:
    """torch takes a hook away in two steps; a thread in between calls it without keyword arguments."""
    model = make_model("bert")
    block = model.network.anatomy.blocks[0].module
    with recording([block], []) as record:
        block._forward_pre_hooks_with_kwargs.clear()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(model.run, inputs_of(model.network, [model.encode("a fine film")]), PassCount()).result()
    assert record.inputs == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("at_once", [0, 2**20])
def test_attention_that_is_computed_when_its_gradient_comes_by_is_that_of_the_forward_pass(
    family: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts of different lengths in one batch, one head after the other or all at once."""
    monkeypatch.setattr(targeted_module, "AT_ONCE", at_once)
    model = tiny(family, torch.float64)
    encodings = [
        model.encode(text) for text in ("the film was not bad", "a film")[: 1 + model.network.facts.takes_batches]
    ]
    kept, later = Passes(model, encodings), Passes(model, encodings)
    kept.announce(["attention", "attention_x_gradients"])
    later.announce(["attention_x_gradients"])
    targets = [model.target(1)] * len(encodings)
    expected, found = (one.toward(targets).gradient("attention_x_gradients") for one in (kept, later))
    assert [kind.name for made in (kept, later) for kind in made._made] == ["graph", "product_graph"]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("graph", "at_once"), [(False, 0), (True, 100), (True, 2**20)])
def test_the_mean_that_is_kept_is_the_mean_of_all_heads(
    family: str, graph: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts of different lengths in one batch, so that there is padding."""
    monkeypatch.setattr(attention_module, "AT_ONCE", at_once)
    model = tiny(family, torch.float64)
    encodings = [model.encode(text) for text in ("the film was not bad", "a film", "never a dull plot")]
    encodings = encodings if model.network.facts.takes_batches else encodings[:1]
    needs: list[Reads] = ["mean_attention", "hidden_gradients"] if graph else ["mean_attention"]
    whole, kept = Passes(model, encodings), Passes(model, encodings)
    whole.announce([*needs, "attention"])
    kept.announce(needs)
    every, mean = whole.forward("attention"), kept.forward("mean_attention")
    assert {kind.name for kind in kept._made} == {"mean_graph" if graph else "mean_attention"}
    torch.testing.assert_close(mean.logits, every.logits)
    for one, all_heads in zip(mean.recording.attention, every.recording.attention, strict=True):
        probs = all_heads.probs.detach().reshape(len(encodings), -1, *all_heads.probs.shape[-2:])
        torch.testing.assert_close(one.probs, probs.mean(1, keepdim=True))
        assert not one.probs.requires_grad
        assert not one.scores.numel()
        assert not one.value.numel()


MASKS: dict[str, Any] = {
    "none": {},
    "causal": {"is_causal": True},
    "of rows": {"attn_mask": torch.arange(5).expand(2, 1, 5, 5) < torch.tensor([5, 3]).view(2, 1, 1, 1)},
    "of heads": {"attn_mask": torch.randn(2, 6, 5, 5, generator=torch.Generator().manual_seed(0)).double()},
    "of all": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril(), "scale": 0.3},
    "a query without keys": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril(-1)},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("key_heads", [6, 2, 1])
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("at_once", [0, 2 * 2 * 6 * 5, 2**20])
def test_attention_some_queries_after_the_others_is_attention(
    mask: str, key_heads: int, graph: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_module, "AT_ONCE", at_once)
    options = {**MASKS[mask], "enable_gqa": key_heads < 6}
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, heads, 5, 4, dtype=torch.float64) for heads in (6, key_heads, key_heads))
    query.requires_grad_(graph)
    with torch.set_grad_enabled(graph):
        record, context = averaged_attention(AttentionCall(query, key, value, **options))
    torch.testing.assert_close(context, functional.scaled_dot_product_attention(query, key, value, **options))
    expected = AttentionCall(query, key, value, **options).probabilities().probs.mean(1, keepdim=True)
    assert at_once == 2**20 or record.probs.shape[1] == 1
    torch.testing.assert_close(keep_mean(record, 2).probs, expected.detach())
    assert context.requires_grad == graph


def test_rows_and_heads_in_one_dimension_are_told_apart() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 6, 5, 4, dtype=torch.float64)
    whole, context = explicit_attention(AttentionCall(query, key, value))
    with torch.no_grad():
        record, folded = averaged_attention(AttentionCall(*(part.flatten(0, 1) for part in (query, key, value))))
    torch.testing.assert_close(folded, context.flatten(0, 1))
    torch.testing.assert_close(keep_mean(record, 2).probs, whole.probs.mean(1, keepdim=True))


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("is_causal", [False, True])
def test_some_heads_that_are_computed_later_are_those_of_torch_s_kernel(key_heads: int, is_causal: bool) -> None:
    """Several query heads may share one head's keys and values."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, heads, 5, 3).double() for heads in (4, key_heads, key_heads))
    context = functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal, enable_gqa=True)
    call = AttentionCall(query, key, value, is_causal=is_causal, enable_gqa=True)
    for some in (range(4), range(1, 3), range(3, 4)):
        found = call.of_heads(some)
        torch.testing.assert_close(found.probs @ found.value, context[:, some.start : some.stop])
