"""An answer, its statements, where each came from, and the test of that."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import comb, log
from typing import Any

import numpy as np

from wherefrom.core.arrays import Flags, Numbers
from wherefrom.core.sources import Grounding, Sources, SourcesVerdict, SourceTest, Statement
from wherefrom.core.units import Span, sentences
from wherefrom.errors import BadOption
from wherefrom.model.generating import generate
from wherefrom.model.text_model import TextModel
from wherefrom.registry import check_options, find_method
from wherefrom.sources.answered import AnsweredPrompt, PassageQuestion
from wherefrom.sources.methods import REMOVING, SourceCase, SourceScores, token_scores
from wherefrom.sources.prompts import Prompt

AUTO = "leave_one_out"
MARGIN = log(2)  # a statement that becomes half as likely without the passages is grounded, unless other text does that
MOST_TOP = 3  # sources are tested together
OTHERS = 20  # other choices of sources at most, with which the top ones are compared
FEW = 4  # sources: with fewer, percentiles mean nothing
UNRELATED = 5  # texts in place of the passages
# Sentences about nothing in particular, from which unrelated text is made.
NEUTRAL = (
    "The path runs along the hedge and turns left behind the barn.",
    "Most of the chairs were stacked in the corner before noon.",
    "A thin layer of snow covered the roofs in the morning.",
    "Peel the carrots, cut them into slices and let them simmer.",
    "The bus stops twice an hour and is rarely full.",
    "Her neighbour keeps bees and sells the honey in autumn.",
    "They painted the fence green because there was some left over.",
    "The kettle takes about four minutes to boil.",
    "In spring the river carries more water than in summer.",
    "He folded the map, put it away and looked for his keys.",
    "The shelves are made of pine and need a coat of oil.",
    "A cat was asleep on the bonnet of the car.",
)


def explain_sources(
    model: TextModel,
    question: PassageQuestion,
    *,
    method: str = "auto",
    statements: Iterable[Span] | None = None,
    regenerate: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Sources:
    """See `Model.sources`."""
    started = time.perf_counter()
    name = AUTO if method == "auto" else method
    chosen = checked_options(name, options or {})
    read = question.read(model)
    spans = statement_spans(read.answer.text, statements)
    result = judged_sources(model, read, read.case(model, spans), spans, name, chosen)
    if regenerate:
        tokens = question.tokens
        answered = tuple(answered_without(model, read.prompt, statement, tokens) for statement in result.statements)
        result = replace(result, statements=answered)
    return replace(result, seconds=time.perf_counter() - started)


def judged_sources(
    model: TextModel,
    read: AnsweredPrompt,
    case: SourceCase,
    spans: Sequence[Span],
    name: str,
    options: Mapping[str, Any],
    groundings: Sequence[Grounding] | None = None,
) -> Sources:
    """What a method finds, and its test, without new answers. Removals that the case knows already cost nothing.

    groundings: of the statements, where another method needed them before.
    """
    started, before = time.perf_counter(), replace(case.removals.count)
    scored = scores_of(case, name, options)
    statements = _judged(model, case, scored, name, spans, read.answer.text, groundings)
    count = case.removals.count
    return Sources(
        question=read.question,
        answer=read.answer.text,
        generated=read.generated,
        documents=read.prompt.documents,
        statements=tuple(statements),
        prompt=read.whole.encoding.text,
        by=read.by,
        method=name,
        params={**scored.params},
        notes=(*read.notes, *scored.notes),
        model=model.name,
        forwards=count.forwards - before.forwards,
        backwards=count.backwards - before.backwards,
        seconds=time.perf_counter() - started,
    )


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their defaults. Raises on an unknown method or option, before anything runs."""
    return check_options(name, REMOVING[name] if name in REMOVING else find_method(name).function, options)


def scores_of(case: SourceCase, name: str, options: Mapping[str, Any]) -> SourceScores:
    return REMOVING[name](case, **options) if name in REMOVING else token_scores(case, name, options)


def statement_spans(answer: str, chosen: Iterable[Span] | None) -> list[Span]:
    if chosen is None:
        return sentences(answer) or [(0, len(answer))]
    spans = []
    for span in chosen:
        try:
            start, end = (int(edge) for edge in span)
        except (TypeError, ValueError) as error:
            raise BadOption(f"A statement is (start, end) in characters of the answer, not {span!r}.") from error
        if not 0 <= start < end <= len(answer):
            raise BadOption(f"The statement {start}:{end} lies outside of an answer of {len(answer)} characters.")
        spans.append((start, end))
    if not spans:
        raise BadOption("There is no statement: statements= is empty.")
    return spans


