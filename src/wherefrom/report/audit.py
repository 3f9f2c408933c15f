"""An audit as a self-contained page: a summary that can be shown, then the evidence for every sentence of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wherefrom.core.audit import Audit, AuditExample, AuditWord, CalibrationBin, Estimate, TextChange, WordChange
from wherefrom.core.labels import visible
from wherefrom.report.audit_card import limits
from wherefrom.report.audit_wording import (
    BRACKETS,
    amount,
    evidence,
    percent_of,
    points,
    quoted,
    sentences,
    share_of,
    short,
)
from wherefrom.report.document import render_page
from wherefrom.report.html import ExplanationView, view
from wherefrom.report.page_table import EMPTY, PageTable, ScoreCell
from wherefrom.report.wording import output

OPEN = 3  # labels whose words are shown without a click


class IntervalBar(NamedTuple):
    """A share with its interval, drawn on a line from 0 to 1."""

    name: str
    text: str
    value: float
    low: float
    high: float
    texts: str


@dataclass(frozen=True)
class LabelWords:
    """What the model leans on for one label."""

    label: str
    heavy: PageTable | None
    other: PageTable | None  # words of grammar and marks, apart


class ShortcutView(NamedTuple):
    """A suspected shortcut."""

    name: str
    label: str
    kind: str
    text: str
    statistics: str
    places: list[tuple[str, str]]


class ExampleView(NamedTuple):
    """A text with its colours."""

    example: str
    line: str
    wrong: bool
    change: str
    view: ExplanationView


def audit_page(audit: Audit) -> str:
    """The page."""
    regression = audit.kind == "value"
    return render_page(
        "audit.html",
        title=f"What {short(audit.model)} leans on",
        styles=("text.css", "page.css", "benchmark.css", "audit.css"),
        scripts=("benchmark.js",),
        audit=audit,
        about=f"{audit.texts:,} texts of {short(audit.data)} · {audit.date}",
        sentences=sentences(audit),
        brackets=BRACKETS,
        shortcuts=[_shortcut(one) for one in audit.shortcuts],
        words=_words(audit),
        misleading=_misleading(audit),
        sizes=_sizes(audit),
        changes=_text_changes(audit.fragility.changes, regression=regression),
        labels=_labels(audit),
        confusion=_confusion(audit),
        calibration=_calibration(audit.performance.calibration),
        calibration_error=share_of(audit.performance.calibration_error),
        macro_f1=share_of(audit.performance.macro_f1),
        groups=[
            bar
            for group in audit.performance.groups
            if not regression and (bar := _bar(visible(group.name), group.accuracy)) is not None
        ],
        value_groups=_value_groups(audit) if regression else None,
        trust=_trust(audit),
        against=_against(audit),
        examples=[_example(one) for one in audit.examples],
        limits=[visible(limit) for limit in limits(audit)],
        facts=[(visible(name), visible(value)) for name, value in audit.facts.items()],
        open_labels=OPEN,
    )


def _cell(estimate: Estimate, *, regression: bool = False, change: bool = False, strength: float = 0.0) -> ScoreCell:
    """A number with its interval; nothing for too few texts."""
    if estimate.value is None:
        detail = f"in {estimate.texts} texts: too few for a number" if estimate.texts else ""
        return EMPTY._replace(detail=detail)
    text = amount(estimate) if regression else points(estimate) if change else percent_of(estimate.value)
    if not regression and not change:
        text += f" ({percent_of(estimate.low)} to {percent_of(estimate.high)})"
    minus = "minus" if estimate.value < 0 else ""
    return ScoreCell(text, estimate.value, f"95% interval, {estimate.texts:,} texts", minus, strength)


def _count(number: int) -> ScoreCell:
    return ScoreCell(f"{number:,}", number)


def _ratio(z: float | None, q: float | None) -> ScoreCell:
    if z is None or q is None:
        return EMPTY
    return ScoreCell(f"{z:.1f}".replace("-", "−"), z, f"corrected p-value {q:.2g}")


def _places(places: tuple[object, ...]) -> ScoreCell:
    texts = [visible(str(getattr(place, "text", ""))) for place in places]
    return ScoreCell(texts[0] if texts else "", detail="\n".join(texts), classes="place-of-word")


def _words(audit: Audit) -> list[LabelWords]:
    regression = audit.kind == "value"
    shown = []
    for label in dict.fromkeys(word.label for word in audit.words):
        own = [word for word in audit.words if word.label == label]
        heavy = [word for word in own if word.kind == "content"]
        other = [word for word in own if word.kind != "content"]
        tables = [_word_table(some, regression=regression) if some else None for some in (heavy, other)]
        shown.append(LabelWords(visible(label), *tables))
    return shown


def _word_table(words: list[AuditWord], *, regression: bool) -> PageTable:
    columns = [
        ("texts", "texts of this label that contain the word"),
        ("z", "how far its mean score is from that of words of like frequency, in their deviation"),
        ("value falls without it" if regression else "probability falls without it", "mean over texts, 95% interval"),
    ]
    if not regression:
        columns.append(("decisions changed", "share of these texts that are decided otherwise without it"))
    columns.append(("where it weighs most", ""))
    largest = max((abs(word.drop.value or 0.0) for word in words), default=0.0) or 1.0
    rows = []
    for word in words:
        strength = abs(word.drop.value or 0.0) / largest
        cells = [_count(word.texts), _ratio(word.z, word.q)]
        cells.append(_cell(word.drop, regression=regression, change=True, strength=strength))
        if not regression:
            cells.append(_cell(word.flips))
        rows.append((short(word.word), [*cells, _places(word.places)]))
    return PageTable(columns, rows)


def _misleading(audit: Audit) -> PageTable | None:
    if not audit.misleading:
        return None
    columns = [
        ("draws to", "the label that is wrongly given"),
        ("errors with it", "how many such errors contain it"),
        ("of such texts", "share wrongly given this label, among texts of other labels that contain it"),
        ("of those without it", "the same share among texts that do not contain it"),
        ("put right by hiding it", "share of these errors"),
        ("corrected p-value", "Fisher's exact test, corrected for all words and labels"),
        ("where", ""),
    ]
    rows = [
        (
            short(word.word),
            [
                ScoreCell(short(word.label)),
                _count(word.count),
                _cell(word.errors),
                _cell(word.elsewhere),
                _cell(word.fixed),
                ScoreCell(f"{word.q:.2g}", word.q),
                _places(word.places),
            ],
        )
        for word in audit.misleading
    ]
    return PageTable(columns, rows)


KINDS = {
    "misleads": "a word the labels do not support",
    "form": "a word that should not decide",
    "metadata": "a property of the data",
}


def _shortcut(shortcut: object) -> ShortcutView:
    from wherefrom.core.audit import Shortcut

    assert isinstance(shortcut, Shortcut)
    statistics = f"z = {shortcut.z:.1f}, corrected p-value {shortcut.q:.2g}, {shortcut.texts:,} texts"
    places = [(visible(place.example), visible(place.text)) for place in shortcut.places]
    return ShortcutView(
        short(shortcut.name), short(shortcut.label), KINDS[shortcut.kind], evidence(shortcut), statistics, places
    )


def _bar(name: str, estimate: Estimate) -> IntervalBar | None:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    return IntervalBar(
        name, share_of(estimate), estimate.value, estimate.low, estimate.high, f"{estimate.texts:,} texts"
    )


def _sizes(audit: Audit) -> list[IntervalBar]:
    names = ["one word", *(f"up to {number} words" for number in range(2, len(audit.fragility.sizes) + 1))]
    bars = [_bar(name, size) for name, size in zip(names, audit.fragility.sizes, strict=False)]
    return [bar for bar in bars if bar is not None]


def _text_changes(changes: tuple[TextChange, ...], *, regression: bool) -> PageTable | None:
    if not changes:
        return None
    columns = [("texts", "texts that it alters")]
    if not regression:
        columns.append(("decisions changed", "share of these, with its 95% interval"))
    columns.append(("value moves by" if regression else "probability moves by", "mean over texts, in either direction"))
    rows = []
    for change in changes:
        cells = [_count(change.shift.texts)]
        if not regression:
            cells.append(_cell(change.flips))
        cells.append(_cell(change.shift, regression=regression, change=True))
        name = f"{change.group}: {change.name}" if change.group else change.name
        rows.append((short(name), cells))
    return PageTable(columns, rows)


def _labels(audit: Audit) -> PageTable | None:
    labels = audit.performance.labels
    if not labels:
        return None
    columns = [
        ("texts", "texts that have this label"),
        ("found", "recall: the share of these that it is predicted for"),
        ("right when predicted", "precision"),
        ("F1", "the harmonic mean of both"),
    ]
    rows = [
        (
            short(one.label),
            [
                _count(one.texts),
                _cell(one.recall),
                _cell(one.precision),
                EMPTY if one.f1 is None else ScoreCell(f"{one.f1:.2f}", one.f1),
            ],
        )
        for one in labels
    ]
    return PageTable(columns, rows)


def _confusion(audit: Audit) -> list[tuple[str, list[tuple[int, str]]]]:
    """Rows of the matrix: a label, and counts with the strength of their colour."""
    rows = audit.performance.confusion
    return [
        (short(one.label), [(count, f"{count / max(1, sum(row)):.2f}") for count in row])
        for one, row in zip(audit.performance.labels, rows, strict=bool(rows))
    ]


def _calibration(bins: tuple[CalibrationBin, ...]) -> list[IntervalBar]:
    bars = []
    for one in bins:
        bar = _bar(f"{100 * one.low:.0f}% to {100 * one.high:.0f}% sure", one.accuracy)
        if bar is not None and one.confidence is not None:
            bars.append(bar._replace(texts=f"{percent_of(one.confidence)} sure on average, {bar.texts}"))
    return bars


def _value_groups(audit: Audit) -> PageTable | None:
    rows = [
        (short(group.name), [_count(group.accuracy.texts), _cell(group.accuracy, regression=True)])
        for group in audit.performance.groups
    ]
    return PageTable([("texts", ""), ("mean error", "mean absolute error, 95% interval")], rows) if rows else None


def _trust(audit: Audit) -> list[IntervalBar]:
    found = audit.trust
    named = (("supported", found.supported), ("weakly supported", found.weak), ("not supported", found.refuted))
    return [bar for name, estimate in named if (bar := _bar(name, estimate)) is not None]


class AgainstView(NamedTuple):
    """The older model beside this one."""

    model: str
    accuracy: str
    words: PageTable | None
    looked_at: int
    new: list[str]
    gone: list[str]
    examples: list[tuple[str, str]]


def _against(audit: Audit) -> AgainstView | None:
    changes = audit.changes
    if changes is None:
        return None
    return AgainstView(
        short(changes.model),
        share_of(changes.accuracy),
        _changed_words(changes.words, regression=audit.kind == "value") if changes.words else None,
        changes.looked_at,
        [short(name) for name in changes.new_shortcuts],
        [short(name) for name in changes.gone_shortcuts],
        [(visible(place.example), visible(place.text)) for place in changes.examples],
    )


def _changed_words(words: tuple[WordChange, ...], *, regression: bool) -> PageTable:
    columns = [
        ("label", ""),
        ("texts", "texts that both models give this label"),
        ("before", "how far the probability (or the value) falls without the word in the older model"),
        ("now", "the same in this model"),
        ("difference", "text by text, 95% interval"),
        ("where", ""),
    ]
    rows = []
    for word in words:
        cells = [ScoreCell(short(word.label)), _count(word.difference.texts)]
        cells += [_cell(one, regression=regression, change=True) for one in (word.old, word.new, word.difference)]
        rows.append((short(word.word), [*cells, _places(word.places)]))
    return PageTable(columns, rows)


def _example(one: AuditExample) -> ExampleView:
    explanation = one.explanation
    decided = output(explanation.output, explanation)
    line = f"{short(explanation.target)} {decided}"
    if one.gold is not None:
        line += f" · in the data: {short(one.gold)}"
    change = ""
    if one.hidden and one.becomes is not None:
        words = ", ".join(quoted(word) for word in one.hidden)
        right = ", which is right" if one.fixed else ""
        change = f"Without {words} it becomes {quoted(one.becomes)}{right}."
    return ExampleView(visible(one.example), line, bool(one.wrong), change, view(explanation, special=False))
