from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lively import case_of, lively, lively_case, spelled_out
from report.sentences import film
from scipy.stats import spearmanr
from tiny_models import make_model

from wherefrom.api import Model
from wherefrom.errors import BadFile, WherefromError, WrongModel
from wherefrom.metrics.jaccard_25 import jaccard
from wherefrom.metrics.spearman import spearman
from wherefrom_studies.data import read_rows
from wherefrom_studies.decomposition import anisotropy, robustness
from wherefrom_studies.subject_verb_agreement import Sentence, explain


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_anisotropy_is_the_mean_cosine_of_all_pairs(family: str) -> None:
    case = lively_case(family)
    found = anisotropy([case])
    for layer, (parts, y) in enumerate(spelled_out(case, False)):

        def cosines(vectors: torch.Tensor) -> list[float]:
            kept = [v for v in vectors if v.norm() > 0]
            return [torch.cosine_similarity(kept[a], kept[b], dim=0).item() for a in range(len(kept)) for b in range(a)]

        assert found.outputs[layer] == pytest.approx(np.mean(cosines(y)), abs=1e-9)
        assert found.parts[layer] == pytest.approx(
            np.mean([np.mean(one) for row in parts if (one := cosines(row))]), abs=1e-9
        )


def test_jaccard_by_hand() -> None:
    a = np.array([5.0, 4.0, 3.0, 2.0, 1.0])  # a quarter of five are two
    assert jaccard(a, a) == 1
    assert jaccard(a, -a) == 0
    assert jaccard(a, np.array([5.0, 1.0, 4.0, 0.0, 0.0])) == pytest.approx(1 / 3)


def test_spearman_is_that_of_scipy_also_with_ties() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        a, b = generator.integers(0, 4, size=(2, 12)).astype(float)
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))


def test_robustness_leaves_out_texts_on_which_models_disagree() -> None:
    one, other = film(ends=9.0), film(ends=-9.0)  # A 0, fine 2, film -1, full stop 0.5; the ends do not count
    turned = replace(one, scores=tuple(-score for score in one.scores))
    doubted = replace(one, prediction="negative")
    found = robustness([[one, one, one], [other, doubted, other], [turned, one, one]])
    assert (found.texts, found.left_out) == (2, 1)
    assert found.jaccard.tolist() == [[1, 1], [0, 1], [0, 1]]  # models 0 and 1, 0 and 2, 1 and 2
    assert found.spearman == pytest.approx(np.array([[1, 1], [-1, 1], [-1, 1]]))
    with pytest.raises(WherefromError, match="two or more"):
        robustness([[one]])
    with pytest.raises(WherefromError, match="same texts"):
        robustness([[one], [replace(one, text="B")]])


ROW = {"text": "the films of his era is dull .", "label": "is", "foil": "are", "verb_span": [21, 23], "n_attractors": 1}


def test_agreement_sentences_are_read_and_masked(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    (sentence,) = read_rows(tmp_path / "data.jsonl", Sentence.of, "a sentence")
    assert sentence == Sentence("the films of his era is dull .", "is", "are", 21, 23, 1)
    assert sentence.masked("[MASK]") == "the films of his era [MASK] dull ."
    for bad in ("{}", "[", json.dumps(ROW | {"verb_span": [0, 3]})):
        (tmp_path / "data.jsonl").write_text(bad, encoding="utf-8")
        with pytest.raises(BadFile, match="line 1"):
            read_rows(tmp_path / "data.jsonl", Sentence.of, "a sentence")


def test_agreement_is_explained_from_the_mask() -> None:
    sentence = Sentence("The film is dull.", "is", "was", 9, 11)
    model = make_model("bert", task="masked_lm", dtype=torch.float64)
    explanation = explain(Model(model), sentence, "alti")
    assert explanation.target == "is rather than was"
    assert explanation.tokens[3] == "[MASK]"
    assert explanation.special[3]
    case = case_of(model, "The film [MASK] dull.")
    flow = torch.eye(len(case.encoding)).double()
    for parts in case.parts():
        near = parts.proximity(parts.everywhere, "l1")
        flow = near / near.sum(-1, keepdim=True) @ flow
    torch.testing.assert_close(torch.tensor(explanation.scores, dtype=torch.float64), flow[3])
    with pytest.raises(WrongModel, match="masked language model"):
        explain(Model(lively("bert")), sentence)
