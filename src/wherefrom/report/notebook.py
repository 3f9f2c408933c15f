"""Whether somebody looks from a notebook, and a view shown there."""

from __future__ import annotations

import sys
from typing import Any


def shown_in_notebook(view: Any) -> bool:
    """Show the HTML view of a result below the cell that is running, where there is one; say whether there was.

    IPython in a terminal has no HTML: only a kernel's shell has. Nothing is imported that the notebook did not import.
    """
    ipython, output = sys.modules.get("IPython"), sys.modules.get("IPython.display")
    if ipython is None or output is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return False
    output.display(view)  # which asks for its _repr_html_, and keeps the plain text beside it
    return True
