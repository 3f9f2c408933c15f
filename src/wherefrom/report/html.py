"""Explanations as HTML: a fragment for notebooks, a page to keep or send, and the difference of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from wherefrom.core.explanation import Explanation
from wherefrom.report.colour import DARK, LIGHT, Side, largest, shade
from wherefrom.report.pieces import Piece, TextRun, lines, pieces, visible
from wherefrom.report.selection import CandidateTable, OperationMap, candidate_tables, operation_maps
from wherefrom.report.wording import described, doubts, facts, number, options, percent, predicted

TOP = 10


class ColouredUnit(NamedTuple):
    """A coloured token, word or sentence, prepared for a template."""

    text: str
    tip: str
    number: str
    side: Side
    strength: str  # while special tokens are hidden
    strength_of_all: str  # while they are shown, as they then set the scale too
    special: bool
    mark: bool  # True for what has no text of its own, such as a special token


class TextStretch(NamedTuple):
    """A stretch of the text: coloured where it is a unit, plain between units."""

    text: str
    spot: ColouredUnit | None
    unread: bool


class Scale(NamedTuple):
    """The largest score among what is shown, without special tokens and with them."""

    shown: float
    all: float

    def number(self, score: float, *, signed: bool) -> str:
        return number(score, self.shown or self.all, signed=signed)


@dataclass(frozen=True)
class ExplanationView:
    """An explanation prepared for the templates, which contain no logic of their own."""

    explanation: Explanation
    shown: list[Piece]
    scale: Scale
    names: tuple[str, str]  # of the two ends of a signed scale
    versus: tuple[str, str] | None = None  # for a difference: what is compared
    unsigned: tuple[str, ...] = ()  # and which of these have no sign

    @property
    def headline(self) -> dict[str, str]:
        explanation = self.explanation
        return {
            "method": visible(explanation.method),
            "options": visible(options(explanation.params)),
            "target": visible(explanation.target),
            "probability": percent(explanation.probability),
            "predicted": visible(predicted(explanation) or ""),
        }

    @property
    def signed(self) -> bool:
        return self.explanation.signed

    @property
    def lines(self) -> list[list[TextStretch]]:
        return [[self._stretch(run) for run in line] for line in lines(self.explanation, self.shown)]

    def _stretch(self, run: TextRun) -> TextStretch:
        return TextStretch(
            visible(run.text), self._spot(run.piece, text=visible(run.text)) if run.piece else None, run.unread
        )

    def _spot(self, piece: Piece, *, text: str = "") -> ColouredUnit:
        return self._coloured(
            piece, piece.score, self.scale, text, described(piece, self.scale.number(piece.score, signed=self.signed))
        )

    def _coloured(self, piece: Piece, score: float, scale: Scale, text: str, tip: str) -> ColouredUnit:
        side, strength = shade(score, scale.shown, signed=self.signed)
        of_all = shade(score, scale.all, signed=self.signed).strength
        figure = scale.number(score, signed=self.signed)
        return ColouredUnit(
            text or piece.label,
            visible(tip),
            figure,
            side,
            _short(strength),
            _short(of_all),
            piece.special,
            mark=not text,
        )

    @property
    def zero(self) -> bool:
        return not self.scale.all

    @property
    def has_special(self) -> bool:
        return any(piece.special for piece in self.shown)

    def top(self, *, special: bool) -> list[ColouredUnit]:
        candidates = [piece for piece in self.shown if special or not piece.special]
        return [self._spot(piece) for piece in sorted(candidates, key=lambda piece: -abs(piece.score))[:TOP]]

    @property
    def ends(self) -> tuple[str, str]:
        """The numbers at full strength, for the legend."""
        return number(self.scale.shown, self.scale.shown, signed=False), number(
            self.scale.all, self.scale.shown, signed=False
        )

    @property
    def columns(self) -> list[ColouredUnit]:
        return [self._spot(piece) for piece in self.shown]

    @property
    def heat(self) -> list[list[ColouredUnit]]:
        """(layer, piece), all on one scale."""
        scale = Scale(
            largest(score for piece in self.shown if not piece.special for score in piece.layers),
            largest(score for piece in self.shown for score in piece.layers),
        )
        return [
            [self._cell(piece, piece.layers[layer], scale, layer) for piece in self.shown]
            for layer in range(len(self.explanation.layers or ()))
        ]

    def _cell(self, piece: Piece, score: float, scale: Scale, layer: int) -> ColouredUnit:
        figure = scale.number(score, signed=self.signed)
        return self._coloured(piece, score, scale, "", f"{piece.label}  {figure} · layer {layer + 1}")

    @property
    def probabilities(self) -> list[tuple[str, str, str, bool]]:
        """(label, in words, as a width, whether it is the one explained), the likeliest first."""
        ranked = sorted(self.explanation.probabilities.items(), key=lambda item: -item[1])
        return [
            (visible(label), percent(chance), _short(chance), label == self.explanation.target)
            for label, chance in ranked
        ]

    @property
    def facts(self) -> list[tuple[str, str]]:
        return [(name, visible(value)) for name, value in facts(self.explanation)]

    @property
    def doubts(self) -> list[tuple[str, str]]:
        return doubts(self.explanation)

    @property
    def notes(self) -> list[str]:
        return [visible(note) for note in self.explanation.notes]

    @property
    def maps(self) -> list[OperationMap]:
        return operation_maps(self.explanation)

    @property
    def candidate_tables(self) -> list[CandidateTable]:
        return candidate_tables(self.explanation)

    @property
    def numbers(self) -> list[tuple[int, str, str, str]]:
        """Every unit as the model has it: (place, token, its text, score)."""
        texts = {0: self.explanation.text, 1: self.explanation.pair or ""}
        rows = enumerate(self.explanation.units(special=True))
        return [
            (
                place,
                visible(unit.text),
                visible(texts.get(unit.segment, "")[unit.start : unit.end]),
                f"{unit.score:.6g}",
            )
            for place, unit in rows
        ]


def fragment(explanation: Explanation, special: bool = False) -> str:
    """The coloured text with its headline, for a notebook's output: brings its own style, needs nothing else."""
    return render("fragment.html", view=view(explanation, special=special))


