"""Every family with every method: works, or says why not; blocks are rebuilt, words are really hidden, and no score is
rounding. The laws in their full length run over fewer families (test_laws.py).
"""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from family_table import METHODS, PAGE, TEXT, family_case, family_model, read_page, row_of
from tiny_models import CHEAPLY_TESTED, CONFIGS, FAMILIES, make_model
from tolerances import assert_close, tolerance_of
from toys import case_of

from wherefrom.api import Model
from wherefrom.case.passes import Passes
from wherefrom.errors import NotSeen
from wherefrom.model.families import known_types
from wherefrom.model.hiding import fill_token
from wherefrom.model.network import inputs_of
from wherefrom.model.relevance.double import graph_tensor, paired
from wherefrom.model.relevance.mode import relevance_mode
from wherefrom.model.relevance.propagation import Propagation, RuleSet
from wherefrom.model.text_model import PassCount

WITH_SINKS = ("gpt_oss",)
DECODED = ("mt5", "mbart")  # their decoder reads the words, too, so that the encoder's blocks do not have all relevance


@pytest.mark.parametrize("family", list(CONFIGS))
def test_the_table_says_what_works_and_no_score_is_rounding(family: str) -> None:
    assert read_page()[family] == row_of(family), f"{PAGE.name} is not up to date: make families"


def test_the_table_has_every_family_and_every_method() -> None:
    rows = read_page()
    assert sorted(rows) == sorted(CONFIGS) == known_types()
    assert all(list(row.reasons) == METHODS for row in rows.values())
    assert len(rows) >= 60
    assert not set(FAMILIES) & set(CHEAPLY_TESTED)


@pytest.mark.parametrize("family", CHEAPLY_TESTED)
def test_attention_is_seen_and_words_are_hidden(family: str) -> None:
    model, case = family_model(family), family_case(family)
    tolerance = tolerance_of(model)
    try:
        layers = case.capture.attention
    except NotSeen:
        layers = []
    for layer in layers:
        assert layer.probs.shape[1:] == (len(case.encoding), len(case.encoding))
        total = layer.probs.sum(-1, keepdim=True)  # less than one where heads may attend to a sink, which is no token
        assert (total < 1).all() if family in WITH_SINKS else (total - 1).abs().max() < tolerance
        assert_close(layer.scores.softmax(-1) * total, layer.probs, tolerance=tolerance)
    encodings = [model.encode(text) for text in (TEXT, "a great film")[: 1 + model.network.facts.takes_batches]]
    inputs, replaced = inputs_of(model.network, encodings), inputs_of(model.network, encodings)["input_ids"].clone()
    replaced[:, 2] = fill_token(model, "unk")  # which moves no position, as a padding id might
    with torch.no_grad():
        expected = model.run({**inputs, "input_ids": replaced}, PassCount(), whole=True)
        found = model.run(inputs, PassCount(), model.network.embed(replaced), whole=True)
        plain = model.run(inputs, PassCount(), whole=True)
        alone = torch.cat([model.run(inputs_of(model.network, [one]), PassCount(), whole=True) for one in encodings])
        short = model.run(inputs, PassCount())
    assert (expected - plain).abs().max() > 1e-4 * expected.abs().max()  # hiding does something
    assert_close(found, expected, tolerance=tolerance, what="hidden")
    assert_close(plain, alone, tolerance=tolerance, what="in a batch")
    assert_close(short, plain, tolerance=tolerance, what="without what is not read")


@pytest.mark.parametrize("family", CHEAPLY_TESTED)
def test_a_text_goes_through_the_model_with_its_questions(family: str) -> None:
    model = family_model(family)
    encoding, tolerance = model.encode(TEXT), tolerance_of(model)
    alone, together = Passes(model, [encoding]), Passes(model, [encoding])
    keep = ~torch.eye(len(encoding), dtype=torch.bool)
    one_by_one, questions = (
        passes.asker.note(encoding, keep, "unk") for passes in (Passes(model, [encoding]), together)
    )
    one_by_one.asker.run()
    try:
        expected = alone.forward("attention").recording.attention
        found = together.forward("head_attention").recording.attention
    except NotSeen:
        return
    for one, other in zip(found, expected, strict=True):
        assert_close(one.probs, other.probs, tolerance=tolerance, what="attention")
    together.asker.run()
    assert_close(questions.logits, one_by_one.logits, tolerance=tolerance, what="answers")


