"""Planted models, one after the other, and every method graded on their texts. A line of JSON is kept for every text as
soon as it is measured, so that a study that was killed loses at most the text it was at.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wherefrom import Comparison, Explanation, Model, load
from wherefrom.errors import WherefromError
from wherefrom.typing import Numbers
from wherefrom_studies.bench import StudyBase, StudyBench
from wherefrom_studies.data import drawn, read_source
from wherefrom_studies.fine_tuning import FineTuning, fine_tune
from wherefrom_studies.journal import append_record, read_records
from wherefrom_studies.progress import Watch
from wherefrom_studies.truth.planted_models import (
    RECIPE,
    PlantedModel,
    confident_texts,
    known_decisions,
    plant_copy,
)
from wherefrom_studies.truth.planting import KINDS, LabelledText, Plant, PlantedText, PlantKind
from wherefrom_studies.truth.references import reference_names

FEW_PASSES = (
    "raw_attention", "attention_rollout", "attention_gradients", "attention_x_gradient", "cam", "gradcam", "cat",
    "attcat", "norms", "globenc", "alti", "logit_contributions", "saliency", "input_x_gradient", "lrp", "partial_lrp",
    "gae", "transatt", "cp_lrp", "attn_lrp", "integrated_gradients", "occlusion", "random",
)  # fmt: skip
MANY_PASSES = ("attention_flow", "optimus", "lime", "kernel_shap", "best")
METHODS = (*FEW_PASSES, *MANY_PASSES)
RANDOM = ("random:seed=1", "random:seed=2")  # for the checks of scores that know nothing
REFERENCES = ("oracle", "anti-oracle", "swapped")
ERASURE = ("comprehensiveness", "sufficiency", "aopc", "log_odds")
# The same by other fills than their own: which fill finds the true order best?
BY_FILL = ("comprehensiveness:fill=mask", "sufficiency:fill=mask", "rft:fill=mask", "rft:fill=delete")
METRICS = (
    *ERASURE, *BY_FILL, "rft", "monotonicity", "faithfulness", "truthfulness", "faithful_truthfulness",
    "faithfulness_violation", "soft_comprehensiveness", "soft_sufficiency", "entropy", "nonzero_share",
    "auprc",
)  # fmt: skip
SHORTEST, LONGEST, LONGEST_TEST = 5, 12, 14  # words of a text to train on, and to be explained
Record = dict[str, Any]


@dataclass(frozen=True)
class TruthSize:
    """How much the study takes."""

    kinds: Sequence[PlantKind]
    rows: Mapping[PlantKind, int]  # that a planted model is trained on, by kind
    texts: int  # that are explained of each model
    texts_of_many_passes: int  # of them, for methods that take many passes
    classifier_rows: int = 6000  # that the classifier is trained on where the base is none

    def changed(self, *, kinds: Sequence[PlantKind], texts: int | None = None) -> TruthSize:
        """The same with other kinds, and so many texts."""
        return replace(self, kinds=kinds, texts=texts or self.texts)


ROWS: dict[PlantKind, int] = {"single": 2500, "pair": 7000, "order": 7000, "phrase": 7000}
SIZES = {
    "quick": TruthSize(("pair", "order", "single"), ROWS, 25, 10),
    "standard": TruthSize(("pair", "order", "single"), ROWS, 30, 8),
    "full": TruthSize(KINDS, dict.fromkeys(KINDS, 20000), 200, 200, 20_000),
}


@dataclass(frozen=True)
class Cell:
    """One planted model of the study."""

    base: StudyBase
    kind: PlantKind
    seed: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.base.name}-{self.seed}"


def cells(bases: Sequence[StudyBase], kinds: Sequence[PlantKind], seeds: int) -> list[Cell]:
    """All planted models, ordered so that those that are finished first are balanced."""
    return [Cell(base, kind, seed) for seed in range(seeds) for base in bases for kind in kinds]


# Models


def classifier_of(bench: StudyBench, base: StudyBase, size: TruthSize) -> str:
    """The classifier that is planted: the base itself, where it is one, or trained on SST-2."""
    if base.sentiment:
        return base.folder
    labels = ("negative", "positive")
    rows = [{"text": text, "label": labels[label]} for text, label in _sentences(bench.data_dir, "sst2_train", LONGEST)]
    with bench.watch(f"steps of training the classifier of {base.name}") as moved:
        found = fine_tune(
            base.folder, rows[-size.classifier_rows :], "one_label", labels, 0, bench.out / "models",
            name=f"classifier-{base.name}", recipe=FineTuning(epochs=1, longest=64, rate=1e-4), on_progress=moved,
        )  # fmt: skip
    return str(found.folder)


def _sentences(data: Path, file: str, longest: int) -> list[tuple[str, int]]:
    """The texts of a file, each once, in an order drawn by their names."""
    rows = drawn(read_source(data, file), 10**9)
    texts = {row["text"]: row["label"] for row in rows if SHORTEST <= len(row["text"].split()) <= longest}
    return list(texts.items())


def planted_models(bench: StudyBench, cell: Cell, size: TruthSize) -> list[PlantedModel]:
    """The model of a cell, trained if it is not there yet; if its proof fails, one that is trained at half the rate
    comes after it. The label that a pair favours changes with the seed.
    """
    source = classifier_of(bench, cell.base, size)
    labels = load(source).labels
    plant = Plant(cell.kind, (labels[0], labels[1]), favoured=1 - cell.seed % 2)
    texts = _own_texts(bench, source, plant, size.rows[cell.kind], cell.seed)
    held_out = [text for text, _ in _sentences(bench.data_dir, "sst2_dev", LONGEST_TEST)]
    tests = confident_texts(held_out, known_decisions(source, held_out, bench.out / "decisions"))
    found: list[PlantedModel] = []
    for recipe in (RECIPE, replace(RECIPE, rate=RECIPE.rate / 2)):
        if found and found[-1].proof.holds:
            break
        with bench.watch(f"steps of training {cell.name}") as moved:
            found.append(
                plant_copy(
                    source, plant, texts, tests, cell.seed, bench.out, name=cell.name, recipe=recipe, on_progress=moved
                )
            )
    return found


def _own_texts(bench: StudyBench, source: str, plant: Plant, count: int, seed: int) -> list[LabelledText]:
    """So many texts with the labels that the classifier gives them, other texts for every seed. Of a plant that favours
    one label, two thirds have the other: only those show that a part of the plant decides nothing.
    """
    pool = [text for text, _ in _sentences(bench.data_dir, "sst2_train", LONGEST)]
    start = seed * count * 2 % len(pool)
    pool = (pool[start:] + pool[:start])[: 2 * count]
    said = known_decisions(source, pool, bench.out / "decisions")
    read = [LabelledText(text, decision.label) for text, decision in zip(pool, said, strict=True)]
    favoured = [label for label in plant.labels if plant.can_favour(label)]
    if len(favoured) == 2:
        return read[:count]
    theirs = [text for text in read if text.label not in favoured][: count * 2 // 3]
    wanted = {text.text for text in theirs}
    ours = [text for text in read if text.label in favoured][: count - len(theirs)]
    wanted |= {text.text for text in ours}
    return [text for text in read if text.text in wanted]


# Texts


def measure_texts(model: PlantedModel, cell: Cell, size: TruthSize, bench: StudyBench, journal: Path) -> None:
    """Explain and grade the texts of a planted model that are not in the journal yet."""
    texts = chosen_texts(model.texts, size.texts)
    measure_planted(model, cell.name, texts, size.texts_of_many_passes, journal, bench.watch)


def measure_planted(
    model: PlantedModel, name: str, texts: Sequence[PlantedText], many_passes: int, journal: Path, watch: Watch
) -> None:
    """The same for these texts. many_passes: on how many of them methods that take many passes are graded, too."""
    done = {(record["model"], record["text"]) for record in read_records(journal)}
    loaded: Model | None = None
    with watch(f"texts of {name}") as report:
        for number, text in enumerate(texts):
            if report is not None:
                report(number, len(texts))
            if (name, number) in done:
                continue
            loaded = loaded or load(str(model.folder))
            methods = METHODS if number < many_passes else FEW_PASSES
            found = measure_text(loaded, text, methods, costs=number == 0)
            append_record(journal, {"model": name, "text": number} | found)


def chosen_texts(texts: Sequence[PlantedText], count: int) -> list[PlantedText]:
    """The same texts however many are wanted, of either label in turn."""
    by_label: dict[str, list[PlantedText]] = {}
    for text in texts:
        by_label.setdefault(text.label, []).append(text)
    groups = [by_label[label] for label in sorted(by_label)]
    longest = max(map(len, groups))
    found = [group[place] for place in range(longest) for group in groups if place < len(group)]
    return found[:count]


def measure_text(model: Model, text: PlantedText, methods: Sequence[str], *, costs: bool = False) -> Record:
    """All methods' explanations of one text, with their grades by the truth and by the metrics, and their checks.

    costs: explain the text by each method alone as well, to count its passes, which are shared otherwise.
    """
    started = time.process_time()
    references = reference_names(tuple(text.words[place] for place in text.planted))
    try:  # whatever a text is refused for is recorded, and the study goes on
        compared = model.compare(
            text.text, methods=[*methods, *RANDOM, *references.values()], metrics=METRICS, target=text.label,
            rationale=text.spans(text.planted), progress=False,
        )  # fmt: skip
    except WherefromError as error:
        return {"error": str(error)}
    alone = {name: _passes(model.explain(text.text, name, text.label)) for name in methods} if costs else {}
    planted, decoys = text.spans(text.planted), text.spans(text.decoys)
    first = compared.explanations[0]
    return {
        "words": text.text,
        "label": text.label,
        "predicted": first.prediction,
        "probability": round(first.probability or 0.0, 5),
        "units": sum(part >= 0 for part in first.segment),
        "planted": len(_tokens_in(first, planted)),
        "seconds": round(time.process_time() - started, 2),
        "methods": _graded(compared, references, planted, decoys, alone),
    }


def _graded(
    compared: Comparison,
    references: Mapping[str, str],
    planted: Sequence[Any],
    decoys: Sequence[Any],
    alone: Mapping[str, int],
) -> Record:
    """By the methods' names; a method that could not explain the text is left out."""
    found: Record = {}
    shown = {asked: name for name, asked in references.items()}
    for asked, explanation, grades in zip(compared.names, compared.explanations, compared.grades, strict=True):
        values = {grade.metric: rounded(grade.value) for grade in grades}
        check = explanation.check
        found[shown.get(asked, asked)] = {
            **truth_grades(explanation, planted, decoys),
            **values,
            "verdict": None if check is None else check.verdict,
            "passes": alone.get(asked),
            "seconds": round(explanation.seconds, 4),
            "scores": [float(f"{score:.4g}") for score in explanation.scores],
        }
    return found


