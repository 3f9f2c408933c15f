"""The study of AttCAT."""

from __future__ import annotations

from wherefrom_studies.attcat.judging import judged
from wherefrom_studies.attcat.measuring import measure
from wherefrom_studies.attcat.paper import CONTRADICTIONS
from wherefrom_studies.attcat.pictures import pictures
from wherefrom_studies.attcat.tables import tables
from wherefrom_studies.pages import BASES
from wherefrom_studies.study import Study

STUDY = Study(
    name="attcat",
    title="AttCAT measured again",
    about=(
        'Qiang, Pan, Li, Li, Jang and Zhu, "AttCAT: Explaining Transformers via Attentive Class Activation'
        f' Tokens" (2022): its tables and figures, measured again with other models and fewer texts. {BASES}'
    ),
    measure=measure,
    tables=tables,
    judged=judged,
    pictures=pictures,
    contradictions=CONTRADICTIONS,
)
