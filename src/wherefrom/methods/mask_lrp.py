"""Mask-LRP: how much of each token reaches the deciding position through the heads that look at positions or syntax.

As `transatt`, with relevance leaving each block only through the heads of the mask. `heads` is a file written by
`wherefrom heads`, what `wherefrom.heads.find_heads` gives, or one number a head: (layer, head); without it all heads
count, which is `transatt`.

bare: a block of which the mask leaves no head is passed by the residual alone, with a note; or is an error.
variant: the paper's formula, in which the mask also holds for what is shown and relevance is conserved; or what its
    code computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from wherefrom.case.case import Attribution, Case
from wherefrom.errors import BadOption
from wherefrom.heads.masks import mask_of
from wherefrom.methods.lrp import PassPrecision, relevance_reads
from wherefrom.methods.transatt import rolled_out
from wherefrom.model.relevance.propagation import MaskVariant, Propagation
from wherefrom.registry import method

UNMASKED = "No heads were given, so all of them count, as in transatt: see 'wherefrom heads'."


def same_as(options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Without a mask it is transatt, and no method of its own."""
    if options["heads"] is not None or options["variant"] != "paper":
        return None
    return "transatt", {name: options[name] for name in ("normalise", "precision")}


@method(
    family="relevance",
    signed=False,
    per_class=True,
    reads=relevance_reads,
    paper="Song et al. 2024, arXiv:2401.09972",
    same_as=same_as,
)
def mask_lrp(
    case: Case,
    *,
    heads: object = None,
    variant: MaskVariant = "paper",
    bare: Literal["residual", "error"] = "residual",
    normalise: bool = True,
    precision: PassPrecision = "double",
) -> Attribution:
    double = precision == "double"
    mask = None if heads is None else mask_of(heads, case.model, shape=case.heads(double=double))
    without = ", ".join(str(layer) for layer, row in enumerate(mask or ()) if not any(row))
    if without and bare == "error":
        raise BadOption(
            f"The mask leaves no head in layer {without} (counted from 0), so"
            " relevance has no way through its attention."
            " Lower the thresholds of 'wherefrom heads', or let relevance pass by the residual alone: bare=residual."
        )
    mixed = case.weighted_attention(Propagation("zplus", mask, variant, double))
    if variant == "published":
        mixed = [2 * part for part in mixed]  # it does not halve what attention is given
    notes = [UNMASKED] if mask is None else []
    if without:
        notes.append(f"No head is left in layer {without} (counted from 0): relevance passes it by the residual alone.")
    params: dict[str, object] = (
        {}
        if mask is None
        else {"heads": heads if isinstance(heads, str) else f"{sum(map(sum, mask)):g} of {len(mask) * len(mask[0])}"}
    )
    return Attribution(rolled_out(case, mixed, normalise), params=params, notes=tuple(notes))
