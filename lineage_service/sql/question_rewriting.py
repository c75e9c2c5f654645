"""Rewrites a question: each dataset and lineage function becomes SQL over the home's files.

Subqueries that select start rows are evaluated during the rewrite, innermost first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError
from lineage_service.query.lineage_graph import Direction
from lineage_service.query.query_engine import UnknownColumn
from lineage_service.sql.preparations import (
    Prepared,
    empty_parts,
    files_of,
    find_covering,
    find_groupings,
    groups_scan,
    parts_query,
)
from lineage_service.sql.prepared_groups import grouped_select, is_grouped
from lineage_service.sql.query_context import MOST_CHECKED, QueryContext, RewrittenQuery
from lineage_service.sql.question_parsing import (
    BACKWARD,
    WORKLOAD,
    DatasetReference,
    LineageCall,
    Question,
    Span,
    read_question,
)
from lineage_service.sql.relations import Relations, SqlRelation
from lineage_service.sql.rid_origin import origin_of_rids
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_scan import RID

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "rows_"


@dataclass(frozen=True)
class _CommonDefinitions:
    """Definitions of the common tables around a subquery, with relation names and with SQL."""

    names: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Arguments:
    """The arguments of a lineage function: datasets, targets, and the start rows (default: all)."""

    datasets: tuple[str, ...]
    to: tuple[str, ...]
    where: str | None
    ids: pa.Array | None


@dataclass
class QuestionRewriter:
    """Rewrites one question, or one subquery of it."""

    asking: QueryContext
    question: Question
    prefix: str
    reveal: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    common: _CommonDefinitions = field(default_factory=_CommonDefinitions)
    relations: dict[str, SqlRelation] = field(default_factory=dict)
    done: list[tuple[Span, str, str]] = field(default_factory=list)

    def rewrite(self, *, rows: bool = False) -> RewrittenQuery:
        """The rewritten question. With `rows`, prepared groups are not used."""
        found = None if rows else self._from_groups()
        if found is None:
            self._replace_all()
            found = RewrittenQuery(self._text(1), self._text(2), self.relations)
        self._check(found.named)
        return replace(found, masks=self.asking.shown_masks(found.named, found.relations))

    def _replace_all(self) -> None:
        for part in self.question.parts:
            relation = (
                self._relations.dataset(part.name)
                if isinstance(part, DatasetReference)
                else self._relation_of_call(part)
            )
            name = self._register_relation(relation)
            alias = f" AS {column(part.alias)}" if part.alias else ""
            self.done.append((part.span, f"{name}{alias}", f"({relation.query}){alias}"))

    def _register_relation(self, relation: SqlRelation) -> str:
        name = f"{self.prefix}{next(self.numbers)}"
        self.relations[name] = relation
        return name

    @property
    def _relations(self) -> Relations:
        return Relations(self.asking.ask, self.asking.session.new_name, self.reveal, self.question.explain)

    def _check(self, named: str) -> None:
        # Common tables around a subquery contain relations that were named before.
        known = {f"{self.prefix}{number}" for number in range(1, next(self.numbers))}
        self.asking.check(named, frozenset({*self.relations, *known}), self.common.names)

    def _text(self, which: int, span: Span | None = None) -> str:
        """A span of the text (default: all), with each part replaced by its name (1) or by its SQL (2)."""
        text, span = self.question.text, span or Span(0, len(self.question.text))
        pieces, at = [], span.start
        for each in self.done:
            if span.start <= each[0].start and each[0].end <= span.end:
                pieces += [text[at : each[0].start], str(each[which])]
                at = each[0].end
        return "".join([*pieces, text[at : span.end]])

    # --- lineage functions ------------------------------------------------------------------------------------

    def _relation_of_call(self, call: LineageCall) -> SqlRelation:
        if call.function == WORKLOAD:
            return self._workload(call)
        arguments = self._arguments(call)
        found = [self.asking.ask.find(name) for name in arguments.datasets]
        starts = self._relations.start(found, arguments.where, arguments.ids)
        direction = _direction(call)
        read = self.question.columns_read
        whole = call.listed or call.named.lower() in self.question.names_alone
        if len(starts) == 1 and len(arguments.to) == 1:
            prepared = find_covering(
                self.asking.preparations.of_run(found[0].run_id),
                found[0],
                arguments.to[0],
                direction,
                None if whole else read,
            )
            if prepared is not None:
                return self._relations.from_prepared(prepared, starts[0][1], self._call_text(call))
        return self._relations.lineage(starts, direction, arguments.to, self._call_text(call))

    def _workload(self, call: LineageCall) -> SqlRelation:
        first = call.arguments[0] if call.arguments else Span(0, 0)
        if isinstance(first, Span) or len(first) != 1 or len(call.arguments) > 2:
            raise QuestionError(
                "workload(…) takes the name of a declared question, and which rows to start from",
                hint="write workload('monthly', 'order_id = 7')",
            )
        prepared = self.asking.preparations.find(first[0])
        near = prepared.near
        where, ids = self._start(call, call.arguments[1:], f"{near.full_name}@{near.run_id}")
        ((_, start),) = self._relations.start([near], where, ids)
        return self._relations.from_prepared(prepared, start, self._call_text(call))

    def _arguments(self, call: LineageCall) -> _Arguments:
        if not 2 <= len(call.arguments) <= 3 or any(isinstance(each, Span) for each in call.arguments[:2]):
            raise QuestionError(
                f"{call.written}(…) takes a dataset, a dataset to reach, and which rows to start from",
                hint=f"write {call.written}('totals', 'orders', 'order_id = 7')",
            )
        datasets, to, *rest = call.arguments
        assert not isinstance(datasets, Span) and not isinstance(to, Span)
        if rest and isinstance(rest[0], Span) and len(datasets) > 1:
            raise QuestionError(f"{call.written}(…) over several datasets starts from a predicate, not from rows")
        return _Arguments(datasets, to, *self._start(call, rest, datasets[0]))

    def _start(
        self, call: LineageCall, rest: Sequence[tuple[str, ...] | Span], dataset: str
    ) -> tuple[str | None, pa.Array | None]:
        """The predicate or the row ids to start from; all rows if neither is given."""
        if not rest:
            return None, None
        start = rest[0]
        if isinstance(start, Span):
            return None, self._subquery_rids(call, start, dataset)
        if len(start) != 1:
            raise QuestionError(f"{call.written}(…) starts from one predicate or one subquery of rows")
        return start[0], None

    def _call_text(self, call: LineageCall) -> str:
        text = " ".join(self.question.text[call.span.start : call.span.end].split())
        return text if len(text) <= 100 else f"{call.written}(…)"

    # --- start rows -------------------------------------------------------------------------------------------

    def _subquery_rids(self, call: LineageCall, span: Span, dataset: str) -> pa.Array:
        """The row ids that a subquery returns. Refused if they are known to belong to another dataset."""
        before = [each for each in self.question.tables if each.span.end <= call.span.start]
        common = _CommonDefinitions(
            (*self.common.names, *(each.name for each in before)),
            (*self.common.named, *(self._text(1, each.span) for each in before)),
            (*self.common.sql, *(self._text(2, each.span) for each in before)),
        )
        inner = read_question(self.question.text[span.start : span.end], common.names)
        self._refuse_inner(inner, common.names)
        if inner.explain:
            raise QuestionError("rows to start from are a SELECT, not EXPLAIN")
        # Its common tables read relations of the enclosing question.
        around = dict(self.relations)
        below = QuestionRewriter(self.asking, inner, self.prefix, self.reveal, self.numbers, common, around)
        below._replace_all()
        named = _with(common.named, below._text(1)) if common.named else below._text(1)
        below._check(named)
        self.asking.shown_masks(named, below.relations)
        wanted = self.asking.ask.find(dataset).version_id
        origin = origin_of_rids(named, {name: each.version for name, each in below.relations.items()})
        if origin.version is not None and origin.version != wanted:
            raise QuestionError(
                f"the rows given to {call.written}(…) are not rows of '{dataset}'",
                hint=f"they need the column {RID} of '{dataset}'",
            )
        alone = below.relations.get(origin.alone) if origin.alone else None
        if alone is not None and alone.ids is not None:
            return alone.ids()
        query = f"SELECT DISTINCT {RID} FROM ({below._text(2)}\n) AS rows_asked WHERE {RID} IS NOT NULL ORDER BY 1"
        return self._ids(_with(common.sql, query), below.relations, call)

    def _refuse_inner(self, inner: Question, known: Sequence[str]) -> None:
        """Refuses a subquery that reads a common table of an inner WITH. Only those of the outermost WITH are visible;
        the name would denote a dataset.
        """
        from sqlglot import exp

        names = {each.alias.lower() for each in self.question.tree.find_all(exp.CTE)} - {name.lower() for name in known}
        for part in inner.parts:
            if isinstance(part, DatasetReference) and part.name.lower() in names:
                raise QuestionError(
                    f"rows to start from cannot read the common table '{part.name}' of an inner WITH",
                    hint="put it into the WITH at the beginning of the query",
                )

    def _ids(self, query: str, relations: dict[str, SqlRelation], call: LineageCall) -> pa.Array:
        import pyarrow as pa

        tables = self.asking.open(relations)
        try:
            found = self.asking.session.rows(query).table().column(0)
        except UnknownColumn as error:
            if error.name != RID:
                raise
            raise QuestionError(
                f"the rows given to {call.written}(…) have no column {RID}",
                hint=f"select {RID} too, or FROM a dataset",
            ) from None
        finally:
            self.asking.session.drop(tables)
        if not pa.types.is_integer(found.type) and not pa.types.is_null(found.type):
            raise QuestionError(f"the rows given to {call.written}(…) have no row ids in {RID}: they are whole numbers")
        try:
            ids = found.cast(pa.int64())
        except pa.ArrowInvalid:
            raise QuestionError(f"the rows given to {call.written}(…) have no row ids in {RID}") from None
        return pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], pa.int64())

    # --- prepared groups --------------------------------------------------------------------------------------

    def _from_groups(self) -> RewrittenQuery | None:
        """The question over partial measures, if exactly these groups were prepared."""
        if self.common.names or len(self.question.parts) != 1:
            return None
        (call,) = self.question.parts
        if isinstance(call, DatasetReference) or call.function == WORKLOAD or call.listed:
            return None
        first, second = call.arguments[0], call.arguments[1] if len(call.arguments) > 1 else Span(0, 0)
        if isinstance(first, Span) or isinstance(second, Span) or len(first) != 1 or len(second) != 1:
            return None
        near = self.asking.ask.find(first[0])
        candidates = find_groupings(self.asking.preparations.of_run(near.run_id), near, second[0], _direction(call))
        for prepared in candidates:
            if self._reads_masks(prepared.far[0]):
                continue
            name = f"{self.prefix}1"
            select = self._select(call, prepared, name)
            if select is None:
                continue
            where, ids = self._start(call, call.arguments[2:], first[0])
            ((_, start),) = self._relations.start([near], where, ids)
            kept, tables = self._relations.guarded_start(start)
            path = self.asking.ask.home.absolute(str(prepared.record.path))
            place, held = groups_scan(prepared, path)
            parts = parts_query(prepared, place, kept, name)
            if parts is None:
                continue
            description = f"{self._call_text(call)}: prepared groups of '{prepared.question.name}'"
            relation = SqlRelation(parts, files_of(path), None, description, tables, held=held)
            self.relations[name] = relation
            next(self.numbers)
            return RewrittenQuery(select, f"WITH {name} AS ({relation.query}) {select}", self.relations)
        return None

    def _reads_masks(self, far: DatasetRecord) -> bool:
        """Whether the question may read masked columns that groups would disclose. A reveal is recorded."""
        read, masked = self.question.columns_read, self.asking.ask.masks.of(far)
        if not masked or (read is not None and not read & masked):
            return False
        return bool(self.asking.ask.masks.over(far, reveal=self.reveal))

    def _select(self, call: LineageCall, prepared: Prepared, name: str) -> str | None:
        """The SELECT over partial measures, cached by text whatever rows it starts from."""
        text = self.question.text
        key = (
            text[: call.span.start],
            text[call.span.end :],
            call.alias,
            name,
            prepared.record.run_id,
            prepared.record.name,
        )
        if key not in self.asking.selects:
            found = None
            if is_grouped(self.question.tree):
                found = self._select_from_groups(call, prepared, name)
            if len(self.asking.selects) >= MOST_CHECKED:
                self.asking.selects.clear()
            self.asking.selects[key] = found
        return self.asking.selects[key]

    def _select_from_groups(self, call: LineageCall, prepared: Prepared, name: str) -> str | None:
        """The SELECT, if its columns have the names and types of the original question."""
        shown = self._result_columns(call, prepared.far[0])
        columns = {each.name: each.type for each in self.asking.ask.scan(prepared.far[0]).version.columns}
        names = [each for each, _ in shown]
        question, types = prepared.question, prepared.body["types"]
        select = grouped_select(self.question.tree, name, call.named, question, types, names, columns)
        if select is None:
            return None
        nothing = f"SELECT * FROM ({empty_parts(prepared, name)})"
        found = self.asking.describe_columns(f"WITH {name} AS ({nothing}) {select}")
        return select if found == shown else None

    def _result_columns(self, call: LineageCall, far: DatasetRecord) -> list[tuple[str, str]]:
        """Names and types of the question's columns, determined without reading a row."""
        alias = f" AS {column(call.alias)}" if call.alias else ""
        name = f"{self.prefix}0"
        nothing = self.asking.ask.scan(far).select_no_rows()
        text = self.question.text
        named = f"{text[: call.span.start]}{name}{alias}{text[call.span.end :]}"
        self.asking.check(named, frozenset({name}))
        sql = f"{text[: call.span.start]}({nothing}){alias}{text[call.span.end :]}"
        return self.asking.describe_columns(sql)


def _direction(call: LineageCall) -> Direction:
    return "backward" if call.function == BACKWARD else "forward"


def _with(definitions: Sequence[str], query: str) -> str:
    """A query with common tables prepended. It may have its own."""
    return f"WITH RECURSIVE {', '.join(definitions)} SELECT * FROM ({query}\n)" if definitions else query
