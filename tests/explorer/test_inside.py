"""Heads, flow, generation and runs: what the server gives is what the model does."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_model, tiny

from explorer.serving import TEXT, Client, serving
from wherefrom import Model
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.case.case import make_cases
from wherefrom.cli.serve import split_sources
from wherefrom.core.arrays import Numbers
from wherefrom.core.labels import token_labels
from wherefrom.explorer.hiding import logits_without
from wherefrom.explorer.limits import Limits
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.model.network import inputs_of


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with serving(make_model("bert")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ExplorerServer) -> Iterator[Client]:
    with Client(server) as asking:
        yield asking


def matrix(text: str, size: int) -> Numbers:
    found: Numbers = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(size, size) / 255
    return found


def test_every_head_s_pattern_and_its_relevance(client: Client) -> None:
    heads = client.stream("inside")[0]["heads"]
    (cases,) = make_cases(tiny("bert"), [tiny("bert").encode(TEXT)], [None], reads=["gradients"])
    case = cases[0]
    encoding = case.encoding
    assert heads["tokens"] == token_labels(encoding.tokens, encoding.offsets, encoding.segment, encoding.text)
    expected = torch.zeros(3, 4)
    for layer in range(3):
        probs, gradient = case.capture.attention[layer].probs, case.gradients.attention[layer].probs
        for head in range(4):
            shown = matrix(heads["patterns"][layer][head], len(case.encoding))
            np.testing.assert_allclose(shown, probs[head].numpy(), atol=0.004)
            expected[layer, head] = sum(
                abs(a * g) for a, g in zip(probs[head].flatten(), gradient[head].flatten(), strict=True)
            )
    np.testing.assert_allclose(heads["relevance"], (expected / expected.sum()).numpy(), rtol=1e-3)


def test_the_flow_is_that_of_the_verb(client: Client) -> None:
    flow = client.stream("inside")[1]["flow"]
    expected = Model(tiny("bert")).flow(TEXT, "alti").accumulated
    for shown, layer in zip(flow["layers"], expected, strict=True):
        np.testing.assert_allclose(matrix(shown, len(layer)), layer, atol=0.004)


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "llama"])
def test_a_head_that_is_switched_off_adds_nothing(family: str) -> None:
    """By hand: the columns of the output projection that read this head are set to zero."""
    model = make_model(family)
    encoding = model.encode("the film was not bad.")
    found = logits_without(model, encoding, [(1, 2)])
    weight: Any = model.network.anatomy.blocks[1].attention_out.weight
    size = weight.shape[0 if family == "gpt2" else 1] // 4
    with torch.no_grad():
        before = model.network.module(**inputs_of(model.network, [encoding])).logits[0]
        columns = weight[2 * size : 3 * size] if family == "gpt2" else weight[:, 2 * size : 3 * size]
        columns.zero_()
        expected = model.network.module(**inputs_of(model.network, [encoding])).logits[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(before, expected, rtol=1e-3)


def test_switching_heads_off_by_request(client: Client) -> None:
    found = client.ask("heads", off=[[0, 1], [2, 3]])
    logits = logits_without(tiny("bert"), tiny("bert").encode(TEXT), [(0, 1), (2, 3)])
    number = int(found["target"].removeprefix("LABEL_"))
    assert found["probability"] == pytest.approx(float(logits.double().softmax(-1)[number]), rel=1e-4)
    assert found["whole"] == pytest.approx(client.ask("read")["probability"], rel=1e-5)
    assert "Layer 1 has 4 heads; there is no head 10." in client.ask("heads", off=[[0, 9]], status=400)["error"]
    assert "not seen" in client.ask("heads", off=[[7, 0]], status=400)["error"]
    assert not any(module._forward_hooks for module in tiny("bert").network.module.modules())


def test_long_texts_have_no_patterns() -> None:
    with serving(limits=Limits(seen_tokens=10)) as running, Client(running) as asking:
        (line,) = asking.stream("inside")
        assert "patterns of attention are shown for up to 10" in line["error"]


def test_a_language_model_goes_on_and_each_token_can_be_explained() -> None:
    model = make_model("gpt2", task="causal_lm")
    with serving(make_model("gpt2", task="causal_lm")) as running, Client(running) as asking:
        lines = asking.stream("generate", text="the film was", count=6)
        ids = list(model.encode("the film was").input_ids)
        for line in lines:
            if "end" in line:
                break
            with torch.no_grad():
                logits = model.network.module(input_ids=torch.tensor([ids])).logits[0, -1]
            token = line["token"]
            assert token["id"] == int(logits.argmax())
            assert token["probability"] == pytest.approx(float(logits.double().softmax(-1).max()), rel=1e-4)
            if token["exact"]:  # then the page asks the very question that was answered here
                asked = asking.ask("read", text=token["before"], target=token["id"])
                assert asked["probability"] == pytest.approx(token["probability"], rel=1e-4)
            ids.append(token["id"])
        assert len(lines) >= 1
        assert lines[0]["token"]["before"] == "the film was"
        assert lines[0]["token"]["exact"]


def test_only_language_models_go_on(client: Client) -> None:
    (line,) = client.stream("generate")
    assert "Only a causal language model" in line["error"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs") / "films"
    model = make_model(
        "bert", labels=2, id2label={0: "NEGATIVE", 1: "POSITIVE"}, label2id={"NEGATIVE": 0, "POSITIVE": 1}
    )
    plan = RunPlan("sample:reviews", model, methods=["attcat", "random"], metrics=["comprehensiveness", "rft"], limit=6)
    run(plan, made)
    return made


def test_a_run_as_the_page_shows_it(folder: Path) -> None:
    with serving(make_model("bert"), runs=[folder]) as running, Client(running) as asking:
        (name,) = asking.http.get("/api/state").json()["runs"]
        assert name == "reviews (films)"
        found = asking.http.get("/api/runs/0").json()
        assert [one["name"] for one in found["metrics"]] == ["comprehensiveness", "rft"]
        assert {one["name"] for one in found["methods"]} == {"attcat", "random"}
        assert len(found["examples"]) == found["count"] == 6
        agreements = [one["agreement"] for one in found["examples"]]
        assert agreements == sorted(agreements)
        wrong = [one for one in found["examples"] if one["wrong"]]
        assert len(wrong) == pytest.approx((1 - found["accuracy"]) * 6)
        assert str(folder.parent) not in asking.http.get("/api/runs/0").text
        assert asking.http.get("/api/runs/1").status_code == 404
        assert asking.http.get("/api/runs/-1").status_code == 404


def test_a_run_is_told_from_a_model(folder: Path) -> None:
    assert split_sources(["embedded", str(folder)]) == (["embedded"], [folder])
    assert split_sources([str(folder)])[1] == [folder]
