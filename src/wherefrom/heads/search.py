"""Search the heads through which `mask_lrp` is most faithful: chosen on some texts, judged on others.

Each head is tried alone, and heads are ranked by that. Of the masks that hold the first 1, 2, 3, ... heads of this
ranking the best is taken; the last of them contains all heads, which is `transatt`. Then heads are switched on and off,
layer by layer from the last to the first, as long as the score rises. So what is chosen is never worse than all heads,
on the texts that it was chosen by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wherefrom.case.asking import Asker
from wherefrom.case.case import make_cases
from wherefrom.core.arrays import Numbers
from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption
from wherefrom.grading.compare import Comparer, Query
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.heads.head_map import ByHead
from wherefrom.heads.searched_heads import SearchedHeads
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.text_model import TextModel
from wherefrom.progress import OnProgress
from wherefrom.registry import Configured, find_method, methods_in

LEAST_GAIN = 1e-6  # what is smaller is the rounding of a mean
TOGETHER = 12  # masks that are tried on one forward pass
HELD_OUT = 3  # every third text is not searched on
ScoreMasks = Callable[[Sequence[ByHead]], Sequence[float]]  # the higher the better


def search_heads(
    model: TextModel,
    encodings: Sequence[Encoding],
    *,
    metric: str = "comprehensiveness",
    sweeps: int = 1,
    on_progress: OnProgress | None = None,
) -> SearchedHeads:
    """Choose heads on two thirds of these texts, and measure them on the others.

    Args:
        model: whose heads are chosen.
        encodings: texts, read by the model; every third of them is held out.
        metric: what is optimised: one that hides words, so that only the text is needed.
        sweeps: how often all heads are tried to be switched.
        on_progress: called with (masks tried, masks to try at most).
    """
    judge = ConfiguredMetric.read(metric)
    if judge.choice.row.needs is not None:
        raise BadOption(
            f"{metric} needs more than the texts ({judge.choice.row.needs}): take one that hides words, such as"
            " comprehensiveness or sufficiency."
        )
    held_out = list(encodings[HELD_OUT - 1 :: HELD_OUT])
    searched = [encoding for number, encoding in enumerate(encodings) if (number + 1) % HELD_OUT]
    if not searched or not held_out:
        raise BadOption(f"A search needs at least {HELD_OUT} texts: every third is held out to judge by.")
    blocks = model.network.anatomy.blocks
    shape = len(blocks), _heads_of(model, searched[0])
    most = 2 * shape[0] * shape[1] + sweeps * shape[0] * (shape[1] + 1)
    tried, asker = 0, Asker(model)

    def score(masks: Sequence[ByHead]) -> Sequence[float]:
        nonlocal tried
        means: list[float] = []
        for start in range(0, len(masks), TOGETHER):
            values = mask_values(model, searched, masks[start : start + TOGETHER], judge, asker)
            means += _means(values).tolist()
            tried += values.shape[1]
            if on_progress is not None:
                on_progress(tried, most)
        return means

    mask, best, of_all = best_mask(shape, score, sweeps=sweeps)
    values = mask_values(model, held_out, [mask, _all_of(shape)], judge, Asker(model))
    differences = values[:, 0] - values[:, 1]
    return SearchedHeads(
        model=model.name,
        fingerprint=fingerprint(model),
        metric=metric,
        mask=mask,
        texts=len(searched),
        tried=tried,
        score=best,
        score_of_all=of_all,
        held_out=tuple(float(difference) for difference in differences if np.isfinite(difference)),
    )


def best_mask(shape: tuple[int, int], score: ScoreMasks, *, sweeps: int = 1) -> tuple[ByHead, float, float]:
    """The best mask that the search finds, its score, and that of all heads.

    score: called with several masks at once.
    """
    places = [(layer, head) for layer in range(shape[0]) for head in range(shape[1])]
    alone = score([_mask_of(shape, [place]) for place in places])
    # Heads of equal score in the order of their places, the last layer first: nothing hangs on the last bits of a mean.
    ranked = sorted(zip(places, alone, strict=True), key=lambda item: (-round(item[1], 9), -item[0][0], item[0][1]))
    first = [_mask_of(shape, [place for place, _ in ranked[: count + 1]]) for count in range(len(places))]
    scores = score(first)
    of_all = scores[-1]
    mask, best = first[-1], of_all
    for candidate, value in zip(first, scores, strict=True):
        if value > best + LEAST_GAIN:
            mask, best = candidate, value
    for _ in range(sweeps):
        before = best
        for layer in reversed(range(shape[0])):
            mask, best = _best_in_layer(mask, best, layer, score)
        if best <= before:
            break
    return mask, best, of_all


def _best_in_layer(mask: ByHead, best: float, layer: int, score: ScoreMasks) -> tuple[ByHead, float]:
    """Each head of a layer switched by itself, and then all of which that was a gain together."""
    heads = [head for head in range(len(mask[layer])) if _any_left(_switched(mask, layer, [head]))]
    singles = [_switched(mask, layer, [head]) for head in heads]
    values = score(singles) if singles else []
    better = [(value, head) for value, head in zip(values, heads, strict=True) if value > best + LEAST_GAIN]
    if not better:
        return mask, best
    candidates = [_switched(mask, layer, [max(better, key=lambda candidate: candidate[0])[1]])]
    scores = [max(better)[0]]
    together = _switched(mask, layer, [head for _, head in better])
    if len(better) > 1 and _any_left(together):
        candidates.append(together)
        scores += score([together])
    place = int(np.argmax(scores))
    return candidates[place], scores[place]


def mask_values(
    model: TextModel, encodings: Sequence[Encoding], masks: Sequence[ByHead], metric: ConfiguredMetric, asker: Asker
) -> Numbers:
    """What a metric says of `mask_lrp` with each mask, the higher the better; NaN where it has no value. (text, mask)

    asker: answers what was asked of a text before, whichever mask asked it.
    """
    row = find_method(methods_in("heads")[0])
    methods = [Configured(f"mask {number}", row, {"heads": mask}) for number, mask in enumerate(masks)]
    comparer = Comparer(model, methods, [metric], skip=False)
    sign = 1.0 if metric.choice.row.better == "higher" else -1.0
    comparisons = comparer.compare([Query(encoding) for encoding in encodings], asker=asker)
    return np.array(
        [
            [np.nan if grade.value is None else sign * grade.value for (grade,) in comparison.grades]
            for comparison in comparisons
        ]
    )


def _means(values: Numbers) -> Numbers:
    """The mean over texts that have a value for every mask, so that all masks are judged by the same. (mask,)"""
    known = values[~np.isnan(values).any(1)]
    if not len(known):
        raise BadOption("The metric has no value for any of the texts, so that nothing can be chosen by it.")
    means: Numbers = known.mean(0)
    return means


def _heads_of(model: TextModel, encoding: Encoding) -> int:
    """How many heads a layer has."""
    (cases,) = make_cases(model, [encoding], [None], reads=["head_attention"])
    return len(cases[0].attention(scores=False)[0])


def _mask_of(shape: tuple[int, int], kept: Sequence[tuple[int, int]]) -> ByHead:
    chosen = set(kept)
    return tuple(tuple(float((i, j) in chosen) for j in range(shape[1])) for i in range(shape[0]))


def _all_of(shape: tuple[int, int]) -> ByHead:
    return ((1.0,) * shape[1],) * shape[0]


def _switched(mask: ByHead, layer: int, heads: Sequence[int]) -> ByHead:
    return tuple(
        tuple(1.0 - weight if i == layer and j in heads else weight for j, weight in enumerate(row))
        for i, row in enumerate(mask)
    )


def _any_left(mask: ByHead) -> bool:
    return any(map(any, mask))
