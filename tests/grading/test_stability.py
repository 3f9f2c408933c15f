"""Stability measured on models: what is compared with what, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_models import make_model
from toys import additive_model

from wherefrom.api import Model
from wherefrom.grading.evidence import Evidence
from wherefrom.metrics.spearman import spearman

TEXT = "the film was good, bad and dull"


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(make_model("bert", labels=2))


def test_the_value_is_that_of_single_explanations(model: Model) -> None:
    """Every edit is explained by itself, and the same words are looked up by hand."""
    found = model.compare(TEXT, ["input_x_gradient", "occlusion"], ["stability"])
    for one, (grade,) in zip(found.explanations, found.grades, strict=True):
        scores = dict(zip(one.tokens, one.scores, strict=True))
        values = {}
        for name, edited in (
            ("full_stop", TEXT + "."),
            ("without_commas", "the film was good bad and dull"),
            ("list_order", "the film was dull, bad and good"),
        ):
            other = model.explain(edited, one.method)
            if other.prediction != one.prediction:
                continue
            again = dict(zip(other.tokens, other.scores, strict=True))
            both = [token for token in scores if token in again and not token.startswith("[")]
            values[name] = spearman(np.array([scores[t] for t in both]), np.array([again[t] for t in both]))
        assert values
        assert grade.details["edits"] == pytest.approx(values, abs=1e-6)
        assert grade.value == pytest.approx(float(np.mean(list(values.values()))), abs=1e-6)


def test_an_explanation_that_is_there_already(model: Model) -> None:
    one = model.explain(TEXT, "input_x_gradient")
    (again,) = model.evaluate(one, metrics=["stability"]).grades
    (compared,) = model.compare(TEXT, ["input_x_gradient"], ["stability"]).grades
    assert again[0].value == pytest.approx(compared[0].value, abs=1e-6)


def test_words_and_pairs() -> None:
    """Each word adds the same in every text, so nothing moves; both texts of a pair are edited."""
    model = Model(additive_model(good=2.0, film=1.0, plot=0.5))
    found = model.compare((TEXT, "a plot"), ["input_x_gradient"], ["stability"], level="word")
    grade = found.grades[0][0]
    assert grade.value == pytest.approx(1.0)
    assert set(grade.details["edits"]) == {"full_stop", "without_commas", "list_order"}


def test_what_is_left_out_is_said() -> None:
    # Without its last word the sum is negative: a comma is worth as much as everything else.
    model = Model(additive_model(good=2.0, film=1.0, **{",": -4.0}))
    grade = model.compare("good , film", ["input_x_gradient"], ["stability"]).grades[0][0]
    assert "without_commas" not in grade.details.get("edits", {})  # there the model decides otherwise
    units = model.compare("good film", ["input_x_gradient"], ["stability"], units=[(0, 4), (5, 9)]).grades[0][0]
    assert units.value is None
    assert "units of your own" in units.why


def test_an_edit_that_flips_the_decision_leaves_the_others() -> None:
    """A full stop is the first edit, and outweighs everything else; the edits after it count."""
    model = Model(additive_model(good=2.0, film=1.0, **{".": -9.0}))
    grade = model.compare(TEXT, ["input_x_gradient"], ["stability"]).grades[0][0]
    assert list(grade.details["edits"]) == ["without_commas", "list_order"]


def test_all_metrics_do_not_include_it(model: Model) -> None:
    found = model.compare(TEXT, ["random"], "all")
    assert "stability" not in {grade.metric for grade in found.grades[0]}


def test_evidence_without_edits() -> None:
    assert Evidence(np.zeros(2), np.zeros(2, dtype=np.bool_)).edits == ()
