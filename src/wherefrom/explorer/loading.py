"""The models and runs that were named at the start. They are loaded while the page is shown already; nothing else is
ever loaded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherefrom import __version__
from wherefrom.errors import WherefromError
from wherefrom.explorer.limits import Limits
from wherefrom.explorer.questions import SOURCE_METHODS
from wherefrom.registry import listed
from wherefrom.samples import sample_path

if TYPE_CHECKING:  # these bring torch, which the first page need not wait for
    from wherefrom.explorer.runs import ShownRun
    from wherefrom.explorer.service import ModelService
    from wherefrom.model.text_model import TextModel

FIRST_METHODS = ("attn_lrp", "integrated_gradients", "occlusion", "gae", "random")
FILLS = ("mask", "unk", "pad", "eos")
EXAMPLES = 6  # of every kind
# A question to begin with, and the passages that it is answered from.
ASKED = {
    "question": "Tell me about the library of Elmsford.",
    "passages": [
        {
            "name": "library",
            "text": "The town library of Elmsford opened in 1962. It was designed by Clara Voss, who also built the"
            " station. It has two floors and a reading room.",
        },
        {"name": "town", "text": "Elmsford lies on the river Tarn. The town has 4,000 inhabitants."},
    ],
}


class NotReady(WherefromError):
    """The model is not loaded yet."""


@dataclass(eq=False)
class ShelvedModel:
    """A model that was named, and what runs it once it is loaded."""

    source: Any  # what `wherefrom.load` takes
    name: str
    service: ModelService | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def load_source(
    source: Any, *, labels: Sequence[str] | None = None, template: str | None = None, multi_label: bool = False
) -> TextModel:
    """labels: candidates for models of entailment, as `wherefrom.load` takes them."""
    from wherefrom.case.recognise import recognised
    from wherefrom.model.loading import load_model

    return recognised(load_model(source, labels=labels, template=template, several=multi_label))


class Shelf:
    """All models and runs of a server."""

    def __init__(
        self,
        sources: Sequence[Any] = ("embedded",),
        runs: Sequence[Path] = (),
        *,
        limits: Limits | None = None,
        load: Callable[[Any], TextModel] = load_source,
        failed: Callable[[Exception], None] = lambda _: None,
        patience: float = 0.0,
    ) -> None:
        """patience: seconds to wait for the page before anything is loaded. Importing torch would delay the page."""
        self.limits = limits or Limits()
        self.models = [ShelvedModel(source, name_of(source)) for source in sources]
        self.runs: list[ShownRun] = []
        self._folders, self._load, self._failed = list(runs), load, failed
        self._thread = threading.Thread(target=self._load_all, name="wherefrom-loading", daemon=True)
        self._methods: list[dict[str, Any]] = []
        self.ready = threading.Event()
        self._patience, self._shown = patience, threading.Event()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.join(timeout=60)
        for model in self.models:
            if model.service is not None:
                model.service.close()

    def _load_all(self) -> None:
        self._shown.wait(self._patience)
        try:
            from wherefrom.explorer.service import ModelService

            for model in self.models:
                loaded = self._load(model.source)
                service = ModelService(loaded, self.limits)
                model.facts, model.service = model_facts(loaded), service
            if self._folders:
                from wherefrom.explorer.runs import ShownRun

                self.runs = [ShownRun.read(folder) for folder in self._folders]
            self.ready.set()
            self._methods = method_rows()
        except Exception as error:
            self._failed(error)

    def service(self, number: int) -> ModelService:
        if number >= len(self.models):
            raise WherefromError(f"There is no model {number + 1}: {len(self.models)} were named at the start.")
        service = self.models[number].service
        if service is None:
            raise NotReady(f"{self.models[number].name} is still loading.")
        return service

    def data(self) -> dict[str, Any]:
        """The state that the page starts with, before and after the models are loaded. A request for it means that a
        page is open.
        """
        self._shown.set()
        return {
            "version": __version__,
            "ready": self.ready.is_set(),
            "complete": bool(self._methods),  # whether the methods have their options
            "models": [{"name": model.name, "ready": model.service is not None} | model.facts for model in self.models],
            "methods": self._methods or [{"name": row.name, "family": row.get("family")} for row in listed("method")],
            "first_methods": list(FIRST_METHODS),
            "source_methods": list(SOURCE_METHODS),
            "runs": [run.name for run in self.runs],
            "limits": {
                "characters": self.limits.characters,
                "methods": self.limits.methods,
                "passages": self.limits.passages,
                "generated": self.limits.generated,
            },
        }


def name_of(source: Any) -> str:
    """A model's name for the page: of a folder its last part, because the page shows no paths."""
    if not isinstance(source, str):
        return "model"
    return Path(source).name or source if Path(source).exists() else source


def model_facts(model: TextModel) -> dict[str, Any]:
    """What the page has to know of a loaded model."""
    from wherefrom.core.labels import visible

    task, tokenizer = model.task, model.reading.tokenizer
    return {
        "task": task.name,
        "labels": [visible(label) for label in model.labels[:200]] if task.has_labels else [],
        "independent": task.has_labels and model.independent,
        "values": task.has_labels and model.regression,
        "limit": model.reading.limit,
        "mask": tokenizer.mask_token,
        "fills": ["delete", *(kind for kind in FILLS if getattr(tokenizer, f"{kind}_token_id", None) is not None)],
        "examples": examples_for(task.name, tokenizer.mask_token),
        "asked": ASKED if task.name == "causal_lm" else None,
        "chats": task.name == "causal_lm" and bool(tokenizer.chat_template),
    }


def method_rows() -> list[dict[str, Any]]:
    """Every method: its family, what it means, and the options that the page may set."""
    from wherefrom.explorer.explaining import simple_options
    from wherefrom.registry import find_method

    return [
        {
            "name": row.name,
            "family": row.get("family"),
            "summary": row.summary,
            "slow": bool(row.get("slow")),
            "options": simple_options(find_method(row.name)),
        }
        for row in listed("method")
    ]


def examples_for(task: str, mask: str | None) -> list[dict[str, str | None]]:
    """Texts to begin with, for what a model was made for."""
    if task == "question_answering":
        return [{"text": row["question"], "pair": row["context"]} for row in _sample("questions")]
    if task == "similarity":
        return [{"text": row["premise"], "pair": row["hypothesis"]} for row in _sample("pairs")]
    if task == "masked_lm":
        written = ("The film was {} and the acting was fine.", "The capital of France is {}.", "She {} the book again.")
        return [{"text": text.format(mask), "pair": None} for text in written]
    if task == "token_classification":
        tagged = ("Angela Merkel met Barack Obama in Berlin.", "Jane works for Siemens in Munich and lives in Paris.")
        return [{"text": text, "pair": None} for text in tagged]
    if task == "causal_lm":
        written = ("The film was so good that", "The capital of France is", "Once upon a time there was")
        return [{"text": text, "pair": None} for text in written]
    first = {"text": "A gorgeous, witty film, but the plot drags and the ending is a mess.", "pair": None}
    return [first, *({"text": row["text"], "pair": None} for row in _sample("reviews"))]


def _sample(name: str) -> list[dict[str, Any]]:
    lines = sample_path(name).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return rows[:: max(1, len(rows) // EXAMPLES)][:EXAMPLES]