@pytest.mark.parametrize("family", CHEAPLY_TESTED)
def test_rules_keep_relevance_and_leave_answers_and_gradients_as_they_are(family: str) -> None:
    plain, case = family_case(family), family_case(family)
    tolerance = tolerance_of(case.model)
    if case.anatomy.family.unseen:
        with pytest.raises(NotSeen, match=f"Not defined for {family}"):
            case.relevance("zplus", "blocks")
        return
    for double in (False, True):
        for hidden in case.relevance("zplus", "blocks", double=double):
            assert family in DECODED or hidden.sum().item() == pytest.approx(1, abs=1e-6)
        (words,) = case.relevance("gradient", "words", double=double)
        assert_close(words, plain.gradients.embeddings, tolerance=tolerance, what="gradient")
        logits = case.passes.forward("relevance_double" if double else "relevance").logits[0]
        assert_close(logits, plain.logits, tolerance=tolerance, what="logits")
    for layer, found in zip(plain.gradients.attention, case.relevance("gradient", "attention"), strict=True):
        assert_close(found, layer.probs, tolerance=tolerance, what="attention")


@pytest.mark.parametrize("family", ["xlnet", "convbert", "nystromformer"])
def test_a_model_that_padding_changes_reads_one_text_at_a_time(family: str) -> None:
    """XLNet reads the last position, which is padding in a batch; the others convolve padding with its neighbours."""
    model = family_model(family)
    assert not model.network.facts.takes_batches
    alone, together = (Model(model).explain(some, "saliency") for some in ([TEXT], ["a film", TEXT, "very dull"]))
    assert_close(together[1].scores, alone[0].scores, tolerance=tolerance_of(model))
    assert family_model("bert").network.facts.takes_batches


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("opt", {"do_layer_norm_before": False}),
        ("stablelm", {"use_parallel_residual": True}),
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 1}),
        ("falcon", {"parallel_attn": False}),
        ("falcon", {"alibi": True, "multi_query": False}),
        ("qwen2_moe", {"decoder_sparse_step": 2}),
        ("mobilebert", {"num_feedforward_networks": 2, "normalization_type": "no_norm"}),
    ],
)
def test_settings_that_change_the_blocks_are_followed(family: str, setting: dict[str, object]) -> None:
    case = case_of(make_model(family, dtype=torch.float64, **setting), TEXT)
    assert max(case.rebuild_error(), case.parts_error()) < tolerance_of(case.model)
    for hidden in case.relevance("zplus", "blocks", double=True):
        assert hidden.sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        ("bloom", {"apply_residual_connection_post_layernorm": True}),
        ("big_bird", {"attention_type": "block_sparse"}),
        ("flaubert", {"pre_norm": True}),
        ("xmod", {"ln_before_adapter": False}),
    ],
)
def test_settings_that_no_row_knows_are_refused_by_name(family: str, setting: dict[str, object]) -> None:
    with pytest.raises(NotSeen, match=next(iter(setting))):
        make_model(family, **setting).network.anatomy  # noqa: B018


