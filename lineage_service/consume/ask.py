"""A question in SQL from text to answer: read, rewritten to plain SQL over the home's files, checked, run in bounds."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.consume.allowed import SERIALIZE, check_allowed
from lineage_service.consume.origin import origin_of_rids
from lineage_service.consume.reading import BACKWARD, FORWARD, Call, Named, Question, Span, read_question
from lineage_service.consume.relations import Relation, Relations
from lineage_service.consume.running import Limits, Running, apart
from lineage_service.consume.session import Session
from lineage_service.errors import QuestionError
from lineage_service.query.answer import Answer, Part, records
from lineage_service.query.ask import Questions
from lineage_service.query.graph import Direction
from lineage_service.store.engine import column
from lineage_service.store.scan import RID

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Rewritten:
    """A question over relations: `named` has a name in the place of each of them, `sql` their SQL."""

    named: str
    sql: str
    relations: dict[str, Relation]


@dataclass(frozen=True)
class _Common:
    """Definitions of common tables that a subquery may read."""

    names: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()

    def before(self, query: str, definitions: Sequence[str]) -> str:
        return f"WITH RECURSIVE {', '.join(definitions)} {query}" if definitions else query


@dataclass
class Consumer:
    """Asks questions in SQL over one home."""

    ask: Questions
    session: Session
    _names: int = 0
    _prefix: str = "rows_"

    def query(self, text: str, limits: Limits, limit: int | None = None) -> Answer:
        """The answer to a question; `limit` cuts it, and says how many rows more there are."""
        question = read_question(text)
        while self._prefix in text.lower():
            self._prefix += "_"
        rewritten = self._rewritten(question, limits)
        if question.explain:
            return _explained(rewritten)
        return self._answer(rewritten, limits, limit)

    # --- rewriting --------------------------------------------------------------------------------------------

    def _rewritten(self, question: Question, limits: Limits) -> Rewritten:
        relations: dict[str, Relation] = {}
        named, sql = self._replaced(question, _Common(), relations, limits)
        self._check(named, relations)
        return Rewritten(named, sql, relations)

    def _replaced(
        self, question: Question, common: _Common, relations: dict[str, Relation], limits: Limits
    ) -> tuple[str, str]:
        """The text with names for its datasets and lineage, and with their SQL. Subqueries of rows run on the way."""
        done: list[tuple[Span, str, str]] = []
        for part in question.parts:
            if isinstance(part, Named):
                relation = self._relations.dataset(part.name)
            else:
                relation = self._called(question, part, common, done, limits)
            self._names += 1
            name = f"{self._prefix}{self._names}"
            relations[name] = relation
            alias = f" AS {column(part.alias)}" if part.alias else ""
            done.append((part.span, f"{name}{alias}", f"({relation.query}){alias}"))
        return _spliced(question.text, done, 1), _spliced(question.text, done, 2)

    def _called(
        self, question: Question, call: Call, common: _Common, done: Sequence[tuple[Span, str, str]], limits: Limits
    ) -> Relation:
        called = question.text[call.span.start : call.span.end]
        called = called if len(called) <= 120 else f"{call.written}(…)"
        if call.function not in (BACKWARD, FORWARD):
            raise QuestionError("workload(…) is not available in this version")
        if not 2 <= len(call.arguments) <= 3 or any(isinstance(each, Span) for each in call.arguments[:2]):
            raise QuestionError(
                f"{call.written}(…) takes a dataset, a dataset to reach, and which rows to start from",
                hint=f"write {call.written}('totals', 'orders', 'order_id = 7')",
            )
        datasets, to, *rest = call.arguments
        assert not isinstance(datasets, Span) and not isinstance(to, Span)
        start = rest[0] if rest else None
        where, ids = None, None
        if isinstance(start, Span):
            if len(datasets) > 1:
                raise QuestionError(f"{call.written}(…) over several datasets starts from a predicate, not from rows")
            ids = self._started(question, call, start, common, done, datasets[0], limits)
        elif start is not None:
            (where,) = start
        direction: Direction = "backward" if call.function == BACKWARD else "forward"
        return self._relations.lineage(self._relations.start(datasets, where, ids), direction, to, called)

    def _started(
        self,
        question: Question,
        call: Call,
        span: Span,
        common: _Common,
        done: Sequence[tuple[Span, str, str]],
        dataset: str,
        limits: Limits,
    ) -> pa.Array:
        """The row ids that a subquery gives; refused where they are known to be of another dataset."""
        before = [each for each in question.tables if each.span.end <= call.span.start]
        common = _Common(
            (*common.names, *(each.name for each in before)),
            (*common.named, *(_spliced(question.text, done, 1, each.span) for each in before)),
            (*common.sql, *(_spliced(question.text, done, 2, each.span) for each in before)),
        )
        inner = read_question(question.text[span.start : span.end], common.names)
        if inner.explain:
            raise QuestionError("rows to start from are a SELECT, not EXPLAIN")
        relations: dict[str, Relation] = {}
        named, sql = self._replaced(inner, common, relations, limits)
        whole = common.before(named, common.named)
        self._check(whole, relations, around=common.names)
        version = self.ask.find(dataset).version_id
        origin = origin_of_rids(whole, {name: each.version for name, each in relations.items()})
        if origin.version is not None and origin.version != version:
            raise QuestionError(
                f"the rows given to {call.written}(…) are not rows of '{dataset}'",
                hint=f"they need the column {RID} of '{dataset}'",
            )
        alone = relations.get(origin.alone) if origin.alone else None
        if alone is not None and alone.ids is not None:
            return alone.ids()
        query = common.before(
            f"SELECT DISTINCT {RID}::BIGINT AS {RID} FROM ({sql}) AS rows_asked WHERE {RID} IS NOT NULL ORDER BY 1",
            common.sql,
        )
        return self._ids(query, relations, call, limits)

    def _ids(self, query: str, relations: dict[str, Relation], call: Call, limits: Limits) -> pa.Array:
        import duckdb
        import pyarrow as pa

        tables = self._open(relations)
        try:
            with self.session.timed(limits.seconds) as cursor:
                try:
                    found = cursor.sql(query).to_arrow_table().column(0)
                except duckdb.BinderException as error:
                    if f'"{RID}"' in str(error):
                        raise QuestionError(
                            f"the rows given to {call.written}(…) have no column {RID}",
                            hint=f"select {RID} too, or FROM a dataset",
                        ) from None
                    raise
        finally:
            self.session.drop(tables)
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.int64())

    @property
    def _relations(self) -> Relations:
        return Relations(self.ask, self.session.new_name)

    def _check(self, named: str, relations: dict[str, Relation], around: Sequence[str] = ()) -> None:
        serialized = self.ask.engine.text(SERIALIZE, [named])
        # Common tables around a subquery hold relations that got their names before.
        known = {f"{self._prefix}{number}" for number in range(1, self._names + 1)}
        check_allowed(serialized, {*relations, *known}, around)

    # --- running ----------------------------------------------------------------------------------------------

    def _open(self, relations: dict[str, Relation]) -> list[str]:
        """Everything that relations read, in the guarded engine; the tables made for it."""
        self.session.allow([path for each in relations.values() for path in each.paths])
        made = {name: ids for each in relations.values() for name, ids in each.tables.items()}
        for name, ids in made.items():
            self.session.keep(name, ids)
        return list(made)

    def _answer(self, rewritten: Rewritten, limits: Limits, limit: int | None) -> Answer:
        tables = self._open(rewritten.relations)
        most = limits.rows if limit is None else min(limit, limits.rows)
        notes = [note for each in rewritten.relations.values() for note in each.notes]
        answer = Answer([], "records", notes)
        running = Running(self.session.connection, rewritten.sql, limits, most, self.ask.home.path)
        first = [running.start()]

        def open_() -> pa.RecordBatchReader:
            reader, seconds, cursor = first.pop() if first else running.start()
            return running.read(reader, seconds, cursor, part, answer.notes)

        part = Part(apart(first[0][0].schema.names), open_)
        answer.parts.append(part)
        if tables:
            weakref.finalize(part, self.session.drop, tables)  # the answer may be read at any time until it is gone
        return answer


def _explained(rewritten: Rewritten) -> Answer:
    rows = [("rewritten", rewritten.sql), *(("chosen", each.told) for each in rewritten.relations.values())]
    return records(["part", "text"], rows)


def _spliced(text: str, done: Sequence[tuple[Span, str, str]], which: int, span: Span | None = None) -> str:
    """A piece of the text (all of it) with each part replaced."""
    span = span or Span(0, len(text))
    pieces, at = [], span.start
    for each in done:
        if span.start <= each[0].start and each[0].end <= span.end:
            pieces += [text[at : each[0].start], str(each[which])]
            at = each[0].end
    return "".join([*pieces, text[at : span.end]])
