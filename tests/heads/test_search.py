"""Searching heads: the search by itself where the best mask is known, and on a model two of whose heads are idle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import SIZES, make_model, tokenizer
from transformers import BertConfig, BertForSequenceClassification
from typer.testing import CliRunner

from wherefrom.api import Model
from wherefrom.case.asking import Asker
from wherefrom.cli.main import app
from wherefrom.errors import BadFile, BadOption
from wherefrom.grading.grade import ConfiguredMetric
from wherefrom.heads import SearchedHeads, search_heads
from wherefrom.heads.head_map import ByHead
from wherefrom.heads.search import best_mask, mask_values
from wherefrom.model.text_model import TextModel

# All of one class: what speaks for the other has no positive contributions, so that its relevance is rounding.
TEXTS = [
    "the film was good",
    "a good film",
    "the plot of the film is good",
    "a good film is it",
    "the film is not a good plot",
    "good is the film and the plot",
]


def planted() -> TextModel:
    """A classifier whose first head looks at `good` and `bad`, and tells them apart. The third and the fourth look at
    `film` and add opposite vectors, so that the answer does not depend on them; the second looks at all words alike and
    adds nothing.
    """
    shape: dict[str, Any] = SIZES | {
        "num_hidden_layers": 1,
        "vocab_size": len(tokenizer()),
        "num_labels": 2,
        "pad_token_id": 0,
    }
    network = BertForSequenceClassification(BertConfig(**shape)).eval()
    size, head = SIZES["hidden_size"], SIZES["hidden_size"] // SIZES["num_attention_heads"]
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.ndim > 1 or "bias" in name:  # all but the norms' weights
                parameter.zero_()
        words = network.bert.embeddings.word_embeddings.weight
        words += torch.randn(words.shape, generator=torch.Generator().manual_seed(0)) * 0.3
        words[:, :4] = 0
        for word, places in {"good": (0, 1), "bad": (0, 2), "film": (3, 3)}.items():
            words[tokenizer().convert_tokens_to_ids(word), list(places)] = 3.0
        layer = network.bert.encoder.layer[0]
        looks, out = layer.attention.self, layer.attention.output.dense
        for number, wanted in ((0, 0), (2, 3), (3, 3)):
            looks.query.bias[number * head] = 8.0
            looks.key.weight[number * head, wanted] = 1.0
        looks.value.weight[0, 1], looks.value.weight[0, 2] = 1.0, -1.0  # good for, bad against
        out.weight[5, 0] = 2.0
        for number, sign in ((2, 1.0), (3, -1.0)):
            looks.value.weight[number * head, 3] = 1.0
            out.weight[:, number * head] = sign * 4.0 * torch.linspace(-1, 1, size)
        network.bert.pooler.dense.weight[0, 5] = 1.0
        network.classifier.weight[0, 0], network.classifier.weight[1, 0] = -2.0, 2.0
    return TextModel.of(network, tokenizer(), name="planted")


@pytest.fixture(scope="module")
def model() -> TextModel:
    return planted()


def test_the_model_does_what_it_was_made_for(model: TextModel) -> None:
    asked = Model(model)
    assert asked.explain("the film was good", "random").prediction == "LABEL_1"
    assert asked.explain("the film was bad", "random").prediction == "LABEL_0"
    # With all heads relevance goes to the film, with the first to what decides.
    everything = asked.explain("the film was good", "transatt")
    assert max(zip(everything.scores[1:-1], everything.tokens[1:-1], strict=True))[1] == "film"
    first = asked.explain("the film was good", "mask_lrp", heads=[[1, 0, 0, 0]])
    assert max(zip(first.scores[1:-1], first.tokens[1:-1], strict=True))[1] == "good"


def test_the_right_heads_are_found(model: TextModel, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = search_heads(
        model, [model.encode(text) for text in TEXTS], on_progress=lambda done, most: seen.append((done, most))
    )
    assert found.mask[0][0] == 1.0
    assert found.mask[0][2:] == (0.0, 0.0)
    assert found.score > found.score_of_all + 0.01
    assert (found.texts, len(found.held_out)) == (4, 2)
    assert sum(found.held_out) / 2 > 0.01  # on texts that were not searched on
    assert seen[-1][0] == found.tried <= seen[-1][1]
    path = tmp_path / "heads.json"
    found.save(path)
    assert SearchedHeads.load(path) == found
    by_file = Model(model).explain(TEXTS[0], "mask_lrp", heads=str(path))
    assert by_file.scores == pytest.approx(Model(model).explain(TEXTS[0], "mask_lrp", heads=found.mask).scores)
    with pytest.raises(BadOption, match="only= and counts="):
        Model(model).explain(TEXTS[0], "mask_lrp", heads=str(path), only="positional")
    with pytest.raises(BadOption, match="another model"):
        Model(make_model("bert")).explain(TEXTS[0], "mask_lrp", heads=path)


def test_values_are_those_of_single_comparisons(model: TextModel) -> None:
    masks: list[ByHead] = [((1.0, 1.0, 1.0, 1.0),), ((1.0, 0.0, 0.0, 0.0),)]
    encodings = [model.encode(text) for text in TEXTS[:2]]
    for metric, sign in (("comprehensiveness", 1.0), ("sufficiency", -1.0)):
        found = mask_values(model, encodings, masks, ConfiguredMetric.read(metric), Asker(model))
        for text, row in zip(TEXTS, found, strict=False):
            for mask, value in zip(masks, row, strict=True):
                one = Model(model).explain(text, "mask_lrp", heads=mask)
                graded = Model(model).evaluate(one, metrics=[metric]).grades[0][0]
                assert graded.value is not None
                assert value == pytest.approx(sign * graded.value, abs=1e-9)


def mask(*rows: str) -> ByHead:
    return tuple(tuple(float(one) for one in row) for row in rows)


def test_a_search_finds_the_mask_that_all_heads_agree_on() -> None:
    """The score counts how many heads are as they should be."""
    wanted = mask("0110", "1000")

    def score(masks: Sequence[ByHead]) -> list[float]:
        return [
            sum(a == b for x, y in zip(one, wanted, strict=True) for a, b in zip(x, y, strict=True)) for one in masks
        ]

    assert best_mask((2, 4), score) == (wanted, 8, 3)


def test_heads_that_mislead_alone_are_switched_off() -> None:
    """By itself the second head of the first layer is the best, so that every mask of the ranking holds it."""

    def value(one: ByHead) -> float:
        if one[0][0] and one[1][1]:
            return 0.6 + 0.2 * (1 - one[0][1]) + 0.2 * (1 - one[1][0])
        return 0.5 if one == mask("01", "00") else 0.0

    found, best, of_all = best_mask((2, 2), lambda masks: [value(one) for one in masks])
    assert found == mask("10", "01")
    assert (best, of_all) == pytest.approx((1.0, 0.6))


def test_what_is_chosen_is_never_worse_than_all_heads_and_never_empty() -> None:
    assert best_mask((1, 2), lambda masks: [0.0] * len(masks)) == (mask("11"), 0.0, 0.0)  # nothing gained: all heads
    fewer, _, _ = best_mask((2, 2), lambda masks: [-sum(map(sum, one)) for one in masks], sweeps=3)
    assert sum(map(sum, fewer)) == 1


def test_mistakes_are_said(model: TextModel, tmp_path: Path) -> None:
    encodings = [model.encode(text) for text in TEXTS]
    with pytest.raises(BadOption, match="auprc needs more than the texts"):
        search_heads(model, encodings, metric="auprc")
    with pytest.raises(BadOption, match="at least 3 texts"):
        search_heads(model, encodings[:2])
    found = SearchedHeads("m", "f", "comprehensiveness", mask("10"), 2, 5, 0.5, 0.4)
    replace(found, mask=mask("10", "1")).save(tmp_path / "uneven.json")
    with pytest.raises(BadFile, match="damaged"):
        SearchedHeads.load(tmp_path / "uneven.json")


def test_the_command(model: TextModel, tmp_path: Path) -> None:
    folder, data, out = tmp_path / "model", tmp_path / "texts.jsonl", tmp_path / "heads.json"
    model.network.module.save_pretrained(folder)
    model.reading.tokenizer.save_pretrained(folder)
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    command = ["heads", "--model", str(folder), "--data", str(data), "--search", "comprehensiveness", "--out", str(out)]
    shown = CliRunner().invoke(app, command, catch_exceptions=False).output
    found = SearchedHeads.load(out)
    assert f"{found.heads} of 4 heads are kept" in shown
    assert "On 2 texts that were held out they gain +" in " ".join(shown.split())
    told = json.loads(CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout)
    assert told["mask"] == [list(row) for row in found.mask]
    with pytest.raises(BadOption, match="--plot draws"):
        CliRunner().invoke(app, [*command, "--plot", "x.png"], catch_exceptions=False)
