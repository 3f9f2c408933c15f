"""What becomes of the claims of Mask-LRP's paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy.stats import rankdata

from wherefrom.heads import HeadKind, HeadMap
from wherefrom.typing import Numbers
from wherefrom_studies.claims import Estimate, JudgedClaim, difference, estimate, lead
from wherefrom_studies.mask_lrp.measuring import MaskResult, MaskResults
from wherefrom_studies.mask_lrp.paper import ANSWER_SETS, AOPC, CLAIMS, ODDS, PAPER, PERMUTATIONS, PRECISION, TEXT_SETS


def judged(found: MaskResults) -> list[JudgedClaim]:
    """The verdict of every claim, each data set and base counting once."""
    texts = {key: one for key, one in found.items() if key[0] in TEXT_SETS}
    answers = {key: one for key, one in found.items() if key[0] in ANSWER_SETS}
    baselines = list(PAPER)

    def of(some: Iterable[MaskResult], metric: str, names: Sequence[str]) -> list[Numbers]:
        """The methods of these names as columns, of every set that has them all; `randoms` is their mean."""
        tables = []
        for one in some:
            if all(name in one.methods or (name == "randoms" and one.randoms) for name in names):
                columns = [column_of(one, metric, name) for name in names]
                tables.append(np.stack(columns, 1))
        return tables

    every = list(texts.values())
    results: dict[str, Estimate | None] = {}
    first = lead(0, list(range(1, len(baselines) + 1)))
    results["M1 AOPC"] = estimate(of(every, AOPC, ["Ours", *baselines]), first)
    turned = lead(0, list(range(1, len(baselines) + 1)), -1.0)
    results["M1 LOdds"] = estimate(of(every, ODDS, ["Ours", *baselines]), turned)
    results["M1 skip"] = estimate(of(every, AOPC, ["Ours, bare=skip", *baselines]), first)
    results["M2"] = estimate(of(every, AOPC, ["Ours", "randoms"]), difference(0, 1))
    results["M3"] = estimate(of(every, AOPC, ["randoms", "TransAtt"]), difference(0, 1))
    falls = [table for one in every if (table := corrupted_table(one)) is not None]
    shares = [table[0] for table in falls]
    results["M4"] = estimate(
        [table[1] for table in falls],
        lambda means: float(np.mean([-np.polyfit(x, row, 1)[0] for x, row in zip(shares, means, strict=True)])),
    )
    maps = [one.heads for one in found.values()]
    results["M5 heads"] = permuted([_kinds_by_layer(one) for one in maps], _layers_apart)
    results["M5 scores"] = permuted([_scores_by_layer(one) for one in maps], _ranks_apart)
    alone: tuple[tuple[str, str, HeadKind], ...] = (
        ("M6 positional", "without positional", "syntactic"),
        ("M6 syntactic", "without syntactic", "positional"),
    )
    for name, title, kind in alone:
        # Where all chosen heads are of one kind, the mask without the other is the same mask, and says nothing.
        differ = [one for one in every if one.heads.mask(only=kind) != one.heads.mask()]
        results[name] = estimate(of(differ, AOPC, [title, "Ours"]), difference(0, 1))
    results["M7"] = estimate(of(answers.values(), PRECISION, ["Ours", *baselines]), first)
    results["M8 AOPC"] = estimate(of(every, AOPC, ["Ours", "ALTI"]), difference(0, 1))
    results["M8 LOdds"] = estimate(of(every, ODDS, ["Ours", "ALTI"]), difference(0, 1, -1.0))
    ranks = [np.array(one.other_ranks)[:, None] for one in every if len(one.other_ranks)]
    results["M9"] = estimate(ranks, lambda means: float(np.mean([row[0] for row in means])))
    why = "nothing that it needs was measured, or no head passes the thresholds"
    return [claim.judged(results[name], why) for name, claim in CLAIMS.items()]


def column_of(one: MaskResult, metric: str, name: str) -> Numbers:
    if name == "randoms":
        many: Numbers = one.runs.table(metric, list(one.randoms)).mean(1)
        return many
    values: Numbers = one.runs.table(metric, [one.methods[name]])[:, 0]
    return values


def corrupted_table(one: MaskResult) -> tuple[list[float], Numbers] | None:
    """Shares of wrong heads, none first, and every text's AOPC there, the mean over seeds. (text, share)"""
    if one.corrupted is None or one.corrupted_runs is None:
        return None
    columns = [column_of(one, AOPC, "Ours")]
    columns += [one.corrupted_runs.table(AOPC, list(many)).mean(1) for many in one.corrupted.values()]
    return [0.0, *one.corrupted], np.stack(columns, 1)


HeadScores = tuple[Numbers, Numbers, Numbers]  # of every head: its layer from 0 to 1, how positional, how syntactic


def _kinds_by_layer(heads: HeadMap) -> HeadScores:
    positional = np.array(heads.positional)
    syntactic = np.array(heads.mask(only="syntactic"))
    return _layers(positional.shape), positional.ravel(), syntactic.ravel()


def _scores_by_layer(heads: HeadMap) -> HeadScores:
    often = np.array(heads.frequency)
    above = [np.array(one.follows) - one.baseline for one in heads.relations.values()]
    syntactic = np.max(above, 0) if above else np.zeros_like(often)
    return _layers(often.shape), often.ravel(), syntactic.ravel()


def _layers(shape: tuple[int, ...]) -> Numbers:
    layers, heads = shape
    found: Numbers = np.repeat(np.linspace(0, 1, layers) if layers > 1 else np.zeros(1), heads)
    return found


def _layers_apart(layer: Numbers, positional: Numbers, syntactic: Numbers) -> float:
    """By how much the mean layer of syntactic heads lies above that of positional ones."""
    if not positional.any() or not syntactic.any():
        return float("nan")
    return float(layer[syntactic > 0].mean() - layer[positional > 0].mean())


def _ranks_apart(layer: Numbers, positional: Numbers, syntactic: Numbers) -> float:
    """Spearman's correlation of the layer with how syntactic a head is, less that with how positional it is."""

    def correlation(scores: Numbers) -> float:
        a, b = rankdata(layer), rankdata(scores)
        a, b = a - a.mean(), b - b.mean()
        return float(a @ b / np.sqrt((a @ a) * (b @ b)))

    with np.errstate(invalid="ignore", divide="ignore"):
        return correlation(syntactic) - correlation(positional)


def permuted(maps: Sequence[HeadScores], statistic: Callable[[Numbers, Numbers, Numbers], float]) -> Estimate | None:
    """A statistic's mean over head maps, with the interval that it has where the layers of heads are exchanged: what
    is left of it when chance's 95% are taken away.
    """
    known = [one for one in maps if np.isfinite(statistic(*one))]
    if not known:
        return None
    value = float(np.mean([statistic(*one) for one in known]))
    chance = np.random.default_rng(0)
    rounds = PERMUTATIONS // 5 if len(known) > 4 else PERMUTATIONS
    null = [np.mean([statistic(chance.permutation(layer), a, b) for layer, a, b in known]) for _ in range(rounds)]
    low, high = np.quantile(null, [0.025, 0.975])
    return Estimate(value, value - float(high), value - float(low), sum(len(one[0]) for one in known))
