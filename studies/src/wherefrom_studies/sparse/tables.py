"""The sparse-attention study's numbers as tables, each number beside the paper's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scipy.stats import kendalltau, t

from wherefrom_studies.pages import StudyCell, StudyTable
from wherefrom_studies.sparse import paper
from wherefrom_studies.sparse.projections import Projection

PROJECTIONS = ("softmax", "sparsemax")
IMPORTANCES = {
    "g(x)": "gradient, inputs",
    "D(x)": "leave-one-out, inputs",
    "g(I)": "gradient, intermediates",
    "D(I)": "leave-one-out, intermediates",
}


class MeanOverSeeds(NamedTuple):
    """A mean over seeds. `interval` is the half width of its 95% interval, `spread` the standard deviation over
    texts.
    """

    value: float
    interval: float | None = None
    spread: float | None = None

    def __str__(self) -> str:
        shown = _figure(self.value)
        if self.spread is not None:
            shown += f" ± {self.spread:.2f}"
        return (
            shown
            if self.interval is None
            else f"{shown} [{_figure(self.value - self.interval)}, {_figure(self.value + self.interval)}]"
        )


def _figure(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")


def over_seeds(values: Sequence[float], spreads: Sequence[float] = ()) -> MeanOverSeeds:
    """Student's interval of the mean over seeds; none from a single one."""
    interval = None
    if len(values) > 1:
        interval = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return MeanOverSeeds(fmean(values), interval, fmean(spreads) if spreads else None)


def select(results: Mapping[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in results["runs"] if all(row[key] == value for key, value in wanted.items())]


def present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def of_texts(rows: Sequence[dict[str, Any]], kind: str, name: str) -> MeanOverSeeds | None:
    """The mean over seeds of the mean over texts, with the spread over texts."""
    lists = [values for row in rows if len(values := present(row[kind].get(name, ()))) > 1]
    return over_seeds([fmean(numbers) for numbers in lists], [stdev(numbers) for numbers in lists]) if lists else None


def lambda_of(projection: str) -> float | None:
    """The place of a projection on the scale of sparsegen; softmax has none."""
    parsed = Projection.parse(projection)
    if parsed.name == "sparsemax":
        return 0.0
    return parsed.parameter if parsed.name == "sparsegen" else None


def sweep(results: Mapping[str, Any], dataset: str, encoder: str) -> list[dict[str, Any]]:
    """All classifiers with sparsegen, from dense to sparse."""
    rows = [
        row
        for row in select(results, dataset=dataset, encoder=encoder, adversary=None)
        if lambda_of(row["projection"]) is not None
    ]
    return sorted(rows, key=lambda row: (lambda_of(row["projection"]), row["seed"]))


def _pair(numbers: tuple[float, float] | None) -> str:
    return "" if numbers is None else f"{numbers[0]:.2f} ± {numbers[1]:.2f}"


def tables(results: Mapping[str, Any]) -> list[StudyTable]:
    shown = [
        _spreads(results),
        _in_short(results),
        _accuracy(results),
        _for_intermediates(results),
        _agreement(results),
        _significance(results),
        _lambda(results),
        _adversary(results),
    ]
    return [table for table in shown if table.rows]


def _spreads(results: Mapping[str, Any]) -> StudyTable:
    """Which spread of the initial vectors was chosen, and by what."""
    tried = results.get("spreads", [])
    spreads = list(dict.fromkeys(trial["spread"] for trial in tried))
    rows = []
    for dataset, encoder in encoder_grid(results):
        by_spread = {
            trial["spread"]: trial for trial in tried if (trial["dataset"], trial["encoder"]) == (dataset, encoder)
        }
        if by_spread:
            cells = []
            for spread in spreads:
                shown = " / ".join(f"{score:.3f}" for score in by_spread[spread]["dev"])
                cells.append(StudyCell(f"**{shown}**" if by_spread[spread]["chosen"] else shown))
            rows.append((_name(dataset, encoder), cells))
    return StudyTable(
        "The spread of the initial word vectors",
        "Accuracy on dev texts of softmax / sparsemax, first seed; the chosen one in bold, for every projection alike.",
        [f"{spread:g}" for spread in spreads],
        rows,
    )


CLAIMS = {
    "agreement with inputs: g(x)": ("tau", "g(x)"),
    "D(x)": ("tau", "D(x)"),
    "with intermediates: g(I)": ("tau", "g(I)"),
    "entropy of g(x)": ("entropy", "g(x)"),
    "entropy of g_h(x)": ("entropy", "g_h(x)"),
}


def _in_short(results: Mapping[str, Any]) -> StudyTable:
    rows = []
    for dataset in results["datasets"]:
        for encoder in paper.ENCODERS:
            soft, sparse = (
                select(results, dataset=dataset, encoder=encoder, projection=projection, adversary=None)
                for projection in PROJECTIONS
            )
            zeros = fmean(row["zeros"] for row in sparse)
            rows.append(
                (
                    _name(dataset, encoder),
                    [StudyCell(f"{zeros:.0%}"), *(StudyCell(_change(soft, sparse, *key)) for key in CLAIMS.values())],
                )
            )
    return StudyTable(
        "In short: from softmax to sparsemax",
        "How many words are left without attention, and what follows: were sparse"
        " attention the better explanation, it would agree more"
        " with what matters to the model (tau-b), and fewer inputs would matter (entropy).",
        ["words without attention", *CLAIMS],
        rows,
    )


def _change(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], kind: str, name: str) -> str:
    first, second = of_texts(before, kind, name), of_texts(after, kind, name)
    return f"{first.value:.2f} → {second.value:.2f}" if first and second else "not measured"


