"""The spread of a regression model's value on one text: what changes of the value are measured in.

A probability is between 0 and 1, so that "it fell by 0.3" has a meaning. A value has no such range.
Its spread is the standard deviation of the model's value over random maskings of the text, each of which deletes every
token with a chance of one half: over all of them where there are at most `MASKINGS` (texts of up to five tokens), else
over so many different ones. The same maskings serve all metrics and methods. If the spread over a data set is
known, pass it instead: `wherefrom.load(..., spread=0.9)`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from wherefrom.case.asking import Asker, PendingAnswers
from wherefrom.core.arrays import Flags
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Target

FILL = "delete"
MASKINGS = 32


@dataclass(frozen=True, eq=False)
class PendingSpread:
    """The maskings of one text, noted with the asker; or the spread that was given."""

    pending: PendingAnswers | None
    constant: float = 1.0

    def of(self, targets: Sequence[Target]) -> float:
        """Zero where the value does not move. There once the asker ran."""
        return self.constant if self.pending is None else float(np.std(self.pending.probability(targets)))


def note_spread(encoding: Encoding, asker: Asker) -> PendingSpread | None:
    """The maskings that the spread on this text is taken over, noted for the asker's next run; None where the model is
    no regression model.
    """
    model = asker.model
    if not model.regression:
        return None
    if model.spread is not None:
        return PendingSpread(None, model.spread)
    return PendingSpread(asker.note(encoding, maskings(encoding), FILL))


def maskings(encoding: Encoding) -> Flags:
    """Which tokens are kept. They depend on nothing but the text. (masking, token)"""
    real = [place for place, special in enumerate(encoding.special) if not special]
    if 2 ** len(real) <= MASKINGS:
        chosen = list(product((True, False), repeat=len(real)))
    else:
        identity = "\0".join((encoding.text, encoding.pair or ""))
        chance = random.Random(hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest())
        different: dict[tuple[bool, ...], None] = {}
        while len(different) < MASKINGS:
            different[tuple(chance.random() < 0.5 for _ in real)] = None
        chosen = list(different)
    keep = np.ones((len(chosen), len(encoding)), dtype=np.bool_)
    keep[:, real] = chosen
    return keep
