"""What is asked, what is explained and what comes out."""

import numpy

from wherefrom.errors import TooOld

if int(numpy.__version__.partition(".")[0]) < 2:  # everything that computes comes by here
    raise TooOld("numpy", "2", numpy.__version__)
