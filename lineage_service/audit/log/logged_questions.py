"""Questions in SQL and refreshes with logging: reveals are logged before the answer is returned, and before a resulting
run is committed, because a commit cannot be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lineage_catalog.records import Commit

from lineage_service.audit.log.reveals import log_revealed, log_reveals
from lineage_service.progress import Stages
from lineage_service.query.answer import Answer
from lineage_service.query.open_home import OpenHome
from lineage_service.refresh.refresh_report import RefreshReport
from lineage_service.refresh.refresh_request import refresh, stated_changes
from lineage_service.settings import IndexOptions
from lineage_service.sql.answer_limits import Limits
from lineage_service.sql.question_in_sql import sql_questions


def answer_query(
    home: OpenHome, sql: str, limit: int | None, *, timeout: float | None, max_rows: int | None, reveal: bool
) -> Answer:
    """The answer to a query in SQL. `limit` is the number of rows shown."""
    limits = Limits.of(timeout, max_rows)

    def answer() -> Answer:
        with log_reveals(home, "query") as masks:
            found = sql_questions(home.questions).query(sql, limits, limit, reveal=reveal)
        found.notes += masks.notes
        return found

    return home.in_one_snapshot(answer)


def save_query(
    home: OpenHome, sql: str, name: str, *, timeout: float | None, max_rows: int | None, reveal: bool
) -> str:
    """Saves the rows of a query in SQL as a dataset with this name, and returns the id of its run."""
    limits = Limits.of(timeout, max_rows)
    home.reader.workflows()  # raises NotFound if there is no catalog: `prepare` would create one
    home.prepare()

    def save() -> str:
        with log_reveals(home, "query"):
            commit = _commit_after_logging(home, "query")
            return sql_questions(home.questions).save(sql, name, limits, commit, reveal=reveal)

    return home.in_one_snapshot(save)


def refresh_outputs(
    home: OpenHome, datasets: Sequence[str], removed: Any, changed: Any, added: Any, key: tuple[str, ...],
    options: IndexOptions, stages: Stages, *, reveal: bool,
) -> RefreshReport:  # fmt: skip
    """Refreshes the outputs of a workflow after the stated changes, and commits them as a run."""
    changes = stated_changes(datasets, removed, changed, added, key, reveal=reveal)
    home.finish_publications()  # before the snapshot, which does not include later commits

    def refresh_in_snapshot() -> RefreshReport:
        with log_reveals(home, "refresh"):
            return refresh(home, changes, options, _commit_after_logging(home, "refresh"), stages)

    return home.in_one_snapshot(refresh_in_snapshot)


def _commit_after_logging(home: OpenHome, verb: str) -> Callable[[Commit], None]:
    """Commits a run after its reveals are logged. The run begins reading now."""
    erasures = home.reader.erasures()

    def commit(made: Commit) -> None:
        log_revealed(home, verb)
        home.commit(made, erasures)

    return commit
