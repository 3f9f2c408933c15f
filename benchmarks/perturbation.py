"""LIME and Kernel SHAP: how near a budget comes to a large one, beside captum's own classes as they come, and what it
costs.

Nearness is the Pearson and Spearman correlation of a text's scores with those of a reference of many samples and
another seed, the mean of several seeds; captum's own Lime is compared with ours, for it has no large budget that is
worth something. Time is process time of one thread over that of one forward pass of the same text, the least of
several, in one process.

    python benchmarks/perturbation.py [--budgets 64 256 1024] [--seeds 3] [--methods kernel_shap] [--ours]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from captum.attr import KernelShap, Lime
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from wherefrom.api import Model, load
from wherefrom.case.case import Case, make_cases

SHORT = "A gorgeous, witty film, but the plot drags and the ending is a mess."
LONG = (
    SHORT + " The actors try hard and some of the scenes are truly moving, yet nothing can"
    " save the dull and endless second half, which left"
    " me cold and tired in my seat."
)
Numbers = NDArray[np.float64]


def ours(model: Model, text: str, method: str, samples: int, seed: int) -> Numbers:
    scores = [unit.score for unit in model.explain(text, method, samples=samples, seed=seed).units()]
    return np.array(scores)


def theirs(model: Model, text: str, method: str, samples: int, seed: int) -> Numbers:
    """captum's class with its own draws, weights and linear model, on the logit, in one batch."""
    case = fresh(model, text)
    real = ~case.special

    def forward(rows: Tensor) -> Tensor:
        keep = case.special.repeat(len(rows), 1)
        keep[:, real] = rows > 0
        return case.ask(keep, case.model.hiding.usual_fill())

    torch.manual_seed(seed)
    explainer = {"lime": Lime, "kernel_shap": KernelShap}[method](forward)
    ones = torch.ones(1, int(real.sum()))
    found: Numbers = explainer.attribute(ones, n_samples=samples, perturbations_per_eval=samples)[0].double().numpy()
    return found


def fresh(model: Model, text: str) -> Case:
    (cases,) = make_cases(model.text_model, [model.text_model.encode(text)], [None])
    return cases[0]


def answer(model: Model, text: str) -> Tensor:
    """One forward pass."""
    return fresh(model, text).logits


def least(work: Callable[[], object], repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--reference", type=int, default=8192)
    parser.add_argument("--methods", nargs="+", default=["lime", "kernel_shap"])
    parser.add_argument("--ours", action="store_true", help="without captum's own")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = load("embedded")
    print("| | tokens | samples | Pearson | Spearman | scores of zero | gap | time over a forward pass |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for text in (SHORT, LONG):
        once = least(partial(answer, model, text), 10)
        for method in given.methods:
            reference = ours(model, text, method, given.reference, 99)
            for name, run in ((f"`{method}`", ours), (f"captum's own {method}", theirs))[: 1 if given.ours else 2]:
                for samples in given.budgets:
                    found = [run(model, text, method, samples, seed) for seed in range(given.seeds)]
                    linear = np.mean([pearsonr(one, reference)[0] if one.any() else 0.0 for one in found])
                    ranked = np.mean([spearmanr(one, reference)[0] if one.any() else 0.0 for one in found])
                    zero = np.mean([(one == 0).mean() for one in found])
                    cost = least(partial(run, model, text, method, samples, 0), 2) / once
                    gap = model.explain(text, method, samples=samples).gap if run is ours else None
                    told = "" if gap is None else f"{abs(gap):.0e}"
                    print(
                        f"| {name} | {len(reference)} | {samples} | {linear:.3f} | {ranked:.2f}"
                        f" | {zero:.0%} | {told} | {cost:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
