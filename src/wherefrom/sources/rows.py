"""A file of questions with their passages: methods for sources graded on each, resumed where it was stopped.

The folder has the plan (`plan.json`), a line for each finished question (`rows.jsonl`) and the summary
(`summary.json`). A line counts once its end is written, so that a killed run loses at most the question it was at.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wherefrom.core.files import json_text, read_json, read_json_lines, write_atomically
from wherefrom.core.plain import from_plain
from wherefrom.core.source_grades import SOURCE_METRICS, SourcesComparison
from wherefrom.core.sources import Division
from wherefrom.core.statistics import bootstrap
from wherefrom.errors import BadFile, BadOption, ServerFailed, WherefromError
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.text_model import TextModel
from wherefrom.sources.answered import PassageQuestion
from wherefrom.sources.compare import compare_sources


@dataclass(frozen=True)
class SourceRow:
    """A question, its passages, and what is known about it."""

    name: str
    question: str
    context: list[str] | dict[str, str]
    answer: str | None = None
    gold: tuple[tuple[int, ...], ...] = ()
    answerable: bool | None = None  # whether the passages contain the answer


@dataclass(frozen=True)
class RowResult:
    """What came of a row: a comparison, or why there is none."""

    name: str
    comparison: SourcesComparison | None
    error: str = ""
    answerable: bool | None = None


def read_rows(path: str | Path) -> list[SourceRow]:
    """Rows of a file with one JSON object a line; raises where one is not a question with passages.

    Fields: question, context (a list of texts, or texts by name), and if known id, answer, gold
    ([[document, number]] or [[document, start, end]]), answerable.
    """
    rows, names = list[SourceRow](), set[str]()
    for where, row in read_json_lines(path):
        question, context = row.get("question"), row.get("context")
        if not isinstance(question, str) or not question.strip():
            raise BadFile(f"{where}: the field 'question' must be a text.")
        passages = [context] if isinstance(context, str) else context
        texts = list(passages.values()) if isinstance(passages, dict) else passages
        if (
            not isinstance(passages, list | dict)
            or not isinstance(texts, list)
            or not texts
            or not all(isinstance(text, str) for text in texts)
        ):
            raise BadFile(f"{where}: the field 'context' must be a list of texts, or texts by name.")
        answer, gold, answerable = row.get("answer"), row.get("gold") or (), row.get("answerable")
        if answer is not None and not isinstance(answer, str):
            raise BadFile(f"{where}: the field 'answer' must be a text.")
        if answerable is not None and not isinstance(answerable, bool):
            raise BadFile(f"{where}: the field 'answerable' must be true or false.")
        name = str(row.get("id", len(rows)))
        if name in names:
            raise BadFile(f"{where}: the id {name!r} is there twice.")
        names.add(name)
        rows.append(SourceRow(name, question, passages, answer, _gold(where, gold), answerable))
    if not rows:
        raise BadFile(f"{path} has no rows.")
    return rows


def _gold(where: str, gold: Any) -> tuple[tuple[int, ...], ...]:
    try:
        entries = tuple(tuple(entry) for entry in gold)
    except TypeError as error:
        raise BadFile(f"{where}: the field 'gold' must be a list of [document, number].") from error
    if not all(len(entry) in (2, 3) and all(type(part) is int for part in entry) for entry in entries):
        raise BadFile(f"{where}: the field 'gold' must contain [document, number] or [document, start, end].")
    return entries


def run_rows(
    model: TextModel,
    rows: Sequence[SourceRow],
    folder: str | Path,
    *,
    methods: Sequence[str],
    by: Division = "sentence",
    tokens: int = 64,
    resume: bool = True,
    progress: Callable[[int, int], None] = lambda done, everything: None,
) -> list[RowResult]:
    """Grade methods on every row, and keep each result at once. Rows that are kept already are not computed again.

    Args:
        model: a causal language model.
        rows: the questions.
        folder: where results are kept. One that has another plan is refused.
        methods: names as in `Model.sources`.
        by: what a source is.
        tokens: how many tokens are generated at most.
        resume: False refuses a folder that has results already.
        progress: called with how many rows are done, and how many there are.

    Returns:
        The results in the order of the rows.
    """
    place = Path(folder)
    digest = hashlib.sha256(json_text([asdict(row) for row in rows]).encode()).hexdigest()
    plan = {
        "wherefrom_source_rows": 1,
        "model": model.name,
        "fingerprint": fingerprint(model),
        "methods": list(methods),
        "by": by,
        "tokens": tokens,
        "rows": len(rows),
        "data": digest,
    }
    _open_folder(place, plan, resume=resume)
    with _only_one(place):
        kept = _kept(place / "rows.jsonl")
        for number, row in enumerate(rows):
            progress(number, len(rows))
            if row.name not in kept:
                kept[row.name] = _measure(model, row, methods, by, tokens)
                _append(place / "rows.jsonl", kept[row.name])
        progress(len(rows), len(rows))
    results = [kept[row.name] for row in rows]
    write_atomically(place / "summary.json", json_text(summary(results), indent=1), "summary")
    return results


def _measure(model: TextModel, row: SourceRow, methods: Sequence[str], by: Division, tokens: int) -> RowResult:
    try:
        question = PassageQuestion(row.question, row.context, row.answer, by=by, tokens=tokens)
        comparison = compare_sources(model, question, methods=methods, gold=row.gold)
    except ServerFailed:  # of every row: the run can be resumed when the server is back
        raise
    except WherefromError as error:  # of this row alone: the others do not depend on it
        return RowResult(row.name, None, str(error), row.answerable)
    return RowResult(row.name, comparison, "", row.answerable)


def _open_folder(folder: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(f"The folder {folder} cannot be made: {error.strerror}.") from error
    file = folder / "plan.json"
    if not file.exists():
        if (folder / "rows.jsonl").exists():
            raise BadFile(f"{folder} has results but no plan.json: name another folder.")
        write_atomically(file, json_text(plan, indent=1), "plan")
        return
    if not resume:
        raise BadOption(f"{folder} has a run already: name another folder, or leave out --no-resume.")
    old = read_json(file)
    different = [name for name in plan if not isinstance(old, dict) or old.get(name) != plan[name]]
    if different:
        raise BadOption(f"{folder} has a run with another {' and '.join(different)}: name another folder.")


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Raise where another process works in the folder. The lock ends with the process that has it."""
    import fcntl

    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadOption(f"Another process is working in {folder}.") from error
        yield


