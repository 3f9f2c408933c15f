"""The same search with methods as candidates, and what is told of the choice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import make_model, tiny
from tolerances import assert_sorted, tolerance_of
from toys import additive_model

import wherefrom
from wherefrom.api import Model
from wherefrom.core.comparison import printed
from wherefrom.errors import BadOption, UnknownName, WherefromError
from wherefrom.registry import all_methods, find_method, methods_in
from wherefrom.selection.best import candidates_of

REPRESENTATIVE = methods_in("candidates")

TEXT = "the film was not bad, but dull!"
PAIR = ("is the plot good ?", "a fine film . the acting was never dull")
FAMILIES = ["bert", "distilbert", "roberta", "deberta", "modernbert", "gpt2", "llama"]


@pytest.mark.parametrize("level", ["token", "word", "sentence"])
@pytest.mark.parametrize("metric", ["comprehensiveness", "sufficiency", "rft"])
def test_the_winner_is_the_best_of_a_comparison(metric: str, level: Any) -> None:
    """Every grade is what `compare` gives on its own; the winner and the runner-up are its first and second."""
    model = Model(tiny("bert", torch.float64))
    names = [name for name in REPRESENTATIVE if name != "optimus"]
    explanation = model.explain(TEXT, "best", metric=metric, candidates=names, level=level)
    (report,) = explanation.selection
    judges = [judge for judge in ("rft", "sufficiency", "faithfulness") if judge != metric]
    assert report["metrics"] == [metric, *judges]
    compared = model.compare(TEXT, methods=names, metrics=report["metrics"], level=level)
    values = {name: compared.grade(name, metric).value for name in names}
    sign = 1 if report["better"][0] == "higher" else -1
    ranked = list(report["grades"])  # the questions were put in other batches here, so neighbours may tie
    assert sorted(ranked) == sorted(names)
    assert_sorted(
        [sign * float(printed(values[name] or 0)) for name in ranked], tolerance=tolerance_of(model.text_model)
    )
    assert [report["chosen"], report["runner_up"]] == ranked[:2]
    assert explanation.params["winner"] == ranked[0]
    for place, name in enumerate(ranked):
        expected = [values[name], *(compared.grade(name, judge).value if place < 2 else None for judge in judges)]
        assert report["grades"][name] == [None if one is None else pytest.approx(one, rel=1e-9) for one in expected]
    winner = model.explain(TEXT, ranked[0], level=level)
    assert explanation.scores == pytest.approx(winner.scores)
    assert explanation.signed == winner.signed
    assert explanation.gap == (None if winner.gap is None else pytest.approx(winner.gap))
    assert (
        explanation.layers
        == (None if winner.layers is None else tuple(pytest.approx(layer) for layer in winner.layers))
        or level != "token"
    )
    assert winner.notes == explanation.notes[1:]
    assert wherefrom.Explanation.from_json(explanation.to_json()) == explanation


@pytest.mark.parametrize("family", FAMILIES)
def test_it_works_on_every_family(family: str) -> None:
    explanation = Model(tiny(family, torch.float64)).explain(TEXT, "best")
    assert explanation.selection[0]["candidates"] == len(REPRESENTATIVE)
    assert explanation.selection[0]["failed"] == {}


def test_representatives_come_from_every_family() -> None:
    families = {row.family for row in all_methods()} - {"selection", "floor", "toy"}
    assert {find_method(name).family for name in REPRESENTATIVE} == families
    everything = {choice.asked for choice in candidates_of("all")}
    assert everything == {row.name for row in all_methods()} - {"best", "random", "mask_lrp"}  # which is transatt


def test_candidates_have_options_and_may_come_twice() -> None:
    model = Model(tiny("bert", torch.float64))
    explanation = model.explain(TEXT, "best", candidates="alti, alti:norm=l2,saliency", judges="rft")
    assert set(explanation.selection[0]["grades"]) == {"alti", "alti:norm=l2", "saliency"}
    assert explanation.selection[0]["metrics"] == ["comprehensiveness", "rft"]


def test_of_equals_none_is_called_the_winner_and_the_cheapest_is_shown() -> None:
    model = Model(tiny("bert", torch.float64))
    explanation = model.explain("film", "best", candidates="saliency,alti,norms")  # one token: all rank it alike
    assert explanation.params["winner"] == "alti"  # needs no backward pass, as norms, which comes later
    assert list(explanation.selection[0]["equals"]) == ["saliency", "norms"]
    assert "alti, saliency and norms are equally good (" in explanation.notes[0]
    assert explanation.notes[0].endswith("among 3; shown: alti, the cheapest.")
    alone = model.explain("film", "best", candidates="alti")
    assert alone.selection[0]["runner_up"] is None
    assert "runner-up" not in alone.notes[0]


def test_the_right_explanation_wins() -> None:
    """The score is the sum of known weights: occlusion finds them, random scores do not."""
    model = Model(additive_model(good=2.0, bad=-3.0, film=0.5, plot=4.0))
    explanation = model.explain(
        "good bad film plot", "best", target=1, candidates="random,occlusion", metric="rft", judges="monotonicity"
    )
    assert explanation.params["winner"] == "occlusion"
    assert [unit.score for unit in explanation.units()] == pytest.approx([2.0, -3.0, 0.5, 4.0])


def test_candidates_that_cannot_explain_are_left_out_and_named() -> None:
    model = Model(additive_model(good=2.0, film=0.5))  # a family that is not known
    explanation = model.explain("good film", "best")
    (report,) = explanation.selection
    assert set(report["grades"]) == {"integrated_gradients", "occlusion"}
    assert set(report["failed"]) == set(REPRESENTATIVE) - set(report["grades"])
    with pytest.raises(WherefromError, match=r"No candidate could explain this text\. alti: "):
        model.explain("good film", "best", candidates="alti")


def test_an_answer_has_one_winner_for_both_ends() -> None:
    model = Model(make_model("bert", task="question_answering", dtype=torch.float64))
    names = ["attcat", "alti", "occlusion"]
    explanation = model.explain(PAIR, "best", candidates=names)
    (report,) = explanation.selection
    compared = model.compare(PAIR, methods=names, metrics="comprehensiveness")
    assert report["chosen"] == compared.best("comprehensiveness").method
    assert explanation.scores == pytest.approx(model.explain(PAIR, report["chosen"]).scores)
    assert report["score"] == pytest.approx(compared.grade(report["chosen"], "comprehensiveness").value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": "best,alti"}, "no candidate itself"),
        ({"candidates": "altii"}, "Did you mean 'alti'"),
        ({"candidates": " , "}, "Name at least one of the candidates"),
        ({"candidates": 3}, "candidates are given by their names"),
        ({"metric": "auprc"}, "does not hide words"),
        ({"metric": "rft", "judges": "rft"}, "graded by another metric"),
        ({"judges": "rftt"}, "Did you mean 'rft'"),
        ({"candidates": "alti:norm=l9"}, "norm = "),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises((BadOption, UnknownName), match=message):
        Model(tiny("bert")).explain(TEXT, "best", **options)


def test_comparing_all_leaves_the_choice_itself_out() -> None:
    compared = Model(tiny("bert")).compare("a dull film", methods="all", metrics="rft")
    assert "best" not in compared.names
    assert "optimus" in compared.names
