"""What the documentation says of the code is so: tables, links, paths, names, commands and Python."""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import re
import shlex
import sys
import tomllib
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from rich.console import Console
from tiny_models import make_model, make_network, tokenizer
from toys import additive_model

import wherefrom
from wherefrom import registry
from wherefrom.cli import main as cli
from wherefrom.model import anatomy
from wherefrom.model.families import Family, known_types
from wherefrom.registry import all_families, all_methods, all_metrics, all_readers, options_of
from wherefrom.testing import check_family, check_method

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))
METHODS_PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))
OURS = [row for row in all_methods() if row.function.__module__.startswith("wherefrom.")]
all_metrics()  # all are registered before a test puts copies of the registry in its place


@pytest.fixture(autouse=True)
def registry_as_it_was() -> Iterator[None]:
    """What the Python of a page registers is forgotten after it, or other tests would meet it."""
    all_families(), all_readers()  # ours are registered first, or they would be forgotten, too
    before = {kind: dict(registry._known[kind]) for kind in ("family", "reader")}
    yield
    registry._known.update(before)


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


def test_the_table_lists_every_method_as_the_registry_knows_it() -> None:
    listed = table("docs/methods/index.md", "method")
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
    "edited": "edited texts",
    "randomised": "shuffled weights",
}


def test_the_table_lists_every_metric_as_the_registry_knows_it() -> None:
    listed = table("docs/metrics/index.md", "metric")
    said = {name: (row["better"], row["fill"], row["measured against"]) for name, row in listed.items()}
    ours = [row for row in all_metrics() if row.function.__module__.startswith("wherefrom.")]
    against = {row.name: "nothing" if row.needs is None and not row.asks else AGAINST[row.needs] for row in ours}
    assert said == {row.name: (row.better, row.fill or "-", against[row.name]) for row in ours}
    assert all(row["what it measures"] for row in listed.values())
    sections = sections_of(sorted((ROOT / "docs" / "metrics").glob("*.md")))
    for row in ours:
        for option in options_of(row.function):
            assert f"`{option}`" in sections[row.name], (row.name, option)


def test_the_metric_that_is_added_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._known, "metric", dict(registry._known["metric"]))
    written, flips, test, laws = blocks("docs/add-a-metric.md")
    imported(written, tmp_path / "top_half.py", monkeypatch)
    assert registry.find_metric("top_half").summary.startswith("Top half: how far")
    names: dict[str, Any] = {}
    exec(test + laws, names)
    names["test_top_half_by_hand"]()
    names["test_top_half_obeys_the_laws"]()
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


def test_every_family_is_listed() -> None:
    found = re.search(r"transformers' `model_type`\): (.*?)\.", read("docs/models.md"), re.DOTALL)
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


