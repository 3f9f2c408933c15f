"""The tokens of a continuation one by one, each explained without the tokens after it.

A continuation is fed to the model whole (teacher forcing), so that one forward pass serves all of its tokens where the
method allows: then the scores of a token do not depend on the tokens after it. Other methods need a pass per prefix.
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


def needs_prefix(case: Case, method: Method) -> bool:
    """Whether this token of a continuation needs a separate pass. An encoder-decoder model reads its output in one pass
    by any method.
    """
    task = case.model.task
    one_pass = method.one_pass and task.several_rows is None
    return isinstance(case.target, GeneratedToken) and not one_pass and not task.two_stacks


def explained_alone(case: Case, method: Method, options: Mapping[str, Any]) -> Attribution:
    """A method's attribution for one token of a continuation, from a pass over the tokens before it; zero for those
    after it.
    """
    prefix_case = _of_prefix(case, method, options)
    result: Tensor | Attribution = method(prefix_case, **options)
    attribution = result if isinstance(result, Attribution) else Attribution(result)
    case.own_count.forwards += prefix_case.passes.count.forwards + prefix_case.own_count.forwards
    case.own_count.backwards += prefix_case.passes.count.backwards + prefix_case.own_count.backwards
    after = len(case.encoding) - len(prefix_case.encoding)
    errors = attribution.standard_errors
    return replace(
        attribution,
        scores=torch.nn.functional.pad(attribution.scores, (0, after)),
        standard_errors=None if errors is None else torch.nn.functional.pad(errors, (0, after)),
        flow=None,
    )


def _of_prefix(case: Case, method: Method, options: Mapping[str, Any]) -> Case:
    target, whole = case.target, case.encoding
    assert target.position is not None
    prefix = whole.part(range(target.position + 1))
    passes = Passes(unbound(case.model), [prefix])
    passes.announce(method.needs(options))
    alone = Target(target.index, target.label, versus=target.versus, generated=True)
    return Case(passes.toward([alone]), 0, level=case.level)
