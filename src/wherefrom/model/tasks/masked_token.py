"""Masked language models: which token is at the mask; where there are several masks, which is at each.

Every mask is read by itself, while the others stay masks. What is at all of them is a target of several components:
each mask is explained from its own position, the explanations add up, and the probability is the product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wherefrom.core.encoding import Encoding
from wherefrom.core.target import MaskedWord, SavedTarget, Target, joint_probability
from wherefrom.core.units import Span
from wherefrom.errors import BadOption, EmptyText, MissingToken, UnknownName, WherefromError
from wherefrom.model.tasks.task import TargetSpec, has_classes, two_of
from wherefrom.model.tasks.tokens import SHOWN, TokenTask, token_target
from wherefrom.registry import register_task

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

_CHOSEN = re.compile(r"#(\d{1,9})(?::\s*(\S.*))?", re.DOTALL)  # one of the masks, from 1, and perhaps the token there


@dataclass(frozen=True)
class MaskedToken(TokenTask):
    name = "masked_lm"
    auto = "AutoModelForMaskedLM"
    sample = "Is {mask} so?"

    def asked_at(self, model: TextModel, text: str, span: Span) -> str:
        return f"{text[: span[0]]}{model.reading.tokenizer.mask_token}{text[span[1] :]}"

    def check_text(self, model: TextModel, encoding: Encoding) -> Encoding:
        """Masks are the question: like special tokens, they are never hidden, ranked or removed."""
        mask = model.reading.tokenizer.mask_token
        if mask is None:
            raise MissingToken("The tokenizer has no mask token, so a masked language model cannot be asked.")
        masks = _masks(model, encoding.input_ids)
        if not masks:
            raise WherefromError(
                f"A masked language model is asked with {mask} in the text, one or several; this one has none"
                f"{' in the part that the model reads' if encoding.cut else ''}."
            )
        segment = tuple(-1 if i in masks else part for i, part in enumerate(encoding.segment))
        if all(part < 0 for part in segment):
            raise EmptyText(f"There is nothing beside {mask} in the text, so nothing that could explain it.")
        return replace(encoding, segment=segment)

    def positions(self, model: TextModel, inputs: dict[str, Tensor]) -> Tensor | None:
        """(row,); (row, mask) where a row has several, in which the last mask of shorter rows is repeated."""
        ids = inputs["input_ids"]
        of_rows = [_masks(model, row) or [0] for row in ids.tolist()]
        most = max(map(len, of_rows))
        places = torch.tensor([[*row, *row[-1:] * (most - len(row))] for row in of_rows], device=ids.device)
        return places[:, 0] if most == 1 else places

    def logits(self, output: Any, inputs: dict[str, Tensor], positions: Tensor | None) -> Tensor:
        """(row, word); where a row has several masks (row, mask * word)"""
        if positions is None or positions.ndim == 1:
            return super().logits(output, inputs, positions)
        rows = torch.arange(len(positions), device=output.logits.device)[:, None]
        at_masks: Tensor = output.logits[rows, positions]  # (row, mask, word)
        return at_masks.flatten(1)

    def own_logits(self, model: TextModel, logits: Tensor, ids: Sequence[int]) -> Tensor:
        """Without the masks that only other rows of the batch have."""
        words = _vocabulary(model)
        return logits if logits.numel() < 2 * words else logits[: max(1, len(_masks(model, ids))) * words]

    def fixed_target(self, model: TextModel, spec: TargetSpec) -> Target | None:
        """A single token is one wherever the mask is. Others depend on how many masks there are."""
        parts = two_of(spec) if isinstance(spec, tuple) else (spec,)
        if not any(isinstance(part, str) and _of_several(model, part) for part in parts):
            return super().fixed_target(model, spec)
        for part in parts:
            if part is not None:
                _named(model, part)
        return None

    def targets(self, model: TextModel, spec: TargetSpec, logits: Tensor, encoding: Encoding) -> Sequence[Target]:
        masks = _masks(model, encoding.input_ids)
        if not isinstance(spec, tuple):
            return _components(model, _asked(model, spec, len(masks)), logits, masks)
        token, other = two_of(spec)
        first = _asked(model, token, len(masks))
        second = _asked(model, other, len(masks), like=first)
        if set(first) != set(second):
            raise BadOption(f"{token!r} and {other!r} are about different masks: what stands at one is compared.")
        components = _components(model, first, logits, masks)
        rest = _components(model, second, logits, masks)
        if all(a.index == b.index for a, b in zip(components, rest, strict=True)):
            raise BadOption(f"{token!r} and {other!r} mean the same, so that there is no difference to explain.")
        label = f"{components[0].label} rather than {rest[0].label}"
        # A mask at which both say the same does not tell the one from the other.
        pairs = [(a, b) for a, b in zip(components, rest, strict=True) if a.index != b.index]
        return [replace(a, label=label, versus=b.index) for a, b in pairs]

    def restored(
        self, model: TextModel, label: str, saved: Sequence[SavedTarget], logits: Tensor, encoding: Encoding
    ) -> Sequence[Target]:
        masks = _masks(model, encoding.input_ids)
        if len(masks) == 1:
            return super().restored(model, label, saved, logits, encoding)
        words = logits.numel() // len(masks)
        components = []
        for target in saved:
            place = target.position
            if place not in masks or not has_classes(target, words):
                raise BadOption(f"The explanation is of {label!r}, but this model has no such target.")
            components.append(
                MaskedWord(
                    target.index,
                    label,
                    versus=target.versus,
                    mask=masks.index(place),
                    words=words,
                    place=place,
                    alone=_CHOSEN.match(label) is not None,
                )
            )
        return components or self.targets(model, label, logits, encoding)

    def predicted(self, model: TextModel, logits: Tensor, encoding: Encoding) -> Target:
        return self.targets(model, None, logits, encoding)[0]

    def decided(
        self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]
    ) -> Sequence[Target]:
        """What is likeliest at the mask that these targets are about; at all of them, unless one was chosen."""
        first = targets[0]
        spec = f"#{first.mask + 1}" if isinstance(first, MaskedWord) and first.alone else None
        return self.targets(model, spec, logits, encoding)

    def probabilities(self, model: TextModel, logits: Tensor, target: Target) -> dict[str, float]:
        """Of the likeliest tokens; where all of several masks are explained, of the likeliest that stand at them
        together.
        """
        if not isinstance(target, MaskedWord):
            return super().probabilities(model, logits, target)
        by_mask = logits.view(-1, target.words)
        if target.alone:
            return super().probabilities(model, by_mask[target.mask], target)
        likely = by_mask.double().softmax(-1).topk(min(SHOWN, target.words))  # (mask, place)
        # Of the best few of all masks together each part is among the best few of its mask; more need not be tried.
        kept: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
        for chances, tokens in zip(likely.values.tolist(), likely.indices.tolist(), strict=True):
            longer = [
                (mask * chance, (*row, token))
                for (mask, row), (chance, token) in product(kept, zip(chances, tokens, strict=True))
            ]
            kept = sorted(longer, key=lambda pair: -pair[0])[:SHOWN]
        named = {row: " ".join(token_target(model, token).label for token in row) for _, row in kept}
        by_word: dict[str, float] = {}
        for chance, row in kept:
            name = named[row]
            by_word[f"{name} (tokens {' '.join(map(str, row))})" if name in by_word else name] = chance
        return by_word

    def notes(self, model: TextModel, logits: Tensor, encoding: Encoding, targets: Sequence[Target]) -> tuple[str, ...]:
        """The probability of each part, because one number summarises all of them."""
        del model
        if len(targets) < 2:
            return ()
        chances = [f"{target.probability(logits[None]).item():.0%}" for target in targets]
        return (
            f"The scores of {len(targets)} masks are added up, and the probability"
            f" ({joint_probability(targets, logits[None]).item():.2g}) is the product of theirs:"
            f" {', '.join(chances)}. '#1', '#2' and so on as the target explain one of them.",
        )


def _masks(model: TextModel, ids: Sequence[int]) -> list[int]:
    """Where the masks are."""
    return [place for place, token in enumerate(ids) if token == model.reading.tokenizer.mask_token_id]


def _vocabulary(model: TextModel) -> int:
    """How many logits there are at one mask."""
    weight = getattr(model.network.module.get_output_embeddings(), "weight", None)
    size: int = model.network.module.config.get_text_config().vocab_size if weight is None else len(weight)
    return size


def _of_several(model: TextModel, spec: str) -> bool:
    """Whether this is no single token, but one for each mask, or one at a chosen mask."""
    listed = model.reading.tokenizer.convert_tokens_to_ids(spec) not in (None, model.reading.tokenizer.unk_token_id)
    return not listed and (len(spec.split()) > 1 or _CHOSEN.fullmatch(spec.strip()) is not None)


def _named(model: TextModel, spec: str | int) -> tuple[int | None, list[int | None]]:
    """Which mask is meant (None: all), and the token at each that is (None: the likeliest)."""
    if isinstance(spec, str) and _of_several(model, spec):
        chosen = _CHOSEN.fullmatch(spec.strip())
        if chosen is not None:
            return int(chosen[1]) - 1, [None if chosen[2] is None else token_target(model, chosen[2]).index]
        return None, [token_target(model, word).index for word in spec.split()]
    return None, [token_target(model, spec).index]


def _asked(
    model: TextModel, spec: str | int | None, masks: int, like: Mapping[int, int | None] | None = None
) -> dict[int, int | None]:
    """The token at each mask that is asked about, by its number; None for the likeliest there.

    like: what this is compared with; a single token is then at the same mask.
    """
    if spec is None:
        return dict.fromkeys(range(masks))
    chosen, tokens = _named(model, spec)
    if chosen is not None:
        if not 0 <= chosen < masks:
            raise UnknownName(f"There is no mask number {chosen + 1}: the text has {masks}, counted from 1.")
        return {chosen: tokens[0]}
    if like is not None and len(like) == len(tokens) == 1:
        return {next(iter(like)): tokens[0]}
    if len(tokens) != masks:
        masks_text = "one mask" if masks == 1 else f"{masks} masks"
        example = " ".join(["good", "film", "and", "plot"][: min(masks, 4)]) + (" ..." if masks > 4 else "")
        raise BadOption(
            f"The text has {masks_text}, and the target {spec!r} names {len(tokens)}"
            f" {'token' if len(tokens) == 1 else 'tokens'}. Give a token for each"
            + (f", as in '{example}', or choose a mask, as in '#{masks}: good' or '#{masks}'." if masks > 1 else ".")
        )
    return dict(enumerate(tokens))


def _components(
    model: TextModel, token_of_mask: Mapping[int, int | None], logits: Tensor, masks: Sequence[int]
) -> Sequence[Target]:
    by_mask = logits.view(len(masks), -1)
    tokens = {mask: int(by_mask[mask].argmax()) if token is None else token for mask, token in token_of_mask.items()}
    named = [token_target(model, token) for token in tokens.values()]
    if len(masks) == 1:
        return named
    alone = len(token_of_mask) < len(masks)
    label = " ".join(target.label for target in named)
    label = f"#{next(iter(token_of_mask)) + 1}: {label}" if alone else label
    return [
        MaskedWord(token, label, mask=mask, words=by_mask.shape[1], place=masks[mask], alone=alone)
        for mask, token in tokens.items()
    ]


register_task(MaskedToken())
