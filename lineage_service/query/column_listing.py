"""Lists the columns of datasets from the catalog: types, marks, the columns they are computed from and influenced
by.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import ColumnRecord, DatasetRecord

from lineage_service.query.answer import Answer, AnswerPart
from lineage_service.query.catalog_listing import find_datasets
from lineage_service.store.home_store import HomeStore
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    import pyarrow as pa

Names = tuple[str, ...]
COLUMNS = ["dataset", "column", "type", "pii", "computed_from", "influenced_by", "run_id"]


@dataclass(frozen=True)
class _ColumnOrigins:
    """The origins of a column, as `workflow.dataset.column`; None if they are unknown."""

    reads: Names | None
    influenced_by: Names | None


@dataclass
class ColumnListing:
    """Lists columns. With `through`, origins are followed through the outputs of other workflows down to columns of
    files.
    """

    reader: CatalogReader
    through: bool = False
    _columns: dict[str, dict[tuple[str, str], ColumnRecord]] = field(default_factory=dict)
    _datasets: dict[str, dict[str, DatasetRecord]] = field(default_factory=dict)
    _known: dict[tuple[str, str, str], _ColumnOrigins] = field(default_factory=dict)

    def answer(self, datasets: Iterable[DatasetRecord], limit: int | None = None) -> Answer:
        rows = [row for dataset in datasets for row in self._rows(dataset)]
        shown = rows[:limit]

        def open_() -> pa.RecordBatchReader:
            import pyarrow as pa

            texts = pa.list_(pa.string())
            kinds = [pa.string(), pa.string(), pa.string(), pa.bool_(), texts, texts, pa.string()]
            schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
            table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in shown], schema)
            return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())

        return Answer([AnswerPart(COLUMNS, open_, remaining=len(rows) - len(shown))], "records")

    def _rows(self, dataset: DatasetRecord) -> Iterable[tuple[Any, ...]]:
        known = [each for (name, _), each in self._columns_of(dataset.run_id).items() if name == dataset.name]
        for each in known or self._columns_of_older_run(dataset):
            further = self.through and (
                dataset.role != "source" or self._upstream_column(dataset, each.name) is not None
            )
            behind = self._file_origins(dataset, each) if further else self._direct_origins(dataset, each)
            yield (
                dataset.full_name, each.name, each.type, each.pii, _list_or_none(behind.reads),
                _list_or_none(behind.influenced_by), dataset.run_id,
            )  # fmt: skip

    def _columns_of_older_run(self, dataset: DatasetRecord) -> list[ColumnRecord]:
        """Columns of a run made before columns were recorded. Their origins are unknown."""
        version = self.reader.version(dataset.version_id)
        columns = Version.from_json(version.id, version.body).columns if version else ()
        declared = {name.lower() for name in json.loads(dataset.declared).get("pii") or ()}
        return [
            ColumnRecord(dataset.run_id, dataset.name, number, each.name, each.type, each.name.lower() in declared)
            for number, each in enumerate(columns)
        ]

    # --- origins of a column ----------------------------------------------------------------------------------

    def _direct_origins(self, dataset: DatasetRecord, column: ColumnRecord) -> _ColumnOrigins:
        """The origins within the column's own run. If a source reads an output, its column originates from that
        output.
        """
        if dataset.role == "source":
            made = self._upstream_column(dataset, column.name)
            return _ColumnOrigins(() if made is None else (f"{made[0].full_name}.{made[1]}",), ())
        return _ColumnOrigins(
            self._qualified_names(dataset.run_id, _refs(column.reads)),
            self._qualified_names(dataset.run_id, _refs(column.influenced_by)),
        )

    def _qualified_names(self, run_id: str, refs: Sequence[tuple[str, str]] | None) -> Names | None:
        if refs is None:
            return None
        names = self._datasets_of(run_id)
        return tuple(f"{names[source].full_name}.{name}" for source, name in refs)

    def _file_origins(self, dataset: DatasetRecord, column: ColumnRecord) -> _ColumnOrigins:
        """The origins in files, followed through any number of workflows. An origin that cannot be followed further is
        kept.
        """
        key = (dataset.run_id, dataset.name, column.name.lower())
        if key not in self._known:
            self._known[key] = self._trace_to_files(dataset, column)
        return self._known[key]

    def _trace_to_files(self, dataset: DatasetRecord, column: ColumnRecord) -> _ColumnOrigins:
        if dataset.role == "source":
            made = self._upstream_column(dataset, column.name)
            if made is None:  # a column of a file has no further origin
                return _ColumnOrigins((f"{dataset.full_name}.{column.name}",), ())
            below = self._columns_of(made[0].run_id).get((made[0].name, made[1].lower()))
            if below is None or below.reads is None:
                return _ColumnOrigins((f"{made[0].full_name}.{made[1]}",), ())
            return self._file_origins(made[0], below)
        reads, influences = _refs(column.reads), _refs(column.influenced_by)
        if reads is None or influences is None:
            return _ColumnOrigins(None, None)
        read, influencing = (self._origins_of_refs(dataset.run_id, refs) for refs in (reads, influences))
        computed = _unique(each for end in read for each in end.reads or ())
        others = [each for end in read for each in end.influenced_by or ()]
        others += [each for end in influencing for each in (*(end.reads or ()), *(end.influenced_by or ()))]
        return _ColumnOrigins(computed, tuple(each for each in _unique(others) if each not in computed))

    def _origins_of_refs(self, run_id: str, refs: Sequence[tuple[str, str]]) -> list[_ColumnOrigins]:
        """The origins of columns of a run's sources. A column of a file is its own origin."""
        datasets, columns = self._datasets_of(run_id), self._columns_of(run_id)
        return [self._file_origins(datasets[source], columns[source, name.lower()]) for source, name in refs]

    def _upstream_column(self, source: DatasetRecord, name: str) -> tuple[DatasetRecord, str] | None:
        """The dataset that a source read and the column's name there; None if the source read files."""
        makers = self.reader.makers_of([source.version_id])
        return (makers[0], upstream_column_name(source, name)) if makers else None

    # --- the catalog, read once -------------------------------------------------------------------------------

    def _columns_of(self, run_id: str) -> dict[tuple[str, str], ColumnRecord]:
        if run_id not in self._columns:
            found = self.reader.columns(run_id)
            self._columns[run_id] = {(each.dataset, each.name.lower()): each for each in found}
        return self._columns[run_id]

    def _datasets_of(self, run_id: str) -> dict[str, DatasetRecord]:
        if run_id not in self._datasets:
            self._datasets[run_id] = {each.name: each for each in self.reader.datasets(run_id)}
        return self._datasets[run_id]


def list_columns(
    store: HomeStore, names: Sequence[str] | None, run: str | None, limit: int | None, *, through: bool
) -> Answer:
    """The columns of datasets and their origins. See `find_datasets` for how the datasets are selected."""
    return ColumnListing(store.reader, through).answer(find_datasets(store, names, run), limit)


def upstream_column_name(source: DatasetRecord, name: str) -> str:
    """The name of a column in the output that a source reads."""
    rename = json.loads(source.declared).get("rename") or {}
    return next((old for old, new in rename.items() if new.lower() == name.lower()), name)


def _refs(text: str | None) -> list[tuple[str, str]] | None:
    return None if text is None else [(source, name) for source, name in json.loads(text)]


def _unique(names: Iterable[str]) -> Names:
    return tuple(dict.fromkeys(names))


def _list_or_none(names: Names | None) -> list[str] | None:
    return None if names is None else list(names)
