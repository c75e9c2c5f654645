"""The lineage tables of a run until they are indexed: a manifest in the run's folder, readable by any process.

A run leaves its tables in `runs/<id>/lineage/` and commits. The index is made from them afterwards, by the same command
or a later one. Then the folder is removed, except for tables that are captured on demand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from lineage_service.capture.direct_indexing import DirectLookup
from lineage_service.capture.handles import Handle, Role, Space, Table
from lineage_service.capture.workload import DeclaredQuestion, Workload
from lineage_service.store.checksums import parsed_note, read_note
from lineage_service.store.layout import RunFolder

Kind = Literal["files", "direct", "later", "lazy"]
MANIFEST = "tables.json"


@dataclass(frozen=True, slots=True)
class TableRows:
    """Where the rows of a lineage table are.

    kind: `files`; `direct`: looked up in a source's own files; `later`: read again by Spark; `lazy`: read again for a
    question
    files: paths inside the home
    id: the column of ids; None for the position in the files
    handles: the columns of handles
    check: a second hash of the values that `id` is a hash of
    where: a predicate that selects the rows
    nested: the column with a list of members in each row
    carrier: the dataset whose row ids are used as ids
    framed: the handles are bounds of intervals, as distances from the id
    within: the dataset in whose files the rows are, by position
    """

    kind: Kind
    files: tuple[str, ...] = ()
    id: str | None = None
    handles: tuple[str, ...] = ()
    check: str | None = None
    where: str | None = None
    nested: str | None = None
    carrier: str | None = None
    direct: DirectLookup | None = None
    framed: bool = False
    within: str | None = None

    def to_json(self) -> dict[str, Any]:
        body = asdict(self)
        body["direct"] = self.direct.to_json() if self.direct else None
        return {key: value for key, value in body.items() if value not in (None, (), [], False)}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> TableRows:
        direct = DirectLookup.from_json(body["direct"]) if body.get("direct") else None
        plain = {key: body.get(key) for key in ("id", "check", "where", "nested", "carrier", "within")}
        return cls(
            body["kind"], tuple(body.get("files", ())), handles=tuple(body.get("handles", ())), direct=direct,
            framed=body.get("framed", False), **plain,
        )  # fmt: skip


@dataclass(frozen=True)
class LineageTables:
    """All lineage tables of a run.

    salt: of the hashes that stand for keys
    prefix: of our columns' names
    conf: Spark's settings under which expressions were evaluated, needed to evaluate them again
    workload: the declared questions
    """

    prefix: str
    salt: int
    tables: tuple[Table, ...]
    rows: Mapping[Space, TableRows] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    workload: Workload = field(default_factory=Workload)

    @property
    def pending(self) -> list[Space]:
        """Tables that Spark has to read again before an index can be made."""
        return [space for space, rows in self.rows.items() if rows.kind == "later"]

    def save(self, folder: RunFolder) -> None:
        body = {
            "prefix": self.prefix,
            "salt": self.salt,
            "tables": [table_json(table) for table in self.tables],
            "rows": {space: rows.to_json() for space, rows in self.rows.items()},
            "conf": dict(self.conf),
            "workload": [question.to_json() for question in self.workload.questions],
        }
        path = folder.lineage / MANIFEST
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        handle = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)  # the salt is nobody else's business
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(body, stream)
        fresh.replace(path)

    @classmethod
    def load(cls, folder: RunFolder) -> LineageTables | None:
        """The tables of a run; None if it has none any more."""
        text = read_note(folder.lineage / MANIFEST)
        if text is None:
            return None
        body = parsed_note(text, folder.lineage / MANIFEST)
        rows = {Space(space): TableRows.from_json(each) for space, each in body["rows"].items()}
        tables = tuple(table_from_json(each) for each in body["tables"])
        workload = Workload(tuple(DeclaredQuestion.from_json(each) for each in body.get("workload", ())))
        return cls(body["prefix"], body["salt"], tables, rows, body.get("conf", {}), workload)


def table_json(table: Table) -> dict[str, Any]:
    handles = [[handle.space, int(handle.role)] for handle in table.handles]
    return {
        "space": table.space,
        "handles": handles,
        "everything": table.everything,
        "once": list(table.once),
        "left": table.left,
        "always": table.always,
        "frames": table.frames,
    }


def table_from_json(body: dict[str, Any]) -> Table:
    handles = tuple(Handle(Space(space), Role(role)) for space, role in body["handles"])
    everything = Space(body["everything"]) if body["everything"] else None
    return Table(
        Space(body["space"]), handles, everything, tuple(body["once"]), body.get("left"), body.get("always", False),
        body.get("frames", 0),
    )  # fmt: skip


def bound_name(number: int) -> str:
    """The name of a column of a view of intervals: lo0, hi0, lo1, …"""
    return f"{'hi' if number % 2 else 'lo'}{number // 2}"


def parquet_files(folder: Path) -> list[Path]:
    """The files that Spark wrote to a folder, in the order of its rows."""
    return sorted(folder.glob("*.parquet"))


def is_left_over(folder: RunFolder) -> bool:
    """Whether a complete run still has tables from which its index was made. Tables that are captured on demand are
    needed.
    """
    tables = LineageTables.load(folder)
    return tables is not None and not any(rows.kind == "lazy" for rows in tables.rows.values())
