"""An open home: its store, and questions that each read one snapshot of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lineage_catalog.reader import Stamp

from lineage_service.errors import LineageError
from lineage_service.progress import Stages, Tell, silent
from lineage_service.query.catalog_snapshot import LineageFinished
from lineage_service.query.lineage_graph import Direction, Place, Way
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start
from lineage_service.settings import IndexOptions
from lineage_service.store.home_store import HomeStore
from lineage_service.store.layout import HomeLayout

Given = TypeVar("Given")


class OpenHome(HomeStore):
    """An open home. `progress` is notified when a question has to finish lineage first."""

    def __init__(self, layout: HomeLayout, url: str) -> None:
        super().__init__(layout, url)
        self.progress: Tell = silent
        self._engine = QueryEngine(layout.spill)
        self._questions: Questions | None = None
        self._seen: Stamp | None = None  # state of the catalog when the last question began

    def close(self) -> None:
        super().close()
        if self._questions is not None:
            self._questions.close()
        self._questions = None
        self._engine.close()

    @property
    def questions(self) -> Questions:
        """The questions of this home. They cache what they read of committed runs."""
        if self._questions is None:
            self._questions = Questions(
                self.layout, self.reader, self._engine, self._require_lineage, self._capture_lazy_ways,
                self._capture_lazy_members,
            )  # fmt: skip
        return self._questions

    def forget_questions(self) -> None:
        """Drops the cache of the questions."""
        if self._questions is not None:
            self._questions.session.take_rest()
            self._questions.close()
        self._questions = None

    def forget_runs(self, run_ids: Sequence[str]) -> None:
        super().forget_runs(run_ids)
        if run_ids:
            self._questions = None  # its cache may hold these runs

    # --- snapshots of the catalog -----------------------------------------------------------------------------

    def in_one_snapshot(self, answer: Callable[[], Given]) -> Given:
        """Calls `answer` on one snapshot of the catalog.

        Calls it again on a new snapshot if it had to finish the lineage of a run. Also calls it again, once, if another
        process removed runs in the meantime, because their files no longer exist.
        """
        if self.reader.in_snapshot:
            return answer()
        again = True
        while True:
            with self.reader.snapshot():
                begun = self._begin_question()
                try:
                    given = answer()
                    if not again or not self._has_lost_runs(begun):
                        return given
                except LineageFinished:
                    continue
                except LineageError:
                    if not again or not self._has_lost_runs(begun):
                        raise
                again = False

    def _begin_question(self) -> Stamp:
        """Keeps the cache only if runs were added but none removed or replaced since the last question."""
        stamp = self.reader.stamp()
        if self._seen is not None and not stamp.only_adds_to(self._seen):
            self.forget_questions()
        self._seen = stamp
        return stamp

    def _has_lost_runs(self, begun: Stamp) -> bool:
        """Whether a run was removed or replaced since a read-only question began."""
        if not self.reader.in_snapshot:
            return False
        self.reader.release()
        try:
            return not self.reader.stamp().only_adds_to(begun)
        except LineageError:
            return False

    # --- unfinished lineage -----------------------------------------------------------------------------------

    def _require_lineage(self, run_id: str) -> None:
        """Waits for the lineage of a run or finishes it before a question reads it. Raises an error if that is not
        possible.
        """
        run = self.reader.run(run_id)
        if run is None or run.lineage == "complete":
            return
        from lineage_service.runs.unfinished_lineage import finish_lineage, incomplete_error

        if run.lineage == "incomplete":
            raise incomplete_error(self.layout, run)
        inside = self.reader.in_snapshot
        self.reader.release()  # another process may have finished it in the meantime
        finish_lineage(self, run_id, IndexOptions(), Stages(self.progress))
        if inside:
            raise LineageFinished

    def _capture_lazy_ways(
        self, ways: Sequence[Way], start: Start, begin: Place, direction: Direction
    ) -> Sequence[Way]:
        from lineage_service.query.lazy_lineage import capture_lazy_ways

        return capture_lazy_ways(self.layout, self.questions, ways, start, begin, direction, Stages(self.progress))

    def _capture_lazy_members(self, place: Place, ids: Sequence[int]) -> str:
        from lineage_service.query.lazy_lineage import capture_lazy_members

        return capture_lazy_members(self.layout, self.questions, place, ids, Stages(self.progress))
