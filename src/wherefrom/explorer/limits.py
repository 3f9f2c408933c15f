"""Limits of one request, and of all requests together."""

from __future__ import annotations

from dataclasses import dataclass

from wherefrom.errors import WherefromError


class TooMuch(WherefromError):
    """A request that exceeds the limits of one request."""


class TooBusy(WherefromError):
    """More requests than the server accepts at once: the same request may succeed a moment later."""


@dataclass(frozen=True)
class Limits:
    body: int = 262_144  # bytes of a request
    patience: float = 20.0  # seconds in which a request must have arrived
    characters: int = 10_000  # of a text, and of its pair
    passages: int = 60_000  # characters of a question, its passages and its answer together
    methods: int = 12  # explained by one request
    hidden: int = 2_000  # units or replaced words named in one request
    clicks: int = 64  # quick questions that wait
    computations: int = 16  # long ones that wait
    turns: int = 2  # long ones that go on at the same time, one method each in turn
    cache: int = 64_000_000  # bytes of answers that are kept for each model
    explanations: int = 400  # that are kept for each model
    seen_tokens: int = 64  # of a text whose attention patterns are shown
    generated: int = 60  # tokens

    def check_text(self, *texts: str | None) -> None:
        for text in texts:
            if text is not None and len(text) > self.characters:
                raise TooMuch(
                    f"The text has {len(text):,} characters; the explorer takes {self.characters:,}."
                    " The command line takes longer ones: wherefrom explain - < text.txt"
                )

    def check_passages(self, characters: int) -> None:
        if characters > self.passages:
            raise TooMuch(
                f"Question, passages and answer have {characters:,} characters; the explorer takes {self.passages:,}."
                " The command line takes more: wherefrom sources QUESTION --context FILE"
            )

    def check_methods(self, methods: int) -> None:
        if methods > self.methods:
            raise TooMuch(f"{methods} methods are asked for; at most {self.methods} are explained at once.")
        if not methods:
            raise TooMuch("Choose at least one method.")
