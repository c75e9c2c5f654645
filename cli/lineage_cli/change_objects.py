"""A diff as one JSON object, a change a line. Values are made text column by column, as in every other answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lineage_cli.values import joined, json_document, json_text

if TYPE_CHECKING:
    from lineage_cli.sink import Sink
    from lineage_service.query.diff_result import Diff

RID = "_rid"


def write_changes(diff: Diff, sink: Sink) -> None:
    """Writes the object: first what holds for all of it, then `changes`."""
    sink.write_text(f'{_dumped(diff.summary())[:-1]}, "changes": [')
    number = 0
    for number, text in enumerate(_objects(diff), start=1):
        sink.write_text(f"{',' if number > 1 else ''}\n{text}")
    sink.write_text("\n]}\n" if number else "]}\n")


def _objects(diff: Diff) -> Iterator[str]:
    before, after = _by_rid(diff.rows.before), _by_rid(diff.rows.after)
    old_keys, new_keys = _by_rid(diff.rows.before, diff.key), _by_rid(diff.rows.after, diff.key)
    for n, (change, rid_before, rid_after, columns) in enumerate(diff.lines(), start=1):
        key = old_keys[rid_before] if rid_after is None and rid_before is not None else new_keys.get(rid_after, "{}")
        behind = diff.behind.get(n, ())
        yield (
            f'{{"change": "{change}", "key": {key}, "before": {before.get(rid_before, "null")}, '
            f'"after": {after.get(rid_after, "null")}, "columns": {_dumped(columns) if columns else "[]"}, '
            f'"rid_before": {_dumped(rid_before)}, "rid_after": {_dumped(rid_after)}, '
            f'"behind": {_dumped([each.to_json() for each in behind]) if behind else "[]"}, '
            f'"reason": {_dumped(diff.reason(n))}}}'
        )


def _by_rid(table: pa.Table, wanted: Sequence[str] | None = None) -> dict[int | None, str]:
    """Each row as a JSON object, by its rid; only the `wanted` columns, under the names they are wanted by."""
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
    return dict(zip(table.column(RID).to_pylist(), joined("{", *pieces, "}").to_pylist(), strict=True))


def _dumped(value: object) -> str:
    return json.dumps(json_document(value), ensure_ascii=False)
