"""Beyond the paper: sparse projections trained into a pretrained Transformer by fine-tuning, judged by rationales.

The same base is fine-tuned with softmax, 1.5-entmax and sparsemax in every attention, with the same rows, recipe and
seeds, and is asked with the projection that it was trained with. Then: is it as accurate; is its attention sparse; does
attention agree better with what people marked, and is it more faithful? All differences are to softmax, of the same
texts and the same seed.

One training more or less moves such differences, so an interval counts both what texts and what seeds differ by, and
from one seed nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import hypot
from typing import Any

import numpy as np

from wherefrom import Case
from wherefrom.errors import BadOption
from wherefrom.typing import Numbers
from wherefrom_studies.bench import (
    SetAndBase,
    StudyBase,
    StudyBench,
    StudyModel,
    StudyRuns,
    open_model,
    provenance,
)
from wherefrom_studies.claims import Claim, Estimate, JudgedClaim, estimate, mean_of
from wherefrom_studies.comparisons import NOT_MEASURED
from wherefrom_studies.data import SETS, drawn
from wherefrom_studies.pages import StudyCell, StudyTable, cell
from wherefrom_studies.scoring import right_by_row
from wherefrom_studies.sparse.judging import pooled
from wherefrom_studies.sparse.measures import normalised_entropy
from wherefrom_studies.sparse.projected_attention import SOFTMAX, attention_by
from wherefrom_studies.sparse.projections import Projection
from wherefrom_studies.study import Measured, Study, StudyRequest, each_set

DATASETS = ("hatexplain", "esnli", "movies", "hummingbird", "hoc")  # those with rationales
USUAL_DATASETS = ("hatexplain", "esnli")
SPARSE = ("entmax:1.5", "sparsemax")
PROJECTIONS = (SOFTMAX, *SPARSE)
ATTENTION = ("raw_attention", "attention_rollout", "gae")
METHODS = [*ATTENTION, "occlusion", "random"]
METRICS = {"auprc": 1.0, "comprehensiveness": 1.0, "sufficiency": -1.0, "entropy": 0.0}  # the side that is better
ACCURACY_MARGIN, MODEL_MARGIN = 0.02, 0.02
MEASURED_ON, MEASURED_ON_QUICK = 1000, 200  # texts that accuracy is measured on
SHAPES = {
    "entropy": "entropy of attention",
    "zeros": "zeros",
    "last entropy": "entropy at the decision",
    "last zeros": "zeros at the decision",
    "last special": "on special tokens there",
}
Differences = Mapping[str, Numbers]  # of every data set and base (seed, text): a projection's value less softmax's


def _claims(projection: str) -> tuple[Claim, ...]:
    """Written down, margins included, before any number was looked at. They are ours: the paper fine-tunes nothing."""
    more, less = f"that of {projection} less that of softmax", f"that of softmax less that of {projection}"
    return (
        Claim(
            f"S7 {projection}",
            "sparse attention can be trained into a pretrained model without a loss of accuracy",
            f"accuracy: {less}",
            side=None,
            margin=ACCURACY_MARGIN,
        ),
        Claim(f"S8 {projection}", "its attention is then more concentrated", f"entropy of attention: {less}"),
        *(
            Claim(
                f"S9 {projection} {method}",
                f"`{method}` then agrees better with what people marked",
                f"AUPRC: {more}",
            )
            for method in ATTENTION
        ),
        Claim(
            f"S10 {projection} comprehensiveness",
            "`raw_attention` is then more faithful",
            f"comprehensiveness: {more}",
        ),
        Claim(f"S10 {projection} sufficiency", "`raw_attention` is then more faithful", f"sufficiency: {less}"),
        Claim(
            f"S11 {projection}",
            "which words matter to the model stays the same",
            f"AUPRC of `occlusion`, which reads no attention: {more}",
            side=None,
            margin=MODEL_MARGIN,
        ),
    )


CLAIMS = {projection: {claim.name: claim for claim in _claims(projection)} for projection in SPARSE}


class FineTunedRun:
    """What was measured on one model: one data set, base, projection and seed."""

    def __init__(
        self, model: StudyModel, runs: StudyRuns, right: Mapping[str, bool], shapes: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.model, self.runs = model, runs
        self.right = dict(right)  # text -> whether its label was found
        self.shapes = shapes  # text -> what its attention looks like

    def values(self, metric: str, method: str) -> Mapping[str, float]:
        """Text -> value, for the texts that have one."""
        return self._by_metric[metric][method]

    @cached_property
    def _by_metric(self) -> dict[str, dict[str, dict[str, float]]]:
        means: dict[str, dict[str, dict[str, float]]] = {}
        for metric in METRICS:
            values = self.runs.by_example(metric, METHODS)
            means[metric] = {
                method: {str(name): float(value) for name, value in values[method].dropna().items()}
                for method in METHODS
            }
        return means


Found = Mapping[SetAndBase, Mapping[str, Sequence[FineTunedRun]]]  # -> projection -> seeds


def measure(bench: StudyBench, request: StudyRequest) -> Measured[Found]:
    if any(base.causal for base in request.bases):
        raise BadOption("Sparse attention is trained into encoders: name no causal language model.")
    for projection in PROJECTIONS:
        Projection.parse(projection)  # a missing package is reported before hours of work
    results: dict[SetAndBase, dict[str, list[FineTunedRun]]] = {}
    for base, name in each_set(bench, request):
        by_projection = results.setdefault((name, base.name), {projection: [] for projection in PROJECTIONS})
        for seed in range(request.seeds):
            for projection in PROJECTIONS:
                by_projection[projection].append(_measured(bench, name, base, seed, projection))
    return _described(bench, results, request.seeds)


def _measured(bench: StudyBench, name: str, base: StudyBase, seed: int, projection: str) -> FineTunedRun:
    model = bench.model(name, base, seed, projection)
    runs = bench.run(name, model, METHODS, list(METRICS), seed=seed)
    wanted = SETS[SETS[name].trained_on]
    count = MEASURED_ON_QUICK if bench.size.quick else MEASURED_ON
    held_out = drawn(bench.splits(name).test, count)
    texts = bench.texts(name, model, bench.size.texts)

    def is_right() -> dict[str, bool]:
        assert wanted.task in ("one_label", "several_labels")
        answers = right_by_row(model.source, held_out, wanted.task, wanted.labels, attention=projection)
        return {str(row["id"]): right for row, right in zip(held_out, answers, strict=True)}

    def shapes() -> dict[str, dict[str, float]]:
        return attention_shapes(model, texts)

    label = f"{name}-{base.name}"
    right = bench.kept(f"right-{label}", [model.source, projection, [row["id"] for row in held_out]], is_right)
    seen = bench.kept(f"attention-{label}", [model.source, projection, [row["id"] for row in texts]], shapes)
    return FineTunedRun(model, runs, right, seen)


def attention_shapes(model: StudyModel, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Of every text, how concentrated the model's attention is."""
    loaded, shapes = open_model(model), {}
    with attention_by(loaded.text_model.network.module, model.attention):
        for row in rows:
            text = row["text"] if row.get("pair") is None else (row["text"], row["pair"])
            ((_, case),) = loaded.cases([text])
            shapes[str(row["id"])] = attention_shape(case)
    return shapes


