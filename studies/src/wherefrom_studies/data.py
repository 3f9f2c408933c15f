"""The data of the studies: what is trained on, what is chosen by, what is measured on.

Every set is made from JSON lines in one folder, split by a fixed seed where it has no split of its own, and written as
JSON lines that `wherefrom run` reads. No text that is measured on is trained on: where a text, a pair or a paragraph
comes twice, all of its rows are on the same side.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from wherefrom.errors import BadFile, UnknownName
from wherefrom.files import read_json_lines, write_atomically
from wherefrom_studies.fine_tuning import FineTuning
from wherefrom_studies.subject_verb_agreement import Sentence
from wherefrom_studies.task_networks import TrainingTask

SEED = 17
SHARES = (0.7, 0.1, 0.2)
PartName = Literal["train", "valid", "test"]
PARTS: tuple[PartName, ...] = get_args(PartName)
Rows = list[dict[str, Any]]
Parsed = TypeVar("Parsed")
STYLES = ("anger", "disgust", "fear", "joy", "offensive", "politeness", "sadness", "sentiment")
MASK = "[MASK]"

# What a folder has to hold, and where it is to be had; {fields} are those of one line.
SOURCES = {
    "sst2_train": ("GLUE SST-2, train.tsv", "id, text, label (0 or 1)"),
    "sst2_dev": ("GLUE SST-2, dev.tsv", "id, text, label (0 or 1)"),
    "jw_imdb_train": ("IMDB as Jain and Wallace (2019) prepared it, train", "text, label (0 or 1)"),
    "imdb": ("the Large Movie Review Dataset (aclImdb)", "id, split (train or test), text, label (0 or 1)"),
    "yelp_polarity": ("Yelp polarity, test.csv", "id, text, label (0 or 1)"),
    "amazon_reviews": ("Amazon reviews polarity, test.csv", "id, text, label (0 or 1)"),
    "qqp": ("GLUE QQP, dev.tsv", "id, text_a, text_b, label (0 or 1)"),
    "mnli": ("GLUE MNLI, dev_matched.tsv", "id, text_a, text_b, label (by name)"),
    "squad_v1.1": ("SQuAD 1.1, dev", "id, text_a (question), text_b (context), answer {spans: [{text, start, end}]}"),
    "squad_v2": ("SQuAD 2.0, dev", "id, text_a (question), text_b (context), answer {spans: [{text, start, end}]}"),
    "hatexplain": ("HateXplain, dataset.json", "id, split (train, val, test), text, label (0 or 1), rationale"),
    "ethos": ("ETHOS, multi-label csv", "id, split (multi_label), text, label {name: 0 or 1}"),
    "ais_mri": ("brain MRI reports of acute ischemic stroke (Kim et al. 2019)", "id, text, label (0 or 1)"),
    "hoc": ("Hallmarks of Cancer", "id, text, label [names], rationale {name: [[start, end]]}"),
    "eraser_movies": ("ERASER movies", "id, split (val or test), text, label (0 or 1), rationale"),
    "eraser_movies_train": ("ERASER movies", "id, split (train), text, label (0 or 1), rationale"),
    "hummingbird": ("Hummingbird", "id (style-number), split (style), text, label (0, 0.5 or 1), rationale"),
    "esnli": ("e-SNLI, csv", "id, text_a, text_b, label (by name), rationale_a, rationale_b"),
    "agreement_linzen": ("Linzen et al. (2016)", "id, text, label, foil, verb_span [start, end], n_attractors"),
}


class Splits(NamedTuple):
    """Rows to train on, to choose by, and to measure on."""

    train: Rows
    valid: Rows
    test: Rows


USUAL = FineTuning()


@dataclass(frozen=True)
class StudySet:
    """A data set of the studies, and the model that is made for it."""

    name: str
    files: tuple[str, ...]
    make: Callable[[dict[str, Rows]], Splits]
    task: TrainingTask | Literal["next_word"]  # the last is not trained: a causal language model comes as it is
    labels: tuple[str, ...] = ()
    recipe: FineTuning = USUAL
    quick: tuple[int, int] = (3000, 1)  # rows and epochs of a quick study
    quick_texts: tuple[int, int] | None = None  # texts of a quick study, and tokens of the longest, where all are long
    model: str = ""  # the set whose model this one is measured with, where it is not its own
    start: str = ""  # the set whose model the training starts from, where that is not the base
    rationales: bool = False
    note: str = ""  # where it is not the paper's set

    def training(self, rows: Rows, *, quick: bool) -> tuple[Rows, FineTuning]:
        """What is trained on, and how. A quick study trains on fewer rows, in smaller batches."""
        if not quick:
            return rows, self.recipe
        fewer, epochs = self.quick
        return drawn(rows, fewer), replace(self.recipe, epochs=epochs, batch=16, rate=max(self.recipe.rate, 1e-4))

    @property
    def trained_on(self) -> str:
        return self.model or self.name


def read_rows(path: Path, parse: Callable[[dict[str, Any]], Parsed], form: str, hint: str = "") -> list[Parsed]:
    """The rows of a file of JSON lines.

    form: what every line has to be, for errors.
    hint: how to make the file, where it is missing.
    """
    if not path.is_file():
        raise BadFile(f"There is no file {path}. {hint or f'Each of its lines is {form}.'}")
    rows = []
    for where, row in read_json_lines(path):
        try:
            rows.append(parse(row))
        except (ValueError, KeyError, TypeError) as error:
            raise BadFile(f"{where}: this is not {form}: {error!r}.") from error
    return rows


def read_source(folder: Path, file: str) -> Rows:
    source, fields = SOURCES[file]
    hint = f"It is made from {source}: one JSON object a line with {fields}; name its folder with --data-dir."
    return read_rows(folder / f"{file}.jsonl", dict, f"a JSON object with {fields}", hint)


def study_splits(name: str, folder: Path) -> Splits:
    """All rows of a set."""
    if name not in SETS:
        raise UnknownName.among("data set of the studies", name, SETS)
    wanted = SETS[name]
    splits = wanted.make({file: read_source(folder, file) for file in wanted.files})
    for part, rows in zip(PARTS, splits, strict=True):
        trained = not wanted.model and wanted.task != "next_word"
        if not rows and (part == "test" or trained):
            raise BadFile(f"The data set {name} has no rows for {part}: {', '.join(wanted.files)} hold too few.")
    return splits


def write_part(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """JSON lines that `wherefrom run` reads."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "\n".join(lines) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != content:
        write_atomically(path, content, "data of a study")


