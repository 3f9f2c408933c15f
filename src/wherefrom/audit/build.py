"""An audit from beginning to end: the run, and from its rows every section.

The run is resumable, sharded, and may be on a cluster; what is added here reads its rows once, and a second time beside
an older model's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wherefrom import __version__
from wherefrom.audit.against import changes, paired
from wherefrom.audit.examples import ExampleTable
from wherefrom.audit.fragility import FragilityTable, TrustTable
from wherefrom.audit.performance import PerformanceTable
from wherefrom.audit.plan import AuditedModel, AuditPlan, prepare
from wherefrom.audit.rows import Gold, gold_of, probed_rows
from wherefrom.audit.shortcuts import ShortcutTable
from wherefrom.audit.words import WordTable
from wherefrom.benchmark.run import run
from wherefrom.benchmark.store import Run
from wherefrom.benchmark.summary import tables_must_fit
from wherefrom.core.audit import Audit, AuditKind
from wherefrom.core.files import write_atomically
from wherefrom.errors import BadFile
from wherefrom.progress import OnProgress

RUN, OLD_RUN, RESULT = "run", "old", "audit.json"  # in the folder of an audit


def audit(
    plan: AuditPlan,
    out: Path,
    *,
    against: Any = None,
    on_progress: OnProgress | None = None,
    on_run: Callable[[str], None] | None = None,
    **reporting: Any,
) -> Audit:
    """Audit a model over a data set, with its run in the folder `out`; the same call resumes an audit that was stopped.

    against: an older model, which gets a run of its own beside it.
    on_progress: called with the examples that are done and all of them, for each run.
    on_run: called with the model's name before each run.
    reporting: what else `run` takes to report what it does.
    """
    runs = list[tuple[AuditedModel, Run]]()
    models = [plan] if against is None else [plan, replace(plan, model=against)]
    for one, name in zip(models, (RUN, OLD_RUN), strict=False):
        storage = None if plan.storage is None else f"{str(plan.storage).rstrip('/')}/{name}"
        audited = prepare(replace(one, storage=storage))
        if on_run is not None:
            on_run(audited.name)
        runs.append((audited, run(audited.plan, out / name, on_progress=on_progress, **reporting)))
    result = _audited(plan, runs)
    write_atomically(out / RESULT, result.to_json(indent=Audit.FORMAT.indent), "audit")
    return result


def _audited(plan: AuditPlan, runs: list[tuple[AuditedModel, Run]]) -> Audit:
    readings = list[_Reading]()
    for model, finished in runs:
        with tables_must_fit(finished):
            readings.append(_Reading.of(model, finished, tuple(plan.metadata)))
    result = readings[0].audit()
    if len(readings) == 1:
        return result
    new, old = readings
    pairs = paired(old.rows(), new.rows())
    older = old.audit()
    return replace(
        result,
        changes=changes(old.model.name, pairs, older.performance.accuracy, older.shortcuts, result.shortcuts),
    )


@dataclass
class _Reading:
    """The rows of one run, read once into every section."""

    model: AuditedModel
    run: Run
    gold: dict[str, Gold]
    words: WordTable
    shortcuts: ShortcutTable
    performance: PerformanceTable
    fragility: FragilityTable
    trust: TrustTable
    examples: ExampleTable
    decisions: int = 0
    unprobed: int = 0

    @classmethod
    def of(cls, model: AuditedModel, finished: Run, metadata: tuple[str, ...]) -> _Reading:
        labels, regression = list(finished.manifest["model"]["labels"]), model.regression
        words = WordTable()
        reading = cls(
            *(model, finished, gold_of(finished, metadata, regression=regression), words, ShortcutTable(words)),
            *(PerformanceTable(labels, regression), FragilityTable(regression), TrustTable(), ExampleTable(regression)),
        )
        reading._read()
        return reading

    def rows(self) -> Any:
        return probed_rows(self.run, self.gold, tags=self.model.tags)

    def _read(self) -> None:
        seen = set[str]()
        tables = (self.words, self.shortcuts, self.performance, self.fragility, self.trust, self.examples)
        for row in self.rows():
            self.decisions += 1
            self.unprobed += not row.details
            seen.add(row.example)
            for table in tables:
                table.add(row)
        if not seen:
            errors = self.run.errors["error"]
            why = f" The commonest error: {errors.mode().iloc[0]}" if len(errors) else ""
            raise BadFile(f"The model decided nothing that could be explained in these data.{why}")
        failed = set(self.run.errors["example"])
        for example, gold in self.gold.items():  # of several labels, perhaps none is predicted
            if example not in seen and example not in failed and gold.labels is not None and not self.model.tags:
                self.performance.add_silent(gold)
                self.shortcuts.add_silent(gold.labels)

    def audit(self) -> Audit:
        manifest, model = self.run.manifest, self.model
        kind: AuditKind = "value" if model.regression else "tags" if model.tags else "labels"
        return Audit(
            model=model.name,
            data=self.run.name,
            date=datetime.now(UTC).date().isoformat(),
            kind=kind,
            texts=int(manifest["examples"]),
            decisions=self.decisions,
            failed=int(self.run.errors["example"].nunique()),
            labels=tuple(manifest["model"]["labels"]),
            looked_at=len(self.words.looked_at),
            tests=self.shortcuts.tests,
            words=tuple(self.words.heavy(model.regression)),
            misleading=tuple(self.shortcuts.misleading()),
            shortcuts=tuple(self.shortcuts.suspected()),
            performance=self.performance.result(),
            fragility=self.fragility.result(),
            trust=self.trust.result(model.method, model.why),
            examples=self.examples.result(),
            notes=tuple(self._notes()),
            facts=self._facts(),
        )

    def _notes(self) -> list[str]:
        notes = list[str]()
        if self.model.tags:
            notes.append("Labels of words are not read from data, so that nothing is said about errors.")
        elif not any((gold.value if self.model.regression else gold.labels) is not None for gold in self.gold.values()):
            notes.append(
                "These data have no labels, so that nothing is said about errors, nor about words that mislead."
            )
        if self.model.regression:
            notes.append("A regression model decides for nothing: there are no flips, and no words that mislead.")
        if self.unprobed:
            notes.append(f"{self.unprobed} decisions could not be tested by hiding words.")
        return notes

    def _facts(self) -> dict[str, str]:
        costs, manifest = self.run.costs, self.run.manifest
        return {
            "Wherefrom": __version__,
            "torch": version("torch"),
            "transformers": version("transformers"),
            "method": self.model.method,
            "device": str(manifest["configuration"]["device"]),
            "rows through the model": f"{int(costs['rows'].sum()):,}",
            "model's fingerprint": str(manifest["model"]["fingerprint"])[:16],
            "data's digest": str(manifest["configuration"]["digest"])[:16],
        }
