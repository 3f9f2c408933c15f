"""What the study of Optimus measures on one data set with one base."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from wherefrom import Model
from wherefrom.optimus import BASELINE, Combination, fit
from wherefrom.statistics import Energy
from wherefrom.typing import Level, Numbers, TextOrPair
from wherefrom_studies.bench import (
    ALL_PREDICTED,
    PREDICTED,
    SetAndBase,
    StudyBase,
    StudyBench,
    StudyModel,
    StudyRuns,
    open_model,
)
from wherefrom_studies.data import SETS, Rows
from wherefrom_studies.optimus.analyses import CombinationGrades, MeanCost, combination_grades
from wherefrom_studies.optimus.paper import AUPRC, DATASETS, METRICS, ORDER, SENTENCE_SETS, TABLE_2
from wherefrom_studies.study import Measured, StudyRequest, each_set, measured_sets
from wherefrom_studies.task_networks import without_notices


@dataclass(frozen=True)
class OptimusResult:
    """All results of one data set with one base."""

    model: StudyModel
    runs: StudyRuns
    methods: dict[str, str]  # the paper's name -> ours with its options
    rows: Rows
    sentences: StudyRuns | None
    sentence_methods: dict[str, str]
    combinations: CombinationGrades | None
    by_auprc: list[str]  # the best combination of every text by AUPRC
    changes: dict[str, list[float]]  # fill -> change of attention, one number a text

    @property
    def every_run(self) -> Sequence[StudyRuns]:
        return [self.runs] if self.sentences is None else [self.runs, self.sentences]


OptimusResults = Mapping[SetAndBase, OptimusResult]


def measure(bench: StudyBench, request: StudyRequest) -> Measured[OptimusResults]:
    """With several seeds, the models of the first are explained, and the others only measured."""
    results = {}
    for base, name in each_set(bench, request):
        for seed in range(1, request.seeds):
            bench.model(name, base, seed)
        results[name, base.name] = measured(bench, name, base)
    notes = [
        "What is explained is the class that the model predicts, of multi-label models every predicted label.",
        f"LIME draws {200 if bench.size.quick else 2000} neighbours.",
    ]
    return measured_sets(bench, results, DATASETS, notes)


def methods_for(fitted: Mapping[str, str], *, several: bool, quick: bool) -> dict[str, str]:
    """The paper's methods as ours. fitted: A, A* and test -> a combination. OL is OP where there is one label."""
    methods = {
        "LIME": f"lime:samples={200 if quick else 2000}",
        "IG": "integrated_gradients",
        "B": f"optimus:combination={BASELINE}",
        "OB": f"optimus:combination={fitted['A']}",
        "OB on test": f"optimus:combination={fitted['test']}",
        "OP": "optimus",
        "OL": "optimus:select=label" if several else "optimus",
        "B*": f"optimus:combination={Combination('A*', 'mean', 'mean', 'from')}",
        "OB*": f"optimus:combination={fitted['A*']}",
        "OP*": "optimus:raw=A*",
        "OL*": "optimus:raw=A*:select=label" if several else "optimus:raw=A*",
        "OP A and A*": "optimus:raw=both",
        "random": "random",
    }
    return {name: methods[name] for name in ORDER}


def _asked(row: Mapping[str, Any]) -> TextOrPair:
    return row["text"] if row.get("pair") is None else (row["text"], row["pair"])


def measured(bench: StudyBench, name: str, base: StudyBase) -> OptimusResult:
    model, study_set = bench.model(name, base), SETS[name]
    several = study_set.task == "several_labels"
    rows = bench.texts(name, model, bench.size.texts)
    metrics = [*METRICS, AUPRC] if study_set.rationales else list(METRICS)
    target = ALL_PREDICTED if several else PREDICTED

    def measured(level: Level) -> tuple[StudyRuns, dict[str, str]]:
        fitted = _fitted(bench, name, model, rows, level)
        methods = methods_for(fitted, several=several, quick=bench.size.quick)
        queried = list(dict.fromkeys(methods.values()))
        return bench.run(name, model, queried, metrics, level=level, target=target), methods

    runs, methods = measured("token")
    sentences, by_sentence = measured("sentence") if name in SENTENCE_SETS else (None, {})
    combinations, best = _combinations(bench, name, model, rows) if study_set.rationales else (None, [])
    changes = bench.kept(
        f"attention-{name}-{base.name}",
        [model.source, [row["id"] for row in rows]],
        lambda: attention_changes(open_model(model), [_asked(row) for row in rows]),
    )
    return OptimusResult(model, runs, methods, rows, sentences, by_sentence, combinations, best, changes)


def _fitted(bench: StudyBench, name: str, model: StudyModel, rows: Rows, level: Level) -> dict[str, str]:
    """Optimus Batch: fitted on texts for validation, of A and of A*; and on the test's, to show what that does."""
    valid = bench.texts(name, model, bench.size.validation, "valid")

    def compute() -> dict[str, str]:
        loaded = open_model(model)
        texts, test = [_asked(row) for row in valid], [_asked(row) for row in rows]
        return {
            "A": str(fit(loaded, texts, level=level).combination),
            "A*": str(fit(loaded, texts, raw="A*", level=level).combination),
            "test": str(fit(loaded, test, level=level).combination),
        }

    key = [model.source, level, [row["id"] for row in (*valid, *rows)]]
    kept: dict[str, str] = bench.kept(f"fitted-{name}-{model.base}", key, compute)
    return kept


