"""A server that speaks the protocol of OpenAI's completions over a model in this process, with echo and logprobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from wherefrom.api import Model


@dataclass
class Served:
    """The model, and how the server behaves: set by a test, and by nobody else."""

    model: Model
    names: list[str] = field(default_factory=lambda: ["tiny"])
    key: str | None = None
    fault: str = ""
    prompts: list[str] = field(default_factory=list)  # that were scored
    base: str = ""

    def answer(self, body: dict[str, Any]) -> Response | dict[str, Any]:
        """What a completions endpoint answers."""
        if self.fault == "slow":
            time.sleep(1.0)
        if self.fault == "text":
            return PlainTextResponse("hello")
        if self.fault == "elsewhere":
            return RedirectResponse("http://127.0.0.1:9/v1/completions", 307)
        if self.fault == "broken":
            return JSONResponse({"error": {"message": f"out of memory {self.key}"}}, 500)
        if self.fault == "long":
            return JSONResponse({"error": {"message": "the prompt is too long"}}, 400)
        words, network = self.model.text_model.reading.tokenizer, self.model.text_model.network.module
        prompt = body["prompt"]
        read = words(prompt, add_special_tokens=False, return_offsets_mapping=True)
        ids, given = list(read["input_ids"]), len(read["input_ids"])
        with torch.no_grad():
            for _ in range(body["max_tokens"]):
                ids.append(int(network(torch.tensor([ids])).logits[0, -1].argmax()))
                if ids[-1] == words.eos_token_id:
                    ids.pop()
                    break
            table = network(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        written = words.decode(ids[given:])
        choice: dict[str, Any] = {"text": f" {written}"}
        if body.get("echo"):
            self.prompts.append(prompt)
            starts = [start for start, _ in read["offset_mapping"]] + [len(prompt)] * (len(ids) - given)
            ends = [*starts[1:], len(prompt) + 1]
            own = [None, *(float(table[place, token]) for place, token in enumerate(ids[1:]))]
            top = [None, *({"top": float(row.max()), "own": value} for row, value in zip(table, own[1:], strict=False))]
            if self.fault == "shifted":
                own, top = [*own[1:], -9.0], [*top[1:], {"top": -1.0}]
            choice["logprobs"] = {
                "tokens": [(prompt + "~")[a:b] for a, b in zip(starts, ends, strict=True)],
                "text_offset": starts,
                "token_logprobs": own,
                "top_logprobs": top,
            }
        if self.fault == "no logprobs":
            choice["logprobs"] = None
        return {"choices": [choice], "usage": {"prompt_tokens": given, "completion_tokens": len(ids) - given}}


@contextmanager
def completions_server(model: Model) -> Iterator[Served]:
    """Such a server on a free port of this machine."""
    served, app = Served(model), FastAPI()

    @app.get("/v1/models")
    def models() -> Any:
        return {"data": [{"id": name, "max_model_len": 200} for name in served.names]}

    @app.post("/v1/completions")
    def completions(request: Request, body: dict[str, Any]) -> Any:
        if served.key is not None and request.headers.get("authorization") != f"Bearer {served.key}":
            return JSONResponse({"error": {"message": f"{request.headers.get('authorization')} is wrong"}}, 401)
        return served.answer(body)

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        served.base = f"http://127.0.0.1:{port}/v1"
        yield served
    finally:
        server.should_exit = True
        thread.join()
