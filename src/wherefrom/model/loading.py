"""Where a model comes from: the embedded one, a folder, a hub id, a (model, tokenizer) pair, or a transformers
pipeline.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import constants
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from wherefrom.errors import BadOption, ModelFailed, UnknownName, WherefromError, WrongModel
from wherefrom.model.device import DeviceSpec, device_named, move
from wherefrom.model.network import inputs_of
from wherefrom.model.sentence_encoder import (
    is_sentence_encoder,
    parts_of_encoder,
    pooling_named,
    similarity_in_files,
)
from wherefrom.model.tasks import Task, find_task
from wherefrom.model.tasks.classification import Classification, sigmoid_named
from wherefrom.model.tasks.similarity import EmbeddingSimilarity
from wherefrom.model.tasks.zero_shot import TEMPLATE, zero_shot
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_tasks

EMBEDDED = "embedded"

DtypeSpec = str | torch.dtype


def load_model(
    source: Any,
    *,
    device: DeviceSpec | None = None,
    dtype: DtypeSpec | None = None,
    task: str | None = None,
    spread: float | None = None,
    pooling: str | None = None,
    labels: Sequence[str] | None = None,
    template: str | None = None,
    several: bool = False,
) -> TextModel:
    """labels: candidates for a model of entailment (zero-shot), with the template of the hypothesis. several: whether
    more than one of them may be right.
    """
    model = _load(source, device=device, dtype=dtype, task=task, spread=spread, pooling=pooling, labels=labels)
    if labels is None:
        if template is not None or several:
            raise BadOption("A template and multi_label belong to candidate labels: give labels=[...], too.")
        return model
    if model.task.name != Classification.name:
        raise WrongModel(f"Candidate labels need a model of entailment; {model.name} is made for {model.task.name}.")
    module = model.network.module
    bound = zero_shot(model.name, module.config, labels, template or TEMPLATE, several=several)
    return TextModel.of(module, model.reading.tokenizer, name=model.name, task=bound)


def _load(
    source: Any,
    *,
    device: DeviceSpec | None,
    dtype: DtypeSpec | None,
    task: str | None,
    spread: float | None,
    pooling: str | None,
    labels: Sequence[str] | None,
) -> TextModel:
    precision = _dtype(dtype)
    if device is not None:
        device_named(device)
    if pooling is not None:
        pooling_named(pooling)
    if isinstance(source, str | os.PathLike):
        model = _from_files(
            os.fspath(source), device=device, dtype=precision, task=task, spread=spread, pooling=pooling
        )
        return _pooled(model, pooling)
    bound: Task | None = None
    if is_sentence_encoder(source):
        *pair, bound = parts_of_encoder(source, pooling)
        source = tuple(pair)
    bound = bound or _reranker(source)
    network, tokenizer = _given(source, labels)
    if (device is not None and device_named(device) != network.device) or (
        precision is not None and precision != network.dtype
    ):
        raise WrongModel(
            "Wherefrom changes nothing on a model it is handed. Move or cast it with"
            " model.to(...), then load it without device or dtype."
        )
    made_for = bound or _chosen_pooling(_task_of(type(network).__name__, [type(network).__name__], task), pooling)
    name = network.config._name_or_path or type(network).__name__
    return _pooled(TextModel.of(network, tokenizer, name=name, task=made_for, spread=spread), pooling)


def _chosen_pooling(task: Task, pooling: str | None) -> Task:
    """The same task; of similarity with the pooling that was asked for."""
    return replace(task, pooling=pooling_named(pooling)) if isinstance(task, EmbeddingSimilarity) else task


def _pooled(model: TextModel, pooling: str | None) -> TextModel:
    if pooling is not None and not isinstance(model.task, EmbeddingSimilarity):
        raise BadOption(f"pooling is how texts become embeddings; {model.name} is made for {model.task.name}.")
    if isinstance(model.task, EmbeddingSimilarity) and model.network.module.config.is_encoder_decoder:
        _check_reads_alone(model)
    return model


def _check_reads_alone(model: TextModel) -> None:
    """Raise where a model with an encoder and a decoder reads no text without an output beside it."""
    try:
        with torch.no_grad():
            model.run(inputs_of(model.network, [model.encode(model.task.sample, model.task.sample_pair)]))
    except (ModelFailed, ValueError) as error:
        kind = type(model.network.module).__name__
        raise WrongModel(
            f"{model.name} is a {kind}, whose decoder reads an output beside the text, so that a text alone has no"
            f" embedding. Load its encoder only: {kind.removesuffix('Model')}EncoderModel.from_pretrained(NAME)"
        ) from error


def _dtype(spec: DtypeSpec | None) -> torch.dtype | None:
    if spec is None or isinstance(spec, torch.dtype):
        return spec
    dtype = getattr(torch, spec, None)
    if not isinstance(dtype, torch.dtype):
        raise UnknownName.among("precision", spec, ["float32", "float64", "float16", "bfloat16"])
    return dtype


def _reranker(source: Any) -> Task | None:
    """The task of a CrossEncoder in memory, as its activation says what its one output is; None for anything else."""
    for name in ("activation_fn", "default_activation_function"):
        activation = sigmoid_named(type(getattr(source, name, None)).__name__)
        if activation is not None and hasattr(source, "model") and hasattr(source, "tokenizer"):
            return Classification(sigmoid=activation)
    return None


def _given(source: Any, labels: Sequence[str] | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if hasattr(source, "model") and hasattr(source, "tokenizer"):  # a pipeline
        if getattr(source, "task", None) == "zero-shot-classification" and labels is None:
            raise WrongModel(
                "A zero-shot pipeline asks its model about one (text, hypothesis) pair for every candidate label. Name"
                " these: wherefrom.load(pipe, labels=['sports', 'politics'], template='This example is {}.')"
            )
        source = (source.model, source.tokenizer)
    if isinstance(source, tuple | list) and len(source) == 2:
        network, tokenizer = source
        network = _uncompiled(network)
        if hasattr(network, "get_base_model"):  # PEFT wraps the model, whose layers hold the adapters
            network = network.get_base_model()
        network = _uncompiled(network)
        if isinstance(network, PreTrainedModel) and isinstance(tokenizer, PreTrainedTokenizerBase):
            _check_weights(network)
            return network, tokenizer
    description = type(source).__name__
    if isinstance(source, tuple | list):
        description += f" of {', '.join(type(part).__name__ for part in source)}"
    raise WrongModel(
        "load() takes 'embedded', a folder, a hub id, a (model, tokenizer) pair, a transformers pipeline, a"
        " SentenceTransformer, a CrossEncoder or a function,"
        f" not {description}."
    )


def _uncompiled(network: Any) -> Any:
    """torch.compile wraps a model. What runs is the model inside, whose layers can be looked into."""
    return getattr(network, "_orig_mod", network)


def _check_weights(network: PreTrainedModel) -> None:
    """Raise where the weights cannot be read, with the line that puts it right."""
    kind = type(network).__name__
    if getattr(network, "_compiled_call_impl", None) is not None:
        raise WrongModel(
            "The model was compiled in place, so that nobody can look into its layers. Take that back before you load"
            " it: model._compiled_call_impl = None"
        )
    away = [name for name, weight in network.named_parameters() if weight.is_meta]
    if away:
        raise WrongModel(
            f"{len(away)} of the model's weights are not in memory (such as {away[0]}): it was offloaded, or made on"
            f" the device 'meta'. Load it whole: model = {kind}.from_pretrained(NAME, device_map=None)"
        )
    if next(network.get_input_embeddings().parameters(), None) is None:
        raise WrongModel(
            "The model's word embeddings are quantised and cannot be read, so no word can be hidden. Load it without"
            f" quantisation, or leave the embeddings out of it: model = {kind}.from_pretrained(NAME)"
        )


def _task_of(name: str, architectures: list[str], requested: str | None) -> Task:
    """The task a model was made for; raises where it is not the one asked for, or one that cannot be explained."""
    if requested is not None:
        find_task(requested)
    tasks: list[Task] = list(all_tasks().values())
    fitting = [task for task in tasks if any(class_name.endswith(task.endings) for class_name in architectures)]
    # A class without a head fits tasks on request; one with a head does not, though its name may end alike.
    made_for = [task for task in fitting if not task.on_request] or [task for task in fitting if task.name == requested]
    is_a = ", ".join(architectures) or "model of unknown architecture"
    if not made_for:
        raise WrongModel(
            f"{name} has no head for {', '.join(task.name for task in tasks if not task.on_request)} (it is a {is_a})."
            " Give a model that was fine-tuned, such as one saved from AutoModelForSequenceClassification; or, for the"
            " cosine of two texts' embeddings, say task='similarity'."
        )
    chosen = [task for task in made_for if requested in (None, task.name)]
    if not chosen:
        raise WrongModel(f"{name} is a {is_a}, made for {made_for[0].name}, not for {requested}.")
    return chosen[0]


def _from_files(
    name: str,
    *,
    device: DeviceSpec | None,
    dtype: torch.dtype | None,
    task: str | None,
    spread: float | None,
    pooling: str | None,
) -> TextModel:
    folder = str(resources.files("wherefrom") / "model" / "builtin" / "sentiment") if name == EMBEDDED else name
    if not os.path.isdir(folder) and (
        os.path.exists(folder) or folder.startswith((".", "/", "~")) or folder.count("/") > 1
    ):
        raise WrongModel(f"{name} is not a folder with a model in it.")
    safely = _safely(folder)
    encoder = similarity_in_files(name, partial(_content, folder, safely["local_files_only"]), pooling)
    if encoder is not None and encoder[1]:
        folder = os.path.join(folder, encoder[1])
    if os.path.isdir(folder) and not Path(folder, "config.json").exists():
        if Path(folder, "adapter_config.json").exists():
            raise WrongModel(_adapter(name, folder, task))
        raise WrongModel(
            f"The folder {name} holds no model: it has no config.json. Save one there with model.save_pretrained(...)."
        )
    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder, **safely)
            _check_size(name, config)
            made_for = _task_in_files(name, list(config.architectures or []), task, pooling, encoder and encoder[0])
            arguments = (
                torch.float32 if dtype is None and name == EMBEDDED else dtype
            )  # stored in half precision, for size
            auto = getattr(transformers, made_for.auto)
            network, loaded = auto.from_pretrained(
                folder, dtype=arguments or "auto", output_loading_info=True, weights_only=True, **safely
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, **safely)
    except WherefromError:
        raise
    except Exception as error:  # files from anywhere, read by several libraries: there is no telling what they raise
        raise WrongModel(f"The model {name!r} could not be loaded: {_reason(error, safely)}") from error
    missing = [key for key in loaded["missing_keys"] if not key.startswith(made_for.unread_weights)]
    if missing:
        raise WrongModel(
            f"The files of {name} lack weights that the model needs and that would be random:"
            f" {', '.join(sorted(missing)[:3])}."
        )
    try:
        return TextModel.of(_moved(network, device).eval(), tokenizer, name=name, task=made_for, spread=spread)
    except WherefromError:
        raise
    except Exception as error:  # it is tried out, with whatever its files say
        raise WrongModel(f"The model {name!r} was loaded, but does not work: {_reason(error, safely)}") from error


def _safely(folder: str) -> dict[str, Any]:
    """Nothing of a model's own code is run, whatever its files say, and nobody is asked whether it may be. Weights come
    from safetensors where there are any, else through torch's loader that makes tensors and nothing else.
    """
    return {"trust_remote_code": False, "local_files_only": os.path.isdir(folder) or not _hub_can_be_reached()}


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder, or of a hub id."""
    safely = _safely(name)
    try:
        with quiet():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name, **safely)
    except Exception as error:  # files from anywhere
        raise WrongModel(f"The tokenizer {name!r} could not be loaded: {_reason(error, safely)}") from error
    return tokenizer


