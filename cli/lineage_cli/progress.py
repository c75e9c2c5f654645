"""How a run tells what it does: one line that changes on a terminal, plain lines when asked for."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import click

CLEAR_LINE = "\r\x1b[2K"


@contextlib.contextmanager
def progress_line(*, verbose: bool, quiet: bool) -> Iterator[Callable[[str], None] | None]:
    """What to call with each new line of progress; None where nobody wants to see it."""
    from lineage_cli.options import is_terminal

    live = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
    if quiet or not (verbose or live):
        yield None
    elif verbose or not live:
        yield lambda text: click.echo(text, err=True)
    else:
        try:
            yield _show
        finally:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()


def _show(text: str) -> None:
    from lineage_cli.tables import safe

    width = shutil.get_terminal_size().columns - 1
    line = safe(text)
    sys.stderr.write(CLEAR_LINE + (line if len(line) <= width else line[: width - 1] + "…"))
    sys.stderr.flush()


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """A polite kill is treated as Ctrl-C, so that a run can clean up behind itself."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
