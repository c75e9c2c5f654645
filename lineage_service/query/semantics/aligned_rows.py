"""Reads rows of handles by the ids they belong to, wherever a run stores them.

They are stored in the dataset's own rows, as lists in them, in a file beside the index or in the source files. If they
are only captured on demand, Spark computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_catalog.hop_forms import HopForm

from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.errors import QuestionError
from lineage_service.query.home_files import index_literal, lazy_source_changed_error
from lineage_service.query.lineage_graph import Place
from lineage_service.query.walk_sql import FEW
from lineage_service.store.aligned_tables import AlignedTables
from lineage_service.store.duckdb_engine import column
from lineage_service.store.lineage_tables import TableRows

if TYPE_CHECKING:
    from lineage_service.query.questions import Questions


@dataclass
class AlignedRows:
    """The lineage tables of runs."""

    ask: Questions
    _runs: dict[str, AlignedTables] = field(default_factory=dict)

    def tables(self, run_id: str) -> AlignedTables:
        """The lineage tables of a run; finishes its lineage first. Raises QuestionError if the run has none."""
        if run_id not in self._runs:
            self.ask.graph.hops(run_id)
            found = AlignedTables.load(self.ask.home.run_folder(run_id).index)
            if found is None:
                raise self._no_tables(run_id)
            self._runs[run_id] = found
        return self._runs[run_id]

    def _no_tables(self, run_id: str) -> QuestionError:
        run = self.ask.reader.run(run_id)
        if run is not None and run.capture == "off":
            return QuestionError(
                f"run '{run_id}' was made with capture off and has no lineage", hint="run it again with --capture auto"
            )
        if run is not None and run.capture == "query":
            return QuestionError(
                f"run '{run_id}' is of the saved query '{run.workflow}', whose lineage tells rows but not which of "
                "them belong together",
                hint="ask with semantics which, or ask for the datasets that the query reads",
            )
        return QuestionError(
            f"run '{run_id}' has kept pairs only, which do not tell what belongs together", hint="run it again"
        )

    def rows(self, place: Place, ids: Sequence[int], most: int) -> list[tuple[int, ...]]:
        """(id, h0, h1, …) for these ids, at most `most` rows. Handles that are not part of a witness have arbitrary
        values.
        """
        if not ids:
            return []
        tables = self.tables(place.run_id)
        space = Space(place.space)
        rows, handles = tables.rows[space], len(tables.tables[space].handles)
        few = list(ids) if len(ids) <= FEW else None
        names = ", ".join(["id", *(f"h{number}" for number in range(handles))])
        relation = f"SELECT {names} FROM ({self._relation(place, rows, handles, ids, few)}) t"
        if few is not None:
            return self.ask.engine.rows(f"{relation} WHERE id IN ({', '.join(map(str, few))}) LIMIT {most}")
        import pyarrow as pa

        wanted = self.ask.engine.keep_ids(pa.array(ids, pa.int64()))
        try:
            return self.ask.engine.rows(f"{relation} SEMI JOIN {wanted} w ON w.b = t.id LIMIT {most}")
        finally:
            self.ask.engine.drop(wanted)

    def _relation(self, place: Place, rows: TableRows, handles: int, ids: Sequence[int], few: list[int] | None) -> str:
        """(id, h0, h1, …) for at least these ids."""
        files = self.ask.files
        if rows.kind == "lazy" and rows.direct is None:
            return f"SELECT * FROM read_parquet({index_literal(self.ask.members(place, ids))})"
        if rows.direct is not None and not rows.files:
            return self._direct(place, rows, few)
        if rows.id is not None:
            shown = "".join(f", {column(name)} AS h{number}" for number, name in enumerate(rows.handles))
            return f"SELECT {column(rows.id)} AS id{shown} FROM {files.index(rows.files[0])}"
        if place.space.is_dataset:
            shown = "".join(f", {column(name)} AS h{number}" for number, name in enumerate(rows.handles))
            return self._own(place, rows.handles, shown, few)
        assert rows.nested is not None and rows.carrier is not None
        members = "".join(f", m.{column(name)} AS h{number}" for number, name in enumerate(rows.handles[:handles]))
        carrier = Place(place.run_id, step_space(rows.carrier))
        inner = self._own(carrier, [rows.nested], f", unnest({column(rows.nested)}) AS m", few)
        return f"SELECT id{members} FROM ({inner})"

    def _own(self, place: Place, names: Sequence[str], shown: str, few: list[int] | None) -> str:
        """The handles stored in a dataset's rows beside the user's columns."""
        scan = self.ask.files.scan(place)
        positions = None
        if few is not None:
            positions = [position for rid in few if (position := scan.version.rids.position(rid)) is not None]
        return f"SELECT _rid AS id{shown} FROM ({scan.select_handles(names, positions)})"

    def _direct(self, place: Place, rows: TableRows, few: list[int] | None) -> str:
        """The handles read from the source files, which must be unchanged."""
        from lineage_service.index.index_engine import direct_members

        assert rows.direct is not None and rows.carrier is not None
        files = self.ask.files
        dataset = Place(place.run_id, step_space(rows.carrier))
        stored = [
            hop
            for hop in self.ask.graph.hops(place.run_id)
            if hop.form is HopForm.KEYED and hop.from_space == dataset.space and hop.backward is not None
        ]
        if len(rows.direct.sources) == 1 and len(stored) == 1:
            # Each source row is in one group, so the pairs of a group are its members.
            return f"SELECT a AS id, b AS h0 FROM {files.index(stored[0].backward)}"
        places = [Place(place.run_id, source_space(name)) for name in rows.direct.sources]
        for name, each in zip(rows.direct.sources, places, strict=True):
            if not files.is_unchanged(each):
                raise lazy_source_changed_error(name, place.run_id)
        near = files.scan(dataset)
        only: dict[int | None, Sequence[int]] = {}
        if few is not None:
            only[None] = [position for rid in few if (position := near.version.rids.position(rid)) is not None]
        return direct_members(rows.direct, [files.scan(each) for each in places], near, only)
