"""What a program sends to Spark, as it happens: its views, what it has looked at, its writes, which are captured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from lineage_service.errors import LineageError, Position
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.programs.dataset_places import DatasetNames, absolute_place
from lineage_service.programs.program_report import ProgramReport, TracedWrite, UntracedWrite
from lineage_service.programs.program_write import ProgramWrite
from lineage_service.programs.session_state import SessionState, is_writing, plan_id, sql_text
from lineage_service.programs.write_capture import CapturedWrite, LostWrite, WriteCapture

if TYPE_CHECKING:
    from lineage_service.spark.connect.program_client import ProgramClient
    from lineage_service.spark.connect.program_session import ProgramSession

Proceed = Callable[[Message | None], Any]


@dataclass
class ProgramCapture:
    """One execution of a program.

    sessions: the state of each of its sessions
    """

    program: Path
    writes: WriteCapture
    report: ProgramReport
    strict: bool
    names: DatasetNames = field(default_factory=DatasetNames)
    client: ProgramClient | None = None
    sessions: dict[str, SessionState] = field(default_factory=lambda: defaultdict(SessionState))
    _lock: RLock = field(default_factory=RLock)
    _fault: str | None = None
    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "smoke-lineage"))
    _indexing: list[tuple[int, Future[CapturedWrite]]] = field(default_factory=list)

    # --- what the program does ----------------------------------------------------------------------------------

    def on_relation(self, session: ProgramSession, relation: Message) -> None:
        with self._noting():
            self.sessions[session.id].look(relation)
            self.sessions[session.id].note_catalog(relation)

    def on_persist(self, session: ProgramSession, relation: Message) -> None:
        with self._noting():
            self.sessions[session.id].cache(relation, self.position_of(relation))

    def on_settings(self, session: ProgramSession, changed: Mapping[str, str | None]) -> None:
        with self._noting():
            self.sessions[session.id].note_settings(changed)

    def on_stop(self) -> None:
        """Called before the program ends a session: what Spark is still needed for is done now."""
        self._finish_indexes()

    def on_command(self, session: ProgramSession, command: Message, proceed: Proceed) -> Any:
        for kind, handle in (
            ("create_dataframe_view", self._on_view),
            ("write_operation", self._on_write),
            ("sql_command", self._on_sql),
            ("register_function", self._on_function),
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
        answer = proceed(None)
        with self._noting():
            assert relation is not None
            if not message.flag("is_global"):  # another name: global_temp.…
                self.sessions[session.id].define_view(message.text("name"), relation, is_text=False)
        return answer

    def _on_function(self, session: ProgramSession, message: Message, proceed: Proceed) -> Any:
        answer = proceed(None)
        self.sessions[session.id].registered.add(message.text("function_name").lower())
        return answer

    def _on_sql(self, session: ProgramSession, message: Message, proceed: Proceed) -> Any:
        relation = message.message("input")
        text = sql_text(relation) if relation is not None else message.text("sql")
        if text is not None and is_writing(text):
            self._finish_indexes()
            error = Untraceable("SQL that writes is not traced yet", self._call_position())
            return self._plain(error, " ".join(text.split())[:60], proceed)
        answer = proceed(None)
        with self._noting():
            self.sessions[session.id].note_sql(text or "", relation, self._call_position())
        return answer

    def _on_write(self, session: ProgramSession, message: Message, proceed: Proceed) -> Any:
        with self._lock:
            position, place = self._call_position(), self._place(message)
            self._finish_indexes()  # what is still to be read must be read before files change
            try:
                captured = self.writes.capture(session, self._write(session, message, position, place), proceed)
            except Untraceable as error:
                return self._plain(error, place, proceed)
            if isinstance(captured, LostWrite):
                self.report.writes.append(UntracedWrite(position, place, captured.reason))
                return captured.answer
            self.report.writes.append(TracedWrite(position, place, self.names.name_of(place), captured.report))
            with suppress(RuntimeError):  # the program's end is near: a thread of it still writes, and `index` finishes
                self._indexing.append((len(self.report.writes) - 1, self._worker.submit(self._index, captured)))
            return captured.answer

    def _write(self, session: ProgramSession, message: Message, position: Position, place: str) -> ProgramWrite:
        """Raises Untraceable where it is not certain which rows the frame has."""
        relation = message.message("input")
        if self._fault is not None or relation is None:
            raise Untraceable(f"what the program did before is not known: {self._fault}", position)
        state = self.sessions[session.id]
        state.refuse_unknown(relation, self.position_of)
        views = {name: view.relation for name, view in state.views.items()}
        lines = dict(self.client.lines) if self.client is not None else {}
        return ProgramWrite(
            message, relation, position, place, self.names.name_of(place), self.program, views, lines, self.names,
            self.report.execution,
        )  # fmt: skip

    def _plain(self, error: Untraceable, place: str, proceed: Proceed) -> Any:
        """The program's own command as it is, with a note that it is not traced."""
        untraced = UntracedWrite(error.position or self._call_position(), place, error.reason)
        if self.strict:
            raise LineageError(f"{untraced}; --strict refuses it before it starts")
        answer = proceed(None)
        self.report.writes.append(untraced)
        return answer

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """A fault of ours while something is noted must not reach the program; what it does later is not traced."""
        try:
            with self._lock:
                yield
        except Exception as error:
            self._fault = f"a fault of smoke-lineage, {type(error).__name__}"

    # --- indexes, in the background ------------------------------------------------------------------------------

    def _index(self, captured: CapturedWrite) -> CapturedWrite:
        assert self.client is not None
        with self.client.our_calls():
            return self.writes.finish(captured)

    def _finish_indexes(self) -> None:
        with self._lock:
            self._finish_indexes_alone()

    def _finish_indexes_alone(self) -> None:
        for number, future in self._indexing:
            written = self.report.writes[number]
            assert isinstance(written, TracedWrite)
            try:
                report = future.result().report
            except Exception as error:
                reason = str(error) if isinstance(error, LineageError) else f"a fault of ours, {type(error).__name__}"
                self.report.notes.append(f"{written.position}: its lineage is not finished: {reason}")
                continue
            self.report.writes[number] = TracedWrite(written.position, written.place, written.output, report)
        self._indexing.clear()

    def close(self) -> None:
        """Finishes all lineage."""
        self._finish_indexes()
        self._worker.shutdown()
        self.writes.close()

    # --- places --------------------------------------------------------------------------------------------------

    def _place(self, write: Message) -> str:
        table = write.message("table")
        if table is not None:
            return table.text("table_name")
        path = write.text("path") or str(_option(write, "path") or "")
        return absolute_place(path) if path else write.text("source") or "nowhere"

    def position_of(self, relation: Message) -> Position:
        number = plan_id(relation)
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


def _option(message: Message, name: str) -> object:
    options = message.get("options")
    if not isinstance(options, Mapping):
        return None
    return next((value for key, value in options.items() if str(key).lower() == name), None)
