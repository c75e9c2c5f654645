"""The result of a diff: the rows that changed between two runs of a dataset, and the source rows behind each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lineage_service.query.answer import Answer, AnswerPart

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Kind = Literal["added", "removed", "changed"]


@dataclass(frozen=True)
class Counts:
    """Numbers of rows. `new` counts added rows that the earlier version lacks; `gone` counts removed rows that the
    later version lacks.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    same: int | None = 0
    new: int | None = None
    gone: int | None = None

    @property
    def any(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, int]:
        return {name: count for name, count in vars(self).items() if count is not None}


@dataclass(frozen=True, repr=False)
class RowBehind:
    """A source row that contributes to only one of the two rows, or to both with different values.

    `after` is the row in the later version, `before` in the earlier one. An added source row has a `before` if the
    earlier version held it with other values and it did not contribute there; a removed row has an `after` likewise.
    `known` says whether the version in which it does not contribute holds the row too. It is None if that run does not
    read the source or if this cannot be determined.
    """

    change: Kind
    before: Row | None
    after: Row | None
    known: bool | None
    columns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<RowBehind: {self.change}>"

    def to_json(self) -> dict[str, Any]:
        match self.change:
            case "added":
                return {"row": self.after, "existed": self.known, "before": self.before}
            case "removed":
                return {"row": self.before, "exists": self.known, "after": self.after}
            case _:
                return {"before": self.before, "after": self.after, "columns": list(self.columns)}


@dataclass(frozen=True)
class SourceIdentity:
    """A source behind the dataset, and how its rows are matched between the two runs.

    `identity` is `rid` (both runs read the same version), `key`, `content` (no key: rows of equal content match), or
    None if rows cannot be matched; `note` gives the reason. `absence` counts the differences between the two whole
    versions of a source that influences only by the absence of a match.
    """

    source: str
    identity: Literal["rid", "key", "content"] | None
    key: tuple[str, ...] = ()
    inferred: bool = False
    note: str | None = None
    by_absence: bool = False
    absence: Counts | None = None
    masked: frozenset[str] = frozenset()  # masked columns, in lower case

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"source": self.source, "identity": self.identity, "key": list(self.key)}
        found |= {"key_inferred": self.inferred, "note": self.note}
        if self.by_absence:
            found["absence"] = None if self.absence is None else self.absence.to_json()
        return found


@dataclass(frozen=True)
class Behind:
    """The rows of one source behind one change: a sample of those that differ, and their number.

    `counts` is None if rows cannot be matched. `contributing` holds the numbers of contributing rows before and after.
    A source that influences only by absence lists no rows: `absent` is set, and the counts are those of the whole
    source.
    """

    source: SourceIdentity
    counts: Counts | None
    contributing: tuple[int, int] = (0, 0)
    rows: tuple[RowBehind, ...] = ()
    absent: bool = False

    @property
    def hidden(self) -> int:
        """The number of rows that differ and are not shown."""
        if self.counts is None or self.absent:
            return 0
        return self.counts.added + self.counts.removed + self.counts.changed - len(self.rows)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"source": self.source.source, "identity": self.source.identity}
        if self.source.note:
            found["note"] = self.source.note
        counts = None if self.counts is None else self.counts.to_json()
        if self.absent:
            return {**found, "absence": True, "counts": counts}
        for kind in ("added", "removed", "changed"):
            found[kind] = [row.to_json() for row in self.rows if row.change == kind]
        before, after = self.contributing
        return {**found, "counts": counts, "contributing": {"before": before, "after": after}}


@dataclass(frozen=True, repr=False)
class Change:
    """A row that only one of the runs has, or that differs between them. `reason` is set when no source row explains
    the change.
    """

    change: Kind
    key: Row
    before: Row | None
    after: Row | None
    columns: tuple[str, ...]
    rid_before: int | None
    rid_after: int | None
    behind: tuple[Behind, ...] = ()
    reason: str | None = None

    def __repr__(self) -> str:
        rid = self.rid_after if self.rid_after is not None else self.rid_before
        columns = f" in {', '.join(self.columns)}" if self.columns else ""
        return f"<Change: row {rid} {self.change}{columns}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "change": self.change, "key": self.key, "before": self.before, "after": self.after,
            "columns": list(self.columns), "rid_before": self.rid_before, "rid_after": self.rid_after,
            "behind": [each.to_json() for each in self.behind], "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True)
