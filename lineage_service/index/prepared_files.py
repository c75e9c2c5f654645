"""Files that answer a declared question without the source, in addition to pairs or instead of them.

selection: pairs of the rows that its predicate selects
rows: near and far row ids with the columns that it reads, sorted by its parameters within each near row
groups: partial measures of far rows, per near row and group

Expressions are user-written. Spark evaluates them, or DuckDB if they mean the same there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_service.capture.handles import Space, Table, step_space
from lineage_service.capture.workload import DeclaredQuestion
from lineage_service.errors import LineageError
from lineage_service.index.compose import chained_pairs, composable, composed_pairs, is_chain, stays_distinct, view_of
from lineage_service.index.index_engine import IndexEngine
from lineage_service.index.space_graph import SpaceEdge, SpaceGraph, leading_to
from lineage_service.index.witnesses import witnesses
from lineage_service.plan.mergeable_measures import MergeableMeasure
from lineage_service.store.duckdb_engine import column
from lineage_service.store.lineage_tables import TableRows
from lineage_service.store.version_scan import RID
from lineage_service.store.versions import Version

NEAR, FAR = "near", "far"
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_PLAIN = (*_WHOLE, "DECIMAL", "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "VARCHAR", "BLOB", "TIMESTAMP")


@dataclass(frozen=True)
class PreparedFile:
    """What was prepared for a declared question: the file and its columns."""

    question: DeclaredQuestion
    path: Path | None = None
    rows: int = 0
    bytes: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body_json(self) -> str:
        return json.dumps({**self.body, "question": self.question.to_json()})


@dataclass(frozen=True)
class QuestionPreparer:
    """Prepares one declared question over a run's lineage. `side` are rows that Spark has evaluated; None if DuckDB
    can.
    """

    engine: IndexEngine
    graph: SpaceGraph
    rows: Mapping[Space, TableRows]
    versions: Mapping[Space, Version]
    question: DeclaredQuestion
    side: TableRows | None
    tables: Mapping[Space, Table] = field(default_factory=dict)

    def prepare(self, path: Path) -> PreparedFile:
        """The prepared file, or the reason why there is none. A failure must not affect other questions or pairs."""
        try:
            return self._write(path)
        except Exception as error:
            reason = self.engine.fault(error)
            if reason is None:
                raise
            return PreparedFile(self.question, body={"missing": reason})

    def _write(self, path: Path) -> PreparedFile:
        if self.question.kind == "pairs":
            return PreparedFile(self.question)
        ways = self._ways()
        if any(self._is_lazy(edge) for edge in ways):
            return PreparedFile(self.question, body={"missing": "lineage is captured on demand only"})
        match self.question.kind:
            case "selection":
                return self._selection(ways, path)
            case "rows":
                return self._rows(ways, path)
            case "groups":
                return self._groups(ways, path)
            case _:
                return self._witnesses(path)

    def _ways(self) -> list[SpaceEdge]:
        found: dict[SpaceEdge, None] = {}
        for upper, lower in self.question.ends:
            found |= dict.fromkeys(leading_to(composable(self.graph.between(upper, beyond=True), upper), lower))
        return list(found)

    def _is_lazy(self, edge: SpaceEdge) -> bool:
        rows = self.rows.get(edge.table)
        return rows is not None and rows.kind == "lazy"

    # --- kinds ------------------------------------------------------------------------------------------------

    def _selection(self, ways: Sequence[SpaceEdge], path: Path) -> PreparedFile:
        query = self._near_far_rows(ways, [])
        a, b = (NEAR, FAR) if self.question.direction == "backward" else (FAR, NEAR)
        pairs = f"SELECT {a} AS a, {b} AS b FROM ({query}) x"
        return self._file(self.engine.write(pairs, self.question.direction, path, None, distinct=False), {})

    def _rows(self, ways: Sequence[SpaceEdge], path: Path) -> PreparedFile:
        names = covered_columns(self.question, [each.name for each in self.versions[self.question.far[0]].columns])
        values = [f"h{number} AS c{number}" for number in range(len(names))]
        parameters = [f"c{number}" for number in range(len(self.question.parameters))]
        query = f"SELECT {', '.join([NEAR, FAR, *values])} FROM ({self._near_far_rows(ways, names)}) x"
        written = self.engine.write_rows(query, [NEAR, *parameters, FAR], path)
        every = [each.name for each in self.versions[self.question.far[0]].columns]
        return self._file(written, {"columns": names, "all": every})

    def _groups(self, ways: Sequence[SpaceEdge], path: Path) -> PreparedFile:
        question = self.question
        texts = question.values
        joined = self._near_far_rows(ways, [])
        kinds = self.engine.kinds(joined)
        keys = [f"{_canonical(f'h{n}', kinds[f'h{n}'])} AS k{n}" for n in range(len(question.keys))]
        measures = []
        for number, measure in enumerate(question.measures):
            place = None if measure.argument is None else f"h{len(keys) + _argument_number(question, measure)}"
            measures += self._partial(number, measure, place, kinds)
        group = ", ".join(["1", *(str(number + 2) for number in range(len(keys)))])
        query = f"SELECT {', '.join([NEAR, *keys, *measures])} FROM ({joined}) x GROUP BY {group}"
        written = self.engine.write_rows(query, [NEAR, *(f"k{n}" for n in range(len(keys)))], path)
        arguments = {text: kinds[f"h{number}"] for number, text in enumerate(texts)}
        return self._file(written, {"types": arguments, "once": self._is_once(ways)})

    def _partial(
        self, number: int, measure: MergeableMeasure, place: str | None, kinds: Mapping[str, str]
    ) -> list[str]:
        name = f"m{number}"
        if place is None:
            return [f"count(*) AS {name}"]
        kind = kinds[place]
        if measure.distinct:
            if not kind.startswith(_PLAIN):
                raise LineageError(
                    f"measure '{measure.name}' of '{self.question.name}': {kind} cannot be kept distinct"
                )
            return [f"{self.engine.distinct_values(_canonical(place, kind))} AS {name}"]
        total = self.engine.whole_sum(place) if kind in _WHOLE else f"sum({place})"
        match measure.function:
            case "count":
                return [f"count({place}) AS {name}"]
            case "sum":
                return [f"{total} AS {name}"]
            case "avg":
                return [f"{total} AS {name}", f"count({place}) AS {name}_n"]
            case _:
                return [f"{measure.function}({place}) AS {name}"]

    def _is_once(self, ways: Sequence[SpaceEdge]) -> bool:
        """Whether no far row is behind two near rows. Only then can measures of several near rows be added."""
        if self.question.direction == "forward":
            return False
        direct = self._direct(ways)
        if direct is not None or not ways:
            return True
        pairs = self._pairs(ways)
        return self.engine.number(f"SELECT count(*) - count(DISTINCT b) FROM ({pairs}) x") == 0

    def _witnesses(self, path: Path) -> PreparedFile:
        """Each near row with the row ids that belong together, one column per occurrence of a dataset."""
        found = witnesses(self.question.near, self.tables, self.rows, frozenset(self.question.far))
        columns = [f"w{number}" for number in range(len(found.spaces))]
        query = f"SELECT DISTINCT id AS {NEAR}, {', '.join(columns)} FROM ({found.query}) x"
        some = " OR ".join(f"{name} IS NOT NULL" for name in columns)
        written = self.engine.write_rows(f"{query} WHERE {some}", [NEAR, *columns], path)
        return self._file(written, {"met": list(found.spaces)})

    # --- near and far rows ------------------------------------------------------------------------------------

    def _near_far_rows(self, ways: Sequence[SpaceEdge], columns: Sequence[str]) -> str:
        """(near, far, h0, h1, …): pairs with the columns or values of each far row that the question uses."""
        direct = self._direct(ways)
        if direct is not None:
            return direct.with_values(self._values(columns), self._condition())
        near, far = ("a", "b") if self.question.direction == "backward" else ("b", "a")
        side = self._far_rows(columns)
        values = self._value_count(columns)
        shown = "".join(f", s.h{number}" for number in range(values))
        return (
            f"SELECT p.{near} AS {NEAR}, p.{far} AS {FAR}{shown} FROM ({self._pairs(ways)}) p "
            f"JOIN ({side}) s ON s.id = p.{far}"
        )

    def _pairs(self, ways: Sequence[SpaceEdge]) -> str:
        (upper, lower), *_ = self.question.ends
        if not ways:
            return "SELECT CAST(NULL AS BIGINT) AS a, CAST(NULL AS BIGINT) AS b WHERE false"
        if is_chain(ways, upper):
            return f"SELECT {'' if stays_distinct(ways) else 'DISTINCT '}a, b FROM ({chained_pairs(ways)}) x"
        return f"SELECT a, b FROM ({composed_pairs(ways, upper, lower)}) x"

    def _far_rows(self, columns: Sequence[str]) -> str:
        if self.side is not None:
            name = f"side_{view_of(self.question.name)}"
            self.engine.view(name, self.side)
            return f"SELECT * FROM {name}"
        values = "".join(f", {text} AS h{number}" for number, text in enumerate(self._values(columns)))
        condition = self._condition()
        where = f" WHERE {condition}" if condition else ""
        return f"SELECT t0.{RID} AS id{values} FROM ({self.engine.rows_of(self.question.far[0])}) t0{where}"

    def _values(self, columns: Sequence[str]) -> list[str]:
        if self.question.kind == "rows":
            return [f"t0.{column(name)}" for name in columns]
        return list(self.question.alike.values) if self.question.alike is not None else []

    def _value_count(self, columns: Sequence[str]) -> int:
        return len(columns) if self.question.kind == "rows" else len(self.question.values)

    def _condition(self) -> str | None:
        return self.question.alike.where if self.question.alike is not None else None

    def _direct(self, ways: Sequence[SpaceEdge]) -> DirectRows | None:
        """The single scan that finds near and far rows together, if keys of the far rows determine their near row."""
        if len(ways) != 1 or self.side is not None or self.question.direction == "forward":
            return None
        rows = self.rows.get(ways[0].table)
        if rows is None or rows.direct is None or rows.files or len(rows.direct.sources) != 1:
            return None
        return DirectRows(self.engine, rows, self.question)

    def _file(self, path: Path, body: Mapping[str, Any]) -> PreparedFile:
        from lineage_service.store.versions import parquet_rows

        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        rows = sum(parquet_rows(str(file)) for file in files)
        return PreparedFile(self.question, path, rows, sum(file.stat().st_size for file in files), body)


@dataclass(frozen=True)
class DirectRows:
    """A group-by whose rows are found in one source by its keys."""

    engine: IndexEngine
    rows: TableRows
    question: DeclaredQuestion

    def with_values(self, values: Sequence[str], condition: str | None) -> str:
        direct = self.rows.direct
        assert direct is not None
        assert self.rows.carrier is not None
        shown = "".join(f", {text} AS h{number}" for number, text in enumerate(values))
        same = [f"t0.{column(own)} IS NOT DISTINCT FROM o.{column(other)}" for _, own, other in direct.keys]
        where = " AND ".join([*direct.conditions, *same, *([condition] if condition else [])]) or "true"
        source = self.engine.rows_of(self.question.far[0])
        dataset = self.engine.rows_of(step_space(self.rows.carrier), direct.dataset_key_columns)
        return f"SELECT o.{RID} AS {NEAR}, t0.{RID} AS {FAR}{shown} FROM ({source}) t0, ({dataset}) o WHERE {where}"


def covered_columns(question: DeclaredQuestion, names: Sequence[str]) -> list[str]:
    """The stored columns of a dataset: parameters first, by which rows are sorted, then the others."""
    if question.kind != "rows":
        return []
    by_lower = {name.lower(): name for name in names}
    parameters = [by_lower[name.lower()] for name in question.parameters]
    others = list(names) if question.columns is None else [by_lower[name.lower()] for name in question.columns]
    return list(dict.fromkeys([*parameters, *others]))


def _argument_number(question: DeclaredQuestion, measure: MergeableMeasure) -> int:
    arguments = list(dict.fromkeys(each.argument for each in question.measures if each.argument is not None))
    return arguments.index(str(measure.argument))


def _canonical(place: str, kind: str) -> str:
    """A canonical value for comparing rows: equal numbers have the same one."""
    if kind not in ("FLOAT", "DOUBLE"):
        return place
    return (
        f"CASE WHEN isnan({place}) THEN CAST('nan' AS {kind}) WHEN {place} = 0 THEN CAST(0 AS {kind}) ELSE {place} END"
    )
