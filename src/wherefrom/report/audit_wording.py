"""An audit in plain sentences, each with its number and interval: for the page, the terminal and the model card."""

from __future__ import annotations

from typing import NamedTuple

from wherefrom.core.audit import Audit, AuditWord, Estimate, Misleading, Shortcut
from wherefrom.core.labels import visible
from wherefrom.core.target import written_value

BRACKETS = "In brackets: 95% intervals."
LONGEST = 48  # characters of a word, label or name in a sentence


class Sentence(NamedTuple):
    """One finding."""

    headline: str  # the number alone
    about: str  # what it is the number of
    text: str  # a whole sentence, with the number and its interval
    alarming: bool = False
    between: str = ""  # the interval alone


def quoted(name: str) -> str:
    """A word, label or name within a sentence."""
    return f"“{short(name)}”"


def short(name: str) -> str:
    """A name on one line, not too long."""
    shown = " ".join(visible(name).split())
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def percent_of(value: float | None) -> str:
    """A share in percent; a decimal only where it is below one percent or above 99."""
    if value is None:
        return "–"
    digits = 1 if 0 < value < 0.01 or 0.99 < value < 1 else 0
    return f"{100 * value:.{digits}f}%"


def share_of(estimate: Estimate) -> str:
    """A share with its interval."""
    if estimate.value is None:
        return "–"
    return f"{percent_of(estimate.value)} ({interval(estimate)})"


def interval(estimate: Estimate) -> str:
    """The interval of a share."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    return f"{percent_of(estimate.low)} to {percent_of(estimate.high)}"


def points(estimate: Estimate) -> str:
    """A change of probability in points, with its interval."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "–"
    return f"{_points(estimate.value)} points ({_points(estimate.low)} to {_points(estimate.high)})"


def _points(value: float) -> str:
    shown = f"{100 * value:.1f}" if abs(value) < 0.0995 else f"{100 * value:.0f}"
    return shown.replace("-", "−") if float(shown) else "0"


