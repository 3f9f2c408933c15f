"""What is explained: one output of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wherefrom.errors import UnknownName

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SavedTarget:
    """A target as plain data, from which a task restores it. The last three are None unless the target has them."""

    index: int  # of a class or of a token in the vocabulary; of an answer's boundary, its position
    versus: int | None = None  # the class or token it is compared with
    boundary: Literal["start", "end"] | None = None  # of an answer
    position: int | None = None  # of the tagged word, or of one of several masks
    step: int | None = None  # which token of an output


@dataclass(frozen=True)
class Target:
    """One class of a single-label model, one label of a multi-label model (`independent`: labels do not exclude each
    other), one output of a `regression` model, or one token that a language model may predict; with `versus`, how much
    more likely (or larger) it is than another.
    """

    index: int
    label: str
    independent: bool = False
    versus: int | None = None
    regression: bool = False
    generated: bool = False  # whether it is a token of a text that a model writes

    @property
    def position(self) -> int | None:
        """The token position that this target itself is read at; None where the task says which it is."""
        return None

    @property
    def places(self) -> tuple[int, ...]:
        """All positions that it is read at; none where the task says which they are."""
        return () if self.position is None else (self.position,)

    @property
    def component(self) -> str:
        """What this is of a target that has several components: "start" or "end" of an answer; else nothing."""
        return ""

    def saved(self) -> SavedTarget:
        """As plain data, from which the task restores it."""
        return SavedTarget(self.index, self.versus)

    def own(self, logits: Tensor) -> Tensor:
        """Of all logits, those that this target is one of. (row, class)"""
        return logits

    def score(self, logits: Tensor) -> Tensor:
        """What gradients and relevance start from: the logit, or the difference of two. (row, class) -> (row,)"""
        return self._chosen(self.own(logits))

    def compared(self, logits: Tensor) -> Tensor:
        """What methods that hide words take differences of: the score; of a generated token its log-probability,
        because the logits of all tokens of a vocabulary move together. (row, class) -> (row,)
        """
        if not self.generated or self.versus is not None:
            return self.score(logits)
        own = self.own(logits)
        return own[:, self.index] - own.logsumexp(-1)

    def _chosen(self, logits: Tensor) -> Tensor:
        return logits[:, self.index] if self.versus is None else logits[:, self.index] - logits[:, self.versus]

    def probability(self, logits: Tensor) -> Tensor:
        """Among all classes, or between the two that are compared; of a regression model, which has none, the value
        itself. (row, class) -> (row,)
        """
        logit = self.own(logits).double()
        if self.regression:
            return self._chosen(logit)
        if self.versus is not None:
            return self._chosen(logit).sigmoid()
        return (logit.sigmoid() if self.independent else logit.softmax(-1))[:, self.index]


@dataclass(frozen=True)
class Boundary(Target):
    """The token where an answer starts or ends. Its logits are (row, 2, token): starts and ends."""

    end: bool = False

    @property
    def position(self) -> int | None:
        return self.index

    @property
    def component(self) -> str:
        return "end" if self.end else "start"

    def saved(self) -> SavedTarget:
        return SavedTarget(self.index, boundary="end" if self.end else "start")

    def score(self, logits: Tensor) -> Tensor:
        return logits[:, int(self.end), self.index]

    def probability(self, logits: Tensor) -> Tensor:
        return logits[:, int(self.end)].double().softmax(-1)[:, self.index]


@dataclass(frozen=True)
class WordTag(Target):
    """A tag of one word, or how much more likely it is than another. Its logits are (row, tag, token)."""

    place: int = 0  # the position that the word is read at: that of its first token

    @property
    def position(self) -> int | None:
        return self.place

    def saved(self) -> SavedTarget:
        return SavedTarget(self.index, self.versus, position=self.place)

    def own(self, logits: Tensor) -> Tensor:
        return logits[:, :, self.place]


@dataclass(frozen=True)
class MaskedWord(Target):
    """The word at one of several masks, or how much more likely it is than another. The logits of all masks are
    concatenated: (row, mask * word).
    """

    mask: int = 0  # which of the masks, from 0
    words: int = 0  # how many the vocabulary has
    place: int = 0  # the position of the mask
    alone: bool = False  # whether this mask was chosen, and not all of them

    @property
    def position(self) -> int | None:
        return self.place

    def saved(self) -> SavedTarget:
        return SavedTarget(self.index, self.versus, position=self.place)

    def own(self, logits: Tensor) -> Tensor:
        """(row, word)"""
        return logits[:, self.mask * self.words : (self.mask + 1) * self.words]


def written_value(value: float) -> str:
    """A predicted value in digits: two decimals, or three digits where these would hide it."""
    return f"{value:.2f}" if value == 0 or 0.1 <= abs(value) < 10_000 else f"{value:.3g}"


def is_number(name: str) -> bool:
    """Whether a name is the number of a class, a token or a choice; Python refuses to read thousands of digits."""
    return name.isdecimal() and len(name) < 20


def resolve_target(
    spec: str | int, labels: Sequence[str], *, independent: bool = False, regression: bool = False
) -> Target:
    """A label by its name (exactly, else in any case), or by its number."""
    if isinstance(spec, int) and not isinstance(spec, bool):
        if not -len(labels) <= spec < len(labels):
            raise UnknownName(
                f"There is no class {spec}: the model has {len(labels)}, numbered from 0: {', '.join(labels)}."
            )
        return Target(spec % len(labels), labels[spec], independent, regression=regression)
    name = str(spec)
    matches = [i for i, label in enumerate(labels) if label == name]
    matches = matches or [i for i, label in enumerate(labels) if label.lower() == name.lower()]
    if len(matches) == 1:
        return Target(matches[0], labels[matches[0]], independent, regression=regression)
    if not matches and is_number(name):
        return resolve_target(int(name), labels, independent=independent, regression=regression)
    raise UnknownName.among("label", name, labels)


@dataclass(frozen=True)
class GeneratedToken(Target):
    """One token of a continuation, or how much more likely it is than another. Its logits are (row, step * 4): of each
    step the token's own logit, that of the other, the logarithm of the sum over the vocabulary, and the largest logit
    of any other token.
    """

    step: int = 0
    place: int = 0  # the position it is read at: that of the token before it

    @property
    def position(self) -> int | None:
        return self.place

    def saved(self) -> SavedTarget:
        return SavedTarget(self.index, self.versus, step=self.step)

    def score(self, logits: Tensor) -> Tensor:
        logit, other, _, _ = self._parts(logits)
        return logit if self.versus is None else logit - other

    def compared(self, logits: Tensor) -> Tensor:
        return self.log_probability(logits)

    def probability(self, logits: Tensor) -> Tensor:
        logit, other, total, _ = self._parts(logits.double())
        return (logit - total).exp() if self.versus is None else (logit - other).sigmoid()

    def log_probability(self, logits: Tensor) -> Tensor:
        """The natural logarithm; of two tokens that are compared, the difference of theirs. (row,)"""
        logit, other, total, _ = self._parts(logits)
        return logit - (total if self.versus is None else other)

    def likeliest(self, logits: Tensor) -> Tensor:
        """Whether no other token is likelier. (row, step * 4) -> (row,) bool"""
        logit, _, _, best = self._parts(logits)
        return logit >= best

    def _parts(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        logit, other, total, best = logits[:, 4 * self.step : 4 * self.step + 4].unbind(-1)
        return logit, other, total, best


@dataclass(frozen=True)
class GeneratedSpan(Target):
    """Several tokens of a continuation as one target: the sum of their log-probabilities, or of how much more likely
    each is than another. One backward pass serves them all.
    """

    steps: tuple[GeneratedToken, ...] = ()

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(step.place for step in self.steps)

    def score(self, logits: Tensor) -> Tensor:
        each = [step.log_probability(logits) for step in self.steps]
        total: Tensor = sum(each[1:], each[0])
        return total

    def probability(self, logits: Tensor) -> Tensor:
        return joint_probability(self.steps, logits)


def joint_probability(targets: Sequence[Target], logits: Tensor) -> Tensor:
    """Of all components of a target together. (row, class) -> (row,)

    The product; of the tokens of an output their geometric mean, because a product of twenty would be nothing but
    small, whatever is hidden.
    """
    each = [target.probability(logits) for target in targets]
    if len(each) > 1 and all(isinstance(target, GeneratedToken) for target in targets):
        logarithms = [probability.log() for probability in each]
        mean: Tensor = sum(logarithms[1:], logarithms[0]) / len(each)
        return mean.exp()
    product = each[0]
    for probability in each[1:]:
        product = product * probability
    return product
