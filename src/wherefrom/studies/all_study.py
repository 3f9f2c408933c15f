"""One page over all studies: every method on every data set by every metric, under the one protocol.

It reads what the other studies left in their folders, and measures nothing itself. Papers rank different methods on
different data sets; so a method's place is given as the share of the other methods that are better (0: it is the first,
1: the last), and the mean of places counts every data set once. Variants that belong to one paper stay on its page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from wherefrom.benchmark.statistics import question_of
from wherefrom.benchmark.store import Run
from wherefrom.catalogue import catalogue
from wherefrom.core.arrays import Numbers
from wherefrom.core.files import read_json, write_atomically
from wherefrom.errors import BadFile, MissingExtra
from wherefrom.optimus.combination import BASELINE
from wherefrom.report import plots
from wherefrom.studies.bench import SetAndBase, provenance
from wherefrom.studies.claims import Estimate, figure
from wherefrom.studies.pages import StudyCell, StudyPage, StudyPicture, StudyTable, cell, markdown_tables

if TYPE_CHECKING:
    import pandas

FLOOR = "random"
RATIONALE = "auprc"
ROUNDS = 500
STUDIES = ("optimus", "attcat", "alti", "mask-lrp", "sparse")
BEGIN, END = "<!-- what `wherefrom study all` writes begins here -->", "<!-- and ends here -->"
# What a user asks about, by the data sets that stand for it.
TASKS = {
    "one sentence, one label": ("sst2", "hatexplain"),
    "long texts, one label": ("imdb", "yelp", "amazon", "movies", "ais"),
    "pairs": ("qqp", "qqp_duplicates", "mnli", "esnli"),
    "several labels": ("hoc", "ethos", "hummingbird"),
    "answers": ("squad1", "squad2"),
    "a word at a mask": ("agreement",),
}
BLOCK = re.compile(
    r"^(?P<set>[^-]+)-(?P<base>.+?)(?:-seed(?P<seed>\d+))?(?:-(?P<level>sentence|word))?-\d{3}-[0-9a-f]{10}$"
)
OWN_HEADS = re.compile(r"-[0-9a-f]{10}\.json$")  # a head map by the paper's thresholds
KEPT_DEPTH = "precision_at_k:k=20"
# Options that do not make another method of it for this page.
PLAIN = {
    "integrated_gradients:steps=100": "integrated_gradients",
    "rft:normalise=no": "rft",
    KEPT_DEPTH: "precision_at_k",
    f"optimus:combination={BASELINE}": "attention baseline",
}


def plain_method(asked: str) -> str | None:
    """The method's name on this page; None for a variant that belongs to one paper."""
    if asked in PLAIN:
        return PLAIN[asked]
    name, _, options = asked.partition(":")
    if not options or name == "lime":
        return name
    if name == "mask_lrp":
        given = dict(part.partition("=")[::2] for part in options.split(":"))
        own = OWN_HEADS.search(given.pop("heads", "")) is not None
        return {(): "mask_lrp", (("bare", "skip"),): "mask_lrp:bare=skip"}.get(tuple(given.items())) if own else None
    return asked if asked == "optimus:raw=both" else None


def plain_metric(asked: str) -> str | None:
    """The metric's name on this page; None for a variant."""
    return PLAIN.get(asked) or (None if ":" in asked else asked)


@dataclass(frozen=True)
class SetScores:
    """Of one data set and base: by metric, every method's value for every text."""

    tables: Mapping[str, tuple[tuple[str, ...], Numbers]]  # metric -> methods, (text, method)
    seconds: Mapping[str, float] = field(default_factory=dict)  # of one explanation alone
    rows: Mapping[str, float] = field(default_factory=dict)  # sent through the model, forth or back


class Collected(NamedTuple):
    """What was found in the folders of the studies."""

    sets: dict[SetAndBase, SetScores]
    claims: list[dict[str, Any]]  # with the study's name
    unread: list[str]  # what could not be read, and why


# Reading


