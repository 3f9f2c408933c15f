"""Public statistics: the bootstrap over examples, groups of metrics, and the energy of computing time."""

from wherefrom.benchmark.statistics import Energy, question_of
from wherefrom.core.statistics import Interval, bootstrap, draw_counts, interval_of, weighted_means

__all__ = ["Energy", "Interval", "bootstrap", "draw_counts", "interval_of", "question_of", "weighted_means"]
