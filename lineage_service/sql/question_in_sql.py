"""Answers a question in SQL: parses it, rewrites it to plain SQL over the home's files, checks it, and runs it within
limits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_catalog.records import Commit

from lineage_service.errors import LineageError, QuestionError, join_names
from lineage_service.query.answer import Answer, AnswerPart, records
from lineage_service.query.questions import Questions
from lineage_service.sql.answer_limits import HINT, Limits, limit_rows, unique_column_names
from lineage_service.sql.preparations import Preparations
from lineage_service.sql.query_context import QueryContext, RewrittenQuery
from lineage_service.sql.question_parsing import read_question
from lineage_service.sql.question_rewriting import PREFIX, QuestionRewriter
from lineage_service.sql.saved_query import QuerySaver, check_name

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.query.guarded_session import RowStream


@dataclass(frozen=True)
class SqlQuestions:
    """Answers questions in SQL over one home."""

    asking: QueryContext

    def query(self, text: str, limits: Limits, limit: int | None = None, *, reveal: bool = False) -> Answer:
        """The answer to a question. `limit` truncates it and reports the number of further rows.

        Masked columns may only be selected, and are shown masked, unless `reveal` is set.
        """
        if limit is not None and limit < 0:
            raise QuestionError("a limit cannot be negative")
        with _single_line_errors(), self.asking.session.within(limits.seconds, HINT):
            question = read_question(text)
            rewritten = QuestionRewriter(self.asking, question, _prefix(text), reveal).rewrite()
            if question.explain:
                return _explain_rewrite(rewritten)
            self.asking.ask.masks.note_hidden(rewritten.masks)
            return self._answer(rewritten, limits, limit)

    def save(
        self,
        text: str,
        name: str,
        limits: Limits,
        commit: Callable[[Commit], None],
        *,
        reveal: bool = False,
    ) -> str:
        """Saves a question's rows as a dataset with lineage, and returns the id of its run.

        Masked values are not data: a question that selects masked columns can only be saved with `reveal`.
        """
        with _single_line_errors(), self.asking.session.within(limits.seconds, HINT):
            check_name(name, self.asking.ask.reader)
            question = read_question(text)
            if question.explain:
                raise QuestionError("EXPLAIN cannot be saved")
            rewritten = QuestionRewriter(self.asking, question, _prefix(text), reveal).rewrite(rows=True)
            if rewritten.masks:
                raise QuestionError(
                    f"the query cannot be saved: {join_names(rewritten.masks)} would be kept as masks",
                    hint="leave masked columns out; --reveal keeps their values, marked as before, and is logged",
                )
            return QuerySaver(self.asking, question, rewritten, name).save(self.asking.ask.home, commit)

    def _answer(self, rewritten: RewrittenQuery, limits: Limits, limit: int | None) -> Answer:
        session = self.asking.session
        tables = self.asking.open(rewritten.relations)
        epoch = session.epoch
        most = limits.rows if limit is None else min(limit, limits.rows)
        notes = [note for each in rewritten.relations.values() for note in each.notes]
        answer = Answer([], "records", notes)
        first = [session.rows(rewritten.sql, most=limits.rows)]

        def again() -> RowStream:
            nonlocal epoch
            with session.within(limits.seconds, HINT):
                session.allow(())
                if session.epoch != epoch:  # the engine was restarted, and its tables are gone
                    self.asking.open(rewritten.relations)
                    epoch = session.epoch
                return session.rows(rewritten.sql, most=limits.rows)

        def open_() -> pa.RecordBatchReader:
            return limit_rows(first.pop() if first else again(), limits, most, part, answer.notes)

        names = first[0].schema.names
        part = AnswerPart(
            shown := unique_column_names(names), open_, masked=_shown_mask_names(names, shown, rewritten.masks)
        )
        answer.parts.append(part)
        if tables:
            weakref.finalize(part, session.drop, tables)  # the answer may be read until it is garbage-collected
        return answer


def sql_questions(questions: Questions) -> SqlQuestions:
    """Questions in SQL over the same home. Their caches live as long as its questions."""
    return questions.keep(SqlQuestions, lambda: SqlQuestions(QueryContext(questions, Preparations(questions))))


def _shown_mask_names(names: Sequence[str], shown: Sequence[str], masks: Sequence[str]) -> tuple[str, ...]:
    """The masked columns of an answer, by the names they are shown under."""
    hidden = {name.lower() for name in masks}
    return tuple(new for own, new in zip(names, shown, strict=True) if own.lower() in hidden)


@contextmanager
def _single_line_errors() -> Iterator[None]:
    """Puts each error of a question on one line, and translates a RecursionError."""
    try:
        yield
    except RecursionError:
        raise QuestionError("the query is nested too deeply") from None
    except LineageError as error:
        if not any("\n" in problem.message for problem in error.problems):
            raise
        problems = [replace(problem, message=" ".join(problem.message.split())) for problem in error.problems]
        raise type(error)(problems) from None


def _prefix(text: str) -> str:
    """A prefix for relation names that does not occur in the question."""
    prefix = PREFIX
    while prefix in text.lower():
        prefix += "_"
    return prefix


def _explain_rewrite(rewritten: RewrittenQuery) -> Answer:
    rows = [("rewritten", rewritten.sql), *(("chosen", each.description) for each in rewritten.relations.values())]
    return records(["part", "text"], rows)
