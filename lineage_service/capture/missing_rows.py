"""A plan evaluated over a source of which some rows can no longer be read: what is still told exactly of the others.

Rows that take their way one by one are judged by themselves, whatever other rows there were. Where a step looks at
several rows together, values that it computes may be others (as if left to chance), or the rows that it gives.
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
    """`missing` says of each input why rows of it are missing, None where none are; `leads`, whether rows asked for
    come by it. Gives what is left open of the node's rows, beside what is left to chance, and why some are missing."""
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
    """Whether every row asked for meets all the rows that it met in the run, and no other."""
    if any(leads[place] and missing[1 - place] is not None for place in (0, 1)):
        return False
    return missing[1] is None or (isinstance(node, Join) and node.how in ("inner", "cross"))
