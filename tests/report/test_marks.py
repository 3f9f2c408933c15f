"""What people marked in a text is drawn where it stands: by a box or brackets, never by colour alone."""

from __future__ import annotations

import io
import random
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from report.sentences import explain, film, pair
from report.test_html import Reader
from wherefrom.benchmark.summary import Disputed
from wherefrom.core.comparison import Comparison, Grade, Rationale
from wherefrom.core.explanation import Explanation
from wherefrom.core.units import Span
from wherefrom.report.benchmark import TEXT, _begun, _marks
from wherefrom.report.comparison import fragment, page
from wherefrom.report.comparison_terminal import print_comparison
from wherefrom.report.html import view
from wherefrom.report.marks import joined, with_marks
from wherefrom.report.pieces import lines, pieces

BEGINS, ENDS = '<mark class="people"><span class="aloud" dir="ltr">[marked by people: </span>', "]</span></mark>"


def compared(explanation: Explanation, rationale: Rationale | None) -> Comparison:
    return Comparison((explanation,), ((Grade("auprc", 0.5, "higher"),),), ("attcat",), rationale=rationale)


def printed(comparison: Comparison, *, encoding: str = "utf-8", colour: bool = False) -> str:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n")
    system: Any = "truecolor" if colour else None
    print_comparison(comparison, console=Console(file=out, width=100, force_terminal=colour, color_system=system))
    out.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("spans", "known"),
    [
        ([], []),
        ([(3, 7)], [(3, 7)]),
        ([(8, 12), (3, 7)], [(3, 12)]),  # a space between them, in any order
        ([(0, 1), (8, 12)], [(0, 1), (8, 12)]),
        ([(3, 6), (5, 7), (7, 8)], [(3, 8)]),
        ([(3, 12), (4, 5)], [(3, 12)]),
        ([(-4, 1), (12, 99), (40, 50), (5, 5)], [(0, 1), (12, 13)]),  # as a file of somebody else may have them
    ],
)
def test_spans_in_order_without_overlap(spans: list[Span], known: list[Span]) -> None:
    assert joined(spans, "A  fine film.") == known


