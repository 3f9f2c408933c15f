"""The section of a model card that says what a model leans on: Markdown, with date, data and limits."""

from __future__ import annotations

from wherefrom.core.audit import Audit
from wherefrom.report.audit_wording import BRACKETS, effect, evidence, misled, sentences, short

WORDS = 8  # of every label


def audit_card(audit: Audit) -> str:
    """The section in Markdown."""
    lines = ["## What this model leans on", ""]
    lines.append(
        f"Audited on {audit.date} over {audit.texts:,} texts of {code(audit.data)}, with"
        f" {' '.join(filter(None, ('Wherefrom', audit.facts.get('Wherefrom'))))}, by {code(audit.trust.method)}; model"
        f" {code(audit.model)}. {BRACKETS}"
    )
    lines += ["", *(f"- {plain(sentence.text)}" for sentence in sentences(audit))]
    regression = audit.kind == "value"
    labels = dict.fromkeys(word.label for word in audit.words)
    for label in labels:
        heavy = [word for word in audit.words if word.label == label and word.kind == "content"][:WORDS]
        if heavy:
            lines += ["", f"**{plain(short(label))}** leans on:", ""]
            lines += [
                f"- {code(word.word)}, in {word.texts:,} texts; without it the"
                f" {'value' if regression else 'probability'} falls by {effect(word, regression=regression)}"
                for word in heavy
            ]
    if audit.shortcuts:
        lines += ["", "**Suspected shortcuts**", "", *(f"- {plain(evidence(one))}" for one in audit.shortcuts)]
    if audit.misleading:
        lines += ["", "**What misleads it**", "", *(f"- {plain(misled(one))}" for one in audit.misleading[:WORDS])]
    lines += ["", "**Limits**", "", *(f"- {plain(limit)}" for limit in limits(audit))]
    return "\n".join(lines) + "\n"


def limits(audit: Audit) -> list[str]:
    """What the audit cannot say."""
    found = [
        "All numbers are about these data; a shortcut that goes with its label here as often as the model believes"
        " looks like a reason.",
        "A suspected shortcut is a reason to look, not a proof; no number is given for fewer than five texts.",
        *audit.notes,
    ]
    if audit.failed:
        found.append(f"{audit.failed:,} texts could not be explained and are left out.")
    return found


def code(text: str) -> str:
    """Anything from a model or from data, as code that no Markdown in it can leave."""
    return f"`{short(text).replace('`', 'ˋ')}`"


def plain(text: str) -> str:
    """A sentence with words from data in it, without Markdown or HTML."""
    for character in "\\`*_[]<>#|!~":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;")
