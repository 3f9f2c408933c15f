"""How far long work is: told from the first that is done, on a terminal and in a log."""

from __future__ import annotations

import io
import sys
import time

import pytest

from wherefrom.progress import Rate, bar, duration_left, lines


def test_the_rate_counts_from_where_the_work_began() -> None:
    now = [0.0]
    rate = Rate(lambda: now[0])
    rate.moved(100, 220)  # done by an earlier start
    assert (rate.per_minute, rate.seconds_left) == (None, None)
    now[0] = 30.0
    rate.moved(101, 220)
    assert rate.per_minute == 2.0  # from the first on
    now[0] = 60.0
    rate.moved(120, 220)
    assert (rate.per_minute, rate.seconds_left) == (20.0, 300.0)
    assert rate.line("examples") == "120 of 220 examples, 20 a minute, 5 min left"
    rate.moved(130, 220, known=False)  # nothing that was begun is finished yet
    assert rate.line("examples") == "130 of 220 examples"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (40, "40 s"), (720, "12 min"), (12600, "3.5 h")])
def test_the_time_left_in_words(seconds: float, text: str) -> None:
    assert duration_left(seconds) == text


def test_a_log_gets_lines_also_while_nothing_moves() -> None:
    out, rate = io.StringIO(), Rate()
    with lines(rate, "examples", out, every=0.01):
        rate.moved(1, 9)
        while out.getvalue().count("\n") < 2:
            time.sleep(0.005)
    told = out.getvalue().splitlines()
    assert told[0].startswith("1 of 9 examples")
    assert told[1].startswith("1 of 9 examples")


def test_nothing_is_told_of_short_work_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    for wanted in (None, False):
        with bar("examples", shown=wanted) as moved:
            moved(1, 2)
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_drawn_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with bar("examples") as moved:
        moved(0, 4)
        time.sleep(0.01)
        moved(1, 4)
    assert "examples" in out.getvalue()
    assert "1/4" in out.getvalue()
