"""A model's attention projected at inference: the numbers rewritten slowly, resumable, and clear about mistakes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch
from scipy.stats import kendalltau
from tiny_models import make_model, tiny

from wherefrom import Model
from wherefrom.case.case import make_cases
from wherefrom.errors import BadFile, BadOption
from wherefrom.model.hiding import fill_token
from wherefrom_studies.sparse.inference import examine, project_at_inference, read_texts
from wherefrom_studies.sparse.projected_attention import projected
from wherefrom_studies.sparse.projections import Projection

ROWS = [("a good film, not dull", 1), ("the plot was bad, very bad", 0), ("fine acting", 1)]


def test_one_text_by_hand() -> None:
    model, text = tiny("bert", torch.double), ROWS[0][0]
    with projected(model.network.module, Projection("sparsemax")):
        case = next(make_cases(model, [model.encode(text)], [None]))[0]
        found = examine(case)
        ids = torch.tensor([case.encoding.input_ids])
        with torch.no_grad():
            whole = model.network.module(input_ids=ids).logits.softmax(-1)[0]
            answer = int(whole.argmax())
            lost = []
            for place in range(1, ids.shape[1] - 1):
                hidden = ids.clone()
                hidden[0, place] = fill_token(model, "mask")
                lost.append(
                    (whole[answer] - model.network.module(input_ids=hidden).logits.softmax(-1)[0, answer]).abs().item()
                )
    looked = case.capture.attention[-1].probs[:, 0]  # [CLS] of the last layer, by head
    logarithms = torch.where(looked > 0, looked, 1.0).log()
    assert found["entropy"] == pytest.approx(
        (-(looked * logarithms).sum(-1) / torch.tensor(float(ids.shape[1])).log()).mean().item(), abs=2e-5
    )
    assert found["zeros"] == pytest.approx((looked == 0).double().mean().item(), abs=2e-5)
    assert found["on special tokens"] == pytest.approx((looked[:, 0] + looked[:, -1]).mean().item(), abs=2e-5)
    wanted = kendalltau(looked.mean(0)[1:-1].numpy(), lost).statistic
    assert found["raw attention, D(x)"] == pytest.approx(wanted, abs=2e-5)


def test_what_is_kept_is_not_asked_again(tmp_path: Path) -> None:
    model, started = make_model("bert", labels=2), list[str]()

    def note(what: str) -> AbstractContextManager[None]:
        started.append(what)
        return nullcontext()

    projections = ("softmax", "sparsemax")
    first = project_at_inference(Model(model), ROWS, tmp_path, projections=projections, watch=note)
    assert len(started) == 2
    second = project_at_inference(Model(model), ROWS, tmp_path, projections=projections, watch=note)
    assert len(started) == 2
    assert second["projections"] == first["projections"]
    with torch.no_grad():
        next(model.network.module.parameters()).mul_(1.5)  # another model under the same name
    project_at_inference(Model(model), ROWS, tmp_path, projections=projections, watch=note)
    assert len(started) == 4


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"There is no .*sst2_dev\.jsonl"):
        read_texts(tmp_path / "sst2_dev.jsonl", None)
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a", "label": 0}\n{"text": "b"}\n', encoding="utf-8")
    with pytest.raises(BadFile, match="line 2"):
        read_texts(path, None)
    path.write_text("", encoding="utf-8")
    with pytest.raises(BadFile, match="no texts"):
        read_texts(path, None)
    with pytest.raises(BadOption, match="label 7"):
        project_at_inference(Model(tiny("bert")), [("a film", 7)], tmp_path)


def test_some_of_the_texts_are_spread_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(f'{{"text": "{i}", "label": 0}}\n' for i in range(10)), encoding="utf-8")
    assert [text for text, _ in read_texts(path, 5)] == ["0", "2", "4", "6", "8"]
    assert len(read_texts(path, 50)) == 10
