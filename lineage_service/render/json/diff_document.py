"""A diff as one JSON object, with one change per line. Values become text column by column, as in other answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from lineage_service.render.column_text import join_texts, json_text
from lineage_service.render.json_values import EXACT_INTEGER, dump_json

if TYPE_CHECKING:
    from lineage_service.query.diff.diff_result import Diff

RID = "_rid"
BLOCK = 1000  # changes in one piece


def diff_document(diff: Diff) -> Iterator[str]:
    """Yields the text of the object in pieces: first what holds for the whole diff, then `changes`."""
    yield f'{dump_json(diff.summary())[:-1]}, "changes": ['
    objects, lead = _objects(diff), ""
    while block := list(islice(objects, BLOCK)):
        yield f"{lead}\n{f',{chr(10)}'.join(block)}"
        lead = ","
    yield "\n]}\n" if lead else "]}\n"


def _objects(diff: Diff) -> Iterator[str]:
    before, after = _by_rid(diff.rows.before), _by_rid(diff.rows.after)
    old_keys, new_keys = _by_rid(diff.rows.before, diff.key), _by_rid(diff.rows.after, diff.key)
    names: dict[tuple[str, ...], str] = {}
    for n, (change, rid_before, rid_after, columns) in enumerate(diff.lines(), start=1):
        if columns not in names:
            names[columns] = dump_json(columns)
        key = new_keys[rid_after] if rid_after is not None else old_keys[rid_before]
        behind, reason = diff.behind.get(n, ()), diff.reason(n)
        yield (
            f'{{"change": "{change}", "key": {key}, "before": {before.get(rid_before, "null")}, '
            f'"after": {after.get(rid_after, "null")}, "columns": {names[columns]}, '
            f'"rid_before": {_number(rid_before)}, "rid_after": {_number(rid_after)}, '
            f'"behind": {dump_json([each.to_json() for each in behind]) if behind else "[]"}, '
            f'"reason": {"null" if reason is None else dump_json(reason)}}}'
        )


def _number(rid: int | None) -> str:
    return "null" if rid is None else str(rid) if rid <= EXACT_INTEGER else f'"{rid}"'


def _by_rid(table: pa.Table, wanted: Sequence[str] | None = None) -> dict[int | None, str]:
    """Returns each row as a JSON object, by its rid; `wanted` selects columns and gives them their names."""
    names = {name.lower(): name for name in wanted} if wanted is not None else None
    pieces: list[pa.Array | str] = []
    for name, values in zip(table.column_names, table.columns, strict=True):
        if name == RID or (names is not None and name.lower() not in names):
            continue
        shown = name if names is None else names[name.lower()]
        column = values.combine_chunks()
        column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
        pieces += [f"{', ' if pieces else ''}{json.dumps(shown, ensure_ascii=False)}: ", json_text(column)]
    if not pieces:
        return dict.fromkeys(table.column(RID).to_pylist(), "{}")
    return dict(zip(table.column(RID).to_pylist(), join_texts("{", *pieces, "}").to_pylist(), strict=True))
