"""The verbs: load a model, explain a text, compare explanations, evaluate one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, overload

import torch

from wherefrom.case.case import Attribution, Case, make_cases
from wherefrom.case.door import read_again, read_input, several_inputs, subject_of
from wherefrom.case.explain import explain_targets, explain_texts
from wherefrom.case.flip import flip
from wherefrom.case.generation import explain_generation
from wherefrom.case.interactions import interactions
from wherefrom.case.predict import predict_texts
from wherefrom.case.recognise import recognised
from wherefrom.case.windows import LongTexts, explain_windows
from wherefrom.catalogue import AUTO
from wherefrom.core.audit import Audit
from wherefrom.core.comparison import Comparison, Grade
from wherefrom.core.encoding import ChosenSpan, Encoding, ModelInput, TextOrPair
from wherefrom.core.explanation import Explanation, ExplanationList
from wherefrom.core.flip import Flip
from wherefrom.core.flow import Flow
from wherefrom.core.generation import Generation
from wherefrom.core.interactions import Interactions
from wherefrom.core.notebook import in_notebook
from wherefrom.core.prediction import Prediction, Without, check_without
from wherefrom.core.source_grades import SourcesComparison
from wherefrom.core.sources import Division, Sources
from wherefrom.core.tables import is_table, texts_of
from wherefrom.core.target import Target, written_value
from wherefrom.core.units import LEVELS, Level, Span
from wherefrom.errors import BadOption, EmptyText, NotSeen, TextWasCut, UnknownName, WrongModel
from wherefrom.grading.choosing import chosen_methods, chosen_metrics
from wherefrom.grading.compare import Comparer, Query
from wherefrom.grading.generation import grade_generation
from wherefrom.model.adapters import as_function
from wherefrom.model.any_callable import is_function, load_callable
from wherefrom.model.chat import ChatMessage
from wherefrom.model.device import DeviceSpec
from wherefrom.model.filling import SampledWords
from wherefrom.model.generating import (
    MOST_TOKENS,
    check_generates,
    compared_tokens,
    generate,
    tokens_of,
)
from wherefrom.model.loading import DtypeSpec, load_model
from wherefrom.model.served import is_address, load_served
from wherefrom.model.tasks import TargetSpec
from wherefrom.model.text_model import TextModel
from wherefrom.progress import bar
from wherefrom.registry import Configured, Method, Reads, Reference, auto_methods, check_options, find_method
from wherefrom.sources.answered import ANSWER_TOKENS, PassageQuestion
from wherefrom.sources.compare import COMPARED, compare_sources
from wherefrom.sources.explain import explain_sources
from wherefrom.sources.prompts import Context
from wherefrom.sources.rows import read_rows, run_rows
from wherefrom.sources.rows import summary as source_summary

FILLS = ("delete", "mask", "unk", "pad", "eos", "sample")


class SupportsToList(Protocol):
    """A column of a table: a pandas Series, a numpy array, a torch or arrow column."""

    def tolist(self) -> Any: ...


Texts = (
    list[TextOrPair]
    | list[str]
    | list[tuple[str, str]]
    | Sequence[Sequence[ChatMessage]]
    | Iterator[Any]
    | SupportsToList
)


class Table(Protocol):
    """A table in memory: of datasets, pandas, polars or Arrow, or one that hands itself over as Arrow."""

    def __len__(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]: ...


class Model:
    """A text model whose decisions can be explained; `wherefrom.load` returns one.

    Example:
        ```python
        model = wherefrom.load("embedded")
        e = model.explain("A gorgeous, witty film, but the plot drags.")
        e.show()
        ```
    """

    def __init__(self, text_model: TextModel) -> None:
        self.text_model = text_model

    @property
    def labels(self) -> list[str]:
        return self.text_model.labels

    def __repr__(self) -> str:
        summary = f"labels={self.labels}" if self.text_model.task.has_labels else f"task={self.text_model.task.name!r}"
        return f"wherefrom.Model({self.text_model.name!r}, {summary})"

    @overload
    def explain(
        self,
        text: ModelInput,
        method: str = ...,
        target: TargetSpec = ...,
        level: Level = ...,
        *,
        check: bool | None = ...,
        units: Iterable[ChosenSpan] | None = ...,
        long: LongTexts = ...,
        **options: Any,
    ) -> Explanation: ...
    @overload
    def explain(
        self,
        text: ModelInput,
        method: str = ...,
        target: list[TargetSpec] | list[str] = ...,
        level: Level = ...,
        *,
        check: bool | None = ...,
        units: Iterable[ChosenSpan] | None = ...,
        long: LongTexts = ...,
        **options: Any,
    ) -> list[Explanation]: ...
    @overload
    def explain(
        self,
        text: Texts,
        method: str = ...,
        target: TargetSpec = ...,
        level: Level = ...,
        *,
        check: bool | None = ...,
        units: Iterable[ChosenSpan] | None = ...,
        long: LongTexts = ...,
        **options: Any,
    ) -> list[Explanation]: ...
    @overload
    def explain(
        self,
        text: Table,
        method: str = ...,
        target: TargetSpec = ...,
        level: Level = ...,
        *,
        check: bool | None = ...,
        long: LongTexts = ...,
        text_column: str | None = ...,
        pair_column: str | None = ...,
        label_column: str | None = ...,
        **options: Any,
    ) -> list[Explanation]: ...
    def explain(
        self,
        text: ModelInput | Texts | Table,
        method: str = AUTO,
        target: TargetSpec | list[TargetSpec] | list[str] = None,
        level: Level = "token",
        *,
        check: bool | None = None,
        units: Iterable[ChosenSpan] | None = None,
        long: LongTexts = "cut",
        text_column: str | None = None,
        pair_column: str | None = None,
        label_column: str | None = None,
        **options: Any,
    ) -> Explanation | list[Explanation]:
        """Explain which tokens a decision comes from.

        Args:
            text: one text, a (text, pair) tuple, or, for a causal language model with a chat template, the messages of
                a chat: a list of {"role": ..., "content": ...}. Several of them come in a list, a generator, a pandas
                Series or a numpy array; they are batched and give a list. So does a table: a `datasets.Dataset`, a
                frame of pandas or polars, or an Arrow table.
            method: a name from `wherefrom methods`; or "auto", the task's default (`attn_lrp` for most tasks). If
                that cannot look inside this model, "auto" is the first alternative that can, and a note tells you.
                `Explanation.method` is the method used.
            target: the label to explain, or its number. Default: the predicted one. A tuple of two explains one
                rather than the other. For language models a token, or a continuation of several (see
                `Model.generate_and_explain`), whose scores are added up; for token classification an entity, as
                "Paris: LOC" (see `Model.explain_entities`); for question answering start, end, span, or an answer in
                the context. A list of targets gives one explanation for each, from the same passes:
                `Model.predicted` lists all predicted labels.
            level: "token", "word" or "sentence"; of a chat, also "turn".
            check: check the explanation, too: the strongest units are hidden, and as many at random, and the outputs
                are compared. The result is in `Explanation.check`. At most 42 short rows for each text. Unless
                given, one text is checked in a notebook, where its view shows the verdict, and none elsewhere.
            units: spans of characters that are scored as wholes: (start, end) in the text, or (start, end, 1) in its
                pair. Words outside of them are units, too. Instead of a level.
            long: what to do with a text that is longer than the model reads. "cut": the rest is not explained, and a
                `TextWasCut` warning tells you. "windows": it is read in overlapping windows, a token's score is the
                mean over its windows, and a note names the window that decided; for models with labels.
            text_column: of a table, the column of the texts; the first with a usual name unless given.
            pair_column: of a table, the column of their pairs.
            label_column: of a table, the column of the labels that are explained, each row's own.
            **options: the method's own.

        Returns:
            An `Explanation`; a list of them for a list of texts or of targets.

        Example:
            ```python
            e = model.explain("A fine film.", "integrated_gradients", target="POSITIVE", level="word", steps=100)
            print(e.top(3))
            ```
        """
        if long not in get_args(LongTexts):
            raise UnknownName.among("way with long texts", long, get_args(LongTexts))
        columns = (text_column, pair_column, label_column)
        if is_table(text):
            arguments = {"level": level, "check": check, "units": units, "long": long, **options}
            return self._explain_table(text, columns, method, target, arguments)
        if any(column is not None for column in columns):
            raise BadOption(f"Columns are named of a table, and this is a {type(text).__name__}.")
        if method == AUTO:
            if options:
                raise BadOption(f"{next(iter(options))!r} is an option of some method: name the method, too.")
            texts = several_inputs(text)
            return self._explain_automatically(
                text if texts is None else texts, target=target, level=level, check=check, units=units, long=long
            )
        chosen_method = find_method(method)
        chosen_options = check_options(method, chosen_method.function, options)
        level = _chosen_level(level, units)
        model, several = self.text_model, several_inputs(text)
        tested = several is None and in_notebook() if check is None else check
        if several is not None and units is not None:
            raise BadOption("Units are chosen in one text at a time, not in a list of texts.")
        if long == "windows":
            if isinstance(target, list) or units is not None:
                raise BadOption("Windows take one target and no units of the caller's own: leave long='windows' out.")

            def in_windows(text_or_pair: Any) -> Explanation:
                explanation = explain_windows(model, text_or_pair, target, chosen_method, chosen_options, level)
                return explanation or self.explain(text_or_pair, method, target, level, check=check, **options)

            return in_windows(text) if several is None else ExplanationList(map(in_windows, several))
        if isinstance(target, list):
            if several is not None:
                raise BadOption("Several targets are explained for one text at a time, not for a list of texts.")
            with torch.inference_mode(False):
                return ExplanationList(
                    explain_targets(
                        model,
                        self._read(text, units, level),
                        target,
                        chosen_method,
                        chosen_options,
                        level,
                        check=tested,
                    )
                )
        encodings = [self._read(text, units, level)] if several is None else self._read_all(several, level)
        explanations = explain_texts(model, encodings, target, chosen_method, chosen_options, level, check=tested)
        return explanations[0] if several is None else ExplanationList(explanations)

    def _explain_table(
        self,
        table: Any,
        columns: tuple[str | None, str | None, str | None],
        method: str,
        target: Any,
        arguments: dict[str, Any],
    ) -> list[Explanation]:
        """The explanations of a table's texts, in the order of its rows."""
        texts, labels = texts_of(table, *columns)
        if labels is not None and target is not None:
            raise BadOption("The targets are those of label_column, or a target is given, not both.")
        targets = [target] * len(texts) if labels is None else labels
        explanations: dict[int, Explanation] = {}
        for chosen in dict.fromkeys(targets):
            places = [place for place, one in enumerate(targets) if one == chosen]
            results = self.explain([texts[place] for place in places], method, chosen, **arguments)
            explanations |= dict(zip(places, results, strict=True))
        return ExplanationList(explanations[place] for place in range(len(texts)))

    def _explain_automatically(self, text: Any, **arguments: Any) -> Explanation | list[Explanation]:
        """The explanation by the first of the task's methods that can look into the model."""
        first, *others = auto_methods(self.text_model.task.name)
        refused: NotSeen | None = None
        for name in (first, *others):
            try:
                result: Explanation | list[Explanation] = self.explain(text, name, **arguments)
            except NotSeen as error:
                refused = refused or error
                continue
            if refused is None:
                return result
            note = f"Explained by {name}, because {first} cannot be used with this model: {refused}"
            if isinstance(result, Explanation):
                return replace(result, notes=(*result.notes, note))
            return ExplanationList(replace(explanation, notes=(*explanation.notes, note)) for explanation in result)
        assert refused is not None
        raise refused

    def _read_all(self, texts: Iterable[ModelInput], level: Level) -> list[Encoding]:
        """Every text of a list; one that is empty is named by its place in it, from 0 as Python counts."""
        encodings = []
        for place, text in enumerate(texts):
            try:
                encodings.append(self._read(text, None, level))
            except EmptyText as error:
                raise EmptyText(f"Text number {place} of the list (counted from 0) is empty or blank.") from error
        return encodings

    def cases(
        self,
        texts: Sequence[ModelInput],
        targets: Sequence[Target | None] | None = None,
        *,
        level: Level = "token",
        reads: Iterable[Reads] = (),
    ) -> Iterator[tuple[int, Case]]:
        """The cases that methods take, for your own measurements.

        Args:
            texts: texts, (text, pair) tuples, or chats, as in `Model.explain`.
            targets: the target of each text; None for the prediction.
            level: token, word, sentence or turn.
            reads: what you will read of each case, so one pass serves everything: "attention", "gradients", ...

        Returns:
            The place of a text in `texts` with its case, a batch of texts of similar length at a time.

        Example:
            ```python
            sparsest = min((float(case.capture.attention[-1].probs.max()), place) for place, case in model.cases(texts))
            ```
        """
        encodings = [self._read(text, level=level) for text in texts]
        for cases in make_cases(self.text_model, encodings, targets or [None] * len(texts), level=level, reads=reads):
            yield from cases.items()

    def predicted(self, text: ModelInput) -> list[str]:
        """The labels that the model predicts.

        Args:
            text: one text, or a (text, pair) tuple.

        Returns:
            For a multi-label model, all labels with a probability above one half, or the most probable if there is
            none; otherwise the most probable label; for an encoder-decoder model, its output.

        Example:
            ```python
            each = model.explain(text, target=model.predicted(text))  # one explanation for every predicted label
            ```
        """
        subject = subject_of(self.text_model, self._read(text), None)
        model, encoding = subject.model, subject.encoding
        (cases,) = make_cases(model, [encoding], [None])
        logits = cases[0].logits
        labels = model.task.predicted_labels(model, logits, encoding)
        return labels or [model.task.predicted(model, logits, encoding).label]

    @overload
    def predict(
        self, text: ModelInput, *, target: TargetSpec = ..., without: Iterable[Without] = ..., fill: str = ...
    ) -> Prediction: ...
    @overload
    def predict(
        self, text: Texts, *, target: TargetSpec = ..., without: Iterable[Without] = ..., fill: str = ...
    ) -> list[Prediction]: ...
    def predict(
        self,
        text: ModelInput | Texts,
        *,
        target: TargetSpec = None,
        without: Iterable[Without] = (),
        fill: str = "delete",
    ) -> Prediction | list[Prediction]:
        """The model's prediction for a text, or for the rest of it when some words are hidden.

        Args:
            text: one text, a (text, pair) tuple, or several of them in a list, which are batched and give a list.
            target: the target whose probability you want, as in `Model.explain`. Default: the prediction for the
                whole text.
            without: words or phrases of the text that are hidden, as ["gorgeous", "a mess"]: every occurrence of each.
                Or (start, end) in characters of the text, or (start, end, 1) of its pair. With several texts, each is
                read without the words that it contains.
            fill: what replaces the tokens of a hidden word: "delete" for nothing, or "mask", "unk", "pad", "eos". If
                every position has its own prediction, as in token classification, nothing is deleted.

        Returns:
            A `Prediction`; a list of them for a list of texts.

        Example:
            ```python
            text = "A gorgeous, witty film, but the plot drags."
            print(model.predict(text).probability, model.predict(text, without=["gorgeous"], fill="mask").probability)
            ```
        """
        if fill not in FILLS:
            raise UnknownName.among("fill", fill, FILLS)
        texts, hidden = several_inputs(text), check_without(without)
        encodings = [self._read(text)] if texts is None else self._read_all(texts, "token")
        predictions = predict_texts(self.text_model, encodings, target, hidden, fill)
        return predictions[0] if texts is None else predictions

    def explain_entities(
        self, text: str, method: str = AUTO, level: Level = "token", *, check: bool = False, **options: Any
    ) -> list[Explanation]:
        """Explain every entity that a token classifier finds in a text.

        Args:
            text: one text.
            method: a name from `wherefrom methods`.
            level: "token", "word" or "sentence".
            check: check every explanation, too, as in `Model.explain`.
            **options: the method's own.

        Returns:
            An `Explanation` for each, in the order of the text, from the same forward passes; an empty list if the
            model finds no entity.

        Example:
            ```python
            for entity in model.explain_entities("Angela Merkel met Barack Obama in Berlin."):
                print(entity.target, entity.probability, entity.top(3))
            ```
        """
        model = self.text_model
        if not model.task.answers_by_position:
            raise WrongModel(
                f"Entities are found by a model for token classification, not by one for {model.task.name}."
            )
        encoding = self._read(text)
        (cases,) = make_cases(model, [encoding], [None])
        targets: list[TargetSpec] = [*model.task.predicted_labels(model, cases[0].logits, encoding)]
        return self.explain(text, method, targets, level, check=check, **options) if targets else []

    def compare(
        self,
        text: ModelInput,
        methods: str | Sequence[str] = "default",
        metrics: str | Sequence[str] | None = "default",
        target: TargetSpec = None,
        level: Level = "token",
        *,
        rationale: Sequence[Span] | None = None,
        rationale_pair: Sequence[Span] | None = None,
        answer: str | Sequence[Span] | None = None,
        against: Any = None,
        check: bool = True,
        progress: bool | None = None,
        units: Iterable[ChosenSpan] | None = None,
    ) -> Comparison:
        """Explain one text by several methods and grade each explanation by every metric. No forward pass runs twice.

        Args:
            text: one text, a (text, pair) tuple, or the messages of a chat, as in `Model.explain`.
            methods: names from `wherefrom methods`, in a list or between commas, with options as `alti:norm=l2`; or
                "default", eight of all families; "fast", all but the slow ones; "all". Of these, methods that cannot
                explain this text are left out and listed in `Comparison.failed`.
            metrics: names from `wherefrom metrics`, likewise; "default" are four of different groups.
            target: what is explained, as in `Model.explain`.
            level: "token", "word" or "sentence"; of a chat, also "turn".
            rationale: (start, end) characters of what people marked in the text.
            rationale_pair: the same for its pair.
            answer: the right answer to a question, if known. Default: the predicted answer.
            against: another model, for metrics that compare two; or a list of them, over which these take the mean.
            check: check every explanation, which decides which methods are supported.
            progress: None shows a bar where standard error is a terminal.
            units: spans of characters that are scored as wholes, as in `Model.explain`.

        Returns:
            A `Comparison` with the explanations and their grades.

        Example:
            ```python
            comparison = model.compare("A fine film.", methods=["attcat", "alti", "random"], metrics=["aopc", "rft"])
            comparison.show()
            ```
        """
        level = _chosen_level(level, units)
        encoding = self._read(text, units, level)
        marked = None if rationale is None and rationale_pair is None else (rationale or (), rationale_pair or ())
        query = Query(encoding, target, marked, answer)
        others = _other_models(against)
        offered = self._offered(rationale=marked is not None, second=bool(others))
        comparer = Comparer(
            self.text_model,
            chosen_methods(methods),
            chosen_metrics(metrics, offered=offered),
            level,
            against=others,
            check=check,
            skip=methods in ("default", "fast", "all"),
        )
        with bar("asking", shown=progress) as moved:
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
        """Grade existing explanations: computed, read from a file, or written by hand.

        Args:
            explanation: one explanation, or several of one text.
            metrics: names from `wherefrom metrics`. Default: all that can be measured.
            rationale: (start, end) characters of what people marked in the text.
            rationale_pair: the same for its pair.
            answer: the right answer of a question, if it is known.
            progress: None shows a bar where standard error is a terminal.

        Returns:
            A `Comparison` with the grades.

        Example:
            ```python
            grades = model.evaluate(e, metrics=["comprehensiveness"]).grades[0]
            ```
        """
        several = [explanation] if isinstance(explanation, Explanation) else explanation
        explanations = list(several) if isinstance(several, Iterable) else []
        if not explanations or not all(isinstance(item, Explanation) for item in explanations):
            raise BadOption(f"Explanations are evaluated: one, or a list of several, not {type(explanation).__name__}.")
        if len({(item.text, item.pair) for item in explanations}) != 1:
            raise BadOption("Give one explanation, or several of one text.")
        first = explanations[0]
        encoding = read_again(self.text_model, first.text, first.pair, first.turns)
        if {item.level for item in explanations} == {"span"}:
            spans = zip(first.offsets, first.segment, strict=True)
            encoding = encoding.with_spans((*span, part) for span, part in spans if part >= 0)
        marked = None if rationale is None and rationale_pair is None else (rationale or (), rationale_pair or ())
        offered = self._offered(rationale=marked is not None, second=False)
        comparer = Comparer(self.text_model, (), chosen_metrics(metrics, offered=offered))
        with bar("asking", shown=progress) as moved:
            return comparer.evaluate(explanations, Query(encoding, None, marked, answer), progress=moved)

    def generate_and_explain(
        self,
        prompt: str | Sequence[ChatMessage],
        method: str = AUTO,
        *,
        tokens: int = MOST_TOKENS,
        continuation: str | None = None,
        rather_than: str | None = None,
        check: bool = False,
        **options: Any,
    ) -> Generation:
        """Generate a continuation or an output, and explain each of its tokens.

        Args:
            prompt: a text, which a causal model continues, and which an encoder-decoder model (T5, BART) translates or
                summarises; or the messages of a chat, each with a role and a content, which go through
                the tokenizer's chat template. Tokens of the template count as special.
            method: a name from `wherefrom methods`; "auto" is attn_lrp, and where that cannot look into the model, the
                first that can.
            tokens: how many tokens are generated at most, greedily.
            continuation: the text after the prompt, or the output, instead of a generated one.
            rather_than: another continuation: each token is explained rather than the token at the same place of this
                one, given the tokens before it in the first. Where the two are equal, or this one has ended, a token is
                explained by itself.
            check: test the explanation of every token, and of all together: the strongest words of the prompt are
                hidden, and as many at random. See `Generation.by_word`.
            **options: the method's own.

        Returns:
            A `Generation`: a matrix with a row for every generated token. Where the method allows, all of it comes from
            one forward pass; methods that hide words hide those of the prompt.

        Example:
            ```python
            generation = model.generate_and_explain("The keys to the cabinet", "attn_lrp", tokens=5)
            generation.show()
            ```
        """
        model = self.text_model
        names = auto_methods(model.task.name) if method == AUTO else (method,)
        row = find_method(names[0])
        chosen = check_options(method, row.function, options)
        check_generates(model)
        encoding = self._read(prompt)
        with torch.inference_mode(False):
            ids = (
                generate(model, encoding, tokens) if continuation is None else tokens_of(model, encoding, continuation)
            )
            versus = compared_tokens(model, encoding, ids, rather_than)
            for other in names[1:]:
                try:
                    return explain_generation(model, encoding, ids, versus, row, chosen, check=check)
                except NotSeen:
                    row = find_method(other)
            return explain_generation(model, encoding, ids, versus, row, chosen, check=check)

    def sources(
        self,
        question: str | Sequence[ChatMessage] | None = None,
        context: Context | None = None,
        answer: str | None = None,
        *,
        prompt: str | None = None,
        context_spans: Sequence[Span] | None = None,
        by: Division = "sentence",
        method: str = "auto",
        statements: Iterable[Span] | None = None,
        tokens: int = ANSWER_TOKENS,
        regenerate: bool = True,
        **options: Any,
    ) -> Sources:
        """Find the passages that a causal language model's answer comes from, and test them by removing them.

        Args:
            question: the question, or the messages of a chat, the last of which asks it.
            context: the passages: a text, a list of texts, or texts by name.
            answer: the answer to explain; without it, the model answers.
            prompt: your own prompt instead of a question and its context. It is used as it is.
            context_spans: where the passages are in your prompt: (start, end) in characters, one for each.
            by: what a source is: a "sentence", a "paragraph" or a "document".
            method: "leave_one_out", "context_cite", "hierarchical", "kernel_shap" or "random", or a method from
                `wherefrom methods`, whose token scores are added up over each source. "auto" is "leave_one_out".
            statements: (start, end) in characters of the answer, one for each statement; without them, its sentences.
            tokens: how many tokens are generated at most.
            regenerate: whether the model answers again without the top sources of each statement.
            **options: the method's own.

        Returns:
            A `Sources`: the statements of the answer, each with its sources, whether it came from the passages at all,
            and what happened when its top sources were removed. Every score and drop is a difference of natural
            log-probabilities where the method removes sources.

        Example:
            ```python
            r = model.sources("Who designed the library?", context=[first, second])
            r.show()
            ```
        """
        with torch.inference_mode(False):
            asked = PassageQuestion(question, context, answer, prompt, context_spans, by, tokens)
            return explain_sources(
                self.text_model, asked, method=method, statements=statements, regenerate=regenerate, options=options
            )

    def answer(
        self, question: str | Sequence[ChatMessage], context: Context | None = None, *, tokens: int = ANSWER_TOKENS
    ) -> str:
        """Let a causal language model answer, with the prompt that `sources` builds.

        Args:
            question: the question, or the messages of a chat, the last of which asks it.
            context: the passages: a text, a list of texts, or texts by name.
            tokens: how many tokens are generated at most; greedily.

        Returns:
            The answer.

        Example:
            ```python
            print(model.answer("Who designed the library?", context=[first, second]))
            ```
        """
        with torch.inference_mode(False):
            asked = PassageQuestion(question, context, by="document", tokens=tokens)
            return asked.read(self.text_model).answer.text

    def compare_sources(
        self,
        question: str | Sequence[ChatMessage] | None = None,
        context: Context | None = None,
        answer: str | None = None,
        *,
        prompt: str | None = None,
        context_spans: Sequence[Span] | None = None,
        by: Division = "sentence",
        methods: Sequence[str] = COMPARED,
        gold: Sequence[Sequence[int]] = (),
        tokens: int = ANSWER_TOKENS,
        test: bool = True,
    ) -> SourcesComparison:
        """Grade methods for sources on one answer, by removals that they did not use.

        Args:
            question: the question, or the messages of a chat, the last of which asks it.
            context: the passages: a text, a list of texts, or texts by name.
            answer: the answer to explain; without it, the model answers.
            prompt: your own prompt instead of a question and its context.
            context_spans: where the passages are in your prompt: (start, end) in characters, one for each.
            by: what a source is: a "sentence", a "paragraph" or a "document".
            methods: names as in `sources`.
            gold: the sources that contain the answer, each as (document, number in it) or as (document, start, end) in
                characters, all from 0.
            tokens: how many tokens are generated at most.
            test: whether the top sources of every method are compared with other choices, which takes up to 20 passes
                for each method.

        Returns:
            A `SourcesComparison`: for every method what happens without its highest sources (`top_1_drop` and so on),
            how well the sum of its scores predicts other removals (`lds`), whether it finds the gold sources, the
            verdict of its top sources, and its cost. The answer is graded as a whole.

        Example:
            ```python
            c = model.compare_sources("Who designed the library?", context=[first, second], gold=[(0, 1)])
            c.show()
            ```
        """
        with torch.inference_mode(False):
            asked = PassageQuestion(question, context, answer, prompt, context_spans, by, tokens)
            return compare_sources(self.text_model, asked, methods=methods, gold=gold, test=test)

    def run_sources(
        self,
        data: str | Path,
        out: str | Path,
        *,
        methods: Sequence[str] = COMPARED,
        by: Division = "sentence",
        tokens: int = ANSWER_TOKENS,
        limit: int | None = None,
        resume: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Grade methods for sources on a file of questions; the same call resumes a run that was stopped.

        Args:
            data: a file with one JSON object a line: question, context (a list of texts, or texts by name), and if
                known id, answer, gold (as in `compare_sources`) and answerable (true or false).
            out: the folder for the results: a line for each question in `rows.jsonl`, the means in `summary.json`.
            methods: names as in `sources`.
            by: what a source is.
            tokens: how many tokens are generated at most.
            limit: take the first rows only.
            resume: False refuses a folder that has a run already.
            progress: called with how many rows are done, and how many there are.

        Returns:
            The summary: the mean of every metric with its 95% interval by method, how many answers are grounded, and
            the area under the ROC curve of the grounding drop, where the rows say what is answerable.

        Example:
            ```python
            summary = model.run_sources("rag.jsonl", "runs/rag")
            ```
        """
        rows = read_rows(data)
        if limit is not None and limit < 1:
            raise BadOption(f"limit must be at least 1, not {limit}.")
        with torch.inference_mode(False):
            results = run_rows(
                self.text_model,
                rows[:limit],
                out,
                methods=methods,
                by=by,
                tokens=tokens,
                resume=resume,
                progress=progress or (lambda done, everything: None),
            )
        return source_summary(results)

    def evaluate_generation(
        self, generation: Generation, metrics: str | Sequence[str] = ("comprehensiveness", "sufficiency")
    ) -> list[list[Grade]]:
        """Grade the explanation of every generated token by hiding tokens of the prompt.

        Args:
            generation: the result of `generate_and_explain`.
            metrics: names from `wherefrom metrics` that need nothing but the model.

        Returns:
            A list of grades, one for each metric, for every generated token.

        Example:
            ```python
            grades = model.evaluate_generation(found, ["comprehensiveness"])
            ```
        """
        encoding = read_again(self.text_model, generation.text, turns=generation.turns)
        return grade_generation(self.text_model, encoding, generation, chosen_metrics(metrics, offered=()))

    def flip(
        self,
        text: ModelInput,
        to: TargetSpec = None,
        method: str | None = None,
        level: Level = "word",
        *,
        fill: str = "delete",
        units: Iterable[ChosenSpan] | None = None,
        **options: Any,
    ) -> Flip:
        """The smallest set of words whose hiding changes the decision.

        Up to 12 units every set is tried, the small ones first. With more, units are hidden in the order of an
        explanation's scores until the decision changes, and those that are not needed are put back. Unless a method is
        given, the scores are the drops in probability when each unit alone is hidden, which are computed anyway.

        Args:
            text: one text, or a (text, pair) tuple.
            to: the label or token that the decision should become. Default: any other. For a multi-label model, the
                label whose yes should become a no, or the other way round.
            method: the method whose scores order the search in longer texts. Default: hiding each unit alone.
            level: "word", "token" or "sentence".
            fill: how units are hidden: "delete", or "mask", "unk", "pad" or "eos" for a token in their place.
            units: spans of characters that are hidden as wholes, as in `Model.explain`.
            **options: the method's own.

        Returns:
            A `Flip`: the units, what is decided without them, whether a smaller set is ruled out, and the cost.

        Example:
            ```python
            flip = model.flip("A gorgeous, witty film, but the plot drags.")
            flip.show()
            ```
        """
        if fill not in FILLS:
            raise UnknownName.among("fill", fill, FILLS)
        choice: Configured[Method] | None = None
        if method is not None:
            row = find_method(method)
            choice = Configured(method, row, check_options(method, row.function, options))
        elif options:
            raise BadOption(f"{', '.join(options)}: options are a method's own, and no method was given.")
        depth: Level = "span" if units is not None else level
        if units is None:
            _chosen_level(level, None)
        with torch.inference_mode(False):
            return flip(self.text_model, self._read(text, units, depth), to, choice, depth, fill)

    def interactions(
        self,
        text: ModelInput,
        target: TargetSpec = None,
        level: Level = "word",
        *,
        fill: str = "auto",
        samples: int = 1024,
        seed: int = 0,
        units: Iterable[ChosenSpan] | None = None,
    ) -> Interactions:
        """Which two words do together what neither does alone, such as "not bad": the Shapley interaction of every two.

        Args:
            text: one text, or a (text, pair) tuple.
            target: what is explained, as in `Model.explain`.
            level: "word", "token" or "sentence".
            fill: how units are hidden: "delete", or "mask", "unk", "pad" or "eos" for a token in their place; "auto" is
                the one that `occlusion` takes.
            samples: about how many combinations of units are queried. Where all of them fit, which is up to ten units
                by default, the interactions are exact; else each has a standard error.
            seed: of the combinations, where not all fit.
            units: spans of characters that are hidden as wholes, as in `Model.explain`.

        Returns:
            The `Interactions`: parts of the target's logit, for every two units.

        Example:
            ```python
            model.interactions("The film is not bad.").show()
            ```
        """
        if fill not in ("auto", *FILLS):
            raise UnknownName.among("fill", fill, ("auto", *FILLS))
        depth = _chosen_level("token" if units is not None and level == "word" else level, units)
        with torch.inference_mode(False):
            encoding = self._read(text, units, depth)
            return interactions(self.text_model, encoding, target, depth, fill=fill, samples=samples, seed=seed)

    def audit(
        self,
        data: Any,
        out: str | Path | None = None,
        *,
        against: Any = None,
        method: str = AUTO,
        metadata: Sequence[str] = (),
        groups: Mapping[str, Sequence[str]] | None = None,
        limit: int | None = None,
        seed: int | None = None,
        columns: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | Literal["none"] | None = None,
        data_dir: str | Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Audit:
        """What the model leans on over a whole data set: words by label, words that mislead it, suspected shortcuts,
        how little changes its decisions, how well it does, and how far all of that can be believed.

        Args:
            data: a file, a name such as "sample:reviews", a pandas frame, or a list of mappings with a text and a
                label.
            out: the folder that the work is kept in: the same call resumes an audit that was stopped. Unless given, a
                temporary one.
            against: an older model, or its name: which decisions and words changed.
            method: what explains decisions; the task's default unless given.
            metadata: columns of the data whose values may be shortcuts, such as its source.
            groups: terms to swap with each other, by the group's name, such as {"names": ["Anna", "Mohammed"]}.
            limit: take so many examples: the first, or random ones where there is a `seed`.
            seed: of these random ones.
            columns: our name of a field -> the data's, where it is not one of the usual names.
            labels: the data's label -> the model's, where they differ; "none" ignores the data's labels.
            data_dir: the folder of data sets with ready names.
            progress: called with how many examples are done, and how many there are.

        Returns:
            An `Audit`: plain numbers with intervals, a page, JSON, and the section for a model card.

        Example:
            ```python
            audit = model.audit("sample:reviews")
            audit.show()
            ```
        """
        from tempfile import TemporaryDirectory

        from wherefrom.audit.build import audit
        from wherefrom.audit.plan import AuditPlan, rows_in_file

        with TemporaryDirectory() as temporary, torch.inference_mode(False):
            folder = Path(temporary if out is None else out)
            plan = AuditPlan(
                data=rows_in_file(data, folder),
                model=self,
                method=method,
                metadata=tuple(metadata) if not isinstance(metadata, str) else metadata,
                groups=groups or {},
                limit=limit,
                seed=seed,
                columns=columns,
                labels=labels,
                data_dir=data_dir,
            )
            return audit(plan, folder, against=against, on_progress=progress)

    def flow(self, text: ModelInput, method: str = "alti", **options: Any) -> Flow:
        """Follow which tokens the content of each position comes from, layer by layer.

        Args:
            text: one text, or a (text, pair) tuple.
            method: one that follows tokens through the layers: alti, globenc, norms or attention_rollout.
            **options: the method's own.

        Returns:
            A `Flow`: for every layer, how much of each token is in each position.

        Example:
            ```python
            model.flow("A fine film.").to_html()
            ```
        """
        row = find_method(method)
        chosen = check_options(method, row.function, options)
        encoding = self._read(text)
        (cases,) = make_cases(self.text_model, [encoding], [None], reads=row.needs(chosen))
        case = cases[0]
        with torch.inference_mode(False):
            attribution = row(case, **chosen)
        if not isinstance(attribution, Attribution) or attribution.flow is None:
            raise BadOption(
                f"{method} does not hand on from token to token, so it has no flow. Take"
                " alti, globenc, norms or attention_rollout."
            )
        output = case.target.probability(case.logits[None]).item()
        regression = case.target.regression
        return Flow(
            text=encoding.text,
            pair=encoding.pair,
            tokens=encoding.tokens,
            offsets=encoding.offsets,
            segment=encoding.segment,
            layers=attribution.flow().double().cpu().numpy(),
            read=tuple(case.row_read.tolist()),
            method=method,
            params=chosen | attribution.params,
            prediction=written_value(output) if regression else case.target.label,
            probability=None if regression else output,
            notes=attribution.notes,
            model=self.text_model.name,
        )

    def _offered(self, *, rationale: bool, second: bool) -> set[Reference]:
        """What scores can be held against, beside the model itself."""
        references: set[Reference] = set(self.text_model.task.offers(self.text_model))
        if rationale:
            references.add("rationale")
        if second:
            references.add("second")
        return references

    def _read(self, text: Any, units: Iterable[ChosenSpan] | None = None, level: Level = "token") -> Encoding:
        encoding = read_input(self.text_model, text, level)
        if encoding.cut:
            warnings.warn(
                f"The text has {len(encoding) + encoding.cut} tokens, the model reads {self.text_model.reading.limit}:"
                f" the last {encoding.cut} were cut and are not explained.",
                TextWasCut,
                stacklevel=3,
            )
        return encoding if units is None else encoding.with_spans(units)


def _chosen_level(level: Level, units: Iterable[ChosenSpan] | None) -> Level:
    if level not in LEVELS:
        raise UnknownName.among("level", level, LEVELS)
    if units is None:
        return level
    if level != "token":
        raise BadOption(f"The units are chosen by hand or by {level}: give either units or level.")
    return "span"


def _other_models(models: Any) -> list[TextModel]:
    """One model, or several in a list; a tuple is a model with its tokenizer."""
    sources = [] if models is None else models if isinstance(models, list) else [models]
    return [(source if isinstance(source, Model) else load(source)).text_model for source in sources]


def load(
    source: Any = "embedded",
    tokenizer: Any = None,
    *,
    device: DeviceSpec | None = None,
    dtype: DtypeSpec | None = None,
    task: str | None = None,
    spread: float | None = None,
    labels: Sequence[str] | None = None,
    outputs: str | None = None,
    pooling: str | None = None,
    template: str | None = None,
    multi_label: bool = False,
    fill_model: Any = None,
    fill_draws: int = 8,
) -> Model:
    """Load a model to explain.

    Args:
        source: "embedded", a folder, a hub id, a (model, tokenizer) pair, a transformers pipeline, a
            SentenceTransformer or a CrossEncoder; any function that takes a list of texts (or of (text, pair) tuples)
            and returns a row of numbers for each; or an object with such a function: a scikit-learn pipeline or a
            SetFit model (`predict_proba`), a spaCy pipeline with a text categorizer, a SparseEncoder, a
            MultiVectorEncoder; or the address of an OpenAI-compatible server that returns log-probabilities of given
            text, such as "http://127.0.0.1:8000/v1" or "http://127.0.0.1:8000/v1#NAME".
        tokenizer: for a model object, its tokenizer; for a function, the tokenizer that splits its texts (default:
            words); for a model on a server, its tokenizer, or the folder or hub id of it, for the chat template.
        device: where the model runs, such as "cpu" or "cuda". A model object is never moved.
        dtype: its precision, such as "float64". A model object is never cast.
        task: the model's task, if its files do not contain it: "classification", "token_classification",
            "question_answering", "masked_lm", "causal_lm", "seq2seq", "multiple_choice" or "similarity" (the cosine of
            two texts' embeddings).
        spread: for a regression model, the unit in which changes of its value are measured, such as the standard
            deviation of its values over a data set. Default: the deviation over random maskings of each text.
        labels: for a function, the names of its columns; for an entailment model, candidate labels to choose among
            (zero-shot), which are then the targets.
        outputs: for a function, the kind of its numbers: "probabilities" of classes, "independent" probabilities of
            labels that do not exclude each other, "logits" (scores of classes, for a softmax), or "values". Default:
            probabilities if rows add up to one, values if there is one column, otherwise logits.
        pooling: for similarity, how an encoder's hidden states become one vector: "mean", "cls" or "max"; default: as
            in the files of a sentence encoder, otherwise the mean.
        template: for candidate labels, the hypothesis, with {} for the label. Default: "This example is {}.".
        multi_label: for candidate labels, whether several may be right; each then has its own probability.
        fill_model: a masked language model with the same vocabulary, as a folder, hub id, `Model` or pair. With
            `fill="sample"`, hidden words are replaced by words that it expects there, and the check hides words so.
        fill_draws: how many such words are drawn; answers are the mean over them.

    Returns:
        A `Model`. A model object is not changed.

    Example:
        ```python
        model = wherefrom.load("./my-model")
        ```
    """
    if is_address(source):
        others = (device, dtype, task, spread, labels, outputs, pooling, template)
        if any(argument is not None for argument in others) or multi_label:
            raise BadOption("Of a model on a server only the tokenizer can be given: leave the other arguments out.")
        return Model(load_served(source, tokenizer))
    adapted = as_function(source)
    if adapted is not None:
        labels, outputs = labels or adapted.labels, outputs or adapted.outputs
        source = adapted.function
    if is_function(source):
        if any(argument is not None for argument in (device, dtype, task, pooling, template)) or multi_label:
            raise BadOption(
                "A function has no device, dtype, task, pooling or template that could be chosen: leave them out."
            )
        if fill_model is not None:
            raise BadOption("Words are drawn for models with a vocabulary, not for a function: leave fill_model out.")
        return Model(load_callable(source, tokenizer, labels=labels, outputs=outputs, spread=spread))
    if outputs is not None:
        raise BadOption("outputs says what the numbers of a function are; a model's own configuration says it of it.")
    source_and_tokenizer = source if tokenizer is None else (source, tokenizer)
    model = load_model(
        source_and_tokenizer,
        device=device,
        dtype=dtype,
        task=task,
        spread=spread,
        pooling=pooling,
        labels=labels,
        template=template,
        several=multi_label,
    )
    if fill_model is not None:
        named = fill_model if isinstance(fill_model, Model) else load(fill_model, device=device, task="masked_lm")
        model = replace(model, sampled_words=SampledWords.of(model, named.text_model, fill_draws))
    return Model(recognised(model))


def flow(text: ModelInput, *, model: Any = "embedded", method: str = "alti", **options: Any) -> Flow:
    """Load a model and follow one text through it: a shortcut."""
    return load(model).flow(text, method, **options)


def explain(
    text: ModelInput,
    *,
    model: Any = "embedded",
    method: str = AUTO,
    target: TargetSpec = None,
    level: Level = "token",
    check: bool | None = None,
    units: Iterable[ChosenSpan] | None = None,
    **options: Any,
) -> Explanation:
    """Load a model and explain one text: a shortcut."""
    return load(model).explain(text, method, target, level, check=check, units=units, **options)
