"""Methods and metrics by name: ours, and those that other packages bring through entry points."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, Generic, Literal, TypeVar

from wherefrom.errors import BadOption, UnknownName

Kind = Literal["method", "metric"]
Reads = Literal["attention", "relevance", "embeddings", "answers", "nothing"]


@dataclass(frozen=True)
class Method:
    """A method and what is known of it. Called with a case and the method's options, it gives scores."""

    name: str
    function: Callable[..., Any]
    family: str
    signed: bool  # whether a negative score means "against"
    per_class: bool  # whether the scores depend on the class that is explained
    # What it needs of the model: its attention, relevance carried through it, only its embeddings, only its answers
    reads: Reads
    paper: str
    scores_units: bool = False  # whether it scores words and sentences itself, instead of pooling its tokens' scores
    summary: str = ""

    def __call__(self, case: Any, **options: Any) -> Any:
        return self.function(case, **options)


Needs = Literal["others", "rationale", "answer", "second"]


@dataclass(frozen=True)
class Metric:
    """A metric and what is known of it. Its class, made with the metric's options, has `questions` (if it asks any) and
    `score`.
    """

    name: str
    function: Callable[..., Any]
    better: Literal["higher", "lower"]
    paper: str
    needs: Needs | None = None  # what it is measured against, beside the scores
    summary: str = ""

    @property
    def fill(self) -> str | None:
        """How tokens are hidden unless asked for otherwise, for metrics that ask the model."""
        option = options_of(self.function).get("fill")
        return None if option is None else str(option.default)


_found: dict[str, dict[str, Any]] = {"method": {}, "metric": {}}
Function = TypeVar("Function", bound=Callable[..., Any])
Row = TypeVar("Row", Method, Metric)


def method(
    *, family: str, signed: bool, per_class: bool, reads: Reads, paper: str, scores_units: bool = False
) -> Callable[[Function], Function]:
    """Register a function as a method under its own name.

    The first paragraph of the function's docstring, or else of its module's, is its summary in `wherefrom methods`. Its
    options are its keyword-only parameters.

    Args:
        family: the heading it stands under, such as "attention" or "perturbation".
        signed: whether a negative score means "against".
        per_class: whether the scores depend on the class that is explained.
        reads: what it needs of the model: "attention" (and hidden states), "relevance", "embeddings" (the gradient at
            them), "answers" (it only asks), or "nothing".
        paper: where it comes from; "none" if from nowhere.
        scores_units: whether it scores words and sentences itself, instead of having its tokens' scores pooled.

    Returns:
        A decorator that gives the function back as it is.

    Example:
        ```python
        @wherefrom.method(family="floor", signed=False, per_class=False, reads="nothing", paper="none")
        def length(case):
            "Length: how many characters a token has."
            return torch.tensor([float(end - start) for start, end in case.encoding.offsets])
        ```
    """

    def register(function: Function) -> Function:
        _add(
            "method",
            Method(
                function.__name__, function, family, signed, per_class, reads, paper, scores_units, _summary(function)
            ),
        )
        return function

    return register


def metric(
    *, better: Literal["higher", "lower"], paper: str, needs: Needs | None = None
) -> Callable[[Function], Function]:
    """Register a class as a metric: LogOdds as log_odds.

    The class, made with the metric's options, has `score`, and `questions` if it asks the model anything. It never
    touches the model itself.

    Args:
        better: whether "higher" or "lower" values are better.
        paper: where it comes from; "none" if from nowhere.
        needs: what it is measured against beside the scores: "others" (the other classes' scores), "rationale",
            "answer" or "second" (another model's scores); None for the model alone.

    Returns:
        A decorator that gives the class back as it is.

    Example:
        ```python
        @wherefrom.metric(better="lower", paper="none")
        @dataclass(frozen=True, kw_only=True)
        class Largest:
            ...
        ```
    """

    def register(function: Function) -> Function:
        name = re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", function.__name__).lower()
        _add("metric", Metric(name, function, better, paper, needs, _summary(function)))
        return function

    return register


