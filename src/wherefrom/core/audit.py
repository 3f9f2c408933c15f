"""An audit: what a model leans on over a whole data set. Plain values, to be shown, saved and checked without a model.

Every number is an `Estimate`: a mean or a share over texts with its 95% interval, and no number at all for fewer than
`LEAST` texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from wherefrom.core.explanation import Explanation
from wherefrom.core.gate import failures, rules_of
from wherefrom.core.saved import Format, Saved

LEAST = 5  # texts: no number is given for fewer
SIGNIFICANT = 0.05  # of p-values after Benjamini and Hochberg's correction

WordKind = Literal["content", "grammar", "mark"]
ShortcutKind = Literal["misleads", "form", "metadata"]
AuditKind = Literal["labels", "value", "tags"]


@dataclass(frozen=True)
class Estimate:
    """A mean or a share over texts, with its 95% interval.

    Attributes:
        value: the mean or share; None for fewer than five texts.
        low: the lower end of its 95% interval.
        high: the upper end.
        texts: over how many texts.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    texts: int = 0


@dataclass(frozen=True)
class Occurrence:
    """Where a word occurs.

    Attributes:
        example: the id of the example.
        text: the word with the text around it.
    """

    example: str
    text: str


@dataclass(frozen=True)
class AuditWord:
    """A word in the explanations of one label.

    Attributes:
        word: the word, in lower case.
        label: the label that is explained.
        kind: "content", "grammar" (such as "the") or "mark" (punctuation).
        texts: in how many texts of this label it occurs.
        score: the mean over texts of its attribution score.
        z: how far this mean is from that of words that occur about as often, in their robust standard deviations.
        q: the p-value of z after Benjamini and Hochberg's correction over all words looked at.
        drop: by how much the label's probability (or the value) falls without the word.
        flips: in what share of these texts another decision is made without the word.
        places: where it weighs most.
    """

    word: str
    label: str
    kind: WordKind
    texts: int
    score: Estimate
    z: float | None
    q: float | None
    drop: Estimate
    flips: Estimate
    places: tuple[Occurrence, ...] = ()


@dataclass(frozen=True)
class Misleading:
    """A word that goes with wrong decisions for one label.

    Attributes:
        word: the word.
        label: the label that is wrongly predicted.
        errors: the share wrongly given this label, among texts of other labels that contain the word.
        elsewhere: the same share among those that do not contain it.
        count: how many such errors contain the word.
        fixed: the share of these errors that hiding the word puts right.
        q: the p-value of the difference (Fisher's exact test) after correction over all words and labels.
        places: some of these errors.
    """

    word: str
    label: str
    errors: Estimate
    elsewhere: Estimate
    count: int
    fixed: Estimate
    q: float
    places: tuple[Occurrence, ...] = ()


@dataclass(frozen=True)
class Shortcut:
    """A suspected shortcut: something that decides although the labels, or its form, say that it should not.

    Attributes:
        kind: "misleads" (a word that draws texts of other labels to this one, and without which more decisions are put
            right than made wrong), "form" (a word of grammar, a mark or a number whose hiding changes decisions out of
            proportion), or "metadata" (a value of a column of the data whose texts are drawn to this label).
        name: the word, or "column = value".
        label: the label it draws to.
        texts: in how many texts it occurs.
        predicted: the share of these that the model gives this label.
        gold: the share of these that have this label in the data; no number where the data has no labels.
        flips: the share of decisions for this label that change without it; no number for metadata.
        fixed: of the decisions that hiding it puts right or makes wrong, the share that it puts right.
        z: how far it is out of proportion: errors beside texts without it, or flips beside words of like frequency.
        q: the p-value after correction.
        places: some of its texts.
    """

    kind: ShortcutKind
    name: str
    label: str
    texts: int
    predicted: Estimate
    gold: Estimate
    flips: Estimate
    fixed: Estimate
    z: float
    q: float
    places: tuple[Occurrence, ...] = ()


@dataclass(frozen=True)
class LabelScore:
    """How well one label is predicted.

    Attributes:
        label: the label.
        texts: how many texts have it.
        recall: the share of these that it is predicted for.
        precision: the share of its predictions that are right.
        f1: the harmonic mean of both; no number for fewer than five texts.
    """

    label: str
    texts: int
    recall: Estimate
    precision: Estimate
    f1: float | None


