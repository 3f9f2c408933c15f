"""Token classification: entities, their targets and their explanations, against plain calls of transformers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import CONFIGS, make_network, tokenizer
from torch import Tensor

import wherefrom
from wherefrom.api import Model
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.core.encoding import Encoding
from wherefrom.core.target import WordTag
from wherefrom.errors import BadOption, UnknownName, WherefromError, WrongModel
from wherefrom.model.hiding import fill_token
from wherefrom.model.tasks import find_task
from wherefrom.model.tasks.token_classification import Tagger
from wherefrom.model.text_model import TextModel

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TEXT = "the film was bad , never a very good plot and an xyz movie"
FAMILIES = ["bert", "gpt2"]


def named(tags: list[str]) -> dict[str, Any]:
    return {"labels": len(tags), "id2label": dict(enumerate(tags)), "label2id": {tag: i for i, tag in enumerate(tags)}}


def tagging(family: str, tags: list[str] = TAGS) -> Model:
    _, pad, ends = CONFIGS[family]
    network = make_network(family, task="token_classification", dtype=torch.float64, **named(tags))
    task = find_task("token_classification")
    return Model(TextModel.of(network, tokenizer(pad, ends), name="tiny", task=task))


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    return tagging(request.param)


def plain_logits(model: Model, ids: list[int]) -> Tensor:
    """(token, tag), straight from transformers."""
    with torch.no_grad():
        found: Tensor = model.text_model.network.module(input_ids=torch.tensor([ids])).logits[0]
    return found


def places_of(encoding: Encoding, target: str) -> list[int]:
    """The positions of the first tokens of an entity's words, by hand."""
    written = target.rpartition(":")[0].partition("#")[0]
    start = f" {encoding.text} ".index(f" {written} ")
    inside = [i for i, (a, b) in enumerate(encoding.offsets) if start <= a < b <= start + len(written)]
    return [i for i in inside if not encoding.tokens[i].startswith("##")]


def by_hand(tags: list[str], words: list[str]) -> list[str]:
    """Entities of tagged words, as a slow reader of IOB tags finds them."""
    found: list[tuple[str, list[str]]] = []
    before = "O"
    for word, tag in zip(words, tags, strict=True):
        if tag != "O":
            if tag.startswith("I-") and before != "O" and before[2:] == tag[2:]:
                found[-1][1].append(word)
            else:
                found.append((tag[2:], [word]))
        before = tag
    return [f"{' '.join(words)}: {kind}" for kind, words in found]


def test_entities_are_those_of_the_tags(model: Model) -> None:
    encoding = model.text_model.encode(TEXT)
    logits = plain_logits(model, list(encoding.input_ids))
    firsts = [i for i, t in enumerate(encoding.tokens) if not t.startswith(("##", "["))]
    words = [TEXT[a:b] for a, b in (encoding.offsets[i] for i in firsts)]
    words[words.index("x")] = "xyz"
    tags = [TAGS[int(logits[place].argmax())] for place in firsts]
    expected = by_hand(tags, words)
    assert len(expected) > 1
    found = model.explain_entities(TEXT, "saliency")
    assert [one.target.partition("#")[0] for one in found] == expected
    assert all(one.prediction == one.target for one in found)
    assert model.predicted(TEXT) == [one.target for one in found]
    for one in found:
        places = places_of(encoding, one.target)
        chances = logits[places].softmax(-1).amax(-1)
        assert one.probability == pytest.approx(chances.prod().item())
        assert one.probabilities == pytest.approx(dict(zip(TAGS, logits[places[0]].softmax(-1).tolist(), strict=True)))
    strongest = max(found, key=lambda one: one.probability or 0)
    alone = model.explain(TEXT, "saliency")
    assert alone.target == strongest.target
    assert alone.scores == pytest.approx(strongest.scores)
    assert f"finds {len(found)} entities" in alone.notes[0]
    assert alone.notes[0].endswith(f"explains {alone.target}.")


