"""Data sets in every form: the examples are known beforehand, and what is wrong with a file is said with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from wherefrom.benchmark.datasets import READY, DataSet
from wherefrom.benchmark.formats import _class_name
from wherefrom.core.example import Example, Mark
from wherefrom.errors import BadFile, WherefromError
from wherefrom.registry import all_readers

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | list[Any] | dict[str, Any]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def read(source: str | Path, **more: Any) -> list[Example]:
    return list(DataSet(str(source), **more))


def plain(example: Example) -> tuple[Any, ...]:
    return example.id, example.text, example.pair, example.label, example.rationale, example.answer


FINE = {"id": "a", "text": "A fine film.", "label": 1, "rationale": [[2, 6]]}
DULL = {"id": "b", "text": "A dull film.", "label": 0, "rationale": []}
READ = [("a", "A fine film.", None, 1, (Mark(2, 6),), None), ("b", "A dull film.", None, 0, (), None)]


def test_json_lines(write: Write) -> None:
    path = write("few.jsonl", [FINE, DULL])
    found = read(path)
    assert [plain(example) for example in found] == READ
    assert found[1].where == f"{path}, line 2"
    assert DataSet(str(path)).name == "few"


@pytest.mark.parametrize(("name", "between"), [("few.csv", ","), ("few.tsv", "\t")])
def test_csv_and_tsv(write: Write, name: str, between: str) -> None:
    cell = '"[[2, 6]]"' if between == "," else "[[2, 6]]"
    lines = [["id", "text", "label", "rationale"], ["a", "A fine film.", "1", cell], ["b", "A dull film.", "0", "[]"]]
    path = write(name, "".join(between.join(line) + "\n" for line in lines))
    assert [plain(example) for example in read(path)] == READ


def test_a_text_of_csv_may_have_quotes_commas_and_line_breaks(write: Write) -> None:
    path = write("q.csv", 'text,label\n"One, ""two""\nthree",POSITIVE\nfour,NEGATIVE\n')
    assert [(e.text, e.label, e.id) for e in read(path)] == [
        ('One, "two"\nthree', "POSITIVE", "1"),
        ("four", "NEGATIVE", "2"),
    ]
    assert read(path)[1].where.endswith("line 4")


@pytest.mark.parametrize("folder", [False, True])
def test_parquet(tmp_path: Path, folder: bool) -> None:
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.Table.from_pylist([FINE, DULL]), path)
    assert [plain(example) for example in read(tmp_path if folder else path)] == READ


def test_a_hugging_face_data_set_on_disk(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["NEGATIVE", "POSITIVE"])}
    )
    rows = datasets.Dataset.from_dict(
        {"sentence": ["A fine film.", "A dull film."], "label": [1, 0]}, features=features
    )
    datasets.DatasetDict({"validation": rows, "test": rows.select([1])}).save_to_disk(tmp_path / "saved")
    found = read(f"{tmp_path / 'saved'}@validation")
    assert [(e.text, e.label) for e in found] == [("A fine film.", "POSITIVE"), ("A dull film.", "NEGATIVE")]
    assert DataSet(f"{tmp_path / 'saved'}@validation").name == "saved@validation"
    with pytest.raises(WherefromError, match=r"no split was named. It has validation, test: write .*saved@validation"):
        read(tmp_path / "saved")


def test_a_hub_that_cannot_be_reached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")

    def refuse(*asked: str) -> None:
        raise ConnectionError(f"no network for {asked}")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(WherefromError, match="'glue/sst2' could not be fetched from the hub: no network"):
        read("hf:glue/sst2@validation")


def test_the_hub_s_configuration_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"sentence": ["A fine film."], "label": [1]})

    def fetch(*asked: str) -> Any:
        if asked != ("nyu-mll/glue", "sst2"):
            raise FileNotFoundError(asked)
        return datasets.DatasetDict({"validation": rows})

    monkeypatch.setattr(datasets, "load_dataset", fetch)
    assert [e.text for e in read("hf:nyu-mll/glue/sst2@validation")] == ["A fine film."]


def test_pairs_and_their_rationales(write: Write) -> None:
    row = {
        "text_a": "A dog runs.",
        "text_b": "A pet moves.",
        "label": "entailment",
        "rationale_a": [[2, 5]],
        "rationale_b": [[2, 5], [6, 11]],
    }
    (example,) = read(write("pair.jsonl", [row]))
    assert example.rationale == (Mark(2, 5), Mark(2, 5, 1), Mark(6, 11, 1))
    assert example.asked == ("A dog runs.", "A pet moves.")


def test_rationales_by_label(write: Write) -> None:
    (example,) = read(
        write(
            "many.jsonl",
            [{"text": "cold and wet", "label": ["cold", "wet"], "rationale": {"cold": [[0, 4]], "wet": [[9, 12]]}}],
        )
    )
    assert example.label == ("cold", "wet")
    assert example.rationale == (Mark(0, 4, 0, "cold"), Mark(9, 12, 0, "wet"))


@pytest.mark.parametrize("answer", ["wet", [[9, 12]], {"spans": [{"start": 9, "end": 12, "text": "wet"}]}])
def test_answers(write: Write, answer: Any) -> None:
    (example,) = read(write("qa.jsonl", [{"text_a": "How is it?", "text_b": "cold and wet", "answer": answer}]))
    assert example.answer == (Mark(9, 12, 1),)


def test_eraser(write: Write, tmp_path: Path) -> None:
    write("docs/one.txt", "a fine film .\nnot a dull one .")
    evidence = {"docid": "one.txt", "start_token": 1, "end_token": 3, "text": "fine film"}
    other = evidence | {"start_token": 6, "end_token": 7}
    write(
        "val.jsonl",
        [
            {
                "annotation_id": "one.txt",
                "classification": "POS",
                "evidences": [[evidence], [other]],
                "query": "Is it?",
                "docids": None,
            }
        ],
    )
    (example,) = read(tmp_path)
    assert plain(example) == (
        "one.txt",
        "a fine film .\nnot a dull one .",
        None,
        "POS",
        (Mark(2, 11), Mark(20, 24)),
        None,
    )
    (asked,) = read(f"eraser_query:{tmp_path}")
    assert (asked.text, asked.pair, asked.rationale) == ("Is it?", example.text, (Mark(2, 11, 1), Mark(20, 24, 1)))


def test_eraser_with_two_documents_is_a_pair(write: Write, tmp_path: Path) -> None:
    write("docs.jsonl", [{"docid": "p", "document": "a dog runs"}, {"docid": "h", "document": "a pet moves"}])
    row = {"annotation_id": "1", "classification": "entailment", "docids": ["p", "h"]}
    write("test.jsonl", [row | {"evidences": [[{"docid": "h", "start_token": 1, "end_token": 2}]]}])
    (example,) = read(f"{tmp_path}@test")
    assert (example.text, example.pair, example.rationale) == ("a dog runs", "a pet moves", (Mark(2, 5, 1),))


def test_hatexplain(write: Write, tmp_path: Path) -> None:
    def post(labels: list[str], rationales: list[list[int]]) -> dict[str, Any]:
        return {
            "annotators": [{"label": label} for label in labels],
            "rationales": rationales,
            "post_tokens": ["you", "fine", "people"],
        }

    write(
        "dataset.json",
        {
            "1": post(["offensive", "offensive", "normal"], [[0, 1, 0], [1, 1, 0]]),
            "2": post(["normal"] * 3, []),
            "3": post(["offensive", "normal", "hatespeech"], [[1, 0, 0]]),
        },
    )
    write("post_id_divisions.json", {"val": ["1", "3"], "test": ["2"]})
    assert [plain(e)[1:5] for e in read(f"{tmp_path}@val")] == [
        ("you fine people", None, "offensive", (Mark(0, 3), Mark(4, 8)))
    ]
    assert [e.id for e in read(tmp_path)] == ["1", "2"]


def test_esnli(write: Write) -> None:
    path = write(
        "esnli_dev.csv",
        "pairID,gold_label,Sentence1,Sentence2,Sentence1_marked_1,Sentence2_marked_1,Sentence1_marked_2,Sentence2_marked_2,"
        "Sentence1_marked_3,Sentence2_marked_3\n"
        '7,entailment,"A dog, running.",A pet  moves.,"A *dog*, running.",A *pet*'
        '  *moves*.,"A *dog*, *running*.",A pet *moves.*,'
        '"A *dog*, running.",A *pet* moves.\n',
    )
    (example,) = read(f"esnli:{path}")
    # "moves" was starred once and "moves." once: two of three starred the word, one its full stop
    assert plain(example)[:5] == (
        "7",
        "A dog, running.",
        "A pet  moves.",
        "entailment",
        (Mark(2, 5), Mark(2, 5, 1), Mark(7, 12, 1)),
    )


def test_squad(write: Write) -> None:
    questions = [
        {
            "id": "q1",
            "question": "Where?",
            "answers": [{"text": "Paris", "answer_start": 3}, {"text": "Paris", "answer_start": 3}],
        },
        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    path = write("dev.json", {"data": [{"title": "t", "paragraphs": [{"context": "In Paris.", "qas": questions}]}]})
    assert [plain(e) for e in read(f"squad:{path}")] == [
        ("q1", "Where?", "In Paris.", None, None, (Mark(3, 8, 1),)),
        ("q2", "Why?", "In Paris.", None, None, ()),  # which is not the same as one that nobody looked for
    ]


def test_conllu(write: Write) -> None:
    def word(number: str, form: str, last: str = "_") -> str:
        return "\t".join([number, form, *["_"] * 7, last]) + "\n"

    path = write(
        "some.conllu",
        "# sent_id = s1\n"
        + word("1-2", "don't")
        + word("1", "do")
        + word("2", "n't")
        + word("2.1", "ghost")
        + word("3", "go", "SpaceAfter=No")
        + word("4", ".")
        + "\n# text = A said text.\n"
        + word("1", "A"),
    )
    assert [(e.id, e.text, e.where) for e in read(path)] == [
        ("s1", "don't go.", f"{path}, line 2"),
        ("2", "A said text.", f"{path}, line 10"),
    ]


def test_ready_names(write: Write, tmp_path: Path) -> None:
    write("eraser_movies.jsonl", [FINE | {"split": "val"}, DULL | {"split": "test"}])
    assert [e.id for e in read("eraser_movies@test", folder=tmp_path)] == ["b"]
    with pytest.raises(WherefromError, match="must not be pooled; choose one: eraser_movies@val, eraser_movies@test"):
        read("eraser_movies", folder=tmp_path)
    with pytest.raises(
        WherefromError,
        match=r"eraser_movies is read from a folder that holds eraser_movies.jsonl: name the folder with --data-dir",
    ):
        read("eraser_movies@val")
    assert not DataSet("squad_v2").classes
    assert {"sst2", "esnli", "hatexplain", "hoc", "squad_v1.1", "ud_en_ewt"} <= READY.keys()
    assert DataSet("squad_v1.1").name == "squad_v1.1"


def test_columns_by_other_names(write: Write) -> None:
    path = write("odd.csv", "what,verdict,words\nA fine film.,yes,unused\n")
    (example,) = read(path, columns={"text": "what", "label": "verdict"})
    assert (example.text, example.label) == ("A fine film.", "yes")
    with pytest.raises(
        WherefromError, match=r"odd.csv, line 2: there is no field 'which'; there are: what, verdict, words"
    ):
        read(path, columns={"text": "which"})
    with pytest.raises(WherefromError, match="Did you mean 'label'"):
        read(path, columns={"lable": "verdict"})


def test_a_part_of_a_data_set(write: Write) -> None:
    path = write("many.jsonl", [{"text": f"text {number}"} for number in range(50)])
    assert [e.text for e in read(path, limit=2)] == ["text 0", "text 1"]
    some = [int(e.id) for e in read(path, limit=10, seed=3)]
    assert some == sorted(some) == [int(e.id) for e in read(path, limit=10, seed=3)]
    assert len(set(some)) == 10
    assert some != [int(e.id) for e in read(path, limit=10, seed=4)]
    assert len(read(path, limit=99, seed=1)) == 50


def test_every_example_is_as_likely_in_a_random_part(write: Write) -> None:
    path = write("five.jsonl", [{"text": f"text {number}"} for number in range(5)])
    counts = [0] * 5
    for seed in range(400):
        for example in read(path, limit=2, seed=seed):
            counts[int(example.id) - 1] += 1
    assert sum(counts) == 800
    assert all(abs(count - 160) < 5 * (400 * 0.4 * 0.6) ** 0.5 for count in counts)  # five standard deviations


def test_a_data_set_knows_itself(write: Write) -> None:
    path = write("few.jsonl", [FINE, DULL])
    count, digest = DataSet(str(path)).checked()
    assert count == 2
    assert digest == DataSet(str(path)).checked()[1]
    write("few.jsonl", [FINE, DULL | {"rationale": [[0, 1]]}])
    assert digest != DataSet(str(path)).checked()[1]


def test_tabs_whatever_the_file_is_called(write: Write) -> None:
    path = write("films.txt", 'text\tlabel\nA "fine, film\t1\n')
    assert [(e.text, e.label) for e in read(f"tsv:{path}")] == [('A "fine, film', 1)]
    commas = write("films.tsv", 'text,label\n"A fine, film",1.0\n')
    assert [(e.text, e.label) for e in read(f"csv:{commas}")] == [("A fine, film", 1)]


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["fine", "A fine"], "answer_start": [2, 0]},
        [{"text": "fine", "answer_start": 2}, {"text": "A fine", "answer_start": 0}],
        {"spans": [{"start": 2, "end": 6}, {"start": 0, "end": 6, "text": "A fine"}]},
    ],
)
def test_answers_as_hugging_face_has_them(write: Write, answers: object) -> None:
    path = write("q.jsonl", [{"question": "How?", "context": "A fine film.", "answers": answers}])
    (example,) = read(path, columns={"answer": "answers"})
    assert example.answer == (Mark(2, 6, 1), Mark(0, 6, 1))
    assert example.question
    none = write(
        "none.jsonl", [{"question": "How?", "context": "A film.", "answers": {"text": [], "answer_start": []}}]
    )
    assert read(none, columns={"answer": "answers"})[0].answer == ()


def test_labels_that_are_ignored_may_be_anything(write: Write) -> None:
    path = write("x.jsonl", '{"text": "a", "label": -1}\n{"text": "b", "label": NaN}\n')
    assert [e.label for e in read(path, ignore_labels=True)] == [None, None]


@pytest.mark.parametrize(("number", "expected"), [(-1, None), (1, "POSITIVE"), (7, "the label is 7, but the data set")])
def test_numbers_of_classes_in_a_hugging_face_data_set(number: int, expected: str | None) -> None:
    if number < 2:
        assert _class_name(number, ["NEGATIVE", "POSITIVE"], "x, row 1") == expected
    else:
        with pytest.raises(BadFile, match=f"x, row 1: {expected}"):
            _class_name(number, ["NEGATIVE", "POSITIVE"], "x, row 1")


WRONG: dict[str, tuple[str, Any, str]] = {
    "a label that is not a number": ("x.jsonl", '{"text": "a", "label": NaN}\n', "line 1: the label is nan"),
    "an infinite label": ("x.jsonl", '{"text": "a", "label": Infinity}\n', "line 1: the label is inf"),
    "labels with no number": (
        "x.jsonl",
        '{"text": "a", "label": {"cold": NaN}}\n',
        "line 1: the label is {'cold': nan}",
    ),
    "half a character": ("x.jsonl", '{"text": "a \\ud800"}\n', "line 1: the text has half of a character"),
    "an id of half a character": ("x.jsonl", '{"text": "a", "id": "\\udfff"}\n', "line 1: the id has half of a"),
    "deep JSON": ("x.jsonl", '{"text": ' + "[" * 100_000 + "\n", "line 1: this JSON is nested too deeply"),
    "a column twice": ("x.csv", "text,label,text\na,1,b\n", "x.csv, line 1: the column 'text' is there twice"),
    "an answer without a start": (
        "x.jsonl",
        [{"text": "q", "pair": "c", "answer": {"text": "c"}}],
        "line 1: the answer is an object with text in it; it needs",
    ),
    "an answer that starts at a word": (
        "x.jsonl",
        [{"text": "q", "pair": "c", "answer": {"text": ["c"], "answer_start": ["0"]}}],
        "line 1: the answer .* needs a text, and a whole number where it starts",
    ),
    "an answer with words for numbers": (
        "x.jsonl",
        [{"text": "q", "pair": "c", "answer": {"spans": [{"start": "0", "end": "1"}]}}],
        "line 1: the start and end of the answer .* must be whole numbers",
    ),
    "fewer starts than answers": (
        "x.jsonl",
        [{"text": "q", "pair": "c", "answer": {"text": ["c"], "answer_start": []}}],
        "line 1: the answer has 1 texts and 0 starts",
    ),
    "not JSON": ("x.jsonl", '{"text": "a"}\n{"text": \n', r"x.jsonl, line 2: this is not JSON"),
    "a list": ("x.jsonl", "[1]\n", r"x.jsonl, line 1: a line must hold an object"),
    "no text": (
        "x.jsonl",
        [{"words": "a"}],
        r"line 1: there is no text \(its fields: .*words\). Name its field: --columns text=NAME",
    ),
    "blank text": ("x.jsonl", [FINE, {"text": "  "}], r"line 2: the text is empty"),
    "a number as text": ("x.jsonl", [{"text": 3}], r"line 1: the text is empty or not a text"),
    "blank pair": ("x.jsonl", [{"text": "a", "pair": ""}], r"line 1: the second text is empty"),
    "a label that is none": ("x.jsonl", [{"text": "a", "label": [[1]]}], r"line 1: the label is \[\[1\]\]"),
    "a rationale too long": (
        "x.jsonl",
        [{"text": "abc", "rationale": [[1, 4]]}],
        r"line 1: the rationale has \[1, 4\], which does not fit a text of 3",
    ),
    "an empty span": ("x.jsonl", [{"text": "abc", "rationale": [[1, 1]]}], r"line 1: the rationale has \[1, 1\]"),
    "no span": ("x.jsonl", [{"text": "abc", "rationale": [1, 2]}], r"line 1: the rationale has 1 where \[start, end\]"),
    "no list": ("x.jsonl", [{"text": "abc", "rationale": "abc"}], r"line 1: the rationale is 'abc'"),
    "a rationale without its text": (
        "x.jsonl",
        [{"text": "abc", "rationale_b": [[0, 1]]}],
        r"line 1: there is a rationale of the second text, but no second",
    ),
    "an answer elsewhere": (
        "x.jsonl",
        [{"text": "a", "pair": "bcd", "answer": "x"}],
        r"line 1: the answer 'x' is not in the second text",
    ),
    "an answer beside": (
        "x.jsonl",
        [{"text": "a", "pair": "bcd", "answer": {"spans": [{"start": 0, "end": 1, "text": "c"}]}}],
        r"line 1: the answer is 'c', but at \[0, 1\] is 'b'",
    ),
    "an answer to nothing": (
        "x.jsonl",
        [{"text": "a", "answer": "a"}],
        r"line 1: there is an answer, but no second text",
    ),
    "the same id": ("x.jsonl", [FINE, FINE], r"line 2: the id 'a' is used already, at line 1"),
    "nothing": ("x.jsonl", "\n\n", r"x.jsonl has no examples"),
    "an empty table": ("x.csv", "", r"x.csv has no examples"),
    "a short row": (
        "x.csv",
        "text,label\na,1\nb\n",
        r"x.csv, line 3: 1 fields, but the first line names 2: text, label",
    ),
    "an open quote": ("x.csv", 'text,label\n"a,1\n', r"x.csv, line 2: unexpected end of data"),
    "a rationale in CSV": ("x.csv", "text,rationale\nabc,0-1\n", r"x.csv, line 2: the field rationale is not JSON"),
    "no parquet": ("x.parquet", "PAR1 or not", r"x.parquet is not Parquet, or it is damaged"),
    "no known kind": (
        "x.doc",
        "a",
        r"x.doc does not tell its format. Name it: one of jsonl, csv",
    ),
    "nine columns": ("x.conllu", "1\ta\n", r"x.conllu, line 1: 2 columns between tabs; CoNLL-U has ten"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_line(write: Write, name: str) -> None:
    file, content, message = WRONG[name]
    with pytest.raises(WherefromError, match=message):
        DataSet(str(write(file, content))).checked()


def test_ids_whose_short_digests_are_alike(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only eight bytes of each id are kept; where these are alike, the ids decide."""
    monkeypatch.setattr("wherefrom.benchmark.datasets._short_digest", lambda _: 7)
    rows = [{"id": name, "text": "a film"} for name in ("one", "two", "three")]
    assert DataSet(str(write("x.jsonl", rows))).checked()[0] == 3
    with pytest.raises(BadFile, match=r"line 4: the id 'two' is used already, at line 2"):
        DataSet(str(write("y.jsonl", [*rows, rows[1]]))).checked()


