"""What the study of Mask-LRP measures on one data set with one base: its heads first, then its masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from scipy.stats import spearmanr

from wherefrom.errors import BadOption, WherefromError
from wherefrom.heads import HeadKind, HeadMap, Relation, Tree, find_heads, parse, read_trees
from wherefrom_studies.bench import SetAndBase, StudyBench, StudyModel, StudyRuns, open_model
from wherefrom_studies.data import Rows
from wherefrom_studies.mask_lrp.paper import (
    ANSWER_SETS,
    AOPC,
    BESIDE,
    DATASETS,
    MASKS,
    ODDS,
    OWN,
    PAPER,
    PRECISION,
    RELATION_TEXTS,
    SWEPT,
    THRESHOLDS,
)
from wherefrom_studies.pages import StudyCell, StudyTable
from wherefrom_studies.study import Measured, StudyRequest, each_set, measured_sets


@dataclass(frozen=True)
class MaskResult:
    """All results of one data set with one base."""

    model: StudyModel
    runs: StudyRuns
    heads: HeadMap
    methods: Mapping[str, str]  # the paper's name -> ours with its options; masks without any head are left out
    randoms: Sequence[str] = ()  # methods with random masks
    corrupted: Mapping[float, Sequence[str]] | None = None  # the share of wrong heads -> methods, one for each seed
    corrupted_runs: StudyRuns | None = None
    swept: Mapping[str, str] | None = None  # thresholds -> method
    other_ranks: Sequence[float] = ()  # 1 - Spearman of the published mask with transatt, one number a text
    same_depth: Sequence[str] = ()  # random masks with as many heads in every layer as the chosen mask

    def masks(self, name: str) -> Sequence[str]:
        """The methods whose mean goes by this name in the claims; none of another name."""
        return {"randoms": self.randoms, "same depth": self.same_depth}.get(name, ())

    @property
    def every_run(self) -> Sequence[StudyRuns]:
        return [self.runs] if self.corrupted_runs is None else [self.runs, self.corrupted_runs]


MaskResults = Mapping[SetAndBase, MaskResult]


def measure(bench: StudyBench, request: StudyRequest) -> Measured[MaskResults]:
    """Find heads, then run. Seeds: how many random masks, and corrupted masks of every share."""
    missing: list[str] = []
    results = {
        (name, base.name): measured(bench, name, bench.model(name, base), request.seeds, missing)
        for base, name in each_set(bench, request)
    }
    parser = parser_check(bench, next(iter(results.values())).model, missing)
    missing.append("GPT-2 and RoBERTa on SQuAD (the other columns of Table 2).")
    notes = [
        f"Heads were found on {bench.size.validation} other texts of each set, at most; QQP has duplicates alone.",
        "What is explained is the class that the model predicts; special tokens are never ranked.",
    ]
    return measured_sets(bench, results, DATASETS, notes, missing, parser)


def measured(bench: StudyBench, name: str, model: StudyModel, seeds: int, missing: list[str]) -> MaskResult:
    heads, file = head_map_of(bench, name, model)
    label = f"{name} {model.base}"
    masks = {title: f"mask_lrp:heads={file}{options}" for title, options in MASKS.items()}
    empty = _empty_masks(heads)
    if empty:
        missing.append(f"{label}: no head passes the paper's thresholds for {', '.join(empty)}.")
    methods = PAPER | BESIDE | {title: method for title, method in masks.items() if title not in empty}
    # Masks are drawn anew for every data set, so that how far masks differ is part of how far data sets differ.
    drawn_seeds = [] if "Ours" in empty else [1000 * DATASETS.index(name) + seed for seed in range(1, seeds + 1)]
    randoms = [f"{masks['Ours']}:random={seed}" for seed in drawn_seeds]
    same_depth = [f"mask_lrp:heads={_shuffled_within_layers(heads, file, seed)}" for seed in drawn_seeds]
    if name in ANSWER_SETS:
        return MaskResult(model, bench.run(name, model, list(methods.values()), [PRECISION]), heads, methods)
    swept: dict[str, str] = {}
    if name == SWEPT:
        swept = _swept(heads, file)
    queried = [
        *methods.values(),
        *randoms,
        *same_depth,
        *(method for method in swept.values() if method not in methods.values()),
    ]
    runs = bench.run(name, model, queried, [AOPC, ODDS])
    corrupted, corrupted_runs = None, None
    if name == SWEPT and "Ours" not in empty and seeds:
        shares = (0.25, 0.5, 0.75, 1.0) if bench.size.quick else tuple(step / 10 for step in range(1, 11))
        corrupted = {
            share: [f"{masks['Ours']}:corrupt={share}:seed={seed}" for seed in range(1, seeds + 1)] for share in shares
        }
        everything = [method for many in corrupted.values() for method in many]
        corrupted_runs = bench.run(name, model, everything, [AOPC])
    published = masks["Ours, published"] if "Ours, published" in methods else None
    ranks = other_ranks(runs, published) if published else []
    return MaskResult(model, runs, heads, methods, randoms, corrupted, corrupted_runs, swept, ranks, same_depth)


def _empty_masks(heads: HeadMap) -> list[str]:
    """The masks of `MASKS` of which the thresholds leave no head."""
    kinds: tuple[HeadKind, ...] = get_args(HeadKind)
    by_kind = {kind: any(map(any, heads.mask(only=kind))) for kind in kinds}
    needs: dict[str, HeadKind] = {":only=syntactic": "syntactic", ":only=positional": "positional"}
    return [title for title, options in MASKS.items() if not by_kind[needs.get(options, "all")]]


def head_map_of(bench: StudyBench, name: str, model: StudyModel) -> tuple[HeadMap, Path]:
    """The heads of a model on texts of a data set that are not measured on, and the file that they are kept in."""
    rows = _corpus(bench, name, model)
    if not rows:
        raise BadOption(f"{name} has no texts left to find heads on: take fewer with --texts.")
    key = [model.source, [row["id"] for row in rows]]
    file = (bench.out / "heads" / f"{name}-{model.base}-{bench.digest(key)}.json").resolve()
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        trees = [Tree(row["text"], pair=Tree(row["pair"]) if row.get("pair") else None) for row in rows]
        find_heads(open_model(model).text_model, parse(trees), positional=OWN[0], syntactic=OWN[1]).save(file)
    return HeadMap.load(file), file


def _shuffled_within_layers(heads: HeadMap, file: Path, seed: int) -> Path:
    """A file of the map with the heads of every layer exchanged: its mask is a random one of the same depth."""
    shuffled = file.with_name(f"{file.stem}-shuffled-{seed}.json")
    if not shuffled.is_file():
        chance = np.random.default_rng(seed)
        orders = [chance.permutation(len(row)) for row in heads.frequency]

        def exchanged(table: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
            return tuple(tuple(row[head] for head in order) for row, order in zip(table, orders, strict=True))

        relations = {
            name: replace(relation, follows=exchanged(relation.follows)) for name, relation in heads.relations.items()
        }
        replace(heads, offset=exchanged(heads.offset), frequency=exchanged(heads.frequency), relations=relations).save(
            shuffled
        )
    return shuffled


def _corpus(bench: StudyBench, name: str, model: StudyModel) -> Rows:
    """Texts for validation, or, where a set has none, those of the test behind the ones that are measured on."""
    count = bench.size.validation
    if bench.splits(name).valid:
        return bench.texts(name, model, count, "valid")
    return bench.texts(name, model, count, skip=bench.limits(name)[0])


def _swept(heads: HeadMap, file: Path) -> dict[str, str]:
    """The same heads by other thresholds, each in a file of its own, skipping blocks without a head."""
    by_thresholds = {}
    for positional, syntactic in THRESHOLDS:
        other = replace(heads, positional_threshold=positional, syntactic_threshold=syntactic)
        if any(map(any, other.mask())):
            setting_file = file.with_name(f"{file.stem}-{positional:g}-{syntactic:g}.json")
            if not setting_file.is_file():
                other.save(setting_file)
            by_thresholds[thresholds_named(positional, syntactic)] = f"mask_lrp:heads={setting_file}:bare=skip"
    return by_thresholds


def thresholds_named(positional: float, syntactic: float) -> str:
    return f"positional above {positional:g}, syntactic above {syntactic:g}"


def other_ranks(runs: StudyRuns, published: str) -> list[float]:
    """Of every text, 1 less Spearman's correlation of the published mask's scores with TransAtt's."""
    scores: dict[str, dict[str, list[float]]] = {}
    for row in runs.explanations():
        if row["method"] in (published, "transatt"):
            kept = [score for score, part in zip(row["scores"], row["segment"], strict=True) if part >= 0]
            scores.setdefault(row["example"], {})[row["method"]] = kept
    both = [ranks for ranks in scores.values() if len(ranks) == 2]
    pairs = [(ranks[published], ranks["transatt"]) for ranks in both]
    return [1 - float(spearmanr(a, b)[0]) for a, b in pairs if len(set(a)) > 1 and len(set(b)) > 1]


