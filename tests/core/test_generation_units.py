"""Explanations that a generation gives are pooled into words and sentences as any other is."""

from __future__ import annotations

from wherefrom.core.generation import Generation

TEXT = "The film.\nIt drags"


def _generation() -> Generation:
    """Byte-level tokens: "Ġ" is a space, "Ċ" a line break."""
    return Generation(
        text=TEXT,
        tokens=("The", "Ġfi", "lm", ".", "Ċ", "It", "Ġdrags"),
        offsets=((0, 3), (3, 6), (6, 8), (8, 9), (9, 10), (10, 12), (12, 18)),
        segment=(0,) * 7,
        generated=("\n", " on"),
        token_ids=(1, 2),
        scores=((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0, 0.0), (0.5,) * 8 + (0.0,)),
        probabilities=(0.5, 0.25),
        versus=(None, None),
        method="saliency",
    )


def test_a_step_and_the_total_have_words_and_sentences() -> None:
    step = _generation().step(1)
    assert [(unit.text, unit.score) for unit in step.words()] == [
        ("The", 0.5),
        ("film", 1.0),
        (".", 1.0),  # the line break goes with the word before it
        ("It", 0.5),
        ("drags", 0.5),
    ]
    total = _generation().total()
    assert [unit.text for unit in total.sentences()] == ["The film.", "It drags"]
    assert [unit.score for unit in total.at("sentence").units()] == [17.5, 14.0]
    assert sum(unit.score for unit in total.words()) == sum(unit.score for unit in total.units())


def test_units_are_written_as_in_the_text() -> None:
    """No tokenizer's sign for a space, and a line break is seen."""
    step = _generation().step(0)
    assert [unit.text for unit in step.units()] == ["The", "fi", "lm", ".", "↵", "It", "drags"]
    assert [unit.text for unit in step.top(3)] == ["drags", "It", "↵"]
    assert step.target == "↵"
    assert step.tokens[1] == "Ġfi"  # as the model reads it
