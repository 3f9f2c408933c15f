"""The requests of the page. Modules that import torch are imported on first use, so that the page appears at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from wherefrom.errors import BadOption
from wherefrom.explorer.app import answered, refusal, streamed
from wherefrom.explorer.loading import Shelf
from wherefrom.explorer.questions import (
    CodeQuestion,
    CurveQuestion,
    ExplainingQuestion,
    GeneratingQuestion,
    HeadsQuestion,
    HidingQuestion,
    SourcesQuestion,
    TextQuestion,
    ValidationError,
    WithoutQuestion,
)

if TYPE_CHECKING:
    from wherefrom.explorer.service import ModelService


def add_routes(app: FastAPI, shelf: Shelf) -> None:
    limits = shelf.limits

    def service_for(question: TextQuestion) -> ModelService:
        """The service of the model that a question is about. Raises where the text is too long."""
        limits.check_text(question.said, question.pair)
        return shelf.service(question.model)

    def service_for_sources(question: SourcesQuestion) -> ModelService:
        texts = [question.question, question.answer or "", *(passage.text for passage in question.passages)]
        limits.check_passages(sum(map(len, texts)))
        return shelf.service(question.model)

    def source_of(model: int) -> str:
        source = shelf.models[model].source
        return source if isinstance(source, str) else "MODEL"

    @app.post("/api/read")
    async def _read(question: TextQuestion) -> Response:
        service = service_for(question)
        from wherefrom.explorer.hiding import reading

        return await answered(service, reading(service, question))

    @app.post("/api/hide")
    async def _hide(request: Request) -> Response:
        try:  # without FastAPI's validation, which takes longer than a click may
            question = HidingQuestion.model_validate(json.loads(await request.body()))
        except ValidationError:
            raise
        except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, thousands of digits or of brackets
            raise BadOption("The request is no JSON that can be read.") from error
        service = service_for(question)
        from wherefrom.explorer.hiding import hiding

        return await answered(service, hiding(service, question))

    @app.post("/api/explain")
    async def _explain(request: Request, question: ExplainingQuestion) -> Response:
        limits.check_methods(len(question.methods))
        service = service_for(question)
        from wherefrom.explorer.explaining import choose_method, explain_steps

        choices = [choose_method(spec) for spec in dict.fromkeys(question.methods)]
        return streamed(request, service, explain_steps(service, question, choices))

    @app.post("/api/curve")
    async def _curve(request: Request, question: CurveQuestion) -> Response:
        service = service_for(question)
        from wherefrom.explorer.explaining import choose_method, curve_steps

        return streamed(request, service, curve_steps(service, question, choose_method(question.method)))

    @app.post("/api/page")
    async def _page(request: Request, question: ExplainingQuestion) -> Response:
        limits.check_methods(len(question.methods))
        service = service_for(question)
        from wherefrom.explorer.explaining import choose_method, page_steps

        choices = [choose_method(spec) for spec in dict.fromkeys(question.methods)]
        return streamed(request, service, page_steps(service, question, choices))

    @app.post("/api/code")
    async def _code(question: CodeQuestion) -> Response:
        service = service_for(question)
        from wherefrom.explorer.code import code

        return await answered(service, code(service, question, source_of(question.model)))

    @app.post("/api/inside")
    async def _inside(request: Request, question: TextQuestion) -> Response:
        service = service_for(question)
        from wherefrom.explorer.inside import inside_steps

        return streamed(request, service, inside_steps(service, question))

    @app.post("/api/heads")
    async def _heads(question: HeadsQuestion) -> Response:
        service = service_for(question)
        from wherefrom.explorer.hiding import without_heads

        return await answered(service, without_heads(service, question))

    @app.post("/api/generate")
    async def _generate(request: Request, question: GeneratingQuestion) -> Response:
        service = service_for(question)
        from wherefrom.explorer.generating import generate_steps

        return streamed(request, service, generate_steps(service, question))

    @app.post("/api/sources")
    async def _sources(request: Request, question: SourcesQuestion) -> Response:
        service = service_for_sources(question)
        from wherefrom.explorer.sources import sources_steps

        return streamed(request, service, sources_steps(service, question))

    @app.post("/api/sources/without")
    async def _without(question: WithoutQuestion) -> Response:
        service = service_for_sources(question)
        from wherefrom.explorer.sources import without

        return await answered(service, without(service, question))

    @app.post("/api/sources/page")
    async def _sources_page(request: Request, question: SourcesQuestion) -> Response:
        service = service_for_sources(question)
        from wherefrom.explorer.sources import page_steps

        return streamed(request, service, page_steps(service, question))

    @app.post("/api/sources/code")
    async def _sources_code(question: WithoutQuestion) -> Response:
        service = service_for_sources(question)
        from wherefrom.explorer.sources import code

        return await answered(service, code(service, question, source_of(question.model)))

    @app.get("/api/runs/{number}")
    async def _run(number: int) -> Response:
        if not 0 <= number < len(shelf.runs):
            return refusal(404, f"There is no run {number + 1}.")
        return JSONResponse(shelf.runs[number].data)
