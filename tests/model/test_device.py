"""What treats an accelerator unlike the processor, with stand-ins for one: no machine that runs these tests has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny_models import make_model, tiny
from torch import Tensor, nn

from wherefrom.case.asking import Asker
from wherefrom.case.memory import free_memory, in_halves
from wherefrom.errors import BadOption
from wherefrom.model.device import device_named, free_on_accelerator, give_back_memory, move, put
from wherefrom.model.network import inputs_of

CARD = torch.device("cuda", 0)


def test_numbers_go_where_the_model_is() -> None:
    assert put([[1, 2], [3, 4]], torch.device("cpu")).tolist() == [[1, 2], [3, 4]]
    there = put([[1, 2], [3, 4]], torch.device("meta"))
    assert (there.device.type, there.shape, there.dtype) == ("meta", (2, 2), torch.int64)


def test_a_batch_is_made_on_the_device_of_the_model() -> None:
    model = make_model("bert")
    move(model.network.module, "meta")
    inputs = inputs_of(model.network, [model.encode("a fine film"), model.encode("dull")])
    assert {value.device.type for value in inputs.values()} == {"meta"}
    assert {value.shape for value in inputs.values()} == {(2, len(model.encode("a fine film")))}


def test_a_graphics_card_is_given_numbers_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    def pinned(x: Tensor) -> Tensor:
        done.append("pinned")
        return x

    def sent(x: Tensor, device: torch.device, *, non_blocking: bool = False) -> Tensor:
        done.append((device, non_blocking))
        return x

    monkeypatch.setattr(Tensor, "pin_memory", pinned)
    monkeypatch.setattr(Tensor, "to", sent)
    assert put([[5]], CARD).tolist() == [[5]]
    assert done == ["pinned", (CARD, True)]


def test_free_memory_of_a_card_is_the_drivers_and_what_torch_keeps_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 600)
    assert free_on_accelerator(CARD) == free_memory(CARD) == 1100
    assert free_memory(torch.device("mps")) is None  # nobody says


class Card:
    """Stands in for torch's allocator of a card: counts how often it was told to hand memory back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, there: bool = True) -> None:
        self.told = 0
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: there)
        monkeypatch.setattr(torch.cuda, "empty_cache", self._count)

    def _count(self) -> None:
        self.told += 1


def test_without_a_card_nothing_is_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, there=False)
    give_back_memory()
    assert card.told == 0


def test_memory_is_handed_back_before_half_of_the_texts_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    card, sizes = Card(monkeypatch), []

    def work(places: Sequence[int]) -> dict[int, int]:
        sizes.append((len(places), card.told))
        if len(places) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return {place: place * 10 for place in places}

    assert in_halves([0, 1], [3, 3], work) == {0: 0, 1: 10}
    assert sizes == [(2, 0), (1, 1), (1, 1)]


def test_memory_is_handed_back_before_half_of_the_questions_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    model, card = tiny("bert"), Card(monkeypatch)
    encoding = model.encode("the film was not bad")
    keep = ~torch.eye(len(encoding), dtype=torch.bool)
    expected = _answers(Asker(model), encoding, keep)
    asker = Asker(model)
    logits = asker._logits

    def narrow(rows: Sequence[Any], *more: Any) -> Tensor:
        if len(rows) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return logits(rows, *more)

    monkeypatch.setattr(asker, "_logits", narrow)
    torch.testing.assert_close(_answers(asker, encoding, keep), expected)
    assert card.told > 0


def _answers(asker: Asker, encoding: Any, keep: Tensor) -> Tensor:
    asked = asker.note(encoding, keep, "unk")
    asker.run()
    return asked.logits


def test_a_device_that_is_none_is_said_in_one_sentence() -> None:
    assert device_named("cpu") == torch.device("cpu")
    with pytest.raises(BadOption, match=r"There is no device 'gpu'\. Take cpu, cuda, mps"):
        device_named("gpu")

    class Stuck(nn.Module):
        def to(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("Torch not compiled with CUDA enabled\nmore")

    with pytest.raises(BadOption, match=r"cannot be moved to the device 'cuda': Torch not compiled with CUDA enabled$"):
        move(Stuck(), "cuda")
