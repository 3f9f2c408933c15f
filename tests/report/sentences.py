"""Explanations made by hand, whose views are known beforehand."""

from __future__ import annotations

from typing import Any

from wherefrom.core.explanation import Explanation


def explain(text: str, *spans: tuple[int, int, float], ends: float | None = None, **more: Any) -> Explanation:
    """One token for each (start, end, score); between [CLS] and [SEP], with `ends` as their score, where that is
    given.
    """
    rows: list[tuple[str, float, tuple[int, int], int]] = [
        (text[start:end], score, (start, end), 0) for start, end, score in spans
    ]
    if ends is not None:
        rows = [("[CLS]", ends, (0, 0), -1), *rows, ("[SEP]", ends, (0, 0), -1)]
    tokens, scores, offsets, segment = zip(*rows, strict=True)
    given: dict[str, Any] = {
        "target": "positive",
        "probability": 0.75,
        "prediction": "positive",
        "method": "attcat",
    } | more
    return Explanation(text=text, tokens=tokens, scores=scores, offsets=offsets, segment=segment, **given)


def film(**more: Any) -> Explanation:
    """A  fine film.: A +0, fine +2, film -1, and the full stop +0.5; two spaces after the A."""
    return explain("A  fine film.", (0, 1, 0.0), (3, 7, 2.0), (8, 12, -1.0), (12, 13, 0.5), **more)


def pair(**more: Any) -> Explanation:
    """[CLS] Two men. [SEP] No one! [SEP]"""
    given: dict[str, Any] = {
        "target": "neutral",
        "probability": 0.5,
        "prediction": "neutral",
        "method": "attcat",
    } | more
    return Explanation(
        text="Two men.",
        pair="No one!",
        tokens=("[CLS]", "two", "men", ".", "[SEP]", "no", "one", "!", "[SEP]"),
        scores=(9.0, 1.0, -2.0, 0.0, 9.0, 0.5, 4.0, 0.0, 9.0),
        offsets=((0, 0), (0, 3), (4, 7), (7, 8), (0, 0), (0, 2), (3, 6), (6, 7), (0, 0)),
        segment=(-1, 0, 0, 0, -1, 1, 1, 1, -1),
        **given,
    )
