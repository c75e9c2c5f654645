"""Infers semi joins below a group-by, as Spark's optimiser infers IN as long as it is a predicate.

In `p IN (SELECT k FROM few) AND x > (SELECT sum(q) FROM many WHERE many.p = outer.p)` only groups of `many` whose key
is in `few` can be joined. In a plan both subqueries are joins, below which Spark infers nothing: it would group all
rows of `many`, and capture would write them. Here they are joined with `few` before they are grouped. Whole groups go
or stay.

What is looked up are `OuterValues`, to whose rows nothing contributes. Rows and lineage of every dataset are those of
the plan without the inferred joins, and expressions are evaluated for fewer rows. Only a run has inferred joins:
refresh, why-not and all other verbs read the plan as it was built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from lineage_service.capture.breaker_survey import dataset_steps
from lineage_service.capture.estimate import Estimate, Sizes, estimate_rows
from lineage_service.capture.instrument import is_cheap_to_recompute
from lineage_service.capture.semi_joined_columns import plain_column, semi_joined_columns, type_of
from lineage_service.plan.build import Plan
from lineage_service.plan.conjuncts import plain_name
from lineage_service.plan.expressions import Expression, quote_identifier
from lineage_service.plan.from_sql.subquery_shapes import are_equal_as_keys
from lineage_service.plan.nodes import Aggregate, Filter, Join, NamedExpression, Node, OuterValues, Project, WithColumns
from lineage_service.plan.plan_rewriting import nodes_inputs_first, with_inputs
from lineage_service.spec.legal_names import unused_name

LEAST_ROWS = 100_000  # before they are grouped: fewer are grouped sooner than another join is planned
MOST_VALUES = 1_000_000  # that are looked up: Spark is to broadcast them
FEWER = 10  # times as many rows as values: else a join costs more than it saves


@dataclass(frozen=True)
class InferredSemiJoin:
    """A semi join that drops rows of a node's last input before the node reads them.

    reader: the aggregate that groups these rows, or the semi join that looks for them
    key: of these rows, as an expression
    origin: the semi join that it follows from
    value: the column of the origin's right side that the key is compared with
    """

    reader: Aggregate | Join
    key: Expression
    origin: Join
    value: str

    @property
    def id(self) -> str:
        """The id of the node that it becomes."""
        return f"{self.reader.id}:in_{self.origin.id.rpartition(':')[2]}"

    @property
    def rows(self) -> Node:
        return self.reader.inputs[-1]


def infer_semi_joins(plan: Plan, sizes: Sizes) -> Plan:
    """The plan with the inferred semi joins that are expected to pay."""
    return with_semi_joins(plan, lambda found: expected_to_pay(plan, found, sizes))


def infer_recorded_semi_joins(plan: Plan, recorded: Collection[str]) -> Plan:
    """The plan with the inferred semi joins that an earlier run had. `recorded`: ids of its nodes."""
    return with_semi_joins(plan, lambda found: [each for each in found if each.id in recorded])


def with_semi_joins(plan: Plan, choose: Callable[[list[InferredSemiJoin]], list[InferredSemiJoin]]) -> Plan:
    """The plan with those that are chosen of all semi joins that can be inferred."""
    found = list(inferable_semi_joins(plan))
    chosen = choose(found) if found else []
    if not chosen:
        return plan
    done: dict[str, Node] = {}
    for node in nodes_inputs_first(*plan.steps.values()):
        inputs = [done[below.id] for below in node.inputs]
        for each in chosen:
            if each.reader.id == node.id:
                inputs[-1] = _semi_join(each, inputs[-1], done[each.origin.right.id])
        is_unchanged = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
        done[node.id] = node if is_unchanged else with_inputs(node, inputs)
    return replace(plan, steps={name: done[node.id] for name, node in plan.steps.items()})


def inferable_semi_joins(plan: Plan) -> Iterator[InferredSemiJoin]:
    """Every semi join that can be inferred without another row or pair in any dataset, inputs first."""
    nodes, datasets = plan.nodes(), dataset_steps(plan)
    named = {node.id for node in plan.steps.values()}
    readers = Counter(below.id for node in nodes for below in node.inputs)
    unseen = {name for name, count in readers.items() if count == 1} - named
    found: dict[str, InferredSemiJoin] = {}
    for join in nodes:
        # Rows without a match matter nowhere but in the joins that are left out here: the groups that they would have
        # been joined with are not there for other rows either.
        if not isinstance(join, Join) or join.how not in ("inner", "left", "semi") or join.absence:
            continue
        for outer, inner in join.equi_condition.keys if join.equi_condition is not None else ():
            column, reached = plain_name(outer), _grouping_key(join, inner, unseen)
            if column is None or reached is None:
                continue
            reader, key, kind = reached
            for origin in semi_joined_columns(join.left, column):
                right = origin.join.right
                compared = type_of(right, origin.right)
                is_alike = are_equal_as_keys(type_of(join.left, column), kind) and are_equal_as_keys(kind, compared)
                if is_alike and _may_be_read_again(right, datasets) and not _names_sides(origin.join):
                    each = InferredSemiJoin(reader, key, origin.join, origin.right)
                    found.setdefault(each.id, each)
    yield from found.values()


def _grouping_key(
    join: Join, text: str, unseen: Collection[str]
) -> tuple[Aggregate | Join, Expression, str | None] | None:
    """Where rows of the right side can be dropped by their key, the key there, and its type. `unseen`: nodes whose rows
    nobody else reads; only below these.
    """
    column = plain_name(text)
    if column is None:
        return None
    at, name = join.right, column
    while at.id in unseen and at.repeatable:
        if isinstance(at, Aggregate):
            key = next((each for each in at.keys if each.name.lower() == name.lower()), None)
            is_safe = key is not None and key.expression.repeatable and not key.expression.is_generator
            return (at, key.expression, type_of(at, name)) if key is not None and is_safe else None
        if isinstance(at, Filter):
            at = at.input
        elif isinstance(at, Project | WithColumns):
            if any(each.expression.is_generator for each in at.columns):
                break
            own = next((each for each in at.columns if each.name.lower() == name.lower()), None)
            below = plain_column(own.expression) if own is not None else name
            if below is None or (own is None and isinstance(at, Project)):
                break
            at, name = at.input, below
        else:
            break
    if join.how != "semi":
        return None
    return join, Expression(quote_identifier(column)), type_of(join.right, column)


def _may_be_read_again(node: Node, datasets: Collection[str]) -> bool:
    return is_cheap_to_recompute(node) or node.id in datasets


def _names_sides(join: Join) -> bool:
    """Whether conditions on the right side write its columns as `right.x`, which mean nothing in a filter."""
    conditions = join.equi_condition.right_only if join.equi_condition is not None else ()
    return any(ref.parts[0] == "right" for each in conditions for ref in Expression(each).columns)


def _semi_join(inferred: InferredSemiJoin, rows: Node, values: Node) -> Join:
    origin, made, step = inferred.origin, inferred.id, inferred.reader.step
    conditions = origin.equi_condition.right_only if origin.equi_condition is not None else ()
    if conditions:
        where = Expression(" AND ".join(f"({each})" for each in conditions), origin.position)
        values = Filter(f"{made}_filter", step, origin.position, values, where)
    taken = {*(name.lower() for name in rows.schema.names), *inferred.key.words}
    name = unused_name("inferred_value", taken)
    value = NamedExpression(name, Expression(quote_identifier(inferred.value)))
    values = Project(f"{made}_value", step, origin.position, values, (value,))
    values = OuterValues(f"{made}_values", step, origin.position, values, repeats=True)
    key = inferred.key.text if plain_column(inferred.key) is not None else f"({inferred.key})"
    return Join(made, step, origin.position, rows, values, "semi", Expression(f"{key} = {name}"), ())


def expected_to_pay(plan: Plan, found: list[InferredSemiJoin], sizes: Sizes) -> list[InferredSemiJoin]:
    """Those that are expected to drop many rows by few values."""
    rows: dict[str, Estimate | None] = {}
    for node in plan.nodes():
        rows[node.id] = estimate_rows(node, [rows[below.id] for below in node.inputs], sizes)

    def pays(each: InferredSemiJoin) -> bool:
        many, values, outer = (rows[node.id] for node in (each.rows, each.origin.right, each.origin.left))
        if many is None or values is None or outer is None or many.rows < LEAST_ROWS:
            return False
        # Values of a whole table may be all that there are, unless the rows that were compared with them are many more.
        is_selective = values.share <= 0.5 or values.rows * FEWER <= outer.rows
        return is_selective and values.rows <= min(MOST_VALUES, many.rows / FEWER)

    return [each for each in found if pays(each)]
