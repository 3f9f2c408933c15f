"""The study of ALTI on toys: verdicts from numbers made by hand, the probe of subjects, and the whole study on a tiny
model, killed and resumed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from study_data import assert_alike, base, rows_of, sentences, write

from wherefrom.core.arrays import Numbers
from wherefrom.heads.trees import Tree, Word
from wherefrom_studies.alti import measuring
from wherefrom_studies.alti.judging import judged
from wherefrom_studies.alti.measuring import AltiResult, hits_subject, wanted
from wherefrom_studies.alti.paper import CLAIMS, NAMES
from wherefrom_studies.alti.study import STUDY
from wherefrom_studies.bench import StudyBase, StudyBench, StudyModel, StudySize
from wherefrom_studies.claims import ClaimVerdict
from wherefrom_studies.pages import as_plain, markdown_page
from wherefrom_studies.study import StudyRequest, run_study
from wherefrom_studies.subject_verb_agreement import subject_of

OURS = {ours: theirs for theirs, ours in NAMES.items()}


class MadeUp:
    """Runs whose numbers are given: of every metric, the mean of each method by the paper's name; texts differ by the
    same for all methods, so that every difference has an interval without width.
    """

    def __init__(
        self, comp: dict[str, float], suff: dict[str, float], published: dict[str, float], growth: float = 0.0
    ) -> None:
        self.growth = growth  # of ALTI's comprehensiveness from text to text
        self.means = {
            "comprehensiveness": comp,
            "sufficiency": suff,
            "comprehensiveness:variant=published": published,
        }

    def table(self, metric: str, methods: Sequence[str], detail: str = "") -> Numbers:
        given = self.means[metric]
        grows = self.growth if metric == "comprehensiveness" else 0.0
        return np.array(
            [
                [given.get(OURS[method], 0.0) + shift * (1 + grows * (method == "alti")) for method in methods]
                for shift in (-0.1, 0.0, 0.1)
            ]
        )


TOY = StudyModel("toy", "toy", {}, 1, 0.0)


def found_with(
    comp: dict[str, float], *, alike: dict[str, float], cosines: tuple[float, float], growth: float = 0.0
) -> AltiResult:
    suff = {name: 1.0 - comp.get(name, 0.0) for name in NAMES}
    runs: Any = MadeUp(comp, suff, comp, growth)
    similar = np.array([[alike.get(name, 0.0) + shift for name in NAMES] for shift in (0.0, 0.1)])
    outputs, parts = cosines
    return AltiResult(TOY, runs, [[0.9, outputs]] * 2, [[0.1, parts]] * 2, similar, similar, lengths=(5, 7, 12))


def verdicts(found: dict[tuple[str, str], AltiResult]) -> dict[str, ClaimVerdict]:
    return {one.claim.name: one.verdict for one in judged(found)}


# Numbers for which the paper is right in everything, and we beyond it, on a short and on a long data set.
RIGHT = {
    "Logit": 0.8,
    "Rollout": 0.1,
    "Globenc": 0.2,
    "Grad l2": 0.1,
    "IG l2": 0.3,
    "Norms": 0.2,
    "ALTI l2": 0.4,
    "ALTI LN2": 0.505,
}
SHORT, LONG = RIGHT | {"ALTI": 0.5}, RIGHT | {"ALTI": 0.7, "ALTI LN2": 0.7}


def agreeing(
    means: dict[str, float], alike: float, cosines: tuple[float, float], growth: float
) -> dict[str, ClaimVerdict]:
    """The verdicts where three data sets say the same."""
    result = found_with(means, alike={"ALTI": alike, "IG l2": 0.5}, cosines=cosines, growth=growth)
    return verdicts({(name, "toy"): result for name in ("sst2", "imdb", "yelp")})


def test_every_claim_can_be_confirmed() -> None:
    assert agreeing(SHORT, 0.9, (0.5, 0.4), 0.02) == dict.fromkeys(CLAIMS, "confirmed")


def test_every_claim_can_be_refuted() -> None:
    wrong = {name: 0.9 - value for name, value in SHORT.items()}
    wrong |= {"IG mean": 0.9, "IG signed": 0.9, "ALTI l2": 0.45, "Norms": 0.6, "ALTI LN2": 0.1}
    assert agreeing(wrong, 0.1, (0.3, 0.4), -0.02) == dict.fromkeys(CLAIMS, "refuted")


def test_two_data_sets_that_differ_decide_nothing() -> None:
    """ALTI leads by .2 on one and by .4 on the other: Student's interval of two numbers is wide."""
    sets = {("sst2", "toy"): SHORT, ("imdb", "toy"): LONG}
    found = {key: found_with(means, alike={}, cosines=(0.5, 0.4)) for key, means in sets.items()}
    assert verdicts(found)["A4 comp"] == "open"


