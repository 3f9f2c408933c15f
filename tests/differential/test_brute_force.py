"""Units of the caller's choice, windows and left-padding tokenizers against the network itself, asked row by row."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import combinations
from typing import Any

import pytest
import torch
from tiny_models import CONFIGS, make_network, tokenizer
from tolerances import TOLERANCE, assert_close
from torch import Tensor

import wherefrom
from wherefrom.case.windows import windows_of

TEXT = "the film was not bad , but dull !"
LONG = "the film was not bad , but the plot is dull and the acting was never very fine ! " * 6
ROOM = TOLERANCE[torch.float32]
FAMILIES = ["bert", "roberta", "gpt2", "llama", "xlnet", "convbert", "t5"]


def loaded(family: str, **more: Any) -> tuple[Any, wherefrom.Model]:
    _, pad, ends = CONFIGS[family]
    network = make_network(family, dtype=torch.float64, **more)
    return network, wherefrom.load((network, tokenizer(pad, ends)))


@torch.no_grad()
def logits_of(network: Any, ids: list[int], words: list[int]) -> Tensor:
    """One row; positions are those of `ids`, which are looked up as `words`."""
    if ids == words:
        found: Tensor = network(input_ids=torch.tensor([ids])).logits[0]
        return found
    handle = network.get_input_embeddings().register_forward_hook(
        lambda module, given, _: torch.nn.functional.embedding(
            torch.tensor([words]).view_as(given[0]), module.weight, module.padding_idx
        )
    )
    try:
        found = network(input_ids=torch.tensor([ids])).logits[0]
    finally:
        handle.remove()
    return found


@pytest.mark.parametrize("family", FAMILIES[:-1])
@pytest.mark.parametrize("fill", ["delete", "unk"])
def test_units(family: str, fill: str) -> None:
    """Every unit hidden as a whole; words outside of the caller's units are units, too."""
    network, model = loaded(family)
    spans = [(0, 8), (13, 20)]  # "the film", "not bad"
    found = model.explain(TEXT, "occlusion", 1, units=spans, fill=fill, check=False)
    units = found.units()
    assert [unit.text for unit in units] == ["the film", "was", "not bad", ",", "but", "dull", "!"]
    encoding = model.text_model.encode(TEXT)
    ids, unknown = list(encoding.input_ids), model.text_model.reading.tokenizer.unk_token_id
    whole = logits_of(network, ids, ids)[1]
    for unit in units:
        start = TEXT.index(unit.text)
        hidden = {
            place
            for place, (first, last) in enumerate(encoding.offsets)
            if encoding.segment[place] >= 0 and first >= start and last <= start + len(unit.text)
        }
        kept = [token for place, token in enumerate(ids) if place not in hidden]
        words = [unknown if place in hidden else token for place, token in enumerate(ids)]
        left = logits_of(network, kept, kept) if fill == "delete" else logits_of(network, ids, words)
        assert_close(unit.score, whole - left[1], tolerance=ROOM, what=(family, unit.text))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_shapley_values_of_units(family: str) -> None:
    """All coalitions of four units, by the definition."""
    network, model = loaded(family)
    text, spans = "the film was not bad but dull", [(0, 8), (9, 12), (13, 20), (21, 29)]
    found = model.explain(text, "kernel_shap", 1, units=spans, fill="delete", check=False)
    encoding = model.text_model.encode(text)

    def value(kept: frozenset[int]) -> float:
        ids = [
            token
            for token, (first, last), part in zip(encoding.input_ids, encoding.offsets, encoding.segment, strict=True)
            if part < 0 or any(spans[unit][0] <= first and last <= spans[unit][1] for unit in kept)
        ] or [model.text_model.hiding.start_token()]
        return logits_of(network, ids, ids)[1].item()

    count = len(spans)
    for unit, scored in enumerate(found.units()):
        others, expected = [other for other in range(count) if other != unit], 0.0
        for size in range(count):
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for chosen in combinations(others, size):
                expected += weight * (value(frozenset({*chosen, unit})) - value(frozenset(chosen)))
        assert scored.score == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "convbert"])
@pytest.mark.parametrize("target", [None, 2])
def test_windows(family: str, target: int | None) -> None:
    """Occlusion of every token in every window, a row at a time."""
    network, model = loaded(family)
    reader = model.text_model
    found = model.explain(LONG, "occlusion", target, long="windows", fill="unk")
    whole = reader.reading.tokenize(LONG, None, None)
    windows = windows_of(reader, whole)
    assert len(windows) > 1
    rows = [list(window.encoding.input_ids) for window in windows]
    answers = [logits_of(network, row, row) for row in rows]
    mean = torch.stack([answer.softmax(-1) for answer in answers]).mean(0)
    label = int(mean.argmax()) if target is None else target
    assert found.target == reader.labels[label]
    assert_close(found.probability, mean[label], tolerance=ROOM)
    total, count = torch.zeros(2, len(whole), dtype=torch.float64)
    for window, row, answer in zip(windows, rows, answers, strict=True):
        for number, place in enumerate(window.places):
            count[place] += 1
            if not whole.special[place]:
                words = [*row[:number], reader.reading.tokenizer.unk_token_id, *row[number + 1 :]]
                total[place] += answer[label] - logits_of(network, row, words)[label]
    assert_close(found.scores, total / count, tolerance=ROOM)


@pytest.mark.parametrize("family", FAMILIES)
def test_left_padding_tokenizers(family: str) -> None:
    """On which side a tokenizer pads does not matter: rows are padded where the model was tried."""
    _, pad, ends = CONFIGS[family]
    left = deepcopy(tokenizer(pad, ends))
    left.padding_side = "left"
    network, right = loaded(family)
    other = wherefrom.load((network, left))
    texts = [TEXT, f"{TEXT} and the plot is very dull", "a film"]
    for method in ("occlusion", "input_x_gradient"):
        both = zip(right.explain(texts, method), other.explain(texts, method), strict=True)
        for text, (expected, listed) in zip(texts, both, strict=True):
            assert_close(listed.scores, expected.scores, tolerance=ROOM)
            assert_close(listed.scores, other.explain(text, method).scores, tolerance=ROOM)
    assert left.padding_side == "left"
