"""Files that somebody else made: every value of them replaced by every kind of wrong one, at every place.

Each such file is refused by one clear error, or what was read of it can be shown, saved and graded like any other.
"""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tiny_models import tiny

from wherefrom import optimus
from wherefrom.api import Model
from wherefrom.core.check import Check, HiddenUnits
from wherefrom.core.comparison import Comparison, Grade
from wherefrom.core.explanation import Explanation
from wherefrom.core.flip import Flip, HiddenUnit
from wherefrom.core.flow import Flow
from wherefrom.core.generation import Generation
from wherefrom.core.interactions import Interactions, UnitPair
from wherefrom.core.saved import CHECKSUM, checksum_of
from wherefrom.core.target import SavedTarget
from wherefrom.errors import BadFile, WherefromError
from wherefrom.heads.head_map import HeadMap, Relation
from wherefrom.heads.masks import mask_of
from wherefrom.heads.searched_heads import SearchedHeads
from wherefrom.model.fingerprint import fingerprint
from wherefrom.optimus.combination import Combination, Fitted
from wherefrom.report.comparison_terminal import print_comparison
from wherefrom.report.flip import print_flip
from wherefrom.report.flow_terminal import print_flow
from wherefrom.report.generation import print_generation
from wherefrom.report.interactions import print_interactions
from wherefrom.report.terminal import print_explanation

WRONG: tuple[Any, ...] = (None, True, -1, 7, 10**400, float("nan"), "x", [], [1, 2, 3], {"x": 1})


def explanation() -> Explanation:
    """One with everything that a file may hold."""
    hidden = HiddenUnits((0, 1), ("a", "fine"), 0.2, 0.9, 14, 0.8, 0.7, 0.9, 1.0, "supported")
    table = {"heads": ["mean", 0], "layers": [1], "scores": {"from": [[0.5], [None]]}}
    chosen = {"chosen": "alti", "runner_up": None, "failed": {"lime": "why"}, "scores": {"A": table}}
    graded = {"metrics": ["aopc"], "better": ["higher"], "grades": {"alti": [0.5], "lrp": [None]}}
    return Explanation(
        text="a fine",
        pair="film",
        tokens=("[CLS]", "a", "fine", "film"),
        scores=(0.0, 1.0, -0.5, 0.25),
        offsets=((0, 0), (0, 1), (2, 6), (0, 4)),
        segment=(-1, 0, 0, 1),
        target="LABEL_0",
        probability=0.75,
        prediction="LABEL_0",
        method="alti",
        probabilities={"LABEL_0": 0.75},
        params={"norm": "l1"},
        layers=((0.0, 1.0, -0.5, 0.25),),
        gap=0.1,
        unassigned=0.1,
        notes=("n",),
        selection=(chosen | graded,),
        word_of=(-1, 0, 1, 2),
        sentence_of=(-1, 0, 0, 1),
        components=(SavedTarget(0, 1),),
        check=Check("supported", 0.75, "delete", 2, hidden, hidden),
        standard_errors=(0.0, 0.1, 0.1, 0.1),
    )


def comparison() -> Comparison:
    rows = tuple((Grade("aopc", value, "higher", "mask", details={"curve": [0.1]}),) for value in (0.5, 0.25))
    marked = (((2, 6),), ((0, 4),))
    made: dict[str, Any] = {"failed": {"lime": "why"}, "asked": 3, "rationale": marked}
    return Comparison((explanation(), explanation()), rows, ("alti", "random"), **made)


def flow() -> Flow:
    layers = np.array([[[1.0, 0.0], [0.5, 0.5]]] * 2)
    return Flow("a fine", ("a", "fine"), ((0, 1), (2, 6)), (0, 0), layers, (0.0, 1.0), "alti", params={"norm": "l1"})


def head_map() -> HeadMap:
    relation = Relation(((0.5, 0.9), (0.1, 0.2)), 0.3, 1, 12)
    return HeadMap("m", "0", 2, 9, ((1, -1), (0, 2)), ((0.9, 0.8), (0.7, 0.1)), {"nsubj": relation})


def fitted() -> Fitted:
    return Fitted(Combination("A", "mean", 1, "from"), 0.5, 0.4, "rft", "token", 2, 2, 3)


