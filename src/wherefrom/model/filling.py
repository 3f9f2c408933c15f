"""Words that a masked language model expects where others are hidden, so that a text without them is like other texts.

After the input marginalization of Kim et al. 2020 (arXiv:2010.13984): the answer to a text with hidden words is the
mean over draws of what may stand there. Where several words are hidden, each is drawn by itself, given the words that
are left.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wherefrom.core.arrays import Flags, Indices
from wherefrom.core.encoding import Encoding
from wherefrom.errors import BadOption, WrongModel
from wherefrom.model.network import NetworkCall, padded_inputs
from wherefrom.model.text_model import TextModel

SHARED = 0.9  # of a vocabulary that the masked language model has to have, too
ROWS = 32  # of one pass


@dataclass(frozen=True, eq=False)
class SampledWords:
    """What a masked language model puts in place of hidden tokens of another model."""

    language_model: TextModel
    theirs: Indices  # by our id: the language model's id of the same token, its unknown token where it has none
    ours: Indices  # our ids of the tokens that may be drawn
    columns: Tensor  # the language model's ids of these
    draws: int = 8

    @classmethod
    def of(cls, model: TextModel, language_model: TextModel, draws: int = 8) -> SampledWords:
        """Raises where the model cannot fill in words, or has another vocabulary."""
        if draws < 1:
            raise BadOption(f"At least one word is drawn for each that is hidden, not {draws}.")
        tokenizer, other = model.reading.tokenizer, language_model.reading.tokenizer
        if language_model.task.name != "masked_lm" or other.mask_token_id is None:
            raise WrongModel(f"{language_model.name} is no masked language model, so it cannot fill in hidden words.")
        known, vocabulary = other.get_vocab(), tokenizer.get_vocab()
        shared = {token: number for token, number in vocabulary.items() if token in known}
        if len(shared) < SHARED * len(vocabulary):
            raise WrongModel(
                f"{language_model.name} has {len(shared)} of the {len(vocabulary)} tokens of {model.name}: hidden words"
                " are filled in by a masked language model with the same vocabulary."
            )
        unknown = other.mask_token_id if other.unk_token_id is None else other.unk_token_id
        theirs = np.full(max(vocabulary.values()) + 1, unknown)
        for token, number in shared.items():
            theirs[number] = known[token]
        special = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
        ours = np.array(sorted(number for number in shared.values() if number not in special))
        return cls(language_model, theirs, ours, torch.from_numpy(theirs[ours]), draws)

    @torch.no_grad()
    def fill(self, encoding: Encoding, keep: Flags) -> Indices:
        """Our ids with others drawn where nothing is kept, the same for the same text and the same tokens kept. (row,
        token) -> (row, draw, token)
        """
        ids = np.asarray(encoding.input_ids)
        found = np.tile(ids, (len(keep), self.draws, 1))
        mask = self.language_model.reading.tokenizer.mask_token_id
        types = encoding.token_type_ids
        for start in range(0, len(keep), ROWS):
            rows = keep[start : start + ROWS]
            masked = np.where(rows, self.theirs[ids], mask).tolist()
            inputs = padded_inputs(self.language_model.network, masked, [types] * len(masked))
            call = NetworkCall(inputs, ((inputs["input_ids"], None),))
            logits = self.language_model.network.run(call, whole=True)[0].logits
            for number, (row, answer) in enumerate(zip(rows, logits, strict=True), start):
                hidden = np.flatnonzero(~row)
                if len(hidden):
                    found[number][:, hidden] = self._drawn(encoding, row, answer[torch.from_numpy(hidden)]).T
        return found

    def _drawn(self, encoding: Encoding, row: Flags, logits: Tensor) -> Indices:
        """(hidden token, draw)"""
        seed = zlib.crc32(np.asarray(encoding.input_ids, dtype=np.int64).tobytes() + row.tobytes())
        chances = logits.detach().cpu().double()[:, self.columns].softmax(-1)
        generator = torch.Generator().manual_seed(seed)
        places = torch.multinomial(chances, self.draws, replacement=True, generator=generator)
        drawn: Indices = self.ours[places.numpy()]
        return drawn
