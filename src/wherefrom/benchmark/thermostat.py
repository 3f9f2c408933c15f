"""Explanations as JSON lines in the manner of Thermostat (Feldhus et al. 2021, arXiv:2108.13961): one line an example
and method.

Each line has `dataset`, `model`, `explainer` and `instance` with attributions, idx, input_ids, label and predictions.
What Thermostat has no place for (the text, tokens, offsets) stands beside, so that a line can be read back without a
tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherefrom.benchmark.formats import read_lines
from wherefrom.core.explanation import write_whole
from wherefrom.errors import BadFile, MissingExtra

if TYPE_CHECKING:
    import pandas

    from wherefrom.benchmark.store import Run

Tokens = Callable[[Sequence[int]], Sequence[str]]


def write_thermostat(run: Run, path: str | Path) -> int:
    """Write every explanation of a run; returns how many there are."""
    lines = [json.dumps(line, ensure_ascii=False) for line in _lines(run)]
    write_whole(path, "".join(line + "\n" for line in lines), "explanations")
    return len(lines)


def _lines(run: Run) -> Iterator[dict[str, Any]]:
    model, labels = run.manifest["model"], list(run.manifest["model"].get("labels", []))
    for row in run.rows("explanations"):
        yield {
            "dataset": {"name": run.name},
            "model": {"name": model["name"], "fingerprint": model["fingerprint"], "labels": labels},
            "explainer": {"name": row["method"], **json.loads(row["params"])},
            "instance": {
                "idx": row["example"],
                "input_ids": row["input_ids"],
                "attributions": row["scores"],
                "label": row["label"],
                "predictions": {row["target"]: row["probability"]},
                "prediction": row["prediction"],
                "target": row["target"],
                "text": row["text"],
                "pair": row["pair"],
                "tokens": row["tokens"],
                "offsets": row["offsets"],
                "segment": row["segment"],
                "level": row["level"],
                "signed": row["signed"],
            },
        }


def read_thermostat(path: str | Path, *, tokens: Tokens | None = None) -> pandas.DataFrame:
    """Lines that Wherefrom or Thermostat wrote, as the frame `Run.explanations` is. tokens: names ids, for lines that
    have no tokens of their own (a tokenizer's convert_ids_to_tokens).
    """
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading explanations into a table", "bench") from error
    rows = [_row(line, where, tokens) for where, line in read_lines(Path(path), None)]
    if not rows:
        raise BadFile(f"{path} has no explanations.")
    return pandas.DataFrame(rows)


def _row(line: Mapping[str, Any], where: str, tokens: Tokens | None) -> dict[str, Any]:
    instance, explainer = line.get("instance"), line.get("explainer")
    if (
        not isinstance(instance, dict)
        or not isinstance(explainer, dict)
        or {"attributions", "input_ids"} - instance.keys()
    ):
        raise BadFile(f"{where}: a line has an explainer, and an instance with attributions and input_ids.")
    ids, scores, named = instance["input_ids"], instance["attributions"], instance.get("tokens")
    if named is None:
        named = [str(one) for one in ids] if tokens is None else list(tokens(ids))
    if len(named) != len(scores):
        raise BadFile(f"{where}: {len(scores)} attributions for {len(named)} tokens.")
    predictions = instance.get("predictions")
    target = instance.get("target")
    if isinstance(predictions, list):  # Thermostat's own: a number for every class
        target = predictions.index(max(predictions))
    likely = predictions.get(target) if isinstance(predictions, dict) else None
    return {
        "example": str(instance.get("idx")),
        "target": None if target is None else str(target),
        "method": str(explainer.get("name")),
        "prediction": instance.get("prediction", None if target is None else str(target)),
        "probability": likely,
        "label": None if instance.get("label") is None else str(instance["label"]),
        "text": instance.get("text"),
        "pair": instance.get("pair"),
        "level": instance.get("level", "token"),
        "tokens": named,
        "scores": scores,
        "offsets": instance.get("offsets"),
        "segment": instance.get("segment"),
        "input_ids": ids,
        "signed": instance.get("signed", True),
        "params": json.dumps({key: value for key, value in explainer.items() if key != "name"}),
    }
