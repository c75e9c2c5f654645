"""Windows inside a SELECT: the rows of one query level, each with its values and the rows read for them.

Frames and functions are those of reference_windows.py; here a window stands in an expression and its partition, order
and frame stand beside it, perhaps under a name.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tests.oracle.reference_expressions import Context, value_of
from tests.oracle.reference_values import Ordering, Unsupported, canonical, sort_key
from tests.oracle.reference_windows import (
    OVER_FRAME,
    OVER_POSITIONS,
    OVER_SEQUENCE,
    Frame,
    Partition,
    Place,
    frame_of,
    way,
)
from tests.oracle.sql_rows import RowScope, Trace
from tests.oracle.sql_subqueries import outside_subqueries

NEEDS_ORDER = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead, exp.NthValue,
)  # fmt: skip


def windows_in(node: exp.Expression) -> Iterator[exp.Window]:
    return (each for each in outside_subqueries(node) if isinstance(each, exp.Window))


class WindowSpecification:
    """Partition, order and frame of a window, after names are replaced."""

    def __init__(self, window: exp.Window, named: Sequence[exp.Window]):
        self.function = window.this
        self.node = window
        base = window
        name = window.args.get("alias")
        if name is not None:
            found = [each for each in named if each.this.name.lower() == name.name.lower()]
            if len(found) != 1:
                raise Unsupported(f"unknown window {name}")
            base = found[0]
        self.partition_by = window.args.get("partition_by") or base.args.get("partition_by") or []
        order = window.args.get("order") or base.args.get("order")
        self.order = order.expressions if order is not None else []
        spec = window.args.get("spec") or base.args.get("spec")
        self.orderings = [ordering_of(node) for node in self.order]
        self.frame: Frame = frame_of(spec.sql("spark") if spec is not None else None, self.orderings)
        self.core = core_of(self.function)
        if isinstance(self.core, NEEDS_ORDER) and not self.order:
            raise Unsupported("a window function without an order")

    @property
    def inputs(self) -> list[exp.Expression]:
        """The expressions that the window reads of each row."""
        return [*self.function.iter_expressions(), *self.partition_by, *(node.this for node in self.order)]


def ordering_of(node: exp.Ordered) -> Ordering:
    return Ordering("", bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def core_of(function: exp.Expression) -> exp.Expression:
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    return function


def compute_window(specification: WindowSpecification, scopes: list[RowScope], before: Sequence[Trace]):
    """Give every row its value and the rows read for it: returns per row its peers, and whether ties left a choice."""
    groups: dict = {}
    for i, scope in enumerate(scopes):
        key = [value_of(node, Context(scope)) for node in specification.partition_by]
        groups.setdefault(canonical(key), []).append(i)
    peers: dict[int, list[Trace]] = {}
    chosen = False
    for members in groups.values():
        keyed = [([value_of(node.this, Context(scopes[i])) for node in specification.order], i) for i in members]
        keyed.sort(key=lambda pair: sort_key(specification.orderings)(pair[0]))
        order = [i for _, i in keyed]
        partition = Partition([scopes[i] for i in order], [key for key, _ in keyed], specification.orderings)
        for place_in_order, i in enumerate(order):
            place = Place(partition, place_in_order, specification.frame.rows_of(partition, place_in_order))
            scopes[i].known[id(specification.node)] = value_of(specification.function, place.context())
            peers[i] = [before[order[j]] for j in sorted(read_by(specification.core, place))]
            if depends_on_ties(specification):
                ties = [order[j] for j in partition.ties(place_in_order)]
                chosen = chosen or not all(are_alike(scopes[i], scopes[j], before[i], before[j]) for j in ties)
    return peers, chosen


def are_alike(a: RowScope, b: RowScope, trace: Trace, other: Trace) -> bool:
    if trace != other or canonical(list(a.row.values)) != canonical(list(b.row.values)):
        return False
    # Two groups with the same key columns may differ in keys that are expressions: only equal traces can tell.
    return not a.members or a is b


def read_by(function: exp.Expression, place: Place) -> set[int]:
    """The rows of the partition that a function reads for the current row: section 4, line by line."""
    if isinstance(function, exp.RowNumber):
        return set(range(place.position))
    if isinstance(function, exp.Rank | exp.DenseRank):
        return set(place.earlier)
    if isinstance(function, exp.Lag | exp.Lead):
        return way(function, place)[1]
    if isinstance(function, exp.Ntile | exp.PercentRank | exp.CumeDist):
        return set(range(len(place.partition.rows)))
    if isinstance(function, OVER_FRAME):
        return set(place.frame)
    raise Unsupported(f"{function.sql('spark')} over a window")


def depends_on_ties(specification: WindowSpecification) -> bool:
    """Values or lineage may be others where rows that are equal in the order change places."""
    if isinstance(specification.core, (*OVER_POSITIONS, *OVER_SEQUENCE)):
        return True
    return specification.frame.unit == "ROWS" and not specification.frame.is_whole
