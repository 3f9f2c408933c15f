"""What early stopping saves Optimus, and what it loses: rows that were asked, and RFT of the combination that was taken
beside that of the whole search. Every unit of every text is asked once; the rules then run on these answers.

Texts are JSON lines with a field "text". Those of more tokens than --longest are cut there; with --cut, shorter ones
are left out, so that all have about that length.

    python benchmarks/stopping.py MODEL FILE [--skip 0] [--texts 50] [--longest 64] [--cut] [--widths 0.5 1 2]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path

import numpy as np
import torch

import wherefrom
from wherefrom.api import Model
from wherefrom.case.case import make_cases
from wherefrom.core.arrays import Numbers
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.metrics.rft import Rft, rft
from wherefrom.optimus.search import RawChoice, all_candidates, real_units, searched, shared_answers
from wherefrom.optimus.stopping import WIDTH, Slopes, Stop, ask_until_clear, step_of
from wherefrom.registry import find_method

SHORTEST = 8  # tokens


def texts_of(model: Model, path: Path, longest: int, *, cut: bool) -> Iterator[str]:
    """Texts in the order of the file, at most so long."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = str(json.loads(line)["text"])
        encoding = model.text_model.encode(text)
        if len(encoding) > longest:
            yield text[: encoding.offsets[longest - 2][1]]
        elif not cut and len(encoding) >= SHORTEST:
            yield text


def answered(model: Model, text: str, raw: RawChoice) -> tuple[Numbers, Numbers, float, int]:
    """The weights of all combinations, the effect of hiding each unit, the probability, and the length in tokens."""
    encoding = model.text_model.encode(text)
    reads = find_method("optimus").needs({"raw": raw})
    (cases,) = make_cases(model.text_model, [encoding], [None], reads=reads)
    case = cases[0]
    (answers,) = shared_answers(case, searched(case, "label"), ConfiguredMetric.read("rft"))
    weights = all_candidates(case, raw).weights[:, real_units(case)].numpy()
    return weights, answers.drops, answers.whole, len(encoding)


def stopped(text: tuple[Numbers, Numbers, float, int], stop: Stop, width: float) -> tuple[float, ...]:
    """Rows asked, units, RFT of what was taken, of the best, of the baseline, and whether the two are the same."""
    weights, effects, whole, tokens = text
    slopes, step = Slopes(*Rft().slopes(weights)), step_of(len(effects), tokens)
    ended = ask_until_clear(
        slopes, lambda units: effects[None, units], stop=stop, whole=[whole], step=step, width=width
    )
    scores = rft(weights, effects)
    best = int(scores.argmax())
    taken = best if ended.queried.all() else int(np.nanargmax(ended.totals))
    return float(ended.queried.sum()), len(effects), scores[taken], scores[best], scores[0], float(taken == best)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model")
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--skip", type=int, default=0)
    arguments.add_argument("--texts", type=int, default=50)
    arguments.add_argument("--longest", type=int, default=64)
    arguments.add_argument("--cut", action="store_true")
    arguments.add_argument("--raw", choices=["A", "A*", "both"], default="A")
    arguments.add_argument("--widths", type=float, nargs="+", default=[WIDTH])
    given = arguments.parse_args()
    torch.set_num_threads(1)
    model = wherefrom.load(given.model)
    texts = texts_of(model, given.file, given.longest, cut=given.cut)
    found = [answered(model, text, given.raw) for text in islice(texts, given.skip, given.skip + given.texts)]
    print(f"{date.today()}, {given.file.name}, {len(found)} texts of {np.mean([one[3] for one in found]):.0f} tokens\n")
    print("| stop | rows asked | RFT kept | of its lead over the baseline | the same combination |")
    print("|---|---:|---:|---:|---:|")
    rules: list[tuple[Stop, float]] = [("certain", 0.0), *(("likely", width) for width in given.widths)]
    for stop, width in rules:
        asked, units, taken, best, baseline, same = np.array([stopped(one, stop, width) for one in found]).T
        name = f"{stop}, {width:g}" if stop == "likely" else stop
        lead = (taken - baseline).sum() / (best - baseline).sum()
        print(
            f"| {name} | {asked.sum() / units.sum():.1%} | {taken.sum() / best.sum():.1%} | {lead:.1%} |"
            f" {same.mean():.0%} |"
        )


if __name__ == "__main__":
    main()
