"""Rewrites a question so that its rows carry the ids of the rows they derive from, in columns beside the user's. Pure.

Inside a pipeline, ids are passed along. GROUP BY, DISTINCT and UNION collect them into lists, because every row of a
group contributes to it. Anything that cannot be traced exactly this way is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from lineage_service.errors import QuestionError
from lineage_service.query.duckdb_parsing import parse_one
from lineage_service.sql.rid_origin import reads_itself
from lineage_service.store.version_scan import RID

if TYPE_CHECKING:
    from sqlglot import exp

MOST_TABLES = 1_000  # common tables are inlined wherever they are read, so each may double the size of those before it
_JOINS = {"", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER"}


@dataclass(frozen=True)
class IdColumn:
    """A column of ids: its relation, its name, and whether its values are lists."""

    relation: str
    name: str
    listed: bool = False

    @property
    def nothing(self) -> str:
        return "CAST(NULL AS BIGINT[])" if self.listed else "CAST(NULL AS BIGINT)"


@dataclass(frozen=True)
class QueryWithIds:
    """SQL with a question's columns followed by columns of ids."""

    sql: str
    ids: tuple[IdColumn, ...]


def add_id_columns(named: str, relations: Mapping[str, bool], columns: Iterable[str] = ()) -> QueryWithIds:
    """The question over `relations` with ids. Each relation says whether its rows have ids. `columns` are the
    relations' column names.
    """
    tree = parse_one(named)
    prefix, taken = "ids_", " ".join([named, *columns]).lower()
    while prefix in taken:
        prefix += "_"
    capture = _Capture(relations, prefix)
    tree, ids = capture.query(tree, {})
    return QueryWithIds(tree.sql(dialect="duckdb"), tuple(ids))


def _unsaveable_error(reason: str, hint: str | None = None) -> QuestionError:
    return QuestionError(f"the query cannot be saved with exact lineage: {reason}", hint=hint)


