"""Group-bys that can be indexed from the sources' own files: keys that are plain columns of them, below it nothing but
filters and inner joins that mean the same to Spark and to DuckDB.

Only what is provably alike is taken: comparisons of columns with columns or literals of the same harmless type (whole
numbers, decimals, text, dates, booleans), IN lists, null tests, AND, OR, NOT. No function, no arithmetic, no cast, no
floating-point number, no moment in time: in those the two engines differ. Nor decimals that no common type holds, which
Spark rounds; nor columns whose type is not the one that the files name (store/engine_agreement.py).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    NamedExpression,
    Node,
    Project,
    Sort,
    Source,
    WithColumns,
)

if TYPE_CHECKING:
    from sqlglot import exp

WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}  # digits that Spark takes each to have
HARMLESS = (*WHOLE, "string", "date", "boolean", "decimal")
LONGEST = 18  # digits of a number that both engines read alike
MOST_DIGITS = 38  # of a decimal


@dataclass(frozen=True, slots=True)
class DirectLookup:
    """How the rows of a dataset are found in sources: `sources` as t0, t1, … (one may be there twice), keys as triples
    (which source, its column, the column of the dataset that shows it), conditions in DuckDB's words."""

    sources: tuple[str, ...]
    keys: tuple[tuple[int, str, str], ...]
    conditions: tuple[str, ...]

    @property
    def dataset_key_columns(self) -> list[str]:
        return [shown for _, _, shown in self.keys]

    def to_json(self) -> dict[str, Any]:
        keys = [list(key) for key in self.keys]
        return {"sources": list(self.sources), "keys": keys, "conditions": list(self.conditions)}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> DirectLookup:
        keys = tuple((int(number), str(own), str(shown)) for number, own, shown in body["keys"])
        return cls(tuple(body["sources"]), keys, tuple(body["conditions"]))


