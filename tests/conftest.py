"""Tests run without a network and with one thread a worker: small models are slower, not faster, on two.

`make test-portable` asks for two by OMP_NUM_THREADS, because other threads add up in another order.
"""

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many comparisons tests/differential made, where it was run."""
    passed = terminalreporter.stats.get("passed", [])
    made = sum(number for report in passed for name, number in report.user_properties if name == "comparisons")
    if made:
        terminalreporter.write_line(f"{made:,} comparisons of the same text (tests/differential)")
