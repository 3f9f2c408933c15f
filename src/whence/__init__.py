"""Whence tells where a transformer's decision comes from, and whether to believe the answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.api import Model, explain, flow, load
    from whence.core.explanation import Explanation
    from whence.core.flow import Flow
    from whence.errors import TextWasCut, WhenceError
    from whence.registry import method, metric

__version__ = "0.1.0"

__all__ = ["Explanation", "Flow", "Model", "TextWasCut", "WhenceError", "__version__", "explain", "flow", "load", "method", "metric"]

_HOME = {
    "Model": "whence.api",
    "explain": "whence.api",
    "flow": "whence.api",
    "load": "whence.api",
    "Explanation": "whence.core.explanation",
    "Flow": "whence.core.flow",
    "TextWasCut": "whence.errors",
    "WhenceError": "whence.errors",
    "method": "whence.registry",
    "metric": "whence.registry",
}


def __getattr__(name: str) -> Any:
    """Public names are fetched when first used, so that `import whence` and `whence --help` do not load torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'whence' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
