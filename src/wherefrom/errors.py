"""Every error a user can meet. Each says what is wrong, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

__all__ = [
    "BadFile",
    "BadOption",
    "BrokenPlugIn",
    "EmptyText",
    "MissingExtra",
    "MissingPackage",
    "MissingToken",
    "ModelFailed",
    "ModelIsTraining",
    "NotDefined",
    "NotEnoughMemory",
    "NotSeen",
    "ServerFailed",
    "SomeTextsFailed",
    "TextWasCut",
    "TextWithoutAnswer",
    "TooOld",
    "UnknownName",
    "WherefromError",
    "WrongModel",
]


class WherefromError(Exception):
    """The user can put this right; the command line prints it as one line and exits with `exit_code`."""

    exit_code = 2


class EmptyText(WherefromError):
    """There is nothing to explain."""


class UnknownName(WherefromError):
    """A method, metric, label, option or choice that does not exist."""

    @classmethod
    def among(cls, kind: str, name: object, known: Iterable[str]) -> UnknownName:
        names = [str(choice) for choice in known]
        close = get_close_matches(str(name).lower(), [choice.lower() for choice in names], n=1, cutoff=0.5)
        if close:
            match = next(choice for choice in names if choice.lower() == close[0])
            return cls(f"No {kind} is called {str(name)!r}. Did you mean {match!r}?")
        listed = ", ".join(names[:30]) + (", ..." if len(names) > 30 else "")
        return cls(f"No {kind} is called {str(name)!r}. There are: {listed or 'none'}.")


class BadOption(WherefromError):
    """An option's value does not fit."""


class NotDefined(WherefromError):
    """A metric has no value for this explanation; the message says why."""


class WrongModel(WherefromError):
    """What was given is not a model that can be explained, or not in a state in which it can be."""


class ModelIsTraining(WrongModel):
    def __init__(self) -> None:
        super().__init__(
            "The model is in training mode, where dropout makes every answer random. Call model.eval() first."
        )


class NotSeen(WrongModel):
    """The model's inner workings cannot be recorded, so this method cannot be trusted with it."""


class MissingToken(WherefromError):
    """The tokenizer lacks a special token that is needed."""


class MissingExtra(WherefromError):
    """A feature needs a package that is not installed."""

    exit_code = 1

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more packages: pip install 'wherefrom[{extra}]'")


class MissingPackage(WherefromError):
    """A feature is in another distribution, which is not installed."""

    exit_code = 1


class BrokenPlugIn(WherefromError):
    """Something that another package adds to Wherefrom cannot be loaded."""

    exit_code = 1


class TooOld(WherefromError, ImportError):
    """A package is there, but of a version that Wherefrom cannot work with. An ImportError for those who catch that."""

    exit_code = 1

    def __init__(self, package: str, least: str, version: str) -> None:
        super().__init__(
            f"Wherefrom needs {package} {least} or later; {version} is installed: pip install '{package}>={least}'"
        )


class ModelFailed(WherefromError):
    """The model itself gave something that cannot be explained, such as NaN.

    rows: which rows of the forward pass did, where that is known.
    """

    exit_code = 1

    def __init__(self, message: str, rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(rows)


class ServerFailed(WherefromError):
    """A model's server cannot be reached, refuses the key, or does not answer what is needed."""

    exit_code = 1


class TextWithoutAnswer(ModelFailed):
    """The model answers some of the texts that went through it together with NaN or infinity; the others are sound.

    rows: of the batch. places: of the texts in the list that was given, once it is known how the list was batched.
    """

    places: tuple[int, ...] | None = None


class SomeTextsFailed(ModelFailed):
    """Some texts of a list could not be explained. explanations: those of the others, by their place in the list."""

    def __init__(self, message: str, explanations: Mapping[int, object] | None = None) -> None:
        super().__init__(message)
        self.explanations = dict(explanations or {})


class NotEnoughMemory(ModelFailed):
    """The computation does not fit into memory; the message says how much it needs."""


class BadFile(WherefromError):
    """A file that is missing, cut short, or not what it should be."""

    exit_code = 1


class TextWasCut(UserWarning):
    """The text was longer than the model can read; the explanation covers what was read."""