def _append(file: Path, result: RowResult) -> None:
    line = json_text(asdict(result)).encode("utf-8") + b"\n"
    try:
        with file.open("ab") as lines:
            lines.write(line)
            lines.flush()
            os.fsync(lines.fileno())
    except OSError as error:
        raise BadFile(f"{file} cannot be written: {error.strerror}.") from error


def _kept(file: Path) -> dict[str, RowResult]:
    """The results of finished rows. A last line without an end was cut off by a crash, and is removed."""
    if not file.exists():
        return {}
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with file.open("r+b") as lines:
            lines.truncate(len(whole))
    results = {}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            result = from_plain(RowResult, json.loads(line), "row")
        except (ValueError, BadFile) as error:
            raise BadFile(
                f"{file}, line {number} is damaged: remove the line, and the row is computed again."
            ) from error
        results[result.name] = result
    return results


def summary(results: Sequence[RowResult]) -> dict[str, Any]:
    """Means over the rows with their 95% intervals, by method; how many answers are grounded; and the area under the
    ROC curve of the grounding drop, where the rows say which questions can be answered.
    """
    compared = [result for result in results if result.comparison is not None]
    if not compared:
        return {"rows": len(results), "failed": len(results), "methods": {}}
    comparisons = [result.comparison for result in compared if result.comparison is not None]
    names = [grade.method for grade in comparisons[0].grades]
    by_method: dict[str, Any] = {}
    for place, name in enumerate(names):
        grades = [comparison.grades[place] for comparison in comparisons]
        table = np.array([[_number(getattr(grade, metric)) for metric in SOURCE_METRICS] for grade in grades])
        supported = np.array([[float(grade.verdict == "supported")] for grade in grades])
        values = np.concatenate([table, supported], 1)
        intervals = bootstrap(values)
        by_method[name] = {
            metric: _estimate(values[:, column], interval)
            for column, (metric, interval) in enumerate(zip((*SOURCE_METRICS, "supported"), intervals, strict=True))
        } | {"forwards": float(np.mean([grade.forwards for grade in grades]))}
    grounded = np.array([[float(comparison.grounding.grounded)] for comparison in comparisons])
    return {
        "rows": len(results),
        "failed": len(results) - len(compared),
        "grounded": _estimate(grounded[:, 0], bootstrap(grounded)[0]),
        "grounding_auc": grounding_auc(compared),
        "methods": by_method,
    }


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _estimate(values: Any, interval: tuple[float, float] | None) -> dict[str, Any] | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    low, high = interval or (None, None)
    return {"mean": float(known.mean()), "low": low, "high": high, "rows": len(known)}


def grounding_auc(results: Sequence[RowResult]) -> float | None:
    """The chance that an answerable question has the larger grounding drop than an unanswerable one; ties count half.
    None without both kinds.
    """
    drops = {
        kind: np.array(
            [result.comparison.grounding.drop for result in results if result.comparison and result.answerable is kind]
        )
        for kind in (True, False)
    }
    if not len(drops[True]) or not len(drops[False]):
        return None
    differences = drops[True][:, None] - drops[False][None]
    return float(((differences > 0) + 0.5 * (differences == 0)).mean())
