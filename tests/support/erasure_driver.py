"""`audit apply` in a process that is killed: `python -m tests.support.erasure_driver`, one JSON order a line on standard input.

An order is {"home", "plan", "out"} and {"at": n}, to be killed before the n-th thing it does to files or the catalog;
with {"bytes": m} it is killed later, in the middle of the next write that goes past the first m bytes of a file, whoever
writes it. The answer, a line too: {"signal", "code", "marks"}; marks are the things that it did. Each order is carried
out by a fork of this process, which has imported everything and does nothing else.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from lineage_service import Home
from lineage_service.audit.erasure import plan_application as applying
from lineage_service.audit.erasure import plan_lifecycle as erasing

WRITES = os.O_WRONLY | os.O_RDWR
FILES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "os.link", "os.truncate", "fcntl.flock")
FUNCTIONS = {
    applying: (
        "put_in_place",
        "sweep",
        "vacuum",
        "switch_runs",
        "redact",
        "finish_erasure",
        "write_entry",
        "close_case",
        "remove_correction_values",
        "replace_source_file",
    ),
    erasing: ("write_document",),
}


def watched(mark: Callable[[str], None]) -> None:
    """Has everything that changes files or the catalog told before it happens."""

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        if name in FILES:
            mark(name)
        elif name == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            mark("open")

    sys.addaudithook(hook)
    event.listen(Engine, "before_cursor_execute", lambda _c, _cursor, text, *_: mark(f"sql {text.split()[0].upper()}"))
    event.listen(Engine, "commit", lambda _connection: mark("sql commit"))
    for module, names in FUNCTIONS.items():
        for name in names:
            setattr(module, name, _told(getattr(module, name), name, mark))


def _told(function: Callable[..., Any], name: str, mark: Callable[[str], None]) -> Callable[..., Any]:
    def wrapped(*args: Any, **given: Any) -> Any:
        mark(f"before {name}")
        found = function(*args, **given)
        mark(f"after {name}")
        return found

    return wrapped


def kill(bytes_: int | None) -> None:
    """Now, or where a file gets longer."""
    if bytes_ is None:
        os.kill(os.getpid(), signal.SIGKILL)
    # Python ignores the signal; where nobody handles it the kernel kills, also inside of Arrow, DuckDB and SQLite.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


def carried_out(order: dict[str, Any], tell: int) -> None:
    """In the fork: the work itself."""
    count = 0

    def mark(what: str) -> None:
        nonlocal count
        if count == order.get("at"):
            kill(order.get("bytes"))
        count += 1
        os.write(tell, f"{what}\n".encode())

    watched(mark)
    home = Home.open(Path(order["home"]))
    home.audit.apply(order["plan"], out=order["out"])
    home.close()


def answered(order: dict[str, Any]) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        code = 1
        try:
            carried_out(order, write)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as told:
        marks = told.read().splitlines()
    _, status = os.waitpid(child, 0)
    number, code = (os.WTERMSIG(status), None) if os.WIFSIGNALED(status) else (0, os.WEXITSTATUS(status))
    return {"signal": number, "code": code, "marks": marks}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answered(json.loads(line))), flush=True)