def test_gradients_and_hiding_by_hand(model: Model) -> None:
    encoding = model.text_model.encode(TEXT)
    ids, network = list(encoding.input_ids), model.text_model.network.module
    target = "very good plot: LOC"
    places = places_of(encoding, target)
    assert len(places) == 3
    tags = [3 + int(row[3:].argmax()) for row in plain_logits(model, ids)[places]]

    def score(rows: Tensor) -> Tensor:
        return sum(rows[place, tag] for place, tag in zip(places, tags, strict=True))  # type: ignore[return-value]

    words = network.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    (slope,) = torch.autograd.grad(score(network(inputs_embeds=words).logits[0]), words)
    found = model.explain(TEXT, "input_x_gradient", target)
    assert found.scores == pytest.approx((slope * words).sum(-1)[0].tolist())

    fill = model.text_model.hiding.usual_fill()
    hidden = model.explain(TEXT, "occlusion", target)
    hider, whole = fill_token(model.text_model, fill), score(plain_logits(model, ids))
    for place, special in enumerate(encoding.special):
        replaced = [*ids[:place], hider, *ids[place + 1 :]]
        expected = 0.0 if special else (whole - score(plain_logits(model, replaced))).item()
        assert hidden.scores[place] == pytest.approx(expected, abs=1e-9)

    def chance(rows: Tensor) -> float:
        return float(np.prod([rows[p].softmax(-1)[t].item() for p, t in zip(places, tags, strict=True)]))

    real = [place for place, special in enumerate(encoding.special) if not special]
    order = sorted(real, key=lambda place: -hidden.scores[place])
    (grade,) = model.evaluate(hidden, ["comprehensiveness"]).grades[0]
    for drop, percent in zip(grade.details["curve"], (5, 10, 20, 50), strict=True):
        gone = order[: max(1, math.ceil(percent * len(order) / 100))]
        kept = plain_logits(model, [hider if place in gone else token for place, token in enumerate(ids)])
        assert drop == pytest.approx(chance(plain_logits(model, ids)) - chance(kept))
    assert grade.fill == fill


def test_targets_by_name(model: Model) -> None:
    word = model.explain(TEXT, "saliency", "plot")
    kind = word.target.rpartition(": ")[2]
    assert word.target.startswith("plot: ")
    assert word.prediction == word.target
    other = "LOC" if kind == "PER" else "PER"
    asked = model.explain(TEXT, "saliency", f"plot: {other.lower()}")
    assert (asked.target, asked.prediction) == (f"plot: {other}", word.target)
    exact = model.explain(TEXT, "saliency", "plot: B-LOC")
    assert exact.target == "plot: B-LOC"
    assert exact.components[0].index == TAGS.index("B-LOC")
    found = model.explain_entities(TEXT)
    one = found[0].target.rpartition(": ")[2]
    best = max((e for e in found if e.target.endswith(one)), key=lambda e: e.probability or 0)
    assert model.explain(TEXT, "saliency", one).target == best.target


def test_one_rather_than_another(model: Model) -> None:
    encoding = model.text_model.encode(TEXT)
    place = encoding.tokens.index("plot")
    row = plain_logits(model, list(encoding.input_ids))[place]
    likely = max((3, 4), key=lambda tag: float(row[tag]))
    for other in ("O", "plot: O"):
        found = model.explain(TEXT, "saliency", ("plot: LOC", other))
        assert found.target == "plot: LOC rather than O"
        assert found.probability == pytest.approx((row[likely] - row[0]).sigmoid().item())
    with pytest.raises(BadOption, match="different words"):
        model.explain(TEXT, "saliency", ("plot: LOC", "film: O"))
    with pytest.raises(BadOption, match="same tag"):
        model.explain(TEXT, "saliency", ("plot: LOC", "LOC"))