def page(explanations: Sequence[Explanation], *, special: bool = False, title: str | None = None) -> str:
    """A page that stands alone: all that is known of each explanation, and the difference where there are two of one
    text.
    """
    views = [view(explanation) for explanation in explanations]
    compared = _difference(*explanations) if len(explanations) == 2 and _same_text(*explanations) else None
    return render(
        "page.html",
        title=visible(title or _question(explanations)),
        views=views,
        compared=compared,
        brief=[],
        special=special,
    )


def difference(a: Explanation, b: Explanation) -> str:
    """A page on where two explanations of one text disagree: green where `a` gives more, red where `b` does."""
    compared = _difference(a, b)
    title = " or ".join(compared.versus or ())
    return render(
        "page.html", title=visible(title), views=[], compared=compared, brief=[view(a), view(b)], special=False
    )


def view(explanation: Explanation, *, special: bool = True) -> ExplanationView:
    target = visible(explanation.target)
    return _prepared(explanation, (f"against {target}", f"for {target}"), special=special)


def _difference(a: Explanation, b: Explanation) -> ExplanationView:
    first, second = _names(a, b)
    view = _prepared(a.minus(b), (f"more in {second}", f"more in {first}"), special=True)
    unsigned = tuple(name for name, explanation in ((first, a), (second, b)) if not explanation.signed)
    return replace(view, versus=(first, second), unsigned=unsigned if len(unsigned) == 1 else ())


def _prepared(explanation: Explanation, names: tuple[str, str], *, special: bool) -> ExplanationView:
    shown = pieces(explanation, special=special)
    everything = largest(piece.score for piece in shown)
    # A fragment has no switch for special tokens: where it shows them, they set its one scale.
    plain = largest(piece.score for piece in shown if not piece.special)
    return ExplanationView(explanation, shown, Scale(plain, everything), names)


def _names(a: Explanation, b: Explanation) -> tuple[str, str]:
    """The methods, and whatever else tells the two apart."""
    names = [a.method, b.method]
    for word, values in (
        ("for", (a.target, b.target)),
        ("on", (a.model, b.model)),
        ("with", (options(a.params), options(b.params))),
    ):
        if values[0] != values[1] and (word != "with" or a.method == b.method):
            names = [f"{name} {word} {value or 'defaults'}" for name, value in zip(names, values, strict=True)]
    if names[0] == names[1]:
        names = [f"the first {names[0]}", f"the second {names[1]}"]
    return visible(names[0]), visible(names[1])


def _same_text(a: Explanation, b: Explanation) -> bool:
    return (a.text, a.pair, a.level, a.tokens) == (b.text, b.pair, b.level, b.tokens)


def _question(explanations: Sequence[Explanation]) -> str:
    targets = {explanation.target for explanation in explanations}
    return f"Why “{targets.pop()}”?" if len(targets) == 1 else "Explanations"


def _short(strength: float) -> str:
    return f"{strength:.3f}".rstrip("0").rstrip(".")


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("wherefrom.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(name: str, **values: Any) -> str:
    return _templates().get_template(name).render(light=LIGHT, dark=DARK, **values)
