"""The verbs: load a model, explain a text, compare explanations, evaluate one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, overload

import torch

from wherefrom.case.case import Attribution, make_cases
from wherefrom.case.explain import Spent, aimed, explained, retargeted
from wherefrom.core.comparison import Comparison
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.flow import Flow
from wherefrom.core.units import Level, Span
from wherefrom.errors import BadOption, TextWasCut, UnknownName
from wherefrom.grading.compare import Comparer, Query, chosen_methods, chosen_metrics
from wherefrom.model.loading import Device, Precision, load_model
from wherefrom.model.tasks import Asked
from wherefrom.model.text_model import TextModel
from wherefrom.progress import bar
from wherefrom.registry import Choice, Method, check_options, find_method

Text = str | tuple[str, str]
LEVELS: tuple[Level, ...] = ("token", "word", "sentence")


class Model:
    """A text model that can be asked why."""

    def __init__(self, text_model: TextModel) -> None:
        self.text_model = text_model

    @property
    def labels(self) -> list[str]:
        return self.text_model.labels

    def __repr__(self) -> str:
        return f"wherefrom.Model({self.text_model.name!r}, labels={self.labels})"

    @overload
    def explain(
        self, text: Text, method: str = ..., target: Asked = ..., level: Level = ..., **options: Any
    ) -> Explanation: ...
    @overload
    def explain(
        self, text: Text, method: str = ..., target: list[Asked] | list[str] = ..., level: Level = ..., **options: Any
    ) -> list[Explanation]: ...
    @overload
    def explain(
        self, text: list[Text] | list[str], method: str = ..., target: Asked = ..., level: Level = ..., **options: Any
    ) -> list[Explanation]: ...
    def explain(
        self,
        text: Text | list[Text] | list[str],
        method: str = "attcat",
        target: Asked | list[Asked] | list[str] = None,
        level: Level = "token",
        **options: Any,
    ) -> Explanation | list[Explanation]:
        """Which tokens made the model decide so.

        text: one text, a (text, pair) tuple, or a list of them, which is batched and gives a list.
        method: a name from `wherefrom methods`; options are the method's own.
        target: the label, or its number, that is explained; the predicted one unless given. A tuple of two explains why
            one rather than the other. For language models a token; for question answering start, end, span, or an
            answer in the context. A list of targets gives one explanation for each, from the same passes:
            `model.predicted(text)` lists all predicted labels.
        level: token, word or sentence.
        """
        row = find_method(method)
        chosen = check_options(method, row.function, options)
        _check_level(level)
        model = self.text_model
        if isinstance(target, list):
            return self._each(text, row, chosen, target, level)
        fixed = None if target is None or model.task.depends_on_text else model.target(target)
        many = isinstance(text, list)
        encodings = [self._read(one) for one in (text if isinstance(text, list) else [text])]
        found: dict[int, Explanation] = {}
        with torch.inference_mode(False):  # the caller may be inside of one, where nothing could be differentiated
            for cases in make_cases(model, encodings, [fixed] * len(encodings), level=level):
                spent = Spent(next(iter(cases.values())).group)
                aims = aimed(cases, dict.fromkeys(cases, target), recorded=row.reads == "attention")
                found |= explained(aims, row, chosen, spent)
        ordered = [found[i] for i in range(len(encodings))]
        return ordered if many else ordered[0]

    def _each(
        self, text: Any, row: Method, options: dict[str, Any], targets: Sequence[Any], level: Level
    ) -> list[Explanation]:
        """One text, one explanation for every target; passes are shared."""
        if isinstance(text, list):
            raise BadOption("Several targets are explained for one text at a time, not for a list of texts.")
        task = self.text_model.task
        with torch.inference_mode(False):
            (cases,) = make_cases(self.text_model, [self._read(text)], [None], level=level)
            if row.reads == "attention":
                _ = cases[0].group.recorded  # says what is predicted, too
            found = []
            for target in targets:
                aims = task.aims(self.text_model, target, cases[0].logits, cases[0].encoding)
                found.append(explained(retargeted(cases, {0: aims}), row, options)[0])
        return found

    def predicted(self, text: Text) -> list[str]:
        """The labels that the model predicts: of a multi-label model all that are likelier than not; else the
        likeliest.
        """
        model = self.text_model
        (cases,) = make_cases(model, [self._read(text)], [None])
        if not (model.task.name == "classification" and model.independent):
            return [cases[0].target.label]
        likely = [label for label, logit in zip(model.labels, cases[0].logits.tolist(), strict=True) if logit >= 0]
        return likely or [cases[0].target.label]

    def compare(
        self,
        text: Text,
        methods: str | Sequence[str] = "all",
        metrics: str | Sequence[str] | None = None,
        target: Asked = None,
        level: Level = "token",
        *,
        rationale: Sequence[Span] | None = None,
        rationale_pair: Sequence[Span] | None = None,
        answer: str | Sequence[Span] | None = None,
        against: Any = None,
        progress: bool | None = None,
    ) -> Comparison:
        """Every method's explanation of one text, graded by every metric. No question is put to the model twice.

        methods, metrics: names from `wherefrom methods` and `wherefrom metrics`, in a list or between commas, with
            options as `alti:norm=l2`; "all" leaves out methods that cannot explain this text, and says so.
        rationale, rationale_pair: (start, end) characters of what people marked in the text, and in its pair.
        answer: the right answer of a question, if it is known; else the predicted one is looked for.
        against: another model, for metrics that compare two.
        progress: None shows a bar where standard error is a terminal.
        """
        _check_level(level)
        encoding = self._read(text)
        marked = None if rationale is None and rationale_pair is None else (rationale or (), rationale_pair or ())
        query = Query(encoding, target, marked, answer)
        has = {
            "others": self.text_model.task.name == "classification" and len(self.labels) > 1,
            "rationale": marked is not None,
        }
        has |= {"answer": self.text_model.task.depends_on_text, "second": against is not None}
        comparer = Comparer(
            self.text_model,
            chosen_methods(methods),
            chosen_metrics(metrics, has=has),
            level,
            second=None if against is None else _explainer(against, level),
            skip=methods == "all",
        )
        with bar("asking", wanted=progress) as moved:
            return comparer.compare([query], progress=moved)[0]

    def evaluate(
        self,
        explanation: Explanation | Sequence[Explanation],
        metrics: str | Sequence[str] | None = None,
        *,
        rationale: Sequence[Span] | None = None,
        rationale_pair: Sequence[Span] | None = None,
        answer: str | Sequence[Span] | None = None,
        progress: bool | None = None,
    ) -> Comparison:
        """Grade explanations that are there already: ours, read from a file, or made by hand. All must be of one
        text.
        """
        given = [explanation] if isinstance(explanation, Explanation) else list(explanation)
        if len({(one.text, one.pair) for one in given}) != 1:
            raise BadOption("Give one explanation, or several of one text.")
        encoding = self.text_model.encode(
            *((given[0].text,) if given[0].pair is None else (given[0].text, given[0].pair))
        )
        marked = None if rationale is None and rationale_pair is None else (rationale or (), rationale_pair or ())
        has = {"rationale": marked is not None, "answer": self.text_model.task.depends_on_text}
        has["others"] = self.text_model.task.name == "classification" and len(self.labels) > 1
        comparer = Comparer(self.text_model, (), chosen_metrics(metrics, has=has))
        with bar("asking", wanted=progress) as moved:
            return comparer.evaluate(given, Query(encoding, None, marked, answer), progress=moved)

    def flow(self, text: Text, method: str = "alti", **options: Any) -> Flow:
        """Where what each position holds came from, layer by layer: for methods that hand on from token to token."""
        row = find_method(method)
        chosen = check_options(method, row.function, options)
        encoding = self._read(text)
        (cases,) = make_cases(self.text_model, [encoding], [None])
        case = cases[0]
        with torch.inference_mode(False):
            given = row(case, **chosen)
        if not isinstance(given, Attribution) or given.flow is None:
            raise BadOption(
                f"{method} does not hand on from token to token, so it has no flow. Take"
                " alti, globenc, norms or attention_rollout."
            )
        return Flow(
            text=encoding.text,
            pair=encoding.pair,
            tokens=encoding.tokens,
            offsets=encoding.offsets,
            segment=encoding.segment,
            layers=given.flow().double().cpu().numpy(),
            read=tuple(case.row_read.tolist()),
            method=method,
            params=chosen | given.params,
            prediction=case.target.label,
            probability=case.target.probability(case.logits[None]).item(),
            notes=given.notes,
            model=self.text_model.name,
        )

    def _read(self, text: Text) -> Encoding:
        parts = (text,) if isinstance(text, str) else text
        if not (isinstance(parts, tuple) and len(parts) in (1, 2) and all(isinstance(part, str) for part in parts)):
            raise BadOption("A text is a str, or a (text, pair) tuple of two str; several of them come in a list.")
        encoding = self.text_model.encode(*parts)
        if encoding.cut:
            warnings.warn(
                f"The text has {len(encoding) + encoding.cut} tokens, the model reads {self.text_model.limit}:"
                f" the last {encoding.cut} were cut and are not explained.",
                TextWasCut,
                stacklevel=3,
            )
        return encoding


def _check_level(level: str) -> None:
    if level not in LEVELS:
        raise UnknownName.among("level", level, LEVELS)


def _explainer(source: Any, level: Level) -> Callable[[Encoding, Choice[Method], Asked], Explanation]:
    """How another model explains the same text."""
    model = source if isinstance(source, Model) else load(source)

    def explain(encoding: Encoding, choice: Choice[Method], target: Asked) -> Explanation:
        text: Any = encoding.text if encoding.pair is None else (encoding.text, encoding.pair)
        found: Explanation = model.explain(text, choice.row.name, target, level, **choice.options)
        return found

    return explain


def load(
    source: Any = "embedded", *, device: Device | None = None, dtype: Precision | None = None, task: str | None = None
) -> Model:
    """A model to ask: 'embedded', a folder, a hub id, a (model, tokenizer) pair, or a transformers pipeline."""
    return Model(load_model(source, device=device, dtype=dtype, task=task))


def flow(text: Text, *, model: Any = "embedded", method: str = "alti", **options: Any) -> Flow:
    """Load a model and follow one text through it: a shortcut."""
    return load(model).flow(text, method, **options)


def explain(
    text: Text,
    *,
    model: Any = "embedded",
    method: str = "attcat",
    target: Asked = None,
    level: Level = "token",
    **options: Any,
) -> Explanation:
    """Load a model and explain one text: a shortcut."""
    return load(model).explain(text, method, target, level, **options)
