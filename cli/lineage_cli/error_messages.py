"""Turns errors into messages and exit codes. No other module does."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from pathlib import Path

import click

from lineage_cli.messages import tell

USER_ERROR, FAULT = 1, 3
PACKAGES = ("lineage_cli", "lineage_service", "lineage_catalog")


def exit_code(error: BaseException, *, debug: bool = False) -> int:
    """Prints the message of `error` to standard error and returns the exit code."""
    if isinstance(error, BrokenPipeError) and _place(error)[0] in ("lineage_cli", ""):
        return _reader_gone()
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAULT
    if debug and not isinstance(error, click.ClickException):
        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(file=shown)
        tell(shown.getvalue().rstrip("\n"))
        return error.exit_code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _say("interrupted; nothing was kept")
        return USER_ERROR

    from lineage_service.errors import LineageError

    if isinstance(error, LineageError):
        for problem in error.problems:
            _say(str(problem) if problem.position or problem.severity == "warning" else f"error: {problem}")
        return USER_ERROR
    # Only type and position: the text of an unknown error may contain users' data.
    where = _place(error)[1]
    more = "" if debug else "; run again with --debug for the traceback"
    _say(f"internal error: {type(error).__name__}{where}{more}")
    return FAULT


def _place(error: BaseException) -> tuple[str, str]:
    """Returns package and position (' at file:line') of the innermost frame in our code."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = Path(frame.filename).parts
        for package in PACKAGES:
            if package in parts and not frame.filename.endswith("lineage_cli/main.py"):
                start = len(parts) - 1 - parts[::-1].index(package)
                return package, f" at {'/'.join(parts[start:])}:{frame.lineno}"
    return "", ""


def _reader_gone() -> int:
    """Handles a closed pipe (`| head`), which is no error. Python must not flush into it again."""
    with contextlib.suppress(OSError, ValueError):  # standard output may not be a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _say(text: str) -> None:
    tell(text)
