"""Touched rows computed anew without Spark: by DuckDB, over the files themselves, where every expression surely means
the same to both (capture/direct_indexing.py), and the dataset is one group-by, or none, over filters, projections,
inner joins and unions. Anything else is Spark's. Pure text; `NotTranslatable` where something is not provably alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from lineage_service.capture.direct_indexing import (
    MOST_DIGITS,
    WHOLE,
    ComparableType,
    NotTranslatable,
    Translator,
    comparable_type,
)
from lineage_service.plan.conjuncts import plain_name
from lineage_service.plan.expressions import Expression
from lineage_service.plan.mergeable_measures import NotMergeable, parse_measure
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
    Union,
    WithColumns,
)
from lineage_service.sql.measure_values import measure_sql, sum_type
from lineage_service.store.duckdb_engine import column, private_column
from lineage_service.store.version_scan import RID, duckdb_type

MEMBERS = private_column("members")


@dataclass(frozen=True)
class TypedColumn:
    """A column of a relation: its name there, and what is known of its type."""

    name: str
    kind: ComparableType
    spark_type: str | None = None
    origins: frozenset[tuple[int, str]] = frozenset()  # columns of leaves, by occurrence, that it must equal

    @property
    def sql(self) -> str:
        return f"t.{column(self.name)}"


@dataclass(frozen=True)
class DuckDbRelation:
    """A relation in DuckDB's words: its columns, and the handles behind them, each of an occurrence of a leaf."""

    text: str
    columns: tuple[TypedColumn, ...]
    handles: tuple[int, ...]

    def find(self, name: str) -> TypedColumn:
        found = next((each for each in self.columns if each.name.lower() == name.lower()), None)
        if found is None:
            raise NotTranslatable
        return found

    @property
    def select_list(self) -> str:
        """Its columns and handles, to be taken over as they are."""
        return ", ".join([*(each.sql for each in self.columns), *(f"t.{handle_column(each)}" for each in self.handles)])


def handle_column(occurrence: int) -> str:
    return private_column(f"h{occurrence}")


@dataclass
class Leaves:
    """The datasets that are read, each time that they are read: `rows` is SQL of one occurrence's rows with `_rid`."""

    columns: Mapping[str, Sequence[tuple[str, str, bool]]]  # by node: name, Spark's type, whether it is read alike
    rows: Callable[[int, str, Sequence[str]], str]
    occurrences: list[str] = field(default_factory=list)


