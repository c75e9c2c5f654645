"""Captures one write of a program: its rows are computed once, with lineage, into the home; the program's place is
written from there, by the program's own command; then the run is committed, and its lineage is indexed.

A fault before the program's command means that the program writes as without us.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lineage_service.errors import LineageError, Position
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.programs.file_states import states_below
from lineage_service.programs.frame_partitions import partitions_of
from lineage_service.programs.frame_sources import FrameSources
from lineage_service.programs.program_workflow import (
    plan_id,
    program_references,
    program_workflow,
    relations_read_by_type,
)
from lineage_service.programs.program_write import ProgramWrite
from lineage_service.programs.untraced_writes import refuse_kind_of_write, refuse_overwritten_source
from lineage_service.programs.written_places import WrittenPlace, written_by
from lineage_service.progress import Stages, Tell
from lineage_service.runs.run_report import RunReport, run_commit, run_report, with_warnings
from lineage_service.runs.unfinished_lineage import finish_lineage
from lineage_service.runs.workflow_execution import Execution, execute_workflow
from lineage_service.runs.workflow_run import save_lineage_tables
from lineage_service.settings import IndexOptions, RunOptions
from lineage_service.store.home_key import home_key
from lineage_service.store.home_store import HomeStore
from lineage_service.store.layout import RunFolder, new_run_id, working_folder
from lineage_service.store.output_versions import FileLayout

if TYPE_CHECKING:
    from lineage_service.spark.connect.program_session import ProgramSession
    from lineage_service.spark.spark_types import SparkSession, StructType

Proceed = Callable[[Message | None], Any]


@dataclass(frozen=True)
class CapturedWrite:
    """A committed write. `answer` is what the program's client gave back."""

    report: RunReport
    answer: Any


@dataclass(frozen=True)
class LostWrite:
    """A write that was made, and whose lineage could not be kept."""

    reason: str
    answer: Any


@dataclass
class _Placed:
    """The program's own command: whether it was sent, and what came of it."""

    proceed: Proceed
    is_done: bool = False
    failed: bool = False
    answer: Any = None

    def __call__(self, command: Message | None) -> Any:
        try:
            self.answer = self.proceed(command)
        except BaseException:
            self.failed = True
            raise
        self.is_done = True
        return self.answer


@dataclass
class WriteCapture:
    """Captures writes of a program into a home."""

    store: HomeStore
    options: RunOptions
    tell: Tell
    _is_prepared: bool = False

    def capture(self, session: ProgramSession, write: ProgramWrite, proceed: Proceed) -> CapturedWrite | LostWrite:
        """Raises Untraceable if the write cannot be traced, before anything of it was done. What the program's own
        command raises is passed on. A fault of ours never reaches the program.
        """
        placed = _Placed(proceed)
        try:
            return self._capture(session, write, placed)
        except Exception as error:
            if placed.failed:
                raise
            reason = _reason(error, write)
            if placed.is_done:
                return LostWrite(f"it was written, but its lineage is lost: {reason.reason}", placed.answer)
            raise reason from error

    def _capture(self, session: ProgramSession, write: ProgramWrite, proceed: Proceed) -> CapturedWrite:
        from lineage_service.spark.connect.program_session import columns_of, ddl_of_schema, unusual_setting

        store = self.store
        if not self._is_prepared:
            store.prepare()
            self._is_prepared = True
        sources = FrameSources(
            write.names, write.output, store.layout.spill, session.write_rows, ddl_of_schema,
            lambda relation: _position_of(relation, write), lambda place: written_by(store.reader, place),
            lambda content: home_key(store.layout).seal(content),
        )  # fmt: skip
        refuse_kind_of_write(write)
        references = program_references(write, sources)
        refuse_overwritten_source(write, sources)
        partitions_of(write.relation)
        started, erasures, capture = datetime.now(UTC), store.reader.erasures(), self.options.capture or "auto"
        stages = Stages(self.tell)
        with session.clone() as own, working_folder(store.layout, new_run_id(write.execution)) as folder:
            setting = unusual_setting(own)
            if setting is not None:
                raise Untraceable(f"under {setting}={own.conf.get(setting)} names mean something else", write.position)
            schemas = _schemas_in_spark(own, write)
            columns = {number: columns_of(schema) for number, schema in schemas.items()}
            loaded = program_workflow(write, sources, references, columns)
            done = execute_workflow(
                loaded, self.options, capture, folder, store, (), stages, lambda: None, session=own,
                layouts=_layouts(write),
            )  # fmt: skip
            save_lineage_tables(done, folder)
            _refuse_other_columns(done, write, columns)
            answer, written = self._write_place(write, done, folder, schemas.get(plan_id(write.relation) or 0), proceed)
            report = replace(
                run_report("committed", loaded, done, {}, folder), program=str(write.program),
                execution=write.execution,
            )  # fmt: skip
            folder.sync()
            folder.hand_over()
            commit = run_commit(
                started, loaded, done, report, folder, capture, written={write.output: written.to_json()}
            )
            store.commit(commit, erasures)
            folder.mark_committed()
        return CapturedWrite(with_warnings(report, done.warnings), answer)

    def close(self) -> None:
        """Removes what was only needed while the program ran: the home has copies of rows that it made itself."""
        for path in self.store.layout.spill.glob("rows-*"):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def finish(self, captured: CapturedWrite) -> CapturedWrite:
        """Indexes the lineage of a write. Raises LineageError if it cannot be completed."""
        if self.options.capture == "off":
            return captured
        options = IndexOptions(conf=self.options.conf, engine=self.options.index_engine)
        with HomeStore(self.store.layout, self.store.url) as store:
            report = finish_lineage(store, captured.report.run_id, options, Stages(self.tell))
        return captured if report is None else replace(captured, report=report)

    def _write_place(
        self, write: ProgramWrite, done: Execution, folder: RunFolder, schema: StructType | None, proceed: Proceed
    ) -> tuple[Any, WrittenPlace]:
        """The program's own command over the staged rows. Its files are what later reads of the place find."""
        from lineage_service.spark.connect.program_session import MOST_FILES, staged_rows

        step = done.plan.plan.outputs[write.output]
        version = done.writing.versions[step]
        files = [folder.home.absolute(file.path) for file in version.files]
        if len(files) > MOST_FILES:
            raise Untraceable(f"its rows are in {len(files):,} files, more than {MOST_FILES:,}", write.position)
        before = states_below([write.place])
        schema = schema or done.writing.schema_of(step)  # Spark's has what is said about the columns, too
        rows = staged_rows(files, schema, partitions_of(write.relation).most)
        answer = proceed(Message("Command", {"write_operation": write.command.replaced(input=rows)}))
        files_written = states_below([write.place]) - before
        plain = write.command.text("source") == "parquet" and not write.command.texts("partitioning_columns")
        return answer, WrittenPlace(write.place, files_written, are_rows=plain)


