"""Runs a PySpark program in this process, in Spark's Connect mode, as `python FILE ARGS` would, and listens to it."""

from __future__ import annotations

import gc
import logging
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lineage_service.errors import NotFound
from lineage_service.programs.program_capture import ProgramCapture
from lineage_service.programs.program_report import ProgramReport
from lineage_service.programs.write_capture import WriteCapture
from lineage_service.progress import Tell
from lineage_service.settings import RunOptions
from lineage_service.spark.heavy_imports import allow_heavy_imports
from lineage_service.store.home_store import HomeStore
from lineage_service.store.layout import new_execution_id


def run_program(
    file: str | Path,
    arguments: Sequence[str],
    options: RunOptions,
    store: HomeStore,
    tell: Tell,
    *,
    strict: bool = False,
) -> ProgramReport:
    """Runs a program to its end. Its exit code is in the report; its exception is printed as Python prints it."""
    program = Path(file)
    if not program.is_file():
        raise NotFound(f"program '{file}' does not exist")
    report = ProgramReport(str(program), new_execution_id())
    if options.capture == "off":
        report.exit_code = _run(program, arguments)
        report.notes.append("capture is off: the program ran in Spark's classic mode, and nothing of it is traced")
        return report
    allow_heavy_imports()
    _use_connect(options)
    from lineage_service.spark.connect.program_client import ProgramClient

    capture = ProgramCapture(program, WriteCapture(store, options, tell), report, strict)
    capture.client = ProgramClient(capture)
    with capture.client.installed():
        try:
            report.exit_code = _run(program, arguments)
        finally:
            with capture.client.our_calls():
                capture.close()
    return report


def _use_connect(options: RunOptions) -> None:
    """Sets up the environment in which PySpark starts, or connects to, a Connect server."""
    from lineage_service.spark.connect.program_client import use_free_port
    from lineage_service.spark.java import use_java

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if options.remote:
        os.environ["SPARK_REMOTE"] = options.remote
    elif "SPARK_REMOTE" not in os.environ:
        os.environ["SPARK_API_MODE"] = "connect"
        use_free_port(options.conf)
        use_java()


def _run(program: Path, arguments: Sequence[str]) -> int:
    """Runs a program as the main module. Returns its exit code."""
    with _as_main(program, arguments):
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as stop:
            if stop.code is None or isinstance(stop.code, int):
                return stop.code or 0
            print(stop.code, file=sys.stderr)  # as Python does
            return 1
        except Exception as error:
            _print_error(error, program)
            return 1
    return 0


@contextmanager
def _as_main(program: Path, arguments: Sequence[str]) -> Iterator[None]:
    """The process as a program expects it: its arguments and path, and nothing of our own settings."""
    before, silent, collecting = (sys.argv[:], sys.path[:]), logging.root.manager.disable, gc.get_threshold()
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.absolute().parent))
    logging.disable(logging.NOTSET)
    gc.set_threshold(700, 10, 10)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before
        logging.disable(silent)
        gc.set_threshold(*collecting)


def _print_error(error: Exception, program: Path) -> None:
    """Prints an exception as Python does, without the frames that are around the program."""
    trace = error.__traceback__
    while trace is not None and Path(trace.tb_frame.f_code.co_filename) != program:
        trace = trace.tb_next
    sys.stdout.flush()
    traceback.print_exception(type(error), error, trace or error.__traceback__)