def amount(estimate: Estimate) -> str:
    """A value in the model's own units, with its interval."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "–"
    value, low, high = (written_value(one).replace("-", "−") for one in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low} to {high})"


def effect(word: AuditWord, *, regression: bool) -> str:
    """What happens without a word."""
    return amount(word.drop) if regression else points(word.drop)


def sentences(audit: Audit) -> list[Sentence]:
    """The summary: what a reader should know first."""
    made = [_performance(audit), _shortcuts(audit), _leans(audit), _fragile(audit), _trusted(audit), _changed(audit)]
    return [sentence for sentence in made if sentence is not None]


def _performance(audit: Audit) -> Sentence | None:
    found = audit.performance
    if audit.kind == "value" and found.error.value is not None:
        text = f"The prediction is off by {amount(found.error)} on average, over {found.error.texts:,} texts"
        if found.correlation.value is not None:
            text += f"; predicted and given values correlate at {amount(found.correlation)}"
        return Sentence(written_value(found.error.value), "mean error", f"{text}.")
    if found.accuracy.value is None:
        return None
    text = f"The model is right on {share_of(found.accuracy)} of {found.accuracy.texts:,} texts"
    named = [one for one in found.labels if one.recall.value is not None]
    if len(named) > 1:
        worst = min(named, key=lambda one: one.recall.value or 0.0)
        text += f"; worst on {quoted(worst.label)}, where it finds {share_of(worst.recall)}"
    return Sentence(percent_of(found.accuracy.value), "of texts right", f"{text}.", between=interval(found.accuracy))


def _leans(audit: Audit) -> Sentence | None:
    heavy = [word for word in audit.words if word.kind == "content" and (word.z or 0) > 0]
    by_label = {
        label: next((w for w in heavy if w.label == label), None) for label in dict.fromkeys(w.label for w in heavy)
    }
    best = [word for word in by_label.values() if word is not None][:2]
    if not best:
        text = f"No word stands out among the {audit.looked_at:,} that were compared with words of like frequency."
        return Sentence("0", "words stand out", text)
    regression = audit.kind == "value"
    what = "value falls" if regression else "its probability falls"
    parts = [
        f"{quoted(word.word)} for {quoted(word.label)} (in {word.texts:,} texts; without it {what} by"
        f" {effect(word, regression=regression)})"
        for word in best
    ]
    return Sentence(f"{len(heavy):,}", "words stand out", f"It leans most on {' and on '.join(parts)}.")


def _shortcuts(audit: Audit) -> Sentence:
    count = len(audit.shortcuts)
    if not count and not audit.tests:
        return Sentence(
            "–", "shortcuts", "Nothing could be tested for shortcuts: the data has too few texts, or no labels."
        )
    if not count:
        text = f"No shortcut is suspected among {audit.tests:,} tests of words and labels."
        return Sentence("0", "suspected shortcuts", text)
    text = f"{count} suspected shortcut{'s' * (count != 1)}, among {audit.tests:,} tests of words and labels. "
    return Sentence(f"{count}", f"suspected shortcut{'s' * (count != 1)}", text + evidence(audit.shortcuts[0]), True)


def evidence(shortcut: Shortcut) -> str:
    """Why a shortcut is suspected."""
    name, label = quoted(shortcut.name), quoted(shortcut.label)
    if shortcut.kind == "form":
        return (
            f"{name} should not decide, but without it {share_of(shortcut.flips)} of the decisions for {label} change"
            f" (in {shortcut.flips.texts:,} texts), more than without words of like frequency."
        )
    text = f"{name} draws texts to {label}: "
    if shortcut.gold.value is not None:
        text += (
            f"of {shortcut.texts:,} texts with it, the model gives {share_of(shortcut.predicted)} this label, the data"
            f" {share_of(shortcut.gold)}."
        )
    if shortcut.fixed.value is not None:
        text += (
            f" Of the {shortcut.fixed.texts:,} decisions that hiding it puts right or makes wrong,"
            f" {share_of(shortcut.fixed)} are put right."
        )
    return text


def misled(word: Misleading) -> str:
    """What a misleading word does."""
    return (
        f"{quoted(word.word)}: {share_of(word.errors)} of the texts with it that are not {quoted(word.label)} are given"
        f" this label, {share_of(word.elsewhere)} of those without it."
    )


def _fragile(audit: Audit) -> Sentence | None:
    found = audit.fragility
    if audit.kind == "value":
        if found.values.value is None:
            return None
        text = f"Hiding a single word moves the value by up to {amount(found.values)}, on average over texts."
        return Sentence(written_value(found.values.value), "moved by one word", text)
    if found.one_word.value is None:
        return None
    text = f"Hiding a single word changes {share_of(found.one_word)} of the decisions"
    if len(found.sizes) > 2 and found.sizes[2].value is not None:
        text += f"; hiding up to three, {share_of(found.sizes[2])}"
    return Sentence(
        percent_of(found.one_word.value), "changed by hiding one word", f"{text}.", between=interval(found.one_word)
    )


def _trusted(audit: Audit) -> Sentence | None:
    found = audit.trust
    if found.supported.value is None:
        return None
    text = (
        f"The explanations of {share_of(found.supported)} of {found.supported.texts:,} texts pass their own test:"
        " hiding the words they name moves the model more than hiding random ones."
    )
    return Sentence(
        percent_of(found.supported.value), "of explanations supported", text, between=interval(found.supported)
    )


def _changed(audit: Audit) -> Sentence | None:
    found = audit.changes
    if found is None:
        return None
    text = f"Beside {quoted(found.model)}, {share_of(found.decisions)} of the decisions are others"
    if found.fixed or found.broken:
        text += f" ({found.fixed:,} put right, {found.broken:,} now wrong)"
    text += f"; the weight of {found.changed_words:,} of {found.looked_at:,} words changed"
    new = len(found.new_shortcuts)
    text += f", and {new} suspected shortcut{'s are' if new != 1 else ' is'} new." if new else "."
    return Sentence(
        percent_of(found.decisions.value), "of decisions changed", text, bool(new), interval(found.decisions)
    )
