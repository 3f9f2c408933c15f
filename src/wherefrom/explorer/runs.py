"""Runs as the page shows them: the leaderboard, faithfulness against cost, and examples that can be filtered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wherefrom.benchmark.columns import rationale_of
from wherefrom.benchmark.statistics import Energy
from wherefrom.benchmark.store import Run
from wherefrom.benchmark.summary import Summary, summarise, tables_must_fit
from wherefrom.core.labels import visible
from wherefrom.explorer.audits import audit_of
from wherefrom.report.marks import with_marks
from wherefrom.report.pieces import TextRun

MOST_EXAMPLES = 2000


@dataclass(frozen=True)
class ShownRun:
    """A run as plain data, made once when the server starts."""

    name: str
    data: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> ShownRun:
        run = Run.load(folder)
        summary = summarise(run, Energy())
        name = visible(f"{summary.name} ({folder.name})")
        with tables_must_fit(run):
            data = {"name": name} | _numbers(summary) | {"examples": _examples(run, summary)}
            data["audit"] = audit_of(folder, data["examples"])
            json.dumps(data, allow_nan=False)  # raises on what no request could be answered with
        return cls(name, data)


def _numbers(summary: Summary) -> dict[str, Any]:
    """The leaderboard by every metric, and what each method costs alone."""
    ranks, costs = summary.ranks, {cost.method: cost for cost in summary.costs}
    boards = {metric: {standing.method: standing for standing in board} for metric, board in summary.boards.items()}
    return {
        "finished": summary.finished,
        "count": summary.examples,
        "accuracy": summary.accuracy,
        "model": visible(str(summary.manifest["model"]["name"])),
        "metrics": [{"name": visible(metric), "better": summary.better[metric]} for metric in boards],
        "methods": [
            {
                "name": visible(method),
                "rank": rank,
                "values": [_value(board.get(method)) for board in boards.values()],
                "seconds": costs[method].per_example if method in costs else None,
            }
            for method, rank in zip(ranks.methods, ranks.overall, strict=True)
        ],
    }


def _value(standing: Any) -> dict[str, Any] | None:
    if standing is None or standing.mean is None:
        return None
    interval = standing.interval
    return {
        "mean": standing.mean,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "best": standing.behind == 0,
        "as_good": standing.as_good_as_the_best,
    }


def _examples(run: Run, summary: Summary) -> list[dict[str, Any]]:
    """Every example and target once, those on which methods agree least first."""
    examples: dict[tuple[str, str], dict[str, Any]] = {}
    for row in run.rows("explanations"):
        key = (row["example"], row["target"])
        if key in examples or len(examples) >= MOST_EXAMPLES:
            continue
        label = row["label"]
        examples[key] = {
            "id": visible(str(row["example"])),
            "text": row["text"],
            "pair": row["pair"],
            "marked": _marked(row),
            "target": row["target"],
            "prediction": row["prediction"],
            "probability": row["probability"],
            "label": label,
            "wrong": label is not None and row["prediction"] not in (label, *label.split(", ")),
            "agreement": summary.agreement.by_example.get(key),
        }
    return sorted(examples.values(), key=lambda example: (example["agreement"] is None, example["agreement"]))


def _marked(row: Mapping[str, Any]) -> list[tuple[str, bool]] | None:
    """An example's texts in stretches, each with whether people marked it; None where the data has no rationales.

    JavaScript counts characters differently from Python, so the page gets stretches and no positions.
    """
    rationale = rationale_of(row)
    if rationale is None:
        return None
    texts = [row["text"]] if row["pair"] is None else [row["text"], row["pair"]]
    pieces = list[tuple[str, bool]]()
    for place, (text, spans) in enumerate(zip(texts, rationale, strict=False)):
        pieces += [(" / ", False)] * bool(place)
        pieces += [("".join(run.text for run in part.runs), part.marked) for part in with_marks([TextRun(text)], spans)]
    return pieces
