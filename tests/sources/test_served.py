"""A model on a server gives what the same model gives here, and every failure is one line without the key."""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import wherefrom
from sources.completions_server import Served, completions_server
from sources.test_sources import ANSWER, FIRST, QUESTION, SECOND, chat_model, log_probability, plain_model
from wherefrom.cli.main import app
from wherefrom.errors import BadOption, NotSeen, ServerFailed, UnknownName, WrongModel
from wherefrom.model.completions import KEY, SECONDS, CompletionsClient

SECRET = "a-key-that-nobody-may-see"
GIVEN: dict[str, Any] = {"question": QUESTION, "context": [FIRST, SECOND], "answer": ANSWER}


@pytest.fixture(scope="module")
def running() -> Iterator[Served]:
    with completions_server(plain_model()) as served:
        yield served


@pytest.fixture
def served(running: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv(SECONDS, raising=False)
    running.names, running.key, running.fault = ["tiny"], None, ""
    return running


def with_tokenizer(served: Served) -> wherefrom.Model:
    return wherefrom.load(served.base, served.model.text_model.reading.tokenizer)


@pytest.mark.parametrize("method", ["leave_one_out", "context_cite", "kernel_shap", "hierarchical", "occlusion"])
def test_sources_are_those_of_the_model_itself(served: Served, method: str) -> None:
    local = served.model.sources(**GIVEN, method=method, tokens=4)
    remote = with_tokenizer(served).sources(**GIVEN, method=method, tokens=4)
    assert (remote.prompt, remote.method) == (local.prompt, method)
    for one, two in zip(remote.statements, local.statements, strict=True):
        assert (one.text, one.tokens) == (two.text, two.tokens)
        assert one.log_probability == pytest.approx(two.log_probability, rel=1e-9)
        assert [s.score for s in one.sources] == pytest.approx([s.score for s in two.sources], rel=1e-6, abs=1e-9)
        assert one.grounding.drop == pytest.approx(two.grounding.drop, rel=1e-6, abs=1e-9)
        assert (one.test is None) == (two.test is None)
        if one.test is not None and two.test is not None:
            assert (one.test.sources, one.test.verdict) == (two.test.sources, two.test.verdict)
            assert str(one.test.answer).split() == str(two.test.answer).split()
    assert remote.backwards == 0


def test_words_serve_where_no_tokenizer_is_given(served: Served) -> None:
    """The server's tokens are added up over words: a statement has the same log-probability, however it is cut."""
    remote, local = wherefrom.load(f"{served.base}#tiny").sources(**GIVEN), served.model.sources(**GIVEN)
    for one, two in zip(remote.statements, local.statements, strict=True):
        assert one.log_probability == pytest.approx(two.log_probability, rel=1e-9)
        assert [s.drop for s in one.sources] == pytest.approx([s.drop for s in two.sources], rel=1e-6, abs=1e-9)
    assert "no chat template" in remote.notes[0]
    assert served.prompts[-1].endswith(ANSWER)


def test_the_server_writes_the_answer(served: Served) -> None:
    remote = with_tokenizer(served).sources(QUESTION, FIRST, tokens=5, regenerate=False)
    assert remote.generated
    written = served.model.sources(QUESTION, FIRST, tokens=5, regenerate=False)
    assert remote.answer.split() == written.answer.split()
    local = served.model.sources(QUESTION, FIRST, remote.answer, regenerate=False)  # read again, as the server reads it
    total = sum(statement.log_probability for statement in remote.statements)
    assert total == pytest.approx(sum(statement.log_probability for statement in local.statements), rel=1e-9)


def test_a_chat_goes_through_the_template_of_the_tokenizer() -> None:
    with completions_server(chat_model()) as served:
        messages = [{"role": "the", "content": "very good!"}, {"role": "a", "content": QUESTION}]
        remote = with_tokenizer(served).sources(messages, [FIRST, SECOND], ANSWER, regenerate=False)
        local = chat_model().sources(messages, [FIRST, SECOND], ANSWER, regenerate=False)
        with pytest.raises(BadOption, match="no chat template"):
            wherefrom.load(served.base).sources(messages, [FIRST], ANSWER)
    assert remote.prompt == local.prompt
    for one, two in zip(remote.totals(), local.totals(), strict=True):
        assert one.drop == pytest.approx(two.drop, rel=1e-6, abs=1e-9)


def test_occlusion_of_a_given_text_is_the_drop_of_its_log_probability(served: Served) -> None:
    found = with_tokenizer(served).generate_and_explain(FIRST, "occlusion", continuation="is good")
    whole, reached = log_probability(served.model, FIRST, "is good"), 0
    assert [math.log(chance) for chance in found.probabilities] == pytest.approx(whole, rel=1e-6)
    for place, (_, end) in enumerate(found.offsets):
        without = log_probability(served.model, FIRST[:reached] + FIRST[end:], "is good")
        drops = [one - two for one, two in zip(whole, without, strict=True)]
        assert [scores[place] for scores in found.scores] == pytest.approx(drops, rel=1e-4, abs=1e-6)
        reached = end


def test_a_comparison_and_a_run(served: Served, tmp_path: Path) -> None:
    model = with_tokenizer(served)
    compared = model.compare_sources(**GIVEN, methods=["leave_one_out", "context_cite"], gold=[(0, 1)])
    local = served.model.compare_sources(**GIVEN, methods=["leave_one_out", "context_cite"], gold=[(0, 1)])
    for one, two in zip(compared.grades, local.grades, strict=True):
        assert one.top_1_drop == pytest.approx(two.top_1_drop, rel=1e-6)
        assert one.gold_at_1 == two.gold_at_1
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": n, "question": QUESTION, "context": [FIRST]}) + "\n" for n in range(2)))
    assert model.run_sources(rows, tmp_path / "run", methods=["leave_one_out"], tokens=3)["failed"] == 0
    served.fault = "broken"  # no row is to blame: the run stops, and can be resumed
    with pytest.raises(ServerFailed, match="answered 500"):
        model.run_sources(rows, tmp_path / "other", methods=["leave_one_out"], tokens=3)
    served.fault = "long"  # this row is to blame
    assert model.run_sources(rows, tmp_path / "other", methods=["leave_one_out"], tokens=3)["failed"] == 2


def test_only_given_text_has_log_probabilities(served: Served) -> None:
    model = with_tokenizer(served)
    with pytest.raises(NotSeen, match=r"^saliency looks inside the model"):
        model.sources(**GIVEN, method="saliency")
    with pytest.raises(NotSeen, match="no next token to explain"):
        model.explain(FIRST, "occlusion")
    with pytest.raises(NotSeen, match="no next token to explain"):
        model.explain(FIRST, "occlusion", target="good")
    with pytest.raises(BadOption, match="only the tokenizer"):
        wherefrom.load(served.base, device="cpu")


def test_the_key_is_in_the_environment_and_nowhere_else(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served.key = SECRET
    with pytest.raises(ServerFailed, match=f"wants a key: set it in {KEY}"):
        wherefrom.load(served.base).sources(**GIVEN)
    monkeypatch.setenv(KEY, "another-key")
    with pytest.raises(ServerFailed, match=f"refuses the key in {KEY}") as refused:
        wherefrom.load(served.base).sources(**GIVEN)
    monkeypatch.setenv(KEY, SECRET)
    model = wherefrom.load(served.base)
    r = model.sources(**GIVEN)
    shown = [repr(model), repr(model.text_model), repr(r), r.to_json(), r.to_html(), str(refused.value), caplog.text]
    served.fault = "broken"  # and says the key
    with pytest.raises(ServerFailed, match=r"answered 500 \(out of memory \*\*\*\)") as broken:
        model.sources(**GIVEN)
    assert not any(key in text for key in (SECRET, "another-key") for text in [*shown, str(broken.value)])
    assert broken.value.__cause__ is None
    for address in (f"http://{SECRET}@127.0.0.1/v1", f"http://me:{SECRET}@127.0.0.1/v1", f"{served.base}?key={SECRET}"):
        with pytest.raises(BadOption, match="has no key, password or query") as inside:
            wherefrom.load(address)
        assert SECRET not in str(inside.value)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no logprobs", "returns no log-probabilities of given text"),
        ("shifted", "not those of its own tokens"),
        ("text", "answered no JSON"),
        ("elsewhere", "redirects"),
        ("broken", "answered 500"),
        ("slow", "did not answer within 0.3 seconds"),
    ],
)
def test_a_fault_of_the_server_is_one_line(
    served: Served, monkeypatch: pytest.MonkeyPatch, fault: str, message: str
) -> None:
    model = with_tokenizer(served)
    monkeypatch.setenv(SECONDS, "0.3" if fault == "slow" else "30")
    served.fault = fault
    with pytest.raises(ServerFailed, match=message) as failed:
        model.sources(**GIVEN)
    assert "\n" not in str(failed.value)


