"""The study of ALTI."""

from __future__ import annotations

from wherefrom_studies.alti.judging import judged
from wherefrom_studies.alti.measuring import measure
from wherefrom_studies.alti.paper import CONTRADICTIONS
from wherefrom_studies.alti.pictures import pictures
from wherefrom_studies.alti.tables import tables
from wherefrom_studies.pages import BASES
from wherefrom_studies.study import Study

STUDY = Study(
    name="alti",
    title="ALTI measured again",
    about=(
        'Ferrando, Gállego and Costa-jussà, "Measuring the Mixing of Contextual Information in the Transformer"'
        f" (2022): its tables and figures, measured again with other models and fewer texts. {BASES}"
    ),
    measure=measure,
    tables=tables,
    judged=judged,
    pictures=pictures,
    contradictions=CONTRADICTIONS,
)
