"""Numbers and facts in words, the same in every view."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from wherefrom.core.check import Check, HiddenUnits, Verdict
from wherefrom.core.explanation import MINUS, Explanation
from wherefrom.core.labels import token_label, visible
from wherefrom.core.target import written_value
from wherefrom.report.effect import unit_in_words
from wherefrom.report.pieces import Piece

RATHER = " rather than "  # between the two labels of a target that compares them
COMBINATION = re.compile(
    r"(?P<raw>A\*?), (?:(?P<heads>mean|multi) of heads|head (?P<head>\d+)),"
    r" (?:(?P<layers>mean|multi) of layers|layer (?P<layer>\d+)), (?P<matrix>from|to|mean_columns|max_columns)"
)
MATRIX_IN_WORDS = {
    "from": "attention from the deciding position to each token",
    "to": "attention from each token to the deciding position",
    "mean_columns": "mean attention to each token",
    "max_columns": "largest attention to each token",
}
ARROWS = {"higher": "↑", "lower": "↓"}  # beside a metric's name: which values are better
APART_NAMES = {"unassigned": "unassigned", "gap": "completeness gap"}


def percent(probability: float) -> str:
    """One decimal, but never "100.0%" or "0.0%" for what is not quite so."""
    if 0.9995 <= probability < 1:
        return ">99.9%"
    return "<0.1%" if 0 < probability < 0.0005 else f"{probability:.1%}"


def predicts(explanation: Explanation) -> str:
    """What the model gives the target: a probability in percent, or the value that it predicts; nothing where neither
    is known.
    """
    if explanation.value is not None:
        return f"predicts {output(explanation.output, explanation)}"
    return "" if explanation.probability is None else percent(explanation.probability)


def output(of_target: float, explanation: Explanation) -> str:
    """A probability of this explanation's target in percent, or a value in digits."""
    return percent(of_target) if explanation.value is None else written_value(of_target)


def number(score: float, scale: float, *, signed: bool) -> str:
    """Three decimals, or scientific notation where the scores of the list are tiny or huge."""
    shown = f"{score:+.3f}" if scale == 0 or 0.01 <= scale < 10_000 else f"{score:+.2e}"
    if (
        not any(digit in "123456789" for digit in shown.partition("e")[0]) and "n" not in shown
    ):  # "-0.000" loses its sign; "inf" and "nan" keep theirs
        return shown[1:]
    return shown if signed or score < 0 else shown[1:]


