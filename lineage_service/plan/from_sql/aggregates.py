"""GROUP BY and aggregate functions. Keys and measures become columns, which all later clauses read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.correlation import (
    keep_empty_groups,
    only_where,
    refuse_function_of_order,
    refuse_outer_columns,
    with_renamed_outer,
)
from lineage_service.plan.from_sql.expression_texts import aggregate_calls, call_name, normalise, window_nodes
from lineage_service.plan.from_sql.grouping_sets import (
    MultipliedRows,
    grouping_entries,
    grouping_sets,
    is_sets,
    multiply_rows,
    plain_keys,
)
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.select_list import SelectItem, ordinal
from lineage_service.plan.nodes import Aggregate, NamedExpression
from lineage_service.plan.window_measures import GROUPING

if TYPE_CHECKING:
    from sqlglot import exp


def group_rows(block: BlockState, select: exp.Expr, items: Sequence[SelectItem], readers: Iterable[exp.Expr]) -> None:
    """Groups the rows; `readers` are the expressions that read groups: their aggregate functions become measures."""
    context = block.context
    for reader in readers:
        for call in aggregate_calls(context, reader):
            context.attach_subqueries(block, call)
    keys = _Keys(block, items)
    group = select.args.get("group")
    place = group or select
    multiplied = None
    if group is not None:
        sets = _read_group_by(keys, group, items)
        context.reuse_subqueries(block, group.expressions, readers)
        multiplied = multiply_rows(block, group, sets) if sets is not None else None
    carried = block.carried
    has_row = keep_empty_groups(block, select) if carried and not keys.found else None
    measures: dict[str, NamedExpression] = {}
    computed = dict(block.texts.computed)
    for reader in readers:
        for call in aggregate_calls(context, reader):
            if call_name(context, call) in GROUPING:
                computed[id(call)] = _grouping_expression(keys, call, multiplied)
                continue
            if any(window_nodes(call)):
                raise refuse(call, "a window function inside an aggregate function")
            refuse_outer_columns(block, call)
            refuse_function_of_order(block, call, call_name(context, call))
            text = block.texts.text(call)
            text = only_where(text, has_row) if has_row is not None else text
            measure = measures.get(text)
            if measure is None:
                expression = context.expression(text, call)
                if expression.nests_aggregates:
                    raise refuse(call, "an aggregate function inside another", "compute the inner one in a subquery")
                name = context.names.fresh("agg", call_name(context, call))
                measures[text] = measure = NamedExpression(name, expression)
            computed[id(call)] = measure.name
    if group is None and not measures:
        raise refuse(select, "HAVING without GROUP BY and without an aggregate function is not supported in sql steps")
    named = (*(NamedExpression(each, context.scalar(each, place)) for each in block.carried), *keys.named(multiplied))
    if not named and not measures:  # one group of all rows, of which nothing is read
        measures[""] = NamedExpression(context.names.fresh("agg", "count"), context.expression("count(1)", place))
    block.node = context.make(Aggregate, "group", place, block.node, named, tuple(measures.values()))
    readable = frozenset(key.name for key in named)
    texts, below = keys.texts, block.texts.computed
    computed |= {node: texts[normalise(text)] for node, text in computed.items() if normalise(text) in texts}
    block.texts = replace(block.texts, computed=computed, keys=texts, readable=readable, below=below)
    with_renamed_outer(block, carried)


def _read_group_by(keys: _Keys, group: exp.Expr, items: Sequence[SelectItem]) -> tuple[tuple[int, ...], ...] | None:
    """Notes the keys of a GROUP BY; its sets where it has any."""
    for key, value in group.args.items():
        if value and key not in ("expressions", "rollup", "cube", "grouping_sets", "all"):
            raise refuse(group, f"GROUP BY {key.upper()} is not supported in sql steps")
    if not any(group.args.get(key) for key in ("expressions", "grouping_sets", "all")):
        raise refuse(group, "GROUP BY has no expressions", "name columns, or write ALL")
    if group.args.get("all"):
        for item in items:
            if item.node is None or not any(aggregate_calls(keys.block.context, item.node)):
                keys.add_item(item, item.place)
        return None
    for each in plain_keys(group):
        keys.add(each)
    entries = grouping_entries(group)
    sets = grouping_sets(group, entries, keys.add)
    if sets == ((),):
        return None  # as no GROUP BY: one group, also of no rows
    if not keys.found and len(sets) > 1:
        raise refuse(group, "several grouping sets without any key are not supported in sql steps")
    return sets if any(map(is_sets, entries)) else None


def _grouping_expression(keys: _Keys, call: exp.Expr, multiplied: MultipliedRows | None) -> str:
    """grouping() or grouping_id() as an expression over the number of the set."""
    name = str(call_name(keys.block.context, call))
    if multiplied is None:
        raise refuse(call, f"{name}() needs grouping sets, and this GROUP BY has none", "use it with ROLLUP or CUBE")
    numbers = [keys.number_of(each) for each in call.expressions]
    for number, each in zip(numbers, call.expressions, strict=True):
        if number is None:
            raise refuse(each, f"the argument of {name}() is not a key of GROUP BY")
    listed = [number for number in numbers if number is not None]
    if name == "grouping":
        if len(listed) != 1:
            raise refuse(call, f"grouping() takes one key, and this has {len(listed)}")
        return f"CAST({multiplied.grouping_id(listed)} AS TINYINT)"
    every = list(range(len(keys.found)))
    if listed and listed != every:
        raise refuse(call, "grouping_id() takes all keys of GROUP BY in their order", "omit the arguments")
    return f"({multiplied.grouping_id(every)})"


@dataclass
class _Keys:
    """The keys of a GROUP BY, in their order.

    found: the column and the text of each · texts: for those that are no column, the column by the normalised text.
    """

    block: BlockState
    items: Sequence[SelectItem]
    found: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, each: exp.Expr) -> int:
        """The number of the key that an entry means: an ordinal or an alias stands for an entry of the SELECT list."""
        from sqlglot import exp

        while isinstance(each, exp.Paren):
            each = each.this
        if is_sets(each) or isinstance(each, exp.Tuple):
            raise refuse(each, "grouping sets that are nested like this are not supported in sql steps")
        place = ordinal(each, len(self.items), "GROUP BY")
        item = self.items[place - 1] if place is not None else _alias_of(self.block, each, self.items)
        if item is not None:
            return self.add_item(item, each)
        return self._add_node(each, each, None)

    def add_item(self, item: SelectItem, place: exp.Expr) -> int:
        if item.generated:
            raise refuse(place, "GROUP BY cannot contain a function that returns several rows", "use LATERAL VIEW")
        if item.column is not None:
            return self._add_text(item.column.internal, place, item.name)
        assert item.node is not None
        return self._add_node(item.node, place, item.name)

    def number_of(self, node: exp.Expr) -> int | None:
        text = self.block.texts.text(node)
        name = self.texts.get(normalise(text), text)
        return list(self.found).index(name) if name in self.found else None

    def named(self, multiplied: MultipliedRows | None) -> tuple[NamedExpression, ...]:
        """The keys of the Aggregate; with the number of the set where there are sets."""
        context, keys = self.block.context, []
        for number, (name, (text, place)) in enumerate(self.found.items()):
            if multiplied is not None and context.scalar(text, place).is_volatile:
                raise refuse(
                    place,
                    "grouping sets by an expression that is not repeatable, such as rand(), are not supported in sql "
                    "steps",
                )
            shown = text if multiplied is None else multiplied.key_text(number, text)
            keys.append(NamedExpression(name, context.scalar(shown, place)))
        if multiplied is not None:
            keys.append(NamedExpression(multiplied.column, context.expression(multiplied.column, 0)))
        return tuple(keys)

    def _add_node(self, node: exp.Expr, place: exp.Expr, name: str | None) -> int:
        for call in aggregate_calls(self.block.context, node):
            raise refuse(place if place is not node else call, "GROUP BY has an aggregate function")
        for window in window_nodes(node):
            raise refuse(window, "GROUP BY has a window function")
        if place is not node and any(id(each) in self.block.texts.aliases for each in node.walk()):
            raise refuse(place, "GROUP BY an entry of the select list that reads the alias of another one",
                         "repeat the expression in GROUP BY")  # fmt: skip
        self.block.context.attach_subqueries(self.block, node)
        return self._add_text(self.block.texts.text(node), place, name)

    def _add_text(self, text: str, place: exp.Expr, name: str | None) -> int:
        column = text if self.block.node.schema.find(text) is not None else self.texts.get(normalise(text))
        if column is None:
            column = self.block.context.names.fresh("key", name)
            self.texts[normalise(text)] = column
        self.found.setdefault(column, (text, place))
        return list(self.found).index(column)


def _alias_of(block: BlockState, node: exp.Expr, items: Sequence[SelectItem]) -> SelectItem | None:
    """The entry of the select list that a name in GROUP BY means: only where no column is called so."""
    from sqlglot import exp

    if not isinstance(node, exp.Column) or len(node.parts) != 1 or block.scope.has(node.name):
        return None
    found = [item for item in items if item.aliased and item.name and item.name.lower() == node.name.lower()]
    if len(found) > 1:
        raise refuse(node, f"column '{node.name}' is ambiguous: {len(found)} entries of the select list are called so")
    return found[0] if found else None
