"""What another package would bring through the entry points `wherefrom.families` and `wherefrom.readers`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wherefrom import DataReader, Family
from wherefrom.registry import Record

ARCEE = Family(
    ("arcee",),
    blocks="layers.*",
    attention="self_attn",
    attention_out="self_attn.o_proj",
    attention_norm="input_layernorm",
    mlp=("mlp",),
    mlp_norm="post_attention_layernorm",
    order="pre",
    reads="last",
)


def read_reviews(path: Path, split: str | None) -> Iterator[Record]:
    """A number of stars and a text on every line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        stars, _, text = line.partition(" ")
        if split in (None, stars):
            yield f"{path}, line {number}", {"text": text, "label": int(stars)}


REVIEWS = DataReader("reviews", read_reviews, suffixes=(".reviews",))
