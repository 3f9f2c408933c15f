"""The study of "Measuring the Mixing of Contextual Information in the Transformer" (Ferrando et al. 2022, ALTI).

Its Tables 2, 4, 5, 6 and 7 and Figures 3 and 5 to 12, measured again, and what becomes of its claims. The paper's
baselines have no signs; the same methods with signs stand beside them. Subject-verb agreement has a known right answer:
whether the strongest token is the subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wherefrom.benchmark.columns import explanation_of
from wherefrom.benchmark.plan import LABELLED, PREDICTED
from wherefrom.case.case import make_cases
from wherefrom.core.arrays import Numbers
from wherefrom.errors import WherefromError
from wherefrom.heads.trees import Tree, parse
from wherefrom.report import plots
from wherefrom.studies.bench import (
    SetAndBase,
    StudyBase,
    StudyBench,
    StudyModel,
    StudyRuns,
    model_facts,
    open_model,
    provenance,
)
from wherefrom.studies.claims import Claim, Estimate, JudgedClaim, Statistic, difference, estimate, lead, mean_of
from wherefrom.studies.data import MASK, Rows
from wherefrom.studies.decomposition import anisotropy, robustness
from wherefrom.studies.pages import StudyCell, StudyPage, StudyPicture, StudyTable, cell
from wherefrom.studies.subject_verb_agreement import subject_of

DATASETS = ("sst2", "imdb", "yelp", "agreement")
SHORT, LONG = ("sst2", "agreement"), ("imdb", "yelp")
SEEDED = "sst2"  # the set on which models of several seeds are compared
PATH = "integrated_gradients:steps=100"
# The paper's names, and ours.
PAPER = {
    "Grad l2": "saliency",
    "IG l2": f"{PATH}:reduce=l2",
    "IG mean": f"{PATH}:reduce=mean",
    "GxI l2": "input_x_gradient:reduce=l2",
    "GxI mean": "input_x_gradient:reduce=mean",
    "Rollout": "attention_rollout",
    "Globenc": "globenc",
    "ALTI": "alti",
}
ABLATIONS = {"ALTI l2": "alti:norm=l2", "ALTI LN2": "alti:ln2=true", "Norms": "norms"}
SIGNED = {
    "IG signed": PATH,
    "GxI signed": "input_x_gradient",
    "AttCAT": "attcat",
    "AttnLRP": "attn_lrp",
    "Occlusion": "occlusion",
}
NAMES = PAPER | ABLATIONS | SIGNED | {"random": "random"}
GRADIENTS = ("Grad l2", "IG l2", "IG mean", "GxI l2", "GxI mean")
METHODS = tuple(NAMES.values())
COMP, SUFF, AOPC = "comprehensiveness", "sufficiency", "aopc"
PUBLISHED = {"comp": f"{COMP}:variant=published", "suff": f"{SUFF}:variant=published"}
METRICS = (COMP, SUFF, *PUBLISHED.values(), AOPC)
COLUMN = {name: place for place, name in enumerate(NAMES)}
ANISOTROPY_TEXTS = 25  # of each data set: the numbers hardly differ between texts
MOST_ATTRACTORS = 3  # more than so many count as this
# Figure 5's sentence, and that of Table 8.
SENTENCE = "a clever blend of fact and fiction ."
REVIEW = (
    "friendly staff and nice selection of vegetarian options . food is just okay , not great . makes me wonder why"
    " everyone likes food fight so much ."
)
FLOWS = ("alti", "globenc", "attention_rollout")

# Tables 2, 6 and 7: comprehensiveness and sufficiency, by the paper's model and data set.
_BERT, _ROBERTA, _DISTIL = "BERT", "RoBERTa", "DistilBERT"
PRINTED_COLUMNS = (
    (_BERT, "sst2"), (_BERT, "yelp"), (_BERT, "imdb"), (_BERT, "agreement"), (_ROBERTA, "sst2"), (_DISTIL, "sst2"),
    (_DISTIL, "imdb"), (_DISTIL, "yelp"), (_DISTIL, "agreement"), (_ROBERTA, "imdb"), (_ROBERTA, "yelp"),
    (_ROBERTA, "agreement"),
)  # fmt: skip
PRINTED_COMP = {
    "Grad l2": (0.204, 0.083, 0.192, 0.284, 0.190, 0.230, 0.266, 0.111, 0.338, 0.216, 0.075, 0.273),
    "IG l2": (0.223, 0.111, 0.214, 0.315, 0.223, 0.295, 0.275, 0.128, 0.372, 0.200, 0.087, 0.363),
    "IG mean": (0.211, 0.106, 0.179, 0.317, 0.231, 0.279, 0.244, 0.108, 0.365, 0.215, 0.102, 0.351),
    "GxI l2": (0.199, 0.081, 0.197, 0.279, 0.187, 0.235, 0.281, 0.115, 0.333, 0.183, 0.066, 0.280),
    "GxI mean": (0.207, 0.087, 0.213, 0.285, 0.191, 0.237, 0.282, 0.117, 0.335, 0.225, 0.083, 0.270),
    "Rollout": (0.074, 0.076, 0.090, 0.108, 0.076, 0.152, 0.183, 0.092, 0.241, 0.077, 0.031, 0.223),
    "Globenc": (0.174, 0.118, 0.207, 0.251, 0.161, 0.240, 0.252, 0.124, 0.341, 0.154, 0.065, 0.305),
    "ALTI": (0.317, 0.255, 0.308, 0.372, 0.269, 0.332, 0.304, 0.237, 0.382, 0.266, 0.138, 0.390),
    # Tables 4 and 5.
    "ALTI l2": (0.300, 0.212, 0.286, 0.374, 0.230, 0.292, 0.254, 0.200, 0.357, 0.203, 0.108, 0.379),
    "Norms": (0.134, 0.082, 0.148, 0.273, 0.168, 0.157, 0.175, 0.093, 0.315, 0.133, 0.064, 0.275),
}
PRINTED_SUFF = {
    "Grad l2": (0.076, 0.101, 0.052, 0.145, 0.075, 0.066, 0.054, 0.073, 0.107, 0.083, 0.122, 0.165),
    "IG l2": (0.084, 0.024, 0.060, 0.171, 0.074, 0.048, 0.055, 0.054, 0.108, 0.084, 0.110, 0.163),
    "IG mean": (0.112, 0.022, 0.063, 0.174, 0.067, 0.064, 0.059, 0.056, 0.118, 0.083, 0.094, 0.161),
    "GxI l2": (0.080, 0.104, 0.056, 0.149, 0.081, 0.065, 0.053, 0.075, 0.111, 0.109, 0.149, 0.169),
    "GxI mean": (0.073, 0.098, 0.054, 0.145, 0.078, 0.065, 0.053, 0.074, 0.110, 0.080, 0.120, 0.167),
    "Rollout": (0.270, 0.102, 0.185, 0.292, 0.179, 0.147, 0.089, 0.114, 0.179, 0.197, 0.208, 0.183),
    "Globenc": (0.125, 0.053, 0.117, 0.178, 0.119, 0.072, 0.066, 0.066, 0.108, 0.086, 0.120, 0.170),
    "ALTI": (0.044, 0.022, 0.031, 0.088, 0.057, 0.034, 0.039, 0.017, 0.084, 0.050, 0.070, 0.109),
    "ALTI l2": (0.045, 0.020, 0.031, 0.088, 0.075, 0.051, 0.053, 0.031, 0.096, 0.086, 0.104, 0.114),
    "Norms": (0.180, 0.057, 0.115, 0.152, 0.135, 0.152, 0.104, 0.114, 0.117, 0.162, 0.180, 0.178),
}
CONTRADICTIONS = [
    "ALTI of BERT on Yelp is .255 (comprehensiveness) and .022 (sufficiency) in Table 2, .221 and .020 in Table 5.",
    "'58% more comprehensiveness and 38% less sufficiency than IG l2 on average' holds for the four columns of BERT;"
    " over all twelve columns it is 39% and 36%.",
    "The formulas have the plain curve; the public code takes the lowest probability so far (for sufficiency the"
    " highest), so that comprehensiveness cannot be below zero.",
    "The public code gives the gradient methods embeddings to which positions and a norm were already applied, and the"
    " model applies both again.",
]

# Claims and margins were written down before any number was looked at; "above" is what the paper says.
_BY_SUFF = "the same by sufficiency, with the sign turned"
CLAIMS = {
    claim.name: claim
    for claim in (
        Claim("A1 comp", "ALTI is first by comprehensiveness", "ALTI less the best of the paper's other seven methods"),
        Claim("A1 suff", "ALTI is first by sufficiency", _BY_SUFF),
        Claim(
            "A1 published",
            "ALTI is first by comprehensiveness",
            "the same as A1 comp, by what the public code computes (the lowest probability so far)",
        ),
        Claim(
            "A2",
            "ALTI's lead grows with the length of the texts",
            "ALTI less IG l2 by comprehensiveness on IMDB and Yelp, less the same on SST-2 and agreement",
        ),
        Claim("A3 comp", "IG l2 is the best of the paper's gradients", "IG l2 less the best of the other four"),
        Claim("A3 suff", "IG l2 is the best of the paper's gradients", _BY_SUFF),
        Claim(
            "A4 comp",
            "the lead over IG l2 survives the public code's two errors put right",
            "ALTI less IG l2 by the plain curve, gradients at the word embeddings, paired",
        ),
        Claim("A4 suff", "the lead over IG l2 survives the public code's two errors put right", _BY_SUFF),
        Claim(
            "A5 comp",
            "the lead survives baselines with signs",
            "ALTI less the best of IG, GxI, AttCAT, AttnLRP and occlusion with signs",
        ),
        Claim("A5 suff", "the lead survives baselines with signs", _BY_SUFF),
        Claim("A6 comp", "l1 is better than l2", "ALTI l1 less ALTI l2 by comprehensiveness, paired"),
        Claim("A6 suff", "l1 is better than l2", _BY_SUFF),
        Claim("A7 comp", "distances are better than norms", "ALTI l2 less Norms by comprehensiveness, paired"),
        Claim("A7 suff", "distances are better than norms", _BY_SUFF),
        Claim(
            "A8 comp",
            "the second norm changes nothing that matters",
            "ALTI with LN2 less ALTI by comprehensiveness, paired",
            side=None,
            margin=0.01,
        ),
        Claim(
            "A8 suff",
            "the second norm changes nothing that matters",
            "the same by sufficiency",
            side=None,
            margin=0.01,
        ),
        Claim(
            "A9 Jaccard",
            "ALTI is the most alike between models that differ in their seed",
            "Jaccard of the top quarters, ALTI less the best of the paper's five gradient methods",
        ),
        Claim("A9 Spearman", "ALTI is the most alike between models that differ in their seed", "the same of ranks"),
        Claim(
            "A10",
            "what positions hold is more alike than the parts that tokens bring, in every layer",
            "mean cosine of outputs less that of parts, in the layer where that is least",
        ),
        Claim(
            "A11 comp",
            "Rollout < Globenc < ALTI",
            "the smaller of Globenc less Rollout and ALTI less Globenc, by comprehensiveness",
        ),
        Claim("A11 suff", "Rollout < Globenc < ALTI", _BY_SUFF),
    )
}


@dataclass(frozen=True)
class AltiFound:
    """All that was found about one data set with one base."""

    runs: StudyRuns
    outputs: Sequence[Sequence[float]] = ()  # mean cosine of what two positions hold: (text, layer)
    parts: Sequence[Sequence[float]] = ()  # of what two tokens brought to one position
    jaccard: Numbers | None = None  # (text, method): mean over pairs of seeds
    spearman: Numbers | None = None
    curves: Sequence[Mapping[str, Numbers]] = ()  # one for each seed: how far the probability has fallen, by method
    subjects: Sequence[tuple[int, Mapping[str, float]]] = ()  # a text's attractors, and which methods hit the subject


def wanted(bases: Sequence[StudyBase], datasets: Sequence[str], *, everything: bool) -> list[tuple[StudyBase, str]]:
    """The first base is measured on all sets, the others on SST-2 alone unless everything is asked for."""
    return [
        (base, name)
        for number, base in enumerate(bases)
        for name in datasets
        if everything or number == 0 or name == SEEDED or SEEDED not in datasets
    ]


def study(bench: StudyBench, bases: Sequence[StudyBase], datasets: Sequence[str], seeds: int = 5) -> StudyPage:
    """Train, run, and put together the page.

    seeds: how many models of SST-2 are trained for the robustness and the bands; all tables are of the first.
    """
    for name in datasets:
        bench.splits(name)  # all of them first, so that a missing file is reported before hours of work
    models: dict[SetAndBase, StudyModel] = {}
    found: dict[SetAndBase, AltiFound] = {}
    missing = [f"{name}: not measured." for name in DATASETS if name not in datasets]
    chosen = wanted(bases, datasets, everything=bench.size.texts >= 1000)
    for base, name in chosen:
        key = (name, base.name)
        models[key] = bench.model(name, base)
        found[key] = _found(bench, base, name, models[key], seeds if name == SEEDED else 1, missing)
    missing += [
        f"{name} with {base.name}: not measured."
        for base in bases
        for name in datasets
        if (base, name) not in chosen
    ]  # fmt: skip
    return page_of(bench, models, found, missing)


def _found(
    bench: StudyBench, base: StudyBase, name: str, model: StudyModel, seeds: int, missing: list[str]
) -> AltiFound:
    target = LABELLED if name == "agreement" else PREDICTED
    runs = bench.run(name, model, METHODS, METRICS, target=target)
    others = []
    if base.sentiment and name == SEEDED and seeds > 1:
        missing.append(f"{base.name} comes trained, once: nothing is said about its seeds.")
        seeds = 1
    for seed in range(1, seeds):
        others.append(bench.run(name, bench.model(name, base, seed), METHODS, [AOPC], seed=seed))
    every = [runs, *others]
    outputs, parts = _anisotropies(bench, name, model) if name != "agreement" else ([], [])
    jaccard, spearman = similarities(every) if others else (None, None)
    subjects = _subjects(bench, model, runs, missing) if name == "agreement" else []
    return AltiFound(runs, outputs, parts, jaccard, spearman, [drop_curves(one) for one in every], subjects)


# Numbers


def _anisotropies(bench: StudyBench, name: str, model: StudyModel) -> tuple[list[list[float]], list[list[float]]]:
    rows = bench.texts(name, model, min(bench.size.texts, ANISOTROPY_TEXTS))

    def compute() -> list[list[list[float]]]:
        reader = open_model(model).text_model
        found = []
        for row in rows:
            for cases in make_cases(reader, [reader.encode(row["text"])], [None], reads=["attention"]):
                one = anisotropy(cases.values())
                found.append([one.outputs.tolist(), one.parts.tolist()])
        return found

    kept = bench.kept(f"anisotropy-{name}-{model.base}", [model.source, [row["id"] for row in rows]], compute)
    return [one[0] for one in kept], [one[1] for one in kept]


def similarities(runs: Sequence[StudyRuns]) -> tuple[Numbers, Numbers]:
    """How alike the explanations of models of different seeds are: the mean over pairs of models, for every text on
    which all of them say the same. Jaccard of the top quarters, Spearman's correlation: (text, method) each
    """
    by_seed: list[dict[str, dict[str, Any]]] = []
    for one in runs:
        by_method: dict[str, dict[str, Any]] = {method: {} for method in METHODS}
        for row in one.explanations():
            by_method[row["method"]][row["example"]] = explanation_of(row)
        by_seed.append(by_method)
    jaccards, spearmans = [], []
    for method in METHODS:
        common = [text for text in by_seed[0][method] if all(text in seed[method] for seed in by_seed)]
        found = robustness([[seed[method][text] for text in common] for seed in by_seed])
        with np.errstate(invalid="ignore"):
            jaccards.append(found.jaccard.mean(0))
            there = ~np.isnan(found.spearman)
            spearmans.append(np.where(there, found.spearman, 0.0).sum(0) / there.sum(0))  # nan where no pair has one
    if len({len(column) for column in jaccards}) > 1:
        raise WherefromError("The methods were not run on the same texts of all seeds: some of them failed.")
    return np.stack(jaccards, 1), np.stack(spearmans, 1)


def drop_curves(runs: StudyRuns) -> dict[str, Numbers]:
    """Of every method by the paper's name, how far the probability has fallen with 0, 10, ... 100% of the text gone."""
    found = runs.curves(AOPC)
    return {name: found[ours] for name, ours in NAMES.items() if ours in found}


