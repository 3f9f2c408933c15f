"""What the page shows, as plain data: texts cut into units, explanations with their tests, verdicts in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wherefrom.catalogue import floor_method
from wherefrom.core.comparison import Comparison, printed
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import token_label, visible
from wherefrom.core.names import join_names
from wherefrom.core.units import Level
from wherefrom.report.colour import scale_of
from wherefrom.report.comparison_sheet import in_words
from wherefrom.report.effect import loudness_of, unit_in_words, warning
from wherefrom.report.wording import duration, findings, notes_of, options, unassigned


@dataclass(frozen=True)
class PageUnits:
    """A text as the page shows it: stretches that can be hidden, and what is between them.

    Units that share a character, as the bytes of an emoji do, are one stretch. Special tokens are none.
    """

    encoding: Encoding
    level: Level

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The token positions of every unit of the level, special tokens among them."""
        return self.encoding.members(self.level)

    @cached_property
    def groups(self) -> list[list[int]]:
        """The units of every stretch, by their place among `members`."""
        groups: list[list[int]] = []
        edge = (-1, 0)  # the part of the text, and the last character that is taken
        for place, group in enumerate(self.members):
            part, (start, end) = self.encoding.segment[group[0]], self._span(group)
            if part < 0:
                continue
            if edge[0] == part and start < edge[1] and groups:
                groups[-1].append(place)
                edge = (part, max(edge[1], end))
            else:
                groups.append([place])
                edge = (part, end)
        return groups

    def _span(self, group: Sequence[int]) -> tuple[int, int]:
        return (
            min(self.encoding.offsets[token][0] for token in group),
            max(self.encoding.offsets[token][1] for token in group),
        )

    @cached_property
    def spans(self) -> list[tuple[int, int, int]]:
        """Of every stretch: the part of the text it is in, its first character, and the end (exclusive)."""
        spans = []
        for group in self.groups:
            tokens = [token for place in group for token in self.members[place]]
            part, (start, end) = self.encoding.segment[tokens[0]], self._span(tokens)
            text = self.texts[part][start:end]
            if text.strip():
                start, end = start + len(text) - len(text.lstrip()), end - (len(text) - len(text.rstrip()))
            spans.append((part, start, end))
        return spans

    @property
    def raw_spans(self) -> list[tuple[int, int, int]]:
        """The characters of every stretch as its tokens have them, white space included: (start, end, segment)."""
        tokens = [[token for place in group for token in self.members[place]] for group in self.groups]
        return [(*self._span(stretch), self.encoding.segment[stretch[0]]) for stretch in tokens]

    @property
    def texts(self) -> list[str]:
        return [self.encoding.text] if self.encoding.pair is None else [self.encoding.text, self.encoding.pair]

    def tokens(self, stretches: Sequence[int]) -> list[int]:
        """The token positions of these stretches."""
        return [token for stretch in stretches for place in self.groups[stretch] for token in self.members[place]]

    def pooled(self, scores: Sequence[float]) -> list[float]:
        """Scores of units as those of stretches."""
        return [sum(scores[place] for place in group) for group in self.groups]

    @property
    def lines(self) -> list[list[PlainRun]]:
        """Every part of the text, or every turn of a chat, in runs: its text, the number of its stretch, whether the
        model did not read it.
        """
        lines = []
        for part, first, last in self._extents:
            reached, runs, text = first, list[PlainRun](), self.texts[part][:last]
            for number, (home, start, end) in enumerate(self.spans):
                if home != part or end <= first or last <= start:
                    continue
                start = max(start, reached)
                runs += [(visible(text[reached:start]), None, False), (visible(text[start:end]), number, False)]
                reached = max(end, reached)
            runs.append((visible(text[reached:]), None, self.encoding.cut > 0))
            lines.append([run for run in runs if run[0]])
        return lines

    @property
    def _extents(self) -> list[tuple[int, int, int]]:
        """What each line shows: a part of the text, its first character, and the end (exclusive). The template of a
        chat is not shown.
        """
        if self.encoding.turns:
            return [(0, start, end) for _, start, end in self.encoding.turns]
        return [(part, 0, len(text)) for part, text in enumerate(self.texts)]

    def replaced(self, replacements: Mapping[int, str]) -> tuple[list[str], list[tuple[int, int, int] | None]]:
        """The texts with other words in the place of some stretches, and where every stretch is then, as (start, end,
        segment); None for one that is replaced by nothing.
        """
        texts, spans = [""] * len(self.texts), list[tuple[int, int, int] | None]()
        reached = [0] * len(self.texts)
        for number, (part, start, end) in enumerate(self.spans):
            start = max(start, reached[part])
            texts[part] += self.texts[part][reached[part] : start]
            new = replacements.get(number, self.texts[part][start:end])
            spans.append((len(texts[part]), len(texts[part]) + len(new), part) if new else None)
            texts[part] += new
            reached[part] = max(end, start)
        return [text + self.texts[part][reached[part] :] for part, text in enumerate(texts)], spans


