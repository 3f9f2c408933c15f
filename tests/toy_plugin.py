"""What another package would bring through the entry point `wherefrom.methods`."""

import torch
from torch import Tensor

from wherefrom import method
from wherefrom.case.case import Case


@method(family="toy", signed=False, per_class=False, reads="nothing", paper="none")
def plugged(case: Case) -> Tensor:
    """Every token counts one."""
    return torch.ones(len(case.encoding))
