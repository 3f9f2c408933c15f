"""The figures of Mask-LRP's paper, drawn again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wherefrom.report.head_map import head_map_plot
from wherefrom_studies import plots
from wherefrom_studies.bench import StudyModel, open_model
from wherefrom_studies.mask_lrp.measuring import MaskResults
from wherefrom_studies.mask_lrp.paper import AOPC, PAPER, RANGE, SENTENCE, SWEPT, TEXT_SETS
from wherefrom_studies.pages import StudyPicture


def pictures(results: MaskResults, out: Path) -> list[StudyPicture]:
    shown = []
    for (name, base), result in results.items():
        label = f"{name}, {base}"
        if any(relation.distances for relation in result.heads.relations.values()):
            file = f"mask-lrp-figure1-{name}-{base}.png"
            plots.distance_shares(
                {name: relation.distances for name, relation in result.heads.relations.items()}, out / file, reach=RANGE
            )
            note = "Where governors stand, in words from their dependents."
            shown.append(StudyPicture(file, f"Figure 1: {label}", note))
        file = f"mask-lrp-figure5-{name}-{base}.png"
        head_map_plot(result.heads.kinds(), out / file, title=f"{label}: heads in {result.heads.texts} texts")
        shown.append(StudyPicture(file, f"Figure 5: {label}"))
        if name in TEXT_SETS:
            curves, wanted = result.runs.curves(AOPC), [*PAPER, "TransAtt", "ALTI", "Ours"]
            lines = {title: curves[result.methods[title]] for title in wanted if result.methods.get(title) in curves}
            file = f"mask-lrp-figure3-{name}-{base}.png"
            plots.drop_curves(lines, out / file, shares=np.linspace(0, 1, 11))
            shown.append(StudyPicture(file, f"Figure 3: {label}", "The drop in probability."))
        if name == SWEPT and "Ours" in result.methods:
            shown.append(_difference(out, result.model, base, result.methods["Ours"]))
    return shown


def _difference(out: Path, model: StudyModel, base: str, heads: str) -> StudyPicture:
    """Figure 6: what the mask changes, as the difference to TransAtt."""
    loaded = open_model(model)
    masked = loaded.explain(SENTENCE, "mask_lrp", heads=heads.partition("heads=")[2])
    plain = loaded.explain(SENTENCE, "transatt")
    kept = [place for place, left_out in enumerate(plain.special) if not left_out]
    rows = {
        "Ours": [masked.scores[place] for place in kept],
        "TransAtt": [plain.scores[place] for place in kept],
        "difference": [masked.scores[place] - plain.scores[place] for place in kept],
    }
    file = f"mask-lrp-figure6-{base}.png"
    plots.impact_map(rows, [plain.tokens[place] for place in kept], out / file)
    return StudyPicture(file, f"Figure 6: {base}", f"The model says {plain.prediction} ({plain.output:.2f}).")
