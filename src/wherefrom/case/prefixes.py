"""The tokens of a continuation one by one, each explained with nothing behind it.

A continuation is fed to the model whole (teacher forcing), so that one forward pass serves all of its tokens where the
method allows: then what is said of a token depends on nothing behind it. Other methods get a pass for every prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from wherefrom.case.case import Attribution, Case
from wherefrom.case.passes import Passes
from wherefrom.core.target import GeneratedToken, Target
from wherefrom.model.generating import unbound
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
        "logit_contributions",
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


def needs_prefix(case: Case, method: Method) -> bool:
    """Whether this token of a continuation has to be explained in a pass of its own. A decoder that an encoder stands
    before reads its output in one pass by any method.
    """
    return isinstance(case.target, GeneratedToken) and method.name not in ONE_PASS and not case.model.task.two_stacks


def explained_alone(case: Case, method: Method, options: Mapping[str, Any]) -> Attribution:
    """What a method gives for one token of a continuation in a pass over what stands before it, and nothing for what
    stands behind.
    """
    own = _of_prefix(case, method, options)
    given: Tensor | Attribution = method(own, **options)
    found = given if isinstance(given, Attribution) else Attribution(given)
    case.own_count.forwards += own.passes.count.forwards + own.own_count.forwards
    case.own_count.backwards += own.passes.count.backwards + own.own_count.backwards
    behind = len(case.encoding) - len(own.encoding)
    errors = found.standard_errors
    return replace(
        found,
        scores=torch.nn.functional.pad(found.scores, (0, behind)),
        standard_errors=None if errors is None else torch.nn.functional.pad(errors, (0, behind)),
        flow=None,
    )


def _of_prefix(case: Case, method: Method, options: Mapping[str, Any]) -> Case:
    target, whole = case.target, case.encoding
    assert target.position is not None
    length, types = target.position + 1, whole.token_type_ids
    prefix = replace(
        whole,
        tokens=whole.tokens[:length],
        input_ids=whole.input_ids[:length],
        token_type_ids=None if types is None else types[:length],
        offsets=whole.offsets[:length],
        segment=whole.segment[:length],
    )
    passes = Passes(unbound(case.model), [prefix])
    passes.announce(method.needs(options))
    return Case(passes.toward([Target(target.index, target.label, versus=target.versus)]), 0, level=case.level)
