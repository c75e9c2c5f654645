"""Group-bys that can be indexed from a source's own files: keys that are plain columns of it, and filters that mean
the same to Spark and to DuckDB.

Only what is provably alike is taken: comparisons of columns with columns or literals of the same harmless type (whole
numbers, decimals, text, dates, booleans), IN lists, null tests, AND, OR, NOT. No function, no arithmetic, no cast, no
floating-point number, no moment in time: in those the two engines differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Limit,
    Named,
    Node,
    Project,
    Sort,
    Source,
    WithColumns,
)

if TYPE_CHECKING:
    from sqlglot import exp

WHOLE = ("tinyint", "smallint", "int", "bigint")
HARMLESS = (*WHOLE, "string", "date", "boolean", "decimal")
LONGEST = 18  # digits of a number that both engines read alike


@dataclass(frozen=True, slots=True)
class Direct:
    """Keys as pairs (column of the source, column of the dataset that shows it), and filters in DuckDB's words."""

    source: str
    keys: tuple[tuple[str, str], ...]
    predicates: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "keys": [list(pair) for pair in self.keys], "predicates": list(self.predicates)}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Direct:
        return cls(body["source"], tuple((own, shown) for own, shown in body["keys"]), tuple(body["predicates"]))


def direct_of(breaker: Node, above: Sequence[Node]) -> Direct | None:
    """How a group-by is found in its source; `above` are the nodes from it up to the dataset that shows its rows."""
    if not isinstance(breaker, Aggregate | Distinct):
        return None
    if isinstance(breaker, Aggregate):
        keys = {named.name: _plain(named) for named in breaker.keys}
    else:
        keys = {name: name for name in breaker.schema.names}
    shown = _shown(list(keys), above)
    chain = _chain_below(breaker)
    if shown is None or chain is None:
        return None
    source, nodes = chain
    pairs = []
    for name, column in keys.items():
        own = _origin(column, nodes) if column is not None else None
        if own is None or not _harmless(source, own):
            return None
        pairs.append((own, shown[name]))
    predicates = []
    for index, node in enumerate(nodes):
        if isinstance(node, Filter):
            text = translated(node.where, _resolver(source, nodes[index + 1 :]))
            if text is None:
                return None
            predicates.append(text)
    return Direct(source.step, tuple(pairs), tuple(predicates))


def _plain(named: Named) -> str | None:
    """The column that an expression is, where it is nothing else."""
    refs = named.expression.columns
    plain = len(refs) == 1 and len(refs[0].parts) == 1 and len(named.expression.tokens) == 1
    return refs[0].parts[0] if plain else None


def _shown(keys: Sequence[str], above: Sequence[Node]) -> dict[str, str] | None:
    """Under which column of the dataset each key is seen; None where one is not."""
    names: dict[str, str] = {key: key for key in keys}
    for node in above:
        if isinstance(node, Project | WithColumns):
            renamed = {name.lower(): each.name for each in node.columns if (name := _plain(each)) is not None}
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


def _chain_below(breaker: Aggregate | Distinct) -> tuple[Source, list[Node]] | None:
    """The source that is read row by row, and the nodes between, from the breaker down."""
    nodes: list[Node] = []
    node: Node = breaker.input
    while isinstance(node, Filter | Project | WithColumns | Sort):
        if isinstance(node, Project | WithColumns) and any(each.expression.generates for each in node.columns):
            return None
        nodes.append(node)
        node = node.input
    return (node, nodes) if isinstance(node, Source) else None


def _origin(name: str, nodes: Sequence[Node]) -> str | None:
    """The source's column that a name is, seen through these nodes."""
    for node in nodes:
        if isinstance(node, Project | WithColumns):
            found = next((each for each in node.columns if each.name.lower() == name.lower()), None)
            if found is not None:
                plain = _plain(found)
                if plain is None:
                    return None
                name = plain
            elif isinstance(node, Project):
                return None
    return name