def _subjects(
    bench: StudyBench, model: StudyModel, runs: StudyRuns, missing: list[str]
) -> list[tuple[int, dict[str, float]]]:
    """Whether each method's strongest token is the subject of the masked verb."""
    rows = bench.texts("agreement", model, bench.size.texts)
    try:
        kept = bench.kept("subjects", [row["id"] for row in rows], lambda: _spans(rows))
    except WherefromError as error:  # no parser is installed
        missing.append(f"Whether the strongest token is the subject: {error}")
        return []
    spans = {row["id"]: span for row, span in zip(rows, kept, strict=True) if span is not None}
    attractors = {row["id"]: min(int(row.get("attractors") or 0), MOST_ATTRACTORS) for row in rows}
    hits: dict[str, dict[str, float]] = {text: {} for text in spans}
    for row in runs.explanations():
        if row["example"] in spans:
            hits[row["example"]][row["method"]] = float(hits_subject(row, spans[row["example"]]))
    return [(attractors[text], found) for text, found in hits.items() if found]


def _spans(rows: Rows) -> list[list[int] | None]:
    """Where the subject of each masked verb stands in its text; None where no parse names one noun in front of it."""
    places = [row["text"].index(MASK) for row in rows]
    whole = [row["text"].replace(MASK, row["label"], 1) for row in rows]
    found = []
    for place, row, tree in zip(places, rows, parse([Tree(text) for text in whole]), strict=True):
        span = subject_of(tree, place, place + len(row["label"]))
        found.append(None if span is None else list(span))  # it stands in front of the mask: nothing has moved
    return found


