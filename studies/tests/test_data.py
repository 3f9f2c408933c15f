"""The data of the studies: splits, filters, labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from study_data import GOOD, pairs, rows_of, write

from wherefrom.benchmark.datasets import DataSet
from wherefrom.errors import BadFile, UnknownName
from wherefrom_studies.data import SETS, SOURCES, drawn, first_that_fit, split_rows, study_splits, write_part


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"id": str(number), "text": f"text {number}"} for number in range(count)]


def test_splits_are_70_10_20_and_keep_groups_together() -> None:
    rows = [{"id": f"{group}-{one}", "group": str(group)} for group in range(100) for one in range(3)]
    found = split_rows(rows, lambda row: row["group"])
    assert [len(part) for part in found] == [210, 30, 60]
    groups = [{row["group"] for row in part} for part in found]
    assert sum(len(part) for part in groups) == len(set.union(*groups)) == 100
    assert split_rows(rows[::-1], lambda row: row["group"]) != found  # the order within a group is the file's
    assert {row["id"] for row in split_rows(rows[::-1], lambda row: row["group"]).test} == {
        row["id"] for row in found.test
    }
    assert split_rows(rows, lambda row: row["group"], seed=1).test != found.test


def test_a_larger_draw_begins_with_the_smaller_one() -> None:
    rows = numbered(50)
    assert drawn(rows, 30)[:10] == drawn(rows, 10)
    assert drawn(rows[::-1], 10) == drawn(rows, 10)
    assert drawn(rows, 10) != rows[:10]


def test_long_texts_are_left_out() -> None:
    rows = numbered(6)
    assert first_that_fit(rows, 2, 3, lambda row: int(row["id"]) % 4) == rows[:2]
    assert [row["id"] for row in first_that_fit(rows, 9, 1, lambda row: int(row["id"]) % 4)] == ["0", "1", "4", "5"]


def test_hummingbird_is_one_set_with_its_labels_turned_right(tmp_path: Path) -> None:
    marked: dict[str, list[tuple[float, list[list[int]]]]] = {
        # 0 says that the style is there; 1 of sentiment says the contrary, and what is marked is for that
        "joy": [(0.0, [[2, 6]]), (1.0, [])],
        "sentiment": [(0.0, [[7, 11]]), (1.0, [[0, 4]])],
        "anger": [(1.0, []), (0.0, [[2, 5]])],
        "politeness": [(0.5, []), (0.5, [])],
    }
    rows = [
        {"id": f"{style}-{n}", "split": style, "text": text, "label": label, "rationale": spans}
        for style, given in marked.items()
        for n, ((label, spans), text) in enumerate(zip(given, ("a good film", "a bad plot"), strict=True))
    ]
    write(tmp_path, "hummingbird", rows)
    found = SETS["hummingbird"].make({"hummingbird": rows})
    everything = {row["id"]: row for part in found for row in part}
    assert everything["hummingbird-0"] == {
        "id": "hummingbird-0",
        "text": "a good film",
        "label": ["joy", "sentiment"],
        "rationale": {"joy": [[2, 6]], "sentiment": [[7, 11]]},
    }
    assert everything["hummingbird-1"]["label"] == ["anger"]
    assert everything["hummingbird-1"]["rationale"] == {"anger": [[2, 5]]}
    rows[-1]["text"] = "another text"
    with pytest.raises(BadFile, match="another text"):
        SETS["hummingbird"].make({"hummingbird": rows})


def test_esnli_has_no_neutral_pairs() -> None:
    rows = pairs(24)
    rows[0]["label"] = "neutral"
    mnli = [{"id": "m-0", "text_a": "it is so", "text_b": "it is not", "label": "contradiction"}]
    train, valid, test = SETS["esnli"].make(
        {"esnli": rows, "mnli": [*mnli, {**mnli[0], "id": "m-1", "label": "neutral"}]}
    )
    everything = [*train, *valid, *test]
    assert {row["label"] for row in everything} == {"contradiction", "entailment"}
    assert "pair-0" not in {row["id"] for row in everything}
    assert "m-0" in {row["id"] for row in train}
    assert {row["id"] for row in everything if row["id"].startswith("m-")} == {"m-0"}
    assert test[0]["pair_rationale"] == [[2, 6]]


def test_questions_are_split_by_paragraph_over_both_versions() -> None:
    def questions(name: str) -> list[dict[str, Any]]:
        return [
            {
                "id": f"{n}",
                "text_a": f"what is {name} {n} ?",
                "text_b": f"{'abcdefghij'[n // 3] * 3} is the film",
                "answer": {"spans": [] if n == 5 else [{"text": "film", "start": 11, "end": 15}]},
            }
            for n in range(30)
        ]

    files = {"squad_v1.1": questions("one"), "squad_v2": questions("two")}
    one, two = SETS["squad1"].make(files), SETS["squad2"].make(files)
    assert one.train == two.train
    assert {row["id"].partition("-")[0] for row in one.test} == {"squad_v1.1"}
    trained, measured = ({row["context"] for row in part} for part in (one.train, [*one.test, *two.test]))
    assert not trained & measured
    assert all(row["answer"] == [[11, 15]] for row in one.train)


def test_the_verb_is_masked() -> None:
    rows = [
        {"id": f"v-{n}", "text": f"film {'abcdefghij'[n]} is good", "label": "is", "foil": "are", "verb_span": [7, 9]}
        for n in range(10)
    ]
    found = SETS["agreement"].make({"agreement_linzen": rows})
    everything = {row["id"]: row for part in found for row in part}
    wanted = {"id": "v-0", "text": "film a [MASK] good", "label": "is", "foil": "are", "attractors": 0}
    assert everything["v-0"] == wanted


def test_nothing_that_is_measured_on_is_trained_on() -> None:
    dev, reviews = rows_of("dev", 8), rows_of("test", 8)
    train = [{**row, "id": f"again-{row['id']}", "text": row["text"].upper() + " !"} for row in dev]
    train += [
        {"id": f"own-{n}", "split": "train", "text": f"it is very {word}", "label": 1} for n, word in enumerate(GOOD)
    ]
    files = {
        "sst2_dev": dev,
        "sst2_train": train,
        "imdb": reviews,
        "jw_imdb_train": [{"text": reviews[0]["text"], "label": 0}, {"text": "a very dull movie", "label": 0}],
    }
    found = SETS["sst2"].make(files)
    kept = {row["text"] for row in (*found.train, *found.valid)}
    assert kept == {"it is very good", "it is very great", "it is very fine", "a very dull movie"}
    assert found.test[0]["label"] == "negative"


def test_what_is_written_is_read_by_run(tmp_path: Path) -> None:
    found = SETS["esnli"].make({"esnli": pairs(12), "mnli": []})
    write_part(found.test, tmp_path / "data" / "esnli.jsonl")
    examples = list(DataSet(str(tmp_path / "data" / "esnli.jsonl")))
    assert [example.id for example in examples] == [row["id"] for row in found.test]
    assert {mark.segment for mark in examples[0].rationale or ()} == {0, 1}
    film = {"spans": [{"start": 2, "end": 6}]}
    questions = [
        {"id": letter, "text_a": "what ?", "text_b": f"{letter} film", "answer": film} for letter in "abcdefghij"
    ]
    answers = SETS["squad1"].make({"squad_v1.1": questions, "squad_v2": []})
    write_part(answers.test, tmp_path / "squad.jsonl")
    (first, *_) = DataSet(str(tmp_path / "squad.jsonl"))
    assert first.question
    assert [(mark.start, mark.end) for mark in first.answer or ()] == [(2, 6)]


def test_a_missing_file_is_named_with_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(
        BadFile, match=r"no file .*qqp\.jsonl\. It is made from GLUE QQP.* label \(0 or 1\).*--data-dir"
    ):
        study_splits("qqp", tmp_path)
    with pytest.raises(UnknownName, match="qqp"):
        study_splits("qqqp", tmp_path)
    write(tmp_path, "qqp", [{"id": "1", "text_a": "a film", "text_b": "a plot", "label": 0}])
    with pytest.raises(BadFile, match="qqp has no rows for"):
        study_splits("qqp", tmp_path)


def test_every_file_of_every_set_is_described() -> None:
    assert {file for one in SETS.values() for file in one.files} <= SOURCES.keys()
    assert all(one.model in SETS for one in SETS.values() if one.model)
    assert all(json.dumps(fields) for fields in SOURCES.values())
