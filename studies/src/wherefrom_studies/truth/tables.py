"""The tables, claims and pictures of the study of planted reasons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wherefrom.catalogue import catalogue
from wherefrom.report.plots import new_figure, save_figure
from wherefrom.typing import Numbers
from wherefrom_studies.claims import Claim, Estimate, JudgedClaim
from wherefrom_studies.pages import StudyCell, StudyPicture, StudyTable, cell
from wherefrom_studies.plots import method_dots
from wherefrom_studies.truth.agreement import agreements, over_models
from wherefrom_studies.truth.measuring import METHODS, METRICS, RANDOM
from wherefrom_studies.truth.results import COLUMNS, NAMES, TRUTH, VERDICTS, TruthResults, column

ORDER = "auprc"  # methods are ordered by this grade of the truth
GRADES = {
    "auprc": "area under the precision-recall curve of the planted tokens",
    "precision": "share of planted tokens among as many strongest as there are planted ones",
    "found_all": "share of texts where all planted tokens are the strongest",
    "found_one": "share of texts where at least one planted token is among as many strongest",
    "rank": "mean rank of the planted tokens, 0 first and 1 last",
    "decoy": "the decoy's share of all absolute scores",
}
METRICS_JUDGED = tuple(metric for metric in METRICS if metric != ORDER)
BETTER = {
    **{
        metric: 1.0 if catalogue("metric")[metric.partition(":")[0]].get("better") == "higher" else -1.0
        for metric in METRICS
    },
    **dict.fromkeys(TRUTH, 1.0), "rank": -1.0, "decoy": -1.0,
}  # fmt: skip
EVERY = "all kinds"


def tables(results: TruthResults) -> list[StudyTable]:
    if not results.used:
        return [_proofs(results)]
    return [
        *(_grades(results, grade, meaning) for grade, meaning in GRADES.items()),
        _agreement(results),
        *_references(results),
        *_verdicts(results),
        _proofs(results),
    ]


def _groups(results: TruthResults) -> list[str | None]:
    kinds = results.kinds()
    return [*kinds, None] if len(kinds) > 1 else [*kinds]


def _heads(results: TruthResults) -> list[str]:
    return [kind or EVERY for kind in _groups(results)]


def estimate_of(results: TruthResults, kind: str | None, method: str, name: str) -> Estimate | None:
    """The mean of a column for a method, over the models of a kind."""
    place = NAMES.index(method)
    found = {model: column(values, name)[:, place] for model, values in results.of_kind(kind).items()}
    return over_models(found, share=name in GRADES)


def by_truth(results: TruthResults) -> list[str]:
    """The methods, the best first."""
    known = {method: estimate_of(results, None, method, ORDER) for method in METHODS}
    return sorted((m for m in known if known[m] is not None), key=lambda m: -(known[m] or Estimate(0.0)).value)


def _grades(results: TruthResults, grade: str, meaning: str) -> StudyTable:
    rows = [
        (f"`{method}`", [cell(estimate_of(results, kind, method, grade)) for kind in _groups(results)])
        for method in by_truth(results)
    ]
    better = "Higher is better." if BETTER[grade] > 0 else "Lower is better."
    return StudyTable(f"Methods by the truth: {grade}", f"{meaning.capitalize()}. {better}", _heads(results), rows)


# Metrics


def metric_agreements(results: TruthResults, kind: str | None) -> dict[str, Estimate | None]:
    """Kendall's correlation of each metric's order of methods with the true order."""
    methods = [NAMES.index(method) for method in METHODS]
    columns = [COLUMNS.index(name) for name in (ORDER, *METRICS_JUDGED, "verdict")]
    models = {name: values[:, methods][:, :, columns] for name, values in results.of_kind(kind).items()}
    signs = [BETTER.get(name, 1.0) for name in (*METRICS_JUDGED, "verdict")]
    return dict(zip((*METRICS_JUDGED, "check"), agreements(models, signs), strict=True))


def _agreement(results: TruthResults) -> StudyTable:
    by_kind = [metric_agreements(results, kind) for kind in _groups(results)]
    rows = [(f"`{metric}`", [cell(found[metric]) for found in by_kind]) for metric in (*METRICS_JUDGED, "check")]
    note = (
        f"Kendall's correlation of the order in which a metric puts {len(METHODS)} methods with their true order"
        f" ({ORDER}), mean over models; intervals by resampling models and texts. `check`: methods ordered by their"
        " mean verdict."
    )
    return StudyTable("Which metric finds the best method", note, _heads(results), rows)


def place_of(results: TruthResults, reference: str, metric: str, kind: str | None) -> dict[str, float]:
    """By model, the share of the methods that a reference is better than, ties half; by the means over its texts."""
    found = {}
    for model, values in results.of_kind(kind).items():
        means = BETTER[metric] * _column_means(column(values, metric))
        own, others = means[NAMES.index(reference)], means[[NAMES.index(m) for m in (*METHODS, *RANDOM)]]
        others = others[np.isfinite(others)]
        if np.isfinite(own) and len(others):
            found[model] = float(((own > others) + 0.5 * (own == others)).mean())
    return found


def _column_means(values: Numbers) -> Numbers:
    known = np.isfinite(values)
    return np.where(known.any(0), np.where(known, values, 0).sum(0) / np.maximum(known.sum(0), 1), np.nan)


def _references(results: TruthResults) -> list[StudyTable]:
    shown = []
    for reference, ideal in (("oracle", "1: it comes first"), ("anti-oracle", "0: it comes last")):
        rows = []
        for metric in METRICS_JUDGED:
            cells = []
            for kind in _groups(results):
                places = place_of(results, reference, metric, kind)
                shares = {name: np.array([place]) for name, place in places.items()}
                cells.append(cell(over_models(shares, share=True)))
            rows.append((f"`{metric}`", cells))
        marks = "exactly the planted tokens" if reference == "oracle" else "everything but the planted tokens"
        note = f"Share of the methods that an explanation of {marks} is better than, by each metric. Ideal: {ideal}."
        shown.append(StudyTable(f"The place of the {reference}", note, _heads(results), rows))
    return shown


# The check


def verdict_rows(results: TruthResults, kind: str | None, methods: Sequence[str]) -> Numbers:
    """(verdict, whether a planted token is the strongest group's own, whether all are found) of every explanation."""
    rows = []
    for values in results.of_kind(kind).values():
        for method in methods:
            place = NAMES.index(method)
            names = ("verdict", "found_one", "found_all")
            rows.append(np.stack([column(values, name)[:, place] for name in names], 1))
    found = np.concatenate(rows)
    return found[np.isfinite(found[:, 0])]


def _verdicts(results: TruthResults) -> list[StudyTable]:
    groups = _groups(results)
    rows = []
    for number, verdict in enumerate(VERDICTS):
        cells = []
        for kind in groups:
            found = verdict_rows(results, kind, METHODS)
            own = found[found[:, 0] == number]
            text = "–" if not len(own) else f"{len(own)}: one {own[:, 1].mean():.2f}, all {own[:, 2].mean():.2f}"
            cells.append(StudyCell(text))
        rows.append((verdict, cells))
    calibration = StudyTable(
        "What a verdict of the check is worth",
        "Over all methods: how many explanations have this verdict, in what share of them at least one planted token is"
        " among as many strongest, and in what share all are.",
        _heads(results),
        rows,
    )
    shares = []
    for title, methods in {
        "random scores": ("random", *RANDOM), "planted and others swapped": ("swapped",),
        "all but the plant (anti-oracle)": ("anti-oracle",), "the plant (oracle)": ("oracle",),
        "`attn_lrp`": ("attn_lrp",),
    }.items():  # fmt: skip
        shares.append((title, [cell(_supported(results, kind, methods)) for kind in groups]))
    support = StudyTable(
        "How often the check supports an explanation",
        "Share of texts with the verdict *supported*. Of random scores at most .05 should be, by luck.",
        _heads(results),
        shares,
    )
    return [calibration, support]


def _supported(results: TruthResults, kind: str | None, methods: Sequence[str]) -> Estimate | None:
    best, short = VERDICTS.index("supported"), VERDICTS.index("too short")
    by_model = {}
    for model, values in results.of_kind(kind).items():
        verdicts = column(values, "verdict")[:, [NAMES.index(method) for method in methods]].ravel()
        judged = verdicts[np.isfinite(verdicts) & (verdicts != short)]
        by_model[model] = (judged == best).astype(np.float64)
    return over_models(by_model, share=True)


# Models


def _proofs(results: TruthResults) -> StudyTable:
    rows = []
    for row in results.models:
        proof = row["proof"]
        flips = ", ".join(f"{change} {share:.3f}" for change, share in proof["flips"].items())
        texts = len(results.values[row["model"]]) if row["holds"] and row["model"] in results.values else 0
        cells = [
            "yes" if row["holds"] else "no: not used", f"{proof['accuracy']:.3f}", flips, f"{proof['decoy']:.3f}",
            f"{proof['own']:.3f}", str(proof["texts"]), str(texts), str(row["rows"]),
            f"{row['rate']:g}", f"{row['seconds']:.0f}",
        ]  # fmt: skip
        rows.append((row["model"], [StudyCell(text) for text in cells]))
    columns = ["uses its plant", "accuracy", "flips", "without the decoy", "without the plant", "texts", "explained",
               "rows trained on", "rate", "CPU seconds"]  # fmt: skip
    note = (
        "On texts whose rest says otherwise: how often the planted label is predicted (.99 is needed), how often the"
        " decision follows the rule when the reason is changed (.95 is needed), stays when the decoy is removed, and"
        " returns to that of the model before when the plant is removed."
    )
    return StudyTable("Proof that each model uses its plant", note, columns, rows)


# Claims

RIVALS = (
    "attcat",
    "saliency",
    "input_x_gradient",
    "integrated_gradients",
    "cp_lrp",
    "gae",
    "occlusion",
    "raw_attention",
)


def judged(results: TruthResults) -> list[JudgedClaim]:
    """Whether the default finds plants better than others, and whether metrics order methods as the truth does."""
    claims = []
    for number, rival in enumerate((*RIVALS, "random"), 1):
        claim = Claim(
            f"P{number}",
            f"`attn_lrp` finds planted tokens better than `{rival}`",
            f"`attn_lrp` less `{rival}` by {ORDER}, paired, over models",
        )
        first, second = NAMES.index("attn_lrp"), NAMES.index(rival)
        differences = {
            name: column(values, ORDER)[:, first] - column(values, ORDER)[:, second]
            for name, values in results.of_kind(None).items()
        }
        claims.append(claim.judged(over_models(differences), "not measured"))
    for number, metric in enumerate(METRICS_JUDGED, 1):
        claim = Claim(
            f"M{number}",
            f"`{metric}` ranks the oracle above the anti-oracle",
            f"the oracle's share of methods that it is better than less the anti-oracle's, by {metric}, over models",
        )
        above, below = (place_of(results, name, metric, None) for name in ("oracle", "anti-oracle"))
        shared = {name: np.array([above[name] - below[name]]) for name in above if name in below}
        claims.append(claim.judged(over_models(shared), "not measured"))
    return claims


# Pictures


def pictures(results: TruthResults, folder: Path) -> list[StudyPicture]:
    if not results.used:
        return []
    return [_methods_picture(results, folder), _metrics_picture(results, folder)]


def _methods_picture(results: TruthResults, folder: Path) -> StudyPicture:
    hard = [kind for kind in results.kinds() if kind in ("pair", "order")] or results.kinds()
    dots = {}
    for method in by_truth(results):
        found = [one for kind in hard if (one := estimate_of(results, kind, method, ORDER)) is not None]
        cost = estimate_of(results, None, method, "passes")
        if found and cost is not None:
            dots[method] = (max(cost.value, 0.5), float(np.mean([one.value for one in found])))
    method_dots(
        dots, folder / "truth-methods.png", across="passes of one explanation, a backward pass as two (logarithmic)",
        up=f"{GRADES[ORDER]}\n({' and '.join(hard)})",
    )  # fmt: skip
    return StudyPicture("truth-methods.png", "How well methods find the plant, against cost")


def _metrics_picture(results: TruthResults, folder: Path) -> StudyPicture:
    names = (*METRICS_JUDGED, "check")
    figure = new_figure(6.8, 0.5 + 0.36 * len(names))
    axes = figure.add_subplot()
    kinds = results.kinds()
    for number, kind in enumerate(kinds):
        found = metric_agreements(results, kind)
        for place, name in enumerate(names):
            one = found[name]
            if one is None:
                continue
            low, high = one.value if one.low is None else one.low, one.value if one.high is None else one.high
            around = [[max(one.value - low, 0)], [max(high - one.value, 0)]]
            label = kind if name == names[0] else None
            axes.errorbar(
                one.value, place + 0.2 * (number - (len(kinds) - 1) / 2), xerr=around, fmt="os^D"[number % 4],
                color=f"C{number}", label=label, markersize=4, linewidth=1,
            )  # fmt: skip
    axes.axvline(0, color="0.7", linewidth=1, zorder=0)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(-1, 1)
    axes.set_xlabel("Kendall's correlation with the true order of methods")
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    save_figure(figure, folder / "truth-metrics.png")
    return StudyPicture("truth-metrics.png", "How well metrics order methods")
