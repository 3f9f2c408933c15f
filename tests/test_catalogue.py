"""The catalogue, which is read from source files, says what the registry says of what was imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from wherefrom import registry
from wherefrom.catalogue import CatalogueRow, Kind, _rows, catalogue
from wherefrom.errors import UnknownName
from wherefrom.registry import Metric, all_methods, all_metrics, check_name, listed

# Of the decorators.
DEFAULTS = {"scores_units": False, "one_pass": False, "slow": False, "sets": {}, "group": "other"}


def told(row: CatalogueRow, arguments: list[str]) -> dict[str, object]:
    declared = {name: row.get(name, DEFAULTS.get(name)) for name in arguments}
    return declared | {"name": row.name, "module": row.module, "options": dict(row.options), "summary": row.summary}


def test_every_method_is_listed_as_it_is_registered() -> None:
    arguments = [*registry.FACTS["method"], "reads"]
    found = {row.name: registry._catalogue_row("method", row) for row in all_methods()}
    ours = {name: row for name, row in found.items() if row.module.startswith("wherefrom.methods.")}
    assert {name: told(row, arguments) for name, row in catalogue("method").items()} == {
        name: told(row, arguments) for name, row in ours.items()
    }
    assert len(ours) > 25


def test_every_metric_is_listed_as_it_is_registered() -> None:
    arguments = list(registry.FACTS["metric"])
    found = {row.name: registry._catalogue_row("metric", row) for row in all_metrics()}
    ours = {name: row for name, row in found.items() if row.module.startswith("wherefrom.metrics.")}
    assert {name: told(row, arguments) for name, row in catalogue("metric").items()} == {
        name: told(row, arguments) for name, row in ours.items()
    }
    assert all(row.get("group") for row in catalogue("metric").values())  # every one of ours says its question


def test_the_groups_are_those_of_the_documentation() -> None:
    """One page a group: docs/metrics/one-at-a-time.md has a section for every metric of the group "one at a time"."""
    pages = Path(__file__).parents[1] / "docs" / "metrics"
    for group in {row.get("group") for row in catalogue("metric").values()}:
        page = (pages / f"{group.replace(' ', '-')}.md").read_text(encoding="utf-8")
        sections = {line.removeprefix("## ").split()[0] for line in page.splitlines() if line.startswith("## ")}
        assert {name for name, row in catalogue("metric").items() if row.get("group") == group} <= sections


@pytest.mark.parametrize("kind", ["method", "metric"])
def test_the_order_of_a_list(kind: Kind) -> None:
    registered = all_methods() if kind == "method" else all_metrics()
    assert [row.name for row in listed(kind)] == [row.name for row in registered]


def test_how_a_file_is_read() -> None:
    source = '''
"""Of the module.

More of it.
"""
SAMPLES = 7

def helper(): ...

@method(family="toy", signed=True, per_class=False, reads=reads_of, paper="none")
def plain(case, *, samples: int = SAMPLES, depth: float = -0.5, kind: object = None, other=helper): ...

@metric(better="lower", paper="none")
@dataclass(frozen=True, kw_only=True)
class LogOdds25:
    """Of the
    class."""
    wants_logits: ClassVar[bool] = True
    fill: Fill = "pad"
'''
    (method,) = _rows("method", source, "toy")
    assert (method.name, method.summary, method.get("reads")) == ("plain", "Of the module.", None)
    assert method.options == {"samples": 7, "depth": -0.5, "kind": None, "other": "helper"}
    (metric,) = _rows("metric", source, "toy")
    assert (metric.name, metric.summary, metric.options) == ("log_odds_25", "Of the class.", {"fill": "pad"})


def test_plug_ins_are_listed_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("plugged", "toy_plugin:plugged", "wherefrom.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == "wherefrom.methods" else [])
    monkeypatch.setitem(registry._known, "method", dict(registry._known["method"]))
    registry._load.cache_clear()
    monkeypatch.setitem(sys.modules, "toy_plugin", None)  # so that it is as it was afterwards
    del sys.modules["toy_plugin"]
    check_name("method", "plugged")
    assert {"plugged", "attcat"} <= {row.name for row in listed("method")}
    with pytest.raises(UnknownName, match="Did you mean 'plugged'"):
        check_name("method", "pluged:seed=1")
    registry._load.cache_clear()


def test_a_metric_is_found_again_when_the_registry_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module registers itself once a process; what it registered must outlive a copy of the registry."""
    before = registry.find_metric("aopc")
    monkeypatch.setitem(registry._known, "metric", {})
    assert isinstance(registry.find_metric("aopc"), Metric)
    assert registry.find_metric("aopc") is before


HEAVY = ("torch", "transformers", "numpy", "scipy", "pandas")


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["methods"],
        ["methods", "--json"],
        ["metrics"],
        ["metrics", "--json"],
        ["explain", "a film", "--method", "atcat"],
        ["compare", "a film", "--methods", "atcat"],
        ["compare", "a film", "--metrics", "aopcc"],
        ["run", "sample:reviews", "--out", "films", "--methods", "atcat"],
        ["flow", "a film", "--method", "altii"],
    ],
    ids=" ".join,
)
def test_what_need_not_wait_for_torch(command: list[str]) -> None:
    if entry_points(group="wherefrom.methods") or entry_points(group="wherefrom.metrics"):
        pytest.skip("a plug-in that is installed here may import what it likes")
    program = (
        f"import sys; sys.argv = ['wherefrom', *{command!r}]; from wherefrom.cli import main as cli\n"
        f"try: cli.main()\nexcept SystemExit: pass\n"
        f"sys.exit(' '.join(name for name in {HEAVY!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if "atcat" in command:
        assert "Did you mean 'attcat'?" in done.stderr
