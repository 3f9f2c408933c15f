"""An audit in the terminal: the summary, then the words of every label."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from wherefrom.core.audit import Audit
from wherefrom.report.audit_wording import BRACKETS, effect, evidence, misled, sentences, short
from wherefrom.report.columns import TerminalColumn, print_columns

WORDS = 8  # of every label


def print_audit(audit: Audit, *, console: Console | None = None) -> None:
    """Print it."""
    console = console or Console(highlight=False)
    console.print(Text(f"{short(audit.model)} on {short(audit.data)}: {audit.texts:,} texts", "bold"))
    for sentence in sentences(audit):
        console.print(Text(f"- {sentence.text}", "bold" if sentence.alarming else ""))
    for shortcut in audit.shortcuts[1:]:
        console.print(Text(f"- {evidence(shortcut)}", "bold"))
    for word in audit.misleading[:WORDS]:
        console.print(Text(f"- {misled(word)}"))
    regression = audit.kind == "value"
    for label in dict.fromkeys(word.label for word in audit.words):
        heavy = [word for word in audit.words if word.label == label and word.kind == "content"][:WORDS]
        if not heavy:
            continue
        console.print()
        console.print(Text(f"{short(label)} leans on", "italic"))
        columns = {
            "texts": [f"{word.texts:,}" for word in heavy],
            "z": [f"{word.z or 0:.1f}" for word in heavy],
            "without it": [effect(word, regression=regression) for word in heavy],
        }
        names = TerminalColumn(("word",), tuple(Text(short(word.word)) for word in heavy))
        shown = [TerminalColumn((title,), tuple(map(Text, cells))) for title, cells in columns.items()]
        print_columns(console, (names, shown))
    console.print(Text(BRACKETS, "dim"))
    for note in audit.notes:
        console.print(Text(note, "dim"))
