"""What every token of a continuation came from: all steps of one pass against a plain loop over the prefixes."""

from __future__ import annotations

import io
import itertools
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tiny_models import CHEAP, make_chat_model, make_model, make_network, tokenizer
from tolerances import assert_close, tolerance_of
from typer.testing import CliRunner

import wherefrom
from wherefrom.api import Model
from wherefrom.cli.main import app
from wherefrom.core.generation import Generation
from wherefrom.errors import BadFile, BadOption, EmptyText, WrongModel
from wherefrom.model.loading import quiet
from wherefrom.registry import all_methods, find_method
from wherefrom.report.effect import unit_in_words
from wherefrom.report.generation import print_generation

PROMPT = "the film was not bad"
GOES_ON = "but the plot is dull"
METHODS = [row.name for row in all_methods() if row.family != "selection" and row.name != "optimus"]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def model(request: pytest.FixtureRequest) -> Model:
    return Model(make_model(request.param, task="causal_lm", dtype=torch.float64))


def test_every_method_against_one_token_at_a_time(model: Model) -> None:
    """A row of the matrix is the explanation of the next token of prompt and prefix, but that methods that hide words
    hide those of the prompt alone, and IG keeps the prefix.
    """
    hide = {"kernel_shap", "lime", "occlusion", "integrated_gradients", "random"}
    words = GOES_ON.split()
    tolerance = tolerance_of(model.text_model)
    for method in METHODS:
        if method in hide:
            continue
        found = model.generate_and_explain(PROMPT, method, continuation=GOES_ON)
        assert len(found.generated) == len(words)
        for step, word in enumerate(words):
            prefix = " ".join([PROMPT, *words[:step]])
            alone = model.explain(prefix, method, target=word)
            assert found.probabilities[step] == pytest.approx(alone.probability, rel=1e-9)
            assert_close(found.step(step).scores, alone.scores, tolerance=tolerance, what=method)
            assert not any(found.scores[step][len(alone.scores) :])  # nothing comes from what is behind