class RunSide:
    """One of the two runs."""

    run_id: str
    committed_at: str


@dataclass(frozen=True)
class ChangedRows:
    """The rows shown, as Arrow: one line per change (change, rid_before, rid_after, differs), and the rows by rid."""

    lines: pa.Table
    before: pa.Table
    after: pa.Table


@dataclass(frozen=True, repr=False)
class Diff:
    """Two runs of a dataset compared. `remaining` changes were cut off by a limit; counts always include all changes.

    `variables_changed` has the values before and after, None if a run has no such variable. `workflows_changed` names
    the dataset's workflow and upstream workflows whose files changed; `steps_changed` names the changed steps of its
    own.
    """

    dataset: str
    before: RunSide
    after: RunSide
    key: tuple[str, ...]
    key_origin: str
    counts: Counts
    rows: ChangedRows
    compared: tuple[str, ...]
    remaining: int = 0
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    types_changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    variables_changed: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    workflows_changed: tuple[str, ...] = ()
    steps_changed: tuple[str, ...] = ()
    sources: tuple[SourceIdentity, ...] = ()
    behind: Mapping[int, tuple[Behind, ...]] = field(default_factory=dict)
    traced: bool = False
    tolerance: float = 0.0
    within_tolerance: int = 0  # rows that differ only within the tolerance; they count as equal
    masked: frozenset[str] = frozenset()  # masked columns of the dataset, in lower case
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.to_json().items())
        return f"<Diff of {self.dataset}: {counts}>"

    def __len__(self) -> int:
        """The number of listed changes; `remaining` more were cut off."""
        return int(self.rows.lines.num_rows)

    def __iter__(self) -> Iterator[Change]:
        return self.changes()

    @property
    def key_inferred(self) -> bool:
        return self.key_origin != "given"

    def changes(self) -> Iterator[Change]:
        """Yields the changes in key order."""
        old, new = RowsByRid(self.rows.before), RowsByRid(self.rows.after)
        for n, (change, rid_before, rid_after, columns) in enumerate(self.lines(), start=1):
            before, after = old.get(rid_before), new.get(rid_after)
            key = self._key_of(after if after is not None else before or {})
            yield Change(
                change, key, before, after, columns, rid_before, rid_after, self.behind.get(n, ()), self.reason(n)
            )

    def lines(self) -> Iterator[tuple[Kind, int | None, int | None, tuple[str, ...]]]:
        """The changes without values: kind of change, rids before and after, columns that differ."""
        columns = (each.to_pylist() for each in self.rows.lines.columns)
        for change, rid_before, rid_after, differs in zip(*columns, strict=True):
            yield change, rid_before, rid_after, tuple(self.compared[index] for index in differs or ())

    def _key_of(self, row: Row) -> Row:
        by_lower = {name.lower(): value for name, value in row.items()}
        return {name: by_lower.get(name.lower()) for name in self.key}

    def reason(self, n: int) -> str | None:
        """The remaining explanation of the n-th change (from 1) when the same source rows are behind both rows."""
        behind = self.behind.get(n, ())
        if not self.traced or any(each.counts is None or each.counts.any for each in behind):
            return None
        if not behind:
            return "no source rows behind it"
        causes = ["the workflow changed"] if self.workflows_changed else []
        causes += ["variables changed"] if self.variables_changed else []
        return "; ".join(["same source rows", *causes])

    def answer(self) -> Answer:
        """One row per change: change, key columns, rids, then each other column before and after."""
        table = self.arrow()
        sides = {f"{name}{side}" for name in self.masked for side in ("_before", "_after")}
        keys = {name.lower() for name in self.key}
        hidden = tuple(
            name
            for place, name in enumerate(table.column_names)
            if (name.lower() in self.masked & keys if place <= len(keys) else name.lower() in sides)
        )

        def open_() -> pa.RecordBatchReader:
            return table.to_reader()

        return Answer(
            [AnswerPart(table.column_names, open_, remaining=self.remaining or None, masked=hidden)], "records"
        )

    def arrow(self) -> pa.Table:
        """The `answer` as an Arrow table. A column that only one of the runs has appears once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        lines, sides = self.rows.lines, {"before": self.rows.before, "after": self.rows.after}
        places = {
            side: pc.index_in(lines.column(f"rid_{side}"), value_set=pc.unique(table.column("_rid")))
            for side, table in sides.items()
        }
        columns: list[tuple[str, Any]] = [("change", lines.column("change"))]
        taken = {
            side: {
                name.lower(): (name, table.column(name).take(places[side]))
                for name in table.column_names
                if name != "_rid"
            }
            for side, table in sides.items()
        }
        for name in self.key:
            (_, before), (_, after) = taken["before"].pop(name.lower()), taken["after"].pop(name.lower())
            columns.append((name, _either(after, before)))
        columns += [("_rid_before", lines.column("rid_before")), ("_rid_after", lines.column("rid_after"))]
        for name in dict.fromkeys([*taken["after"], *taken["before"]]):
            for side in ("before", "after"):
                if name in taken[side]:
                    columns.append((f"{taken[side][name][0]}_{side}", taken[side][name][1]))
        return pa.table([values for _, values in columns], names=_unique_names([name for name, _ in columns]))

    def to_json(self) -> dict[str, Any]:
        """The diff as a JSON object. `to_json_value` of `render/json` serialises its values."""
        return {**self.summary(), "changes": [change.to_json() for change in self.changes()]}

    def summary(self) -> dict[str, Any]:
        """The JSON object without the list of changes."""
        return {
            "dataset": self.dataset,
            "before": self.before.run_id,
            "after": self.after.run_id,
            "committed_at": {"before": self.before.committed_at, "after": self.after.committed_at},
            "key": list(self.key),
            "key_inferred": self.key_inferred,
            "counts": self.counts.to_json(),
            "tolerance": self.tolerance,
            "within_tolerance": self.within_tolerance,
            "variables_changed": _before_and_after(self.variables_changed),
            "workflows_changed": list(self.workflows_changed),
            "steps_changed": list(self.steps_changed),
            "columns_added": list(self.columns_added),
            "columns_removed": list(self.columns_removed),
            "types_changed": _before_and_after(self.types_changed),
            "sources": [each.to_json() for each in self.sources],
            "notes": list(self.notes),
            "remaining": self.remaining,
        }


def _has_plain_maps(kind: pa.DataType) -> bool:
    """Whether maps in this type can become Python dicts. They cannot if a key is a list or a struct."""
    text = str(kind)
    return "map<" in text and "map<list<" not in text and "map<struct<" not in text and "map<map<" not in text


class RowsByRid:
    """The rows of an Arrow table by rid. Each row is built on access; None for an unknown rid."""

    def __init__(self, table: pa.Table) -> None:
        # Column by column: for many rows this is ten times faster in Arrow.
        columns = {
            name: each.to_pylist(maps_as_pydicts="lossy" if _has_plain_maps(each.type) else None)
            for name, each in zip(table.column_names, table.columns, strict=True)
        }
        self._places = {rid: place for place, rid in enumerate(columns["_rid"])}
        self._columns = columns

    def get(self, rid: int | None, *, with_rid: bool = False) -> Row | None:
        place = self._places.get(rid)
        if place is None:
            return None
        return {name: values[place] for name, values in self._columns.items() if with_rid or name != "_rid"}


def _either(first: Any, second: Any) -> Any:
    """Values of the first column, or of the second where the first is null. Cast to text if the types differ."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if first.type != second.type:
        try:
            second = second.cast(first.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            first, second = (
                pa.chunked_array([[_text(v) for v in each.to_pylist()]], pa.string()) for each in (first, second)
            )
    if not pa.types.is_nested(first.type):
        return pc.coalesce(first, second)
    values = [a if a is not None else b for a, b in zip(first.to_pylist(), second.to_pylist(), strict=True)]
    return pa.chunked_array([pa.array(values, first.type)])


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _unique_names(names: Sequence[str]) -> list[str]:
    """Makes names unique by appending a number to repeated ones, as DuckDB does: `change_1`."""
    found: list[str] = []
    for name in names:
        number, shown = 0, name
        while shown in found or (number and shown in names):
            number += 1
            shown = f"{name}_{number}"
        found.append(shown)
    return found


def _before_and_after(pairs: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {name: {"before": before, "after": after} for name, (before, after) in pairs.items()}
