"""The method: what it says of its choice, what it does with targets of every kind, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model, tiny
from toys import case_of

import wherefrom
from wherefrom import optimus
from wherefrom.api import Model
from wherefrom.errors import BadFile, BadOption, EmptyText, NotDefined, UnknownName, WherefromError
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.model.text_model import TextModel
from wherefrom.optimus.combination import BASELINE, Combination, Fitted, combinations
from wherefrom.optimus.search import BITS, chosen, settled
from wherefrom.registry import all_metrics

FAMILIES = ["bert", "distilbert", "roberta", "deberta", "modernbert", "gpt2", "llama"]
TEXT = "the film was not bad, but dull!"
PAIR = ("is the plot good ?", "a fine film . the acting was never dull")
CHOOSERS = [row.name for row in all_metrics() if row.needs is None and hasattr(row.function, "questions")]


def bert() -> Model:
    return Model(tiny("bert", torch.float64))


@pytest.mark.parametrize("raw", ["A", "A*", "both"])
@pytest.mark.parametrize("level", ["token", "word", "sentence"])
def test_the_score_it_reports_is_the_grade_of_its_explanation(raw: Any, level: Any) -> None:
    """The search and the metric agree: whoever evaluates the explanation finds the score that chose it."""
    explanation = bert().explain(TEXT, "optimus", raw=raw, level=level)
    (selection,) = explanation.selection
    grade = bert().evaluate(explanation, metrics="rft").grades[0][0].value
    assert selection["score"] == pytest.approx(grade, rel=1e-9)
    one = Combination.read(selection["chosen"])
    assert one is not None
    assert explanation.params["winner"] == str(one)
    assert explanation.signed == (one.raw == "A*")
    again = bert().explain(TEXT, "optimus", level=level, combination=one)
    assert again.scores == pytest.approx(explanation.scores, rel=2.0 ** (1 - BITS))  # rounded to so many bits
    assert selection["chosen"] in explanation.notes[0]
    assert f"{selection['baseline_score']:.4g}" in explanation.notes[0]


@pytest.mark.parametrize("metric", CHOOSERS)
def test_any_faithfulness_metric_may_choose(metric: str) -> None:
    """The winner is at least as good by it as every other combination, each evaluated on its own."""
    model = bert()
    text = "a dull film!"
    explanation = model.explain(text, "optimus", metric=metric, all_scores=True)
    (selection,) = explanation.selection
    row = ConfiguredMetric.read(metric).choice.row
    table = selection["scores"]["A"]
    scores = [one for rows in table["scores"].values() for row_ in rows for one in row_ if one is not None]
    assert selection["score"] == (max if row.better == "higher" else min)(scores)
    assert model.evaluate(explanation, metrics=metric).grades[0][0].value == pytest.approx(selection["score"], rel=1e-9)
    for head, layer in (("mean", "mean"), (2, 1)):
        other = model.explain(text, "optimus", combination=Combination("A", head, layer, "to"))  # type: ignore[arg-type]
        expected = table["scores"]["to"][table["heads"].index(head)][table["layers"].index(layer)]
        assert model.evaluate(other, metrics=metric).grades[0][0].value == pytest.approx(expected, rel=1e-9)


def test_a_metric_keeps_its_options() -> None:
    sums, means = (
        bert().explain(TEXT, "optimus", metric=f"rft:normalise={flag}").selection[0]["score"] for flag in ("no", "yes")
    )
    assert sums == pytest.approx(9 * means)  # nine tokens
    masked = bert().explain(TEXT, "optimus", metric="rft:fill=mask").selection[0]["score"]
    assert masked != pytest.approx(means)


@pytest.mark.parametrize("metric", ["auprc", "entropy", "kendall_confidence"])
def test_metrics_that_do_not_ask_the_model_cannot_choose(metric: str) -> None:
    with pytest.raises(BadOption, match=r"does not hide words.*rft"):
        bert().explain(TEXT, "optimus", metric=metric)
    with pytest.raises(UnknownName, match="Did you mean 'rft'"):
        bert().explain(TEXT, "optimus", metric="rftt")


@pytest.mark.parametrize("family", FAMILIES)
def test_targets_of_every_kind(family: str) -> None:
    """One label of many, a pair, a difference; one recorded row and one for each token, whatever is searched."""
    model = Model(tiny(family, torch.float64))
    explanation = model.explain(TEXT, "optimus", target=1, raw="both")
    assert explanation.target == "LABEL_1"
    assert (explanation.forwards, explanation.backwards) == (1 + len(explanation.units()), 0)
    assert any(explanation.scores)
    pair = model.explain(PAIR, "optimus")
    assert {unit.segment for unit in pair.units()} == {0, 1}
    assert "rather than" in model.explain(TEXT, "optimus", target=(0, 1)).selection[0]["labels"][0]


@pytest.mark.parametrize("task", ["masked_lm", "causal_lm"])
def test_language_models(task: str) -> None:
    model = Model(make_model({"masked_lm": "bert", "causal_lm": "gpt2"}[task], task=task, dtype=torch.float64))
    text = "the film was [MASK] bad" if task == "masked_lm" else "the film was"
    explanation = model.explain(text, "optimus")
    assert explanation.selection[0]["score"] == pytest.approx(
        model.evaluate(explanation, metrics="rft").grades[0][0].value, rel=1e-9
    )


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "deberta", "modernbert"])
def test_answers(family: str) -> None:
    """Prime: one combination for both ends, by the probability of the whole answer. Label: one for each end."""
    model = Model(make_model(family, task="question_answering", dtype=torch.float64))
    together = model.explain(PAIR, "optimus", all_scores=True)
    (selection,) = together.selection
    assert selection["score"] == pytest.approx(model.evaluate(together, metrics="rft").grades[0][0].value, rel=1e-9)
    assert together.forwards == 1 + len(together.units())  # the questions are put once for both
    ends = [model.explain(PAIR, "optimus", target=end, combination=selection["chosen"]) for end in ("start", "end")]
    assert together.scores == pytest.approx([a + b for a, b in zip(ends[0].scores, ends[1].scores, strict=True)])
    assert [sum(abs(unit.score) for unit in end.units()) for end in ends] == pytest.approx([1, 1], rel=1e-5)
    apart = model.explain(PAIR, "optimus", select="label")
    for part, end in zip(apart.selection, ("start", "end"), strict=True):
        alone = model.explain(PAIR, "optimus", target=end).selection[0]
        assert part.keys() == alone.keys()
        assert all(part[key] == pytest.approx(alone[key]) for key in part)
    assert list(dict.fromkeys(note.partition(":")[0] for note in apart.notes)) == ["Start", "End"]


def test_one_explanation_for_each_predicted_label() -> None:
    model = Model(make_model("bert", labels=5, problem_type="multi_label_classification", dtype=torch.float64, seed=4))
    labels = model.predicted(TEXT)
    assert len(labels) > 1
    prime = model.explain(TEXT, "optimus", target=labels)
    assert len({one.scores for one in prime}) == 1  # one search for all
    by_label = model.explain(TEXT, "optimus", target=labels, select="label")
    assert [one.selection[0]["labels"] for one in by_label] == [[label] for label in labels]
    assert sum(one.forwards for one in by_label) == len(prime[0].units())  # asked once for all labels


def test_all_scores_are_kept_on_request() -> None:
    assert "scores" not in bert().explain(TEXT, "optimus").selection[0]
    explanation = bert().explain(TEXT, "optimus", all_scores=True, raw="both")
    (selection,) = explanation.selection
    tables = selection["scores"]
    assert tables["A"]["heads"] == ["mean", "multi", 0, 1, 2, 3]
    assert tables["A*"]["layers"] == ["mean", 0, 1, 2]
    flat = {
        (raw, head, layer, matrix): score
        for raw, table in tables.items()
        for matrix, rows in table["scores"].items()
        for head, row in zip(table["heads"], rows, strict=True)
        for layer, score in zip(table["layers"], row, strict=True)
    }
    assert len(flat) == selection["candidates"] == 6 * 5 * 4 + 5 * 4 * 4
    best = max(flat, key=lambda key: flat[key])
    assert str(Combination(*best)) == selection["chosen"]
    assert flat["A", "mean", "mean", "from"] == selection["baseline_score"]
    assert wherefrom.Explanation.from_json(explanation.to_json()) == explanation


def test_a_single_token() -> None:
    explanation = bert().explain("film", "optimus", raw="both")
    assert len(explanation.units()) == 1
    assert explanation.forwards == 2


def test_the_first_of_equals_wins_and_falling_back_is_the_papers() -> None:
    rft, sufficiency = ConfiguredMetric.read("rft"), ConfiguredMetric.read("sufficiency")
    assert chosen(np.array([0.1, 0.3, 0.3]), rft) == 1
    assert chosen(np.array([-0.2, -0.1]), rft) == 1
    assert chosen(np.array([-0.2, -0.1]), rft, "baseline") == 0
    assert chosen(np.array([-0.2, 0.0]), rft, "baseline") == 0  # Algorithm 2 starts from a score of zero
    assert chosen(np.array([-0.2, 0.1]), rft, "baseline") == 1
    assert chosen(np.array([np.nan, -0.1]), rft) == 1
    assert chosen(np.array([0.2, 0.1]), sufficiency) == 1
    with pytest.raises(BadOption, match="better when lower"):
        chosen(np.array([0.2]), sufficiency, "baseline")
    with pytest.raises(NotDefined, match="rft is not defined for anything"):
        chosen(np.array([np.nan]), rft)


def negative_model() -> tuple[Model, str]:
    """A text and a target for which no combination of A scores above zero: every token speaks against it."""
    model = bert()
    for text in ("dull", "film", "bad", "not", "good", "plot", "a", "very"):
        for label in range(3):
            explanation = model.explain(text, "optimus", target=label)
            if explanation.selection[0]["score"] < 0:
                return model, text + f"|{label}"
    raise AssertionError("no such text")


def test_all_scores_negative_is_said() -> None:
    model, found = negative_model()
    text, _, label = found.partition("|")
    least_bad = model.explain(text, "optimus", target=int(label))
    assert "only the least bad" in least_bad.notes[1]
    back = model.explain(text, "optimus", target=int(label), fallback="baseline")
    assert "the baseline was taken" in back.notes[1]
    assert back.params["winner"] == str(BASELINE)
    assert (
        len(model.explain(text, "optimus", target=int(label), raw="A*").notes) == 1
    )  # a sign can be right where a size cannot


def test_weights_that_differ_by_rounding_are_equal_and_none_becomes_zero() -> None:
    case = case_of(tiny("bert", torch.float64), "a dull film")
    given = torch.tensor([0.2, 0.2 + 1e-9, 0.2 - 1e-9, 1e-30, 0.0]).double()
    a, b, c, tiny_one, zero = settled(case, given).tolist()
    assert a == b == c == pytest.approx(0.2, rel=1e-6)
    assert tiny_one == pytest.approx(1e-30, rel=1e-6)
    assert zero == 0
    assert len(set(settled(case, torch.tensor([0.2, 0.200001, 0.200002, 0.3, 0.4]).double()).tolist())) == 5


def test_what_is_written_can_be_read() -> None:
    for one in combinations("A", 3, 4) + combinations("A*", 3, 4):
        assert Combination.read(str(one)) == one
    assert str(BASELINE) == "A, mean of heads, mean of layers, from"
    assert str(Combination("A*", 5, 2, "to")) == "A*, head 5, layer 2, to"
    assert Combination.read("combination.json") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "batch"}, "combination=FILE"),
        ({"select": "all"}, r"select = prime \| label \| batch"),
        ({"raw": "B"}, r"raw = A \| A\* \| both"),
        ({"combination": 3}, "not int"),
        ({"combination": "A, head 9, layer 0, to"}, "no head 9: the model has 4"),
        ({"combination": "A, head 0, layer 3, to"}, "no layer 3: the model has 3"),
        ({"combination": Combination("A*", "multi", 0, "to")}, "sign says nothing"),
        ({"combination": "missing.json"}, "There is no file missing.json. Combinations are"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WherefromError, match=message):
        bert().explain(TEXT, "optimus", **options)


TEXTS = ["a great film", "the plot was dull , but fine !", "never a bad movie"]


def test_fit_takes_the_best_mean() -> None:
    model = bert()
    fitted = optimus.fit(model, TEXTS, raw="both")
    tables = [model.explain(text, "optimus", raw="both", all_scores=True).selection[0]["scores"] for text in TEXTS]
    means = {
        Combination(raw, head, layer, matrix): np.mean([table[raw]["scores"][matrix][i][j] for table in tables])
        for raw, table in tables[0].items()
        for matrix in table["scores"]
        for i, head in enumerate(table["heads"])
        for j, layer in enumerate(table["layers"])
    }
    assert fitted.score == pytest.approx(max(means.values()))
    assert means[fitted.combination] == pytest.approx(fitted.score)
    assert fitted.baseline == pytest.approx(means[BASELINE])
    assert (fitted.layers, fitted.heads, fitted.texts, fitted.metric, fitted.level) == (3, 4, 3, "rft", "token")


def test_fitting_asks_about_all_texts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batches = bert(), []
    whole = TextModel.run

    def counted(self: TextModel, inputs: Any, *more: Any, **named: Any) -> Any:
        batches.append(len(inputs["input_ids"]))
        return whole(self, inputs, *more, **named)

    monkeypatch.setattr(TextModel, "run", counted)
    optimus.fit(model, ["a great film", "a dull plot", "never a good movie"])
    assert batches == [3, 3 + 3 + 4]  # the recorded pass of all, and all their questions


def test_a_fitted_combination_is_saved_loaded_and_costs_one_pass(tmp_path: Path) -> None:
    model = bert()
    fitted = optimus.fit(model, [*TEXTS, PAIR])
    fitted.save(tmp_path / "combination.json")
    assert Fitted.load(tmp_path / "combination.json") == fitted
    direct = model.explain(TEXT, "optimus", combination=fitted)
    by_file = model.explain(TEXT, "optimus", combination=str(tmp_path / "combination.json"))
    assert by_file.scores == direct.scores
    assert (direct.forwards, direct.backwards) == (1, 0)
    assert direct.params["select"] == "batch"
    assert direct.notes == (f"Fitted on 4 texts by rft: mean {fitted.score:.4g}, the baseline {fitted.baseline:.4g}.",)
    json.loads(direct.to_json())
    sentences = model.explain(TEXT, "optimus", combination=fitted, level="sentence")
    assert "fitted by token, and is used by sentence" in sentences.notes[1]


def test_fitting_on_answers_and_labels() -> None:
    answers = Model(make_model("bert", task="question_answering", dtype=torch.float64))
    assert optimus.fit(answers, [PAIR]).score == pytest.approx(answers.explain(PAIR, "optimus").selection[0]["score"])
    labels = Model(make_model("bert", labels=5, problem_type="multi_label_classification", dtype=torch.float64, seed=4))
    assert optimus.fit(labels, [TEXT]).score == pytest.approx(labels.explain(TEXT, "optimus").selection[0]["score"])


def test_texts_that_are_all_predicted_alike_are_fine() -> None:
    model = bert()
    same = [
        text
        for text in TEXTS
        if model.explain(text, "random").prediction == model.explain(TEXTS[0], "random").prediction
    ]
    assert optimus.fit(model, same).texts == len(same)


def test_bad_fits(tmp_path: Path) -> None:
    with pytest.raises(EmptyText, match="at least one"):
        optimus.fit(bert(), [])
    with pytest.raises(EmptyText, match="give a list"):
        optimus.fit(bert(), "a film")
    fitted = optimus.fit(bert(), TEXTS[:1])
    larger = Model(make_model("bert", num_hidden_layers=2, dtype=torch.float64))
    with pytest.raises(
        BadOption, match=r"fitted on a model of 3 layers with 4 heads \(tiny-bert\); this one has 2 with 4"
    ):
        larger.explain(TEXT, "optimus", combination=fitted)
    other = Model(make_model("bert", seed=1, dtype=torch.float64))
    assert "another model" in other.explain(TEXT, "optimus", combination=fitted).notes[1]
    path = tmp_path / "combination.json"
    for content in ("", "[]", '{"wherefrom_optimus": 2}', '{"wherefrom_optimus": 1}'):
        path.write_text(content)
        with pytest.raises(BadFile, match=r"combination\.json"):
            Fitted.load(path)
    fitted.save(path)
    for key, value in (("head", 9), ("matrix", "side"), ("raw", "B")):
        data = json.loads(path.read_text())
        data["combination"][key] = value
        broken = tmp_path / "broken.json"
        broken.write_text(json.dumps(data))
        with pytest.raises(BadFile, match="damaged"):
            Fitted.load(broken)


def test_the_pass_that_is_recorded_is_the_only_whole_one() -> None:
    """A* is recorded with its scores, and A is read from the same pass."""
    case = case_of(tiny("bert", torch.float64), TEXT)
    scores, probs = case.attention(scores=True), case.attention(scores=False)
    assert case.passes.count.forwards == 1
    for one, other in zip(scores, probs, strict=True):
        torch.testing.assert_close(one.softmax(-1), other)
