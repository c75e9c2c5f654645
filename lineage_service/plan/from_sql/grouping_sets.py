"""ROLLUP, CUBE and GROUPING SETS: which keys each set groups by, and a copy of every row for each set.

The rows are read once: they are multiplied by the sets, and then grouped by the keys together with the number of the
set. A key that is not of a copy's set is null there. The columns that the keys are made of stay as they are, and
aggregate functions read these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.repeated_rows import numbers_below, repeat_rows

if TYPE_CHECKING:
    from sqlglot import exp

GroupingSet = tuple[int, ...]  # numbers of keys
_MOST_SETS = 4096


@dataclass(frozen=True, slots=True)
class MultipliedRows:
    """The sets of a GROUP BY; `column` has the number of the set that a copy of a row is for."""

    sets: tuple[GroupingSet, ...]
    column: str

    def key_text(self, key: int, text: str) -> str:
        """A key, null in the sets that leave it out."""
        containing = [number for number, each in enumerate(self.sets) if key in each]
        return text if len(containing) == len(self.sets) else f"CASE WHEN {self._is_one_of(containing)} THEN {text} END"

    def grouping_id(self, keys: Sequence[int]) -> str:
        """A bit for each key, the first one highest: 1 where the key is left out of the set."""
        numbers: dict[int, list[int]] = {}
        for number, each in enumerate(self.sets):
            bits = sum(1 << place for place, key in enumerate(reversed(keys)) if key not in each)
            numbers.setdefault(bits, []).append(number)
        *others, last = numbers
        cases = " ".join(f"WHEN {self._is_one_of(numbers[bits])} THEN {bits}L" for bits in others)
        return f"CASE {cases} ELSE {last}L END" if others else f"{last}L"

    def _is_one_of(self, numbers: Sequence[int]) -> str:
        listed = ", ".join(map(str, numbers))
        return "false" if not numbers else f"{self.column} IN ({listed})"


def multiply_rows(block: BlockState, place: exp.Expr, sets: Sequence[GroupingSet]) -> MultipliedRows:
    """Every row once for each set."""
    block.node, number = repeat_rows(block.context, place, block.node, "grouping_set", numbers_below(len(sets)))
    return MultipliedRows(tuple(sets), number)


def grouping_entries(group: exp.Expr) -> list[exp.Expr]:
    """The entries of a GROUP BY. `a, b WITH ROLLUP` is the entry `ROLLUP (a, b)`; of `a, b GROUPING SETS (…)` the sets
    are the entries, and `plain_keys` has a and b."""
    from sqlglot import exp

    if group.args.get("grouping_sets"):
        return list(group.args["grouping_sets"])
    for key, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        if group.args.get(key):
            return [kind(expressions=list(group.expressions))]
    return list(group.expressions)


def plain_keys(group: exp.Expr) -> list[exp.Expr]:
    """Keys that come first and make no set: those before GROUPING SETS."""
    return list(group.expressions) if group.args.get("grouping_sets") else []


def is_sets(entry: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(entry, exp.Rollup | exp.Cube | exp.GroupingSets)


def grouping_sets(
    group: exp.Expr, entries: Sequence[exp.Expr], key_of: Callable[[exp.Expr], int]
) -> tuple[GroupingSet, ...]:
    """The sets that the entries make together: each set of one entry with each of the others, as often as they come."""
    found: list[GroupingSet] = [()]
    for entry in entries:
        sets = list(_sets_of(entry, key_of))
        if len(found) * len(sets) > _MOST_SETS:
            raise refuse(group, f"GROUP BY has more than {_MOST_SETS} grouping sets")
        found = [_joined(pair) for pair in product(found, sets)]
    return tuple(found)


def _sets_of(entry: exp.Expr, key_of: Callable[[exp.Expr], int]) -> Iterator[GroupingSet]:
    from sqlglot import exp

    if isinstance(entry, exp.GroupingSets):
        for each in entry.expressions:
            if is_sets(each):
                yield from _sets_of(each, key_of)
            else:
                yield _part(each, key_of)
    elif isinstance(entry, exp.Rollup | exp.Cube):
        if not entry.expressions:
            raise refuse(entry, "this grouping set has no keys", "write ROLLUP (…) with the keys in parentheses")
        parts = [_part(each, key_of) for each in entry.expressions]
        if isinstance(entry, exp.Cube) and 2 ** len(parts) > _MOST_SETS:
            raise refuse(entry, f"GROUP BY has more than {_MOST_SETS} grouping sets")
        for count in range(len(parts), -1, -1):
            chosen = combinations(parts, count) if isinstance(entry, exp.Cube) else [tuple(parts[:count])]
            yield from map(_joined, chosen)
    else:
        yield _part(entry, key_of)


def _part(entry: exp.Expr, key_of: Callable[[exp.Expr], int]) -> GroupingSet:
    """One entry, or several in parentheses."""
    from sqlglot import exp

    inside = entry.expressions if isinstance(entry, exp.Tuple) else [entry]
    return _joined([(key_of(each),) for each in inside])


def _joined(parts: Sequence[GroupingSet]) -> GroupingSet:
    return tuple(dict.fromkeys(key for part in parts for key in part))
