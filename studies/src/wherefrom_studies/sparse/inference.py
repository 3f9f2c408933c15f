"""What happens to a trained model's attention-based explanations when another projection replaces its softmax at
inference.

The model is not trained again: the softmax of every attention is replaced while it answers. Asked of every text and
projection: is the answer still right, and the same; how concentrated is the attention that the decision is read from;
and does attention agree with how important tokens are to the model as it then is (gradient, and leaving a token out)?
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wherefrom import Attribution, Case, Model, find_method
from wherefrom.errors import BadFile, BadOption
from wherefrom_studies.bench import StudyBench, make_folder, provenance, read_measured, write_measured
from wherefrom_studies.progress import Watch, unwatched, watched
from wherefrom_studies.sparse.data import by_length, labelled_texts
from wherefrom_studies.sparse.measures import agreement, normalised_entropy
from wherefrom_studies.sparse.measuring import number
from wherefrom_studies.sparse.pictures import inference_picture
from wherefrom_studies.sparse.projected_attention import projected
from wherefrom_studies.sparse.projections import Projection
from wherefrom_studies.sparse.tables import inference_table
from wherefrom_studies.study import Measured, Study, StudyRequest

VERSION = 1
TEXTS = "sst2_dev.jsonl"
PROJECTIONS = (
    "softmax",
    "sparsegen:-10",
    "sparsegen:-3",
    "sparsegen:-1",
    "entmax:1.5",
    "sparsemax",
    "sparsegen:0.5",
    "sparsegen:0.9",
)
EXPLANATIONS = {"raw attention": "raw_attention", "rollout": "attention_rollout"}


def read_texts(path: Path, limit: int | None, labels: Sequence[str] = ()) -> list[tuple[str, int]]:
    """Texts with the numbers of their labels; a label that is a name is looked up among the model's `labels`."""
    hint = "Give the folder that contains it, or another file with --texts; each line is {'text', 'label'}."
    rows = labelled_texts(path, names=labels, hint=hint)
    if limit is not None and limit < len(rows):  # spread over the file, as its beginning may be of one kind
        rows = [rows[i * len(rows) // limit] for i in range(limit)]
    if not rows:
        raise BadFile(f"{path} holds no texts.")
    return rows


def inference_study(model: Model, path: Path | None, limit: int | None) -> Study[dict[str, Any]]:
    """The study of one model on texts: those of a file, or of SST-2."""

    def measure(bench: StudyBench, _: StudyRequest) -> Measured[dict[str, Any]]:
        count = limit or (100 if bench.size.quick else 300)
        rows = read_texts(bench.data_dir / TEXTS if path is None else path, count, model.labels)
        results = project_at_inference(model, rows, bench.out, watch=bench.watch)
        made = results["made"]
        facts = [
            f"{results['texts']} texts.",
            f"{made['seconds'] / 60:.0f} minutes of one processor on {made['machine']}, {made['date']}.",
        ]
        return Measured(results, facts, made)

    return Study(
        name="sparse-at-inference",
        title=f"Attention of {model.text_model.name}, projected at inference",
        about="Beyond Meister et al. (2021): a trained model's softmax is replaced by other projections, without"
        " another training.",
        measure=measure,
        tables=lambda results: [inference_table(results)],
        pictures=lambda results, folder: [inference_picture(results, folder)],
        intervals="± the standard deviation over texts",
    )


def project_at_inference(
    model: Model,
    rows: Sequence[tuple[str, int]],
    out: Path,
    *,
    projections: Sequence[str] = PROJECTIONS,
    watch: Watch = unwatched,
) -> dict[str, Any]:
    """Run the model with every projection; plain numbers, stored in `out/at-inference.json`. What is stored already is
    not computed again.
    """
    name = model.text_model.name
    too_high = max(label for _, label in rows)
    if too_high >= len(model.labels):
        raise BadOption(
            f"The texts have the label {too_high}, but {name} has only {len(model.labels)}: {', '.join(model.labels)}."
        )
    state = hashlib.sha256(json.dumps([VERSION, name, list(rows)]).encode())
    for (
        tensor
    ) in model.text_model.network.module.state_dict().values():  # another model of the same name is another study
        state.update(tensor.detach().double().sum().cpu().numpy().tobytes())
    folder = out / "at-inference" / state.hexdigest()[:10]
    make_folder(folder)
    measured = []
    for written in projections:
        kept = folder / f"{written.replace(':', '')}.json"
        if not kept.is_file():
            write_measured(kept, {"projection": written} | run_with(model, rows, Projection.parse(written), watch))
        measured.append(read_measured(kept))
    for row in measured:
        row["same"] = sum(a == b for a, b in zip(row["answers"], measured[0]["answers"], strict=True)) / len(rows)
    results = {
        "model": name,
        "texts": len(rows),
        "made": provenance(sum(row["seconds"] for row in measured)),
        "projections": measured,
    }
    write_measured(out / "at-inference.json", results)
    return results


def run_with(model: Model, rows: Sequence[tuple[str, int]], projection: Projection, watch: Watch) -> dict[str, Any]:
    """Run the model with one projection on all texts; lists have one number for each text."""
    reader, started = model.text_model, time.process_time()
    lengths = [len(reader.encode(text)) for text, _ in rows]
    answers, by_text = [0] * len(rows), [dict[str, float | None]()] * len(rows)
    with projected(reader.network.module, projection):
        batches = by_length(lengths, tokens=reader.batch_tokens)
        for places in watched(batches, watch, f"batches of {reader.name} with {projection}"):
            for row, case in model.cases([rows[i][0] for i in places], reads=["gradients", "answers"]):
                answers[places[row]] = case.target.index
                by_text[places[row]] = examine(case)
    right = sum(answer == label for answer, (_, label) in zip(answers, rows, strict=True))
    columns = {key: [of_text[key] for of_text in by_text] for key in by_text[0]}
    return {
        "accuracy": right / len(rows),
        "answers": answers,
        "seconds": time.process_time() - started,
        "measures": columns,
    }


def examine(case: Case) -> dict[str, float | None]:
    """One text. Attention's own numbers count every token it can look at; agreement counts the text's own tokens."""
    words = ~case.special
    looked = case.read(case.capture.attention[-1].probs).double()  # (head, key)
    values: dict[str, float | None] = {
        "entropy": number(normalised_entropy(looked).mean().item()),
        "zeros": number((looked == 0).double().mean().item()),
        "on special tokens": number(looked[:, case.special].sum(-1).mean().item()),
    }
    importances = {"g(x)": scores_of(case, "saliency")[words].double(), "D(x)": left_out(case)[words]}
    for name, method in EXPLANATIONS.items():
        scores = scores_of(case, method)[words].double()
        for kind, importance in importances.items():
            values[f"{name}, {kind}"] = number(agreement(scores.cpu(), importance.cpu()).tau)
    gradient = importances["g(x)"]
    values["entropy of g(x)"] = number(normalised_entropy(gradient / gradient.sum()).item())
    return values


def scores_of(case: Case, method: str) -> Tensor:
    """A method's scores, layers added up. (token,)"""
    attribution = find_method(method)(case)
    scores: Tensor = attribution.scores if isinstance(attribution, Attribution) else attribution
    return scores.sum(0) if scores.ndim == 2 else scores


def left_out(case: Case) -> Tensor:
    """How far the probability of the answer moves when a token is hidden. (token,)"""
    keep = ~torch.eye(len(case.encoding), dtype=torch.bool, device=case.model.network.device)
    without = case.target.probability(case.answers(keep, case.model.hiding.usual_fill()))
    return (case.target.probability(case.logits[None]) - without).abs()
