"""The analyses of the Optimus paper, by hand and against its printed numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model, tiny

from wherefrom.api import Model
from wherefrom.benchmark.statistics import Energy
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadOption, EmptyText, WherefromError
from wherefrom.optimus.combination import BASELINE, Combination
from wherefrom.report.plots import combination_scores
from wherefrom_studies import plots
from wherefrom_studies.optimus.analyses import (
    CombinationGrades,
    MeanCost,
    as_printed,
    combination_grades,
    costs,
    emissions,
    winning_operations,
)


def explanation(**more: object) -> Explanation:
    one = Explanation("film", ("film",), (1.0,), ((0, 4),), (0,), "A", 0.9, "A", "optimus")
    return replace(one, **more)  # type: ignore[arg-type]


def test_operations_are_counted() -> None:
    won = [
        BASELINE,
        Combination("A", 3, "mean", "to"),
        Combination("A*", 3, 0, "to"),
        Combination("A", "multi", "mean", "from"),
    ]
    found = winning_operations([*won[:2], *(explanation(params={"winner": str(one)}) for one in won[2:])])
    assert found.heads == {"3": 0.5, "mean": 0.25, "multi": 0.25}
    assert found.layers == {"mean": 0.75, "0": 0.25}
    assert found.matrices == {"from": 0.5, "to": 0.5}
    assert found.raw == {"A": 0.75, "A*": 0.25}
    with pytest.raises(WherefromError, match="this one is by alti"):
        winning_operations([explanation(method="alti")])
    with pytest.raises(WherefromError, match="nothing to count"):
        winning_operations([])


def test_operations_of_real_explanations() -> None:
    model = Model(tiny("bert"))
    found = winning_operations(model.explain(["a dull film", "a great plot", "never bad"], "optimus"))
    for shares in found:
        assert sum(shares.values()) == pytest.approx(1)


def test_every_combination_is_graded_as_a_method_of_its_own() -> None:
    model = Model(tiny("bert", torch.float64))
    texts = [("a dull film", [(2, 6)]), ("never a bad plot", [(8, 11)])]
    grades = combination_grades(model, texts)
    found = grades.means()
    assert len(found) == 6 * 5 * 4
    for one in (BASELINE, Combination("A", 2, 1, "max_columns")):
        for metric in ("rft", "faithfulness", "auprc"):
            alone = [
                model.evaluate(model.explain(text, "optimus", combination=one), metrics=metric, rationale=spans)
                .grades[0][0]
                .value
                for text, spans in texts
            ]
            assert found[str(one)][metric] == pytest.approx(np.mean([value for value in alone if value is not None]))
    assert grades.correlation("rft") is not None
    with pytest.raises(EmptyText, match="at least one text"):
        combination_grades(model, [])


def graded_alone(model: Model, text: Any, one: Combination, metric: str, spans: Any, **more: Any) -> float | None:
    explained = model.explain(text, "optimus", combination=one, **more)
    first, second = (spans, None) if isinstance(text, str) else spans
    graded = model.evaluate(explained, metrics=metric, rationale=first, rationale_pair=second)
    return graded.grades[0][0].value


def test_pairs_are_graded_with_what_was_marked_in_both() -> None:
    model = Model(tiny("bert", torch.float64))
    texts = [(("a dull film", "never good"), ([(2, 6)], [(6, 10)])), (("a plot", "a fine plot"), ([], [(2, 6)]))]
    found = combination_grades(model, texts, metrics=("rft", "auprc"))
    assert found.values["auprc"].shape == (2, 120)
    for metric in ("rft", "auprc"):
        for place, (text, spans) in enumerate(texts):
            alone = graded_alone(model, text, BASELINE, metric, spans)
            assert found.values[metric][place][found.names.index(str(BASELINE))] == pytest.approx(alone)
    with pytest.raises(BadOption, match="two lists of spans"):
        combination_grades(model, [(("a film", "a plot"), [(2, 6)])])


def test_every_predicted_label_is_graded_by_its_own_rationale() -> None:
    model = Model(make_model("bert", labels=5, problem_type="multi_label_classification", dtype=torch.float64, seed=4))
    text = "a dull film but never a bad plot"
    labels = model.predicted(text)
    assert len(labels) > 1  # or this test would see nothing
    spans = {label: [(start, start + 4)] for label, start in zip(labels, (2, 7, 16, 24, 28), strict=False)}
    found = combination_grades(model, [(text, spans), ("a fine film", {})], metrics=("rft", "auprc"))
    assert len(found.values["rft"]) == 1  # nobody marked anything in the second text
    for metric in ("rft", "auprc"):
        alone = [graded_alone(model, text, BASELINE, metric, spans[label], target=label) or 0.0 for label in labels]
        assert found.values[metric][0][found.names.index(str(BASELINE))] == pytest.approx(np.mean(alone))


def test_correlation_over_combinations_by_hand() -> None:
    """Means over two texts: rft 1, 2, 4 and auprc .1, .3, .2."""
    found = CombinationGrades(
        ["a", "b", "c"],
        {"rft": np.array([[0.0, 1.0, 3.0], [2.0, 3.0, 5.0]]), "auprc": np.array([[0.1, 0.3, 0.2], [0.1, 0.3, 0.2]])},
    )
    pearson, spearman = found.correlation("rft"), found.correlation("rft", ranks=True)
    assert pearson is not None
    assert spearman is not None
    assert pearson.value == pytest.approx(np.corrcoef([1, 2, 4], [0.1, 0.3, 0.2])[0, 1])
    assert spearman.value == pytest.approx(0.5)
    assert pearson.low == pytest.approx(pearson.value)  # every text orders the combinations alike
    assert found.means()["b"] == {"rft": 2.0, "auprc": pytest.approx(0.3)}


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [
        (38.252, 4.892),
        (134.903, 17.252),
        (27.422, 3.507),
        (0.393, 0.050),
        (14.699, 1.880),
        (3.451, 0.441),
        (3.050, 0.390),
        (132.204, 16.907),
    ],
)
def test_table_5_of_the_paper(seconds: float, printed: float) -> None:
    assert as_printed(seconds) == pytest.approx(printed, abs=6e-4)


def test_carbon_by_hand() -> None:
    assert Energy(1000, overhead=1, intensity=0.5).grams(3600) == pytest.approx(500)  # one kWh at half a kilogram
    assert Energy(2 * 500, overhead=1.1, intensity=0.5).grams(3600) == pytest.approx(550)


def test_costs_are_means_by_method_and_add_up_over_texts() -> None:
    rows = [
        explanation(seconds=1.0, forwards=10),
        explanation(seconds=3.0, forwards=30),
        explanation(method="alti", seconds=0.5),
    ]
    found = costs(rows, Energy(100, intensity=1.0))
    assert found["optimus"] == MeanCost(2.0, 20.0, 0.0, Energy(100, intensity=1.0).grams(2.0), 2)
    assert found["alti"].texts == 1
    lines = emissions(found, texts=3)
    assert lines["optimus"].tolist() == pytest.approx(
        [0, 1 * found["optimus"].grams, 2 * found["optimus"].grams, 3 * found["optimus"].grams]
    )


def test_pictures(tmp_path: Path) -> None:
    model = Model(tiny("bert"))
    (selection,) = model.explain("a dull film", "optimus", raw="both", all_scores=True).selection
    combination_scores(selection["scores"], tmp_path / "map.png")
    found = winning_operations([BASELINE, Combination("A", 3, 1, "to")])
    plots.shares({"heads": found.heads, "layers": found.layers, "matrices": found.matrices}, tmp_path / "shares.png")
    plots.lines(emissions(costs([explanation(seconds=1.0)])), tmp_path / "lines.png", across="texts", up="g CO2e")
    for name in ("map", "shares", "lines"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
