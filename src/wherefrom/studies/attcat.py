"""The study of "AttCAT: Explaining Transformers via Attentive Class Activation Tokens" (Qiang et al. 2022).

Its Tables 1 and 2, Figures 3, 4 and 5, measured again, and what becomes of its claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau, spearmanr

from wherefrom.core.arrays import Numbers
from wherefrom.report import plots
from wherefrom.report.pieces import token_labels
from wherefrom.studies.bench import (
    StudyBase,
    StudyBench,
    StudyModel,
    StudyRuns,
    model_facts,
    open_model,
    provenance,
)
from wherefrom.studies.claims import (
    Claim,
    EstimateOrReason,
    JudgedClaim,
    Statistic,
    difference,
    estimated,
    lead,
    mean_of,
    trail,
)
from wherefrom.studies.pages import StudyCell, StudyPage, StudyPicture, StudyTable, cell

TEXT_SETS = ("sst2", "qqp", "mnli", "amazon", "yelp", "imdb")
ANSWER_SETS = ("squad1", "squad2")
DATASETS = (*TEXT_SETS, *ANSWER_SETS)
# The paper's names, and ours.
PAPER = {
    "RawAtt": "raw_attention",
    "Rollout": "attention_rollout",
    "Grads": "attention_gradients",
    "AttGrads": "attention_x_gradient",
    "PartialLRP": "partial_lrp",
    "TransAtt": "transatt",
    "CAT": "cat",
    "AttCAT": "attcat",
}
OWN = "attcat"
OTHERS = [name for name in PAPER.values() if name != OWN]
CLASS_SPECIFIC = [name for name in PAPER.values() if name not in ("raw_attention", "attention_rollout")]
BESIDE = ("gae", "attn_lrp", "integrated_gradients", "occlusion", "random")
VARIANTS = ("attcat:layers=rollout", "attcat:layers=last", "attcat:hidden=output", "cat:hidden=output")
METHODS = (*PAPER.values(), *BESIDE, *VARIANTS)
METRICS = (
    "aopc",
    "log_odds",
    "aopc:variant=published",
    "log_odds:variant=published",
    "kendall_confidence",
    "kendall_confidence:variant=published",
    "truthfulness",
    "faithfulness_violation",
)
DEPTHS = (5, 10, 20, 40)
ANSWER_METHODS = (*PAPER.values(), *BESIDE)
ANSWER_METRICS = tuple(f"precision_at_k:k={k}" for k in DEPTHS)
COLUMN = {name: number for number, name in enumerate(METHODS)}

# Figures 4 and 5b are about this sentence, Figure 5a about this question.
SENTENCE = "i really didn't like this movie. some of the actors were good, but overall the movie was boring."
QUESTION = (
    "Which NFL team represented the AFC at Super Bowl 50?",
    "Super Bowl 50 was an American football game to determine the champion of the National Football League (NFL) for"
    " the 2015 season. The American Football Conference (AFC) champion Denver Broncos defeated the National Football"
    " Conference (NFC) champion Carolina Panthers 24-10 to earn their third Super Bowl title. The game was played on"
    " February 7, 2016, at Levi's Stadium in the San Francisco Bay Area at Santa Clara, California.",
)

# Table 1: AOPC and LOdds; Table 2: Kendall's correlation.
PRINTED_SETS = ("sst2", "qqp", "mnli", "amazon", "yelp", "imdb")
PRINTED_AOPC = {
    "RawAtt": (0.331, 0.143, 0.138, 0.384, 0.394, 0.298),
    "Rollout": (0.286, 0.139, 0.151, 0.324, 0.277, 0.331),
    "Grads": (0.335, 0.141, 0.156, 0.316, 0.414, 0.304),
    "AttGrads": (0.351, 0.143, 0.159, 0.346, 0.439, 0.310),
    "PartialLRP": (0.341, 0.142, 0.138, 0.418, 0.424, 0.312),
    "TransAtt": (0.354, 0.145, 0.130, 0.415, 0.434, 0.421),
    "CAT": (0.352, 0.134, 0.157, 0.409, 0.421, 0.406),
    "AttCAT": (0.371, 0.139, 0.164, 0.457, 0.473, 0.528),
}
PRINTED_ODDS = {
    "RawAtt": (-0.885, 0.149, 0.235, -1.729, -2.017, -1.245),
    "Rollout": (-0.641, 0.262, 0.321, -1.303, -1.055, -1.323),
    "Grads": (-0.252, 0.184, 0.139, -1.820, -1.994, -1.227),
    "AttGrads": (-0.603, 0.113, 0.114, -1.941, -2.054, -1.267),
    "PartialLRP": (-0.922, 0.137, 0.231, -2.019, -2.199, -1.321),
    "TransAtt": (-1.038, 0.114, 0.214, -1.889, -2.508, -2.137),
    "CAT": (-1.115, 0.121, 0.121, -2.157, -2.587, -3.052),
    "AttCAT": (-1.319, 0.073, 0.008, -2.332, -3.169, -3.671),
}
PRINTED_KENDALL = {
    "Grads": (0.150, 0.236, 0.169, 0.146, 0.174, 0.098),
    "AttGrads": (0.116, 0.198, 0.156, 0.148, 0.132, 0.064),
    "PartialLRP": (0.955, 0.949, 0.935, 0.965, 0.952, 0.858),
    "TransAtt": (0.336, 0.222, 0.339, 0.152, 0.121, 0.043),
    "CAT": (0.101, 0.373, 0.339, 0.095, 0.107, 0.056),
    "AttCAT": (0.018, 0.349, 0.017, 0.015, 0.008, 0.023),
}
CONTRADICTIONS = [
    "AttCAT is said to be the best on all data sets; in Table 1 its AOPC on QQP, .139, is below that of TransAtt"
    " (.145), RawAtt and AttGrads (.143), and in Table 2 its correlation on QQP, .349, is the fourth of six.",
    "What Fig. 3 calls precision is a count of tokens, at most 3.72 and 3.84.",
    "CAT (Eq. 10) is a vector that is used as a number.",
    "Eqs 8 to 10 take the output of a layer, the public code its input.",
    "The same AttCAT on the same IMDB has an AOPC of .528 here and of .340 in the paper of Mask-LRP.",
]

# Claims and margins were written down before any number was looked at. Statistics are signed so that "above" is what
# the paper says.
_TURNED = "the same by log-odds, with the sign turned"
CLAIMS = {
    claim.name: claim
    for claim in (
        Claim(
            "C1 AOPC",
            "AttCAT is first by AOPC",
            "AttCAT less the best of the paper's other seven methods, mean over data sets",
        ),
        Claim("C1 LOdds", "AttCAT is first by LOdds", _TURNED),
        Claim("C2 AOPC", "attention makes CAT better", "AttCAT less CAT by AOPC, paired"),
        Claim("C2 LOdds", "attention makes CAT better", _TURNED),
        Claim(
            "C3 AOPC",
            "RawAtt and Rollout are last",
            "the worst of the other six methods less the better of the two, by AOPC",
        ),
        Claim("C3 LOdds", "RawAtt and Rollout are last", _TURNED),
        Claim("C4 AOPC", "AttCAT beats TransAtt", "AttCAT less TransAtt by AOPC, paired"),
        Claim("C4 LOdds", "AttCAT beats TransAtt", _TURNED),
        Claim(
            "C5",
            "AttCAT is the most class-specific",
            "the lowest Kendall correlation of the other five class-specific methods less AttCAT's, by the right"
            " definition",
        ),
        Claim("C5 published", "AttCAT is the most class-specific", "the same by the definition of the public code"),
        Claim(
            "C6",
            "AttCAT finds the most answer tokens among its first 20",
            "AttCAT's count less that of the best of the other seven",
        ),
        Claim(
            "C7 AOPC",
            "the sum over layers is better than their rollout",
            "AttCAT summed less AttCAT rolled out by AOPC, paired",
        ),
        Claim(
            "C7 depth",
            "impact grows uniform with depth",
            "Spearman's correlation of a layer's number with the entropy of its impact, mean over texts",
        ),
        Claim(
            "C8",
            "AttCAT of what a layer gives (the paper) equals that of what it is given (the public code)",
            "the first less the second by AOPC, paired",
            side=None,
            margin=0.02,
        ),
        Claim(
            "C9 truth",
            "the signs of AttCAT mean something, unlike those of TransAtt",
            "AttCAT less TransAtt by truthfulness, paired",
        ),
        Claim("C9 violation", "the same", "TransAtt less AttCAT by the share of violated signs, paired"),
        Claim(
            "C10",
            "the public code's AOPC orders the eight methods as the paper's formula does",
            "1 less Kendall's tau of the two orders, mean over data sets",
            side=None,
            margin=0.1,
        ),
    )
}


def study(bench: StudyBench, bases: Sequence[StudyBase], datasets: Sequence[str], seeds: int = 1) -> StudyPage:
    """Train, run, and put together the page."""
    for name in datasets:
        bench.splits(name)  # all of them first, so that a missing file is reported before hours of work
    models: dict[tuple[str, str], StudyModel] = {}
    found: dict[tuple[str, str], list[StudyRuns]] = {}
    for base in bases:
        for name in datasets:
            answers = name in ANSWER_SETS
            for seed in range(seeds):
                model = bench.model(name, base, seed)
                models.setdefault((name, base.name), model)
                methods, metrics = (ANSWER_METHODS, ANSWER_METRICS) if answers else (METHODS, METRICS)
                found.setdefault((name, base.name), []).append(bench.run(name, model, methods, metrics, seed=seed))
    return page_of(bench, models, found, bases, datasets)


def page_of(
    bench: StudyBench,
    models: Mapping[tuple[str, str], StudyModel],
    found: Mapping[tuple[str, str], Sequence[StudyRuns]],
    bases: Sequence[StudyBase],
    datasets: Sequence[str],
) -> StudyPage:
    texts = {key: value for key, value in found.items() if key[0] in TEXT_SETS}
    answers = {key: value for key, value in found.items() if key[0] in ANSWER_SETS}
    entropies = {key: _entropies_of(bench, key, models[key], value[0]) for key, value in texts.items()}
    pictures = _pictures(bench, models)
    seconds = sum(runs.seconds for value in found.values() for runs in value)
    lost = sum(runs.errors for value in found.values() for runs in value)
    facts = [
        *model_facts(models),
        bench.texts_fact({key: _texts(value) for key, value in found.items()}),
        f"{seconds / 60:.0f} minutes of measuring on {provenance(0)['machine']}, one thread; {lost} errors.",
        "What is explained is the class that the model predicts; special tokens are never ranked.",
    ]
    claims = judged(texts, answers, entropies)
    missing = [f"{name}: not measured." for name in DATASETS if name not in datasets]
    missing += [
        f"{name} with {base.name}: not measured."
        for base in bases
        for name in datasets
        if (name, base.name) not in found
    ]
    return StudyPage(
        name="attcat",
        title="AttCAT measured again",
        about=(
            'Qiang, Pan, Li, Li, Jang and Zhu, "AttCAT: Explaining Transformers via Attentive Class Activation'
            ' Tokens" (2022): its tables and figures, measured again with other models and fewer texts. M6 is'
            " all-MiniLM-L6-v2 (six layers, twelve heads), M3 the three-layer sentiment model that Wherefrom ships."
        ),
        facts=facts,
        tables=tables(texts, answers, entropies),
        claims=claims,
        pictures=pictures,
        missing=missing,
        contradictions=CONTRADICTIONS,
        made=provenance(seconds),
    )


def _texts(runs: Sequence[StudyRuns]) -> int:
    return int(runs[0].scores["example"].nunique())


# Numbers


def stacked(runs: Sequence[StudyRuns], metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
    """The texts of all seeds below each other. (text, method)"""
    return np.concatenate([one.table(metric, methods, detail) for one in runs])


def judged(
    texts: Mapping[tuple[str, str], Sequence[StudyRuns]],
    answers: Mapping[tuple[str, str], Sequence[StudyRuns]],
    entropies: Mapping[tuple[str, str], Sequence[Sequence[float]]],
) -> list[JudgedClaim]:
    """The verdict of every claim, each data set and base counting once."""

    def of(metric: str) -> dict[str, Numbers]:
        return {" ".join(key): stacked(runs, metric, METHODS) for key, runs in texts.items()}

    def test(metric: str, statistic: Statistic) -> EstimateOrReason:
        return estimated(of(metric), METHODS, statistic)

    def at(names: Sequence[str]) -> list[int]:
        return [COLUMN[name] for name in names]

    own, six = COLUMN[OWN], at([name for name in PAPER.values() if name not in ("raw_attention", "attention_rollout")])
    attention = at(["raw_attention", "attention_rollout"])
    results: dict[str, EstimateOrReason] = {}
    for short, metric, sign in (("AOPC", "aopc", 1.0), ("LOdds", "log_odds", -1.0)):
        values = of(metric)
        tests: dict[str, Statistic] = {
            "C1": lead(own, at(OTHERS), sign),
            "C2": difference(own, COLUMN["cat"], sign),
            "C3": trail(attention, six, sign),
            "C4": difference(own, COLUMN["transatt"], sign),
        }
        results |= {f"{name} {short}": estimated(values, METHODS, one) for name, one in tests.items()}
    specific = at([name for name in CLASS_SPECIFIC if name != OWN])
    results["C5"] = test("kendall_confidence", lead(own, specific, -1.0))
    results["C5 published"] = test("kendall_confidence:variant=published", lead(own, specific, -1.0))
    counted = {
        " ".join(key): stacked(runs, "precision_at_k:k=20", ANSWER_METHODS, "count") for key, runs in answers.items()
    }
    places = {name: number for number, name in enumerate(ANSWER_METHODS)}
    results["C6"] = estimated(counted, ANSWER_METHODS, lead(places[OWN], [places[name] for name in OTHERS]))
    results["C7 AOPC"] = test("aopc", difference(own, COLUMN["attcat:layers=rollout"]))
    slopes = {
        " ".join(key): np.array([[_slope(text)] for text in one], dtype=np.float64)
        for key, one in entropies.items()
        if len(one)
    }
    results["C7 depth"] = estimated(slopes, ["the slope"], lambda means: float(np.mean([row[0] for row in means])))
    results["C8"] = test("aopc", difference(COLUMN["attcat:hidden=output"], own))
    results["C9 truth"] = test("truthfulness", difference(own, COLUMN["transatt"]))
    results["C9 violation"] = test("faithfulness_violation", difference(COLUMN["transatt"], own))
    both = {
        " ".join(key): np.concatenate(
            [stacked(runs, metric, list(PAPER.values())) for metric in ("aopc", "aopc:variant=published")], 1
        )
        for key, runs in texts.items()
    }
    results["C10"] = estimated(both, [*PAPER.values()] * 2, _other_order, rounds=500)
    return [claim.judged(*results[name]) for name, claim in CLAIMS.items()]


def _other_order(means: Sequence[Numbers]) -> float:
    half = len(PAPER)
    return float(np.mean([1 - kendalltau(row[:half], row[half:]).statistic for row in means]))


def _slope(by_layer: Sequence[float]) -> float:
    return float(spearmanr(range(len(by_layer)), by_layer)[0]) if len(set(by_layer)) > 1 else float("nan")


def layer_entropies(layers: Sequence[Sequence[float]], special: Sequence[bool]) -> list[float]:
    """How evenly the size of a layer's impact is spread over the tokens of the text: 1 where all are alike, 0 where one
    has everything.
    """
    found = []
    for layer in layers:
        sizes = np.abs(np.array([one for one, left_out in zip(layer, special, strict=True) if not left_out]))
        shares = sizes / sizes.sum() if sizes.sum() else np.full(len(sizes), 1 / max(len(sizes), 1))
        known = shares[shares > 0]
        found.append(float(-(known * np.log(known)).sum() / np.log(len(sizes))) if len(sizes) > 1 else 0.0)
    return found


def _entropies_of(bench: StudyBench, key: tuple[str, str], model: StudyModel, runs: StudyRuns) -> list[list[float]]:
    """Of every text, the entropy of each layer's impact."""
    rows = [(row["text"], row["pair"]) for row in runs.explanations() if row["method"] == OWN]

    def compute() -> list[list[float]]:
        loaded = open_model(model)
        found = []
        for text, pair in rows:
            explanation = loaded.explain(text if pair is None else (text, pair), OWN)
            found.append(layer_entropies(explanation.layers or (), explanation.special))
        return found

    kept: list[list[float]] = bench.kept(f"entropies-{key[0]}-{key[1]}", [model.source, rows], compute)
    return kept


