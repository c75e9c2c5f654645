"""The ways lineage can be captured and kept, as parameters of the suite: all must give the same pairs.

A capture strategy is a parameter of a test. The layout of the index (end to end, or hop by hop) is not: both are
built from the same Spark run, and the same questions are asked of each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from unittest.mock import patch
from zlib import crc32

from lineage_catalog import models
from lineage_catalog.engine import connect
from sqlalchemy import delete, insert

from lineage_service import Home
from lineage_service.capture.strategies import REDUCED, Breaker, Choice, choose_strategy
from lineage_service.index import index_builder as finish
from lineage_service.index.hops import Hop
from lineage_service.index.index_builder import IndexBuilder
from lineage_service.runs import run_report as record
from tests.support.sealing import seal_anew

# Every strategy that exists. Each part of the suite runs under some of them, all of them under each other part;
# SMOKE_CAPTURES=auto,inject,defer,stage,lazy runs everything under each.
CAPTURES = ("auto", "inject", "defer", "stage", "lazy")
ASKED_FOR = tuple(filter(None, os.environ.get("SMOKE_CAPTURES", "").split(",")))


def captures(number: int, quick: int = 2) -> tuple[str, ...]:
    """The strategies for the part of the suite with that number: those asked for, else `quick` that take turns.

    `lazy` has a turn of its own (see LAZILY): each of its questions is a job of Spark's.
    """
    if ASKED_FOR:
        return ASKED_FOR
    eager = CAPTURES[:-1]
    return tuple(eager[(number + turn) % len(eager)] for turn in range(quick))


@contextmanager
def where_sound() -> Iterator[None]:
    """While in force, a forced strategy that is refused for a step gives way to `stage` there, instead of an error; and
    of every second semi join that is staged only the matching rows are written; and every predicate that can be inferred
    is inferred.
    """
    with (
        patch("lineage_service.runs.validation.capture_problems", lambda *_: []),
        patch("lineage_service.runs.workflow_execution.refuse_forced", lambda _: None),
        patch("lineage_service.capture.instrument.choose_strategy", _choose_also_reduced),
        patch("lineage_service.capture.inferred_predicates.expected_to_pay", lambda plan, found, sizes: found),
    ):
        yield


def _choose_also_reduced(breaker: Breaker, capture: str) -> Choice:
    choice = choose_strategy(breaker, capture)
    chosen = choice.strategy == "stage" and breaker.looked_for is not None
    return replace(choice, reason=REDUCED) if chosen and crc32(breaker.node.id.encode()) % 2 else choice


@contextmanager
def both_layouts() -> Iterator[dict[str, list[Hop]]]:
    """While in force, a run's index is also built hop by hop, whatever it would compose; per run those hops."""
    kept: dict[str, list[Hop]] = {}
    original, growth = IndexBuilder.build, finish.GROWTH

    def finishing(self: IndexBuilder) -> list[Hop]:
        hops = original(self)
        other = IndexBuilder(self.tables, self.rows, self.versions, self.home, self.folder / "hops", self.engine)
        other.folder.mkdir()
        finish.GROWTH = -1.0
        try:
            kept[self.folder.parent.name] = original(other)
        finally:
            finish.GROWTH = growth
        return hops

    IndexBuilder.build = finishing
    try:
        with where_sound():
            yield kept
    finally:
        IndexBuilder.build = original


def lay_out(home: Home, run_id: str, hops: list[Hop]) -> Home:
    """The home with a run's index replaced by another layout of it, opened anew."""
    folder = home.layout.run_folder(run_id)
    records = [record.hop_record(hop, run_id, folder) for hop in hops]
    url = home._open.url
    home.close()
    engine = connect(url).execution_options(writing=True)
    with engine.begin() as connection:
        connection.execute(delete(models.hops).where(models.hops.c.run_id == run_id))
        connection.execute(insert(models.hops), [asdict(each) | {"ordinal": n} for n, each in enumerate(records)])
        seal_anew(connection)
    engine.dispose()
    return Home.open(home.layout.path)