def attention_shape(case: Case) -> dict[str, float]:
    """Entropy (1 = uniform) and the share of weights that are exactly zero: over all layers, heads and queries; and in
    the last layer at the position that the decision is read from, there with the share on special tokens.
    """
    layers = [layer.probs.double() for layer in case.capture.attention]  # (head, query, key)
    last = case.read(layers[-1])  # (head, key)
    return {
        "entropy": float(np.mean([float(normalised_entropy(layer).mean()) for layer in layers])),
        "zeros": float(np.mean([float((layer == 0).double().mean()) for layer in layers])),
        "last entropy": float(normalised_entropy(last).mean()),
        "last zeros": float((last == 0).double().mean()),
        "last special": float(last[:, case.special].sum(-1).mean()),
    }


# Numbers


def mean_over_seeds(values: Sequence[Mapping[str, float]]) -> list[float]:
    """Of every text that some seed has a value for, the mean over the seeds that have one."""
    names = dict.fromkeys(name for seed in values for name in seed)
    return [float(np.mean([seed[name] for seed in values if name in seed])) for name in names]


def paired(first: Sequence[Mapping[str, float]], second: Sequence[Mapping[str, float]]) -> Numbers:
    """How far one lies above the other, seed by seed and text by text; NaN where a seed has no value for a text, or
    only one of the two. (seed, text)
    """
    names = list(dict.fromkeys(name for seed in (*first, *second) for name in seed))
    return np.array(
        [
            [a[name] - b[name] if name in a and name in b else np.nan for name in names]
            for a, b in zip(first, second, strict=True)
        ]
    ).reshape(len(first), len(names))