def test_estimates_by_hand() -> None:
    """ALTI leads IG l2 by .2 on the short set and by .4 on the long one; the other four gradients have at most .1."""
    found = {
        ("sst2", "toy"): found_with(SHORT, alike={"ALTI": 0.9, "IG l2": 0.5}, cosines=(0.5, 0.4), growth=0.5),
        ("imdb", "toy"): found_with(LONG, alike={"ALTI": 0.9, "IG l2": 0.5}, cosines=(0.5, 0.4), growth=0.5),
    }
    values = {one.claim.name: one.estimate.value for one in judged(found) if one.estimate is not None}
    assert values["A1 comp"] == pytest.approx((0.2 + 0.4) / 2)
    assert values["A2"] == pytest.approx(0.1)  # the lead grows by .5 x .2 from the shortest text to the longest
    assert values["A3 suff"] == pytest.approx(0.2)
    assert values["A9 Jaccard"] == pytest.approx(0.4)
    assert values["A10"] == pytest.approx(0.1)  # the second layer has the least
    assert values["A11 comp"] == pytest.approx((0.3 + 0.5) / 2)  # ALTI less Globenc, which differs between the sets
    assert values["L1 comp"] == pytest.approx((0.3 + 0.1) / 2)
    assert values["L2 suff"] == pytest.approx(0.8)  # the methods with signs have 0


def test_what_was_not_measured_stays_open() -> None:
    assert set(verdicts({}).values()) == {"open"}
    lone = AltiResult(TOY, found_with(SHORT, alike={}, cosines=(0, 0)).runs)
    found = verdicts({("sst2", "toy"): lone})
    assert {name for name, verdict in found.items() if verdict == "open"} == {"A2", "A9 Jaccard", "A9 Spearman", "A10"}


def test_other_bases_are_measured_on_sst2_alone() -> None:
    bases = [StudyBase("a", ""), StudyBase("b", "")]
    names = [(base.name, name) for base, name in wanted(StudyRequest(bases, ["sst2", "imdb"]), everything=False)]
    assert names == [("a", "sst2"), ("a", "imdb"), ("b", "sst2")]
    assert len(wanted(StudyRequest(bases, ["sst2", "imdb"]), everything=True)) == 4
    assert len(wanted(StudyRequest(bases, ["imdb"]), everything=False)) == 2


# The subject


def tree(text: str, *words: tuple[str, int, str]) -> Tree:
    place, found = 0, []
    for word, head, relation in words:
        place = text.index(word, place)
        found.append(Word(place, place + len(word), head, relation))
        place += len(word)
    return Tree(text, tuple(found))


def test_the_subject_of_a_verb() -> None:
    plain = tree(
        "the keys here are old", ("the", 1, "det"), ("keys", 3, "nsubj"), ("here", 1, "advmod"), ("are", -1, "ROOT")
    )
    assert subject_of(plain, 14, 17) == (4, 8)
    auxiliary = tree("keys are sold", ("keys", 2, "nsubj:pass"), ("are", 2, "aux:pass"), ("sold", -1, "root"))
    assert subject_of(auxiliary, 5, 8) == (0, 4)
    behind = tree("here are keys", ("here", 1, "advmod"), ("are", -1, "ROOT"), ("keys", 1, "nsubj"))
    assert subject_of(behind, 5, 8) is None
    relative = tree("that are", ("that", 1, "nsubj"), ("are", -1, "ROOT"))
    assert subject_of(relative, 5, 8) is None
    assert subject_of(Tree("keys are"), 5, 8) is None


def test_the_strongest_token_is_held_against_the_subject() -> None:
    row = {
        "text": "keys [MASK] old",
        "scores": [9.0, 0.3, 8.0, 0.2],
        "offsets": [[0, 0], [0, 4], [5, 11], [12, 15]],
        "segment": [-1, 0, 0, 0],
    }
    assert hits_subject(row, (0, 4))  # neither the special token nor the mask counts
    assert not hits_subject(row, (12, 15))
    assert not hits_subject({**row, "segment": [-1, -1, -1, -1]}, (0, 4))


