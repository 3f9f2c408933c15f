"""What a run recommends, in words, with how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wherefrom.benchmark.recommendation import Recommendation
from wherefrom.benchmark.summary import Summary
from wherefrom.core.labels import visible
from wherefrom.core.names import join_names
from wherefrom.report.wording import duration

MUCH_CHEAPER = 1.5  # times, from which on a cheaper method that may be as good is named


class Recommended(NamedTuple):
    """The answer, and the reasons for it."""

    headline: str
    sentence: str


def seconds_per_example(summaries: Sequence[Summary]) -> dict[str, float]:
    """What each method takes for an example, the mean over data sets."""
    by_method: dict[str, list[float]] = {}
    for summary in summaries:
        for cost in summary.costs:
            by_method.setdefault(cost.method, []).append(cost.per_example)
    return {method: sum(seconds) / len(seconds) for method, seconds in by_method.items()}


def recommended(recommendation: Recommendation | None, seconds: Mapping[str, float]) -> Recommended | None:
    """seconds: what each method takes for an example."""
    if recommendation is None:
        return None
    examples = f"{recommendation.examples:,} example{'s' * (recommendation.examples != 1)}"
    if recommendation.method is None:
        best = recommendation.shares[0][0]
        return Recommended(
            "None of these methods can be recommended.",
            f"On these {examples} not even {visible(best)}, which ranks first, is better than random beyond chance."
            if best != "random"
            else f"On these {examples} a random order ranks first.",
        )
    redraws = f"{recommendation.rounds:,} redraws of the {examples}"
    (best, share), *others = recommendation.contenders
    parts = []
    if not others:
        parts.append(f"It has the best mean rank in {_share(share)} of {redraws}.")
    else:
        named = join_names([f"{visible(name)} ({_share(other_share)})" for name, other_share in others[:3]])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        parts.append(
            f"It has the best mean rank in {_share(share)} of {redraws}; {named}{more} may be as good:"
            " these examples do not settle it."
        )
    if recommendation.above_random is not None:
        what = (
            "the only metric"
            if recommendation.metrics == 1
            else f"{recommendation.above_random} of {recommendation.metrics} metrics"
        )
        parts.append(f"By {what} it is better than random beyond chance.")
    cheapest = min(
        (name for name, _ in recommendation.contenders if name in seconds), key=lambda name: seconds[name], default=""
    )
    if cheapest and best in seconds and cheapest != best and seconds[best] > MUCH_CHEAPER * seconds[cheapest]:
        parts.append(
            f"The cheapest of these is {visible(cheapest)}: {duration(seconds[cheapest])} an example instead of"
            f" {duration(seconds[best])}."
        )
    if recommendation.same_for_every_class:
        names = [visible(name) for name in recommendation.same_for_every_class]
        parts.append(
            f"Not considered: {join_names(names)}, which {'gives' if len(names) == 1 else 'give'} every class the same"
            " scores."
        )
    return Recommended(f"Take {visible(best)}.", " ".join(parts))


def _share(share: float) -> str:
    return f"{share:.0%}" if 0.01 <= share <= 0.99 or share == 1 else "over 99%" if share > 0.5 else "under 1%"
