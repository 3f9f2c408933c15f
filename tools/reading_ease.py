"""How long the sentences of the documentation are, and which phrases to avoid are in it.

    python tools/reading_ease.py            # every page: sentences, median and 90th percentile of their words
    python tools/reading_ease.py FILE ...   # these pages, with their longest sentences

Tables, code, headings and pictures are left out. A word of code in backticks counts as one word.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[1]
MOST_WORDS = 20  # of the median sentence of a page

# Left: a phrase that crept into our prose. Right: what to write instead.
AVOID = {
    r"behind (the|every|each|a|an) (layer|softmax|block|projection)": "after the layer",
    r"cannot be told|not told (from|apart)|(tell|told|tells) (\w+ )?apart": "differs, does not differ significantly",
    r"\bgoes on\b(?! to\b)|\bgo on if\b|how to go on\b": "resumes, continues",
    r"of all (it|they) gives?\b": "of the total attribution",
    r"\bstands? (beside|below|above|behind|alone)\b": "is, appears; self-contained",
    r"\bis (the first|the last) by\b": "ranks first by",
    r"\bholds? zero\b": "contains zero, is not significantly different",
    r"\bforth and back\b": "back and forth",
    r"\bnobody (reads|looks|says)\b": "nothing uses, is not used",
    r"\basks? the model\b|\basking the model\b": "queries the model, runs a forward pass",
    r"what it reaches, anything reaches": "a floor that every method should beat",
    r"a page that needs nothing else": "a self-contained HTML file",
    r"hands? the logit back": "distributes the logit over the tokens",
    r"\bas they are found\b|\bas found, also\b": "restored, even after an error",
    r"\bspoke (for|against)\b": "supports, opposes; counts for, counts against",
    r"\bis there to be beaten\b": "is the baseline to beat",
    r"\bto its end\b": "completely",
}


def pages() -> list[Path]:
    """Every page that a reader meets; the appendix is a record of measurements."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb"), *ROOT.glob("studies/*.md")]
    return sorted(page for page in found if not page.is_relative_to(ROOT / "docs" / "appendix"))


def text_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return text


def prose(text: str) -> str:
    """The text without code blocks, tables, headings, pictures, comments and the goals of links."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(\||#|!\[).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "code", text)


def sentences(text: str) -> Iterator[list[str]]:
    """The words of every sentence; an item of a list and a paragraph end one."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", "\n\n" + prose(text)):
        for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+(?=[A-Z\"'(*]|code)", paragraph.strip()):
            words = re.findall(r"\w[\w.,'’/%-]*", sentence)
            if len(words) > 2:
                yield words


def found_phrases(text: str) -> list[str]:
    """The phrases to avoid that are in a text, as they are written there."""
    flat = re.sub(r"\s+", " ", text)
    return [match[0] for phrase in AVOID for match in re.finditer(phrase, flat, re.IGNORECASE)]


def main() -> None:
    chosen = [Path(name).resolve() for name in sys.argv[1:]]
    every: list[int] = []
    for page in chosen or pages():
        lengths = sorted((len(words) for words in sentences(text_of(page))), reverse=True)
        if len(lengths) < 2:
            continue
        every += lengths
        phrases = found_phrases(text_of(page))
        print(
            f"{page.relative_to(ROOT)}: {len(lengths)} sentences, median {median(lengths):g} words,"
            f" 90th percentile {quantiles(lengths, n=10)[-1]:.0f}" + (f"; avoid: {phrases}" if phrases else "")
        )
        if chosen:
            longest = sorted(sentences(text_of(page)), key=len, reverse=True)[:8]
            print(*(f"  {len(words)}: {' '.join(words)}" for words in longest), sep="\n")
    if every:
        long = quantiles(every, n=10)[-1]
        print(f"All: {len(every)} sentences, median {median(every):g} words, 90th percentile {long:.0f}")


if __name__ == "__main__":
    main()
