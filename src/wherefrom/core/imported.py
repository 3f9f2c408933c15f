"""Explanations from the numbers of other tools: SHAP, Captum, Inseq, or any list of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wherefrom.core.alignment import Aligned, align
from wherefrom.core.encoding import Encoding, TextOrPair, check_decoded, chosen_span
from wherefrom.core.explanation import Explanation
from wherefrom.core.units import Level
from wherefrom.errors import BadOption, UnknownName

CUT_NOTE = "The scores are of the first {reached} characters only; the text has {length}."


def from_scores(
    text: TextOrPair,
    scores: Any,
    *,
    tokens: Sequence[str] | None,
    offsets: Sequence[Sequence[int]] | None,
    words: Sequence[str] | None,
    target: str,
    method: str,
    signed: bool | None,
    probability: float | None,
    params: dict[str, Any] | None = None,
) -> Explanation:
    """See `Explanation.from_scores`."""
    texts = (text,) if isinstance(text, str) else tuple(text)
    if len(texts) not in (1, 2) or not all(isinstance(part, str) and part.strip() for part in texts):
        raise BadOption("The text is a str, or a (text, pair) tuple of two str, and is not empty.")
    for part in texts:
        check_decoded(part)
    given = [name for name, value in (("tokens", tokens), ("offsets", offsets), ("words", words)) if value is not None]
    if len(given) != 1:
        raise BadOption(f"Give one of tokens=, offsets= and words=, not {' and '.join(given) or 'none of them'}.")
    numbers = _numbers(scores)
    units: list[Any] = list(words if words is not None else tokens if tokens is not None else offsets or ())
    if len(units) != len(numbers):
        raise BadOption(f"There are {len(numbers)} scores for {len(units)} {given[0]}; give one score for each.")
    if offsets is not None:
        placed = [_placed(texts, value) for value in offsets]
        names = [texts[part][start:end].strip() for (start, end), part in placed]
    else:
        if not all(isinstance(unit, str) for unit in units):
            raise BadOption(f"{given[0]} are given as a list of str.")
        placed, names = align(texts, units, gaps=words is not None), [str(unit) for unit in units]
    spans, segment = tuple(unit.span for unit in placed), tuple(unit.segment for unit in placed)
    pair = texts[1] if len(texts) == 2 else None
    read = Encoding(texts[0], pair, tuple(names), (0,) * len(names), None, spans, segment)
    level: Level = "token" if words is None else "word"
    return Explanation(
        text=texts[0],
        pair=pair,
        tokens=tuple(names),
        scores=tuple(numbers),
        offsets=spans,
        segment=segment,
        target=str(target),
        probability=probability,
        prediction=str(target),
        method=str(method),
        level=level,
        signed=any(number < 0 for number in numbers) if signed is None else signed,
        params=params or {},
        notes=_uncovered(texts, placed),
        word_of=read.word_of if level == "token" else (),
        sentence_of=read.sentence_of if level == "token" else (),
    )


def _numbers(scores: Any) -> list[float]:
    """One number for each unit, from a list, an array or a tensor."""
    listed = scores.tolist() if hasattr(scores, "tolist") else list(scores)
    try:
        numbers = [float(score) for score in listed]
    except (TypeError, ValueError) as error:
        raise BadOption("Scores are one number for each token: add up further dimensions before.") from error
    for place, number in enumerate(numbers):
        if not math.isfinite(number):
            raise BadOption(f"Score number {place} is {number}; scores are finite numbers.")
    return numbers


def _placed(texts: Sequence[str], value: Any) -> Aligned:
    start, end, segment = chosen_span(value)
    if segment >= len(texts) or not 0 <= start <= end <= len(texts[segment]):
        raise BadOption(f"The offsets {tuple(value)} are not in the text, which has {len(texts[0])} characters.")
    return Aligned((start, end), segment if end > start else -1)


def _uncovered(texts: Sequence[str], placed: Sequence[Aligned]) -> tuple[str, ...]:
    """A note where the scores end before the text does."""
    notes = []
    for number, text in enumerate(texts):
        reached = max((unit.span[1] for unit in placed if unit.segment == number), default=0)
        if any(character.isalnum() for character in text[reached:]):
            notes.append(CUT_NOTE.format(reached=reached, length=len(text)))
    return tuple(notes)


def from_shap(values: Any, *, target: str | int | None, text: str | None) -> Explanation:
    """See `Explanation.from_shap`."""
    try:
        numbers, data, names = values.values, list(values.data), values.output_names
        shape = tuple(getattr(numbers, "shape", ()))
    except (AttributeError, TypeError) as error:
        raise BadOption(f"from_shap reads a shap.Explanation of one text, not {type(values).__name__}.") from error
    if len(shape) not in (1, 2) or not all(isinstance(unit, str) for unit in data) or len(data) != shape[0]:
        raise BadOption(
            "from_shap reads a shap.Explanation of one text whose data are its tokens. Of several texts, take one at a"
            " time: [Explanation.from_shap(one) for one in shap_values]."
        )
    labels = [names] if isinstance(names, str) else [str(name) for name in (names if names is not None else ())]
    chosen = None
    if len(shape) == 2:
        chosen = _output(target, labels, (numbers.sum(0) + values.base_values).tolist())
        numbers = numbers[:, chosen]
    label = labels[chosen] if chosen is not None and labels else "" if chosen is None else str(chosen)
    if chosen is None:
        label = str(target) if target is not None else labels[0] if len(labels) == 1 else ""
    joined, given = "".join(data), {"text": text, "tokens": data}
    if text is None or joined.strip() == text.strip():
        spans, place = [], 0
        for unit in data:
            start = place + len(unit) - len(unit.lstrip())
            spans.append((start, start + len(unit.strip())) if unit.strip() else (0, 0))
            place += len(unit)
        given = {"text": joined, "offsets": spans}
    units: dict[str, Any] = {"tokens": None, "offsets": None, "words": None, **given}
    return from_scores(units.pop("text"), numbers, **units, target=label, method="shap", signed=True, probability=None)


def _output(target: str | int | None, labels: Sequence[str], outputs: Sequence[float]) -> int:
    """The number of the output that is explained: the largest, unless one is named."""
    if target is None:
        return max(range(len(outputs)), key=outputs.__getitem__)
    if isinstance(target, str):
        if target not in labels:
            raise UnknownName.among("output", target, labels)
        return labels.index(target)
    if not 0 <= target < len(outputs):
        raise BadOption(f"There is no output {target}: there are {len(outputs)}, from 0.")
    return target


def from_captum(
    result: Any,
    *,
    text: TextOrPair | None,
    tokens: Sequence[str] | None,
    target: str | None,
    step: int | None,
    method: str,
) -> Explanation:
    """See `Explanation.from_captum`."""
    if hasattr(result, "seq_attr") and hasattr(result, "input_tokens"):
        tokens, written = result.input_tokens, list(result.output_tokens)
        numbers = result.seq_attr if step is None else _row(result.token_attr, step)
        shown = "".join(part.translate(BLANKS) for part in (written if step is None else [written[step]]))
        target = shown.strip() if target is None else target
        if text is None:
            text = "".join(part.translate(BLANKS) for part in tokens).strip()
    else:
        if text is None or tokens is None or step is not None:
            raise BadOption("Attributions in a tensor need text= and tokens=; an LLMAttributionResult has its own.")
        numbers = result.detach() if hasattr(result, "detach") else result
        numbers = numbers[0] if getattr(numbers, "ndim", 1) > 1 and len(numbers) == 1 else numbers
        if getattr(numbers, "ndim", 1) == 2 and len(numbers) == len(tokens):  # of every number of an embedding
            numbers = numbers.sum(-1)
    return from_scores(
        text,
        numbers,
        tokens=tokens,
        offsets=None,
        words=None,
        target=target or "",
        method=method,
        signed=None,
        probability=None,
    )


BLANKS = str.maketrans({"\u2581": " ", "\u0120": " ", "\u010a": "\n"})  # as SentencePiece and GPT-2 write them


def _row(matrix: Any, step: int) -> Any:
    if matrix is None:
        raise BadOption("This result has no attributions by output token: leave step out.")
    if not -len(matrix) <= step < len(matrix):
        raise BadOption(f"There is no output token {step}: there are {len(matrix)}, from 0.")
    return matrix[step]


def from_inseq(output: Any, *, number: int, step: int | None, text: str | None, target: str | None) -> Explanation:
    """See `Explanation.from_inseq`."""
    info = dict(getattr(output, "info", {}) or {})
    sequences = getattr(output, "sequence_attributions", [output])
    if not 0 <= number < len(sequences) or not hasattr(sequences[number], "target_attributions"):
        raise BadOption(f"from_inseq reads an output of inseq; it has {len(sequences)} texts, counted from 0.")
    found = sequences[number]
    source = found.source_attributions is not None
    if getattr(found.source_attributions if source else found.target_attributions, "ndim", 2) > 2:
        found = found.aggregate()
    matrix = found.source_attributions if source else found.target_attributions  # (input token, generated token)
    start = 0 if source else int(found.attr_pos_start)
    inputs = found.source if source else found.target[:start]
    generated = [unit.token for unit in found.target[int(found.attr_pos_start) : found.attr_pos_end]]
    matrix = matrix[: len(inputs)]
    steps = matrix.T
    scores = steps.nansum(0) if step is None else _row(steps, step)
    if text is None:
        texts = info.get("input_texts") or []
        text = texts[number] if number < len(texts) else "".join(one.token.translate(BLANKS) for one in inputs).strip()
    shown = generated if step is None else [generated[step]]
    return from_scores(
        text,
        scores,
        tokens=[unit.token for unit in inputs],
        offsets=None,
        words=None,
        target="".join(part.translate(BLANKS) for part in shown).strip() if target is None else target,
        method=str(info.get("attribution_method") or "inseq"),
        signed=None,
        probability=None,
    )
