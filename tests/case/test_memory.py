"""How much memory a pass takes is known before it is made; what does not fit is one sentence, never an allocator's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from tiny_models import make_network, tiny, tokenizer

import wherefrom
from wherefrom.api import Model
from wherefrom.case import memory, passes
from wherefrom.case.kinds import KINDS
from wherefrom.case.passes import Passes
from wherefrom.errors import NotEnoughMemory
from wherefrom.model.text_model import TextModel

TEXT = "the film was not bad , but the plot is dull and the acting was never very fine !"


def with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """From now on so many bytes are free, and every pass looks."""
    monkeypatch.setattr(passes, "free_memory", lambda _: free)
    monkeypatch.setattr(passes, "SMALL", 0)


def bert() -> TextModel:
    return TextModel.of(make_network("bert"), tokenizer())


def test_a_pass_that_does_not_fit_is_refused_before_it_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    with_free(monkeypatch, 10_000)
    model, ran = bert(), []
    handle = model.network.anatomy.blocks[0].module.register_forward_hook(lambda *_: ran.append(1))
    try:
        with pytest.raises(NotEnoughMemory, match=r"takes about 0.\d MB for a text of 21 tokens, and 0.0 MB are free"):
            Passes(model, [model.encode(TEXT)]).forward("attention")
    finally:
        handle.remove()
    assert not ran


def test_a_refusal_names_the_least_that_would_do_and_advises_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert", torch.float64)
    text = Passes(model, [model.encode(TEXT)])
    sizes = {name: text.needed_memory(kind) or 0 for name, kind in KINDS.items()}
    assert sizes["embeddings"] < sizes["modified_gradient"] < sizes["relevance"]
    with_free(monkeypatch, sizes["modified_gradient"] - 1)
    text.announce(["relevance", "modified_gradient"])  # so that the pass for both is tried first
    with pytest.raises(NotEnoughMemory) as told:
        text.forward("modified_gradient")
    size = f"{sizes['modified_gradient'] / 1e6:,.1f} MB"
    assert f"This takes about {size} for a text of 21 tokens" in str(told.value)
    assert str(told.value).endswith(
        "takes less memory: cat, input_x_gradient, integrated_gradients, occlusion or saliency."
    )
    with_free(monkeypatch, sizes["embeddings"] - 1)
    with pytest.raises(NotEnoughMemory, match=r"takes less memory: occlusion\.$"):
        text.forward("embeddings")


def test_the_estimate_is_what_the_shapes_say() -> None:
    model = bert()  # three layers, four heads, size 32, single precision
    n = len(model.encode(TEXT))
    text = Passes(model, [model.encode(TEXT)] * 2)
    kept = 3 * (4 * n * n + 4 * n * 32)  # the probabilities, and four hidden states, of every layer
    assert text.needed_memory(KINDS["attention"]) == 2 * 4 * (kept + 3 * 4 * n * n)
    assert text.needed_memory(KINDS["plain"]) == 0
    # Of the mean over heads one matrix a layer.
    assert model.network.module.config._attn_implementation == "sdpa"
    assert text.needed_memory(KINDS["mean_attention"]) == 2 * 4 * 3 * (n * n + 4 * n * 32)


def test_texts_that_fit_apart_are_explained_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bert()
    texts = [TEXT, TEXT.replace("film", "plot"), TEXT.replace("bad", "good")]
    expected = Model(model).explain(texts, "attention_rollout")
    one = Passes(model, [model.encode(TEXT)]).needed_memory(KINDS["mean_attention"])
    assert one is not None
    with_free(monkeypatch, one)
    found = Model(model).explain(texts, "attention_rollout")
    for a, b in zip(found, expected, strict=True):
        assert a.scores == pytest.approx(b.scores, rel=1e-4, abs=1e-6)


def test_where_a_pass_for_all_does_not_fit_smaller_ones_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert", torch.float64)
    text = Passes(model, [model.encode(TEXT)])
    sizes = {name: text.needed_memory(kind) or 0 for name, kind in KINDS.items()}
    with_free(monkeypatch, sizes["relevance"] - 1)
    text.announce(["modified_gradient", "hidden_gradients"])
    assert text.forward("hidden_gradients").recording.inputs
    text.forward("modified_gradient")
    assert {kind.name for kind in text._made} == {"hidden_graph", "modified_gradient"}


def test_a_method_that_fits_is_there_beside_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(tiny("bert"))
    size = Passes(model.text_model, [model.text_model.encode(TEXT)]).needed_memory(KINDS["embeddings"])
    assert size is not None
    with_free(monkeypatch, size)
    found = model.compare(TEXT, "default", ["entropy"])
    assert found.names  # those that need no attention
    assert found.failed
    assert all("MB are free" in why for why in found.failed.values())


@pytest.mark.parametrize("method", ["attcat", "attention_rollout", "transatt"])
def test_an_allocators_error_is_told_in_a_sentence(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also towards several targets, and also in the backward pass."""

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")

    model = Model(bert())
    where, name = (Passes, "_make") if method == "attention_rollout" else (torch.autograd, "grad")
    monkeypatch.setattr(where, name, fails)
    with pytest.raises(NotEnoughMemory, match="not enough memory for a text of 21 tokens"):
        model.explain(TEXT, method)


@pytest.mark.parametrize(
    ("method", "options", "where", "name"),
    [("alti", {}, torch, "baddbmm"), ("integrated_gradients", {"steps": 2}, torch.autograd, "grad")],
)
@pytest.mark.parametrize("target", [None, [0, 1]])
def test_so_is_that_of_what_a_method_computes_itself(
    method: str, options: dict[str, Any], where: Any, name: str, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("std::bad_alloc")

    model = Model(bert())
    monkeypatch.setattr(where, name, fails)
    with pytest.raises(NotEnoughMemory, match="not enough memory for a text of 21 tokens"):
        model.explain(TEXT, method, target, **options)


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(torch, "baddbmm", fails)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        Model(bert()).explain(TEXT, "alti")


UNDER_A_LIMIT = """
import resource, sys
sys.path.insert(0, sys.argv[1])  # where the small models of the tests are
import torch
from tiny_models import make_network, tokenizer
from wherefrom.api import Model
from wherefrom.errors import NotEnoughMemory
from wherefrom.model.text_model import TextModel
from wherefrom.case.memory import free_memory

model = Model(TextModel.of(make_network("bert", max_position_embeddings=4096, num_attention_heads=16), tokenizer()))
text = " ".join(["film"] * 3000)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, resource.RLIM_INFINITY))
assert free_memory(torch.device("cpu")) <= 2**30
try:
    model.explain(text, "alti")
except NotEnoughMemory as error:
    print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
@pytest.mark.slow
def test_under_a_real_limit() -> None:
    found = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT, str(Path(tiny_models.__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "GB for a text of 3002 tokens" in found.stdout, found.stderr


def test_what_is_free_is_less_than_what_there_is() -> None:
    free = memory.free_memory(torch.device("cpu"))
    assert free is None or 0 < free < 2**50
    assert memory.free_memory(torch.device("meta")) is None
    assert wherefrom.load("embedded").explain("A witty film.", "gae").scores
