"""Models that compute differently by length: no padding and no shared prefix across the limit, and nothing changed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tiny_models import make_model, make_network, tokenizer
from tolerances import TOLERANCE, assert_close
from torch import nn
from transformers import PreTrainedModel

import wherefrom
from wherefrom.api import Model
from wherefrom.case.asking import Asker
from wherefrom.model.generating import generate
from wherefrom.model.lengths import Lengths, ModuleState, lengths_of

SHORT = "the film was not bad"
WORDS = "the acting was great but the plot is not very good and the film was dull "
ROOM = TOLERANCE[torch.float32]
LIMIT = 30  # longer than the samples that loading tries
# Phi-3: one set of rotary angles up to the limit, and another above it.
LONGROPE: dict[str, Any] = {
    "max_position_embeddings": 64,
    "original_max_position_embeddings": LIMIT,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0, 1.0],
        "long_factor": [3.0, 9.0],
        "original_max_position_embeddings": LIMIT,
    },
}
# BigBird: full attention up to (5 + 2 * 1) * 4 tokens, attention in blocks above.
SPARSE: dict[str, Any] = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}
SWITCHING = [("phi3", LONGROPE, "causal_lm"), ("big_bird", SPARSE, "classification")]


def text_of(tokens: int) -> str:
    return " ".join((WORDS * 8).split()[:tokens])


def by_itself(network: PreTrainedModel, *texts: str) -> list[torch.Tensor]:
    """The logits of a network that Wherefrom never saw, each text alone."""
    ends = "both" if network.config.model_type == "big_bird" else "none"
    with torch.no_grad():
        ids = [tokenizer(0, ends)(text)["input_ids"] for text in texts]
        return [network(torch.tensor([row])).logits[0] for row in ids]


def test_rows_that_may_be_padded() -> None:
    assert Lengths().alike(1, 1000)
    sparse = Lengths(10)
    assert sparse.alike(3, 10)
    assert not sparse.alike(10, 11)
    assert not sparse.alike(11, 12)
    assert sparse.alike(12, 12)
    rope = Lengths(10, alike_above=True)
    assert rope.alike(3, 10)
    assert rope.alike(11, 12)
    assert not rope.alike(10, 11)


def test_dynamic_angles_are_those_of_one_length() -> None:
    """Longrope has two sets of angles, dynamic scaling one for every length above the limit."""
    rope = {"factor": 2.0, "rope_theta": 1e4, "original_max_position_embeddings": LIMIT}
    dynamic = make_network("llama", rope_parameters={"rope_type": "dynamic"} | rope)
    assert lengths_of(dynamic) == Lengths(LIMIT)
    assert lengths_of(make_network("phi3", **LONGROPE)) == Lengths(LIMIT, alike_above=True)
    assert lengths_of(make_network("llama")) == Lengths()


@pytest.mark.parametrize("method", ["saliency", "integrated_gradients"])
def test_gradients_of_longformer_beside_a_text_of_several_windows(method: str) -> None:
    model = Model(make_model("longformer", dtype=torch.float64))
    texts = ["a film", text_of(50)]
    for text, listed in zip(texts, model.explain(texts, method, 0, check=False), strict=True):
        assert_close(listed.scores, model.explain(text, method, 0, check=False).scores, tolerance=ROOM)


def test_gradients_of_longformer_where_choices_differ_in_length() -> None:
    """Beside a longer choice, the gradient of a shorter one is not finite."""
    model = Model(make_model("longformer", task="multiple_choice", dtype=torch.float64))
    texts = [("a film", "good\nbad"), (text_of(18), "fine\nvery dull\nbad")]
    for text in texts:
        scores = model.explain(text, "integrated_gradients", 0, check=False, steps=10, baseline="zero").scores
        assert all(map(math.isfinite, scores))


def test_state_is_restored() -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("angles", torch.zeros(2))
    state = ModuleState([module])
    assert not state.changed()
    before = {**vars(module)}, dict(module._buffers)
    vars(module)["kind"], module.in_features = "other", 3
    module.register_buffer("angles", torch.ones(2))
    module.register_buffer("more", torch.ones(2))
    assert state.changed() == (module,)
    state.restore()
    assert not state.changed()
    assert ({**vars(module)}, dict(module._buffers)) == before


@pytest.mark.parametrize(("family", "settings", "task"), SWITCHING)
def test_network_answers_as_if_it_had_not_been_loaded(family: str, settings: Any, task: str) -> None:
    """transformers switches BigBird to full attention on the first short text, for good; loading tries one."""
    texts = [text_of(40), text_of(34), SHORT]  # the short one last: it changes the network, which is not our doing
    network = make_network(family, task=task, dtype=torch.float64, **settings)
    model = wherefrom.load((network, tokenizer(0, "none" if task == "causal_lm" else "both")))
    model.explain([SHORT, texts[0]], "occlusion")
    for text, logits in zip(texts, by_itself(network, *texts), strict=True):
        (expected,) = by_itself(make_network(family, task=task, dtype=torch.float64, **settings), text)
        assert_close(logits, expected, tolerance=ROOM)


@pytest.mark.parametrize(("family", "settings", "task"), SWITCHING)
@pytest.mark.parametrize("method", ["occlusion", "input_x_gradient"])
def test_alone_and_in_lists_across_the_limit(family: str, settings: Any, task: str, method: str) -> None:
    model = Model(make_model(family, task=task, dtype=torch.float64, **settings))
    target = "good" if task == "causal_lm" else None
    texts = [SHORT, *(text_of(tokens) for tokens in (24, 26, 27, 29, 30, 31, 32, 40))]
    for text, listed in zip(texts, model.explain(texts, method, target, check=False), strict=True):
        alone = model.explain(text, method, target, check=False)
        assert_close(listed.scores, alone.scores, tolerance=ROOM, what=(text, method))
        (own,) = by_itself(make_network(family, task=task, dtype=torch.float64, **settings), text)
        probabilities = (own[-1] if task == "causal_lm" else own).softmax(-1)
        expected = probabilities.max() if target is None else probabilities[model.text_model.target(target).index]
        assert_close(alone.probability, expected, tolerance=ROOM)


def test_scores_before_the_softmax_beside_a_longer_text() -> None:
    """MPT counts positions from the end of the longest row, which shows in the scores alone."""
    model = Model(make_model("mpt", dtype=torch.float64))
    alone, listed = (
        model.explain(texts, "optimus", 0, raw="A*", check=False)[0] for texts in ([SHORT], [SHORT, WORDS])
    )
    assert alone.params["winner"] == listed.params["winner"]
    assert_close(listed.scores, alone.scores, tolerance=ROOM)


@pytest.mark.parametrize("tokens", [LIMIT, LIMIT + 1, LIMIT + 8])
@pytest.mark.parametrize("fill", ["unk", "delete"])
def test_no_prefix_is_shared_across_the_limit(tokens: int, fill: str) -> None:
    model = make_model("phi3", task="causal_lm", dtype=torch.float64, **LONGROPE)
    encoding = model.encode(text_of(tokens))
    keep = ~torch.eye(tokens, dtype=torch.bool).repeat(4, 1)  # more rows than one, so that sharing is worth it
    together = Asker(model)
    queries = together.note(encoding, keep, fill)
    together.run()
    for row, logits in zip(keep[:tokens], queries.logits, strict=False):
        alone = Asker(model, share=False)
        query = alone.note(encoding, row[None], fill)
        alone.run()
        assert_close(logits, query.logits[0], tolerance=ROOM)


@pytest.mark.parametrize("tokens", [5, LIMIT - 1, LIMIT, LIMIT + 1])
@pytest.mark.parametrize("method", ["occlusion", "attcat"])
def test_continuation_across_the_limit(tokens: int, method: str) -> None:
    """Each token is predicted with the angles of what is before it."""
    model = Model(make_model("phi3", task="causal_lm", dtype=torch.float64, **LONGROPE))
    generation = model.generate_and_explain(text_of(tokens), method, continuation="good film bad")
    ids = list(model.text_model.encode(text_of(tokens)).input_ids)
    for token, probability in zip(generation.token_ids, generation.probabilities, strict=True):
        with torch.no_grad():
            expected = model.text_model.network.module(torch.tensor([ids])).logits[0, -1].softmax(-1)[token]
        assert_close(probability, expected, tolerance=ROOM)
        ids.append(token)


def test_generation_across_the_limit() -> None:
    """The cache of a shorter text is not continued with other angles."""
    network = make_network("phi3", task="causal_lm", dtype=torch.float64, **LONGROPE)
    model = Model(make_model("phi3", task="causal_lm", dtype=torch.float64, **LONGROPE)).text_model
    prompt = model.encode(text_of(LIMIT - 2))
    ids = list(prompt.input_ids)
    for token in generate(model, prompt, 6):
        with torch.no_grad():
            logits = network(torch.tensor([ids])).logits[0, -1]
        assert_close(logits[token], logits.max(), tolerance=ROOM)
        ids.append(token)
