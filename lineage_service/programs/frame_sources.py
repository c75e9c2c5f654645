"""What a program's data frame reads, as sources of a workflow: files, tables, and rows that the program made itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lineage_service.errors import Position
from lineage_service.plan.from_connect.messages import Message, Value
from lineage_service.plan.from_connect.source_references import source_reference
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.programs.dataset_places import DatasetNames, absolute_place
from lineage_service.spec.file_formats import FORMAT_NAMES
from lineage_service.spec.source_models import SourceSpec
from lineage_service.store.listing import is_elsewhere

# Reader options that choose other files than those that a listing of the path gives.
_CHOOSING = frozenset({"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "basepath",
                       "ignoremissingfiles", "ignorecorruptfiles"})  # fmt: skip
_OWN_ROWS = ("local_relation", "cached_local_relation", "chunked_cached_local_relation")

WriteRows = Callable[[Message, str], None]


@dataclass
class FrameSources:
    """Collects the sources of one write.

    names: of all datasets of the program; `output` is that of the write
    folder: where rows that the program made itself are written, by `write_rows`
    ddl: turns a reader's schema, JSON or DDL, into DDL
    written_by: the dataset whose rows are just the files of a place, because a program wrote them there
    seal: a digest with the home's key, since a plain one of a few rows tells what they are
    """

    names: DatasetNames
    output: str
    folder: Path
    write_rows: WriteRows
    ddl: Callable[[str], str | None]
    position_of: Callable[[Message], Position]
    written_by: Callable[[str], str | None]
    seal: Callable[[bytes], str]
    specs: dict[str, SourceSpec] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def with_references(self, relation: Message) -> Message:
        """The relation with a reference to a source in the place of each read. Raises Untraceable."""
        return replace_relations(relation, self._reference)

    def _reference(self, relation: Message) -> Message | None:
        position = self.position_of(relation)
        read = relation.message("read")
        source = read.message("data_source") if read is not None else None
        if read is not None and read.flag("is_streaming"):
            raise Untraceable("a stream is read", position)
        if source is not None:
            return self._add(*self._files(source, position), position, relation)
        for kind in _OWN_ROWS:
            rows = relation.message(kind)
            if rows is not None:
                return self._add(*self._own_rows(kind, rows), position, relation, "rows")
        return None

    def _add(
        self, place: str, spec: SourceSpec, position: Position, relation: Message, wanted: str | None = None
    ) -> Message:
        name = self.names.name_of(place, wanted)
        name = f"{name}_before" if name == self.output else name  # it is read and written
        known = self.specs.get(name)
        if known is not None and known != spec:  # the same files, read in another way
            name = self.names.name_of(
                f"{place}#{hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:8]}", name
            )
        self.specs[name] = spec
        self.positions.setdefault(name, position)
        self.places[name] = place
        common = relation.message("common")
        return source_reference(reference_name(name), plan_id=common.number("plan_id") if common is not None else None)

    def _files(self, source: Message, position: Position) -> tuple[str, SourceSpec]:
        kind = source.text("format").lower()
        options = _texts(source.get("options"))
        paths = [absolute_place(path) for path in source.texts("paths")]
        if not paths and options.get("path"):
            paths = [absolute_place(options.pop("path"))]
        if kind not in FORMAT_NAMES:
            raise Untraceable(f"files of the format '{kind or 'default'}' are read, which are not traced yet", position)
        if len(paths) != 1:
            raise Untraceable(f"one read names {len(paths)} paths, which is not traced yet", position)
        if is_elsewhere(paths[0]):
            raise Untraceable(f"'{paths[0]}' is on another file system, which is not traced yet", position)
        if "{" in paths[0]:
            raise Untraceable(f"the path '{paths[0]}' lists alternatives, which is not traced yet", position)
        chosen = sorted(key for key in options if key.lower() in _CHOOSING)
        if chosen:
            raise Untraceable(f"the reader option '{chosen[0]}' chooses files, which is not traced yet", position)
        if source.texts("predicates"):
            raise Untraceable("a read has predicates of a database", position)
        if kind != "parquet":  # as Spark reads it where nothing else is said
            lower = {key.lower() for key in options}
            options |= {} if "mode" in lower else {"mode": "PERMISSIVE"}
            options |= {} if "enforceschema" in lower or kind != "csv" else {"enforceSchema": "true"}
            options |= {"sep": ","} if kind == "csv" and not {"sep", "delimiter"} & lower else {}
        schema = self.ddl(source.text("schema"))
        made = self.written_by(paths[0]) if kind == "parquet" and schema is None and not options else None
        if made is not None:
            return paths[0], SourceSpec.model_validate({"output": made})
        return paths[0], SourceSpec.model_validate(
            {"path": paths[0], "format": kind, "options": options, "schema": schema}
        )

    def _own_rows(self, kind: str, rows: Message) -> tuple[str, SourceSpec]:
        """Rows that the program made of values. They are known by their content, whenever they are made."""
        digest = self.seal(_digest(kind, rows))[:24]
        folder = self.folder / f"rows-{digest}"
        if not folder.exists():
            self.write_rows(Message("Relation", {kind: rows}), str(folder))
        written = self.folder / f"rows-{digest}.parquet"
        if not written.exists():
            (part,) = folder.glob("*.parquet")
            os.utime(part, (0, 0))
            part.rename(written)
        spec = SourceSpec.model_validate({"path": str(written), "format": "parquet", "snapshot": True})
        return f"rows-{digest}", spec


def _digest(kind: str, rows: Message) -> bytes:
    found = hashlib.sha256(kind.encode())
    for name, value in sorted(rows.fields.items()):
        found.update(name.encode())
        found.update(value if isinstance(value, bytes) else repr(value).encode())
    return found.digest()


def reference_name(source: str) -> str:
    """How a plan refers to a source. Views may be called like sources, and mean something else."""
    return f"source {source}"


def _texts(value: Value | None) -> dict[str, str]:
    return {str(key): str(each) for key, each in value.items()} if isinstance(value, Mapping) else {}


def replace_relations(root: Message, replace: Callable[[Message], Message | None]) -> Message:
    """The tree with other relations in the place of those for which `replace` returns one; what is below these is left
    out. Not recursive, since plans are as deep as programs make them.
    """
    done: dict[int, Message] = {}
    for message in _children_first(root, replace, done):
        if id(message) not in done:
            done[id(message)] = Message(
                message.type, {key: _rebuilt(each, done) for key, each in message.fields.items()}
            )
    return done[id(root)]


def _children_first(
    root: Message, replace: Callable[[Message], Message | None], done: dict[int, Message]
) -> Iterator[Message]:
    waiting: list[tuple[Message, bool]] = [(root, False)]
    while waiting:
        message, is_seen = waiting.pop()
        if is_seen:
            yield message
            continue
        if id(message) in done:
            continue
        other = replace(message) if message.type == "Relation" else None
        if other is not None:
            done[id(message)] = other
            continue
        waiting.append((message, True))
        waiting += [(child, False) for child in message.children()]


def _rebuilt(value: Value, done: Mapping[int, Message]) -> Value:
    if isinstance(value, Message):
        return done[id(value)]
    if isinstance(value, tuple):
        return tuple(_rebuilt(each, done) for each in value)
    if isinstance(value, Mapping):
        return {key: _rebuilt(each, done) for key, each in value.items()}
    return value
