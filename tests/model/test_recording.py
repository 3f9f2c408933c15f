"""Recording while other threads use the same model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tiny_models import make_model

from wherefrom.model.recording import recording
from wherefrom.model.text_model import PassCount


def test_a_hook_that_another_thread_calls_while_it_goes_does_nothing() -> None:
    """torch takes a hook away in two steps; a thread in between calls it without keyword arguments."""
    model = make_model("bert")
    block = model.anatomy.blocks[0].module
    with recording([block], []) as record:
        block._forward_pre_hooks_with_kwargs.clear()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(model.logits, model.batch([model.encode("a fine film")]), PassCount()).result()
    assert record.inputs == []
