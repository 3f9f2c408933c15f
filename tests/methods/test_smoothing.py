"""SmoothGrad: noise at the word embeddings, by hand and by a slow loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import tiny

from wherefrom.api import Model
from wherefrom.case.case import make_cases
from wherefrom.errors import BadOption
from wherefrom.methods.smoothing import noise_like
from wherefrom.registry import find_method

TEXT = "the film was not bad"
MODEL = Model(tiny("bert", torch.float64))


def test_the_mean_gradient_by_a_loop() -> None:
    encoding = MODEL.text_model.encode(TEXT)
    ((_, case),) = [*next(make_cases(MODEL.text_model, [encoding], [None])).items()]
    drawn = noise_like(case.embeddings, 0.2, 7, seed=3)
    slow = sum(case.gradient_along((case.embeddings + one)[None])[1][0] for one in drawn) / 7
    assert isinstance(slow, torch.Tensor)
    options: dict[str, Any] = {"noise": 0.2, "samples": 7, "seed": 3}
    found = MODEL.explain(TEXT, "saliency", **options)
    assert found.scores == pytest.approx(slow.norm(dim=-1).tolist(), rel=1e-9)
    product = MODEL.explain(TEXT, "input_x_gradient", **options)
    assert product.scores == pytest.approx((case.embeddings * slow).sum(-1).tolist(), rel=1e-9, abs=1e-12)


def test_noise_has_the_deviation_it_says_and_depends_on_no_later_token() -> None:
    embeddings = torch.randn(4, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn = noise_like(embeddings, 0.1, 2000, seed=0)
    spread = embeddings.amax(-1) - embeddings.amin(-1)
    assert (drawn.std((0, 2)) / (0.1 * spread)).tolist() == pytest.approx([1.0] * 4, rel=0.02)
    torch.testing.assert_close(noise_like(embeddings[:2], 0.1, 2000, seed=0), drawn[:, :2])


def test_without_noise_nothing_changes() -> None:
    assert MODEL.explain(TEXT, "saliency", noise=0).scores == MODEL.explain(TEXT, "saliency").scores
    assert find_method("saliency").needs({"noise": 0.1}) == {"embeddings"}


@pytest.mark.parametrize("options", [{"noise": -0.1}, {"noise": 2}, {"noise": 0.1, "samples": 0}])
def test_mistakes(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="SmoothGrad takes noise"):
        MODEL.explain(TEXT, "saliency", **options)
