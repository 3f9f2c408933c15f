"""Numbers and facts in words, the same in every view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherefrom.core.explanation import Explanation
from wherefrom.report.pieces import Piece


def percent(probability: float) -> str:
    """One decimal, but never "100.0%" or "0.0%" for what is not quite so."""
    if 0.9995 <= probability < 1:
        return ">99.9%"
    return "<0.1%" if 0 < probability < 0.0005 else f"{probability:.1%}"


def number(score: float, scale: float, *, signed: bool) -> str:
    """Three decimals where they tell something, powers of ten where scores are tiny or huge; the same for a whole
    list.
    """
    shown = f"{score:+.3f}" if scale == 0 or 0.01 <= scale < 10_000 else f"{score:+.2e}"
    if (
        not any(digit in "123456789" for digit in shown.partition("e")[0]) and "n" not in shown
    ):  # "-0.000" loses its sign; "inf" and "nan" keep theirs
        return shown[1:]
    return shown if signed or score < 0 else shown[1:]


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def predicted(explanation: Explanation) -> str | None:
    """What the model predicts, where that is not what is explained."""
    if explanation.prediction == explanation.target:
        return None
    probability = explanation.probabilities.get(explanation.prediction)
    return explanation.prediction if probability is None else f"{explanation.prediction} ({percent(probability)})"


def described(piece: Piece, score: str) -> str:
    """A piece and its number, with the model's own token where that is written otherwise."""
    tokens = "" if (piece.label,) == piece.tokens else f" · {' '.join(piece.tokens)}"
    return f"{piece.label}  {score}{tokens}"


def options(params: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}: {options(value) or '-'}" if isinstance(value, Mapping) else f"{name}={value}"
        for name, value in params.items()
    )


def doubts(explanation: Explanation) -> list[tuple[str, str]]:
    """What to know before trusting the scores, and what they cost; without what does not apply."""
    passes = [
        f"{count} {name}"
        for count, name in ((explanation.forwards, "forward"), (explanation.backwards, "backward"))
        if count
    ]
    rows = [
        ("completeness gap", "" if explanation.gap is None else f"{explanation.gap:+.3g}"),
        ("unassigned", "" if explanation.unassigned is None else f"{explanation.unassigned:+.3g}"),
        ("cut", f"{explanation.cut} token{'s' * (explanation.cut != 1)} not read" if explanation.cut else ""),
        ("passes", ", ".join(passes)),
        ("time", duration(explanation.seconds) if explanation.seconds else ""),
    ]
    return [row for row in rows if row[1]]


def facts(explanation: Explanation) -> list[tuple[str, str]]:
    rows = [
        ("method", explanation.method),
        ("options", options(explanation.params)),
        ("model", explanation.model),
        ("explained", explanation.target),
        ("predicted", explanation.prediction),
        ("scores by", explanation.level),
    ]
    return [row for row in rows if row[1]] + doubts(explanation) + [("note", note) for note in explanation.notes]
