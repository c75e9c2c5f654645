"""Decides whether the polynomial of a row shows that it survives the loss of input rows.

A row disappears when no derivation of it is left. This holds for joins, unions, groups and filters over input values.
It does not hold for steps that decide by measured values, which change when a row disappears (`having n = 1`). Nor does
it hold if the loss of a row makes other rows appear (anti joins, differences, outer joins, limits) that a step above
combines with existing ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from lineage_service.capture.stability import columns_read
from lineage_service.plan.expressions import Expression
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

Reasons = Mapping[str, str]


@dataclass(frozen=True)
class Survival:
    """The survival of a node's rows. `inputs`: the sources below, by the caller's names.

    appears: sources whose loss may make rows appear, with the reason
    unsure: sources whose loss the polynomials do not determine, with the reason
    measured: columns whose values may change, in lower case
    """

    inputs: frozenset[str] = frozenset()
    appears: Reasons = field(default_factory=dict)
    unsure: Reasons = field(default_factory=dict)
    measured: frozenset[str] = frozenset()


def survival(node: Node, below: Sequence[Survival]) -> Survival:
    """The survival of an operator's rows, given that of its inputs. For a source, `below` states it."""
    inputs = frozenset(name for each in below for name in each.inputs)
    measured = frozenset(name for each in below for name in each.measured)
    passed = Survival(
        inputs, _merge_reasons(each.appears for each in below), _merge_reasons(each.unsure for each in below), measured
    )
    match node:
        case Source():
            return passed
        case Filter():
            return _predicate_survival(node, passed, (node.where,), "its predicate")
        case Project() | WithColumns():
            return _projection_survival(node, passed)
        case Explode():
            return _unsure_if_measured(node, passed, {node.column.lower()}, "what it explodes")
        case Sort() | Union():
            return passed
        case Limit():
            return _unsure_of_all_inputs(
                passed, f"step '{node.step}' is a limit: other rows take the place of lost ones"
            )
        case Window():
            return Survival(inputs, passed.appears, passed.unsure, measured | _names(node.measures))
        case Aggregate():
            return _aggregate_survival(node, passed)
        case Distinct():
            return _with_regrouping(
                _unsure_if_measured(node, passed, _columns(node), "what it compares"), passed.appears
            )
        case Intersect() | Difference():
            return _set_operation_survival(node, passed, below)
        case Join():
            return _join_survival(node, passed, below)
        case _:
            assert_never(node)


def _merge_reasons(parts: Iterable[Reasons]) -> Reasons:
    return {name: reason for part in parts for name, reason in part.items()}


def _unsure_of_all_inputs(state: Survival, reason: str) -> Survival:
    """The loss of any row below may make rows appear or disappear here."""
    every = dict.fromkeys(state.inputs, reason)
    return Survival(state.inputs, {**every, **state.appears}, {**every, **state.unsure}, state.measured)


def _with_regrouping(state: Survival, appearing: Reasons) -> Survival:
    """Rows that appear below may be combined with existing ones."""
    return Survival(state.inputs, state.appears, {**appearing, **state.unsure}, state.measured)


def _predicate_survival(node: Node, state: Survival, expressions: Iterable[Expression], what: str) -> Survival:
    for expression in expressions:
        if not expression.repeatable:
            return _unsure_of_all_inputs(
                state, f"step '{node.step}': {what} uses a function that may differ when it is evaluated again"
            )
        found = _unsure_if_measured(node, state, columns_read(expression, node), what)
        if found is not state:
            return found
    return state


def _unsure_if_measured(node: Node, state: Survival, columns: Iterable[str], what: str) -> Survival:
    read = sorted(set(columns) & state.measured)
    if not read:
        return state
    return _unsure_of_all_inputs(
        state, f"step '{node.step}' decides by '{read[0]}' ({what}), which is measured over several rows"
    )


def _projection_survival(node: Project | WithColumns, state: Survival) -> Survival:
    shifting = {
        named.name.lower()
        for named in node.columns
        if not named.expression.repeatable or columns_read(named.expression, node) & state.measured
    }
    kept = state.measured - _names(node.columns) if isinstance(node, WithColumns) else frozenset()
    generating = [named.expression for named in node.columns if named.expression.is_generator]
    found = _predicate_survival(node, state, generating, "a generator")
    return Survival(found.inputs, found.appears, found.unsure, kept | shifting)


def _aggregate_survival(node: Aggregate, state: Survival) -> Survival:
    measures = _names(node.measures)
    if not node.keys:
        return Survival(state.inputs, measured=measures)  # its one row is always there
    found = _predicate_survival(node, state, [named.expression for named in node.keys], "a key")
    found = _with_regrouping(found, state.appears)
    return Survival(found.inputs, found.appears, found.unsure, measures)


def _set_operation_survival(node: Intersect | Difference, state: Survival, below: Sequence[Survival]) -> Survival:
    left, right = below
    found = _unsure_if_measured(node, state, _columns(node), "what it compares")
    if node.all:
        return _unsure_of_all_inputs(found, f"step '{node.step}' counts equal rows, which cannot be distinguished")
    if isinstance(node, Intersect):
        return _with_regrouping(found, state.appears)
    return _with_unmatched_rows(node, _with_regrouping(found, left.appears), right)


def _with_unmatched_rows(node: Node, state: Survival, side: Survival) -> Survival:
    """Adds rows that exist because they have no match in `side`: they appear if `side` loses rows, and disappear if it
    gains some.
    """
    reason = f"step '{node.step}' returns rows that have no match, which may appear when others are lost"
    appears = {**dict.fromkeys(side.inputs, reason), **state.appears}
    return Survival(state.inputs, appears, {**side.appears, **state.unsure}, state.measured)


def _join_survival(node: Join, state: Survival, below: Sequence[Survival]) -> Survival:
    left, right = below
    found = _predicate_survival(node, state, () if node.on is None else (node.on,), "its condition")
    found = _unsure_if_measured(node, found, {name.lower() for name in node.using}, "its condition")
    if node.how in ("left", "full", "anti"):
        found = _with_unmatched_rows(node, found, right)
    if node.how in ("right", "full"):
        found = _with_unmatched_rows(node, found, left)
    if node.how == "semi":
        found = _with_regrouping(found, right.appears)
    return found


def _names(columns: Iterable[NamedExpression]) -> frozenset[str]:
    return frozenset(named.name.lower() for named in columns)


def _columns(node: Node) -> set[str]:
    return {name.lower() for name in node.schema.names}
