"""Methods for sources side by side: what happened when the sources that each put first were removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from wherefrom.core.saved import Format, Saved
from wherefrom.core.sources import Division, Document, Grounding, Source, SourcesVerdict
from wherefrom.errors import MissingExtra

if TYPE_CHECKING:
    import pandas

GOLD_RECALL_AT = 3  # sources: how many of the highest are searched for those that contain the answer


@dataclass(frozen=True)
class SourceGrade:
    """How well one method found the sources of an answer.

    Attributes:
        method: its name.
        scores: of every source, in the order of the passages.
        top_1_drop: by how much the answer's log-probability falls without the highest source.
        top_3_drop: the same without the three highest.
        top_5_drop: the same without the five highest.
        lds: the linear datamodelling score: Spearman's correlation, over random removals that the method did not use,
            between the answer's log-probability and the sum of the scores of the sources that were kept. None where
            there were too few such removals.
        gold_at_1: 1.0 where the highest source contains the answer, else 0.0; None where no gold sources were given.
        gold_recall: the share of the gold sources among the three highest; None where none were given.
        verdict: of the top sources, as in `SourceTest`; None where no source has a positive score, or without the test.
        params: every option of the method.
        forwards: how many rows the method sends through the model.
        backwards: how many of them it differentiates.
    """

    method: str
    scores: tuple[float, ...]
    top_1_drop: float
    top_3_drop: float
    top_5_drop: float
    lds: float | None
    gold_at_1: float | None
    gold_recall: float | None
    verdict: SourcesVerdict | None
    params: Mapping[str, Any] = field(default_factory=dict)
    forwards: int = 0
    backwards: int = 0


SOURCE_METRICS = ("gold_at_1", "gold_recall", "top_1_drop", "top_3_drop", "top_5_drop", "lds")


@dataclass(frozen=True)
class SourcesComparison(Saved):
    """Methods for sources, graded on one answer; `Model.compare_sources` makes one.

    Attributes:
        question: what was asked; "" where the caller gave a prompt.
        answer: what the model answered, or the answer that was given.
        generated: whether the model wrote the answer itself.
        documents: the passages.
        sources: the parts of the passages, in order.
        grounding: whether the answer came from the passages at all.
        log_probability: of the answer, with all passages.
        gold: the numbers of the sources that contain the answer, where the caller said so.
        grades: one for each method, as they were asked for.
        by: what the passages were divided into.
        model: the model's name.
        seconds: how long it took.

    Example:
        ```python
        c = model.compare_sources("Who designed the library?", context=[first, second])
        c.show()
        ```
    """

    FORMAT: ClassVar[Format] = Format("comparison of sources", "wherefrom_sources_comparison")

    question: str
    answer: str
    generated: bool
    documents: tuple[Document, ...]
    sources: tuple[Source, ...]
    grounding: Grounding
    log_probability: float
    gold: tuple[int, ...]
    grades: tuple[SourceGrade, ...]
    by: Division
    model: str = ""
    seconds: float = 0.0

    def show(self) -> None:
        """Print a line for each method."""
        from wherefrom.report.source_grades import print_comparison

        print_comparison(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each method."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("A pandas frame", "report") from error

        return pandas.DataFrame([asdict(grade) for grade in self.grades])

    def _problems(self) -> Iterator[str]:
        if any(len(grade.scores) != len(self.sources) for grade in self.grades):
            yield "a method has other sources"
