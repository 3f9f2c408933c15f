"""Long computations: explanations by several methods with their tests, the verdict on them, and curves of hiding."""

from __future__ import annotations

import hashlib
import logging
import random
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from wherefrom.case.case import Case
from wherefrom.case.check import ToCheck
from wherefrom.case.explain import cases_toward, checked, explained
from wherefrom.case.passes import Passes
from wherefrom.catalogue import floor_method
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.errors import BadFile, BadOption, WherefromError
from wherefrom.explorer.hiding import targets_of
from wherefrom.explorer.questions import CurveQuestion, ExplainingQuestion, TextQuestion
from wherefrom.explorer.service import ModelService, PlainData
from wherefrom.explorer.sheet import PageUnits, best_data, comparison_of, explanation_data, verdict_data
from wherefrom.explorer.turns import Stopped
from wherefrom.registry import Configured, Method, check_options, choose, options_of
from wherefrom.report.comparison import page

log = logging.getLogger(__name__)
BEST = "best"
POINTS = 24  # of a curve
ORDERS = 10  # random ones beside a method's own
SIMPLE = (int, float, bool, types.NoneType)


def choose_method(spec: str) -> Configured[Method]:
    """A method with the options of a request. Options that may name a file are refused: a request reads no file."""
    name, *options = spec.split(":")
    choice: Configured[Method] = choose("method", name)
    known = options_of(choice.row.function)
    for pair in options:
        option = pair.partition("=")[0].strip()
        if option in known and not _simple(known[option].annotation):
            raise BadOption(
                f"{option} of {name} cannot be set from the page. Use the command line:"
                f" wherefrom explain --method {name} -o {option}=..."
            )
    return choose("method", spec) if options else choice


def _simple(annotation: object) -> bool:
    """Whether an option is a number, a switch or a choice among given words."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return all(map(_simple, typing.get_args(annotation)))
    return origin is typing.Literal or annotation in SIMPLE


def simple_options(row: Method) -> dict[str, PlainData]:
    """The options of a method that the page may set: their default, and the words to choose among."""
    options: dict[str, PlainData] = {}
    for name, parameter in options_of(row.function).items():
        if _simple(parameter.annotation):
            words = typing.get_args(parameter.annotation) if typing.get_origin(parameter.annotation) else ()
            choices = [word for word in words if isinstance(word, str)]
            if parameter.annotation is bool:
                choices = ["true", "false"]
            options[name] = {"default": _written(parameter.default), "choices": choices}
    return options


def _written(value: object) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


class Explainer:
    """One text and one target. Explanations computed before are reused; the others share their passes."""

    def __init__(self, service: ModelService, question: TextQuestion) -> None:
        self.service, self.question = service, question
        self.subject = service.subject(question)
        self.encoding = self.subject.encoding
        self.units = PageUnits(self.encoding, question.level)
        self.passes = Passes(self.subject.model, [self.encoding], service.asker(self.subject.model))
        self._cases: list[Case] | None = None

    def _key(self, spec: str) -> object:
        question = self.question
        encoding = self.encoding
        return encoding.text, encoding.pair, encoding.turns, question.level, question.spec, spec

    def known(self, spec: str) -> Explanation | None:
        explanation: Explanation | None = self.service.recall(self._key(spec))
        return explanation

    def announce(self, choices: Sequence[Configured[Method]]) -> None:
        """Announce the methods that follow, so that one pass serves them all."""
        for choice in choices:
            if self.known(choice.asked) is None:
                self.passes.announce(choice.row.needs(choice.options))

    @property
    def cases(self) -> list[Case]:
        """One for every component of the target."""
        if self._cases is None:
            targets = targets_of(self.service, self.subject, self.passes.logits_of(0))
            self._cases = cases_toward(self.passes, [0], [targets], self.question.level)[0]
        return self._cases

    def explain(self, choice: Configured[Method], *, check: bool = True) -> Explanation:
        """One method's explanation with its check; kept for later requests."""
        explanation = self.known(choice.asked)
        if explanation is None:
            explanation = explained({0: self.cases}, choice.row, choice.options)[0]
            if check:
                (explanation,) = checked([ToCheck.of(explanation, self.cases)], self.passes.asker)
            self.service.keep(self._key(choice.asked), explanation)
        return explanation


