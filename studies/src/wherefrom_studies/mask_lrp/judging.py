"""What becomes of the claims of Mask-LRP's paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.stats import rankdata

from wherefrom.heads import HeadKind, HeadMap
from wherefrom.typing import Numbers
from wherefrom_studies.bench import SetAndBase
from wherefrom_studies.claims import Estimate, JudgedClaim
from wherefrom_studies.comparisons import Finding, compared, leads, ordered
from wherefrom_studies.mask_lrp.measuring import MaskResult, MaskResults
from wherefrom_studies.mask_lrp.paper import ANSWER_SETS, AOPC, CLAIMS, ODDS, PAPER, PERMUTATIONS, PRECISION, TEXT_SETS


def judged(results: MaskResults) -> list[JudgedClaim]:
    """The verdict of every claim."""
    texts = {key: result for key, result in results.items() if key[0] in TEXT_SETS}
    answers = {key: result for key, result in results.items() if key[0] in ANSWER_SETS}

    def order(metric: str, better: str, worse: Sequence[str], sign: float = 1.0, among: MaskResults = texts) -> Finding:
        """One method beside others, on every set that has them all; `randoms` and `same depth` are means of masks."""
        names = [better, *worse]
        tables = {
            key: np.stack([column_of(result, metric, name) for name in names], 1)
            for key, result in among.items()
            if all(name in result.methods or result.masks(name) for name in names)
        }
        return ordered(tables, names, leads(better, worse), sign)

    findings: dict[str, Finding] = {
        "M1 AOPC": order(AOPC, "Ours", list(PAPER)),
        "M1 LOdds": order(ODDS, "Ours", list(PAPER), -1.0),
        "M1 skip": order(AOPC, "Ours, bare=skip", list(PAPER)),
        "M2": order(AOPC, "Ours", ["randoms"]),
        "M2 depth": order(AOPC, "Ours", ["same depth"]),
        "M3": order(AOPC, "randoms", ["TransAtt"]),
        "M7": order(PRECISION, "Ours", list(PAPER), among=answers),
        "M8 AOPC": order(AOPC, "Ours", ["ALTI"]),
        "M8 LOdds": order(ODDS, "Ours", ["ALTI"], -1.0),
    }
    falls = {key: table for key, result in texts.items() if (table := corrupted_table(result)) is not None}
    slopes = {key: _falling(*table)[:, None] for key, table in falls.items()}
    findings["M4"] = compared(slopes, ["the slope"], lambda means: float(means[0]))
    maps = {key: result.heads for key, result in results.items()}
    findings["M5 heads"] = permuted({key: _kinds_by_layer(heads) for key, heads in maps.items()}, _layers_apart)
    findings["M5 scores"] = permuted({key: _scores_by_layer(heads) for key, heads in maps.items()}, _ranks_apart)
    alone: tuple[tuple[str, str, HeadKind], ...] = (
        ("M6 positional", "without positional", "syntactic"),
        ("M6 syntactic", "without syntactic", "positional"),
    )
    for name, title, kind in alone:
        # Where all chosen heads are of one kind, the mask without the other is the same mask, and says nothing.
        differ = {key: of_set for key, of_set in texts.items() if of_set.heads.mask(only=kind) != of_set.heads.mask()}
        findings[name] = order(AOPC, title, ["Ours"], among=differ)
    ranks = {key: np.array(result.other_ranks)[:, None] for key, result in texts.items() if len(result.other_ranks)}
    findings["M9"] = compared(ranks, ["1 - Spearman"], lambda means: float(means[0]))
    why = "nothing that it needs was measured, or no head passes the thresholds"
    return [
        claim.judged(*(findings[name] if findings[name].estimate else Finding(None, why)))
        for name, claim in CLAIMS.items()
    ]


def _falling(shares: Sequence[float], values: Numbers) -> Numbers:
    """Of every text how fast its AOPC falls over the shares of wrong heads, by least squares. (text,)"""
    slopes: Numbers = -np.polyfit(shares, values.T, 1)[0]
    return slopes


def column_of(result: MaskResult, metric: str, name: str) -> Numbers:
    if result.masks(name):
        many: Numbers = result.runs.table(metric, list(result.masks(name))).mean(1)
        return many
    values: Numbers = result.runs.table(metric, [result.methods[name]])[:, 0]
    return values


def corrupted_table(result: MaskResult) -> tuple[list[float], Numbers] | None:
    """Shares of wrong heads, none first, and every text's AOPC there, the mean over seeds. (text, share)"""
    if result.corrupted is None or result.corrupted_runs is None:
        return None
    columns = [column_of(result, AOPC, "Ours")]
    columns += [result.corrupted_runs.table(AOPC, list(many)).mean(1) for many in result.corrupted.values()]
    return [0.0, *result.corrupted], np.stack(columns, 1)


HeadScores = tuple[Numbers, Numbers, Numbers]  # of every head: its layer from 0 to 1, how positional, how syntactic


def _kinds_by_layer(heads: HeadMap) -> HeadScores:
    positional = np.array(heads.positional)
    syntactic = np.array(heads.mask(only="syntactic"))
    return _layers(positional.shape), positional.ravel(), syntactic.ravel()


def _scores_by_layer(heads: HeadMap) -> HeadScores:
    often = np.array(heads.frequency)
    above = [np.array(relation.follows) - relation.baseline for relation in heads.relations.values()]
    syntactic = np.max(above, 0) if above else np.zeros_like(often)
    return _layers(often.shape), often.ravel(), syntactic.ravel()


def _layers(shape: tuple[int, ...]) -> Numbers:
    layers, heads = shape
    layer_of_head: Numbers = np.repeat(np.linspace(0, 1, layers) if layers > 1 else np.zeros(1), heads)
    return layer_of_head


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


def permuted(maps: Mapping[SetAndBase, HeadScores], statistic: Callable[[Numbers, Numbers, Numbers], float]) -> Finding:
    """A statistic's mean over head maps, with the interval that it has where the layers of heads are exchanged: what
    is left of it when chance's 95% are taken away. Maps of one base are of nearly the same heads, so these are
    exchanged in the same way in all of them.
    """
    known = {key: scores for key, scores in maps.items() if np.isfinite(statistic(*scores))}
    if not known:
        return Finding(None)
    value = float(np.mean([statistic(*scores) for scores in known.values()]))
    chance = np.random.default_rng(0)
    rounds = PERMUTATIONS // 5 if len(known) > 4 else PERMUTATIONS
    sizes = {base: len(scores[0]) for (_, base), scores in known.items()}
    null = []
    for _ in range(rounds):
        orders = {base: chance.permutation(size) for base, size in sizes.items()}
        null.append(np.mean([statistic(scores[0][orders[key[1]]], *scores[1:]) for key, scores in known.items()]))
    low, high = np.quantile(null, [0.025, 0.975])
    return Finding(Estimate(value, value - float(high), value - float(low), sum(sizes.values()), unit="heads"))
