"""The relational operators, as small immutable nodes. An invalid plan cannot be constructed.

A node has inputs (nodes are shared if a step is read twice), a schema, and the expressions that it evaluates. Its
effect on lineage is defined in capture/.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, assert_never

from lineage_service.errors import Position, Problem, join_names
from lineage_service.plan.call_arguments import family, split_hint
from lineage_service.plan.conjuncts import EquiCondition, Side, parse_equi_condition
from lineage_service.plan.expression_checks import cast_type, column_type, expression_problems, predicate_faults
from lineage_service.plan.expressions import ColumnRef, Expression, SortKey, shorten_text, with_stars_expanded
from lineage_service.plan.nested_types import constructor, exploded_type, field_type, struct_fields
from lineage_service.plan.schema import RESERVED, Column, ColumnError, Schema
from lineage_service.plan.window_calls import window_calls
from lineage_service.plan.window_frames import WindowFrame
from lineage_service.plan.window_measures import GROUPING, window_call_faults

How = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]


class PlanError(Exception):
    """A node that cannot be constructed, with all its problems and their positions."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True)
class NamedExpression:
    """An expression and the name of its value."""

    name: str
    expression: Expression


@dataclass(frozen=True, eq=False)
class Base(ABC):
    """The fields of all nodes. `id` is unique in a plan; `step` is the step of the file from which the node was
    made.
    """

    id: str
    step: str
    position: Position | None

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        for expression, schema in self.expressions_with_schemas():
            problems += expression_problems(expression, schema)
        problems += [Problem(error.message, position or self.position, error.hint) for error, position in self.faults()]
        if not problems:
            try:
                _ = self.schema
            except ColumnError as error:
                problems.append(Problem(error.message, self.position, error.hint))
        if problems:
            raise PlanError(problems)

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The relations it reads, in order."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The columns it returns."""

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        """Each expression with the schema of the columns it may read."""
        yield from ()

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        """Other faults of this node; a position of None means the step itself."""
        yield from ()

    @property
    def repeatable(self) -> bool:
        """Whether this operator, given the same rows, always returns the same rows."""
        return all(expression.repeatable for expression, _ in self.expressions_with_schemas())


def _missing(names: tuple[str, ...], schema: Schema) -> Iterator[tuple[ColumnError, Position | None]]:
    for name in names:
        try:
            schema.resolve(name)
        except ColumnError as error:
            yield error, None


def _output_column(named: NamedExpression, schema: Schema) -> Column:
    """A column or field that is passed on unchanged keeps its type, and a CAST has that which it names; only Spark
    knows the types of others.
    """
    refs = named.expression.columns
    if len(refs) == 1 and len(named.expression.tokens) == 2 * len(refs[0].parts) - 1:
        column, *fields = refs[0].parts
        return Column(named.name, field_type(column_type(schema, column), fields))
    return Column(named.name, cast_type(named.expression))


@dataclass(frozen=True, eq=False)
class _Unary(Base):
    """An operator over one relation. It keeps that relation's columns unless it overrides `schema`."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class _Binary(Base):
    """An operator over two relations."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Source(Base):
    """Rows of a source. `pii` are the columns declared to contain personal data."""

    columns: Schema
    pii: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        return self.columns

    def is_pii(self, name: str) -> bool:
        """Whether a column contains personal data: declared here, or marked in the output that is read."""
        column = self.columns.find(name)
        return name.lower() in (each.lower() for each in self.pii) or (column is not None and column.pii)

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        if self.columns.find(RESERVED):
            yield (
                ColumnError(
                    f"source '{self.step}' has a column '{RESERVED}', which is reserved",
                    f"read it under another name: `rename: {{{RESERVED}: row_id}}`",
                ),
                None,
            )


@dataclass(frozen=True, eq=False)
class Filter(_Unary):
    where: Expression

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        yield self.where, self.input.schema

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        yield from predicate_faults(self.where, self.input.schema)


@dataclass(frozen=True, eq=False)
class Project(_Unary):
    """Other columns, one row for each. `hint`: how Spark is to join these rows; it changes neither rows nor lineage."""

    columns: tuple[NamedExpression, ...]
    hint: str | None = None

    @cached_property
    def schema(self) -> Schema:
        return Schema(tuple(_output_column(named, self.input.schema) for named in self.columns))

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        for named in self.columns:
            yield named.expression, self.input.schema


@dataclass(frozen=True, eq=False)
class WithColumns(_Unary):
    columns: tuple[NamedExpression, ...]

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema.with_replaced(_output_column(named, self.input.schema) for named in self.columns)

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        for named in self.columns:
            yield named.expression, self.input.schema


