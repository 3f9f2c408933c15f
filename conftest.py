"""Tests run without a network and with one thread a worker: small models are slower, not faster, on two.

`make test-portable` asks for two by OMP_NUM_THREADS, because other threads add up in another order.
"""

import os
from collections import Counter
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many comparisons tests/differential made, and what became of the calls of tests/fuzz, where they were run."""
    numbers: Counter[str] = Counter()
    for report in (*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])):
        numbers.update(dict(report.user_properties))
    if made := numbers["comparisons"]:
        terminalreporter.write_line(f"{made:,} comparisons of the same text (tests/differential)")
    if numbers["answered"]:
        terminalreporter.write_line(
            f"{numbers['answered']:,} calls answered, {numbers['refused']:,} refused (tests/fuzz)"
        )
