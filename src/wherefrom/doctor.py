"""What Wherefrom finds in a model, whether its idea of the model is right, and which methods work with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from wherefrom.api import Model
from wherefrom.case.case import make_cases
from wherefrom.errors import MissingToken, WherefromError
from wherefrom.methods.input_x_gradient import ONLY_ROUNDING_NOTE
from wherefrom.model.network import inputs_of
from wherefrom.model.relevance.propagation import Operation
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods

POSITIONS = {"first": "the first token", "last": "the last token", "every": "all tokens"}
SENTENCE = "This is a short text, and the doctor reads it."
HIDING = ("mask", "unk", "pad", "eos")
SURVIVES = 0.7  # rank correlation of an explanation with that by a model that has learned nothing
LEAK = 1e-4  # of the one that is shared out; linear operations hand it on in the model's own precision
TOLERANCE = 1e-4  # of the largest number in a block's output; float32 gives about 1e-6


def plain_answer(model: TextModel) -> Tensor:
    """The model's logits without any recording. (class,)"""
    with torch.no_grad():
        return model.run(inputs_of(model.network, [model.encode(*_read_by(model))]), whole=True)[0]


def _read_by(model: TextModel) -> tuple[str, ...]:
    """What the doctor has a model read: one text, or two where its task needs them."""
    second = model.task.sample_pair
    return (SENTENCE,) if second is None else (SENTENCE, second)


def _verdict(error: float, otherwise: str) -> str:
    return f"error {error:.1e}, as it should be" if error < TOLERANCE else f"error {error:.1e}: {otherwise}"


def _how_labels_compete(model: TextModel) -> str:
    if model.regression:
        return "no: each is a value that is predicted (regression)"
    return "no" if model.independent else "yes"


def _usual_fill(model: TextModel) -> str:
    """What methods take unless they are told otherwise, and the token that it is."""
    try:
        kind = model.hiding.usual_fill()
    except MissingToken as missing:
        return str(missing)
    token = getattr(model.reading.tokenizer, f"{kind}_token", None)
    return kind if token is None else f"{kind} ({token})"


def examine(model: Model, *, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Plain data: facts, a reason for each method that does not work (None where it does), and whether something is
    broken. progress: called with how many methods were tried, and how many there are.
    """
    text_model = model.text_model
    config, tokenizer = text_model.network.module.config, text_model.reading.tokenizer
    weights = sum(p.numel() for p in text_model.network.module.parameters())
    facts: dict[str, Any] = {
        "model": text_model.name,
        "class": type(text_model.network.module).__name__,
        "family": getattr(config, "model_type", "unknown"),
        **({"recognised": text_model.network.facts.recognised} if text_model.network.facts.recognised else {}),
        "labels": text_model.labels,
        "labels exclude each other": _how_labels_compete(text_model),
        "parameters": f"{weights:,}",
        "precision and device": f"{text_model.network.module.dtype}, {text_model.network.device}".replace("torch.", ""),
        "reads at most": f"{text_model.reading.limit} tokens" if text_model.reading.limit else "any number of tokens",
        "can hide tokens by": [
            *(
                f"{kind} ({token})"
                for kind in HIDING
                if (token := getattr(tokenizer, f"{kind}_token", None)) is not None
            ),
            "delete",
        ],
        "hides tokens by": _usual_fill(text_model),
        "leaves out what is not read": "yes" if text_model.network.facts.skips_unread else "no",
        "attention runs as": getattr(config, "_attn_implementation", "unknown"),
    }
    broken = False
    try:
        (cases,) = make_cases(text_model, [text_model.encode(*_read_by(text_model))], [None], reads=["gradients"])
        error = cases[0].rebuild_error()
        layers = cases[0].capture.attention
        block = text_model.network.anatomy.blocks[0]
        facts["layers and heads"] = f"{len(layers)} x {len(layers[0].probs)}, {block.order}-norm blocks"
        facts["decision is read at"] = POSITIONS.get(
            text_model.network.facts.decision_position or "", "the task's own position"
        )
        plain = plain_answer(text_model)
        apart = cases[0].parts_error()
        drift = ((cases[0].logits - plain).abs().max() / plain.abs().max()).item()
        broken = not max(error, apart, drift) < TOLERANCE
        facts["blocks rebuilt from their parts"] = _verdict(error, "NOT what the model computes")
        facts["attention as a sum over tokens"] = _verdict(apart, "the parts do NOT sum back to the whole")
        facts["answers while being recorded"] = _verdict(drift, "NOT what the model answers")
    except WherefromError as problem:
        facts["attention"] = str(problem)
    tried: dict[str, str | None] = {}
    rows = all_methods()
    text, *second = _read_by(text_model)
    example = (text, second[0]) if second else text
    for number, row in enumerate(rows):
        if progress is not None:
            progress(number, len(rows))
        try:
            explanation = model.explain(example, row.name)
            tried[row.name] = None
            if ONLY_ROUNDING_NOTE in explanation.notes:
                facts["input_x_gradient"] = ONLY_ROUNDING_NOTE
        except WherefromError as problem:
            tried[row.name] = str(problem)
    facts |= _randomisation(model, example)
    return {"facts": facts, "methods": tried, "broken": broken}


def _randomisation(model: Model, example: Any) -> dict[str, str]:
    """How much of the default method's explanation is left when the weights are shuffled."""
    name = "left when weights are shuffled"
    try:
        explanation = model.explain(example)
        ((grade,),) = model.evaluate(explanation, ["randomisation"], progress=False).grades
    except WherefromError as problem:
        return {name: str(problem)}
    if grade.value is None:
        return {name: f"not measured for {explanation.method}: {grade.why}"}
    verdict = "as it should be" if grade.value < SURVIVES else "the explanation survives: do not rely on it"
    return {name: f"rank correlation {grade.value:.2f} of {explanation.method} with itself before, {verdict}"}


def relevance_by_layer(model: Model) -> dict[str, Any]:
    """Plain data: how much relevance arrives at every block, at the words, and which operations lose or make any (by
    the z+ rules).
    """
    text_model = model.text_model
    (cases,) = make_cases(text_model, [text_model.encode(*_read_by(text_model))], [None])
    trace: list[Operation] = []
    case = cases[0]
    sums = [part.sum().item() for part in case.relevance("zplus", "blocks", double=True, trace=trace)]
    changed = max(
        (case.passes.forward("relevance_double").logits - text_model.run(case.passes.batch.inputs, case.own_count))
        .abs()
        .max()
        .item(),
        0.0,
    )
    leaks = [o for o in trace if abs(o.entering - o.leaving) > LEAK]
    return {
        "layers": sums[:-1],
        "output": sums[-1],
        "words": case.relevance("zplus", "words", double=True)[0].sum().item(),
        "logits changed by": changed,
        "leaks": [{"layer": o.layer, "operation": o.name, "entering": o.entering, "leaving": o.leaving} for o in leaks],
        "broken": bool(leaks) or changed > TOLERANCE * case.logits.abs().max().item(),
    }
