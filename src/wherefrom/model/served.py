"""A model behind an OpenAI-compatible server: it tells how likely given text is, and nothing inside can be seen.

Prompts are sent as text. The log-probability of a piece of the answer is the sum over the server's tokens that end in
it, so that the server may cut text differently from the tokenizer here.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from wherefrom.errors import BadOption, NotSeen, UnknownName, WrongModel
from wherefrom.model.anatomy import Anatomy
from wherefrom.model.completions import KEY, CompletionsClient, models_of
from wherefrom.model.loading import load_tokenizer
from wherefrom.model.network import Facts, NetworkCall
from wherefrom.model.pieces import PieceHiding, PieceReading, Pieces, StandIn
from wherefrom.model.tasks.served import ServedText
from wherefrom.model.text_model import TextModel

AT_ONCE = 4  # requests
CPU = torch.device("cpu")


def is_address(source: object) -> bool:
    """Whether this is the address of a server, and not a folder or a hub id."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def load_served(address: str, tokenizer: PreTrainedTokenizerBase | str | None = None) -> TextModel:
    """A model of a server. It is asked for its models, and to score a short text.

    address: such as http://127.0.0.1:8000/v1, with #NAME where the server offers several models.
    tokenizer: the model's, or its folder or hub id, for the chat template; without one the prompt is plain.
    """
    base, name = _parts(address)
    offered = models_of(base)
    if name is None:
        if len(offered) != 1:
            shown = ", ".join(list(offered)[:10]) or "none"
            raise BadOption(f"Say which model of the server: {base}#NAME. It offers {len(offered)}: {shown}.")
        (name,) = offered
    elif offered and name not in offered:
        raise UnknownName.among("model of the server", name, offered)
    cutter: Any = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    if cutter is not None and not getattr(cutter, "is_fast", False):
        raise WrongModel("The tokenizer of a model on a server must be a fast one, which says where it cuts.")
    client = CompletionsClient(base, name)
    pieces = Pieces({})
    network = ServedNetwork(client, pieces, Facts(only_answers=True, identity=_identity(base, name)))
    return TextModel(
        name=f"{base}#{name}",
        task=ServedText(client.write),
        reading=PieceReading(cutter, pieces, None if cutter is None else offered.get(name)),
        network=network,
        hiding=PieceHiding(pieces),
    )


def _parts(address: str) -> tuple[str, str | None]:
    """The address without the name of the model, and that name."""
    try:
        parts = urlsplit(address)
        known = bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise BadOption("This is not the address of a server: it is written as http://HOST:PORT/v1.")
    if parts.username or parts.password or parts.query:
        raise BadOption(f"An address has no key, password or query in it: set the key in the environment, as {KEY}.")
    path = parts.path.rstrip("/").removesuffix("/completions")
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), parts.fragment or None


def _identity(base: str, name: str) -> bytes:
    """A server's weights cannot be read: its address and the name of the model represent them."""
    return hashlib.sha256(f"{base}#{name}".encode()).digest()


@dataclass(frozen=True, eq=False)
class ServedNetwork:
    """A model on a server. There is nothing inside to look at."""

    client: CompletionsClient
    pieces: Pieces
    facts: Facts
    device: torch.device = CPU
    module: Any = field(default_factory=partial(StandIn, (), "single_label_classification"))

    @property
    def anatomy(self) -> Anatomy:
        raise NotSeen(f"This method looks inside the model, and {self.client.model} is on a server.")

    def embed(self, input_ids: Tensor) -> Tensor:
        """There are no word vectors: the numbers of the pieces themselves. (row, token, 1)"""
        return input_ids[..., None].to(torch.float64)

    def run(
        self,
        call: NetworkCall,
        positions: Tensor | None = None,
        *,
        whole: bool = False,
        cache: DynamicCache | None = None,
    ) -> tuple[Any, Tensor | None]:
        """Of every piece its log-probability given those before it, and that of the best other. (row, token, 2)"""
        del whole, cache
        ids, lengths = call.arguments["input_ids"], call.arguments["attention_mask"].sum(-1).tolist()
        vectors = call.lookups[0][1]
        shown = ids if vectors is None else vectors.detach()[..., 0].round().long()
        rows = [
            [self.pieces.texts[piece] for piece in row[:length]]
            for row, length in zip(shown.tolist(), lengths, strict=True)
        ]
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            scored = list(pool.map(self._scored, rows))
        finally:  # after the first that fails, no other is sent
            pool.shutdown(cancel_futures=True)
        table = torch.zeros(*ids.shape, 2, dtype=torch.float64)
        for place, numbers in enumerate(scored):
            table[place, : len(numbers)] = torch.tensor(numbers, dtype=torch.float64)
        return ModelOutput(logits=table), positions

    def _scored(self, row: Sequence[str]) -> list[tuple[float, float]]:
        """Of every piece of a row: the sum over the tokens that end in it. Another piece is as likely as the best that
        differs in one token.
        """
        ends = list(accumulate(map(len, row)))
        sums, best = [0.0] * len(row), [-math.inf] * len(row)
        for token in self.client.score("".join(row)):
            place = min(bisect_left(ends, max(token.end, 1)), len(row) - 1)
            best[place] = max(best[place] + token.log_probability, sums[place] + token.best_other)
            sums[place] += token.log_probability
        return list(zip(sums, best, strict=True))
