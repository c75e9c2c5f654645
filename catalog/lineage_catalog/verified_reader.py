"""A reader that verifies records: they are compared with their seals, once per reader, before they are returned."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError

from lineage_catalog import models
from lineage_catalog.engine import CatalogError, DamagedCatalog, catalog_label, short_message
from lineage_catalog.reader import CatalogReader, Stamp
from lineage_catalog.records import (
    ColumnRecord,
    DatasetRecord,
    HopRecord,
    PreparedRecord,
    RunRecord,
    StepRecord,
    SubjectRecord,
    VersionRecord,
)
from lineage_catalog.seals import ERASURES, NAMES, RUNS, broken_scopes, row_fetcher, scope_text


class VerifiedReader(CatalogReader):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._whole: set[str] = set()

    def runs(
        self, workflow: str | None = None, limit: int | None = None, *, status: str = "committed"
    ) -> list[RunRecord]:
        self._require(RUNS, NAMES)
        return self._require_runs(super().runs(workflow, limit, status=status))

    def run(self, run_id: str) -> RunRecord | None:
        self._require(RUNS, f"run:{run_id}")
        return super().run(run_id)

    def unfinished_runs(self) -> list[RunRecord]:
        self._require(RUNS, NAMES)
        return self._require_runs(super().unfinished_runs())

    def stamp(self) -> Stamp:
        self._require(RUNS)
        return super().stamp()

    def runs_with_prefix(self, prefix: str) -> list[RunRecord]:
        return self._require_runs(super().runs_with_prefix(prefix))

    def workflows(self) -> list[str]:
        self._require(RUNS, NAMES)
        return super().workflows()

    def latest_runs_of_owners(self, name: str) -> list[RunRecord]:
        self._require(RUNS, NAMES)
        return self._require_runs(super().latest_runs_of_owners(name))

    def steps(self, run_id: str) -> list[StepRecord]:
        self._require(RUNS, f"of:{run_id}")
        return super().steps(run_id)

    def datasets(self, run_id: str) -> list[DatasetRecord]:
        self._require(RUNS, f"of:{run_id}")
        return super().datasets(run_id)

    def readers_of(self, version_ids: Sequence[str]) -> list[DatasetRecord]:
        found = super().readers_of(version_ids)
        self._require(RUNS, NAMES, *(f"of:{each.run_id}" for each in found))
        return found

    def makers_of(self, version_ids: Sequence[str]) -> list[DatasetRecord]:
        found = super().makers_of(version_ids)
        self._require(RUNS, NAMES, *(f"of:{each.run_id}" for each in found))
        return found

    def outputs_written_to(self, place: str) -> list[DatasetRecord]:
        found = super().outputs_written_to(place)
        self._require(RUNS, NAMES, *(f"of:{each.run_id}" for each in found))
        return found

    def version(self, version_id: str) -> VersionRecord | None:
        self._require(f"version:{version_id}")
        return super().version(version_id)

    def columns(self, run_id: str) -> list[ColumnRecord]:
        self._require(RUNS, f"of:{run_id}")
        return super().columns(run_id)

    def hops(self, run_id: str) -> list[HopRecord]:
        self._require(RUNS, f"of:{run_id}")
        return super().hops(run_id)

    def prepared_questions(self, run_id: str) -> list[PreparedRecord]:
        self._require(RUNS, f"of:{run_id}")
        return super().prepared_questions(run_id)

    def files(self, run_id: str) -> dict[str, str]:
        self._require(RUNS, f"of:{run_id}")
        return super().files(run_id)

    def subjects(self, version_id: str) -> list[SubjectRecord]:
        self._require(f"version:{version_id}")
        return super().subjects(version_id)

    def erasures(self) -> int:
        self._require(ERASURES)
        return super().erasures()

    def erased_hashes(self, kind: str) -> dict[str, str]:
        self._require(ERASURES)
        return super().erased_hashes(kind)

    def content(self, run_id: str) -> str | None:
        self._require(RUNS, f"run:{run_id}")
        return super().content(run_id)

    def _require_runs(self, runs: list[RunRecord]) -> list[RunRecord]:
        self._require(RUNS, *(f"run:{each.id}" for each in runs))
        return runs

    def _require(self, *scopes: str) -> None:
        wanted = [scope for scope in scopes if scope not in self._whole]
        if not wanted:
            return
        with self.snapshot():  # records and seals must be of one state: another process may commit between two queries
            found = broken_scopes(wanted, self._rows)
        if not found:
            self._whole.update(wanted)
            return
        raise DamagedCatalog(
            f"{catalog_label(self.engine)} is damaged: {scope_text(found[0])} is not as it was written"
        )

    def recorded_sums(self, run_id: str) -> dict[str, str]:
        """Returns the current checksums of a run's files, regardless of the thread's snapshot: files are read as they
        are now."""
        scope, table = f"of:{run_id}", models.run_files
        wanted = select(table.c.path, table.c.sums).where(table.c.run_id == run_id)
        try:
            with self._open_connection() as connection:
                if not broken_scopes([scope], row_fetcher(connection)):
                    return {str(row[0]): str(row[1]) for row in connection.execute(wanted)}
        except SQLAlchemyError as error:
            raise CatalogError(f"cannot read {catalog_label(self.engine)}: {short_message(error)}") from error
        except (ValueError, TypeError, OverflowError) as error:  # a value that does not have its column's type
            raise DamagedCatalog(f"cannot read {catalog_label(self.engine)}: it is damaged") from error
        raise DamagedCatalog(f"{catalog_label(self.engine)} is damaged: {scope_text(scope)} is not as it was written")