@dataclass(frozen=True, eq=False)
class Aggregate(_Unary):
    """Groups by keys. Without keys, one row over all rows, even if there are none."""

    keys: tuple[NamedExpression, ...]
    measures: tuple[NamedExpression, ...]

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(_output_column(named, self.input.schema) for named in self.keys)
        return Schema(keys + tuple(Column(named.name) for named in self.measures))

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        for named in (*self.keys, *self.measures):
            yield named.expression, self.input.schema

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        keys = {ref.parts[0].lower() for named in self.keys for ref in named.expression.columns if len(ref.parts) == 1}
        for measure in self.measures:
            for name in sorted(GROUPING & set(measure.expression.function_names)):
                message = f"measure '{measure.name}': {name}() refers to grouping sets, and `by` is one set"
                yield ColumnError(message), measure.expression.position
            for ref in measure.expression.bare_columns:
                if ref.parts[0].lower() not in keys:
                    yield (
                        ColumnError(
                            f"measure '{measure.name}' reads column '{ref}' outside an aggregate function",
                            f"wrap it, e.g. max({ref}), or add it to `by`",
                        ),
                        measure.expression.position,
                    )


@dataclass(frozen=True, eq=False)
class Distinct(_Unary):
    @property
    def schema(self) -> Schema:
        return Schema(self.input.schema.unambiguous_columns(), known=self.input.schema.known)


@dataclass(frozen=True, eq=False)
class OuterValues(Distinct):
    """Distinct values to whose rows nothing contributes: those that a correlated subquery reads of its enclosing query
    (the rows that they are of contribute where the subquery's result is joined with them), rows of no table, and values
    that an inferred semi join looks up.

    repeats: whether they need not be distinct, because only a semi join reads them
    """

    repeats: bool = False


@dataclass(frozen=True, eq=False)
class Join(_Binary):
    """`absence`, of a left join: all of right influences a row that has no match there."""

    how: How
    on: Expression | None
    using: tuple[str, ...]
    absence: bool = False

    @cached_property
    def schema(self) -> Schema:
        left, right = self.left.schema, self.right.schema
        shared = {name.lower() for name in self.using}
        if self.how in ("semi", "anti"):
            # As in Spark, columns of `using` come first.
            first = tuple(left.find(name) or Column(name) for name in self.using)
            rest = tuple(column for column in left.columns if column.name.lower() not in shared)
            return Schema(first + rest, left.ambiguous, left.known)
        ambiguous = {
            name.lower(): name
            for schema, other in ((left, right), (right, left))
            for name in (*schema.names, *schema.ambiguous)
            if name.lower() not in shared
            and (other.find(name) or other.is_ambiguous(name) or schema.is_ambiguous(name))
        }
        first = tuple(left.find(name) or Column(name) for name in self.using)
        hidden = shared | ambiguous.keys()
        rest = tuple(column for column in left.columns + right.columns if column.name.lower() not in hidden)
        return Schema(first + rest, tuple(ambiguous.values()), left.known and right.known)

    def side_of(self, ref: ColumnRef) -> Side:
        """The side of a name in `on`. Raises ColumnError if it is on neither side or on both."""
        left, right = self.left.schema, self.right.schema
        if ref.parts[0] in ("left", "right") and len(ref.parts) > 1:
            (left if ref.parts[0] == "left" else right).resolve(ref.parts[1])
            return "left" if ref.parts[0] == "left" else "right"
        name = ref.parts[0]
        in_left = left.find(name) is not None or left.is_ambiguous(name)
        in_right = right.find(name) is not None or right.is_ambiguous(name)
        if in_left and in_right:
            raise ColumnError(f"column '{name}' is on both sides of the join", f"write left.{name} or right.{name}")
        if in_left or (not in_right and not left.known):
            left.resolve(name)
            return "left"
        if in_right or not right.known:
            right.resolve(name)
            return "right"
        self._refuse_step_name(ref)
        Schema(left.columns + tuple(c for c in right.columns if not left.find(c.name))).resolve(name)
        raise AssertionError("a name of neither side cannot resolve")

    def _refuse_step_name(self, ref: ColumnRef) -> None:
        """Raises ColumnError for `orders.id`: sides are only called left and right."""
        if len(ref.parts) < 2:
            return
        column, rest = ref.parts[1], ".".join(ref.parts[1:])
        sides = [("left", self.left), ("right", self.right)]
        named = [side for side, node in sides if node.step.lower() == ref.parts[0].lower() and node.schema.find(column)]
        having = [side for side, node in sides if node.schema.find(column)]
        if not having:
            return
        meant = named if len(named) == 1 else having
        qualified = " or ".join(f"{side}.{rest}" for side in meant)
        raise ColumnError(
            f"'{ref}': in a join's `on` the sides are called left and right, whatever the steps are called",
            f"write {qualified}" + (f", or {rest} alone" if len(having) == 1 else ""),
        )

    @cached_property
    def equi_condition(self) -> EquiCondition | None:
        """`on` or `using` as equal keys and one-sided conditions; None if it is anything else."""
        if self.using:
            pairs = tuple(
                (f"left.`{_escape_backticks(name)}`", f"right.`{_escape_backticks(name)}`") for name in self.using
            )
            return EquiCondition(pairs, (), ())
        if self.on is None or not (self.left.schema.known and self.right.schema.known):
            return None
        return parse_equi_condition(self.on, self.side_of)

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        yield from _missing(self.using, self.left.schema)
        yield from _missing(self.using, self.right.schema)
        if (self.on and with_stars_expanded(self.on, ("all",)) != self.on.text) or (self.on and ".*" in self.on.text):
            yield ColumnError("a join's `on` cannot use `*`", "name the columns"), self.on.position if self.on else None
        for ref in self.on.columns if self.on else ():
            try:
                self.side_of(ref)
            except ColumnError as error:
                yield error, self.on.position if self.on else None

    @property
    def repeatable(self) -> bool:
        return self.on is None or self.on.repeatable


