"""Decides what is still exact if rows of a source can no longer be read.

Operators that handle rows one by one are exact for the remaining rows. An operator that looks at several rows together
may compute other values, or return other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from lineage_service.capture.nondeterminism import Nondeterminism
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


def nondeterminism_without_rows(
    node: Node, chance: Nondeterminism, missing: Sequence[str | None], leads: Sequence[bool]
) -> tuple[Nondeterminism, str | None]:
    """The nondeterminism of a node's rows, and the reason why some rows are missing; None if none are.

    chance: its nondeterminism without missing rows
    missing: for each input, why rows of it are missing, or None
    leads: for each input, whether it contains rows that the question is about
    """
    why = next((each for each in missing if each is not None), None)
    if why is None:
        return chance, None
    match node:
        case Source() | Filter() | Project() | WithColumns() | Sort() | Explode() | Union() | Distinct():
            return chance, why
        case Aggregate() | Window():
            values = frozenset(named.name.lower() for named in node.measures)
            return replace(chance, columns=chance.columns | values), why
        case Join() | Difference(all=False) if _has_all_partners(node, missing, leads):
            return chance, why
        case Join() | Intersect() | Difference() | Limit():
            if chance.reason is not None:
                return chance, why
            return replace(chance, reason=why, step=node.step), why
        case _:
            assert_never(node)


def _has_all_partners(node: Join | Difference, missing: Sequence[str | None], leads: Sequence[bool]) -> bool:
    """Whether every row that the question is about meets exactly the rows that it met in the run."""
    if any(leads[place] and missing[1 - place] is not None for place in (0, 1)):
        return False
    return missing[1] is None or (isinstance(node, Join) and node.how in ("inner", "cross"))
