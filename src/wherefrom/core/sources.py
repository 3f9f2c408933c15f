"""Which passages an answer came from, as plain numbers: statements, their sources, and the test of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from wherefrom.core.saved import Format, Saved
from wherefrom.errors import BadOption, MissingExtra

if TYPE_CHECKING:
    import pandas

Division = Literal["sentence", "paragraph", "document"]
SourcesVerdict = Literal["supported", "weak", "not supported"]


@dataclass(frozen=True)
class Document:
    """A passage that the model was given.

    Attributes:
        name: its name, or "passage 1" and so on.
        text: what it says.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Source:
    """A part of a passage: a sentence, a paragraph, or all of it.

    Attributes:
        document: the number of the passage, from 0.
        number: the number of this source in the passage, from 0.
        text: what it says.
        start: its first character in the passage.
        end: the character after its last.
        score: how much a statement came from it, by the method; None outside of a statement.
        drop: by how much the statement's log-probability falls without this source; None where it was not measured.
    """

    document: int
    number: int
    text: str
    start: int
    end: int
    score: float | None = None
    drop: float | None = None


@dataclass(frozen=True)
class Grounding:
    """Whether a statement came from the passages at all.

    Attributes:
        drop: by how much its log-probability falls without any passage.
        margin: a drop up to this is no evidence: log 2, or what removing as much unrelated text does, if that is more.
        unrelated: the drops when unrelated text of the same length is removed.
    """

    drop: float
    margin: float
    unrelated: tuple[float, ...] = ()

    @property
    def grounded(self) -> bool:
        """False where the model makes the statement without the passages, too."""
        return self.drop > self.margin


@dataclass(frozen=True)
class SourceTest:
    """What happened when the top sources of a statement were removed.

    Attributes:
        sources: the numbers of the top sources, the highest score first.
        drop: by how much the log-probability falls without them.
        others: the drops without as many other sources, a random choice each.
        kept_only: by how much it falls when only the top sources are kept.
        verdict: "supported" where the drop is beyond 95% of the others, "weak" beyond 80%, else "not supported".
        answer: what the model answers without the top sources; None where it was not generated.
    """

    sources: tuple[int, ...]
    drop: float
    others: tuple[float, ...]
    kept_only: float
    verdict: SourcesVerdict
    answer: str | None = None


@dataclass(frozen=True)
class Statement:
    """A sentence of the answer, or a part of it that the caller chose.

    Attributes:
        text: what it says.
        start: its first character in the answer.
        end: the character after its last.
        log_probability: the sum of its tokens' natural log-probabilities, given the prompt and the answer before it.
        tokens: how many tokens it has.
        sources: every source with its score and, where it was measured, its drop; in the order of the passages.
        grounding: whether it came from the passages at all.
        test: what happened without its top sources; None where there was none with a positive score.
    """

    text: str
    start: int
    end: int
    log_probability: float
    tokens: int
    sources: tuple[Source, ...]
    grounding: Grounding
    test: SourceTest | None = None

    def top(self, count: int = 3) -> list[Source]:
        """The sources with the highest scores.

        Args:
            count: how many.

        Returns:
            The highest first.
        """
        return _top(self.sources, count)


