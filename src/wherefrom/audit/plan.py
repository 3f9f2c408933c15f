"""What an audit is asked for, and the run that it rests on."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.plan import ALL_PREDICTED, PREDICTED, EngineName, RunPlan
from wherefrom.benchmark.worker import load_planned
from wherefrom.case.door import read_input
from wherefrom.case.explain import explain_texts
from wherefrom.catalogue import AUTO
from wherefrom.core.files import json_text, write_atomically
from wherefrom.core.names import join_names
from wherefrom.errors import BadFile, BadOption, NotSeen, WherefromError
from wherefrom.grading.choosing import DEFAULT_METRICS, chosen_methods
from wherefrom.model.text_model import TextModel
from wherefrom.registry import auto_methods

ROWS = "data.jsonl"  # where rows in memory are kept


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What an audit is asked for; the fields that a `RunPlan` has as well mean the same."""

    data: str
    model: Any = "embedded"
    method: str = AUTO
    metadata: Sequence[str] = ()  # columns whose values may be shortcuts
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)  # terms to swap, by the group's name
    limit: int | None = None
    seed: int | None = None
    data_dir: str | os.PathLike[str] | None = None
    columns: Mapping[str, str] | None = None
    labels: Mapping[str, str] | Literal["none"] | None = None
    spread: float | None = None
    candidates: Sequence[str] = ()
    template: str | None = None
    multi_label: bool = False
    device: str | None = None
    engine: EngineName = "local"
    workers: int | None = None
    address: str | None = None
    storage: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        for name, terms in self.groups.items():
            if (
                isinstance(terms, str)
                or len(set(terms)) < 2
                or not all(isinstance(t, str) and t.strip() for t in terms)
            ):
                raise BadOption(f"A group of terms to swap is a list of at least two: {name} = {terms!r} is not.")
        if isinstance(self.metadata, str):
            raise BadOption(f"Metadata columns are given in a list: metadata=[{self.metadata!r}].")


@dataclass(frozen=True)
class AuditedModel:
    """The run of one model, and what is known of the model before it."""

    plan: RunPlan
    name: str
    regression: bool
    tags: bool
    method: str
    why: str  # this method


def prepare(plan: AuditPlan) -> AuditedModel:
    """Load the model once, choose the method, and plan the run."""
    source = getattr(plan.model, "text_model", plan.model)
    run = RunPlan(
        plan.data,
        model=source,
        methods=(plan.method,),
        metrics=DEFAULT_METRICS[:1],  # a run has a metric; the audit's own numbers come from its probes
        level="word",
        probes={name: list(terms) for name, terms in plan.groups.items()},
        **{
            name: getattr(plan, name)
            for name in (
                *("limit", "seed", "data_dir", "columns", "labels", "spread", "candidates", "template", "multi_label"),
                *("device", "engine", "workers", "address", "storage"),
            )
        },
    )
    model = source if isinstance(source, TextModel) else load_planned(run, source, spread=plan.spread)
    tags = model.task.answers_by_position
    if not (model.task.has_labels or model.regression or tags):
        raise BadOption(
            f"{model.name} is made for {model.task.name}. An audit is of a model that decides among labels, tags words"
            " or predicts a value."
        )
    method, why = _method(plan, model)
    run = replace(run, methods=(method,), target=ALL_PREDICTED if model.independent or tags else PREDICTED)
    return AuditedModel(run, model.name, model.regression, tags, method, why)


def _method(plan: AuditPlan, model: TextModel) -> tuple[str, str]:
    """The method, and why this one: the first of those for the task that can look into the model."""
    if plan.method != AUTO:
        return plan.method, "named for this audit"
    examples = DataSet(plan.data, _folder(plan), columns=plan.columns or {}, ignore_labels=True)
    first = next(iter(examples), None)
    if first is None:
        raise BadFile(f"{plan.data} has no examples.")
    refused = list[str]()
    for name in auto_methods(model.task.name):
        (choice,) = chosen_methods([name])
        try:
            explain_texts(model, [read_input(model, first.asked, "word")], None, choice.row, choice.options, "word")
        except NotSeen:
            refused.append(name)
            continue
        except WherefromError:  # about this text, which the run will say
            pass
        if not refused:
            return name, f"the default for {model.task.name.replace('_', ' ')}"
        return name, f"{join_names(refused)} cannot look into this model"
    raise NotSeen(f"No default method can look into {model.name}: name one with --method.")


def _folder(plan: AuditPlan) -> Path | None:
    return None if plan.data_dir is None else Path(plan.data_dir)


def rows_in_file(data: Any, folder: Path) -> str:
    """Data as `RunPlan` takes them: a name or a path as it is; rows in memory (a list of mappings, a pandas frame or a
    `datasets` table) written to a file in the audit's folder.
    """
    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    rows = data.to_dict("records") if hasattr(data, "to_dict") else list(data)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise BadOption(
            "The data of an audit are a file, a name such as sample:reviews, a pandas frame, or a list of mappings,"
            ' each with a text and a label: [{"text": "A fine film.", "label": "POSITIVE"}].'
        )
    folder.mkdir(parents=True, exist_ok=True)
    known = [{name: value for name, value in row.items() if not _missing(value)} for row in rows]
    write_atomically(folder / ROWS, "".join(json_text(row) + "\n" for row in known), "rows of the audit")
    return str(folder / ROWS)


def _missing(value: object) -> bool:
    """Whether a cell of a table is empty."""
    return value is None or (isinstance(value, float) and math.isnan(value))