def hits_subject(row: Mapping[str, Any], span: Sequence[int]) -> bool:
    """Whether the token with the highest score, special ones and the mask left out, lies in the span."""
    ranked = [
        (score, start, end)
        for score, (start, end), part in zip(row["scores"], row["offsets"], row["segment"], strict=True)
        if part >= 0 and not np.isneginf(score) and row["text"][start:end] != MASK
    ]
    if not ranked:
        return False
    _, start, end = max(ranked, key=lambda one: one[0])
    return int(start) < span[1] and int(end) > span[0]


def judged(found: Mapping[SetAndBase, AltiFound]) -> list[JudgedClaim]:
    """The verdict of every claim, each data set and base counting once."""

    def of(metric: str) -> list[Numbers]:
        return [one.runs.table(metric, METHODS) for one in found.values()]

    def at(names: Sequence[str]) -> list[int]:
        return [COLUMN[name] for name in names]

    own, others = COLUMN["ALTI"], at([name for name in PAPER if name != "ALTI"])
    results: dict[str, Estimate | None] = {}
    for short, metric, sign in (("comp", COMP, 1.0), ("suff", SUFF, -1.0)):
        values = of(metric)
        tests: dict[str, Statistic] = {
            "A1": lead(own, others, sign),
            "A3": lead(COLUMN["IG l2"], at([name for name in GRADIENTS if name != "IG l2"]), sign),
            "A4": difference(own, COLUMN["IG l2"], sign),
            "A5": lead(own, at(list(SIGNED)), sign),
            "A6": difference(own, COLUMN["ALTI l2"], sign),
            "A7": difference(COLUMN["ALTI l2"], COLUMN["Norms"], sign),
            "A8": difference(COLUMN["ALTI LN2"], own),
            "A11": ascending(at(["Rollout", "Globenc", "ALTI"]), sign),
        }
        results |= {f"{name} {short}": estimate(values, test) for name, test in tests.items()}
    results["A1 published"] = estimate(of(PUBLISHED["comp"]), lead(own, others))
    names = [name for name, _ in found]
    long = [place for place, name in enumerate(names) if name in LONG]
    short_ones = [place for place, name in enumerate(names) if name in SHORT]
    if long and short_ones:
        ahead = COLUMN["ALTI"], COLUMN["IG l2"]
        results["A2"] = estimate(
            of(COMP), lambda means: _gains(means, long, *ahead) - _gains(means, short_ones, *ahead)
        )
    for short, tables in (
        ("Jaccard", [one.jaccard for one in found.values() if one.jaccard is not None]),
        ("Spearman", [one.spearman for one in found.values() if one.spearman is not None]),
    ):
        results[f"A9 {short}"] = estimate(tables, lead(own, at(GRADIENTS)))
    gaps = [np.asarray(one.outputs) - np.asarray(one.parts) for one in found.values() if len(one.outputs)]
    results["A10"] = estimate(gaps, lambda means: float(np.mean([row.min() for row in means])))
    why = "nothing that it needs was measured"
    return [claim.judged(results.get(name), why) for name, claim in CLAIMS.items()]


