"""What the page may send: the fields of every request, their types and their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as ValidationError

if TYPE_CHECKING:  # it brings torch, which the first page need not wait for
    from wherefrom.model.tasks import TargetSpec

# A label, a token or an answer by its name, or by its number.
TargetName = Annotated[str, Field(max_length=500)] | Annotated[int, Field(ge=0, le=10_000_000)]
Place = Annotated[int, Field(ge=0, le=100_000)]


class PastedMessage(BaseModel):
    """A message of a chat."""

    model_config = ConfigDict(extra="forbid")

    role: Annotated[str, Field(max_length=100)]
    content: str


class TextQuestion(BaseModel):
    """A text, and the target to explain. The messages of a chat replace the text."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[int, Field(ge=0, le=100)] = 0
    text: str
    pair: str | None = None
    messages: Annotated[list[PastedMessage], Field(max_length=100)] | None = None
    begun: str = ""  # of a chat: what the model has answered so far
    level: Literal["token", "word", "sentence", "turn"] = "word"
    target: TargetName | None = None
    versus: TargetName | None = None

    @property
    def chat(self) -> list[dict[str, str]] | None:
        """The messages as `Model.explain` takes them."""
        return None if self.messages is None else [message.model_dump() for message in self.messages]

    @property
    def said(self) -> str:
        """All that is to be read: the text, or what the messages say."""
        if self.messages is None:
            return self.text
        return "\n".join([*(message.content for message in self.messages), self.begun])

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


SourceMethod = Literal["leave_one_out", "attn_lrp", "saliency", "hierarchical", "random", "context_cite", "kernel_shap"]
SOURCE_METHODS: tuple[SourceMethod, ...] = get_args(SourceMethod)  # the slow ones last


class PastedPassage(BaseModel):
    """A passage, and its name where it has one."""

    model_config = ConfigDict(extra="forbid")

    text: str
    name: Annotated[str, Field(max_length=200)] | None = None


class SourcesQuestion(BaseModel):
    """A question with the passages to answer it from, and the answer to explain: without one, the model answers."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[int, Field(ge=0, le=100)] = 0
    question: str
    passages: Annotated[list[PastedPassage], Field(max_length=100)]
    answer: str | None = None
    by: Literal["sentence", "paragraph", "document"] = "sentence"
    method: SourceMethod | Literal["auto"] = "auto"
    methods: list[SourceMethod] = []  # that are put side by side
    tokens: Annotated[int, Field(ge=1, le=256)] = 64


class WithoutQuestion(SourcesQuestion):
    """Some passages left out, by their numbers from 0."""

    removed: list[Place] = []


class CodeQuestion(HidingQuestion):
    """The code that reproduces what is seen."""

    methods: list[Annotated[str, Field(max_length=200)]]