# The whole study

TINY = StudySize(texts=6, tokens=40, quick=True, validation=4)
RUN = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(int(sys.argv[3]))
from wherefrom_studies.alti import measuring
from wherefrom_studies.alti.study import STUDY
from wherefrom_studies.study import StudyRequest, run_study
from wherefrom_studies.bench import StudyBase, StudyBench, StudySize
root = Path(sys.argv[1])
bench = StudyBench(root / "data", root / sys.argv[2], StudySize(texts=6, tokens=40, quick=True, validation=4))
run_study(STUDY, bench, StudyRequest([StudyBase("toy", str(root / "base"))], ["sst2"], 2))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and a base for the whole study."""
    root = tmp_path_factory.mktemp("alti")
    write(root / "data", "sst2_train", [{**row, "text": f"it is , {row['text']}"} for row in rows_of("train", 40)])
    write(root / "data", "sst2_dev", rows_of("dev", 12))
    write(root / "data", "imdb", rows_of("test", 4))
    write(root / "data", "jw_imdb_train", [{"text": f"but {text}", "label": label} for text, label in sentences(8)])
    verbs = [
        {
            "id": f"v-{number}",
            "text": f"the film {verb} good and {text}",
            "label": verb,
            "foil": foil,
            "verb_span": [9, 9 + len(verb)],
            "n_attractors": number % 2,
        }
        for number, (text, _) in enumerate(sentences(30))
        for verb, foil in [("was", "is") if number % 2 else ("is", "was")]
    ]
    write(root / "data", "agreement_linzen", verbs)
    base(root / "base")
    return root


def test_a_study_killed_with_nine_and_resumed_gives_the_same_tables(folder: Path) -> None:
    """One study is killed as soon as a part of a run is there (or has ended before, which is as good)."""
    process = subprocess.Popen([sys.executable, "-c", RUN, str(folder), "killed", str(torch.get_num_threads())])
    try:
        until = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < until:
            if list((folder / "killed").glob("runs/*/receipts/*.json")):
                break
            time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
    toy = StudyBase("toy", str(folder / "base"))
    pages = [
        run_study(STUDY, StudyBench(folder / "data", folder / out, TINY), StudyRequest([toy], ["sst2"], 2))
        for out in ("killed", "whole")
    ]
    first, second = (
        [table for table in as_plain(page)["tables"] if table["title"] != "What a method costs"] for page in pages
    )
    assert_alike(first, second)
    assert_alike(as_plain(pages[0])["claims"], as_plain(pages[1])["claims"])
    page = pages[1]
    titles = [table.title for table in page.tables]
    assert any(title.startswith("Figures 7, 8") for title in titles)
    assert any(title.startswith("Figure 3") for title in titles)
    (row,) = (cells for name, cells in page.tables[0].rows if name == "ALTI `alti`")
    assert row[0].estimate is not None
    assert row[0].estimate.texts == 6
    assert row[0].paper == ".269"
    assert {path.name for path in (folder / "whole").glob("*.png")} >= {
        "alti-figure3.png",
        "alti-figure6-sst2-toy.png",
        "alti-figure7-toy.png",
        "alti-flow-alti-toy.png",
    }
    assert "imdb: not measured." in page.missing
    markdown_page(page)
    json.dumps(as_plain(page), allow_nan=False)


def test_agreement_is_measured_and_its_subject_looked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser is replaced by one that knows these sentences, of which "film" is the subject."""

    def parsed(trees: Sequence[Tree]) -> list[Tree]:
        return [
            tree(one.text, ("the", 1, "det"), ("film", 2, "nsubj"), (one.text.split()[2], -1, "ROOT")) for one in trees
        ]

    monkeypatch.setattr(measuring, "parse", parsed)
    toy = StudyBase("toy", str(folder / "base"))
    page = run_study(STUDY, StudyBench(folder / "data", folder / "whole", TINY), StudyRequest([toy], ["agreement"]))
    table = next(one for one in page.tables if one.title.startswith("Subject-verb agreement"))
    assert len(table.rows) == len(NAMES)
    for _, cells in table.rows:
        assert cells[-1].estimate is not None
        assert 0 <= cells[-1].estimate.value <= 1
        assert cells[-1].estimate.texts == 6
    comp = page.tables[0].rows[0][1][0]
    assert comp.estimate is not None
    assert comp.estimate.texts == 6