# Tables


def tables(
    texts: Mapping[tuple[str, str], Sequence[StudyRuns]],
    answers: Mapping[tuple[str, str], Sequence[StudyRuns]],
    entropies: Mapping[tuple[str, str], Sequence[Sequence[float]]],
) -> list[StudyTable]:
    names = {ours: theirs for theirs, ours in PAPER.items()}
    found = []

    def shown(
        metric: str, title: str, note: str, printed: Mapping[str, Sequence[float]], methods: Sequence[str]
    ) -> None:
        rows = []
        for method in methods:
            cells = []
            for (name, _), runs in texts.items():
                paper = printed.get(names.get(method, ""))
                values = stacked(runs, metric, [method])[:, 0]
                cells.append(cell(mean_of(values.tolist()), None if paper is None else paper[PRINTED_SETS.index(name)]))
            rows.append((f"{names.get(method, '')} `{method}`".strip(), cells))
        found.append(StudyTable(title, note, [f"{name} {base}" for name, base in texts], rows))

    if texts:
        eight = [*PAPER.values(), "random"]
        specific = [*CLASS_SPECIFIC, *(name for name in METHODS if name not in PAPER.values() and name != "random")]
        below = "Higher is better. Below the paper's eight methods: others, and variants of AttCAT and CAT."
        shown("aopc", "Table 1: AOPC", below, PRINTED_AOPC, METHODS)
        shown("log_odds", "Table 1: log-odds", "Lower is better.", PRINTED_ODDS, METHODS)
        note = "Lower is better. By the right definition: of the scores for two classes."
        shown("kendall_confidence", "Table 2: Kendall's correlation between classes", note, {}, specific)
        note = "Of the lists of positions that sorting gives, special tokens included, instead of the ranks."
        published = "kendall_confidence:variant=published"
        shown(published, "Table 2: the same by the public code", note, PRINTED_KENDALL, CLASS_SPECIFIC)
        note = "Absolute changes in nine steps; special tokens are ranked, but stay."
        shown("aopc:variant=published", "AOPC as the public code computes it", note, {}, eight)
        shown("log_odds:variant=published", "Log-odds as the public code computes it", "", {}, eight)
        note = (
            "The share of tokens whose hiding moves the probability as the sign of their score says; higher is better."
        )
        shown("truthfulness", "Signs: truthfulness", note, {}, METHODS)
        note = "The share of tokens whose hiding moves it the other way; lower is better."
        shown("faithfulness_violation", "Signs: violation", note, {}, METHODS)
    if answers:
        found += [_precision(answers, names, detail) for detail in ("count", "")]
    if entropies:
        depth = max(len(one[0]) for one in entropies.values() if one)
        rows = [
            (
                f"{name} {base}",
                [
                    cell(mean_of([text[layer] for text in one])) if one and layer < len(one[0]) else StudyCell("")
                    for layer in range(depth)
                ],
            )
            for (name, base), one in entropies.items()
        ]
        found.append(
            StudyTable(
                "Figure 4: how evenly impact is spread in each layer",
                "Normalised entropy of the size of AttCAT's scores: 1 where all tokens have the same.",
                [f"layer {number + 1}" for number in range(depth)],
                rows,
            )
        )
    return found