def _layouts(write: ProgramWrite) -> dict[str, FileLayout]:
    """The files into which the rows are to be divided, as the program's own write would."""
    layout = FileLayout(write.command.texts("partitioning_columns"), partitions_of(write.relation).exactly)
    return {write.output: layout} if layout != FileLayout() else {}


def _schemas_in_spark(own: SparkSession, write: ProgramWrite) -> dict[int, StructType]:
    """Schemas of frames, by plan id: of the one that is written, and of those whose columns
    Spark chooses by their types. Raises Untraceable where Spark rejects the frame: the program is to see its error.
    """
    from lineage_service.spark.connect.program_session import RejectedFrame, schema_in_spark

    found: dict[int, StructType] = {}
    for relation in (write.relation, *relations_read_by_type(write.relation)):
        number = plan_id(relation)
        if number is not None and number not in found:
            try:
                found[number] = schema_in_spark(own, relation)
            except RejectedFrame as error:
                raise Untraceable("Spark rejects it", write.position) from error
    return found


def _refuse_other_columns(
    done: Execution, write: ProgramWrite, columns: Mapping[int, Sequence[tuple[str, str]]]
) -> None:
    """Raises Untraceable if what was staged has other columns than the program's frame."""
    from lineage_service.spark.connect.program_session import columns_of

    expected = columns.get(plan_id(write.relation) or 0)
    staged = done.writing.schema_of(done.plan.plan.outputs[write.output])
    found = columns_of(staged)
    if expected is not None and found != list(expected):
        raise Untraceable("its columns are not those that Spark gives it: a fault of smoke-lineage", write.position)


def _position_of(relation: Message, write: ProgramWrite) -> Position:
    common = relation.message("common")
    line = write.lines.get(common.number("plan_id")) if common is not None else None
    return Position(line[0], line[1], 1) if line is not None else write.position


def _reason(error: Exception, write: ProgramWrite) -> Untraceable:
    """Why a write is not traced. Of an unknown error only the kind: its text may have values of the data."""
    if isinstance(error, Untraceable):
        return error
    if not isinstance(error, LineageError):
        return Untraceable(f"a fault of smoke-lineage, {type(error).__name__}", write.position)
    problem = error.problems[0]
    reason = problem.message + (f"; {problem.hint}" if problem.hint else "")
    return Untraceable(reason, problem.position or write.position)
