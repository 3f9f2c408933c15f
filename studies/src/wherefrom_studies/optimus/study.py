"""The study of Optimus."""

from __future__ import annotations

from wherefrom_studies.optimus.judging import judged
from wherefrom_studies.optimus.measuring import measure
from wherefrom_studies.optimus.paper import CONTRADICTIONS
from wherefrom_studies.optimus.pictures import pictures
from wherefrom_studies.optimus.tables import tables
from wherefrom_studies.pages import BASES
from wherefrom_studies.study import Study

STUDY = Study(
    name="optimus",
    title="Optimus measured again",
    about=(
        'Mylonas, Mollas and Tsoumakas, "An Attention Matrix for Every Decision: Faithfulness-based Arbitration'
        ' Among Multiple Attention-Based Interpretations of Transformers in Text Classification" (2023): its tables'
        " and figures, measured again with other models and fewer texts. B is the baseline (mean of heads, mean of"
        " layers, From), OB Optimus Batch, OP Optimus Prime, OL Optimus Label; a star stands for attention before"
        f" the softmax. {BASES}"
    ),
    measure=measure,
    tables=tables,
    judged=judged,
    pictures=pictures,
    contradictions=CONTRADICTIONS,
)
