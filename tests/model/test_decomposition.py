from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from lively import Centred, Uncentred, case_of, lively, lively_case, spelled_out
from tiny_models import FAMILIES
from tolerances import TOLERANCE, assert_close, tolerance_of
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from wherefrom.case.case import make_cases
from wherefrom.errors import NotSeen
from wherefrom.model import decomposition
from wherefrom.model.decomposition import BlockContributions, Distance, Norm, _matrix

DISTANCES: dict[Distance, int] = {"l1": 1, "l2": 2}


def explicit(parts: BlockContributions) -> Tensor:
    """Every T_i(x_j), from the algebra. (query, key, hidden)"""
    own = torch.eye(len(parts.output)).to(parts.output)[:, :, None] * parts.residual[:, None]
    return torch.einsum("hij,jhd->ijd", parts.probs * parts.scale, parts.vectors()) + own


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("second_norm", [False, True])
def test_parts_are_those_of_the_paper(family: str, second_norm: bool) -> None:
    case = lively_case(family)
    for parts, (wanted, y) in zip(case.parts(second_norm=second_norm), spelled_out(case, second_norm), strict=True):
        rows = parts.everywhere
        torch.testing.assert_close(explicit(parts), wanted, rtol=0, atol=1e-9)
        torch.testing.assert_close(parts.output, y, rtol=0, atol=1e-9)
        torch.testing.assert_close(parts.lengths(rows), wanted.norm(dim=-1), rtol=0, atol=1e-9)
        for name, order in DISTANCES.items():
            near = (y.norm(order, -1)[:, None] - (y[:, None] - wanted).norm(order, -1)).clamp(min=0)
            torch.testing.assert_close(parts.proximity(rows, name), near, rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_parts_sum_back_to_what_the_model_computed(family: str) -> None:
    assert case_of(lively(family, torch.float32)).parts_error() < TOLERANCE[torch.float32]
    case = case_of(lively(family))
    assert case.parts_error() < tolerance_of(case.model)
    layers = case.parts()
    layers[0] = replace(layers[0], rest=layers[0].rest + 0.1)  # misjudge a bias a little
    assert case.parts_error() > 10 * tolerance_of(case.model)


def test_a_second_text_in_the_batch_changes_nothing() -> None:
    model = lively("bert")
    encodings = [
        model.encode(text) for text in ("A fine film.", "The plot was never good and the acting is dull, very dull.")
    ]
    (together,) = make_cases(model, encodings, [None, None])
    alone = case_of(model, "A fine film.")
    for one, other in zip(alone.parts(), together[0].parts(), strict=True):
        assert_close(explicit(other), explicit(one), tolerance=tolerance_of(model))
    assert together[1].parts_error() < tolerance_of(model)


@pytest.mark.parametrize("rows", [[0], [4, 1], [0, 1, 2, 3, 4, 5, 6, 7]])
def test_some_rows_are_those_rows_of_all(rows: list[int]) -> None:
    parts, some = case_of(lively("bert")).parts()[1], torch.tensor(rows)
    torch.testing.assert_close(parts.lengths(some), parts.lengths(parts.everywhere)[some])
    for distance in DISTANCES:
        torch.testing.assert_close(parts.proximity(some, distance), parts.proximity(parts.everywhere, distance)[some])


@pytest.mark.parametrize("buffer", [1, 100, 700])
def test_the_size_of_the_buffer_changes_nothing(buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = case_of(lively("bert")).parts()[0]
    wanted = parts.proximity(parts.everywhere, "l1")
    monkeypatch.setattr(decomposition, "BUFFER", buffer)
    torch.testing.assert_close(parts.proximity(parts.everywhere, "l1"), wanted)


@pytest.mark.parametrize(("family", "share"), [("gpt2", 0.6), ("bert", 1.0)])
def test_what_a_mask_hides_is_not_computed(family: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a causal model a token is brought to those behind it alone."""
    parts = case_of(lively(family), "film " * 30).parts()[0]
    monkeypatch.setattr(decomposition, "BUFFER", 2 * parts.output.numel())  # two tokens at a time
    rows, made, true_product = parts.everywhere, 0, torch.baddbmm
    for distances in (parts.proximity(rows, "l1"), parts.proximity(rows[-3:], "l1")):
        whole = parts.output[-len(distances) :]
        missing = (whole[:, None] - explicit(parts)[-len(distances) :]).abs().sum(-1)
        near = (whole.abs().sum(-1, keepdim=True) - missing).clamp(min=0)
        torch.testing.assert_close(distances, near, rtol=0, atol=1e-9)

    def product(*args: Tensor, **options: Any) -> Tensor:
        nonlocal made
        made += options["out"].numel()
        return true_product(*args, **options)

    monkeypatch.setattr(torch, "baddbmm", product)
    parts.proximity(rows, "l1")
    assert share - 0.1 <= made / (len(rows) * parts.output.numel()) <= share


class Largest(TorchDispatchMode):
    """The largest tensor that comes into being."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor):
            self.numbers = max(self.numbers, out.untyped_storage().nbytes() // out.element_size())
        return out


@pytest.mark.parametrize("distance", ["l1", "l2", None])
def test_no_tensor_of_tokens_by_tokens_by_hidden(distance: Distance | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decomposition, "BUFFER", 2**12)
    case = case_of(lively("bert"), "film " * 60)
    parts = case.parts()[0]
    tokens, hidden = parts.output.shape
    with Largest() as seen:  # type: ignore[no-untyped-call]
        parts.proximity(parts.everywhere, distance) if distance else parts.lengths(parts.everywhere)
    assert tokens * tokens < seen.numbers <= tokens * tokens * len(parts.probs) < tokens * tokens * hidden


def test_by_hand() -> None:
    """Two tokens, one head, two dimensions; token 0 holds (2, 0) itself and is brought half of each value."""
    parts = BlockContributions(
        probs=torch.tensor([[[0.5, 0.5], [0.0, 1.0]]]),
        scale=torch.tensor([[1.0], [2.0]]),
        value=torch.tensor([[[2.0, 0.0], [0.0, 4.0]]]),
        project=torch.eye(2)[None],
        residual=torch.tensor([[2.0, 0.0], [0.0, -3.0]]),
        output=torch.tensor([[4.0, 2.0], [1.0, 5.0]]),
        rest=torch.tensor([[1.0, 0.0], [1.0, 0.0]]),
    )
    # T_00 = (1, 0) + (2, 0), T_01 = (0, 2); T_10 = 0, T_11 = 2 (0, 4) + (0, -3)
    rows = parts.everywhere
    torch.testing.assert_close(parts.lengths(rows), torch.tensor([[3.0, 2.0], [0.0, 5.0]]))
    torch.testing.assert_close(parts.proximity(rows, "l1"), torch.tensor([[3.0, 2.0], [0.0, 5.0]]))
    length, other = 20**0.5, 26**0.5
    torch.testing.assert_close(
        parts.proximity(rows, "l2"), torch.tensor([[length - 5**0.5, length - 4.0], [0.0, other - 1.0]])
    )
    torch.testing.assert_close(parts.sum(), torch.tensor([[4.0, 2.0], [1.0, 5.0]]))


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("kind", [Centred, Uncentred])
def test_a_norm_is_taken_apart_by_asking_it(kind: type[Centred], size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    gamma, beta, u = (torch.randn(*shape, size, generator=generator, dtype=torch.float64) for shape in ((), (), (5,)))
    module = kind(gamma, beta, 0.1)  # so large an epsilon that forgetting it would show
    norm = Norm.of(module, u)
    assert norm.centres is (kind is Centred)
    torch.testing.assert_close(norm.beta, beta)
    torch.testing.assert_close(norm.scale(u, module(u)) * norm.linear(u), module.linear(u) / module.sigma(u))


def test_a_norm_that_is_none_is_refused() -> None:
    u = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    norm = Norm.of(nn.Tanh(), u)
    with pytest.raises(NotSeen, match="not a layer norm"):
        norm.scale(3 * u, (3 * u).tanh())


class Odd(nn.Module):
    """A linear layer of a kind that nobody knows, as quantised ones and those with adapters are."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.in_features = inner, inner.in_features

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        return out


def test_an_unknown_linear_layer_is_asked_for_its_matrix() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    with torch.no_grad():
        for known, asked in zip(_matrix(layer), _matrix(Odd(layer)), strict=True):
            torch.testing.assert_close(asked, known)


def test_half_precision_is_told_apart_in_single() -> None:
    halved = case_of(lively("bert", torch.float16))
    assert halved.parts()[0].output.dtype is torch.float32
    assert halved.parts_error() < 5e-3


def test_decomposition_keeps_no_scores_and_no_graph_and_a_capture_after_it_is_whole() -> None:
    case = case_of(lively("bert"))
    case.parts()
    assert all(
        layer.scores.numel() == 0 and not layer.probs.requires_grad
        for layer in case.passes.forward("attention").recording.attention
    )
    torch.testing.assert_close(case.capture.attention[0].scores.softmax(-1), case.capture.attention[0].probs)
    assert case.gradients.attention[0].probs.abs().max() > 0
