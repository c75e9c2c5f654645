"""What a program sends to Spark, as it happens: its views, what it has looked at, its writes, which are captured."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.errors import LineageError, Position
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.refusals import Untraceable
from lineage_service.programs.dataset_places import DatasetNames, absolute_place
from lineage_service.programs.file_states import States, states_below
from lineage_service.programs.program_report import ProgramReport, TracedWrite, UntracedWrite
from lineage_service.programs.program_write import ProgramWrite
from lineage_service.programs.write_capture import CapturedWrite, WriteCapture

if TYPE_CHECKING:
    from lineage_service.spark.connect.program_client import ProgramClient
    from lineage_service.spark.connect.program_session import ProgramSession

Proceed = Callable[[Message | None], Any]

_TEMP_VIEW = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?(?:global\s+)?temp(?:orary)?\s+view\s+(?:if\s+not\s+exists\s+)?"
    r"(?P<name>`[^`]+`|\w+)\s+as\b(?P<query>.*)", re.IGNORECASE | re.DOTALL
)  # fmt: skip
_WRITING = re.compile(
    r"\s*(insert|merge|update|delete|truncate|load|replace\s+table|create\s+(or\s+replace\s+)?table|with\b.*?\binsert)\b",
    re.IGNORECASE | re.DOTALL,
)
_CACHING = re.compile(r"\s*cache\s+(lazy\s+)?table\s+(?P<name>`[^`]+`|[\w.]+)", re.IGNORECASE)


@dataclass
class ProgramCapture:
    """The state of one execution of a program.

    views: temporary views of each session, by name in lower case, as relations
    seen: the files of each read when the program first looked at it, by plan id
    cached: plan ids of frames that the program has cached, with the line
    """

    program: Path
    writes: WriteCapture
    report: ProgramReport
    strict: bool
    names: DatasetNames = field(default_factory=DatasetNames)
    client: ProgramClient | None = None
    views: dict[tuple[str, str], Message] = field(default_factory=dict)
    seen: dict[int, States] = field(default_factory=dict)
    cached: dict[int, Position] = field(default_factory=dict)
    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "smoke-lineage"))
    _indexing: list[tuple[int, Future[CapturedWrite]]] = field(default_factory=list)

    # --- what the program does ----------------------------------------------------------------------------------

    def on_relation(self, relation: Message) -> None:
        """Notes the files that a frame reads when the program first looks at it: Spark may keep them."""
        for each in relation.walk():
            if each.type != "Relation" or "read" not in each:
                continue
            number = _plan_id(each)
            if number is not None and number not in self.seen:
                self.seen[number] = states_below(_paths(each))

    def on_persist(self, relation: Message) -> None:
        self.on_relation(relation)
        number = _plan_id(relation)
        if number is not None:
            self.cached[number] = self.position_of(relation)

    def on_command(self, session: ProgramSession, command: Message, proceed: Proceed) -> Any:
        for kind, handle in (
            ("create_dataframe_view", self._on_view),
            ("write_operation", self._on_write),
            ("sql_command", self._on_sql),
        ):
            message = command.message(kind)
            if message is not None:
                return handle(session, message, proceed)
        for kind, what in _UNTRACED.items():
            if command.message(kind) is not None:
                self._finish_indexes()
                return self._plain(Untraceable(f"{what} is not traced yet", self._call_position()), what, proceed)
        return proceed(None)

    def _on_view(self, session: ProgramSession, message: Message, proceed: Proceed) -> Any:
        relation = message.message("input")
        assert relation is not None
        self.on_relation(relation)
        answer = proceed(None)
        self.views[session.id, message.text("name").lower()] = relation
        return answer

    def _on_sql(self, session: ProgramSession, message: Message, proceed: Proceed) -> Any:
        relation = message.message("input")
        text = _sql_text(relation)
        if relation is None or text is None:
            return proceed(None)
        view, cached = _TEMP_VIEW.match(text), _CACHING.match(text)
        if _WRITING.match(text):
            self._finish_indexes()
            place = " ".join(text.split())[:60]
            return self._plain(Untraceable("SQL that writes is not traced yet", self._call_position()), place, proceed)
        answer = proceed(None)
        if view is not None:
            query = Message("SQL", {"query": view["query"].strip()})
            common = relation.message("common") or Message("RelationCommon", {})
            self.views[session.id, view["name"].strip("`").lower()] = Message(
                "Relation", {"common": common, "sql": query}
            )
        elif cached is not None:
            name = cached["name"].strip("`").lower()
            found = self.views.get((session.id, name))
            number = _plan_id(found) if found is not None else None
            if number is not None:
                self.cached[number] = self._call_position()
        return answer

    def _on_write(self, session: ProgramSession, message: Message, proceed: Proceed) -> Any:
        position = self._call_position()
        place = self._place(message)
        self._finish_indexes()  # what is still to be read must be read before files change
        try:
            relation = message.message("input")
            assert relation is not None
            self._refuse_unknown(session, relation)
            write = ProgramWrite(
                message, relation, position, place, self.names.name_of(place), self.program, self._views_of(session),
                dict(self.client.lines) if self.client is not None else {}, self.names, self.report.execution,
            )  # fmt: skip
            captured = self.writes.capture(session, write, proceed)
        except Untraceable as error:
            return self._plain(error, place, proceed)
        self.report.writes.append(TracedWrite(position, place, write.output, captured.report))
        self._indexing.append((len(self.report.writes) - 1, self._worker.submit(self._index, captured)))
        return captured.answer

    def _plain(self, error: Untraceable, place: str, proceed: Proceed) -> Any:
        """The program's own command as it is, with a note that it is not traced."""
        position = error.position or self._call_position()
        untraced = UntracedWrite(position, place, error.reason)
        if self.strict:
            raise LineageError(f"{untraced}; --strict refuses it before it starts")
        answer = proceed(None)
        self.report.writes.append(untraced)
        return answer

    # --- indexes, in the background ------------------------------------------------------------------------------

    def _index(self, captured: CapturedWrite) -> CapturedWrite:
        assert self.client is not None
        with self.client.our_calls():
            return self.writes.finish(captured)

    def _finish_indexes(self) -> None:
        for number, future in self._indexing:
            written = self.report.writes[number]
            assert isinstance(written, TracedWrite)
            try:
                report = future.result().report
            except LineageError as error:
                self.report.notes.append(f"{written.position}: {error}")
                continue
            self.report.writes[number] = TracedWrite(written.position, written.place, written.output, report)
        self._indexing.clear()

    def close(self) -> None:
        """Finishes all lineage."""
        self._finish_indexes()
        self._worker.shutdown()

    # --- what is not known exactly -------------------------------------------------------------------------------

    def _refuse_unknown(self, session: ProgramSession, relation: Message) -> None:
        """Raises Untraceable where a frame may see other rows than a fresh read of its files gives."""
        for root in (relation, *self._views_of(session).values()):
            for each in root.walk():
                if each.type != "Relation":
                    continue
                number = _plan_id(each)
                if number in self.cached:
                    raise Untraceable(
                        "the frame was cached: its rows are those of the moment when Spark first computed it",
                        self.cached[number],
                    )
                if "read" in each and number in self.seen and self.seen[number] != states_below(_paths(each)):
                    raise Untraceable(
                        "files that it reads have changed since the program first looked at the frame",
                        self.position_of(each),
                    )

    # --- places --------------------------------------------------------------------------------------------------

    def _views_of(self, session: ProgramSession) -> Mapping[str, Message]:
        return {name: relation for (owner, name), relation in self.views.items() if owner == session.id}

    def _place(self, write: Message) -> str:
        table = write.message("table")
        if table is not None:
            return table.text("table_name")
        path = write.text("path") or str(_option(write, "path") or "")
        return absolute_place(path) if path else write.text("source") or "nowhere"

    def position_of(self, relation: Message) -> Position:
        number = _plan_id(relation)
        line = self.client.lines.get(number) if self.client is not None and number is not None else None
        return Position(line[0], line[1], 1) if line is not None else self._call_position()

    def _call_position(self) -> Position:
        from lineage_service.spark.connect.program_client import program_line

        file, line = program_line()
        return Position(file, line, 1)


_UNTRACED = {
    "write_operation_v2": "a write by DataFrameWriterV2",
    "merge_into_table_command": "a MERGE",
    "write_stream_operation_start": "a stream",
}


def _plan_id(relation: Message) -> int | None:
    common = relation.message("common")
    return common.number("plan_id") if common is not None else None


def _paths(relation: Message) -> list[str]:
    read = relation.message("read")
    source = read.message("data_source") if read is not None else None
    return [absolute_place(path) for path in source.texts("paths")] if source is not None else []


def _option(message: Message, name: str) -> object:
    options = message.get("options")
    if not isinstance(options, Mapping):
        return None
    return next((value for key, value in options.items() if str(key).lower() == name), None)


def _sql_text(relation: Message | None) -> str | None:
    sql = relation.message("sql") if relation is not None else None
    return sql.text("query") if sql is not None else None