def drawn(rows: Sequence[dict[str, Any]], count: int, seed: int = SEED) -> Rows:
    """So many rows, chosen and ordered by a digest of seed and id: a larger draw begins with the smaller one."""
    return sorted(rows, key=lambda row: _chance(str(row["id"]), seed))[:count]


def first_that_fit(
    rows: Iterable[dict[str, Any]], count: int, tokens: int, length: Callable[[dict[str, Any]], int]
) -> Rows:
    """The first so many rows that are not longer than so many tokens, special ones included."""
    return list(islice((row for row in rows if length(row) <= tokens), count))


def split_rows(rows: Sequence[dict[str, Any]], group: Callable[[dict[str, Any]], str], seed: int = SEED) -> Splits:
    """70% to train on, 10% to choose by, 20% to measure on. Rows of one group stay together."""
    groups: dict[str, Rows] = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row)
    ordered = sorted(groups, key=lambda key: _chance(key, seed))
    first, second = (round(len(ordered) * share) for share in (SHARES[0], SHARES[0] + SHARES[1]))
    parts = (ordered[:first], ordered[first:second], ordered[second:])
    return Splits(*([row for key in part for row in groups[key]] for part in parts))


def _chance(key: str, seed: int) -> str:
    return hashlib.sha256(f"{seed} {key}".encode("utf-8", "replace")).hexdigest()


def _bare(text: str) -> str:
    """The beginning of a text, the same however it was tokenised."""
    return " ".join(re.findall(r"[a-z]+", text.lower())[:40])


