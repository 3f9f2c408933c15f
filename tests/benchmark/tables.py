"""Whether two runs found the same."""

from __future__ import annotations

import numpy as np
import pandas as pd

from wherefrom.benchmark import Run


def same_tables(one: Run, other: Run) -> None:
    """Bit for bit; only times differ."""
    pd.testing.assert_frame_equal(one.scores, other.scores, check_exact=True)
    first, second = (frame.explanations.drop(columns="seconds") for frame in (one, other))
    for column in first.columns:
        for a, b in zip(first[column], second[column], strict=True):
            if isinstance(a, np.ndarray):
                assert [np.asarray(x).tolist() for x in a] == [np.asarray(x).tolist() for x in b], column
            else:
                assert a == b or (pd.isna(a) and pd.isna(b)), column
    pd.testing.assert_frame_equal(one.errors, other.errors)
