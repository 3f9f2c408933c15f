"""What is read is announced, and then the passes that serve it are made once, in whatever order methods run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import CHEAP, FAMILIES, make_network, tiny, tokenizer
from toys import additive_model

import wherefrom
from wherefrom.api import Model
from wherefrom.case.explain import cases_of, explained
from wherefrom.case.kinds import KINDS, PassKind
from wherefrom.case.passes import Passes
from wherefrom.core.encoding import Encoding
from wherefrom.errors import ModelFailed, NotSeen, WrongModel
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.registry import Reads, all_methods, check_options, find_method

TEXT = "the film was not bad"
SLOW = {"attention_flow", "lime", "kernel_shap", "best"}


@contextmanager
def whole_passes(model: TextModel, encoding: Encoding, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Forward passes of the text itself, with none of its words hidden."""
    seen: list[int] = []
    true_run = TextModel.run

    def run(self: TextModel, inputs: dict[str, Any], count: PassCount, embeddings: Any = None, **more: Any) -> Any:
        with torch.no_grad():
            words = model.network.embed(inputs["input_ids"])
        plain = embeddings is None or (words.shape == embeddings.shape and torch.equal(words, embeddings.detach()))
        if plain and inputs["input_ids"][0].tolist() == list(encoding.input_ids):
            seen.append(len(words))
        return true_run(self, inputs, count, embeddings, **more)

    with monkeypatch.context() as patch:
        patch.setattr(TextModel, "run", run)
        yield seen


def made(needs: Sequence[Reads], model: TextModel | None = None) -> set[str]:
    """The kinds of pass that are made when all of these are announced and then read, in this order."""
    model = model or tiny("bert")
    passes = Passes(model, [model.encode(TEXT)])
    passes.announce(needs)
    for need in needs:
        passes.forward(need)
    return names(passes)


def names(passes: Passes) -> set[str]:
    return {kind.name for kind in passes._made}


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (["nothing"], {"plain"}),
        (["answers", "path"], {"plain"}),
        (["embeddings"], {"embeddings"}),
        (["mean_attention"], {"mean_attention"}),
        (["attention"], {"attention"}),
        (["attention", "mean_attention"], {"attention"}),
        (["attention", "scores"], {"scores"}),
        (["attention", "embeddings"], {"graph"}),
        (["hidden_gradients"], {"hidden_graph"}),
        (["hidden_gradients", "embeddings", "mean_attention"], {"mean_graph"}),
        (["hidden_gradients", "attention"], {"graph"}),
        (["hidden_gradients", "attention", "attention_x_gradients"], {"graph"}),
        (["hidden_gradients", "scores"], {"gradients"}),
        (["scores", "gradients", "embeddings"], {"gradients"}),
        (["gradients", "relevance", "attention"], {"relevance"}),
        (["modified_gradient", "answers", "embeddings"], {"modified_gradient"}),
        (["modified_gradient", "attention"], {"relevance"}),
        (["relevance_double"], {"relevance_double"}),
        (["embeddings", "relevance_double", "answers"], {"embeddings", "relevance_double"}),
        (["attention", "relevance", "relevance_double"], {"relevance", "relevance_double"}),
    ],
)
def test_the_cheapest_pass_that_serves_all_is_made(needs: list[Reads], expected: set[str]) -> None:
    shuffler = random.Random(0)
    for _ in range(5):
        assert made(needs) == expected
        shuffler.shuffle(needs)


def test_what_was_not_announced_is_made_when_it_is_read() -> None:
    model = tiny("bert")
    passes = Passes(model, [model.encode(TEXT)])
    passes.announce(["attention"])
    passes.forward("attention")
    assert names(passes) == {"attention"}
    passes.forward("gradients")
    assert names(passes) == {"attention", "gradients"}