def encoder_grid(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every data set with every encoder."""
    return [(dataset, encoder) for dataset in results["datasets"] for encoder in paper.ENCODERS]


def _grid(results: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(*both, projection) for both in encoder_grid(results) for projection in PROJECTIONS]


def _name(dataset: str, encoder: str, projection: str = "") -> str:
    return f"{paper.DATASETS[dataset]} · {paper.ENCODERS[encoder]}{' ' + projection if projection else ''}"


def _accuracy(results: Mapping[str, Any]) -> StudyTable:
    rows = []
    for dataset, encoder, projection in _grid(results):
        chosen = select(results, dataset=dataset, encoder=encoder, projection=projection, adversary=None)
        in_paper = paper.ACCURACY[encoder, dataset]
        cell = StudyCell(
            f"{over_seeds([row['accuracy'] for row in chosen])}", f"{in_paper:.2f}" if projection == "softmax" else ""
        )
        zeros, attention = over_seeds([row["zeros"] for row in chosen]), of_texts(chosen, "entropy", "attention")
        rows.append((_name(dataset, encoder, projection), [cell, StudyCell(f"{zeros}"), StudyCell(f"{attention}")]))
    return StudyTable(
        "Table 3: accuracy on test",
        "The paper gives one accuracy for each encoder; it is set beside softmax. Beside"
        " it, which the paper does not give: the share of"
        " words whose attention is exactly zero, and the attention's own entropy (1 = uniform).",
        ["accuracy", "zeros", "entropy of attention"],
        rows,
    )


def _for_intermediates(results: Mapping[str, Any]) -> StudyTable:
    rows = []
    for dataset, encoder, projection in _grid(results):
        chosen = select(results, dataset=dataset, encoder=encoder, projection=projection, adversary=None)
        by_norm, by_jacobian = (of_texts(chosen, "entropy", name) for name in ("g_h(x)", "J_h(x)"))
        if by_norm and by_jacobian:
            in_paper = paper.ENTROPY_FOR_INTERMEDIATES[encoder, projection, dataset]
            rows.append(
                (
                    _name(dataset, encoder, projection),
                    [StudyCell(f"{by_norm}", _pair(in_paper)), StudyCell(f"{by_jacobian}")],
                )
            )
    return StudyTable(
        "Table 1: entropy of the inputs' importance for an intermediate representation",
        "1: all inputs matter alike for a representation; 0: one input alone does. Left"
        " by the gradient of the representation's norm (the"
        " paper's Eq. 5), right by the norm of its Jacobian, as a layer norm keeps the norm itself nearly constant.",
        ["by the norm", "by the Jacobian"],
        rows,
    )


def _agreement(results: Mapping[str, Any]) -> StudyTable:
    rows = []
    for dataset, encoder, projection in _grid(results):
        chosen = select(results, dataset=dataset, encoder=encoder, projection=projection, adversary=None)
        cells = [
            StudyCell(f"{of_texts(chosen, 'tau', name)}", _pair(paper.AGREEMENT[name][encoder, projection, dataset]))
            for name in IMPORTANCES
        ]
        rows.append((_name(dataset, encoder, projection), cells))
    return StudyTable(
        "Table 6: agreement of attention with importance",
        "Kendall's tau-b of each text, its mean, and ± its standard deviation over texts.",
        [f"{name} {words}" for name, words in IMPORTANCES.items()],
        rows,
    )


def _significance(results: Mapping[str, Any]) -> StudyTable:
    rows = []
    for dataset, encoder, projection in _grid(results):
        chosen = select(results, dataset=dataset, encoder=encoder, projection=projection, adversary=None)
        cells = []
        for name in IMPORTANCES:
            shares = [fmean(p <= 0.05 for p in values) for row in chosen if (values := present(row["p"][name]))]
            missing = sum(value is None for row in chosen for value in row["p"][name])
            cells.append(
                StudyCell(
                    (f"{over_seeds(shares)}" if shares else "none") + (f" ({missing} undefined)" if missing else "")
                )
            )
        rows.append((_name(dataset, encoder, projection), cells))
    return StudyTable(
        "Share of texts whose agreement is significant",
        "p ≤ 0.05 for tau-b. Undefined where attention or importance is the same for"
        " all words; such texts are left out of the means.",
        list(IMPORTANCES),
        rows,
    )


def lambda_and_entropy(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Tau-b of lambda with the mean entropy of each classifier; and the mean over texts of tau-b within each text."""
    scale = [lambda_of(row["projection"]) for row in rows]
    entropies = [row["entropy"]["g(x)"] for row in rows]
    across = kendalltau(scale, [fmean(present(column)) for column in entropies]).statistic
    within = [kendalltau(scale, column).statistic for column in zip(*entropies, strict=True) if None not in column]
    return float(across), fmean(column for column in map(float, within) if column == column)


def _lambda(results: Mapping[str, Any]) -> StudyTable:
    rows = []
    for dataset in results["datasets"]:
        for encoder in paper.ENCODERS:
            chosen = sweep(results, dataset, encoder)
            if len({row["projection"] for row in chosen}) < 3:
                continue
            across, within = lambda_and_entropy(chosen)
            in_paper = paper.LAMBDA_AND_ENTROPY[encoder, dataset]
            rows.append(
                (
                    _name(dataset, encoder),
                    [StudyCell(f"{across:+.2f}", f"{in_paper:+.3f}"), StudyCell(f"{within:+.2f}")],
                )
            )
    listed = ", ".join(f"{lam:g}" for lam in results["lambdas"])
    return StudyTable(
        "Table 2: does sparser attention spread importance?",
        f"Kendall's tau-b of λ ({listed}) with the entropy of g(x): over the classifiers'"
        " means, and within each text, averaged. The paper"
        " does not say which of the two it is. Negative: the sparser the"
        " attention, the more concentrated the importance.",
        ["over classifiers", "within texts"],
        rows,
    )


def _adversary(results: Mapping[str, Any]) -> StudyTable:
    rows = []
    for dataset in results["datasets"]:
        for encoder in paper.ENCODERS:
            for mode in ("frozen", "unfrozen"):
                chosen = select(results, dataset=dataset, encoder=encoder, adversary=mode)
                if not chosen:
                    continue
                apart, accuracy, base, far = (
                    over_seeds([row[key] for row in chosen])
                    for key in ("divergence", "accuracy", "base_accuracy", "distance")
                )
                in_paper = paper.ADVERSARY[encoder, mode, dataset]
                cells = [
                    StudyCell(f"{apart}", f"{in_paper[0]:.2f}"),
                    StudyCell(f"{accuracy}", f"{in_paper[1]:.2f}"),
                    StudyCell(f"{base}"),
                    StudyCell(f"{far}"),
                ]
                rows.append((f"{_name(dataset, encoder)} {mode}", cells))
    return StudyTable(
        "Table 5: adversarial attention",
        "Divergence (Jensen-Shannon, in nats; at most ln 2 = 0.69) of the adversary's attention from that of a softmax"
        " classifier, its"
        " accuracy, the accuracy of the classifier it imitates, and how far its answers are from that one's"
        " (total variation).",
        ["divergence", "accuracy", "base's accuracy", "distance of answers"],
        rows,
    )


def inference_table(results: Mapping[str, Any]) -> StudyTable:
    """What a trained model's attention says when it is projected otherwise."""
    rows = []
    for projection in results["projections"]:
        measures = projection["measures"]
        cells = [StudyCell(f"{projection['accuracy']:.3f}"), StudyCell(f"{projection['same']:.3f}")]
        cells += [StudyCell(_mean_and_spread(measures[key])) for key in measures]
        rows.append((projection["projection"], cells))
    return StudyTable(
        f"{results['model']}: attention projected at inference",
        f"{results['texts']} texts; the model was trained with softmax and is not trained again. Entropy (1 = uniform),"
        " zeros and the share on special tokens are those of the last layer's attention at the position that the"
        " decision is read from. The last columns"
        " are the mean tau-b of an attention-based explanation with gradient (g) and leave-one-out (D) importance,"
        " measured on the model as"
        " it then is.",
        ["accuracy", "same answer", *results["projections"][0]["measures"]],
        rows,
    )


def _mean_and_spread(values: Sequence[float | None]) -> str:
    known = present(values)
    return f"{fmean(known):.2f} ± {stdev(known):.2f}" if len(known) > 1 else "none"
