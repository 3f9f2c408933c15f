from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import pytest
import torch
from tiny_models import make_model, make_network, tiny, tokenizer
from transformers import AutoModel, pipeline

import wherefrom
from wherefrom.errors import EmptyText, ModelFailed, ModelIsTraining, TextWasCut, UnknownName, WrongModel
from wherefrom.model.loading import quiet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with quiet():
        make_network("bert").save_pretrained(tmp_path)
        tokenizer().save_pretrained(tmp_path)
    return tmp_path


def test_every_source_gives_the_same_model(folder: Path) -> None:
    network = make_network("bert")
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        piped = pipeline("text-classification", model=network, tokenizer=tokenizer(), device="cpu")
    scores = [
        wherefrom.load(source).explain("a fine film").scores
        for source in (str(folder), folder, (network, tokenizer()), piped)
    ]
    # Weights lie elsewhere in memory when they are loaded, so that sums in single precision may be added up in another
    # order.
    assert all(one == pytest.approx(scores[0], abs=1e-5 * max(map(abs, scores[0]))) for one in scores)


def test_precision_and_device_are_taken_for_files_and_refused_for_what_is_handed_over(folder: Path) -> None:
    assert wherefrom.load(folder, dtype="float64", device="cpu").text_model.network.module.dtype == torch.float64
    with pytest.raises(WrongModel, match="changes nothing"):
        wherefrom.load((make_network("bert"), tokenizer()), dtype=torch.float64)
    with pytest.raises(UnknownName, match="Did you mean 'float32'"):
        wherefrom.load(folder, dtype="float23")


def test_a_model_without_a_head_is_refused(tmp_path: Path, folder: Path) -> None:
    bare = AutoModel.from_config(make_network("bert").config).eval()
    with pytest.raises(WrongModel, match="has no head for classification"):
        wherefrom.load((bare, tokenizer()))
    with quiet():
        bare.save_pretrained(tmp_path)
    with pytest.raises(WrongModel, match="has no head for classification"):
        wherefrom.load(tmp_path)


def test_missing_weights_are_not_made_up(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["classifier.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WrongModel, match=r"lack weights.*classifier.weight"):
        wherefrom.load(folder)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/no/such/folder", "not a folder"),
        ("./nowhere", "not a folder"),
        ("no-such-org/no-such-model", "could not be loaded"),
        (42, "takes 'embedded'"),
        (("model", "tokenizer"), "takes 'embedded'"),
    ],
)
def test_what_is_no_model_is_refused(source: object, message: str) -> None:
    with pytest.raises(WrongModel, match=message):
        wherefrom.load(source)


def test_a_folder_that_holds_no_model_or_a_damaged_one(tmp_path: Path, folder: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(WrongModel, match=r"no config\.json"):
        wherefrom.load(empty)
    (folder / "config.json").write_text("{ not json")
    with pytest.raises(WrongModel, match="could not be loaded"):
        wherefrom.load(folder)


def test_damaged_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(WrongModel, match="could not be loaded"):
        wherefrom.load(folder)


def test_unknown_task() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'classification'"):
        wherefrom.load((make_network("bert"), tokenizer()), task="clasification")


def test_training_mode_is_refused_at_any_time() -> None:
    network = make_network("bert")
    model = wherefrom.load((network, tokenizer()))
    network.train()
    with pytest.raises(ModelIsTraining, match=r"model\.eval\(\)"):
        model.explain("a film")
    with pytest.raises(ModelIsTraining):
        wherefrom.load((network, tokenizer()))
    assert network.training


def test_a_model_that_answers_nan() -> None:
    model = make_model("bert")
    with torch.no_grad():
        model.network.module.classifier.bias.fill_(float("nan"))  # type: ignore[union-attr, operator]
    with pytest.raises(ModelFailed, match="NaN"):
        wherefrom.Model(model).explain("a film")


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u200b" * 0 + " ", ("a film", ""), ("", "a film")])
def test_empty_text(text: str | tuple[str, str]) -> None:
    with pytest.raises(EmptyText):
        wherefrom.Model(tiny("bert")).explain(text)


def test_text_of_nothing_but_control_characters() -> None:
    with pytest.raises(EmptyText, match="control characters"):
        wherefrom.Model(tiny("bert")).explain("\x00\x01\x02")


@pytest.mark.parametrize(("family", "limit"), [("bert", 64), ("roberta", 62), ("gpt2", 64)])
def test_text_over_the_limit_is_cut_and_says_so(family: str, limit: int) -> None:
    model = wherefrom.Model(tiny(family))
    with pytest.warns(TextWasCut, match=rf"the model reads {limit}: the last \d+ were cut"):
        explanation = model.explain("film " * 100)
    extra = 0 if family == "gpt2" else 2
    assert len(explanation.tokens) == limit
    assert explanation.cut == 100 + extra - limit


def test_a_model_without_a_limit_reads_everything() -> None:
    assert wherefrom.Model(tiny("t5")).explain("film " * 200, "saliency").cut == 0


@pytest.mark.parametrize(
    "text",
    [
        "I 💚 it 👩‍👩‍👧",
        "نص عربي جميل",
        "עברית",
        "ctrl \x07\x1b[31m bell",
        "é\u0301 combining",
        "x" * 10_000,
        "\ufeffbom",
        "a\u2028b",
        "<script>alert(1)</script>",
        "[CLS] [MASK] typed",
    ],
)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_odd_text(text: str, family: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWasCut)
        explanation = wherefrom.Model(tiny(family)).explain(text)
    assert len(explanation.tokens) == len(explanation.scores)
    assert all(0 <= start <= end <= len(text) for start, end in explanation.offsets)
    assert json.loads(explanation.to_json())["text"] == text
    explanation.words()
    explanation.sentences()
    explanation.to_html()


def test_typed_special_tokens_are_ordinary_text() -> None:
    explanation = wherefrom.Model(tiny("bert")).explain("a [MASK] film")
    assert explanation.tokens == ("[CLS]", "a", "[MASK]", "film", "[SEP]")
    assert explanation.special == (True, False, False, False, True)


@pytest.mark.parametrize("text", [3, None, ("a", "b", "c"), ["a", 3], ("a", 3)])
def test_what_is_no_text(text: object) -> None:
    with pytest.raises(wherefrom.WherefromError, match="A text is a str"):
        wherefrom.Model(tiny("bert")).explain(text)  # type: ignore[call-overload]


def test_an_empty_list_gives_an_empty_list() -> None:
    nothing: list[str] = []
    assert wherefrom.Model(tiny("bert")).explain(nothing) == []


def test_slow_tokenizers_are_refused() -> None:
    slow = copy.copy(tokenizer())
    type(slow).is_fast  # noqa: B018  # it is a property of the class, so a stand-in class is needed
    stand_in = type("Slow", (type(slow),), {"is_fast": False})
    slow.__class__ = stand_in
    with pytest.raises(WrongModel, match="fast tokenizer"):
        wherefrom.load((make_network("bert"), slow))
