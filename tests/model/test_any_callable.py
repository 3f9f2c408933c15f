"""A function of texts is asked with words hidden, and nothing else: against the function itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tokenizer

import wherefrom
from wherefrom.errors import BadOption, EmptyText, ModelFailed, NotSeen, UnknownName, WrongModel
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount

WEIGHTS = {"good": 2.0, "bad": -3.0, "film": 0.5, "[MASK]": 0.25}
TEXT = "a good film, not bad"


def value(text: str) -> float:
    return sum(WEIGHTS.get(word.strip(",."), 0.0) for word in text.split())


def scores(texts: Sequence[str]) -> list[list[float]]:
    return [[0.0, value(text)] for text in texts]


def chances(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    yes = np.array([1 / (1 + math.exp(-value(text))) for text in texts])
    return np.stack([1 - yes, yes], -1)


def alike(pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
    """How many words two texts share: one column."""
    return torch.tensor([float(len(set(one.split()) & set(two.split()))) for one, two in pairs])


@pytest.fixture(scope="module")
def scorer() -> wherefrom.Model:
    return wherefrom.load(scores, labels=["no", "yes"])


def test_occlusion_is_what_the_function_says(scorer: wherefrom.Model) -> None:
    found = scorer.explain(TEXT, "occlusion", "yes", fill="delete")
    assert found.tokens == ("a", "good", "film", ",", "not", "bad")
    assert found.scores == pytest.approx([0, 2, 0.5, 0, 0, -3])
    masked = scorer.explain(TEXT, "occlusion", "yes")  # the fill token's text stands for each
    assert masked.scores == pytest.approx([-0.25, 1.75, 0.25, 0.5, -0.25, -3.25])  # "film[MASK]" is no word of it


def test_shapley_values_by_brute_force(scorer: wherefrom.Model) -> None:
    """Of a function in which words depend on each other, every coalition asked by hand."""

    def depends(texts: Sequence[str]) -> list[list[float]]:
        return [[0.0, value(text) * (-1.0 if "not" in text.split() else 1.0)] for text in texts]

    model, written = wherefrom.load(depends), TEXT.replace(",", "").split()
    found = model.explain(" ".join(written), "kernel_shap", 1, fill="delete")
    n = len(written)
    for place in range(n):
        others, total = [i for i in range(n) if i != place], 0.0
        for size in range(n):
            for kept in combinations(others, size):
                both = [depends([" ".join(written[i] for i in sorted(own))])[0][1] for own in ((*kept, place), kept)]
                total += (both[0] - both[1]) / (n * math.comb(n - 1, size))
        assert found.scores[place] == pytest.approx(total, abs=1e-6)


def test_probabilities_come_back_as_they_were_given() -> None:
    model = wherefrom.load(chances)
    found = model.explain(TEXT, "occlusion", "LABEL_1", fill="delete")
    chance = float(chances([TEXT])[0, 1])
    assert found.probability == pytest.approx(chance)
    without = float(chances(["a film, not bad"])[0, 1])
    assert found.scores[1] == pytest.approx(math.log(chance) - math.log(without))


def test_a_pair_is_asked_as_a_pair_and_one_column_is_a_value() -> None:
    model = wherefrom.load(alike)
    found = model.explain(("a good film", "the good film"), "occlusion", fill="delete")
    assert (found.value, found.probability) == (2.0, None)
    assert dict(zip(found.tokens, found.scores, strict=True))["the"] == 0
    assert found.scores == pytest.approx([0, 1, 1, 0, 0, 1, 1])  # the fourth stands between the texts
    comparison = model.compare(("a good film", "the good film"), "occlusion,random", "comprehensiveness")
    assert comparison.grades[0][0].value is not None


def test_with_a_tokenizer_its_tokens_are_the_units() -> None:
    seen: list[str] = []

    def noted(texts: list[str]) -> list[list[float]]:
        seen.extend(texts)
        return scores(texts)

    model = wherefrom.load(noted, tokenizer())
    found = model.explain("a  good film!", "occlusion", 1, fill="delete")
    assert found.tokens == ("a", "good", "film", "!")
    assert {"a  good film!", "good film!", "a film!", "a  good!", "a  good film"} <= set(seen)
    seen.clear()
    model.explain("a  good film!", "occlusion", 1)
    mask = tokenizer().mask_token
    assert {f"{mask}  good film!", f"a {mask} film!", f"a  good {mask}!", f"a  good film{mask}"} <= set(seen)


def test_blanks_of_two_texts_are_not_mixed_up(scorer: wherefrom.Model) -> None:
    """Both have three words and one fill for each; what is asked differs by a blank."""
    seen: list[str] = []

    def noted(texts: list[str]) -> list[list[float]]:
        seen.extend(texts)
        return scores(texts)

    text_model = wherefrom.load(noted).text_model
    from wherefrom.case.asking import Asker

    asker = Asker(text_model)
    for text in ("one two three", "one two."):
        asker.note(text_model.encode(text), np.zeros((1, 3), dtype=np.bool_), "mask")
    seen.clear()
    asker.run()
    assert sorted(seen) == ["[MASK] [MASK] [MASK]", "[MASK] [MASK][MASK]"]


def test_everything_that_only_asks_works(scorer: wherefrom.Model, tmp_path: Path) -> None:
    for method in ("occlusion", "kernel_shap", "lime", "random"):
        found = scorer.explain(TEXT, method, check=True)
        assert found.check is not None
        found.to_html()
    assert scorer.explain(TEXT).method == "occlusion"  # what is taken where none is named
    assert scorer.explain([TEXT, "bad"], "occlusion", level="sentence")[1].prediction == "no"
    flip = scorer.flip(TEXT)
    assert (flip.decision, flip.becomes) == ("no", "yes")
    assert [unit.text for unit in flip.hidden] == ["bad"]
    grades = scorer.evaluate(scorer.explain(TEXT, "occlusion"), ["comprehensiveness", "monotonicity"])
    assert len(grades.grades[0]) == 2
    comparison = scorer.compare(TEXT, "default", "default")
    assert {"occlusion", "random"} <= set(comparison.names)
    assert "only answers" in comparison.failed["attcat"]


@pytest.mark.parametrize("method", ["attcat", "saliency", "integrated_gradients", "attn_lrp", "alti", "raw_attention"])
def test_whoever_looks_inside_refuses_in_one_sentence(scorer: wherefrom.Model, method: str) -> None:
    with pytest.raises(NotSeen, match=f"^{method} looks inside the model, and scores only answers queries"):
        scorer.explain(TEXT, method)


def test_a_run(tmp_path: Path) -> None:
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run

    path = tmp_path / "films.txt"
    path.write_text("a good film\na bad film\n", encoding="utf-8")
    plan = RunPlan(str(path), model=wherefrom.load(scores), methods="occlusion,random", metrics="comprehensiveness")
    found = run(plan, tmp_path / "run")
    assert found.errors.empty
    assert len(found.scores) == 4


def test_what_a_function_must_give() -> None:
    with pytest.raises(WrongModel, match=r"2 texts with 2 rows .* not with an array of shape \(1, 2\)"):
        wherefrom.load(lambda texts: [[0.5, 0.5]])
    with pytest.raises(WrongModel, match="cannot be read as numbers"):
        wherefrom.load(lambda texts: ["good"] * len(texts))
    with pytest.raises(WrongModel, match="raised on both: AttributeError"):
        wherefrom.load(lambda texts: texts.nothing)
    with pytest.raises(WrongModel, match=r"adds up to 0\.5"):
        wherefrom.load(lambda texts: [[0.25, 0.25]] * len(texts), outputs="probabilities").explain("a film")
    with pytest.raises(BadOption, match="2 columns, and 3 labels"):
        wherefrom.load(scores, labels=["a", "b", "c"])
    with pytest.raises(UnknownName, match="Did you mean 'logits'"):
        wherefrom.load(scores, outputs="logit")
    with pytest.raises(BadOption, match="no device"):
        wherefrom.load(scores, device="cpu")
    with pytest.raises(ModelFailed, match="NaN"):
        wherefrom.load(lambda texts: [[0.0, math.nan if "film" in text else 1.0] for text in texts]).explain("a film")
    with pytest.raises(EmptyText):
        wherefrom.load(scores).explain("  ")


def test_kinds_of_outputs() -> None:
    both = wherefrom.load(lambda texts: [[0.9, 0.8]] * len(texts), outputs="independent").explain("a film", "random")
    assert both.probabilities == pytest.approx({"LABEL_0": 0.9, "LABEL_1": 0.8})
    sure = wherefrom.load(lambda texts: [[0.0, 1.0]] * len(texts)).explain("a film", "occlusion")
    assert all(map(math.isfinite, sure.scores))

    class Fitted:
        classes_ = ("neg", "pos")

        def predict_proba(self, texts: list[str]) -> Any:
            return chances(texts)

    assert wherefrom.load(Fitted().predict_proba).labels == ["neg", "pos"]
    model = wherefrom.load(scores).text_model
    encoding = model.encode(" a good  film ", None)
    count = PassCount()
    assert model.run(inputs_of(model.network, [encoding]), count).tolist() == [[0.0, 2.5]]
    assert count.forwards == 1