@cache
def members() -> dict[str, set[str]]:
    """What every class of ours has, by the class's name: methods, fields, and what its methods set on self."""
    found, bases = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] |= {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                found[node.name] |= set(_defined(node))
                found[node.name] |= {
                    inner.attr
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                }
    for name in found:
        waiting = set(bases[name])
        while waiting:
            base = waiting.pop()
            found[name] |= found.get(base, set())
            waiting |= bases.get(base, set())
    return dict(found)


def _defined(node: ast.AST) -> Iterator[str]:
    """The names that a module or class defines or imports, also under an `if`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield child.name
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.AnnAssign | ast.Assign):
            targets = [child.target] if isinstance(child, ast.AnnAssign) else child.targets
            yield from (inner.id for one in targets for inner in ast.walk(one) if isinstance(inner, ast.Name))
        elif isinstance(child, ast.If | ast.Try):
            yield from _defined(child)


def has(path: Path, name: str) -> bool:
    """Whether a module defines a name: a function, a constant, a class, or a member of a class (`Group.recorded`)."""
    first, _, rest = name.partition(".")
    if first not in _defined(ast.parse(path.read_text(encoding="utf-8"))):
        return False
    return not rest or rest.partition(".")[0] in members().get(first, set())


def exists(dotted: str) -> bool:
    """Whether `wherefrom.x.y.name` is a package, a module, or something in one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        home = ROOT.joinpath("src", *parts[:count])
        for path in (home.with_suffix(".py"), home / "__init__.py"):
            if path.is_file():
                return count == len(parts) or has(path, ".".join(parts[count:]))
    return False


# What pages call things in passing: `case.capture` is a property of a Case.
VARIABLES = {
    "case": "Case",
    "model": "Model",
    "e": "Explanation",
    "found": "Comparison",
    "flow": "Flow",
    "flip": "Flip",
}
# Groups of entry points, by which other packages bring their own; no modules of ours.
ENTRY_POINTS = ("wherefrom.commands", "wherefrom.families", "wherefrom.readers", "wherefrom.tasks")
FILE_ENDINGS = ("html", "json", "png")  # `flow.png` is no property of a flow


def names_in(text: str) -> Iterator[tuple[str, bool]]:
    """Every name of ours that a text gives in backticks with its home, and whether it exists."""
    for path, listed in re.findall(r"`((?:src|tests|benchmarks)/[\w/.-]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", text):
        for name in re.findall(r"`([\w.]+)`", listed):
            yield f"{path}: {name}", has(ROOT / path, name)
    for path, name in re.findall(r"`((?:src|tests|benchmarks)/[\w/.-]+\.py): ?([\w.]+)`", text):
        yield f"{path}: {name}", has(ROOT / path, name)
    for name, path in re.findall(r"`([\w.]+)` in `((?:src|tests|benchmarks)/[\w/.-]+\.py)`", text):
        yield f"{path}: {name}", has(ROOT / path, name)
    for dotted in re.findall(r"`(wherefrom(?:\.\w+)+)", text):
        yield dotted, dotted in ENTRY_POINTS or exists(dotted)
    for first, member in re.findall(r"`([A-Za-z]\w*)\.([a-z_]\w*)", text):
        name = VARIABLES.get(first, first)
        if name in members() and member not in FILE_ENDINGS:
            yield f"{name}.{member}", member in members()[name]


@pytest.mark.parametrize("page", NAMES)
def test_functions_that_are_named_exist(page: str) -> None:
    assert [name for name, there in names_in(prose(page)) if not there] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`src/wherefrom/registry.py`: `find_method`, `gone`", ["src/wherefrom/registry.py: gone"]),
        ("`src/wherefrom/registry.py: gone`", ["src/wherefrom/registry.py: gone"]),
        ("`gone` in `src/wherefrom/registry.py`", ["src/wherefrom/registry.py: gone"]),
        ("`src/wherefrom/core/explanation.py`: `Explanation.top`, `Explanation.gone`",
         ["src/wherefrom/core/explanation.py: Explanation.gone", "Explanation.gone"]),
        ("`wherefrom.load`, `wherefrom.core`, `wherefrom.core.flow.Flow.scores`, `wherefrom.gone`", ["wherefrom.gone"]),
        ("`Explanation.at`, `Model.explain(text)`, `Model.gone`, `e.gone()`", ["Model.gone", "Explanation.gone"]),
        ("`numpy.gone`, `flow.png`, `flow.gone`", ["Flow.gone"]),
    ],
)  # fmt: skip
def test_a_name_that_is_gone_is_noticed(text: str, missing: list[str]) -> None:
    assert [name for name, there in names_in(text) if not there] == missing


@pytest.mark.parametrize("page", NAMES)
def test_no_placeholder_is_left(page: str) -> None:
    assert "{{" not in read(page)


@pytest.mark.parametrize("page", NAMES)
def test_python_is_python(page: str) -> None:
    for block in blocks(page):
        ast.parse(block)


OWN_TESTS = {
    *(f"docs/add-a-{kind}.md" for kind in ("family", "method", "metric", "task")),
    "docs/walk-of-a-sentence.md",
}
# Lines of ```sh blocks that are not run: they set things up, or need data that is not shipped.
NOT_RUN = ("pip install ", "make ", "git ", ".venv/bin/", "python benchmarks/")
SMALLER = {"run": ("--limit", "2", "--workers", "1"), "optimus": ("--limit", "2"), "study": ("--limit", "2")}
PLACEHOLDERS = re.compile(r"\b(MODEL|DATA|DIR|TEXT)\b")


