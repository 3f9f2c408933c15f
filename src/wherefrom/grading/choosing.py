"""Methods and metrics that are compared, from their names: lists of names, sets, and what is nothing but another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from wherefrom.core.names import read_names
from wherefrom.errors import BadOption
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.registry import (
    Configured,
    Method,
    Reference,
    all_methods,
    all_metrics,
    choose,
    methods_in,
    options_of,
)

# Four metrics that measure different things: whether the strongest units are needed, whether they are enough, whether
# each unit does what its score says, whether larger scores have larger effects. Where there is a reference, one metric
# compares with it.
DEFAULT_METRICS = ("comprehensiveness", "sufficiency", "rft", "monotonicity")
MAIN_METRICS = DEFAULT_METRICS[:3]  # without those that describe the scores
DEFAULT_BY_REFERENCE: Mapping[Reference, str] = {"rationale": "auprc", "second": "spearman"}
METHOD_SETS = ("default", "fast", "all")


def chosen_methods(selection: str | Sequence[str]) -> list[Configured[Method]]:
    """Methods as `name:option=value`, in a list or between commas; or the name of a set: `default`, eight of all
    families; `all`, every one that does not only choose among the others; `fast`, those without the slow ones.
    """
    if selection == "default":
        names = list(methods_in("compare"))
    elif selection in METHOD_SETS:
        names = [
            row.name
            for row in all_methods()
            if row.family != "selection" and not (row.slow and selection == "fast") and row.other_name() is None
        ]
    else:
        names = read_names(selection, "Methods and metrics")
    if not names:
        raise BadOption("Name at least one method, or say 'all'.")
    return without_twins(_without_duplicates([choose("method", name) for name in names]))


def chosen_metrics(
    names: str | Sequence[str] | None, *, offered: Collection[Reference] | None = None
) -> list[ConfiguredMetric]:
    """Metrics as `name:option=value`; `main`, three of them, or `default`, four that ask different things, and one for
    every reference that was given; `all`, or nothing said, is every metric that can be measured on what is offered.

    offered: what scores can be held against, beside the model: other classes, a rationale, an answer, another model.
        None where that is not known yet.
    """
    known = frozenset() if offered is None else offered
    if names is None or names == "all":
        return [ConfiguredMetric.read(row.name) for row in all_metrics() if row.needs is None or row.needs in known]
    if names in ("main", "default"):
        more = [name for needs, name in DEFAULT_BY_REFERENCE.items() if needs in known]
        names = [*(MAIN_METRICS if names == "main" else DEFAULT_METRICS), *more]
    metrics = [ConfiguredMetric.read(name) for name in read_names(names, "Methods and metrics")]
    for metric in metrics:
        if offered is not None and metric.choice.row.needs == "second" and "second" not in offered:
            raise BadOption(f"{metric.choice.asked} compares two models: name the other one with --against (against=).")
    if not metrics:
        raise BadOption("Name at least one metric, or say 'all'.")
    _without_duplicates([metric.choice for metric in metrics])
    return metrics


def _without_duplicates(choices: list[Configured[Any]]) -> list[Configured[Any]]:
    for number, choice in enumerate(choices):
        if any(choice.asked == other.asked for other in choices[:number]):
            raise BadOption(f"{choice.asked!r} is named twice.")
    return choices


def without_twins(choices: list[Configured[Method]]) -> list[Configured[Method]]:
    """The same choices; an error where one of them is nothing but another, which would have two places by one set of
    scores.
    """
    known = {(choice.row.name, _settled(choice)): choice.asked for choice in choices}
    for choice in choices:
        other = choice.row.other_name(choice.options)
        if other is None:
            continue
        name, options = other
        twin = known.get((name, _settled(choose("method", name), options)))
        if twin is not None:
            raise BadOption(
                f"{choice.asked} is the same as {twin}, so the two cannot be compared. Give it options of its own"
                f" (see 'wherefrom methods {choice.row.name}'), or leave it out."
            )
    return choices


def _settled(choice: Configured[Method], options: Mapping[str, Any] | None = None) -> str:
    """Every option with its value, to tell whether two are the same."""
    defaults = {name: parameter.default for name, parameter in options_of(choice.row.function).items()}
    return repr(sorted({**defaults, **choice.options, **(options or {})}.items()))
