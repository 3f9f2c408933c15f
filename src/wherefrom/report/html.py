"""Explanations as HTML: a fragment for notebooks, a page to keep or send, and the difference of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from wherefrom.core.comparison import Rationale
from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import visible
from wherefrom.report.colour import ColourScale, Side, coloured, largest, scale_of, shade
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.effect import effect_of, loudness_of, moved_by, unit_in_words, warning
from wherefrom.report.marks import MARKED_BY_PEOPLE, NOTHING_MARKED, with_marks
from wherefrom.report.pieces import Piece, TextRun, line_extents, lines, pieces
from wherefrom.report.selection import CandidateTable, OperationMap, candidate_tables, operation_maps
from wherefrom.report.wording import (
    Finding,
    classes_heading,
    described,
    doubts,
    facts,
    findings,
    notes_of,
    number,
    options,
    output,
    percent,
    plus_minus,
    predicted,
    predicts,
    scale_ends,
    unassigned,
)

TOP = 10
MANY = 20  # explanations of a list that a notebook shows
TOLD = {
    "unassigned": "the part of the decision that went to no token: to biases or positions",
    "gap": "what the scores should add up to, less what they do",
}


class ColouredUnit(NamedTuple):
    """A coloured token, word or sentence, prepared for a template."""

    text: str
    tip: str
    number: str
    side: Side
    strength: str  # while special tokens are hidden
    strength_of_all: str  # while they are shown, as they then set the scale too
    special: bool
    mark: bool  # True for units without text, such as special tokens
    width: str = "0"  # of its bar, as a share of the longest
    error: str = ""  # its standard error, where it has one
    whisker: str = ""  # half the line through the end of its bar that shows the error, as a share of the bar


class TextStretch(NamedTuple):
    """A stretch of the text: coloured where it is a unit, plain between units."""

    text: str
    spot: ColouredUnit | None
    unread: bool


class MarkedStretches(NamedTuple):
    """Neighbouring stretches that are all marked by people, or all unmarked."""

    marked: bool
    stretches: list[TextStretch]


class TextLine(NamedTuple):
    """A text, its pair, or a turn of a chat with the role that says it."""

    role: str
    parts: list[MarkedStretches]


class Scale(NamedTuple):
    """How scores become colours, without special tokens and with them."""

    shown: ColourScale
    all: ColourScale

    def number(self, score: float, *, signed: bool) -> str:
        return number(score, self.shown.full or self.all.full, signed=signed)


@dataclass(frozen=True)
class ExplanationView:
    """An explanation prepared for the templates, which contain no logic."""

    explanation: Explanation
    shown: list[Piece]
    scale: Scale
    names: tuple[str, str]  # of the two ends of a signed scale
    versus: tuple[str, str] | None = None  # for a difference: what is compared
    unsigned: tuple[str, ...] = ()  # and which of these have no sign
    rationale: Rationale | None = None  # what people marked, where that is known

    @property
    def headline(self) -> dict[str, str]:
        explanation = self.explanation
        return {
            "method": visible(explanation.method),
            "options": visible(options(explanation.params)),
            "target": visible(explanation.target),
            "probability": predicts(explanation),
            "predicted": visible(predicted(explanation) or ""),
        }

    @property
    def signed(self) -> bool:
        return self.explanation.signed

    @property
    def lines(self) -> list[TextLine]:
        result, marks = [], self.rationale or ((), ())
        for extent, line in zip(line_extents(self.explanation), lines(self.explanation, self.shown), strict=True):
            spans = [(start - extent.start, end - extent.start) for start, end in marks[extent.segment]]
            parts = [
                MarkedStretches(part.marked, [self._stretch(run) for run in part.runs])
                for part in with_marks(line, spans)
            ]
            result.append(TextLine(visible(extent.role), parts))
        return result

    @property
    def marks(self) -> str:
        """The legend of the boxes, or that there are none. Empty where the data has no rationales."""
        if self.rationale is None:
            return ""
        return MARKED_BY_PEOPLE if any(self.rationale) else NOTHING_MARKED

    @property
    def has_marks(self) -> bool:
        return self.rationale is not None and any(self.rationale)

    def _stretch(self, run: TextRun) -> TextStretch:
        return TextStretch(
            visible(run.text), self._spot(run.piece, text=visible(run.text)) if run.piece else None, run.unread
        )

    def _spot(self, piece: Piece, *, text: str = "") -> ColouredUnit:
        figure = self.scale.number(piece.score, signed=self.signed)
        error = plus_minus(piece.error, self.scale.shown.full or self.scale.all.full)
        tip = described(piece, f"{figure} {error}".rstrip())
        return self._coloured(piece, piece.score, self.scale, text, tip)._replace(error=error)

    def _coloured(self, piece: Piece, score: float, scale: Scale, text: str, tip: str) -> ColouredUnit:
        side, strength = coloured(score, scale.shown, signed=self.signed)
        of_all = coloured(score, scale.all, signed=self.signed).strength
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
        return not self.scale.all.full

    @property
    def warning(self) -> str:
        """What a reader must know before looking at the colours."""
        return warning(self.explanation)

    @property
    def loudness(self) -> str:
        """Of the strongest colour, for legends and bars."""
        return _short(self.scale.shown.loudness)

    @property
    def findings(self) -> list[Finding]:
        return [
            finding._replace(sentence=visible(finding.sentence), which=visible(finding.which))
            for finding in findings(self.explanation)
        ]

    @property
    def reach(self) -> str:
        """What the scores mean for the decision, where their unit determines it; for the legend."""
        effect, unit = (None, "") if self.versus else (effect_of(self.explanation), unit_in_words(self.explanation))
        if effect is None or effect.measured:
            return unit
        whole = output(self.explanation.output, self.explanation)
        moved = f"together they could move {whole} by {moved_by(effect, self.explanation)}"
        return "; ".join(filter(None, (unit, moved)))

    @property
    def classes_heading(self) -> str:
        return classes_heading(self.explanation)

    def apart(self, *, special: bool) -> list[ColouredUnit]:
        """What the method could not assign to a unit, as bars on the scale of the units' bars."""
        longest = self._longest(special=special)
        return [
            ColouredUnit(
                name,
                f"{name}: {TOLD[name]}",
                number(value, longest, signed=True),
                shade(value, longest, signed=True).side if self.signed else "only",
                "0",
                "0",
                special=False,
                mark=True,
                width=_short(shade(value, longest, signed=True).strength),
            )
            for name, value in unassigned(self.explanation)
        ]

    def _longest(self, *, special: bool) -> float:
        scores = [piece.score for piece in self.shown if special or not piece.special]
        return largest([*scores, *(value for _, value in unassigned(self.explanation))])

    @property
    def has_special(self) -> bool:
        return any(piece.special for piece in self.shown)

    def top(self, *, special: bool) -> list[ColouredUnit]:
        candidates = [piece for piece in self.shown if special or not piece.special]
        longest = self._longest(special=special)
        return [
            self._spot(piece)._replace(
                width=_short(shade(piece.score, longest, signed=True).strength),
                whisker=_short(piece.error / abs(piece.score)) if piece.error and piece.score else "",
            )
            for piece in sorted(candidates, key=lambda piece: -abs(piece.score))[:TOP]
        ]

    @property
    def ends(self) -> tuple[str, str]:
        """The numbers at full strength, for the legend."""
        shown, everything = self.scale.shown.full, self.scale.all.full
        return number(shown, shown, signed=False), number(everything, shown, signed=False)

    @property
    def starts(self) -> tuple[str, str]:
        """The numbers without colour, for the legend of a method without sign."""
        both = (self.scale.shown, self.scale.all)
        return tuple(number(scale.start, scale.full, signed=False) if scale.start else "0" for scale in both)  # type: ignore[return-value]

    @property
    def columns(self) -> list[ColouredUnit]:
        return [self._spot(piece) for piece in self.shown]

    @property
    def heat(self) -> list[list[ColouredUnit]]:
        """(layer, piece), all on one scale."""
        plain = [score for piece in self.shown if not piece.special for score in piece.layers]
        everything = [score for piece in self.shown for score in piece.layers]
        scale = Scale(
            ColourScale(largest(plain), loudness=self.scale.shown.loudness),
            ColourScale(largest(everything), loudness=self.scale.all.loudness),
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
        return [visible(note) for note in notes_of(self.explanation)]

    @property
    def maps(self) -> list[OperationMap]:
        return operation_maps(self.explanation)

    @property
    def candidate_tables(self) -> list[CandidateTable]:
        return candidate_tables(self.explanation)

    @property
    def has_errors(self) -> bool:
        """Whether scores have standard errors to be shown."""
        return any(self.explanation.standard_errors or ())

    @property
    def numbers(self) -> list[tuple[int, str, str, str, str]]:
        """Every unit as the model has it: (place, token, its text, score, standard error)."""
        texts = {0: self.explanation.text, 1: self.explanation.pair or ""}
        errors = self.explanation.standard_errors or (0.0,) * len(self.explanation.scores)
        rows = enumerate(zip(self.explanation.units(special=True), errors, strict=True))
        return [
            (
                place,
                visible(unit.text),
                visible(texts.get(unit.segment, "")[unit.start : unit.end]),
                f"{unit.score:.6g}",
                f"{error:.2g}",
            )
            for place, (unit, error) in rows
        ]


def fragment(explanation: Explanation, special: bool = False) -> str:
    """The coloured text with its headline, for a notebook's output: self-contained HTML."""
    return render_fragment("fragment.html", view=view(explanation, special=special))


def fragments(explanations: Sequence[Explanation]) -> str:
    """Several of them below each other; of many, the first."""
    shown = "\n".join(fragment(explanation) for explanation in explanations[:MANY])
    left = len(explanations) - MANY
    return shown if left <= 0 else f"{shown}\n<p>and {left:,} more</p>"


def page(explanations: Sequence[Explanation], *, special: bool = False, title: str | None = None) -> str:
    """A self-contained HTML page with every explanation, and the difference where there are two of one text."""
    views = [view(explanation) for explanation in explanations]
    compared = _difference(*explanations) if len(explanations) == 2 and _same_text(*explanations) else None
    return _page(
        title=visible(title or _question(explanations)),
        views=views,
        compared=compared,
        brief=[],
        special=special,
    )


def difference(a: Explanation, b: Explanation) -> str:
    """A page on where two explanations of one text disagree: blue where `a` gives more, orange where `b` does."""
    compared = _difference(a, b)
    title = " or ".join(compared.versus or ())
    return _page(title=visible(title), views=[], compared=compared, brief=[view(a), view(b)], special=False)


def _page(**values: Any) -> str:
    return render_page("page.html", styles=("text.css", "page.css"), scripts=("tip.js",), **values)


def view(explanation: Explanation, *, special: bool = True, rationale: Rationale | None = None) -> ExplanationView:
    prepared = _prepared(explanation, scale_ends(explanation, visible(explanation.target)), special=special)
    return prepared if rationale is None else replace(prepared, rationale=rationale)


def _difference(a: Explanation, b: Explanation) -> ExplanationView:
    first, second = _names(a, b)
    view = _prepared(a.minus(b), (f"more in {second}", f"more in {first}"), special=True)
    unsigned = tuple(name for name, explanation in ((first, a), (second, b)) if not explanation.signed)
    return replace(view, versus=(first, second), unsigned=unsigned if len(unsigned) == 1 else ())


def _prepared(explanation: Explanation, names: tuple[str, str], *, special: bool) -> ExplanationView:
    shown = pieces(explanation, special=special)
    signed = explanation.signed
    # A fragment has no switch for special tokens: where it shows them, they set its one scale.
    plain = scale_of(
        (piece.score for piece in shown if not piece.special), signed=signed, loudness=loudness_of(explanation)
    )
    everything = scale_of(
        (piece.score for piece in shown), signed=signed, loudness=loudness_of(explanation, special=special)
    )
    return ExplanationView(explanation, shown, Scale(plain, everything), names)


def _names(a: Explanation, b: Explanation) -> tuple[str, str]:
    """The names of the methods, and what else differs between the two."""
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
