"""Projections: on the simplex, the nearest point of it, and their derivatives by hand."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from entmax import entmax15, entmax_bisect
from entmax import sparsemax as peer_sparsemax
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacrev, vmap

from wherefrom.errors import BadOption, MissingPackage, UnknownName
from wherefrom_studies.sparse.projections import Projection, entmax, softmax, sparsegen, sparsemax

INF = math.inf
ALL = ("softmax", "sparsemax", "sparsegen:-3", "sparsegen:0.6", "entmax:1.5", "entmax:1.2", "entmax:1", "entmax:2")
PLAIN = ("softmax", "sparsemax", "sparsegen:-3", "sparsegen:0.6")


def rows(*shape: int, spread: float = 2.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.double) * spread


def test_by_hand() -> None:
    scores = torch.tensor([1.0, 0.5, -2.0], dtype=torch.double)
    torch.testing.assert_close(sparsemax(scores), torch.tensor([0.75, 0.25, 0.0], dtype=torch.double))
    # k = 2: tau = (1.5 - 1 + 0.5) / 2 = 0.5, weights (a - 0.5) / 0.5, so the second falls just out of the support
    torch.testing.assert_close(sparsegen(scores, 0.5), torch.tensor([1.0, 0.0, 0.0], dtype=torch.double))
    # lam = -1: k = 2, tau = (1.5 - 2) / 2 = -0.25, weights (a + 0.25) / 2
    torch.testing.assert_close(sparsegen(scores, -1.0), torch.tensor([0.625, 0.375, 0.0], dtype=torch.double))
    torch.testing.assert_close(softmax(torch.tensor([0.0, math.log(3)])), torch.tensor([0.25, 0.75]))


def assert_optimal(weights: Tensor, scores: Tensor, lam: float) -> None:
    """The conditions of Karush, Kuhn and Tucker for the least ||p - a||^2 - lam ||p||^2 on the simplex.

    Below lam = 1 the problem is strictly convex, so the one point that fulfils them is the minimum, and no solver is
    needed to say so.
    """
    assert bool((weights >= 0).all())
    assert weights.sum().item() == pytest.approx(1, abs=1e-12)
    slope = (1 - lam) * weights - scores  # half the gradient
    multiplier = slope[weights > 0].mean()  # of the sum to one
    room = 1e-12 * float(scores.abs().max())
    assert bool(((slope - multiplier)[weights > 0].abs() <= room).all())  # the same wherever there is weight
    assert bool(((slope - multiplier)[weights == 0] >= -room).all())  # and nowhere else would weight be cheaper


@pytest.mark.parametrize("lam", [-4.0, -0.5, 0.0, 0.7])
def test_is_the_minimum(lam: float) -> None:
    sizes = set()
    for scores in rows(40, 6):
        weights = sparsegen(scores, lam)
        assert_optimal(weights, scores, lam)
        sizes.add(int((weights > 0).sum()))
    assert len(sizes) > 1  # supports of several sizes were among them


def test_what_is_not_the_minimum_fails_the_conditions() -> None:
    scores = torch.tensor([1.0, 0.5, -2.0], dtype=torch.double)
    assert_optimal(torch.tensor([0.75, 0.25, 0.0], dtype=torch.double), scores, 0.0)
    for wrong in ([0.74, 0.26, 0.0], [1.0, 0.0, 0.0], [0.75, 0.25, 0.1], [0.8, 0.25, -0.05], [0.7, 0.2, 0.1]):
        with pytest.raises(AssertionError):
            assert_optimal(torch.tensor(wrong, dtype=torch.double), scores, 0.0)


def test_agrees_with_the_entmax_package() -> None:
    scores = rows(50, 9)
    torch.testing.assert_close(sparsemax(scores), peer_sparsemax(scores, dim=-1))
    torch.testing.assert_close(sparsegen(scores, 0.4), peer_sparsemax(scores / 0.6, dim=-1))
    torch.testing.assert_close(entmax(scores, 2.0), sparsemax(scores), atol=1e-8, rtol=0)
    torch.testing.assert_close(entmax(scores, 1.5), entmax15(scores, dim=-1))
    torch.testing.assert_close(entmax(scores, 1.3), entmax_bisect(scores, alpha=1.3, dim=-1))
    torch.testing.assert_close(entmax(scores, 1.0), torch.softmax(scores, -1))  # where the package itself goes wrong


@given(
    st.lists(st.lists(st.floats(-50, 50, width=32) | st.just(-INF), min_size=5, max_size=5), min_size=1, max_size=4),
    st.sampled_from(ALL),
)
@settings(deadline=None, max_examples=150)
def test_stays_on_the_simplex_and_keeps_the_order(written: list[list[float]], name: str) -> None:
    scores = torch.tensor(written, dtype=torch.double)
    weights = Projection.parse(name)(scores)
    assert bool((weights >= 0).all())
    assert bool((weights[scores == -INF] == 0).all())
    possible = (scores > -INF).any(-1)
    torch.testing.assert_close(weights.sum(-1), possible.double(), atol=1e-8, rtol=0)  # a row of -inf alone gives zeros
    order = scores.argsort(-1)
    assert bool((weights.gather(-1, order).diff(dim=-1) >= -1e-9).all())


@pytest.mark.parametrize("name", ALL)
def test_a_mask_is_the_same_as_leaving_out(name: str) -> None:
    projection, scores = Projection.parse(name), rows(3, 6)
    mask = torch.tensor([True, False, True, True, False, True]).expand(3, 6)
    weights = projection(scores, mask=mask)
    torch.testing.assert_close(weights[:, mask[0]], projection(scores[:, mask[0]]))
    assert bool((weights[:, ~mask[0]] == 0).all())


@pytest.mark.parametrize("name", ALL)
def test_a_row_without_a_place_gives_zeros_and_no_gradient(name: str) -> None:
    scores = rows(2, 4).requires_grad_()
    mask = torch.tensor([[False] * 4, [True] * 4])
    weights = Projection.parse(name)(scores, mask=mask)
    assert weights[0].tolist() == [0.0] * 4
    (gradient,) = torch.autograd.grad(weights.square().sum(), scores)
    assert gradient[0].tolist() == [0.0] * 4
    assert bool(gradient.isfinite().all())


def test_the_most_negative_number_masks_as_minus_infinity_does() -> None:
    """Hugging Face masks with the lowest finite number, which overflows when it is scaled."""
    lowest = torch.finfo(torch.float32).min
    for name in PLAIN:
        projection = Projection.parse(name)
        torch.testing.assert_close(
            projection(torch.tensor([0.3, lowest, 0.1])), projection(torch.tensor([0.3, -INF, 0.1]))
        )


@pytest.mark.parametrize("name", PLAIN)
def test_derivatives(name: str) -> None:
    projection = Projection.parse(name)
    scores = rows(3, 5).requires_grad_()
    mask = torch.tensor([[True] * 5, [True, True, False, True, True], [True, False, False, False, True]])
    assert gradcheck(lambda x: projection(x, mask=mask), (scores,))
    assert gradgradcheck(lambda x: projection(x, mask=mask), (scores,))


@pytest.mark.parametrize("lam", [-2.0, 0.0, 0.6])
def test_the_jacobian_is_the_closed_form(lam: float) -> None:
    scores = rows(7, 6)
    found = vmap(jacrev(lambda x: sparsegen(x, lam)))(scores)
    for row, jacobian in zip(scores, found, strict=True):
        support = (sparsegen(row, lam) > 0).double()
        wanted = (support.diag() - support.outer(support) / support.sum()) / (1 - lam)
        torch.testing.assert_close(jacobian, wanted)


@pytest.mark.parametrize("name", PLAIN)
def test_vmap_changes_nothing(name: str) -> None:
    projection, scores = Projection.parse(name), rows(4, 6)
    mask = rows(4, 6) > -1
    torch.testing.assert_close(vmap(lambda x, m: projection(x, mask=m))(scores, mask), projection(scores, mask=mask))


def test_on_the_border_of_the_support_the_derivative_is_that_of_the_support() -> None:
    scores = torch.tensor([1.0, 0.0], dtype=torch.double)  # tau is exactly 0: the second score touches it
    torch.testing.assert_close(jacrev(sparsemax)(scores), torch.zeros(2, 2, dtype=torch.double))


def test_limits_of_lam() -> None:
    scores = torch.tensor([0.4, 0.1, -0.3, 0.39])
    torch.testing.assert_close(sparsegen(scores, -1e9), torch.full((4,), 0.25))
    assert sparsegen(scores, 1 - 1e-6).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert sparsegen(torch.tensor([0.4, 0.4, 0.0]), 1 - 1e-6).tolist() == [0.5, 0.5, 0.0]
    torch.testing.assert_close(sparsegen(torch.tensor([0.4, 0.1, -INF]), -1e9), torch.tensor([0.5, 0.5, 0.0]))


@pytest.mark.parametrize("name", ALL)
def test_large_scores_do_not_overflow(name: str) -> None:
    projection, scores = Projection.parse(name), torch.tensor([0.5, 0.25, -1.0])
    torch.testing.assert_close(projection(scores + 1024), projection(scores), atol=1e-5, rtol=0)


def test_written_and_read_again() -> None:
    for name in ALL:
        assert str(Projection.parse(name)) == name


@pytest.mark.parametrize(
    ("written", "error", "words"),
    [
        ("sparsmax", UnknownName, "Did you mean 'sparsemax'"),
        ("sparsegen", BadOption, "sparsegen:0.5"),
        ("sparsegen:1", BadOption, "below 1"),
        ("sparsegen:nan", BadOption, "below 1"),
        ("entmax:0.5", BadOption, "at least 1"),
        ("softmax:2", BadOption, "no parameter"),
    ],
)
def test_mistakes_are_explained(written: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Projection.parse(written)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "entmax", None)
    with pytest.raises(MissingPackage, match="pip install entmax"):
        entmax(torch.zeros(3), 1.5)
