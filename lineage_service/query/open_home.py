"""A home that can be asked: its store, and questions that read one state of the catalog each."""

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
    """A home while somebody works with it. `progress` hears of lineage that a question has to finish first."""

    def __init__(self, layout: HomeLayout, url: str) -> None:
        super().__init__(layout, url)
        self.progress: Tell = silent
        self._engine = QueryEngine(layout.spill)
        self._questions: Questions | None = None
        self._seen: Stamp | None = None  # of the catalog, when the last question began

    def close(self) -> None:
        super().close()
        if self._questions is not None:
            self._questions.close()
        self._questions = None
        self._engine.close()

    @property
    def questions(self) -> Questions:
        """What is asked of this home; it keeps what it has read of committed runs."""
        if self._questions is None:
            self._questions = Questions(
                self.layout, self.reader, self._engine, self._require_lineage, self._capture_lazy_ways,
                self._capture_lazy_members,
            )  # fmt: skip
        return self._questions

    def forget_questions(self) -> None:
        """What was read of runs is read anew."""
        if self._questions is not None:
            self._questions.session.take_rest()
            self._questions.close()
        self._questions = None

    def forget_runs(self, run_ids: Sequence[str]) -> None:
        super().forget_runs(run_ids)
        if run_ids:
            self._questions = None  # it keeps what it has read of runs

    # --- one state of the catalog -----------------------------------------------------------------------------

    def in_one_snapshot(self, answer: Callable[[], Given]) -> Given:
        """What `answer` gives, read from one state of the catalog.

        It is called again on a new state where it had to finish the lineage of a run, and once where somebody else has
        taken out runs meanwhile: their files are gone.
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
        """What was read of runs is kept only as long as runs are added and none was taken out or replaced."""
        stamp = self.reader.stamp()
        if self._seen is not None and not stamp.only_adds_to(self._seen):
            self.forget_questions()
        self._seen = stamp
        return stamp

    def _has_lost_runs(self, begun: Stamp) -> bool:
        """Whether a run was taken out or replaced since a question began that has only read."""
        if not self.reader.in_snapshot:
            return False
        self.reader.release()
        try:
            return not self.reader.stamp().only_adds_to(begun)
        except LineageError:
            return False

    # --- lineage that is not there yet ------------------------------------------------------------------------

    def _require_lineage(self, run_id: str) -> None:
        """Before a question reads the lineage of a run: waits for it, or finishes it; or says why it cannot."""
        run = self.reader.run(run_id)
        if run is None or run.lineage == "complete":
            return
        from lineage_service.runs.unfinished_lineage import finish_lineage, incomplete_error

        if run.lineage == "incomplete":
            raise incomplete_error(self.layout, run)
        inside = self.reader.in_snapshot
        self.reader.release()  # somebody else may have finished it meanwhile
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