def collect(folders: Sequence[Path]) -> Collected:
    """All finished runs, and the claims of all pages, of these folders."""
    pandas = _pandas()
    runs: dict[SetAndBase, dict[str, list[Run]]] = {}  # by what is explained: predicted, label, ...
    unread: list[str] = []
    claims: list[dict[str, Any]] = []
    for folder in folders:
        for path in sorted((folder / "runs").glob("*")) if (folder / "runs").is_dir() else ():
            named = BLOCK.match(path.name)
            if named is None or named["seed"] or named["level"] or not path.is_dir():
                continue
            try:
                run = Run.load(path)
            except BadFile as error:
                unread.append(f"{path.name}: {error}")
                continue
            if not run.finished:
                unread.append(f"{path.name}: it is not finished.")
                continue
            by_target = runs.setdefault((named["set"], named["base"]), {})
            by_target.setdefault(run.plan.target, []).append(run)
        for name in STUDIES:
            page = folder / f"{name}.json"
            if page.is_file():
                claims += [{"study": name, **one} for one in read_json(page).get("claims", [])]
    sets = {}
    for key, by_target in sorted(runs.items()):
        target = max(by_target, key=lambda one: len({name for run in by_target[one] for name in run.plan.methods}))
        unread += [
            f"{' '.join(key)}: what explains {other!r} instead of {target!r} stays on its own page."
            for other in by_target
            if other != target
        ]
        own = by_target[target]
        sets[key] = _of_set(pandas.concat([run.scores for run in own]), pandas.concat([run.alone for run in own]))
    return Collected({key: one for key, one in sets.items() if one.tables}, claims, unread)


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("A study", "bench") from error
    return pandas


def _of_set(scores: pandas.DataFrame, alone: pandas.DataFrame) -> SetScores:
    scores = scores.assign(
        method=[plain_method(str(one)) for one in scores["method"]],
        metric=[plain_metric(str(one)) for one in scores["metric"]],
    )
    scores = scores[scores["method"].notna() & scores["metric"].notna()]
    # Two studies measure some methods on the same texts: these are counted once.
    scores = scores.drop_duplicates(["example", "target", "method", "metric"])
    known = catalogue("metric")
    tables = {}
    for metric, rows in scores.groupby("metric", sort=True):
        if question_of(str(metric)) is None or str(metric) not in known:
            continue
        # Only texts that all methods were measured on, so that nobody is held against others on other texts.
        measured = [set(own) for _, own in rows.groupby("method")["example"]]
        rows = rows[rows["example"].isin(set.intersection(*measured) or set.union(*measured))]
        wide = rows.pivot_table(index="example", columns="method", values="value", aggfunc="mean", dropna=False)
        wide = wide.loc[:, wide.notna().any()]
        if wide.shape[1] > 2:
            tables[str(metric)] = (tuple(map(str, wide.columns)), wide.to_numpy(dtype=np.float64))
    costs = alone.assign(method=[plain_method(str(one)) for one in alone["method"]])
    costs = costs[costs["method"].notna()]
    means = costs.assign(rows=costs["forwards"] + costs["backwards"]).groupby("method")[["seconds", "rows"]].mean()
    return SetScores(
        tables,
        {str(name): float(row["seconds"]) for name, row in means.iterrows()},
        {str(name): float(row["rows"]) for name, row in means.iterrows()},
    )


# Numbers


def higher(metric: str) -> float:
    """1 where higher is better, -1 where lower is."""
    return 1.0 if catalogue("metric")[metric].get("better") == "higher" else -1.0


def places(values: Numbers, sign: float) -> Numbers:
    """Of every method the share of the others that are better, equals half; NaN where it has no value. (method,)"""
    known = ~np.isnan(values)
    found = np.full(len(values), np.nan)
    if known.sum() > 1:
        found[known] = (rankdata(-sign * values[known]) - 1) / (known.sum() - 1)
    return found


