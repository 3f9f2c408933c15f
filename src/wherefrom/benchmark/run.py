"""A run: every example of a data set explained by every method and measured by every metric, part after part, in a
folder.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from wherefrom import __version__
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.engines import Chunk, Done, Engine, cores, here, in_processes, on_ray
from wherefrom.benchmark.store import MANIFEST, Another, Damage, Run, new_manifest, open_store
from wherefrom.benchmark.worker import LABELLED, PREDICTED, Labels, Work
from wherefrom.core.example import Example
from wherefrom.core.units import Level
from wherefrom.errors import BadFile, BadOption, UnknownName
from wherefrom.grading.compare import chosen_methods, chosen_metrics
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.loading import load_model
from wherefrom.model.text_model import TextModel

EXAMPLES_PER_PART = 16
PARTS_PER_WINDOW = (
    32  # examples are sorted by length within so many parts, so that a part's texts are alike and need little padding
)
LEVELS = ("token", "word", "sentence")
Watch = Callable[[int, int], None]  # examples that are done, and all


def run(
    data: str,
    out: str | os.PathLike[str],
    *,
    model: Any = "embedded",
    methods: str | Sequence[str] = "all",
    metrics: str | Sequence[str] | None = None,
    target: str = PREDICTED,
    level: Level = "token",
    limit: int | None = None,
    seed: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    columns: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | Literal["none"] | None = None,
    device: str | None = None,
    engine: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: bool = True,
    strict: bool = False,
    examples_per_part: int = EXAMPLES_PER_PART,
    watch: Watch | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> Run:
    """Explain and measure every example of a data set, and keep the results in the folder `out`.

    data: a file, folder, layout:path, hf:name, or a ready name in `data_dir`; see docs/running-a-benchmark.md.
    target: predicted, label (what the data set says), or the name of a label.
    labels: the data set's label -> the model's, where they are not called the same; "none" leaves them aside.
    resume: go on with a run that is in `out` already; without it, one that is there is an error.
    strict: end at the first example that cannot be explained, instead of noting it.
    workers: processes of one thread each; as many as there are cores unless said, one where the model is on a GPU or
        was handed over.
    watch: called with (examples done, all). on_damage: called for every part that was damaged and is made anew.
    """
    _check(engine, workers, level, examples_per_part, address)
    folder, source = Path(out), model.text_model if hasattr(model, "text_model") else model
    if not resume and (folder / MANIFEST).exists():
        raise Another(
            f"There is a run in {folder} already. Go on with it by --resume, or take another folder with --out."
        )
    examples = DataSet(data, None if data_dir is None else Path(data_dir), limit, seed, columns or {})
    read = source if isinstance(source, TextModel) else load_model(source, device=device)
    meaning = None if labels == "none" or not examples.classes or not read.task.has_labels else dict(labels or {})
    checked = _Checked(examples, read, target, meaning)
    offered = set(read.task.offers(read))
    if checked.rationale:
        offered.add("rationale")
    chosen = chosen_metrics(metrics, offered=offered)
    work = Work(
        model=str(source) if isinstance(source, str | os.PathLike) else read,
        methods=tuple(choice.asked for choice in chosen_methods(methods)),
        metrics=tuple(one.choice.asked for one in chosen),
        level=level,
        target=target,
        labels=meaning,
        device=device,
        strict=strict,
    )
    known = {"name": read.name, "fingerprint": fingerprint(read.network), "labels": read.labels}
    configuration = {
        "data": data,
        "digest": checked.digest,
        "limit": limit,
        "seed": seed,
        "model": known,
        "methods": list(work.methods),
        "metrics": list(work.metrics),
        "target": target,
        "level": level,
        "labels": meaning,
        "device": read.device.type,
        "examples_per_part": examples_per_part,
        "versions": {"wherefrom": __version__, "torch": version("torch"), "transformers": version("transformers")},
    }
    manifest = new_manifest(
        configuration,
        parts=-(-checked.count // examples_per_part),
        facts={
            "data": examples.name,
            "examples": checked.count,
            "model": known,
            "metrics": [{"asked": one.choice.asked, "better": one.choice.row.better} for one in chosen],
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {cores()} cores, {platform.system()}",
        },
    )
    with open_store(folder, manifest) as store:
        done, damaged = store.check()
        for damage in damaged:
            (on_damage or (lambda _: None))(damage)
        seen = sum(min(examples_per_part, checked.count - number * examples_per_part) for number in done)
        sizes = {}
        (watch or _nobody)(seen, checked.count)

        def todo() -> Iterator[Chunk]:
            for number, chunk in chunks(examples, examples_per_part):
                if number not in done:
                    sizes[number] = len(chunk)
                    yield number, chunk

        if len(done) < store.parts:
            parts = _engine(engine, work, read, todo(), workers, address, store.parts - len(done))
            with closing(parts):
                for number, part in parts:
                    store.write(number, part)
                    seen += sizes.pop(number)
                    (watch or _nobody)(seen, checked.count)
    return Run.load(folder)


def _nobody(done: int, everything: int) -> None:
    pass


def _check(engine: str, workers: int | None, level: str, size: int, address: str | None) -> None:
    if engine not in ("local", "ray"):
        raise UnknownName.among("engine", engine, ["local", "ray"])
    if workers is not None and workers < 1:
        raise BadOption(f"There must be at least 1 worker, not {workers}.")
    if level not in LEVELS:
        raise UnknownName.among("level", level, LEVELS)
    if size < 1:
        raise BadOption(f"A part must hold at least 1 example, not {size}.")
    if address is not None and engine != "ray":
        raise BadOption("An address is that of a Ray cluster: say --engine ray.")


def _engine(
    engine: Engine,
    work: Work,
    read: TextModel,
    todo: Iterator[Chunk],
    workers: int | None,
    address: str | None,
    parts: int,
) -> Done:
    handed_over = work.model is read
    if handed_over and (engine == "ray" or (workers or 1) > 1):
        raise BadOption("Several workers load the model themselves: give its name or folder, or ask for one worker.")
    count = min(parts, workers or (cores() if read.device.type == "cpu" and not handed_over else 1))
    if engine == "ray":
        return on_ray(work, todo, count, address)
    return here(replace(work, model=read), todo) if count == 1 else in_processes(work, todo, count)


def chunks(examples: DataSet, size: int) -> Iterator[Chunk]:
    """Parts by number: neighbours in the data set, of similar length. The same every time, so that a part can be made
    again.
    """
    number, everything = 0, iter(examples)
    while window := list(islice(everything, size * PARTS_PER_WINDOW)):
        window.sort(key=lambda example: len(example.text) + len(example.pair or ""))
        for start in range(0, len(window), size):
            yield number, window[start : start + size]
            number += 1


class _Checked:
    """A data set that was read through before anything is computed: a mistake in its last line is not found after
    hours.
    """

    def __init__(self, examples: DataSet, model: TextModel, target: str, meaning: Mapping[str, str] | None) -> None:
        self.rationale = False
        labels = Labels(model.labels, meaning or {})
        if target == LABELLED and meaning is None:
            raise BadOption(
                "target=label explains the data set's labels, but these are left aside or are no classes of this model."
            )
        if target not in (PREDICTED, LABELLED):
            model.task.fixed_target(model, target)

        def look(example: Example) -> None:
            self.rationale |= example.rationale is not None
            if meaning is not None:
                labels.named(example)  # says so where the model does not know one
            if target == LABELLED and example.label is None:
                raise BadFile(
                    f"{example.where}: there is no label to explain. Explain what is predicted: --target predicted."
                )

        self.count, self.digest = examples.checked(look)
