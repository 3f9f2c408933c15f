from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_models import CONFIGS, FAMILIES, make_model, make_network, tiny, tokenizer
from tolerances import assert_close, tolerance_of
from toys import additive_model, case_of

import wherefrom.model.anatomy as anatomy_module
from wherefrom.api import Model
from wherefrom.doctor import examine
from wherefrom.errors import NotSeen
from wherefrom.model.families import family_of, known_types
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import TextModel

TEXT = "the film was not bad, but dull!"


@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_are_rebuilt_from_their_parts(family: str) -> None:
    case = case_of(tiny(family, torch.float64), TEXT)
    tolerance = tolerance_of(case.model)
    assert len(case.capture.attention) == 3
    assert case.rebuild_error() < tolerance
    for layer in case.capture.attention:
        assert layer.probs.shape == (4, len(case.encoding), len(case.encoding))
        assert layer.value.shape[:2] == layer.probs.shape[::2]
        torch.testing.assert_close(layer.probs.sum(-1), torch.ones_like(layer.probs[..., 0]))
        probs = layer.scores.softmax(-1)
        assert_close(probs, layer.probs, tolerance=tolerance)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "pre"},
        {"attention_norm": "output.LayerNorm"},
        {"mlp": ("intermediate", "output.dense", "output.LayerNorm")},
    ],
)
def test_a_wrong_row_is_found_out(wrong: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    right = family_of("bert")
    assert right is not None
    monkeypatch.setattr(anatomy_module, "family_of", lambda _: replace(right, **wrong))  # type: ignore[arg-type]
    model = make_model("bert")
    with torch.no_grad():  # norms as they start out are all alike
        model.network.anatomy.blocks[0].module.output.LayerNorm.weight.fill_(2.0)  # type: ignore[union-attr, operator]
    assert case_of(model, TEXT).rebuild_error() > 1e-2
    found = examine(Model(model))
    assert found["broken"]
    assert "NOT what the model computes" in found["facts"]["blocks rebuilt from their parts"]


def test_the_doctor_finds_nothing_wrong_and_tries_every_method() -> None:
    found = examine(Model(tiny("modernbert")))
    assert not found["broken"]
    assert found["facts"]["layers and heads"] == "3 x 4, pre-norm blocks"
    assert set(found["methods"].values()) == {None}


def test_every_row_of_the_table_has_a_small_model() -> None:
    assert sorted(CONFIGS) == known_types()


def test_a_head_unlike_its_family_s_is_found_out() -> None:
    """A BERT that classifies by the mean of all positions must not be cut down to what BERT usually reads."""
    network = make_network("bert", dtype=torch.float64)

    class MeanPooler(torch.nn.Module):
        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return hidden.mean(1)

    network.base_model.pooler = MeanPooler()
    model = TextModel.of(network, tokenizer())
    assert not model.network.facts.skips_unread
    assert model.network.facts.decision_position == "every"
    encoding = model.encode(TEXT)
    torch.testing.assert_close(
        case_of(model, encoding).row_read, torch.full((len(encoding),), 1 / len(encoding)).double()
    )
    assert tiny("bert").network.facts.decision_position == "first"
    assert tiny("gpt2").network.facts.decision_position == "last"
    assert tiny("bert").network.facts.skips_unread
    with torch.no_grad():
        expected = network(**inputs_of(model.network, [model.encode(TEXT)])).logits.softmax(-1)[0]
    for method in ("attcat", "saliency", "occlusion", "integrated_gradients"):
        found = Model(model).explain(TEXT, method).probabilities
        assert list(found.values()) == pytest.approx(expected.tolist(), rel=1e-9)


def test_mean_pooling_reads_every_position() -> None:
    case = case_of(make_model("modernbert", classifier_pooling="mean"), "a fine film")
    torch.testing.assert_close(case.read(torch.eye(5)), torch.full((5,), 0.2))
    first = case_of(make_model("modernbert"), "a fine film")
    torch.testing.assert_close(first.read(torch.eye(5)), torch.tensor([1.0, 0, 0, 0, 0]))


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_the_decision_is_read_where_the_gradient_says(family: str) -> None:
    case = case_of(tiny(family, torch.float64), TEXT)
    slopes = case.gradients.hidden[-1].norm(dim=-1)  # of the last block's output
    torch.testing.assert_close((slopes > 0).double(), case.read(torch.eye(len(slopes), dtype=torch.float64)))


def test_unknown_families_work_where_they_can_and_say_so_elsewhere() -> None:
    model = Model(additive_model(good=1.0))
    for method in ("saliency", "input_x_gradient", "integrated_gradients", "occlusion", "random"):
        model.explain("a good film", method)
    with pytest.raises(NotSeen, match=r"None of the .* wherefrom-toy model .*saliency"):
        model.explain("a good film", "attcat")
    found = examine(model)
    assert not found["broken"]
    assert found["methods"]["occlusion"] is None
    assert "wherefrom-toy" in found["methods"]["attcat"]


def test_fused_attention_is_refused() -> None:
    network = make_network("bert")
    network.config._attn_implementation = "flash_attention_2"
    with pytest.raises(NotSeen, match="attn_implementation='sdpa'"):
        _ = TextModel.of(network, tokenizer()).network.anatomy


def test_attention_that_was_not_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("bert")
    monkeypatch.setattr("wherefrom.model.recording.AttentionRecorder._enter", lambda *_: None)
    monkeypatch.setattr("wherefrom.model.recording.AttentionRecorder._leave", lambda *_: None)
    with pytest.raises(NotSeen, match="3 blocks ran but 0 attentions were seen"):
        Model(model).explain("a film", "attcat")


def test_compiled_models_are_refused() -> None:
    model = make_model("bert")
    compiled = torch.compile(model.network.module)
    with pytest.raises(NotSeen, match="compiled"):
        anatomy_module.dissect(compiled)  # type: ignore[arg-type]
