from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.sentences import explain, film, pair
from wherefrom.core.labels import visible
from wherefrom.report.pieces import TextRun, lines, pieces


def test_pieces_are_the_text_between_the_offsets() -> None:
    assert [(piece.text, piece.score) for piece in pieces(film(ends=9.0))] == [
        ("A", 0.0),
        ("fine", 2.0),
        ("film", -1.0),
        (".", 0.5),
    ]


def test_special_tokens_only_when_asked_for() -> None:
    assert [piece.label for piece in pieces(film(ends=9.0), special=True)] == [
        "[CLS]",
        "A",
        "fine",
        "film",
        ".",
        "[SEP]",
    ]


def test_bytes_of_one_character_are_one_piece_with_their_sum() -> None:
    explanation = explain(
        "a 🎬",
        (0, 1, 1.0),
        (2, 3, 0.5),
        (2, 3, -2.0),
        (2, 3, 0.25),
        layers=((1.0, 0.5, -1.0, 0.25), (0.0, 0.0, -1.0, 0.0)),
    )
    found = pieces(explanation)
    assert [(piece.text, piece.score, piece.layers) for piece in found] == [
        ("a", 1.0, (1.0, 0.0)),
        ("🎬", -1.25, (-0.25, -1.0)),
    ]
    assert "".join(run.text for run in lines(explanation, found)[0]) == "a 🎬"


def test_overlapping_tokens_show_their_text_once() -> None:
    explanation = explain("日本", (0, 1, 1.0), (0, 2, 1.0))  # sentencepiece gives its leading mark the first character
    assert [
        (run.text, run.piece.score if run.piece else None) for run in lines(explanation, pieces(explanation))[0]
    ] == [("日本", 2.0)]


def test_spaces_of_a_token_stay_plain() -> None:
    explanation = explain("a film ", (0, 1, 0.0), (1, 7, 1.0))
    runs = lines(explanation, pieces(explanation))[0]
    assert [(run.text, run.piece is not None) for run in runs] == [
        ("a", True),
        (" ", False),
        ("film", True),
        (" ", False),
    ]


def test_a_token_of_spaces_is_seen_in_a_list() -> None:
    assert [piece.label for piece in pieces(explain("a\n \tb", (0, 1, 0.0), (1, 4, 1.0), (4, 5, 0.0)))] == [
        "a",
        "↵␣⇥",
        "b",
    ]


def test_a_label_is_one_line() -> None:
    assert pieces(explain("a\n b", (0, 4, 1.0)))[0].label == "a b"


def test_special_tokens_stand_in_the_line_of_the_token_before() -> None:
    explanation = pair()
    seen = [
        [run.text or run.piece.label for run in line if run.piece]
        for line in lines(explanation, pieces(explanation, special=True))
    ]
    assert seen == [["[CLS]", "Two", "men", ".", "[SEP]"], ["No", "one", "!", "[SEP]"]]


def test_a_token_without_text_is_kept() -> None:
    explanation = explain("ab", (0, 0, 1.0), (0, 2, 0.5))
    assert [run.piece is not None for run in lines(explanation, pieces(explanation))[0]] == [True, True]


def test_what_was_cut_is_unread() -> None:
    explanation = explain("one two", (0, 3, 1.0), cut=1)
    assert lines(explanation, pieces(explanation))[0][-1] == TextRun(" two", None, unread=True)


def test_text_of_no_token_is_plain() -> None:
    explanation = explain("\ufeff one", (2, 5, 1.0))
    assert lines(explanation, pieces(explanation))[0][0] == TextRun("\ufeff ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x00\x07\x1b[31m\x7f", "\\x00\\x07\\x1b[31m\\x7f"),
        ("\r\x9b", "\\r\\x9b"),
        ("\u202ekcab\u2069", "\\u202ekcab\\u2069"),
        ("\ud83d", "\\ud83d"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("שלום 👩‍💻 é", "שלום 👩‍💻 é"),
    ],
)
def test_control_characters_are_spelt_out(text: str, expected: str) -> None:
    assert visible(text) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.text(min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=8, min_size=1),
    st.booleans(),
)
def test_runs_give_the_text_back_whatever_the_offsets(text: str, spans: list[tuple[int, int]], special: bool) -> None:
    explanation = explain(text, *((start, start + length, 1.0) for start, length in spans), ends=1.0)
    assert "".join(run.text for run in lines(explanation, pieces(explanation, special=special))[0]) == text


WHOLE = [
    ("caf" + "e\u0301", [(0, 3), (3, 4), (4, 5)], ["caf", "e\u0301"]),  # a letter and its accent
    ("a 👩\u200d👧", [(0, 1), (2, 3), (3, 4), (4, 5)], ["a", "👩\u200d👧"]),  # joined
    ("👍\U0001f3fd ok", [(0, 1), (1, 2), (3, 5)], ["👍\U0001f3fd", "ok"]),  # coloured
    ("🇫🇷🇩🇪", [(0, 1), (1, 2), (2, 3), (3, 4)], ["🇫🇷", "🇩🇪"]),  # two flags, not one or four
    ("ab", [(0, 1), (1, 2)], ["a", "b"]),
]


@pytest.mark.parametrize(("text", "spans", "expected"), WHOLE)
def test_what_a_reader_sees_as_one_character_stays_whole(
    text: str, spans: list[tuple[int, int]], expected: list[str]
) -> None:
    found = pieces(explain(text, *((start, end, 1.0) for start, end in spans)))
    assert [piece.text for piece in found] == expected
    assert sum(piece.score for piece in found) == len(spans)
