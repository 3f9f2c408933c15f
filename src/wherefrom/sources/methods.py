"""How much each statement came from each source: methods that remove sources, and methods that score tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from wherefrom.case.explain import attributions, cases_toward
from wherefrom.case.passes import Passes
from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.target import GeneratedSpan, Target
from wherefrom.core.units import unit_of
from wherefrom.errors import BadOption
from wherefrom.methods.coalitions import draw_pairs, fit_pairs
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.registry import find_method
from wherefrom.sources.removals import Removals, choice_key

EXACT = 256  # coalitions of sources that kernel_shap asks about at most: all of up to eight


@dataclass(frozen=True)
class SourceCase:
    """What a method for sources is given."""

    removals: Removals
    statements: tuple[range, ...]  # the tokens of the answer that each consists of
    used: set[bytes] = field(default_factory=set)  # the choices of sources that the method has looked at

    @property
    def count(self) -> int:
        """How many sources there are."""
        return len(self.removals.prompt.sources)

    def log_probabilities(self, kept: Flags) -> Numbers:
        """Of every statement with these sources kept. (choice, source) bool -> (choice, statement)"""
        self.used.update(map(choice_key, kept))
        tokens = self.removals.log_probabilities(kept)  # (choice, token)
        return np.stack([tokens[:, part.start : part.stop].sum(1) for part in self.statements], 1)

    def whole(self) -> Numbers:
        """With all sources. (statement,)"""
        everything: Flags = np.ones((1, self.count), dtype=bool)
        whole: Numbers = self.log_probabilities(everything)[0]
        return whole

    def drops(self, removed: Flags) -> Numbers:
        """How far each statement's log-probability falls without these. (choice, source) -> (choice, statement)"""
        everything = np.ones((1, self.count), dtype=bool)
        found = self.log_probabilities(np.concatenate([everything, ~removed]))
        drops: Numbers = found[0] - found[1:]
        return drops


@dataclass(frozen=True)
class SourceScores:
    """What a method gives: scores, and what it has to say."""

    scores: Numbers  # (statement, source)
    params: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def leave_one_out(case: SourceCase) -> SourceScores:
    """The drop of each source: what the statement's log-probability loses without it."""
    return SourceScores(case.drops(np.eye(case.count, dtype=bool)).T, {})


def context_cite(case: SourceCase, *, ablations: int = 32, alpha: float = 0.01, seed: int = 0) -> SourceScores:
    """A sparse linear surrogate on random removals (Cohen-Wang et al. 2024, arXiv:2409.00729).

    Every source is kept with probability 1/2. LASSO with penalty `alpha` predicts the logit of the statement's
    probability, per token, from what was kept.
    """
    if not isinstance(ablations, int) or ablations < 2:
        raise BadOption(f"context_cite needs at least 2 ablations, not {ablations!r}.")
    kept = np.random.default_rng(seed).random((ablations, case.count)) < 0.5
    logs = case.log_probabilities(kept)  # (ablation, statement)
    lengths = np.array([len(part) for part in case.statements])
    below = np.minimum(logs, -1e-12)  # a probability of one has no logit
    wanted = (below - np.log(-np.expm1(below))) / lengths
    scores = np.stack([lasso(kept.astype(np.float64), column, alpha) for column in wanted.T])
    return SourceScores(scores * lengths[:, None], {"ablations": ablations, "alpha": alpha, "seed": seed})


def lasso(table: Numbers, wanted: Numbers, alpha: float) -> Numbers:
    """argmin_w |y - b - Xw|^2 / 2n + alpha sum_j s_j |w_j|, with s_j the deviation of column j: by coordinate descent.
    (row, column), (row,) -> (column,)
    """
    scale = table.std(0)
    moving = scale > 0
    columns = (table[:, moving] - table[:, moving].mean(0)) / scale[moving]
    rest, weights, rows = wanted - wanted.mean(), np.zeros(int(moving.sum())), len(table)
    for _ in range(10_000):
        moved = 0.0
        for place in range(len(weights)):
            column, before = columns[:, place], weights[place]
            slope = column @ rest / rows + before
            weights[place] = np.sign(slope) * max(abs(slope) - alpha, 0.0)
            rest -= column * (weights[place] - before)
            moved = max(moved, abs(weights[place] - before))
        if moved < 1e-10:
            break
    found = np.zeros(table.shape[1])
    found[moving] = weights / scale[moving]
    return found


