"""A view shown in a notebook."""

from __future__ import annotations

import sys
from typing import Any

from wherefrom.core.notebook import in_notebook


def shown_in_notebook(view: Any) -> bool:
    """Show the HTML view of a result below the cell that is running, where there is one; say whether there was."""
    output = sys.modules.get("IPython.display")
    if output is None or not in_notebook():
        return False
    output.display(view)  # shows its _repr_html_, with the plain text as fallback
    return True
