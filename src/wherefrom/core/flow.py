"""A flow: how much each position holds of every other, layer by layer. Plain numbers, to be shown and saved without a
model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wherefrom.core.arrays import Numbers
from wherefrom.core.files import FilePath, json_text, write_atomically
from wherefrom.core.plain import load_plain
from wherefrom.errors import BadFile

FORMAT = 1
DIGITS = 8  # of a share, in a file


@dataclass(frozen=True, eq=False)
class Flow:
    """How much each position holds of every other, layer by layer.

    Attributes:
        text: what was followed.
        tokens: every token the model saw.
        offsets: (start, end) characters of each.
        segment: 0 in the text, 1 in its pair, -1 for tokens that the tokenizer added.
        layers: the contributions C^l, (layer, query, key): the share of position i behind layer l that came from
            position j before it. Rows sum to one.
        read: how much of each position the decision reads.
        method: alti, globenc, norms or attention_rollout.
        prediction: what the model says; of a regression model its value in digits.
        probability: its probability; None for a regression model.
        pair: the second text, if there was one.
        params: every option of the method, as it was settled.
        notes: what the method has to say about this text.
        model: the model's name.

    Example:
        ```python
        flow = wherefrom.load("embedded").flow("A gorgeous, witty film.", "alti")
        print(dict(zip(flow.tokens, flow.scores.round(3))))
        ```
    """

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    segment: tuple[int, ...]
    layers: Numbers  # (layer, query, key): rows sum to one
    read: tuple[float, ...]  # how much of each position the decision reads
    method: str
    prediction: str = ""
    probability: float | None = 0.0
    pair: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    model: str = ""

    @property
    def special(self) -> tuple[bool, ...]:
        """True for tokens that the tokenizer added, such as [CLS]."""
        return tuple(part < 0 for part in self.segment)

    @property
    def accumulated(self) -> Numbers:
        """R^l = C^l ... C^1, (layer, query, key): the share of position i behind layer l that came from input token
        j.
        """
        product, products = np.eye(len(self.tokens)), []
        for layer in self.layers:
            product = layer @ product
            products.append(product)
        return np.stack(products)

    @property
    def scores(self) -> Numbers:
        """What the deciding position holds of each input token. (token,)"""
        row: Numbers = np.asarray(self.read)
        for layer in self.layers[::-1]:
            row = row @ layer
        return row

    def show(self) -> None:
        """Print what the deciding position holds of each token behind each layer; layers are counted from 1; in a
        notebook, show the HTML view.
        """
        from wherefrom.report.flow_terminal import print_flow
        from wherefrom.report.notebook import shown_in_notebook

        if not shown_in_notebook(self):
            print_flow(self)

    def _repr_html_(self) -> str:
        from wherefrom.report.flow import fragment

        return fragment(self)

    def to_html(self) -> str:
        """A self-contained page: point at a token to see where what it holds came from."""
        from wherefrom.report.flow import page

        return page(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python, as `save` writes it."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"wherefrom_flow": FORMAT, **plain, "layers": self.layers.round(DIGITS).tolist()}

    def save(self, path: FilePath) -> None:
        """Write JSON to a file: wholly, or not at all.

        Args:
            path: the file.
        """
        write_atomically(path, json_text(self.to_dict()), "flow")

    @classmethod
    def load(cls, path: FilePath) -> Flow:
        """A flow that was saved to a file; needs no model and no torch.

        Args:
            path: the file.

        Returns:
            The flow, its shares rounded to eight digits.
        """
        plain = load_plain(_PlainFlow, path, "flow", FORMAT)
        count = len(plain.tokens)
        sizes = {len(plain.offsets), len(plain.segment), len(plain.read)}
        sizes |= {len(layer) for layer in plain.layers} | {len(row) for layer in plain.layers for row in layer}
        if sizes != {count} or not plain.layers:
            raise BadFile(f"{path} is damaged: its tokens and contributions are not equally many.")
        texts = {-1: "", 0: plain.text, 1: plain.pair}
        for (start, end), part in zip(plain.offsets, plain.segment, strict=True):
            text = texts.get(part)
            if text is None or (part >= 0 and not 0 <= start <= end <= len(text)):
                raise BadFile(f"{path} is damaged: its text {part} has no characters {start} to {end}.")
        known = {name: getattr(plain, name) for name in cls.__dataclass_fields__}
        return cls(**known | {"layers": np.asarray(plain.layers, dtype=np.float64)})


@dataclass(frozen=True)
class _PlainFlow:
    """A flow as it is in a file."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    segment: tuple[int, ...]
    layers: tuple[tuple[tuple[float, ...], ...], ...]
    read: tuple[float, ...]
    method: str
    prediction: str
    probability: float
    pair: str | None
    params: Mapping[str, Any]
    notes: tuple[str, ...]
    model: str
