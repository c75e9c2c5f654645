"""The catalog records of a run's columns: derived from the plan, with the types that Spark gave them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from lineage_catalog.records import ColumnRecord

from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.plan.build import Plan
from lineage_service.plan.column_lineage import ColumnLineage, Read, Traced, column_lineage
from lineage_service.plan.extremum_columns import deciding_column, is_extremum
from lineage_service.plan.nodes import Node, Source
from lineage_service.store.versions import Version, VersionColumn

NOTHING = ColumnLineage((), (), pii=False)


class RunColumns:
    """The columns of one run's datasets. `nodes` are the datasets' nodes by name, `versions` the resulting versions."""

    def __init__(self, plan: Plan, nodes: Mapping[str, Node], versions: Mapping[str, Version]) -> None:
        self.nodes = {**nodes, **plan.sources}
        self.versions = versions
        traced: Traced = {}
        self.lineage = {name: column_lineage(node, traced) for name, node in self.nodes.items()}

    def version_with_pii_marks(self, name: str) -> Version:
        """A version that the run made, with the marks of its columns, so that readers find them there."""
        version, known = self.versions[name], self.lineage[name]
        columns = tuple(replace(each, pii=_lineage_of_column(known, each.name).pii) for each in version.columns)
        return replace(version, columns=columns)

    def records(self, run_id: str) -> tuple[ColumnRecord, ...]:
        return tuple(
            self._record(run_id, name, ordinal, column.name, column.type)
            for name, version in self.versions.items()
            for ordinal, column in enumerate(version.columns)
        )

    def _record(self, run_id: str, dataset: str, ordinal: int, name: str, kind: str) -> ColumnRecord:
        found = _lineage_of_column(self.lineage[dataset], name)
        if isinstance(self.nodes[dataset], Source):  # the origin of a source's column is not recorded by this run
            return ColumnRecord(run_id, dataset, ordinal, name, kind, found.pii, "[]", "[]")
        decided = self._decided_by(dataset, name, kind)
        return ColumnRecord(
            run_id, dataset, ordinal, name, kind, found.pii, _json(found.reads), _json(found.influenced_by),
            None if decided is None else json.dumps(decided),
        )  # fmt: skip

    def _decided_by(self, dataset: str, name: str, kind: str) -> dict[str, str] | None:
        """By dataset, the column that decides a min or max; None for any other column."""
        node = self.nodes[dataset]
        if not is_extremum(node, name):
            return None
        found = {}
        for target, below in self.nodes.items():
            wanted = deciding_column(node, name, below)
            column = self._column(target, wanted) if wanted is not None else None
            # DuckDB compares these values and must agree with Spark on equality, which excludes collations.
            if column is not None and duckdb_type(kind) is not None and column.type == kind:
                found[target] = column.name
        return found

    def _column(self, dataset: str, name: str) -> VersionColumn | None:
        columns = self.versions[dataset].columns if dataset in self.versions else ()
        return next((each for each in columns if each.name.lower() == name.lower()), None)


def _lineage_of_column(lineage: Mapping[str, ColumnLineage], name: str) -> ColumnLineage:
    """The lineage of a column. Columns that we add, such as the failed check of a row, have none."""
    return next((each for own, each in lineage.items() if own.lower() == name.lower()), NOTHING)


def _json(refs: Read) -> str:
    return json.dumps([list(ref) for ref in refs])
