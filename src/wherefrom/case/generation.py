"""A matrix of attributions: what every token of a continuation came from.

The continuation is fed to the model whole (teacher forcing), so that one forward pass serves all of its tokens where
the method allows: then what is said of a token depends on nothing behind it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from wherefrom.case.case import Attribution, Case
from wherefrom.case.explain import attributions, cases_toward
from wherefrom.case.passes import Passes
from wherefrom.core.encoding import Encoding
from wherefrom.core.generation import Generation
from wherefrom.core.target import GeneratedToken, Target
from wherefrom.model.generating import Turn, continued, written
from wherefrom.model.tasks.continuation import Continuation
from wherefrom.model.tasks.seq2seq import Seq2Seq
from wherefrom.model.text_model import TextModel
from wherefrom.registry import Method

# Methods that give one token of a continuation the same scores whether or not the tokens behind it are there: they
# start at the position that the token is read at, and nothing flows from a later position to an earlier one. Tests
# compare each with passes over the prefixes. All others (cam, gradcam and attcat average over all queries, optimus and
# best search), and those of other packages, get a pass for each prefix.
ONE_PASS = frozenset(
    {
        "alti",
        "attention_flow",
        "attention_gradients",
        "attention_rollout",
        "attention_x_gradient",
        "attn_lrp",
        "cat",
        "cp_lrp",
        "gae",
        "globenc",
        "input_x_gradient",
        "integrated_gradients",
        "kernel_shap",
        "lime",
        "lrp",
        "mask_lrp",
        "norms",
        "occlusion",
        "partial_lrp",
        "random",
        "raw_attention",
        "saliency",
        "transatt",
    }
)


def explain_generation(
    model: TextModel,
    prompt: Encoding,
    tokens: Sequence[int],
    versus: Sequence[int | None],
    method: Method,
    options: Mapping[str, Any],
    turns: tuple[Turn, ...] = (),
) -> Generation:
    """What each of these tokens came from, by one method."""
    started = time.perf_counter()
    rows: list[tuple[float, ...]] = []
    chances: list[float] = []
    forwards = backwards = 0
    first: Attribution | None = None
    notes: dict[str, None] = {}
    for passes, cases in _cases(model, prompt, tokens, versus, method, options):
        for case in cases:
            (given,) = attributions([case], method, options)
            first = first or given
            notes |= dict.fromkeys(given.notes)
            scores = given.scores.sum(0) if given.scores.ndim == 2 else given.scores
            kept = scores[: _place(case) + 1].tolist()
            rows.append((*kept, *[0.0] * (len(prompt) + len(tokens) - len(kept))))
            chances.append(case.target.probability(case.logits[None]).item())
            forwards, backwards = forwards + case.own_count.forwards, backwards + case.own_count.backwards
        forwards, backwards = forwards + passes.count.forwards, backwards + passes.count.backwards
    assert first is not None
    return Generation(
        text=prompt.text,
        tokens=prompt.tokens,
        offsets=prompt.offsets,
        segment=prompt.segment,
        generated=tuple(written(model, token) for token in tokens),
        token_ids=tuple(tokens),
        scores=tuple(rows),
        probabilities=tuple(chances),
        versus=tuple(None if one is None else written(model, one) for one in versus),
        versus_ids=tuple(versus),
        turns=turns,
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


def _place(case: Case) -> int:
    """The position that a token is read at: of a case of one prefix alone the last."""
    return len(case.encoding) - 1 if case.target.position is None else case.target.position


def _cases(
    model: TextModel,
    prompt: Encoding,
    tokens: Sequence[int],
    versus: Sequence[int | None],
    method: Method,
    options: Mapping[str, Any],
) -> Iterator[tuple[Passes, list[Case]]]:
    """The passes and the cases of every step: all of one pass, or a pass for each."""
    if method.name in ONE_PASS or model.task.two_stacks:  # a decoder reads its output in one pass by any method
        yield step_cases(model, prompt, tokens, versus, method, options)
        return
    for step, (token, other) in enumerate(zip(tokens, versus, strict=True)):
        _, prefix = continued(model, prompt, tokens[:step], versus[:step])
        passes = Passes(model, [prefix])
        passes.announce(method.needs(options))
        yield passes, cases_toward(passes, [0], [[Target(token, written(model, token), versus=other)]], "token")[0]


def step_cases(
    model: TextModel,
    prompt: Encoding,
    tokens: Sequence[int],
    versus: Sequence[int | None],
    method: Method | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Passes, list[Case]]:
    """One batch of passes over the prompt with its continuation, and a case for every token of that."""
    asked, encoding = continued(model, prompt, tokens, versus)
    assert isinstance(asked.task, Continuation | Seq2Seq)
    passes = Passes(asked, [encoding])
    if method is not None:
        passes.announce(method.needs(options or {}), several_targets=len(tokens) > 1)
    labels = tuple(written(model, token) for token in tokens)
    targets: list[GeneratedToken] = asked.task.step_targets(labels, len(prompt) - 1)
    with torch.inference_mode(False):
        return passes, [cases_toward(passes, [0], [[target]], "token")[0][0] for target in targets]
