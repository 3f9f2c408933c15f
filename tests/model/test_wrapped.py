"""Models that come wrapped, quantised or without their weights: they load, or the error names the line to write."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
import torch
from tiny_models import make_network, tokenizer
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

import wherefrom
from wherefrom.doctor import examine
from wherefrom.errors import NotSeen, WrongModel
from wherefrom.registry import auto_methods

TEXT = "the film was not bad"


@pytest.mark.slow
def test_a_compiled_model_is_the_model_inside() -> None:
    network = make_network("bert")
    compiled = torch.compile(network)
    found = wherefrom.load((compiled, tokenizer())).explain(TEXT, "attcat")
    assert found.scores == wherefrom.load((network, tokenizer())).explain(TEXT, "attcat").scores


def test_a_model_compiled_in_place_is_refused_with_the_line_that_takes_it_back() -> None:
    network = make_network("bert")
    network.compile()
    with pytest.raises(WrongModel, match=r"model\._compiled_call_impl = None"):
        wherefrom.load((network, tokenizer()))
    network._compiled_call_impl = None
    assert wherefrom.load((network, tokenizer())).explain(TEXT, "attcat")


def test_a_folder_with_an_adapter_says_what_to_write(tmp_path: Path) -> None:
    said = {"base_model_name_or_path": "acme/base", "task_type": "SEQ_CLS"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(said))
    with pytest.raises(WrongModel) as caught:
        wherefrom.load(tmp_path)
    line = re.search(r"wherefrom\.load\(\(PeftModel.*$", str(caught.value))
    assert line is not None
    compile(line[0], "said", "eval")  # it can be pasted
    assert "AutoModelForSequenceClassification.from_pretrained('acme/base')" in line[0]
    (tmp_path / "adapter_config.json").write_text("[")  # damaged: the line has a place for the name instead
    with pytest.raises(WrongModel, match="'BASE'"):
        wherefrom.load(tmp_path)


def test_weights_that_are_not_in_memory() -> None:
    with torch.device("meta"):
        network = AutoModelForSequenceClassification.from_config(make_network("bert").config).eval()
    with pytest.raises(WrongModel, match=r"not in memory .*from_pretrained\(NAME, device_map=None\)"):
        wherefrom.load((network, tokenizer()))


class FrozenTable(nn.Module):
    """Word embeddings without a parameter, as quantised ones are."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.register_buffer("table", table.get_parameter("weight").detach())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(ids, self.get_buffer("table"))


def test_embeddings_without_weights() -> None:
    network = make_network("bert")
    network.set_input_embeddings(FrozenTable(network.get_input_embeddings()))
    with pytest.raises(WrongModel, match="word embeddings are quantised"):
        wherefrom.load((network, tokenizer()))


@pytest.fixture(scope="module")
def quantised() -> PreTrainedModel:
    """Linear layers in eight bits, by torch itself."""
    if not torch.backends.quantized.supported_engines or "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this build of torch has no quantised layers for this processor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network: PreTrainedModel = torch.ao.quantization.quantize_dynamic(make_network("bert"), {nn.Linear})
    network.eval()
    return network


@pytest.mark.filterwarnings("ignore")  # torch's own quantisation is on its way out, and says so at every step
def test_quantised_layers_cost_the_methods_that_need_them_and_no_other(quantised: PreTrainedModel) -> None:
    model = wherefrom.load((quantised, tokenizer()))
    assert any(model.explain(TEXT, "occlusion", check=True).scores)
    for name in ("saliency", "integrated_gradients", "attn_lrp", "attcat"):
        with pytest.raises(NotSeen, match=f"{name} needs gradients, and none pass the quantised layer"):
            model.explain(TEXT, name)
    automatic = model.explain(TEXT)
    assert automatic.method == "occlusion"
    assert f"because {auto_methods(model.text_model.task.name)[0]} cannot be used" in automatic.notes[-1]
    assert "quantised layer" in automatic.notes[-1]
    tried = examine(model)["methods"]
    assert tried["occlusion"] is None
    for name in ("alti", "norms", "globenc"):  # which read the weights of a layer
        assert tried[name] is None or "quantised" in tried[name]
