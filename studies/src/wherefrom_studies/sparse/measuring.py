"""What the study of sparse attention measures: its classifiers, trained, measured and kept.

Every classifier has its own folder under `out/runs`, named after everything that decides its numbers. What is there is
not computed again, so that a study that was stopped continues where it was, and a larger study reuses the results of
a smaller one.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wherefrom.errors import BadOption
from wherefrom_studies.bench import StudyBench, make_folder, provenance, read_measured, write_measured
from wherefrom_studies.progress import Watch, titled, unwatched
from wherefrom_studies.sparse.adversary import AdversaryMode, measure_adversary, train_adversary
from wherefrom_studies.sparse.data import LENGTH_FILTERS, LabelledText, StudyDataset, read_dataset
from wherefrom_studies.sparse.measures import (
    agreement,
    attention_over_words,
    gradient_importance,
    importance_for_intermediates,
    leave_one_out,
    normalised_entropy,
)
from wherefrom_studies.sparse.models import Alignment, Architecture, Classifier, EncoderKind
from wherefrom_studies.sparse.training import RATES, Recipe, accuracy, answers, train

VERSION = 1  # part of every run's name: raise it when what is computed changes
ENCODERS: dict[EncoderKind, Alignment] = {"bilstm": "additive", "transformer": "dot"}
# The paper starts from pretrained word vectors, which are not at hand: words are learned from random values. How far
# these are spread matters more than one would like, so it is chosen by accuracy on dev texts: for each data set and
# encoder the one of these with which softmax and sparsemax together are best, and then the same for every projection.
SPREADS = (0.03, 0.1, 0.3, 0.6)
Spreads = Mapping[tuple[str, EncoderKind], float]  # (dataset, encoder) -> the chosen one
# The attention of a frozen Transformer hardly moves at the rate of the whole classifier; the paper allows it tenfold.
FASTER: dict[tuple[EncoderKind, AdversaryMode], float] = {("transformer", "frozen"): 10.0}
PROJECTIONS = ("softmax", "sparsemax")
LAMBDAS = (-10.0, -3.0, -1.0, 0.0, 0.5, 0.9)
MODES: tuple[AdversaryMode, ...] = ("frozen", "unfrozen")
# Leaving out each of n words costs n encodings of n words, so texts are added until the sum of n * n reaches this.
LEFT_OUT, LEFT_OUT_SWEEP, FOR_INTERMEDIATES = 4_000_000, 400_000, 60_000


@dataclass(frozen=True)
class TrainingRun:
    """One classifier of the study."""

    dataset: str
    architecture: Architecture
    recipe: Recipe
    adversary: AdversaryMode | None = None
    weight: float = 1.0  # of the divergence in an adversary's loss
    faster: float = 1.0  # an adversary's rate, in that of the recipe
    left_out: int = LEFT_OUT
    for_intermediates: int = FOR_INTERMEDIATES

    @property
    def title(self) -> str:
        shape = self.architecture
        return (
            f"{self.dataset} {shape.encoder} {shape.projection} {self.adversary or ''} seed {self.recipe.seed}".replace(
                "  ", " "
            )
        )

    def folder(self, runs: Path, fingerprint: str) -> Path:
        """A readable name, and a digest of everything that decides the trained weights."""
        trained = [VERSION, fingerprint, asdict(self.architecture), asdict(self.recipe), self.adversary, self.weight]
        trained += [self.faster] if self.faster != 1 else []
        digest = hashlib.sha256(json.dumps(trained, sort_keys=True).encode()).hexdigest()[:10]
        return runs / f"{self.title.replace(' ', '-').replace(':', '')}-{digest}"


def choose_spreads(
    loaded: Mapping[str, StudyDataset], runs: Path, *, epochs: int = 6, size: int = 128, watch: Watch = unwatched
) -> tuple[dict[tuple[str, EncoderKind], float], list[dict[str, Any]]]:
    """For each data set and encoder the spread with the highest mean accuracy on dev texts of softmax and sparsemax,
    both trained with the first seed (of equal ones, that with the lower loss); and every score as plain data.
    """
    chosen: dict[tuple[str, EncoderKind], float] = {}
    rows: list[dict[str, Any]] = []
    for name, dataset in loaded.items():
        for encoder, alignment in ENCODERS.items():
            recipe, scores = Recipe(RATES[encoder], epochs=epochs), dict[float, list[tuple[float, float]]]()
            for spread in SPREADS:
                for projection in PROJECTIONS:
                    architecture = Architecture(encoder, projection, alignment, size=size, spread=spread)
                    folder = TrainingRun(name, architecture, recipe).folder(runs, dataset.fingerprint)
                    with_title = titled(watch, f"{name} {encoder} {projection} spread {spread:g}")
                    _, history = train(dataset, architecture, recipe, folder, watch=with_title)
                    scores.setdefault(spread, []).append(max(epoch.rank for epoch in history))
            best = max(scores, key=lambda spread: [sum(part) for part in zip(*scores[spread], strict=True)])
            chosen[name, encoder] = best
            for spread, ranks in scores.items():
                dev = [round(score, 5) for score, _ in ranks]
                rows.append(
                    {"dataset": name, "encoder": encoder, "spread": spread, "dev": dev, "chosen": spread == best}
                )
    return chosen, rows


def seeds_by_dataset(names: Sequence[str], usual: int) -> dict[str, int]:
    """Data sets and how many seeds each is trained with: `imdb` with as many as is usual, `imdb:1` with one."""
    seeds = {}
    for entry in names:
        name, colon, count = entry.partition(":")
        if colon and not count.isdecimal():
            raise BadOption(f"{entry}: behind the colon stands how many seeds {name} is trained with, a number.")
        seeds[name] = int(count) if colon else usual
    if min(seeds.values(), default=1) < 1:
        raise BadOption("A study needs at least one seed.")
    return seeds


def plan(
    seeds: Mapping[str, int], spreads: Spreads, *, quick: bool, epochs: int = 6, size: int = 128
) -> list[TrainingRun]:
    """All classifiers of a study; those that others depend on come first.

    seeds: how many of every data set.
    """
    runs = []
    for dataset, count in seeds.items():
        for seed in range(count):
            for encoder, alignment in ENCODERS.items():
                recipe = Recipe(RATES[encoder], epochs=epochs, seed=seed)

                def architecture(
                    projection: str,
                    encoder: EncoderKind = encoder,
                    alignment: Alignment = alignment,
                    spread: float = spreads[dataset, encoder],
                ) -> Architecture:
                    return Architecture(encoder, projection, alignment, size=size, spread=spread)

                runs += [TrainingRun(dataset, architecture(projection), recipe) for projection in PROJECTIONS]
                if not quick:
                    runs += [
                        TrainingRun(
                            dataset,
                            architecture("softmax"),
                            recipe,
                            adversary=mode,
                            faster=FASTER.get((encoder, mode), 1.0),
                        )
                        for mode in MODES
                    ]
                    runs += [
                        TrainingRun(
                            dataset,
                            architecture(f"sparsegen:{lam:g}"),
                            recipe,
                            left_out=LEFT_OUT_SWEEP,
                            for_intermediates=0,
                        )
                        for lam in LAMBDAS
                        if lam != 0  # that is sparsemax
                    ]
    return sorted(runs, key=lambda run: run.adversary is not None or run.architecture.projection not in PROJECTIONS)


def measured(
    bench: StudyBench, datasets: Sequence[str], seeds: int = 1, *, epochs: int = 6, size: int = 128
) -> dict[str, Any]:
    """Train what is missing, measure it, and return all numbers as plain data (also stored in `results.json`).

    datasets: names; `imdb:1` is trained with that many seeds.
    """
    if epochs < 1:
        raise BadOption("A study needs at least one epoch.")
    if not datasets:
        raise BadOption(f"Name at least one dataset: {', '.join(LENGTH_FILTERS)}.")
    by_dataset = seeds_by_dataset(datasets, seeds)
    # All of them first, so that a missing file is reported before hours of work.
    loaded = {name: read_dataset(bench.data_dir, name) for name in by_dataset}
    runs = bench.out / "runs"
    make_folder(runs)
    spreads, tried = choose_spreads(loaded, runs, epochs=epochs, size=size, watch=bench.watch)
    rows = []
    planned = plan(by_dataset, spreads, quick=bench.size.quick, epochs=epochs, size=size)
    for count, run in enumerate(planned, start=1):
        title = f"classifier {count} of {len(planned)}"
        rows.append(perform(run, loaded[run.dataset], runs, titled(bench.watch, title)))
    results = {
        "quick": bench.size.quick,
        "seeds": max(by_dataset.values()),
        "datasets": {
            name: {"train": len(d.train), "dev": len(d.dev), "test": len(d.test)} for name, d in loaded.items()
        },
        "lambdas": list(LAMBDAS),
        "spreads": tried,
        "made": provenance(sum(row["seconds"] for row in rows)),
        "runs": rows,
    }
    write_measured(bench.out / "results.json", results)
    return results


def perform(run: TrainingRun, dataset: StudyDataset, runs: Path, watch: Watch) -> dict[str, Any]:
    """The numbers of one classifier: trained and measured, or read if that was done before."""
    folder = run.folder(runs, dataset.fingerprint)
    kept = folder / f"measures-{run.left_out}-{run.for_intermediates}.json"
    if kept.is_file():
        return dict(read_measured(kept))
    with_title = titled(watch, run.title)
    if run.adversary is None:
        model, history = train(dataset, run.architecture, run.recipe, folder, watch=with_title)
    else:
        base_folder = TrainingRun(run.dataset, run.architecture, run.recipe).folder(runs, dataset.fingerprint)
        base, _ = train(dataset, run.architecture, run.recipe, base_folder, watch=with_title)
        recipe = replace(run.recipe, rate=run.recipe.rate * run.faster)
        model, history = train_adversary(
            dataset, base, recipe, folder, mode=run.adversary, weight=run.weight, watch=with_title
        )
    started = time.process_time()
    measured = (
        measure(run, model, dataset.test, with_title)
        if run.adversary is None
        else measure_adversary(model, base, dataset.test)
    )
    measuring = time.process_time() - started
    row = {
        "dataset": run.dataset,
        "encoder": run.architecture.encoder,
        "projection": run.architecture.projection,
        "seed": run.recipe.seed,
        "spread": run.architecture.spread,
        "adversary": run.adversary,
        "epochs": len(history),
        "dev": max(history, key=lambda epoch: epoch.rank).dev_score,
        "seconds": sum(epoch.seconds for epoch in history) + measuring,
        "measuring_seconds": measuring,
    } | measured
    write_measured(kept, row)
    return row


def texts_within(texts: Sequence[LabelledText], budget: int) -> list[LabelledText]:
    """As many texts, in a fixed random order, as the budget allows; the sum of their squared lengths is what they
    cost.
    """
    chosen, spent = [], 0
    order: list[int] = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0)).tolist()
    for i in order:
        spent += len(texts[i]) ** 2
        if spent > budget:
            break
        chosen.append(i)
    return [texts[i] for i in sorted(chosen)]


def measure(run: TrainingRun, model: Classifier, test: Sequence[LabelledText], watch: Watch) -> dict[str, Any]:
    """Lists are one number a text; `tau` and `p` are attention's agreement with an importance, `entropy` is an
    importance's own.
    """
    some, few = texts_within(test, run.left_out), texts_within(test, run.for_intermediates)
    own, own_of_some = (attention_over_words(answers(model, texts)[1], texts) for texts in (test, some))
    importances = {
        "g(x)": (gradient_importance(model, test), own),
        "g(I)": (gradient_importance(model, test, of="intermediates"), own),
        "D(x)": (leave_one_out(model, some, watch=watch), own_of_some),
        "D(I)": (leave_one_out(model, test, of="intermediates"), own),
    }
    agreements = {
        name: [agreement(a, b) for a, b in zip(attention, scores, strict=True)]
        for name, (scores, attention) in importances.items()
    }
    entropy = {name: _entropies(scores) for name, (scores, _) in importances.items()} | {"attention": _entropies(own)}
    if few:
        entropy["g_h(x)"] = _entropies(importance_for_intermediates(model, few, watch=watch))
        entropy["J_h(x)"] = _entropies(importance_for_intermediates(model, few, definition="jacobian", watch=watch))
    return {
        "accuracy": accuracy(model, test),
        "tau": {name: [number(of_text.tau) for of_text in of_texts] for name, of_texts in agreements.items()},
        "p": {name: [number(of_text.p) for of_text in of_texts] for name, of_texts in agreements.items()},
        "entropy": entropy,
        "zeros": torch.cat(own).eq(0).double().mean().item(),
    }


def _entropies(weights: list[Tensor]) -> list[float | None]:
    return [number(normalised_entropy(text).mean().item()) for text in weights]


def number(value: float) -> float | None:
    """A number for JSON, which has no NaN: None where the correlation is not defined."""
    return None if value != value else round(value, 5)
