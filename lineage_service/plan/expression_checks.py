"""Checks an expression against a schema, as far as possible without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from lineage_service.errors import Position, Problem, did_you_mean, join_names
from lineage_service.plan.call_arguments import family, wrong_types
from lineage_service.plan.expressions import ColumnRef, Expression, shorten_text
from lineage_service.plan.nested_types import constructor, struct_fields
from lineage_service.plan.schema import Column, ColumnError, Schema


def expression_problems(expression: Expression, schema: Schema) -> list[Problem]:
    """Unknown columns, fields of columns without fields, and functions over types that they never accept."""
    problems = []
    for ref in expression.columns:
        try:
            column = schema.resolve(ref.parts[0])
        except ColumnError as error:
            hint = _qualified_hint(ref, schema) or _FOREIGN.get(str(ref).lower()) or error.hint
            problems.append(Problem(error.message, expression.position, hint))
        else:
            if wrong_field := _wrong_field(ref, column):
                message, hint = wrong_field
                problems.append(Problem(message, expression.position, _qualified_hint(ref, schema) or hint))
    if not problems:
        wrong = wrong_types(expression.tokens, lambda name: column_type(schema, name))
        problems += [Problem(message, expression.position, hint) for message, hint in wrong]
    return problems


def _wrong_field(ref: ColumnRef, column: Column) -> tuple[str, str | None] | None:
    """The problem of the fields after a column's name, as far as its type is known, and a hint."""
    kind, what = column.type, f"column '{column.name}'"
    for name in ref.parts[1:]:
        if family(kind) in ("number", "text", "boolean", "date"):
            return f"'{ref}': {what} is {kind} and has no fields", None
        fields = struct_fields(kind)
        if fields is None:
            return None  # arrays and maps have fields too, in Spark
        if name.lower() not in fields:
            return f"'{ref}': {what} has no field '{name}'; its fields: {join_names(fields)}", did_you_mean(
                name, fields
            )
        kind, what = fields[name.lower()], f"field '{name}'"
    return None


def column_type(schema: Schema, name: str) -> str | None:
    """The Spark type of a column, if known."""
    column = schema.find(name)
    return column.type if column is not None and not schema.is_ambiguous(name) else None


_TYPES_OF_CASTS = {"int": "int", "integer": "int", "bigint": "bigint", "long": "bigint", "double": "double",
                   "string": "string", "date": "date", "boolean": "boolean", "timestamp": "timestamp"}  # fmt: skip


def cast_type(expression: Expression) -> str | None:
    """The type of an expression that is one CAST to a plain type; None for all others."""
    words = [token.text.lower() for token in expression.tokens]
    if len(words) < 6 or words[:2] != ["cast", "("] or words[-3] != "as" or words[-1] != ")":
        return None
    depths = list(accumulate((word == "(") - (word == ")") for word in words))
    return _TYPES_OF_CASTS.get(words[-2]) if 0 not in depths[1:-1] else None


_FOREIGN = {
    **dict.fromkeys(("none", "nil", "undefined", "nan"), "a missing value is `null`: x is null, x is not null"),
    "yes": "write true",
    "no": "write false",
}


def _qualified_hint(ref: ColumnRef, schema: Schema) -> str | None:
    """What to write instead of `step.column`, or of a side's name after the join."""
    if len(ref.parts) < 2:
        return None
    if schema.known and schema.find(ref.parts[1]) is None:
        return None
    return f"columns are written without the name of their step: {'.'.join(ref.parts[1:])}"


def predicate_faults(where: Expression, schema: Schema) -> Iterator[tuple[ColumnError, Position | None]]:
    """The fault of a predicate that consists of a column of another type than boolean."""
    refs = where.columns
    if [token.token_type.name for token in where.tokens] == ["NUMBER"]:
        yield ColumnError("`where` needs a condition, and this is a number", "compare it with a column"), where.position
    if len(where.tokens) == 1 and len(refs) == 1:
        kind = column_type(schema, refs[0].parts[0])
        if constructor(kind) not in (None, "boolean", "void"):
            message = f"`where` needs a condition, and column '{refs[0]}' is {shorten_text(str(kind))}"
            yield ColumnError(message, f"compare it, as in `{refs[0]} = …` or `{refs[0]} is not null`"), where.position
