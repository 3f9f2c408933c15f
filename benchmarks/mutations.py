"""The mutation score: how many small faults, planted by cosmic-ray's operators, the tests of a package notice.

    pip install --target /some/folder cosmic-ray
    python benchmarks/mutations.py methods --cosmic-ray /some/folder --log mutations.jsonl

A random sample of the mutants (the seed is fixed), each run against the tests that belong to its package, until one
fails. Left out are mutants that every run notices or none can: those that do not parse, bitwise operators in
arithmetic, `is` for `==`, annotations, and the switches frozen, kw_only and strict. A mutant is written into a copy of
the tree and tested in a forked process that has torch and transformers imported already, which is most of the time. A
second call resumes after the last line of the log; --minutes ends a call early.
"""

import argparse
import ast
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TESTS = {
    "methods": "methods/test_by_hand methods/test_slow methods/test_golden methods/test_logit_contributions "
    "methods/test_surrogates methods/test_decomposition methods/test_relevance methods/test_relevance_of_answers",
    "metrics": "metrics/test_by_hand metrics/test_slow metrics/test_golden metrics/test_contract "
    "grading/test_stability",
    "grading": "grading/test_compare grading/test_stability core/test_comparison metrics/test_by_hand",
    "case": "case/test_case case/test_asking case/test_check case/test_flip case/test_generation case/test_windows "
    "case/test_passes case/test_prefix case/test_memory case/test_lists_and_names case/test_seq2seq",
    "model/relevance": "model/relevance/test_rules methods/test_relevance methods/test_relevance_of_answers",
}
POINTLESS = re.compile(r"_(BitAnd|BitOr|BitXor|RShift|LShift|Is|IsNot)$")  # put for another kind of operator
SWITCHES = ("frozen=", "kw_only=", "strict=", "slots=")
WARM = ("torch", "transformers", "scipy", "tokenizers", "safetensors", "sklearn", "captum")


def annotation_spans(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    spans = []
    for node in ast.walk(ast.parse(source)):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(part, ast.expr):
                spans.append(((part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)))
    return spans


def mutants_of(folder: Path) -> list[Any]:
    """Every mutant of the files of a folder that is worth a run."""
    from cosmic_ray.commands.init import _all_work_items  # the operators' positions; the command would make a database

    mutants = []
    for path in sorted(folder.glob("*.py")):
        lines, spans = path.read_text().splitlines(), annotation_spans(path.read_text())
        for item in _all_work_items([path], {}):
            (mutant,) = item.mutations
            before = lines[mutant.start_pos[0] - 1][: mutant.start_pos[1]]
            annotates = any(start <= mutant.start_pos and mutant.end_pos <= end for start, end in spans)
            if not (annotates or POINTLESS.search(mutant.operator_name) or before.endswith(SWITCHES)):
                mutants.append(mutant)
    return mutants


def mutated(mutant: Any, source: str) -> str | None:
    """The text of the mutant's file; None where it does not parse."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = str(mutate_code(source, get_operator(mutant.operator_name)(), mutant.occurrence))
    try:
        ast.parse(code)
    except SyntaxError:
        return None
    return code


def run_tests(tree: Path, tests: list[str], seconds: float, modules: Path | None = None) -> str:
    """killed, survived or timeout, of a forked process that runs the tests."""
    child = os.fork()
    if child == 0:
        os.setsid()
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.chdir(tree)
        try:
            import pytest

            warm = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plug-ins are imported already
            code = pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *warm, *tests])
            if modules is not None:
                modules.write_text(json.dumps([name for name in sys.modules if name.split(".")[0] in WARM]))
            os._exit(int(code))
        finally:  # never back into the code of the parent, which would remove the tree
            os._exit(70)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return {0: "survived", 70: "crashed"}.get(os.waitstatus_to_exitcode(status), "killed")
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def warm_up(tree: Path, tests: list[str]) -> float:
    """Run the tests once without a mutant, import here what they import, and return the seconds a mutant may take."""
    modules, began = tree / "modules.json", time.monotonic()
    outcome = run_tests(tree, tests, 3600, modules)
    if outcome != "survived":
        raise SystemExit(f"Without a mutant, the outcome of the tests is: {outcome}.")
    seconds = time.monotonic() - began
    for name in json.loads(modules.read_text()):
        try:
            import_module(name)
        except Exception:  # made by its package, not a file
            continue
    return 3 * seconds + 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", choices=TESTS)
    parser.add_argument("--cosmic-ray", type=Path, help="the folder it is installed in")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--log", type=Path, default=Path("mutations.jsonl"))
    options = parser.parse_args()
    if options.cosmic_ray:
        sys.path.append(str(options.cosmic_ray))
    end = time.monotonic() + 60 * options.minutes
    lines = options.log.read_text().splitlines() if options.log.exists() else []
    known = {row["mutant"]: row for row in map(json.loads, lines) if row["package"] == options.package}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(tree, filter="data")
        sys.dont_write_bytecode = True  # two mutants of one size and second would share their bytecode
        sys.path[:0] = [str(tree / "src"), str(tree / "tests")]
        tests = [f"tests/{name}.py" for name in TESTS[options.package].split()]
        mutants = mutants_of(tree / "src/wherefrom" / options.package)
        random.Random(0).shuffle(mutants)
        seconds, sampled = 0.0, 0
        for mutant in mutants:
            path = Path(mutant.module_path)
            source = path.read_text()
            code = mutated(mutant, source)
            if code is None:
                continue
            sampled += 1
            if sampled > options.sample:
                break
            name = f"{path.name}:{mutant.operator_name}:{mutant.occurrence}"
            if name in known:
                continue
            if time.monotonic() > end:
                break
            seconds = seconds or warm_up(tree, tests)
            path.write_text(code)
            began = time.monotonic()
            by_name = sorted(tests, key=lambda test: path.stem not in test)  # the file's own tests kill it soonest
            outcome = run_tests(tree, by_name, seconds)
            pairs = zip(source.splitlines(), code.splitlines(), strict=False)
            path.write_text(source)
            known[name] = {
                "package": options.package,
                "mutant": name,
                "outcome": outcome,
                "line": mutant.start_pos[0],
                "code": next((f"{old.strip()} -> {new.strip()}" for old, new in pairs if old != new), ""),
                "seconds": round(time.monotonic() - began, 1),
            }
            with options.log.open("a") as log:
                log.write(json.dumps(known[name]) + "\n")
    print(
        f"{options.package}: {len(known)} of {len(mutants)} mutants",
        dict(Counter(row["outcome"] for row in known.values())),
    )


if __name__ == "__main__":
    main()
