"""A comparison that is saved comes back as it was, without a model and without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_models import tiny

from wherefrom.api import Model
from wherefrom.core.check import Check, Verdict
from wherefrom.core.comparison import Comparison, Conclusion, Disagreement, Grade
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadFile

METHODS, METRICS = ["attcat", "saliency", "random"], ["aopc", "entropy", "auprc", "kendall_confidence"]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return Model(tiny("bert")).compare("a very good film", METHODS, METRICS, rationale=[(7, 11)])


def test_there_and_back(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    comparison.save(path)
    again = Comparison.load(path)
    assert again.to_json() == comparison.to_json()
    assert again.names == comparison.names == tuple(METHODS)
    assert again.ranks() == comparison.ranks()
    assert again.best("aopc") == comparison.best("aopc")
    assert again.grade("attcat", "auprc").value == comparison.grade("attcat", "auprc").value
    assert again.to_html() == comparison.to_html()
    assert again.rationale == comparison.rationale == (((7, 11),), ())


def test_one_that_was_saved_without_a_rationale_still_opens(comparison: Comparison) -> None:
    plain = {name: value for name, value in comparison.to_dict().items() if name != "rationale"}
    assert Comparison.from_dict(plain).rationale is None


def test_without_torch(comparison: Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "kept.json")
    program = (
        "import sys; from wherefrom.core.comparison import Comparison;"
        "found = Comparison.load(sys.argv[1]); print(found.names); assert 'torch' not in sys.modules"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "kept.json")], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == str(tuple(METHODS))


def test_damaged_files_are_refused(comparison: Comparison, tmp_path: Path) -> None:
    whole = comparison.to_dict()
    damaged = {
        "cut short": json.dumps(whole)[:200],
        "another file": json.dumps({"wherefrom": 1}),
        "a list": "[]",
        "no grades": json.dumps({name: value for name, value in whole.items() if name != "grades"}),
        "too few grades": json.dumps(whole | {"grades": whole["grades"][:1]}),
        "strange grades": json.dumps(whole | {"grades": [[{"value": 1.0}]] * len(METHODS)}),
        "a rationale outside of the text": json.dumps(whole | {"rationale": [[[7, 99]], []]}),
        "a rationale of the pair that is not there": json.dumps(whole | {"rationale": [[], [[0, 1]]]}),
        "strange explanations": json.dumps(whole | {"explanations": [1, 2, 3]}),
    }
    for name, content in damaged.items():
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(BadFile, match=name):
            Comparison.load(path)
    with pytest.raises(BadFile, match="There is no file"):
        Comparison.load(tmp_path / "missing")


def scored(method: str, *scores: float, signed: bool = True) -> Explanation:
    """One letter a token, from a on, behind [CLS]."""
    letters = "abcdefgh"[: len(scores)]
    return Explanation(
        text=letters,
        tokens=("[CLS]", *letters),
        scores=(99.0, *scores),
        offsets=((0, 0), *((i, i + 1) for i in range(len(scores)))),
        segment=(-1, *[0] * len(scores)),
        target="good",
        probability=0.9,
        prediction="good",
        method=method,
        signed=signed,
    )


def compared(explanations: dict[str, Explanation], grades: dict[str, list[Grade]]) -> Comparison:
    return Comparison(
        tuple(explanations.values()), tuple(tuple(grades[name]) for name in explanations), tuple(explanations)
    )


def test_values_that_are_printed_alike_share_a_place() -> None:
    values = {"a": 0.35749, "b": 0.35751, "c": 0.35841, "d": 0.3583}
    found = compared(
        {name: scored(name, 1.0) for name in values},
        {name: [Grade("aopc", value, "higher")] for name, value in values.items()},
    )
    assert found.ranks() == [[4], [1], [1], [1]]  # 0.357, 0.358, 0.358, 0.358
    assert found.best("aopc").method == "c"  # the best itself is by the value, not by what is printed


def test_the_mean_rank_counts_each_question_once_and_no_shapes() -> None:
    def row(a: float, b: float, c: float, shape: float) -> list[Grade]:
        erasure = [Grade(name, value, "higher", group="erasure") for name, value in (("x", a), ("y", b))]
        return [
            *erasure,
            Grade("z", c, "higher", group="one at a time"),
            Grade("entropy", shape, "lower", group="shape"),
        ]

    found = compared(
        {"first": scored("first", 1.0), "second": scored("second", 1.0), "third": scored("third", 1.0)},
        {"first": row(3, 3, 1, 9), "second": row(2, 1, 2, 1), "third": row(1, 2, 3, 5)},
    )
    # (1 and 1) and 3; (2 and 3) and 2; (3 and 2) and 1
    assert found.mean_ranks() == [(1 + 3) / 2, (2.5 + 2) / 2, (2.5 + 1) / 2]


def test_metrics_without_a_group_count_for_themselves() -> None:
    rows = {"a": [Grade("x", 2.0, "higher"), Grade("y", 1.0, "higher")], "b": [Grade("x", 1.0, "higher")] * 2}
    rows["b"][1] = Grade("y", None, "higher", why="no")
    assert compared({"a": scored("a", 1.0), "b": scored("b", 1.0)}, rows).mean_ranks() == [1.0, 2.0]


def graded(erasure: float, alone: float) -> list[Grade]:
    return [Grade("x", erasure, "higher", group="erasure"), Grade("y", alone, "lower", group="one at a time")]


def test_methods_are_judged_by_random() -> None:
    names = ("good", "one", "bad", "random")
    grades = {"good": graded(2, 0), "one": graded(2, 9), "bad": graded(1, 1), "random": graded(1, 1)}
    found = compared({name: scored(name, 1.0, 2.0, *[0.0] * 5) for name in names}, grades).conclusion()
    assert found == Conclusion(("good",), ("one",), ("bad",), "floor", agreed=2)


def test_without_checks_a_short_text_is_not_judged_by_random() -> None:
    """The rule of an explanation's own test: six units are too few for a verdict."""
    grades = {"good": graded(2, 0), "random": graded(1, 1)}
    found = compared({name: scored(name, 1.0, 2.0, *[0.0] * 4) for name in grades}, grades).conclusion()
    assert (found.basis, found.supported, found.not_supported) == ("too short", (), ())