def _harmless(source: Source, name: str) -> bool:
    column = source.columns.find(name)
    return bool(column and column.type and _family(column.type) is not None)


def _family(kind: str) -> str | None:
    base = kind.partition("(")[0]
    if base not in HARMLESS or "collate" in kind:
        return None
    return "whole" if base in WHOLE else base


def _resolver(source: Source, nodes: Sequence[Node]) -> Callable[[str], tuple[str, str] | None]:
    def resolve(name: str) -> tuple[str, str] | None:
        own = _origin(name, nodes)
        column = source.columns.find(own) if own is not None else None
        family = _family(column.type) if column is not None and column.type else None
        return None if column is None or family is None else (column.name, family)

    return resolve


def translated(expression: Expression, resolve: Callable[[str], tuple[str, str] | None]) -> str | None:
    """A predicate in DuckDB's words, where it surely means the same there; None else."""
    if "\\" in expression.text:
        return None  # escapes in texts are Spark's own
    try:
        return _Translator(resolve).predicate(expression.tree)
    except _Unlike:
        return None


class _Unlike(Exception):
    """Something whose meaning is not provably the same."""


@dataclass(frozen=True)
class _Translator:
    resolve: Callable[[str], tuple[str, str] | None]

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
            text, family = self.value(tree)
            if family == "boolean":
                return text
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            return f"({self.value(tree.this)[0]} IS NULL)"
        if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
            low, high = tree.args["low"], tree.args["high"]
            return f"({self.compared(tree.this, '>=', low)} AND {self.compared(tree.this, '<=', high)})"
        if isinstance(tree, exp.In) and tree.expressions and not tree.args.get("query"):
            return f"({' OR '.join(self.compared(tree.this, '=', each) for each in tree.expressions)})"
        for kind, word in (
            (exp.EQ, "="), (exp.NEQ, "<>"), (exp.LT, "<"), (exp.LTE, "<="), (exp.GT, ">"), (exp.GTE, ">="),
            (exp.NullSafeEQ, "IS NOT DISTINCT FROM"),
        ):  # fmt: skip
            if type(tree) is kind:
                return self.compared(tree.this, word, tree.expression)
        raise _Unlike

    def compared(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        (one, family), (other, other_family) = self.value(left), self.value(right)
        alike = family == other_family or {family, other_family} == {"whole", "decimal"}
        if not alike:
            raise _Unlike
        return f"({one} {word} {other})"

    def value(self, tree: exp.Expr) -> tuple[str, str]:
        """A column or a literal, and its family."""
        from sqlglot import exp

        if isinstance(tree, exp.Paren):
            return self.value(tree.this)
        if isinstance(tree, exp.Column) and len(tree.parts) == 1:
            found = self.resolve(tree.name)
            if found is None:
                raise _Unlike
            return '"' + found[0].replace('"', '""') + '"', found[1]
        if isinstance(tree, exp.Boolean):
            return ("true" if tree.this else "false"), "boolean"
        if isinstance(tree, exp.Neg):
            text, family = self.value(tree.this)
            if family not in ("whole", "decimal") or not isinstance(tree.this, exp.Literal):
                raise _Unlike
            return f"-{text}", family
        if isinstance(tree, exp.Literal):
            return _literal(tree)
        if isinstance(tree, exp.Cast) and tree.to.this.name == "DATE" and isinstance(tree.this, exp.Literal):
            text = str(tree.this.this)
            if tree.this.is_string and re.fullmatch(r"[1-9]\d{3}-\d\d-\d\d", text) and type(tree) is exp.Cast:
                return f"DATE '{text}'", "date"
        raise _Unlike


def _literal(tree: exp.Literal) -> tuple[str, str]:
    text = str(tree.this)
    if tree.is_string:
        return "'" + text.replace("'", "''") + "'", "string"
    if re.fullmatch(r"\d+", text) and len(text) <= LONGEST:
        return text, "whole"
    if re.fullmatch(r"\d*\.\d+", text) and len(text) <= LONGEST:
        return text, "decimal"
    raise _Unlike
