from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from report.sentences import explain, film, pair
from wherefrom.core.check import Check, HiddenUnits, Verdict
from wherefrom.core.explanation import Explanation
from wherefrom.errors import WherefromError
from wherefrom.report.colour import DARK, LIGHT
from wherefrom.report.html import difference, fragment, page

VOID = {"meta", "input", "br", "wbr"}


class Reader(HTMLParser):
    """Reads HTML as a browser would, and insists that it is well formed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str]]] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.lines: list[str] = []  # the texts shown, special tokens apart
        self.words: list[tuple[str, dict[str, str]]] = []  # the coloured pieces of these
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag not in VOID:
            self.open.append((tag, given))
        if given.get("class") == "text":
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        classes = [given.get("class", "").split() for _, given in self.open]
        if ["text"] in classes:
            if "mark" not in classes[-1]:
                self.lines[-1] += data
            if "t" in classes[-1]:
                self.words.append((data, self.open[-1][1]))

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    def styles(self) -> dict[str, str]:
        return {text: f"{given['class']} {given['style']}" for text, given in self.words}


VIEWS: list[Callable[[Explanation], str]] = [
    fragment,
    lambda one: page([one]),
    lambda one: page([one, one]),
    lambda one: difference(one, one),
]
IDS = ["fragment", "page", "two", "difference"]


def test_exact_strengths_scaled_by_what_is_shown() -> None:
    assert Reader(fragment(film(ends=9.0))).styles() == {
        "A": "t for --s:0;--a:0",
        "fine": "t for --s:1;--a:1",
        "film": "t against --s:0.5;--a:0.5",
        ".": "t for --s:0.25;--a:0.25",
    }


def test_the_page_knows_both_scales() -> None:
    styles = Reader(page([film(ends=4.0)])).styles()
    assert styles["fine"] == "t for --s:1;--a:0.5"
    assert styles["[CLS]"] == "t for special mark --s:1;--a:1"


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_the_style_holds_the_colours(palette: dict[str, tuple[int, int, int]]) -> None:
    for html in (fragment(film()), page([film()])):
        for name in ("for", "against", "only", "ink", "ground"):
            assert f"--{name}:{' '.join(map(str, palette[name]))};" in html


def test_unsigned_has_one_hue() -> None:
    html = fragment(explain("a b", (0, 1, 1.0), (2, 3, 2.0), signed=False))
    assert Reader(html).styles() == {"a": "t only --s:0.5;--a:0.5", "b": "t only --s:1;--a:1"}
    assert "no sign" in html
    assert "against positive" not in html


def test_special_tokens_hidden_unless_asked() -> None:
    assert "[CLS]" not in fragment(film(ends=9.0))
    assert "[CLS]" in fragment(film(ends=9.0), special=True)
    for special in (False, True):
        switch = next(
            given for tag, given in Reader(page([film(ends=9.0)], special=special)).elements if tag == "input"
        )
        assert ("checked" in switch) is special
    assert ".switch:not(:checked)~* .special" in page([film(ends=9.0)])


def test_a_fragment_with_special_tokens_takes_its_scale_from_all() -> None:
    html = fragment(film(ends=4.0), special=True)
    assert '<div class="wherefrom fragment all">' in html
    assert Reader(html).styles()["fine"].endswith("--a:0.5")


def test_no_switch_where_there_is_nothing_to_switch() -> None:
    assert "input" not in Reader(page([film()])).tags()


@pytest.mark.parametrize("show", VIEWS, ids=IDS)
@pytest.mark.parametrize(
    "text",
    [
        "A  fine\n\n film.\t ",
        " leading and trailing ",
        "<script>alert(1)</script>",
        "\"quotes\" 'and' &amp; `ticks`",
        "</style></title><b>",
        "{{ 7 * 7 }} {% raw %} ${x}",
        "👩‍💻 naïve 日本",
        "שלום עולם",
    ],
)
def test_the_text_comes_back_whole(show: Callable[[Explanation], str], text: str) -> None:
    half = len(text) // 2
    reader = Reader(show(explain(text, (0, half, 1.0), (half, len(text), -0.5), ends=3.0)))
    assert reader.lines
    assert set(reader.lines) == {text}


def test_pair_texts_are_two_lines() -> None:
    assert Reader(fragment(pair())).lines == ["Two men.", "No one!"]


NASTY = "</style><script>x</script>\"'<img src=x onerror=y>&lt;"


@pytest.mark.parametrize("show", VIEWS, ids=IDS)
def test_everything_of_the_user_is_escaped(show: Callable[[Explanation], str]) -> None:
    given = explain(
        NASTY,
        (0, 5, 1.0),
        (5, len(NASTY), -1.0),
        target=NASTY,
        prediction=NASTY + "2",
        method=NASTY,
        probabilities={NASTY: 0.7, NASTY + "2": 0.3},
        params={NASTY: NASTY},
        notes=(NASTY,),
        model=NASTY,
        layers=((1.0, -1.0),),
        cut=1,
    )
    plain = show(film(notes=("n",), probabilities={"a": 0.7, "b": 0.3}, layers=((0.0, 1.0, -1.0, 0.0),)))
    html = show(given)
    reader = Reader(html)
    assert NASTY in reader.lines
    assert "img" not in reader.tags()
    assert html.count("<script") == plain.count("<script")
    assert html.count("</style") == plain.count("</style")
    assert not [
        name
        for _, attributes in reader.elements
        for name in attributes
        if name.startswith("on") or name in ("src", "href")
    ]


def test_a_title_is_escaped() -> None:
    html = page([film()], title=NASTY)
    assert html.count("<script") == 1
    assert NASTY in Reader(html).texts


@pytest.mark.parametrize("show", VIEWS, ids=IDS)
def test_control_characters_are_spelt_out(show: Callable[[Explanation], str]) -> None:
    bad = "a\x00\x07\r\u202e\ud83d"
    html = show(
        explain(
            bad,
            (0, 1, 1.0),
            (1, 6, 2.0),
            target=bad,
            prediction=bad,
            method=bad,
            notes=(bad,),
            model=bad,
            params={bad: bad},
        )
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", html)
    assert set(Reader(html).lines) == {"a\\x00\\x07\\r\\u202e\\ud83d"}
    html.encode("utf-8")


@pytest.mark.parametrize("show", VIEWS, ids=IDS)
def test_direction_follows_the_text_and_not_a_special_token(show: Callable[[Explanation], str]) -> None:
    reader = Reader(show(explain("שלום", (0, 4, 1.0), ends=1.0)))
    assert all(given["dir"] == "auto" for _, given in reader.elements if given.get("class") == "text")
    assert all(given["dir"] == "ltr" for _, given in reader.elements if "mark" in given.get("class", "").split())


@pytest.mark.parametrize("show", VIEWS, ids=IDS)
def test_nothing_comes_from_elsewhere(show: Callable[[Explanation], str]) -> None:
    html = show(film())
    assert not re.search(r"https?:|//\w|url\(|@import|<link", html)


@pytest.mark.parametrize("show", VIEWS, ids=IDS)
@pytest.mark.parametrize(
    "explanation",
    [explain("x", (0, 1, -1.0)), explain("a b", (0, 1, 0.0), (2, 3, 0.0), ends=0.0), explain("", (0, 0, 0.0))],
    ids=["one", "zero", "empty"],
)
def test_small_and_empty(show: Callable[[Explanation], str], explanation: Explanation) -> None:
    assert set(Reader(show(explanation)).lines) == {explanation.text}


def test_all_zero_says_so() -> None:
    assert "Every score is zero." in fragment(explain("a", (0, 1, 0.0)))


def test_hover_tells_the_token_and_its_number() -> None:
    reader = Reader(fragment(Explanation("Film", ("##film",), (0.5,), ((0, 4),), (0,), "t", 0.5, "t", "m")))
    assert reader.words[0][1]["title"] == "Film  +0.500 · ##film"


def test_the_heat_map_has_layers_for_rows_and_tokens_for_columns() -> None:
    explanation = film(layers=((0.0, 2.0, 0.0, 0.0), (0.0, 0.0, -1.0, 0.5)))
    cells = [
        given
        for tag, given in Reader(page([explanation])).elements
        if tag == "td" and "t" in given.get("class", "").split()
    ]
    assert [cell["style"].split(";")[0] for cell in cells] == [
        f"--s:{x}" for x in (0, 1, 0, 0, 0, 0, 0.5, 0.25, 0, 1, 0.5, 0.25)
    ]
    assert [cell["title"] for cell in cells[6:8]] == ["film  -1.000 · layer 2", ".  +0.500 · layer 2"]
    assert "Layer by layer" not in page([film()])


def test_bars_probabilities_and_facts() -> None:
    html = page(
        [
            film(
                probabilities={"negative": 0.25, "positive": 0.75},
                gap=0.125,
                forwards=2,
                model="tiny",
                params={"steps": 9},
            )
        ]
    )
    reader = Reader(html)
    texts = [text.strip() for text in reader.texts if text.strip()]
    strongest = texts.index("Strongest")
    assert texts[strongest + 1 : strongest + 9] == ["fine", "+2.000", "film", "-1.000", ".", "+0.500", "A", "0.000"]
    classes = texts.index("Probability of every class")
    assert texts[classes + 1 : classes + 5] == ["positive", "75.0%", "negative", "25.0%"]
    for fact in ("attcat", "steps=9", "tiny", "+0.125", "2 forward"):
        assert fact in texts


def test_two_explanations_of_one_text_have_their_difference() -> None:
    other = explain("A  fine film.", (0, 1, 4.0), (3, 7, 4.0), (8, 12, -2.0), (12, 13, 0.0), method="lrp")
    reader = Reader(page([film(), other]))
    assert any(given.get("id") == "difference" for _, given in reader.elements)
    # attcat scaled: 0, 1, -0.5, 0.25; lrp scaled: 1, 1, -0.5, 0; so the difference is -1, 0, 0, 0.25
    assert [f"{text} {given['class']} {given['style'].split(';')[0]}" for text, given in reader.words[-4:]] == [
        "A t against --s:1",
        "fine t for --s:0",
        "film t for --s:0",
        ". t for --s:0.25",
    ]
    assert "more in lrp" in reader.texts


def test_other_texts_have_no_difference() -> None:
    assert 'id="difference"' not in page([film(), pair()])
    assert 'id="difference"' not in page([film(), film(), film()])
    with pytest.raises(WherefromError, match="same text"):
        difference(film(), pair())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"method": "lrp"}, "attcat or lrp"),
        ({"method": "lrp", "target": "negative"}, "attcat for positive or lrp for negative"),
        ({"params": {"steps": 9}}, "attcat with defaults or attcat with steps=9"),
        ({}, "the first attcat or the second attcat"),
    ],
)
def test_a_difference_names_what_it_compares(change: dict[str, str], expected: str) -> None:
    assert f"<title>{expected}</title>" in difference(film(), film(**change))


def test_a_difference_warns_where_only_one_has_a_sign() -> None:
    assert "lrp</bdi> has no sign" in difference(film(), film(method="lrp", signed=False))
    assert "has no sign:" not in difference(film(), film(method="lrp"))


def test_the_page_asks_why_unless_it_has_a_title() -> None:
    assert page([film()]).startswith("<!doctype html>")
    assert "<title>Why “positive”?</title>" in page([film()])
    assert "<title>Explanations</title>" in page([film(), film(target="negative")])
    assert "<title>Mine</title>" in page([film()], title="Mine")


def test_explanations_show_themselves() -> None:
    assert film()._repr_html_() == fragment(film())
    assert film(ends=1.0).to_html(special=True) == page([film(ends=1.0)], special=True)


def test_no_view_loads_torch() -> None:
    code = (
        "import sys, wherefrom.report.html, wherefrom.report.terminal;"
        " assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def checked(verdict: Verdict = "supported") -> Check:
    strongest = HiddenUnits((1, 3), ("fine", "<b>."), 0.41, 0.963, 20, 0.971, 0.95, 0.98, 1.0, verdict)
    return Check(verdict, 0.977, "delete", 2, strongest=strongest)


@pytest.mark.parametrize("show", [fragment, lambda one: page([one])], ids=["fragment", "page"])
@pytest.mark.parametrize("verdict", ["supported", "weak", "not supported", "too short"])
def test_the_check_is_told_in_words(show: Callable[[Explanation], str], verdict: Verdict) -> None:
    html = show(film(check=checked(verdict)))
    told = " ".join("".join(Reader(html).texts).split())
    assert (
        f"{verdict} Hiding the 2 strongest tokens: 97.7% -> 41.0%. Hiding 2 tokens at random: 97.1% (95 to 98)."
        " Keeping only them: 96.3%."
    ) in told
    assert 'Hidden: "fine", "<b>."; 20 random choices.' in told
    assert 'class="check"' not in show(film())


@pytest.mark.parametrize("show", [fragment, lambda one: page([one])], ids=["fragment", "page"])
def test_what_is_not_assigned_is_a_bar_beside_the_scores(show: Callable[[Explanation], str]) -> None:
    """A largest score of 2 beside 4 that went to no token."""
    html = show(film(unassigned=4.0, gap=-1.0))
    assert re.search(r'class="apart"><bdi>unassigned</bdi>.*?style="--w:1" .*?<b>\+4.000</b>', html)
    assert re.search(r'class="apart"><bdi>gap</bdi>.*?class="t against" style="--w:0.25" .*?<b>-1.000</b>', html)
    assert 'class="apart"' not in show(film())


def test_bars_share_their_scale_with_what_is_not_assigned() -> None:
    html = page([film(unassigned=4.0)])
    assert re.search(r'<bdi title="fine">fine</bdi><span class="track both"><span class="t for" style="--w:0.5"', html)


def test_a_language_model_predicts_the_next_token() -> None:
    html = page([film(task="causal_lm", probabilities={"film": 0.7})])
    assert "Probability of the next token" in html
    assert "Probability of every class" not in html


def test_a_scale_of_scores_that_are_alike_starts_at_the_smallest() -> None:
    html = fragment(explain("a b c", (0, 1, 0.9), (2, 3, 1.0), (4, 5, 0.95), signed=False))
    assert Reader(html).styles()["a"] == "t only --s:0;--a:0"
    assert '<span class="without-special">0.900</span>' in html


def test_standard_errors_are_shown_in_numbers_and_as_lines() -> None:
    shown = page([film(standard_errors=(0.1, 0.25, 0.0625, 0.0))])
    assert "+2.000 <small>±0.250</small>" in shown
    assert "--w:1;--e:0.125" in shown  # an eighth of its bar, to either side of the bar's end
    assert 'title="fine  +2.000 ±0.250"' in shown
    assert "<th>standard error</th>" in shown
    assert 'title="fine  +2.000 ±0.250"' in fragment(film(standard_errors=(0.1, 0.25, 0.0625, 0.0)))
    assert "±" not in page([film()])