def _gains(means: Sequence[Numbers], places: Sequence[int], one: int, other: int) -> float:
    return float(np.mean([means[place][one] - means[place][other] for place in places]))


def ascending(columns: Sequence[int], sign: float = 1.0) -> Statistic:
    """The mean over data sets of the smallest step from one column to the next. Above zero: they are in this order."""
    return lambda means: float(np.mean([min(sign * (row[b] - row[a]) for a, b in pairwise(columns)) for row in means]))


# Tables


def _paper_model(base: str) -> str:
    """Which of the paper's models a base stands in for; the numbers in brackets are that one's."""
    return {"M6": _BERT, "M3": _DISTIL}.get(base, _ROBERTA)


def _printed(table: Mapping[str, Sequence[float]], method: str, key: SetAndBase) -> float | None:
    row = table.get(method)
    return None if row is None else row[PRINTED_COLUMNS.index((_paper_model(key[1]), key[0]))]


def tables(found: Mapping[SetAndBase, AltiFound]) -> list[StudyTable]:
    columns = [f"{name} {base}" for name, base in found]
    shown = []

    def add(title: str, note: str, metric: str, printed: Mapping[str, Sequence[float]], methods: Sequence[str]) -> None:
        rows = []
        for method in methods:
            cells = []
            for key, one in found.items():
                values = one.runs.table(metric, [NAMES[method]])[:, 0]
                cells.append(cell(mean_of(values.tolist()), _printed(printed, method, key)))
            rows.append((_row_name(method), cells))
        shown.append(StudyTable(title, note, columns, rows))

    beside = "In brackets the paper's BERT for M6, its DistilBERT for M3, its RoBERTa for other bases."
    main = [name for name in NAMES if name not in ABLATIONS]
    add("Tables 2, 6, 7: comprehensiveness", f"Higher is better. {beside}", COMP, PRINTED_COMP, main)
    add("Tables 2, 6, 7: sufficiency", f"Lower is better. {beside}", SUFF, PRINTED_SUFF, main)
    ablations = ["ALTI", *ABLATIONS]
    add("Tables 4, 5: comprehensiveness of variants", "ALTI is that with l1.", COMP, PRINTED_COMP, ablations)
    add("Tables 4, 5: sufficiency of variants", "", SUFF, PRINTED_SUFF, ablations)
    note = "The lowest probability so far at ERASER's thresholds, divided by 6."
    add("Comprehensiveness as the public code computes it", note, PUBLISHED["comp"], {}, main)
    note = "The highest probability so far, that of the empty text included."
    add("Sufficiency as the public code computes it", note, PUBLISHED["suff"], {}, main)
    seeded = {key: one for key, one in found.items() if one.jaccard is not None}
    if seeded:
        shown.append(_robustness_table(seeded))
    if any(one.outputs for one in found.values()):
        shown.append(_anisotropy_table({key: one for key, one in found.items() if one.outputs}))
    shown += [_subject_table(one.subjects, base) for (_, base), one in found.items() if one.subjects]
    shown.append(_cost_table(found))
    return shown