@dataclass
class _Capture:
    relations: Mapping[str, bool]
    prefix: str
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    used: dict[int, int] = field(default_factory=dict)
    tables: int = 0

    def query(self, tree: Any, common: Mapping[str, Any]) -> tuple[Any, list[IdColumn]]:
        from sqlglot import exp

        for name in ("order", "limit", "offset"):
            if tree.args.get(name) and tree.args[name].find(exp.Query):
                raise _unsaveable_error("a subquery inside an expression", "write it as a join")
        if clause := tree.args.get("with_"):
            if clause.args.get("recursive") and any(reads_itself(each) for each in clause.expressions):
                raise _unsaveable_error("a recursive query")
            common = dict(common)
            for each in clause.expressions:
                if each.args.get("alias") and each.args["alias"].columns:
                    raise _unsaveable_error(
                        f"common table '{each.alias}' renames its columns in its head", "rename them inside"
                    )
                common[each.alias.lower()] = (each.this, dict(common))
            tree.set("with_", None)
        match tree:
            case exp.Subquery():
                inner, ids = self.query(tree.this, common)
                tree.set("this", inner)
                return tree, ids
            case exp.SetOperation():
                return self._set_operation(tree, common)
            case exp.Select():
                return self._select(tree, common)
            case _:
                raise _unsaveable_error(f"{type(tree).__name__.lower()} as a query")

    # --- SELECT -----------------------------------------------------------------------------------------------

    def _select(self, tree: Any, common: Mapping[str, Any]) -> tuple[Any, list[IdColumn]]:
        from sqlglot import exp

        self._refuse(tree)
        ids: list[IdColumn] = []
        if source := tree.args.get("from_"):
            source.set("this", self._table(source.this, common, ids))
        for join in tree.args.get("joins") or []:
            kind, side, method = (str(join.args.get(name) or "").upper() for name in ("kind", "side", "method"))
            if kind not in _JOINS or side not in _JOINS or method not in ("", "NATURAL"):
                raise _unsaveable_error(
                    f"{' '.join(filter(None, (method, side, kind)))} JOIN", "join, group and filter instead"
                )
            join.set("this", self._table(join.this, common, ids))
        grouped = (
            bool(tree.args.get("group"))
            or any(has_aggregate(each) for each in tree.expressions)
            or (tree.args.get("having") is not None)
        )
        items = [self._exclude_ids(each, ids) for each in tree.expressions or [exp.Star()]]
        distinct = tree.args.get("distinct")
        if grouped:
            ids = [self._gather_ids(each, items) for each in ids]
        else:
            items += [exp.column(each.name) for each in ids]
        tree.set("expressions", items)
        return self._distinct(tree, ids) if distinct is not None else (tree, ids)

    def _distinct(self, tree: Any, ids: list[IdColumn]) -> tuple[Any, list[IdColumn]]:
        """DISTINCT as groups of equal rows. ORDER BY and LIMIT apply to the groups."""
        from sqlglot import exp

        if tree.args["distinct"].args.get("on"):
            raise _unsaveable_error("DISTINCT ON")
        shown = {each.alias_or_name.lower() for each in tree.expressions}
        for ordered in tree.args["order"].expressions if tree.args.get("order") else ():
            value = ordered.this
            if not (
                value.is_int or (isinstance(value, exp.Column) and not value.table and value.name.lower() in shown)
            ):
                raise _unsaveable_error(
                    "DISTINCT ordered by more than its own columns", "order by names of columns, or places"
                )
        tree.set("distinct", None)
        after = {name: tree.args.get(name) for name in ("order", "limit", "offset")}
        for name in after:
            tree.set(name, None)
        return self._grouped_rows(tree, ids, after)

    def _grouped_rows(self, inner: Any, ids: list[IdColumn], after: Mapping[str, Any]) -> tuple[Any, list[IdColumn]]:
        from sqlglot import exp

        items: list[Any] = [self._exclude_ids(exp.Star(), ids)]
        gathered = [self._gather_ids(each, items) for each in ids]
        outer = exp.Select(expressions=items).from_(
            exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("alike")))
        )
        outer.set("group", exp.Group(all=True))
        for name, value in after.items():
            outer.set(name, value)
        return outer, gathered

    def _gather_ids(self, ids: IdColumn, items: list[Any]) -> IdColumn:
        """Adds the ids of all rows of a group to its SELECT."""
        import sqlglot

        new = IdColumn(ids.relation, self._name(), listed=True)
        listed = f"list({ids.name}) FILTER (WHERE {ids.name} IS NOT NULL)"
        text = f"list_distinct(flatten({listed}))" if ids.listed else listed
        items.append(sqlglot.parse_one(f"SELECT {text} AS {new.name}", dialect="duckdb").expressions[0])
        return new

    def _exclude_ids(self, item: Any, ids: list[IdColumn]) -> Any:
        """A SELECT item. A star excludes the id columns."""
        from sqlglot import exp

        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if not isinstance(star, exp.Star) or not ids:
            return item
        if isinstance(item, exp.Column):
            raise _unsaveable_error("a table's star, `t.*`", "name its columns")
        hidden = [exp.to_identifier(each.name) for each in ids]
        star.set("except_", [*(star.args.get("except_") or []), *hidden])
        return item

    def _refuse(self, tree: Any) -> None:
        from sqlglot import exp

        for name, refused_part in (
            ("qualify", "QUALIFY"),
            ("windows", "WINDOW"),
            ("sample", "a sample"),
            ("laterals", "LATERAL"),
        ):
            if tree.args.get(name):
                raise _unsaveable_error(refused_part)
        group = tree.args.get("group")
        if group and group.find(exp.Cube, exp.Rollup, exp.GroupingSets):
            raise _unsaveable_error("GROUPING SETS, CUBE and ROLLUP", "save one query for each grouping")
        own = [each for name in ("expressions",) for each in tree.args.get(name) or []]
        own += [
            tree.args[name] for name in ("where", "group", "having", "order", "limit", "offset") if tree.args.get(name)
        ]
        own += [join.args["on"] for join in tree.args.get("joins") or [] if join.args.get("on")]
        sources = [tree.args["from_"].this] if tree.args.get("from_") else []
        sources += [join.this for join in tree.args.get("joins") or []]
        tables = {source.alias_or_name.lower() for source in sources}
        for clause in own:
            for node in clause.walk():
                if isinstance(node, exp.Window):
                    raise _unsaveable_error(
                        "a window function", "compute it in a workflow step, or over the saved query"
                    )
                if isinstance(node, exp.Query | exp.Exists):
                    raise _unsaveable_error("a subquery inside an expression", "write it as a join")
                if isinstance(node, exp.Columns):
                    raise _unsaveable_error("COLUMNS(…)", "name the columns")
                if isinstance(node, exp.Column) and not node.table and node.name.lower() in tables:
                    raise _unsaveable_error(f"'{node.name}', a whole row as a value", "name columns of it")

    # --- FROM -------------------------------------------------------------------------------------------------

    def _table(self, table: Any, common: Mapping[str, Any], ids: list[IdColumn]) -> Any:
        from sqlglot import exp

        self.tables += 1
        if self.tables > MOST_TABLES:
            raise _unsaveable_error(f"it reads more than {MOST_TABLES:,} tables, common tables each time they are read")
        if any(table.args.get(name) for name in ("sample", "pivots", "laterals", "joins")):
            raise _unsaveable_error("a sample, PIVOT or nested join in FROM")
        alias = table.args.get("alias")
        if isinstance(table, exp.Subquery):
            inner, found = self.query(table.this, common)
            if alias is not None and alias.columns and found:
                raise _unsaveable_error("an alias that renames columns", "rename them inside")
            ids += found
            table.set("this", inner)
            return table
        if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            name = table.name.lower()
            if name in common:
                definition, around = common[name]
                self._refuse_twice(name, definition)
                inner, found = self.query(definition.copy(), around)
            elif self.relations.get(table.name):
                new = IdColumn(table.name, self._name())
                shown = [exp.Star(), exp.alias_(exp.column(RID), new.name)]
                inner, found = exp.select(*shown).from_(exp.to_table(table.name)), [new]
            else:
                return table
            if alias is not None and alias.columns:
                raise _unsaveable_error("an alias that renames columns", "rename them inside")
            ids += found
            named = alias or exp.TableAlias(this=exp.to_identifier(table.name))
            return exp.Subquery(this=inner, alias=named)
        if isinstance(table, exp.Unnest | exp.Values | exp.Table):
            if table.find(exp.Query) not in (None, table):
                raise _unsaveable_error("a subquery inside a function or VALUES in FROM", "write it as a join")
            return table  # made of literals or of the row beside it: no rows of a dataset
        raise _unsaveable_error(f"{type(table).__name__.lower()} in FROM")

    def _refuse_twice(self, name: str, definition: Any) -> None:
        """A common table is inlined for each use. Refuses one that selects rows nondeterministically and is used
        twice.
        """
        from sqlglot import exp

        from lineage_service.sql.allowed_functions import UNSTEADY

        self.used[id(definition)] = self.used.get(id(definition), 0) + 1
        words = {str(node.sql_name() if isinstance(node, exp.Func) else "").lower() for node in definition.walk()}
        words |= {node.name.lower() for node in definition.find_all(exp.Anonymous)}
        picks = definition.find(exp.Limit, exp.Offset, exp.Fetch, exp.TableSample) is not None
        if self.used[id(definition)] > 1 and (picks or words & {*UNSTEADY, "rand", "uuid"}):
            raise _unsaveable_error(f"common table '{name}' is read twice and may pick other rows each time")

    # --- UNION ------------------------------------------------------------------------------------------------

    def _set_operation(self, tree: Any, common: Mapping[str, Any]) -> tuple[Any, list[IdColumn]]:
        from sqlglot import exp

        if not isinstance(tree, exp.Union):
            raise _unsaveable_error(f"{type(tree).__name__.upper()}", "a workflow step can do it")
        left, left_ids = self.query(tree.this, common)
        right, right_ids = self.query(tree.expression, common)
        by_name = bool(tree.args.get("by_name"))
        names = [IdColumn(each.relation, self._name(), each.listed) for each in (*left_ids, *right_ids)]
        first, second = names[: len(left_ids)], names[len(left_ids) :]
        after = {name: tree.args.get(name) for name in ("order", "limit", "offset")}
        for name in after:
            tree.set(name, None)
        tree.set("this", self._branch(left, left_ids, first, second, before=False))
        tree.set("expression", self._branch(right, right_ids, second, first, before=not by_name))
        distinct = bool(tree.args.get("distinct"))
        tree.set("distinct", False)
        if distinct:
            return self._grouped_rows(tree, names, after)
        for name, value in after.items():
            tree.set(name, value)
        return tree, names

    def _branch(
        self, inner: Any, own: list[IdColumn], named: list[IdColumn], others: list[IdColumn], *, before: bool
    ) -> Any:
        """One side of a union: its own ids under their new names, and empty ids for the other side, in a common
        order.
        """
        import sqlglot
        from sqlglot import exp

        mine = [exp.alias_(exp.column(old.name), new.name) for old, new in zip(own, named, strict=True)]
        theirs = [exp.alias_(sqlglot.parse_one(each.nothing, dialect="duckdb"), each.name) for each in others]
        star = self._exclude_ids(exp.Star(), own)
        behind = [*theirs, *mine] if before else [*mine, *theirs]
        alias = exp.TableAlias(this=exp.to_identifier("branch"))
        return exp.Select(expressions=[star, *behind]).from_(exp.Subquery(this=inner, alias=alias))

    def _name(self) -> str:
        return f"{self.prefix}{next(self.numbers)}"


def has_aggregate(item: exp.Expr) -> bool:
    """Whether a SELECT item contains an aggregate. Functions unknown to sqlglot are looked up in our own list."""
    from sqlglot import exp

    from lineage_service.sql.allowed_functions import AGGREGATES

    return any(
        isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES)
        for node in item.walk()
    )