def explain_steps(
    service: ModelService, question: ExplainingQuestion, choices: Sequence[Configured[Method]]
) -> Iterator[PlainData]:
    """The rows of the methods, the quick ones first; then the verdict; then which of them `best` would take."""
    explainer = Explainer(service, question)
    ordered = sorted(choices, key=lambda choice: (explainer.known(choice.asked) is None, choice.row.slow))
    explainer.announce(ordered)
    explanations: dict[str, Explanation] = {}
    for choice in ordered:
        try:
            explanations[choice.asked] = explainer.explain(choice)
        except Stopped:
            raise
        except Exception as error:
            yield {"failed": choice.asked, "why": told(error)}
            continue
        yield {"row": explanation_data(explanations[choice.asked], explainer.units, choice.asked)}
    if explanations:
        listed = {choice.asked: explanations[choice.asked] for choice in choices if choice.asked in explanations}
        yield {"verdict": verdict_data(listed)}
    if question.best:
        try:
            yield {"best": best_data(_best(explainer, [name for name in question.methods if name in explanations]))}
        except Stopped:
            raise
        except Exception as error:
            yield {"best": {"words": told(error)}}
    yield {"done": True}


def _best(explainer: Explainer, shown: Sequence[str]) -> Explanation | None:
    """What `best` takes among the methods on screen; None where there are not two that it could choose among."""
    candidates = [name for name in dict.fromkeys(shown) if name.partition(":")[0] not in (BEST, floor_method())]
    if len(candidates) < 2:
        return None
    row: Method = choose_method(BEST).row
    choice = Configured(f"{BEST}:candidates={','.join(candidates)}", row, {"candidates": ",".join(candidates)})
    choice = replace(choice, options=check_options(BEST, row.function, choice.options))
    explainer.announce([choice])
    return explainer.explain(choice)


def page_steps(
    service: ModelService, question: ExplainingQuestion, choices: Sequence[Configured[Method]]
) -> Iterator[PlainData]:
    """The same as a self-contained HTML page."""
    explainer = Explainer(service, question)
    explainer.announce(choices)
    explanations, failed = dict[str, Explanation](), dict[str, str]()
    for choice in choices:
        try:
            explanations[choice.asked] = explainer.explain(choice)
        except Stopped:
            raise
        except Exception as error:
            failed[choice.asked] = told(error)
    if not explanations:
        raise BadOption("No method could explain this text, so there is nothing to save.")
    yield {"html": page(comparison_of(explanations, failed))}


def curve_steps(service: ModelService, question: CurveQuestion, choice: Configured[Method]) -> Iterator[PlainData]:
    """The probability while a method's units are hidden, the strongest first; then beside random orders."""
    explainer = Explainer(service, question)
    explainer.announce([choice])
    explanation = explainer.explain(choice)
    units, encoding = explainer.units, explainer.encoding
    scores = units.pooled(explanation.scores)
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    sizes = points_of(len(scores))
    curve = _curve(explainer, order, sizes, question.fill)
    yield {"curve": {"sizes": sizes, "order": order, "values": curve}}
    drawn = [_curve(explainer, shuffled, sizes, question.fill) for shuffled in random_orders(encoding, len(scores))]
    columns = np.asarray(drawn)  # (order, size)
    low, high = np.percentile(columns, [25, 75], axis=0)  # the middle half of them
    band = {"low": low.tolist(), "mean": columns.mean(0).tolist(), "high": high.tolist()}
    yield {"band": band, "orders": len(drawn)}


def points_of(units: int) -> list[int]:
    """How many units are hidden at every point of a curve: one more each time, or in larger steps for long texts."""
    if units <= POINTS:
        return list(range(units + 1))
    return sorted({round(units * step / POINTS) for step in range(POINTS + 1)})


def random_orders(encoding: Encoding, units: int) -> list[list[int]]:
    """The same orders for all methods, so that they share their questions."""
    told_text = f"{encoding.text}\0{encoding.pair or ''}".encode("utf-8", "surrogatepass")
    chance = random.Random(hashlib.sha256(told_text).hexdigest())
    return [chance.sample(range(units), units) for _ in range(ORDERS)]


def _curve(explainer: Explainer, order: Sequence[int], sizes: Sequence[int], fill: str) -> list[float]:
    encoding, asker = explainer.encoding, explainer.passes.asker
    keep = np.ones((len(sizes), len(encoding)), dtype=np.bool_)
    for row, size in zip(keep, sizes, strict=True):
        row[explainer.units.tokens(order[:size])] = False
    pending = asker.note(encoding, keep, fill)
    asker.run()
    targets = [case.target for case in explainer.cases]
    probabilities: list[float] = pending.probability(targets).tolist()
    return probabilities


def told(error: Exception) -> str:
    """An error for a reader of the page: no path, and nothing of the inside of the program."""
    if isinstance(error, BadFile):
        return "A file could not be read. The terminal in which `wherefrom serve` runs says which."
    if isinstance(error, WherefromError):
        return str(error)
    log.error("while explaining", exc_info=error)
    return f"This went wrong inside of Wherefrom ({type(error).__name__}). The terminal of `wherefrom serve` says more."
