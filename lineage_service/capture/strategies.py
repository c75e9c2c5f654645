"""Chooses the strategy by which the members of each breaker are captured. Operators do not depend on the choice.

stage: the input rows are written once, and result and members are computed from them; always sound
inject: members are collected as a list in the result's own rows; one pass, but a group must fit into a row and memory
defer: the result is computed without capture, and members are read again afterwards; sound if reading again gives the
same rows
lazy: as defer, but members are read only for a question, and not stored
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lineage_service.capture.estimate import Estimate
from lineage_service.errors import WorkflowError
from lineage_service.plan.nodes import Aggregate, Join, Node, Window

CAPTURES = ("auto", "inject", "defer", "stage", "lazy", "off")
LATER = ("defer", "lazy")
ROW_LIMIT = 1 << 31  # bytes of a Spark row

# Seconds per row on two cores, and per job; measured, see benchmarks/README.md. Only their order of magnitude matters.
INJECTED, INJECTED_HANDLE = 0.45e-6, 0.07e-6
INJECTED_DISTINCT = 7e-6  # beside a measure over distinct values, for which Spark groups twice and merges the lists
LISTED, LISTED_JOB = 0.5e-6, 0.1  # where groups are written with their lists, and read again
STAGED, STAGED_JOB = 0.65e-6, 0.3
SCANNED, JOINED = 0.12e-6, 0.3e-6
REREAD, REREAD_JOB = 0.35e-6, 0.25
INDEXED_DIRECTLY = 0.09e-6
MOST_INJECTED = 2_000_000  # rows: a list costs some 80 bytes of memory per row while it is built
MOST_GUESSED = 1_000_000  # rows, if they are only estimated
PRUNED = "no declared question passes it"
REDUCED = "the left rows are written first, and then only the right rows that match them"
BYTES_A_MEMBER = 16  # of a list, and 8 more per handle


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, why it was chosen, and the estimated number of rows that the breaker reads, if known."""

    strategy: str
    reason: str
    estimate: int | None = None

    @property
    def is_pruned(self) -> bool:
        """Whether nothing is captured, because no declared question needs it."""
        return self.reason == PRUNED

    @property
    def is_reduced(self) -> bool:
        """Whether only those right rows of a semi join are written that match a left row."""
        return is_reduced(self.reason)


def is_reduced(reason: str | None) -> bool:
    """Whether a choice was made for this reason: then the rows that were read are not known."""
    return reason is not None and reason.startswith(REDUCED)


@dataclass(frozen=True, slots=True)
class Breaker:
    """The facts from which a strategy is chosen.

    unstable: why its members may not be found by reading again; None if they will be
    direct: whether it is indexed from the sources' files
    handles: the number of handles of each member
    reads: the estimated rows that it reads; None if unknown
    joins: the number of joins below what it reads
    looked_for: the estimated left rows of a semi join by keys
    carried: whether its groups are rows of a dataset; otherwise injected groups are written on their own
    """

    node: Node
    unstable: str | None
    direct: bool
    handles: int
    reads: Estimate | None
    joins: int
    looked_for: Estimate | None = None
    carried: bool = True

    @property
    def rows(self) -> int | None:
        return None if self.reads is None else round(self.reads.rows)


def check_capture(capture: str) -> None:
    """Raises WorkflowError for a strategy that does not exist."""
    if capture not in CAPTURES:
        raise WorkflowError(f"unknown capture '{capture}'; captures: {', '.join(CAPTURES)}")


def refusal(breaker: Breaker, strategy: str) -> str | None:
    """Why a strategy would be unsound or dangerous for a breaker; None if it is neither."""
    node = breaker.node
    by_pair = isinstance(node, Join) and node.how == "semi" and node.equi_condition is None
    if strategy != "stage" and by_pair:
        return "its `on` compares more than keys, so matching pairs must be written when they are found"
    if isinstance(node, Window):
        if strategy == "inject":
            return "every row would carry the list of the rows that it was computed from"
        if strategy in LATER:
            return (
                "the rows that its measures read must be recorded in the run: read again, ties may be in another order"
            )
    if strategy == "inject":
        size = _largest_group_bytes(breaker)
        if size is not None and size > ROW_LIMIT:
            return (
                f"a group may have up to {breaker.rows:,} rows, and a list of that many does not fit into a Spark row "
                "(2 GiB)"
            )
    if strategy in LATER and breaker.unstable is not None:
        return f"reading again may give other rows: {breaker.unstable}"
    return None


