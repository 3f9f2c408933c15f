"""The study of Mask-LRP."""

from __future__ import annotations

from wherefrom_studies.mask_lrp.judging import judged
from wherefrom_studies.mask_lrp.measuring import measure
from wherefrom_studies.mask_lrp.paper import CONTRADICTIONS
from wherefrom_studies.mask_lrp.pictures import pictures
from wherefrom_studies.mask_lrp.tables import tables
from wherefrom_studies.pages import BASES
from wherefrom_studies.study import Study

STUDY = Study(
    name="mask-lrp",
    title="Mask-LRP measured again",
    about=(
        'Song et al., "Better Explain Transformers by Illuminating Important Information" (2024): its tables and'
        f" figures, measured again with other models and fewer texts. {BASES}"
    ),
    measure=measure,
    tables=tables,
    judged=judged,
    pictures=pictures,
    contradictions=CONTRADICTIONS,
)
