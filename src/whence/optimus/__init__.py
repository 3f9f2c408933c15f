"""Optimus: attention operations, the search for the most faithful combination of them, and combinations fitted on texts."""

from whence.optimus.combination import BASELINE, Combination, Fitted
from whence.optimus.fit import fit

__all__ = ["BASELINE", "Combination", "Fitted", "fit"]