def steps(page: Path) -> Iterator[tuple[str, str]]:
    """What a reader would run, in the order of the page: ("python", a block) or ("sh", a line)."""
    if page.suffix == ".ipynb":
        for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield "python", "".join(cell["source"])
        return
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```$", read(page), re.DOTALL | re.MULTILINE):
        if language == "sh":
            yield from (("sh", line) for line in block.splitlines() if line.strip() and not line.startswith(NOT_RUN))
        elif str(page.relative_to(ROOT)) not in OWN_TESTS:
            yield language, block


def run_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of a shell, in this process: `wherefrom` with arguments, and < or > with a file."""
    words = shlex.split(line, comments=True)
    assert words[0] == "wherefrom", f"{line}: not a command of ours, and not in NOT_RUN"
    stdin, files = b"", {sign: words[words.index(sign) + 1] for sign in ("<", ">") if sign in words}
    for sign, name in files.items():
        words.remove(sign)
        words.remove(name)
    if "<" in files:
        stdin = Path(files["<"]).read_bytes()
    monkeypatch.setattr(sys, "argv", [*words, *SMALLER.get(words[1], ())])  # of an option given twice the last counts
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    errors = io.StringIO()
    monkeypatch.setattr(cli, "problems", Console(file=errors, highlight=False))
    code = 0
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        if ">" in files:
            stack.enter_context(redirect_stdout(stack.enter_context(Path(files[">"]).open("w", encoding="utf-8"))))
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    assert code == 0, f"{line}: exit code {code}, {errors.getvalue()}"


RUNNING = [str(page.relative_to(ROOT)) for page in [*PAGES, *NOTEBOOKS] if any(steps(page))]


@pytest.mark.parametrize("page", RUNNING)
def test_what_a_page_tells_to_run_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for kind, source in steps(ROOT / page):
        if kind == "python":
            exec(compile(source, page, "exec"), names)
        elif "build/tiny-phi" not in source:  # see the test of the family that is added
            run_command(source, monkeypatch)


@pytest.mark.parametrize("page", NAMES)
def test_commands_stand_in_blocks_that_are_run(page: str) -> None:
    """Unless they need what cannot be shipped, which is then written in capitals."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", read(page), re.DOTALL | re.MULTILINE):
        for line in block.splitlines() if language != "sh" else ():
            assert not line.startswith(("wherefrom ", "$ ")) or PLACEHOLDERS.search(line), line


def test_scripts_that_are_named_exist() -> None:
    for page in PAGES:
        for script in re.findall(r"python (benchmarks/\w+\.py)", read(page)):
            assert (ROOT / script).is_file(), (page, script)


def test_a_command_that_fails_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="exit code 2"):
        run_command("wherefrom sample revews", monkeypatch)
    with pytest.raises(AssertionError, match="not a command of ours"):
        run_command("curl somewhere", monkeypatch)
    run_command("wherefrom sample trees > trees.conllu  # a comment", monkeypatch)
    assert (tmp_path / "trees.conllu").read_text(encoding="utf-8").startswith("# sent_id")


def test_notebooks_are_kept_without_outputs() -> None:
    assert len(NOTEBOOKS) >= 2
    for page in NOTEBOOKS:
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), page


def test_the_readme_counts_methods_and_metrics_right() -> None:
    counted = re.search(r"(\d+) methods, and (\d+)\s+metrics", read("README.md"))
    assert counted is not None
    metrics = [row for row in all_metrics() if row.function.__module__.startswith("wherefrom.")]
    assert (int(counted[1]), int(counted[2])) == (len(OURS), len(metrics))


def test_every_extra_is_in_the_readme() -> None:
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    assert set(table("README.md", "extra")) - {"all"} == set(extras) - {"all", "dev", "docs"}


def test_the_walk_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("docs/walk-of-a-sentence.md")[-1], {})
    assert "PassCount(forwards=1, backwards=1)" in capsys.readouterr().out


def test_the_method_that_is_added_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._known, "method", dict(registry._known["method"]))
    written, second, test, laws = blocks("docs/add-a-method.md")
    for number, source in enumerate((written, second)):
        imported(source, tmp_path / f"added_{number}.py", monkeypatch)
    assert registry.find_method("alone").summary.startswith("Alone: what the score gains")
    names: dict[str, Any] = {}
    exec(test + laws, names)
    names["test_alone_recovers_known_weights"]()
    names["test_alone_obeys_the_laws"]()
    check_method("attention_received")
    received = wherefrom.load((make_network("bert"), tokenizer())).explain("a fine film", "attention_received")
    assert received.layers is not None
    assert [sum(layer) for layer in received.layers] == pytest.approx([1, 1, 1], rel=1e-5)


def test_the_task_that_is_added_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.all_tasks()
    monkeypatch.setitem(registry._known, "task", dict(registry._known["task"]))
    written, test = blocks("docs/add-a-task.md")
    imported(written, tmp_path / "next_sentence.py", monkeypatch)
    names: dict[str, Any] = {}
    exec(test, names)
    names["test_next_sentence_obeys_the_laws"]()


def test_the_family_that_is_added_is_right(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(blocks("docs/add-a-family.md")[-1], names)
    names["test_the_row_is_right"]()
    row: Family = eval(blocks("docs/add-a-family.md")[1], {"Family": Family})
    line = re.search(r'`"phi": (.*),`', read("docs/add-a-family.md"))
    assert line is not None
    monkeypatch.setitem(tiny_models.CONFIGS, "phi", eval(line[1], {"SIZES": tiny_models.SIZES}))
    monkeypatch.setattr(anatomy, "family_of", {"phi": row}.get)
    check_family(wherefrom.Model(make_model("phi", dtype=torch.float64)), tolerance=1e-12)
    monkeypatch.chdir(tmp_path)
    exec(blocks("docs/add-a-family.md")[2], {})  # saves the tiny model
    (command,) = [source for _, source in steps(ROOT / "docs/add-a-family.md")]
    run_command(command, monkeypatch)
