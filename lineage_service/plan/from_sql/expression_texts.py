"""Expressions of a query as text over the columns of the plan: the user's own tokens, names replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_service.plan import functions
from lineage_service.plan.expressions import BARE_FUNCTIONS, quote_identifier
from lineage_service.plan.from_sql.field_names import (
    Replacement,
    field_name,
    is_replaced_whole,
    is_row,
    zipped_arrays,
)
from lineage_service.plan.from_sql.refusals import offset_of, refuse
from lineage_service.plan.from_sql.scopes import ResolvedName, Scope, parts_of
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.spec.sql_parsing import CALL, SPAN

if TYPE_CHECKING:
    from sqlglot import exp

OuterColumn = Callable[[ResolvedName, "exp.Expr"], str]


@dataclass
class ExpressionTexts:
    """Renders expressions of one SELECT.

    computed: nodes of the tree that are columns of the plan already, by their id: aggregates, windows, subqueries.
    keys: texts of grouping expressions, normalised, and the columns they are.
    readable: the columns that may be read, None for all: behind a GROUP BY only its keys.
    aliases: columns, by their id, that mean an entry of the select list before them; and its expression.
    outer: what a column of the enclosing query becomes; None where it may not be read.
    below: as `computed`, below a GROUP BY.
    """

    context: SqlContext
    scope: Scope
    computed: dict[int, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    readable: frozenset[str] | None = None
    aliases: dict[int, exp.Expr] = field(default_factory=dict)
    outer: OuterColumn | None = None
    below: dict[int, str] = field(default_factory=dict)

    def text(self, node: exp.Expr) -> str:
        """The node's own tokens with names replaced; comments and line breaks become spaces."""
        if id(node) in self.computed:
            return self.computed[id(node)]
        if SPAN not in node.meta:
            raise refuse(node, f"{node.key.upper()} is not supported here", "rewrite this expression")
        start, end = node.meta[SPAN]
        return self.text_between(start, end, [node])

    def condition(self, node: exp.Expr) -> str:
        """The node as an operand of AND."""
        from sqlglot import exp

        return f"({self.text(node)})" if isinstance(node, exp.Or | exp.Xor) else self.text(node)

    def text_between(self, start: int, end: int, nodes: list[exp.Expr]) -> str:
        return self.text_with(start, end, [found for each in nodes for found in self._replacements(each)])

    def text_with(self, start: int, end: int, replacements: Sequence[Replacement]) -> str:
        replaced = {a: (b, text) for a, b, text in replacements}
        pieces: list[str] = []
        behind = start
        source = self.context.sql.text
        for token in self.context.tokens_between(start, end):
            if token.start < behind:
                continue
            gap = " " if token.start > behind and pieces else ""
            behind, text = replaced.get(token.start, (token.end + 1, source[token.start : token.end + 1]))
            pieces += [gap, text]
        return "".join(pieces)

    def _replacements(self, node: exp.Expr) -> Iterator[Replacement]:
        from sqlglot import exp

        if id(node) in self.computed:
            yield (*node.meta[SPAN], self.computed[id(node)])
            return
        if isinstance(node, exp.Query):
            raise refuse(node, "a subquery is not supported here", "make it a step of its own, and join it")
        if self.keys and SPAN in node.meta and not isinstance(node, exp.Literal) and id(node) not in self.aliases:
            key = self.keys.get(self._key_text(node))
            if key is not None:
                yield (*node.meta[SPAN], key)
                return
        if isinstance(node, exp.Column):
            yield from [self._alias(node)] if id(node) in self.aliases else self._column(node)
            return
        if isinstance(node, exp.Star) and not _is_counted(node):
            raise refuse(node, "`*` inside an expression is not supported in sql steps", "name the columns")
        if call_name(self.context, node) == "arrays_zip":
            yield from zipped_arrays(node, list(self._replacements_below(node)), self.text, self.text_with)
        elif call_name(self.context, node) == "struct" or is_row(node):
            if isinstance(node, exp.Struct):  # `struct` in backticks takes no AS
                yield node.meta[CALL][0], self._end_of_name(node), "struct"
            for index, argument in enumerate(node.expressions, start=1):
                yield from self._field(argument, index)
        else:
            yield from self._replacements_below(node)

    def _replacements_below(self, node: exp.Expr) -> Iterator[Replacement]:
        for child in node.iter_expressions():
            yield from self._replacements(child)

    def _field(self, argument: exp.Expr, number: int) -> Iterator[Replacement]:
        """An argument of struct(). Where another column takes its place, it gets the name that its field has."""
        from sqlglot import exp

        value = argument.expression if isinstance(argument, exp.PropertyEQ) else argument
        replaced = list(self._replacements(value))
        if not is_replaced_whole(value, replaced) or self._has_alias(value):
            yield from replaced
            return
        start, end = value.meta[SPAN]
        name = field_name(value) or f"col{number}"
        yield start, end, f"{self.text(value)} AS {quote_identifier(name)}"

    def _end_of_name(self, call: exp.Expr) -> int:
        start = call.meta[CALL][0]
        return next(token.end + 1 for token in self.context.tokens if token.start == start)

    def _has_alias(self, value: exp.Expr) -> bool:
        end = value.meta[SPAN][1]
        behind = next((token for token in self.context.tokens if token.start >= end), None)
        return behind is not None and behind.text not in (",", ")")

    def _column(self, column: exp.Column) -> Iterator[Replacement]:
        from sqlglot import exp

        if isinstance(column.this, exp.Star):
            raise refuse(column, "`*` inside an expression is not supported in sql steps", "name the columns")
        parts, offset = parts_of(column), offset_of(column)
        variable = variable_of_lambda(column)
        if variable is not None:
            yield column.parts[0].meta["start"], column.parts[0].meta["end"] + 1, variable
            return
        bare = len(parts) == 1 and parts[0].lower() in BARE_FUNCTIONS and not column.this.args.get("quoted")
        if bare and not self.scope.has(parts[0]):
            return
        found = self.scope.resolve(parts, offset)
        start = min(part.meta["start"] for part in column.parts)
        end = column.parts[found.parts - 1].meta["end"] + 1
        yield start, end, self.column_text(found, column)

    def _alias(self, column: exp.Column) -> Replacement:
        """The expression of an alias in its place. Spark evaluates it once, so a volatile one cannot be repeated."""
        text = self.text(self.aliases[id(column)])
        if self.context.expression(text, column).is_volatile:
            raise refuse(column, f"'{column.name}' is not repeatable and cannot be referred to by its alias",
                         "compute it in a subquery")  # fmt: skip
        start, end = column.parts[0].meta["start"], column.parts[0].meta["end"] + 1
        return start, end, operand(text)

    def column_text(self, found: ResolvedName, place: exp.Expr) -> str:
        if found.level > 1:
            raise refuse(
                place,
                f"'{'.'.join(parts_of(place))}' is a column of a query two levels up, which Spark does not find",
                "a subquery reads columns of the directly enclosing query: join the outer table there too",
            )
        if found.level:
            inner = self.scope.own_column(found)
            if inner is not None:
                self.context.outer_reads.add(found.column.internal)
                return inner
            if self.outer is None:
                raise refuse(
                    place,
                    "a column of an enclosing query cannot be read here",
                    "compare it with a column of the subquery, as a condition of the subquery's own WHERE",
                )
            return self.outer(found, place)
        if self.readable is not None and found.column.internal not in self.readable:
            name = found.column.name
            raise refuse(
                place,
                f"column '{name}' is neither grouped nor inside an aggregate function",
                f"add it to GROUP BY, or wrap it, as in max({name}); an expression is repeated as in GROUP BY",
            )
        return found.column.internal

    def _key_text(self, node: exp.Expr) -> str:
        """The node as it would be without groups, to compare it with grouping expressions."""
        from lineage_service.plan.from_sql.refusals import SqlRefusal

        plain = ExpressionTexts(self.context, self.scope, self.below, aliases=self.aliases)
        try:
            return normalise(plain.text(node))
        except SqlRefusal:
            return ""


