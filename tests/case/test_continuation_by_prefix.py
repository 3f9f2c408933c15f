"""A model that is not causal reads a continuation a prefix at a time: no step sees a later token."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tiny_models import make_model
from tolerances import assert_close, tolerance_of

from wherefrom.api import Model
from wherefrom.model.generating import continued, tokens_of
from wherefrom.model.network import inputs_of
from wherefrom.model.tasks.continuation import Continuation, ContinuationByPrefix

PROMPT, OUTPUT = "the film was not", "good movie bad"
NOT_CAUSAL = ["xlnet", "xlm", "bert", "roberta", "electra", "roformer"]


@pytest.mark.parametrize("method", ["attcat", "raw_attention"])  # the second reads all steps of a causal model at once
@pytest.mark.parametrize("family", [*NOT_CAUSAL, "gpt2", "llama"])
def test_steps_see_nothing_later(family: str, method: str) -> None:
    model = make_model(family, task="causal_lm", dtype=torch.float64)
    assert model.causal == (family not in NOT_CAUSAL)
    generation = Model(model).generate_and_explain(PROMPT, method, continuation=OUTPUT)
    ids = list(model.encode(PROMPT).input_ids)
    for token, probability, scores in zip(
        generation.token_ids, generation.probabilities, generation.scores, strict=True
    ):
        with torch.no_grad():
            expected = model.network.module(torch.tensor([ids])).logits[0, -1].softmax(-1)[token]
        assert_close(probability, expected, tolerance=tolerance_of(model))
        assert not any(scores[len(ids) :])
        ids.append(token)


@pytest.mark.parametrize("family", ["xlnet", "bert"])
@pytest.mark.parametrize("method", ["occlusion", "integrated_gradients", "attcat"])
def test_alone_and_in_a_list(family: str, method: str) -> None:
    model = Model(make_model(family, task="causal_lm", dtype=torch.float64))
    alone = model.explain(PROMPT, method, OUTPUT, check=False)
    listed = model.explain([f"{PROMPT} very bad", PROMPT], method, OUTPUT, check=False)[1]
    assert_close(listed.scores, alone.scores, tolerance=tolerance_of(model.text_model))
    assert_close(listed.probability, alone.probability, tolerance=tolerance_of(model.text_model))


def test_rows_of_a_causal_model() -> None:
    """Of a causal model one row gives what a row for each prefix gives."""
    model = make_model("gpt2", task="causal_lm", dtype=torch.float64)
    prompts = [model.encode(PROMPT), model.encode(f"{PROMPT} very")]
    tokens = tokens_of(model, prompts[0], OUTPUT)
    bound, rows = model, []
    for prompt in prompts:
        bound, longer = continued(model, prompt, tokens, [None, 9, None])
        rows.append(longer)
    assert type(bound.task) is Continuation
    by_prefix = replace(
        bound, task=ContinuationByPrefix(tokens=bound.task.tokens, versus=bound.task.versus, label=bound.task.label)
    )
    inputs = inputs_of(model.network, rows)
    assert_close(by_prefix.run(inputs), bound.run(inputs), tolerance=tolerance_of(model))
