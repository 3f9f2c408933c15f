"""What is seen, as Python and as a command that give the same numbers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from wherefrom.core.encoding import Encoding
from wherefrom.explorer.questions import CodeQuestion
from wherefrom.explorer.sheet import PageUnits


def as_python(question: CodeQuestion, encoding: Encoding, source: str, loading: Mapping[str, Any]) -> str:
    """A program that explains the text by the same methods, with the same words hidden.

    loading: what else the model is loaded with.
    """
    more = "".join(f", {name}={value!r}" for name, value in loading.items())
    text = repr(question.text) if question.pair is None else repr((question.text, question.pair))
    lines = ["import wherefrom", "", f"model = wherefrom.load({source!r}{more})", f"text = {text}"]
    target = "" if question.spec is None else f", target={question.spec!r}"
    if question.methods:
        methods = f"[{', '.join(map(repr, question.methods))}]"
        lines += [f"found = model.compare(text, {methods}{target}, level={question.level!r})", "found.show()"]
    if question.replaced:
        texts, _ = PageUnits(encoding, question.level).replaced(question.replaced)
        changed = repr(texts[0]) if len(texts) == 1 else repr(tuple(texts))
        target = f", target={question.spec!r}" if question.spec is not None else ""
        lines += [
            "",
            "# with other words",
            f"changed = model.explain({changed}{target})",
            "print(changed.target, changed.probability)",
        ]
    elif question.hidden:
        lines += ["", *_hidden(question, encoding)]
    return "\n".join(lines) + "\n"


def _hidden(question: CodeQuestion, encoding: Encoding) -> Sequence[str]:
    tokens = sorted(PageUnits(encoding, question.level).tokens(question.hidden))
    return [
        "# without the words that were hidden",
        "import numpy as np",
        "from wherefrom.case.asking import Asker",
        "from wherefrom.case.door import subject_of",
        "",
        f"encoding = model.text_model.encode({'text' if question.pair is None else '*text'})",
        f"subject = subject_of(model.text_model, encoding, {question.spec!r})",
        "keep = np.ones((2, len(subject.encoding)), dtype=bool)",
        f"keep[1, {tokens}] = False",
        "asker = Asker(subject.model)",
        f"answers = asker.note(subject.encoding, keep, {question.fill!r})",
        "asker.run()",
        "targets = subject.targets(answers.logits[0])",
        "print(answers.probability(targets))  # of the whole text, and without them",
    ]


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
    return shlex.join([*words, "--", question.text])
