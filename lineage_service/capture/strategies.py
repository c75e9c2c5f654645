"""How the members of a pipeline breaker are got: chosen per breaker, apart from what the operator does.

`stage` writes the rows below the breaker once and computes result and members from that: right everywhere,
also above chance and unordered limits. Other strategies come here without an operator being touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from lineage_service.errors import WorkflowError
from lineage_service.plan.nodes import Node

CAPTURES = ("auto", "inject", "defer", "stage", "lazy", "off")
AVAILABLE = ("auto", "stage", "off")


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and why it was picked."""

    strategy: str
    reason: str


def check_capture(capture: str) -> None:
    """WorkflowError for a strategy that does not exist, or not yet."""
    if capture not in CAPTURES:
        raise WorkflowError(f"unknown capture '{capture}'; captures: {', '.join(CAPTURES)}")
    if capture not in AVAILABLE:
        raise WorkflowError(
            f"capture '{capture}' is not available in this version; available: {', '.join(AVAILABLE)}",
            hint="leave it at auto: stage gives the same pairs",
        )


def choose(node: Node, capture: str) -> Choice:
    """The strategy for one breaker under the requested capture."""
    check_capture(capture)
    if capture == "stage":
        return Choice("stage", "asked for")
    if not all(below.repeatable for below in _below(node)):
        return Choice("stage", "rows below may differ when read again, so they are written once")
    return Choice("stage", "always sound: result and members come from one written copy")


def _below(node: Node) -> list[Node]:
    found: list[Node] = []
    for below in node.inputs:
        found += [below, *_below(below)]
    return found
