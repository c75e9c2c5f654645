"""The ways lineage can be captured and kept, as parameters of the suite: all must give the same pairs."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lineage_service.index import finish


@dataclass(frozen=True)
class Way:
    """A capture strategy, and how much a composed index may grow: 0 keeps hops wherever there are groups."""

    capture: str
    growth: float

    def __str__(self) -> str:
        return f"{self.capture}-{'hops' if self.growth == 0 else 'composed'}"

    @contextmanager
    def in_force(self):
        before = finish.GROWTH
        finish.GROWTH = self.growth
        try:
            yield
        finally:
            finish.GROWTH = before


# Every strategy that exists: a later one is added here, and the whole suite runs under it.
WAYS = [Way("stage", 1.5), Way("stage", 0.0)]
every_way = pytest.mark.parametrize("way", WAYS, ids=str)
