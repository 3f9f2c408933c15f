"""What is seen, as Python and as a command that give the same numbers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from wherefrom.core.encoding import Encoding
from wherefrom.core.prediction import Without, spans_without
from wherefrom.errors import BadOption
from wherefrom.explorer.answers import CachingAsker
from wherefrom.explorer.hiding import TargetQuery, check_places
from wherefrom.explorer.questions import CodeQuestion
from wherefrom.explorer.service import Finish, ModelService, PlainData, Prepare
from wherefrom.explorer.sheet import PageUnits
from wherefrom.model.tasks import TargetSpec


def code(service: ModelService, question: CodeQuestion, source: str) -> Prepare:
    """The code that reproduces what is seen. source: what the model is loaded by."""

    def prepare(asker: CachingAsker) -> Finish:
        query = TargetQuery(service, question, asker)
        encoding, loading = service.read(question), service.model.task.loading
        check_places(PageUnits(encoding, question.level), question, service.limits)
        if question.begun:
            raise BadOption("A token within the answer has no call of its own: see Model.generate_and_explain.")

        def finish() -> PlainData:
            target = question.spec
            if target is None and question.replaced:  # another text may have another prediction
                target = query.answer()[1][0].label
            lines = [
                "import wherefrom",
                load_line(service, source),
                *_seen(service, question, encoding, target),
            ]
            return {"python": "\n".join(lines) + "\n", "command": as_command(question, source, loading)}

        return finish

    return prepare


def load_line(service: ModelService, source: str) -> str:
    """The line that loads the model. source: what it is loaded by."""
    return f"model = wherefrom.load({', '.join([repr(source), *as_arguments(service.model.task.loading)])})"


def _seen(service: ModelService, question: CodeQuestion, encoding: Encoding, target: TargetSpec) -> list[str]:
    """The comparison of the methods, and what the model predicts with words hidden or replaced."""
    lines, units = [], PageUnits(encoding, question.level)
    if question.methods:
        arguments = [_input(question, units.texts), repr(question.methods)]
        arguments += as_arguments({"target": question.spec, "level": question.level})
        lines.append(f"model.compare({', '.join(arguments)}).show()")
    if question.hidden or question.replaced or not question.methods:
        texts, spans = units.replaced(question.replaced) if question.replaced else (units.texts, units.raw_spans)
        changed = service.encode(texts[0], texts[1] if len(texts) > 1 else None) if question.replaced else encoding
        hidden = [_written(changed, span) for place in sorted(question.hidden) if (span := spans[place]) is not None]
        options = as_arguments({"target": target, "without": hidden or None, "fill": question.fill if hidden else None})
        lines.append(f"print(model.predict({', '.join([_input(question, texts), *options])}))")
    return lines


def _written(encoding: Encoding, span: tuple[int, int, int]) -> Without:
    """A hidden stretch by its word, where that occurs once and means the same tokens; else by its characters."""
    start, end, segment = span
    word, tokens = (encoding.text, encoding.pair or "")[segment][start:end].strip(), encoding.tokens_at([span])
    occurrences = spans_without(encoding, [word])[0]
    if len(occurrences) == 1 and encoding.tokens_at(occurrences) == tokens:
        return word
    return span if segment else (start, end)


def _input(question: CodeQuestion, texts: Sequence[str]) -> str:
    if question.messages is not None:
        return repr(question.chat)
    return repr(texts[0]) if len(texts) == 1 else repr(tuple(texts))


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as they are written, without those that are None."""
    return [f"{name}={value!r}" for name, value in options.items() if value is not None]


def as_command(question: CodeQuestion, source: str, loading: Mapping[str, Any]) -> str:
    """The methods as a command. Hidden words have none."""
    words = ["wherefrom", "compare", "--level", question.level]
    if source != "embedded":
        words += ["--model", source]
    if "labels" in loading:
        words += ["--candidates", ",".join(loading["labels"])]
    if "template" in loading:
        words += ["--template", loading["template"]]
    if "multi_label" in loading:
        words += ["--multi-label"]
    if question.methods:
        words += ["--methods", ",".join(question.methods)]
    if question.pair is not None:
        words += ["--pair", question.pair]
    for option, value in (("--target", question.target), ("--versus", question.versus)):
        if value is not None:
            words += [option, str(value)]
    if question.messages is not None:
        return shlex.join([*words, "--chat", json.dumps(question.chat, ensure_ascii=False)])
    return shlex.join([*words, "--", question.text])