def _precision(
    answers: Mapping[tuple[str, str], Sequence[StudyRuns]], names: Mapping[str, str], detail: str
) -> StudyTable:
    columns, rows = [], []
    for name, base in answers:
        columns += [f"{name} {base} K={k}" for k in DEPTHS]
    for method in ANSWER_METHODS:
        cells = []
        for runs in answers.values():
            for k in DEPTHS:
                values = stacked(runs, f"precision_at_k:k={k}", [method], detail)[:, 0]
                cells.append(cell(mean_of(values.tolist())))
        rows.append((f"{names.get(method, '')} `{method}`".strip(), cells))
    what = (
        "tokens of the answer among the first K, as a count"
        if detail
        else "the share of the answer's tokens among the first K"
    )
    note = "The paper's largest counts at K = 20 are 3.72 (version 1) and 3.84 (version 2)." if detail else ""
    return StudyTable(f"Figure 3: {what}", note, columns, rows)


# Pictures


def _pictures(bench: StudyBench, models: Mapping[tuple[str, str], StudyModel]) -> list[StudyPicture]:
    """Figures 4 and 5 with the paper's own examples."""
    found = []
    for (name, base), model in models.items():
        if name == "sst2":
            found += _sentence(bench.out, model, base)
        if name == "squad1":
            file = f"attcat-figure5a-{base}.png"
            _drawn(bench.out / file, model, QUESTION, ("attcat", "transatt", "attention_rollout"))
            found.append(StudyPicture(file, f"Figure 5a, {base}", "The answer is 'Denver Broncos'."))
    return found