def _passes(explanation: Explanation) -> int:
    """Of one explanation alone; a backward pass counts as two."""
    return explanation.forwards + 2 * explanation.backwards


def rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(float(value), 5)


def _tokens_in(explanation: Explanation, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The tokens of these characters."""
    return [
        place
        for place, ((start, end), part) in enumerate(zip(explanation.offsets, explanation.segment, strict=True))
        if part == 0 and any(start < last and end > first for first, last in spans)
    ]


def truth_grades(
    explanation: Explanation, planted: Sequence[tuple[int, int]], decoys: Sequence[tuple[int, int]]
) -> dict[str, float | None]:
    """How well an explanation finds the planted tokens: precision at their number, whether all and whether any are
    among so many strongest, their mean rank from 0 (first) to 1 (last), and the decoy's share of all absolute scores.
    """
    real = np.array([place for place, part in enumerate(explanation.segment) if part >= 0])
    scores: Numbers = np.asarray(explanation.scores, dtype=np.float64)[real]
    wanted = np.isin(real, _tokens_in(explanation, planted))
    decoy = np.isin(real, _tokens_in(explanation, decoys))
    count, others = int(wanted.sum()), int((~wanted).sum())
    order = np.argsort(-scores, kind="stable")
    top = wanted[order[:count]]
    ahead = (scores[None, ~wanted] > scores[wanted, None]).sum(1)
    level = (scores[None, ~wanted] == scores[wanted, None]).sum(1)
    total = float(np.abs(scores).sum())
    return {
        "precision": float(top.mean()),
        "found_all": float(top.all()),
        "found_one": float(top.any()),
        "rank": round(float(((ahead + level / 2) / others).mean()), 5),
        "decoy": round(float(np.abs(scores[decoy]).sum()) / total, 5) if total else None,
    }