class DuckDbPlan:
    """The rows of a tree of operators without a breaker."""

    def __init__(self, leaves: Leaves) -> None:
        self.leaves = leaves

    def rows(self, node: Node) -> DuckDbRelation:
        self.leaves.occurrences.clear()
        return self._rows(node)

    def _rows(self, node: Node) -> DuckDbRelation:
        if node.id in self.leaves.columns:
            return self._leaf(node)
        if not node.repeatable:
            raise NotTranslatable
        match node:
            case Filter():
                below = self._rows(node.input)
                where = predicate_sql(node.where, below)
                return DuckDbRelation(f"SELECT t.* FROM ({below.text}) t WHERE {where}", below.columns, below.handles)
            case Sort():
                return self._rows(node.input)
            case Project() | WithColumns():
                return project_columns(node, self._rows(node.input))
            case Union():
                return self._union([self._rows(each) for each in node.inputs])
            case Join(how="inner") if node.equi_condition is not None:
                return self._join(node, self._rows(node.left), self._rows(node.right))
            case _:
                raise NotTranslatable

    def _leaf(self, node: Node) -> DuckDbRelation:
        number = len(self.leaves.occurrences)
        self.leaves.occurrences.append(node.id)
        columns = []
        for name, spark_type, alike in self.leaves.columns[node.id]:
            kind = comparable_type(spark_type) if alike else None
            if kind is None and alike and spark_type in ("double", "float"):
                kind = ComparableType(spark_type)
            if kind is not None:
                columns.append(TypedColumn(name, kind, spark_type, frozenset({(number, name)})))
        rows = self.leaves.rows(number, node.id, [each.name for each in columns])
        shown = ", ".join([*(each.sql for each in columns), f"t.{RID} AS {handle_column(number)}"])
        return DuckDbRelation(f"SELECT {shown} FROM ({rows}) t", tuple(columns), (number,))

    def _union(self, branches: list[DuckDbRelation]) -> DuckDbRelation:
        handles = [each for branch in branches for each in branch.handles]
        columns = branches[0].columns
        parts = []
        for branch in branches:
            own = [branch.find(each.name) for each in columns]
            if any(
                (one.kind, one.spark_type) != (each.kind, each.spark_type)
                for one, each in zip(own, columns, strict=True)
            ):
                raise NotTranslatable
            shown = [f"{one.sql} AS {column(each.name)}" for one, each in zip(own, columns, strict=True)]
            shown += [
                f"t.{handle_column(n)}" if n in branch.handles else f"NULL::BIGINT AS {handle_column(n)}"
                for n in handles
            ]
            parts.append(f"SELECT {', '.join(shown)} FROM ({branch.text}) t")
        apart = tuple(replace(each, origins=frozenset()) for each in columns)
        return DuckDbRelation(" UNION ALL ".join(parts), apart, tuple(handles))

    def _join(self, node: Join, left: DuckDbRelation, right: DuckDbRelation) -> DuckDbRelation:
        sides = {"left": left, "right": right}

        def resolve(parts: tuple[str, ...]) -> tuple[str, ComparableType]:
            if len(parts) == 2 and parts[0] in sides:
                side, name = parts
            elif len(parts) == 1:
                (name,) = parts
                side = "left" if any(each.name.lower() == name.lower() for each in left.columns) else "right"
            else:
                raise NotTranslatable
            found = sides[side].find(name)
            return f"{side[0]}.{column(found.name)}", found.kind

        if node.on is not None:
            on = ValueTranslator(resolve).translate_predicate(node.on)
        else:
            on = " AND ".join(
                ValueTranslator(resolve).column_comparison(resolve(("left", name)), "=", resolve(("right", name)))
                for name in node.using
            )
        shared = {name.lower() for name in node.using}
        equal = self._equal_origins(node, left, right)
        shown: list[str] = []
        columns: list[TypedColumn] = []
        for name in node.schema.names:
            found = next(
                (
                    (side, each)
                    for side, near in sides.items()
                    for each in near.columns
                    if each.name.lower() == name.lower() and not (side == "right" and name.lower() in shared)
                ),
                None,
            )
            if found is not None:
                shown.append(f"{found[0][0]}.{column(found[1].name)} AS {column(name)}")
                columns.append(replace(found[1], name=name, origins=equal.get(found[1].origins, found[1].origins)))
        handles = [f"{side[0]}.{handle_column(each)}" for side, near in sides.items() for each in near.handles]
        text = f"SELECT {', '.join([*shown, *handles])} FROM ({left.text}) l JOIN ({right.text}) r ON {on}"
        return DuckDbRelation(text, tuple(columns), (*left.handles, *right.handles))

    def _equal_origins(
        self, node: Join, left: DuckDbRelation, right: DuckDbRelation
    ) -> dict[frozenset[tuple[int, str]], frozenset[tuple[int, str]]]:
        """Of columns that the join makes equal: the origins of both, by those of each."""
        found = {}
        for texts in node.equi_condition.keys if node.equi_condition is not None else ():
            names = [plain_name(text) for text in texts]
            if names[0] is None or names[1] is None:
                continue
            one, other = left.find(names[0]), right.find(names[1])
            if one.kind == other.kind and one.origins and other.origins:
                found[one.origins] = found[other.origins] = one.origins | other.origins
        return found


def project_columns(node: Project | WithColumns, below: DuckDbRelation) -> DuckDbRelation:
    """New columns; of those that cannot be computed here nobody may ask."""
    new: dict[str, tuple[str, TypedColumn]] = {}
    for named in node.columns:
        if named.expression.is_generator:
            raise NotTranslatable
        try:
            text, typed = named_value_sql(named, below)
        except NotTranslatable:
            continue
        new[named.name.lower()] = (text, typed)
    replaced = {named.name.lower() for named in node.columns}
    kept = (
        [each for each in below.columns if each.name.lower() not in replaced] if isinstance(node, WithColumns) else []
    )
    shown = [*(each.sql for each in kept), *(f"{text} AS {column(each.name)}" for text, each in new.values())]
    extra = [f"t.{handle_column(each)}" for each in below.handles] or [f"t.{MEMBERS}"]
    text = f"SELECT {', '.join([*shown, *extra])} FROM ({below.text}) t"
    return DuckDbRelation(text, (*kept, *(each for _, each in new.values())), below.handles)


