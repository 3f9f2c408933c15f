"""Whether somebody works in a notebook."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this: IPython in a terminal shows no HTML, only a kernel's shell does.

    Nothing is imported that the notebook did not import.
    """
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None
