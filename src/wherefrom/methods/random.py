"""Random: scores that know nothing, the floor that every other method has to beat. The same text and seed give the same
scores.
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from wherefrom.case.case import Case
from wherefrom.registry import method


@method(
    family="floor",
    signed=True,
    per_class=False,
    reads="nothing",
    paper="none",
    one_pass=True,
    sets={"compare": 8},
)
def random(case: Case, *, seed: int = 0) -> Tensor:
    text = "\0".join((str(seed), case.encoding.text, case.encoding.pair or ""))
    generator = torch.Generator().manual_seed(zlib.crc32(text.encode("utf-8", "surrogatepass")))
    return torch.randn(len(case.encoding), generator=generator)
