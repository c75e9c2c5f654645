"""What went wrong, as a message and an exit code. The only place that translates errors."""

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
    """The exit code for `error`, after its message went to standard error."""
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
    # Only the kind and the place: the text of an unknown error may hold a user's data.
    where = _place(error)[1]
    more = "" if debug else "; run again with --debug for the traceback"
    _say(f"internal error: {type(error).__name__}{where}{more}")
    return FAULT


def _place(error: BaseException) -> tuple[str, str]:
    """The package and the place (' at file:line') of the innermost frame that is our code."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = Path(frame.filename).parts
        for package in PACKAGES:
            if package in parts and not frame.filename.endswith("lineage_cli/main.py"):
                start = len(parts) - 1 - parts[::-1].index(package)
                return package, f" at {'/'.join(parts[start:])}:{frame.lineno}"
    return "", ""


def _reader_gone() -> int:
    """Whoever read our output has enough (`| head`): no error. Python must not flush into it again."""
    with contextlib.suppress(OSError, ValueError):  # standard output may be no real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _say(text: str) -> None:
    tell(text)
