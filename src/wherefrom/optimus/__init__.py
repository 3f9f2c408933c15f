"""Optimus: attention operations, the search for the most faithful combination of them, and combinations fitted on
texts.
"""

from wherefrom.optimus.combination import BASELINE, Combination, Fitted
from wherefrom.optimus.fit import fit

__all__ = ["BASELINE", "Combination", "Fitted", "fit"]