def _add(kind: Kind, row: Method | Metric) -> None:
    taken = _found[kind].get(row.name)
    if taken is not None and taken.function.__module__ != row.function.__module__:
        raise BadOption(
            f"{row.function.__module__} brings a {kind} called {row.name!r}, but"
            f" {taken.function.__module__} has one already."
        )
    _found[kind][row.name] = row


def _summary(function: Callable[..., Any]) -> str:
    own = inspect.getdoc(function) or ""
    written = (
        "" if own.startswith(f"{function.__name__}(") else own
    )  # a dataclass without a docstring is given its signature as one
    text = written or inspect.getdoc(sys.modules[function.__module__]) or ""
    return " ".join(text.split("\n\n")[0].split())


@cache
def _load(kind: Kind) -> None:
    package = import_module(f"wherefrom.{kind}s")
    for module in iter_modules(package.__path__):
        import_module(f"wherefrom.{kind}s.{module.name}")
    for entry in entry_points(group=f"wherefrom.{kind}s"):
        try:
            entry.load()
        except Exception as error:  # a broken plug-in must not take the rest down
            warnings.warn(f"The plug-in {entry.name!r} ({entry.value}) could not be loaded: {error}", stacklevel=2)


def all_methods() -> list[Method]:
    """Every method, family by family."""
    _load("method")
    return sorted(_found["method"].values(), key=lambda row: (row.family, row.name))


def all_metrics() -> list[Metric]:
    """Every metric, those that need nothing but the model first."""
    _load("metric")
    return sorted(_found["metric"].values(), key=lambda row: (row.needs or "", row.fill is None, row.name))


def find_method(name: str) -> Method:
    return _found_by("method", name, all_methods())


def find_metric(name: str) -> Metric:
    return _found_by("metric", name, all_metrics())


def _found_by(kind: Kind, name: str, rows: Sequence[Row]) -> Row:
    known = {row.name: row for row in rows}
    if name not in known:
        raise UnknownName.among(kind, name, known)
    return known[name]


@dataclass(frozen=True)
class Choice(Generic[Row]):
    """A method or metric with its options, as asked for: `alti`, or `alti:norm=l2:ln2=true`."""

    asked: str
    row: Row
    options: Mapping[str, Any]


def choose(kind: Kind, asked: str) -> Choice[Any]:
    """Read `name:option=value:...`."""
    name, *given = asked.split(":")
    row: Any = find_method(name) if kind == "method" else find_metric(name)
    options = {}
    for pair in given:
        option, equals, value = pair.partition("=")
        if not equals:
            raise BadOption(f"{asked!r} is not name:option=value, such as alti:norm=l2.")
        options[option.strip()] = value.strip()
    return Choice(asked, row, check_options(name, row.function, options))


@cache
def options_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a method or metric."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def check_options(name: str, function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their defaults filled in and texts from the command line read; raises on what does not fit."""
    known = options_of(function)
    for option in given:
        if option not in known:
            if not known:
                raise UnknownName(f"{name} takes no options, so not {option!r} either.")
            raise UnknownName.among(f"option of {name}", option, known)
    return {
        option: _fitted(name, option, given[option], parameter.annotation) if option in given else parameter.default
        for option, parameter in known.items()
    }


def _fitted(name: str, option: str, value: Any, annotation: Any) -> Any:
    origin, choices = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        if value not in choices:
            raise BadOption(f"{name} takes {option} = {' | '.join(map(str, choices))}, not {value!r}.")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None or (value in ("none", "None") and types.NoneType in choices):
            return None
        return _fitted(name, option, value, next(kind for kind in choices if kind is not types.NoneType))
    if annotation is bool and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "1", "0"):
        return value.lower() in ("true", "yes", "1")
    if annotation in (int, float):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            with suppress(ValueError, OverflowError):
                number = annotation(value)
                if isinstance(value, str) or number == value:
                    return number
    elif isinstance(annotation, type) and isinstance(value, annotation):
        return value
    raise BadOption(f"{name} takes {option} as {getattr(annotation, '__name__', annotation)}, not {value!r}.")
