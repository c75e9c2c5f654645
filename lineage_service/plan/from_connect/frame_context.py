"""What the parts of the compiler share: names, identities, places, and the making of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lineage_service.errors import Position
from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.expressions import Expression, ExpressionError
from lineage_service.plan.from_connect.bound_expressions import as_column
from lineage_service.plan.from_connect.expression_rendering import expression_text
from lineage_service.plan.from_connect.frames import Frame, FrameColumn, Identities
from lineage_service.plan.from_connect.message_expressions import message_expression
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.plan.from_connect.value_types import value_type
from lineage_service.plan.from_sql.scopes import InternalNames
from lineage_service.plan.nodes import NamedExpression, Node, Project, WithColumns

N = TypeVar("N", bound=Node)
Lines = Mapping[int, tuple[str, int]]


@dataclass
class FrameContext:
    """A program's data frame while it is compiled.

    tables: what a name in the plan or in a text of SQL stands for: a node of the workflow, or another relation.
    lines: the line of the program that made a relation, by plan id.
    compile: compiles a relation; a field, because its module imports those that call it.
    references: relations that subqueries and texts of SQL read, by plan id.
    enclosing: the frame around the subquery in compilation.
    here: the place of the relation in compilation.
    schemas: names and types of a relation's columns as Spark gives them, by plan id, where the caller has asked.
    types: those types, by the column's name in the plan.
    """

    step: str
    position: Position | None
    tables: Mapping[str, Node | Message]
    lines: Lines
    compile: Callable[[FrameContext, Message], Frame]
    names: InternalNames = field(default_factory=InternalNames)
    identities: Identities = field(default_factory=Identities)
    references: dict[int, Message] = field(default_factory=dict)
    compiled: dict[int, tuple[Message, Frame]] = field(default_factory=dict)
    enclosing: tuple[Frame, ...] = ()
    here: Position | None = None
    made: int = 0
    schemas: Mapping[int, Sequence[tuple[str, str]]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def type_of(self, frame: Frame, column: FrameColumn) -> str | None:
        """The type of a column, where it is known before the run."""
        return self.types.get(column.internal) or column_type(frame.node.schema, column.internal)

    def note_type(self, internal: str, node: Node, bound: Message) -> None:
        """Notes the type of a new column, where it is known."""
        type_ = value_type(bound, lambda name: self.column_type(node, name))
        if type_ is not None:
            self.types[internal] = type_

    def column_type(self, node: Node, name: str) -> str | None:
        return self.types.get(name) or column_type(node.schema, name)

    def with_schema(self, frame: Frame) -> Frame:
        """A frame with what Spark says of its columns."""
        given = self.schemas.get(frame.plan_id) if frame.plan_id is not None else None
        if given is None:
            return frame
        if len(given) != len(frame.columns):
            raise self.refuse(f"Spark gives {len(given)} columns, and {len(frame.columns)} were compiled")
        for column, (_, type_) in zip(frame.columns, given, strict=True):
            self.types[column.internal] = type_
        columns = tuple(replace(each, name=name) for each, (name, _) in zip(frame.columns, given, strict=True))
        return replace(frame, columns=columns)

    def place_of(self, plan_id: int | None) -> Position | None:
        line = self.lines.get(plan_id) if plan_id is not None else None
        return Position(line[0], line[1], 1) if line is not None else None

    def table(self, name: str) -> Node | Message | None:
        """What a name stands for; names are compared without regard to case."""
        return next((each for known, each in self.tables.items() if known.lower() == name.lower()), None)

    def refuse(self, reason: str) -> Untraceable:
        return Untraceable(reason, self.here)

    def make(self, kind: type[N], what: str, *fields: Any) -> N:
        """A node of the step; `what` is a word for its id."""
        self.made += 1
        return kind(f"{self.step}:{self.made}_{what}", self.step, self.here or self.position, *fields)

    def column(self, name: str | None, internal: str, qualifier: tuple[str, ...] = ()) -> FrameColumn:
        """A new column."""
        return FrameColumn(name, internal, self.identities.fresh(), qualifier)

    def expression(self, text: str) -> Expression:
        try:
            return Expression(text, self.here or self.position)
        except ExpressionError as error:
            raise self.refuse(error.message + (f"; {error.hint}" if error.hint else "")) from None

    def text_in(self, below: Node, bound: Message, what: str) -> tuple[Node, str]:
        """A bound expression over one row as text over a node, in which it is a column where only its message can be
        evaluated; and that node."""
        column = as_column(bound)
        if column is not None:
            return below, column.internal
        text, is_exact = expression_text(bound)
        if is_exact:
            return below, self.scalar(text).text
        name = self.names.fresh(what, "value")
        return self.make(WithColumns, what, below, (NamedExpression(name, self.value(bound)),)), name

    def value(self, bound: Message) -> Expression:
        """A bound expression over one row, as a column of its own."""
        text, is_exact = expression_text(bound)
        if not is_exact:
            return message_expression(bound, self.here or self.position)
        return self.scalar(text)

    def scalar(self, text: str) -> Expression:
        expression = self.expression(text)
        if expression.has_aggregate or expression.has_over_clause or expression.needs_window:
            raise self.refuse(f"an aggregate or window function cannot stand here: {self.names.with_shown(text)}")
        if expression.is_generator:
            raise self.refuse(f"a function that returns several rows cannot stand here: {self.names.with_shown(text)}")
        return expression

    def project(self, what: str, below: Node, columns: Mapping[str, str]) -> Node:
        """Columns of a node under other names."""
        self.types |= {new: self.types[old] for new, old in columns.items() if old in self.types}
        named = tuple(NamedExpression(new, self.expression(old)) for new, old in columns.items())
        return self.make(Project, what, below, named)

    def renewed(self, frame: Frame, what: str, columns: Sequence[FrameColumn] | None = None) -> Frame:
        """A frame of the same columns over a projection that has exactly these, each under a name of its own. They keep
        their identities."""
        chosen = frame.columns if columns is None else tuple(columns)
        if [each.internal for each in chosen] == list(frame.node.schema.names):
            return frame
        named = {self.names.fresh(what, each.name or "column"): each for each in chosen}
        node = self.project(what, frame.node, {new: each.internal for new, each in named.items()})
        return Frame(
            node,
            tuple(FrameColumn(each.name, new, each.identity, each.qualifier) for new, each in named.items()),
            (frame,),
        )
