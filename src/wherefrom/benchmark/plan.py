"""The plan of a run: the data set, the model, the methods and metrics, and how the work is done.

A run's manifest is written from its plan, and the plan is read back from the manifest. What decides the numbers is
under "plan" and is part of the hash by which a run is recognised; what only says how the work is done is under
"how" and may change when a run is continued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from wherefrom.benchmark.storage import address_of
from wherefrom.core.units import LEVELS, Level
from wherefrom.errors import BadFile, BadOption, UnknownName

EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = ("local", "ray")
EXAMPLES_PER_PART = 16
# What is explained of every example, unless it is a label's name: the likeliest label, every predicted label of a
# multi-label model, or what the data set says.
PREDICTED, ALL_PREDICTED, LABELLED = "predicted", "all-predicted", "label"
# None of these changes a number: data are recognised by their content, and every engine gives the same parts.
HOW = ("data_dir", "columns", "device", "engine", "workers", "address", "storage", "strict")


@dataclass(frozen=True)
class RunPlan:
    """What a run computes, and how. All checks that need neither the data nor the model are made at once.

    Attributes:
        data: a file, folder, layout:path, hf:name, or a ready name in `data_dir`; see docs/running-a-benchmark.md. Or
            a table in memory (datasets, pandas, polars, Arrow), which is written to a file beside the run's folder.
        model: as `wherefrom.load` takes it, or what it gave back. Several workers need a name or a folder.
        methods: names with options, such as alti:norm=l2, as a list or with commas between them; or "all", or
            "fast" for all but the slow ones.
        metrics: the same; None and "all" take every metric for which the data have what it needs.
        target: predicted; all-predicted, every label that a multi-label model predicts; label, what the data set says,
            rather than its foil where it names one; or the name of a label.
        level: token, word or sentence.
        limit: take so many examples: the first, or random ones where there is a `seed`.
        data_dir: the folder of data sets with ready names.
        columns: our name of a field -> the file's, where it is not one of the usual names.
        labels: the data set's label -> the model's, where they differ; "none" ignores the data set's labels.
        spread: of a regression model, what changes of its value are measured in; by default each text's own.
        candidates: labels to choose among, for a model of entailment (zero-shot).
        template: the hypothesis about a candidate, with {} for the label.
        multi_label: whether several candidates may be right, so that each has a probability of its own.
        against: other models, for metrics that compare two, which then give the mean over these; named as `model` is.
        device: cpu, cuda, mps, ...
        engine: local (this machine) or ray.
        workers: processes of one thread each; by default one a core, or one where the model is on a GPU or in memory.
        address: of a Ray cluster.
        storage: where workers write their tables themselves, instead of handing them to the process that started the
            run: a folder that all of them reach, or an address that fsspec knows, such as s3://bucket/run.
        strict: end at the first example that cannot be explained, instead of noting it.
        examples_per_part: how many examples are computed and stored together.
        probes: for an audit, also hide every word alone and check every explanation, and swap these groups of terms,
            by the group's name. None for no probes; an empty mapping swaps no terms.

    Example:
        >>> plan = RunPlan("reviews.csv", methods="attcat,random", metrics="aopc", limit=100)
        >>> run(plan, "runs/reviews").scores  # doctest: +SKIP
    """

    data: Any
    model: Any = "embedded"
    methods: str | Sequence[str] = "fast"
    metrics: str | Sequence[str] | None = None
    target: str = PREDICTED
    level: Level = "token"
    limit: int | None = None
    seed: int | None = None
    data_dir: str | PathLike[str] | None = None
    columns: Mapping[str, str] | None = None
    labels: Mapping[str, str] | Literal["none"] | None = None
    spread: float | None = None
    candidates: Sequence[str] = ()
    template: str | None = None
    multi_label: bool = False
    against: Sequence[Any] = ()
    device: str | None = None
    engine: EngineName = "local"
    workers: int | None = None
    address: str | None = None
    storage: str | PathLike[str] | None = None
    strict: bool = False
    examples_per_part: int = EXAMPLES_PER_PART
    probes: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.candidates, str):
            raise BadOption(f"Candidate labels are given in a list: candidates=[{self.candidates!r}].")
        if isinstance(self.against, str):
            raise BadOption(f"Other models are given in a list: against=[{self.against!r}].")
        if self.engine not in ENGINES:
            raise UnknownName.among("engine", self.engine, ENGINES)
        if self.level not in LEVELS:
            raise UnknownName.among("level", self.level, LEVELS)
        if self.workers is not None and self.workers < 1:
            raise BadOption(f"There must be at least 1 worker, not {self.workers}.")
        if self.examples_per_part < 1:
            raise BadOption(f"A part must hold at least 1 example, not {self.examples_per_part}.")
        if self.address is not None and self.engine != "ray":
            raise BadOption("An address is that of a Ray cluster: say --engine ray.")
        if self.storage is not None:  # workers may be in other folders
            object.__setattr__(self, "storage", address_of(self.storage))

    @property
    def folder(self) -> Path | None:
        """The folder of data sets with ready names."""
        return None if self.data_dir is None else Path(self.data_dir)

    @property
    def ignores_labels(self) -> bool:
        return self.labels == "none"

    @property
    def label_names(self) -> dict[str, str]:
        """The data set's label -> the model's; empty where they are called the same, or are ignored."""
        return dict(self.labels) if isinstance(self.labels, Mapping) else {}

    def to_manifest(self) -> dict[str, dict[str, Any]]:
        """Plain data: what decides the numbers as "plan", the rest as "how"."""
        values = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        if not self.against:  # so that runs of earlier versions, which could not compare models, are recognised
            del values["against"]
        if self.probes is None:  # nor probed
            del values["probes"]
        if not self.candidates:  # nor have candidate labels
            del values["candidates"], values["template"], values["multi_label"]
        return {
            "plan": {name: value for name, value in values.items() if name not in HOW},
            "how": {name: values[name] for name in HOW},
        }

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> RunPlan:
        """The plan that a run's manifest was written from. A model that was given in memory is only known by name."""
        try:
            return cls(**{**manifest["configuration"]["plan"], **manifest["how"]})
        except (KeyError, TypeError) as error:
            raise BadFile(f"This manifest holds no plan of a run: {type(error).__name__} {error}.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float) else getattr(value, "name", type(value).__name__)
