"""GROUP BY of the oracle for SQL: keys, grouping sets and aggregate functions.

A group is a scope of its own: its keys are readable, columns that are no key are not, and the values of aggregate
functions are known beforehand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from tests.oracle.reference_expressions import Context, value_of
from tests.oracle.reference_values import Unsupported, canonical, normalised
from tests.oracle.sql_rows import Column, RowScope, SqlRow, Touched, merge_traces, positions_of
from tests.oracle.sql_subqueries import operands_of, outside_subqueries


@dataclass(frozen=True)
class Grouping:
    """The analysed GROUP BY of one SELECT; the same for every row of the query around it."""

    keys: list[exp.Expression]
    sets: list[tuple[int, ...]]  # positions of keys
    has_sets: bool
    aggregates: list[exp.Expression]  # aggregate functions of SELECT, HAVING, QUALIFY and ORDER BY
    key_nodes: list[tuple[exp.Expression, int]]  # nodes of these clauses that repeat a key
    markers: list[exp.Expression]  # grouping() and grouping_id()
    key_columns: dict[int, int]  # position of a column -> the key that it is


def aggregates_in(node: exp.Expression) -> Iterator[exp.Expression]:
    """The aggregate functions of an expression; not those of subqueries, and not the function of a window itself."""
    operands = operands_of(node)
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        inside = [*function.iter_expressions(), *(node.args.get("partition_by") or []), node.args.get("order")]
        for child in inside:
            if isinstance(child, exp.Expression):
                yield from aggregates_in(child)
    elif isinstance(node, exp.Filter | exp.AggFunc) and not isinstance(node, exp.Grouping | exp.GroupingId):
        yield node
    else:
        for child in node.iter_expressions() if operands is None else operands:
            yield from aggregates_in(child)


def analyse_groups(select: exp.Select, items: list[tuple[str, exp.Expression]], columns: Sequence[Column]):
    """The grouping of a SELECT; None where it has none."""
    clauses = [node for _, node in items]
    clauses += [select.args[name] for name in ("having", "qualify", "order") if select.args.get(name)]
    aggregates = [node for clause in clauses for node in aggregates_in(clause)]
    group = select.args.get("group")
    if group is None and not aggregates and not select.args.get("having"):
        return None
    keys, sets, has_sets = keys_and_sets(group, items, columns) if group else ([], [()], False)
    names = [fingerprint(key, columns) for key in keys]
    key_nodes, markers = [], []
    outputs = {name.lower() for name, _ in items}
    for clause in clauses:
        for node in outside_subqueries(clause):
            is_output = isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() in outputs
            if is_output and isinstance(clause, exp.Order):
                continue  # in ORDER BY an output column wins over a key of that name
            if isinstance(node, exp.Grouping | exp.GroupingId):
                markers.append(node)
            elif not isinstance(node, exp.Literal) and (name := fingerprint(node, columns)) in names:
                key_nodes.append((node, names.index(name)))
    key_columns = {}
    for i, key in enumerate(keys):
        if isinstance(key, exp.Column):
            positions, _ = positions_of(columns, [part.name for part in key.parts])
            key_columns |= dict.fromkeys(positions, i)
    return Grouping(keys, sets, has_sets, aggregates, key_nodes, markers, key_columns)


def fingerprint(node: exp.Expression, columns: Sequence[Column]) -> str:
    """The expression as text with its columns resolved, so that `t.a` and `a` are the same."""

    def resolved(each: exp.Expression) -> exp.Expression:
        if isinstance(each, exp.Column) and not isinstance(each.this, exp.Star):
            positions, used = positions_of(columns, [part.name for part in each.parts])
            if len(positions) == 1:
                rest = "".join(f".{part.name.lower()}" for part in each.parts[used:])
                return exp.to_identifier(f"${positions[0]}{rest}")
        return exp.to_identifier(each.name.lower()) if isinstance(each, exp.Identifier) else each

    while isinstance(node, exp.Paren):
        node = node.this
    return node.copy().transform(resolved).sql("spark")


def keys_and_sets(group: exp.Group, items, columns) -> tuple[list, list[tuple[int, ...]], bool]:
    keys: list[exp.Expression] = []
    names: list[str] = []

    def position(node: exp.Expression) -> int:
        node = grouped_item(node, items, columns)
        name = fingerprint(node, columns)
        if name not in names:
            keys.append(node)
            names.append(name)
        return names.index(name)

    def part(node: exp.Expression) -> tuple[int, ...]:
        """One entry, which may be several keys in parentheses."""
        inside = node.expressions if isinstance(node, exp.Tuple) else [unwrapped(node)]
        return tuple(position(each) for each in inside)

    def sets_of(node: exp.Expression) -> list[tuple[int, ...]]:
        match node:
            case exp.Rollup():
                parts = [part(each) for each in node.expressions]
                return [joined(parts[:n]) for n in range(len(parts), -1, -1)]
            case exp.Cube():
                parts = [part(each) for each in node.expressions]
                sizes = range(len(parts), -1, -1)
                return [joined(chosen) for n in sizes for chosen in combinations(parts, n)]
            case exp.GroupingSets():
                return [
                    each for entry in node.expressions for each in (sets_of(entry) if is_sets(entry) else [part(entry)])
                ]
        return [part(node)]

    if group.args.get("all"):
        plain = [node for _, node in items if not list(aggregates_in(node))]
        return [*plain], [tuple(range(len(plain)))], False
    expressions = list(group.expressions)
    trailing = [*(group.args.get("rollup") or []), *(group.args.get("cube") or [])]
    if trailing:  # GROUP BY a, b WITH ROLLUP
        expressions = [type(trailing[0])(expressions=[node.copy() for node in expressions])]
    if group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (…)
        for node in expressions:
            position(node)
        expressions = group.args["grouping_sets"]
    entries = [sets_of(node) for node in expressions]
    has_sets = any(is_sets(node) for node in expressions)
    return keys, [joined(chosen) for chosen in product(*entries)], has_sets


def is_sets(node: exp.Expression) -> bool:
    return isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets)


def joined(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(i for part in parts for i in part))


def unwrapped(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def grouped_item(node: exp.Expression, items, columns) -> exp.Expression:
    """The expression that GROUP BY means: an ordinal or an alias stands for an entry of the SELECT list."""
    if isinstance(node, exp.Literal) and node.is_int:
        return items[int(node.this) - 1][1]
    if isinstance(node, exp.Column) and len(node.parts) == 1 and not positions_of(columns, [node.name])[0]:
        for name, item in items:
            if name.lower() == node.name.lower():
                return item
    return node


def group_rows(
    grouping: Grouping, scopes: list[RowScope], columns: Sequence[Column], outer: RowScope | None, touched: Touched
) -> list[RowScope]:
    """The groups of every grouping set, each with the rows of the group within its set."""
    keyed = [([value_of(key, Context(scope)) for key in grouping.keys], scope) for scope in scopes]
    result = []
    for chosen in grouping.sets:
        groups: dict = {}
        for values, scope in keyed:
            key = [value if i in chosen else None for i, value in enumerate(values)]
            groups.setdefault(canonical(key), (normalised(key), []))[1].append(scope)
        if not groups and not grouping.keys:
            groups[()] = ([], [])
        result += [
            group_scope(grouping, chosen, key, members, columns, outer, touched) for key, members in groups.values()
        ]
    return result


def group_scope(grouping, chosen, key, members: list[RowScope], columns, outer, touched) -> RowScope:
    values = tuple(key[grouping.key_columns[i]] if i in grouping.key_columns else None for i in range(len(columns)))
    trace = merge_traces([member.trace for member in members])
    scope = RowScope(columns, SqlRow(values, trace), outer, touched, members)
    scope.unreadable = frozenset(i for i in range(len(columns)) if i not in grouping.key_columns)
    # An aggregate may read columns of the query around it, also where the group is empty.
    nobody = RowScope((), SqlRow(()), outer, touched)
    for node in grouping.aggregates:
        scope.known[id(node)] = aggregate_value(node, members, nobody)
    for node, i in grouping.key_nodes:
        scope.known[id(node)] = key[i]
    for node in grouping.markers:
        scope.known[id(node)] = marker_value(node, grouping, chosen, columns)
    return scope


def aggregate_value(node: exp.Expression, members: list[RowScope], nobody: RowScope):
    return value_of(node, Context(members[0] if members else nobody, list(members)))


def marker_value(node: exp.Expression, grouping: Grouping, chosen: tuple[int, ...], columns) -> int:
    """grouping(a): 1 where a is not among the keys of the set; grouping_id: these as bits, the first one highest."""
    if not grouping.has_sets:
        raise Unsupported("grouping() without grouping sets")
    names = [fingerprint(key, columns) for key in grouping.keys]
    arguments = node.expressions or ([node.this] if isinstance(node.this, exp.Expression) else [])
    if not arguments:
        positions = list(range(len(names)))
    else:
        positions = [names.index(fingerprint(argument, columns)) for argument in arguments]
    result = 0
    for position in positions:
        result = result * 2 + (position not in chosen)
    return result