@pytest.mark.parametrize("method", ["occlusion", "integrated_gradients"])
def test_methods_that_hide_words_in_one_pass_and_in_many(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(make_model("gpt2", task="causal_lm", dtype=torch.float64))
    assert find_method(method).one_pass
    together = model.generate_and_explain(PROMPT, method, continuation=GOES_ON, **CHEAP.get(method, {}))
    monkeypatch.setattr("wherefrom.case.explain.needs_prefix", lambda *_: True)
    apart = model.generate_and_explain(PROMPT, method, continuation=GOES_ON, **CHEAP.get(method, {}))
    assert_close(together.scores, apart.scores, tolerance=tolerance_of(model.text_model), what=method)
    assert together.forwards < apart.forwards


def test_occlusion_by_hand(model: Model) -> None:
    """Each word of the prompt replaced, the network asked itself: what the log-probability of each token loses. The
    next token alone and the whole output are scored by the same rule.
    """
    text_model = model.text_model
    found = model.generate_and_explain(PROMPT, "occlusion", continuation="but dull", fill="unk")
    ids = torch.tensor([[*text_model.encode(PROMPT).input_ids, *found.token_ids]])
    with torch.no_grad():
        whole = text_model.network.module(input_ids=ids).logits[0].log_softmax(-1)
        for place, step in itertools.product(range(len(found.tokens)), range(2)):
            changed = ids.clone()
            changed[0, place] = text_model.reading.tokenizer.unk_token_id
            without = text_model.network.module(input_ids=changed).logits[0].log_softmax(-1)
            read, token = len(found.tokens) - 1 + step, found.token_ids[step]
            assert found.scores[step][place] == pytest.approx((whole - without)[read, token].item(), abs=1e-9)
            assert found.probabilities[step] == pytest.approx(whole[read, token].exp().item(), rel=1e-9)
    alone = model.explain(PROMPT, "occlusion", target="but", fill="unk")
    assert alone.scores == pytest.approx(found.scores[0][: len(alone.scores)], abs=1e-9)
    together = model.explain(PROMPT, "occlusion", target="but dull", fill="unk")
    assert together.scores == pytest.approx(np.sum(found.scores, axis=0)[: len(together.scores)].tolist(), abs=1e-9)
    assert unit_in_words(together) == unit_in_words(alone) == "in log-probability (natural)"
    assert unit_in_words(model.explain(PROMPT, "attn_lrp", target="but")) == "in logits"


def test_what_it_costs(model: Model) -> None:
    """Saliency: one forward row, one backward row for each generated token; occlusion: a row a word, whatever the
    number of generated tokens.
    """
    five = model.generate_and_explain(PROMPT, "saliency", continuation=GOES_ON)
    assert (five.forwards, five.backwards) == (1, 5)
    hidden = model.generate_and_explain(PROMPT, "occlusion", continuation=GOES_ON)
    assert (hidden.forwards, hidden.backwards) == (1 + 5, 0)


def test_generation_takes_the_likeliest_token_again_and_again(model: Model) -> None:
    text_model = model.text_model
    ids = list(text_model.encode(PROMPT).input_ids)
    found = model.generate_and_explain(PROMPT, "saliency", tokens=6)
    assert 1 <= len(found.token_ids) <= 6
    with torch.no_grad():
        for token in found.token_ids:
            assert int(text_model.network.module(input_ids=torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)


def test_one_continuation_rather_than_another(model: Model) -> None:
    """Scores are the difference of the two tokens' scores, given the same prefix; equal tokens are explained alone."""
    found = model.generate_and_explain(PROMPT, "input_x_gradient", continuation="but dull", rather_than="but good")
    plain = model.generate_and_explain(PROMPT, "input_x_gradient", continuation="but dull")
    other = model.generate_and_explain(PROMPT, "input_x_gradient", continuation="but good")
    assert found.versus[0] is None
    assert str(found.versus[1]).strip() == "good"
    assert found.scores[0] == pytest.approx(plain.scores[0])
    difference = [a - b for a, b in zip(plain.scores[1], other.scores[1], strict=True)]
    assert_close(found.scores[1], difference, tolerance=tolerance_of(model.text_model))
    assert found.step(1).target == "dull rather than good"
    ratio = plain.probabilities[1] / (plain.probabilities[1] + other.probabilities[1])
    assert found.probabilities[1] == pytest.approx(ratio, rel=1e-6)


def test_a_target_of_several_tokens_is_the_sum(model: Model) -> None:
    whole = model.explain(PROMPT, "saliency", target=GOES_ON)
    found = model.generate_and_explain(PROMPT, "saliency", continuation=GOES_ON)
    assert whole.scores == pytest.approx(np.asarray(found.scores).sum(0).tolist())
    assert whole.probability == pytest.approx(np.exp(np.log(found.probabilities).mean()))
    assert whole.target == " ".join(GOES_ON.split()) or whole.target.replace(" ", "") == GOES_ON.replace(" ", "")


def test_erasure_of_every_step_against_single_explanations(model: Model) -> None:
    """Comprehensiveness of a step is that of the next token where there is no prefix; later ones by hand."""
    found = model.generate_and_explain(PROMPT, "saliency", continuation="but dull")
    grades = model.evaluate_generation(found, ["comprehensiveness"])
    alone = model.evaluate(model.explain(PROMPT, "saliency", target="but"), ["comprehensiveness"]).grades[0][0]
    assert grades[0][0].value == pytest.approx(alone.value, rel=1e-6)
    text_model, prompt = model.text_model, list(model.text_model.encode(PROMPT).input_ids)
    order = np.argsort(-np.asarray(found.scores[1][: len(prompt)]), kind="stable")
    drops = []
    with torch.no_grad():
        for count in (-(-share * len(prompt) // 100) for share in (5, 10, 20, 50)):
            kept = [token for place, token in enumerate(prompt) if place not in set(order[:count].tolist())]
            ids = torch.tensor([[*kept, found.token_ids[0]]])
            chance = text_model.network.module(input_ids=ids).logits[0, -1].softmax(-1)[found.token_ids[1]].item()
            drops.append(found.probabilities[1] - chance)
    assert grades[1][0].value == pytest.approx(sum(drops) / 6, rel=1e-5)  # as the ALTI paper divides


def chat_model() -> Model:
    return Model(make_chat_model())


def test_a_chat_goes_through_the_template() -> None:
    model = chat_model()
    messages = [{"role": "a", "content": "not bad"}, {"role": "user", "content": "a dull plot "}]
    found = model.generate_and_explain(messages, "saliency", tokens=3)
    rendered = "the a is : not bad . the user is : a dull plot  . the film is"
    assert found.text == rendered
    assert [found.text[start:end] for _, start, end in found.turns] == ["not bad", "a dull plot"]
    said = [token for token, part in zip(found.tokens, found.segment, strict=True) if part >= 0]
    assert said == ["not", "bad", "a", "dull", "plot"]
    roles = [found.role_of(place) for place, part in enumerate(found.segment) if part >= 0]
    assert roles == ["a", "a", "user", "user", "user"]
    assert "user: a" in shown(found)
    assert '<span class="who">user</span>' in found.to_html()
    hidden = model.generate_and_explain(messages, "occlusion", tokens=2)
    template = [place for place, part in enumerate(hidden.segment) if part < 0]
    assert all(hidden.scores[step][place] == 0 for step in range(2) for place in template)
    assert len(model.evaluate_generation(hidden)) == len(hidden.generated)


def test_a_call_of_a_tool_and_parts_of_text_are_read() -> None:
    """The call says nothing, so that all of it is the template's; parts are joined."""
    parts = [{"type": "text", "text": "a dull"}, {"type": "text", "text": "plot"}]
    many: Any = np.int64(2)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": parts},
        {"role": "a", "content": None, "tool_calls": []},
    ]
    found = chat_model().generate_and_explain(messages, "saliency", tokens=many)
    assert [(role, found.text[start:end]) for role, start, end in found.turns] == [("user", "a dull\nplot")]
    said = [token for token, part in zip(found.tokens, found.segment, strict=True) if part >= 0]
    assert said == ["a", "dull", "plot"]


@pytest.mark.parametrize(
    ("prompt", "more", "error", "message"),
    [
        ([], {}, BadOption, "list of messages"),
        ([{"role": "user"}], {}, BadOption, "list of messages"),
        ([{"role": "user", "content": " "}], {}, EmptyText, "nothing to read in what is said"),
        ([{"role": "user", "content": None}], {}, EmptyText, "nothing to read in what is said"),
        ([{"role": "user", "content": "a \ud800 film"}], {}, BadOption, "half of a character"),
        ({"role": "user", "content": "a film"}, {}, BadOption, "list of messages"),
        (["a film"], {}, BadOption, "list of messages"),
        (PROMPT, {"tokens": None}, BadOption, "At least one token"),
        (PROMPT, {"tokens": 1.5}, BadOption, "a whole number"),
        (PROMPT, {"continuation": 5}, BadOption, "given as text, not as int"),
        (PROMPT, {"continuation": ["but"]}, BadOption, "given as text, not as list"),
        (PROMPT, {"continuation": "\ud800"}, BadOption, "half of a character"),
        (PROMPT, {"continuation": "but", "rather_than": 5}, BadOption, "given as text, not as int"),
        (PROMPT, {"continuation": ""}, EmptyText, "continuation is empty"),
        (PROMPT, {"tokens": 0}, BadOption, "At least one token"),
        (PROMPT, {"continuation": "a " * 80}, BadOption, "the model reads 64"),
    ],
)
def test_what_cannot_be_generated(prompt: Any, more: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        chat_model().generate_and_explain(prompt, "saliency", **more)


def test_an_output_that_was_not_decoded() -> None:
    with pytest.raises(BadOption, match="half of a character"):
        Model(make_model("t5", task="seq2seq")).generate_and_explain(PROMPT, "saliency", continuation="a \ud800")


def test_only_causal_language_models_go_on(model: Model) -> None:
    with pytest.raises(WrongModel, match="made for classification"):
        Model(make_model("bert")).generate_and_explain(PROMPT)
    with pytest.raises(BadOption, match="no chat template"):
        model.generate_and_explain([{"role": "user", "content": "a film"}])
    with pytest.raises(BadOption, match="no generated token 9"):
        model.generate_and_explain(PROMPT, continuation="but dull").step(9)
    with pytest.raises(BadOption, match="needs more"):
        model.evaluate_generation(model.generate_and_explain(PROMPT, continuation="but dull"), ["auprc"])


def shown(generation: Generation) -> str:
    out = io.StringIO()
    print_generation(generation, console=Console(file=out, width=120, no_color=True))
    return out.getvalue()


def by_hand() -> Generation:
    return Generation(
        text="a <b>",
        tokens=("[CLS]", "a", "<b>"),
        offsets=((0, 0), (0, 1), (2, 5)),
        segment=(-1, 0, 0),
        generated=(" x", " y"),
        token_ids=(7, 8),
        scores=((9.0, 1.0, -2.0, 0.0, 0.0), (9.0, 0.0, 0.5, 4.0, 0.0)),
        probabilities=(0.5, 0.25),
        versus=(None, " z"),
        versus_ids=(None, 9),
        method="toy",
    )


def test_the_views_show_the_whole_matrix(tmp_path: Path) -> None:
    found = by_hand()
    told = shown(found)
    for part in ("toy explains 2 generated tokens", "<b> -2.000, a +1.000", "y not z", "50.0%", "25.0%", "all tokens"):
        assert part in told
    assert "+4.00" not in told  # the matrix is on the page
    page = found.to_html()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.split("<main>")[1].replace("<b>", "", 0).split("&lt;b&gt;")[0]
    for html in (page, found._repr_html_()):
        assert html.count('class="late"') == 1  # the first generated token says nothing of itself
        assert "+4.00" in html
    assert found.continuation == " x y"
    assert found.total().scores[:3] == (18.0, 1.0, -1.5)
    assert found.total().probability == pytest.approx(0.125**0.5)
    found.save(tmp_path / "generation.json")
    assert Generation.load(tmp_path / "generation.json") == found
    assert wherefrom.Generation is Generation
    for content in ("", "{}", '{"wherefrom_generation": 1}'):
        (tmp_path / "bad.json").write_text(content, encoding="utf-8")
        with pytest.raises(BadFile, match=r"bad\.json"):
            Generation.load(tmp_path / "bad.json")


def test_every_token_and_the_total_are_tested(tmp_path: Path) -> None:
    """By the model without the words, asked itself; the total by the geometric mean of all tokens."""
    model = Model(make_model("gpt2", task="causal_lm", dtype=torch.float64))
    prompt = "the film was not bad and the plot is good"
    found = model.generate_and_explain(prompt, "input_x_gradient", continuation="but dull", check=True)
    ids, network = model.text_model.encode(prompt).input_ids, model.text_model.network.module
    assert len(found.checks) == 3
    for step, check in enumerate(found.checks):
        e = found.by_word() if step == 2 else found.by_word(step)
        assert e.check == check
        assert check.whole == pytest.approx(e.probability)
        assert check.strongest is not None
        assert check.strongest.draws == 20
        hidden = set(check.strongest.units)  # every word is one token here
        row = torch.tensor([[*[token for place, token in enumerate(ids) if place not in hidden], *found.token_ids]])
        with torch.no_grad():
            chances = network(input_ids=row).logits[0].softmax(-1)
        kept = len(ids) - len(hidden)
        each = [float(chances[kept - 1 + place, token]) for place, token in enumerate(found.token_ids)]
        expected = (each[0] * each[1]) ** 0.5 if step == 2 else each[step]
        assert check.strongest.hidden == pytest.approx(expected, rel=1e-6)
    told = " ".join(shown(found).split())
    assert told.count("at random") == 3
    found.save(tmp_path / "tested.json")
    assert Generation.load(tmp_path / "tested.json") == found
    plain = model.generate_and_explain(prompt, "input_x_gradient", continuation="but dull")
    assert plain.checks == ()
    assert plain.by_word(0).check is None


def test_every_column_has_its_own_scale_and_special_tokens_are_apart() -> None:
    """The first token's largest score is 2, the second's 4: both are shown in full."""
    for html in (by_hand().to_html(), by_hand()._repr_html_()):
        grid, template = html.split("<details>", 1)
        full = re.findall(r'data-step="(\d)" style="--s:1.000" title="([^"]*)"', grid)
        assert [(step, f"{float(tip.split()[-1]):+.3f}") for step, tip in full] == [("0", "-2.000"), ("1", "+4.000")]
        assert "[CLS]" not in grid.split('class="matrix"')[1]
        assert "[CLS]" in template
    scores = json.loads(unescape(re.search(r'data-scores="([^"]*)"', by_hand().to_html())[1]))  # type: ignore[index]
    assert scores[0][1:3] == [0.5, -1.0]
    assert scores[1][2:4] == [0.125, 1.0]


def test_the_command(tmp_path: Path) -> None:
    with quiet():
        make_network("gpt2", task="causal_lm").save_pretrained(tmp_path)
        tokenizer(0, "none").save_pretrained(tmp_path)
    page = tmp_path / "page.html"
    asked = ["generate", PROMPT, "--model", str(tmp_path), "--target", "but dull", "--versus", "but good"]
    done = CliRunner().invoke(app, [*asked, "--json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert '"wherefrom_generation": 1' in done.output
    assert 'class="step"' in page.read_text(encoding="utf-8")
    assert "2 generated tokens" in CliRunner().invoke(app, asked).output
    without = CliRunner().invoke(app, ["generate", PROMPT])
    assert isinstance(without.exception, BadOption)


def test_words_are_deleted_from_a_language_model() -> None:
    """By prompts without the word."""
    model = Model(make_model("gpt2", task="causal_lm", dtype=torch.float64))
    text_model = model.text_model
    prompt = list(text_model.encode(PROMPT).input_ids)
    e = model.explain(PROMPT, "occlusion", target="dull")
    assert e.params["fill"] == "delete"
    token = e.components[0].index

    def log_probability(ids: list[int]) -> float:
        with torch.no_grad():
            return float(text_model.network.module(torch.tensor([ids])).logits[0, -1].log_softmax(-1)[token])

    real = [place for place, part in enumerate(e.segment) if part >= 0]
    whole = log_probability(prompt)
    drops = [whole - log_probability(prompt[:place] + prompt[place + 1 :]) for place in real]
    assert [e.scores[place] for place in real] == pytest.approx(drops)
    assert model.generate_and_explain(PROMPT, tokens=2).method == "attn_lrp"
