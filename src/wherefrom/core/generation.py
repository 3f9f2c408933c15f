"""What a language model's continuation came from: a matrix of attributions, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any, ClassVar

from wherefrom.core.check import Check
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import token_label
from wherefrom.core.saved import Format, Saved
from wherefrom.core.target import SavedTarget
from wherefrom.core.units import Span
from wherefrom.errors import BadOption


def summed_note(count: int) -> str:
    """What a reader of an explanation of a whole output has to know."""
    return (
        f"The scores of {count} generated tokens are added up, and the probability is their geometric mean, that of one"
        " token; generate_and_explain gives each by itself."
    )


@dataclass(frozen=True)
class Generation(Saved):
    """How much each token of the prompt, and each token generated before, counts for every generated token.

    Attributes:
        text: the prompt; of a chat, as its template renders it; of a model with an encoder and a decoder, the source.
        tokens: the tokens of the prompt as the model saw them; after a source, those that every output begins with.
        offsets: (start, end) characters of each.
        segment: 0 in the prompt, -1 for tokens that the tokenizer or a chat's template added.
        generated: the tokens of the continuation, as they are written.
        scores: one row for each generated token: a score for every token of the prompt, then for every generated one.
            Those at and after the row's own token are zero.
        probabilities: the model's probability of each generated token; of the two that are compared, where there is
            another.
        versus: the token that each is compared with; None where there is none.
        turns: of a chat, (role, start, end): who says which characters of the prompt.
        method: the name of the method.
        params: every option of the method, as it was settled.
        signed: whether a negative score means "against".
        notes: what the method has to say.
        model: the model's name.
        task: what it was made for: "causal_lm", or "seq2seq" where an encoder reads the text.
        forwards: how many rows were sent through the model.
        backwards: how many of them were differentiated.
        seconds: how long it took.
        checks: the test of every generated token's explanation by word, then that of the total's: empty where that was
            not asked for.

    Example:
        ```python
        found = model.generate_and_explain("The keys to the cabinet", "saliency", tokens=10)
        print(found.continuation, found.step(0).top(3))
        ```
    """

    FORMAT: ClassVar[Format] = Format("generation", "wherefrom_generation")

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    segment: tuple[int, ...]
    generated: tuple[str, ...]
    token_ids: tuple[int, ...]
    scores: tuple[tuple[float, ...], ...]
    probabilities: tuple[float, ...]
    versus: tuple[str | None, ...]
    method: str
    versus_ids: tuple[int | None, ...] = ()
    turns: tuple[tuple[str, int, int], ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    signed: bool = True
    notes: tuple[str, ...] = ()
    model: str = ""
    task: str = "causal_lm"
    forwards: int = 0
    backwards: int = 0
    seconds: float = 0.0
    checks: tuple[Check, ...] = ()

    @property
    def continuation(self) -> str:
        """The generated tokens together."""
        return "".join(self.generated)

    def role_of(self, place: int) -> str:
        """Who says this token of a chat's prompt; nothing where nobody does."""
        start, end = self.offsets[place]
        inside = (role for role, first, last in self.turns if first < end and start < last and start < end)
        return next(inside, "") if self.segment[place] >= 0 else ""

    def step(self, number: int) -> Explanation:
        """The explanation of one generated token by the prompt; tokens generated before it count as special.

        Args:
            number: which token, from 0; negative from the end.

        Returns:
            An `Explanation` of the prompt and of what was generated before the token.
        """
        if not -len(self.generated) <= number < len(self.generated):
            raise BadOption(f"There is no generated token {number}: there are {len(self.generated)}, from 0.")
        number %= len(self.generated)
        other = self.versus[number]
        label = token_label(self.generated[number])
        return self._explanation(
            self.scores[number][: len(self.tokens) + number],
            label if other is None else f"{label} rather than {token_label(other)}",
            self.probabilities[number],
            number,
        )

    def total(self) -> Explanation:
        """The scores of all generated tokens added up: what the continuation as a whole came from.

        Returns:
            An `Explanation` of the prompt, and of the generated tokens, which count as special; its probability is the
            geometric mean of the tokens' own.
        """
        count = len(self.generated)
        summed = [sum(row[place] for row in self.scores) for place in range(len(self.tokens) + count)]
        pairs = zip(self.generated, self.versus, strict=True)
        label, other = self.continuation.strip(), "".join(a if b is None else b for a, b in pairs).strip()
        explanation = self._explanation(
            tuple(summed),
            f"{label} rather than {other}" if any(self.versus) else label,
            exp(sum(map(log, self.probabilities)) / count) if min(self.probabilities) > 0 else 0.0,
            count,
        )
        added = summed_note(count)
        others = self.versus_ids or (None,) * count
        return replace(
            explanation,
            components=tuple(
                SavedTarget(token, other, step=step)
                for step, (token, other) in enumerate(zip(self.token_ids, others, strict=True))
            ),
            notes=(*self.notes, added) if count > 1 else self.notes,
            seconds=self.seconds,
            forwards=self.forwards,
            backwards=self.backwards,
        )

    def by_word(self, number: int | None = None) -> Explanation:
        """The explanation of one generated token, or of all together, by the words of the prompt, with its test.

        Args:
            number: which token, from 0; negative from the end. None for the total.

        Returns:
            An `Explanation` by word; its `check` is None unless `generate_and_explain` was called with check=True.
        """
        explanation = self.total() if number is None else self.step(number)
        count = len(self.generated)
        place = count if number is None else number % count
        return replace(explanation.at("word"), check=self.checks[place] if self.checks else None)

    def _explanation(self, scores: tuple[float, ...], target: str, probability: float, before: int) -> Explanation:
        tokens, offsets = (*self.tokens, *self.generated[:before]), (*self.offsets, *[(0, 0)] * before)
        segment = (*self.segment, *[-1] * before)
        read = Encoding(self.text, None, tokens, (0,) * len(tokens), None, offsets, segment, turns=self.turns)
        return Explanation(
            text=self.text,
            tokens=tokens,
            scores=scores,
            offsets=offsets,
            segment=segment,
            word_of=read.word_of,
            sentence_of=read.sentence_of,
            turns=self.turns,
            target=target,
            probability=probability,
            prediction=target,
            method=self.method,
            params=self.params,
            signed=self.signed,
            notes=self.notes,
            model=self.model,
            task=self.task,
        )

    def show(self) -> None:
        """Print what every generated token came from: its strongest words in the prompt, and their test where there is
        one; and the same of all tokens together. `to_html` has the whole matrix.
        """
        from wherefrom.report.generation import print_generation

        print_generation(self)

    def to_html(self) -> str:
        """A self-contained HTML page: choose a generated token and see what it came from."""
        from wherefrom.report.generation import page

        return page(self)

    def _repr_html_(self) -> str:
        from wherefrom.report.generation import fragment

        return fragment(self)

    def _problems(self) -> Iterator[str]:
        prompt, count = len(self.tokens), len(self.generated)
        of_prompt = {len(self.offsets), len(self.segment)}
        of_each = {len(part) for part in (self.token_ids, self.scores, self.probabilities, self.versus)}
        widths = {len(row) for row in self.scores}
        if of_prompt != {prompt} or of_each != {count} or not widths <= {prompt + count}:
            yield "its tokens and scores are not equally many"
        if self.checks and len(self.checks) != count + 1:
            yield "its tokens and their tests are not equally many"
        if self.versus_ids and len(self.versus_ids) != count:
            yield "its tokens and those they are compared with are not equally many"
        for start, end in self.offsets:
            if not 0 <= start <= end <= len(self.text):
                yield f"its text has no characters {start} to {end}"
