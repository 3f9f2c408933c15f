from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherefrom.core.units import pool, sentences, unit_of, words


def cut(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A fine film.", ["A", "fine", "film", "."]),
        ("I didn't like it!!", ["I", "didn't", "like", "it", "!!"]),
        ('"Well-made," he said (twice).', ['"', "Well-made", ',"', "he", "said", "(", "twice", ")."]),
        ("24-10 is 3.5 times", ["24-10", "is", "3.5", "times"]),
        ("a film—which drags…on", ["a", "film", "—", "which", "drags", "…", "on"]),
        ("so... good", ["so", "...", "good"]),
        ("這部電影", ["這", "部", "電", "影"]),
        ("نص عربي", ["نص", "عربي"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("😀😀 ok", ["😀😀", "ok"]),
        ("...", ["..."]),
        ("great.<br", ["great", ".", "<br"]),
        ("great.<br /><br />The", ["great", ".", "<br />", "<br />", "The"]),
        ("5 < 6 fish &amp; chips, don&#39;t", ["5", "<", "6", "fish", "&amp;", "chips", ",", "don&#39;t"]),
        ("cafe\u0301! e\u0301", ["cafe\u0301", "!", "e\u0301"]),
        ("film\u2764\ufe0f. \u2764\ufe0f", ["film", "\u2764\ufe0f", ".", "\u2764\ufe0f"]),
        ("👩\u200d👩\u200d👧 👍🏽! 1\ufe0f\u20e3", ["👩\u200d👩\u200d👧", "👍🏽", "!", "1\ufe0f\u20e3"]),
        ("film.🇩🇪", ["film", ".", "🇩🇪"]),
        ("か\u304b\u3099", ["か", "\u304b\u3099"]),
        ("30°C", ["30°C"]),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert cut(text, words(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Good. Bad.", ["Good.", "Bad."]),
        ("It uses rules, e.g. This one. Done.", ["It uses rules, e.g. This one.", "Done."]),
        ("It costs 3.50 dollars. Fine.", ["It costs 3.50 dollars.", "Fine."]),
        ("Dr. Smith met J. K. Rowling. She left.", ["Dr. Smith met J. K. Rowling.", "She left."]),
        ("Really?! Yes! ok", ["Really?!", "Yes!", "ok"]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("it works . it is fun .", ["it works .", "it is fun ."]),
        ("low budget. if you like it, fine.", ["low budget.", "if you like it, fine."]),
        ("It is approx. five. And so on", ["It is approx. five.", "And so on"]),
        ("The U.S. Senate met. It voted.", ["The U.S. Senate met.", "It voted."]),
        ("A title\n\nThe text. More", ["A title", "The text.", "More"]),
        ("好看。難看！", ["好看。", "難看！"]),
        ("Wait... what?", ["Wait... what?"]),
        ("No end", ["No end"]),
        ("Great.<br /><br />The end.<br>No.", ["Great.<br /><br />", "The end.<br>", "No."]),
        ("it is<br />fine", ["it is<br />fine"]),
        ("   ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert cut(text, sentences(text)) == expected


@given(st.text(max_size=60))
def test_spans_are_in_order_and_cover_every_visible_character(text: str) -> None:
    for split in (words, sentences):
        spans = split(text)
        assert all(start < end for start, end in spans)
        assert all(one[1] <= two[0] for one, two in pairwise(spans))
        covered = {place for start, end in spans for place in range(start, end)}
        assert {place for place, character in enumerate(text) if not character.isspace()} <= covered


def test_a_token_belongs_to_the_span_of_its_first_visible_character() -> None:
    text = "a film, ok"
    spans = words(text)  # a | film | , | ok
    assert unit_of([(0, 1), (1, 6), (6, 7), (7, 10), (10, 10)], spans, text) == [0, 1, 2, 3, -1]


def test_pooling() -> None:
    scores, groups = [1.0, -4.0, 2.0], [[0], [1, 2]]
    assert pool(scores, groups, "sum") == [1.0, -2.0]
    assert pool(scores, groups, "mean") == [1.0, -1.0]
    assert pool(scores, groups, "max") == [1.0, -4.0]  # the largest in size keeps its sign
