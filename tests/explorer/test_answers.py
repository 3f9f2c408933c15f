"""What the server answers is what the model and the other verbs say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from report.sentences import film
from tiny_models import make_model, tiny
from typer.testing import CliRunner

import wherefrom
from explorer.serving import TEXT, Client, serving
from wherefrom import Model
from wherefrom.cli.main import app as program
from wherefrom.core.encoding import Encoding
from wherefrom.explorer.explaining import points_of, random_orders
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.explorer.sheet import PageUnits, best_data
from wherefrom.model.text_model import TextModel
from wherefrom.registry import listed

WORDS = ["the", "film", "was", "not", "bad", ",", "but", "the", "plot", "was", "dull", "and", "very", "long", "."]


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with serving(make_model("bert"), make_model("bert", seed=1)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ExplorerServer) -> Iterator[Client]:
    with Client(server) as asking:
        yield asking


def chances(model: TextModel, ids: list[int]) -> list[float]:
    """The probability of every class for these ids, by the network itself."""
    with torch.no_grad():
        logits = model.network.module(input_ids=torch.tensor([ids])).logits[0]
    return [float(one) for one in logits.double().softmax(-1)]


def without(model: TextModel, words: list[int], fill: str = "delete") -> list[int]:
    """The ids of the text with some words hidden, worked out here."""
    encoding = model.encode(TEXT)
    hidden = [place for place, word in enumerate(encoding.word_of) if word in words]
    if fill == "delete":
        return [token for place, token in enumerate(encoding.input_ids) if place not in hidden]
    filler = int(getattr(model.reading.tokenizer, f"{fill}_token_id"))
    return [filler if place in hidden else token for place, token in enumerate(encoding.input_ids)]


def test_a_text_is_read_as_the_model_reads_it(client: Client) -> None:
    found = client.ask("read")
    assert found["text"]["units"] == WORDS
    assert "".join(run[0] for line in found["text"]["lines"] for run in line) == TEXT
    expected = Model(tiny("bert")).explain(TEXT, "random")
    assert (found["target"], found["prediction"]) == (expected.target, expected.prediction)
    assert found["probability"] == pytest.approx(expected.probability, rel=1e-5)
    assert dict(found["probabilities"]) == pytest.approx(dict(expected.probabilities), rel=1e-5)


@pytest.mark.parametrize("fill", ["delete", "mask", "unk", "pad"])
@pytest.mark.parametrize("hidden", [[], [4], [1, 4, 10], [12, 13]])
def test_a_hidden_word_is_hidden(client: Client, hidden: list[int], fill: str) -> None:
    model, found = tiny("bert"), client.ask("hide", hidden=hidden, fill=fill)
    expected = chances(model, without(model, hidden, fill))
    assert [chance for _, chance in sorted(found["probabilities"])] == pytest.approx(expected, rel=1e-4)
    number = int(found["target"].removeprefix("LABEL_"))
    assert found["probability"] == pytest.approx(expected[number], rel=1e-4)
    assert found["whole"] == pytest.approx(chances(model, without(model, []))[number], rel=1e-4)


def test_a_replaced_word_is_another_text(client: Client) -> None:
    before = client.ask("read")
    found = client.ask("hide", replaced={"4": "very good"})
    other = client.ask("read", text=TEXT.replace("bad", "very good"), target=before["target"])
    assert found["probability"] == pytest.approx(other["probability"], rel=1e-5)
    both = client.ask("hide", replaced={"4": "very good"}, hidden=[1])
    without_film = client.ask("hide", text=TEXT.replace("bad", "very good"), target=before["target"], hidden=[1])
    assert both["probability"] == pytest.approx(without_film["probability"], rel=1e-5)


def test_a_target_and_rather_than(client: Client) -> None:
    other = client.ask("read", target="LABEL_2")
    assert other["probability"] == pytest.approx(dict(other["probabilities"])["LABEL_2"])
    rather = client.ask("read", target="LABEL_2", versus="LABEL_0")
    pair = dict(rather["probabilities"])
    assert rather["probability"] == pytest.approx(pair["LABEL_2"] / (pair["LABEL_2"] + pair["LABEL_0"]))
    assert "Did you mean 'LABEL_2'" in client.ask("read", target="LABEL_22", status=400)["error"]


def test_rows_are_explanations_with_their_tests(client: Client) -> None:
    methods = ["attcat", "occlusion:fill=unk", "random"]
    lines = client.stream("explain", methods=methods, best=True)
    rows = {line["row"]["asked"]: line["row"] for line in lines if "row" in line}
    model = Model(tiny("bert"))
    given: list[dict[str, Any]] = [{}, {"fill": "unk"}, {}]
    for asked, options in zip(methods, given, strict=True):
        expected = model.explain(TEXT, asked.partition(":")[0], level="word", check=True, **options)
        assert expected.check is not None
        shown = [unit.score for unit in expected.units()]
        np.testing.assert_allclose(rows[asked]["scores"], shown, rtol=1e-3, atol=1e-5 * max(map(abs, shown)))
        assert rows[asked]["verdict"] == expected.check.verdict
        assert rows[asked]["signed"] == expected.signed
    assert [rows[asked]["unit"] for asked in methods] == ["", "in logits", ""]
    assert [next(iter(line)) for line in lines[-3:]] == ["verdict", "best", "done"]
    assert "random, which knows nothing of the text" in lines[-3]["verdict"]["words"]
    expected = model.explain(TEXT, "best", level="word", candidates="attcat,occlusion:fill=unk")
    assert lines[-2]["best"]["first"][0] == expected.params["winner"]


GRADES = {"metrics": ["aopc", "rft"], "better": ["higher", "lower"]}


@pytest.mark.parametrize(
    ("grades", "first", "words"),
    [
        ({"gae": [0.4, 0.1], "alti": [0.3, 0.2]}, ["gae"], "gae is the most faithful method on screen here: 0.400"),
        ({"gae": [0.4, 0.2], "alti": [0.3, 0.1]}, ["gae", "alti"], "No clear winner here"),  # the judge says worse
        ({"gae": [0.3581, 0.1], "alti": [0.3579, 0.2]}, ["gae", "alti"], "gae and alti are equally faithful here"),
        (
            {"gae": [0.4, 0.1], "alti": [0.4, 0.2], "attcat": [0.4, None]},
            ["gae", "alti", "attcat"],
            "gae, alti and attcat are equally faithful here: 0.400 by aopc (higher is better).",
        ),
        ({"gae": [0.4, None], "alti": [0.3, None]}, ["gae"], "gae is the most faithful method on screen here"),
    ],
)
def test_ties_and_metrics_that_disagree_name_no_winner(
    grades: dict[str, list[float | None]], first: list[str], words: str
) -> None:
    """Which methods are equally good is what `best` says: the rule is written there alone."""
    chosen, *others = grades
    report = {"chosen": chosen, "runner_up": others[0], "equals": others if "equally" in words else []}
    explanation = film(selection=(GRADES | report | {"grades": grades},))
    found = best_data(explanation)
    assert found["first"] == first
    assert found["words"].startswith(words)


def test_only_methods_on_screen_are_named(client: Client) -> None:
    """With one method to choose among nothing is compared; with two, no third is named."""
    (alone,) = [
        line["best"] for line in client.stream("explain", methods=["gae", "random"], best=True) if "best" in line
    ]
    assert alone["words"] == "Add a second method to see which one is more faithful here."
    (two,) = [line["best"] for line in client.stream("explain", methods=["gae", "alti"], best=True) if "best" in line]
    others = [row.name for row in listed("method") if row.name not in ("gae", "alti")]
    assert not [name for name in others if re.search(rf"\b{name}\b", two["words"])]


def test_a_method_that_fails_costs_its_own_row(client: Client) -> None:
    lines = client.stream("explain", methods=["lime:samples=1", "attcat"])
    assert {"failed", "row"} <= {next(iter(line)) for line in lines}
    (failed,) = [line for line in lines if "failed" in line]
    assert failed["failed"] == "lime:samples=1"
    assert failed["why"]


def test_a_curve_is_what_hiding_gives(client: Client) -> None:
    first, second = client.stream("curve", method="attcat", fill="mask")
    curve, band = first["curve"], second["band"]
    (row,) = [line["row"] for line in client.stream("explain", methods=["attcat"]) if "row" in line]
    assert curve["order"] == sorted(range(len(WORDS)), key=lambda place: -row["scores"][place])
    assert curve["sizes"] == list(range(len(WORDS) + 1))
    for size in (0, 1, 5, len(WORDS)):
        asked = client.ask("hide", hidden=curve["order"][:size], fill="mask")
        assert curve["values"][size] == pytest.approx(asked["probability"], rel=1e-4)
    orders = random_orders(tiny("bert").encode(TEXT), len(WORDS))
    drawn = [client.ask("hide", hidden=order[:5], fill="mask")["probability"] for order in orders]
    assert band["mean"][5] == pytest.approx(np.mean(drawn), rel=1e-4)
    assert (band["low"][5], band["high"][5]) == pytest.approx(np.percentile(drawn, [25, 75]), rel=1e-4)


def test_the_points_of_a_long_curve() -> None:
    assert points_of(3) == [0, 1, 2, 3]
    found = points_of(1000)
    assert (found[0], found[-1], len(found)) == (0, 1000, 25)


def test_the_second_model_is_another(client: Client) -> None:
    one, two = (client.ask("hide", model=number, hidden=[4])["probabilities"] for number in (0, 1))
    assert dict(one) != pytest.approx(dict(two), rel=1e-3)
    assert "There is no model 3" in client.ask("read", model=2, status=400)["error"]


def test_eight_people_at_once_get_their_own_answers(client: Client) -> None:
    """Their questions are answered by the same passes; each must come back to who asked it."""
    questions: list[dict[str, Any]] = [
        {
            "text": f"the {word} was {'not ' * (number % 3)}bad, but it was {WORDS[number]} and dull.",
            "hidden": [number % 5, 3 + number % 4],
            "fill": ("delete", "mask")[number % 2],
            "model": number // 4 % 2,
            "target": f"LABEL_{number % 3}",
        }
        for number, word in enumerate(("film", "movie", "plot", "acting", "film", "movie", "plot", "acting"))
    ]
    expected = []
    for question in questions:
        model = make_model("bert", seed=question["model"])
        units = PageUnits(model.encode(question["text"]), "word")
        ids, hidden = list(units.encoding.input_ids), units.tokens(question["hidden"])
        if question["fill"] == "mask":
            ids = [4 if place in hidden else token for place, token in enumerate(ids)]
            assert model.reading.tokenizer.mask_token_id in (3, 4)
            ids = [
                model.reading.tokenizer.mask_token_id if place in hidden else token for place, token in enumerate(ids)
            ]
        else:
            ids = [token for place, token in enumerate(ids) if place not in hidden]
        expected.append(chances(model, ids)[int(question["target"][-1])])

    def one_person(number: int) -> list[float]:
        mine = questions[number]
        return [client.ask("hide", **mine)["probability"] for _ in range(5)]

    with ThreadPoolExecutor(8) as people:
        found = list(people.map(one_person, range(8)))
    for answers, right in zip(found, expected, strict=True):
        assert answers == pytest.approx([right] * 5, rel=1e-4)
    assert len({round(one, 6) for one in expected}) == 8  # so that a mix-up would be seen


def test_the_same_click_is_asked_once(server: ExplorerServer, client: Client) -> None:
    network, calls = server.shelf.service(0).model.network.module, list[int]()
    client.ask("hide", hidden=[2, 7])
    handle = network.register_forward_hook(lambda *_: calls.append(1))
    try:
        again = client.ask("hide", hidden=[7, 2])
        assert calls == []
        assert client.ask("hide", hidden=[2, 8]) != again
        assert calls == [1]
    finally:
        handle.remove()


def run_copied(python: str, monkeypatch: pytest.MonkeyPatch, model: Model) -> tuple[list[Any], list[Any]]:
    """What the copied code prints and shows, when it is run."""
    printed, shown = list[Any](), list[Any]()
    monkeypatch.setattr(wherefrom, "load", lambda _: model)
    monkeypatch.setattr(wherefrom.Comparison, "show", lambda comparison: shown.append(comparison))
    exec(python, {"print": printed.append})
    return printed, shown


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": [4, 10], "fill": "mask", "target": "LABEL_1"},
        {"hidden": [0, 7], "target": "LABEL_0"},  # "the" twice: by characters
        {"hidden": [2], "fill": "unk"},
        {"replaced": {"4": "good"}},
        {"replaced": {"4": "a very good film", "10": ""}, "hidden": [4, 7, 12], "fill": "mask", "target": "LABEL_0"},
        {"hidden": [0], "level": "sentence", "target": "LABEL_1"},
        {"hidden": [3, 5], "level": "token", "pair": "it was not the film", "replaced": {"16": "never"}},
    ],
)
def test_the_python_that_is_copied_gives_the_same_numbers(
    client: Client, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    answer = client.ask("hide", **changes)
    code = client.ask("code", methods=["attcat"], **changes)["python"]
    printed, shown = run_copied(code, monkeypatch, Model(make_model("bert")))
    assert len(code.splitlines()) == 4  # import, load, compare, predict
    assert printed[0].target == answer["target"]
    assert printed[0].probability == pytest.approx(answer["probability"], rel=1e-5)
    assert printed[0].prediction == answer["prediction"]
    question = {name: value for name, value in changes.items() if name not in ("hidden", "replaced", "fill")}
    (row,) = [line["row"] for line in client.stream("explain", methods=["attcat"], **question) if "row" in line]
    scores = [unit.score for unit in shown[0].explanations[0].units()]
    np.testing.assert_allclose(row["scores"], scores, rtol=1e-3, atol=1e-5 * max(map(abs, scores)))


def test_the_python_of_a_text_as_it_is_has_three_lines(client: Client) -> None:
    code = client.ask("code", methods=["attcat", "gae"], target="LABEL_1")["python"]
    assert code.splitlines() == [
        "import wherefrom",
        "model = wherefrom.load('MODEL')",
        f"model.compare({TEXT!r}, ['attcat', 'gae'], target='LABEL_1', level='word').show()",
    ]


@pytest.mark.parametrize("text", ["-rf / ; echo", 'it\'s "quoted" $HOME `x`', "--help", "two\nlines"])
def test_the_command_that_is_copied_means_the_text(text: str, client: Client) -> None:
    question: dict[str, Any] = {"text": text, "target": "LABEL_0", "level": "word"}
    code = client.ask("code", methods=["attcat", "alti:norm=l2"], **question)
    words = shlex.split(code["command"])
    assert words[:2] == ["wherefrom", "compare"]
    assert words[-2:] == ["--", text]
    assert words[words.index("--methods") + 1] == "attcat,alti:norm=l2"


def test_the_command_that_is_copied_runs(client: Client) -> None:
    code = client.ask("code", methods=["random"], text="A fine film.")
    words = shlex.split(code["command"].replace("--model MODEL", ""))
    found = CliRunner().invoke(program, ["compare", "--no-check", "--metrics", "entropy", *words[2:]])
    assert found.exit_code == 0, found.output
    assert "random" in found.output


def test_the_page_that_is_saved_stands_alone(client: Client) -> None:
    (found,) = client.stream("page", methods=["attcat", "random"])
    assert found["html"].startswith("<!doctype html>")
    assert "src=" not in found["html"].replace("src=x", "")
    assert "attcat" in found["html"]


@pytest.mark.parametrize("task", ["question_answering", "token_classification", "masked_lm", "causal_lm"])
def test_other_tasks(task: str) -> None:
    family = "gpt2" if task == "causal_lm" else "bert"
    question: dict[str, Any] = {
        "question_answering": {"text": "was the film good?", "pair": "the plot was dull, but the film was fine."},
        "token_classification": {"text": "the film was good", "target": "good: LABEL_1"},
        "masked_lm": {"text": "the film was [MASK] and the plot was dull."},
        "causal_lm": {"text": "the film was not"},
    }[task]
    with serving(make_model(family, task=task)) as running, Client(running) as asking:
        facts = asking.http.get("/api/state").json()["models"][0]
        assert facts["task"] == task
        assert facts["examples"]
        found = asking.ask("read", **question)
        hidden = asking.ask("hide", hidden=[1], **question)
        assert hidden["whole"] == pytest.approx(found["probability"], rel=1e-5)
        assert hidden["probability"] != pytest.approx(found["probability"], rel=1e-6)
        lines = asking.stream("explain", methods=["attcat", "occlusion"], **question)
        assert sum("row" in line for line in lines) == 2, lines
        replaced = asking.ask("hide", replaced={"1": "great"}, **question)
        assert replaced["target"]


# The text as the page shows it


def test_units_that_share_a_character_are_one_stretch() -> None:
    """Three bytes of an emoji are three tokens; what they are given adds up, and they are hidden together."""
    encoding = Encoding(
        "a \U0001f600 b",
        None,
        ("a", "x", "y", "z", "b"),
        (1, 2, 3, 4, 5),
        None,
        ((0, 1), (2, 3), (2, 3), (2, 3), (4, 5)),
        (0,) * 5,
    )
    units = PageUnits(encoding, "token")
    assert units.groups == [[0], [1, 2, 3], [4]]
    assert units.pooled([1, 2, 3, 4, 5]) == [1, 9, 5]
    assert units.tokens([1]) == [1, 2, 3]
    assert units.lines == [
        [("a", 0, False), (" ", None, False), ("\U0001f600", 1, False), (" ", None, False), ("b", 2, False)]
    ]


def test_a_text_with_replacements_keeps_what_stands_around() -> None:
    encoding = tiny("bert").encode("the  film, was bad", "it is good")
    units = PageUnits(encoding, "word")
    texts, spans = units.replaced({1: "movie star", 4: "", 7: "great"})
    assert texts == ["the  movie star, was ", "it is great"]
    assert spans[1] == (5, 15, 0)
    assert spans[4] is None
    assert spans[7] == (6, 11, 1)
    changed = tiny("bert").encode(*texts)
    hidden = changed.tokens_at([(5, 15, 0)])
    assert "".join(changed.tokens[token].removeprefix("##") for token in hidden) == "moviestar"


@pytest.mark.parametrize(
    ("family", "task", "target"),
    [
        ("t5", "seq2seq", None),
        ("bart", "seq2seq", "it was good"),
        ("gpt2", "causal_lm", "but dull"),
        ("gpt2", "causal_lm", None),
    ],
)
def test_a_whole_output_is_explained_as_by_the_model(family: str, task: str, target: str | None) -> None:
    """The page explains what `Model.explain` does: all tokens of an output, not its first."""
    model = Model(make_model(family, task=task))
    question: dict[str, Any] = {"text": "the film was not bad"} | ({"target": target} if target else {})
    with serving(make_model(family, task=task)) as running, Client(running) as asking:
        read = asking.ask("read", **question)
        lines = asking.stream("explain", **question, methods=["saliency", "occlusion"])
        hidden = asking.ask("hide", **question, hidden=[1])
        replaced = asking.ask("hide", **question, replaced={1: "plot"})
    for line in lines:
        if "row" not in line:
            assert "failed" not in line
            continue
        expected = model.explain(question["text"], line["row"]["method"], target, "word")
        assert read["target"] == line["row"]["target"] == expected.target
        assert read["probability"] == pytest.approx(expected.probability, rel=1e-4)
        real = [score for score, part in zip(expected.scores, expected.segment, strict=True) if part >= 0]
        assert line["row"]["scores"] == pytest.approx(real, rel=1e-3, abs=1e-5)
    assert hidden["whole"] == pytest.approx(read["probability"], rel=1e-4)
    if target is None:
        return
    for answer, text in ((hidden, "the was not bad"), (replaced, "the plot was not bad")):
        expected = model.explain(text, "saliency", target)
        assert answer["probability"] == pytest.approx(expected.probability, rel=1e-3)
