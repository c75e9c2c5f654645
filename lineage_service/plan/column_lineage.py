"""Column lineage, derived from the plan: which source columns each column is computed from, and which only influence
it.

A column *reads* the columns from which its value is computed. It is *influenced by* columns that decide which rows
exist and how they are combined: predicates, join conditions, group keys (for measures), partitions and orders of
windows, the order of a limit, both sides of intersect and difference, an exploded array. Columns that it reads are not
repeated as influences. An order alone changes no value. Group keys, and the columns of a distinct, only change how
often values of other columns occur, so they influence what counts or sums those rows, and what a limit takes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from lineage_service.plan import functions
from lineage_service.plan.expressions import BARE_FUNCTIONS, ColumnRef, Expression, SortKey, with_stars_expanded
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.plan.value_disclosure import disclosed_columns

if TYPE_CHECKING:
    from sqlglot import exp

Origins = dict[str, tuple[str, ...]]


class SourceColumn(NamedTuple):
    """A column of a source, with the workflow's names of both."""

    source: str
    column: str

    def __str__(self) -> str:
        return f"{self.source}.{self.column}"


Read = tuple[SourceColumn, ...]


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The lineage of a column: the columns that its value is computed from, those that only influence it, and whether
    its value shows that of a source column marked as personal data.
    """

    reads: Read
    influenced_by: Read
    pii: bool


def column_lineage(node: Node, known: Traced | None = None) -> dict[str, ColumnLineage]:
    """The lineage of each column of a relation, in order. `known` caches results between calls on one plan."""
    relation = _trace_relation(node, {} if known is None else known)
    return {
        name: ColumnLineage(
            value.reads,
            tuple(each for each in _unique((*value.touched, *relation.rows)) if each not in value.reads),
            value.marked,
        )
        for name, value in relation.columns.items()
    }


def column_origins(node: Node) -> Origins:
    """For each column, the `source.column` names from which its value is computed, without influences."""
    return {name: tuple(map(str, found.reads)) for name, found in column_lineage(node).items()}


# --- what is known of a relation on the way ---------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A column during the traversal. `touched` are influences of its own; `fields` are those of a struct built in the
    workflow. `marked`: its value discloses personal data. `null_marked`: it does so by being null, or not.
    """

    reads: Read = ()
    touched: Read = ()
    marked: bool = False
    null_marked: bool = False
    fields: Mapping[str, Value] | None = None

    @property
    def all(self) -> Read:
        return (*self.reads, *self.touched)


@dataclass(frozen=True)
class _Relation:
    """A relation during the traversal: its columns, what influences its rows and so every column, and its order.

    grain: the columns by which a group-by or distinct below made its rows distinct
    open: sources below whose columns are unknown without Spark
    rows_marked: whether personal data decides which rows there are
    """

    columns: dict[str, Value]
    rows: Read = ()
    order: Read = ()
    grain: Read = ()
    open: tuple[Source, ...] = field(default=())
    rows_marked: bool = False

    def __post_init__(self) -> None:
        # A step that is read twice would double them each time.
        for name in ("rows", "order", "grain", "open"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))

    def find(self, name: str) -> Value | None:
        wanted = name.lower()
        return next((value for each, value in self.columns.items() if each.lower() == wanted), None)

    def value(self, name: str, fields: Iterable[str] = ()) -> Value:
        """A column, or a field of a struct column. For a source with unknown columns, any name is accepted."""
        found = self.find(name)
        if found is None:
            wanted = [_source_value(source, name) for source in self.open]
            return wanted[0] if len(wanted) == 1 else Value(marked=any(value.marked for value in wanted))
        for each in fields:
            found = (found.fields or {}).get(each.lower(), found)
        return found


Traced = dict[str, _Relation]


def _trace_relation(node: Node, known: Traced) -> _Relation:
    if node.id not in known:
        known[node.id] = _relation(node, [_trace_relation(below, known) for below in node.inputs])
    return known[node.id]


