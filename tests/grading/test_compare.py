"""Methods side by side, on every task, and what does not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, make_model, make_network, tiny, tokenizer
from toys import additive_model

import wherefrom
from wherefrom.api import Model
from wherefrom.case.asking import Asker
from wherefrom.core.comparison import Comparison, Grade
from wherefrom.errors import BadOption, EmptyText, MissingToken, UnknownName, WherefromError
from wherefrom.grading.choosing import chosen_methods, chosen_metrics
from wherefrom.grading.compare import Comparer, Query
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods, all_metrics

TEXT = "the film was not bad , but very dull !"
ERASURE = [
    "aopc",
    "log_odds",
    "comprehensiveness",
    "sufficiency",
    "soft_comprehensiveness",
    "soft_sufficiency",
    "rft",
    "faithfulness",
    "truthfulness",
    "monotonicity",
]
FREE = [row.name for row in all_metrics() if row.needs is None and row.function.__module__.startswith("wherefrom.")]
QUICK = ["attcat", "raw_attention", "saliency", "random"]


def known(grades: Sequence[Grade]) -> dict[str, float]:
    return {grade.metric: grade.value for grade in grades if grade.value is not None}


@pytest.mark.parametrize("metric", ERASURE)
def test_a_perfect_ranking_beats_its_reverse(metric: str) -> None:
    model = Model(additive_model(good=2.0, fine=1.0, film=0.25, bad=-3.0))
    right = model.explain("good film bad fine", "input_x_gradient", target=1)
    wrong = wherefrom.Explanation.from_dict(
        {**right.to_dict(), "scores": [-score for score in right.scores], "method": "reverse"}
    )
    found = model.evaluate([right, wrong], [metric])
    (good,), (bad,) = found.grades
    assert good.value is not None
    assert bad.value is not None
    assert (good.value > bad.value) == (good.better == "higher")
    assert good.value != bad.value
    assert found.ranks() == [[1], [2]]
    assert found.best(metric) is right


@pytest.mark.parametrize("family", FAMILIES)
def test_every_metric_has_a_value_in_every_family(family: str) -> None:
    model = Model(tiny(family, torch.float64))
    found = model.compare(TEXT, ["saliency", "input_x_gradient"], metrics="all", target=1, rationale=[(4, 8)])
    assert {"kendall_confidence", "auprc", *FREE} <= set(found.metrics)
    assert [grade for row in found.grades for grade in row if grade.value is None] == []


SETTINGS: list[tuple[str, str, Any]] = [
    ("bert", "question_answering", ("is it dull ?", TEXT)),
    ("roberta", "masked_lm", "the film was [MASK] bad , but dull"),
    ("gpt2", "causal_lm", TEXT),
    ("llama", "causal_lm", TEXT),
    ("bert", "classification", ("is it dull ?", TEXT)),
]


@pytest.mark.parametrize("level", ["token", "word", "sentence"])
@pytest.mark.parametrize(("family", "task", "text"), SETTINGS)
def test_every_task_and_level(family: str, task: str, text: Any, level: Any) -> None:
    model = Model(make_model(family, task=task, dtype=torch.float64))
    found = model.compare(text, QUICK, [*FREE, "kendall_confidence", "precision_at_k:k=2"], level=level)
    for explanation, row in zip(found.explanations, found.grades, strict=True):
        assert explanation.level == level
        for grade in row:
            few = len(explanation.units()) <= 2
            if grade.metric.startswith("soft_") and grade.value is None:
                assert "all scores are equal" in grade.why
                continue
            if grade.metric == "kendall_confidence":
                defined = (
                    task == "classification"
                    and explanation.method not in ("raw_attention", "random")
                    and len(explanation.units()) > 1
                )
            elif grade.metric.startswith("precision"):
                defined = task == "question_answering" and not few
            else:
                defined = not (grade.metric == "monotonicity" and few)
            assert (grade.value is not None) == defined or few, (grade, explanation.method)
            assert (grade.value is None) == bool(grade.why)


def test_a_difference_is_graded_as_what_it_is() -> None:
    model = Model(make_model("gpt2", task="causal_lm", dtype=torch.float64))
    found = model.compare(TEXT, ["input_x_gradient"], ["aopc", "kendall_confidence"], target=("good", "bad"))
    assert found.grades[0][0].value is not None
    assert "no other class" in found.grades[0][1].why or "language model" in found.grades[0][1].why


def test_multi_label_models_are_graded_by_each_label() -> None:
    network = make_network("bert", labels=4, problem_type="multi_label_classification", dtype=torch.float64)
    model = Model(wherefrom.load((network, tokenizer())).text_model)
    labels = model.predicted(TEXT)
    likely = (
        network(**inputs_of(model.text_model.network, [model.text_model.encode(TEXT)])).logits[0].sigmoid().tolist()
    )
    assert (
        labels == [label for label, chance in zip(model.labels, likely, strict=True) if chance >= 0.5]
        or len(labels) == 1
    )
    both = model.explain(TEXT, "attcat", labels)
    assert [one.target for one in both] == labels
    assert [one.scores for one in both] == [
        pytest.approx(model.explain(TEXT, "attcat", label).scores) for label in labels
    ]
    found = model.compare(TEXT, ["attcat"], ["aopc"], target=labels[0])
    assert found.explanations[0].probability == pytest.approx(likely[model.labels.index(labels[0])])


def test_several_targets_share_their_passes() -> None:
    model = Model(make_model("bert"))
    first, second = model.explain(TEXT, "attcat", model.labels[:2])
    assert (first.forwards + second.forwards, first.backwards, second.backwards) == (0, 1, 1)


def test_classes_that_are_explained_alike_have_no_confidence() -> None:
    found = Model(tiny("bert")).compare(TEXT, QUICK, ["kendall_confidence"])
    said = {name: (row[0].value is None, row[0].why) for name, row in zip(found.names, found.grades, strict=True)}
    assert said["raw_attention"] == (True, "raw_attention gives every class the same scores")
    assert said["random"][0]
    assert not said["attcat"][0]


def test_many_texts_together_are_as_each_alone() -> None:
    model = tiny("bert", torch.float64)
    texts = [TEXT, "a fine film", "the plot is dull . the acting is good", "a"]
    comparer = Comparer(model, chosen_methods([*QUICK, "occlusion"]), chosen_metrics([*FREE, "kendall_confidence"]))
    together = comparer.compare([Query(model.encode(text)) for text in texts])
    for text, found in zip(texts, together, strict=True):
        (alone,) = comparer.compare([Query(model.encode(text))])
        assert found.names == alone.names
        for one, other in zip(found.grades, alone.grades, strict=True):
            assert known(one) == pytest.approx(known(other), rel=1e-6, abs=1e-9)


def test_sharing_changes_no_grade() -> None:
    model = tiny("bert", torch.float64)
    comparer = Comparer(model, chosen_methods(QUICK), chosen_metrics(FREE))
    query = Query(model.encode(TEXT))
    (shared,), (apart,) = (comparer.compare([query], asker=Asker(model, share=share)) for share in (True, False))
    for one, other in zip(shared.grades, apart.grades, strict=True):
        assert [grade.value for grade in one] == pytest.approx([grade.value for grade in other], rel=1e-9, abs=1e-12)
    assert shared.asked == apart.asked == apart.rows
    assert shared.rows <= shared.distinct < shared.asked / 2


def test_evaluating_is_as_comparing() -> None:
    model = Model(tiny("bert", torch.float64))
    for level in ("token", "word"):
        compared = model.compare(TEXT, ["attcat", "occlusion"], "all", level=level, rationale=[(4, 8)])
        again = model.evaluate(
            [wherefrom.Explanation.from_json(one.to_json()) for one in compared.explanations], rationale=[(4, 8)]
        )
        for one, other in zip(compared.grades, again.grades, strict=True):
            assert known(one) == pytest.approx(known(other), rel=1e-9)


@pytest.mark.parametrize(("family", "task", "text"), SETTINGS)
def test_an_explanation_remembers_its_target(family: str, task: str, text: Any) -> None:
    model = Model(make_model(family, task=task, dtype=torch.float64))
    aim: Any = {"question_answering": "end", "classification": 2}.get(task, ("good", "bad"))
    found = model.explain(text, "saliency", aim)
    saved = wherefrom.Explanation.from_json(found.to_json())
    (direct,), (later,) = (
        model.compare(text, ["saliency"], ["aopc"], target=aim).grades,
        model.evaluate(saved, ["aopc"]).grades,
    )
    assert later[0].value == pytest.approx(direct[0].value, rel=1e-9)


def test_scores_from_elsewhere_can_be_evaluated() -> None:
    model = Model(tiny("bert"))
    ours = model.explain("a fine film", "attcat", level="word")
    theirs = wherefrom.Explanation(
        ours.text,
        ours.tokens,
        (0.0, 3.0, 2.0, 1.0, 0.0),
        ours.offsets,
        ours.segment,
        ours.target,
        0.5,
        ours.prediction,
        "by hand",
        level="word",
    )
    (row,) = model.evaluate(theirs, ["aopc", "kendall_confidence"]).grades
    assert row[0].value is not None
    assert "No method is called 'by hand'" in row[1].why


def test_two_models() -> None:
    first, second = Model(tiny("bert")), Model(make_model("bert", seed=1))
    target = first.explain(TEXT).target
    found = first.compare(TEXT, ["attcat"], "all", target=target, against=second)
    assert {"jaccard_25", "spearman"} <= set(found.metrics)
    assert found.grade("attcat", "spearman").value is not None
    same = first.compare(TEXT, ["attcat"], ["spearman", "jaccard_25"], against=first)
    assert [grade.value for grade in same.grades[0]] == pytest.approx([1.0, 1.0])
    other = Model(tiny("roberta"))
    there = first.compare(TEXT, ["attcat"], ["spearman"], against=other).grades[0][0]
    assert there.value is not None or "differently" in there.why


def test_a_table_for_pandas_json_and_the_eyes(capsys: pytest.CaptureFixture[str]) -> None:
    found = Model(tiny("bert")).compare(TEXT, QUICK, ["aopc", "sufficiency", "auprc"])
    table = found.to_pandas()
    assert len(table) == 12
    assert list(table.columns[:4]) == ["method", "metric", "value", "rank"]
    assert table.value.isna().sum() == 4
    assert set(table[table.metric == "aopc"]["rank"]) <= {1, 2, 3, 4}
    data = json.loads(found.to_json())
    assert data["names"] == QUICK
    assert data["grades"][0][0]["metric"] == "aopc"
    found.show()
    assert "attcat" in capsys.readouterr().out
    assert "attcat" in found.to_html()
    assert "attcat" in found._repr_html_()


def test_ranks_share_places_and_follow_the_direction() -> None:
    explanation = Model(tiny("bert")).explain("a film", "random")
    rows = tuple((Grade("x", value, better="lower"),) for value in (0.5, 0.1, 0.1, None))
    assert Comparison((explanation,) * 4, rows, ("a", "b", "c", "d")).ranks() == [[3], [1], [1], [None]]


def test_options_of_methods_and_metrics() -> None:
    model = Model(tiny("bert"))
    found = model.compare(TEXT, "alti:norm=l2,alti", "aopc:fill=pad,aopc")
    assert found.names == ("alti:norm=l2", "alti")
    assert found.explanations[0].params["norm"] == "l2"
    assert found.metrics == ["aopc:fill=pad", "aopc"]
    assert [grade.fill for grade in found.grades[0]] == ["pad", "delete"]


def test_a_fill_that_is_not_there() -> None:
    model = make_model("llama")
    words = deepcopy(model.reading.tokenizer)  # tests share tokenizers
    words.unk_token = None
    model = TextModel.of(model.network.module, words)
    whole = Model(model)
    grade = whole.compare(TEXT, ["saliency"], ["rft"]).grades[0][0]
    assert (grade.fill, grade.details["instead_of"]) == ("pad", "unk")
    with pytest.raises(MissingToken, match="no unk token"):
        whole.compare(TEXT, ["saliency"], ["rft:fill=unk"])


def test_all_leaves_out_what_cannot_be_and_says_so() -> None:
    model = Model(additive_model(good=2.0, bad=-3.0))  # of no known family
    found = model.compare("good bad", "all", ["aopc"])
    assert "saliency" in found.names
    assert "attcat" in found.failed
    every = {row.name for row in all_methods() if row.family != "selection"}
    assert set(found.names) | set(found.failed) == every - {"mask_lrp"}  # which is transatt without heads
    with pytest.raises(WherefromError):
        model.compare("good bad", ["attcat"], ["aopc"])


def test_the_sets_of_methods_and_metrics() -> None:
    every = {row.name: row.family for row in all_methods() if row.function.__module__.startswith("wherefrom.")}
    default = [choice.asked for choice in chosen_methods("default")]
    assert len(default) == 8
    assert {every[name] for name in default} == set(every.values()) - {"selection"}
    fast = {choice.asked for choice in chosen_methods("fast")}
    assert set(every) - fast == {"attention_flow", "best", "kernel_shap", "lime", "mask_lrp"}
    usual = [one.choice.asked for one in chosen_metrics("default", offered={"others"})]
    assert [one.choice.asked for one in chosen_metrics("main", offered={"others"})] == usual[:3]
    assert len(usual) == 4
    assert {row.group for row in all_metrics() if row.name in usual} == {"erasure", "one at a time"}
    assert [one.choice.asked for one in chosen_metrics("default", offered={"rationale", "second"})] == [
        *usual,
        "auprc",
        "spearman",
    ]


def test_the_defaults_conclude() -> None:
    found = Model(tiny("bert")).compare(TEXT)
    judged = found.conclusion()
    assert (len(found.names), len(found.metrics), judged.basis) == (8, 4, "checks")
    assert {*judged.supported, *judged.weak, *judged.not_supported} == set(found.names) - {"random"}
    assert {grade.group for grade in found.grades[0]} == {"erasure", "one at a time"}


def test_a_check_in_a_comparison_is_the_one_that_explain_gives() -> None:
    model = Model(tiny("bert"))
    together = model.compare(TEXT, ["attcat", "saliency"], ["aopc"])
    for one in together.explanations:
        alone = model.explain(TEXT, one.method, check=True).check
        assert one.check is not None
        assert alone is not None
        assert one.check.verdict == alone.verdict
        assert one.check.strongest is not None
        assert alone.strongest is not None
        assert one.check.strongest.units == alone.strongest.units
        assert one.check.strongest.hidden == pytest.approx(alone.strongest.hidden, abs=1e-5)
    without = model.compare(TEXT, ["attcat", "saliency"], ["aopc"], check=False)
    assert [one.check for one in without.explanations] == [None, None]
    assert (without.asked, without.distinct) == (together.asked, together.distinct)  # counted with the metrics alone


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"rationale": [(3, 99)]}, BadOption, "lies outside of the text, which has 38 characters"),
    ({"rationale": [(5, 5)]}, BadOption, "lies outside"),
    ({"rationale": [7]}, BadOption, r"\(start, end\) pairs"),
    ({"rationale_pair": [(0, 1)]}, BadOption, "lies outside of the text, which has 0"),
    ({"methods": "atcat"}, UnknownName, "Did you mean 'attcat'"),
    ({"methods": "attcat,attcat"}, BadOption, "named twice"),
    ({"methods": ""}, BadOption, "at least one method"),
    ({"methods": "alti:l2"}, BadOption, "name:option=value"),
    ({"metrics": "aopcc"}, UnknownName, "Did you mean 'aopc'"),
    ({"metrics": []}, BadOption, "at least one metric"),
    ({"metrics": "aopc:fil=pad"}, UnknownName, "Did you mean 'fill'"),
    ({"metrics": "spearman"}, BadOption, "spearman compares two models: name the other one with --against"),
    ({"level": "words"}, UnknownName, "Did you mean 'word'"),
    ({"target": "LABEL_7"}, UnknownName, "Did you mean"),
]


@pytest.mark.parametrize(("given", "error", "message"), MISTAKES, ids=[str(given) for given, *_ in MISTAKES])
def test_a_mistake_is_a_clear_error(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Model(tiny("bert")).compare(TEXT, **({"methods": ["attcat"], "metrics": ["aopc"]} | given))


def test_mistakes_with_texts() -> None:
    model = Model(tiny("bert"))
    with pytest.raises(EmptyText):
        model.compare("  ", ["attcat"], ["aopc"])
    with pytest.raises(BadOption, match="one text"):
        model.evaluate([model.explain("a film"), model.explain("a plot")])
    with pytest.raises(BadOption, match="end at character 6 of a text of 16"):
        model.evaluate(
            wherefrom.Explanation.from_dict({**model.explain("a film").to_dict(), "text": "a fine dull film"})
        )
    with pytest.raises(BadOption, match="one text at a time"):
        model.explain(["a film"], "attcat", ["LABEL_0"])  # type: ignore[list-item]
    questions = Model(make_model("bert", task="question_answering"))
    with pytest.raises(WherefromError, match="needs a question and a context"):
        questions.compare(TEXT, ["attcat"], ["aopc"])
    with pytest.raises(UnknownName, match="is not in the context"):
        questions.compare(("is it?", TEXT), ["attcat"], ["precision_at_k"], answer="nowhere")
    masked = Model(make_model("bert", task="masked_lm"))
    with pytest.raises(WherefromError, match="this one has none"):
        masked.compare(TEXT, ["attcat"], ["aopc"])


def test_a_text_of_one_token() -> None:
    found = Model(tiny("bert")).compare("film", QUICK, "all", target=0)
    for row in found.grades:
        for grade in row:
            assert grade.value is not None or grade.why, grade


def test_the_answer_is_looked_for_where_it_stands() -> None:
    model = Model(make_model("bert", task="question_answering"))
    by_text = model.compare(("is it?", TEXT), ["attcat"], ["precision_at_k:k=3"], answer="not bad")
    by_span = model.compare(("is it?", TEXT), ["attcat"], ["precision_at_k:k=3"], answer=[(13, 20)])
    assert by_text.grades == by_span.grades
    assert by_text.grades[0][0].details["of"] == 2
    with pytest.raises(BadOption, match="answer 3:99 lies outside"):
        model.compare(("is it?", TEXT), ["attcat"], ["precision_at_k"], answer=[(3, 99)])


def test_nothing_is_left_on_the_model() -> None:
    model = make_model("bert")
    before = {name: value.clone() for name, value in model.network.module.state_dict().items()}
    Model(model).compare(TEXT, QUICK, "all")
    assert all(torch.equal(before[name], value) for name, value in model.network.module.state_dict().items())
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.network.module.modules())
    assert not model.network.module.training


def test_a_saved_comparison_is_whole(tmp_path: Path) -> None:
    Model(tiny("bert")).compare(TEXT, QUICK, ["aopc"]).save(tmp_path / "compared.json")
    assert json.loads((tmp_path / "compared.json").read_text())["wherefrom_comparison"] == 1


def test_a_method_that_is_another_has_no_place_of_its_own() -> None:
    """mask_lrp without heads is transatt: by its scores, so that two places would be one method's."""
    model = Model(tiny("bert"))
    assert model.explain(TEXT, "mask_lrp").scores == model.explain(TEXT, "transatt").scores
    for name in ("fast", "all"):
        assert "transatt" in [choice.row.name for choice in chosen_methods(name)]
        assert "mask_lrp" not in [choice.row.name for choice in chosen_methods(name)]
    with pytest.raises(BadOption, match="mask_lrp is the same as transatt"):
        model.compare(TEXT, ["mask_lrp", "random", "transatt"], ["rft"])
    with pytest.raises(BadOption, match="mask_lrp:normalise=false is the same as transatt:normalise=false"):
        chosen_methods(["transatt:normalise=false", "mask_lrp:normalise=false"])
    with pytest.raises(BadOption, match="the same as"):
        model.explain(TEXT, "best", candidates="transatt,mask_lrp")
    apart = ["transatt", "mask_lrp:normalise=false", "mask_lrp:variant=published"]
    assert [choice.asked for choice in chosen_methods(apart)] == apart  # which are not the same


