"""Optimus: attention operations, the search for the most faithful combination of them, and combinations fitted on
texts.
"""

from wherefrom.optimus.combination import BASELINE, Combination, Fitted
from wherefrom.optimus.fit import fit
from wherefrom.optimus.grades import grade_combinations
from wherefrom.optimus.search import RawChoice

__all__ = ["BASELINE", "Combination", "Fitted", "RawChoice", "fit", "grade_combinations"]
