"""The continuation of a language model, token by token, and the request that explains each of them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from wherefrom.core.encoding import Encoding
from wherefrom.core.labels import visible
from wherefrom.errors import BadOption
from wherefrom.explorer.questions import GeneratingQuestion
from wherefrom.explorer.service import ModelService, PlainData
from wherefrom.model.network import padded_inputs

GENERATES = "causal_lm"


def generate_steps(service: ModelService, question: GeneratingQuestion) -> Iterator[PlainData]:
    """The likeliest token, again and again. Each comes with the text before it: the model's decision is explained
    there.
    """
    model = service.model
    if model.task.name != GENERATES:
        raise BadOption("Only a causal language model continues a text.")
    encoding = service.read(question)
    if encoding.cut:
        raise BadOption(f"The text is longer than the {model.reading.limit} tokens that the model reads.")
    ids = list(encoding.input_ids)
    start = model.reading.decode(ids)
    given = before = question.text if question.messages is None else question.begun
    for _ in range(min(question.count, service.limits.generated)):
        if model.reading.limit is not None and len(ids) >= model.reading.limit:
            return
        with torch.no_grad():
            logits = model.run(padded_inputs(model.network, [ids], [None]))[0]
        token = int(logits.argmax())
        if token == model.reading.tokenizer.eos_token_id:
            yield {"end": True}
            return
        ids.append(token)
        after = given + model.reading.decode(ids)[len(start) :]
        yield {
            "token": {
                "id": token,
                "text": visible(after[len(before) :] or str(model.reading.tokenizer.convert_ids_to_tokens(token))),
                "probability": float(logits.double().softmax(-1)[token]),
                "before": before,
                # A text that is cut into other tokens than those that were generated is another question.
                "exact": _read_again(service, question, before).input_ids == tuple(ids[:-1]),
            }
        }
        before = after


def _read_again(service: ModelService, question: GeneratingQuestion, before: str) -> Encoding:
    """The text up to a token, or the chat with the answer up to it."""
    changed = {"text": before} if question.messages is None else {"begun": before}
    return service.read(question.model_copy(update=changed))
