"""What an audit reads: the rows of a run with their probes, and beside them what the data says of each text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wherefrom.benchmark.columns import explanation_of
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.probes import PROBE, words_of
from wherefrom.benchmark.store import Run
from wherefrom.benchmark.worker import LabelNames
from wherefrom.core.audit import Occurrence
from wherefrom.core.explanation import Explanation

SNIPPET = 40  # characters on either side of a word


@dataclass(frozen=True)
class Gold:
    """What the data says of one text."""

    labels: tuple[str, ...] | None = None  # by the model's names; None where the data has none
    value: float | None = None  # of a regression model
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbedRow:
    """One explained decision."""

    example: str
    label: str  # what is decided: of token classification, the kind of tag
    predicted: tuple[str, ...]  # every label that is predicted
    explanation: Explanation
    details: Mapping[str, Any]  # of the probe; empty where it failed
    gold: Gold
    first: bool  # whether it is the first of its text

    @property
    def wrong(self) -> bool | None:
        """Whether this decision is wrong; None where that is not known."""
        return None if self.gold.labels is None else self.label not in self.gold.labels

    @cached_property
    def places(self) -> Mapping[str, list[int]]:
        """The words of the text, each with the places where it occurs."""
        return words_of(self.explanation)

    @property
    def words(self) -> Iterator[tuple[str, float, bool | None, str | None]]:
        """Every word that was hidden: by how much the probability falls, whether the decision changes, and to what."""
        yield from self.details.get("words", ())

    def place(self, word: str) -> Occurrence:
        """The word with the text around it."""
        at = self.places[word][0]
        text = (self.explanation.text, self.explanation.pair or "")[self.explanation.segment[at]]
        start, end = self.explanation.offsets[at]
        before, after = "…" * (start > SNIPPET), "…" * (end + SNIPPET < len(text))
        return Occurrence(
            self.example, before + " ".join(text[max(0, start - SNIPPET) : end + SNIPPET].split()) + after
        )

    def puts_right(self, flipped: bool | None, becomes: str | None) -> bool:
        """Whether a changed decision is right where this one was wrong."""
        several = self.explanation.independent
        return bool(flipped) and self.wrong is True and (several or becomes in (self.gold.labels or ()))


def gold_of(run: Run, metadata: tuple[str, ...], *, regression: bool) -> dict[str, Gold]:
    """What the data says of every text of a run, by the text's id."""
    plan = run.plan
    examples = DataSet(plan.data, plan.folder, plan.limit, plan.seed, plan.columns or {}, metadata=metadata)
    known = LabelNames(list(run.manifest["model"]["labels"]), plan.label_names)
    ignored = plan.ignores_labels and not regression
    found = {}
    for example in examples:
        value = _number(example.label) if regression else None
        labels = None if ignored or regression or example.label is None else known.of(example)
        found[example.id] = Gold(labels, value, example.metadata)
    return found


def _number(label: Any) -> float | None:
    try:
        return None if label is None or isinstance(label, tuple) else float(label)
    except ValueError:
        return None


def probed_rows(run: Run, gold: Mapping[str, Gold], *, tags: bool = False) -> Iterator[ProbedRow]:
    """Every explained decision of a run, in no more memory than a few of them take. tags: whether labels are words with
    their tags.
    """
    probes, waiting = run.rows("scores"), dict[tuple[str, str], dict[str, Any]]()
    before = None
    for row in run.rows("explanations"):
        key = (row["example"], row["target"])
        for score in probes if key not in waiting else ():
            if score["metric"] == PROBE:
                waiting[score["example"], score["target"]] = json.loads(score["details"])
                if (score["example"], score["target"]) == key:
                    break
        label = row["target"].rpartition(": ")[2] if tags else row["target"]
        predicted = tuple(row["predicted"] or (row["prediction"],))
        own = gold.get(row["example"], Gold())
        first, before = row["example"] != before, row["example"]
        yield ProbedRow(row["example"], label, predicted, explanation_of(row), waiting.pop(key, {}), own, first)
