"""Public statistics: the bootstrap over examples, how alike two lists of scores are, groups of metrics, and the energy
of computing time.
"""

from wherefrom.benchmark.statistics import Energy, question_of
from wherefrom.core.statistics import Interval, bootstrap, draw_counts, interval_of, weighted_means
from wherefrom.metrics.jaccard_25 import jaccard
from wherefrom.metrics.spearman import spearman

__all__ = [
    "Energy",
    "Interval",
    "bootstrap",
    "draw_counts",
    "interval_of",
    "jaccard",
    "question_of",
    "spearman",
    "weighted_means",
]
