"""The figures of ALTI's paper, drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wherefrom.report.plots import flow_matrix
from wherefrom_studies import plots
from wherefrom_studies.alti.measuring import AltiResults
from wherefrom_studies.alti.paper import COLUMN, FLOWS, PAPER, REVIEW, SEEDED, SENTENCE
from wherefrom_studies.bench import StudyModel, open_model
from wherefrom_studies.pages import StudyPicture


def pictures(results: AltiResults, out: Path) -> list[StudyPicture]:
    shown, examples = [], []
    with_cosines = {key: result for key, result in results.items() if result.outputs}
    if with_cosines:
        means = {
            f"{name} {base}": (np.mean(result.outputs, 0), np.mean(result.parts, 0))
            for (name, base), result in with_cosines.items()
        }
        plots.anisotropy(
            {name: pair[0] for name, pair in means.items()},
            {name: pair[1] for name, pair in means.items()},
            out / "alti-figure3.png",
        )
        shown.append(StudyPicture("alti-figure3.png", "Figure 3", "Outputs solid, parts dashed."))
    for (name, base), result in results.items():
        file = f"alti-figure6-{name}-{base}.png"
        lines = {method: np.array([curves[method] for curves in result.curves if method in curves]) for method in PAPER}
        lines = {method: many for method, many in lines.items() if len(many)}
        if lines:
            bands = {method: many.std(0, ddof=1) for method, many in lines.items()} if len(result.curves) > 1 else None
            middle = {method: many.mean(0) for method, many in lines.items()}
            plots.drop_curves(middle, out / file, shares=np.linspace(0, 1, 11), bands=bands)
            band = f"; the bands are one standard deviation over {len(result.curves)} seeds" if bands else ""
            shown.append(StudyPicture(file, f"Figures 6, 9: {name}, {base}", f"The drop in probability{band}."))
        for what, table, label in (
            ("7", result.jaccard, "Jaccard of the top quarters"),
            ("8", result.spearman, "Spearman"),
        ):
            if table is not None:
                file = f"alti-figure{what}-{base}.png"
                columns = {method: table[:, COLUMN[method]].tolist() for method in (*PAPER, "AttCAT", "random")}
                plots.boxes(columns, out / file, label=label)
                shown.append(StudyPicture(file, f"Figure {what}: {base}", "Between models of different seeds."))
        if name == SEEDED:
            examples += _examples(out, result.model, base)
    return shown + examples


def _examples(out: Path, model: StudyModel, base: str) -> list[StudyPicture]:
    """Figures 5 and 10 to 12 with the paper's sentence, and its Table 8."""
    loaded, shown = open_model(model), []
    for method in FLOWS:
        file = f"alti-flow-{method}-{base}.png"
        flow_matrix(loaded.flow(SENTENCE, method), out / file)
        shown.append(StudyPicture(file, f"Figures 5, 10 to 12: {method}, {base}"))
    if loaded.text_model.encode(REVIEW).cut:  # a small model cannot read all of it
        return shown
    methods = {"Grad l2": "saliency", "GxI l2": "input_x_gradient", "ALTI": "alti", "IG signed": "integrated_gradients"}
    options: dict[str, dict[str, Any]] = {"GxI l2": {"reduce": "l2"}}
    explained = {name: loaded.explain(REVIEW, method, **options.get(name, {})) for name, method in methods.items()}
    first = explained["ALTI"]
    plots.explanations_map(explained, out / f"alti-table8-{base}.png")
    caption = f"The model says {first.prediction} ({first.output:.2f}); every row is scaled by its largest score."
    return [*shown, StudyPicture(f"alti-table8-{base}.png", f"Table 8, {base}", caption)]
