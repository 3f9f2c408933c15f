"""A flow as HTML: point at a token to see which tokens its content comes from, in one layer and since the input."""

from __future__ import annotations

import base64
from typing import NamedTuple

import numpy as np

from wherefrom.core.flow import Flow
from wherefrom.core.labels import token_labels, visible
from wherefrom.core.names import join_names
from wherefrom.report.colour import largest
from wherefrom.report.document import render_fragment, render_page
from wherefrom.report.wording import options, percent, visible_rows

NAMED = 3  # tokens in the sentence about a flow
STEPS = 65535  # shares are sent as two-byte integers, which is finer than the page shows


class TokenChip(NamedTuple):
    """A token as the page shows it, and how strongly it is in the decision, for readers without scripts."""

    label: str
    special: bool
    glued: bool  # follows the token before it without a space
    strength: str
    share: str


def page(flow: Flow) -> str:
    """A self-contained HTML page."""
    facts = [
        ("method", flow.method),
        ("options", options(flow.params)),
        ("model", flow.model),
        ("predicted", _prediction(flow)),
        *(("note", note) for note in flow.notes),
    ]
    return render_page(
        "flow.html",
        styles=("text.css", "page.css", "flow.css"),
        scripts=("flow.js",),
        title=f"Where it came from: {visible(flow.method)}",
        chips=_chips(flow),
        facts=visible_rows(facts),
        words=in_words(flow),
        layers=len(flow.layers),
        start=deciding(flow),
        shares=base64.b64encode((flow.layers * STEPS).round().clip(0, STEPS).astype("<u2").tobytes()).decode(),
        steps=STEPS,
    )


def fragment(flow: Flow) -> str:
    """The content of the deciding position after each layer, for a notebook's output, without scripts."""
    place = deciding(flow)
    rows = [layer[place].tolist() for layer in flow.accumulated] if len(flow.layers) else []
    words = [part >= 0 for part in flow.segment]
    scale = largest(row[i] for row in rows for i in range(len(words)) if words[i]) or 1.0
    return render_fragment(
        "flow_fragment.html",
        method=visible(flow.method),
        prediction=_prediction(flow),
        reader=labels(flow)[place],
        rows=[
            (name, words[i], [(percent(row[i]), f"{min(1.0, row[i] / scale):.3f}") for row in rows])
            for i, name in enumerate(labels(flow))
        ],
        layers=len(rows),
        words=in_words(flow),
        notes=[visible(note) for note in flow.notes],
    )


def _prediction(flow: Flow) -> str:
    """With its probability, which a regression model's value has none of."""
    chance = "" if flow.probability is None else f" ({percent(flow.probability)})"
    return f"{visible(flow.prediction)}{chance}" if flow.prediction else ""


def deciding(flow: Flow) -> int:
    """The position looked at first: the one that the decision is read from, or mostly."""
    return int(np.argmax(flow.read))


def labels(flow: Flow) -> list[str]:
    """Every token as all views call it."""
    return token_labels(flow.tokens, flow.offsets, flow.segment, flow.text, flow.pair)


def in_words(flow: Flow) -> str:
    """What a flow shows, from which tokens most of the decision's position comes, and what it cannot tell."""
    place, names = deciding(flow), labels(flow)
    sentences = [f"The decision is read at “{names[place]}”; each column adds up to 1, over all tokens."]
    if len(flow.layers):
        shares = flow.accumulated[-1][place]
        words = [number for number in np.argsort(-shares, kind="stable") if not flow.special[number]][:NAMED]
        named = [f"“{names[number]}” ({percent(float(shares[number]))})" for number in words]
        sentences.append(f"After the last layer most of it comes from {join_names(named)}.")
    sentences.append(
        "It shows where content moves, not what speaks for a class: it is the same for every class. `wherefrom explain`"
        " gives scores for one class."
    )
    return " ".join(sentences)


def _chips(flow: Flow) -> list[TokenChip]:
    scores = flow.accumulated[-1][deciding(flow)].tolist() if len(flow.layers) else [0.0] * len(flow.tokens)
    scale = largest(score for score, special in zip(scores, flow.special, strict=True) if not special) or largest(
        scores
    )
    chips, last, reached = [], -1, 0
    for label, (start, end), part, score in zip(labels(flow), flow.offsets, flow.segment, scores, strict=True):
        strength = min(1.0, score / scale) if scale else 0.0
        chips.append(
            TokenChip(
                label,
                part < 0,
                part >= 0 and part == last and start == reached,
                f"{strength:.3f}",
                percent(score),
            )
        )
        last, reached = part, end
    return chips