def console() -> Console:
    return Console(file=io.StringIO(), width=100)


def show_explanation(found: Explanation) -> None:
    found.to_html(special=True)
    found._repr_html_()
    print_explanation(found, console=console())
    found.minus(found)
    found.at("word").to_html()
    assert Explanation.from_json(found.to_json()) == found


def show_comparison(found: Comparison) -> None:
    found.to_html()
    found._repr_html_()
    print_comparison(found, console=console())
    found.conclusion()
    found.to_json()


def show_flow(found: Flow) -> None:
    found.to_html()
    found._repr_html_()
    print_flow(found, console=console())


def show_head_map(found: HeadMap) -> None:
    found.mask()
    found.kinds()
    mask_of(found.mask(), tiny("bert"), shape=(2, 2))


def flip() -> Flip:
    return Flip(
        "a fine", "good", 0.9, (HiddenUnit("fine", 2, 6, 0),), "bad", 0.8, 0.2, params={"fill": "mask"}, pair="x"
    )


def show_flip(found: Flip) -> None:
    found.to_html()
    found._repr_html_()
    print_flip(found, console=console())
    found.left()
    found.to_json()


def interactions() -> Interactions:
    units = (HiddenUnit("a", 0, 1, 0), HiddenUnit("fine", 2, 6, 0))
    return Interactions("a fine", units, (0.5, -1.0), (UnitPair(0, 1, 0.25, 0.1),), "good", 0.9, exact=False)


def show_interactions(found: Interactions) -> None:
    found.to_html()
    found._repr_html_()
    print_interactions(found, console=console())
    found.top(2)
    found.to_json()


def generation() -> Generation:
    return Generation(
        text="a fine",
        tokens=("a", "fine"),
        offsets=((0, 1), (2, 6)),
        segment=(0, 0),
        generated=(" film",),
        token_ids=(5,),
        scores=((0.5, 0.25, 0.0),),
        probabilities=(0.75,),
        versus=(" plot",),
        method="saliency",
        versus_ids=(6,),
        turns=(("user", 0, 6),),
        notes=("n",),
    )


def show_generation(found: Generation) -> None:
    found.to_html()
    found._repr_html_()
    print_generation(found, console=console())
    found.total().to_html()
    found.role_of(0)
    found.to_json()


KINDS: dict[str, tuple[Any, Callable[[Path], Any], Callable[[Any], None]]] = {
    "explanation": (explanation(), Explanation.load, show_explanation),
    "comparison": (comparison(), Comparison.load, show_comparison),
    "flow": (flow(), Flow.load, show_flow),
    "head map": (head_map(), HeadMap.load, show_head_map),
    "flip": (flip(), Flip.load, show_flip),
    "interactions": (interactions(), Interactions.load, show_interactions),
    "generation": (generation(), Generation.load, show_generation),
    "combination": (fitted(), Fitted.load, lambda found: found.combination.check(found.layers, found.heads)),
}