def kernel_shap(case: SourceCase, *, samples: int = EXACT, seed: int = 0) -> SourceScores:
    """Shapley values of the sources: exact where `samples` allow for all coalitions (Lundberg & Lee 2017)."""
    if not isinstance(samples, int) or samples < 4:
        raise BadOption(f"kernel_shap needs at least 4 samples, not {samples!r}.")
    pairs = draw_pairs(case.count, samples, seed)
    chosen = pairs.chosen.numpy()
    ends = np.array([[True], [False]]).repeat(case.count, 1)
    answers = torch.from_numpy(case.log_probabilities(np.concatenate([ends, chosen, ~chosen]))).double()
    total, (first, second) = answers[0] - answers[1], answers[2:].chunk(2) if len(chosen) else (answers[:0],) * 2
    scores = [
        fit_pairs(pairs, (first[:, place] - second[:, place]) / 2, float(total[place]))[0].numpy()
        for place in range(len(case.statements))
    ]
    return SourceScores(np.stack(scores), {"samples": len(answers), "seed": seed})


def hierarchical(case: SourceCase, *, documents: int = 1) -> SourceScores:
    """Leave out whole passages, then the sources of the strongest only (Liu et al. 2024, arXiv:2411.15102).

    Takes one removal for each passage, and one for each source of the `documents` strongest of each statement. A source
    of another passage gets an equal share of that passage's drop.
    """
    if not isinstance(documents, int) or documents < 1:
        raise BadOption(f"hierarchical looks into at least 1 passage, not {documents!r}.")
    owner = np.array([source.document for source in case.removals.prompt.sources])
    numbers = np.unique(owner)
    members = owner[None] == numbers[:, None]  # (document, source)
    by_document = case.drops(members)  # (document, statement)
    scores = (by_document / members.sum(1)[:, None]).T @ members  # (statement, source)
    strongest = np.argsort(-by_document, axis=0, kind="stable")[:documents]  # (rank, statement)
    opened = [source for source in range(case.count) if members[strongest.ravel(), source].any()]
    single = case.drops(np.eye(case.count, dtype=bool)[opened])  # (opened source, statement)
    for place, source in enumerate(opened):
        for statement in range(len(case.statements)):
            if members[strongest[:, statement], source].any():
                scores[statement, source] = single[place, statement]
    return SourceScores(scores, {"documents": documents})


def random(case: SourceCase, *, seed: int = 0) -> SourceScores:
    """Random scores: what any method must beat."""
    drawn = np.random.default_rng(seed).standard_normal((len(case.statements), case.count))
    return SourceScores(drawn, {"seed": seed})


REMOVING: dict[str, Callable[..., SourceScores]] = {
    "leave_one_out": leave_one_out,
    "context_cite": context_cite,
    "hierarchical": hierarchical,
    "kernel_shap": kernel_shap,
    "random": random,
}


def token_scores(case: SourceCase, name: str, options: Mapping[str, Any]) -> SourceScores:
    """Scores of the prompt's tokens toward a statement's log-probability, added up over each source.

    One forward pass serves all statements, and each takes one backward pass, however long it is.
    """
    method, removals = find_method(name), case.removals
    encoding = removals.encoding
    passes = Passes(removals.model, [encoding])
    passes.announce(method.needs(options), several_targets=len(case.statements) > 1)
    rows, notes, params = [], dict[str, None](), dict[str, Any]()
    with torch.inference_mode(False):
        for steps in case.statements:
            cases = cases_toward(passes, [0], [_targets(removals, steps, together=method.one_pass)], "token")[0]
            given = attributions(cases, method, options)
            notes |= dict.fromkeys(note for part in given for note in part.notes)
            params |= dict(options) | given[0].params
            total = sum((part.scores.sum(0) if part.scores.ndim == 2 else part.scores) for part in given)
            assert isinstance(total, torch.Tensor)
            rows.append(total.numpy())
            removals.count.forwards += sum(part.own_count.forwards for part in cases)
            removals.count.backwards += sum(part.own_count.backwards for part in cases)
    removals.count.forwards += passes.count.forwards
    removals.count.backwards += passes.count.backwards
    owner = np.array(unit_of(encoding.offsets, list(removals.whole.spans.values()), encoding.text))
    inside = np.array(encoding.segment) >= 0
    members = np.stack([(owner == place) & inside for place in range(case.count)]).astype(np.float64)
    return SourceScores(np.stack(rows) @ members.T, params, tuple(notes))


def _targets(removals: Removals, steps: range, *, together: bool) -> Sequence[Target]:
    """A statement as one target, or as one for each of its tokens."""
    task, prompt = removals.model.task, len(removals.whole.encoding)
    assert isinstance(task, Continuation)
    every = task.step_targets((task.label,) * len(task.tokens), prompt - 1)
    own = every[steps.start : steps.stop]
    return [GeneratedSpan(own[0].index, task.label, steps=tuple(own))] if together else own
