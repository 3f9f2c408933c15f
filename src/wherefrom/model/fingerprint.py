"""A short name for all that decides a model's answers, so that what was measured on one model is not used with another.

It covers every byte of every weight and buffer with its precision, the configuration, the labels, the task, and the
tokenizer with its special tokens and limits.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from wherefrom.model.text_model import TextModel

# Of a configuration: where it came from and who wrote it. Precision is that of the tensors themselves.
NOT_DECISIVE = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "_commit_hash")


def fingerprint(model: TextModel) -> str:
    """The same for models that give the same answers to the same texts: read from all of it, every time."""
    if model.network.facts.identity is not None:
        return model.network.facts.identity.hex()[:16]
    digest = hashlib.sha256()  # 500 MB take 0.3 s; the instructions for it are in most processors
    for part in (_weights(model.network.module), _configuration(model), _tokenizer(model.reading.tokenizer)):
        digest.update(part)
    return digest.hexdigest()[:16]


_known: WeakKeyDictionary[nn.Module, tuple[object, str]] = WeakKeyDictionary()


def known_fingerprint(model: TextModel) -> str:
    """The same, computed again only where a weight was replaced or written to: for what is asked for every text."""
    state = tuple((name, tensor.data_ptr(), _version(tensor)) for name, tensor in _tensors(model.network.module))
    before = _known.get(model.network.module)
    if before is None or before[0] != state:
        before = _known[model.network.module] = (state, fingerprint(model))
    return before[1]


def _tensors(network: nn.Module) -> list[tuple[str, Tensor]]:
    return sorted([*network.named_parameters(), *network.named_buffers()], key=lambda pair: pair[0])


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # torch counts what is written to a tensor in place


@torch.no_grad()
def _weights(network: nn.Module) -> bytes:
    digest = hashlib.sha256()
    for name, tensor in _tensors(network):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        content: Any = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        digest.update(content)
    return digest.digest()


def _configuration(model: TextModel) -> bytes:
    config = model.network.module.config
    kept = {name: value for name, value in config.to_dict().items() if name not in NOT_DECISIVE}
    return _plain(
        {
            "config": kept,
            "attention": getattr(config, "_attn_implementation", None),
            "network": type(getattr(model.network.module, "_orig_mod", model.network.module)).__name__,
            "task": " ".join(part for part in (model.task.name, model.task.bound) if part),
            "labels": model.labels,
        }
    )


def _tokenizer(tokenizer: PreTrainedTokenizerBase) -> bytes:
    # A call with a limit leaves that limit in the first fields, before the added tokens, so these are left out.
    written: str = tokenizer.backend_tokenizer.to_str()
    decisive = written.partition('"added_tokens":')[2] or written
    beside = {
        "special": tokenizer.special_tokens_map,
        "limit": tokenizer.model_max_length,
        "cut": tokenizer.truncation_side,
        "inputs": tokenizer.model_input_names,
    }
    return hashlib.sha256(decisive.encode("utf-8", "surrogatepass")).digest() + _plain(beside)


def _plain(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
