"""Classifiers of other libraries are loaded as functions, with the packages themselves where they are installed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import make_network, tokenizer

import wherefrom
from wherefrom.errors import BadOption, WrongModel

TEXTS = ["a good film", "a bad film", "a great plot", "a dull plot"]
KINDS = ["POSITIVE", "NEGATIVE", "POSITIVE", "NEGATIVE"]


def test_a_scikit_learn_pipeline() -> None:
    text, linear, pipeline = (
        import_module(f"sklearn.{name}") for name in ("feature_extraction.text", "linear_model", "pipeline")
    )
    made = pipeline.make_pipeline(text.CountVectorizer(), linear.LogisticRegression()).fit(TEXTS, KINDS)
    model = wherefrom.load(made)
    assert model.labels == ["NEGATIVE", "POSITIVE"]
    e = model.explain("a good film", "occlusion")
    assert (e.target, e.top(1)[0].text) == ("POSITIVE", "good")
    assert e.probability == pytest.approx(made.predict_proba(["a good film"])[0, 1])


@pytest.mark.parametrize("kind", ["textcat", "textcat_multilabel"])
def test_a_spacy_pipeline(kind: str) -> None:
    nlp = import_module("spacy").blank("en")
    pipe = nlp.add_pipe(kind)
    for label in ("NEGATIVE", "POSITIVE"):
        pipe.add_label(label)
    nlp.initialize()
    model = wherefrom.load(nlp)
    assert model.labels == ["NEGATIVE", "POSITIVE"]
    e = model.explain("a good film", "occlusion", target="POSITIVE")
    assert e.probability == pytest.approx(nlp("a good film").cats["POSITIVE"], abs=1e-5)
    assert e.independent == (kind == "textcat_multilabel")
    with pytest.raises(WrongModel, match="0 text categorizers"):
        wherefrom.load(import_module("spacy").blank("en"))


class SetFitModel:
    """As SetFit's, which is itself callable and gives labels then."""

    labels = ("bad", "good")

    def __call__(self, texts: list[str]) -> list[str]:
        return [self.labels[int("good" in text)] for text in texts]

    def predict_proba(self, texts: list[str]) -> torch.Tensor:
        return torch.tensor([[0.2, 0.8] if "good" in text else [0.7, 0.3] for text in texts])


def test_setfit(tmp_path: Path) -> None:
    model = wherefrom.load(SetFitModel())
    e = model.explain("a good film", "occlusion")
    assert (model.labels, e.target, e.top(1)[0].text) == (["bad", "good"], "good", "good")
    (tmp_path / "config_setfit.json").write_text("{}")
    with pytest.raises(WrongModel, match=r"is a SetFit model.*SetFitModel\.from_pretrained"):
        wherefrom.load(str(tmp_path))


def test_encoders_that_are_no_plain_transformer() -> None:
    """What SPLADE and ColBERT have in sentence-transformers."""

    def encode(texts: list[str], show_progress_bar: bool) -> np.ndarray:
        assert not show_progress_bar
        return np.array([[("film" in text), ("plot" in text)] for text in texts], dtype=float)

    def pairwise(one: np.ndarray, two: np.ndarray) -> torch.Tensor:
        return torch.tensor((one * two).sum(1))

    methods = {"encode_query": encode, "encode_document": encode, "similarity_pairwise": pairwise}
    encoder = type("SparseEncoder", (SimpleNamespace,), {})(**methods)
    e = wherefrom.load(encoder).explain(("a film", "the film and plot"), "occlusion")
    assert e.value == pytest.approx(1.0)
    assert {unit.text for unit in e.top(2)} == {"film"}
    with pytest.raises(BadOption, match="compares two texts"):
        wherefrom.load(encoder).explain("a film", "occlusion")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bert")
    make_network("bert", labels=1).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return str(path)


def test_sentence_transformers_itself(folder: str) -> None:
    library: Any = pytest.importorskip("sentence_transformers")
    pair = ("the film was good", "a very fine movie")
    reranker = library.CrossEncoder(folder, device="cpu", local_files_only=True)
    e = wherefrom.load(reranker).explain(pair, "occlusion")
    assert e.output == pytest.approx(float(reranker.predict([pair])[0]), abs=1e-4)
    encoder = library.SentenceTransformer(folder, device="cpu", local_files_only=True)
    e = wherefrom.load(encoder).explain(pair, "occlusion")
    one, two = encoder.encode(list(pair), convert_to_tensor=True)
    assert e.value == pytest.approx(float(torch.cosine_similarity(one, two, dim=0)), abs=1e-4)