@dataclass(frozen=True)
class CalibrationBin:
    """Decisions of similar confidence.

    Attributes:
        low: the lowest confidence in this bin.
        high: the highest.
        confidence: the mean confidence.
        accuracy: the share that is right.
    """

    low: float
    high: float
    confidence: float | None
    accuracy: Estimate


@dataclass(frozen=True)
class Group:
    """Texts that have something in common, such as their length.

    Attributes:
        name: what they have in common.
        accuracy: the share of right decisions among them; of a regression model, the mean absolute error.
    """

    name: str
    accuracy: Estimate


@dataclass(frozen=True)
class Performance:
    """How well the model does on these data, where they have labels.

    Attributes:
        accuracy: the share of texts whose labels are all predicted, and no others.
        macro_f1: the mean F1 over labels.
        error: of a regression model, the mean absolute error.
        correlation: of a regression model, Pearson's correlation of predicted and given values.
        labels: label by label.
        confusion: rows are the data's labels, columns the predicted ones, both in the order of `labels`; empty for
            models that may predict several labels.
        calibration: confidence and accuracy.
        calibration_error: the expected calibration error: the mean distance of confidence and accuracy over bins.
        groups: accuracy by length, and by every metadata column.
    """

    accuracy: Estimate = Estimate()
    macro_f1: Estimate = Estimate()
    error: Estimate = Estimate()
    correlation: Estimate = Estimate()
    labels: tuple[LabelScore, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    calibration: tuple[CalibrationBin, ...] = ()
    calibration_error: Estimate = Estimate()
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True)
class TextChange:
    """What happens to decisions when texts are changed in one way.

    Attributes:
        name: what is changed, such as "lower case", or "Anna -> Mohammed".
        group: the group of terms that are swapped; "" for changes of case and punctuation.
        flips: the share of texts that are decided otherwise, among those that the change alters.
        shift: by how much the label's probability (or the value) changes, without its sign.
    """

    name: str
    group: str
    flips: Estimate
    shift: Estimate


@dataclass(frozen=True)
class Fragility:
    """How little it takes to change decisions.

    Attributes:
        one_word: the share of decisions that change when one word is hidden.
        sizes: for 1, 2, 3, 4 and 5 words: the share that changes when at most so many are hidden, in the order of the
            explanation's scores (of single words, all are tried).
        changes: of case and punctuation, and of terms.
        values: of a regression model, by how much the value moves at most when one word is hidden.
    """

    one_word: Estimate = Estimate()
    sizes: tuple[Estimate, ...] = ()
    changes: tuple[TextChange, ...] = ()
    values: Estimate = Estimate()


@dataclass(frozen=True)
class Trust:
    """Whether the explanations that this audit rests on were found true.

    Attributes:
        method: the method of attribution.
        why: why this one.
        supported: the share of explanations whose strongest words matter more than random ones when they are hidden.
        weak: the share for which that is less sure.
        refuted: the share for which it is not so.
        too_short: how many texts are too short for a verdict.
    """

    method: str
    why: str
    supported: Estimate = Estimate()
    weak: Estimate = Estimate()
    refuted: Estimate = Estimate()
    too_short: int = 0


@dataclass(frozen=True)
class AuditExample:
    """One text of the audit.

    Attributes:
        example: its id.
        gold: its labels in the data; None where it has none.
        wrong: whether the model is wrong about it; None where that is not known.
        explanation: of the decision.
        hidden: words whose hiding changes the decision; none where no set was found.
        becomes: what is decided then.
        fixed: whether that is right.
    """

    example: str
    gold: str | None
    wrong: bool | None
    explanation: Explanation
    hidden: tuple[str, ...] = ()
    becomes: str | None = None
    fixed: bool = False


@dataclass(frozen=True)
class WordChange:
    """A word on which two models lean differently.

    Attributes:
        word: the word.
        label: the label.
        old: by how much the label's probability falls without the word, in the old model.
        new: the same in the new model.
        difference: new less old, text by text.
        q: the p-value of the difference after correction.
        places: where it changed most.
    """

    word: str
    label: str
    old: Estimate
    new: Estimate
    difference: Estimate
    q: float
    places: tuple[Occurrence, ...] = ()


