"""Public types for annotations, as `numpy.typing` has them."""

from wherefrom.core.arrays import Numbers
from wherefrom.core.encoding import TextOrPair
from wherefrom.core.target import Target
from wherefrom.core.units import Level, Span
from wherefrom.progress import OnProgress

__all__ = ["Level", "Numbers", "OnProgress", "Span", "Target", "TextOrPair"]