def _drawn(table: Numbers, chance: np.random.Generator | None) -> Numbers:
    """The means of all methods, of the texts as they are or drawn again. (method,)"""
    chosen = table if chance is None else table[chance.integers(0, len(table), len(table))]
    there = ~np.isnan(chosen)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Numbers = np.where(there, chosen, 0.0).sum(0) / there.sum(0)
    return found


def with_interval(
    sets: Mapping[SetAndBase, SetScores], statistic: Callable[[np.random.Generator | None], Mapping[str, float]]
) -> dict[str, Estimate]:
    """Numbers by name with their 95% intervals over redrawn texts. statistic: draws by a generator, or not at all."""
    value, chance = statistic(None), np.random.default_rng(0)
    texts = sum(max(len(table) for _, table in one.tables.values()) for one in sets.values() if one.tables)
    drawn: dict[str, list[float]] = {name: [] for name in value}
    for _ in range(ROUNDS):
        for name, one in statistic(chance).items():
            if name in drawn and np.isfinite(one):
                drawn[name].append(one)
    found = {}
    for name, one in value.items():
        if np.isfinite(one):
            edges = np.quantile(drawn[name], [0.025, 0.975]) if len(drawn[name]) > 1 else (None, None)
            low, high = (None if edge is None else float(edge) for edge in edges)
            found[name] = Estimate(float(one), low, high, texts)
    return found


def mean_places(
    sets: Mapping[SetAndBase, SetScores], group: str, chance: np.random.Generator | None = None
) -> dict[str, float]:
    """Every method's mean place by a group of metrics: over the metrics of a data set, then over data sets."""
    by_method: dict[str, list[float]] = {}
    for one in sets.values():
        own: dict[str, list[float]] = {}
        for metric, (methods, table) in one.tables.items():
            if question_of(metric) == group:
                for method, place in zip(methods, places(_drawn(table, chance), higher(metric)), strict=True):
                    if np.isfinite(place):
                        own.setdefault(method, []).append(float(place))
        for method, found in own.items():
            by_method.setdefault(method, []).append(float(np.mean(found)))
    return {method: float(np.mean(found)) for method, found in by_method.items()}


def placed(sets: Mapping[SetAndBase, SetScores], group: str) -> dict[str, Estimate]:
    """Mean places by a group of metrics, with their intervals."""
    return with_interval(sets, lambda chance: mean_places(sets, group, chance))


def groups_of(sets: Mapping[SetAndBase, SetScores]) -> list[str]:
    found = dict.fromkeys(question_of(metric) for one in sets.values() for metric in one.tables)
    return [group for group in found if group is not None]


def metric_agreement(
    sets: Mapping[SetAndBase, SetScores], chance: np.random.Generator | None = None
) -> dict[tuple[str, str], float]:
    """Spearman's correlation of the orders that two metrics give methods, mean over data sets that have both."""
    found: dict[tuple[str, str], list[float]] = {}
    for one in sets.values():
        means = {
            metric: dict(zip(methods, higher(metric) * _drawn(table, chance), strict=True))
            for metric, (methods, table) in one.tables.items()
        }
        for a, b in combinations(sorted(means), 2):
            common = [
                method
                for method in means[a]
                if method in means[b] and np.isfinite(means[a][method]) and np.isfinite(means[b][method])
            ]
            if len(common) < 4:
                continue
            x, y = (rankdata([means[metric][method] for method in common]) for metric in (a, b))
            x, y = x - x.mean(), y - y.mean()
            if x.any() and y.any():
                found.setdefault((a, b), []).append(float(x @ y / np.sqrt((x @ x) * (y @ y))))
    return {pair: float(np.mean(values)) for pair, values in found.items()}


def diagnosticity(table: Numbers, methods: Sequence[str], sign: float) -> Numbers:
    """Of every text the share of methods that the metric prefers to random, equals half. (text,)"""
    floor = table[:, [methods.index(FLOOR)]]
    others = np.delete(table, methods.index(FLOOR), 1)
    better = np.where(np.isnan(others) | np.isnan(floor), np.nan, np.sign(sign * (others - floor)) / 2 + 0.5)
    there = ~np.isnan(better)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Numbers = np.where(there, better, 0.0).sum(1) / there.sum(1)
    return found