def _relation(node: Node, inputs: list[_Relation]) -> _Relation:
    below = inputs[0] if inputs else _Relation({})
    match node:
        case Source():
            columns = {name: _source_value(node, name) for name in node.schema.names}
            return _Relation(columns, open=() if node.schema.known else (node,))
        case Filter():
            where = _value(node.where, below)
            return replace(below, rows=(*below.rows, *where.all), rows_marked=below.rows_marked or where.marked)
        case Sort():
            return replace(below, order=_order(node.by, below))
        case Limit():
            order = _order(node.by, below) if node.by else below.order
            return replace(below, rows=(*below.rows, *order, *below.grain), order=order)
        case Distinct():
            told_apart = tuple(ref for value in below.columns.values() for ref in value.all)
            return replace(below, order=(), grain=told_apart)
        case Project():
            return replace(below, columns=_compute_columns(node.columns, below), open=())
        case WithColumns():
            return replace(below, columns=_replace_columns(node, below, _compute_columns(node.columns, below)))
        case Aggregate():
            keys = _compute_columns(node.keys, below)
            by = tuple(ref for value in keys.values() for ref in value.all)
            measures = _compute_columns(node.measures, below, by, below.grain)
            return _Relation({**keys, **measures}, below.rows, grain=by, rows_marked=below.rows_marked)
        case Window():
            by = tuple(ref for name in node.partition_by for ref in below.value(name).all)
            measures = _compute_columns(node.measures, below, (*by, *_order(node.order_by, below)), below.grain)
            return replace(below, columns=_replace_columns(node, below, measures), order=())
        case Explode():
            exploded = below.value(node.column)
            columns = _replace_columns(
                node,
                below,
                {node.alias: Value(exploded.reads, exploded.touched, exploded.marked, exploded.null_marked)},
            )
            # How many rows there are of the others depends on how many elements there are.
            return replace(below, columns=columns, rows=(*below.rows, *exploded.all))
        case Join():
            return _join_relations(node, *inputs)
        case Union():
            columns = {name: _merge_values([each.value(name) for each in inputs]) for name in node.schema.names}
            rows = tuple(ref for each in inputs for ref in each.rows)
            grain = tuple(ref for each in inputs for ref in each.grain)
            return _Relation(columns, rows, grain=grain, rows_marked=any(each.rows_marked for each in inputs))
        case Intersect() | Difference():
            left, right = inputs
            matched = tuple(ref for each in inputs for name in node.schema.names for ref in each.value(name).all)
            columns = dict(left.columns)
            if isinstance(node, Intersect):
                columns = {name: _merge_values([left.value(name), right.value(name)]) for name in node.schema.names}
            copies = (*left.grain, *right.grain) if node.all else ()  # with ALL it counts how often a row is there
            marked = left.rows_marked or right.rows_marked or any(value.marked for value in left.columns.values())
            return _Relation(columns, (*left.rows, *right.rows, *matched, *copies), open=left.open, rows_marked=marked)
        case _:
            assert_never(node)


def _join_relations(node: Join, left: _Relation, right: _Relation) -> _Relation:
    sides = {"left": left, "right": right}

    def resolve_ref(ref: ColumnRef) -> Value:
        side = node.side_of(ref)
        named = ref.parts[0] in sides and len(ref.parts) > 1
        name, *fields = ref.parts[1:] if named else ref.parts
        return sides[side].value(name, fields)

    matched = [value for name in node.using for value in (left.value(name), right.value(name))]
    if node.on is not None:
        matched.append(value_of_tree(node.on.tree, resolve_ref))
    rows = (*left.rows, *right.rows, *(ref for value in matched for ref in value.all))
    shared = {name.lower() for name in node.using}

    def column(name: str) -> Value:
        if node.how in ("semi", "anti") or (name.lower() in shared and node.how == "left"):
            return left.value(name)
        if name.lower() in shared:
            # One column of two: equal where both are there, and in a full join of the side that is.
            return right.value(name) if node.how == "right" else _merge_values([left.value(name), right.value(name)])
        own = left.find(name) or right.find(name)
        return own if own is not None else _merge_values([each.value(name) for each in (left, right) if each.open])

    compared = any(value.marked for value in matched)
    rows_marked = left.rows_marked or right.rows_marked or compared
    columns = {name: column(name) for name in node.schema.names}
    if node.how in ("semi", "anti"):
        return _Relation(columns, rows, grain=left.grain, open=left.open, rows_marked=rows_marked)
    if node.absence:
        columns = _as_comparison(columns, right, matched, marked=compared or right.rows_marked)
    grain, open_ = (*left.grain, *right.grain), (*left.open, *right.open)
    return _Relation(columns, rows, grain=grain, open=open_, rows_marked=rows_marked)


def _as_comparison(
    columns: dict[str, Value], right: _Relation, matched: Iterable[Value], *, marked: bool
) -> dict[str, Value]:
    """The columns of a mark join: whether one of the right side is null is the value of an IN or EXISTS, which is
    computed from what it compares.
    """
    compared = tuple(ref for value in matched for ref in value.reads)
    return {
        name: value
        if right.find(name) is None
        else replace(value, reads=_unique((*value.reads, *compared)), null_marked=value.null_marked or marked)
        for name, value in columns.items()
    }