def _pair_key(row: dict[str, Any]) -> str:
    return f"{_bare(row['text'])} | {_bare(row.get('pair') or '')}"


def _text_key(row: dict[str, Any]) -> str:
    return _bare(row["text"])


# The sets


def _row(row: dict[str, Any], label: Any, **more: Any) -> dict[str, Any]:
    text = row["text"] if "text" in row else row["text_a"]
    pair = {"pair": row["text_b"]} if "text_b" in row else {}
    return {"id": row["id"], "text": text, **pair, "label": label, **more}


def _numbered(rows: Rows, prefix: str) -> Rows:
    return [{"id": f"{prefix}-{number}", **row} for number, row in enumerate(rows)]


POLARITY = ("negative", "positive")
DUPLICATES = ("different", "duplicate")
RELATIONS = ("contradiction", "entailment", "neutral")


def _polar(rows: Rows) -> Rows:
    return [_row(row, POLARITY[row["label"]]) for row in rows]


def _not_in(rows: Rows, others: Rows) -> Rows:
    seen = {_text_key(row) for row in others}
    return [row for row in rows if _text_key(row) not in seen]


def _sst2(files: dict[str, Rows]) -> Splits:
    """SST-2's training part with the beginnings of reviews of films beside it: one model for sentences and reviews."""
    test = _polar(files["sst2_dev"])
    sentences = drawn(_not_in(_polar(files["sst2_train"]), test), 21_000)
    reviews_test = _polar([row for row in files["imdb"] if row["split"] == "test"])
    reviews = _polar(_numbered(files["jw_imdb_train"], "jw-imdb"))
    reviews += _polar([row for row in files["imdb"] if row["split"] == "train"])
    reviews = drawn(_not_in(reviews, reviews_test), 2_500)
    cut = len(sentences) * 20 // 21
    return Splits(sentences[:cut] + reviews, sentences[cut:], test)


def _only_test(file: str) -> Callable[[dict[str, Rows]], Splits]:
    def make(files: dict[str, Rows]) -> Splits:
        return Splits([], [], _polar([row for row in files[file] if row["split"] == "test"]))

    return make


def _qqp(files: dict[str, Rows]) -> Splits:
    return split_rows([_row(row, DUPLICATES[row["label"]]) for row in files["qqp"]], _pair_key)


def _qqp_duplicates(files: dict[str, Rows]) -> Splits:
    """Duplicates alone; what is measured with is the model of all pairs, split alike."""
    parts = _qqp(files)
    valid, test = ([row for row in part if row["label"] == DUPLICATES[1]] for part in parts[1:])
    return Splits([], valid, test)


def _mnli(files: dict[str, Rows]) -> Splits:
    return split_rows([_row(row, row["label"]) for row in files["mnli"]], _text_key)  # premises come three times


def _esnli(files: dict[str, Rows]) -> Splits:
    """Without neutral pairs. Those of MNLI are trained on beside them, because there are few."""
    rows = [
        _row(row, row["label"], rationale=row["rationale_a"], pair_rationale=row["rationale_b"])
        for row in files["esnli"]
        if row["label"] != "neutral"
    ]
    train, valid, test = split_rows(rows, _text_key)
    more = [_row(row, row["label"]) for row in files["mnli"] if row["label"] != "neutral"]
    return Splits(train + drawn(more, 1_600), valid, test)


def _answers(row: dict[str, Any]) -> list[list[int]]:
    return [[span["start"], span["end"]] for span in row["answer"]["spans"]]


def _squad(measured: str) -> Callable[[dict[str, Rows]], Splits]:
    def make(files: dict[str, Rows]) -> Splits:
        """Answerable questions of both versions, split by paragraph, because the versions share some."""
        rows = [
            {
                "id": f"{file}-{row['id']}",
                "question": row["text_a"],
                "context": row["text_b"],
                "text": row["text_a"],
                "pair": row["text_b"],
                "answer": _answers(row),
            }
            for file in ("squad_v1.1", "squad_v2")
            for row in files[file]
            if _answers(row)
        ]
        train, valid, test = split_rows(rows, lambda row: _bare(row["context"]))
        of_this = [[row for row in part if row["id"].startswith(f"{measured}-")] for part in (valid, test)]
        return Splits(train, *of_this)

    return make


