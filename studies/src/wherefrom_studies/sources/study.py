"""The study of sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wherefrom import load
from wherefrom.errors import BadOption
from wherefrom_studies.bench import StudyBench, provenance
from wherefrom_studies.journal import Record, read_records
from wherefrom_studies.sources.measuring import measure_sets, question_sets
from wherefrom_studies.sources.tables import judged, pictures, sets_of, tables
from wherefrom_studies.study import Measured, Study, StudyRequest

SIZES = {"quick": ({1: 20}, 10), "standard": ({1: 200, 4: 200, 10: 50}, 100)}  # questions by passages; for grounding


def sources_study(
    source: str | None, device: str | None, sizes: Mapping[int, int], grounding: int
) -> Study[list[Record]]:
    """The study with one model; with none, a page of the records that are there."""

    def measure(bench: StudyBench, _: StudyRequest) -> Measured[list[Record]]:
        journal = bench.out / "sources.jsonl"
        if source is None:
            records = read_records(journal)
            if not records:
                raise BadOption(f"There are no records in {journal}: name a causal language model with --model.")
        else:
            sets = question_sets(bench.data_dir, sizes, grounding)
            records = measure_sets(load(source, device=device), sets, journal, bench.watch)
        return Measured(records, _facts(records), provenance(sum(record["seconds"] for record in records)))

    return Study(
        name="sources",
        title="Which method finds the passage an answer came from",
        about="A causal language model answers questions of SQuAD with the paragraph that contains the answer, alone or"
        " among paragraphs of other articles. The sentence that contains the answer is known.",
        measure=measure,
        tables=tables,
        judged=judged,
        pictures=pictures,
        intervals="the studentised bootstrap's 95% interval over paragraphs",
    )


def _facts(records: Sequence[Record]) -> list[str]:
    facts = []
    for name, counted in sets_of(records).items():
        tried = [record for record in records if record["set"] == name]
        paragraphs = len({record["paragraph"] for record in counted})
        failed = sum("error" in record for record in tried)
        facts.append(
            f"{name}: {len(counted)} questions about {paragraphs} paragraphs whose generated answer contains the right"
            f" one, of {len(tried)} that were tried{f' ({failed} prompts were too long)' if failed else ''}."
        )
    minutes = sum(record["seconds"] for record in records) / 60
    return [*facts, f"{minutes:.0f} minutes of CPU time on one thread."]