# Tables


def tables(found: Collected) -> list[StudyTable]:
    sets = found.sets
    shown = []
    if found.claims:
        shown += [_verdicts_table(found.claims), _claims_table(found.claims)]
    if sets:
        ranked = {group: placed(sets, group) for group in groups_of(sets)}
        shown += [
            _places_table(ranked),
            _tasks_table(sets),
            _agreement_table(sets),
            _diagnosticity_table(sets),
            _cost_table(sets),
            *_metric_tables(sets),
        ]
    return shown


def _verdicts_table(claims: Sequence[Mapping[str, Any]]) -> StudyTable:
    rows = []
    for study in dict.fromkeys(one["study"] for one in claims):
        own = [one["verdict"] for one in claims if one["study"] == study]
        rows.append((study, [StudyCell(str(own.count(name))) for name in ("confirmed", "refuted", "open")]))
    return StudyTable("What holds of each paper", "Claims by their verdict.", ["confirmed", "refuted", "open"], rows)


def _claims_table(claims: Sequence[Mapping[str, Any]]) -> StudyTable:
    rows = []
    for one in claims:
        value = one.get("found")
        measured = "not measured"
        if value is not None:
            measured = str(Estimate(value["value"], value["low"], value["high"], value["texts"]))
        cells = [
            StudyCell(one["study"]),
            StudyCell(one["words"]),
            StudyCell(measured),
            StudyCell(f"**{one['verdict']}**"),
        ]
        rows.append((one["name"], cells))
    return StudyTable("All claims", "", ["study", "what the paper says", "found", "verdict"], rows)


def _places_table(ranked: Mapping[str, Mapping[str, Estimate]]) -> StudyTable:
    every = list(dict.fromkeys(method for one in ranked.values() for method in one))

    def overall(method: str) -> float:
        return float(np.mean([one[method].value for one in ranked.values() if method in one]))

    every.sort(key=overall)
    rows = [
        (
            f"`{method}`",
            [StudyCell(figure(overall(method))), *(cell(one.get(method)) for one in ranked.values())],
        )
        for method in every
    ]
    note = (
        "The share of the other methods that are better, mean over metrics, then over data sets: 0 is the first, 1 the"
        " last. Methods are held against those that were measured on the same data sets. A group of metrics counts once"
        " in the mean of all."
    )
    return StudyTable("Mean place by group of metrics", note, ["all groups", *ranked], rows)


def best_of(sets: Mapping[SetAndBase, SetScores], group: str) -> tuple[list[str], dict[str, Estimate]]:
    """The method with the best mean place, then those whose interval reaches into its own."""
    ranked = placed(sets, group)
    order = sorted(ranked, key=lambda method: ranked[method].value)
    if not order:
        return [], {}
    first = ranked[order[0]]
    limit = first.value if first.high is None else first.high

    def lowest(one: Estimate) -> float:
        return one.value if one.low is None else one.low

    return [name for name in order if lowest(ranked[name]) <= limit], ranked


def _tasks_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    groups = groups_of(sets)
    rows = []
    for task, names in TASKS.items():
        own = {key: one for key, one in sets.items() if key[0] in names}
        if not own:
            continue
        cells = [StudyCell(", ".join(f"{name} {base}" for name, base in own))]
        for group in groups:
            best, ranked = best_of(own, group)
            text = ""
            if best:
                others = ", ".join(f"`{one}`" for one in best[1:6])
                text = f"`{best[0]}` {ranked[best[0]]}" + (f"; also {others}" if others else "")
                text += f" and {len(best) - 6} more" if len(best) > 6 else ""
            cells.append(StudyCell(text or "–"))
        rows.append((task, cells))
    note = "The method with the best mean place, and those whose interval reaches into its own."
    return StudyTable("Which method for which task", note, ["data sets", *groups], rows)