def _hatexplain(files: dict[str, Rows]) -> Splits:
    rows = files["hatexplain"]
    parts = ([row for row in rows if row["split"].startswith(name)] for name in ("train", "val", "test"))
    names = ("normal", "hateful")
    return Splits(*([_row(row, names[row["label"]], rationale=row["rationale"]) for row in part] for part in parts))


def _ethos(files: dict[str, Rows]) -> Splits:
    rows = [
        _row(row, [name for name, there in row["label"].items() if there])
        for row in files["ethos"]
        if row["split"] == "multi_label"
    ]
    return split_rows(rows, _text_key)


def _ais(files: dict[str, Rows]) -> Splits:
    return split_rows([_row(row, ("no stroke", "stroke")[row["label"]]) for row in files["ais_mri"]], _text_key)


def _hoc(files: dict[str, Rows]) -> Splits:
    rows = [_row(row, row["label"], rationale=row["rationale"]) for row in files["hoc"] if row["label"]]
    return split_rows(rows, _text_key)


def _movies(files: dict[str, Rows]) -> Splits:
    def of(rows: Rows) -> Rows:
        return [_row(row, POLARITY[row["label"]], rationale=row["rationale"]) for row in rows]

    valid, test = ([row for row in files["eraser_movies"] if row["split"] == name] for name in ("val", "test"))
    return Splits(of(files["eraser_movies_train"]), of(valid), of(test))


def _hummingbird(files: dict[str, Rows]) -> Splits:
    """Eight styles as one set with several labels. Its numbers are the wrong way round: 0 says that the style is
    there. Of politeness and sentiment 1 says the contrary (rude, negative) and 0.5 neither; what was marked for the
    contrary is left out.
    """
    merged: dict[str, dict[str, Any]] = {}
    for row in files["hummingbird"]:
        number = row["id"].rpartition("-")[2]
        study_set = merged.setdefault(
            number, {"id": f"hummingbird-{number}", "text": row["text"], "label": [], "rationale": {}}
        )
        if study_set["text"] != row["text"]:
            raise BadFile(f"hummingbird.jsonl: {row['id']} has another text than the other rows of its number.")
        if row["label"] == 0:
            study_set["label"].append(row["split"])
            study_set["rationale"][row["split"]] = row["rationale"]
    rows = [{**row, "label": sorted(row["label"])} for row in merged.values() if row["label"]]
    return split_rows(rows, _text_key)


def _agreement(files: dict[str, Rows]) -> Splits:
    rows = []
    for row in files["agreement_linzen"]:
        sentence = Sentence.of(row)
        more = {"label": sentence.right, "foil": sentence.wrong, "attractors": sentence.attractors}
        rows.append({"id": row["id"], "text": sentence.masked(MASK), **more})
    return split_rows(rows, _text_key)


