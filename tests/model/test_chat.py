"""Chats: what each message says is found in what the template rendered, and a template can neither break nor hang."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tiny_models import tokenizer
from transformers import PreTrainedTokenizerFast

from wherefrom.errors import BadOption, WherefromError
from wherefrom.model.chat import rendered_turns

CHATML = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}<|assistant|>"
TRIMMED = "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}"
PARTS = "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
AS_JSON = "{% for m in messages %}{{ m.role }}: {{ m.content | tojson }}\n{% endfor %}"
CALLS = "{% for m in messages %}{{ m.role }}: {{ m.content or m.tool_calls }}\n{% endfor %}"


def reader(template: str | None) -> PreTrainedTokenizerFast:
    made = tokenizer.__wrapped__(0, "none")
    made.chat_template = template
    return made


def said(template: str, messages: Any) -> list[tuple[str, str, int]]:
    text, turns = rendered_turns(reader(template), messages)
    return [(role, text[start:end], start) for role, start, end in turns]


def message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_what_is_said_is_not_taken_for_a_word_of_the_template() -> None:
    """ "user" is the role in the template, then what the user says."""
    chat = [message("user", "user"), message("assistant", "user"), message("user", "assistant")]
    assert said(CHATML, chat) == [("user", "user", 9), ("assistant", "user", 28), ("user", "assistant", 42)]


@pytest.mark.parametrize("template", [CHATML, TRIMMED, AS_JSON, PARTS])
@pytest.mark.parametrize("content", ["a fine film", " a fine film\n", [{"type": "text", "text": "a fine film"}]])
def test_contents_of_every_kind(template: str, content: Any) -> None:
    found = said(template, [message("user", content), message("tool", "film")])
    assert [(role, text) for role, text, _ in found] == [("user", "a fine film"), ("tool", "film")]


def test_parts_are_joined_and_results_may_be_json() -> None:
    chat = [message("user", [{"type": "text", "text": "a film"}, "not bad"]), message("tool", '{"a": "\u00fc"}')]
    assert [text for _, text, _ in said(CHATML, chat)] == ["a film\nnot bad", '{"a": "\u00fc"}']
    assert [text for _, text, _ in said(AS_JSON, chat)] == ["a film\\nnot bad", '{\\"a\\": \\"\u00fc\\"}']


def test_a_message_that_says_nothing_has_no_turn() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "look"}]}
    without = {"role": "assistant", "tool_calls": [{"name": "look"}]}
    for silent in (call, without, message("assistant", "")):
        found = said(CALLS, [message("user", "a film"), silent, message("tool", "look")])
        assert [(role, text) for role, text, _ in found] == [("user", "a film"), ("tool", "look")]
    text, _ = rendered_turns(reader(CALLS), [message("user", "a film"), call])
    assert "{'name': 'look'}" in text  # the template decides what is shown of it


def test_what_a_template_changes_or_leaves_out_is_refused() -> None:
    for template in ("{{ messages[0].content | upper }}", "{{ messages[0].role }}", "nothing"):
        with pytest.raises(BadOption, match="does not show what 'user' says"):
            rendered_turns(reader(template), [message("user", "a film")])
    # What depends on the content itself is found where it is unique.
    template = "{% for m in messages %}{{ 'long: ' if m.content | length > 5 }}{{ m.content }} {% endfor %}"
    chat = [message("user", "a fine film"), message("user", "not")]
    assert [text for _, text, _ in said(template, chat)] == ["a fine film", "not"]
    with pytest.raises(BadOption, match="does not show"):
        said(template, [message("user", "a fine film"), message("user", "film")])


@pytest.mark.parametrize(
    "messages",
    [
        *[None, 5, b"x", {}, message("user", "x"), [], [None], ["x"], [[message("user", "x")]], [{}]],
        *[[{"role": "user"}], [{"role": 1, "content": "x"}]],
        *[[message("user", content)] for content in (5, b"x", [5], [{"type": "image", "url": "x"}])],
    ],
)
def test_what_is_no_chat(messages: Any) -> None:
    with pytest.raises(BadOption, match=r"list of messages|content of a message|only text") as problem:
        rendered_turns(reader(CHATML), messages)
    assert "\n" not in str(problem.value)


NESTED = "{% for a in range(99999) %}{% for b in range(99999) %}BODY{% endfor %}{% endfor %}"
WRONG = {
    "raised": ("{{ raise_exception('roles must\n alternate') }}", "TemplateError: roles must alternate"),
    "syntax": ("{% for %}", "TemplateSyntaxError"),
    "undefined": ("{{ a.b.c }}", "'a' is undefined"),
    "unsafe": ("{{ ''.__class__.__mro__ }}", "SecurityError"),
    "overflow": ("{% for i in range(999999999) %}{% endfor %}", "OverflowError"),
    "type": ("{{ messages[0].content + 1 }}", "TypeError"),
    "nested": ("{{ " + "(" * 20_000, "RecursionError"),
    "recursion": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    "power": ("{{ 9 ** 9 ** 9 }}", "computes powers"),
    "loop": (NESTED.replace("BODY", ""), "stopped after .* steps"),
    "loop that calls": (NESTED.replace("BODY", "{{ [a, b] | sort | first }}"), "stopped after .* steps"),
    "writing": ("{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}", "stopped after .* characters"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_template_is_one_line_and_ends(wrong: str) -> None:
    """Steps and characters are counted, so that where it stops does not depend on the machine."""
    template, message_of_error = WRONG[wrong]
    before = sys.gettrace()
    with pytest.raises(BadOption, match=message_of_error) as problem:
        rendered_turns(reader(template), [message("user", "a film")])
    assert "chat template" in str(problem.value)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 500
    assert sys.gettrace() is before


def test_a_long_chat_stays_far_below_the_limits() -> None:
    chat = [message("user" if number % 2 else "assistant", "a fine film " * 50) for number in range(2000)]
    assert len(said(CHATML, chat)) == 2000


def test_a_tokenizer_without_a_template() -> None:
    with pytest.raises(WherefromError, match="no chat template"):
        rendered_turns(reader(None), [message("user", "a film")])
