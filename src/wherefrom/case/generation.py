"""A matrix of attributions: what every token of a continuation came from.

The continuation is fed to the model whole (teacher forcing), so that one forward pass serves all of its tokens where
the method allows: then the scores of a token do not depend on the tokens after it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.case.check import ToCheck, check_explanations
from wherefrom.case.explain import attributions, cases_toward
from wherefrom.case.passes import Passes
from wherefrom.core.check import Check
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.generation import Generation
from wherefrom.core.target import GeneratedToken
from wherefrom.model.generating import continued
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.model.tasks.seq2seq import Seq2Seq
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Method


def explain_generation(
    model: TextModel,
    prompt: Encoding,
    tokens: Sequence[int],
    versus: Sequence[int | None],
    method: Method,
    options: Mapping[str, Any],
    *,
    check: bool = False,
) -> Generation:
    """What each of these tokens came from, by one method.

    check: put the explanation of every token, and that of all together, to the test.
    """
    started = time.perf_counter()
    rows: list[tuple[float, ...]] = []
    chances: list[float] = []
    forwards = backwards = 0
    first: Attribution | None = None
    notes: dict[str, None] = {}
    passes, cases = step_cases(model, prompt, tokens, versus, method, options)
    for case in cases:
        (attribution,) = attributions([case], method, options)
        first = first or attribution
        notes |= dict.fromkeys(attribution.notes)
        scores = attribution.scores.sum(0) if attribution.scores.ndim == 2 else attribution.scores
        assert case.target.position is not None
        kept = scores[: case.target.position + 1].tolist()
        rows.append((*kept, *[0.0] * (len(prompt) + len(tokens) - len(kept))))
        chances.append(case.target.probability(case.logits[None]).item())
        forwards, backwards = forwards + case.own_count.forwards, backwards + case.own_count.backwards
    forwards, backwards = forwards + passes.count.forwards, backwards + passes.count.backwards
    assert first is not None
    generation = Generation(
        text=prompt.text,
        tokens=prompt.tokens,
        offsets=prompt.offsets,
        segment=prompt.segment,
        generated=tuple(model.reading.token_text(token) for token in tokens),
        token_ids=tuple(tokens),
        scores=tuple(rows),
        probabilities=tuple(chances),
        versus=tuple(None if other is None else model.reading.token_text(other) for other in versus),
        versus_ids=tuple(versus),
        turns=prompt.turns,
        method=method.name,
        params={**options, **first.params},
        signed=method.signed if first.signed is None else first.signed,
        notes=tuple(notes),
        model=model.name,
        task=model.task.name,
        forwards=forwards,
        backwards=backwards,
        seconds=time.perf_counter() - started,
    )
    return replace(generation, checks=_checks(generation, cases, passes)) if check else generation


def _checks(generation: Generation, cases: Sequence[Case], passes: Passes) -> tuple[Check, ...]:
    """Of every token, then of all together: words of the prompt are hidden, and the random choices are the same for
    all. Only what speaks for a token is hidden, which halves the rows.
    """
    parts: list[tuple[Explanation, Sequence[Case]]] = [
        (generation.by_word(step), [case]) for step, case in enumerate(cases)
    ]
    jobs = [
        ToCheck.of(replace(explanation, signed=False), part)
        for explanation, part in [*parts, (generation.by_word(), cases)]
    ]
    return tuple(check_explanations(jobs, passes.asker))


def step_cases(
    model: TextModel,
    prompt: Encoding,
    tokens: Sequence[int],
    versus: Sequence[int | None],
    method: Method | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Passes, list[Case]]:
    """One batch of passes over the prompt with its continuation, and a case for every token of that."""
    question, encoding = continued(model, prompt, tokens, versus)
    assert isinstance(question.task, Continuation | Seq2Seq)
    passes = Passes(question, [encoding])
    # A method that gets a pass for every prefix reads nothing of the one over the whole continuation.
    one_pass = method is not None and method.one_pass and question.task.several_rows is None
    if method is not None and (one_pass or model.task.two_stacks):
        passes.announce(method.needs(options or {}), several_targets=len(tokens) > 1)
    labels = tuple(model.reading.token_text(token) for token in tokens)
    targets: list[GeneratedToken] = question.task.step_targets(labels, len(prompt) - 1)
    with torch.inference_mode(False):
        return passes, [cases_toward(passes, [0], [[target]], "token")[0][0] for target in targets]
