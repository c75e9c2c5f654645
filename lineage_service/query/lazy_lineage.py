"""Captures lineage on demand. Spark reads the rows below a breaker again and keeps those of the groups that the
question reached.

The resulting pairs are written to a temporary file, and the walk continues over that file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_catalog.hop_forms import HopForm

from lineage_service.capture.handles import Space
from lineage_service.errors import QuestionError
from lineage_service.progress import Stages
from lineage_service.query.home_files import body_of, lazy_source_changed_error
from lineage_service.query.lineage_graph import Direction, Place, Way
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start, walk_sql
from lineage_service.runs.unfinished_lineage import reread_run
from lineage_service.settings import IndexOptions
from lineage_service.store.layout import HomeLayout, new_run_id
from lineage_service.store.lineage_tables import LineageTables
from lineage_service.store.versions import has_changed

if TYPE_CHECKING:
    from lineage_service.spark.staging import RunWriter


def capture_lazy_ways(
    home: HomeLayout,
    questions: Questions,
    ways: Sequence[Way],
    start: Start,
    begin: Place,
    direction: Direction,
    stages: Stages,
) -> list[Way]:
    """The same ways, with each lazy way replaced by the pairs that this question reaches."""
    found: list[Way] = []
    for way in ways:
        if way.hop is None or way.hop.form is not HopForm.LAZY:
            found.append(way)
            continue
        before = [each for each in found if _leads_to(each, way.start, found)]
        ids = _ids_reached(questions, before, start, begin, way.start, direction)
        folder = _write_lazy_pairs(home, questions, way, ids, direction, stages)
        path = home.relative(folder)
        found.append(replace(way, hop=replace(way.hop, form=HopForm.PAIRS, backward=path, forward=path)))
    return found


def _leads_to(way: Way, place: Place, ways: Sequence[Way]) -> bool:
    wanted = {place}
    for each in reversed(ways):
        if each.end in wanted:
            wanted.add(each.start)
            if each is way:
                return True
    return False


def _ids_reached(
    questions: Questions, ways: Sequence[Way], start: Start, begin: Place, place: Place, direction: Direction
) -> list[int] | None:
    """The ids that the question reached at a place; None for all ids."""
    if place == begin:
        if start.rids is not None:
            return list(start.rids)
        return questions.engine.ids(f"SELECT b FROM {start.table}") if start.table is not None else None
    if start.rids is None and start.table is None:
        return None
    sql = walk_sql(ways, start, begin, place, direction, questions.files, pairs=False)
    return questions.engine.ids(f"SELECT DISTINCT b FROM ({sql.text})", sql.parameters)


def _write_lazy_pairs(
    home: HomeLayout, questions: Questions, way: Way, ids: list[int] | None, direction: Direction, stages: Stages
) -> Path:
    """Writes the pairs (a, b) of a lazy way for these ids and returns the folder."""
    assert way.hop is not None
    stage = _open_rereading(home, questions, way.start.run_id, stages)
    body = body_of(way.hop)
    from lineage_service.spark.lazy_members import write_pairs

    folder = home.spill / f"asked-{new_run_id()}"
    with stages.stage("reading the sources again"):
        write_pairs(
            stage, Space(body["space"]), str(body["column"]), ids, "a" if direction == "backward" else "b", folder
        )
    questions.asked.append(folder)
    return folder


def capture_lazy_members(
    home: HomeLayout, questions: Questions, place: Place, ids: Sequence[int], stages: Stages
) -> str:
    """Writes the members (id, h0, h1, …) of these groups, one column per handle, and returns the folder."""
    stage = _open_rereading(home, questions, place.run_id, stages)
    from lineage_service.spark.lazy_members import write_members

    folder = home.spill / f"asked-{new_run_id()}"
    with stages.stage("reading the sources again"):
        write_members(stage, Space(place.space), list(ids), folder)
    questions.asked.append(folder)
    return str(folder)


def _open_rereading(home: HomeLayout, questions: Questions, run_id: str, stages: Stages) -> RunWriter:
    """Opens the run's plan on Spark, over sources that must be unchanged."""
    run, tables = questions.committed_run(run_id), LineageTables.load(home.run_folder(run_id))
    if tables is None:
        raise QuestionError(f"the lineage of run '{run_id}' cannot be captured any more: its tables are gone")
    for space, version in run.versions.items():
        for file in version.files if version.kind == "source" else ():
            if has_changed(file, home.absolute(file.path)):
                raise lazy_source_changed_error(space.name, run_id)
    # The plan of a committed run never changes, so it is cached.
    return questions.keep(("reread", run_id), lambda: reread_run(run, tables, IndexOptions(), stages))