def _row_name(method: str) -> str:
    return f"{method} `{NAMES[method]}`"


def _robustness_table(found: Mapping[SetAndBase, AltiFound]) -> StudyTable:
    columns, rows = [], []
    for (name, base), one in found.items():
        texts = 0 if one.jaccard is None else len(one.jaccard)
        columns += [f"{name} {base} Jaccard ({texts} texts)", f"{name} {base} Spearman"]
    for method in NAMES:
        cells = []
        for one in found.values():
            for table in (one.jaccard, one.spearman):
                cells.append(cell(None if table is None else mean_of(table[:, COLUMN[method]].tolist())))
        rows.append((_row_name(method), cells))
    note = (
        "How alike the explanations of models are that were trained with different seeds: mean over pairs of models, on"
        " texts where all of them say the same. Higher is more alike; what ignores the model would be best."
    )
    return StudyTable("Figures 7, 8: Jaccard of the top quarters, and Spearman's correlation", note, columns, rows)


def _anisotropy_table(found: Mapping[SetAndBase, AltiFound]) -> StudyTable:
    depth = max(len(one.outputs[0]) for one in found.values())
    rows = []
    for (name, base), one in found.items():
        for what, table in (("outputs", one.outputs), ("parts", one.parts)):
            cells = [
                cell(mean_of([text[layer] for text in table])) if layer < len(table[0]) else StudyCell("")
                for layer in range(depth)
            ]
            rows.append((f"{name} {base} {what}", cells))
    note = "Mean cosine of what two positions hold (outputs), and of what two tokens bring to one position (parts)."
    return StudyTable("Figure 3: anisotropy", note, [f"layer {number + 1}" for number in range(depth)], rows)


