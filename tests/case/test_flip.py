"""The smallest set of words whose hiding changes the decision: by hand, and against trying every set."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tiny_models import make_model
from toys import additive_model
from typer.testing import CliRunner

import wherefrom
from wherefrom.api import Model
from wherefrom.case.flip import EXACT
from wherefrom.cli.main import app
from wherefrom.core.flip import Flip, HiddenUnit
from wherefrom.errors import BadFile, BadOption, EmptyText, MissingToken, UnknownName
from wherefrom.model.network import padded_inputs
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.report.flip import print_flip

SHORT = "the film was not bad , but dull !"
LONG = "the film was not bad , but dull ! and the plot is never good . it is a very fine movie"


def decides(model: TextModel, ids: list[int]) -> int:
    with torch.no_grad():
        return int(model.run(padded_inputs(model.network, [ids], [None]), PassCount())[0].argmax())


def by_brute_force(model: TextModel, text: str) -> tuple[int, set[tuple[str, ...]]]:
    """The least number of tokens whose deletion changes the decision, and all sets of so many; every word is a
    token.
    """
    encoding = model.encode(text)
    ids, before = list(encoding.input_ids), decides(model, list(encoding.input_ids))
    real = [place for place, part in enumerate(encoding.segment) if part >= 0]
    for size in range(1, len(real)):
        found = {
            tuple(encoding.tokens[place] for place in hidden)
            for hidden in combinations(real, size)
            if decides(model, [one for place, one in enumerate(ids) if place not in hidden]) != before
        }
        if found:
            return size, found
    return 0, set()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_short_texts_against_every_set(family: str, seed: int) -> None:
    model = make_model(family, seed=seed, dtype=torch.float64)
    text = "the film was not bad but dull"
    found = Model(model).flip(text)
    size, sets = by_brute_force(model, text)
    assert found.smallest
    assert len(found.hidden) == size
    assert not size or tuple(unit.text for unit in found.hidden) in sets
    assert [text[unit.start : unit.end] for unit in found.hidden] == [unit.text for unit in found.hidden]


@pytest.mark.parametrize("method", ["occlusion", "saliency"])
@pytest.mark.parametrize("seed", [0, 1])
def test_long_texts_need_every_word_that_is_hidden(seed: int, method: str) -> None:
    model = make_model("bert", seed=seed, dtype=torch.float64)
    found = Model(model).flip(LONG, method=method)
    encoding = model.encode(LONG)
    ids, before = list(encoding.input_ids), decides(model, list(encoding.input_ids))
    starts = {unit.start for unit in found.hidden}
    places = [i for i, (start, end) in enumerate(encoding.offsets) if end > start and start in starts]
    assert found.units > EXACT
    assert len(places) == len(found.hidden) > 0
    without = [one for i, one in enumerate(ids) if i not in places]
    assert decides(model, without) != before
    labels = model.labels
    assert (found.decision, found.becomes) == (labels[before], labels[decides(model, without)])
    for put_back in places if len(places) > 1 else ():
        assert decides(model, [one for i, one in enumerate(ids) if i == put_back or i not in places]) == before
    if found.smallest:
        assert len(places) == by_brute_force_up_to(model, LONG, len(places))


def by_brute_force_up_to(model: TextModel, text: str, size: int) -> int:
    """The least size, where it is at most this one."""
    encoding = model.encode(text)
    ids, before = list(encoding.input_ids), decides(model, list(encoding.input_ids))
    real = [place for place, part in enumerate(encoding.segment) if part >= 0]
    for least in range(1, size + 1):
        for hidden in combinations(real, least):
            if decides(model, [one for place, one in enumerate(ids) if place not in hidden]) != before:
                return least
    return 0


WEIGHTS = {"good": 3.0, "great": 2.0, "fine": 1.0, "bad": -2.5, "dull": -1.0}


def test_by_hand() -> None:
    """good great fine bad dull: 2.5 for the second class. Without good it is -0.5; nothing else alone is enough."""
    model = Model(additive_model(**WEIGHTS))
    found = model.flip("good great fine bad dull")
    assert [unit.text for unit in found.hidden] == ["good"]
    assert (found.decision, found.becomes, found.smallest) == ("LABEL_1", "LABEL_0", True)
    assert found.probability == pytest.approx(torch.tensor(2.5).sigmoid().item(), rel=1e-6)
    assert found.remaining == pytest.approx(torch.tensor(-0.5).sigmoid().item(), rel=1e-6)
    assert found.becomes_probability == pytest.approx(torch.tensor(0.5).sigmoid().item(), rel=1e-6)
    assert found.left() == "great fine bad dull"
    assert found.rows == 1 + 5  # the whole text, and each word


def test_by_hand_in_a_long_text() -> None:
    """Twice good (6), thrice great (6), once dull: 11, so that four words have to go, and any four of these five do
    but the three great and one good. The search by scores goes by the largest.
    """
    text = "good a film great a film good a film great a film great a dull plot"
    found = Model(additive_model(**WEIGHTS)).flip(text)
    assert sorted(unit.text for unit in found.hidden) == ["good", "good", "great", "great", "great"]
    assert (found.becomes, found.smallest, found.method) == ("LABEL_0", False, "occlusion")
    whole = Model(additive_model(**WEIGHTS)).flip(text, fill="mask")
    assert whole.hidden == found.hidden  # a mask adds nothing either


def test_what_is_not_needed_is_put_back() -> None:
    """Scores that begin with words that do not matter: `random` orders them anyhow, and what is left is minimal."""
    text = "a film a plot a movie a film a plot good a film great a film dull"
    model = Model(additive_model(good=3.0, great=2.0, dull=-4.0))
    for seed in range(4):
        found = model.flip(text, method="random", seed=seed)
        assert [unit.text for unit in found.hidden] in (["good"], ["great"])
        assert [unit.text for unit in found.hidden] == ["good"]  # which leaves less of the decision


def test_nothing_may_change_it() -> None:
    short = Model(additive_model(good=3.0)).flip("good good")
    assert (short.found, short.becomes, short.smallest) == (False, None, True)
    long = Model(additive_model(good=3.0)).flip(" ".join(["good"] * 15))
    assert (long.found, long.smallest) == (False, False)


def test_toward_one_label() -> None:
    model = Model(make_model("bert", dtype=torch.float64))
    before = model.explain(SHORT, "saliency").prediction
    others = [label for label in model.labels if label != before]
    free = model.flip(SHORT)
    found = {label: model.flip(SHORT, to=label) for label in others}
    for label, one in found.items():
        assert one.becomes in (label, None)
    sizes = [len(one.hidden) for one in found.values() if one.found]
    assert min(sizes) == len(free.hidden)
    with pytest.raises(BadOption, match=r"decides .* already"):
        model.flip(SHORT, to=before)


def test_labels_that_are_decided_on_their_own() -> None:
    network = make_model("bert", dtype=torch.float64)
    network.network.module.config.problem_type = "multi_label_classification"
    model = Model(TextModel.of(network.network.module, network.reading.tokenizer, task=network.task))
    for label in model.labels:
        before = model.explain(SHORT, "saliency", target=label).probability
        found = model.flip(SHORT, to=label)
        assert before is not None
        assert found.becomes in (None, f"not {label}" if before >= 0.5 else label)


def test_other_tasks_spans_and_pairs() -> None:
    masked = Model(make_model("bert", task="masked_lm", dtype=torch.float64)).flip("the film was [MASK] bad , but dull")
    assert masked.becomes != masked.decision
    assert "[MASK]" not in [unit.text for unit in masked.hidden]
    question: Any = ("is it good?", "the film was not bad, but dull!")
    answer = Model(make_model("bert", task="question_answering", dtype=torch.float64)).flip(question)
    assert answer.becomes != answer.decision
    assert {unit.segment for unit in answer.hidden} <= {0, 1}
    spans = Model(additive_model(**WEIGHTS)).flip("good great fine bad dull", units=[(0, 10)])
    assert [unit.text for unit in spans.hidden] == ["good great"]
    assert spans.level == "span"


def test_an_entity_becomes_another_or_is_refused() -> None:
    """Toward a tag of the same words; of other words there is nothing that could become it."""
    model = Model(make_model("bert", task="token_classification", dtype=torch.float64))
    text = "the film was bad"
    decided = model.flip(text)
    word, _, kind = decided.decision.partition(": ")
    others = [label for label in model.labels if label != kind]
    found = [model.flip(text, to=f"{word}: {label}") for label in others]
    assert {one.becomes for one in found} <= {None, *(f"{word}: {label}" for label in others)}
    assert (decided.becomes is None) == all(one.becomes is None for one in found)
    other = next(one for one in text.split() if one != word)
    with pytest.raises(BadOption, match="about other words than the decision"):
        model.flip(text, to=f"{other}: {kind}")


def test_what_cannot_be_asked() -> None:
    model = Model(additive_model(good=1.0))
    with pytest.raises(EmptyText, match="one word"):
        model.flip("good")
    with pytest.raises(UnknownName, match="fill"):
        model.flip("good film", fill="blank")
    with pytest.raises(MissingToken, match="no mask token"):
        Model(make_model("gpt2")).flip("good film", fill="mask")
    with pytest.raises(BadOption, match="one rather than another"):
        model.flip("good film", to=(0, 1))


FLIP = Flip(
    text="good <b>film</b>",
    decision="A",
    probability=0.9,
    hidden=(HiddenUnit("good", 0, 4, 0),),
    becomes="B",
    becomes_probability=0.75,
    remaining=0.25,
    smallest=True,
    units=3,
    rows=7,
    pair="well",
)


def shown(flip: Flip) -> str:
    out = io.StringIO()
    print_flip(flip, console=Console(file=out, width=100, no_color=True))
    return out.getvalue()


def test_views_say_what_was_found() -> None:
    told = shown(FLIP)
    assert "A (90.0%) becomes B (75.0%) without 1 of 3 words" in told
    assert "[-good-] <b>film</b>" in told
    assert "No smaller set does" in told
    assert "7 rows asked" in told
    for html in (FLIP.to_html(), FLIP._repr_html_()):
        assert "<del>good</del> &lt;b&gt;film&lt;/b&gt;" in html
        assert "becomes B" in html
    assert "might be smaller" in shown(replace(FLIP, smallest=False, method="occlusion"))
    none = replace(FLIP, hidden=(), becomes=None, becomes_probability=None, remaining=None)
    assert "no set of words was found" in shown(none)
    assert "none changes the decision" in none.to_html()


def test_saved_and_loaded(tmp_path: Path) -> None:
    FLIP.save(tmp_path / "flip.json")
    assert Flip.load(tmp_path / "flip.json") == FLIP
    assert wherefrom.Flip is Flip
    for content in ("", "{}", '{"wherefrom_flip": 1}'):
        (tmp_path / "bad.json").write_text(content, encoding="utf-8")
        with pytest.raises(BadFile, match=r"bad\.json"):
            Flip.load(tmp_path / "bad.json")


def test_the_command(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = "A gorgeous, witty film, but the plot drags."
    done = CliRunner().invoke(app, ["flip", text, "--json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert '"wherefrom_flip": 1' in done.output
    assert "<del>" in page.read_text(encoding="utf-8")
    assert "becomes" in CliRunner().invoke(app, ["flip", text]).output
