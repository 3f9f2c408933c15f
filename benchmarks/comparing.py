"""What `compare` costs: all methods and metrics on one text, in forward passes of that text, and what asking together
saves.

CPU time (time.process_time), the minimum of several, on the six-layer MiniLM with two labels; only ratios mean
anything.

    python -m benchmarks.comparing [--markdown]
"""

import argparse
from datetime import date

import torch

from benchmarks.speed import alternate, minilm
from wherefrom.case.asking import Asker
from wherefrom.core.comparison import Comparison
from wherefrom.grading.choosing import chosen_methods, chosen_metrics
from wherefrom.grading.compare import Comparer, Query
from wherefrom.grading.grade import grade
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount, TextModel

SHORT = "The plot is thin and slow, but a witty cast saves it."
LONG = (
    "A gorgeous, witty and seductive movie that nonetheless overstays its welcome:"
    " the first hour is a small miracle of tone and rhythm,"
    " the second repeats every joke until it dies. Still, nobody leaves without"
    " a favourite scene, and the songs are so good that"
    " one forgives the rest, almost."
)
SAMPLED = ("lime", "kernel_shap")  # they cost what their budget says
GOAL_SHORT, GOAL_LONG = 150, 0.5


FIRST = ("attention", "gradient", "perturbation", "floor")  # the families there were when the goal was set


def comparer(model: TextModel, *, first: bool) -> Comparer:
    every = [choice.row for choice in chosen_methods("all") if choice.row.name not in SAMPLED]
    names = [row.name for row in every if row.family in FIRST or not first]
    return Comparer(model, chosen_methods(names), chosen_metrics("all", offered=["others", "rationale"]))


def measure(text: str, repeats: int, *, first: bool) -> tuple[dict[str, float], Comparison]:
    model = minilm()
    encoding = model.encode(text)
    inputs, compare = inputs_of(model.network, [encoding]), comparer(model, first=first)
    query = Query(encoding, rationale=([(0, 9)], ()))
    last: list[Comparison] = []

    def forward() -> None:
        with torch.no_grad():
            model.run(inputs, PassCount(), whole=True)

    def together() -> None:
        last[:] = compare.compare([query])

    for _ in range(3):
        forward()
    together()
    best = alternate({"forward": forward, "compare": together}, repeats)
    asking = [one for one in compare.metrics if hasattr(one.metric, "questions")]
    jobs = compare._gathered([0], [query], Asker(model), [], lambda _: None)[0].jobs
    none = Comparer(model, compare.methods, chosen_metrics("entropy"))
    runs = {
        "explanations alone": lambda: none.compare([query]),
        "asked together": lambda: grade(jobs, asking, Asker(model)),
        "each metric apart": lambda: [
            grade(jobs, [one], Asker(model)) for one in asking
        ],  # still shared between the methods
    }
    best |= alternate(runs, repeats)
    best |= alternate({"nothing shared": lambda: grade(jobs, asking, Asker(model, share=False))}, 1)  # minutes
    best["tokens"] = len(encoding)
    return best, last[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    rows = []
    for text, first in ((SHORT, True), (SHORT, False), (LONG, False)):
        best, found = measure(text, given.repeats, first=first)
        rows.append(
            {
                "tokens": f"{best['tokens']:.0f}",
                "methods x metrics": f"{len(found.names)} x {len(found.metrics)}",
                "compare, in forwards": f"{best['compare'] / best['forward']:.0f}",
                "explanations alone": f"{best['explanations alone'] / best['forward']:.0f}",
                "questions": str(found.asked),
                "distinct": str(found.distinct),
                "rows": str(found.rows),
                "of each metric apart": f"{best['asked together'] / best['each metric apart']:.2f}",
                "of nothing shared": f"{best['asked together'] / best['nothing shared']:.2f}",
            }
        )
    if given.markdown:
        print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
        for row in rows:
            print("| " + " | ".join(row.values()) + " |")
        return
    print(
        f"{date.today()}, torch {torch.__version__}, {torch.get_num_threads()} threads;"
        f" goals: {GOAL_SHORT} forwards, {GOAL_LONG} of apart"
    )
    for row in rows:
        print("; ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