def named_value_sql(named: NamedExpression, below: DuckDbRelation) -> tuple[str, TypedColumn]:
    """An expression's value and type; of a plain column whatever that has."""
    refs = named.expression.columns
    if len(refs) == 1 and len(refs[0].parts) == 1 and len(named.expression.tokens) == 1:
        found = below.find(refs[0].parts[0])
        return found.sql, replace(found, name=named.name)
    text, kind = ValueTranslator(_column_resolver(below)).translate_value(named.expression)
    return text, TypedColumn(named.name, kind)


def predicate_sql(expression: Expression, below: DuckDbRelation) -> str:
    return ValueTranslator(_column_resolver(below)).translate_predicate(expression)


def _column_resolver(below: DuckDbRelation) -> Callable[[tuple[str, ...]], tuple[str, ComparableType]]:
    def resolve(parts: tuple[str, ...]) -> tuple[str, ComparableType]:
        if len(parts) != 1:
            raise NotTranslatable
        found = below.find(parts[0])
        return found.sql, found.kind

    return resolve


@dataclass(frozen=True)
class _ResolvedColumn:
    sql: str
    kind: ComparableType


class ValueTranslator(Translator):
    """Predicates as elsewhere; and values: sums, differences and products that both engines compute alike."""

    def __init__(self, resolve: Callable[[tuple[str, ...]], tuple[str, ComparableType]]) -> None:
        super().__init__(lambda parts: _ResolvedColumn(*resolve(parts)))  # type: ignore[arg-type,return-value]

    def translate_predicate(self, expression: Expression) -> str:
        if "\\" in expression.text or expression.is_deep:
            raise NotTranslatable
        return self.predicate(expression.tree)

    def translate_value(self, expression: Expression) -> tuple[str, ComparableType]:
        if "\\" in expression.text or expression.is_deep:
            raise NotTranslatable
        return self.value(expression.tree)

    def comparison(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        """Also floating-point numbers with each other, and with a number that is spelled out and that they can hold."""
        for one, other in ((left, right), (right, left)):
            if isinstance(other, exp.Literal) and not other.is_string and len(other.name) <= 15:
                text, kind = self.value(one)
                if kind.family == "double":
                    number = f"CAST({other.name} AS DOUBLE)"
                    return f"({text} {word} {number})" if one is left else f"({number} {word} {text})"
        return super().comparison(left, word, right)

    def column_comparison(self, one: tuple[str, ComparableType], word: str, other: tuple[str, ComparableType]) -> str:
        from lineage_service.capture.direct_indexing import is_comparison_portable

        if not is_comparison_portable(one[1], other[1]) or "double" in (one[1].family, other[1].family):
            raise NotTranslatable
        return f"({one[0]} {word} {other[0]})"

    def value(self, tree: exp.Expr) -> tuple[str, ComparableType]:
        if isinstance(tree, exp.Paren):
            text, kind = self.value(tree.this)
            return f"({text})", kind
        if isinstance(tree, exp.Case):
            return self._case(tree)
        words: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
        if type(tree) in words and not isinstance(tree.expression, exp.Interval):
            one, other = self.value(tree.this), self.value(tree.expression)
            kind = _arithmetic_type(type(tree), one, other, tree)
            return f"({one[0]} {words[type(tree)]} {other[0]})", kind
        return super().value(tree)

    def _case(self, tree: exp.Case) -> tuple[str, ComparableType]:
        """Branches of one type, each taken by a predicate."""
        if tree.this is not None:
            raise NotTranslatable
        parts, kinds = [], set()
        for branch in tree.args["ifs"]:
            text, kind = self.value(branch.args["true"])
            parts.append(f"WHEN {self.predicate(branch.this)} THEN {text}")
            kinds.add(kind)
        if tree.args.get("default") is not None:
            text, kind = self.value(tree.args["default"])
            parts.append(f"ELSE {text}")
            kinds.add(kind)
        if len(kinds) != 1:
            raise NotTranslatable
        return f"(CASE {' '.join(parts)} END)", kinds.pop()


def _arithmetic_type(
    operator: type, one: tuple[str, ComparableType], other: tuple[str, ComparableType], tree: exp.Expr
) -> ComparableType:
    """The type of a sum, a difference or a product, as Spark has it. Whole numbers stay whole; too large ones are an
    error in both. Of decimals all digits must fit, else Spark rounds."""
    kinds = [one[1], other[1]]
    families = {kind.family for kind in kinds}
    if families == {"whole"}:
        return max(kinds, key=lambda kind: kind.whole)
    if families - {"whole", "decimal"}:
        raise NotTranslatable
    digits = [_exact_digits(kind, side) for kind, side in zip(kinds, (tree.this, tree.expression), strict=True)]
    (whole, scale), (whole2, scale2) = digits
    if operator is exp.Mul:
        found = whole + whole2 + 1, scale + scale2
    else:
        found = max(whole, whole2) + 1, max(scale, scale2)
    if sum(found) > MOST_DIGITS:
        raise NotTranslatable
    return ComparableType("decimal", *found)


def _exact_digits(kind: ComparableType, tree: exp.Expr) -> tuple[int, int]:
    """Digits before and behind the point; a whole number that is spelled out has as many as it has."""
    while isinstance(tree, exp.Paren | exp.Neg):
        tree = tree.this
    if kind.family == "whole" and isinstance(tree, exp.Literal):
        return len(str(int(tree.name))), 0
    return kind.whole, kind.scale


# --- group-bys ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupByShape:
    """A dataset as one group-by (or none) over a tree without a breaker, and what is done to its rows above."""

    above: tuple[Node, ...]  # from the group-by up to the dataset
    breaker: Aggregate | Distinct | None
    tree: Node
    limit: Limit | None = None  # the dataset itself, where it takes the first rows of an order


def group_by_shape(node: Node, leaves: Mapping[str, object]) -> GroupByShape:
    """NotTranslatable for any other shape."""
    if isinstance(node, Limit) and node.by and node.id not in leaves:
        below = group_by_shape(node.input, leaves)
        if below.breaker is None or below.limit is not None:
            raise NotTranslatable
        return replace(below, limit=node)
    above: list[Node] = []
    at = node
    while at.id not in leaves and isinstance(at, Filter | Project | WithColumns | Sort):
        above.append(at)
        at = at.input
    if at.id not in leaves and isinstance(at, Aggregate | Distinct):
        if isinstance(at, Aggregate) and not at.keys:
            raise NotTranslatable
        return GroupByShape(tuple(reversed(above)), at, at.input)
    return GroupByShape((), None, node)


def group_keys(breaker: Aggregate | Distinct, rows: DuckDbRelation) -> list[tuple[str, TypedColumn]]:
    """The keys of a group-by: SQL over its rows as `t`, and what they are called."""
    if isinstance(breaker, Distinct):
        found = [(each.sql, each) for each in (rows.find(name) for name in breaker.schema.names)]
    else:
        found = [named_value_sql(key, rows) for key in breaker.keys]
    if any(each.kind.family in ("double", "float") for _, each in found):
        raise NotTranslatable
    return found


def group_rows(
    breaker: Aggregate | Distinct, rows: DuckDbRelation, where: str = "", *, members: bool = True
) -> DuckDbRelation:
    """Groups with their measures, and the list of their members, where anybody asks for those."""
    keys = group_keys(breaker, rows)
    shown = [f"{text} AS {column(each.name)}" for text, each in keys]
    columns = [each for _, each in keys]
    for named in breaker.measures if isinstance(breaker, Aggregate) else ():
        text, typed = _measure_sql(named, rows)
        shown.append(f"{text} AS {column(named.name)}")
        columns.append(typed)
    packed = ", ".join(f"{handle_column(each)} := t.{handle_column(each)}" for each in rows.handles)
    by = ", ".join(text for text, _ in keys)
    shown.append(f"{f'list(struct_pack({packed}))' if members else 'NULL'} AS {MEMBERS}")
    text = f"SELECT {', '.join(shown)} FROM ({rows.text}) t{where} GROUP BY {by}"
    return DuckDbRelation(text, tuple(columns), ())


def _measure_sql(named: NamedExpression, rows: DuckDbRelation) -> tuple[str, TypedColumn]:
    """A measure: an aggregate, or one that is rounded."""
    tree = named.expression.tree
    if not isinstance(tree, exp.Round) or not named.expression.text.strip().lower().startswith("round("):
        return _aggregate_sql(named, rows)
    digits = tree.args.get("decimals")
    places = int(digits.name) if isinstance(digits, exp.Literal) and digits.name.isdigit() else 0
    if (digits is not None and not isinstance(digits, exp.Literal)) or places > 6:
        raise NotTranslatable
    inside = named.expression.text.strip()[len("round(") : -1]
    inside = inside if digits is None else inside.rpartition(",")[0]
    text, typed = _aggregate_sql(replace(named, expression=Expression(inside)), rows)
    if typed.kind.family == "decimal":
        return f"round({text}, {places})", TypedColumn(
            named.name, ComparableType("decimal", typed.kind.whole + 1, places)
        )
    if typed.kind.family != "double":
        raise NotTranslatable
    # Spark rounds the number as it is written down, half away from zero.
    written = f"CAST(CAST({text} AS VARCHAR) AS DECIMAL(38,24))"
    return f"CAST(round({written}, {places}) AS DOUBLE)", typed


def _aggregate_sql(named: NamedExpression, rows: DuckDbRelation) -> tuple[str, TypedColumn]:
    try:
        measure = parse_measure(named.name, named.expression.text)
    except NotMergeable:
        raise NotTranslatable from None
    if measure.argument is None:
        return "CAST(count(*) AS BIGINT)", TypedColumn(
            named.name, comparable_type("bigint") or ComparableType("whole"), "bigint"
        )
    text, kind = ValueTranslator(_column_resolver(rows)).translate_value(Expression(measure.argument))
    whole = ComparableType("whole", WHOLE["bigint"])
    if measure.function == "count":
        inner = f"DISTINCT {text}" if measure.distinct else text
        if measure.distinct and kind.family in ("double", "float"):
            raise NotTranslatable
        return f"CAST(count({inner}) AS BIGINT)", TypedColumn(named.name, whole, "bigint")
    if measure.function in ("min", "max"):
        return f"{measure.function}({text})", TypedColumn(named.name, kind)
    plain = _duckdb_type_name(kind)
    if measure.function == "sum":
        if kind.family == "whole":
            return f"CAST(sum({text}) AS BIGINT)", TypedColumn(named.name, whole, "bigint")
        if kind.family == "decimal":
            after = min(MOST_DIGITS, kind.whole + kind.scale + 10)
            return f"CAST(sum({text}) AS {sum_type(plain)})", TypedColumn(
                named.name, ComparableType("decimal", after - kind.scale, kind.scale)
            )
        return f"sum(CAST({text} AS DOUBLE))", TypedColumn(named.name, ComparableType("double"), "double")
    if kind.family == "decimal":
        part = "part_of_average"
        inner = (
            measure_sql(measure, part, plain, one=True)
            .replace(f"{part}_n", f"count({text})")
            .replace(part, f"sum({text})")
        )
        return inner, TypedColumn(named.name, ComparableType("decimal", kind.whole, kind.scale + 4))
    # As Spark does it: each number as a floating-point one, then their sum.
    return f"(sum(CAST({text} AS DOUBLE)) / nullif(count({text}), 0))", TypedColumn(
        named.name, ComparableType("double"), "double"
    )


def _duckdb_type_name(kind: ComparableType) -> str:
    if kind.family == "decimal":
        return f"DECIMAL({kind.whole + kind.scale},{kind.scale})"
    if kind.family == "whole":
        return "BIGINT"
    if kind.family in ("double", "float"):
        return "DOUBLE"
    raise NotTranslatable


def apply_above_groups(nodes: Sequence[Node], groups: DuckDbRelation) -> DuckDbRelation:
    """What is done to the rows of a group-by, each of which stays one row."""
    rows = groups
    for node in nodes:
        match node:
            case Filter():
                if not node.repeatable:
                    raise NotTranslatable
                where = predicate_sql(node.where, rows)
                rows = DuckDbRelation(f"SELECT t.* FROM ({rows.text}) t WHERE {where}", rows.columns, ())
            case Project() | WithColumns():
                rows = project_columns(node, rows)
            case Sort():
                pass
            case _:
                raise NotTranslatable
    return rows


def order_terms(node: Limit | Sort, rows: DuckDbRelation) -> list[tuple[str, str]]:
    """What a step orders by: values over its rows as `t`, and how."""
    found = []
    for key in node.by:
        text, _ = named_value_sql(NamedExpression("by", key.expression), rows)
        nulls = "NULLS FIRST" if key.nulls_first else "NULLS LAST"
        found.append((text, f"{'DESC' if key.descending else 'ASC'} {nulls}"))
    return found


def select_as_spark_types(rows: DuckDbRelation, columns: Sequence[tuple[str, str]], extra: str) -> str:
    """The columns of a dataset in the types that Spark gave them."""
    shown = []
    for name, spark_type in columns:
        kind = duckdb_type(spark_type)
        if kind is None:
            raise NotTranslatable
        shown.append(f"CAST({rows.find(name).sql} AS {kind}) AS {column(name)}")
    return f"SELECT {', '.join(shown)}{extra} FROM ({rows.text}) t"