def test_what_is_wrong_with_a_layout(write: Write, tmp_path: Path) -> None:
    squad = {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": "In Paris.",
                        "qas": [{"id": "q", "question": "?", "answers": [{"text": "Rome", "answer_start": 3}]}],
                    }
                ]
            }
        ]
    }
    with pytest.raises(
        WherefromError, match=r"data\[0\].paragraphs\[0\].qas\[0\]: the answer is 'Rome', but at \[3, 7\] is 'Pari'"
    ):
        read(f"squad:{write('s.json', squad)}")
    with pytest.raises(WherefromError, match="holds an object with a list `data`"):
        read(f"squad:{write('t.json', {})}")
    write("eraser/docs/a", "one two")
    evidence = {"docid": "a", "start_token": 1, "end_token": 3}
    write("eraser/val.jsonl", [{"annotation_id": "a", "classification": "x", "evidences": [[evidence]]}])
    with pytest.raises(
        WherefromError, match=r"val.jsonl, line 1: evidence \[1, 3\] does not fit document 'a' of 2 tokens"
    ):
        read(tmp_path / "eraser")
    with pytest.raises(WherefromError, match=r"There is no file .*train.jsonl"):
        read(f"{tmp_path / 'eraser'}@train")
    write("eraser/test.jsonl", [{"annotation_id": "b", "classification": "x", "evidences": []}])
    with pytest.raises(WherefromError, match=r"line 1: there is no document .*docs/b"):
        read(f"{tmp_path / 'eraser'}@test")
    post = {"annotators": [{"label": "normal"}] * 3, "rationales": [[1]], "post_tokens": ["a", "b"]}
    with pytest.raises(WherefromError, match="post 1: a rationale of 1 marks does not fit 2 tokens"):
        read(f"hatexplain:{write('h.json', {'1': post})}")
    stars = write("e.csv", "Sentence1,Sentence2,Sentence1_marked_1,gold_label\nA dog.,A pet.,A *cat*.,neutral\n")
    with pytest.raises(
        WherefromError, match=r"e.csv, line 2: the marked sentence 'A \*cat\*.' is not the sentence 'A dog.'"
    ):
        read(f"esnli:{stars}")


def test_what_is_not_there(tmp_path: Path, write: Write) -> None:
    with pytest.raises(
        WherefromError, match=r"There is no file or folder 'nothing', and no data set of that name. Ready names .* sst2"
    ):
        read("nothing")
    with pytest.raises(WherefromError, match="is a folder, but its layout is not known"):
        read(tmp_path)
    with pytest.raises(WherefromError, match="There is no file"):
        read(f"jsonl:{tmp_path / 'no'}")
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes('{"text": "caf\xe9"}'.encode("latin-1"))
    with pytest.raises(WherefromError, match=r"latin.jsonl is not UTF-8 text"):
        read(latin)
    with pytest.raises(WherefromError, match="limit must be at least 1"):
        read(latin, limit=0)
    assert {
        "jsonl",
        "csv",
        "tsv",
        "parquet",
        "disk",
        "eraser",
        "hatexplain",
        "esnli",
        "squad",
        "conllu",
    } <= all_readers().keys()
