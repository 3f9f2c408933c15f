"""Names for the numpy arrays that pass between modules; their content and axes are documented where they are used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wherefrom.errors import TooOld

if int(np.__version__.partition(".")[0]) < 2:  # everything that computes comes by here
    raise TooOld("numpy", "2", np.__version__)

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]
