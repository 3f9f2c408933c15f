"""A flow: how much each position holds of every other, layer by layer. Plain numbers, to be shown and saved without a
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from wherefrom.core.arrays import Numbers
from wherefrom.core.plain import from_plain
from wherefrom.core.saved import Format, Saved
from wherefrom.errors import BadFile

DIGITS = 8  # of a share, in a file


@dataclass(frozen=True, eq=False)
class Flow(Saved):
    """How much each position holds of every other, layer by layer.

    Attributes:
        text: what was followed.
        tokens: every token the model saw.
        offsets: (start, end) characters of each.
        segment: 0 in the text, 1 in its pair, -1 for tokens that the tokenizer added.
        layers: the contributions C^l, (layer, query, key): the share of position i after layer l that came from
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

    FORMAT: ClassVar[Format] = Format("flow", "wherefrom_flow")

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
        """R^l = C^l ... C^1, (layer, query, key): the share of position i after layer l that came from input token
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
        """Print how much of each token the deciding position contains after each layer, counted from 1; in a
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
        """Everything in plain Python, as `save` writes it: shares rounded to eight digits."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        layers = self.layers.round(DIGITS).tolist()
        return {self.FORMAT.field: self.FORMAT.version, **plain, "layers": layers}

    @classmethod
    def _from_plain(cls, data: Mapping[str, Any]) -> Flow:
        plain = from_plain(_PlainFlow, data, "flow")
        sizes = {len(plain.offsets), len(plain.segment), len(plain.read)}
        sizes |= {len(layer) for layer in plain.layers} | {len(row) for layer in plain.layers for row in layer}
        if sizes != {len(plain.tokens)} or not plain.layers:
            raise BadFile("This flow is damaged: its tokens and contributions are not equally many.")
        values = {field.name: getattr(plain, field.name) for field in fields(cls)}
        return cls(**values | {"layers": np.asarray(plain.layers, dtype=np.float64)})

    def _problems(self) -> Iterator[str]:
        texts = {-1: "", 0: self.text, 1: self.pair}
        for (start, end), part in zip(self.offsets, self.segment, strict=True):
            text = texts.get(part)
            if text is None or (part >= 0 and not 0 <= start <= end <= len(text)):
                yield f"its text {part} has no characters {start} to {end}"


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
