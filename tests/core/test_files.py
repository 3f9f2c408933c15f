"""Files are whole or not there, and what is wrong with one is said with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wherefrom.core.conllu import read_conllu
from wherefrom.core.files import read_json, read_json_lines, replacing, write_atomically
from wherefrom.errors import BadFile


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_as_a_whole(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "kept.json"
    write_atomically(path, "old ä", "file", durable=durable)

    def interrupted() -> None:
        with replacing(path, durable=durable) as unfinished:
            unfinished.write_text("ne")
            assert path.read_text(encoding="utf-8") == "old ä"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text(encoding="utf-8") == "old ä"
    write_atomically(path, b"new", "file", durable=durable)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["kept.json"]  # noqa: PTH208
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode  # as readable as any other file of this user


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"The head map could not be written to .*nowhere.*No such file"):
        write_atomically(tmp_path / "nowhere" / "file", "x", "head map")


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes('\ufeff{"a": 1}\n\n{"a": "x\\u2028y\u2028z"}\r\n'.encode())
    assert list(read_json_lines(path)) == [
        (f"{path}, line 1", {"a": 1}),
        (f"{path}, line 3", {"a": "x\u2028y\u2028z"}),  # a line ends at a line feed only
    ]
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(BadFile, match=r"some.jsonl, line 2: this is not JSON"):
        list(read_json_lines(path))
    path.write_text("[1]\n")
    with pytest.raises(BadFile, match=r"line 1: a line must hold an object"):
        list(read_json_lines(path))
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(BadFile, match="not UTF-8"):
        list(read_json_lines(path))
    with pytest.raises(BadFile, match="There is no file"):
        list(read_json_lines(tmp_path / "missing"))


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text('{"a":\n')
    with pytest.raises(BadFile, match=r"some.json, line 2: this is not JSON, or it was cut short"):
        read_json(path)


def conllu_line(number: str, form: str, head: str = "0", relation: str = "root", last: str = "_") -> str:
    return "\t".join([number, form, "_", "_", "_", "_", head, relation, "_", last]) + "\n"


def test_conllu_without_its_text(tmp_path: Path) -> None:
    """The text comes from the words; two words that are written as one stand in the same place."""
    path = tmp_path / "some.conllu"
    path.write_text(
        conllu_line("1-2", "don't")
        + conllu_line("1", "do", "3", "aux")
        + conllu_line("2", "n't", "3", "advmod")
        + conllu_line("2.1", "ever")
        + conllu_line("3", "go", last="SpaceAfter=No")
        + conllu_line("4", ".", "3", "punct")
    )
    (sentence,) = read_conllu(path)
    assert sentence.text == "don't go."
    assert [tuple(word) for word in sentence.words()] == [
        (0, 5, 2, "aux"),
        (0, 5, 2, "advmod"),
        (6, 8, -1, "root"),
        (8, 9, 2, "punct"),
    ]
    path.write_text("# text = Something else\n" + conllu_line("1", "dogs"))
    with pytest.raises(BadFile, match=r"line 2: 'dogs' is not in the sentence's text"):
        next(read_conllu(path)).words()
    path.write_text(conllu_line("x", "dogs"))
    with pytest.raises(BadFile, match=r"line 1: a word is numbered 'x'"):
        list(read_conllu(path))
