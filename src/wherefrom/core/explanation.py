"""The result: plain numbers that can be shown, saved and read back without a model and without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from wherefrom.core.check import Check, HiddenUnits
from wherefrom.core.encoding import TextOrPair, check_turns, grouped
from wherefrom.core.labels import token_label, token_labels
from wherefrom.core.saved import Format, Saved
from wherefrom.core.selection import selection_problems
from wherefrom.core.target import SavedTarget
from wherefrom.core.units import Level, Pool, Turn, pool, turn_of
from wherefrom.errors import MissingExtra, UnknownName, WherefromError

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

MINUS = " - "  # between the names of two methods whose scores are subtracted
SMALL_GAP = 0.05  # of what the scores move
Theme = Literal["auto", "light", "dark", "none"]  # of a terminal


class Unit(NamedTuple):
    """A token, word or sentence with its score, and its place in the text.

    Attributes:
        text: the unit as it is written, without the spaces around it; ↵ for a line break alone.
        score: how much it counts for the target (positive) or against it (negative).
        start: its first character in the text, or in the pair where `segment` is 1.
        end: the character after its last.
        segment: 0 in the text, 1 in its pair, -1 for a token that the tokenizer added.
    """

    text: str
    score: float
    start: int
    end: int
    segment: int


@dataclass(frozen=True)
class Explanation(Saved):
    """How much each token counts for (positive) or against (negative) the target.

    `tokens`, `scores`, `offsets` and `special` have one entry for every token the model saw; at level "word" or
    "sentence", one for every word or sentence. Offsets count characters in `text`, or in `pair` where `segment` is 1.
    All values are plain: no torch is needed to read, show, save or load an explanation.

    Attributes:
        text: what was explained.
        tokens: every token the model saw, or every word or sentence.
        scores: one number for each; what it means depends on the method.
        offsets: (start, end) characters of each.
        segment: 0 in the text, 1 in its pair, -1 for tokens that the tokenizer added.
        target: what is explained: a label, a token, an answer.
        probability: the model's probability of the target; None for a regression model, which has a value instead, and
            where scores of another tool came without one.
        prediction: what the model says: a label, a token, an answer; of a regression model its value in digits.
        method: the name of the method.
        pair: the second text, if there was one.
        level: token, word or sentence; turn, of a chat; span, where the caller chose the units.
        signed: whether a negative score means "against".
        probabilities: the model's probability of every label.
        params: every option of the method, as it was settled.
        layers: scores of each layer, where the method has them.
        gap: what the scores should add up to, less what they do, where the method promises a sum.
        unassigned: the part of the decision that went to no token.
        cut: how many tokens did not fit into the model.
        notes: what the method has to say about this text.
        selection: what the scores were chosen among and why, for methods that choose.
        model: the model's name.
        seconds: how long it took.
        forwards: how many rows were sent through the model.
        backwards: how many of them were differentiated.
        task: what the model was made for: classification, question_answering, masked_lm or causal_lm.
        independent: whether every label is decided on its own, as in a multi-label model.
        value: what a regression model predicts; None for other models.
        check: what the model did when the strongest units were hidden, where that was asked for.
        components: the target as plain data: one entry, or one for each part of an answer or an output.
        standard_errors: how far each score would vary with another seed, where it rests on a random draw; all zero
            where nothing had to be drawn.
        pooling: how the scores of words, sentences or spans were made of their tokens' scores: "sum", "mean" or "max";
            None by token, and where the method scored each unit as a whole.
        turns: of a chat, (role, start, end): who says which characters of `text`, which is then the chat as its
            template renders it. What is in no turn is the template's own, and special.

    Example:
        ```python
        e = wherefrom.load("embedded").explain("A gorgeous, witty film, but the plot drags.")
        print(e.target, e.probability, [unit.text for unit in e.top(3)])
        ```
    """

    FORMAT: ClassVar[Format] = Format("explanation", "wherefrom", version=2)

    text: str
    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    offsets: tuple[tuple[int, int], ...]
    segment: tuple[int, ...]
    target: str
    probability: float | None
    prediction: str
    method: str
    pair: str | None = None
    level: Level = "token"
    signed: bool = True
    probabilities: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[tuple[float, ...], ...] | None = None  # (layer, token), where the method has them
    gap: float | None = None  # what the scores should add up to, less what they do, where the method promises a sum
    unassigned: float | None = None  # the part of the decision that went to no token
    cut: int = 0  # tokens that did not fit into the model
    notes: tuple[str, ...] = ()
    selection: tuple[
        Mapping[str, Any], ...
    ] = ()  # what the scores were chosen among and why; one entry for each part of the target
    model: str = ""
    seconds: float = 0.0
    forwards: int = 0  # rows of forward passes
    backwards: int = 0
    word_of: tuple[int, ...] = ()
    sentence_of: tuple[int, ...] = ()
    components: tuple[SavedTarget, ...] = ()  # of the target, as the model numbers them
    task: str = ""
    independent: bool = False
    check: Check | None = None
    standard_errors: tuple[float, ...] | None = None  # one for each score
    value: float | None = None
    pooling: Pool | None = None
    turns: tuple[Turn, ...] = ()

    @classmethod
    def from_scores(
        cls,
        text: TextOrPair,
        scores: Any,
        *,
        tokens: Sequence[str] | None = None,
        offsets: Sequence[Sequence[int]] | None = None,
        words: Sequence[str] | None = None,
        target: str = "",
        method: str = "imported",
        signed: bool | None = None,
        probability: float | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Explanation:
        """An explanation from the scores of another tool, or written by hand.

        The tokens are found in the text by their characters, whichever tokenizer made them. `Model.evaluate` grades the
        result with any model: where its tokens differ, by the smallest units that both agree on.

        Args:
            text: one text, or a (text, pair) tuple.
            scores: one number for each unit: a list, an array or a tensor.
            tokens: the units as a tokenizer writes them, special tokens included; or
            offsets: their (start, end) in characters, (start, end, 1) in the pair; (0, 0) for a special token; or
            words: the units as words, in their order; words of the text may be missing.
            target: what is explained, such as a label; unless given, `Model.evaluate` takes what the model predicts.
            method: the name that the scores are shown under.
            signed: whether a negative score means "against"; unless given, whether there is one.
            probability: the model's probability of the target, where it is known.
            params: the options of the method, to be shown with it.

        Returns:
            An `Explanation` by tokens; by words where words are given.

        Example:
            ```python
            e = Explanation.from_scores("A fine film.", [0.1, 0.7, 0.2, 0.0], tokens=["a", "fine", "film", "."])
            model.evaluate(e).show()
            ```
        """
        from wherefrom.core.imported import from_scores

        return from_scores(
            text,
            scores,
            tokens=tokens,
            offsets=offsets,
            words=words,
            target=target,
            method=method,
            signed=signed,
            probability=probability,
            params=dict(params or {}),
        )

    @classmethod
    def from_shap(cls, values: Any, *, target: str | int | None = None, text: str | None = None) -> Explanation:
        """An explanation from the SHAP values of one text.

        Args:
            values: a `shap.Explanation` of one text, such as `shap_values[0]`.
            target: the output that is explained, by its name or number; the largest unless given.
            text: the text; unless given, its tokens joined.

        Returns:
            An `Explanation` by SHAP's tokens.

        Example:
            ```python
            e = Explanation.from_shap(shap.Explainer(pipe)([text])[0], target="POSITIVE")
            ```
        """
        from wherefrom.core.imported import from_shap

        return from_shap(values, target=target, text=text)

    @classmethod
    def from_captum(
        cls,
        result: Any,
        *,
        text: TextOrPair | None = None,
        tokens: Sequence[str] | None = None,
        target: str | None = None,
        step: int | None = None,
        method: str = "captum",
    ) -> Explanation:
        """An explanation from Captum's attributions of one text.

        Args:
            result: an `LLMAttributionResult`; or a tensor of attributions: (token,), or (token, size), which is added
                up over the last dimension, with or without a batch of one before it.
            text: the text; of an `LLMAttributionResult`, its input tokens joined unless given.
            tokens: the tokens of a tensor's rows.
            target: what is explained; of an `LLMAttributionResult`, its output tokens.
            step: which output token of an `LLMAttributionResult`, from 0; all of them together unless given.
            method: the name that the scores are shown under.

        Returns:
            An `Explanation` by Captum's input tokens.

        Example:
            ```python
            attributions = captum.attr.LayerIntegratedGradients(forward, embeddings).attribute(ids, target=1)
            e = Explanation.from_captum(attributions, text=text, tokens=tokenizer.convert_ids_to_tokens(ids[0]))
            ```
        """
        from wherefrom.core.imported import from_captum

        return from_captum(result, text=text, tokens=tokens, target=target, step=step, method=method)

    @classmethod
    def from_inseq(
        cls,
        output: Any,
        *,
        number: int = 0,
        step: int | None = None,
        text: str | None = None,
        target: str | None = None,
    ) -> Explanation:
        """An explanation of a generated text by its prompt, from Inseq's attributions.

        Args:
            output: a `FeatureAttributionOutput`, or one of its `sequence_attributions`.
            number: which of its texts, from 0.
            step: which generated token, from 0; all of them added up unless given.
            text: the prompt; unless given, as the output says it, or its tokens joined.
            target: what is explained; the generated tokens unless given.

        Returns:
            An `Explanation` by the tokens of the prompt. Attributions of several dimensions are aggregated as Inseq
            does by default; what generated tokens owe to those before them is left out.

        Example:
            ```python
            e = Explanation.from_inseq(inseq.load_model("gpt2", "saliency").attribute("Hello ladies and"))
            ```
        """
        from wherefrom.core.imported import from_inseq

        return from_inseq(output, number=number, step=step, text=text, target=target)

    @property
    def gap_stays(self) -> bool:
        """Whether the scores miss more than `SMALL_GAP` of what they should add up to, so that nobody should rely
        on them.
        """
        if self.gap is None:
            return False
        moved = max(sum(map(abs, self.scores)), abs(sum(self.scores) + self.gap))
        return abs(self.gap) > SMALL_GAP * moved

    @property
    def output(self) -> float:
        """What the model gives the target: its probability, or a regression model's value."""
        known = self.probability if self.value is None else self.value
        return 0.0 if known is None else known

    @property
    def special(self) -> tuple[bool, ...]:
        """True for tokens that the tokenizer added, such as [CLS]."""
        return tuple(part < 0 for part in self.segment)

    @property
    def turn_of(self) -> tuple[int, ...]:
        """The number of the turn of every token of a chat; -1 for special tokens, and where there is no chat."""
        return tuple(turn_of(self.offsets, self.segment, self.turns))

    @property
    def roles(self) -> tuple[str, ...]:
        """Who says every token of a chat; empty for special tokens, and where there is no chat."""
        return tuple(self.turns[number][0] if number >= 0 else "" for number in self.turn_of)

    def units(self, *, special: bool = False) -> list[Unit]:
        """Every token (or word, or sentence: what `level` says) with its score.

        Args:
            special: also those that the tokenizer added, such as [CLS].

        Returns:
            The units in the order of the text.

        Example:
            ```python
            for unit in e.units():
                print(f"{unit.score:+.2f}  {unit.text}")
            ```
        """
        rows = zip(self._written(), self.scores, self.offsets, self.segment, strict=True)
        return [Unit(text, score, start, end, part) for text, score, (start, end), part in rows if special or part >= 0]

    def _written(self) -> Sequence[str]:
        """Every unit as it is written: tokens without the signs of a tokenizer."""
        if self.level != "token":
            return self.tokens
        return token_labels(self.tokens, self.offsets, self.segment, self.text, self.pair)

    def words(self, how: Pool = "sum") -> list[Unit]:
        """The words with their scores.

        Args:
            how: how the scores of a word's tokens become one: "sum", "mean" or "max".

        Returns:
            The words in the order of the text.
        """
        return self.at("word", how).units()

    def sentences(self, how: Pool = "sum") -> list[Unit]:
        """The sentences with their scores.

        Args:
            how: how the scores of a sentence's tokens become one: "sum", "mean" or "max".

        Returns:
            The sentences in the order of the text.
        """
        return self.at("sentence", how).units()

    def top(self, count: int = 5) -> list[Unit]:
        """The units that weigh most, for or against.

        Args:
            count: how many.

        Returns:
            The units with the largest scores in size, of either sign; the earlier one first where two are equal.

        Example:
            ```python
            print([unit.text for unit in e.top(3)])
            ```
        """
        return sorted(self.units(), key=lambda unit: -abs(unit.score))[:count]

    def at(self, level: Level, how: Pool = "sum") -> Explanation:
        """The same explanation by words or sentences, or by the turns of a chat.

        Args:
            level: "word", "sentence" or "turn".
            how: how scores are pooled: "sum", "mean" or "max". Only sums add up to the same total at every level, so
                that `gap` and `unassigned` are None for the other two.

        Returns:
            A new explanation. Methods that hide whole words at that level say more when they are asked for it.

        Example:
            ```python
            by_word = e.at("word", "max")
            ```
        """
        if level == self.level:
            return self
        if level not in ("word", "sentence", "turn"):
            raise WherefromError(f"An explanation is pooled into words, sentences or turns, not into {level}s.")
        if level == "turn":
            check_turns(self.turns)
        if self.level != "token":
            raise WherefromError(
                f"This explanation is by {self.level} already; only one by tokens can be pooled into {level}s."
            )
        numbers = {"word": self.word_of, "sentence": self.sentence_of, "turn": self.turn_of}[level]
        return self.pooled(level, grouped(numbers), how)

    def pooled(
        self,
        level: Level,
        members: Sequence[Sequence[int]],
        how: Pool = "sum",
        scores: Sequence[float] | None = None,
        standard_errors: Sequence[float] | None = None,
    ) -> Explanation:
        """One unit for each group of token positions; its scores may be given where a method scored the units
        themselves, and their standard errors, which cannot be pooled: those of neighbours are not independent.
        """
        offsets = tuple(
            (min(self.offsets[i][0] for i in group), max(self.offsets[i][1] for i in group)) for group in members
        )
        segment = tuple(self.segment[group[0]] for group in members)
        shown = {0: self.text, 1: self.pair or ""}
        texts = [
            (shown[part][start:end].strip() if part >= 0 else "")
            or token_label(shown[part][start:end] if part >= 0 else "", self.tokens[group[0]])
            for part, (start, end), group in zip(segment, offsets, members, strict=True)
        ]
        return replace(
            self,
            tokens=tuple(texts),
            scores=tuple(pool(self.scores, members, how) if scores is None else scores),
            offsets=offsets,
            segment=segment,
            level=level,
            pooling=how if scores is None else None,
            gap=self.gap if how == "sum" else None,
            unassigned=self.unassigned if how == "sum" else None,
            layers=None if self.layers is None else tuple(tuple(pool(layer, members, how)) for layer in self.layers),
            word_of=(),
            sentence_of=(),
            check=None,  # it hid other units
            standard_errors=None if standard_errors is None else tuple(standard_errors),
        )

    def minus(self, other: Explanation) -> Explanation:
        """The difference of two explanations of one text, each scaled to a largest score of one.

        Args:
            other: an explanation of the same text at the same level.

        Returns:
            An explanation whose scores are positive where this one gives more.

        Example:
            ```python
            model.explain(text, "attcat").minus(model.explain(text, "saliency")).show()
            ```
        """
        if not isinstance(other, Explanation):
            raise WherefromError(f"The difference is taken of two explanations, not of one and {other!r}.")
        if (self.tokens, self.text, self.pair) != (other.tokens, other.text, other.pair):
            raise WherefromError("Only two explanations of the same text at the same level can be compared.")
        return replace(
            self,
            method=f"{self.method}{MINUS}{other.method}",
            scores=tuple(a - b for a, b in zip(self._scaled(), other._scaled(), strict=True)),
            params={"first": dict(self.params), "second": dict(other.params)},
            signed=True,
            layers=None,
            gap=None,
            unassigned=None,
            check=None,
            standard_errors=None,
            seconds=self.seconds + other.seconds,
            forwards=self.forwards + other.forwards,
            backwards=self.backwards + other.backwards,
        )

    def _scaled(self) -> list[float]:
        """Scores in units of the largest that is not a special token's: [CLS] would often drown all others."""
        largest = max(
            (abs(score) for score, special in zip(self.scores, self.special, strict=True) if not special), default=0.0
        )
        return [score / largest if largest else 0.0 for score in self.scores]

    # Views. The one place where a lower layer calls a higher one, when a person asks to see something.

    def show(self, *, special: bool = False, theme: Theme = "auto") -> None:
        """Print the explanation in colour; in a notebook, show its HTML view.

        Args:
            special: show the tokens that the tokenizer added, too.
            theme: "light" or "dark", as the terminal's background is; "none" for no colour; "auto" to find out.
        """
        from wherefrom.report.notebook import shown_in_notebook
        from wherefrom.report.terminal import print_explanation

        if special or not shown_in_notebook(self):  # its view in a notebook has no special tokens
            print_explanation(self, special=special, theme=theme)

    def to_html(self, *, special: bool = False) -> str:
        """A self-contained HTML page.

        Args:
            special: show the tokens that the tokenizer added, too.

        Returns:
            HTML.
        """
        from wherefrom.report.html import page

        return page([self], special=special)

    def _repr_html_(self) -> str:
        from wherefrom.report.html import fragment

        return fragment(self)

    def to_svg(self, *, width: float = 460, special: bool = False) -> str:
        """The coloured text as a picture for a paper: a self-contained SVG.

        Args:
            width: in points.
            special: show the tokens that the tokenizer added, too.

        Returns:
            SVG.
        """
        from wherefrom.report.paper import caption, to_svg

        return to_svg([(caption(self), self)], width=width, special=special)

    def to_latex(self, *, special: bool = False) -> str:
        """The coloured text for a paper; the first line names the packages that it needs.

        Args:
            special: show the tokens that the tokenizer added, too.

        Returns:
            LaTeX.
        """
        from wherefrom.report.paper import caption, to_latex

        return to_latex([(caption(self), self)], special=special)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Literal["bars", "text"] = "bars",
        special: bool = False,
        count: int | None = None,
    ) -> Axes:
        """Draw the scores with matplotlib (extra `report`): as bars in the order of the text, or as coloured text.

        Args:
            ax: the axes to draw on; new ones unless given.
            kind: "bars" or "text".
            special: draw the tokens that the tokenizer added, too.
            count: draw only so many bars, those of the units that weigh most.

        Returns:
            The axes.

        Example:
            ```python
            e.plot(count=10).figure.savefig("scores.png")
            ```
        """
        from wherefrom.report.bars import bars
        from wherefrom.report.paper import caption, draw_text

        if kind not in ("bars", "text"):
            raise UnknownName.among("kind of plot", kind, ("bars", "text"))
        if kind == "text":
            return draw_text([(caption(self), self)], ax, special=special)
        return bars(self, ax, special=special, count=count)

    def to_pandas(self, *, special: bool = True) -> pandas.DataFrame:
        """The units as a frame with the columns text, score, start, end, segment and special (extra `report`).

        Args:
            special: also those that the tokenizer added, such as [CLS].

        Returns:
            One row for each unit, in the order of the text. `attrs` holds the target, its probability and the method.

        Example:
            ```python
            print(e.to_pandas().sort_values("score"))
            ```
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("A pandas frame", "report") from error
        frame = pandas.DataFrame(self.units(special=special), columns=list(Unit._fields))
        frame["special"] = frame["segment"] < 0
        frame.attrs = {"target": self.target, "probability": self.probability, "method": self.method}
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python, as `to_json` writes it."""
        return {**super().to_dict(), "special": self.special}

    def _problems(self) -> Iterator[str]:
        """What does not fit together, where it comes from a file."""
        count, texts = len(self.tokens), {0: self.text, 1: self.pair}
        if not count == len(self.scores) == len(self.offsets) == len(self.segment):
            yield "its tokens, scores, offsets and segments are not equally many"
        for (start, end), part in zip(self.offsets, self.segment, strict=False):
            text = "" if part == -1 else texts.get(part)
            if text is None:
                yield f"a segment is {part}; 0 is in the text, 1 in its pair where it has one, -1 in neither"
            elif not 0 <= start <= end <= len(text) and part >= 0:
                yield f"its text has no characters {start} to {end}"
        for name, numbers in (("words", self.word_of), ("sentences", self.sentence_of)):
            if len(numbers) not in (0, count):
                yield f"it has not as many {name} as tokens"
        edges = [edge for _, start, end in self.turns for edge in (start, end)]
        if edges != sorted(edges) or any(not 0 <= edge <= len(self.text) for edge in edges):
            yield "the turns of its chat are not in its text, or not in order"
        if any(len(layer) != count for layer in self.layers or ()):
            yield "a layer has not as many scores as there are tokens"
        if self.standard_errors is not None and len(self.standard_errors) != count:
            yield "it has not as many standard errors as scores"
        places = [place for hiding in _hidings(self.check) for place in hiding.units]
        if any(not 0 <= place < count for place in places):
            yield "its check names units that it does not have"
        for chosen in self.selection:
            yield from selection_problems(chosen)


class ExplanationList(list[Explanation]):
    """Explanations of several texts or targets: a list that can be looked at.

    Example:
        ```python
        model.explain(["A fine film.", "A dull one."]).show()
        ```
    """

    def show(self, *, special: bool = False, theme: Theme = "auto") -> None:
        """Print every explanation in colour; in a notebook, show their HTML views.

        Args:
            special: show the tokens that the tokenizer added, too.
            theme: as for `Explanation.show`.
        """
        from wherefrom.report.notebook import shown_in_notebook

        if not special and shown_in_notebook(self):
            return
        for number, explanation in enumerate(self):
            if number:
                print()
            explanation.show(special=special, theme=theme)

    def to_html(self, *, special: bool = False) -> str:
        """One page of all of them, which needs nothing else.

        Args:
            special: show the tokens that the tokenizer added, too.

        Returns:
            HTML.
        """
        from wherefrom.report.html import page

        return page(self, special=special)

    def _repr_html_(self) -> str:
        from wherefrom.report.html import fragments

        return fragments(self)


def _hidings(check: Check | None) -> list[HiddenUnits]:
    return [] if check is None else [hiding for hiding in (check.strongest, check.against) if hiding is not None]
