"""An audit as the page shows it beside the run that it rests on: its findings, and words that show their examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wherefrom.audit.build import RESULT
from wherefrom.core.audit import Audit, AuditWord
from wherefrom.core.units import words
from wherefrom.report.audit_wording import effect, evidence, misled, sentences, short

MOST_WORDS = 24  # of every label
MOST_EXAMPLES = 400  # of every word


def audit_of(run: Path, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The audit in the folder above a run, for the examples of this run that the page has; None where there is none."""
    file = run.parent / RESULT
    if run.name != "run" or not file.is_file():
        return None
    audit = Audit.load(file)
    places = defaultdict[str, list[int]](list)
    for place, example in enumerate(examples):
        texts = [example["text"], example["pair"] or ""]
        for word in {text[start:end].lower() for text in texts for start, end in words(text)}:
            if len(places[word]) < MOST_EXAMPLES:
                places[word].append(place)

    def entry(word: str, texts: int, text: str) -> dict[str, Any]:
        return {"name": short(word), "texts": texts, "text": text, "examples": places.get(word, [])}

    groups = []
    suspected = [one for one in audit.shortcuts if one.kind != "metadata"]
    if suspected:
        listed = [entry(one.name, one.texts, evidence(one)) for one in suspected]
        groups.append({"name": "suspected shortcuts", "words": listed})
    for label in dict.fromkeys(word.label for word in audit.words):
        own = [word for word in audit.words if word.label == label and word.kind == "content"][:MOST_WORDS]
        if own:
            groups.append(
                {"name": short(label), "words": [entry(one.word, one.texts, _told(audit, one)) for one in own]}
            )
    if audit.misleading:
        listed = [entry(one.word, one.errors.texts, misled(one)) for one in audit.misleading]
        groups.append({"name": "misleading", "words": listed})
    return {"sentences": [one.text for one in sentences(audit)], "groups": groups}


def _told(audit: Audit, word: AuditWord) -> str:
    regression = audit.kind == "value"
    what = "value" if regression else "probability"
    return f"without it the {what} falls by {effect(word, regression=regression)}"