def test_without_random_nothing_is_concluded_of_methods() -> None:
    found = compared({"a": scored("a", 1.0), "b": scored("b", 1.0)}, {"a": graded(1, 1), "b": graded(2, 2)})
    assert found.conclusion() == Conclusion(agreed=1)


def test_shapes_alone_judge_nothing() -> None:
    shape = [Grade("entropy", 0.5, "lower", group="shape")]
    found = compared({"a": scored("a", 1.0), "random": scored("random", 1.0)}, {"a": shape, "random": shape})
    assert found.conclusion().basis == "nothing"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # The strongest of the one is the last of the other.
        ((9.0, 1.0, 2.0), (1.0, 3.0, 9.0), Disagreement(1, "one", "other", (1, 3))),
        # A sign is worse than a place.
        ((9.0, 8.0, 1.0), (9.0, -8.0, 1.0), Disagreement(2, "one", "other")),
        # A weak score with another sign is no dispute.
        ((9.0, 1.0, 0.0), (9.0, -1.0, 0.0), None),
    ],
)
def test_where_methods_disagree(
    one: tuple[float, ...], other: tuple[float, ...], expected: Disagreement | None
) -> None:
    found = compared({"one": scored("one", *one), "other": scored("other", *other)}, {"one": [], "other": []})
    assert found.conclusion().disagreement == expected


def test_methods_without_a_sign_are_compared_by_size() -> None:
    found = compared(
        {"one": scored("one", -9.0, 1.0), "other": scored("other", 9.0, 1.0, signed=False)}, {"one": [], "other": []}
    ).conclusion()
    assert (found.agreed, found.disagreement) == (1, None)


def test_the_disagreement_is_among_methods_that_are_supported() -> None:
    scores = {"good": (9.0, 1.0), "fine": (8.0, 1.0), "bad": (-9.0, 1.0), "random": (0.0, 1.0)}
    grades = {"good": graded(2, 0), "fine": graded(2, 0), "bad": graded(0, 2), "random": graded(1, 1)}
    found = compared({name: scored(name, *given, *[0.0] * 5) for name, given in scores.items()}, grades).conclusion()
    assert (found.supported, found.agreed, found.disagreement) == (("good", "fine"), 1, None)


def test_checks_come_before_random() -> None:
    verdicts: dict[str, Verdict] = {"good": "supported", "bad": "not supported", "one": "weak"}
    explanations = {
        name: replace(scored(name, 1.0, 2.0), check=Check(verdict, 0.9, "delete", 1))
        for name, verdict in verdicts.items()
    } | {"random": scored("random", 1.0, 2.0)}
    grades = {"good": graded(0, 2), "bad": graded(2, 0), "one": graded(2, 0), "random": graded(1, 1)}
    found = compared(explanations, grades).conclusion()
    assert (found.basis, found.supported, found.weak, found.not_supported) == ("checks", ("good",), ("one",), ("bad",))
    short = {
        name: replace(one, check=None if name == "random" else Check("too short", 0.9, "delete", 1))
        for name, one in explanations.items()
    }
    assert compared(short, grades).conclusion().basis == "too short"  # as the explanations say themselves
