"""An audit made by hand: nothing is computed. Every name in it may be made hostile."""

from __future__ import annotations

from wherefrom.core.audit import (
    Audit,
    AuditExample,
    AuditWord,
    CalibrationBin,
    Changes,
    Estimate,
    Fragility,
    Group,
    LabelScore,
    Misleading,
    Occurrence,
    Performance,
    Shortcut,
    TextChange,
    Trust,
    WordChange,
)
from wherefrom.core.explanation import Explanation

SOME = Estimate(0.8, 0.7, 0.9, 100)


def explained(text: str, label: str) -> Explanation:
    """An explanation of two words: a name that may be anything, and "film"."""
    return Explanation(
        text=f"{text} film",
        tokens=(text, "film"),
        scores=(0.7, -0.2),
        offsets=((0, len(text)), (len(text) + 1, len(text) + 5)),
        segment=(0, 0),
        target=label,
        method="occlusion",
        prediction=label,
        probability=0.9,
        level="word",
    )


def made(word: str = "zeta", label: str = "POSITIVE", *, against: bool = False) -> Audit:
    """Right on 80 of 100 texts, with one word, one misleading word and one shortcut."""
    place = Occurrence(word, f"a {word} film")
    listed = AuditWord(word, label, "content", 20, SOME, 9.0, 1e-9, SOME, SOME, (place,))
    changes = Changes(
        *(word, SOME, SOME, 3, 4, (WordChange(word, label, SOME, SOME, SOME, 0.01, (place,)),), 1, 7),
        *((f"{word} -> {label}",), (), (place,)),
    )
    return Audit(
        *(word, word, "2026-11-18", "labels", 100, 100, 0, (label, "NEGATIVE"), 12, 30, (listed,)),
        (Misleading(word, label, SOME, SOME, 9, SOME, 1e-6, (place,)),),
        (Shortcut("misleads", word, label, 20, SOME, SOME, SOME, SOME, 6.0, 1e-6, (place,)),),
        Performance(
            accuracy=SOME,
            labels=(LabelScore(label, 50, SOME, SOME, 0.8), LabelScore("NEGATIVE", 50, SOME, SOME, 0.8)),
            confusion=((40, 10), (10, 40)),
            calibration=(CalibrationBin(0.9, 1.0, 0.95, SOME),),
            groups=(Group(f"source = {word}", SOME),),
        ),
        Fragility(changes=(TextChange(word, label, SOME, SOME),)),
        Trust("occlusion", word, SOME, SOME, SOME),
        (AuditExample(word, label, True, explained(word, label), (word,), label, True),),
        changes if against else None,
        (f"A note about {word}.",),
        {word: word},
    )
