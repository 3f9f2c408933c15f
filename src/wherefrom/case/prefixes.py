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


def needs_prefix(case: Case, method: Method) -> bool:
    """Whether this token of a continuation has to be explained in a pass of its own. A decoder that an encoder stands
    before reads its output in one pass by any method.
    """
    return isinstance(case.target, GeneratedToken) and not method.one_pass and not case.model.task.two_stacks


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
    prefix = whole.part(range(target.position + 1))
    passes = Passes(unbound(case.model), [prefix])
    passes.announce(method.needs(options))
    return Case(passes.toward([Target(target.index, target.label, versus=target.versus)]), 0, level=case.level)
