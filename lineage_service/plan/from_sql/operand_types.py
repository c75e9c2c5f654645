"""What is known of the types of operands in the tree of a query: enough to tell numbers from dates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.plan.call_arguments import family
from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.expression_texts import call_name, variable_of_lambda
from lineage_service.plan.from_sql.refusals import SqlRefusal, offset_of
from lineage_service.plan.from_sql.scopes import parts_of

if TYPE_CHECKING:
    from sqlglot import exp

TYPE_FUNCTIONS = frozenset({"bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint",
                             "string", "timestamp", "tinyint"})  # fmt: skip
# Functions that give numbers, whatever they are given.
_NUMBERS = frozenset({
    "avg", "bit_length", "ceil", "ceiling", "char_length", "count", "count_if", "datediff", "date_diff", "day",
    "dayofmonth", "dayofweek", "dayofyear", "dense_rank", "exp", "floor", "hour", "length", "len", "ln", "log10",
    "mean", "minute", "month", "ntile", "pmod", "power", "quarter", "rank", "round", "row_number", "second",
    "size", "sqrt", "stddev", "sum", "variance", "weekday", "year",
})  # fmt: skip


def is_cast(block: BlockState, node: exp.Expr) -> bool:
    """Whether a node is CAST, TRY_CAST, `::` or a type called as a function: others have functions of their own."""
    written = call_name(block.context, node)
    return written is None or written in ("cast", "try_cast") or written in TYPE_FUNCTIONS


def operand_family(block: BlockState, node: exp.Expr) -> str | None:
    """The kind of values that an operand surely has: number, date or timestamp; None for any other."""
    from sqlglot import exp

    if call_name(block.context, node) in _NUMBERS:
        return "number"
    match node:
        case exp.Paren() | exp.Neg() | exp.Filter() | exp.Window():
            return operand_family(block, node.this)
        case exp.Literal():
            return None if node.is_string else "number"
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
            sides = {operand_family(block, node.this), operand_family(block, node.expression)}
            return "number" if sides == {"number"} else None
        case exp.Cast() if is_cast(block, node):
            return _family_of(node.args["to"].sql("spark").lower())
        case exp.Max() | exp.Min() | exp.Round() | exp.Abs():
            return operand_family(block, node.this)
        case exp.Column() if variable_of_lambda(node) is not None:
            return None
        case exp.Column() if id(node) in block.texts.aliases:
            return operand_family(block, block.texts.aliases[id(node)])
        case exp.Column():
            return _family_of(type_of_column(block, node))
    return None


def _family_of(kind: str | None) -> str | None:
    found = family(kind) if kind is not None else None
    return found if found == "number" else kind if kind in ("date", "timestamp") else None


def type_of_column(block: BlockState, node: exp.Expr) -> str | None:
    """The type of a column."""
    from sqlglot import exp

    if not isinstance(node, exp.Column) or id(node) in block.texts.aliases:
        return None
    try:
        found = block.scope.resolve(parts_of(node), offset_of(node))
    except SqlRefusal:
        return None
    return column_type(block.node.schema, found.column.internal) if found.parts == len(node.parts) else None
