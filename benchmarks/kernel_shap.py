"""Kernel SHAP beside the `shap` package's KernelExplainer at the same budget: how far each is from the true values, and
whether our standard errors say so.

The error of a run is its largest miss of any unit over the largest true score; the table gives the median over seeds.
Up to twelve units the truth is exact, from every coalition; beyond, it is `kernel_shap` with many more samples and
another seed, whose own standard error is printed beside it. shap is run with its usual regularisation (the ten
strongest features of a lasso) and without. "covered" is the share of scores within two standard errors of the truth.

    pip install shap
    python benchmarks/kernel_shap.py [--seeds 20] [--reference 16384]
"""

import argparse
import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from wherefrom.api import Model, load
from wherefrom.case.case import Case, make_cases
from wherefrom.methods.kernel_shap import kernel_shap

TEXTS = {
    9: ("not a bad film at all , only long", "the film was not bad , but dull !"),
    12: ("A gorgeous, witty film, but the plot drags.", "Nobody could call this a good film , least of all me"),
    20: ("The plot is a mess, but the actors are charming and the music is lovely all the way.",),
}
BUDGETS = {9: (128, 256), 12: (128, 256, 1024), 20: (256, 1024)}
Numbers = NDArray[np.float64]


def fresh(model: Model, text: str) -> Case:
    (cases,) = make_cases(model.text_model, [model.text_model.encode(text)], [None])
    return cases[0]


def ours(case: Case, samples: int, seed: int) -> tuple[Numbers, Numbers]:
    found, real = kernel_shap(case, samples=samples, seed=seed), ~case.special
    errors = torch.full_like(found.scores, np.nan) if found.standard_errors is None else found.standard_errors
    return found.scores[real].numpy(), errors[real].numpy()


def theirs(case: Case, samples: int, seed: int, regularisation: str | bool) -> Numbers:
    import shap  # type: ignore[import-not-found, unused-ignore]  # not among the project's own dependencies

    real = ~case.special

    def answer(rows: Numbers) -> Numbers:
        keep = case.special.repeat(len(rows), 1)
        keep[:, real] = torch.tensor(rows) > 0
        told: Numbers = case.ask(keep, case.model.hiding.usual_fill()).double().numpy()
        return told

    units = int(real.sum())
    np.random.seed(seed)  # shap draws from numpy's global generator
    explainer = shap.KernelExplainer(answer, np.zeros((1, units)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = explainer.shap_values(np.ones((1, units)), nsamples=samples - 2, l1_reg=regularisation, silent=True)
    return np.asarray(found, dtype=np.float64).reshape(units)


def miss(found: Numbers, truth: Numbers) -> float:
    return float(np.abs(found - truth).max() / np.abs(truth).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--reference", type=int, default=16384)
    parser.add_argument("--units", type=int, nargs="+", default=list(TEXTS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = load("embedded")
    print(
        "| text | units | samples | kernel_shap | shap | shap, no lasso | standard error over the real one | covered |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for units in given.units:
        for text in TEXTS[units]:
            case = fresh(model, text)
            assert int((~case.special).sum()) == units, case.encoding.tokens
            truth, doubt = ours(case, given.reference, 99)
            for samples in BUDGETS[units]:
                runs = [ours(case, samples, seed) for seed in range(given.seeds)]
                median = float(np.median([miss(scores, truth) for scores, _ in runs]))
                lasso, plain = (
                    float(np.median([miss(theirs(case, samples, seed, how), truth) for seed in range(given.seeds)]))
                    for how in ("num_features(10)", False)
                )
                real = np.sqrt(np.mean([(scores - truth) ** 2 for scores, _ in runs]))
                said = np.sqrt(np.mean([errors**2 for _, errors in runs]))
                covered = np.mean([np.abs(scores - truth) <= 2 * errors for scores, errors in runs])
                print(
                    f"| {text} | {units} | {samples} | {median:.3f} | {lasso:.3f} | {plain:.3f} | {said / real:.2f} |"
                    f" {covered:.0%} |",
                    flush=True,
                )
            print(
                f"<!-- standard error of the reference over its largest score: {doubt.max() / abs(truth).max():.4f} -->"
            )


if __name__ == "__main__":
    main()