def variable_of_lambda(column: exp.Expr) -> str | None:
    """The variable of an enclosing lambda that a name means, as the lambda spells it: Spark ignores case."""
    from sqlglot import exp

    assert isinstance(column, exp.Column)
    enclosing = column.find_ancestor(exp.Lambda, exp.Query)
    while isinstance(enclosing, exp.Lambda):
        for variable in enclosing.expressions:
            if variable.name.lower() == column.parts[0].name.lower():
                return quote_identifier(variable.name) if variable.args.get("quoted") else variable.name
        enclosing = enclosing.find_ancestor(exp.Lambda, exp.Query)
    return None


def operand(text: str) -> str:
    """A text as an operand: a single name as it is, all else in parentheses."""
    return text if text.isidentifier() else f"({text})"


def normalise(text: str) -> str:
    """A text in which letters and spaces outside of literals make no difference."""
    from lineage_service.plan.expressions import tokens_of

    return " ".join(
        text[token.start : token.end + 1] if token.token_type.name in ("STRING", "IDENTIFIER") else token.text.lower()
        for token in tokens_of(text)
    )


def _is_counted(star: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(star.parent, exp.Count)


def call_name(context: SqlContext, node: exp.Expr) -> str | None:
    """The name of the function that a node calls, in lower case."""
    if CALL not in node.meta:
        return None
    from sqlglot import exp

    start = node.meta[CALL][0]
    place = next((index for index, token in enumerate(context.tokens) if token.start == start), None)
    if place is None:
        return None
    before = context.tokens[place - 1].text.lower() if place else ""
    is_quantifier = isinstance(node, exp.Any | exp.All) and (
        before in ("like", "ilike", "rlike", "regexp") or any(isinstance(each, exp.Query) for each in node.walk())
    )
    return None if is_quantifier else context.tokens[place].text.lower()


def aggregate_calls(context: SqlContext, node: exp.Expr) -> Iterator[exp.Expr]:
    """Outermost aggregate functions that are not a window's own; those inside a window are found in its parts."""
    from sqlglot import exp

    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            if isinstance(function, exp.Filter):
                yield from aggregate_calls(context, function.expression)
            function = function.this
        inside = [*function.iter_expressions(), *(c for k, v in node.args.items() if k != "this" for c in _nodes(v))]
        for child in inside:
            yield from aggregate_calls(context, child)
        return
    if call_name(context, node) in functions.AGGREGATES:
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregate_calls(context, child)


def _nodes(value: object) -> list[exp.Expr]:
    from sqlglot import exp

    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, exp.Expression)]


def window_nodes(node: exp.Expr) -> Iterator[exp.Window]:
    from sqlglot import exp

    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        yield node
    for child in node.iter_expressions():
        yield from window_nodes(child)


def subqueries_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost queries inside an expression."""
    from sqlglot import exp

    if isinstance(node, exp.Query):
        yield node
        return
    for child in node.iter_expressions():
        yield from subqueries_in(child)


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that must all hold."""
    from sqlglot import exp

    found: list[exp.Expr] = []
    pending = [node]
    while pending:  # not recursive: the tree of `a AND b AND c …` is as deep as the list is long
        each = pending.pop()
        if isinstance(each, exp.And):
            pending += [each.expression, each.this]
        elif isinstance(each, exp.Paren) and isinstance(each.this, exp.And):
            pending.append(each.this)
        else:
            found.append(each)
    return found
