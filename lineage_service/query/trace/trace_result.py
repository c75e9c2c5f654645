"""The result of `trace`: one record, and trees of datasets that it came from and went into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lineage_service.store.row_places import RowPlace

Link = Literal["contributes", "absence"]


@dataclass(frozen=True, slots=True, repr=False)
class TracedRow:
    """A row as it is shown.

    `place` is the position of a source's row in its file. `peer`: a window read the row on behalf of another row.
    `masked` names the masked columns. `origin` describes where a source's row comes from if it has no position.
    """

    rid: int
    values: dict[str, Any]
    place: RowPlace | None = None
    peer: bool = False
    masked: tuple[str, ...] = ()
    origin: str | None = None

    def __repr__(self) -> str:
        return f"<TracedRow {self.rid}>"

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"_rid": self.rid, "values": self.values}
        if self.place is not None:
            body["file"] = self.place.file
            body["line" if self.place.line is not None else "row"] = (
                self.place.line if self.place.line is not None else self.place.row
            )
            if self.place.changed:
                body["file_changed"] = True
        if self.origin is not None:
            body["origin"] = self.origin
        if self.peer:
            body["role"] = "peer"
        return body


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step on the way to a dataset, with a description."""

    name: str
    does: str


@dataclass(frozen=True, slots=True, repr=False)
class TracedSet:
    """Rows of one dataset in the trace: their number, a sample, the steps that made them, and the neighbouring sets.

    `read_as` is the name under which another workflow reads them. `unreadable` is the reason why no rows are shown.
    `seen`: the same rows appear earlier in the tree, with their neighbours. `cut`: the depth limit leaves out more.
    `earlier`: they belong to a run that is not its workflow's latest, on the way to one that is.
    """

    dataset: str
    run_id: str
    kind: str
    link: Link
    count: int
    peers: int = 0
    rows: tuple[TracedRow, ...] = ()
    read_as: str | None = None
    unreadable: str | None = None
    made_by: tuple[TracedStep, ...] = ()
    next: tuple[TracedSet, ...] = ()
    seen: bool = False
    cut: bool = False
    earlier: bool = False

    def __repr__(self) -> str:
        return f"<TracedSet: {self.count} rows of {self.dataset}>"

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "dataset": self.dataset,
            "run_id": self.run_id,
            "kind": self.kind,
            "link": self.link,
            "count": self.count,
        }
        if self.peers:
            body["peers"] = self.peers
        if self.read_as:
            body["read_as"] = self.read_as
        if self.unreadable:
            body["unreadable"] = self.unreadable
        body["rows"] = [row.to_json() for row in self.rows]
        body["made_by"] = [{"step": step.name, "does": step.does} for step in self.made_by]
        body |= {mark: True for mark in ("seen", "cut", "earlier") if getattr(self, mark)}
        body["next"] = [each.to_json() for each in self.next]
        return body


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """The complete trace of one record. `root` is the record; `behind` and `ahead` are the adjacent datasets."""

    root: TracedSet
    committed_at: str
    behind: tuple[TracedSet, ...]
    ahead: tuple[TracedSet, ...]
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        counts = f"{len(self.behind)} datasets behind, {len(self.ahead)} ahead"
        return f"<Trace of {self.root.dataset}, row {self.record.rid}: {counts}>"

    @property
    def record(self) -> TracedRow:
        return self.root.rows[0]

    def to_json(self) -> dict[str, Any]:
        root = self.root.to_json()
        del root["next"], root["rows"], root["link"], root["count"]
        return {
            **root,
            "committed_at": self.committed_at,
            "record": self.record.to_json(),
            "behind": [each.to_json() for each in self.behind],
            "ahead": [each.to_json() for each in self.ahead],
            "notes": list(self.notes),
        }
