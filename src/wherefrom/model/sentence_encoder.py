"""What sentence-transformers say of themselves, read from their files or from an object in memory: which network, how
its hidden states are pooled, how much of a text is read. No code of theirs is run to read files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, get_args

from wherefrom.errors import UnknownName, WrongModel
from wherefrom.model.tasks.similarity import EmbeddingSimilarity, PoolingMode

POOLINGS: tuple[PoolingMode, ...] = get_args(PoolingMode)
# Names of the fields of a Pooling module, by what they mean here.
FIELDS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
ReadFile = Callable[[str], str | None]  # the content of a file of the model, None where there is none


def pooling_named(name: str | None) -> PoolingMode:
    if name is not None and name not in POOLINGS:
        raise UnknownName.among("pooling", name, POOLINGS)
    return name or "mean"


def similarity_in_files(
    name: str, read: ReadFile, pooling: str | None = None
) -> tuple[EmbeddingSimilarity, str] | None:
    """The task that modules.json and what it names ask for, and the folder of the network within the model's; None
    where there is no modules.json.

    pooling: in place of the one that the files say.
    """
    if read("config_setfit.json") is not None:
        raise WrongModel(
            f"{name} is a SetFit model, whose head is a classifier of its own. Load it with SetFit and hand it over:"
            f" wherefrom.load(SetFitModel.from_pretrained({name!r}))."
        )
    written = read("modules.json")
    if written is None:
        return None
    modules = _json(name, "modules.json", written)
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if not kinds or kinds[0] != "Transformer" or "Pooling" not in kinds or set(kinds[2:]) - {"Normalize"}:
        raise _other_modules(name, kinds)
    paths = [str(module.get("path", "")) for module in modules]
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise WrongModel(f"modules.json of {name} leads out of its folder: {path!r}.")
    network = paths[0]
    pooling_config = _json(name, f"{paths[1]}/config.json", read(f"{paths[1]}/config.json") or "{}")
    limits = _json(name, "sentence_bert_config.json", read(_in(network, "sentence_bert_config.json")) or "{}")
    longest = limits.get("max_seq_length")
    chosen = pooling_named(pooling) if pooling else _pooling_said(name, pooling_config)
    return EmbeddingSimilarity(
        pooling=chosen, longest=longest if isinstance(longest, int) and longest > 0 else None
    ), network


def _in(folder: str, file: str) -> str:
    return f"{folder}/{file}" if folder else file


def _json(name: str, file: str, written: str) -> Any:
    try:
        value = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise WrongModel(f"{file} of {name} is damaged: {error}") from error
    expected = list if file == "modules.json" else dict
    if not isinstance(value, expected) or (expected is list and not all(isinstance(row, dict) for row in value)):
        raise WrongModel(f"{file} of {name} does not hold what it should.")
    return value


def _pooling_said(name: str, config: dict[str, Any]) -> PoolingMode:
    newer = config.get("pooling_mode")
    named = (
        [newer] if isinstance(newer, str) else [key for key, value in config.items() if value is True and "mode" in key]
    )
    modes = [FIELDS.get(name_in_file, name_in_file) for name_in_file in named]
    if len(modes) == 1 and modes[0] in POOLINGS:
        return modes[0]
    raise WrongModel(
        f"{name} pools by {', '.join(modes) or 'nothing that its files name'}. Wherefrom knows {', '.join(POOLINGS)}:"
        " give one of them, load(..., pooling='mean'), if it is that."
    )


def _other_modules(name: str, kinds: list[str]) -> WrongModel:
    return WrongModel(
        f"{name} consists of {', '.join(kinds) or 'nothing'}. The similarity of two texts can be explained where a"
        " Transformer is followed by Pooling, and at most Normalize, which does not change a cosine. Anything else is a"
        " function: wherefrom.load(lambda pairs: ...)."
    )


def is_sentence_encoder(source: Any) -> bool:
    """Whether this is a SentenceTransformer, or something that looks like one; a CrossEncoder has an activation."""
    return (
        not hasattr(source, "activation_fn")
        and hasattr(source, "_first_module")
        and hasattr(source, "tokenizer")
        and hasattr(source, "__getitem__")
    )


def parts_of_encoder(source: Any, pooling: str | None = None) -> tuple[Any, Any, EmbeddingSimilarity]:
    """The network, the tokenizer and the task of a SentenceTransformer in memory."""
    modules = list(source)
    kinds = [type(module).__name__ for module in modules]
    if len(modules) < 2 or kinds[:2] != ["Transformer", "Pooling"] or set(kinds[2:]) - {"Normalize"}:
        raise _other_modules(type(source).__name__, kinds)
    transformer, pooler = modules[:2]
    settings = {name: getattr(pooler, name, None) for name in (*FIELDS, "pooling_mode")}
    others = {name: value for name, value in vars(pooler).items() if name.startswith("pooling_mode") and value is True}
    chosen = pooling_named(pooling) if pooling else _pooling_said(type(source).__name__, settings | others)
    longest = getattr(source, "max_seq_length", None)
    task = EmbeddingSimilarity(pooling=chosen, longest=longest if isinstance(longest, int) else None)
    return transformer.auto_model, source.tokenizer, task
