"""What people ask for first: frames and bar charts, lists of names, other kinds of input, units chosen by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model
from toys import case_of

import wherefrom
from wherefrom.api import Model
from wherefrom.errors import BadOption, UnknownName, WherefromError

TEXT = "the film was not bad, but dull!"


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(make_model("bert", dtype=torch.float64))


def test_a_frame_has_a_row_for_every_unit(model: Model) -> None:
    e = model.explain(TEXT, "saliency")
    frame = e.to_pandas()
    assert list(frame.columns) == ["text", "score", "start", "end", "segment", "special"]
    assert frame["score"].tolist() == list(e.scores)
    assert frame["special"].tolist() == list(e.special)
    assert frame.attrs == {"target": e.target, "probability": e.probability, "method": "saliency"}
    words = e.at("word").to_pandas(special=False)
    assert words["text"].tolist() == ["the", "film", "was", "not", "bad", ",", "but", "dull", "!"]
    assert [TEXT[start:end] for start, end in zip(words["start"], words["end"], strict=True)] == words["text"].tolist()


def test_a_bar_for_every_unit_in_the_order_of_the_text(model: Model) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    e = model.explain(TEXT, "attcat", level="word")
    axes: Any = e.plot()
    assert [one.get_text() for one in axes.get_yticklabels()] == [unit.text for unit in e.units()]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([unit.score for unit in e.units()])
    hatched = [bool(bar.get_hatch()) for bar in axes.patches]
    assert hatched == [unit.score < 0 for unit in e.units()]
    given = pyplot.figure().add_subplot()
    assert e.plot(given, count=2) is given
    heaviest = sorted(e.top(2), key=lambda unit: unit.start)
    assert [one.get_text() for one in given.get_yticklabels()] == [unit.text for unit in heaviest]
    pyplot.close("all")


def test_lists_of_names() -> None:
    assert {"attcat", "saliency", "best"} <= set(wherefrom.list_methods())
    assert set(wherefrom.list_methods("perturbation")) >= {"kernel_shap", "lime", "occlusion"}
    assert "saliency" not in wherefrom.list_methods("perturbation")
    assert "aopc" in wherefrom.list_metrics("erasure")
    assert set(wherefrom.list_metrics("erasure")) < set(wherefrom.list_metrics())
    with pytest.raises(UnknownName, match=r"No family of methods is called 'gradients'\. Did you mean 'gradient'"):
        wherefrom.list_methods("gradients")


def test_lists_of_names_load_no_torch() -> None:
    program = (
        "import sys, wherefrom; wherefrom.list_methods(); wherefrom.list_metrics(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_texts_come_in_lists_generators_and_columns(model: Model) -> None:
    pandas = pytest.importorskip("pandas")
    texts = [TEXT, "a fine film"]
    expected = model.explain(texts, "saliency")

    def one_by_one() -> Iterator[str]:
        yield from texts

    given: list[Any] = [one_by_one(), iter(texts), pandas.Series(texts, index=[7, 3]), np.array(texts)]
    for several in given:
        found = model.explain(several, "saliency")
        assert [(one.text, one.scores) for one in found] == [(one.text, one.scores) for one in expected]
    pairs = [("is it good?", "not bad"), ("what?", "a plot")]
    asked = model.explain(pairs, "saliency")
    assert [(one.text, one.pair) for one in asked] == pairs
    as_lists: Any = [list(pair) for pair in pairs]  # as JSON has them
    assert [one.scores for one in model.explain(as_lists, "saliency")] == [one.scores for one in asked]
    assert model.explain(iter(()), "saliency") == []


@pytest.mark.parametrize("given", [{"text": "a"}, {"a"}, b"a film", 3, None])
def test_what_is_no_text_is_refused(model: Model, given: Any) -> None:
    with pytest.raises(BadOption, match="A text is a str"):
        model.explain(given)


def test_a_table_is_explained_by_its_column_of_texts(model: Model) -> None:
    pandas = pytest.importorskip("pandas")
    (explained,) = model.explain(pandas.DataFrame({"text": [TEXT]}), "saliency")
    assert explained.scores == model.explain(TEXT, "saliency").scores
    with pytest.raises(BadOption, match="not float"):
        model.explain(pandas.Series([TEXT, float("nan")]))


def test_chosen_units_are_hidden_as_wholes(model: Model) -> None:
    """Occlusion by hand: each unit's tokens masked together, the words outside of any span one by one."""
    e = model.explain(TEXT, "occlusion", units=[(13, 20), (0, 8)])
    assert [unit.text for unit in e.units()] == ["the film", "was", "not bad", ",", "but", "dull", "!"]
    assert e.level == "span"
    case = case_of(model.text_model, TEXT)
    for unit in e.units():
        keep = torch.tensor(
            [
                segment < 0 or not unit.start <= start < unit.end
                for (start, _), segment in zip(case.encoding.offsets, case.encoding.segment, strict=True)
            ]
        )
        whole = case.ask(torch.ones_like(keep)[None], "mask")
        assert unit.score == pytest.approx((whole - case.ask(keep[None], "mask")).item(), rel=1e-9, abs=1e-12)


def test_scores_of_tokens_are_added_up_in_chosen_units(model: Model) -> None:
    tokens = model.explain(TEXT, "saliency")
    e = model.explain(TEXT, "saliency", units=[(0, 8)])
    (whole,) = [unit.score for unit in e.units() if unit.text == "the film"]
    assert whole == pytest.approx(sum(unit.score for unit in tokens.units() if unit.end <= 8))


def test_chosen_units_in_a_pair_in_a_comparison_and_graded_again(model: Model) -> None:
    pair = ("is it good?", "the film was not bad")
    units: Any = [(0, 5), (13, 20, 1)]
    found = model.compare(pair, ["occlusion", "random"], ["comprehensiveness"], units=units)
    shown = [unit.text for unit in found.explanations[0].units()]
    assert shown == ["is it", "good", "?", "the", "film", "was", "not bad"]
    again = model.evaluate(found.explanations, ["comprehensiveness"])
    assert [row[0].value for row in again.grades] == pytest.approx([row[0].value for row in found.grades])


def test_the_rest_of_a_word_is_a_unit(model: Model) -> None:
    """A word of several tokens, a span in the middle of it."""
    encoding = model.text_model.encode("xyz film").with_spans([(1, 2)])
    groups = [[encoding.tokens[i] for i in group] for group in encoding.members("span")]
    assert groups == [["[CLS]"], ["x"], ["##y"], ["##z"], ["film"], ["[SEP]"]]


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([(0, 99)], "lies outside"),
        ([(5, 5)], "lies outside"),
        ([(0, 8), (4, 12)], "share characters"),
        ([(0, 3, 1)], "second text, and there is none"),
        ([(0, 3, 2)], "of its pair"),
        (["the"], "in characters"),
        ([(1, 3)], "No token .* begins within"),
    ],
)
def test_units_that_cannot_be(model: Model, units: Any, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        model.explain(TEXT, "saliency", units=units)


def test_units_or_a_level_not_both(model: Model) -> None:
    with pytest.raises(BadOption, match="either units or level"):
        model.explain(TEXT, level="word", units=[(0, 3)])
    with pytest.raises(BadOption, match="one text at a time"):
        model.explain([TEXT], units=[(0, 3)])
    with pytest.raises(WherefromError, match="by span already"):
        model.explain(TEXT, units=[(0, 3)]).at("word")
