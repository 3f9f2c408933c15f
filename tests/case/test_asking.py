"""Questions to a model: each is put once, whatever way it comes, and batching changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, make_model, tiny
from tolerances import TOLERANCE, assert_close, tolerance_of
from torch import Tensor
from toys import additive_model, case_of

from wherefrom.case.asking import Asker
from wherefrom.case.passes import Passes
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import Target
from wherefrom.errors import MissingToken, ModelFailed, TextWithoutAnswer
from wherefrom.model.hiding import fill_token
from wherefrom.model.network import inputs_of, padded_inputs
from wherefrom.model.text_model import PassCount, TextModel

TEXT = "the film was not bad , but dull !"
FILLS = ["unk", "pad", "delete"]


def rows(encoding: Encoding, count: int = 12, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((count, len(encoding))) < 0.6


def asked(model: TextModel, encoding: Encoding, keep: Any, fill: str, **more: Any) -> Tensor:
    asker = Asker(model, **more)
    found = asker.note(encoding, keep, fill)
    asker.run()
    return found.logits


def alone(model: TextModel, encoding: Encoding, keep: Any, fill: str) -> Tensor:
    """One row by the network itself: deleted by hand, or its embeddings put in by hand."""
    kept = [bool(one) or special for one, special in zip(keep, encoding.special, strict=True)]
    if fill == "delete":
        ids = [token for token, stays in zip(encoding.input_ids, kept, strict=True) if stays] or [
            model.hiding.start_token()
        ]
        types = (
            None
            if encoding.token_type_ids is None
            else [t for t, stays in zip(encoding.token_type_ids, kept, strict=True) if stays]
        )
        inputs = padded_inputs(model.network, [ids], [types])
        return model.run(inputs, PassCount(), whole=True)[0]
    inputs = inputs_of(model.network, [encoding])
    filled = torch.where(torch.tensor([kept]), inputs["input_ids"], fill_token(model, fill))
    return model.run(inputs, PassCount(), model.network.embed(filled), whole=True)[0]


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_answers_are_those_of_each_row_alone(family: str, fill: str) -> None:
    model = tiny(family, torch.float64)
    encoding = model.encode(TEXT)
    keep = np.concatenate([rows(encoding), np.zeros((1, len(encoding)), dtype=np.bool_)])  # and nothing at all
    tolerance = tolerance_of(model)
    found = asked(model, encoding, keep, fill)
    for answer, row in zip(found, keep, strict=True):
        assert_close(answer, alone(model, encoding, row, fill), tolerance=tolerance)


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("task", ["masked_lm", "question_answering", "causal_lm"])
@torch.no_grad()
def test_every_task_can_be_asked(task: str, fill: str) -> None:
    model = make_model("gpt2" if task == "causal_lm" else "roberta", task=task, dtype=torch.float64)
    text = {
        "masked_lm": ("the film was [MASK] bad",),
        "question_answering": ("is it dull ?", TEXT),
        "causal_lm": (TEXT,),
    }[task]
    encoding = model.encode(*text)
    keep = rows(encoding)
    for answer, row in zip(asked(model, encoding, keep, fill), keep, strict=True):
        expected = alone(model, encoding, row, fill)
        if task == "question_answering" and fill == "delete":  # what was deleted cannot be an answer
            stays = torch.tensor(row) | torch.tensor(encoding.special)
            assert bool((answer[:, ~stays] == -torch.inf).all())
            answer = answer[:, stays]
        assert_close(answer, expected, tolerance=tolerance_of(model))


def test_deleting_really_shortens() -> None:
    model, seen = make_model("bert"), []
    hook = model.network.module.register_forward_pre_hook(
        lambda _, __, given: seen.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    encoding = model.encode("a fine film")
    asked(model, encoding, np.asarray([[True, False, True, False, True]]), "delete")
    hook.remove()
    assert seen == [(1, 3)]


def test_padding_a_word_moves_no_position_of_roberta() -> None:
    """RoBERTa counts positions over what is not padding, so an id in the padding's place would move all that
    follows.
    """
    model = tiny("roberta", torch.float64)
    encoding = model.encode("the film was bad")
    keep = np.asarray([[True, False, True, True, True, True]])
    inputs = inputs_of(model.network, [encoding])
    moved = inputs["input_ids"].clone()
    moved[0, 1] = fill_token(model, "pad")
    with torch.no_grad():
        naive = model.run({**inputs, "input_ids": moved}, PassCount())
    assert not torch.allclose(asked(model, encoding, keep, "pad"), naive, atol=1e-3)


def test_no_question_is_put_twice() -> None:
    model = make_model("bert")
    first, second = model.encode("a fine film"), model.encode("the dull plot")
    asker = Asker(model)
    keep = np.ones((4, 5), dtype=np.bool_)
    keep[1, 1] = keep[2, 1] = False  # the same twice
    keep[3, 1:4] = False  # all words
    asker.know(first, case_of(model, first).logits)
    asker.note(first, keep, "unk")
    asker.note(first, keep[1:2], "unk")
    asker.run()
    asker.note(second, keep[3:], "unk")  # three hidden words are the same whatever they were
    asker.note(second, keep[3:], "delete")
    asker.run()
    asker.note(first, keep[3:], "delete")  # and so is nothing
    asker.run()
    assert (asker.asked, asker.distinct, asker.rows) == (8, 4, 3)


def test_the_same_words_asked_about_another_place_are_another_question() -> None:
    model = make_model("bert", task="masked_lm")
    asker, nothing = Asker(model), np.zeros((1, 4), dtype=np.bool_)
    first, last = (asker.note(model.encode(text), nothing, "mask") for text in ("[MASK] film", "film [MASK]"))
    asker.run()
    assert asker.distinct == 2
    assert not torch.allclose(first.logits, last.logits)


@pytest.mark.parametrize("fill", FILLS)
def test_sharing_changes_no_bit_on_one_batch_size(fill: str) -> None:
    model = make_model("bert")
    one_row = replace(model, batch_tokens=1)
    encoding = model.encode(TEXT)
    keep = np.concatenate([rows(encoding), rows(encoding), rows(encoding, seed=1)])
    shared, apart = (asked(one_row, encoding, keep, fill, share=share) for share in (True, False))
    assert torch.equal(shared, apart)
    assert_close(asked(model, encoding, keep, fill), shared, tolerance=tolerance_of(model))
    counts = []
    for share in (True, False):
        asker = Asker(model, share=share)
        asker.note(encoding, keep, fill)
        counts.append(asker.distinct)
    assert counts[0] < counts[1] == 36


@pytest.mark.parametrize("size", [1, 20, 64, 4096])
def test_the_batch_size_changes_nothing(size: int) -> None:
    model = make_model("distilbert")
    encoding = model.encode(TEXT)
    keep = rows(encoding, 30)
    found = asked(replace(model, batch_tokens=size), encoding, keep, "delete")
    assert_close(found, asked(model, encoding, keep, "delete"), tolerance=tolerance_of(model))


def crowded(model: TextModel, most: int) -> list[int]:
    """A model that has memory for so many rows at once, and the sizes of the batches it was given."""
    sizes: list[int] = []

    def refuse(_: Any, __: Any, given: dict[str, Any]) -> None:
        sizes.append(len(given["input_ids"]))
        if sizes[-1] > most:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried to allocate"
            )

    model.network.module.register_forward_pre_hook(refuse, with_kwargs=True)
    return sizes


def test_batches_shrink_when_memory_ends() -> None:
    model = make_model("bert")
    encoding = model.encode(TEXT)
    keep = rows(encoding, 30)
    expected = asked(model, encoding, keep, "unk")
    sizes = crowded(model, 4)
    assert_close(asked(model, encoding, keep, "unk"), expected, tolerance=TOLERANCE[torch.float32])
    assert max(sizes[3:]) <= 4  # found out once, not for every batch


def test_a_row_that_does_not_fit_is_a_clear_error_and_leaves_nothing_wrong() -> None:
    model = make_model("bert")
    encoding = model.encode(TEXT)
    asker = Asker(model)
    crowded(model, 0)
    asker.note(encoding, rows(encoding), "unk")
    with pytest.raises(ModelFailed, match="not enough memory for a text of 11 tokens"):
        asker.run()
    assert asker.answers == []


def test_another_error_is_not_taken_for_a_lack_of_memory() -> None:
    model = make_model("bert")

    def fail(*_: Any) -> None:
        raise RuntimeError("something else")

    model.network.module.register_forward_pre_hook(fail)
    encoding = model.encode(TEXT)
    with pytest.raises(RuntimeError, match="something else"):
        asked(model, encoding, rows(encoding), "unk")


def test_an_interruption_leaves_no_half_answers() -> None:
    model = replace(make_model("bert"), batch_tokens=30)
    encoding = model.encode(TEXT)
    asker, keep = Asker(model), rows(encoding)

    def stop(done: int, _: int) -> None:
        if done > 3:
            raise KeyboardInterrupt

    asker.note(encoding, keep, "unk")
    with pytest.raises(KeyboardInterrupt):
        asker.run(stop)
    again = asker.note(encoding, keep, "unk")
    asker.run()
    torch.testing.assert_close(again.logits, asked(model, encoding, keep, "unk"))


def test_progress_ends_at_everything() -> None:
    model = replace(make_model("bert"), batch_tokens=40)
    encoding = model.encode(TEXT)
    asker, seen = Asker(model), []
    asker.note(encoding, rows(encoding), "unk")
    asker.run(lambda done, everything: seen.append((done, everything)))
    assert seen[-1] == (asker.distinct, asker.distinct)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 1


def test_a_fill_that_the_tokenizer_lacks_is_an_error() -> None:
    model = tiny("gpt2")
    encoding = model.encode(TEXT)
    with pytest.raises(MissingToken, match="no mask token"):
        asked(model, encoding, rows(encoding), "mask")


def test_probabilities_are_the_targets() -> None:
    model = additive_model(good=2.0, bad=-3.0)
    encoding = model.encode("good bad")
    asker = Asker(model)
    found = asker.note(encoding, np.asarray([[1, 1, 0, 1], [1, 0, 1, 1], [1, 0, 0, 1]], dtype=np.bool_), "delete")
    asker.run()
    assert found.probability([Target(1, "")]) == pytest.approx([1 / (1 + np.exp(-2)), 1 / (1 + np.exp(3)), 0.5])


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_and_its_questions_in_one_batch_are_what_each_is_alone(family: str, fill: str) -> None:
    """Whether the pass records every head, the mean over heads, or nothing."""
    model = tiny(family, torch.float64)
    encoding = model.encode(TEXT)
    keep = rows(encoding, 5)
    expected = torch.stack([alone(model, encoding, one, fill) for one in keep])
    recorded = Passes(model, [encoding]).forward("attention")
    for need in ("head_attention", "mean_attention", "nothing"):
        passes = Passes(model, [encoding])
        found = passes.asker.note(encoding, keep, fill)
        made = passes.forward(need)
        assert_close(made.logits, recorded.logits, tolerance=tolerance_of(model))
        for one, other in zip(made.record.attention if made.record else [], recorded.recording.attention, strict=False):
            probs = in_one_dimension(other.probs)
            expected_probs = probs if need == "head_attention" else probs.mean(1, keepdim=True)
            assert_close(in_one_dimension(one.probs), expected_probs, tolerance=tolerance_of(model))
        together = passes.count.forwards > 1
        assert together == model.network.facts.takes_batches
        assert passes.asker.rows == (passes.asker.distinct - 1 if together else 0)
        asked_before = passes.asker.rows
        passes.asker.run()
        assert passes.asker.rows == asked_before or not together
        assert_close(found.logits, expected, tolerance=tolerance_of(model))


def in_one_dimension(probs: Tensor) -> Tensor:
    """Some families fold rows and heads into one dimension. (1, head, query, key)"""
    return probs.reshape(1, -1, *probs.shape[-2:])


def test_a_text_goes_alone_where_its_questions_do_not_fit_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("bert")
    encoding = model.encode(TEXT)
    expected = asked(model, encoding, rows(encoding), "unk")
    for room, fails in ((3 * len(encoding), False), (model.batch_tokens, True)):
        passes = Passes(model, [encoding])
        found = passes.asker.note(encoding, rows(encoding), "unk")
        passes.asker.room = room
        if fails:
            refuse_batches(model, monkeypatch, more_than=4)
        passes.forward("head_attention")
        assert passes.asker.rows == 0
        passes.asker.run()
        assert_close(found.logits, expected, tolerance=1e-5)


def refuse_batches(model: TextModel, monkeypatch: pytest.MonkeyPatch, *, more_than: int) -> None:
    """Let larger batches end as they do when there is no memory left."""
    true_forward = model.network.module.forward

    def forward(**inputs: Any) -> Any:
        if len(inputs["input_ids"]) > more_than:
            raise MemoryError
        return true_forward(**inputs)

    monkeypatch.setattr(model.network.module, "forward", forward)


def test_a_text_without_an_answer_is_named_and_its_questions_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("bert")
    encoding = model.encode(TEXT)
    passes = Passes(model, [encoding])
    passes.asker.note(encoding, rows(encoding), "unk")
    with monkeypatch.context() as broken:
        broken.setattr(TextModel, "run", lambda *_, **__: torch.full((13, 3), torch.nan))
        with pytest.raises(TextWithoutAnswer) as raised:
            passes.forward("nothing")
    assert raised.value.rows == (0,)
    assert passes.asker.rows == 0


def test_an_answer_that_is_none_costs_the_question_and_not_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("bert")
    encoding = model.encode(TEXT)
    passes = Passes(model, [encoding])
    first, second = (passes.asker.note(encoding, rows(encoding)[place : place + 1], "unk") for place in (0, 1))
    true_logits = TextModel.run

    def broken(*args: Any, **kwargs: Any) -> Tensor:
        logits = true_logits(*args, **kwargs)
        logits[2] = torch.nan
        return logits

    monkeypatch.setattr(TextModel, "run", broken)
    assert passes.forward("nothing").logits.isfinite().all()
    assert first.logits.isfinite().all()
    with pytest.raises(ModelFailed, match="1 of 1 questions"):
        second.logits  # noqa: B018


def test_after_an_interruption_no_place_stays_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row has no answer, the second is interrupted: a new question at the first row's place has one."""
    model = tiny("bert")
    encoding = model.encode(TEXT)
    asker = Asker(model)
    asker.room = 1  # one row a batch
    true_logits, calls = asker._logits, []

    def logits(some: Any, prefix: Any = None) -> Tensor:
        calls.append(some)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return true_logits(some, prefix) * (torch.nan if len(calls) == 1 else 1)

    monkeypatch.setattr(asker, "_logits", logits)
    asker.note(encoding, rows(encoding, 2), "unk")
    with pytest.raises(KeyboardInterrupt):
        asker.run()
    again = asker.note(encoding, rows(encoding, 1, seed=1), "unk")
    asker.run()
    assert bool(again.logits.isfinite().all())