@dataclass(frozen=True, slots=True)
class ComparableType:
    """The family of a type; of a number, its digits before and behind the point."""

    family: str
    whole: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a source: which, its name, its type."""

    source: int
    name: str
    kind: ComparableType

    @property
    def sql(self) -> str:
        quoted = self.name.replace('"', '""')
        return f't{self.source}."{quoted}"'


DATE = ComparableType("date")
Resolve = Callable[[tuple[str, ...]], _Column | None]


@dataclass(frozen=True, slots=True)
class _ScanTree:
    """A pipeline of scans, filters and joins: its sources, what holds of them, and what its columns are."""

    sources: tuple[str, ...]
    conditions: tuple[str, ...]
    resolve: Callable[[str], _Column | None]


def find_direct_lookup(breaker: Node, above: Sequence[Node], datasets: Set[str]) -> DirectLookup | None:
    """How a group-by is found in its sources; `above` are the nodes from it up to the dataset that shows its rows.

    Nodes that are `datasets` have rows of their own: lineage ends there, and so nothing behind them is looked for.
    """
    if not isinstance(breaker, Aggregate | Distinct):
        return None
    if isinstance(breaker, Aggregate):
        keys = {named.name: _plain_column(named) for named in breaker.keys}
    else:
        keys = {name: name for name in breaker.schema.names}
    shown, tree = _key_columns_above(list(keys), above), _scan_tree(breaker.input, 0, datasets)
    if shown is None or tree is None:
        return None
    found = []
    for name, plain in keys.items():
        column = tree.resolve(plain) if plain is not None else None
        if column is None:
            return None
        found.append((column.source, column.name, shown[name]))
    return DirectLookup(tree.sources, tuple(found), tree.conditions)


def _plain_column(named: NamedExpression) -> str | None:
    """The column that an expression is, where it is nothing else."""
    refs = named.expression.columns
    plain = len(refs) == 1 and len(refs[0].parts) == 1 and len(named.expression.tokens) == 1
    return refs[0].parts[0] if plain else None


def _key_columns_above(keys: Sequence[str], above: Sequence[Node]) -> dict[str, str] | None:
    """Under which column of the dataset each key is seen; None where one is not."""
    names: dict[str, str] = {key: key for key in keys}
    for node in above:
        if isinstance(node, Project | WithColumns):
            renamed = {name.lower(): each.name for each in node.columns if (name := _plain_column(each)) is not None}
            computed = {each.name.lower() for each in node.columns}
            after: dict[str, str] = {}
            for key, name in names.items():
                if isinstance(node, WithColumns) and name.lower() not in computed:
                    after[key] = name
                elif name.lower() in renamed:
                    after[key] = renamed[name.lower()]
                else:
                    return None
            names = after
        elif not isinstance(node, Filter | Sort | Limit):
            return None
    return names


def _scan_tree(node: Node, first: int, datasets: Set[str]) -> _ScanTree | None:
    """The pipeline below a breaker, its sources numbered from `first`; None where it holds anything else."""
    if isinstance(node, Source):
        return _ScanTree((node.step,), (), lambda name: _source_column(node, first, name))
    if node.id in datasets:
        return None
    if isinstance(node, Join):
        return _join_tree(node, first, datasets)
    if not isinstance(node, Filter | Project | WithColumns | Sort):
        return None
    below = _scan_tree(node.input, first, datasets)
    if below is None or isinstance(node, Sort):
        return below
    if isinstance(node, Filter):
        condition = translate_predicate(node.where, lambda parts: below.resolve(parts[0]) if len(parts) == 1 else None)
        return None if condition is None else _ScanTree(below.sources, (*below.conditions, condition), below.resolve)
    if any(each.expression.is_generator for each in node.columns):
        return None
    return _ScanTree(below.sources, below.conditions, lambda name: _projected_column(node, below, name))


def _source_column(node: Source, number: int, name: str) -> _Column | None:
    column = node.columns.find(name)
    kind = comparable_type(column.type) if column is not None and column.type and column.alike else None
    return None if column is None or kind is None else _Column(number, column.name, kind)


def _projected_column(node: Project | WithColumns, below: _ScanTree, name: str) -> _Column | None:
    found = next((each for each in node.columns if each.name.lower() == name.lower()), None)
    if found is None:
        return below.resolve(name) if isinstance(node, WithColumns) else None
    plain = _plain_column(found)
    return None if plain is None else below.resolve(plain)


def _join_tree(node: Join, first: int, datasets: Set[str]) -> _ScanTree | None:
    """An inner join along keys; any other has rows that are not a plain combination of rows, or too many of them."""
    if node.how != "inner" or node.equi_condition is None or not node.equi_condition.keys:
        return None
    left = _scan_tree(node.left, first, datasets)
    right = _scan_tree(node.right, first + len(left.sources), datasets) if left is not None else None
    if left is None or right is None:
        return None
    shared = {name.lower() for name in node.using}

    def resolve(name: str) -> _Column | None:
        in_left, in_right = node.left.schema.find(name), node.right.schema.find(name)
        if in_left and (not in_right or name.lower() in shared):
            return left.resolve(name)
        return right.resolve(name) if in_right and not in_left else None

    def resolve_side(parts: tuple[str, ...]) -> _Column | None:
        if len(parts) == 2 and parts[0] in ("left", "right"):
            return (left if parts[0] == "left" else right).resolve(parts[1])
        return resolve(parts[0]) if len(parts) == 1 else None

    conditions = _using_conditions(node, left, right)
    if node.on is not None:
        on = translate_predicate(node.on, resolve_side)
        conditions = None if on is None else (on,)
    if conditions is None:
        return None
    return _ScanTree((*left.sources, *right.sources), (*left.conditions, *right.conditions, *conditions), resolve)


def _using_conditions(node: Join, left: _ScanTree, right: _ScanTree) -> tuple[str, ...] | None:
    found = []
    for name in node.using:
        one, other = left.resolve(name), right.resolve(name)
        if one is None or other is None or not is_comparison_portable(one.kind, other.kind):
            return None
        found.append(f"({one.sql} = {other.sql})")
    return tuple(found)


def comparable_type(text: str) -> ComparableType | None:
    """A harmless type of Spark's; None for all others."""
    base = text.partition("(")[0]
    if base not in HARMLESS or "collate" in text:
        return None
    if base in WHOLE:
        return ComparableType("whole", WHOLE[base])
    if base != "decimal":
        return ComparableType(base)
    digits = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text)
    return ComparableType(base, int(digits[1]) - int(digits[2]), int(digits[2])) if digits else None


