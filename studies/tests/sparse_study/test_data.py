"""The study's data: what is read, what is dropped, and what is said when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sparse_study.toys import make_texts, write_dataset
from wherefrom.errors import BadFile, UnknownName
from wherefrom_studies.sparse.data import END, START, UNKNOWN, by_length, is_word, padded, read_dataset, shuffled


def write(path: Path, rows: list[tuple[str, int]]) -> None:
    path.write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows), encoding="utf-8"
    )


def test_lengths_words_and_ids(tmp_path: Path) -> None:
    long, kept = "a b c d e f g h", ["a b c d e f", "a b c d e z g"]
    write(tmp_path / "jw_sst_train.jsonl", [(kept[0], 1), (kept[1], 0), ("a b c d e", 1), (long, 0)])
    write(tmp_path / "jw_sst_dev.jsonl", [("f e d c b q", 1), (kept[0], 0), (long, 0)])
    write(tmp_path / "jw_sst_test.jsonl", [(kept[0], 1), (kept[1], 0), (long, 0)])
    dataset = read_dataset(tmp_path, "sst")
    # strictly more than five words, strictly fewer than the longest text of the split
    assert len(dataset.train) == 2
    assert dataset.words == ("<pad>", "<unknown>", "<start>", "<end>", "a", "b", "c", "d", "e", "f", "g", "z")
    assert dataset.train[0].ids == (START, 4, 5, 6, 7, 8, 9, END)
    assert dataset.dev[0].ids == (START, 9, 8, 7, 6, 5, UNKNOWN, END)
    assert dataset.positive_weight == 1


def test_rare_words_are_unknown(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(
            tmp_path / f"jw_20news_{split}.jsonl",
            [("a b c d e f g", 1), ("a b c d e f h", 0), ("x " * 500, 0), ("x " * 499, 0)],
        )
    dataset = read_dataset(tmp_path, "20news")
    assert [len(text) - 2 for text in dataset.train] == [7, 7, 499]
    assert dataset.words[4:] == ("a", "b", "c", "d", "e", "f")
    assert dataset.train[0].ids[-2] == UNKNOWN
    assert dataset.positive_weight == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / "jw_sst_dev.jsonl").unlink()
    with pytest.raises(BadFile, match=r"lacks jw_sst_dev\.jsonl\."):
        read_dataset(tmp_path, "sst")
    with pytest.raises(UnknownName, match="Did you mean 'imdb'"):
        read_dataset(tmp_path, "imdbb")


@pytest.mark.parametrize("line", ["{", '{"text": "a"}', '{"text": "a", "label": 2}', '{"text": 3, "label": 1}', "[]"])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    write_dataset(tmp_path)
    path = tmp_path / "jw_sst_test.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(BadFile, match=r"jw_sst_test\.jsonl, line 49: "):
        read_dataset(tmp_path, "sst")


def test_one_label_is_not_enough(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    write(tmp_path / "jw_sst_dev.jsonl", [("a b c d e f", 1)] * 3)
    with pytest.raises(BadFile, match="not of both labels"):
        read_dataset(tmp_path, "sst")


def test_batches_hold_everything_once() -> None:
    texts = make_texts(*([3, 9, 5, 7, 4] * 20))
    epochs = [shuffled(texts, size=8, seed=seed, epoch=epoch) for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert all(sorted(i for batch in batches for i in batch) == list(range(100)) for batches in epochs)
    assert epochs[0] == epochs[1]
    assert epochs[0] != epochs[2] != epochs[3]
    cut = by_length([len(text) for text in texts], tokens=50)
    assert sorted(i for batch in cut for i in batch) == list(range(100))
    assert all(len(batch) * max(len(texts[i]) for i in batch) <= 50 for batch in cut)


def test_words_are_what_is_not_added() -> None:
    ids = padded([(START, 7, UNKNOWN, END), (START, 4, END)])
    assert torch.equal(is_word(ids), torch.tensor([[False, True, True, False], [False, True, False, False]]))