def _combinations(bench: StudyBench, name: str, model: StudyModel, rows: Rows) -> tuple[CombinationGrades, list[str]]:
    def compute() -> dict[str, Any]:
        texts: list[tuple[TextOrPair, Any]] = []
        for row in rows:
            pair = row.get("pair") is not None
            texts.append((_asked(row), (row["rationale"], row["pair_rationale"]) if pair else row["rationale"]))
        grades = combination_grades(open_model(model), texts, metrics=TABLE_2)
        plain = {
            metric: [[None if np.isnan(value) else round(float(value), 6) for value in row] for row in values]
            for metric, values in grades.values.items()
        }
        return {"names": grades.names, "values": plain}

    kept = bench.kept(
        f"combinations-{name}-{model.base}", [model.source, TABLE_2, [row["id"] for row in rows]], compute
    )
    values = {metric: np.array(table, dtype=np.float64) for metric, table in kept["values"].items()}
    combinations = CombinationGrades(kept["names"], values)
    best = [combinations.names[int(np.nanargmax(row))] for row in values["auprc"] if not np.isnan(row).all()]
    return combinations, best


FillName = Literal["delete", "unk", "mask"]


def attention_changes(model: Model, texts: Sequence[TextOrPair]) -> dict[str, list[float]]:
    """Figure 3 as a number: how far the attention between the other tokens moves when the token that receives the most
    is deleted, or replaced by [UNK] or [MASK].

    Attention is the mean over heads and layers. Rows and columns of the token are left out before and after, and what
    is left of a row is divided by its sum, so that only the shares among the other tokens count: half the sum of
    absolute differences, mean over rows.
    """
    reader = model.text_model
    folder = reader.network.module.config._name_or_path
    with without_notices():
        network = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = reader.reading.tokenizer
    changes: dict[str, list[float]] = {"delete": [], "unk": [], "mask": []}
    with torch.inference_mode():
        for text in texts:
            encoded = reader.encode(*((text,) if isinstance(text, str) else text))
            read = tokenizer(*((text,) if isinstance(text, str) else text), return_tensors="pt", truncation=True)
            ids = read["input_ids"][0]
            special = [token in tokenizer.all_special_ids for token in ids.tolist()]
            if len(encoded) != len(ids) or sum(not token for token in special) < 2:
                continue

            def attention(ids: torch.Tensor, inputs: Mapping[str, torch.Tensor] = read) -> Numbers:
                more = {name: value[:, : len(ids)] for name, value in inputs.items() if name not in ("input_ids",)}
                layers = network(input_ids=ids[None], **more, output_attentions=True).attentions
                mean: Numbers = torch.stack(layers).mean((0, 2))[0].double().numpy()
                return mean

            whole = attention(ids)
            received = np.where(special, -1.0, whole.mean(0))
            top = int(received.argmax())
            rest = [place for place in range(len(ids)) if place != top]
            before = _shares(whole[np.ix_(rest, rest)])
            for fill in changes:
                if fill == "delete":
                    after = attention(torch.cat([ids[:top], ids[top + 1 :]]))
                else:
                    changed = ids.clone()
                    changed[top] = tokenizer.unk_token_id if fill == "unk" else tokenizer.mask_token_id
                    after = attention(changed)[np.ix_(rest, rest)]
                changes[fill].append(float(np.abs(_shares(after) - before).sum(1).mean() / 2))
    return changes


def _shares(rows: Numbers) -> Numbers:
    shares: Numbers = rows / rows.sum(1, keepdims=True)
    return shares


def table_of(runs: StudyRuns, metric: str, methods: Mapping[str, str]) -> Numbers:
    """(text, method) in the order of ORDER."""
    return runs.table(metric, [methods[name] for name in ORDER])


def winners(result: OptimusResult) -> list[str]:
    """The combination that Optimus Prime chose for every text."""
    return [
        json.loads(row["params"])["winner"]
        for row in result.runs.explanations()
        if row["method"] == result.methods["OP"]
    ]


def passes_of(runs: StudyRuns, methods: Mapping[str, str]) -> Numbers:
    """Passes forward and backward, of one explanation by IG and by OP, alone. (example, method)"""
    frame = runs.alone()
    frame = frame.assign(passes=frame["forwards"] + frame["backwards"], row=frame.groupby("method").cumcount())
    wide = frame.pivot_table(index="row", columns="method", values="passes")
    passes: Numbers = wide.reindex(columns=[methods["IG"], methods["OP"]]).to_numpy(dtype=np.float64)
    return passes


def costs_of(results: OptimusResults) -> dict[SetAndBase, dict[str, MeanCost]]:
    """Of every data set, what one explanation costs by each method alone."""
    energy = Energy()
    everything = {}
    for key, result in results.items():
        frame, costs = result.runs.alone(), {}
        for name in ("LIME", "IG", "B", "OP", "OP*", "random"):
            rows = frame[frame["method"] == result.methods[name]]
            seconds, forwards, backwards = (float(rows[what].mean()) for what in ("seconds", "forwards", "backwards"))
            costs[name] = MeanCost(seconds, forwards, backwards, energy.grams(seconds), len(rows))
        everything[key] = costs
    return everything