def is_comparison_portable(*kinds: ComparableType) -> bool:
    """Whether values of these types are compared with each other alike by both engines."""
    families = {kind.family for kind in kinds}
    if len(families) > 1 and families != {"whole", "decimal"}:
        return False
    return max(kind.whole for kind in kinds) + max(kind.scale for kind in kinds) <= MOST_DIGITS


def translate_predicate(expression: Expression, resolve: Resolve) -> str | None:
    """A predicate in DuckDB's words, where it surely means the same there; None else."""
    if "\\" in expression.text or expression.is_deep:
        return None  # escapes in texts are Spark's own
    try:
        return Translator(resolve).predicate(expression.tree)
    except NotTranslatable:
        return None


def translate_source_predicate(source: Source, expression: Expression) -> str | None:
    """A predicate over a source's columns, as t0."""
    return translate_predicate(
        expression, lambda parts: _source_column(source, 0, parts[0]) if len(parts) == 1 else None
    )


def translate_source_value(source: Source, expression: Expression) -> str | None:
    """A value of a source's row in DuckDB's words: a column of a harmless type, or a part of a day."""
    from sqlglot import exp

    tree = expression.tree
    part = None
    if isinstance(tree, exp.Func):
        part = _DAY_PARTS.get(expression.text.partition("(")[0].strip().lower())
    inner = tree if part is None else tree.this
    while isinstance(inner, exp.Paren) or (part is not None and isinstance(inner, exp.TsOrDsToDate)):
        inner = inner.this
    if not isinstance(inner, exp.Column) or len(inner.parts) != 1:
        return None
    found = _source_column(source, 0, inner.parts[0].name)
    if found is None:
        return None
    if part is None:
        return found.sql
    return f"CAST({part}({found.sql}) AS INTEGER)" if found.kind == DATE else None


# Parts of a day that both engines count alike.
_DAY_PARTS = {"year": "year", "quarter": "quarter", "month": "month", "day": "day", "dayofmonth": "day"}


class NotTranslatable(Exception):
    """Something whose meaning is not provably the same."""