@dataclass(frozen=True)
class Changes:
    """An older model beside the audited one, text by text.

    Attributes:
        model: the older model's name.
        accuracy: the older model's accuracy.
        decisions: the share of texts that are decided otherwise.
        fixed: of these, how many were wrong and are right.
        broken: how many were right and are wrong.
        words: words whose weight changed significantly, the largest change first; at most twenty.
        changed_words: how many changed significantly.
        looked_at: how many words were compared.
        new_shortcuts: suspected shortcuts that the older model does not have, as "name -> label".
        gone_shortcuts: those that only the older model has.
        examples: texts that are decided otherwise: their id with the decision before and now.
    """

    model: str
    accuracy: Estimate
    decisions: Estimate
    fixed: int
    broken: int
    words: tuple[WordChange, ...] = ()
    changed_words: int = 0
    looked_at: int = 0
    new_shortcuts: tuple[str, ...] = ()
    gone_shortcuts: tuple[str, ...] = ()
    examples: tuple[Occurrence, ...] = ()


@dataclass(frozen=True)
class Audit(Saved):
    """What a model leans on over a data set; `Model.audit` makes one.

    Attributes:
        model: the model's name.
        data: the data's name.
        date: when it was made, as in 2026-11-18.
        kind: "labels" for a classifier, "value" for a regression model, "tags" for token classification.
        texts: how many texts were read.
        decisions: how many decisions were explained: several a text where a model gives several labels.
        failed: how many texts could not be explained.
        labels: the model's labels.
        looked_at: how many pairs of word and label were looked at for `words`.
        tests: how many pairs of word and label were tested for `misleading` and `shortcuts`.
        words: what the model leans on, label by label, the farthest from words of like frequency first.
        misleading: what goes with errors, those with most errors first.
        shortcuts: suspected shortcuts, the strongest first.
        performance: how well it does.
        fragility: how little changes its decisions.
        trust: how far to believe the explanations.
        examples: errors, and some right decisions.
        changes: the older model beside this one; None without one.
        notes: what is not there, and why.
        facts: versions, options and times, by name.

    Example:
        ```python
        audit = model.audit("sample:reviews")
        audit.show()
        audit.save("audit.json")
        ```
    """

    FORMAT: ClassVar[Format] = Format("audit", "wherefrom_audit", indent=1)

    model: str
    data: str
    date: str
    kind: AuditKind
    texts: int
    decisions: int
    failed: int
    labels: tuple[str, ...]
    looked_at: int
    tests: int
    words: tuple[AuditWord, ...]
    misleading: tuple[Misleading, ...]
    shortcuts: tuple[Shortcut, ...]
    performance: Performance
    fragility: Fragility
    trust: Trust
    examples: tuple[AuditExample, ...] = ()
    changes: Changes | None = None
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, float | int | None]:
        """What rules of a gate may be about, by name; None where the data gives no number."""
        regression = self.kind == "value"
        numbers: dict[str, float | int | None] = {
            "texts": self.texts,
            "failed": self.failed,
            "supported": self.trust.supported.value,
            "shortcuts": len(self.shortcuts),
            "misleading_words": len(self.misleading),
        }
        if regression:
            numbers |= {
                "error": self.performance.error.value,
                "correlation": self.performance.correlation.value,
            }
        else:
            numbers |= {
                "accuracy": self.performance.accuracy.value,
                "macro_f1": self.performance.macro_f1.value,
                "calibration_error": self.performance.calibration_error.value,
                "flips_by_one_word": self.fragility.one_word.value,
            }
        if self.changes is not None:
            numbers |= {
                "changed_decisions": self.changes.decisions.value,
                "changed_words": self.changes.changed_words,
                "new_shortcuts": len(self.changes.new_shortcuts),
                "broken": self.changes.broken,
            }
        return numbers

    def failures(self, rules: Mapping[str, str]) -> list[str]:
        """Why the audit does not meet rules; empty where it meets all.

        Args:
            rules: a comparison for each of some `numbers`.

        Example:
            ```python
            audit.failures({"accuracy": ">= 0.88", "shortcuts": "== 0"})
            ```
        """
        return failures(rules_of(rules, "rules"), self)

    def show(self) -> None:
        """Print the summary, the words and the suspected shortcuts."""
        from wherefrom.report.audit_terminal import print_audit

        print_audit(self)

    def to_html(self) -> str:
        """A self-contained page."""
        from wherefrom.report.audit import audit_page

        return audit_page(self)

    def to_markdown(self) -> str:
        """The section for a model card."""
        from wherefrom.report.audit_card import audit_card

        return audit_card(self)

    def _problems(self) -> Iterator[str]:
        rows = self.performance.confusion
        if rows and any(len(row) != len(self.performance.labels) for row in (*rows, rows)):
            yield "its confusion matrix does not fit its labels"