def _subject_table(subjects: Sequence[tuple[int, Mapping[str, float]]], base: str) -> StudyTable:
    counts = sorted({count for count, _ in subjects})
    many = {count: sum(one == count for one, _ in subjects) for count in counts}
    columns = [
        *(f"{count}{'+' if count == MOST_ATTRACTORS else ''} ({many[count]} texts)" for count in counts),
        f"all ({len(subjects)})",
    ]
    rows = []
    for method in NAMES:
        groups = [[hits for one, hits in subjects if one == count] for count in counts] + [[h for _, h in subjects]]
        cells = [cell(mean_of([hits.get(NAMES[method]) for hits in group])) for group in groups]
        rows.append((_row_name(method), cells))
    note = (
        "The share of texts whose strongest token is the subject, by the number of attractors (nouns of the other"
        " number between it and the verb). The subject is what the parser names, where that is one word in front of the"
        " verb and no relative pronoun."
    )
    return StudyTable(f"Subject-verb agreement, {base}: is the subject the strongest token?", note, columns, rows)


def _cost_table(found: Mapping[SetAndBase, AltiFound]) -> StudyTable:
    columns, rows = [], []
    alone = [one.runs.alone() for one in found.values()]
    for name, base in found:
        columns += [f"{name} {base} seconds", f"{name} {base} rows"]
    for method in NAMES:
        cells = []
        for table in alone:
            own = table[table["method"] == NAMES[method]]
            passes = own["forwards"] + own["backwards"]
            cells += [StudyCell(f"{own['seconds'].mean():.3g}"), StudyCell(f"{passes.mean():.0f}")]
        rows.append((_row_name(method), cells))
    note = (
        "Of one explanation alone: seconds, and rows sent through the model forth or back. In a run IG goes one path."
    )
    return StudyTable("What a method costs", note, columns, rows)


