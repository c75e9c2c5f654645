"""The reasons why a row may end at a step. Each reason of a list has one bit in a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from lineage_service.capture.nondeterminism import Nondeterminism, is_nondeterministic
from lineage_service.capture.row_paths import PathEdge
from lineage_service.plan.conjuncts import conjuncts_of
from lineage_service.plan.expressions import SortKey, shorten_text
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)

Kind = Literal["condition", "no_partner", "has_partner", "partner_lost", "no_equal_row", "equal_row", "cut_off",
               "nothing_to_explode", "generates_nothing"]  # fmt: skip
MOST_CONDITIONS = 30  # a verdict's bits are those of a 64-bit number


@dataclass(frozen=True)
class DropReason:
    kind: Kind
    text: str


@dataclass(frozen=True)
class Conditions:
    """A predicate, divided into conditions that are evaluated one by one and a rest that is evaluated as a whole."""

    evaluated: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def reasons(self) -> list[DropReason]:
        """Two reasons for each condition that is evaluated by itself, and one for the rest."""
        evaluated = [
            DropReason("condition", f"{shorten_text(text)} is {value}")
            for text in self.evaluated
            for value in ("false", "null")
        ]
        return [*evaluated, DropReason("condition", f"{' and '.join(map(shorten_text, self.rest))} did not hold")]


def conditions_of(node: Filter, below: Nondeterminism) -> Conditions:
    """The conditions of a filter. `below` describes the nondeterminism of the rows that it reads."""
    found = conjuncts_of(node.where)
    if len(found) > MOST_CONDITIONS:
        found = (node.where.text,)
    left = tuple(text for text in found if is_nondeterministic(text, node, below.columns))
    return Conditions(tuple(text for text in found if text not in left), left or (node.where.text,))


def reasons_of(edge: PathEdge, below: Nondeterminism) -> list[DropReason]:
    """The reasons why rows may end at an edge, in the order of their bits."""
    node = edge.node
    match node:
        case Filter():
            return conditions_of(node, below).reasons
        case Limit():
            return [DropReason("cut_off", _cut_off_text(node))]
        case Explode():
            return [DropReason("nothing_to_explode", f"'{node.column}' is {what}") for what in ("null", "empty")]
        case Join(how="anti"):
            return [DropReason("has_partner", f"a row of '{node.right.step}' matches")]
        case Join():
            return [DropReason("no_partner", f"no row of '{node.inputs[1 - edge.place].step}' matches")]
        case Intersect():
            return [DropReason("no_equal_row", f"no equal row in '{node.inputs[1 - edge.place].step}'")]
        case Difference():
            rows = "as many equal rows are in" if node.all else "an equal row is in"
            return [DropReason("equal_row", f"{rows} '{node.right.step}'")]
        case Project() | WithColumns():
            return [DropReason("generates_nothing", "its generator gives no row")]
        case Source() | Aggregate() | Distinct() | Union() | Window() | Sort():
            raise AssertionError(f"no row ends at '{node.step}': it is a {type(node).__name__}")
        case _:
            assert_never(node)


def _cut_off_text(node: Limit) -> str:
    if node.offset:
        return f"among the first {node.offset:,}" + (f", or beyond the first {node.last:,} rows" if node.last else "")
    return f"beyond the first {node.n:,} {'row' if node.n == 1 else 'rows'}"


def limit_order(node: Node) -> tuple[SortKey, ...]:
    """The order in which a limit takes rows, if the limit or the step below it defines one."""
    if not isinstance(node, Limit):
        return ()
    return node.by or (node.input.by if isinstance(node.input, Sort) else ())