def _agreement_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    pairs = with_interval(
        sets, lambda chance: {f"{a}|{b}": value for (a, b), value in metric_agreement(sets, chance).items()}
    )
    metrics = sorted({name for pair in pairs for name in pair.split("|")})
    rows = []
    for one in metrics:
        cells = []
        for other in metrics:
            found = pairs.get(f"{min(one, other)}|{max(one, other)}")
            whole = found is not None and RATIONALE in (one, other)
            cells.append(
                StudyCell(
                    "" if one == other else "–" if found is None else str(found) if whole else figure(found.value)
                )
            )
        rows.append((f"`{one}`", cells))
    note = (
        "Spearman's correlation of the orders in which two metrics put the methods, mean over data sets; with"
        f" rationales (`{RATIONALE}`) with its interval."
    )
    return StudyTable("Which metrics agree", note, [f"`{name}`" for name in metrics], rows)


def _diagnosticity_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    metrics = sorted({metric for one in sets.values() for metric in one.tables})

    def shares(chance: np.random.Generator | None) -> dict[str, float]:
        by_metric: dict[str, list[float]] = {}
        for one in sets.values():
            for metric, (methods, table) in one.tables.items():
                if FLOOR not in methods:  # it has no scores for classes
                    continue
                value = _drawn(diagnosticity(table, methods, higher(metric))[:, None], chance)[0]
                if np.isfinite(value):
                    by_metric.setdefault(metric, []).append(float(value))
        return {metric: float(np.mean(values)) for metric, values in by_metric.items()}

    found = with_interval(sets, shares)
    metrics = sorted((one for one in metrics if one in found), key=lambda one: -found[one].value)
    rows = []
    for metric in metrics:
        cells = [cell(found[metric])]
        for one in sets.values():
            own = one.tables.get(metric)
            if own is None or FLOOR not in own[0]:
                cells.append(StudyCell("–"))
                continue
            value = _drawn(diagnosticity(own[1], own[0], higher(metric))[:, None], None)[0]
            cells.append(StudyCell(figure(float(value)) if np.isfinite(value) else "–"))
        rows.append((f"`{metric}`", cells))
    note = "How often a metric prefers a method to `random`, text by text: .5 is chance."
    return StudyTable("Diagnosticity", note, ["all", *(f"{name} {base}" for name, base in sets)], rows)


def costs(sets: Mapping[SetAndBase, SetScores]) -> dict[str, tuple[float, float]]:
    """Of every method: seconds of one explanation in those of a data set's median method, the geometric mean over data
    sets, so that long texts do not decide alone; and the mean of its rows.
    """
    ratios: dict[str, list[float]] = {}
    rows: dict[str, list[float]] = {}
    for one in sets.values():
        if not one.seconds:
            continue
        middle = float(np.median(list(one.seconds.values())))
        for method, seconds in one.seconds.items():
            if seconds > 0 and middle > 0:
                ratios.setdefault(method, []).append(seconds / middle)
                rows.setdefault(method, []).append(one.rows[method])
    return {
        method: (float(np.exp(np.mean(np.log(found)))), float(np.mean(rows[method])))
        for method, found in ratios.items()
    }


def _cost_table(sets: Mapping[SetAndBase, SetScores]) -> StudyTable:
    found = costs(sets)
    rows = []
    for method in sorted(found, key=lambda one: found[one][0]):
        cells = [StudyCell(f"{found[method][0]:.2g}"), StudyCell(f"{found[method][1]:.0f}")]
        cells += [StudyCell(f"{one.seconds[method]:.3g}" if method in one.seconds else "–") for one in sets.values()]
        rows.append((f"`{method}`", cells))
    note = (
        "One explanation alone, nothing shared: seconds, first in those of a data set's median method (geometric mean);"
        " and rows sent through the model, forth or back."
    )
    columns = ["beside the median", "rows", *(f"{name} {base}" for name, base in sets)]
    return StudyTable("What a method costs", note, columns, rows)