def _judged(
    model: TextModel,
    case: SourceCase,
    scored: SourceScores,
    method: str,
    spans: Sequence[Span],
    answer: str,
    groundings: Sequence[Grounding] | None,
) -> list[Statement]:
    """The statements with their scores, grounding and test."""
    count, removals = case.count, case.removals
    tops = [top_sources(scores) for scores in scored.scores]
    choices = [alternatives(count, top) for top in tops]
    nothing = np.ones((1, count), dtype=bool)
    removed = [nothing]
    for top, others in zip(tops, choices, strict=True):
        chosen = np.zeros((1, count), dtype=bool)
        chosen[0, list(top)] = True
        removed += [chosen, ~chosen, others]
    drops = case.drops(np.concatenate(removed))  # (choice, statement)
    whole, groundings = case.whole(), groundings or grounding_of(model, case, drops[0])
    single = _single_drops(case) if method == "leave_one_out" else None
    judged, place = [], 1
    for number, (top, others, (start, end)) in enumerate(zip(tops, choices, spans, strict=True)):
        column = drops[place : place + 2 + len(others), number]
        place += 2 + len(others)
        sources = tuple(
            replace(
                source,
                score=float(scored.scores[number, position]),
                drop=None if single is None else float(single[position, number]),
            )
            for position, source in enumerate(removals.prompt.sources)
        )
        test = None
        if top:
            test = SourceTest(
                sources=top,
                drop=float(column[0]),
                others=tuple(column[2:].tolist()),
                kept_only=float(column[1]),
                verdict=verdict_of(float(column[0]), column[2:], count),
            )
        judged.append(
            Statement(
                text=answer[start:end],
                start=start,
                end=end,
                log_probability=float(whole[number]),
                tokens=len(case.statements[number]),
                sources=sources,
                grounding=groundings[number],
                test=test,
            )
        )
    return judged


def top_sources(scores: Numbers) -> tuple[int, ...]:
    """The fewest sources with half of the positive score, at most three; the highest first."""
    positive = np.maximum(scores, 0)
    order = np.argsort(-positive, kind="stable")
    reached = np.cumsum(positive[order])
    if not len(reached) or reached[-1] <= 0:
        return ()
    most = int(np.searchsorted(reached, reached[-1] / 2 * (1 - 1e-9))) + 1
    return tuple(int(place) for place in order[: min(most, MOST_TOP)])


def alternatives(count: int, top: Sequence[int]) -> Flags:
    """Other choices of as many sources, without the top ones: all if there are at most 20, else 20 at random.
    (choice, source) bool
    """
    others = [place for place in range(count) if place not in top]
    size = min(len(top), len(others))
    if not size:
        return np.zeros((0, count), dtype=bool)
    generator, chosen = np.random.default_rng(0), dict[tuple[int, ...], None]()
    wanted = min(OTHERS, comb(len(others), size))
    while len(chosen) < wanted:
        drawn = generator.choice(others, size, replace=False)
        chosen[tuple(sorted(int(place) for place in drawn))] = None
    masks = np.zeros((len(chosen), count), dtype=bool)
    for row, places in zip(masks, sorted(chosen), strict=True):
        row[list(places)] = True
    return masks


def verdict_of(drop: float, others: Numbers, count: int) -> SourcesVerdict:
    """How the drop compares with those of other choices. With few sources it must be above every single one."""
    if drop <= 0:
        return "not supported"
    share = float((others < drop).mean()) if len(others) else 1.0
    if count < FEW:
        return "supported" if share == 1.0 else "not supported"
    return "supported" if share > 0.95 else "weak" if share > 0.8 else "not supported"


def _single_drops(case: SourceCase) -> Numbers:
    return case.drops(np.eye(case.count, dtype=bool))  # (source, statement)


def grounding_of(model: TextModel, case: SourceCase, drops: Numbers) -> list[Grounding]:
    """Whether each statement came from the passages. drops: of each, without any passage."""
    unrelated = _unrelated_drops(model, case)
    return [
        Grounding(float(drop), max(MARGIN, float(np.quantile(column, 0.95))), tuple(column.tolist()))
        for drop, column in zip(drops, unrelated.T, strict=True)
    ]


def _unrelated_drops(model: TextModel, case: SourceCase) -> Numbers:
    """What each statement loses when as much unrelated text is removed. (text, statement)"""
    prompt, removals = case.removals.prompt, case.removals
    length = sum(len(document.text) for document in prompt.documents)
    generator, built = np.random.default_rng(0), []
    for _ in range(UNRELATED):
        words: list[str] = []
        while sum(map(len, words)) < length:
            words += [NEUTRAL[place] for place in generator.permutation(len(NEUTRAL))]
        text = " ".join(words)
        cut = next((end for _, end in sentences(text) if end >= length), len(text))
        built.append(prompt.build_unrelated(model, text[:cut]).encoding)
    nothing = case.log_probabilities(np.zeros((1, case.count), dtype=bool))[0]
    tokens = np.stack(removals.of_prompts(built))
    found = np.stack([tokens[:, part.start : part.stop].sum(1) for part in case.statements], 1)
    drops: Numbers = found - nothing
    return drops


def answered_without(model: TextModel, prompt: Prompt, statement: Statement, tokens: int) -> Statement:
    """The same with what the model answers without the top sources, where there are some."""
    if statement.test is None:
        return statement
    written = answer_without(model, prompt, statement.test.sources, tokens)
    return replace(statement, test=replace(statement.test, answer=written))


def answer_without(model: TextModel, prompt: Prompt, removed: Sequence[int], tokens: int) -> str:
    """What the model answers without these sources."""
    kept = [place not in removed for place in range(len(prompt.sources))]
    return model.reading.decode(generate(model, prompt.build(model, kept).encoding, tokens, may_end=True))