def _source_value(source: Source, name: str) -> Value:
    column = source.schema.find(name)
    spelled = column.name if column else name
    return Value((SourceColumn(source.step, spelled),), marked=source.is_pii(name))


def _merge_values(values: list[Value]) -> Value:
    return Value(
        _unique(ref for value in values for ref in value.reads),
        _unique(ref for value in values for ref in value.touched),
        any(value.marked for value in values),
        any(value.null_marked for value in values),
    )


def _order(keys: Iterable[SortKey], below: _Relation) -> Read:
    return tuple(ref for key in keys for ref in _value(key.expression, below).all)


def _compute_columns(
    columns: Iterable[NamedExpression], below: _Relation, touched: Read = (), counted: Read = ()
) -> dict[str, Value]:
    """Columns by their expressions. `touched` influences all of them, `counted` those that depend on the number of
    equal rows.
    """
    computed = {}
    for named in columns:
        value = _value(named.expression, below)
        more = (*touched, *counted) if _counts_copies(named.expression) else touched
        computed[named.name] = replace(value, touched=_unique((*value.touched, *more)))
    return computed


# Aggregates that give the same, however often a value is there.
_OF_SETS = frozenset({"any", "any_value", "approx_count_distinct", "bit_and", "bit_or", "bool_and", "bool_or",
                      "collect_set", "dense_rank", "every", "max", "max_by", "min", "min_by", "some"})  # fmt: skip


def _counts_copies(expression: Expression) -> bool:
    """Whether a measure may change if a row occurs twice. `count(DISTINCT …)` and similar ones do not."""
    folds = functions.AGGREGATES | functions.WINDOW_ONLY
    called = [name for name in expression.function_names if name in folds and name not in _OF_SETS]
    distinct = [token for token in expression.tokens if token.text.lower() == "distinct"]
    return len(called) > len(distinct)


def _replace_columns(node: Node, below: _Relation, new: Mapping[str, Value]) -> dict[str, Value]:
    lowered = {name.lower(): value for name, value in new.items()}
    return {name: lowered.get(name.lower()) or below.value(name) for name in node.schema.names}


# --- expressions ------------------------------------------------------------------------------------------------


def _value(expression: Expression, below: _Relation) -> Value:
    """What an expression over the columns of one relation reads."""
    expanded = with_stars_expanded(expression, tuple(below.columns))
    tree = expression.tree if expanded == expression.text else Expression(expanded).tree
    return value_of_tree(tree, lambda ref: below.value(ref.parts[0], ref.parts[1:]), below.find)


def value_of_tree(
    tree: exp.Expr, resolved: Callable[[ColumnRef], Value], find: Callable[[str], Any] = lambda _: None
) -> Value:
    """What an expression reads, in any dialect. `find` distinguishes columns from functions without parentheses."""
    from sqlglot import exp

    reads: list[SourceColumn] = []
    touched: list[SourceColumn] = []
    shown, absent = disclosed_columns(tree), disclosed_columns(tree, only_null=True)
    values: dict[int, Value] = {}
    for column in tree.find_all(exp.Column, bfs=False):
        parts = tuple(part.name for part in column.parts)
        bare = len(parts) == 1 and parts[0].lower() in BARE_FUNCTIONS and not column.this.args.get("quoted")
        if bare and find(parts[0]) is None:
            continue  # current_user and the like, where no column has the name
        value = resolved(ColumnRef(parts[:-1] if parts[-1] == "*" else parts))
        reads += value.reads
        touched += value.touched
        values[id(column)] = value
    by_value, by_null = (
        any(id(each) in values and values[id(each)].marked for each in found.by_value)
        or any(id(each) in values and values[id(each)].null_marked for each in (*found.by_value, *found.by_null))
        for found in (shown, absent)
    )
    return Value(_unique(reads), _unique(touched), by_value, by_null, _fields(tree, resolved, find))


def _fields(
    tree: exp.Expr, resolved: Callable[[ColumnRef], Value], find: Callable[[str], Any]
) -> dict[str, Value] | None:
    """The fields of a struct that is built here, so that reading one of them does not read the others."""
    from sqlglot import exp

    if isinstance(tree, exp.Column):
        parts = tuple(part.name for part in tree.parts)
        return None if parts[-1] == "*" else dict(resolved(ColumnRef(parts)).fields or {}) or None
    if not isinstance(tree, exp.Struct) or not all(isinstance(each, exp.PropertyEQ) for each in tree.expressions):
        return None
    return {each.this.name.lower(): value_of_tree(each.expression, resolved, find) for each in tree.expressions}


def _unique(refs: Iterable[SourceColumn]) -> Read:
    return tuple(dict.fromkeys(refs))
