"""A client of an OpenAI-compatible completions endpoint that returns the log-probabilities of given text.

A key is read from the environment for every request and is kept nowhere; it is removed from whatever a server says.
"""

from __future__ import annotations

import http.client
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from wherefrom.errors import BadOption, ModelFailed, ServerFailed

KEY, SECONDS = "WHEREFROM_API_KEY", "WHEREFROM_TIMEOUT"  # variables of the environment
USUAL_SECONDS = 120.0
MOST_BYTES = 256_000_000  # of an answer
OF_THE_REQUEST = (400, 413, 422)  # what a server answers where it does not take this text, and would take another
MISSING = (
    "The server returns no log-probabilities of given text, so nothing can be measured with it. vLLM does, and the"
    " server of llama-cpp-python with --logits_all true."
)
SHIFTED = (
    "The server returns log-probabilities that are not those of its own tokens: the token it generated is not the"
    " likeliest by them. llama-cpp-python shifts them where a prompt does not begin with the model's first token: load"
    " the model with its tokenizer, so that the chat template writes it."
)


class ScoredToken(NamedTuple):
    """A token of a text, as the server cuts it."""

    end: int  # in characters of the text, without blanks after it
    log_probability: float  # natural, given the tokens before it
    best_other: float  # of the likeliest other token; -inf where this one is the likeliest


@dataclass(frozen=True)
class CompletionsClient:
    """One model of one server."""

    base: str  # such as http://127.0.0.1:8000/v1
    model: str

    def score(self, text: str) -> list[ScoredToken]:
        """The tokens of a text but for the first, which is predicted from nothing. The ends of tokens are counted from
        the end of the text, because some servers write special tokens as nothing.
        """
        # One token is generated, because some servers read zero as "no limit"; it also shows whether the
        # log-probabilities belong to the tokens beside them.
        answer = self._post({"prompt": text, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1})
        generated = _number(answer.get("usage"), "completion_tokens")
        choice = _choice(answer)
        tokens, offsets, chances, likeliest = _columns(choice.get("logprobs"))
        given = len(tokens) - (1 if generated is None else generated)
        if generated is None or given < 1 or len(tokens) - given > 1:
            raise ServerFailed(MISSING)
        if given < len(tokens):
            own, best = chances[-1], likeliest[-1]
            if own is None or best is None or not math.isclose(own, best, abs_tol=1e-3):
                raise ServerFailed(SHIFTED)
        total = offsets[given] if given < len(tokens) else offsets[-1] + len(tokens[-1])
        ends = [len(text) - (total - offset) for offset in [*offsets[:given], total]]
        scored = []
        for place, (start, end) in enumerate(pairwise(ends)):
            own, best = chances[place], likeliest[place]
            if own is None:
                if place:
                    raise ServerFailed(MISSING)
                continue
            other = -math.inf if best is None or best <= own else best
            inside = text[max(start, 0) : max(end, 0)]
            blanks = len(inside) - len(inside.rstrip()) if inside.strip() else 0
            scored.append(ScoredToken(end - blanks, own, other))
        return scored

    def write(self, text: str, tokens: int) -> str:
        """What the model continues a text with, greedily."""
        return str(_choice(self._post({"prompt": text, "max_tokens": tokens, "temperature": 0})).get("text") or "")

    def _post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return request(f"{self.base}/completions", {"model": self.model, **body})


def models_of(base: str) -> dict[str, int | None]:
    """The models that a server offers, with how many tokens each reads where the server says so."""
    rows = request(f"{base}/models").get("data")
    if not isinstance(rows, list):
        raise ServerFailed(f"{base}/models does not list models: this is no OpenAI-compatible server.")
    return {str(row.get("id")): _number(row, "max_model_len") for row in rows if isinstance(row, Mapping)}


