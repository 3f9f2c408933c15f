"""The sources of an answer: the answer itself, what each method finds for its statements, and answers without some
passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from wherefrom.core.labels import visible
from wherefrom.core.source_grades import SourceGrade
from wherefrom.core.sources import Sources, Statement
from wherefrom.errors import BadOption
from wherefrom.explorer.answers import CachingAsker
from wherefrom.explorer.code import as_arguments, load_line
from wherefrom.explorer.explaining import told
from wherefrom.explorer.questions import SOURCE_METHODS, SourcesQuestion, WithoutQuestion
from wherefrom.explorer.service import Finish, ModelService, PlainData, Prepare
from wherefrom.explorer.turns import Stopped
from wherefrom.report.sources import NOTHING, page, shown_statement, stretches_of
from wherefrom.report.wording import options
from wherefrom.sources.answered import ANSWER_TOKENS, AnsweredPrompt, PassageQuestion
from wherefrom.sources.compare import grade_method
from wherefrom.sources.explain import (
    AUTO,
    answer_without,
    answered_without,
    checked_options,
    judged_sources,
    statement_spans,
)
from wherefrom.sources.methods import SourceCase
from wherefrom.sources.prompts import Context


class SourcesExplainer:
    """One question with its passages and its answer. What was computed before is reused."""

    def __init__(self, service: ModelService, question: SourcesQuestion) -> None:
        self.service, self.question = service, question
        self.chosen = AUTO if question.method == "auto" else question.method
        self.read = self._answered()
        self.spans = statement_spans(self.read.answer.text, None)
        self.case = self.read.case(service.model, self.spans)
        whole = self.read.answer.tokens_of((0, len(self.read.answer.text)))
        self.whole = SourceCase(self.case.removals, (whole,))

    def _key(self, what: str) -> object:
        question = self.question
        passages = tuple((passage.name, passage.text) for passage in question.passages)
        return "sources", what, question.question, passages, question.answer, question.by, question.tokens

    def _answered(self) -> AnsweredPrompt:
        kept: AnsweredPrompt | None = self.service.recall(self._key("answer"))
        if kept is None:
            question = self.question
            asked = PassageQuestion(
                question.question, context_of(question), question.answer, by=question.by, tokens=question.tokens
            )
            kept = asked.read(self.service.model)
            self.service.keep(self._key("answer"), kept)
        return kept

    def explain(self, method: str) -> Sources:
        """A method's sources, with new answers for the statements that have been answered anew."""
        known: Sources | None = self.service.recall(self._key(method))
        if known is None:
            others = (self.service.recall(self._key(name)) for name in SOURCE_METHODS)
            statements = next((other.statements for other in others if other is not None), None)
            groundings = None if statements is None else [statement.grounding for statement in statements]
            options = checked_options(method, {})
            known = judged_sources(self.service.model, self.read, self.case, self.spans, method, options, groundings)
            self.service.keep(self._key(method), known)
        return known

    def grade(self, method: str) -> SourceGrade:
        """A method's grade on the whole answer."""
        known: SourceGrade | None = self.service.recall(self._key(f"grade of {method}"))
        if known is None:
            known = grade_method(self.whole, method, checked_options(method, {}))
            self.service.keep(self._key(f"grade of {method}"), known)
        return known

    def answer_anew(self, method: str, number: int) -> Statement:
        """A statement with what the model answers without its top sources."""
        sources = self.explain(method)
        statements = list(sources.statements)
        statement = statements[number]
        if statement.test is not None and statement.test.answer is None:
            statement = answered_without(self.service.model, self.read.prompt, statement, self.question.tokens)
            statements[number] = statement
            self.service.keep(self._key(method), replace(sources, statements=tuple(statements)))
        return statement


def context_of(question: SourcesQuestion) -> Context:
    """The passages as `Model.sources` takes them: by name where at least one has a name, else as a list."""
    texts = [passage.text for passage in question.passages]
    if not any(text.strip() for text in texts):
        raise BadOption("There is no passage: paste one, or drop a text file.")
    names = [passage.name or f"passage {number}" for number, passage in enumerate(question.passages, 1)]
    for name in names:
        if names.count(name) > 1:
            raise BadOption(f"Two passages are called {name}: give each a name of its own.")
    if all(passage.name is None for passage in question.passages):
        return texts
    return dict(zip(names, texts, strict=True))


def sources_steps(service: ModelService, question: SourcesQuestion) -> Iterator[PlainData]:
    """The answer; its statements with the sources that the chosen method finds; what the model answers without them;
    then the other methods, the slow ones last.
    """
    explainer = SourcesExplainer(service, question)
    yield {"answer": _answer_data(explainer)}
    yield {"row": _row(explainer.explain(explainer.chosen))}
    for number in range(len(explainer.spans)):
        test = explainer.answer_anew(explainer.chosen, number).test
        if test is not None:
            answer = visible((test.answer or "").strip()) or NOTHING
            yield {"without": {"method": explainer.chosen, "statement": number, "answer": answer}}
    for name in (name for name in SOURCE_METHODS if name in question.methods):
        try:
            if name != explainer.chosen:
                yield {"row": _row(explainer.explain(name))}
            yield {"grade": _grade_data(explainer.grade(name))}
        except Stopped:
            raise
        except Exception as error:
            yield {"failed": name, "why": told(error)}
    yield {"done": True}


