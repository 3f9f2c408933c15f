"""A gate: rules are read, met or not, and refused where they are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.made import made
from wherefrom.core.gate import failures, read_rules
from wherefrom.errors import BadOption, UnknownName


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_rules_that_are_met_and_rules_that_are_not(tmp_path: Path) -> None:
    audit = made()  # right on 80 of 100 texts, one shortcut
    met = read_rules(written(tmp_path, 'accuracy = ">= 0.8"\nshortcuts = "== 1"\ntexts = "> 99"\nfailed = "<= 0"\n'))
    assert failures(met, audit) == []
    broken = read_rules(written(tmp_path, 'accuracy = ">= 0.88"\nshortcuts = "== 0"\ntexts = "!= 5"\n'))
    assert failures(broken, audit) == ["accuracy >= 0.88: it is 0.8", "shortcuts == 0: it is 1"]
    assert audit.failures({"accuracy": "<0.9", "shortcuts": "<1"}) == ["shortcuts < 1: it is 1"]


def test_a_number_that_the_data_cannot_give_fails() -> None:
    assert made().failures({"flips_by_one_word": "<= 1"}) == [
        "flips_by_one_word <= 1: these data give no such number (too few texts, or no labels)"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('accuracy = "about 0.8"', "cannot be read"),
        ("accuracy = 0.8", "cannot be read"),
        ('accuracy = ">= nan"', "cannot be read"),
        ('accuracy = ">= inf"', "cannot be read"),
        ("accuracy >= 0.8", "is not TOML"),
        ("", "has no rules"),
        ("[accuracy]\nleast = 1", "cannot be read"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=message):
        read_rules(written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no file"):
        read_rules(tmp_path / "none.toml")


def test_an_unknown_number_is_refused_with_one_that_is_close() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'accuracy'"):
        made().failures({"acuracy": ">= 0.5"})
    with pytest.raises(UnknownName, match="changed_words"):  # there is no older model
        made().failures({"changed_words": "<= 5"})