def _escape_backticks(name: str) -> str:
    return name.replace("`", "``")


@dataclass(frozen=True, eq=False)
class _SetOperation(Base):
    """A set operation: columns are matched by name, in the order of the first input."""

    @cached_property
    def schema(self) -> Schema:
        first = self.inputs[0].schema
        known = all(node.schema.known for node in self.inputs)
        columns = []
        for column in first.columns:
            types = {(node.schema.find(column.name) or column).type for node in self.inputs}
            columns.append(column if len(types) == 1 else Column(column.name))
        return Schema(tuple(columns), known=known)

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        for node in self.inputs:
            try:
                node.schema.unambiguous_columns()
            except ColumnError as error:
                yield error, None
        known = [node for node in self.inputs if node.schema.known]
        for node in known[1:]:
            first = {name.lower(): name for name in known[0].schema.names}
            other = {name.lower(): name for name in node.schema.names}
            if first.keys() != other.keys():
                lacking = [first[name] for name in first if name not in other]
                extra = [other[name] for name in other if name not in first]
                differences = [f"'{node.step}' lacks {join_names(lacking)}"] if lacking else []
                differences += [f"'{node.step}' also has {join_names(extra)}"] if extra else []
                yield (
                    ColumnError(
                        f"'{known[0].step}' and '{node.step}' have different columns: {'; '.join(differences)}",
                        "project both to the same column names",
                    ),
                    None,
                )


@dataclass(frozen=True, eq=False)
class Union(_SetOperation):
    """Union all; a set union is a Distinct over it. `fields_by_position`: whether fields of structs are matched by
    their position, as SQL does, and not by name.
    """

    branches: tuple[Node, ...]
    fields_by_position: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches


@dataclass(frozen=True, eq=False)
class Intersect(_Binary, _SetOperation):
    all: bool


@dataclass(frozen=True, eq=False)
class Difference(_Binary, _SetOperation):
    all: bool


