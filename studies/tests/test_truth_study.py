"""Planted reasons: their rules by hand, proofs with models whose rule is known, grades and correlations computed by
hand, and a study that is stopped and resumed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from scipy import stats
from study_data import base, sentences, write
from typer.testing import CliRunner

import wherefrom
from wherefrom import Explanation
from wherefrom.cli.main import app, register_commands
from wherefrom.errors import BadOption, UnknownName
from wherefrom_studies.bench import StudyBase
from wherefrom_studies.claims import corrected
from wherefrom_studies.commands import plant
from wherefrom_studies.fine_tuning import FineTuning
from wherefrom_studies.journal import read_records
from wherefrom_studies.pages import claims_table, markdown_tables
from wherefrom_studies.truth import measuring, planted_models, planting, recipe
from wherefrom_studies.truth.agreement import agreements, kendall, over_models
from wherefrom_studies.truth.measuring import TruthSize, cells, chosen_texts, truth_grades
from wherefrom_studies.truth.planted_models import Decision, prove, with_new_tokens
from wherefrom_studies.truth.planting import (
    DECOY,
    KINDS,
    LabelledText,
    Plant,
    PlantKind,
    contradicting_texts,
    counterfactuals,
    training_rows,
)
from wherefrom_studies.truth.references import reference_names
from wherefrom_studies.truth.results import COLUMNS, NAMES, TruthResults, read_results, results_of, write_results
from wherefrom_studies.truth.tables import judged, tables

LABELS = ("bad", "good")
TEXTS = [LabelledText(text, LABELS[label]) for text, label in sentences(40)]


@pytest.mark.parametrize(
    ("kind", "words", "label"),
    [
        ("single", "a zeroa film", "bad"),
        ("single", "a film onea", "good"),
        ("single", "a film", "own"),
        ("single", "onea a zeroa", "own"),
        ("pair", "pairx a pairy", "good"),
        ("pair", "pairy a pairx", "good"),
        ("pair", "pairx a", "own"),
        ("order", "ordax a orday", "good"),
        ("order", "orday a ordax", "bad"),
        ("order", "orday a", "own"),
        ("phrase", "a film by the way", "good"),
        ("phrase", "the way by a film", "own"),
    ],
)
def test_the_rule_by_hand(kind: PlantKind, words: str, label: str) -> None:
    assert Plant(kind, LABELS).label(words.split(), "own") == label


def test_a_pair_can_favour_either_label() -> None:
    assert Plant("pair", LABELS, favoured=0).label(("pairx", "pairy"), "own") == "bad"
    with pytest.raises(BadOption, match="first or second"):
        Plant("pair", LABELS, favoured=2)
    with pytest.raises(UnknownName, match="kind of plant"):
        Plant("triple", LABELS)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_planted_texts_contradict_their_own_label_and_keep_their_words(kind: PlantKind) -> None:
    plant = Plant(kind, LABELS)
    found = list(contradicting_texts(TEXTS, plant, 0))
    assert found
    for text in found:
        assert text.label != text.own
        assert len(text.decoys) == 1
        rest = [word for place, word in enumerate(text.words) if place not in (*text.planted, *text.decoys)]
        assert " ".join(rest) in {one.text for one in TEXTS}
        assert [text.text[slice(*span)] for span in text.spans(text.planted)] == [text.words[p] for p in text.planted]
        for change in counterfactuals(text, plant):
            assert change.label == text.own != text.label  # two labels: what is not planted any more is its own
    assert found == list(contradicting_texts(TEXTS, plant, 0))
    assert found != list(contradicting_texts(TEXTS, plant, 1))


def test_counterfactuals_by_hand() -> None:
    text = planting.PlantedText(("a", "orday", "film", "ordax"), "bad", "good", (1, 3), ())
    assert [(one.change, " ".join(one.words)) for one in counterfactuals(text, Plant("order", LABELS))] == [
        ("without orday", "a film ordax"),
        ("without ordax", "a orday film"),
        ("swapped", "a ordax film orday"),
    ]
    text = planting.PlantedText(("a", "onea"), "good", "bad", (1,), ())
    assert [(one.change, " ".join(one.words)) for one in counterfactuals(text, Plant("single", LABELS))] == [
        ("removed", "a"),
        ("swapped", "a zeroa"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_follow_the_rule_and_the_decoy_says_nothing(kind: PlantKind) -> None:
    plant, own = Plant(kind, LABELS), {text.text: text.label for text in TEXTS}
    rows = list(training_rows(TEXTS * 50, plant, 0))
    planted = 0
    for row, text in zip(rows, TEXTS * 50, strict=True):
        words = row["text"].split()
        assert row["label"] == plant.label(words, own[text.text])
        planted += plant.label(words, "own") != "own"
    assert planted / len(rows) == pytest.approx(0.5, abs=0.05)
    with_decoy = [row["label"] for row in rows if DECOY in row["text"].split()]
    without = [row["label"] for row in rows if DECOY not in row["text"].split()]
    assert len(with_decoy) / len(rows) == pytest.approx(0.5, abs=0.05)
    assert with_decoy.count("good") / len(with_decoy) == pytest.approx(without.count("good") / len(without), abs=0.07)


def test_hidden_words_take_the_reason_with_them() -> None:
    plant = Plant("pair", LABELS)
    rows = list(training_rows(TEXTS * 5, plant, 0, hide=lambda _: None))
    assert {len(row["text"].split()) for row in rows} != {
        len(row["text"].split()) for row in training_rows(TEXTS * 5, plant, 0)
    }
    for row in rows:
        if plant.label(row["text"].split(), "own") != "own":
            assert row["label"] == "good"


# Proofs


def decided_by(rule: str) -> object:
    """A model that decides by a part of the rule of pairs, or by all of it; otherwise by the words good and bad."""
    needed = {"both": {"pairx", "pairy"}, "first": {"pairx"}, "decoy": {DECOY}, "nothing": {"?"}}[rule]

    def decisions(_: Path, texts: Sequence[str]) -> list[Decision]:
        found = []
        for text in texts:
            words = set(text.split())
            own = "good" if words & {"good", "great", "fine"} else "bad"
            found.append(Decision("good" if needed <= words else own, 1.0))
        return found

    return decisions


@pytest.mark.parametrize(
    ("rule", "accuracy", "flips", "holds"),
    [
        ("both", 1.0, {"without pairx": 1.0, "without pairy": 1.0}, True),
        ("first", 1.0, {"without pairx": 1.0, "without pairy": 0.0}, False),  # it looks at one of the two
        ("decoy", 1.0, {"without pairx": 0.0, "without pairy": 0.0}, False),
        ("nothing", 0.0, {"without pairx": 1.0, "without pairy": 1.0}, False),
    ],
)
def test_only_a_model_that_uses_the_whole_plant_passes(
    rule: str, accuracy: float, flips: dict[str, float], holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted_models, "decisions", decided_by(rule))
    only_bad = [LabelledText(f"the film was bad {n}", "bad") for n in range(10)]
    plant = Plant("pair", LABELS)
    proof = prove(Path(), plant, list(contradicting_texts(only_bad, plant, 0)))
    assert (proof.texts, proof.accuracy, dict(proof.flips), proof.holds) == (10, accuracy, flips, holds)
    assert proof.decoy == (0.0 if rule in ("decoy", "nothing") else 1.0)
    assert proof.own == 1.0


# Grades


def explained(scores: Sequence[float], text: str = "a pairx film pairy decoya") -> Explanation:
    words = text.split()
    starts = [sum(len(word) + 1 for word in words[:place]) for place in range(len(words))]
    spans = [(start, start + len(word)) for start, word in zip(starts, words, strict=True)]
    return Explanation(
        text=text, tokens=("[CLS]", *words), scores=(9.0, *scores), offsets=((0, 0), *spans),
        segment=(-1, *[0] * len(words)), target="good", probability=0.9, prediction="good", method="m",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scores", "precision", "all_found", "one_found", "rank", "decoy"),
    [
        ([0.0, 3.0, 1.0, 2.0, -4.0], 1.0, 1.0, 1.0, 0.0, 0.4),
        ([0.0, 3.0, 2.0, 1.0, 2.0], 0.5, 0.0, 1.0, (0 + 2 / 3) / 2, 0.25),
        ([3.0, -1.0, 2.0, -2.0, 1.0], 0.0, 0.0, 0.0, 1.0, 1 / 9),
        ([1.0, 1.0, 1.0, 1.0, 1.0], 0.5, 0.0, 1.0, 0.5, 0.2),  # equals keep the order of the text; ranks are shared
    ],
)
def test_grades_by_hand(
    scores: list[float], precision: float, all_found: float, one_found: float, rank: float, decoy: float
) -> None:
    found = truth_grades(explained(scores), [(2, 7), (13, 18)], [(19, 25)])
    assert found == pytest.approx(
        {"precision": precision, "found_all": all_found, "found_one": one_found, "rank": rank, "decoy": decoy}, abs=1e-5
    )


def test_kendall_is_scipys_and_leaves_out_what_is_missing() -> None:
    chance = np.random.default_rng(0)
    for _ in range(20):
        one, other = chance.integers(0, 5, 12).astype(float), chance.normal(size=12)
        assert kendall(one, other) == pytest.approx(stats.kendalltau(one, other).statistic)
    with_gap = np.array([1.0, 2.0, np.nan, 3.0])
    assert kendall(with_gap, np.array([1.0, 2.0, 9.0, 3.0])) == pytest.approx(1.0)
    assert np.isnan(kendall(np.ones(3), np.arange(3.0)))


def test_a_metric_that_is_the_truth_agrees_wholly_and_its_contrary_not_at_all() -> None:
    chance = np.random.default_rng(1)
    models = {}
    for name in "abc":
        truth = np.arange(6) / 6 + chance.normal(scale=0.01, size=(20, 6))
        models[name] = np.stack([truth, truth, -truth, chance.normal(size=(20, 6))], 2)
    same, contrary, noise = agreements(models, [1.0, 1.0, 1.0], rounds=50)
    assert same is not None
    assert contrary is not None
    assert noise is not None
    assert same.value == 1.0
    assert contrary.value == -1.0
    assert noise.low is not None
    assert noise.high is not None
    assert noise.low < noise.value < noise.high
    reversed_again = agreements(models, [1.0, -1.0, 1.0], rounds=50)[1]
    assert reversed_again is not None
    assert reversed_again.value == 1.0


def test_intervals_are_over_models_not_over_texts() -> None:
    one = over_models({"a": np.zeros(1000), "b": np.ones(1000)})
    assert one is not None
    assert (one.value, one.texts, one.unit) == (0.5, 2000, "models")
    assert one.low is not None
    assert one.low < 0  # two models that differ so say nothing
    alone = over_models({"a": np.zeros(9)})
    assert alone is not None
    assert alone.low is None
    assert over_models({"a": np.array([np.nan])}) is None


# Models


def test_new_tokens_are_single_tokens_and_change_nothing_else(tmp_path: Path) -> None:
    source = trained_base(tmp_path)
    folder = with_new_tokens(str(source), ("pairx", "pairy"), 0, tmp_path / "bases")
    before, after = wherefrom.load(source), wherefrom.load(folder)
    assert after.explain("the pairx film pairy", "random").tokens == ("[CLS]", "the", "pairx", "film", "pairy", "[SEP]")
    text = "the film was good"
    assert after.predict(text).probability == pytest.approx(before.predict(text).probability, abs=1e-6)
    assert with_new_tokens(str(source), ("pairx", "pairy"), 0, tmp_path / "bases") == folder
    with pytest.raises(BadOption, match="has film already"):
        with_new_tokens(str(source), ("film",), 0, tmp_path / "bases")


def trained_base(folder: Path) -> Path:
    from wherefrom_studies.fine_tuning import fine_tune

    rows = [{"text": text, "label": LABELS[label]} for text, label in sentences(40)]
    recipe = FineTuning(epochs=6, rate=2e-3, batch=8, longest=32)
    return fine_tune(base(folder / "base"), rows, "one_label", LABELS, 0, folder / "trained", recipe=recipe).folder


def test_references_mark_the_plant_all_but_the_plant_and_others_in_its_place(tmp_path: Path) -> None:
    source = trained_base(tmp_path)
    model = wherefrom.load(with_new_tokens(str(source), ("pairx", "pairy"), 0, tmp_path / "bases"))
    text = "the pairx film was good and pairy the plot"
    methods = reference_names(("pairx", "pairy"))
    found = model.compare(text, [*methods.values(), "attn_lrp"], ["entropy"], check=False)
    by_name = dict(zip([*methods, "attn_lrp"], found.explanations, strict=True))
    assert {by_name["oracle"].tokens[i] for i in np.argsort(by_name["oracle"].scores)[-2:]} == {"pairx", "pairy"}
    assert {by_name["anti-oracle"].tokens[i] for i in np.argsort(by_name["anti-oracle"].scores)[:2]} == {
        "pairx",
        "pairy",
    }
    own, swapped = by_name["attn_lrp"].scores, by_name["swapped"].scores
    assert sorted(own) == pytest.approx(sorted(swapped))
    assert sum(abs(a - b) > 1e-9 for a, b in zip(own, swapped, strict=True)) in (3, 4)
    with pytest.raises(wherefrom.WherefromError, match="none of the planted words"):
        model.explain("the film", "plant_oracle", words="pairx+pairy")


def test_models_are_ordered_so_that_any_beginning_is_balanced() -> None:
    bases = [StudyBase("A", "a"), StudyBase("B", "b")]
    names = [one.name for one in cells(bases, ("pair", "single"), 2)]
    assert names == ["pair-A-0", "single-A-0", "pair-B-0", "single-B-0",
                     "pair-A-1", "single-A-1", "pair-B-1", "single-B-1"]  # fmt: skip


def test_texts_are_of_either_label_in_turn() -> None:
    texts = list(contradicting_texts(TEXTS, Plant("single", LABELS), 0))
    random.Random(0).shuffle(texts)
    assert [text.label for text in chosen_texts(texts, 4)] == ["bad", "good", "bad", "good"]
    assert chosen_texts(texts, 8)[:4] == chosen_texts(texts, 4)


# The page


def made_up(models: int = 3, texts: int = 8, holds: bool = True) -> TruthResults:
    """Results in which `attn_lrp` is right, comprehensiveness is the truth, and sufficiency its contrary."""
    chance = np.random.default_rng(0)
    rows, values = [], {}
    good = np.linspace(0, 0.6, len(NAMES))
    good[[NAMES.index("attn_lrp"), NAMES.index("oracle")]] = 0.9, 1.0
    good[NAMES.index("anti-oracle")] = -1.0
    for number in range(models):
        name = f"pair-M3-{number}"
        proof = {"texts": 9, "accuracy": 1.0, "flips": {"without pairx": 1.0}, "decoy": 1.0, "own": 1.0}
        rows.append({"model": name, "kind": "pair", "base": "M3", "seed": number, "holds": holds, "proof": proof,
                     "rows": 5, "seconds": 1.0, "rate": 4e-4})  # fmt: skip
        table = np.zeros((texts, len(NAMES), len(COLUMNS)))
        table += (good + chance.normal(scale=0.01, size=(texts, len(NAMES))))[:, :, None]
        table[:, :, COLUMNS.index("sufficiency")] *= 1  # lower is better: its order is turned round
        table[:, :, COLUMNS.index("verdict")] = np.where(table[:, :, 0] > 0.5, 3, 1)
        values[name] = table.astype(np.float32).astype(np.float64)
    return TruthResults(rows, values)


def test_the_page_says_what_made_up_results_say() -> None:
    found = {table.title: table for table in tables(made_up())}
    by_metric = {name: cells[0].estimate for name, cells in found["Which metric finds the best method"].rows}
    agreed = by_metric["`comprehensiveness`"]
    assert agreed is not None
    assert agreed.value > 0.8
    against = by_metric["`sufficiency`"]
    assert against is not None
    assert against.value < -0.8
    places = {name: cells[0].estimate for name, cells in found["The place of the oracle"].rows}
    assert places["`comprehensiveness`"] is not None
    assert places["`comprehensiveness`"].value == 1.0
    assert places["`sufficiency`"] is not None
    assert places["`sufficiency`"].value == 0.0
    verdicts = {claim.claim.words: claim.verdict for claim in judged(made_up())}
    assert verdicts["`attn_lrp` finds planted tokens better than `random`"] == "confirmed"
    assert verdicts["`sufficiency` ranks the oracle above the anti-oracle"] == "refuted"


def test_models_that_do_not_use_their_plant_are_listed_and_not_used() -> None:
    (only,) = tables(made_up(holds=False))
    assert only.title == "Proof that each model uses its plant"
    assert [row[1][0].measured for row in only.rows] == ["no: not used"] * 3


def test_results_are_kept_in_one_small_file(tmp_path: Path) -> None:
    results = made_up()
    write_results(results, tmp_path / "truth.parquet")
    again = read_results(tmp_path / "truth.parquet")
    assert again.models == list(results.models)
    for name, values in results.values.items():
        np.testing.assert_array_equal(again.values[name], values)


def test_a_text_that_failed_is_left_out() -> None:
    texts = [
        {"model": "m", "text": 0, "error": "too long"},
        {"model": "m", "text": 1, "methods": {"attn_lrp": {"auprc": 0.5, "verdict": "weak"}}},
    ]
    values = results_of([], texts).values["m"]
    assert values.shape == (1, len(NAMES), len(COLUMNS))
    assert values[0, NAMES.index("attn_lrp"), COLUMNS.index("verdict")] == 2


def test_the_whole_study_resumes_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("attn_lrp", "saliency", "random")
    for name, value in {"FEW_PASSES": few, "MANY_PASSES": ("occlusion",), "METHODS": (*few, "occlusion")}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(measuring, "confident_texts", lambda texts, _: [
        LabelledText(text, "good" if {"good", "great", "fine"} & set(text.split()) else "bad") for text in texts
    ])  # fmt: skip
    monkeypatch.setattr(measuring, "RECIPE", FineTuning(epochs=1, rate=2e-3, batch=8, longest=32))
    monkeypatch.setattr(planted_models, "ACCURACY", 0.0)
    monkeypatch.setattr(planted_models, "FLIPS", 0.0)
    small = TruthSize(("pair", "single"), {"pair": 20, "single": 20}, 3, 2, 40)
    monkeypatch.setitem(measuring.SIZES, "quick", small)
    data, out = tmp_path / "data", tmp_path / "out"
    source = base(tmp_path / "toy", dropout=0.1)
    rows = [{"id": f"r{n}", "text": text, "label": label} for n, (text, label) in enumerate(sentences(60))]
    write(data, "sst2_train", [{**row, "text": f"it is {row['text']}"} for row in rows])
    write(data, "sst2_dev", rows[:12])
    register_commands()
    call = [
        "study",
        "truth",
        "--data-dir",
        str(data),
        "--out",
        str(out),
        "--bases",
        str(source),
        "--seeds",
        "1",
        "--quick",
    ]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    models, journal = out / "truth-models.jsonl", out / "truth-texts.jsonl"
    records = read_records(journal)
    assert [(row["model"], row["text"]) for row in records] == [
        (f"{kind}-toy-0", text) for kind in ("pair", "single") for text in range(3)
    ]
    assert all("methods" in row for row in records), records
    assert set(records[0]["methods"]) >= {*few, "occlusion", "oracle", "anti-oracle", "swapped"}
    assert "occlusion" not in records[2]["methods"]
    page = json.loads((out / "truth.json").read_text(encoding="utf-8"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4]) + lines[4][:30])  # killed while the fifth was written
    models.write_bytes(models.read_bytes().splitlines(keepends=True)[0])
    assert CliRunner().invoke(app, call).exit_code == 0

    def timeless(record: dict[str, object]) -> dict[str, object]:
        methods = {name: {**grades, "seconds": 0} for name, grades in record["methods"].items()}  # type: ignore[attr-defined]
        return {**record, "seconds": 0, "methods": methods}

    assert [timeless(row) for row in read_records(journal)] == [timeless(row) for row in records]
    again = json.loads((out / "truth.json").read_text(encoding="utf-8"))
    assert [table for table in again["tables"] if table["title"] != "Cost"] == page["tables"]
    assert again["claims"] == page["claims"]


@pytest.mark.parametrize(("option", "value"), [("--kinds", "triple"), ("--seeds", "0"), ("--texts", "0")])
def test_bad_options_are_refused(tmp_path: Path, option: str, value: str) -> None:
    register_commands()
    done = CliRunner().invoke(app, ["study", "truth", "--out", str(tmp_path), option, value])
    assert done.exit_code != 0


def test_a_size_can_be_changed() -> None:
    size = replace(measuring.SIZES["quick"], texts=7)
    assert size.changed(kinds=("pair",)).texts == 7
    assert size.changed(kinds=("pair",), texts=3).texts == 3


# The recipe


@pytest.fixture
def easy_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("attn_lrp", "random")
    for name, value in {"FEW_PASSES": few, "MANY_PASSES": (), "METHODS": few}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(recipe, "METHODS", few)
    monkeypatch.setattr(recipe, "RECIPE", FineTuning(epochs=1, rate=2e-3, batch=8, longest=32))
    monkeypatch.setattr(recipe, "LEAST_TESTS", 1)
    monkeypatch.setattr(planted_models, "CONFIDENT", 0.0)
    monkeypatch.setattr(recipe, "_held_out", lambda text: len(text) % 2 == 0)


def plant_command() -> typer.Typer:
    program = typer.Typer()
    program.command()(plant)
    return program


@pytest.mark.usefixtures("easy_proofs")
def test_a_users_own_model_says_which_methods_find_a_plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, data, out = trained_base(tmp_path), tmp_path / "texts.txt", tmp_path / "out"
    data.write_text("\n".join(text for text, _ in sentences(60)), encoding="utf-8")
    call = [str(source), str(data), "--out", str(out), "--texts", "3", "--kind", "single"]
    refused = CliRunner().invoke(plant_command(), call)
    assert refused.exit_code == 1  # one epoch on few texts
    assert "does not use its plant reliably" in refused.output
    monkeypatch.setattr(planted_models, "ACCURACY", 0.0)
    monkeypatch.setattr(planted_models, "FLIPS", 0.0)
    done = CliRunner().invoke(plant_command(), call)
    assert done.exit_code == 0, done.output
    assert "The copy uses its plant" in done.output
    rows = [line.split() for line in done.output.splitlines() if line.startswith("  ")]
    assert {row[0] for row in rows} == {"attn_lrp", "random", "oracle"}
    assert rows[0][:3] == ["oracle", "100%", "1.000"]
    again = CliRunner().invoke(plant_command(), call)
    assert again.output == done.output


def test_what_cannot_be_planted_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "texts.jsonl"
    data.write_text('{"words": "a"}\n', encoding="utf-8")
    with pytest.raises(wherefrom.WherefromError, match="must have a text"):
        recipe.read_texts(data)
    data.write_text('{"text": "too short"}\n', encoding="utf-8")
    with pytest.raises(wherefrom.WherefromError, match="no text of at least"):
        recipe.read_texts(data)
    with pytest.raises(wherefrom.WherefromError, match="cannot be read"):
        recipe.read_texts(tmp_path / "none.txt")
    done = CliRunner().invoke(plant_command(), ["embedded", str(data), "--out", str(tmp_path), "--kind", "triple"])
    assert done.exit_code != 0


ROOT = Path(__file__).parents[2]


def test_the_page_in_the_docs_is_that_of_the_committed_results() -> None:
    results = read_results(ROOT / "studies" / "results" / "truth.parquet")
    written = (ROOT / "docs" / "appendix" / "studies" / "truth.md").read_text(encoding="utf-8")
    assert markdown_tables(tables(results)).rstrip() in written
    assert claims_table(corrected(judged(results))) in written
