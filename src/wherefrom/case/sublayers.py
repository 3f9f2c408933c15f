"""Attention sublayers: which tokens attend to which, in one stack of layers or in an encoder and a decoder.

A model with one stack has one sublayer in each layer, in which all tokens attend to all. A model with an encoder and a
decoder reads the tokens of the source and then those of the output as one text: the encoder's layers attend from source
to source; each of the decoder's layers first from output to output, then from output to source. Every sublayer is a
matrix over all tokens, whose other entries are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Sublayer:
    """One attention of a model, for one text and one decision."""

    layer: int  # of its stack, from 0
    queries: slice  # the tokens that attend, as far as the decision depends on them
    keys: slice  # the tokens that are attended to, likewise
    size: tuple[int, int]  # of its matrix as it was recorded: (query, key)
    decides: bool = True  # whether it belongs to the stack that the decision is read from

    @property
    def crosses(self) -> bool:
        """Whether one stack attends to the other."""
        return bool(self.queries.start != self.keys.start)

    def placed(self, matrix: Tensor, tokens: int) -> Tensor:
        """The matrix over all tokens of the text; a view, where it covers them. (..., query, key) each"""
        queries, keys = self.size
        part = matrix[..., :queries, :keys]
        if self.size == (tokens, tokens):
            return part
        everywhere = part.new_zeros(*part.shape[:-2], tokens, tokens)
        row, column = self.queries.start, self.keys.start
        everywhere[..., row : row + queries, column : column + keys] = part
        return everywhere


def sublayers_of(stacks: Sequence[int], tokens: int, output: int, position: int | None) -> list[Sublayer]:
    """The sublayers of a text, in the order in which they run.

    stacks: how many layers each stack has. output: how many of the tokens the decoder reads.
    position: the one that the decision is read at; the last unless given. Later tokens of the output are no part of it.
    """
    if len(stacks) == 1:
        every = slice(0, tokens)
        return [Sublayer(layer, every, every, (tokens, tokens)) for layer in range(stacks[0])]
    source = tokens - output
    read, written = slice(0, source), slice(source, tokens if position is None else position + 1)
    encoder, decoder = stacks
    sublayers = [Sublayer(layer, read, read, (source, source), decides=False) for layer in range(encoder)]
    for layer in range(decoder):
        sublayers.append(Sublayer(layer, written, written, (output, output)))
        sublayers.append(Sublayer(layer, written, read, (output, source)))
    return sublayers


def stack_tokens(stacks: Sequence[int], tokens: int, output: int) -> list[slice]:
    """The tokens that each stack reads."""
    return [slice(0, tokens)] if len(stacks) == 1 else [slice(0, tokens - output), slice(tokens - output, tokens)]
