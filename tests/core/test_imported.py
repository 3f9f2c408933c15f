"""Scores of other tools as explanations: by hand, and with the classes of the packages that give them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wherefrom
from wherefrom.core.explanation import Explanation, Unit
from wherefrom.errors import BadOption, UnknownName
from wherefrom.report.effect import effect_of
from wherefrom.report.paper import caption

TEXT = "A fine, witty film."


def test_scores_by_tokens_words_and_offsets() -> None:
    tokens = ["[CLS]", "a", "fine", ",", "wit", "##ty", "film", ".", "[SEP]"]
    e = Explanation.from_scores(TEXT, [9, 0, 2, -1, 3, 4, 1, 0, 9], tokens=tokens, target="POSITIVE")
    assert [unit.text for unit in e.units()] == ["A", "fine", ",", "wit", "ty", "film", "."]  # as written
    assert e.words()[3] == Unit("witty", 7.0, 8, 13, 0)
    assert (e.signed, e.method, e.probability, e.level) == (True, "imported", None, "token")
    by_word = Explanation.from_scores(TEXT, np.array([0.5, 1, 2]), words=["fine,", "witty", "film."], method="mine")
    assert by_word.units()[0] == Unit("fine,", 0.5, 2, 7, 0)
    assert (by_word.signed, by_word.level) == (False, "word")
    pair = Explanation.from_scores(("Is it?", TEXT), [1, 2], offsets=[(0, 2), (2, 6, 1)])
    assert [unit.segment for unit in pair.units()] == [0, 1]
    assert pair.units()[1].text == "fine"


def test_what_is_not_known_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    e = Explanation.from_scores(TEXT, [1, 2], words=["fine", "film"], target="POSITIVE", method="mine")
    e.show(theme="none")
    shown = capsys.readouterr().out
    assert "mine explains POSITIVE" in shown
    assert "%" not in shown
    assert "%)" not in caption(e)
    assert effect_of(e) is None
    assert '<span class="chance"></span>' in e.to_html()


def test_saving_keeps_everything(tmp_path: Path) -> None:
    e = Explanation.from_scores(TEXT, [1, 2.5], words=["fine", "film"], params={"n": 3}, probability=0.5)
    e.save(tmp_path / "e.json")
    assert Explanation.load(tmp_path / "e.json") == e


def test_a_text_that_goes_on_is_noted() -> None:
    e = Explanation.from_scores(TEXT, [1, 2], tokens=["a", "fine"])
    assert e.notes == ("The scores are of the first 6 characters only; the text has 19.",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [1]}, "one of tokens="),
        ({"scores": [1], "tokens": ["a"], "words": ["a"]}, "not tokens and words"),
        ({"scores": [1, 2], "tokens": ["a"]}, "2 scores for 1 tokens"),
        ({"scores": [[1, 2]], "tokens": ["a"]}, "one number for each"),
        ({"scores": [float("nan")], "tokens": ["a"]}, "Score number 0 is nan"),
        ({"scores": [1], "offsets": [(0, 99)]}, "not in the text"),
        ({"scores": [1], "tokens": ["dull"]}, "number 0 .'dull'"),
        ({"scores": [1], "words": ["dull"]}, "number 0 .'dull'"),
        ({"scores": [1, 2], "words": ["film", "fine"]}, "number 1 .'fine'"),
        ({"scores": [1], "tokens": [3]}, "list of str"),
        ({"text": " ", "scores": [1], "tokens": ["a"]}, "not empty"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        Explanation.from_scores(**({"text": TEXT} | arguments))


NUMBER = st.floats(-10, 10).map(lambda number: round(number, 6))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_no_score_is_lost(data: st.DataObject) -> None:
    """Whatever pieces a text is cut into, its words have the sum of their scores, and all together the total."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(TEXT) - 1))))
    edges = [0, *cuts, len(TEXT)]
    offsets = list(pairwise(edges))
    scores = [data.draw(NUMBER) for _ in offsets]
    e = Explanation.from_scores(TEXT, scores, offsets=offsets)
    assert sum(e.at("word").scores) == pytest.approx(sum(scores))
    again = Explanation.from_scores(TEXT, e.scores, tokens=[TEXT[a:b] for a, b in offsets])
    visible = [place for place, (a, b) in enumerate(offsets) if TEXT[a:b].strip()]
    stripped = [(a + len(t) - len(t.lstrip()), b - len(t) + len(t.rstrip())) for a, b in offsets for t in [TEXT[a:b]]]
    assert [again.offsets[place] for place in visible] == [stripped[place] for place in visible]


