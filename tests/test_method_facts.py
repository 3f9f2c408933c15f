"""Facts that methods declare about themselves, which lower layers read instead of the methods' names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_imports import ORDER, modules, package

from wherefrom.catalogue import catalogue, floor_method
from wherefrom.core.names import join_names, read_names
from wherefrom.errors import BadOption
from wherefrom.registry import all_methods, auto_methods, find_method, methods_in, methods_reading

BELOW = ORDER[: ORDER.index("methods")]
# The same word for something else: torch.cat, a block's norms, and the thresholds of the ALTI paper. The package
# optimus may name the method that is built on it.
OTHER_MEANINGS = {
    ("model.relevance.rules", "cat"),
    ("case.forward", "norms"),
    ("metrics.comprehensiveness", "alti"),
    ("metrics.sufficiency", "alti"),
    ("optimus.grades", "optimus"),
}
# Names that are also English words, which a message may contain.
WORDS = {"best", "cat", "lime", "norms", "optimus", "random"}


def test_the_sets_of_methods() -> None:
    default = ("attention_rollout", "attcat", "integrated_gradients", "alti", "gae", "attn_lrp", "occlusion", "random")
    assert methods_in("compare") == default
    assert methods_in("candidates") == (
        *("optimus", "attcat", "integrated_gradients", "alti"),
        *("gae", "cp_lrp", "attn_lrp", "occlusion"),
    )
    assert methods_in("light") == ("saliency", "integrated_gradients", "attn_lrp", "occlusion")
    assert methods_in("no such set") == ()


def test_what_a_method_costs() -> None:
    rows = {row.name: row for row in all_methods() if row.function.__module__.startswith("wherefrom.")}
    several_passes = {"attcat", "cam", "gradcam", "optimus", "best"}
    assert {name for name, row in rows.items() if not row.one_pass} == several_passes
    assert {name for name, row in rows.items() if row.slow} == {"attention_flow", "kernel_shap", "lime", "best"}
    assert {name for name, row in rows.items() if row.scores_units} == {
        *("occlusion", "kernel_shap", "lime", "optimus", "best")
    }


def test_what_explains_where_no_method_is_named() -> None:
    assert auto_methods("classification") == ("attn_lrp", "integrated_gradients", "occlusion")
    assert auto_methods("a task of another package") == auto_methods("classification")
    assert auto_methods("seq2seq") == ("saliency", "occlusion")


def test_no_two_methods_share_a_place() -> None:
    places = [place for row in catalogue("method").values() for place in row.get("sets", {}).items()]
    assert len(places) == len(set(places))


def test_methods_by_what_they_read() -> None:
    assert methods_reading("answers") == ("kernel_shap", "lime", "occlusion")
    assert methods_reading("embeddings", "path") == ("input_x_gradient", "integrated_gradients", "saliency")


def test_the_floor_knows_nothing() -> None:
    assert floor_method() == "random"
    assert find_method(floor_method()).reads == "nothing"


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["alti"], "alti"), (["alti", "gae"], "alti or gae"), (["alti", "gae", "cam"], "alti, gae or cam")],
)
def test_names_in_a_sentence(names: list[str], expected: str) -> None:
    assert join_names(names, "or") == expected


def test_names_from_the_user() -> None:
    assert read_names("alti, gae,", "Methods") == read_names(("alti", " gae ", ""), "Methods") == ["alti", "gae"]
    for wrong in (3, [3], ["alti", None]):
        with pytest.raises(BadOption, match="Methods are given by their names"):
            read_names(wrong, "Methods")


def literals(path: Path) -> Iterator[str]:
    """The strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    homes = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, homes) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def named(text: str) -> set[str]:
    """The methods that a string names: the string itself, or a word in it that is nothing but a method's name."""
    names = set(catalogue("method"))
    words = {word.strip(".,:;()'\"`") for word in text.split()} - WORDS
    return names & {text, *words}


def test_no_method_is_named_below_the_methods() -> None:
    found = {
        (module, name)
        for module, path in modules().items()
        if package(module) in BELOW
        for text in literals(path)
        for name in named(text)
    }
    assert found - OTHER_MEANINGS == set()
