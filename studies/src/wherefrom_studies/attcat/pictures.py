"""The figures of AttCAT's paper, drawn again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wherefrom.report.plots import token_labels
from wherefrom_studies import plots
from wherefrom_studies.attcat.paper import OWN, QUESTION, SENTENCE
from wherefrom_studies.bench import SetAndBase, StudyBench, StudyModel, open_model
from wherefrom_studies.pages import StudyPicture


def pictures(bench: StudyBench, models: Mapping[SetAndBase, StudyModel]) -> list[StudyPicture]:
    """Figures 4 and 5 with the paper's own examples."""
    found = []
    for (name, base), model in models.items():
        if name == "sst2":
            found += _sentence(bench.out, model, base)
        if name == "squad1":
            file = f"attcat-figure5a-{base}.png"
            _drawn(bench.out / file, model, QUESTION, ("attcat", "transatt", "attention_rollout"))
            found.append(StudyPicture(file, f"Figure 5a, {base}", "The answer is 'Denver Broncos'."))
    return found


def _sentence(out: Path, model: StudyModel, base: str) -> list[StudyPicture]:
    loaded = open_model(model)
    impact = loaded.explain(SENTENCE, OWN)
    rows: dict[str, Sequence[float]] = {f"layer {n + 1}": layer for n, layer in enumerate(impact.layers or ())}
    rows |= {
        "rollout": loaded.explain(SENTENCE, OWN, layers="rollout").scores,
        "last": loaded.explain(SENTENCE, OWN, layers="last").scores,
        "sum": impact.scores,
    }
    names = token_labels(impact.tokens, impact.offsets, impact.segment, impact.text)
    plots.impact_map(rows, names, out / f"attcat-figure4-{base}.png")
    said = f"The model says {impact.prediction} ({impact.probability:.2f})"
    file = f"attcat-figure5b-{base}.png"
    _drawn(out / file, model, SENTENCE, ("attcat", "transatt", "raw_attention", "attention_rollout"))
    return [
        StudyPicture(
            f"attcat-figure4-{base}.png", f"Figure 4, {base}", f"{said}; every row is scaled by its largest score."
        ),
        StudyPicture(file, f"Figure 5b, {base}", f"{said}; blue speaks for it, orange against."),
    ]


def _drawn(path: Path, model: StudyModel, text: str | tuple[str, str], methods: Sequence[str]) -> None:
    loaded = open_model(model)
    shown = {name: loaded.explain(text, name) for name in methods}
    first = next(iter(shown.values()))
    kept = [place for place, left_out in enumerate(first.special) if not left_out]
    names = token_labels(first.tokens, first.offsets, first.segment, first.text, first.pair)
    plots.impact_map(
        {name: [one.scores[place] for place in kept] for name, one in shown.items()},
        [names[place] for place in kept],
        path,
    )
