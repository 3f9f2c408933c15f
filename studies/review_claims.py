"""Judge the claims of the pages in docs/appendix/studies again, from their tables. Run it without arguments.

The interval of a claim over several data sets is Student's over the data sets' means, which the pages contain; the
results of single texts, of which a claim about one data set would be tested, were not kept. Such claims keep their
earlier interval, except that "X is best" is open where its earlier test, biased towards refuted, did not confirm it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from wherefrom_studies.alti import paper as alti
from wherefrom_studies.attcat import paper as attcat
from wherefrom_studies.claims import Claim, Estimate, JudgedClaim, corrected
from wherefrom_studies.comparisons import Pairs, SetTables, ascend, leads, ordered, trail
from wherefrom_studies.mask_lrp import paper as mask_lrp
from wherefrom_studies.optimus import paper as optimus
from wherefrom_studies.overview.tables import all_claims_table, verdicts_table
from wherefrom_studies.pages import StudyPage, as_plain, claims_table, markdown_tables, verdicts_note
from wherefrom_studies.sparse import paper as sparse

DOCS = Path(__file__).parents[1] / "docs" / "appendix" / "studies"
Orders = dict[str, tuple[str, Pairs, float]]  # claim -> the title of its table, its pairs, the side that is better
GONE = "not tested: fewer than three data sets, and the results of single texts were not kept"
EARLIER = {"C9": "C9 truth", "O1": "O1 Pearson", "S3": "S3 text"}  # claims that were counted twice
BIASED = ("A9", "M7", "O8 heads", "O8 layers", "O8 matrix")  # "X is best" on one data set, or without means by set


def _attcat() -> Orders:
    own, others = "attcat", list(attcat.OTHERS)
    attention = ["raw_attention", "attention_rollout"]
    six = [name for name in attcat.PAPER.values() if name not in attention]
    specific = leads(own, [name for name in attcat.CLASS_SPECIFIC if name != own])
    orders: Orders = {
        "C5": ("Table 2: Kendall's correlation between classes", specific, -1.0),
        "C5 published": ("Table 2: the same by the public code", specific, -1.0),
        "C6": ("Figure 3: tokens of the answer among the first K, as a count", leads(own, others), 1.0),
        "C7 AOPC": ("Table 1: AOPC", [(own, "attcat:layers=rollout")], 1.0),
        "C8": ("Table 1: AOPC", [("attcat:hidden=output", own)], 1.0),
        "C9": ("Signs: truthfulness", [(own, "transatt")], 1.0),
    }
    for short, title, sign in (("AOPC", "Table 1: AOPC", 1.0), ("LOdds", "Table 1: log-odds", -1.0)):
        orders |= {
            f"C1 {short}": (title, leads(own, others), sign),
            f"C2 {short}": (title, [(own, "cat")], sign),
            f"C3 {short}": (title, trail(attention, six), sign),
            f"C4 {short}": (title, [(own, "transatt")], sign),
        }
    return orders


def _alti() -> Orders:
    others = [name for name in alti.PAPER if name != "ALTI"]
    orders: Orders = {"A1 published": ("Comprehensiveness as the public code computes it", leads("ALTI", others), 1.0)}
    for short, word, sign in (("comp", "comprehensiveness", 1.0), ("suff", "sufficiency", -1.0)):
        main, variants = f"Tables 2, 6, 7: {word}", f"Tables 4, 5: {word} of variants"
        orders |= {
            f"A1 {short}": (main, leads("ALTI", others), sign),
            f"A3 {short}": (main, leads("IG l2", [name for name in alti.GRADIENTS if name != "IG l2"]), sign),
            f"A4 {short}": (main, [("ALTI", "IG l2")], sign),
            f"A5 {short}": (main, leads("ALTI", alti.SIGNED), sign),
            f"A6 {short}": (variants, [("ALTI", "ALTI l2")], sign),
            f"A7 {short}": (variants, [("ALTI l2", "Norms")], sign),
            f"A8 {short}": (variants, [("ALTI LN2", "ALTI")], 1.0),
            f"A11 {short}": (main, ascend(["Rollout", "Globenc", "ALTI"]), sign),
            f"L1 {short}": (main, [("Logit", "ALTI")], sign),
            f"L2 {short}": (main, leads("Logit", alti.SIGNED), sign),
        }
    return orders


def _mask_lrp() -> Orders:
    aopc, odds, baselines = "Tables 1, 3, 4: AOPC", "Tables 1, 3, 4: log-odds", list(mask_lrp.PAPER)
    return {
        "M1 AOPC": (aopc, leads("Ours", baselines), 1.0),
        "M1 LOdds": (odds, leads("Ours", baselines), -1.0),
        "M1 skip": (aopc, leads("Ours, bare=skip", baselines), 1.0),
        "M2": (aopc, [("Ours", "Random mask")], 1.0),
        "M3": (aopc, [("Random mask", "TransAtt")], 1.0),
        "M6 positional": (aopc, [("without positional", "Ours")], 1.0),
        "M6 syntactic": (aopc, [("without syntactic", "Ours")], 1.0),
        "M8 AOPC": (aopc, [("Ours", "ALTI")], 1.0),
        "M8 LOdds": (odds, [("Ours", "ALTI")], -1.0),
    }


def _optimus() -> Orders:
    comp, suff = "Beside: comprehensiveness", "Beside: sufficiency (lower is better)"
    f, auprc = "Beside: F", "Table 4: AUPRC"
    three = ["B", "IG", "LIME"]
    return {
        "O1": ("Table 2: correlation with AUPRC over all combinations of A", [("Pearson RFT", "Pearson F")], 1.0),
        "O2 comp": (comp, leads("OP", three), 1.0),
        "O2 suff": (suff, leads("OP", three), -1.0),
        "O2 F": (f, leads("OP", three), 1.0),
        "O2 AUPRC": (auprc, leads("OP", three), 1.0),
        "O4 comp": (comp, leads("OB", three[1:]), 1.0),
        "O4 AUPRC": (auprc, leads("OB", [*three, "OP"]), 1.0),
        "O5 B": (f, [("B", "B*")], 1.0),
        "O5 OB": (f, [("OB", "OB*")], 1.0),
        "O6": (f, [("OP A and A*", "OP")], 1.0),
        "O7": ("Figure 3: change of attention", [("delete", "unk")], 1.0),
    }


PAGES: dict[str, tuple[dict[str, Claim], Orders]] = {
    "attcat": (attcat.CLAIMS, _attcat()),
    "alti": (alti.CLAIMS, _alti()),
    "mask-lrp": (mask_lrp.CLAIMS, _mask_lrp()),
    "optimus": (optimus.CLAIMS, _optimus()),
    "sparse": (sparse.CLAIMS, {}),
}


def means_of(page: dict[str, Any], title: str) -> tuple[SetTables, list[str]]:
    """The means of a table, one row for each data set and base, and the names of the methods. Rows that lack a value
    on some data set are left out.
    """
    table = next(table for table in page["tables"] if table["title"] == title)
    columns, rows = table["columns"], table["rows"]
    if title.startswith("Table 2: correlation"):  # data sets are rows there
        values = {row["name"].split(",")[0]: [cell.get("value") for cell in row["cells"]] for row in rows}
        return {_key(name): np.array([numbers], dtype=np.float64) for name, numbers in values.items()}, columns
    chosen = [place for place, name in enumerate(columns) if " K=" not in name or name.endswith("K=20")]
    named = {
        _name(row["name"], ours=page["study"] == "attcat"): [row["cells"][place].get("value") for place in chosen]
        for row in rows
    }
    names = [name for name, cells in named.items() if None not in cells]
    if title.startswith("Tables 1, 3, 4"):
        names = list(named)
    table_of = {
        _key(columns[place]): np.array([[np.nan if (cell := named[name][at]) is None else cell for name in names]])
        for at, place in enumerate(chosen)
    }
    return table_of, names


def _key(column: str) -> tuple[str, str]:
    name, base = column.split(" K=")[0].rsplit(" ", 1)
    return name, base


def _name(row: str, *, ours: bool) -> str:
    """Of a row such as RawAtt `raw_attention`: our name, or the paper's."""
    names = re.fullmatch(r"(.*?) ?`(.*)`", row)
    return row if names is None else names[2] if ours else names[1]