# The page


def page_of(
    bench: StudyBench,
    models: Mapping[SetAndBase, StudyModel],
    found: Mapping[SetAndBase, AltiFound],
    missing: Sequence[str],
) -> StudyPage:
    seconds = sum(one.runs.seconds for one in found.values())
    lost = sum(one.runs.errors for one in found.values())
    facts = [
        *model_facts(models),
        bench.texts_fact({key: int(one.runs.scores["example"].nunique()) for key, one in found.items()}),
        f"{seconds / 60:.0f} minutes of measuring on {provenance(0)['machine']}, one thread; {lost} errors.",
        "What is explained is the class that the model predicts; of agreement, the right form rather than the wrong"
        " one. Special tokens are never ranked.",
        *(
            f"{name}, {base}: {len(one.curves)} models of different seeds for the bands and the robustness."
            for (name, base), one in found.items()
            if len(one.curves) > 1
        ),
    ]
    return StudyPage(
        name="alti",
        title="ALTI measured again",
        about=(
            'Ferrando, Gállego and Costa-jussà, "Measuring the Mixing of Contextual Information in the Transformer"'
            " (2022): its tables and figures, measured again with other models and fewer texts. M6 is all-MiniLM-L6-v2"
            " (six layers, twelve heads), M3 the three-layer sentiment model that Wherefrom ships."
        ),
        facts=facts,
        tables=tables(found),
        claims=judged(found),
        pictures=_pictures(bench.out, models, found),
        missing=list(missing),
        contradictions=CONTRADICTIONS,
        made=provenance(seconds),
    )