def _metric_tables(sets: Mapping[SetAndBase, SetScores]) -> Iterable[StudyTable]:
    for metric in sorted({metric for one in sets.values() for metric in one.tables}):
        own = {key: one.tables[metric] for key, one in sets.items() if metric in one.tables}
        means = {key: dict(zip(methods, _drawn(table, None), strict=True)) for key, (methods, table) in own.items()}
        methods = list(dict.fromkeys(method for one in means.values() for method in one))
        sign = higher(metric)

        def place(method: str, means: Mapping[SetAndBase, Mapping[str, float]] = means, sign: float = sign) -> float:
            found = [one[method] for one in means.values() if method in one and np.isfinite(one[method])]
            return -sign * float(np.mean(found)) if found else np.inf

        rows = [
            (
                f"`{method}`",
                [
                    StudyCell(figure(float(one[method])) if method in one and np.isfinite(one[method]) else "–")
                    for one in means.values()
                ],
            )
            for method in sorted(methods, key=place)
        ]
        counts = ", ".join(f"{name} {base} {len(table)}" for (name, base), (_, table) in own.items())
        note = f"{'Higher' if sign > 0 else 'Lower'} is better. Texts: {counts}."
        yield StudyTable(f"`{metric}`", note, [f"{name} {base}" for name, base in own], rows)


# The page


def study(folders: Sequence[Path], out: Path) -> StudyPage:
    """Put together the page from the folders of the other studies."""
    found = collect(folders)
    if not found.sets and not found.claims:
        raise BadFile(
            f"There is no finished run of a study in {', '.join(map(str, folders))}: run 'wherefrom study attcat' and"
            " the others first, and name their folders."
        )
    counts = ", ".join(
        f"{name} {base} {max(len(table) for _, table in one.tables.values())}"
        for (name, base), one in found.sets.items()
    )
    missing = [f"The study {name}: no page in these folders." for name in STUDIES if name not in _studies(found)]
    pictures = []
    drawn = against_cost(found.sets)
    if drawn:
        plots.faithfulness_against_cost(drawn, out / "all-cost.png")
        note = "Cheaper to the left, better above; bars are 95% intervals over texts."
        pictures.append(StudyPicture("all-cost.png", "Faithfulness (erasure metrics) against cost", note))
    return StudyPage(
        name="all",
        title="All studies on one page",
        about=(
            "Every method on every data set by every metric of the studies, under one protocol: the same texts, the"
            " same target, special tokens never ranked."
        ),
        facts=[
            f"Texts: {counts or 'none'}.",
            "Read from the folders of the studies; nothing is measured for this page alone.",
        ],
        tables=tables(found),
        claims=[],
        pictures=pictures,
        missing=[*missing, *found.unread],
        made=provenance(0.0),
    )


def _studies(found: Collected) -> set[str]:
    return {str(one["study"]) for one in found.claims}


def against_cost(sets: Mapping[SetAndBase, SetScores]) -> dict[str, tuple[float, Estimate]]:
    """Of every method its cost beside the median, and by which share of the others it is better by erasure metrics."""
    ranked = placed(sets, "erasure") if sets else {}
    spent = costs(sets)
    return {
        method: (
            spent[method][0],
            Estimate(
                1 - one.value,
                None if one.high is None else 1 - one.high,
                None if one.low is None else 1 - one.low,
                one.texts,
            ),
        )
        for method, one in ranked.items()
        if method in spent
    }


def write_into(page: StudyPage, path: Path) -> None:
    """Put the tables of the page between the two marks of a text file, in place of what stands there."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path} could not be read: {error.strerror or error}.") from error
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise BadFile(f"{path} has no place for the tables: a line {BEGIN!r} and, below it, a line {END!r}.")
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    facts = "\n".join(f"- {fact}" for fact in page.facts)
    write_atomically(path, f"{before}{BEGIN}\n\n{facts}\n\n{markdown_tables(page.tables)}\n{after}", "page")
