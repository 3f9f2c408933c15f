"""The figures of AttCAT's paper, drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wherefrom.report.plots import token_labels
from wherefrom_studies import plots
from wherefrom_studies.attcat.measuring import AttcatResults
from wherefrom_studies.attcat.paper import OWN, QUESTION, SENTENCE
from wherefrom_studies.bench import StudyModel, open_model
from wherefrom_studies.pages import StudyPicture


def pictures(results: AttcatResults, folder: Path) -> list[StudyPicture]:
    """Figures 4 and 5 with the paper's own examples."""
    drawn = []
    for (name, base), result in results.items():
        if name == "sst2":
            drawn += _sentence(folder, result.model, base)
        if name == "squad1":
            file = f"attcat-figure5a-{base}.png"
            loaded = open_model(result.model)
            methods = ("attcat", "transatt", "attention_rollout")
            plots.explanations_map({method: loaded.explain(QUESTION, method) for method in methods}, folder / file)
            drawn.append(StudyPicture(file, f"Figure 5a, {base}", "The answer is 'Denver Broncos'."))
    return drawn


def _sentence(folder: Path, model: StudyModel, base: str) -> list[StudyPicture]:
    loaded = open_model(model)
    impact = loaded.explain(SENTENCE, OWN)
    rows: dict[str, Sequence[float]] = {f"layer {n + 1}": layer for n, layer in enumerate(impact.layers or ())}
    rows |= {
        "rollout": loaded.explain(SENTENCE, OWN, layers="rollout").scores,
        "last": loaded.explain(SENTENCE, OWN, layers="last").scores,
        "sum": impact.scores,
    }
    layers, methods = f"attcat-figure4-{base}.png", f"attcat-figure5b-{base}.png"
    plots.impact_map(rows, token_labels(impact.tokens, impact.offsets, impact.segment, impact.text), folder / layers)
    others = ("transatt", "raw_attention", "attention_rollout")
    plots.explanations_map({OWN: impact} | {name: loaded.explain(SENTENCE, name) for name in others}, folder / methods)
    caption = f"The model says {impact.prediction} ({impact.probability:.2f})"
    return [
        StudyPicture(layers, f"Figure 4, {base}", f"{caption}; every row is scaled by its largest score."),
        StudyPicture(methods, f"Figure 5b, {base}", f"{caption}; blue speaks for it, orange against."),
    ]