def places(data: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value, of lists only to the first."""
    yield way
    inner = data.items() if isinstance(data, dict) else enumerate(data[:1]) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*way, key))


def spoilt(data: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    changed = copy.deepcopy(data)
    inner = changed
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    return changed


def signed(data: Any) -> Any:
    """With a checksum that fits, where there is one, as whoever crafts a file would have it."""
    return data | {CHECKSUM: checksum_of(data)} if isinstance(data, dict) and CHECKSUM in data else data


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_replaced_by_every_wrong_one(kind: str, tmp_path: Path) -> None:
    made, load, show = KINDS[kind]
    path = tmp_path / "sound.json"
    made.save(path)
    show(load(path))  # it is read as it was written
    sound, path, refused = json.loads(path.read_text()), tmp_path / "spoilt.json", 0
    seen: set[tuple[str, type]] = set()
    for way in places(sound):
        if way and way[0] in ("params", "settings", "explanations") and len(way) > 1:
            continue  # anything may be there; and explanations have their own turn
        for wrong in WRONG:
            path.write_text(json.dumps(signed(spoilt(sound, way, wrong))))
            try:
                found = load(path)
                if (str(way), type(wrong)) not in seen:  # of every place once for each type: views take their time
                    seen.add((str(way), type(wrong)))
                    show(found)
            except BadFile as error:
                refused += str(path) in str(error)
            except WherefromError:
                continue
            except Exception as error:
                raise AssertionError(f"{wrong!r} at {way}: {error!r}") from error
    assert refused > 50
    assert sorted(one.name for one in tmp_path.iterdir()) == ["sound.json", "spoilt.json"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, '"x"', "\ud800", None], ids=lambda one: repr(one)[:10])
def test_no_json_at_all(kind: str, content: str | None, tmp_path: Path) -> None:
    made, load, _ = KINDS[kind]
    path = tmp_path / "given.json"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadFile, match=r"given\.json"):
        load(path)
    for no_path in ("x" * 5000, "\0", "a\ud800b"):
        with pytest.raises(BadFile):
            load(Path(no_path))
        with pytest.raises(BadFile):
            made.save(tmp_path / "missing" / no_path)
    assert [one.name for one in tmp_path.iterdir()] == ["given.json"]


def damaged(content: bytes, draw: random.Random) -> bytes:
    """A file in which some bytes were changed, lost, added, repeated or exchanged, or that was cut short."""
    start, length = draw.randrange(len(content)), draw.choice((1, 1, 1, 2, 9))
    before, middle, after = content[:start], content[start : start + length], content[start + length :]
    other = bytes(draw.choice((*b'0123456789.,-[]{}"e tf', draw.randrange(256))) for _ in middle)
    kinds = (before + other + after, before + after, before + other + middle + after, content[: start + 1])
    return draw.choice(
        (*kinds, before + middle + middle + after, before + middle[::-1] + after, before + other + after)
    )


@pytest.mark.parametrize("kind", ["head map", "head mask", "combination"])
def test_a_damaged_file_is_refused_or_gives_the_same_scores(kind: str, tmp_path: Path) -> None:
    """A thousand of each: a changed digit of a head's frequency would move scores without a word."""
    model, text, draw = Model(tiny("bert")), "the film was not bad", random.Random(0)
    path, draws, method = tmp_path / "file.json", 1000, "mask_lrp"
    options: dict[str, Any] = {"heads": str(path)}
    if kind == "combination":
        optimus.fit(model, [text, "a dull plot"]).save(path)
        method, options = "optimus", {"combination": str(path), "select": "batch"}
    else:
        table = tuple(tuple(draw.random() for _ in range(4)) for _ in range(3))
        mark = fingerprint(model.text_model)
        if kind == "head map":
            HeadMap("tiny", mark, 2, 9, ((1,) * 4,) * 3, table, positional_threshold=0.5).save(path)
        else:
            SearchedHeads("tiny", mark, "aopc", ((1.0, 0.0, 1.0, 0.5),) * 3, 2, 3, 0.5, 0.25).save(path)
    sound = model.explain(text, method, 0, check=False, **options)
    content, messages = path.read_bytes(), list[str]()
    for number in range(draws):
        path.write_bytes(damaged(content, draw))
        try:
            found = model.explain(text, method, 0, check=False, **options)
        except WherefromError as error:
            messages.append(str(error))
        else:
            assert found.scores == sound.scores, (number, path.read_text())
    assert len(messages) > draws / 2
    assert all(str(path) in message and "\n" not in message for message in messages)


def test_halves_of_characters_survive_saving(tmp_path: Path) -> None:
    """A model's folder may be called by bytes that are no UTF-8: Python has them as lone surrogates."""
    from dataclasses import replace

    made = replace(explanation(), model="caf\udce9")
    made.save(tmp_path / "one.json")
    assert Explanation.load(tmp_path / "one.json") == made


@pytest.mark.parametrize(
    "component", [{"index": 9}, {"index": 0, "versus": 9}, {"index": 0, "boundary": "end"}, {"index": -1}]
)
def test_targets_that_the_model_does_not_have(component: dict[str, Any]) -> None:
    model = Model(tiny("bert"))
    sound = model.explain("a fine film", "attcat")
    crafted = Explanation.from_dict(sound.to_dict() | {"components": [component]})
    with pytest.raises(WherefromError, match="no such target"):
        model.evaluate(crafted, ["aopc"])