def test_what_cannot_be_loaded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ServerFailed, match="cannot be reached"):
            wherefrom.load(f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
    for address in ("http://", "http://127.0.0.1:port/v1"):
        with pytest.raises(BadOption, match="not the address of a server"):
            wherefrom.load(address)
    with pytest.raises(ServerFailed, match="answered 404"):
        wherefrom.load(f"{served.base}/nothing")
    with pytest.raises(WrongModel, match="could not be loaded"):
        wherefrom.load(served.base, "./no-such-folder")
    served.names = ["small", "large"]
    with pytest.raises(BadOption, match="It offers 2: small, large"):
        wherefrom.load(served.base)
    with pytest.raises(UnknownName, match="Did you mean 'small'"):
        wherefrom.load(f"{served.base}#smal")
    assert wherefrom.load(f"{served.base}#large").text_model.name == f"{served.base}#large"
    monkeypatch.setenv(SECONDS, "soon")
    with pytest.raises(BadOption, match=f"{SECONDS} is how many seconds"):
        wherefrom.load(served.base)


def test_a_prompt_that_is_longer_than_the_server_reads_is_refused(served: Served) -> None:
    with pytest.raises(BadOption, match=r"the model reads 200\. .* would be cut"):
        with_tokenizer(served).sources(QUESTION, " ".join([FIRST] * 20), ANSWER)


def test_tokens_end_where_the_server_says_whatever_it_writes_for_special_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """<s> is nothing in the server's text, so that ends are counted from the end."""
    answer = {
        "choices": [
            {
                "logprobs": {
                    "tokens": ["", "a", " b", "c"],
                    "text_offset": [0, 0, 1, 3],
                    "token_logprobs": [None, -1.0, -2.0, -0.5],
                    "top_logprobs": [None, {"a": -1.0}, {"x": -0.25, " b": -2.0}, {"c": -0.5}],
                }
            }
        ],
        "usage": {"completion_tokens": 1},
    }
    monkeypatch.setattr("wherefrom.model.completions.request", lambda address, body: answer)
    first, second = CompletionsClient("http://127.0.0.1/v1", "m").score("<s>a b")
    assert (first.end, first.log_probability, first.best_other) == (4, -1.0, float("-inf"))
    assert (second.end, second.log_probability, second.best_other) == (6, -2.0, -0.25)


@pytest.mark.slow
@pytest.mark.skipif("WHEREFROM_TEST_SERVER" not in os.environ, reason="needs a server, and its model in a folder")
def test_a_real_server() -> None:
    """WHEREFROM_TEST_SERVER is its address, WHEREFROM_TEST_MODEL a folder of the same model; docs/recipes/served-models
    says with which it was tried. Weights of four bits are multiplied in other ways, so that numbers differ a little.
    """
    folder = os.environ["WHEREFROM_TEST_MODEL"]
    question, context, answer = "Who built it?", ["Voss built the barn.", "It rained."], "Voss built the barn."
    remote, local = (
        model.sources(question, context, answer, regenerate=False).statements[0]
        for model in (wherefrom.load(os.environ["WHEREFROM_TEST_SERVER"], folder), wherefrom.load(folder))
    )
    assert [s.drop for s in remote.sources] == pytest.approx([s.drop for s in local.sources], rel=0.05, abs=0.1)
    assert remote.grounding.drop == pytest.approx(local.grounding.drop, rel=0.05)


def test_the_command_line(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passage = tmp_path / "passage.txt"
    passage.write_text(FIRST)
    command = ["sources", QUESTION, "--context", str(passage), "--answer", ANSWER, "--model", served.base]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["model"] == f"{served.base}#tiny"
    done = CliRunner().invoke(app, [*command, "--tokenizer", str(tmp_path)])
    assert done.exit_code != 0
    assert "could not be loaded" in str(done.exception or done.output)