def over_texts_and_seeds(differences: Differences) -> Estimate | None:
    """The mean over data sets of the mean difference. Its interval adds up, as variances do, the bootstrap's over the
    texts and Student's over the seeds. None where a data set has no text; no interval from one seed or one text.
    """
    by_text, by_seed = [], []
    for table in differences.values():
        known = ~np.isnan(table)
        there = known.any(0)
        filled = np.where(known, table, 0.0)
        by_text.append((filled.sum(0)[there] / known.sum(0)[there])[:, None])  # (text, 1)
        seeds = known.any(1)
        by_seed.append((filled.sum(1)[seeds] / known.sum(1)[seeds]).tolist())
    texts = estimate(by_text, lambda means: sum(float(row[0]) for row in means) / len(means))
    seeds_found = pooled(by_seed)
    if texts is None or seeds_found is None:
        return None
    if texts.low is None or texts.high is None or seeds_found.low is None or seeds_found.high is None:
        return Estimate(texts.value, texts=texts.texts)
    half = (seeds_found.high - seeds_found.low) / 2
    return Estimate(
        texts.value,
        texts.value - hypot(texts.value - texts.low, half),
        texts.value + hypot(texts.high - texts.value, half),
        texts.texts,
    )


def _values(runs: Sequence[FineTunedRun], what: str, method: str = "") -> list[Mapping[str, float]]:
    """A number of every text, seed by seed: of a method by a metric; `right`; or of the shape of attention."""
    if method:
        return [run.values(what, method) for run in runs]
    if what == "right":
        return [{name: float(right) for name, right in run.right.items()} for run in runs]
    return [{name: shape[what] for name, shape in run.shapes.items()} for run in runs]


def differences(results: Found, projection: str, what: str, method: str = "") -> dict[str, Numbers]:
    """A projection's numbers less those of softmax. Data set and base -> (seed, text)"""
    return {
        " ".join(key): paired(
            _values(by_projection[projection], what, method), _values(by_projection[SOFTMAX], what, method)
        )
        for key, by_projection in results.items()
    }


def judged(measured: Found) -> list[JudgedClaim]:
    """The verdict of every claim; a data set with a base counts once."""
    results = []
    for projection in SPARSE:

        def test(what: str, method: str = "", sign: float = 1.0, projection: str = projection) -> Estimate | None:
            tables = differences(measured, projection, what, method)
            return over_texts_and_seeds({key: sign * table for key, table in tables.items()})

        estimates = {
            f"S7 {projection}": test("right", sign=-1.0),
            f"S8 {projection}": test("entropy", sign=-1.0),
            **{f"S9 {projection} {method}": test("auprc", method) for method in ATTENTION},
            f"S10 {projection} comprehensiveness": test("comprehensiveness", "raw_attention"),
            f"S10 {projection} sufficiency": test("sufficiency", "raw_attention", sign=-1.0),
            f"S11 {projection}": test("auprc", "occlusion"),
        }
        results += [claim.judged(estimates[name], NOT_MEASURED) for name, claim in CLAIMS[projection].items()]
    return results


# The page


def tables(results: Found) -> list[StudyTable]:
    shown = [_models(results)]
    notes = {
        "auprc": "Agreement with what people marked: the area under the precision-recall curve. Higher is better.",
        "comprehensiveness": "Higher is better. Tokens of equal score, such as those without attention, are hidden in"
        " the order of the text.",
        "sufficiency": "Lower is better.",
        "entropy": "How widely the scores of an explanation are spread over the text: 1 is uniform.",
    }
    for metric in METRICS:
        columns = [f"{name} {base}, {projection}" for name, base in results for projection in PROJECTIONS]
        rows = [
            (
                f"`{method}`",
                [
                    cell(mean_of(mean_over_seeds(_values(by_projection[projection], metric, method))))
                    for by_projection in results.values()
                    for projection in PROJECTIONS
                ],
            )
            for method in METHODS
        ]
        shown.append(StudyTable(metric, f"{notes[metric]} Intervals are over texts.", columns, rows))
    return [*shown, _differences_table(results)]


