"""The sample data is what its page says: complete, marked at whole words, and read by every reader that may name it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from wherefrom import samples
from wherefrom.benchmark.datasets import DataSet
from wherefrom.cli.arguments import read_examples
from wherefrom.errors import UnknownName
from wherefrom.heads.trees import read_trees

COUNTS = {"reviews": 40, "pairs": 24, "questions": 12, "trees": 15}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples.sample_path(name).read_text(encoding="utf-8").splitlines()]


def test_every_file_has_a_name_and_is_on_its_page() -> None:
    folder = Path(samples.__file__).parent
    files = {path.stem: path for path in folder.iterdir() if path.suffix in (".jsonl", ".conllu")}
    assert {name: samples.sample_path(name) for name in samples.NAMES} == files
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in page for path in files.values())
    assert "CC0 1.0" in page


@pytest.mark.parametrize("name", samples.NAMES)
def test_every_sample_is_a_data_set(name: str) -> None:
    data = DataSet(f"sample:{name}")
    assert (data.checked()[0], data.name) == (COUNTS[name], name)
    assert str(COUNTS[name]) in samples.NAMES[name]


def marked() -> list[tuple[str, list[list[int]]]]:
    pairs = rows("pairs")
    return [
        *((row["text"], row["rationale"]) for row in rows("reviews")),
        *((row["premise"], row["rationale"]) for row in pairs),
        *((row["hypothesis"], row["pair_rationale"]) for row in pairs),
    ]


def test_rationales_are_whole_words_in_order() -> None:
    for text, spans in marked():
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        for start, end in spans:
            outside = text[:start][-1:] + text[end:][:1]
            assert not any(sign.isalnum() for sign in outside), text[start:end]
            assert text[start].isalnum(), text[start:end]
            assert text[end - 1].isalnum(), text[start:end]


def test_every_review_is_marked_and_both_labels_are_as_frequent() -> None:
    assert all(row["rationale"] for row in rows("reviews"))
    assert [row["label"] for row in rows("reviews")] == ["NEGATIVE", "POSITIVE"] * 20


def test_answers_stand_in_their_contexts() -> None:
    assert all(row["context"].count(row["answer"]) >= 1 for row in rows("questions"))


def test_trees_are_trees() -> None:
    for tree in read_trees(samples.sample_path("trees")):
        assert [word.head for word in tree.words].count(-1) == 1
        for place in range(len(tree.words)):
            path: list[int] = []
            while place >= 0:
                assert place not in path, tree.text
                path.append(place)
                place = tree.words[place].head
        governor = {word.relation: word.head for word in tree.words}
        assert tree.words[governor["punct"]].head == -1


def test_names_resolve_and_all_else_is_left_alone() -> None:
    assert samples.resolve("sample:trees") == str(samples.sample_path("trees"))
    assert [samples.resolve(other) for other in ("reviews.csv", "hf:glue/sst2", "sst2")] == [
        "reviews.csv",
        "hf:glue/sst2",
        "sst2",
    ]
    with pytest.raises(UnknownName, match="Did you mean 'reviews'"):
        samples.resolve("sample:revews")


def test_commands_read_them() -> None:
    texts = [row["text"] for row in rows("reviews")]
    assert [one.asked for one in read_examples("sample:reviews", None)] == texts
    assert [one.asked for one in read_examples("sample:pairs", 1)] == [
        (rows("pairs")[0]["premise"], rows("pairs")[0]["hypothesis"])
    ]