def test_one_token_with_all_the_length_gets_a_note() -> None:
    """As the first one of many causal models, whose vectors are hundreds of times longer than the others'."""
    model = make_model("gpt2", dtype=torch.float64)
    assert not any("of the scores is at token" in note for note in Model(model).explain(TEXT, "globenc").notes)
    with torch.no_grad():
        model.network.module.get_parameter("transformer.wpe.weight")[0] *= 1e6
    found = Model(model).explain(TEXT, "globenc")
    assert found.scores[0] > 0.99
    assert any("at token 1" in note for note in found.notes)


def test_whole_outputs_report_their_progress_and_count_their_questions() -> None:
    """Two texts by three methods: three explanations after the first, six after the second; the shared count is the sum
    of what the metrics asked, and a row for each token that occlusion hid.
    """
    model = make_model("gpt2", task="causal_lm")
    queries = [Query(model.encode(text), "but dull") for text in ("the film was bad", "a good plot")]
    comparer = Comparer(model, chosen_methods(["saliency", "occlusion", "random"]), chosen_metrics(["aopc"]))
    calls, asker = list[tuple[int, int]](), Asker(model)
    comparisons = comparer.compare(queries, asker=asker, explained_so_far=lambda *call: calls.append(call))
    assert calls == [(3, 6), (6, 6)]
    assert comparisons[0].rows > 0
    hidden = sum(len(query.encoding) for query in queries)
    assert asker.rows == sum(comparison.rows for comparison in comparisons) + hidden


def test_a_comparison_and_an_explanation_follow_one_rule_about_short_texts() -> None:
    """Four tokens are too few for a verdict: no method is called supported."""
    model = wherefrom.load("embedded")
    e = model.explain("A fine film.", check=True)
    assert e.check is not None
    assert e.check.verdict == "too short"
    conclusion = model.compare("A fine film.", "attcat,alti,random", check=True).conclusion()
    assert (conclusion.basis, conclusion.supported) == ("too short", ())
    unchecked = model.compare("A fine film.", "attcat,alti,random", check=False).conclusion()
    assert (unchecked.basis, unchecked.supported) == ("too short", ())