def _models(results: Found) -> StudyTable:
    rows = []
    for (name, base), by_projection in results.items():
        for projection in PROJECTIONS:
            runs = by_projection[projection]
            f1 = [run.model.scores["macro_f1"] for run in runs if "macro_f1" in run.model.scores]
            cells = [
                cell(mean_of(mean_over_seeds(_values(runs, "right")))),
                StudyCell(f"{np.mean(f1):.2f}" if f1 else "–"),
                *(cell(mean_of(mean_over_seeds(_values(runs, shape)))) for shape in SHAPES),
                StudyCell(f"{np.mean([run.model.seconds for run in runs]):.0f}"),
            ]
            rows.append((f"{name} {base}, {projection}", cells))
    return StudyTable(
        "The models",
        "Mean over seeds; intervals are over texts. Several labels: accuracy is the share of texts of which all are"
        " right. Entropy is 1 where attention is uniform; zeros are weights that are exactly zero. Both over all"
        " layers, heads and queries, and in the last layer at the position that the decision is read from.",
        ["accuracy", "macro F1", *SHAPES.values(), "seconds of training"],
        rows,
    )


def _differences_table(results: Found) -> StudyTable:
    """Every difference to softmax, paired, over all data sets."""
    kinds: list[tuple[str, str, str]] = [("accuracy", "right", ""), ("entropy of attention", "entropy", "")]
    kinds += [(f"{metric} of `{method}`", metric, method) for metric in METRICS for method in METHODS]
    rows = []
    for title, what, method in kinds:
        cells = []
        for projection in SPARSE:
            by_set = differences(results, projection, what, method)
            cells += [cell(over_texts_and_seeds({key: table})) for key, table in by_set.items()]
            cells.append(cell(over_texts_and_seeds(by_set)))
        rows.append((title, cells))
    columns = [f"{sparse}, {key}" for sparse in SPARSE for key in (*(" ".join(key) for key in results), "all")]
    return StudyTable(
        "Differences to softmax",
        "Of the same texts and the same seed. Intervals add up what texts and what seeds differ by; there are none from"
        " one seed.",
        columns,
        rows,
    )


def _described(bench: StudyBench, results: Found, seeds: int) -> Measured[Found]:
    """All results, with the facts about their making."""
    every = [run for by_projection in results.values() for runs in by_projection.values() for run in runs]
    training = sum(run.model.seconds for run in every)
    seconds = sum(run.runs.seconds for run in every)
    facts = [
        *(
            f"{name}, {base}: trained on {by_projection[SOFTMAX][0].model.rows:,} rows with each projection"
            + (f"; {SETS[name].note}." if SETS[name].note else ".")
            for (name, base), by_projection in results.items()
        ),
        bench.texts_fact({key: by_projection[SOFTMAX][0].runs.texts for key, by_projection in results.items()}),
        f"{seeds} seed(s). {training / 60:.0f} minutes of training and {seconds / 60:.0f} of measuring on"
        f" {provenance(0)['machine']}, one thread; {sum(run.runs.errors for run in every)} errors.",
        "All projections have the same base, rows, recipe and seeds; the recipe was made for softmax, and nothing was"
        " tuned for the others. The projection is in every attention of every layer, in training with its dropout.",
        "What is explained is the class that each model predicts itself; special tokens are never ranked.",
    ]
    measured = {name for name, _ in results}
    missing = [f"{name}: not measured." for name in DATASETS if name not in measured]
    return Measured(results, facts, provenance(training + seconds), missing)


STUDY = Study(
    name="sparse-fine-tuned",
    title="Sparse attention trained into a pretrained model",
    about=(
        "Beyond Meister et al. (2021), whose classifiers are trained from nothing: a pretrained Transformer is"
        " fine-tuned with softmax, 1.5-entmax or sparsemax in every attention, and its attention is judged by what"
        " people marked and by what the model loses without it. The claims are ours, written down beforehand."
    ),
    measure=measure,
    tables=tables,
    judged=judged,
)
