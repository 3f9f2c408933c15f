"""Methods for sources side by side, graded by removals."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.source_grades import GOLD_RECALL_AT, SourceGrade, SourcesComparison
from wherefrom.core.sources import Source
from wherefrom.errors import BadOption
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.sources.answered import PassageQuestion
from wherefrom.sources.explain import (
    AUTO,
    alternatives,
    checked_options,
    grounding_of,
    scores_of,
    top_sources,
    verdict_of,
)
from wherefrom.sources.methods import REMOVING, SourceCase
from wherefrom.sources.removals import choice_key

COMPARED = ("leave_one_out", "attn_lrp", "context_cite", "random")
LDS_REMOVALS = 32  # random removals are drawn at most
FEWEST_REMOVALS = 8  # that a method has not used: with fewer there is no lds
_GOLD = "A gold source is (document, number in it) or (document, start, end), all from 0, not {!r}."
LDS_SEED = 20_240_900  # no method draws with this one


def compare_sources(
    model: TextModel,
    question: PassageQuestion,
    *,
    methods: Sequence[str],
    gold: Sequence[Sequence[int]] = (),
    test: bool = True,
) -> SourcesComparison:
    """See `Model.compare_sources`."""
    started = time.perf_counter()
    names = [AUTO if name == "auto" else name for name in methods]
    if not names or len(set(names)) < len(names):
        raise BadOption("Name at least one method, and none twice.")
    options = {name: checked_options(name, {}) for name in names}
    read = question.read(model)
    shared = read.case(model, [(0, len(read.answer.text))])
    golden = gold_sources(gold, read.prompt.sources)
    grades = [grade_method(shared, name, options[name], golden, test=test) for name in names]
    nothing = shared.drops(np.ones((1, shared.count), dtype=bool))[0]
    return SourcesComparison(
        question=read.question,
        answer=read.answer.text,
        generated=read.generated,
        documents=read.prompt.documents,
        sources=read.prompt.sources,
        grounding=grounding_of(model, shared, nothing)[0],
        log_probability=float(shared.whole()[0]),
        gold=golden,
        grades=tuple(grades),
        by=read.by,
        model=model.name,
        seconds=time.perf_counter() - started,
    )


def grade_method(
    shared: SourceCase, name: str, options: Mapping[str, Any], gold: Sequence[int] = (), *, test: bool = True
) -> SourceGrade:
    """The grade of one method. The case of the whole answer is shared, so that no removal is computed twice."""
    case, before = replace(shared, used=set()), replace(shared.removals.count)
    scored = scores_of(case, name, options)
    cost = _cost(case, name, before)
    return _grade(shared, case.used, name, scored.scores[0], gold, cost, {**scored.params}, test)


def gold_sources(gold: Sequence[Sequence[int]], sources: Sequence[Source]) -> tuple[int, ...]:
    """The numbers of the sources that contain the answer.

    Each is given as (document, number in it), or as (document, start, end) in characters of the document.
    """
    numbers = []
    for entry in gold:
        try:
            document, *place = (int(part) for part in entry)
        except (TypeError, ValueError) as error:
            raise BadOption(_GOLD.format(entry)) from error
        if len(place) not in (1, 2):
            raise BadOption(_GOLD.format(entry))
        start, end = place if len(place) == 2 else (0, 0)
        matches = [
            number
            for number, source in enumerate(sources)
            if source.document == document
            and (source.number == place[0] if len(place) == 1 else source.start < end and start < source.end)
        ]
        if not matches:
            which = (
                f"There is no source {place[0]} in"
                if len(place) == 1
                else f"No source is at the characters {start} to {end} of"
            )
            raise BadOption(f"{which} document {document}: all are counted from 0.")
        numbers += matches
    return tuple(dict.fromkeys(numbers))


def _cost(case: SourceCase, name: str, before: PassCount) -> tuple[int, int]:
    """The forward and backward passes of a method by itself. Removals that another method has paid for count, too."""
    count = case.removals.count
    if name in REMOVING:
        return len(case.used), 0
    return count.forwards - before.forwards, count.backwards - before.backwards


def _grade(
    case: SourceCase,
    used: set[bytes],
    name: str,
    scores: Numbers,
    gold: Sequence[int],
    cost: tuple[int, int],
    params: dict[str, object],
    test: bool,
) -> SourceGrade:
    order = np.argsort(-scores, kind="stable").tolist()
    top = top_sources(scores)
    chosen = np.stack([_removed(order[:count], case.count) for count in (1, 3, 5)])
    drops = case.drops(chosen)[:, 0]
    verdict = None
    if top and test:
        others = case.drops(alternatives(case.count, top))[:, 0]
        verdict = verdict_of(float(case.drops(_removed(top, case.count)[None])[0, 0]), others, case.count)
    first = order[:GOLD_RECALL_AT]
    return SourceGrade(
        method=name,
        scores=tuple(scores.tolist()),
        top_1_drop=float(drops[0]),
        top_3_drop=float(drops[1]),
        top_5_drop=float(drops[2]),
        lds=_lds(case, used, scores),
        gold_at_1=float(order[0] in gold) if gold else None,
        gold_recall=sum(place in first for place in gold) / len(gold) if gold else None,
        verdict=verdict,
        params=params,
        forwards=cost[0],
        backwards=cost[1],
    )


def _removed(places: Iterable[int], count: int) -> Flags:
    removed = np.zeros(count, dtype=bool)
    removed[list(places)] = True
    return removed


def _lds(case: SourceCase, used: set[bytes], scores: Numbers) -> float | None:
    """Spearman's correlation over random removals that the method did not use; None where there are too few of them,
    or where all scores are equal.
    """
    kept = np.random.default_rng(LDS_SEED).random((LDS_REMOVALS, case.count)) < 0.5
    unused = {choice_key(row): row for row in kept if choice_key(row) not in used}
    if len(unused) < FEWEST_REMOVALS:
        return None
    choices = np.stack(list(unused.values()))
    expected, actual = choices @ scores, case.log_probabilities(choices)[:, 0]
    if np.ptp(expected) == 0 or np.ptp(actual) == 0:
        return None
    return float(spearmanr(expected, actual).statistic)