def test_every_character_is_kept_and_marked_as_the_spans_say() -> None:
    draw = random.Random(0)
    for _ in range(200):
        text = "".join(draw.choice("ab c") for _ in range(draw.randint(1, 14)))
        edges = sorted(draw.sample(range(len(text) + 1), draw.randint(0, len(text)) // 2 * 2))
        spans = list(zip(edges[::2], edges[1::2], strict=True))
        units = [(i, i + 1, 1.0) for i in range(0, len(text), 2)]
        explanation = explain(text, *units, ends=1.0)
        (line,) = lines(explanation, pieces(explanation, special=True))
        parts = with_marks(line, spans)
        assert [run.text for part in parts for run in part.runs if not run.text] == ["", ""]  # both special tokens
        drawn = "".join(("x" if part.marked else ".") * len(run.text) for part in parts for run in part.runs)
        assert "".join(run.text for part in parts for run in part.runs) == text
        for place, character in enumerate(text):
            inside = any(start <= place < end for start, end in spans)
            if inside or character.strip():
                assert (drawn[place] == "x") == inside, (text, spans, place)
        assert all(a.marked != b.marked for a, b in pairwise(parts))


@pytest.mark.parametrize("show", [page, fragment])
def test_a_box_around_what_was_marked(show: Any) -> None:
    html = show(compared(film(), (((3, 12),), ())))
    box = html[html.index(BEGINS) : html.index(ENDS)]
    assert re.sub(r"<[^>]*>", "", box) == "[marked by people: fine film"
    assert html.count(BEGINS) == 1
    assert '<span class="people" aria-hidden="true">box</span> marked by people' in html
    read = Reader(html)
    assert read.lines == ["A  [marked by people: fine film]."]
    assert [word for word, _ in read.words] == ["A", "fine", "film", "."]


def test_a_mark_that_begins_inside_of_a_unit_cuts_it() -> None:
    read = Reader(fragment(compared(film(), (((5, 9),), ()))))
    assert [word for word, _ in read.words] == ["A", "fi", "ne", "f", "ilm", "."]
    assert read.lines == ["A  fi[marked by people: ne f]ilm."]


def test_pairs_have_marks_in_both_texts() -> None:
    html = page(compared(pair(), (((4, 7),), ((0, 6),))))
    assert Reader(html).lines == ["Two [marked by people: men].", "[marked by people: No one]!"]
    found = printed(compared(pair(), (((4, 7),), ((0, 6),))))
    assert "Marked by people, in ⟦ ⟧:\nTwo ⟦men⟧.\n────────────────────────\n⟦No one⟧!\n" in found


def test_nobody_looked_or_nothing_was_found() -> None:
    for show in (page, fragment, printed):
        assert "marked" not in show(compared(film(), None)).lower()
    empty = compared(film(), ((), ()))
    assert "people marked nothing" in page(empty)
    assert "<mark" not in page(empty)
    assert ">box<" not in page(empty)
    assert "People marked nothing in this text." in printed(empty)


@pytest.mark.parametrize("colour", [False, True])
def test_brackets_in_the_terminal(colour: bool) -> None:
    found = re.sub(r"\x1b\[[0-9;]*m", "", printed(compared(film(), (((3, 7),), ())), colour=colour))
    assert "Marked by people, in ⟦ ⟧:\nA  ⟦fine⟧ film.\n" in found


def test_a_terminal_without_such_brackets() -> None:
    found = printed(compared(film(), (((3, 7),), ())), encoding="ascii")
    assert "Marked by people, in [[ ]]:\nA  [[fine]] film.\n" in found


def test_a_long_text_in_the_terminal_is_shortened_between_marks() -> None:
    text = "word " * 100 + "here " + "word " * 100
    found = printed(compared(explain(text, (0, 4, 1.0)), (((500, 504),), ())))
    body = " ".join(found.partition("⟧:\n")[2].partition("\n\n")[0].split())
    assert body.startswith("word word")
    assert " … " in body
    assert "word ⟦here⟧ word" in body
    assert len(body) < 400


def test_hostile_texts_stay_texts() -> None:
    text = "<script>alert(1)</script>\x1b[31m\u202e end"
    found = compared(explain(text, (0, 8, 1.0), (8, len(text), -1.0)), (((3, len(text) - 1),), ()))
    html = page(found)
    assert "<script>alert" not in html
    assert Reader(html).lines == [r"<sc[marked by people: ript>alert(1)</script>\x1b[31m\u202e en]d"]
    assert "\x1b" not in printed(found)
    assert r"<sc⟦ript>alert(1)</script>\x1b[31m\u202e en⟧d" in printed(found)


def test_what_is_said_aloud_does_not_turn_a_line() -> None:
    """A line of Hebrew goes from right to left by its first letter; what has a direction of its own does not count."""
    html = fragment(compared(explain("סרט טוב", (0, 3, 1.0), (4, 7, 2.0)), (((0, 3),), ())))
    assert BEGINS in html
    assert all(given.get("dir") == "ltr" for _, given in Reader(html).elements if given.get("class") == "aloud")


def test_marks_behind_the_part_that_a_report_shows() -> None:
    long = explain("word " * 300, (0, 4, 1.0))
    one = Disputed("e", 0.5, None, "positive", None, [long], (((TEXT - 2, TEXT + 5), (0, 4)), ()))
    assert _begun(one) == (((TEXT - 2, TEXT), (0, 4)), ())
    assert _marks(one) == "marked by people"
    assert _marks(replace(one, rationale=(((TEXT + 2, TEXT + 5),), ()))).startswith("what people marked is after")
    assert _marks(replace(one, rationale=((), ()))) == "people marked nothing"
    assert _marks(replace(one, rationale=None)) == ""
    assert view(film(), rationale=None).marks == ""
