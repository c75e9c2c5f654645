"""Why a row may end at a step, as a list of reasons: a verdict has a bit for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lineage_service.capture.nondeterminism import Nondeterminism, is_nondeterministic
from lineage_service.capture.row_paths import PathEdge
from lineage_service.plan.conjuncts import conjuncts_of
from lineage_service.plan.expressions import SortKey, shorten_text
from lineage_service.plan.nodes import Difference, Explode, Filter, Intersect, Join, Limit, Node, Sort

Kind = Literal["condition", "no_partner", "has_partner", "partner_lost", "no_equal_row", "equal_row", "cut_off",
               "nothing_to_explode", "generates_nothing"]  # fmt: skip
MOST_CONDITIONS = 30  # a verdict's bits are those of a 64-bit number


@dataclass(frozen=True)
class DropReason:
    kind: Kind
    text: str


@dataclass(frozen=True)
class Conditions:
    """A predicate taken apart: what is evaluated condition by condition, and what is left to be told as a whole."""

    evaluated: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def reasons(self) -> list[DropReason]:
        """Two for each condition that is evaluated, and one for the rest."""
        told = [
            DropReason("condition", f"{shorten_text(text)} is {value}")
            for text in self.evaluated
            for value in ("false", "null")
        ]
        return [*told, DropReason("condition", f"{' and '.join(map(shorten_text, self.rest))} did not hold")]


def conditions_of(node: Filter, below: Nondeterminism) -> Conditions:
    """`below`: what is left to chance of the rows that the filter reads."""
    found = conjuncts_of(node.where)
    if len(found) > MOST_CONDITIONS:
        found = (node.where.text,)
    left = tuple(text for text in found if is_nondeterministic(text, node, below.columns))
    return Conditions(tuple(text for text in found if text not in left), left or (node.where.text,))


def reasons_of(edge: PathEdge, below: Nondeterminism) -> list[DropReason]:
    """The reasons of an edge at which rows may end, in the order of their bits."""
    node = edge.node
    match node:
        case Filter():
            return conditions_of(node, below).reasons
        case Limit():
            return [DropReason("cut_off", f"beyond the first {node.n:,} {'row' if node.n == 1 else 'rows'}")]
        case Explode():
            return [DropReason("nothing_to_explode", f"'{node.column}' is {what}") for what in ("null", "empty")]
        case Join(how="anti"):
            return [DropReason("has_partner", f"a row of '{node.right.step}' matches")]
        case Join():
            return [DropReason("no_partner", f"no row of '{node.inputs[1 - edge.place].step}' matches")]
        case Intersect():
            return [DropReason("no_equal_row", f"no equal row in '{node.inputs[1 - edge.place].step}'")]
        case Difference():
            told = "as many equal rows are in" if node.all else "an equal row is in"
            return [DropReason("equal_row", f"{told} '{node.right.step}'")]
        case _:
            return [DropReason("generates_nothing", "its generator gives no row")]


def limit_order(node: Node) -> tuple[SortKey, ...]:
    """The order in which a limit takes its rows, where the limit or the step below it says so."""
    if not isinstance(node, Limit):
        return ()
    return node.by or (node.input.by if isinstance(node.input, Sort) else ())
