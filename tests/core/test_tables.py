"""Texts from tables in memory, with the packages that make them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import wherefrom
from wherefrom.core.tables import is_table, rows_of, texts_of
from wherefrom.errors import BadOption, UnknownName

COLUMNS: dict[str, list[Any]] = {
    "review": ["A fine film.", "A dull one.", "Not bad."],
    "stars": ["POSITIVE", "NEGATIVE", "NEGATIVE"],
    "other": ["one", "two", "three"],
}


class OnlyArrow:
    """A frame of some other package that hands itself over as Arrow."""

    columns = tuple(COLUMNS)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return import_module("pyarrow").table(COLUMNS).__arrow_c_stream__(requested_schema)


class OnlyInterchange:
    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return import_module("pyarrow").table(COLUMNS).__dataframe__(nan_as_null, allow_copy)


MAKERS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: import_module("pandas").DataFrame(COLUMNS),
    "datasets": lambda: import_module("datasets").Dataset.from_dict(COLUMNS),
    "one split": lambda: import_module("datasets").DatasetDict(
        {"train": import_module("datasets").Dataset.from_dict(COLUMNS)}
    ),
    "pyarrow": lambda: import_module("pyarrow").table(COLUMNS),
    "polars": lambda: pytest.importorskip("polars").DataFrame(COLUMNS),
    "arrow stream": OnlyArrow,
    "interchange": OnlyInterchange,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_kind_of_table(kind: str) -> None:
    table = MAKERS[kind]()
    assert is_table(table)
    assert texts_of(table) == (COLUMNS["review"], None)
    assert texts_of(table, "other", "review", "stars") == (
        list(zip(COLUMNS["other"], COLUMNS["review"], strict=True)),
        COLUMNS["stars"],
    )
    assert rows_of(table)[1] == {"review": "A dull one.", "stars": "NEGATIVE", "other": "two"}


@pytest.mark.parametrize("kind", ["pandas", "datasets", "arrow stream"])
def test_explaining_a_table(kind: str) -> None:
    model = wherefrom.load("embedded")
    found = model.explain(MAKERS[kind](), "saliency", label_column="stars")
    assert [(one.text, one.target) for one in found] == list(zip(COLUMNS["review"], COLUMNS["stars"], strict=True))
    alone = model.explain("Not bad.", "saliency", target="NEGATIVE")
    assert found[2].scores == pytest.approx(alone.scores, rel=1e-4)


def test_what_is_no_table() -> None:
    for value in ("a film", ["a film"], ("a", "b"), import_module("pandas").Series(["a"]), {"text": ["a"]}):
        assert not is_table(value)


def test_mistakes() -> None:
    datasets, pandas = import_module("datasets"), import_module("pandas")
    one = datasets.Dataset.from_dict({"text": ["a"]})
    with pytest.raises(BadOption, match=r"2 splits: take one of them, such as data\['train'\]"):
        texts_of(datasets.DatasetDict({"train": one, "test": one}))
    with pytest.raises(UnknownName, match="Did you mean 'text'"):
        texts_of(one, "texts")
    with pytest.raises(BadOption, match=r"text_column=\. There are words"):
        texts_of(pandas.DataFrame({"words": ["a"]}))
    with pytest.raises(BadOption, match="Row 1 of the column 'text'"):
        texts_of(pandas.DataFrame({"text": ["a", None]}))
    with pytest.raises(BadOption, match="label of row 0"):
        texts_of(pandas.DataFrame({"text": ["a"], "label": [0.5]}), label_column="label")
    with pytest.raises(BadOption, match="called 'text'"):
        texts_of(pandas.DataFrame([["a", "b"]], columns=["text", "text"]))
    with pytest.raises(BadOption, match="Columns are named of a table"):
        wherefrom.load("embedded").explain("a film", text_column="text")


def test_a_run_over_a_frame(tmp_path: Path) -> None:
    """It is written beside the run, so that the run resumes and its workers read it."""
    frame = MAKERS["pandas"]()
    plan = wherefrom.RunPlan(
        frame, methods="random", metrics="entropy", columns={"text": "review", "label": "stars"}, workers=1
    )
    found = wherefrom.run(plan, tmp_path / "films")
    assert sorted(found.explanations["text"]) == sorted(COLUMNS["review"])
    assert (tmp_path / "films.data.jsonl").read_text(encoding="utf-8").count("\n") == 3
    assert len(wherefrom.run(plan, tmp_path / "films").explanations) == 3
    with pytest.raises(BadOption, match="a name, a path or a table"):
        wherefrom.run(wherefrom.RunPlan(3), tmp_path / "other")