def _task_in_files(
    name: str, architectures: list[str], requested: str | None, pooling: str | None, encoder: EmbeddingSimilarity | None
) -> Task:
    """The task that a folder was made for; similarity, where it is a sentence encoder and nothing else is asked for."""
    if encoder is not None and requested in (None, EmbeddingSimilarity.name):
        return encoder
    return _chosen_pooling(_task_of(name, architectures, requested), pooling)


def _content(folder: str, local: bool, file: str) -> str | None:
    """The content of a small file of a model, from its folder or from the hub; None where there is none."""
    path = Path(folder, file)
    if not os.path.isdir(folder):
        with suppress(Exception), quiet():  # no such file, no such model, no network: said when the model is loaded
            cached = cached_file(folder, file, local_files_only=local, _raise_exceptions_for_missing_entries=False)
            path = Path(cached or "")
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except (OSError, ValueError) as error:
        raise WrongModel(f"{file} of {folder} cannot be read: {error}") from error


def _adapter(name: str, folder: str, task: str | None) -> str:
    """What to write for a folder that contains an adapter, and not the model that it belongs on."""
    try:
        config = json.loads(Path(folder, "adapter_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    config = config if isinstance(config, dict) else {}
    base, made_for = config.get("base_model_name_or_path") or "BASE", str(config.get("task_type"))
    chosen = all_tasks().get(task or ADAPTED.get(made_for, ""), Classification)
    return (
        f"The folder {name} holds an adapter (adapter_config.json), and not the model that it belongs on, {base!r}. Put"
        f" it on that model and hand both over: wherefrom.load((PeftModel.from_pretrained("
        f"{chosen.auto}.from_pretrained({base!r}), {name!r}).eval(), AutoTokenizer.from_pretrained({base!r})))"
    )


# What PEFT calls the tasks.
ADAPTED = {"SEQ_CLS": "classification", "CAUSAL_LM": "causal_lm", "QUESTION_ANS": "question_answering"}


def _moved(network: PreTrainedModel, device: DeviceSpec | None) -> PreTrainedModel:
    if device is None:
        return network
    move(network, device)
    return network


MOST_LAYERS = 2000  # more than any model has; building so many from a file that says so would take all day


def _check_size(name: str, config: PreTrainedConfig) -> None:
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(layers, int) and layers > MOST_LAYERS:
        raise WrongModel(f"The configuration of {name} says that it has {layers:,} layers; no model has.")


def _reason(error: Exception, arguments: Mapping[str, Any]) -> str:
    """Why a model could not be loaded, in one line."""
    text = str(error)
    if "trust_remote_code" in text or "custom code" in text:
        return (
            "it brings its own program code, and Wherefrom runs none that comes with a model. If you trust it, load it"
            " with transformers and give Wherefrom the (model, tokenizer) pair."
        )
    if "ignore_mismatched_sizes" in text:
        return "the sizes in its config.json are not those of its weights."
    if "weights_only" in text or "Weights only load failed" in text:
        return (
            "its weights are a pickle file that holds more than tensors, which could run any program. Ask for"
            " safetensors (model.save_pretrained writes them)."
        )
    if arguments["local_files_only"] and "connect" in text:
        return "there is no such folder, it is not in the hub's cache, and the hub cannot be reached from here."
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)


def _hub_can_be_reached() -> bool:
    """Found out at once, because the hub's library would try six times within half a minute."""
    if constants.HF_HUB_OFFLINE:
        return False
    if urllib.request.getproxies():  # then names are resolved elsewhere
        return True
    host = urllib.parse.urlsplit(constants.ENDPOINT)
    try:
        with socket.create_connection((host.hostname or "", host.port or 443), timeout=3):
            return True
    except OSError:
        return False


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars and load reports, which would stand between a user and the answer."""
    before, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
        if bars:
            transformers_logging.enable_progress_bar()
