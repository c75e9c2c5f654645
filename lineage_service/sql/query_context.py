"""The context of questions in SQL: a home, the preparations of its runs, and a guarded engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from lineage_service.query.guarded_session import Session
from lineage_service.query.questions import Questions
from lineage_service.sql.masking import shown_masks
from lineage_service.sql.permission_check import SERIALIZE, check_allowed
from lineage_service.sql.preparations import (
    Preparations,
)
from lineage_service.sql.relations import SqlRelation

MOST_CHECKED = 1000


@dataclass(frozen=True)
class RewrittenQuery:
    """A question over relations. In `named`, each relation is replaced by a name, in `sql` by its SQL. `masks` are the
    masked columns of the answer.
    """

    named: str
    sql: str
    relations: dict[str, SqlRelation]
    masks: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueryContext:
    """The context of questions: a home, the preparations of its runs, and a guarded engine."""

    ask: Questions
    preparations: Preparations

    checked: set[tuple[object, ...]] = field(default_factory=set)
    selects: dict[tuple[object, ...], str | None] = field(default_factory=dict)
    masks: dict[tuple[object, ...], tuple[str, ...]] = field(default_factory=dict)

    @property
    def session(self) -> Session:
        return self.ask.session

    def check(self, named: str, ours: frozenset[str], around: tuple[str, ...] = ()) -> None:
        """Raises QuestionError for SQL that is not allowed. Results are cached."""
        key = (named, ours, around)
        if key not in self.checked:
            check_allowed(str(self.session.values(SERIALIZE, [named])[0][0]), ours, around)
            if len(self.checked) >= MOST_CHECKED:
                self.checked.clear()
            self.checked.add(key)

    def shown_masks(self, named: str, relations: dict[str, SqlRelation]) -> tuple[str, ...]:
        """The masked columns of an answer. Raises QuestionError for SQL that uses them for anything else."""
        if not any(each.masked for each in relations.values()):
            return ()
        columns = {name: tuple((own, each.masked.get(own)) for own in each.columns) for name, each in relations.items()}
        key = (named, tuple(columns.items()))
        if key not in self.masks:
            if len(self.masks) >= MOST_CHECKED:
                self.masks.clear()
            self.masks[key] = tuple(shown_masks(named, columns))
        return self.masks[key]

    def describe_columns(self, sql: str) -> list[tuple[str, str]]:
        """Names and types of the columns of a query."""
        return [(row[0], row[1]) for row in self.session.values(f"DESCRIBE {sql}")]

    def open(self, relations: dict[str, SqlRelation]) -> list[str]:
        """Makes everything that relations read available in the guarded engine, and returns the tables created for
        it.
        """
        self.session.allow([path for each in relations.values() for path in each.paths])
        for query in (query for each in relations.values() for query in each.held):
            self.session.held_table(query)
        made = {name: ids for each in relations.values() for name, ids in each.tables.items()}
        for name, ids in made.items():
            self.session.keep(name, ids)
        return list(made)