def _largest_group_bytes(breaker: Breaker) -> float | None:
    """The size in bytes of the list of a group that surely contains all rows; None if the size is unknown before the
    run.
    """
    if breaker.rows is None or not _has_one_group(breaker.node):
        return None
    return breaker.rows * (BYTES_A_MEMBER + 8.0 * breaker.handles)


def choose_strategy(breaker: Breaker, capture: str) -> Choice:
    """The strategy for one breaker under the requested capture. Refusals must have been reported before."""
    check_capture(capture)
    if capture != "auto":
        refused = refusal(breaker, capture)
        if refused is None:
            return Choice(capture, "asked for", breaker.rows)
        return Choice("stage", f"not by {capture}: {refused}", breaker.rows)
    return replace(_cheapest(breaker), estimate=breaker.rows)


def _cheapest(breaker: Breaker) -> Choice:
    if breaker.direct and breaker.unstable is None:
        return Choice("defer", "its keys are columns of the source: indexed from the source's own files after the run")
    reads = breaker.reads
    if reads is None:
        return Choice("stage", "always sound; the number of rows that it reads is not known yet")
    rows = _cautious_rows(reads)
    known = "as many as last time" if reads.remembered else "by the sources' sizes"
    costs = {"stage": STAGED_JOB + STAGED * rows}
    if refusal(breaker, "inject") is None and rows <= (MOST_INJECTED if reads.remembered else MOST_GUESSED):
        row = INJECTED_DISTINCT if _has_distinct_measure(breaker.node) else INJECTED
        costs["inject"] = (row + INJECTED_HANDLE * breaker.handles) * rows
        if not breaker.carried:
            costs["inject"] += LISTED_JOB + (0 if _has_one_group(breaker.node) else LISTED * rows)
    if refusal(breaker, "defer") is None:
        again = (SCANNED + JOINED * bool(breaker.joins)) * reads.scanned
        costs["defer"] = REREAD_JOB + again + REREAD * rows
    if breaker.looked_for is not None:
        costs["reduced"] = _reduced_cost(breaker.looked_for, rows)
    pick = min(costs, key=lambda strategy: costs[strategy])
    about = f"about {reads.rows:,.0f} rows, {known}"
    why = {
        "inject": f"few enough to be collected with the result ({about})",
        "defer": f"cheap to read again ({about})",
        "stage": f"{about}: written once" + ("" if "defer" in costs else f"; {refusal(breaker, 'defer')}"),
        "reduced": f"{REDUCED} ({about})",
    }
    return Choice("stage" if pick == "reduced" else pick, why[pick])


def _reduced_cost(left: Estimate, right_rows: float) -> float:
    """The cost of writing the left rows of a semi join, and then the right rows that match them: as large a share of
    the right side as of the left one is there.
    """
    left_rows = _cautious_rows(left)
    before_predicates = max(left.base, right_rows) if left.remembered else max(left.base, 1.0)
    matched = right_rows * min(1.0, left_rows / before_predicates)
    return 2 * STAGED_JOB + STAGED * (left_rows + matched)


def _has_distinct_measure(node: Node) -> bool:
    return isinstance(node, Aggregate) and any("distinct" in each.expression.words for each in node.measures)


def _has_one_group(node: Node) -> bool:
    return isinstance(node, Aggregate) and not node.keys


def _cautious_rows(estimate: Estimate) -> float:
    """The rows by which costs are compared. A guess may be far too low, so the rows before predicates count too."""
    return estimate.rows if estimate.remembered else (estimate.rows * estimate.base) ** 0.5


def refusals(breakers: Sequence[Breaker], capture: str) -> list[tuple[Node, str]]:
    """The breakers for which the requested strategy is refused, each with the reason."""
    if capture in ("auto", "off"):
        return []
    wanted = [each for each in breakers if not is_staged_instead(each, capture)]
    return [(each.node, reason) for each in wanted if (reason := refusal(each, capture)) is not None]


def is_staged_instead(breaker: Breaker, strategy: str) -> bool:
    """Whether a breaker is staged although another strategy was requested, without being refused: a window, because
    only the run shows whether its order is total.
    """
    return isinstance(breaker.node, Window) and strategy in LATER
