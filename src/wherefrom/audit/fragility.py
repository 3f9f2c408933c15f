"""How little it takes to change decisions, and how far the explanations can be believed."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from wherefrom.audit.estimates import Mean, share
from wherefrom.audit.rows import ProbedRow
from wherefrom.benchmark.probes import MOST_TOGETHER
from wherefrom.core.audit import Estimate, Fragility, TextChange, Trust


@dataclass
class Shares:
    """A share by text: a text that gives several decisions counts once, by their mean."""

    total: float = 0.0
    texts: int = 0
    _own: list[bool] = field(default_factory=list)
    _example: str | None = None

    def add(self, example: str, holds: bool) -> None:
        """One decision; those of a text come one after the other."""
        if example != self._example:
            self._close()
            self._example = example
        self._own.append(holds)

    def _close(self) -> None:
        if self._own:
            self.total += sum(self._own) / len(self._own)
            self.texts += 1
        self._own = []

    def estimate(self) -> Estimate:
        self._close()
        return share(self.total, self.texts)


class FragilityTable:
    """How little it takes to change decisions."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.sizes = [Shares() for _ in range(MOST_TOGETHER)]
        self.moved = Mean()
        self.changes: dict[tuple[str, str], tuple[Shares, Mean]] = defaultdict(lambda: (Shares(), Mean()))

    def add(self, row: ProbedRow) -> None:
        words = list(row.words)
        if not words:
            return
        if self.regression:
            self.moved.add(max(abs(drop) for _, drop, _, _ in words))
        else:
            flip = row.details["flip"]
            for size, shares in enumerate(self.sizes, 1):
                if size <= row.details["together"]:
                    shares.add(row.example, flip is not None and len(flip[0]) <= size)
        for group, name, flipped, shift in row.details["changes"]:
            shares, moved = self.changes[group, name]
            moved.add(shift)
            if flipped is not None:
                shares.add(row.example, flipped)

    def result(self) -> Fragility:
        changes = [
            TextChange(name, group, shares.estimate(), moved.estimate())
            for (group, name), (shares, moved) in sorted(self.changes.items())
        ]
        sizes = tuple(shares.estimate() for shares in self.sizes) if not self.regression else ()
        return Fragility(sizes[0] if sizes else Estimate(), sizes, tuple(changes), self.moved.estimate())


class TrustTable:
    """The verdicts on explanations."""

    def __init__(self) -> None:
        self.verdicts = {verdict: Shares() for verdict in ("supported", "weak", "not supported")}
        self.counts = Counter[str]()

    def add(self, row: ProbedRow) -> None:
        verdict = row.details.get("check")
        if verdict is None:
            return
        self.counts[verdict] += 1
        for name, shares in self.verdicts.items() if verdict != "too short" else ():
            shares.add(row.example, verdict == name)

    def result(self, method: str, why: str) -> Trust:
        supported, weak, refuted = (shares.estimate() for shares in self.verdicts.values())
        return Trust(method, why, supported, weak, refuted, self.counts["too short"])
