"""What the studies left in their folders, by data set and base."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wherefrom import Run
from wherefrom.catalogue import catalogue
from wherefrom.errors import BadFile, MissingExtra
from wherefrom.files import read_json
from wherefrom.optimus import BASELINE
from wherefrom.statistics import question_of
from wherefrom.typing import Numbers
from wherefrom_studies.bench import SetAndBase

if TYPE_CHECKING:
    import pandas

STUDIES = ("optimus", "attcat", "alti", "mask-lrp", "sparse")
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


def plain_method(written: str) -> str | None:
    """The method's name on this page; None for a variant that belongs to one paper."""
    if written in PLAIN:
        return PLAIN[written]
    name, _, options = written.partition(":")
    if not options or name == "lime":
        return name
    if name == "mask_lrp":
        values = dict(part.partition("=")[::2] for part in options.split(":"))
        own_heads = OWN_HEADS.search(values.pop("heads", "")) is not None
        return (
            {(): "mask_lrp", (("bare", "skip"),): "mask_lrp:bare=skip"}.get(tuple(values.items()))
            if own_heads
            else None
        )
    return written if written == "optimus:raw=both" else None


def family_of(method: str) -> str:
    """Of a method as it is called on this page; the baseline of Optimus is attention."""
    row = catalogue("method").get(method.partition(":")[0])
    return "attention" if row is None else str(row.get("family"))


def plain_metric(name: str) -> str | None:
    """The metric's name on this page; None for a variant."""
    return PLAIN.get(name) or (None if ":" in name else name)


@dataclass(frozen=True)
class SetScores:
    """Of one data set and base: by metric, every method's value for every text, NaN where it has none."""

    tables: Mapping[str, tuple[tuple[str, ...], Numbers]]  # metric -> methods, (text, method); the same texts for all
    seconds: Mapping[str, float] = field(default_factory=dict)  # of one explanation alone
    rows: Mapping[str, float] = field(default_factory=dict)  # sent through the model, forth or back

    @property
    def texts(self) -> int:
        return len(next(iter(self.tables.values()))[1])


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
                read = [{"study": name, **claim} for claim in read_json(page).get("claims", [])]
                claims += [claim for claim in read if claim not in claims]  # the same page may be in two folders
    sets = {}
    for key, by_target in sorted(runs.items()):
        target = max(
            by_target, key=lambda target_key: len({name for run in by_target[target_key] for name in run.plan.methods})
        )
        unread += [
            f"{' '.join(key)}: what explains {other!r} instead of {target!r} stays on its own page."
            for other in by_target
            if other != target
        ]
        set_runs = by_target[target]
        sets[key] = _of_set(
            pandas.concat([run.scores for run in set_runs]), pandas.concat([run.alone for run in set_runs])
        )
    return Collected(
        {key: collected_set for key, collected_set in sets.items() if collected_set.tables}, claims, unread
    )


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("A study", "bench") from error
    return pandas


def _of_set(scores: pandas.DataFrame, alone: pandas.DataFrame) -> SetScores:
    scores = scores.assign(
        method=[plain_method(str(entry)) for entry in scores["method"]],
        metric=[plain_metric(str(entry)) for entry in scores["metric"]],
    )
    scores = scores[scores["method"].notna() & scores["metric"].notna()]
    # Two studies measure some methods on the same texts: these are counted once.
    scores = scores.drop_duplicates(["example", "target", "method", "metric"])
    known = catalogue("metric")
    wides = {}
    for metric, rows in scores.groupby("metric", sort=True):
        if question_of(str(metric)) is None or str(metric) not in known:
            continue
        # Only texts that all methods were measured on, so that nobody is held against others on other texts.
        measured = [set(examples) for _, examples in rows.groupby("method")["example"]]
        rows = rows[rows["example"].isin(set.intersection(*measured) or set.union(*measured))]
        wide = rows.pivot_table(index="example", columns="method", values="value", aggfunc="mean", dropna=False)
        wide = wide.loc[:, wide.notna().any()]
        if wide.shape[1] > 2:
            wides[str(metric)] = wide
    texts = sorted({text for wide in wides.values() for text in wide.index})
    tables = {
        metric: (tuple(map(str, wide.columns)), wide.reindex(texts).to_numpy(dtype=np.float64))
        for metric, wide in wides.items()
    }
    costs = alone.assign(method=[plain_method(str(entry)) for entry in alone["method"]])
    costs = costs[costs["method"].notna()]
    means = costs.assign(rows=costs["forwards"] + costs["backwards"]).groupby("method")[["seconds", "rows"]].mean()
    return SetScores(
        tables,
        {str(name): float(row["seconds"]) for name, row in means.iterrows()},
        {str(name): float(row["rows"]) for name, row in means.iterrows()},
    )
