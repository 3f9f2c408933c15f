"""What an explanation's own test costs, as a ratio to the explanation and to one forward pass in the same process.

CPU time (time.process_time), the minimum of several, taken in turns, on the six-layer MiniLM with two labels. The words
of each text differ: of equal words, hiding any three is one question.

    python -m benchmarks.checking [--repeats 9] [--lengths 16,64] [--methods attcat]
"""

import argparse
import platform
from datetime import date
from functools import partial

import torch

from benchmarks.speed import LENGTHS, alternate, minilm
from wherefrom.api import Model
from wherefrom.model.network import inputs_of
from wherefrom.model.text_model import PassCount, TextModel

METHODS = ("attcat", "integrated_gradients", "kernel_shap")  # the last at the shortest length only: it asks much itself


def text_of(model: TextModel, length: int) -> str:
    """Words of one token each, all of them different."""
    words = (
        word for word in model.reading.tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 4
    )
    return " ".join(sorted(words)[: length - 2])


def measure(length: int, methods: tuple[str, ...], repeats: int) -> list[str]:
    text_model = minilm()
    model, text = Model(text_model), text_of(text_model, length)
    inputs = inputs_of(text_model.network, [text_model.encode(text)])

    def forward() -> object:
        with torch.no_grad():
            return text_model.run(inputs, PassCount())

    rows = []
    for method in methods:
        times = alternate(
            {
                "forward": forward,
                "plain": partial(model.explain, text, method),
                "checked": partial(model.explain, text, method, check=True),
            },
            repeats,
        )
        check = model.explain(text, method, check=True).check
        assert check is not None
        extra = times["checked"] - times["plain"]
        rows.append(
            f"| {method} | {length} | {check.rows} | {extra / times['plain']:.2f} | {extra / times['forward']:.1f} |"
        )
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=9)
    arguments.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="tokens, between commas")
    arguments.add_argument("--methods", default=",".join(METHODS), help="between commas")
    options = arguments.parse_args()
    wanted = tuple(options.methods.split(","))
    torch.set_num_threads(1)
    print(f"{date.today()}, {platform.machine()}, torch {torch.__version__}, 1 thread, {options.repeats} repeats\n")
    print("| method | tokens | rows of the check | check / explanation | check / forward pass |")
    print("|---|---:|---:|---:|---:|")
    for length in map(int, options.lengths.split(",")):
        longer = tuple(name for name in wanted if name != METHODS[-1])
        for row in measure(length, wanted if length == LENGTHS[0] else longer, options.repeats):
            print(row, flush=True)


if __name__ == "__main__":
    main()
