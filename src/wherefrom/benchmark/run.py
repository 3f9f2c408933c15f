"""A run: every example of a data set explained by every method and measured by every metric, part after part, in a
folder.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from wherefrom import __version__
from wherefrom.benchmark.cluster import merge_on_ray, on_ray
from wherefrom.benchmark.datasets import DataSet
from wherefrom.benchmark.engines import Chunk, FinishedPart, FinishedParts, OnShares, cores, here, in_processes
from wherefrom.benchmark.estimate import WORTH_A_TRIAL, CostEstimate, OnEstimate
from wherefrom.benchmark.plan import ALL_PREDICTED, LABELLED, PREDICTED, RunPlan
from wherefrom.benchmark.receipts import Damage
from wherefrom.benchmark.shards import Merging, merge_tables
from wherefrom.benchmark.store import MANIFEST, FolderTaken, Run, new_manifest, open_store
from wherefrom.benchmark.worker import LabelNames, Worker, load_planned
from wherefrom.case.door import check_target
from wherefrom.core.example import Example
from wherefrom.core.files import json_text, write_atomically
from wherefrom.core.tables import is_table, rows_of
from wherefrom.errors import BadFile, BadOption
from wherefrom.grading.choosing import chosen_methods, chosen_metrics
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.text_model import TextModel
from wherefrom.progress import OnProgress

# Examples are sorted by length within so many parts, so that the texts of a part are of similar length and need little
# padding.
PARTS_PER_WINDOW = 32
OnDamage = Callable[[Damage], None]


def run(
    plan: RunPlan,
    out: str | os.PathLike[str],
    *,
    resume: bool = True,
    on_progress: OnProgress | None = None,
    on_damage: OnDamage | None = None,
    on_work: OnProgress | None = None,
    on_estimate: OnEstimate | None = None,
) -> Run:
    """Explain and measure every example of a data set, and keep the results in the folder `out`.

    A run that was stopped at any moment, killed even, continues where it was when it is started again with the same
    plan: `run(Run.load(out).plan, out)`.

    Args:
        plan: what is computed, and how.
        out: the folder of the run; it is made if it is not there.
        resume: continue a run that is in `out` already; without it, one that is there is an error.
        on_progress: called with (examples done, all examples) at the beginning and after every part.
        on_damage: called for every part that was damaged and is computed again.
        on_work: called like on_progress, and also within parts: examples that are done, and those that are being worked
            on by the share of their part's work. It says how far the run is; what is kept, on_progress says.
        on_estimate: called with what the run will cost: before it begins, by trying one example, where at least four
            parts are to be computed; and after the first part, where others follow.

    Returns:
        The finished run with its tables.

    Example:
        >>> found = run(RunPlan("reviews.csv", methods="attcat,random"), "runs/reviews")  # doctest: +SKIP
        >>> found.scores.groupby(["metric", "method"])["value"].mean()  # doctest: +SKIP
    """
    folder = Path(out)
    if not resume and (folder / MANIFEST).exists():
        raise FolderTaken(
            f"There is a run in {folder} already. Continue it with --resume, or choose another folder with --out."
        )
    prepared = _Prepared(_with_data_in_a_file(plan, folder))
    with open_store(folder, prepared.manifest(), prepared.storage, prepared.merging) as store:
        done, damaged = store.check()
        for damage in damaged:
            if on_damage is not None:
                on_damage(damage)
        seen, sizes, lengths = prepared.examples_in(done), dict[int, int](), dict[int, int]()
        report, tell = (given or (lambda *_: None) for given in (on_progress, on_work))
        working: Mapping[int, float] = {}
        report(seen, prepared.count)
        tell(seen, prepared.count)

        def moved(shares: Mapping[int, float]) -> None:
            nonlocal working
            working = shares
            tell(int(seen + sum(share * sizes[number] for number, share in shares.items())), prepared.count)

        def missing() -> Iterator[Chunk]:
            for number, chunk in chunks(prepared.examples, plan.examples_per_part):
                if number not in done:
                    sizes[number], lengths[number] = len(chunk), sum(map(_length, chunk))
                    yield number, chunk

        to_do = store.parts - len(done)
        if to_do:
            if on_estimate is not None and to_do >= WORTH_A_TRIAL:
                prepared.try_one(prepared.count - seen, on_estimate)
            with closing(prepared.start(missing(), to_do, on_work and moved)) as parts:
                for number, part in parts:
                    store.write(number, part)
                    size, length = sizes.pop(number), lengths.pop(number)
                    seen += size
                    report(seen, prepared.count)
                    if on_estimate is not None and seen < prepared.count:
                        workers = prepared.workers(to_do)
                        prepared.tell_cost(part, length / size, prepared.count - seen, workers, on_estimate)
                        on_estimate = None
                    moved({other: share for other, share in working.items() if other != number})
        store.compact()
    return Run.load(folder)


def _with_data_in_a_file(plan: RunPlan, folder: Path) -> RunPlan:
    """The plan, whose data are written to a file beside the run's folder where they are a table in memory: workers and
    a run that resumes read them there.
    """
    if isinstance(plan.data, str):
        return plan
    if not is_table(plan.data):
        raise BadOption(f"The data are a name, a path or a table, not {type(plan.data).__name__}.")
    path = folder.resolve().with_name(f"{folder.resolve().name}.data.jsonl")
    lines = [json_text({name: value for name, value in row.items() if _plain(value)}) for row in rows_of(plan.data)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(f"{line}\n" for line in lines), "data of the run")
    return replace(plan, data=str(path))


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float | list | dict) and value == value  # NaN stands for nothing in a frame


class _Prepared:
    """A plan with its model loaded and its data set read through once, so that a mistake in the last line of the data
    is not found after hours.
    """

    def __init__(self, plan: RunPlan) -> None:
        source, *others = (getattr(one, "text_model", one) for one in (plan.model, *plan.against))
        self.examples = DataSet(plan.data, plan.folder, plan.limit, plan.seed, plan.columns or {})
        if plan.candidates and any(isinstance(one, TextModel) for one in (source, *others)):
            raise BadOption("A model in memory has its labels already: give candidates to load(labels=...).")
        self.model = source if isinstance(source, TextModel) else load_planned(plan, source, spread=plan.spread)
        if plan.spread is not None and self.model.spread != plan.spread:
            raise BadOption("A model in memory has its spread already: give it to load(), or give a name or a folder.")
        self.against = [one if isinstance(one, TextModel) else load_planned(plan, one) for one in others]
        for other in self.against:
            self._check_other(other)
        self.in_memory = not all(isinstance(one, str | os.PathLike) for one in (source, *others))
        ignored = plan.ignores_labels or not self.examples.classes or not self.model.task.has_labels
        ignored = ignored or self.model.regression  # what people gave is a value then, and no class
        plan = replace(plan, labels="none" if ignored else plan.label_names)
        self.examples = replace(self.examples, ignore_labels=ignored)
        self.has_rationale, self.characters = False, 0
        self.count, self.digest = self.examples.checked(self._checks(plan))
        offered = set(self.model.task.offers(self.model))
        if self.has_rationale:
            offered.add("rationale")
        if self.against:
            offered.add("second")
        self.metrics = chosen_metrics(plan.metrics, offered=offered)
        if self.against and not any(one.choice.row.needs == "second" for one in self.metrics):
            raise BadOption(
                "None of these metrics compares two models, so those of --against (against=) have nothing to do. Name"
                " such a metric (spearman, jaccard_25), or leave the models out."
            )
        self.plan = replace(
            plan,
            model=self.model if self.in_memory else str(source),
            against=self.against if self.in_memory else [str(one) for one in others],
            methods=tuple(choice.asked for choice in chosen_methods(plan.methods)),
            metrics=tuple(one.choice.asked for one in self.metrics),
        )

    def _check_other(self, other: TextModel) -> None:
        """Raise where another model could not decide as this one does."""
        if other.task.name != self.model.task.name:
            raise BadOption(
                f"{other.name} is made for {other.task.name}, but {self.model.name} for {self.model.task.name}: their"
                " explanations cannot be compared (--against)."
            )
        if self.model.task.has_labels and set(other.labels) != set(self.model.labels):
            raise BadOption(
                f"{other.name} knows the labels {', '.join(other.labels)}, but {self.model.name}"
                f" {', '.join(self.model.labels)}: they would never decide alike (--against)."
            )

    def _checks(self, plan: RunPlan) -> Callable[[Example], None]:
        labels = LabelNames(self.model.labels, plan.label_names)
        if plan.target not in (PREDICTED, ALL_PREDICTED, LABELLED):
            check_target(self.model, plan.target)  # raises where the model has no such label

        finds_answers = "answer" in self.model.task.offers(self.model)

        def check(example: Example) -> None:
            if (example.question or example.answer is not None) and not finds_answers:
                raise BadOption(
                    f"{example.where}: this is a question about a context, but {self.model.name} is made for"
                    f" {self.model.task.name} and looks for no answers. Take a model for question_answering, or data"
                    " that fit this one; --columns says which fields are read as what."
                )
            if finds_answers and example.pair is None:
                raise BadOption(
                    f"{example.where}: there is no second text, but {self.model.name} looks for an answer in one. Name"
                    " its field: --columns pair=NAME."
                )
            if example.pair is not None and not self.model.task.reads_pairs:
                raise BadOption(
                    f"{example.where}: there is a second text, but {self.model.name} continues a single text. Write"
                    " both into one field, as the model was trained to read them."
                )
            self.has_rationale |= example.rationale is not None
            self.characters += _length(example)
            if not plan.ignores_labels:
                labels.of(example)  # raises where the model does not know one of them
            if plan.target == LABELLED and example.target is None and plan.ignores_labels:
                raise BadOption(
                    "target=label explains the data set's labels, but these are ignored (--labels none), or they are"
                    " not classes of this model. A row may name what it asks about, in the fields explain and foil."
                )
            if plan.target == LABELLED and example.target is None and example.label is None:
                raise BadFile(
                    f"{example.where}: there is no label to explain. Explain what is predicted: --target predicted."
                )

        return check

    def manifest(self) -> dict[str, Any]:
        """The plan with all that was found about its model and its data."""
        written = self.plan.to_manifest()
        model = {"name": self.model.name, "fingerprint": fingerprint(self.model), "labels": self.model.labels}
        written["plan"]["model"] = self.model.name
        others = [{"name": other.name, "fingerprint": fingerprint(other)} for other in self.against]
        if others:
            written["plan"]["against"] = [other["name"] for other in others]
        configuration = {
            "plan": written["plan"],
            "digest": self.digest,
            "model": model,
            "device": self.model.network.device.type,
            "versions": {"wherefrom": __version__, "torch": version("torch"), "transformers": version("transformers")},
        } | ({"against": others} if others else {})
        facts = {
            "how": written["how"],
            "data": self.examples.name,
            "examples": self.count,
            "model": model,
            "metrics": [{"asked": other.choice.asked, "better": other.choice.row.better} for other in self.metrics],
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {cores()} cores, {platform.system()}",
        }
        return new_manifest(configuration, parts=-(-self.count // self.plan.examples_per_part), facts=facts)

    def examples_in(self, parts: set[int]) -> int:
        size = self.plan.examples_per_part
        return sum(min(size, self.count - number * size) for number in parts)

    def try_one(self, examples: int, tell: OnEstimate) -> None:
        """Tell how many forward passes so many examples need, by an example of middling length. What is computed for it
        is not kept: it is computed again with its part, so that no number depends on this.
        """
        window = sorted(islice(self.examples, self.plan.examples_per_part * PARTS_PER_WINDOW), key=_length)
        worker = Worker(replace(self.plan, model=self.model, against=self.against, strict=False))
        part = worker([window[len(window) // 2]], timed=False)
        if part.passes:  # else it is one that cannot be explained, which the run will say
            tell(self._cost(examples, part.passes))

    def tell_cost(self, part: FinishedPart, length: float, examples: int, workers: int, tell: OnEstimate) -> None:
        """Tell what so many examples more will cost, by a part that is done and the mean length of its texts: parts
        hold texts of similar length, those of the first one the shortest.
        """
        longer = self.characters / self.count / max(length, 1)
        own = part.costs["examples"] / longer
        tell(self._cost(examples, part.passes / own, part.costs["seconds"] / own / workers))

    def _cost(self, examples: int, passes: float, seconds: float | None = None) -> CostEstimate:
        return CostEstimate(
            examples,
            len(self.plan.methods),
            len(self.metrics),
            passes * examples,
            None if seconds is None else seconds * examples,
        )

    @property
    def storage(self) -> str | None:
        """Where tables are written, if it is not the run's folder."""
        return None if self.plan.storage is None else str(self.plan.storage)

    @property
    def merging(self) -> Merging:
        """What merges the tables of parts."""
        return merge_on_ray if self.plan.engine == "ray" else merge_tables

    def workers(self, parts: int) -> int:
        """How many work at once."""
        usual = cores() if self.model.network.device.type == "cpu" and not self.in_memory else 1
        return min(parts, self.plan.workers or usual)

    def start(self, missing: Iterator[Chunk], parts: int, moved: OnShares | None) -> FinishedParts:
        """Have the missing parts computed by the engine that is asked for. A cluster tells only what is finished."""
        plan = self.plan
        if self.in_memory and (plan.engine == "ray" or (plan.workers or 1) > 1):
            raise BadOption(
                "Several workers load the model themselves: give its name or folder, or ask for one worker."
            )
        count = self.workers(parts)
        if plan.engine == "ray":
            return on_ray(plan, missing, count, plan.address)
        if count == 1:
            return here(replace(plan, model=self.model, against=self.against), missing, moved)
        return in_processes(plan, missing, count, moved)


def chunks(examples: DataSet, size: int) -> Iterator[Chunk]:
    """The parts by number: neighbours in the data set, of similar length. They are the same every time, so that a part
    can be computed again.
    """
    number, everything = 0, iter(examples)
    while window := list(islice(everything, size * PARTS_PER_WINDOW)):
        window.sort(key=_length)
        for start in range(0, len(window), size):
            yield number, window[start : start + size]
            number += 1


def _length(example: Example) -> int:
    return len(example.text) + len(example.pair or "")
