"""The name that Spark gives an expression of the select list that has none.

Spark writes the resolved expression out: without quotes and qualifiers, with parentheses around every operator. Only
what is surely written so is named here; tests/spark/test_unnamed_columns.py compares it with Spark. Anything else has
no name, and is refused where a name is needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.correlation import uncorrelated_rows
from lineage_service.plan.from_sql.expression_texts import call_name, variable_of_lambda
from lineage_service.plan.from_sql.operand_types import TYPE_FUNCTIONS, is_cast, operand_family, type_of_column
from lineage_service.plan.from_sql.refusals import SqlRefusal, offset_of
from lineage_service.plan.from_sql.scopes import parts_of
from lineage_service.plan.from_sql.spark_call_names import UnknownNameError, call_text
from lineage_service.plan.from_sql.spark_type_names import cast_type_name
from lineage_service.spec.sql_parsing import CALL, SPAN

if TYPE_CHECKING:
    from sqlglot import exp

_OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "EQ": "=", "LT": "<", "LTE": "<=",
              "GT": ">", "GTE": ">=", "And": "AND", "Or": "OR", "NullSafeEQ": "<=>", "IntDiv": "div",
              "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^", "BitwiseLeftShift": "<<",
              "BitwiseRightShift": ">>"}  # fmt: skip
_COMPARISONS = frozenset({"EQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ"})
_PARTS_OF_OPERATORS = frozenset({"this", "expression", "typed", "safe"})
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
    try:
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column) and is_cast(block, node):
            return _name_of_cast_column(block, node.this)
        return _name(block, node)
    except UnknownNameError:
        return None


def _has_unary_plus(block: BlockState, node: exp.Expr) -> bool:
    before = ""
    for token in block.context.tokens_of(node) if SPAN in node.meta else ():
        if token.text == "+" and (before in _BEFORE_A_SIGN or not before) and token.token_type.name == "PLUS":
            return True
        before = token.text.upper() if token.token_type.name != "STRING" else "'"
    return False


def _name_of_cast_column(block: BlockState, column: exp.Column) -> str:
    """Spark leaves the cast of a column away; a field keeps it."""
    if id(column) in block.texts.aliases or len(parts_of(column)) != _parts_used(block, column):
        raise UnknownNameError
    return column.name


def _name(block: BlockState, node: exp.Expr) -> str:
    from sqlglot import exp

    def named(each: exp.Expr) -> str:
        return _name(block, each)

    if call_name(block.context, node) is not None and CALL in node.meta:
        return _written_call(block, node)
    match node:
        case exp.Paren():
            return named(node.this)
        case exp.Column() if variable_of_lambda(node) is not None:
            return "namedlambdavariable()" if len(node.parts) == 1 else _unknown()
        case exp.Column() if id(node) in block.texts.aliases:
            return f"lateralAliasReference({node.name})" if len(node.parts) == 1 else _unknown()
        case exp.Column():
            return _column_name(block, node)
        case exp.Identifier():  # of a lambda
            return "namedlambdavariable()"
        case exp.Lambda():
            variables = ["namedlambdavariable()" for _ in node.expressions]
            return f"lambdafunction({', '.join([named(node.this), *variables])})"
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            return f"{named(node.this)}.{node.expression.name}"
        case exp.Bracket() if len(node.expressions) == 1:
            return _element_name(block, node)
        case exp.Literal() if node.is_string or re.fullmatch(r"\d+(\.\d+)?", node.name):
            return _literal_name(block, node)
        case exp.HexString():
            is_binary = "'" in block.context.sql.text[slice(*node.meta[SPAN])] and len(node.name) % 2 == 0
            return f"X'{node.name.upper()}'" if is_binary else _unknown()
        case exp.Null():
            return "NULL"
        case exp.Boolean():
            return "true" if node.this else "false"
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return f"-{named(node.this)}"
        case exp.Neg() if isinstance(node.this, exp.Cast) and _is_typed_number(block, node.this):
            return f"-{named(node.this)}"  # -1L
        case exp.Neg():
            return f"(- {named(node.this)})"
        case exp.BitwiseNot():
            return f"~{named(node.this)}"
        case exp.Interval():
            return _interval_name(node)
        case exp.Subquery() | exp.Exists() if isinstance(node.this, exp.Query):
            return "exists()" if isinstance(node, exp.Exists) else _subquery_name(block, node)
        case exp.Case():
            return _case_name(block, node)
        case exp.Cast():
            return _cast_name(block, node)
        case exp.DPipe():
            return f"concat({named(node.this)}, {named(node.expression)})"
        case exp.Add() | exp.Sub():
            return _sum_name(block, node)
    return _predicate_name(block, node)


def _written_call(block: BlockState, node: exp.Expr) -> str:
    """A function as it is called, or one with a syntax of its own."""
    from sqlglot import exp

    written = call_name(block.context, node)
    words = {token.text.upper() for token in block.context.tokens_between(*node.meta[CALL])}
    if written == "case" and isinstance(node, exp.Case):
        return _case_name(block, node)
    if written in ("cast", "try_cast") and isinstance(node, exp.Cast):
        return _cast_name(block, node)
    if written in TYPE_FUNCTIONS and isinstance(node, exp.Cast):
        raise UnknownNameError
    if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
        return _subquery_name(block, node)
    if isinstance(node, exp.Extract) and written == "extract":
        field = block.context.tokens_between(*node.meta[CALL])[2].text
        return f"extract({field} FROM {_name(block, node.expression)})"
    if isinstance(node, exp.Trim) and "FROM" in words:
        return _trim_name(block, node)
    if written in ("substring", "substr") and "FROM" in words and isinstance(node, exp.Substring):
        length = node.args.get("length")
        parts = [_name(block, each) for each in (node.this, node.args["start"])]
        return f"substring({', '.join([*parts, _name(block, length) if length is not None else '2147483647'])})"
    if written == "position" and isinstance(node, exp.StrPosition) and "IN" in words:
        return f"locate({_name(block, node.args['substr'])}, {_name(block, node.this)}, 1)"
    return call_text(block.context, node, lambda each: _name(block, each))


def _trim_name(block: BlockState, node: exp.Trim) -> str:
    side, removed = str(node.args.get("position") or "BOTH").upper(), node.expression
    if removed is None:
        return f"{ {'BOTH': 'trim', 'LEADING': 'ltrim', 'TRAILING': 'rtrim'}[side] }({_name(block, node.this)})"
    return f"TRIM({side} {_name(block, removed)} FROM {_name(block, node.this)})"


def _predicate_name(block: BlockState, node: exp.Expr) -> str:
    from sqlglot import exp

    def named(each: exp.Expr) -> str:
        return _name(block, each)

    kind = type(node).__name__
    parts = {key for key, value in node.args.items() if value}
    match node:
        case exp.Like() | exp.ILike() | exp.RegexpLike() | exp.Escape():
            return _like_name(block, node)
        case exp.NEQ() | exp.NullSafeNEQ() if any(map(_is_decimal, (node.this, node.expression))):
            raise UnknownNameError
        case exp.NEQ():
            return f"(NOT ({named(node.this)} = {named(node.expression)}))"
        case exp.NullSafeNEQ():
            return f"(NOT ({named(node.this)} <=> {named(node.expression)}))"
        case exp.Not() if isinstance(node.this, exp.Is) and _is_not_null(block, node):
            return f"({named(node.this.this)} IS NOT NULL)"
        case exp.Not():
            return f"(NOT {named(node.this)})"
        case exp.Is() if isinstance(node.expression, exp.Null):
            return f"({named(node.this)} IS NULL)"
        case exp.Is() if isinstance(node.expression, exp.Boolean):
            return f"({named(node.this)} <=> {named(node.expression)})"
        case exp.In() if node.args.get("query") is not None and not node.expressions:
            if uncorrelated_rows(block, node.args["query"].this) is None:
                raise UnknownNameError
            return f"({named(node.this)} IN (listquery()))"
        case exp.In() if node.expressions and not node.args.get("query"):
            return f"({named(node.this)} IN ({', '.join(map(named, node.expressions))}))"
        case exp.Between() if not node.args.get("symmetric"):
            return f"between({', '.join(map(named, (node.this, node.args['low'], node.args['high'])))})"
    if kind in _COMPARISONS and any(map(_is_decimal, (node.this, node.expression))):
        raise UnknownNameError  # Spark compares whole numbers with another number
    if isinstance(node, exp.And | exp.Or):
        return _balanced([named(each) for each in _operands(node)], _OPERATORS[kind])
    if kind in _OPERATORS and parts <= _PARTS_OF_OPERATORS:
        return f"({named(node.this)} {_OPERATORS[kind]} {named(node.expression)})"
    raise UnknownNameError


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """Those of a chain of AND, or of OR, that has no parentheses."""
    found, left = [], node
    while type(left) is type(node):
        found.append(left.expression)
        left = left.this
    return [left, *reversed(found)]


def _balanced(names: Sequence[str], operator: str) -> str:
    """Spark reads a chain as a tree with halves of the same size."""
    if len(names) == 1:
        return names[0]
    half = (len(names) + 1) // 2
    return f"({_balanced(names[:half], operator)} {operator} {_balanced(names[half:], operator)})"


def _is_not_null(block: BlockState, node: exp.Not) -> bool:
    """Whether it is `x IS NOT NULL`: of `NOT x IS NULL`, Spark writes both parts."""
    from sqlglot import exp

    if not isinstance(node.this.expression, exp.Null):
        return False
    if SPAN not in node.meta:
        raise UnknownNameError
    return block.context.tokens_of(node)[0].text.upper() != "NOT"


def _unknown() -> str:
    raise UnknownNameError


def _is_field_of_column(node: exp.Expr) -> bool:
    from sqlglot import exp

    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)


def _like_name(block: BlockState, node: exp.Expr) -> str:
    from sqlglot import exp

    like = node.this if isinstance(node, exp.Escape) else node
    text, pattern = _name(block, like.this), like.expression
    is_quantified = isinstance(pattern, exp.Any | exp.All) and call_name(block.context, pattern) is None
    if not isinstance(like, exp.Like | exp.ILike | exp.RegexpLike):
        raise UnknownNameError
    if is_quantified and (isinstance(node, exp.Escape) or like.args.get("negate") or not isinstance(like, exp.Like)):
        raise UnknownNameError
    if is_quantified:
        return f"like{type(pattern).__name__.lower()}({text})"
    by = _name(block, pattern)
    name = f"{text} LIKE {by}"
    if isinstance(node, exp.Escape):
        if not isinstance(like, exp.Like) or not node.expression.is_string:
            raise UnknownNameError
        name += f" ESCAPE '{node.expression.name}'"
    elif not isinstance(like, exp.Like):
        name = f"{'ilike' if isinstance(like, exp.ILike) else 'RLIKE'}({text}, {by})"
    return f"(NOT {name})" if like.args.get("negate") else name


def _subquery_name(block: BlockState, node: exp.Expr) -> str:
    """Of a correlated one, Spark writes the columns too that it reads of the enclosing query."""
    from sqlglot import exp

    if uncorrelated_rows(block, node.this) is None:
        raise UnknownNameError
    return "exists()" if isinstance(node, exp.Exists) else "scalarsubquery()"


def _element_name(block: BlockState, node: exp.Bracket) -> str:
    (key,) = node.expressions
    if node.args.get("offset"):
        raise UnknownNameError
    kind = type_of_column(block, node.this)
    if not isinstance(key.this, int) and getattr(key, "is_string", False) and not (kind or "").startswith("map<"):
        raise UnknownNameError  # of a struct, it is written as a field
    return f"{_name(block, node.this)}[{_name(block, key)}]"


def _interval_name(node: exp.Interval) -> str:
    unit, number = node.unit.name.upper().removesuffix("S") if node.unit is not None else "", node.this
    if number is None or re.fullmatch("0|[1-9][0-9]{0,3}", number.name) is None:
        raise UnknownNameError
    if unit in ("DAY", "MONTH", "YEAR"):
        return f"INTERVAL '{number.name}' {unit}"
    if unit in ("HOUR", "MINUTE", "SECOND"):
        return f"INTERVAL '{int(number.name):02}' {unit}"
    raise UnknownNameError


def _column_name(block: BlockState, column: exp.Column) -> str:
    parts = parts_of(column)
    try:
        used = block.scope.resolve(parts, offset_of(column)).parts
    except SqlRefusal:
        used = 1  # an alias of the select list, or the column is refused when its text is made
    return ".".join(parts[used - 1 :])


def _literal_name(block: BlockState, node: exp.Literal) -> str:
    if node.is_string and block.context.sql.text[offset_of(node)] == '"':
        raise UnknownNameError  # a column was meant
    written = block.context.sql.text[offset_of(node)]
    if not node.is_string and not written.isdecimal():
        raise UnknownNameError
    return node.name if node.is_string else _digits(node.name)


def _digits(number: str) -> str:
    """A number as Java prints it, which Python does too: 12 for 0012, 1E-7 for 0.0000001."""
    return str(Decimal(number))


def _is_typed_number(block: BlockState, node: exp.Expr) -> bool:
    """Whether a node is a number with its type, such as 1L, that Spark writes with the same digits."""
    text = block.context.sql.text[slice(*node.meta[SPAN])] if SPAN in node.meta else ""
    return re.fullmatch(r"(?i)\d+[lsy]|\d{1,6}\.(0|\d?[1-9])(d|bd)", text) is not None


def _cast_name(block: BlockState, node: exp.Expr) -> str:
    text = block.context.sql.text[slice(*node.meta[SPAN])] if SPAN in node.meta else ""
    if _is_typed_number(block, node):
        return _digits(re.match(r"[\d.]+", text)[0])  # type: ignore[index]
    if re.fullmatch(r"(?i)date\s*'\d{4}-\d\d-\d\d'", text):
        return f"DATE '{node.this.name}'"
    if re.fullmatch(r"(?i)timestamp_ntz\s*'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d'", text):
        return f"TIMESTAMP_NTZ '{node.this.name}'"
    if not is_cast(block, node) or text[-1:] == "'" or (not text.endswith(")") and "::" not in text):
        raise UnknownNameError
    name = "TRY_CAST" if call_name(block.context, node) == "try_cast" else "CAST"
    return f"{name}({_name(block, node.this)} AS {cast_type_name(block, node)})"


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


def _sum_name(block: BlockState, node: exp.Expr) -> str:
    """Added or subtracted: of dates and times, a function in Spark."""
    from sqlglot import exp

    left, right = _name(block, node.this), _name(block, node.expression)
    sign = "+" if isinstance(node, exp.Add) else "-"
    if isinstance(node.expression, exp.Interval) and node.expression.args.get("unit") is not None:
        kind, unit = type_of_column(block, node.this), str(node.expression.args["unit"].name).upper().removesuffix("S")
        is_plain = kind in ("timestamp", "timestamp_ntz") or (kind == "date" and unit in ("MONTH", "YEAR"))
        return f"{left} {sign} {right}" if is_plain else _unknown()
    one, other = operand_family(block, node.this), operand_family(block, node.expression)
    if one == "date" and _is_whole(node.expression):
        return f"date_{'add' if sign == '+' else 'sub'}({left}, {right})"
    if one == other == "number" or (sign == "-" and one == other and one in ("date", "timestamp")):
        return f"({left} {sign} {right})"
    raise UnknownNameError


def _is_decimal(node: exp.Expr) -> bool:
    from sqlglot import exp

    inner = node.this if isinstance(node, exp.Neg | exp.Paren) else node
    return isinstance(inner, exp.Literal) and not inner.is_string and not inner.name.isdecimal()


def _is_whole(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()


def _parts_used(block: BlockState, column: exp.Column) -> int:
    try:
        return block.scope.resolve(parts_of(column), offset_of(column)).parts
    except SqlRefusal:
        return len(parts_of(column))
