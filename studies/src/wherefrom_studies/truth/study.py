"""The study of planted reasons."""

from __future__ import annotations

from dataclasses import asdict

from wherefrom_studies.bench import StudyBench, provenance
from wherefrom_studies.journal import append_record, read_records
from wherefrom_studies.study import Measured, Study, StudyRequest
from wherefrom_studies.truth.measuring import Cell, TruthSize, cells, measure_texts, planted_models
from wherefrom_studies.truth.planted_models import PlantedModel
from wherefrom_studies.truth.results import TruthResults, results_of, write_results
from wherefrom_studies.truth.tables import judged, pictures, tables


def truth_study(size: TruthSize) -> Study[TruthResults]:
    """The study of this size; without bases, a page of what is there."""

    def measure(bench: StudyBench, request: StudyRequest) -> Measured[TruthResults]:
        models, texts = bench.out / "truth-models.jsonl", bench.out / "truth-texts.jsonl"
        known = {(record["model"], record["rate"]) for record in read_records(models)}
        for one in cells(request.bases, size.kinds, request.seeds):
            for model in planted_models(bench, one, size):
                if (one.name, model.rate) not in known:
                    append_record(models, model_record(one, model))
                if model.proof.holds:
                    measure_texts(model, one, size, bench, texts)
        results = results_of(read_records(models), read_records(texts))
        if results.values:
            write_results(results, bench.out / "truth.parquet")
        failed = [row for row in results.models if not row["holds"]]
        missing = [
            f"{row['model']}, rate {row['rate']}: it does not use its plant reliably, and is not used."
            for row in failed
        ]
        seconds = sum(row["seconds"] for row in [*results.models, *read_records(texts)] if "seconds" in row)
        return Measured(results, _facts(results), provenance(seconds), missing)

    return Study(
        name="truth",
        title="Which method and which metric to believe",
        about="Reasons are planted in classifiers: new tokens that decide the label, which the models verifiably use."
        " Methods are graded by whether they find them, and metrics by whether they order methods as the truth does.",
        measure=measure,
        tables=tables,
        judged=judged,
        pictures=pictures,
        intervals="Student's 95% interval over models, so that texts of one model count together",
    )


def model_record(one: Cell, model: PlantedModel) -> dict[str, object]:
    return {
        "model": one.name, "kind": one.kind, "base": one.base.name, "seed": one.seed, "holds": model.proof.holds,
        "proof": asdict(model.proof), "rows": model.rows, "seconds": model.seconds, "rate": model.rate,
    }  # fmt: skip


def _facts(results: TruthResults) -> list[str]:
    used = results.used
    texts = sum(len(results.values[name]) for name in used)
    bases = sorted({row["base"] for row in used.values()})
    return [
        f"{len(used)} of {len(results.models)} planted models use their plant ({', '.join(bases) or 'none'}).",
        f"{texts} texts of SST-2 were explained whose own label the model decided with a probability of .9 or more, and"
        " whose plant decides for the other.",
        "Every text has a decoy, too: a token as frequent as planted ones in training, and independent of the label.",
        "Models of one base begin with the same classifier; what is planted, the rows, their order and the new tokens'"
        " vectors change with the seed.",
    ]