def _pictures(
    out: Path, models: Mapping[SetAndBase, StudyModel], found: Mapping[SetAndBase, AltiFound]
) -> list[StudyPicture]:
    shown = []
    with_cosines = {key: one for key, one in found.items() if one.outputs}
    if with_cosines:
        means = {
            f"{name} {base}": (np.mean(one.outputs, 0), np.mean(one.parts, 0))
            for (name, base), one in with_cosines.items()
        }
        plots.anisotropy(
            {name: pair[0] for name, pair in means.items()},
            {name: pair[1] for name, pair in means.items()},
            out / "alti-figure3.png",
        )
        shown.append(StudyPicture("alti-figure3.png", "Figure 3", "Outputs solid, parts dashed."))
    for (name, base), one in found.items():
        file = f"alti-figure6-{name}-{base}.png"
        lines = {method: np.array([curves[method] for curves in one.curves if method in curves]) for method in PAPER}
        lines = {method: many for method, many in lines.items() if len(many)}
        if lines:
            bands = {method: many.std(0, ddof=1) for method, many in lines.items()} if len(one.curves) > 1 else None
            middle = {method: many.mean(0) for method, many in lines.items()}
            plots.drop_curves(middle, out / file, shares=np.linspace(0, 1, 11), bands=bands)
            band = f"; the bands are one standard deviation over {len(one.curves)} seeds" if bands else ""
            shown.append(StudyPicture(file, f"Figures 6, 9: {name}, {base}", f"The drop in probability{band}."))
        for what, table, label in (("7", one.jaccard, "Jaccard of the top quarters"), ("8", one.spearman, "Spearman")):
            if table is not None:
                file = f"alti-figure{what}-{base}.png"
                columns = {method: table[:, COLUMN[method]].tolist() for method in (*PAPER, "AttCAT", "random")}
                plots.boxes(columns, out / file, label=label)
                shown.append(StudyPicture(file, f"Figure {what}: {base}", "Between models of different seeds."))
    for (name, base), model in models.items():
        if name == SEEDED:
            shown += _examples(out, model, base)
    return shown


def _examples(out: Path, model: StudyModel, base: str) -> list[StudyPicture]:
    """Figures 5 and 10 to 12 with the paper's sentence, and its Table 8."""
    loaded, shown = open_model(model), []
    for method in FLOWS:
        file = f"alti-flow-{method}-{base}.png"
        plots.flow_matrix(loaded.flow(SENTENCE, method), out / file)
        shown.append(StudyPicture(file, f"Figures 5, 10 to 12: {method}, {base}"))
    if loaded.text_model.encode(REVIEW).cut:  # a small model cannot read all of it
        return shown
    methods = {"Grad l2": "saliency", "GxI l2": "input_x_gradient", "ALTI": "alti", "IG signed": "integrated_gradients"}
    options: dict[str, dict[str, Any]] = {"GxI l2": {"reduce": "l2"}}
    explained = {name: loaded.explain(REVIEW, method, **options.get(name, {})) for name, method in methods.items()}
    first = explained["ALTI"]
    kept = [place for place, left_out in enumerate(first.special) if not left_out]
    plots.impact_map(
        {name: [one.scores[place] for place in kept] for name, one in explained.items()},
        [first.tokens[place] for place in kept],
        out / f"alti-table8-{base}.png",
    )
    said = f"The model says {first.prediction} ({first.output:.2f}); every row is scaled by its largest score."
    return [*shown, StudyPicture(f"alti-table8-{base}.png", f"Table 8, {base}", said)]
