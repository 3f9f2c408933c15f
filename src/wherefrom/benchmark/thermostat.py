"""Explanations as JSON lines in the manner of Thermostat (Feldhus et al. 2021, arXiv:2108.13961): one line an example
and method.

Each line has `dataset`, `model`, `explainer` and `instance` with attributions, idx, input_ids, label and predictions.
What Thermostat has no place for (the text, tokens, offsets) is stored beside it: a line can be read back without a
tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherefrom.benchmark.columns import EXPLANATION_COLUMNS
from wherefrom.core.files import json_text, read_json_lines, write_atomically
from wherefrom.errors import BadFile, MissingExtra

if TYPE_CHECKING:
    import pandas

    from wherefrom.benchmark.store import Run

# What Thermostat's own format gives another name, and what it does not keep.
RENAMED = {"example", "method", "params", "input_ids", "scores", "label", "probability"}
LEFT_OUT = {"notes", "gap", "unassigned", "cut", "seconds", "forwards", "backwards"}
BESIDE = [column.name for column in EXPLANATION_COLUMNS if column.name not in RENAMED | LEFT_OUT]

IdsToTokens = Callable[[Sequence[int]], Sequence[str]]


def write_thermostat(run: Run, path: str | Path) -> int:
    """Write every explanation of a run; returns how many there are."""
    lines = [json_text(line) for line in _lines(run)]
    write_atomically(path, "".join(line + "\n" for line in lines), "explanations")
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
                "predictions": {row["target"]: row["probability"] if row["value"] is None else row["value"]},
                **{name: row.get(name) for name in BESIDE},
            },
        }


def read_thermostat(path: str | Path, *, tokens: IdsToTokens | None = None) -> pandas.DataFrame:
    """Lines that Wherefrom or Thermostat wrote, as the frame `Run.explanations` is. tokens: names ids, for lines that
    have no tokens of their own (a tokenizer's convert_ids_to_tokens).
    """
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("Reading explanations into a table", "bench") from error
    rows = [_row(line, where, tokens) for where, line in read_json_lines(path)]
    if not rows:
        raise BadFile(f"{path} has no explanations.")
    return pandas.DataFrame(rows)


def _row(line: Mapping[str, Any], where: str, tokens: IdsToTokens | None) -> dict[str, Any]:
    instance, explainer = line.get("instance"), line.get("explainer")
    if (
        not isinstance(instance, dict)
        or not isinstance(explainer, dict)
        or {"attributions", "input_ids"} - instance.keys()
    ):
        raise BadFile(f"{where}: a line has an explainer, and an instance with attributions and input_ids.")
    ids, scores, names = instance["input_ids"], instance["attributions"], instance.get("tokens")
    if names is None:
        names = [str(one) for one in ids] if tokens is None else list(tokens(ids))
    if len(names) != len(scores):
        raise BadFile(f"{where}: {len(scores)} attributions for {len(names)} tokens.")
    predictions = instance.get("predictions")
    target = instance.get("target")
    if isinstance(predictions, list):  # Thermostat's own: a number for every class
        target = predictions.index(max(predictions))
    likely = predictions.get(target) if isinstance(predictions, dict) else None
    beside = {name: instance.get(name) for name in BESIDE} | {
        "target": None if target is None else str(target),
        "prediction": instance.get("prediction", None if target is None else str(target)),
        "level": instance.get("level", "token"),
        "signed": instance.get("signed", True),
        "tokens": names,
    }
    own = {
        "example": str(instance.get("idx")),
        "method": str(explainer.get("name")),
        "probability": likely if instance.get("value") is None else None,  # a regression model has a value instead
        "label": None if instance.get("label") is None else str(instance["label"]),
        "scores": scores,
        "input_ids": ids,
        "params": json.dumps({key: value for key, value in explainer.items() if key != "name"}),
    }
    found = own | beside
    return {column.name: found[column.name] for column in EXPLANATION_COLUMNS if column.name in found}
