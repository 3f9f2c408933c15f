"""The attention block as a sum of the contributions of each token: exact, for every family, and without ever making a
(token, token, hidden) tensor.

After the attention of a block, position i has y_i = sum_j T_i(x_j) + rest_i with

    T_i(x_j) = s_i sum_h A^h_ij U_hj + [i = j] X_i,        U_hj = L W_O^h v_hj

- post:      L, s_i are the linear part and the scale 1 / sigma_i of the norm after the sum; X_i = s_i L x_i; rest =
  s_i L b_O + beta
- pre:       the norm is before the values and is in v already: L = 1, s_i = 1; X_i = x_i; rest = b_O
- sandwich:  L, s_i of the norm after the attention, which the residual does not pass; X_i = x_i; rest = s_i L b_O +
  beta
- parallel:  as pre: the MLP beside the attention reads position i alone, as it does when it follows it

The value bias is inside v, and so inside T. The residual goes to j = i alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from wherefrom.core.names import join_names
from wherefrom.errors import NotSeen
from wherefrom.model.anatomy import Block
from wherefrom.registry import methods_reading

Distance = Literal["l1", "l2"]
BUFFER = 2**20  # numbers in the buffer that contributions are computed in: small enough for a processor's cache
CLOSE = 0.02  # how far, in parts of its output, a norm may be from its linear part: half precision rounds by 0.001


@dataclass(frozen=True)
class Norm:
    """A layer norm taken apart: norm(u) = scale(u) L u + beta, L u = gamma * (u - mean(u)), or gamma * u where it does
    not centre.
    """

    gamma: Tensor  # (hidden,)
    beta: Tensor  # (hidden,)
    centres: bool

    @classmethod
    def of(cls, module: nn.Module, like: Tensor) -> Norm:
        """By asking the module, so that weights kept as w or as 1 + w, with a bias or none, need no telling apart."""
        probe = torch.ones_like(like[0])  # (hidden,)
        probe[1::2] = -1
        up, down, shifted = module(torch.stack([probe, -probe, probe + 1]))
        beta = (up + down) / 2  # a norm is odd but for its bias
        centres = bool((shifted - up).abs().max() < 0.01 * (up - beta).abs().max())
        centred = probe - probe.mean() if centres else probe
        exact = torch.promote_types(like.dtype, torch.float32)
        return cls(((up - beta) / centred * centred.square().mean().sqrt()).to(exact), beta.to(exact), centres)

    def linear(self, u: Tensor) -> Tensor:
        """L u. (..., hidden)"""
        return (u - u.mean(-1, keepdim=True) if self.centres else u) * self.gamma

    def scale(self, u: Tensor, out: Tensor) -> Tensor:
        """1 / sigma for each row of `out` = norm(`u`), its epsilon and all: what L u is multiplied by. (token, 1)"""
        flat, true = self.linear(u.to(self.beta.dtype)), out - self.beta
        scale = (flat * true).sum(-1, keepdim=True) / flat.square().sum(-1, keepdim=True).clamp(
            min=torch.finfo(flat.dtype).tiny
        )
        if bool((scale * flat - true).abs().max() > CLOSE * true.abs().max()):
            raise NotSeen(
                "A norm of this model is not a layer norm or root-mean-square norm, so"
                " its block is no sum of contributions of the tokens."
                " Methods that decompose blocks do not work with it; attention and gradient methods do."
            )
        return scale


@dataclass(frozen=True)
class BlockContributions:
    """One attention block as a sum over tokens; `rows` below are the positions whose sum is wanted."""

    probs: Tensor  # (head, query, key): A
    scale: Tensor  # (token, 1): s
    value: Tensor  # (head, key, size): v
    project: Tensor  # (head, size, hidden): L W_O^h, transposed
    residual: Tensor  # (token, hidden): X
    output: Tensor  # (token, hidden): y
    rest: Tensor  # (token, hidden): what no token contributes

    @property
    def everywhere(self) -> Tensor:
        """All rows."""
        return torch.arange(len(self.output), device=self.output.device)

    def vectors(self) -> Tensor:
        """U: what each head has to bring of each token. (key, head, hidden)"""
        return (self.value @ self.project).transpose(0, 1)

    def _weights(self, rows: Tensor) -> Tensor:
        """s_i A^h_ij, laid out so that one product per key needs no copy. (row, key, head)"""
        weights = _pick(self.probs, rows, 1) * self.scale[rows]  # (head, row, key)
        return weights.flatten(1).T.contiguous().view(*weights.shape[1:], len(weights))

    def own(self, rows: Tensor, vectors: Tensor) -> Tensor:
        """T_i(x_i). (row, hidden)"""
        weights = (self.probs[:, rows, rows] * self.scale[rows, 0]).T  # (row, head)
        return (weights[:, None] @ _pick(vectors, rows))[:, 0] + _pick(self.residual, rows)

    def sum(self) -> Tensor:
        """sum_j T_i(x_j) + rest_i, which is y_i. (token, hidden)"""
        return self._weights(self.everywhere).flatten(1) @ self.vectors().flatten(0, 1) + self.residual + self.rest

    def lengths(self, rows: Tensor) -> Tensor:
        """||T_i(x_j)||_2 by each token's Gram matrix of heads. (row, key)"""
        vectors = self.vectors()
        return _with_own(self._squares(rows, vectors).clamp(min=0).sqrt(), rows, self.own(rows, vectors).norm(dim=-1))

    def _squares(self, rows: Tensor, vectors: Tensor) -> Tensor:
        """||T_i(x_j)||_2^2 for j other than i. (row, key)"""
        probs = _pick(self.probs, rows, 1)  # (head, row, key)
        gram = (vectors @ vectors.transpose(1, 2)).permute(1, 2, 0).contiguous()  # (head, head, key)
        squares = torch.zeros_like(probs[0])
        for head, weights in enumerate(probs):
            with_others = weights * gram[head, head]
            for other in range(head):
                with_others.addcmul_(probs[other], 2 * gram[head, other])
            squares.addcmul_(with_others, weights)
        return squares.mul_(self.scale[rows].square())

    def proximity(self, rows: Tensor, distance: Distance) -> Tensor:
        """max(0, ||y_i|| - ||y_i - T_i(x_j)||): how near each token's part comes to the whole. (row, key)"""
        vectors, output = self.vectors(), _pick(self.output, rows)
        others = output - self.own(rows, vectors)
        if distance == "l1":  # in the order of the distances' sums: a token without contribution gets exactly zero
            length = output.abs().sum(-1)  # (row,)
            near = _with_own(length[:, None] - self._distances(rows, vectors), rows, length - others.abs().sum(-1))
        else:
            near = _with_own(self._nearness(rows, vectors), rows, output.norm(dim=-1) - others.norm(dim=-1))
        return near.clamp(min=0)

    def _distances(self, rows: Tensor, vectors: Tensor) -> Tensor:
        """||y_i - T_i(x_j)||_1 for j other than i. No closed form: the parts of a few rows and tokens at a time are
        made, measured and forgotten. Rows that a token brings nothing to, because a mask is between, are left out.
        (row, key)
        """
        output, weights = _pick(self.output, rows), self._weights(rows).transpose(0, 1)  # (key, row, head)
        (tokens, hidden), keys = output.shape, len(vectors)
        height = max(1, min(tokens, BUFFER // hidden))
        width = max(1, BUFFER // hidden // height)
        buffer = output.new_empty(min(width, keys), height, hidden)
        distances = output.abs().sum(-1, keepdim=True).repeat(1, keys)
        first, last = self._reach(rows)
        for left in range(0, keys, width):
            others = slice(left, left + width)
            bottom = max(last[others])
            for top in range(min(first[others]), bottom, height):
                some = slice(top, min(top + height, bottom))
                whole = output[some].expand(len(vectors[others]), -1, -1)  # (key, row, hidden)
                missing = buffer[: whole.shape[0], : whole.shape[1]]
                torch.baddbmm(whole, weights[others, some], vectors[others], alpha=-1, out=missing)
                distances[some, others] = missing.abs_().sum(-1).T
        return distances

    def _reach(self, rows: Tensor) -> tuple[list[int], list[int]]:
        """For each token the first of the rows that attend to it, and the place after the last: far fewer than all
        where attention is causal or within a window.
        """
        probs = _pick(self.probs, rows, 1)
        reached = torch.zeros_like(probs[0], dtype=torch.bool)  # (row, key)
        for weights in probs:
            reached |= weights != 0
        marks = reached.to(torch.uint8)
        last = (len(marks) - marks.flip(0).argmax(0)) * reached.any(0)
        return marks.argmax(0).tolist(), last.tolist()

    def _nearness(self, rows: Tensor, vectors: Tensor) -> Tensor:
        """||y|| - ||y - T|| = (2 <y, T> - ||T||^2) / (||y|| + ||y - T||), l2: no difference of two large numbers. (row,
        key)
        """
        output, probs = _pick(self.output, rows), _pick(self.probs, rows, 1)
        products = torch.zeros_like(probs[0])  # (row, key): <y_i, T_i(x_j)>
        for weights, value, project in zip(probs, self.value, self.project, strict=True):
            products.addcmul_(output @ project.T @ value.T, weights)  # y as the head's values see it, times these
        products.mul_(self.scale[rows])
        gain = 2 * products - self._squares(rows, vectors)
        length = output.norm(dim=-1, keepdim=True)
        near: Tensor = gain / (length + (length.square() - gain).clamp(min=0).sqrt()).clamp(
            min=torch.finfo(gain.dtype).tiny
        )
        return near

    def unit_sums(self) -> tuple[Tensor, Tensor]:
        """For each position the sum of its contributions, each scaled to length one, and how many there are. (token,
        hidden), (token,)
        """
        lengths = self.lengths(self.everywhere)
        shrink = torch.where(lengths > 0, 1 / lengths, 0)  # in a causal model, later tokens contribute nothing
        flat = (self._weights(self.everywhere) * shrink[..., None]).flatten(1)
        return flat @ self.vectors().flatten(0, 1) + self.residual * shrink.diagonal()[:, None], (lengths > 0).sum(-1)


def _pick(tensor: Tensor, rows: Tensor, dim: int = 0) -> Tensor:
    """The rows of a tensor, without a copy where these are all."""
    return tensor if len(rows) == tensor.shape[dim] else tensor.index_select(dim, rows)


def _with_own(matrix: Tensor, rows: Tensor, diagonal: Tensor) -> Tensor:
    """The matrix with the entry of each row's own token replaced. (row, key)"""
    matrix[torch.arange(len(rows), device=rows.device), rows] = diagonal
    return matrix


@torch.no_grad()
def decompose(
    block: Block, x: Tensor, probs: Tensor, value: Tensor, *, second_norm: bool = False, summed: Tensor | None = None
) -> BlockContributions:
    """A block's parts from what was recorded of it. x (token, hidden), probs (head, query, key), value (head, key,
    size)

    `second_norm` carries them on through the norm after the MLP, at the scale that norm really has; the MLP's own
    addition belongs to no token. Only in post blocks does the stream pass a second norm; elsewhere nothing changes.
    `summed` is what that norm received, where it was recorded: the MLP then need not run again.
    """
    attended = block.attend(probs, value)
    mixed = block.mixed(x, attended)
    weight, bias = (part * block.scale for part in _matrix(block.attention_out))  # (head * size, hidden), (hidden,)
    start: Tensor = block.enter(x)
    exact = torch.promote_types(x.dtype, torch.float32)  # half precision is not enough to tell parts apart
    parts = BlockContributions(
        probs=probs.to(exact),
        scale=torch.ones_like(start[:, :1], dtype=exact),
        value=value.to(exact),
        project=weight.to(exact).reshape(len(value), -1, start.shape[-1]),
        residual=start.to(exact),
        output=mixed.to(exact),
        rest=bias.to(exact).expand(start.shape),
    )
    if block.order == "post":
        parts = _through(block.attention_norm, parts, start + attended, mixed)
        if second_norm and block.between:
            raise NotSeen(
                "Not defined for blocks with further feed-forward parts between the attention and the second norm, as"
                " MobileBERT's: what each token brought is not followed through these. Take a decomposition without the"
                " second norm."
            )
        if second_norm:
            summed = mixed + block.through_mlp(mixed) if summed is None else summed
            parts = _through(block.mlp_norm, parts, summed, block.mlp_norm(summed))
    elif not isinstance(block.attention_after, nn.Identity):
        normed = _through(block.attention_after, parts, attended, block.attention_after(attended))
        parts = replace(normed, residual=parts.residual, output=parts.output)
    return parts


def _through(module: nn.Module, parts: BlockContributions, before: Tensor, after: Tensor) -> BlockContributions:
    """The parts after a norm that was given `before` and gave `after`."""
    norm = Norm.of(module, before)
    scale = norm.scale(before, after)  # (token, 1)
    return replace(
        parts,
        scale=scale * parts.scale,
        project=norm.linear(parts.project),
        residual=scale * norm.linear(parts.residual),
        output=after.to(parts.output.dtype),
        rest=scale * norm.linear(parts.rest) + norm.beta,
    )


def _matrix(module: nn.Module) -> tuple[Tensor, Tensor]:
    """The matrix (in, out) and bias of a linear layer; one of an unknown kind (quantised, with an adapter) is asked for
    them.
    """
    if type(module) is nn.Linear or type(module) is Conv1D:
        weight = (module.weight.T if isinstance(module, nn.Linear) else module.weight).detach()
        return weight, torch.zeros_like(weight[0]) if module.bias is None else module.bias.detach()
    like = next((p for p in module.parameters() if p.is_floating_point()), None)
    if like is None:
        raise NotSeen(
            f"The weights of a layer ({type(module).__name__}) cannot be read, because they are quantised. Load the"
            " model without quantisation, or take a method that only queries the model:"
            f" {join_names(methods_reading('answers'), 'or')}."
        )
    width = getattr(module, "in_features", None) or like.shape[-1]
    bias = module(like.new_zeros(1, width))
    return module(torch.eye(width).to(like)) - bias, bias[0]
