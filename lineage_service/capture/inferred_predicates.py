"""Infers predicates below a group-by, as Spark's optimiser does as long as they are predicates.

In `p IN (SELECT k FROM few) AND x > (SELECT sum(q) FROM many WHERE many.p = outer.p)` only groups of `many` whose key
is in `few` can be joined. In a plan both subqueries are joins, below which Spark infers no IN: it would group all rows
of `many`, and capture would write them. Here they are joined with `few` before they are grouped. Whole groups go or
stay. Comparisons of `p` with constants are repeated too: Spark infers these, but not below what capture writes first.

What is looked up are `OuterValues`, to whose rows nothing contributes. Rows and lineage of every dataset are those of
the plan without what is inferred, and expressions are evaluated for fewer rows. Only a run has inferred predicates:
refresh, why-not and all other verbs read the plan as it was built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lineage_service.capture.breaker_survey import dataset_steps
from lineage_service.capture.estimate import Estimate, Sizes, estimate_rows
from lineage_service.capture.instrument import is_cheap_to_recompute
from lineage_service.capture.restricted_columns import Restriction, plain_column, restrictions, type_of
from lineage_service.equivalence.comparable_types import comparable_type
from lineage_service.equivalence.portable_predicates import PortableColumn, translate_predicate
from lineage_service.plan.as_steps import renamed
from lineage_service.plan.build import Plan
from lineage_service.plan.conjuncts import conjuncts_of, plain_name
from lineage_service.plan.expressions import Expression, quote_identifier
from lineage_service.plan.from_sql.subquery_shapes import are_equal_as_keys
from lineage_service.plan.nodes import Aggregate, Filter, Join, NamedExpression, Node, OuterValues, Project, WithColumns
from lineage_service.plan.plan_rewriting import nodes_inputs_first, with_inputs
from lineage_service.spec.legal_names import unused_name

LEAST_ROWS = 100_000  # before they are grouped: fewer are grouped sooner than another join is planned
MOST_VALUES = 1_000_000  # that are looked up: Spark is to broadcast them
FEWER = 10  # times as many rows as values: else a join costs more than it saves


@dataclass(frozen=True)
class InferredPredicate:
    """A predicate by which rows of a node's last input are dropped before the node reads them.

    reader: the aggregate that groups these rows, or the semi join that looks for them
    key: of these rows, as an expression
    origin: the semi join or filter that it follows from
    column: of the right side of the semi join, which the key is compared with; of the filter, for which the key stands
    number: of the key; of a semi join only one key is compared
    """

    reader: Aggregate | Join
    key: Expression
    origin: Join | Filter
    column: str
    number: int

    @property
    def id(self) -> str:
        """The id of the node that it becomes."""
        origin = self.origin.id.rpartition(":")[2]
        kind = f"in_{origin}" if isinstance(self.origin, Join) else f"where_{origin}_{self.number}"
        return f"{self.reader.id}:{kind}"

    @property
    def rows(self) -> Node:
        return self.reader.inputs[-1]


def infer_predicates(plan: Plan, sizes: Sizes) -> Plan:
    """The plan with the inferred predicates that are expected to pay."""
    return with_inferred_predicates(plan, lambda found: expected_to_pay(plan, found, sizes))


def infer_recorded_predicates(plan: Plan, recorded: Collection[str]) -> Plan:
    """The plan with the inferred predicates that an earlier run had. `recorded`: ids of its nodes."""
    return with_inferred_predicates(plan, lambda found: [each for each in found if each.id in recorded])


def with_inferred_predicates(plan: Plan, choose: Callable[[list[InferredPredicate]], list[InferredPredicate]]) -> Plan:
    """The plan with those that are chosen of all predicates that can be inferred."""
    found = list(inferable_predicates(plan))
    chosen = choose(found) if found else []
    if not chosen:
        return plan
    done: dict[str, Node] = {}
    for node in nodes_inputs_first(*plan.steps.values()):
        inputs = [done[below.id] for below in node.inputs]
        for each in chosen:
            if each.reader.id == node.id:
                inputs[-1] = _predicate_node(each, inputs[-1], done)
        is_unchanged = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
        done[node.id] = node if is_unchanged else with_inputs(node, inputs)
    return replace(plan, steps={name: done[node.id] for name, node in plan.steps.items()})


def inferable_predicates(plan: Plan) -> Iterator[InferredPredicate]:
    """Every predicate that can be inferred without another row or pair in any dataset, inputs first."""
    nodes, datasets = plan.nodes(), dataset_steps(plan)
    named = {node.id for node in plan.steps.values()}
    readers = Counter(below.id for node in nodes for below in node.inputs)
    unseen = {name for name, count in readers.items() if count == 1} - named
    found: dict[str, InferredPredicate] = {}
    for join in nodes:
        # Rows without a match matter nowhere but in the joins that are left out here: the groups that they would have
        # been joined with are not there for other rows either.
        if not isinstance(join, Join) or join.how not in ("inner", "left", "semi") or join.absence:
            continue
        for number, (outer, inner) in enumerate(join.equi_condition.keys if join.equi_condition is not None else ()):
            column, reached = plain_name(outer), _grouping_key(join, inner, unseen)
            if column is None or reached is None:
                continue
            reader, key, kind = reached
            if reader.id in named or not are_equal_as_keys(type_of(join.left, column), kind):
                continue
            for each in restrictions(join.left, column):
                if _may_be_repeated(each, key, kind, datasets):
                    inferred = InferredPredicate(reader, key, each.node, each.column, number)
                    found.setdefault(inferred.id, inferred)
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


def _may_be_repeated(each: Restriction, key: Expression, kind: str | None, datasets: Collection[str]) -> bool:
    """Whether it gives the same for a key of this type, without computing much again."""
    if isinstance(each.node, Filter):
        return bool(_conditions_on(each.node, each.column, key))
    right = each.node.right
    is_alike = are_equal_as_keys(kind, type_of(right, each.column))
    return is_alike and (is_cheap_to_recompute(right) or right.id in datasets) and not _names_sides(each.node)


def _conditions_on(node: Filter, column: str, key: Expression) -> list[str]:
    """The conditions of a filter that compare just this column with constants, written for the key instead. They raise
    no errors.
    """
    kind = comparable_type(type_of(node, column) or "")
    known = None if kind is None else PortableColumn(0, column, kind)

    def resolve(parts: tuple[str, ...]) -> PortableColumn | None:
        return known if len(parts) == 1 and parts[0].lower() == column.lower() else None

    found = []
    for each in map(Expression, conjuncts_of(node.where)):
        if each.columns and translate_predicate(each, resolve) is not None:
            repeated = renamed(each.text, dict.fromkeys((ref.parts[0] for ref in each.columns), _operand(key)))
            # A column that is called like a keyword, such as `date`, may not have been renamed.
            found += [repeated] if set(Expression(repeated).columns) == set(key.columns) else []
    return found


def _operand(key: Expression) -> str:
    return key.text if plain_column(key) is not None else f"({key})"


def _names_sides(join: Join) -> bool:
    """Whether conditions on the right side write its columns as `right.x`, which mean nothing in a filter."""
    conditions = join.equi_condition.right_only if join.equi_condition is not None else ()
    return any(ref.parts[0] == "right" for each in conditions for ref in Expression(each).columns)


def _predicate_node(inferred: InferredPredicate, rows: Node, done: Mapping[str, Node]) -> Join | Filter:
    origin, made, step = inferred.origin, inferred.id, inferred.reader.step
    if isinstance(origin, Filter):
        where = _conjunction(_conditions_on(origin, inferred.column, inferred.key))
        return Filter(made, step, origin.position, rows, where)
    values = done[origin.right.id]
    if origin.equi_condition is not None and origin.equi_condition.right_only:
        where = _conjunction(origin.equi_condition.right_only)
        values = Filter(f"{made}_filter", step, origin.position, values, where)
    name = unused_name("inferred_value", {*(name.lower() for name in rows.schema.names), *inferred.key.words})
    value = NamedExpression(name, Expression(quote_identifier(inferred.column)))
    values = Project(f"{made}_value", step, origin.position, values, (value,))
    values = OuterValues(f"{made}_values", step, origin.position, values, repeats=True)
    return Join(made, step, origin.position, rows, values, "semi", Expression(f"{_operand(inferred.key)} = {name}"), ())


def _conjunction(conditions: Sequence[str]) -> Expression:
    return Expression(" AND ".join(f"({each})" for each in conditions) if len(conditions) > 1 else conditions[0])


def expected_to_pay(plan: Plan, found: list[InferredPredicate], sizes: Sizes) -> list[InferredPredicate]:
    """Filters, and the semi joins that are expected to drop many rows by few values."""
    rows: dict[str, Estimate | None] = {}
    for node in plan.nodes():
        rows[node.id] = estimate_rows(node, [rows[below.id] for below in node.inputs], sizes)

    def pays(each: InferredPredicate) -> bool:
        if isinstance(each.origin, Filter):
            return True
        many, values, outer = (rows[node.id] for node in (each.rows, each.origin.right, each.origin.left))
        if many is None or values is None or outer is None or many.rows < LEAST_ROWS:
            return False
        # Values of a whole table may be all that there are, unless the rows that were compared with them are many more.
        is_selective = values.share <= 0.5 or values.rows * FEWER <= outer.rows
        return is_selective and values.rows <= min(MOST_VALUES, many.rows / FEWER)

    return [each for each in found if pays(each)]
