"""Chats everywhere: a chat is explained as its rendered prompt, with the tokens of the template special."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tiny_models import make_chat_model, make_model
from typer.testing import CliRunner

import wherefrom
from wherefrom.api import Model
from wherefrom.benchmark.columns import explanation_of
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.case.door import is_chat, several_inputs
from wherefrom.case.explain import explain_texts
from wherefrom.cli.main import app
from wherefrom.errors import BadFile, BadOption, EmptyText, WherefromError, WrongModel
from wherefrom.registry import find_method
from wherefrom.report.terminal import print_explanation

CHAT: list[dict[str, Any]] = [
    {"role": "a", "content": "not bad . a film !"},
    {"role": "user", "content": "a dull plot"},
]
OTHER = [{"role": "user", "content": "the acting was great"}]
RENDERED = "the a is : not bad . a film ! . the user is : a dull plot . the film is"
SAID = ["not", "bad", ".", "a", "film", "!", "a", "dull", "plot"]
TOLERANCE = 1e-8  # the models compute in double precision
METHODS = ["saliency", "attn_lrp", "occlusion", "kernel_shap"]


def close_to(expected: Any) -> Any:
    return pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(make_chat_model())


@pytest.mark.parametrize("method", METHODS)
def test_a_chat_is_its_rendered_prompt_with_the_template_special(model: Model, method: str) -> None:
    chat = model.explain(CHAT, method, "film")
    assert chat.text == RENDERED
    assert [unit.text for unit in chat.units()] == SAID
    reader = model.text_model
    plain = reader.encode(RENDERED)
    marked = replace(plain, segment=chat.segment)
    row = find_method(method)
    (by_hand,) = explain_texts(reader, [marked], "film", row, {}, "token")
    assert chat.tokens == by_hand.tokens
    assert chat.scores == close_to(by_hand.scores)
    assert chat.probability == close_to(model.explain(RENDERED, method, "film").probability)
    if method in ("occlusion", "kernel_shap"):  # what is special is never hidden
        assert all(score == 0 for score, special in zip(chat.scores, chat.special, strict=True) if special)


def test_a_chat_alone_is_the_same_as_in_a_list(model: Model) -> None:
    alone = [model.explain(CHAT, "saliency"), model.explain(OTHER, "saliency")]
    column: Any = np.array([None, None], dtype=object)
    column[:] = [np.array(CHAT, dtype=object), np.array(OTHER, dtype=object)]  # as pandas reads Parquet
    lists: list[Any] = [[CHAT, OTHER], iter([CHAT, OTHER]), column]
    for several in lists:
        for one, two in zip(alone, model.explain(several, "saliency"), strict=True):
            assert one.turns == two.turns
            assert one.scores == close_to(two.scores)
    mixed: Any = [CHAT, "a dull plot"]
    assert [explanation.turns != () for explanation in model.explain(mixed, "saliency")] == [True, False]


def test_one_chat_several_chats_and_texts() -> None:
    assert is_chat(CHAT)
    assert is_chat(tuple(CHAT))
    assert not is_chat([CHAT])
    assert not is_chat(["a film", "a plot"])
    assert several_inputs(CHAT) is None
    assert several_inputs([CHAT, OTHER]) == [CHAT, OTHER]
    assert several_inputs([["a", "b"], "c"]) == [("a", "b"), "c"]


@pytest.mark.parametrize("method", METHODS)
def test_every_level_adds_up(model: Model, method: str) -> None:
    tokens = model.explain(CHAT, method)
    total = sum(unit.score for unit in tokens.units())
    for level, count in (("word", 9), ("sentence", 3), ("turn", 2)):
        pooled = tokens.at(level, "sum")  # type: ignore[arg-type]
        assert len(pooled.units()) == count
        assert sum(unit.score for unit in pooled.units()) == close_to(total)
    turns = model.explain(CHAT, method, level="turn")
    assert [(unit.text, role) for unit, role in zip(turns.units(), ("a", "user"), strict=True)] == [
        ("not bad . a film !", "a"),
        ("a dull plot", "user"),
    ]
    assert [role for role in turns.roles if role] == ["a", "user"]
    if method in ("saliency", "attn_lrp"):
        assert [unit.score for unit in turns.units()] == close_to(
            [sum(unit.score for unit in tokens.units()[:6]), sum(unit.score for unit in tokens.units()[6:])]
        )


def test_hiding_a_turn_hides_all_that_is_said(model: Model) -> None:
    """By hand: the score of a turn by occlusion is what the log-probability loses without its tokens."""
    reader = model.text_model
    turns = model.explain(CHAT, "occlusion", "film", "turn", fill="pad")
    ids = reader.encode(RENDERED).input_ids
    film = reader.reading.tokenizer.convert_tokens_to_ids("film")
    assert isinstance(film, int)

    def log_probability(kept: list[int]) -> float:
        import torch

        with torch.no_grad():
            logits = reader.network.module(input_ids=torch.tensor([kept])).logits[0, -1]
        return float(logits.log_softmax(-1)[film])

    pad = reader.reading.tokenizer.pad_token_id
    numbers = reader.reading.tokenizer(RENDERED, return_offsets_mapping=True, add_special_tokens=False)
    for (_, start, end), unit in zip(turns.turns, turns.units(), strict=True):
        hidden = [
            pad if start <= a < end else token
            for (a, _), token in zip(numbers["offset_mapping"], numbers["input_ids"], strict=True)
        ]
        assert unit.score == close_to(log_probability(list(ids)) - log_probability(hidden))


def test_the_views_show_roles_and_not_the_template(model: Model) -> None:
    explanation = model.explain(CHAT, "saliency", level="word")
    out = io.StringIO()
    print_explanation(explanation, console=Console(file=out, width=100, no_color=True))
    assert "a: not bad . a film !" in out.getvalue()
    assert "user: a dull plot" in out.getvalue()
    assert "the user is" not in out.getvalue()
    page = explanation.to_html()
    assert page.count('<span class="role">') == 2
    assert '<span class="role">user</span>' in page
    hostile = model.explain([{"role": "user", "content": "a dull plot"}], "saliency")
    hostile = replace(hostile, turns=(("<script>", *hostile.turns[0][1:]),))
    assert "<script>&" not in hostile.to_html()
    assert "&lt;script&gt;" in hostile.to_html()


def test_a_chat_is_saved_evaluated_compared_flipped_and_continued(model: Model, tmp_path: Path) -> None:
    explanation = model.explain(CHAT, "occlusion", level="turn")
    explanation.save(tmp_path / "chat.json")
    again = wherefrom.Explanation.load(tmp_path / "chat.json")
    assert again == explanation
    (grade,) = model.evaluate(again, ["comprehensiveness"]).grades[0]
    compared = model.compare(CHAT, ["occlusion"], ["comprehensiveness", "stability"], level="turn")
    assert compared.explanations[0].scores == close_to(explanation.scores)
    assert compared.grades[0][0].value == close_to(grade.value)
    assert "template" in compared.grades[0][1].why
    assert len(model.explain(CHAT, "saliency", "a film").components) == 2  # a continuation of two tokens
    assert {unit.text for unit in model.flip(CHAT, level="turn").hidden} <= {"not bad . a film !", "a dull plot"}
    with pytest.raises(BadFile, match="turns of its chat"):
        wherefrom.Explanation.from_dict({**explanation.to_dict(), "turns": [["a", 5, 1000]]})


def test_a_row_of_a_run_is_the_explanation(model: Model, tmp_path: Path) -> None:
    rows = [{"id": "one", "messages": CHAT}, {"id": "two", "messages": OTHER, "text": "not read"}]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = run(
        RunPlan(str(file), model, ["saliency", "occlusion"], ["comprehensiveness"], level="turn"), tmp_path / "r"
    )
    assert done.errors.empty
    for row in done.explanations.to_dict("records"):
        stored = explanation_of(
            {name: list(cell) if isinstance(cell, np.ndarray) else cell for name, cell in row.items()}
        )
        alone = model.explain({"one": CHAT, "two": OTHER}[row["example"]], row["method"], level="turn")
        assert stored.turns == alone.turns
        assert stored.scores == close_to(alone.scores)
    file.write_text(json.dumps({"messages": "a film"}) + "\n", encoding="utf-8")
    with pytest.raises(BadFile, match="line 1: messages must be a list"):
        run(RunPlan(str(file), model, ["saliency"], ["comprehensiveness"]), tmp_path / "bad")


def test_other_models_and_levels_give_one_clear_error(model: Model) -> None:
    without = Model(make_model("llama", task="causal_lm"))
    with pytest.raises(BadOption, match="no chat template"):
        without.explain(CHAT)
    with pytest.raises(WrongModel, match="Only a causal language model reads the messages of a chat"):
        Model(make_model("bert")).explain(CHAT)
    with pytest.raises(BadOption, match="level turn is for the messages of a chat"):
        model.explain("a dull plot", level="turn")
    with pytest.raises(BadOption, match="level turn is for the messages of a chat"):
        model.explain("a dull plot").at("turn")
    with pytest.raises(EmptyText, match="number 1 of the list"):
        model.explain([CHAT, [{"role": "user", "content": " "}]], "saliency")
    with pytest.raises(BadOption, match=r"The chat has \d+ tokens, the model reads 64"):
        model.explain([{"role": "user", "content": "a film " * 60}], "saliency")
    wrong: list[Any] = [[{"content": "a film"}], [*CHAT, "a film"], {"role": "user", "content": "a"}, [CHAT[0], CHAT]]
    for bad in wrong:
        with pytest.raises(WherefromError):
            model.explain(bad, "saliency")


def test_a_token_that_the_template_begins_belongs_to_its_own_turn() -> None:
    """Where a token has characters of the template and of a message, it is of that message, not of the one before."""
    model = Model(make_chat_model(template="{% for m in messages %}{{ m.role }}{{ m.content }} {% endfor %}"))
    chat = model.explain([{"role": "fi", "content": "lm is"}, {"role": "pl", "content": "ot"}], "saliency")
    assert [unit.text for unit in chat.units()] == ["film", "is", "plot"]
    assert [unit.text for unit in chat.at("turn").units()] == ["film is", "plot"]
    assert [unit.text for unit in chat.words()] == ["film", "is", "plot"]
    assert chat.roles == ("fi", "fi", "pl")


def test_the_command_line_reads_chats(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wherefrom.cli.arguments.load", lambda *_, **__: model)
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(CHAT), encoding="utf-8")
    expected = model.explain(CHAT, "saliency", level="turn")
    inputs = [
        (str(file), None),
        (json.dumps(CHAT), None),
        (json.dumps({"messages": CHAT}), None),
        ("-", json.dumps(CHAT)),
    ]
    for chat, standard_input in inputs:
        arguments = ["explain", "--chat", chat, "--method", "saliency", "--level", "turn", "--json", "--no-check"]
        result = CliRunner().invoke(app, arguments, input=standard_input)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["scores"] == close_to(expected.scores)
    refused: Any = [
        (["--chat", str(tmp_path / "none.json")], BadFile, "There is no file"),
        (["--chat", "[1"], BadFile, "no JSON"),
        (["--chat", "[]"], BadFile, "no list of messages"),
        (["a film", "--chat", "[]"], BadOption, "give one of them"),
    ]
    for more, error, message in refused:
        result = CliRunner().invoke(app, ["explain", *more])
        assert isinstance(result.exception, error), result.output
        assert message in str(result.exception)