def request(address: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON object that a server answers with; POST where there is a body. Every failure is one line."""
    key, seconds = os.environ.get(KEY, "").strip(), _seconds()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    where = f"The server at {address}"
    try:
        with _opener(address).open(Request(address, data, headers), timeout=seconds) as response:
            content = response.read(MOST_BYTES + 1)
    except HTTPError as error:
        with error:
            raise _refusal(where, error.code, _without(key, _message(error)), has_key=bool(key)) from None
    except TimeoutError:
        raise _too_slow(where, seconds) from None
    except (URLError, OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(getattr(error, "reason", None), TimeoutError):
            raise _too_slow(where, seconds) from None
        why = _without(key, " ".join(str(getattr(error, "reason", error)).split())[:200])
        raise ServerFailed(f"{where} cannot be reached ({why or type(error).__name__}).") from None
    if len(content) > MOST_BYTES:
        raise ServerFailed(f"{where} answered with more than {MOST_BYTES // 1_000_000} MB.")
    try:
        answer = json.loads(content)
    except ValueError:
        raise ServerFailed(f"{where} answered no JSON: this is no OpenAI-compatible server.") from None
    if not isinstance(answer, dict):
        raise ServerFailed(f"{where} answered no JSON object: this is no OpenAI-compatible server.")
    return answer


class _NoRedirects(HTTPRedirectHandler):
    """A key is sent to the address that the user gave, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(address: str) -> Any:
    """Nothing for this machine goes through a proxy."""
    host = urlsplit(address).hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return build_opener(ProxyHandler({}) if here else ProxyHandler(), _NoRedirects())


def _seconds() -> float:
    given = os.environ.get(SECONDS, "")
    try:
        seconds = float(given) if given else USUAL_SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise BadOption(f"{SECONDS} is how many seconds a server may take, not {given!r:.40}.")
    return seconds


def _too_slow(where: str, seconds: float) -> ServerFailed:
    return ServerFailed(f"{where} did not answer within {seconds:g} seconds. Allow more with {SECONDS}.")


def _refusal(where: str, code: int, message: str, *, has_key: bool) -> ServerFailed | ModelFailed:
    if code in (401, 403):
        said = f"refuses the key in {KEY}" if has_key else f"wants a key: set it in {KEY}"
        return ServerFailed(f"{where} {said}.")
    if 300 <= code < 400:
        return ServerFailed(f"{where} redirects: give the address that it redirects to.")
    said = f"{where} answered {code}{f' ({message})' if message else ''}."
    return ModelFailed(said) if code in OF_THE_REQUEST else ServerFailed(said)


def _message(error: HTTPError) -> str:
    """What a server says of an error, on one line."""
    try:
        content = error.read(10_000)
        said = json.loads(content)
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    for name in ("error", "message", "detail"):
        said = said.get(name, said) if isinstance(said, dict) else said
    return " ".join(said.split())[:300] if isinstance(said, str) else ""


def _without(key: str, text: str) -> str:
    return text.replace(key, "***") if key else text


def _choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise ServerFailed("The server answered without a completion.")
    return choices[0]


def _number(row: object, name: str) -> int | None:
    found = row.get(name) if isinstance(row, Mapping) else None
    return found if type(found) is int else None


def _columns(found: object) -> tuple[list[str], list[int], list[float | None], list[float | None]]:
    """Of every token its text, its first character, its log-probability and that of the likeliest token."""
    if not isinstance(found, Mapping):
        raise ServerFailed(MISSING)
    parts = [found.get(name) for name in ("tokens", "text_offset", "token_logprobs", "top_logprobs")]
    if not all(isinstance(part, list) and part and len(part) == len(parts[0] or ()) for part in parts):
        raise ServerFailed(MISSING)
    texts, offsets, chances, tops = ([*part] for part in parts if part is not None)
    if not all(type(offset) is int for offset in offsets):
        raise ServerFailed(MISSING)
    best = [_largest(row.values()) if isinstance(row, Mapping) else None for row in tops]
    return [str(text) for text in texts], offsets, [_finite(chance) for chance in chances], best


def _largest(chances: Iterable[object]) -> float | None:
    return max((known for chance in chances if (known := _finite(chance)) is not None), default=None)


def _finite(chance: object) -> float | None:
    """A log-probability; of what the model thinks impossible, one that no sum is damaged by."""
    if chance is None:
        return None
    if not isinstance(chance, int | float) or math.isnan(chance):
        raise ServerFailed(MISSING)
    return max(float(chance), -1e4)