class TestShap:
    """As `shap.Explanation` has its fields."""

    def values(self, numbers: Any, names: Any, base: Any) -> Any:
        data = ("", "A ", "fine ", "film.", "")
        return SimpleNamespace(values=np.array(numbers), data=data, output_names=names, base_values=base)

    def test_one_output(self) -> None:
        e = Explanation.from_shap(self.values([0, 1, 2, -3, 0], None, 0.5), target="POSITIVE")
        assert e.text == "A fine film."
        assert [(unit.text, unit.score, unit.start) for unit in e.units()] == [
            ("A", 1, 0),
            ("fine", 2, 2),
            ("film.", -3, 7),
        ]
        assert (e.method, e.target, e.special) == ("shap", "POSITIVE", (True, False, False, False, True))

    def test_of_several_outputs_the_largest(self) -> None:
        both = self.values([[0, 0], [1, -1], [2, -2], [0, 0], [0, 0]], ["NEGATIVE", "POSITIVE"], np.array([0.0, 7.0]))
        assert Explanation.from_shap(both).target == "POSITIVE"
        assert Explanation.from_shap(both, target="NEGATIVE").scores == (0, 1, 2, 0, 0)
        assert Explanation.from_shap(both, target=0).target == "NEGATIVE"
        with pytest.raises(UnknownName, match="POSITIVE"):
            Explanation.from_shap(both, target="POSITIV")
        with pytest.raises(BadOption, match="no output 2"):
            Explanation.from_shap(both, target=2)

    def test_several_texts_are_an_error(self) -> None:
        with pytest.raises(BadOption, match="one text"):
            Explanation.from_shap(self.values(np.zeros((2, 5, 2)), None, 0))
        with pytest.raises(BadOption, match="one text"):
            Explanation.from_shap([1, 2])


class TestCaptum:
    def test_a_tensor_of_a_real_attribution(self) -> None:
        """Layer integrated gradients of the embedded model's embeddings, graded beside ours."""
        attr = pytest.importorskip("captum.attr")
        model = wherefrom.load("embedded")
        network, reader = model.text_model.network.module, model.text_model.reading.tokenizer
        read = reader(TEXT, return_tensors="pt")

        def forward(ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = network(input_ids=ids).logits
            return logits

        tool = attr.LayerIntegratedGradients(forward, network.get_input_embeddings())
        found = tool.attribute(read["input_ids"], n_steps=8, target=1)
        tokens = reader.convert_ids_to_tokens(read["input_ids"][0])
        e = Explanation.from_captum(found, text=TEXT, tokens=tokens, target=model.labels[1], method="captum_ig")
        assert e.scores == pytest.approx(found[0].sum(-1).tolist())
        ours = model.explain(TEXT, "saliency", target=model.labels[1])
        assert (e.offsets, e.segment, e.word_of) == (ours.offsets, ours.segment, ours.word_of)
        graded = model.evaluate([e, ours], "comprehensiveness")
        assert graded.explanations[0].probability == pytest.approx(ours.probability)
        assert graded.explanations[0].scores == e.scores

    def test_the_result_of_a_language_model(self) -> None:
        attr = pytest.importorskip("captum.attr")
        result = attr.LLMAttributionResult(
            input_tokens=["Ġthe", "Ġfilm", "Ġwas"],
            output_tokens=["Ġvery", "Ġfine"],
            seq_attr=torch.tensor([1.0, 2.0, -1.0]),
            token_attr=torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, -1.0]]),
        )
        e = Explanation.from_captum(result)
        assert (e.text, e.target, e.scores) == ("the film was", "very fine", (1.0, 2.0, -1.0))
        first = Explanation.from_captum(result, text="The film was", step=0)
        assert (first.text, first.target, first.scores) == ("The film was", "very", (1.0, 0.0, 0.0))
        with pytest.raises(BadOption, match="no output token 2"):
            Explanation.from_captum(result, step=2)
        with pytest.raises(BadOption, match="need text="):
            Explanation.from_captum(torch.ones(3))


class TestInseq:
    """As its outputs have their fields."""

    def output(self, *, source: bool) -> Any:
        def unit(token: str) -> Any:
            return SimpleNamespace(token=token, id=0)

        prompt, written = [unit("Ġthe"), unit("Ġfilm")], [unit("Ġis"), unit("Ġfine")]
        matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        nan = torch.tensor([[torch.nan, 9.0], [torch.nan, torch.nan]])
        fields = {
            "source": prompt if source else [],
            "target": written if source else [*prompt, *written],
            "source_attributions": matrix if source else None,
            "target_attributions": nan if source else torch.cat([matrix, nan]),
            "attr_pos_start": 0 if source else 2,
            "attr_pos_end": None,
        }
        info = {"attribution_method": "saliency", "input_texts": ["the film"]}
        return SimpleNamespace(sequence_attributions=[SimpleNamespace(**fields)], info=info)

    @pytest.mark.parametrize("source", [True, False])
    def test_both_kinds_of_models(self, source: bool) -> None:
        e = Explanation.from_inseq(self.output(source=source))
        assert (e.text, e.target, e.method, e.scores) == ("the film", "is fine", "saliency", (3.0, 7.0))
        second = Explanation.from_inseq(self.output(source=source), step=1)
        assert (second.target, second.scores) == ("fine", (2.0, 4.0))
        with pytest.raises(BadOption, match="has 1 texts"):
            Explanation.from_inseq(self.output(source=source), number=1)