def test_the_second_place_of_the_same_words(model: Model) -> None:
    text = "the film was a film"
    encoding = model.text_model.encode(text)
    places = [i for i, token in enumerate(encoding.tokens) if token == "film"]
    first, second = (model.explain(text, "saliency", name) for name in ("film: LOC", "film#2: LOC"))
    assert [first.components[0].position, second.components[0].position] == places
    assert second.target == "film#2: LOC"
    again = model.evaluate(second, ["comprehensiveness"])
    assert again.explanations[0].target == second.target


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("rome: LOC", "are not in the text"),
        ("plo: LOC", "are not in the text"),
        ("plot: CITY", "CITY"),
        ("nothing", "written as 'Paris: LOC'"),
    ],
)
def test_what_is_no_target(model: Model, target: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        model.explain(TEXT, target=target)
    with pytest.raises(BadOption, match="Paris: LOC"):
        model.explain(TEXT, target=3)
    with pytest.raises(WherefromError, match="one text"):
        model.explain((TEXT, TEXT))


class Written(Tagger):
    """Words with given tags, and no model."""

    def __init__(self, labels: list[str], tags: list[str]) -> None:
        model = tagging("bert", labels)
        text = " ".join(["film", "plot", "movie", "acting", "good", "bad"][: len(tags)])
        encoding = model.text_model.encode(text)
        logits = torch.zeros(len(labels), len(encoding), dtype=torch.float64)
        for place, tag in enumerate(tags, 1):
            logits[labels.index(tag), place] = 5
        super().__init__(model.text_model, logits, encoding)


@pytest.mark.parametrize(
    ("labels", "tags", "expected"),
    [
        (TAGS, ["B-PER", "I-PER", "O", "I-LOC", "I-LOC"], ["film plot: PER", "acting good: LOC"]),  # IOB1 begins with I
        (TAGS, ["B-PER", "B-PER", "I-LOC", "I-PER"], ["film: PER", "plot: PER", "movie: LOC", "acting: PER"]),
        (
            ["O", "B-A", "I-A", "E-A", "S-A"],
            ["B-A", "I-A", "E-A", "I-A", "S-A", "S-A"],
            ["film plot movie: A", "acting: A", "good: A", "bad: A"],
        ),
        (["NOUN", "VERB"], ["NOUN", "NOUN", "VERB"], ["film: NOUN", "plot: NOUN", "movie: VERB"]),
        (TAGS, ["O", "O"], []),
    ],
)
def test_schemes_of_tags(labels: list[str], tags: list[str], expected: list[str]) -> None:
    found: list[list[WordTag]] = Written(labels, tags).entities
    assert [entity[0].label for entity in found] == expected


def test_without_any_entity_the_nearest_is_explained_and_it_is_said() -> None:
    model = tagging("bert")
    weights = dict(model.text_model.network.module.named_parameters())
    with torch.no_grad():
        weights["classifier.bias"][0] += 1000
    assert model.explain_entities(TEXT) == []
    found = model.explain(TEXT, "saliency")
    assert found.prediction == f"{found.target.rpartition(':')[0]}: O"
    assert "finds no entity" in found.notes[0]
    with pytest.raises(BadOption, match="does not decide"):
        model.flip(TEXT)


def test_flip_changes_the_tag_of_the_entity() -> None:
    model = tagging("gpt2")
    encoding = model.text_model.encode(TEXT)
    found = model.flip(TEXT, level="token")
    assert found.hidden
    assert found.fill == model.text_model.hiding.usual_fill()
    places = places_of(encoding, found.decision)
    hidden = {unit.start for unit in found.hidden}
    filler = fill_token(model.text_model, found.fill)
    ids = [filler if encoding.offsets[i][0] in hidden else token for i, token in enumerate(encoding.input_ids)]
    before, after = (plain_logits(model, each)[places].argmax(-1) for each in (list(encoding.input_ids), ids))
    assert [TAGS[tag][2:] for tag in before] != [TAGS[tag][2:] for tag in after]
    assert found.becomes is not None
    assert found.becomes.rpartition(":")[0] == found.decision.rpartition(":")[0]
    assert set(found.becomes.rpartition(": ")[2].split("/")) == {TAGS[tag].rpartition("-")[2] for tag in after}


def test_only_models_for_it_find_entities() -> None:
    with pytest.raises(WrongModel, match="token classification"):
        wherefrom.load("embedded").explain_entities("A fine film.")


def test_views(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    found = model.explain(TEXT, "saliency", check=True)
    found.show()
    shown = capsys.readouterr().out
    assert found.target in shown
    assert "entities" in " ".join(shown.split())
    assert found.target in found.to_html()
    assert model.compare(TEXT, methods=["saliency", "random"]).explanations[0].target == found.target


def test_from_files_and_a_run_over_every_entity(model: Model, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model.text_model.network.module.save_pretrained(folder)
    model.text_model.reading.tokenizer.save_pretrained(folder)
    loaded = wherefrom.load(str(folder))
    assert loaded.text_model.task.name == "token_classification"
    data = tmp_path / "data.jsonl"
    texts = [TEXT, "it was a fine film"]
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    plan = RunPlan(
        str(data), model, methods="saliency,random", metrics="comprehensiveness", target="all-predicted", workers=1
    )
    frame = run(plan, tmp_path / "out").explanations
    for text in texts:
        expected = [one.target for one in loaded.explain_entities(text, "saliency")]
        own = frame[(frame["text"] == text) & (frame["method"] == "saliency")]
        assert own["target"].tolist() == expected


def test_a_pipeline_is_taken(model: Model) -> None:
    inner = model.text_model
    build: Any = transformers.pipeline
    pipe = build("token-classification", model=inner.network.module, tokenizer=inner.reading.tokenizer)
    assert wherefrom.load(pipe).explain(TEXT, "saliency").target == model.explain(TEXT, "saliency").target
