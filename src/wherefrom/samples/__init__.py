"""Small data sets inside the package, written for it, so that every command has something to run on."""

from __future__ import annotations

from pathlib import Path

from wherefrom.errors import UnknownName

__all__ = ["resolve", "sample_path"]

NAMES = {
    "reviews": "40 sentences about films, NEGATIVE or POSITIVE, with the words that say so marked",
    "pairs": "24 premises and hypotheses: entailment, contradiction or neutral, with rationales",
    "questions": "12 questions, each with a context that holds its answer",
    "trees": "15 sentences with their syntax, in CoNLL-U",
}
PREFIX = "sample:"


def sample_path(name: str) -> Path:
    """The file of a sample: `reviews`, `pairs`, `questions` or `trees`."""
    if name not in NAMES:
        raise UnknownName.among("sample", name, NAMES)
    return Path(__file__).parent / f"{name}.{'conllu' if name == 'trees' else 'jsonl'}"


def resolve(source: str) -> str:
    """The path of the sample that `sample:NAME` stands for; any other source is given back as it is."""
    return str(sample_path(source.removeprefix(PREFIX))) if source.startswith(PREFIX) else source