def without(service: ModelService, question: WithoutQuestion) -> Prepare:
    """How likely each statement is without some passages, and what the model answers then."""

    def prepare(_: CachingAsker) -> Finish:
        explainer = SourcesExplainer(service, question)
        read, case = explainer.read, explainer.case
        count = len(read.prompt.documents)
        if any(number >= count for number in question.removed):
            raise BadOption(f"There are {count} passages; there is no number {max(question.removed) + 1}.")
        sources = read.prompt.sources
        removed = [number for number, source in enumerate(sources) if source.document in question.removed]
        kept = np.ones((2, len(sources)), dtype=bool)
        kept[1, removed] = False
        logs = case.log_probabilities(kept)  # (with or without, statement)
        answer = answer_without(service.model, read.prompt, removed, question.tokens)

        def finish() -> PlainData:
            return {"answer": visible(answer.strip()), "logs": logs[1].tolist(), "whole": logs[0].tolist()}

        return finish

    return prepare


def page_steps(service: ModelService, question: SourcesQuestion) -> Iterator[PlainData]:
    """The sources by the chosen method as a self-contained HTML page."""
    explainer = SourcesExplainer(service, question)
    for number in range(len(explainer.spans)):
        explainer.answer_anew(explainer.chosen, number)
    yield {"html": page(explainer.explain(explainer.chosen))}


def code(service: ModelService, question: WithoutQuestion, source: str) -> Prepare:
    """The calls of `Model.sources` and `Model.compare_sources` that give what is seen."""

    def prepare(_: CachingAsker) -> Finish:
        context = context_of(question)
        more: PlainData = {"by": None if question.by == "sentence" else question.by}
        more["tokens"] = None if question.tokens == ANSWER_TOKENS else question.tokens
        given = {"answer": question.answer} | more
        method = {"method": None if question.method == "auto" else question.method}
        lines = [
            "import wherefrom",
            load_line(service, source),
            f"question, context = {question.question!r}, {context!r}",
            f"r = model.sources({', '.join(['question', 'context', *as_arguments(given | method)])})",
            "r.show()",
        ]
        if question.methods:
            methods = {"methods": list(question.methods)}
            lines.append(
                f"model.compare_sources({', '.join(['question', 'context', *as_arguments(given | methods)])}).show()"
            )
        rest = _kept_context(context, question.removed)
        if question.removed and rest:
            call = ", ".join(["question", repr(rest), *as_arguments(more), "regenerate=False"])
            lines.append(f"print(model.sources({call}).answer)")
        return lambda: {"python": "\n".join(lines) + "\n"}

    return prepare


def _kept_context(context: Context, removed: Sequence[int]) -> Context:
    if isinstance(context, dict):
        return {name: text for number, (name, text) in enumerate(context.items()) if number not in removed}
    return [text for number, text in enumerate(context) if number not in removed]


def _answer_data(explainer: SourcesExplainer) -> PlainData:
    """The answer in statements and what is between them, and the passages in sources."""
    read, reached, runs = explainer.read, 0, list[tuple[str, int | None]]()
    text = read.answer.text
    for number, (start, end) in enumerate(explainer.spans):
        runs += [(visible(text[reached:start]), None), (visible(text[start:end]), number)]
        reached = end
    runs.append((visible(text[reached:]), None))
    return {
        "generated": read.generated,
        "runs": [run for run in runs if run[0]],
        "documents": [
            {
                "name": visible(document.name),
                "parts": [
                    (part.text, None if part.source < 0 else part.source)
                    for part in stretches_of(document.text, number, read.prompt.sources)
                ],
            }
            for number, document in enumerate(read.prompt.documents)
        ],
        "notes": [visible(note) for note in read.notes],
    }


def _row(sources: Sources) -> PlainData:
    """What a method finds for every statement."""
    return {
        "method": sources.method,
        "options": visible(options(sources.params)),
        "names": [visible(sources.name_of(source)) for source in sources.statements[0].sources],
        "statements": [_statement_data(sources, statement) for statement in sources.statements],
        "notes": [visible(note) for note in sources.notes],
    }


def _grade_data(grade: SourceGrade) -> PlainData:
    return {
        "method": grade.method,
        "top_1_drop": grade.top_1_drop,
        "top_3_drop": grade.top_3_drop,
        "lds": grade.lds,
        "forwards": grade.forwards,
        "backwards": grade.backwards,
    }


def _statement_data(sources: Sources, statement: Statement) -> PlainData:
    shown, test = shown_statement(sources, statement), statement.test
    return {
        "grounded": shown.grounded,
        "grounding": shown.grounding,
        "verdict": shown.verdict,
        "test": shown.test,
        "without": shown.without or None,
        "tested": [] if test is None else list(test.sources),
        "test_drop": None if test is None else test.drop,
        "top": [place for *_, place in shown.rows],
        "scores": [source.score for source in statement.sources],
        "drops": None if statement.sources[0].drop is None else [source.drop for source in statement.sources],
        "shades": [shade.split(":") for shade in shown.shades.split(" ")],
        "log_probability": statement.log_probability,
        "tokens": statement.tokens,
    }
