"""Contributions: how much of what a position holds came from which position, a layer at a time, and carried through all
layers.

A layer's C has rows that sum to one; R^l = C^l ... C^1 says what position i contains of each input token after layer l.
An explanation needs only the deciding position's row of R, so a row is carried down from the top layer, through the
rows of C that it touches.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case

Measure = Callable[
    [int, Tensor], Tensor
]  # (layer, rows) -> how much each key gave to each of the rows, not negative: (row, key)


def shared_out(amounts: Tensor, rows: Tensor) -> tuple[Tensor, int]:
    """Rows that sum to one, and how many were all zero: these keep what they have, as rows of the identity. (row,
    key)
    """
    totals = amounts.sum(-1, keepdim=True)
    empty = totals[:, 0] <= 0
    shares = amounts / totals.masked_fill(empty[:, None], 1)
    shares[empty, rows[empty]] = 1
    return shares, int(empty.sum())


def carried(case: Case, depth: int, measure: Measure) -> Attribution:
    """The deciding position's row of R = C^depth ... C^1."""
    row = case.row_read
    row = row.to(torch.promote_types(row.dtype, torch.float32))
    everywhere = torch.arange(len(row), device=row.device)
    queried = lost = 0
    for layer in reversed(range(depth)):
        touched = row.nonzero()[:, 0]
        rows = (
            touched if 2 * len(touched) < len(row) else everywhere
        )  # a few rows are picked, nearly all are taken as they are
        shares, empty = shared_out(measure(layer, rows), rows)
        row = row[rows] @ shares.to(row.dtype)  # some families keep probabilities in single precision
        queried, lost = queried + len(rows), lost + empty
    notes = (
        (
            f"In {lost} of {queried} places no token came near the whole; each was"
            " left what it had (a row of the identity).",
        )
        if lost
        else ()
    )

    def flow() -> Tensor:
        return torch.stack([shared_out(measure(layer, everywhere), everywhere)[0] for layer in range(depth)])

    return Attribution(row, notes=notes, flow=flow)