def review(name: str) -> list[JudgedClaim]:
    page = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
    claims, orders = PAGES[name]
    earlier = {claim["name"]: claim for claim in page["claims"]}
    judged = []
    for key, claim in claims.items():
        before = earlier.get(key) or earlier.get(EARLIER.get(key, ""))
        if key in orders:
            title, pairs, sign = orders[key]
            tables, names = means_of(page, title)
            if key.startswith("M6"):  # sets of which all heads are of one kind say nothing
                a, b = (names.index(which) for which in pairs[0])
                tables = {where: row for where, row in tables.items() if row[0, a] != row[0, b]}
            if len(tables) < 3:
                judged.append(claim.judged(None, GONE))
                continue
            finding = ordered(tables, names, pairs, sign)
            texts = (before or {}).get("found") or {}
            if finding.estimate is not None:
                finding = finding._replace(estimate=finding.estimate._replace(texts=texts.get("texts", 0)), by_set={})
            judged.append(claim.judged(*finding))
        elif before is None or before.get("found") is None:
            why = (
                "measured with one set of masks a study so far" if key == "M2 depth" else (before or {}).get("why", "")
            )
            judged.append(claim.judged(None, why or "not measured"))
        elif key.startswith(BIASED) and before["verdict"] != "confirmed":
            judged.append(claim.judged(None, GONE))
        elif key == "A2":
            judged.append(claim.judged(None, "the length of texts within a data set was not kept with the results"))
        else:
            found = before["found"]
            judged.append(claim.judged(Estimate(found["value"], found["low"], found["high"], found["texts"])))
    return corrected(judged)