def parser_check(bench: StudyBench, model: StudyModel, missing: list[str]) -> list[StudyTable]:
    """A table of what gold trees and the parser's trees of the same sentences say about a model's heads, relation by
    relation; none where they are not at hand.
    """
    path = bench.data_dir / "ud_en_ewt.jsonl"
    if not path.is_file():
        missing.append("Whether the parser can be relied on: there is no file ud_en_ewt.jsonl (UD English EWT).")
        return []

    def cells(relation: Relation | None) -> list[str]:
        if relation is None:
            return ["0", "–", "–"]
        usual = f"{relation.baseline:.2f} at {relation.distance:+d}"
        return [str(relation.count), usual, f"{np.max(relation.follows):.2f}"]

    def compute() -> list[tuple[str, list[str]]]:
        reader = open_model(model).text_model
        gold_trees = [tree for tree in read_trees(path, limit=RELATION_TEXTS) if tree.words]
        gold, parsed = find_heads(reader, gold_trees).relations, find_heads(reader, parse(gold_trees)).relations
        return [(name, [*cells(relation), *cells(parsed.get(name))]) for name, relation in gold.items()]

    try:
        kept = bench.kept("parser", [model.source, RELATION_TEXTS], compute)
    except WherefromError as error:
        missing.append(f"Whether the parser can be relied on: {error}")
        return []
    columns = [f"{what}, {by}" for by in ("gold", "parser") for what in ("pairs", "usual distance", "best head")]
    note = "How often governors stand at their most usual distance, and how often the best head finds them."
    rows = [(name, [StudyCell(number) for number in numbers]) for name, numbers in kept]
    return [StudyTable("The parser beside gold trees (UD English EWT)", note, columns, rows)] if rows else []