def test_the_logits_come_from_the_pass_that_is_read_anyway() -> None:
    model = tiny("bert")
    for needs in (["gradients", "answers"], ["relevance_double", "answers"], ["attention"]):
        passes = Passes(model, [model.encode(TEXT)])
        passes.announce(needs)  # type: ignore[arg-type]
        torch.testing.assert_close(passes.logits, model.run(passes.batch.inputs, PassCount()))
        assert passes.count.forwards == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_methods_changes_no_pass(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method on one text: as many passes over the whole text, and as many rows in all, in any order."""
    model = tiny(family)
    encoding = model.encode(TEXT)
    methods = [row.name for row in all_methods() if row.name not in {*SLOW, "mask_lrp"}]  # without heads it is transatt
    counts = set()
    for seed in range(3):
        random.Random(seed).shuffle(methods)
        with whole_passes(model, encoding, monkeypatch) as seen:
            found = Model(model).compare(TEXT, methods, ["entropy"])
        forwards = sum(one.forwards for one in found.explanations)
        backwards = sum(one.backwards for one in found.explanations)
        assert not found.failed
        counts.add((len(seen), forwards, backwards))
    assert len(counts) == 1
    assert counts.pop()[0] == 2  # one that serves everything in the model's own precision, one in double precision


def test_other_classes_need_no_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    encoding = model.encode(TEXT)
    with whole_passes(model, encoding, monkeypatch) as seen:
        Model(model).compare(TEXT, ["attcat"], ["kendall_confidence"])
    assert len(seen) == 1
    explanation = Model(model).explain(TEXT, "attcat")
    with whole_passes(model, encoding, monkeypatch) as seen:
        Model(model).evaluate(explanation, ["kendall_confidence"])
    assert len(seen) == 1


def test_best_makes_the_passes_of_its_candidates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    encoding = model.encode(TEXT)
    with whole_passes(model, encoding, monkeypatch) as seen:
        Model(model).explain(TEXT, "best", candidates="attcat,alti,attention_rollout,saliency,occlusion")
    assert len(seen) == 1
    with whole_passes(model, encoding, monkeypatch) as seen:
        Model(model).explain(TEXT, "best", candidates="attcat,attn_lrp,transatt")
    assert len(seen) == 2


def test_needs_follow_the_options() -> None:
    assert find_method("transatt").needs() == {"relevance_double"}
    assert find_method("transatt").needs({"precision": "model"}) == {"relevance"}
    assert find_method("optimus").needs({"raw": "A*"}) == {"answers", "scores"}
    candidates = {"candidates": "alti,lrp:precision=model"}
    assert find_method("best").needs(candidates) == {"answers", "attention", "relevance"}


@pytest.mark.parametrize("name", [row.name for row in all_methods()])
def test_methods_read_no_more_than_they_announce(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that was not announced may be a second one."""
    model = tiny("bert")
    method = find_method(name)
    options = check_options(name, method.function, CHEAP.get(name, {}))
    true_make = Passes._make
    kinds: list[PassKind] = []

    def make(self: Passes, kind: PassKind, *joined: Any) -> Any:
        kinds.append(kind)
        return true_make(self, kind, *joined)

    monkeypatch.setattr(Passes, "_make", make)
    Model(model).explain(TEXT, name, **options)
    needs = method.needs(options) - {"nothing", "answers", "path"}
    assert len(kinds) == max(1, len({kind for kind in kinds if kind.serves & needs}))
    assert set().union(*(kind.serves for kind in kinds)) >= needs


def test_a_model_that_cannot_be_looked_into_still_answers() -> None:
    model = additive_model(good=1.0, bad=-1.0)
    passes = Passes(model, [model.encode("good bad")])
    passes.announce(["gradients", "relevance", "embeddings", "answers"])
    assert passes.logits.shape == (1, 2)
    with pytest.raises(WrongModel):
        passes.forward("gradients")
    assert passes.toward([None]).gradient("embeddings")[0].shape[:2] == (1, 4)
    with pytest.raises(WrongModel):
        Model(model).explain("good bad", "attcat")
    found = Model(model).compare("good bad", "all", ["entropy"])
    assert "attcat" in found.failed
    assert {"saliency", "occlusion", "integrated_gradients"} <= set(found.names)


def test_a_missing_rule_costs_only_the_methods_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relevance that has no way through the model must not take gradients with it, which share its pass."""
    model = tiny("bert")
    true_make = Passes._make

    def make(self: Passes, kind: PassKind, *joined: Any) -> Any:
        if kind.name in ("modified_gradient", "relevance"):
            raise NotSeen("There is no relevance rule for torch's 'fold'.")
        return true_make(self, kind, *joined)

    monkeypatch.setattr(Passes, "_make", make)
    found = Model(model).compare(TEXT, "all", ["entropy"])
    assert {name for name, why in found.failed.items() if "fold" in why} >= {"attn_lrp", "cp_lrp", "partial_lrp"}
    assert {"attcat", "saliency", "gae", "alti", "transatt"} <= set(found.names)


@pytest.mark.parametrize("method", ["attcat", "alti", "transatt"])
def test_a_recorded_pass_that_does_not_fit_is_made_in_halves(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, texts = make_network("bert", dtype=torch.float64), ["a film", "dull", TEXT, "a great film", "never"]
    model = TextModel.of(network, tokenizer())
    expected = Model(model).explain(texts, method)
    sizes: list[int] = []

    def forward(module: Any, args: Any, kwargs: Any) -> None:
        del module, args
        sizes.append(len(kwargs["input_ids"]))
        if sizes[-1] > 2:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    handle = network.register_forward_pre_hook(forward, with_kwargs=True)
    try:
        found = Model(model).explain(texts, method)
    finally:
        handle.remove()
    assert sizes[0] == 5
    assert max(sizes[-2:]) <= 2
    for one, other in zip(found, expected, strict=True):
        assert one.text == other.text
        assert one.scores == pytest.approx(other.scores, rel=1e-8, abs=1e-10)


def test_one_text_that_does_not_fit_is_a_clear_error() -> None:
    network = make_network("bert")
    model = TextModel.of(network, tokenizer())

    def forward(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    handle = network.register_forward_pre_hook(forward)
    try:
        with pytest.raises(ModelFailed, match="not enough memory for a text of 7 tokens"):
            Model(model).explain(TEXT, "attcat")
    finally:
        handle.remove()


def test_a_method_that_gives_another_number_of_scores_is_an_error() -> None:
    model = tiny("bert")
    passes = Passes(model, [model.encode(TEXT)])
    cases = cases_of(passes, [0], [None], "token")
    attcat = find_method("attcat")
    short = replace(attcat, name="short", function=lambda case, **_: attcat(case)[..., :-1])
    with pytest.raises(wherefrom.WherefromError, match=r"short gave scores of shape .* for a text of 7 tokens"):
        explained(cases, short, {})


def test_the_table_in_the_docs_is_that_of_the_code() -> None:
    rows = []
    for kind in KINDS.values():
        serves = ", ".join(f"`{need}`" for need in sorted(kind.serves - KINDS["plain"].serves)) or "the logits alone"
        rows.append(f"| `{kind.name}` | {kind.about} | {serves} | {'kept' if kind.graph else 'none'} |")
    page = Path(__file__).parents[2] / "docs" / "walk-of-a-sentence.md"
    assert "\n".join(["|---|---|---|---|", *rows, ""]) in page.read_text(encoding="utf-8")