def write(name: str, judged: list[JudgedClaim]) -> None:
    """Put the claims into the page and its JSON."""
    path = DOCS / f"{name}.json"
    page = json.loads(path.read_text(encoding="utf-8"))
    page["claims"] = as_plain(StudyPage("", "", "", [], [], judged))["claims"]
    path.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")
    text = DOCS.joinpath(f"{name}.md").read_text(encoding="utf-8")
    begin = text.index("## The claims\n")
    table = text.index("| claim |", begin)
    end = text.index("\n\n", table)
    note = (
        "Judged again on 2026-11-18 by `studies/review_claims.py` from the means of the tables below, with data sets as"
        " units; statistics and margins are those of that commit, before any larger run is looked at. The results of"
        " single texts were not kept: claims about a single data set keep the interval over texts that they had, and"
        " intervals in the tables are still quantiles of the bootstrap, which at 25 texts cover less than 95%"
        " ([how claims are tested](index.md#how-claims-are-tested))."
    )
    parts = [
        text[:begin],
        "## The claims\n\n",
        verdicts_note(judged),
        "\n\n",
        note,
        "\n\n",
        claims_table(judged).rstrip(),
    ]
    DOCS.joinpath(f"{name}.md").write_text("".join(parts) + text[end:], encoding="utf-8")


def write_overview() -> None:
    """Put the claims of all pages into the page over all studies."""
    claims = []
    for name in ("optimus", "attcat", "alti", "mask-lrp", "sparse"):
        page = json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))
        claims += [{"study": name} | claim for claim in page["claims"]]
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    begin, end = text.index("### What holds of each paper"), text.index("### Mean place by group of metrics")
    tables = markdown_tables([verdicts_table(claims), all_claims_table(claims)])
    (DOCS / "index.md").write_text(f"{text[:begin]}{tables}\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    for page_name in PAGES:
        claims_now = review(page_name)
        print(
            page_name,
            *(Counter(names) for names in zip(*((one.verdict, one.corrected) for one in claims_now), strict=True)),
        )
        write(page_name, claims_now)
    write_overview()