def _next_word(files: dict[str, Rows]) -> Splits:
    """The first halves of sentences, for what comes next."""
    rows = []
    for row in files["sst2_dev"]:
        words = row["text"].split()
        if len(words) >= 2 * LEAST_WORDS:
            rows.append({"id": row["id"], "text": " ".join(words[: len(words) // 2])})
    return Splits([], [], rows)


LEAST_WORDS = 4  # of half a sentence
SENTIMENT_FILES = ("sst2_train", "sst2_dev", "jw_imdb_train", "imdb")
SQUAD_FILES = ("squad_v1.1", "squad_v2")
HALLMARKS = (
    "Activating invasion and metastasis",
    "Avoiding immune destruction",
    "Cellular energetics",
    "Enabling replicative immortality",
    "Evading growth suppressors",
    "Genomic instability and mutation",
    "Inducing angiogenesis",
    "Resisting cell death",
    "Sustaining proliferative signaling",
    "Tumor promoting inflammation",
)
KINDS_OF_HATE = (
    "violence",
    "directed_vs_generalized",
    "gender",
    "race",
    "national_origin",
    "disability",
    "religion",
    "sexual_orientation",
)
FEW = FineTuning(epochs=8, rate=2e-4, batch=16)  # for a few hundred rows
SETS = {
    study_set.name: study_set
    for study_set in (
        StudySet(
            "sst2",
            SENTIMENT_FILES,
            _sst2,
            "one_label",
            POLARITY,
            FineTuning(epochs=1, longest=128),
            quick=(4000, 1),
            note="20,000 of 67,349 phrases (quick: 4,000 rows), and reviews of films cut at 128 tokens beside them",
        ),
        StudySet("amazon", ("amazon_reviews",), _only_test("amazon_reviews"), "one_label", POLARITY, model="sst2"),
        StudySet("yelp", ("yelp_polarity",), _only_test("yelp_polarity"), "one_label", POLARITY, model="sst2"),
        StudySet("imdb", ("imdb",), _only_test("imdb"), "one_label", POLARITY, quick_texts=(25, 128), model="sst2"),
        StudySet("qqp", ("qqp",), _qqp, "one_label", DUPLICATES, FineTuning(epochs=3), quick=(2800, 1)),
        StudySet("qqp_duplicates", ("qqp",), _qqp_duplicates, "one_label", DUPLICATES, model="qqp"),
        StudySet("mnli", ("mnli",), _mnli, "one_label", RELATIONS, FineTuning(epochs=3), quick=(4700, 2)),
        StudySet(
            "squad1",
            SQUAD_FILES,
            _squad("squad_v1.1"),
            "answer",
            recipe=FineTuning(epochs=3, rate=1e-4, batch=16, longest=320),
            quick=(1400, 3),  # all there are: with fewer it finds no answer
            quick_texts=(25, 192),
            note="answerable questions of both versions, split by paragraph",
        ),
        StudySet("squad2", SQUAD_FILES, _squad("squad_v2"), "answer", quick_texts=(25, 192), model="squad1"),
        StudySet(
            "hatexplain",
            ("hatexplain",),
            _hatexplain,
            "one_label",
            ("normal", "hateful"),
            FineTuning(epochs=2),
            rationales=True,
            note="hate and offensive speech are one class; the paper drops what is offensive",
        ),
        StudySet("ethos", ("ethos",), _ethos, "several_labels", KINDS_OF_HATE, FEW, quick=(400, 5)),
        StudySet("ais", ("ais_mri",), _ais, "one_label", ("no stroke", "stroke"), FineTuning(epochs=2)),
        StudySet(
            "hoc",
            ("hoc",),
            _hoc,
            "several_labels",
            HALLMARKS,
            FineTuning(epochs=4, rate=2e-4, batch=16, longest=256),
            quick=(400, 2),
            quick_texts=(10, 256),
            rationales=True,
            note="texts without any hallmark are left out; what is marked are whole sentences",
        ),
        StudySet(
            "movies",
            ("eraser_movies", "eraser_movies_train"),
            _movies,
            "one_label",
            POLARITY,
            FineTuning(epochs=1, longest=512, batch=8),
            quick=(300, 1),
            quick_texts=(5, 512),
            start="sst2",
            rationales=True,
        ),
        StudySet(
            "hummingbird",
            ("hummingbird",),
            _hummingbird,
            "several_labels",
            STYLES,
            FEW,
            quick=(400, 5),
            rationales=True,
        ),
        StudySet(
            "esnli",
            ("esnli", "mnli"),
            _esnli,
            "one_label",
            RELATIONS[:2],
            FineTuning(epochs=2),
            quick=(2600, 1),
            rationales=True,
            note="without neutral pairs; 1,600 pairs of MNLI are trained on beside its own",
        ),
        StudySet("next_word", ("sst2_dev",), _next_word, "next_word"),
        StudySet("agreement", ("agreement_linzen",), _agreement, "two_words", recipe=FineTuning(rate=1e-4)),
    )
}
