"""Classifiers of other libraries as functions of texts: scikit-learn and SetFit by `predict_proba`, spaCy's text
categorizers, and encoders of sentence-transformers that are no plain transformer with a pooling. None of these packages
is imported: an object is known by what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from wherefrom.errors import BadOption, WrongModel

CATEGORIZERS = {"textcat": "probabilities", "textcat_multilabel": "independent"}  # spaCy's, and what they give
ENCODERS = ("SparseEncoder", "MultiVectorEncoder")  # SPLADE and ColBERT


class AdaptedFunction(NamedTuple):
    """A function of a list of texts, the names of its columns, and what its numbers are; None where it shows."""

    function: Callable[[list[Any]], Any]
    labels: list[str] | None = None
    outputs: str | None = None


def as_function(source: Any) -> AdaptedFunction | None:
    """The function that answers for an object of another library; None for anything that is loaded otherwise."""
    if isinstance(source, str | type):
        return None
    if hasattr(source, "predict_proba") and not isinstance(source, nn.Module):
        labels = getattr(source, "labels", None)  # SetFit's; scikit-learn's classes are found by the method
        return AdaptedFunction(source.predict_proba, None if labels is None else [str(label) for label in labels])
    if hasattr(source, "pipe_names") and hasattr(source, "pipe_labels"):
        return _of_spacy(source)
    kinds = [cls.__name__ for cls in type(source).__mro__]
    if any(name in kinds for name in ENCODERS):
        return AdaptedFunction(_similarity(source), ["similarity"], "values")
    if "CrossEncoder" in kinds and isinstance(source, nn.Module) and len(list(source.children())) > 1:
        reranker: Any = source
        return AdaptedFunction(lambda pairs: reranker.predict(pairs, show_progress_bar=False), ["score"], "values")
    return None


def _of_spacy(source: Any) -> AdaptedFunction:
    """A pipeline whose documents have categories."""
    found = [name for name in source.pipe_names if source.get_pipe_meta(name).factory in CATEGORIZERS]
    if len(found) != 1:
        raise WrongModel(
            f"This spaCy pipeline has {len(found)} text categorizers ({', '.join(source.pipe_names) or 'no pipes'});"
            " Wherefrom explains one. Give a function: wherefrom.load(lambda texts: ...)."
        )
    labels = list(source.pipe_labels[found[0]])

    def categories(texts: list[Any]) -> list[list[float]]:
        if not all(isinstance(text, str) for text in texts):
            raise BadOption("A spaCy pipeline reads one text, and no pair.")
        return [[doc.cats[label] for label in labels] for doc in source.pipe(texts)]

    return AdaptedFunction(categories, labels, CATEGORIZERS[source.get_pipe_meta(found[0]).factory])


def _similarity(source: Any) -> Callable[[list[Any]], Any]:
    """How alike an encoder finds the two texts of each pair."""

    def similarity(pairs: list[Any]) -> list[float]:
        if not all(isinstance(pair, tuple) for pair in pairs):
            raise BadOption("An encoder compares two texts: give (text, pair).")
        firsts, seconds = ([pair[place] for pair in pairs] for place in (0, 1))
        queries = source.encode_query(firsts, show_progress_bar=False)
        documents = source.encode_document(seconds, show_progress_bar=False)
        found = source.similarity_pairwise(queries, documents)
        return [float(value) for value in found]

    return similarity
