"""Whether an expression can be read over a schema, as far as that shows without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_service.errors import Position, Problem
from lineage_service.plan.call_arguments import family, wrong_types
from lineage_service.plan.expressions import ColumnRef, Expression
from lineage_service.plan.schema import ColumnError, Schema


def unreadable(expression: Expression, schema: Schema) -> list[Problem]:
    """Columns that are not there, fields of what has none, and functions over types that they never take."""
    problems = []
    for ref in expression.columns:
        try:
            column = schema.resolve(ref.parts[0])
        except ColumnError as error:
            hint = _qualified_hint(ref, schema) or error.hint
            problems.append(Problem(error.message, expression.position, hint))
        else:
            if len(ref.parts) > 1 and family(column.type) in ("number", "text", "boolean", "date"):
                message = f"'{ref}': column '{column.name}' is {column.type} and has no fields"
                problems.append(Problem(message, expression.position, _qualified_hint(ref, schema)))
    if not problems:
        wrong = wrong_types(expression.tokens, lambda name: type_in(schema, name))
        problems += [Problem(message, expression.position, hint) for message, hint in wrong]
    return problems


def type_in(schema: Schema, name: str) -> str | None:
    """The Spark type of a column, where it is known."""
    column = schema.find(name)
    return column.type if column is not None and not schema.is_ambiguous(name) else None


def _qualified_hint(ref: ColumnRef, schema: Schema) -> str | None:
    """What to write instead of `step.column`, or of a side's name behind the join."""
    if len(ref.parts) < 2:
        return None
    if schema.known and schema.find(ref.parts[1]) is None:
        return None
    return f"columns are written without the name of their step: {'.'.join(ref.parts[1:])}"


def no_predicate(where: Expression, schema: Schema) -> Iterator[tuple[ColumnError, Position | None]]:
    """A predicate that is nothing but a column of another type than boolean."""
    refs = where.columns
    if len(where.tokens) == 1 and len(refs) == 1:
        kind = family(type_in(schema, refs[0].parts[0]))
        if kind not in (None, "boolean"):
            message = f"`where` needs a condition, and column '{refs[0]}' is {type_in(schema, refs[0].parts[0])}"
            yield ColumnError(message, f"compare it, as in `{refs[0]} = …` or `{refs[0]} is not null`"), where.position
