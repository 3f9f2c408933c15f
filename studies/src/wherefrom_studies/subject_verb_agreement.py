"""Subject-verb agreement (Linzen et al. 2016): the verb is masked; singular or plural is decided at [MASK], and
explained from there.

A recipe for data of one sentence a line: text, the right form of its verb (label), the wrong one (foil), where the verb
stands (verb_span).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wherefrom import Explanation, Model
from wherefrom.errors import WrongModel
from wherefrom.heads import Tree

SUBJECTS = ("nsubj", "nsubjpass")
BELOW_THE_PREDICATE = ("aux", "auxpass", "cop")  # a verb of this relation has its subject at its governor
RELATIVE = ("that", "which", "who", "what", "there")  # their number is that of another word


@dataclass(frozen=True)
class Sentence:
    """A sentence with its verb in the right and in the wrong number."""

    text: str
    right: str
    wrong: str
    start: int
    end: int
    attractors: int = 0  # nouns of the other number between subject and verb

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Sentence:
        """Of a row of Linzen et al.; raises ValueError where the verb is not at its place."""
        start, end = row["verb_span"]
        if row["text"][start:end] != row["label"]:
            raise ValueError(f"the verb {row['label']!r} is not at {start}-{end}")
        return cls(row["text"], row["label"], row["foil"], start, end, row.get("n_attractors", 0))

    def masked(self, mask: str) -> str:
        """The sentence with its verb hidden."""
        return self.text[: self.start] + mask + self.text[self.end :]


def explain(model: Model, sentence: Sentence, method: str = "alti", **options: Any) -> Explanation:
    """Why the right form of the verb rather than the wrong one, read at [MASK]. [MASK] itself is special: no metric
    removes it.
    """
    if model.text_model.task.name != "masked_lm":
        raise WrongModel("Subject-verb agreement is decided at [MASK]: give a masked language model.")
    text = sentence.masked(str(model.text_model.reading.tokenizer.mask_token))
    return model.explain(text, method, (sentence.right, sentence.wrong), **options)


def subject_of(tree: Tree, start: int, end: int) -> tuple[int, int] | None:
    """Where the subject of the verb at these characters stands: its one nominal subject, in front of it and no relative
    pronoun. None where the tree names no such word.
    """
    verb = next((word for word in tree.words if word.start < end and word.end > start), None)
    if verb is None:
        return None
    predicate = tree.words.index(verb)
    if verb.relation.partition(":")[0] in BELOW_THE_PREDICATE and verb.head >= 0:
        predicate = verb.head
    subjects = [word for word in tree.words if word.head == predicate and word.relation.partition(":")[0] in SUBJECTS]
    if (
        len(subjects) != 1
        or subjects[0].end > start
        or tree.text[subjects[0].start : subjects[0].end].lower() in RELATIVE
    ):
        return None
    return subjects[0].start, subjects[0].end
