"""A model whose source is known in every case: methods find it, and no other answer is grounded."""

from __future__ import annotations

import random

import pytest

from sources.planted import KINDS, copying_model, question

QUESTIONS = 24


@pytest.mark.parametrize("method", ["leave_one_out", "kernel_shap", "hierarchical", "context_cite"])
def test_the_planted_source_comes_first(method: str) -> None:
    model, draw = copying_model(), random.Random(7)
    for _ in range(QUESTIONS):
        sentences, asked, answer, gold = question(draw, 4)
        r = model.sources(asked, " ".join(sentences), tokens=1, method=method)
        assert r.answer.strip() == answer
        (statement,) = r.statements
        assert statement.top(1)[0].number == gold
        assert statement.grounding.grounded
        assert statement.test is not None
        assert statement.test.sources[0] == gold
        if len(statement.test.sources) == 1:
            assert statement.test.verdict == "supported"


def test_an_answer_that_the_passages_contradict_is_not_grounded() -> None:
    """They make another thing of the same kind less likely than a guess."""
    model, draw = copying_model(), random.Random(9)
    for _ in range(QUESTIONS):
        sentences, asked, answer, _ = question(draw, 4)
        kind = next(things for things in KINDS.values() if answer in things)
        wrong = draw.choice([thing for thing in kind if thing != answer])
        r = model.sources(asked, " ".join(sentences), wrong, regenerate=False)
        assert r.statements[0].grounding.drop < 0
        assert not r.statements[0].grounding.grounded


def test_passages_in_another_order_have_the_same_source() -> None:
    model, draw = copying_model(), random.Random(11)
    for _ in range(6):
        sentences, asked, _, gold = question(draw, 4)
        order = draw.sample(range(4), 4)
        r = model.sources(asked, [sentences[place] for place in order], tokens=1, regenerate=False)
        assert order[r.top(1)[0].document] == gold