@dataclass(frozen=True)
class Sources(Saved):
    """Which sources made a language model give an answer; `Model.sources` makes one.

    Attributes:
        question: what was asked; "" where the caller gave a prompt.
        answer: what the model answered, or the answer that was given.
        generated: whether the model wrote the answer itself.
        documents: the passages.
        statements: the sentences of the answer, each with its sources and their test.
        prompt: the text that the model read.
        by: what the passages were divided into.
        method: the name of the method.
        params: every option of the method.
        notes: what a reader has to know.
        model: the model's name.
        forwards: how many rows were sent through the model.
        backwards: how many of them were differentiated.
        seconds: how long it took.

    Example:
        ```python
        r = model.sources("Who designed the library?", context=[first, second])
        print(r.answer, r.top(3))
        ```
    """

    FORMAT: ClassVar[Format] = Format("set of sources", "wherefrom_sources")

    question: str
    answer: str
    generated: bool
    documents: tuple[Document, ...]
    statements: tuple[Statement, ...]
    prompt: str
    by: Division
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    model: str = ""
    forwards: int = 0
    backwards: int = 0
    seconds: float = 0.0

    @property
    def test(self) -> SourceTest | None:
        """What happened without the top sources of the statement that depends most on the passages."""
        return max(self.statements, key=lambda statement: statement.grounding.drop).test

    def statement(self, number: int) -> Statement:
        """One statement of the answer.

        Args:
            number: which, from 0; negative from the end.

        Returns:
            The statement.
        """
        if not -len(self.statements) <= number < len(self.statements):
            raise BadOption(f"There is no statement {number}: there are {len(self.statements)}, from 0.")
        return self.statements[number]

    def for_span(self, text: str) -> Statement:
        """The statement in which these words of the answer are.

        Args:
            text: words of the answer, as they are written there.

        Returns:
            The first statement that contains them.
        """
        start = self.answer.find(text) if text else -1
        for statement in self.statements if start >= 0 else ():
            if statement.start < start + len(text) and start < statement.end:
                return statement
        raise BadOption(f"The answer does not contain {text!r}. It is: {self.answer!r}.")

    def top(self, count: int = 3) -> list[Source]:
        """The sources of the whole answer with the highest scores: those of its statements are added up.

        Args:
            count: how many.

        Returns:
            The highest first.
        """
        return _top(self.totals(), count)

    def totals(self) -> tuple[Source, ...]:
        """Every source with its scores and drops added up over the statements, in the order of the passages."""
        columns = zip(*(statement.sources for statement in self.statements), strict=True)
        return tuple(
            replace(
                column[0],
                score=sum(source.score or 0.0 for source in column),
                drop=None if any(source.drop is None for source in column) else sum(_drops(column)),
            )
            for column in columns
        )

    def name_of(self, source: Source) -> str:
        """The passage of a source and its place there: "passage 1, sentence 2"."""
        name = self.documents[source.document].name
        return name if self.by == "document" else f"{name}, {self.by} {source.number + 1}"

    def show(self) -> None:
        """Print the answer, and of each statement the sources and their test."""
        from wherefrom.report.sources import print_sources

        print_sources(self)

    def to_html(self) -> str:
        """A self-contained page: choose a statement and see its sources in the passages."""
        from wherefrom.report.sources import page

        return page(self)

    def _repr_html_(self) -> str:
        from wherefrom.report.sources import fragment

        return fragment(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each statement and source."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("A pandas frame", "report") from error

        rows = [
            {"statement": number, "statement_text": statement.text, "document": self.documents[source.document].name}
            | {key: value for key, value in asdict(source).items() if key != "document"}
            | {"grounded": statement.grounding.grounded}
            for number, statement in enumerate(self.statements)
            for source in statement.sources
        ]
        return pandas.DataFrame(rows)

    def _problems(self) -> Iterator[str]:
        if not self.statements:
            yield "it has no statements"
            return
        places = {(source.document, source.number) for source in self.statements[0].sources}
        for statement in self.statements:
            here = [(source.document, source.number) for source in statement.sources]
            if set(here) != places or len(here) != len(places):
                yield "its statements have different sources"
            if not 0 <= statement.start <= statement.end <= len(self.answer):
                yield f"its answer has no characters {statement.start} to {statement.end}"
            for source in statement.sources:
                inside = 0 <= source.document < len(self.documents)
                if not inside or not 0 <= source.start <= source.end <= len(self.documents[source.document].text):
                    yield "a source is outside its passage"
            if statement.test and not all(0 <= number < len(here) for number in statement.test.sources):
                yield "a test names a source that does not exist"


def _top(sources: Sequence[Source], count: int) -> list[Source]:
    return sorted(sources, key=lambda source: -(source.score or 0.0))[:count]


def _drops(column: Sequence[Source]) -> list[float]:
    return [source.drop for source in column if source.drop is not None]
