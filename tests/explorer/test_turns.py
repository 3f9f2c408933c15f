"""Every pass of a served model takes a turn and can be stopped, those that continue from shared prefixes included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tiny_models import make_model

from explorer.serving import LONG
from wherefrom.case.asking import Asker
from wherefrom.explorer.limits import Limits
from wherefrom.explorer.service import ModelService, PlainData
from wherefrom.model.text_model import TextModel

TEXT = "the film was not bad , but the plot is dull and the acting was never very fine !"


@pytest.fixture
def service() -> Iterator[ModelService]:
    running = ModelService(make_model("gpt2", task="causal_lm"), Limits())
    yield running
    running.close()


@contextmanager
def each_pass(model: TextModel, note: Callable[[], None]) -> Iterator[None]:
    """Call a function whenever the module runs, however it is reached."""
    handle = model.network.module.register_forward_pre_hook(lambda *_: note())
    try:
        yield
    finally:
        handle.remove()


def hide_every_token(model: TextModel) -> Asker:
    asker, encoding = Asker(model), model.encode(TEXT)
    asker.note(encoding, ~np.eye(len(encoding), dtype=np.bool_), "unk")
    asker.run()
    return asker


def test_every_pass_of_a_causal_model_takes_a_turn(service: ModelService) -> None:
    taken = list[bool]()
    with each_pass(service.model, lambda: taken.append(service.network.turns._taken)):
        asker = hide_every_token(service.model)
    assert service.model.shares_prefixes
    assert asker.rows > asker.distinct  # a pass over the text itself, whose beginnings the others share
    assert len(taken) >= 3
    assert all(taken)


@pytest.mark.parametrize("last", [1, 2, 3, 4])  # trials of the cache, the text that is shared, and rows after it
def test_a_computation_on_a_causal_model_stops_before_its_next_pass(service: ModelService, last: int) -> None:
    passes, ready, results = list[int](), threading.Event(), list[object]()

    def steps() -> Iterator[PlainData]:
        hide_every_token(service.model)
        yield {"finished": True}

    def send(result: object) -> None:
        results.append(result)
        ready.set()

    def stop_at_last() -> None:
        passes.append(1)
        if len(passes) == last:
            computation.stop()

    with each_pass(service.model, stop_at_last):
        with service.network.turns.turn(click=True):  # no pass begins before `computation` has its value
            computation = service.compute(steps(), send)
        assert ready.wait(LONG)
    assert results == [None]
    assert len(passes) == last


def test_a_stopped_trial_is_no_verdict_about_the_model(service: ModelService) -> None:
    """A trial that was interrupted must not be remembered as a model that cannot share prefixes."""
    test_a_computation_on_a_causal_model_stops_before_its_next_pass(service, 1)
    assert service.model.shares_prefixes


def test_a_click_waits_for_no_more_than_one_pass_of_a_causal_model(service: ModelService) -> None:
    """The second pass of a computation comes after a click that waits during the first."""
    order, clicked, ready = list[str](), threading.Event(), threading.Event()

    def click() -> None:
        with service.network.turns.turn(click=True):
            order.append("click")
        clicked.set()

    def note() -> None:
        order.append("pass")
        if len(order) == 1:
            threading.Thread(target=click).start()
            while not service.network.turns._clicks:
                pass

    def steps() -> Iterator[PlainData]:
        hide_every_token(service.model)
        yield {"finished": True}

    with each_pass(service.model, note):
        computation = service.compute(steps(), lambda _: ready.set())
        assert ready.wait(LONG)
        assert clicked.wait(LONG)
    computation.stop()
    assert order[:3] == ["pass", "click", "pass"]


def test_a_served_model_keeps_its_spread() -> None:
    model = make_model("bert", labels=1)
    measured = TextModel.of(model.network.module, model.reading.tokenizer, spread=2.5)
    service = ModelService(measured, Limits())
    assert service.model.spread == 2.5
    service.close()