def test_experts_in_groups_get_the_relevance_of_experts_one_by_one() -> None:
    """Single precision computes experts by torch's grouped product, which is rewritten; double precision does not."""
    one, groups = (make_model("mixtral", experts_implementation=name) for name in ("batched_mm", "grouped_mm"))
    for method in ("attn_lrp", "cp_lrp", "lrp"):
        first, second = (Model(model).explain(TEXT, method).scores for model in (one, groups))
        assert_close(second, first, tolerance=tolerance_of(one), what=method)


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"])
def test_experts_one_after_the_other_are_refused_with_the_way_out_by_relevance(family: str) -> None:
    """Other methods explain them as they do the same experts computed together."""
    model = make_model(family, dtype=torch.float64, experts_implementation="eager")
    together = make_model(family, dtype=torch.float64)
    for method in ("attn_lrp", "transatt"):
        with pytest.raises(NotSeen, match=r'set_experts_implementation\("batched_mm"\)'):
            Model(model).explain(TEXT, method)
    for method in ("saliency", "alti", "occlusion"):
        one, other = (Model(each).explain(TEXT, method).scores for each in (model, together))
        assert_close(one, other, tolerance=tolerance_of(model), what=method)
    model.network.module.set_experts_implementation("batched_mm")
    one, other = (Model(each).explain(TEXT, "attn_lrp").scores for each in (model, together))
    assert_close(one, other, tolerance=tolerance_of(model))


def test_routing_is_held_fixed_by_relevance_and_followed_by_gradients() -> None:
    """With the router's weights as constants, cp_lrp stays the same, and the gradient does not."""
    model = make_model("mixtral", dtype=torch.float64)
    before = {name: Model(model).explain(TEXT, name).scores for name in ("cp_lrp", "saliency")}

    def constant(_: torch.nn.Module, __: object, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(one.detach() for one in given)

    handles = [router.register_forward_hook(constant) for router in model.network.anatomy.routers]
    after = {name: Model(model).explain(TEXT, name).scores for name in ("cp_lrp", "saliency")}
    for handle in handles:
        handle.remove()
    assert_close(after["cp_lrp"], before["cp_lrp"], tolerance=tolerance_of(model))
    assert max(abs(a - b) for a, b in zip(after["saliency"], before["saliency"], strict=True)) > 1e-3


def test_a_gelu_that_is_written_out_is_a_gelu() -> None:
    """ESM's own, of the error function, hands back by every rule set what torch's does."""
    x = torch.linspace(-3, 3, 13, dtype=torch.float64)
    found = []
    for gelu in (lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), torch.nn.functional.gelu):
        leaf = x.clone().requires_grad_()
        with relevance_mode(torch.nn.Identity(), 1, double=False) as mode:
            y = gelu(leaf)
        for rules in get_args(RuleSet):
            with mode.state.propagating(Propagation(rules)):
                found.append((rules, torch.autograd.grad(y.sum(), leaf, retain_graph=True)[0]))
    half = len(get_args(RuleSet))
    for (rules, one), (_, other) in zip(found[:half], found[half:], strict=True):
        keep = x != 0  # where y / x is zero divided by zero
        assert_close(one[keep], other[keep], tolerance=1e-9, what=rules)


def test_what_is_changed_in_place_is_followed() -> None:
    """`scores.masked_fill_(...)` and `out.add_(bias)` bind no name to their result: XLM and expert layers do so."""

    class InPlace(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2.0
            same = y
            y.add_(torch.ones(3))
            y += x
            y.masked_fill_(torch.tensor([False, True, False]), 0.5)
            return same * 1.0 + y

    for double in (False, True):
        x = torch.tensor([1.0, 2.0, -3.0], requires_grad=True)
        expected = InPlace()(x)
        with relevance_mode(InPlace(), 1, double=double):
            found = graph_tensor(InPlace()(paired(x, x.detach().double()) if double else x))
        assert_close(found, expected, tolerance=1e-6)
        gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (found, expected)]
        assert_close(*gradients, tolerance=1e-6)


def test_relevance_of_a_layer_without_heads_is_not_lost() -> None:
    """XLM's blocks are no modules, so that nothing could hand it to the residual: refused, and not lost."""
    heads = ((1.0, 1.0), (0.0, 0.0))
    case = family_case("xlm")
    with pytest.raises(NotSeen, match="a layer has no head left"):
        case.relevance("zplus", "blocks", heads=heads)
    for hidden in family_case("ernie").relevance("zplus", "blocks", heads=heads):
        assert hidden.sum().item() == pytest.approx(1, abs=1e-6)
