"""What the page may send: the fields of every request, their types and their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as ValidationError

if TYPE_CHECKING:  # it brings torch, which the first page need not wait for
    from wherefrom.model.tasks import TargetSpec

# A label, a token or an answer by its name, or by its number.
TargetName = Annotated[str, Field(max_length=500)] | Annotated[int, Field(ge=0, le=10_000_000)]
Place = Annotated[int, Field(ge=0, le=100_000)]


class TextQuestion(BaseModel):
    """A text, and the target to explain."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[int, Field(ge=0, le=100)] = 0
    text: str
    pair: str | None = None
    level: Literal["token", "word", "sentence"] = "word"
    target: TargetName | None = None
    versus: TargetName | None = None

    @property
    def spec(self) -> TargetSpec:
        if self.target is None or self.versus is None:
            return self.target
        return self.target, self.versus


class HidingQuestion(TextQuestion):
    """Some stretches of the text hidden, and some replaced by other words."""

    hidden: list[Place] = []
    replaced: dict[Place, Annotated[str, Field(max_length=200)]] = {}
    fill: Literal["delete", "mask", "unk", "pad", "eos"] = "delete"


class ExplainingQuestion(TextQuestion):
    """Methods, as `attcat` or `alti:norm=l2`."""

    methods: list[Annotated[str, Field(max_length=200)]]
    best: bool = False  # whether to run `best`, too


class CurveQuestion(TextQuestion):
    """How the probability changes when a method's strongest units are hidden, one after the other."""

    method: Annotated[str, Field(max_length=200)]
    fill: Literal["delete", "mask", "unk", "pad", "eos"] = "delete"


class HeadsQuestion(TextQuestion):
    """Some attention heads switched off: layer and head, both from 0."""

    off: Annotated[list[tuple[Place, Place]], Field(max_length=4096)] = []


class GeneratingQuestion(TextQuestion):
    """The continuation of a language model."""

    count: Annotated[int, Field(ge=1)] = 20


class CodeQuestion(HidingQuestion):
    """The code that reproduces what is seen."""

    methods: list[Annotated[str, Field(max_length=200)]]
