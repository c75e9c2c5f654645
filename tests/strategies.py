"""The ways lineage can be captured and kept, as parameters of the suite: all must give the same pairs.

A capture strategy is a parameter of a test. The layout of the index (end to end, or hop by hop) is not: both are
built from the same Spark run, and the same questions are asked of each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from unittest.mock import patch

import pytest
from lineage_catalog import models
from lineage_catalog.engine import connect
from sqlalchemy import delete, insert

from lineage_service import Home, record
from lineage_service.index import finish
from lineage_service.index.finish import Finisher, Hop

# Every strategy that exists: a later one is added here, and the whole suite runs under it.
CAPTURES = os.environ.get("SMOKE_CAPTURES", "auto,inject,defer,stage,lazy").split(",")
every_capture = pytest.mark.parametrize("capture", CAPTURES)


@contextmanager
def where_sound() -> Iterator[None]:
    """While in force, a forced strategy that is refused for a step gives way to `stage` there, instead of an error."""
    with (
        patch("lineage_service.checked.capture_problems", lambda *_: []),
        patch("lineage_service.execute.capture_problems", lambda *_: []),
    ):
        yield


@contextmanager
def both_layouts() -> Iterator[dict[str, list[Hop]]]:
    """While in force, a run's index is also built hop by hop, whatever it would compose; per run those hops."""
    kept: dict[str, list[Hop]] = {}
    original, growth = Finisher.finish, finish.GROWTH

    def finishing(self: Finisher) -> list[Hop]:
        hops = original(self)
        other = Finisher(self.tables, self.rows, self.versions, self.home, self.folder / "hops", self.engine)
        other.folder.mkdir()
        finish.GROWTH = -1.0
        try:
            kept[self.folder.parent.name] = original(other)
        finally:
            finish.GROWTH = growth
        return hops

    Finisher.finish = finishing
    try:
        with where_sound():
            yield kept
    finally:
        Finisher.finish = original


def lay_out(home: Home, run_id: str, hops: list[Hop]) -> Home:
    """The home with a run's index replaced by another layout of it, opened anew."""
    folder = home.layout.run_folder(run_id)
    records = [record.hop_record(hop, run_id, folder) for hop in hops]
    url = home._url
    home.close()
    engine = connect(url).execution_options(writing=True)
    with engine.begin() as connection:
        connection.execute(delete(models.hops).where(models.hops.c.run_id == run_id))
        connection.execute(insert(models.hops), [asdict(each) | {"ordinal": n} for n, each in enumerate(records)])
    engine.dispose()
    return Home.open(home.layout.path)
