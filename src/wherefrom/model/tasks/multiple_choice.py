"""Multiple choice: which of several endings or answers fits a text. The second text has the choices, one a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import SavedTarget, Target, is_number
from wherefrom.errors import BadOption, NotDefined, UnknownName, WherefromError, WrongModel
from wherefrom.model.tasks.several_rows import codes_of, gathered, has_types
from wherefrom.model.tasks.task import TargetSpec, Task, rather_than, restored_classes, two_of
from wherefrom.registry import register_task

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

MOST = 32  # choices of a text


@dataclass(frozen=True)
class MultipleChoice(Task):
    name = "multiple_choice"
    auto = "AutoModelForMultipleChoice"
    sample_pair = "It is.\nIt is not."
    several_rows = "the text goes through the model once for every choice"

    def independent(self, model: TextModel) -> bool:
        del model
        return False

    def labels(self, model: TextModel) -> list[str]:
        del model
        return []

    def read(self, model: TextModel, text: str, pair: str | None) -> Encoding:
        """The tokens of the text, then those of every choice, each once. The token types say which: 0 is the text, and
        the choices count from 1.
        """
        choices = _choices(pair)
        if len(choices) < 2:
            raise WherefromError(
                "Multiple choice takes a text and its choices, one a line: explain((text, 'one\\ntwo')), or --pair."
            )
        if len(choices) > MOST:
            raise WherefromError(f"There are {len(choices)} choices; at most {MOST} are allowed.")
        read = [model.reading.tokenize(text, choice, model.reading.limit) for choice, _ in choices]
        for row in read:
            if 1 not in row.segment:
                raise WherefromError("The text is so long that nothing is left of a choice. Shorten it.")
            if 0 in row.segment[row.segment.index(1) :]:
                raise WrongModel("The tokenizer does not put the second text of a pair after the first.")
        first = min(read, key=lambda row: row.segment.count(0))  # a long choice leaves less room for the text
        edges = [row.segment.index(1) for row in read]
        edge = first.segment.index(1)
        parts = [
            (number, place, start)
            for number, (row, (_, start)) in enumerate(zip(read, choices, strict=True), 1)
            for place in range(edges[number - 1], len(row))
        ]
        return replace(
            first,
            text=text,
            pair=pair,
            tokens=first.tokens[:edge] + tuple(read[n - 1].tokens[place] for n, place, _ in parts),
            input_ids=first.input_ids[:edge] + tuple(read[n - 1].input_ids[place] for n, place, _ in parts),
            token_type_ids=(0,) * edge + tuple(number for number, _, _ in parts),
            offsets=first.offsets[:edge]
            + tuple(
                (0, 0)
                if read[n - 1].segment[place] < 0
                else (read[n - 1].offsets[place][0] + start, read[n - 1].offsets[place][1] + start)
                for n, place, start in parts
            ),
            segment=first.segment[:edge] + tuple(read[n - 1].segment[place] for n, place, _ in parts),
            cut=max(row.cut for row in read),
        )

    def rows(
        self, model: TextModel, inputs: dict[str, Tensor], embeddings: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        chosen = [
            (row, [place for place, code in enumerate(codes) if code in (0, choice)])
            for row, codes in enumerate(codes_of(inputs))
            for choice in range(1, _count(codes) + 1)
        ]
        second = _type_of_second(model) if has_types(model) else 0
        types = (lambda code: second if code else 0) if has_types(model) else None
        inputs_of_rows, vectors = gathered(model, inputs, embeddings, chosen, types)
        return {name: value[:, None] for name, value in inputs_of_rows.items()}, vectors  # as a text with one choice

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, choice), filled up with choices that cannot be chosen."""
        del positions
        scores: Tensor = output.logits.flatten()
        counts = [_count(codes) for codes in codes_of(inputs)]
        by_text = scores.new_full((len(counts), MOST), -torch.inf)
        for row, (count, part) in enumerate(zip(counts, scores.split(counts), strict=True)):
            by_text[row, :count] = part
        return by_text

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        del model
        for part in spec if isinstance(spec, tuple) else (spec,):
            if part is not None and not isinstance(part, str | int):
                raise BadOption(f"The target of multiple choice is a choice, or its number from 0, not {spec!r}.")
        return None

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        if spec is None:
            return [self.predicted(model, logits, encoding)]
        if isinstance(spec, tuple):
            first, second = (_choice(part, encoding) for part in two_of(spec))
            return [rather_than(first, second)]
        return [_choice(spec, encoding)]

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        classes = restored_classes(label, saved, len(_choices(encoding.pair)), independent=False)
        return classes or self.targets(model, label, logits, encoding)

    def predicted(self, model: TextModel, logits: Tensor, _encoding: Encoding) -> Target:
        del model
        return _choice(int(logits.argmax()), _encoding)

    def others(self, model: TextModel, target: Target) -> Sequence[Target]:
        raise NotDefined("choices belong to one text, and are not classes of the model")

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        del model, target
        chances = logits[logits.isfinite()].double().softmax(-1).tolist()
        return {f"choice {number}": chance for number, chance in enumerate(chances, 1)}


def _choices(pair: str | None) -> list[tuple[str, int]]:
    """The choices and where each starts in the second text."""
    spans, start = [], 0
    for line in (pair or "").split("\n"):
        if line.strip():
            spans.append((line, start))
        start += len(line) + 1
    return spans


def _count(codes: Sequence[int]) -> int:
    """How many choices a row has; one where all of its tokens were deleted, so that there is something to ask."""
    return max(1, *codes)


def _choice(spec: str | int, encoding: Encoding) -> Target:
    named = [choice.strip() for choice, _ in _choices(encoding.pair)]
    if isinstance(spec, int):
        if not 0 <= spec < len(named):
            raise UnknownName(f"There is no choice {spec}: the text has {len(named)}, numbered from 0.")
        return Target(spec, named[spec])
    if spec.strip() in named:
        return Target(named.index(spec.strip()), spec.strip())
    if is_number(spec):
        return _choice(int(spec), encoding)
    raise UnknownName.among("choice", spec, named)


def _type_of_second(model: TextModel) -> int:
    """The token type of the second text of a pair."""
    with model.reading.lock:
        return int(model.reading.tokenizer("a", "b")["token_type_ids"][-1])


register_task(MultipleChoice())