@dataclass(frozen=True)
class Translator:
    resolve: Resolve

    def predicate(self, tree: exp.Expr) -> str:
        from sqlglot import exp

        if isinstance(tree, exp.Paren):
            return f"({self.predicate(tree.this)})"
        if isinstance(tree, exp.And | exp.Or):
            word = "AND" if isinstance(tree, exp.And) else "OR"
            return f"({self.predicate(tree.left)} {word} {self.predicate(tree.right)})"
        if isinstance(tree, exp.Not):
            return f"(NOT {self.predicate(tree.this)})"
        if isinstance(tree, exp.Column):
            text, kind = self.value(tree)
            if kind.family == "boolean":
                return text
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            return f"({self.value(tree.this)[0]} IS NULL)"
        if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
            low, high = tree.args["low"], tree.args["high"]
            return f"({self.comparison(tree.this, '>=', low)} AND {self.comparison(tree.this, '<=', high)})"
        if isinstance(tree, exp.In) and tree.expressions and not tree.args.get("query"):
            # Spark compares all of them in one type.
            if not is_comparison_portable(
                *(kind for each in tree.expressions for kind in self.operand_types(tree.this, each))
            ):
                raise NotTranslatable
            return f"({' OR '.join(self.comparison(tree.this, '=', each) for each in tree.expressions)})"
        for operator, word in (
            (exp.EQ, "="), (exp.NEQ, "<>"), (exp.LT, "<"), (exp.LTE, "<="), (exp.GT, ">"), (exp.GTE, ">="),
            (exp.NullSafeEQ, "IS NOT DISTINCT FROM"),
        ):  # fmt: skip
            if type(tree) is operator:
                return self.comparison(tree.this, word, tree.expression)
        raise NotTranslatable

    def comparison(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        (one, kind), (other, other_kind) = self.comparison_operands(left, right)
        if not is_comparison_portable(kind, other_kind):
            raise NotTranslatable
        return f"({one} {word} {other})"

    def operand_types(self, left: exp.Expr, right: exp.Expr) -> tuple[ComparableType, ComparableType]:
        (_, one), (_, other) = self.comparison_operands(left, right)
        return one, other

    def comparison_operands(
        self, left: exp.Expr, right: exp.Expr
    ) -> tuple[tuple[str, ComparableType], tuple[str, ComparableType]]:
        """Two values that are compared. Spark reads a text that is compared with a date as a date."""
        one, other = self.value(left), self.value(right)
        if one[1] == DATE and (day := _day_literal(right)):
            other = (day, DATE)
        if other[1] == DATE and (day := _day_literal(left)):
            one = (day, DATE)
        return one, other

    def value(self, tree: exp.Expr) -> tuple[str, ComparableType]:
        """A column or a literal, and its type."""
        from sqlglot import exp

        if isinstance(tree, exp.Paren):
            return self.value(tree.this)
        if isinstance(tree, exp.Column):
            found = self.resolve(tuple(part.name for part in tree.parts))
            if found is None:
                raise NotTranslatable
            return found.sql, found.kind
        if isinstance(tree, exp.Boolean):
            return ("true" if tree.this else "false"), ComparableType("boolean")
        if isinstance(tree, exp.Neg):
            text, kind = self.value(tree.this)
            if kind.family not in ("whole", "decimal") or not isinstance(tree.this, exp.Literal):
                raise NotTranslatable
            return f"-{text}", kind
        if isinstance(tree, exp.Literal):
            return _literal(tree)
        day = _constant_day(tree)
        if day is not None:
            return f"DATE '{day.isoformat()}'", DATE
        raise NotTranslatable


def _day_literal(tree: exp.Expr) -> str | None:
    """A text literal that both engines read as the same day."""
    found = _parse_day(tree)
    return None if found is None else f"DATE '{found.isoformat()}'"


def _parse_day(tree: exp.Expr) -> date | None:
    from sqlglot import exp

    if not isinstance(tree, exp.Literal) or not tree.is_string or not re.fullmatch(r"[12]\d{3}-\d\d-\d\d", tree.name):
        return None
    try:
        return date.fromisoformat(tree.name)
    except ValueError:
        return None


def _constant_day(tree: exp.Expr) -> date | None:
    """A day that is spelled out: `DATE '…'`, or such a day and whole days, months or years added to it."""
    from sqlglot import exp

    if type(tree) is exp.Cast and tree.to.this.name == "DATE":
        return _parse_day(tree.this)
    if type(tree) not in (exp.Add, exp.Sub) or not isinstance(tree.expression, exp.Interval):
        return None
    day, interval = _constant_day(tree.this), tree.expression
    count, unit = interval.this, interval.args.get("unit")
    if day is None or unit is None or not isinstance(count, exp.Literal) or not re.fullmatch(r"\d{1,5}", count.name):
        return None
    number = int(count.name) * (1 if type(tree) is exp.Add else -1)
    try:
        match unit.name.upper().removesuffix("S"):
            case "DAY":
                return day + timedelta(number)
            case "MONTH":
                return _months_later(day, number)
            case "YEAR":
                return _months_later(day, 12 * number)
    except (ValueError, OverflowError):
        return None  # a year that Python does not have
    return None


def _months_later(day: date, months: int) -> date:
    """The same day of another month, or its last where it is shorter, as Spark counts."""
    month = day.year * 12 + day.month - 1 + months
    year, month = divmod(month, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _literal(tree: exp.Literal) -> tuple[str, ComparableType]:
    text = str(tree.this)
    if tree.is_string:
        return "'" + text.replace("'", "''") + "'", ComparableType("string")
    if re.fullmatch(r"\d+", text) and len(text) <= LONGEST:
        return text, ComparableType("whole", WHOLE["int"] if int(text) < 1 << 31 else WHOLE["bigint"])
    if re.fullmatch(r"\d*\.\d+", text) and len(text) <= LONGEST:
        whole, _, scale = text.partition(".")
        return text, ComparableType("decimal", len(whole), len(scale))
    raise NotTranslatable
