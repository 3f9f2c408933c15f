"""Wherefrom tells where a transformer's decision comes from, and whether to believe the answer."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036  # reached where the source is on the path without having been installed
    raise ImportError("Wherefrom needs Python 3.11 or later; this is {}.{}.{}.".format(*sys.version_info[:3]))

if TYPE_CHECKING:
    from wherefrom.api import Model, explain, flow, load
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run
    from wherefrom.benchmark.store import Run
    from wherefrom.case.case import Attribution, Case
    from wherefrom.core.audit import Audit
    from wherefrom.core.comparison import Comparison, Grade
    from wherefrom.core.explanation import Explanation
    from wherefrom.core.family import Family
    from wherefrom.core.flip import Flip
    from wherefrom.core.flow import Flow
    from wherefrom.core.generation import Generation
    from wherefrom.core.interactions import Interactions
    from wherefrom.core.prediction import Prediction
    from wherefrom.core.source_grades import SourceGrade, SourcesComparison
    from wherefrom.core.sources import Source, Sources, Statement
    from wherefrom.errors import TextWasCut, WherefromError
    from wherefrom.grading.evidence import Evidence
    from wherefrom.model.tasks.task import Task
    from wherefrom.registry import (
        DataReader,
        find_method,
        list_methods,
        list_metrics,
        method,
        metric,
        register_family,
        register_reader,
        register_task,
    )

__version__ = "0.1.0"

__all__ = [
    "Attribution",
    "Audit",
    "Case",
    "Comparison",
    "DataReader",
    "Evidence",
    "Explanation",
    "Family",
    "Flip",
    "Flow",
    "Generation",
    "Grade",
    "Interactions",
    "Model",
    "Prediction",
    "Run",
    "RunPlan",
    "Source",
    "SourceGrade",
    "Sources",
    "SourcesComparison",
    "Statement",
    "Task",
    "TextWasCut",
    "WherefromError",
    "__version__",
    "explain",
    "find_method",
    "flow",
    "list_methods",
    "list_metrics",
    "load",
    "method",
    "metric",
    "register_family",
    "register_reader",
    "register_task",
    "run",
]

_HOME = {
    "Attribution": "wherefrom.case.case",
    "Audit": "wherefrom.core.audit",
    "Case": "wherefrom.case.case",
    "Comparison": "wherefrom.core.comparison",
    "Grade": "wherefrom.core.comparison",
    "Prediction": "wherefrom.core.prediction",
    "Evidence": "wherefrom.grading.evidence",
    "Run": "wherefrom.benchmark.store",
    "RunPlan": "wherefrom.benchmark.plan",
    "run": "wherefrom.benchmark.run",
    "Model": "wherefrom.api",
    "explain": "wherefrom.api",
    "flow": "wherefrom.api",
    "load": "wherefrom.api",
    "Explanation": "wherefrom.core.explanation",
    "Family": "wherefrom.core.family",
    "Flip": "wherefrom.core.flip",
    "Flow": "wherefrom.core.flow",
    "Generation": "wherefrom.core.generation",
    "Interactions": "wherefrom.core.interactions",
    "Source": "wherefrom.core.sources",
    "SourceGrade": "wherefrom.core.source_grades",
    "Sources": "wherefrom.core.sources",
    "SourcesComparison": "wherefrom.core.source_grades",
    "Statement": "wherefrom.core.sources",
    "Task": "wherefrom.model.tasks.task",
    "TextWasCut": "wherefrom.errors",
    "WherefromError": "wherefrom.errors",
    "find_method": "wherefrom.registry",
    "list_methods": "wherefrom.registry",
    "list_metrics": "wherefrom.registry",
    "method": "wherefrom.registry",
    "metric": "wherefrom.registry",
    "DataReader": "wherefrom.registry",
    "register_family": "wherefrom.registry",
    "register_reader": "wherefrom.registry",
    "register_task": "wherefrom.registry",
}


def __getattr__(name: str) -> Any:
    """Public names are fetched when first used, so that `import wherefrom` and `wherefrom --help` do not load torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'wherefrom' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
