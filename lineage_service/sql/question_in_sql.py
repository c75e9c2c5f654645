"""A question in SQL from text to answer: read, rewritten to plain SQL over the home's files, checked, run in bounds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_catalog.records import Commit

from lineage_service.errors import LineageError, QuestionError, join_names
from lineage_service.query.answer import Answer, AnswerPart, records
from lineage_service.sql.answer_limits import HINT, Limits, limit_rows, unique_column_names
from lineage_service.sql.question_parsing import read_question
from lineage_service.sql.question_rewriting import PREFIX, QueryContext, QuestionRewriter, RewrittenQuery
from lineage_service.sql.saved_query import QuerySaver, check_name

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.query.guarded_session import RowStream


@dataclass(frozen=True)
class SqlQuestions:
    """Asks questions in SQL over one home."""

    asking: QueryContext

    def query(self, text: str, limits: Limits, limit: int | None = None, *, reveal: bool = False) -> Answer:
        """The answer to a question; `limit` cuts it, and says how many rows more there are. Masked columns may be
        shown, as masks, and nothing else, unless it is to `reveal` them."""
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
        workflows: Mapping[str, str],
        commit: Callable[[Commit], None],
        *,
        reveal: bool = False,
    ) -> str:
        """Makes a question's rows a dataset of that name, with their lineage; the id of its run. Masks are not data: a
        question that shows masked columns is only saved with their values, to `reveal` which must be asked for."""
        with _single_line_errors(), self.asking.session.within(limits.seconds, HINT):
            check_name(name, workflows)
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
                if session.epoch != epoch:  # the engine has been started anew, and its tables are gone
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
            weakref.finalize(part, session.drop, tables)  # the answer may be read at any time until it is gone
        return answer


def _shown_mask_names(names: Sequence[str], shown: Sequence[str], masks: Sequence[str]) -> tuple[str, ...]:
    """The columns of an answer that are masks, by the names they are shown under."""
    hidden = {name.lower() for name in masks}
    return tuple(new for own, new in zip(names, shown, strict=True) if own.lower() in hidden)


@contextmanager
def _single_line_errors() -> Iterator[None]:
    """Errors of a question in one line each, whatever names it has; and of one that is too deep for Python."""
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
    """What names of relations begin with: nothing that the question says itself."""
    prefix = PREFIX
    while prefix in text.lower():
        prefix += "_"
    return prefix


def _explain_rewrite(rewritten: RewrittenQuery) -> Answer:
    rows = [("rewritten", rewritten.sql), *(("chosen", each.told) for each in rewritten.relations.values())]
    return records(["part", "text"], rows)