@dataclass(frozen=True, eq=False)
class Window(_Unary):
    """Measures over windows of the input's rows.

    beside: ids of windows right below that are computed over the same rows, as those of one SELECT are. What these
    read for a row is none of what this window reads.
    """

    partition_by: tuple[str, ...]
    order_by: tuple[SortKey, ...]
    measures: tuple[NamedExpression, ...]
    frame: WindowFrame | None = None
    beside: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema.with_replaced(Column(named.name) for named in self.measures)

    def by_position(self, measure: NamedExpression) -> bool:
        """Whether a measure depends on the order of rows that are equal in `order_by`, because of the frame."""
        framed = self.frame is not None and self.frame.by_position
        return framed and any(call.takes_a_frame for call in window_calls(measure.expression))

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        for key in self.order_by:
            yield key.expression, self.input.schema
        for named in self.measures:
            yield named.expression, self.input.schema

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        yield from _missing(self.partition_by, self.input.schema)
        for measure in self.measures:
            # An OVER of its own is refused elsewhere, and its functions are none of this window's.
            for call in window_calls(measure.expression) if not measure.expression.has_over_clause else ():
                ordered, framed = bool(self.order_by), self.frame is not None
                for fault in window_call_faults(measure.name, call, ordered=ordered, framed=framed):
                    yield fault, measure.expression.position
        if self.frame is not None:
            yield from self._frame_faults(self.frame)

    def _frame_faults(self, frame: WindowFrame) -> Iterator[tuple[ColumnError, Position | None]]:
        """What Spark refuses in a frame with this order."""
        if frame.rows or frame.whole:
            return
        if not self.order_by:
            yield ColumnError("a RANGE frame needs an order", "add `order_by` to the step"), frame.position
        elif frame.has_offset and len(self.order_by) > 1:
            message = f"a RANGE frame with an offset needs one order, and `order_by` has {len(self.order_by)}"
            yield ColumnError(message, "order by one number, date or timestamp, or use ROWS"), frame.position
        elif frame.has_offset:
            kind = self._order_type()
            if family(kind) not in (None, *_RANGED):
                message = f"a RANGE frame with an offset needs a number, date or timestamp as order, and this is {kind}"
                yield ColumnError(message, "order by such a column, or use ROWS"), frame.position

    def _order_type(self) -> str | None:
        """The type of the order if it is a plain column."""
        (key,) = self.order_by
        refs = key.expression.columns
        if len(refs) != 1 or key.expression.text.strip("`").lower() != str(refs[0]).lower():
            return None
        return column_type(self.input.schema, str(refs[0]))


@dataclass(frozen=True, eq=False)
class Sort(_Unary):
    by: tuple[SortKey, ...]

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        for key in self.by:
            yield key.expression, self.input.schema


@dataclass(frozen=True, eq=False)
class Limit(_Unary):
    """The first rows, without those that `offset` passes over; `n` is None where all others are there."""

    n: int | None
    by: tuple[SortKey, ...] = field(default=())
    offset: int = 0

    @property
    def last(self) -> int | None:
        """The place in the order of the last row that is taken, from 1 on; None where there is no last one."""
        return None if self.n is None else self.offset + self.n

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        for key in self.by:
            yield key.expression, self.input.schema

    @property
    def repeatable(self) -> bool:
        return False  # which rows a limit takes is only fixed where the order has no ties, and nobody knows that


@dataclass(frozen=True, eq=False)
class GroupLimit(Limit):
    """A limit of a correlated subquery: the first rows of each group of rows that are equal in `per`."""

    per: tuple[str, ...] = ()

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        yield from _missing(self.per, self.input.schema)


@dataclass(frozen=True, eq=False)
class Explode(_Unary):
    """One row per element of an array, or per entry (a struct of key and value) of a map, as column `alias`."""

    column: str
    alias: str
    outer: bool

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema.with_replaced(
            (Column(self.alias, exploded_type(column_type(self.input.schema, self.column))),)
        )

    def faults(self) -> Iterator[tuple[ColumnError, Position | None]]:
        yield from _missing((self.column,), self.input.schema)
        kind = column_type(self.input.schema, self.column)
        if constructor(kind) not in (None, "array", "map"):
            message = f"explode takes an array or a map, and column '{self.column}' is {shorten_text(str(kind))}"
            yield ColumnError(message, _exploded_hint(self.column, kind)), None


def _exploded_hint(column: str, kind: str | None) -> str | None:
    """What to explode instead of a text, or of a struct that contains arrays or maps."""
    inner = [name for name, each in (struct_fields(kind) or {}).items() if constructor(each) in ("array", "map")]
    if inner:
        return f"make the field a column first, with a step `with_columns`: `{inner[0]}: {column}.{inner[0]}`"
    if constructor(kind) == "struct":
        return f"its fields are read without explode: {column}.field"
    return split_hint(column) if family(kind) == "text" else None


# Orders that a RANGE frame can be offset from, of the types that are told apart here.
_RANGED = ("number", "date")

Node = (
    Source | Filter | Project | WithColumns | Aggregate | Distinct | Join | Union | Intersect | Difference
    | Window | Sort | Limit | Explode
)  # fmt: skip


def keeps_order(node: Node) -> bool:
    """Whether the node's rows are in an order that the user requested."""
    match node:
        case Sort():
            return True
        case Limit():
            return bool(node.by) or keeps_order(node.input)
        case Filter() | Project() | WithColumns() | Explode():
            return keeps_order(node.input)
        case Source() | Aggregate() | Distinct() | Join() | Union() | Intersect() | Difference() | Window():
            return False
        case _:
            assert_never(node)