PlainRun = tuple[str, int | None, bool]


def text_data(units: PageUnits) -> dict[str, Any]:
    """A text as the page draws it."""
    encoding = units.encoding
    return {
        "lines": units.lines,
        "roles": [visible(role) for role, _, _ in encoding.turns],
        "units": [token_label(units.texts[part][start:end]) or "·" for part, start, end in units.spans],
        "tokens": len(encoding),
        "cut": encoding.cut,
    }


def explanation_data(explanation: Explanation, units: PageUnits, spec: str) -> dict[str, Any]:
    """A method's row: its scores by stretch and how they are coloured, its test, its cost, its doubts."""
    scores = units.pooled(explanation.scores)
    scale = scale_of(scores, signed=explanation.signed, loudness=loudness_of(explanation))
    check = explanation.check
    return {
        "asked": spec,
        "method": explanation.method,
        "options": visible(options(explanation.params)),
        "signed": explanation.signed,
        "floor": explanation.method == floor_method(),
        "scores": scores,
        "full": scale.full,
        "start": scale.start,
        "loudness": scale.loudness,
        "target": visible(explanation.target),
        "unit": unit_in_words(explanation),
        "probability": explanation.output,
        "verdict": None if check is None else check.verdict,
        "findings": [visible(f"{finding.sentence} {finding.which}".strip()) for finding in findings(explanation)],
        "warning": warning(explanation),
        "notes": [visible(note) for note in notes_of(explanation)],
        "apart": [[name, value] for name, value in unassigned(explanation)],
        "seconds": duration(explanation.seconds),
        "forwards": explanation.forwards,
        "backwards": explanation.backwards,
        "check_rows": 0 if check is None else check.rows,
        "layers": None if explanation.layers is None else [units.pooled(layer) for layer in explanation.layers],
    }


def comparison_of(explanations: Mapping[str, Explanation], failed: Mapping[str, str] | None = None) -> Comparison:
    """The explanations of one text side by side, without grades: their own tests decide."""
    return Comparison(
        tuple(explanations.values()), tuple(() for _ in explanations), tuple(explanations), dict(failed or {})
    )


def verdict_data(explanations: Mapping[str, Explanation]) -> dict[str, Any]:
    """What the methods agree on and where they differ, in words."""
    comparison = comparison_of(explanations)
    conclusion = comparison.conclusion()
    words = in_words(comparison)
    floor = next((candidate.check for candidate in explanations.values() if candidate.method == floor_method()), None)
    if words and conclusion.basis == "checks" and floor is not None:
        words = f"{words} {floor_method()}, which knows nothing of the text, is {floor.verdict}."
    checks = [explanation.check for explanation in explanations.values() if explanation.check is not None]
    if not words and checks and all(check.verdict == "too short" for check in checks):
        words = (
            "The text is too short to tell: random choices of words are few, and mostly share those that are tested."
        )
    return {
        "words": visible(words),
        "supported": list(conclusion.supported),
        "weak": list(conclusion.weak),
        "not_supported": list(conclusion.not_supported),
    }


def best_data(explanation: Explanation | None) -> dict[str, Any]:
    """Which of the methods on screen is the most faithful here, in words: ties are called ties, and where metrics that
    did not choose prefer another method, no winner is named.
    """
    if explanation is None:
        return {"words": "Add a second method to see which one is more faithful here.", "first": []}
    report = explanation.selection[0]
    metrics, better, grades = report["metrics"], report["better"], report["grades"]
    first, ties = report["chosen"], report["equals"]
    by = f"{metrics[0]} ({better[0]} is better)"
    if ties:
        words = f"{join_names([first, *ties])} are equally faithful here: {_figure(grades[first][0])} by {by}."
        return {"words": words, "first": [first, *ties]}
    second = report["runner_up"]
    compared = [
        (metric, side, grades[first][place], grades[second][place])
        for place, (metric, side) in enumerate(zip(metrics, better, strict=True))
        if grades[first][place] is not None and grades[second][place] is not None
    ]
    prefer = {
        metric: f"{metric} {_figure(one)} against {_figure(other)}"
        for metric, side, one, other in compared
        if _figure(one) != _figure(other) and (other > one) == (side == "higher")
    }
    score, next_score = _figure(grades[first][0]), _figure(grades[second][0])
    if prefer:
        words = (
            f"No clear winner here: by {by}, {first} is ahead of {second} ({score} against {next_score});"
            f" other metrics prefer {second}: {'; '.join(prefer.values())}."
        )
        return {"words": words, "first": [first, second]}
    words = f"{first} is the most faithful method on screen here: {score} by {by}; next is {second} with {next_score}."
    others = [metric for metric, *_ in compared[1:]]
    agree = f" No other metric prefers {second}: {', '.join(others)}." if others else ""
    return {"words": words + agree, "first": [first]}


def _figure(value: float | None) -> str:
    return "–" if value is None else printed(value)
