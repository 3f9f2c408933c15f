"""Tokens of any tokenizer find their characters in a text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tokenizer

from wherefrom.core.alignment import Aligned, align
from wherefrom.errors import BadOption


def pieces(text: str, tokens: list[str]) -> list[str]:
    return [text[start:end] for (start, end), _ in align([text], tokens)]


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("A fine film.", ["[CLS]", "a", "fine", "film", ".", "[SEP]"], ["", "A", "fine", "film", ".", ""]),
        ("unhappily ever", ["un", "##happi", "##ly", "ever"], ["un", "happi", "ly", "ever"]),
        ("Café déjà vu", ["cafe", "deja", "vu"], ["Café", "déjà", "vu"]),
        ("A fine film", ["<s>", "▁A", "▁fi", "ne", "▁film", "</s>"], ["", "A", "fi", "ne", "film", ""]),
        ("A fine\nfilm", ["A", "Ġfine", "Ċ", "film"], ["A", "fine", "\n", "film"]),
        ("gas is", ["Ġgas", "Ġis"], ["gas", "is"]),
        ("a gas", ["a", "Ġga", "s"], ["a", "ga", "s"]),
        ("naïve €", ["na", "Ã¯", "ve", "Ġâ", "Ĥ", "¬"], ["na", "ï", "ve", "€", "€", "€"]),
        ("a 😀!", ["a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "!"], ["a", "😀", "😀", "😀", "😀", "!"]),
        ("lower it", ["low@@", "er</w>", "it</w>"], ["low", "er", "it"]),
        ("The xyzzy film", ["the", "[UNK]", "film"], ["The", "xyzzy", "film"]),
        ("Ends with xyzzy", ["ends", "with", "<unk>"], ["Ends", "with", "xyzzy"]),
        ("A fine film, really.", ["A", "fine", "film", "really"], ["A", "fine", "film", "really"]),
        ("the <s> tag", ["the", "<s>", "tag"], ["the", "<s>", "tag"]),
        ("the ﬁlm…", ["the", "film", "..."], ["the", "ﬁlm", "…"]),
        ("gorgeous ,  witty", ["gorgeous ", ", ", " witty"], ["gorgeous", ",", "witty"]),
    ],
)
def test_where_tokens_are(text: str, tokens: list[str], expected: list[str]) -> None:
    assert pieces(text, tokens) == expected


def test_a_pair_is_continued_where_the_text_has_ended() -> None:
    placed = align(["Is it?", "It is."], ["[CLS]", "is", "it", "?", "[SEP]", "it", "is", ".", "[SEP]"])
    assert [one.segment for one in placed] == [-1, 0, 0, 0, -1, 1, 1, 1, -1]
    assert placed[5] == Aligned((0, 2), 1)


@pytest.mark.parametrize(
    ("tokens", "named"), [(["a", "poor", "film"], "number 1 .'poor'"), (["a", "fine", "film", "indeed"], "has ended")]
)
def test_a_token_that_is_not_next_is_named(tokens: list[str], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        align(["A fine film"], tokens)


WORDS = st.lists(st.sampled_from(["the", "film", "was", "good", "very", "fine", "movie", "a", ".", ","]), min_size=1)


@given(WORDS, st.sampled_from([" ", "  ", "\n"]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_tokens_of_a_real_tokenizer_are_where_it_says(words: list[str], blank: str, upper: bool) -> None:
    text = blank.join(word.upper() if upper else word for word in words)
    read = tokenizer()(text, return_offsets_mapping=True)
    tokens = tokenizer().convert_ids_to_tokens(read["input_ids"])
    assert [one.span for one in align([text], tokens)] == read["offset_mapping"]
