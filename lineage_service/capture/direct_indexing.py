"""Finds group-bys whose members DuckDB can look up in the sources' own files.

The keys must be plain columns of sources, and the pipeline below must consist of filters and inner joins that mean the
same in Spark and DuckDB (equivalence/portable_predicates.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from lineage_service.equivalence.comparable_types import is_comparison_portable
from lineage_service.equivalence.portable_predicates import PortableColumn, source_column, translate_predicate
from lineage_service.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    NamedExpression,
    Node,
    Project,
    Sort,
    Source,
    WithColumns,
)


@dataclass(frozen=True, slots=True)
class DirectLookup:
    """How the rows of a dataset are looked up in sources.

    sources: their names, as t0, t1, …; a source may occur twice
    keys: triples of a source's number, its column, and the dataset column with the same values
    conditions: predicates in DuckDB's SQL
    """

    sources: tuple[str, ...]
    keys: tuple[tuple[int, str, str], ...]
    conditions: tuple[str, ...]

    @property
    def dataset_key_columns(self) -> list[str]:
        return [shown for _, _, shown in self.keys]

    def to_json(self) -> dict[str, Any]:
        keys = [list(key) for key in self.keys]
        return {"sources": list(self.sources), "keys": keys, "conditions": list(self.conditions)}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> DirectLookup:
        keys = tuple((int(number), str(own), str(shown)) for number, own, shown in body["keys"])
        return cls(tuple(body["sources"]), keys, tuple(body["conditions"]))


@dataclass(frozen=True, slots=True)
class _ScanTree:
    """A pipeline of scans, filters and joins: its sources, its predicates, and a function that resolves its columns."""

    sources: tuple[str, ...]
    conditions: tuple[str, ...]
    resolve: Callable[[str], PortableColumn | None]


def find_direct_lookup(breaker: Node, above: Sequence[Node], datasets: Set[str]) -> DirectLookup | None:
    """The lookup of a group-by's members in sources; None if there is none. `above` are the nodes from the group-by up
    to the dataset that contains its rows.

    Nodes in `datasets` have rows of their own. Lineage ends there, so the search does not continue below them.
    """
    if not isinstance(breaker, Aggregate | Distinct):
        return None
    if isinstance(breaker, Aggregate):
        keys = {named.name: _plain_column(named) for named in breaker.keys}
    else:
        keys = {name: name for name in breaker.schema.names}
    shown, tree = _key_columns_above(list(keys), above), _scan_tree(breaker.input, 0, datasets)
    if shown is None or tree is None:
        return None
    found = []
    for name, plain in keys.items():
        column = tree.resolve(plain) if plain is not None else None
        if column is None:
            return None
        found.append((column.source, column.name, shown[name]))
    return DirectLookup(tree.sources, tuple(found), tree.conditions)


def _plain_column(named: NamedExpression) -> str | None:
    """The column that an expression consists of; None for any other expression."""
    refs = named.expression.columns
    plain = len(refs) == 1 and len(refs[0].parts) == 1 and len(named.expression.tokens) == 1
    return refs[0].parts[0] if plain else None


def _key_columns_above(keys: Sequence[str], above: Sequence[Node]) -> dict[str, str] | None:
    """For each key, the dataset column with its values; None if one key has none."""
    names: dict[str, str] = {key: key for key in keys}
    for node in above:
        if isinstance(node, Project | WithColumns):
            renamed = {name.lower(): each.name for each in node.columns if (name := _plain_column(each)) is not None}
            computed = {each.name.lower() for each in node.columns}
            after: dict[str, str] = {}
            for key, name in names.items():
                if isinstance(node, WithColumns) and name.lower() not in computed:
                    after[key] = name
                elif name.lower() in renamed:
                    after[key] = renamed[name.lower()]
                else:
                    return None
            names = after
        elif not isinstance(node, Filter | Sort | Limit):
            return None
    return names


def _scan_tree(node: Node, first: int, datasets: Set[str]) -> _ScanTree | None:
    """The pipeline below a breaker, with its sources numbered from `first`; None if it contains any other operator."""
    if isinstance(node, Source):
        return _ScanTree((node.step,), (), lambda name: source_column(node, first, name))
    if node.id in datasets:
        return None
    if isinstance(node, Join):
        return _join_tree(node, first, datasets)
    if not isinstance(node, Filter | Project | WithColumns | Sort):
        return None
    below = _scan_tree(node.input, first, datasets)
    if below is None or isinstance(node, Sort):
        return below
    if isinstance(node, Filter):
        condition = translate_predicate(node.where, lambda parts: below.resolve(parts[0]) if len(parts) == 1 else None)
        return None if condition is None else _ScanTree(below.sources, (*below.conditions, condition), below.resolve)
    if any(each.expression.is_generator for each in node.columns):
        return None
    return _ScanTree(below.sources, below.conditions, lambda name: _projected_column(node, below, name))


def _projected_column(node: Project | WithColumns, below: _ScanTree, name: str) -> PortableColumn | None:
    found = next((each for each in node.columns if each.name.lower() == name.lower()), None)
    if found is None:
        return below.resolve(name) if isinstance(node, WithColumns) else None
    plain = _plain_column(found)
    return None if plain is None else below.resolve(plain)


def _join_tree(node: Join, first: int, datasets: Set[str]) -> _ScanTree | None:
    """An inner join by keys. Other joins return None, because their rows are not plain combinations, or are too
    many.
    """
    if node.how != "inner" or node.equi_condition is None or not node.equi_condition.keys:
        return None
    left = _scan_tree(node.left, first, datasets)
    right = _scan_tree(node.right, first + len(left.sources), datasets) if left is not None else None
    if left is None or right is None:
        return None
    shared = {name.lower() for name in node.using}

    def resolve(name: str) -> PortableColumn | None:
        in_left, in_right = node.left.schema.find(name), node.right.schema.find(name)
        if in_left and (not in_right or name.lower() in shared):
            return left.resolve(name)
        return right.resolve(name) if in_right and not in_left else None

    def resolve_side(parts: tuple[str, ...]) -> PortableColumn | None:
        if len(parts) == 2 and parts[0] in ("left", "right"):
            return (left if parts[0] == "left" else right).resolve(parts[1])
        return resolve(parts[0]) if len(parts) == 1 else None

    conditions = _using_conditions(node, left, right)
    if node.on is not None:
        on = translate_predicate(node.on, resolve_side)
        conditions = None if on is None else (on,)
    if conditions is None:
        return None
    return _ScanTree((*left.sources, *right.sources), (*left.conditions, *right.conditions, *conditions), resolve)


def _using_conditions(node: Join, left: _ScanTree, right: _ScanTree) -> tuple[str, ...] | None:
    found = []
    for name in node.using:
        one, other = left.resolve(name), right.resolve(name)
        if one is None or other is None or not is_comparison_portable(one.kind, other.kind):
            return None
        found.append(f"({one.sql} = {other.sql})")
    return tuple(found)
