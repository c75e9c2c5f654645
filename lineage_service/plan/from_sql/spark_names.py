"""The name that Spark gives an expression of the select list that has none.

Spark writes the resolved expression out: without quotes and qualifiers, with parentheses around every operator. Only
what is surely written so is named here. Anything else has no name, and is refused where a name is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.plan.call_arguments import family
from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.expression_texts import call_name
from lineage_service.plan.from_sql.refusals import SqlRefusal, offset_of
from lineage_service.plan.from_sql.scopes import parts_of
from lineage_service.spec.sql_parsing import CALL, SPAN

if TYPE_CHECKING:
    from sqlglot import exp

# Functions that Spark writes as they are called, arguments and all.
AS_CALLED = frozenset({
    "sum", "avg", "min", "max", "count", "mean", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp",
    "var_pop", "first", "any_value", "collect_list", "collect_set", "round", "abs", "upper", "lower", "substr",
    "substring", "coalesce", "concat", "year", "month", "length",
    "grouping", "grouping_id", "nvl", "ifnull", "nullif", "date_add", "trim", "left", "datediff",
})  # fmt: skip
# Spark writes arguments that are left away, or leaves away a flag: how many there are where it writes what was called.
_ALL_ARGUMENTS = {"substr": 3, "substring": 3, "round": 2, "first": 1, "any_value": 1}
_OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "EQ": "=", "LT": "<", "LTE": "<=",
              "GT": ">", "GTE": ">=", "And": "AND", "Or": "OR", "NullSafeEQ": "<=>"}  # fmt: skip
# What stands before a sign that is not between two operands.
_BEFORE_A_SIGN = frozenset({
    "(", ",", "+", "-", "*", "/", "%", "=", "<", ">", "<=", ">=", "<>", "!=", "AND", "OR", "NOT", "WHEN", "THEN",
    "ELSE", "CASE", "IN", "BETWEEN", "LIKE", "DISTINCT", "||",
})  # fmt: skip


def name_in_spark(block: BlockState, node: exp.Expr) -> str | None:
    """None where the name is not surely known."""
    from sqlglot import exp

    if _has_unary_plus(block, node):
        return None  # Spark writes it, and the tree does not have it
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column):
        return node.name  # also of a field
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier) and _is_field_of_column(node):
        return node.expression.name
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) and len(node.this.parts) == 1:
        return node.this.name
    try:
        return _name(block, node)
    except _UnknownNameError:
        return None


def _has_unary_plus(block: BlockState, node: exp.Expr) -> bool:
    before = ""
    for token in block.context.tokens_of(node) if SPAN in node.meta else ():
        if token.text == "+" and (before in _BEFORE_A_SIGN or not before) and token.token_type.name == "PLUS":
            return True
        before = token.text.upper() if token.token_type.name != "STRING" else "'"
    return False


class _UnknownNameError(Exception):
    pass


def _name(block: BlockState, node: exp.Expr) -> str:
    from sqlglot import exp

    kind = type(node).__name__
    match node:
        case exp.Paren():
            return _name(block, node.this)
        case exp.Column() if id(node) in block.texts.aliases:
            return f"lateralAliasReference({node.name})" if len(node.parts) == 1 else _unknown()
        case exp.Column():
            return _column_name(block, node)
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            return f"{_name(block, node.this)}.{node.expression.name}"
        case exp.Literal() if node.is_string or node.name.replace(".", "", 1).isdecimal():
            return _literal_name(block, node)
        case exp.Null():
            return "NULL"
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return f"-{_name(block, node.this)}"
        case exp.Neg():
            return f"(- {_name(block, node.this)})"
        case exp.NEQ():
            return f"(NOT ({_name(block, node.this)} = {_name(block, node.expression)}))"
        case exp.Not() if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
            return f"({_name(block, node.this.this)} IS NOT NULL)"
        case exp.Not():
            return f"(NOT {_name(block, node.this)})"
        case exp.Is() if isinstance(node.expression, exp.Null):
            return f"({_name(block, node.this)} IS NULL)"
        case exp.In() if node.expressions and not node.args.get("query"):
            return f"({_name(block, node.this)} IN ({_names(block, node.expressions)}))"
        case exp.Between() if not node.args.get("symmetric"):
            return f"between({_names(block, [node.this, node.args['low'], node.args['high']])})"
        case exp.Like() if isinstance(node.expression, exp.Literal):
            return f"{_name(block, node.this)} LIKE {_name(block, node.expression)}"
        case exp.Case():
            return _case_name(block, node)
        case exp.Cast() if CALL in node.meta and not isinstance(node, exp.TryCast):
            return f"CAST({_name(block, node.this)} AS {_type_name(block, node)})"
        case exp.TryCast() if call_name(block.context, node) == "cast":
            return f"CAST({_name(block, node.this)} AS {_type_name(block, node)})"
    if kind in _OPERATORS:
        if kind in ("Add", "Sub") and not all(_is_number(block, side) for side in (node.this, node.expression)):
            raise _UnknownNameError  # it may be a function of dates
        return f"({_name(block, node.this)} {_OPERATORS[kind]} {_name(block, node.expression)})"
    return _call_name(block, node)


def _unknown() -> str:
    raise _UnknownNameError


def _is_field_of_column(node: exp.Expr) -> bool:
    from sqlglot import exp

    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)


def _names(block: BlockState, nodes: list[exp.Expr]) -> str:
    return ", ".join(_name(block, each) for each in nodes)


def _column_name(block: BlockState, column: exp.Column) -> str:
    parts = parts_of(column)
    try:
        used = block.scope.resolve(parts, offset_of(column)).parts
    except SqlRefusal:
        used = 1  # an alias of the select list, or the column is refused when its text is made
    return ".".join(parts[used - 1 :])


def _literal_name(block: BlockState, node: exp.Literal) -> str:
    if node.is_string and block.context.sql.text[offset_of(node)] == '"':
        raise _UnknownNameError  # a column was meant
    return node.name


def _case_name(block: BlockState, node: exp.Case) -> str:
    value = f"({_name(block, node.this)} = " if node.this is not None else ""
    end = ")" if value else ""
    branches = [
        f"WHEN {value}{_name(block, each.this)}{end} THEN {_name(block, each.args['true'])}"
        for each in node.args["ifs"]
    ]
    default = node.args.get("default")
    otherwise = [f"ELSE {_name(block, default)}"] if default is not None else []
    return " ".join(["CASE", *branches, *otherwise, "END"])


def _type_name(block: BlockState, node: exp.Expr) -> str:
    """The type as it is written, in capitals, where it is a plain one."""
    start, end = node.meta[SPAN]
    tokens = block.context.tokens_between(start, end)
    depth, behind = 0, None
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 1 and token.text.upper() == "AS":
            behind = index + 1
    words = [token.text.upper() for token in tokens[behind:-1]] if behind is not None else []
    name = "".join(words)
    plain = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT",
             "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}  # fmt: skip
    first = plain.get(words[0], words[0]) if words else ""
    if first in ("DECIMAL",) and len(words) in (4, 6):
        return first + "".join(words[1:]) if len(words) == 6 else f"DECIMAL({words[2]},0)"
    if len(words) == 1 and first in ("INT", "BIGINT", "SMALLINT", "TINYINT", "FLOAT", "DOUBLE", "STRING", "DATE",
                                     "TIMESTAMP", "BOOLEAN", "BINARY"):  # fmt: skip
        return first
    raise _UnknownNameError(name)


def _call_name(block: BlockState, node: exp.Expr) -> str:
    from sqlglot import exp

    name = call_name(block.context, node)
    if name not in AS_CALLED:
        raise _UnknownNameError
    tokens = block.context.tokens_between(*node.meta[CALL])
    if tokens[-1].text != ")" or (len(tokens) > 1 and tokens[1].text != "("):
        raise _UnknownNameError  # FILTER, IGNORE NULLS, OVER
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "count(1)"
    children = list(node.iter_expressions())
    distinct = ""
    if len(children) == 1 and isinstance(children[0], exp.Distinct):
        distinct, children = "DISTINCT ", list(children[0].expressions)
    children = [_as_written(child) for child in children]
    children.sort(key=offset_of)
    if len(children) != _argument_count(tokens[1:]) or len(children) != _ALL_ARGUMENTS.get(name, len(children)):
        raise _UnknownNameError
    return f"{name}({distinct}{_names(block, children)})"


def _as_written(argument: exp.Expr) -> exp.Expr:
    """An argument without conversions that the parser has put around it."""
    while SPAN not in argument.meta:
        inside = list(argument.iter_expressions())
        if len(inside) != 1:
            raise _UnknownNameError
        argument = inside[0]
    return argument


def _argument_count(tokens: list) -> int:  # type: ignore[type-arg]
    depth, commas = 0, 0
    for token in tokens:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        commas += depth == 1 and token.text == ","
    return commas + 1 if len(tokens) > 2 else 0


def _is_number(block: BlockState, node: exp.Expr) -> bool:
    """Whether an operand is surely a number."""
    from sqlglot import exp

    match node:
        case exp.Paren() | exp.Neg():
            return _is_number(block, node.this)
        case exp.Literal():
            return not node.is_string
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return _is_number(block, node.this) and _is_number(block, node.expression)
        case exp.Count() | exp.Avg() | exp.Sum():
            return True
        case exp.Max() | exp.Min() | exp.Round() | exp.Abs():
            return _is_number(block, node.this)
        case exp.Column() if id(node) in block.texts.aliases:
            return _is_number(block, block.texts.aliases[id(node)])
        case exp.Column():
            try:
                found = block.scope.resolve(parts_of(node), offset_of(node))
            except SqlRefusal:
                return False
            column = block.node.schema.find(found.column.internal)
            return column is not None and found.parts == len(node.parts) and family(column.type) == "number"
    return False
