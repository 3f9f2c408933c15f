"""Runs over whole data sets: reading them, explaining and measuring every example, keeping the numbers, and the tables
made of them.
"""

import wherefrom.core.arrays  # noqa: F401  # says so where numpy is too old
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.store import Run
from wherefrom.benchmark.thermostat import read_thermostat, write_thermostat

__all__ = ["Run", "RunPlan", "read_thermostat", "write_thermostat"]
