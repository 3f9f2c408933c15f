"""How far a part is: by the shares of its stages, which are known from the part before."""

from __future__ import annotations

import pytest

from wherefrom.benchmark.stages import ALONE, ASKING, EXPLAINING, FIRST_GUESS, Stages


def test_shares_grow_and_are_learnt_from_the_part_before() -> None:
    now, seen = [0.0], list[float]()
    stages = Stages(lambda: now[0])
    for expected in ([0.2, 0.4, 0.8, 1.0], [0.05, 0.1, 0.8, 1.0]):
        stages.begin(seen.append)
        for stage, done, everything, seconds in ((EXPLAINING, 1, 2, 1), (EXPLAINING, 2, 2, 1), (ASKING, 3, 3, 14)):
            now[0] += seconds
            stages.reached(stage, done, everything)
        stages.reached(EXPLAINING, 1, 2)  # tried again: nothing moves back
        now[0] += 4
        stages.reached(ALONE, 1, 1)
        stages.end()
        assert seen == pytest.approx(expected)
        seen.clear()
    assert sum(FIRST_GUESS) == pytest.approx(1.0)


def test_what_the_listener_raises_is_raised_at_the_end_and_not_blamed_on_an_example() -> None:
    def listen(_: float) -> None:
        raise ValueError("enough")

    stages = Stages()
    stages.begin(listen)
    stages.reached(EXPLAINING, 1, 2)
    with pytest.raises(ValueError, match="enough"):
        stages.end()