def _sentence(out: Path, model: StudyModel, base: str) -> list[StudyPicture]:
    loaded = open_model(model)
    impact = loaded.explain(SENTENCE, OWN)
    rows: dict[str, Sequence[float]] = {f"layer {n + 1}": layer for n, layer in enumerate(impact.layers or ())}
    rows |= {
        "rollout": loaded.explain(SENTENCE, OWN, layers="rollout").scores,
        "last": loaded.explain(SENTENCE, OWN, layers="last").scores,
        "sum": impact.scores,
    }
    names = token_labels(impact.tokens, impact.offsets, impact.segment, impact.text)
    plots.impact_map(rows, names, out / f"attcat-figure4-{base}.png")
    said = f"The model says {impact.prediction} ({impact.probability:.2f})"
    file = f"attcat-figure5b-{base}.png"
    _drawn(out / file, model, SENTENCE, ("attcat", "transatt", "raw_attention", "attention_rollout"))
    return [
        StudyPicture(
            f"attcat-figure4-{base}.png", f"Figure 4, {base}", f"{said}; every row is scaled by its largest score."
        ),
        StudyPicture(file, f"Figure 5b, {base}", f"{said}; blue speaks for it, orange against."),
    ]


def _drawn(path: Path, model: StudyModel, text: str | tuple[str, str], methods: Sequence[str]) -> None:
    loaded = open_model(model)
    shown = {name: loaded.explain(text, name) for name in methods}
    first = next(iter(shown.values()))
    kept = [place for place, left_out in enumerate(first.special) if not left_out]
    names = token_labels(first.tokens, first.offsets, first.segment, first.text, first.pair)
    plots.impact_map(
        {name: [one.scores[place] for place in kept] for name, one in shown.items()},
        [names[place] for place in kept],
        path,
    )