def visible_rows(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and values for a page's list of facts, without the empty ones."""
    return [(name, visible(value)) for name, value in rows if value]


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def predicted(explanation: Explanation) -> str | None:
    """What the model predicts, where that is not what is explained.

    Of a multi-label model every likely label is predicted. "A rather than B" is no label; where A is predicted, that is
    what is explained.
    """
    if explanation.value is not None:
        return None
    if explanation.prediction == explanation.target or explanation.target.startswith(
        f"{explanation.prediction}{RATHER}"
    ):
        return None
    if explanation.independent and explanation.output >= 0.5:
        return None
    probability = explanation.probabilities.get(explanation.prediction)
    return explanation.prediction if probability is None else f"{explanation.prediction} ({percent(probability)})"


def described(piece: Piece, score: str) -> str:
    """A piece and its number, with the model's own token where that is written otherwise."""
    tokens = "" if (piece.label,) == piece.tokens else f" · {' '.join(piece.tokens)}"
    return f"{piece.label}  {score}{tokens}"


def options(params: Mapping[str, Any]) -> str:
    return ", ".join(_option(name, value) for name, value in params.items())


def _option(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{name}: {options(value) or '-'}"
    if name == "winner":
        return f"winner: {combination(str(value))}"
    return f"{name}={value}"


def combination(written: str) -> str:
    """A combination of attention operations in words; anything else, such as a method's name, as it is."""
    match = COMBINATION.fullmatch(written)
    if match is None:
        return written
    heads, head, layers, layer = match.group("heads", "head", "layers", "layer")
    of_heads = {"mean": "the mean of all heads", "multi": "all heads multiplied"}.get(heads or "", f"head {head}")
    if layers is None:
        place = f"{of_heads} of layer {layer}"
    else:
        together = {"mean": "layers averaged", "multi": "layers multiplied"}[layers]
        place = f"{of_heads} of every layer, {together}"
    before = " before the softmax" if match["raw"] == "A*" else ""
    return f"{place}, {MATRIX_IN_WORDS[match['matrix']]}{before}"


def doubts(explanation: Explanation) -> list[tuple[str, str]]:
    """What was not read, and what the scores cost; without what does not apply."""
    passes = [
        f"{count} {name}"
        for count, name in ((explanation.forwards, "forward"), (explanation.backwards, "backward"))
        if count
    ]
    rows = [
        ("cut", f"{explanation.cut} token{'s' * (explanation.cut != 1)} not read" if explanation.cut else ""),
        ("standard error", _standard_error(explanation)),
        ("passes", ", ".join(passes)),
        ("time", duration(explanation.seconds) if explanation.seconds else ""),
    ]
    return [row for row in rows if row[1]]


def _standard_error(explanation: Explanation) -> str:
    """How far the scores would vary with another seed, beside the largest of them."""
    errors = explanation.standard_errors
    if not errors:
        return ""
    largest = max(map(abs, explanation.scores))
    if not any(errors):
        return "none: the scores are exact, nothing was drawn at random"
    worst = f"±{number(max(errors), largest, signed=False)} at most, beside a largest score of"
    return f"{worst} {number(largest, largest, signed=False)}"


def plus_minus(error: float | None, scale: float) -> str:
    """A standard error, to be written after its score; empty where there is none."""
    return f"±{number(error, scale, signed=False)}" if error else ""


def facts(explanation: Explanation) -> list[tuple[str, str]]:
    rows = [
        ("method", explanation.method),
        ("options", options(explanation.params)),
        ("model", explanation.model),
        ("explained", explanation.target),
        ("predicted", explanation.prediction),
        ("scores by", ": ".join(filter(None, (explanation.level, unit_rule(explanation))))),
        ("unit", unit_in_words(explanation).removeprefix("in ")),
    ]
    apart = [(APART_NAMES[name], f"{value:+.3g}") for name, value in unassigned(explanation)]
    notes = [("note", note) for note in notes_of(explanation)]
    return [row for row in rows if row[1]] + apart + doubts(explanation) + notes


def unit_rule(explanation: Explanation) -> str:
    """What the score of a word or sentence is made of; nothing by token."""
    if explanation.level == "token":
        return ""
    if explanation.pooling is None:
        return f"the method scored each {explanation.level} as a whole"
    how = {"sum": "sum", "mean": "mean", "max": "largest"}[explanation.pooling]
    return f"the score of a {explanation.level} is the {how} of its tokens' scores"


def scale_ends(explanation: Explanation, target: str = "") -> tuple[str, str]:
    """What a negative and a positive score mean; of a difference, which of two methods gives more."""
    first, minus, second = explanation.method.partition(MINUS)
    return (
        (f"more by {second}", f"more by {first}") if minus else (f"against {target}".strip(), f"for {target}".strip())
    )


def unassigned(explanation: Explanation) -> list[tuple[str, float]]:
    """What the method could not share out among the units, to be shown beside their scores."""
    rows = [("unassigned", explanation.unassigned), ("gap", explanation.gap)]
    return [(name, value) for name, value in rows if value is not None]


def classes_heading(explanation: Explanation) -> str:
    """What the listed probabilities are of."""
    if explanation.independent:
        return "Probability of every label, each on its own"
    return {
        "causal_lm": "Probability of the next token",
        "masked_lm": "Probability of the token at the mask",
        "token_classification": "Probability of every tag of the word",
    }.get(explanation.task, "Probability of every class")


def notes_of(explanation: Explanation) -> list[str]:
    """What the method has to say, with combinations of attention operations in words."""
    return [COMBINATION.sub(lambda match: combination(match[0]), note) for note in explanation.notes]


class Finding(NamedTuple):
    """What a check found of one side, in words."""

    verdict: Verdict
    sentence: str
    which: str  # the units that were hidden, and how many random choices


def findings(explanation: Explanation) -> list[Finding]:
    """The check of an explanation in words: of the strongest units, and of those against; nothing without a check."""
    check = explanation.check
    if check is None:
        return []
    result = []
    if check.strongest is not None:
        result.append(_finding(explanation, check, check.strongest, "strongest {}"))
    if check.against is not None:
        result.append(_finding(explanation, check, check.against, "{} most against it"))
    return result or [Finding(check.verdict, "No score differs from zero: there is nothing to hide.", "")]


def _finding(explanation: Explanation, check: Check, hiding: HiddenUnits, name: str) -> Finding:
    count = len(hiding.units)
    units = f"{explanation.level}{'s' * (count != 1)}"
    what = name.format(units)
    whole, hidden, mean = (output(value, explanation) for value in (check.whole, hiding.hidden, hiding.mean))
    parts = [f"Hiding the {what if count == 1 else f'{count} {what}'}: {whole} -> {hidden}."]
    if hiding.draws:
        edges = (
            between(hiding.low, hiding.high) if explanation.value is None else _values_between(hiding.low, hiding.high)
        )
        parts.append(f"Hiding {count} {units} at random: {mean} ({edges}).")
    if hiding.kept is not None:
        parts.append(f"Keeping only {'it' if count == 1 else 'them'}: {output(hiding.kept, explanation)}.")
    if hiding.verdict == "too short":
        parts.append("The text is too short to tell: random choices are few, and mostly share these.")
    which = ", ".join(f'"{token_label(text)}"' for text in hiding.texts)  # some of them may be commas
    return Finding(hiding.verdict, " ".join(parts), f"{which}; {hiding.draws} random choices")


def between(low: float, high: float) -> str:
    """An interval in percent: whole numbers where it is wide, a decimal where it is narrow."""
    digits = 0 if high - low >= 0.02 else 1
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}"


def _values_between(low: float, high: float) -> str:
    return f"{written_value(low)} to {written_value(high)}"
