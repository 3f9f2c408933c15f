"""Mask-LRP: how much of each token reaches the deciding position through the heads that look at positions or syntax.

As `transatt`, with relevance leaving each block only through the heads of the mask. `heads` is a file written by
`wherefrom heads`, what `wherefrom.heads.find_heads` or `search_heads` gives, or one number a head: (layer, head);
without it all heads count, which is `transatt`.

only: of a head map, the positional or the syntactic heads alone. counts: whether a head that is kept for several
    reasons counts once (capped) or for each (sum, Eq. 6 as it is written).
corrupt: switch on this share of the heads that the mask leaves out, drawn by `seed`. random: as many heads drawn by
    this number instead.
bare: a block of which the mask leaves no head is passed by the residual alone, with a note; or by all of its heads, as
    if it were not masked (skip); or is an error.
variant: the paper's formula, in which the mask also holds for what is shown and relevance is conserved; or what its
    code computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from wherefrom.case.case import Attribution, Case
from wherefrom.errors import BadOption
from wherefrom.heads.head_map import HeadCounts, HeadKind
from wherefrom.heads.masks import mask_of
from wherefrom.methods.lrp import PassPrecision, relevance_reads
from wherefrom.methods.transatt import rolled_out
from wherefrom.model.relevance.propagation import MaskVariant, Propagation
from wherefrom.registry import method

UNMASKED = "No heads were given, so all of them count, as in transatt: see 'wherefrom heads'."


def same_as(options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Without a mask it is transatt, and no method of its own."""
    changed = options["only"] != "all" or options["counts"] != "capped" or options["corrupt"]
    if options["heads"] is not None or options["variant"] != "paper" or changed or options["random"] is not None:
        return None
    return "transatt", {name: options[name] for name in ("normalise", "precision")}


@method(
    family="relevance",
    signed=False,
    per_class=True,
    reads=relevance_reads,
    paper="Song et al. 2024, arXiv:2401.09972",
    same_as=same_as,
    one_pass=True,
    sets={"heads": 1},
)
def mask_lrp(
    case: Case,
    *,
    heads: object = None,
    variant: MaskVariant = "paper",
    bare: Literal["residual", "skip", "error"] = "residual",
    only: HeadKind = "all",
    counts: HeadCounts = "capped",
    corrupt: float = 0.0,
    random: int | None = None,
    seed: int = 0,
    normalise: bool = True,
    precision: PassPrecision = "double",
) -> Attribution:
    double = precision == "double"
    if heads is None and (only != "all" or counts != "capped" or corrupt or random is not None):
        raise BadOption(
            "only=, counts=, corrupt= and random= change a mask: give one with heads=FILE ('wherefrom heads')."
        )
    mask = None
    if heads is not None:
        mask = mask_of(
            heads,
            case.model,
            shape=case.heads(double=double),
            only=only,
            counts=counts,
            corrupt=corrupt,
            random=random,
            seed=seed,
        )
    without = ", ".join(str(layer) for layer, row in enumerate(mask or ()) if not any(row))
    if without and bare == "error":
        raise BadOption(
            f"The mask leaves no head in layer {without} (counted from 0), so"
            " relevance has no way through its attention."
            " Lower the thresholds of 'wherefrom heads', or let relevance pass by the residual alone: bare=residual."
        )
    if mask is not None and bare == "skip":
        mask = tuple(row if any(row) else (1.0,) * len(row) for row in mask)
    mixed = case.weighted_attention(Propagation("zplus", mask, variant, double))
    if variant == "published":
        mixed = [2 * part for part in mixed]  # it does not halve what attention is given
    notes = [UNMASKED] if mask is None else []
    if without:
        passes = "through all of its heads" if bare == "skip" else "by the residual alone"
        notes.append(f"No head is left in layer {without} (counted from 0): relevance passes it {passes}.")
    params: dict[str, object] = (
        {}
        if mask is None
        else {"heads": heads if isinstance(heads, str) else f"{sum(map(sum, mask)):g} of {len(mask) * len(mask[0])}"}
    )
    return Attribution(rolled_out(case, mixed, normalise), params=params, notes=tuple(notes))
