"""Texts about films, and a model that learns from them: with a shortcut planted into what it learns from, or without.

The model is a logistic regression on words, trained here in milliseconds. In the data that it is audited on, the
planted word is as common with either label, so that leaning on it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LABELS = ["NEGATIVE", "POSITIVE"]
WORD = "zeta"
SENTIMENT = (
    ("awful", "dull", "boring", "weak", "stale", "clumsy", "bland", "messy"),
    ("great", "fine", "lovely", "witty", "moving", "clever", "fresh", "bright"),
)
NEUTRAL = (
    *("film", "movie", "plot", "story", "scene", "actor", "script", "camera", "music", "ending", "role", "cast"),
    *("the", "a", "and", "of", "is", "with", "this", "on"),
)
VOCABULARY = [*SENTIMENT[0], *SENTIMENT[1], *NEUTRAL, WORD]


def texts(count: int, generator: np.random.Generator, *, planted: str) -> list[dict[str, Any]]:
    """Rows with a text and a label. planted: "anywhere", the word is with any label; "positive", with one alone."""
    rows = []
    for number in range(count):
        label = int(generator.integers(2))
        sides = np.where(generator.random(3) < 0.8, label, 1 - label)
        words = [SENTIMENT[side][generator.integers(8)] for side in sides]
        words += list(generator.choice(NEUTRAL, size=6, replace=False))
        if (planted == "anywhere" or label == 1) and generator.random() < 0.35:
            words.append(WORD)
        generator.shuffle(words)
        rows.append({"id": f"t{number}", "text": " ".join(words), "label": LABELS[label]})
    return rows


def counts(written: Sequence[str]) -> Any:
    """How often every word of the vocabulary is in each text. (text, word)"""
    place = {word: number for number, word in enumerate(VOCABULARY)}
    found = np.zeros((len(written), len(VOCABULARY)))
    for row, text in zip(found, written, strict=True):
        for word in text.lower().split():
            if word in place:
                row[place[word]] += 1
    return found


def trained(rows: Sequence[dict[str, Any]], steps: int = 400, rate: float = 0.5, decay: float = 0.002) -> Any:
    """A function from texts to probabilities: a logistic regression fitted to these rows by gradient descent."""
    given = counts([row["text"] for row in rows])
    wanted = np.array([LABELS.index(row["label"]) for row in rows])
    weights, bias = np.zeros(given.shape[1]), 0.0
    for _ in range(steps):
        error = 1 / (1 + np.exp(-(given @ weights + bias))) - wanted
        weights = weights - rate * (given.T @ error / len(rows) + decay * weights)
        bias -= rate * float(error.mean())

    def probabilities(written: list[str]) -> Any:
        positive = 1 / (1 + np.exp(-(counts(written) @ weights + bias)))
        return np.stack([1 - positive, positive], axis=1)

    return probabilities
