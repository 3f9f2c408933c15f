"""What the documentation says of the code is so: tables, links, paths and Python."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from tiny_models import make_model, make_network, tokenizer
from toys import additive_model, case_of

import wherefrom
from wherefrom import registry
from wherefrom.model import anatomy
from wherefrom.model.families import Family, known_types
from wherefrom.registry import all_methods, all_metrics, options_of

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
METHODS_PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))
OURS = [row for row in all_methods() if row.function.__module__.startswith("wherefrom.")]


def read(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str | Path, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.DOTALL | re.MULTILINE)


def prose(page: str | Path) -> str:
    return re.sub(r"^```.*?^```$", "", read(page), flags=re.DOTALL | re.MULTILINE)


def table(page: str, first: str) -> dict[str, dict[str, str]]:
    """The rows of the table whose first heading is this, by their first cell."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in read(page).splitlines()
        if line.startswith("|")
    ]
    start = next(number for number, cells in enumerate(lines) if cells[0] == first)
    found = {}
    for cells in lines[start + 2 :]:
        if len(cells) != len(lines[start]) or not cells[0].startswith("`"):
            break
        found[cells[0].strip("`")] = dict(zip(lines[start], cells, strict=True))
    return found


def test_the_readme_lists_every_method_as_the_registry_knows_it() -> None:
    listed = table("README.md", "method")
    said = {name: (row["family"], row["signed"], row["per class"], row["paper"]) for name, row in listed.items()}
    word = {True: "yes", False: "no"}
    assert said == {row.name: (row.family, word[row.signed], word[row.per_class], row.paper) for row in OURS}
    assert all(row["what a token's score means"] for row in listed.values())


def test_every_method_has_a_section_that_names_its_options() -> None:
    sections = sections_of(METHODS_PAGES)
    for row in OURS:
        assert row.name in sections
        for option in options_of(row.function):
            assert f"`{option}`" in sections[row.name], (row.name, option)


AGAINST = {
    None: "the model",
    "others": "other classes",
    "rationale": "a rationale",
    "answer": "an answer",
    "second": "another model",
}


def test_the_readme_lists_every_metric_as_the_registry_knows_it() -> None:
    listed = table("README.md", "metric")
    said = {name: (row["better"], row["fill"], row["measured against"]) for name, row in listed.items()}
    ours = [row for row in all_metrics() if row.function.__module__.startswith("wherefrom.")]
    against = {row.name: "nothing" if row.needs is None and row.fill is None else AGAINST[row.needs] for row in ours}
    assert said == {row.name: (row.better, row.fill or "-", against[row.name]) for row in ours}
    assert all(row["what it says"] for row in listed.values())
    sections = sections_of(sorted((ROOT / "docs" / "metrics").glob("*.md")))
    for row in ours:
        for option in options_of(row.function):
            assert f"`{option}`" in sections[row.name], (row.name, option)


def test_the_metric_that_is_added_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._found, "metric", dict(registry._found["metric"]))
    written, flips, test = blocks("docs/add-a-metric.md")
    imported(written, tmp_path / "top_half.py", monkeypatch)
    assert registry.find_metric("top_half").summary.startswith("Top half: how far")
    names: dict[str, Any] = {}
    exec(test, names)
    names["test_top_half_by_hand"]()
    imported(flips, tmp_path / "decision_flip.py", monkeypatch)
    model = wherefrom.Model(additive_model(good=2.0, bad=1.5, film=-1.0))  # without "good" 0.5, without "bad" too -1.0
    (grades,) = model.compare("good bad film", ["input_x_gradient"], ["decision_flip:fill=unk"], target=1).grades
    assert grades[0].value == pytest.approx(2 / 3)


def sections_of(pages: list[Path]) -> dict[str, str]:
    text = "\n".join(map(read, pages))
    return dict(re.findall(r"^## (\w+)$\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))


def imported(source: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)


def test_the_readme_lists_every_family() -> None:
    found = re.search(r"transformers' `model_type`\): (.*?)\.", read("README.md"), re.DOTALL)
    assert found is not None
    assert found[1].replace("\n", " ").split(", ") == known_types()


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", NAMES)
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        goal = (ROOT / page).parent / path if path else ROOT / page
        assert goal.exists(), link
        if anchor:
            assert anchor in [slug(heading) for heading in re.findall(r"^#+ (.+)$", prose(goal), re.MULTILINE)], link


@pytest.mark.parametrize("page", NAMES)
def test_files_that_are_named_exist(page: str) -> None:
    for path in re.findall(r"`((?:src|tests|docs|benchmarks)(?:/[\w.-]+)*)`", prose(page)):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", NAMES)
def test_no_placeholder_is_left(page: str) -> None:
    assert "{{" not in read(page)


@pytest.mark.parametrize("page", NAMES)
def test_python_is_python(page: str) -> None:
    for block in blocks(page):
        ast.parse(block)


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A small random model in the embedded one's place: the same labels, and quicker."""
    network = make_network("bert", labels=2, id2label={0: "NEGATIVE", 1: "POSITIVE"})
    load = wherefrom.load

    def load_small(source: Any = "embedded") -> wherefrom.Model:
        return load((network, tokenizer()) if source == "embedded" else source)

    monkeypatch.setattr(wherefrom, "load", load_small)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("page", ["README.md", "docs/why.md", "docs/metrics/index.md"])
def test_python_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks(page):
        exec(block, names)
    assert capsys.readouterr().out


def test_the_walk_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("docs/walk-of-a-sentence.md")[-1], {})
    assert "PassCount(forwards=1, backwards=1)" in capsys.readouterr().out


def test_the_method_that_is_added_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._found, "method", dict(registry._found["method"]))
    written, second, test = blocks("docs/add-a-method.md")
    for number, source in enumerate((written, second)):
        imported(source, tmp_path / f"added_{number}.py", monkeypatch)
    assert registry.find_method("alone").summary.startswith("Alone: what the score gains")
    names: dict[str, Any] = {}
    exec(test, names)
    names["test_alone_recovers_known_weights"]()
    received = wherefrom.load((make_network("bert"), tokenizer())).explain("a fine film", "attention_received")
    assert received.layers is not None
    assert [sum(layer) for layer in received.layers] == pytest.approx([1, 1, 1], rel=1e-5)


def test_the_family_that_is_added_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    row: Family = eval(blocks("docs/add-a-family.md")[1], {"Family": Family})
    line = re.search(r'`"phi": (.*),`', read("docs/add-a-family.md"))
    assert line is not None
    monkeypatch.setitem(tiny_models.CONFIGS, "phi", eval(line[1], {"SIZES": tiny_models.SIZES}))
    monkeypatch.setattr(anatomy, "family_of", {"phi": row}.get)
    case = case_of(make_model("phi", dtype=torch.float64), "the film was not bad")
    assert case.rebuild_error() < 1e-12
    slopes = case.gradients.hidden[-1].norm(dim=-1)
    torch.testing.assert_close((slopes > 0).double(), case.read(torch.eye(len(slopes), dtype=torch.float64)))
