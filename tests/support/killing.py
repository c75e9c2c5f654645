"""A process that is killed at a counted point, without a process: the n-th thing that is done to files or to the catalog
raises `Killed`, and so does everything that is tried after it, so that nothing can be cleaned up.

What is killed so leaves the same files, the same catalog and no lock, as `kill -9` does; and it needs no Spark of its
own.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

_CHANGES = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree",
    "sqlite3.connect",
}  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Killed(BaseException):
    """Not an Exception: nobody may catch it and go on."""


class _Watch:
    """What is being counted: below these folders, until the n-th; None while nothing is."""

    def __init__(self) -> None:
        self.folders: tuple[str, ...] | None = None
        self.at: int | None = None
        self.done: list[str] = []
        self.is_dead = False
        self.lock = threading.Lock()

    def mark(self, what: str) -> None:
        if self.folders is None:
            return
        with self.lock:
            if self.is_dead or len(self.done) == self.at:
                self.is_dead = True
                raise Killed(what)
            self.done.append(what)

    def hook(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self.folders is None or (name not in _CHANGES and name != "open"):
            return
        if name == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
            return
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str | Path) and str(path).startswith(self.folders):
            self.mark(f"{name} {Path(str(path)).name}")


_WATCH = _Watch()
sys.addaudithook(_WATCH.hook)
event.listen(Engine, "before_cursor_execute", lambda _c, _cursor, text, *_: _statement(text))
event.listen(Engine, "commit", lambda _connection: _WATCH.mark("sql commit"))


def _statement(text: str) -> None:
    word = text.split(maxsplit=1)[0].upper()
    if word in ("INSERT", "UPDATE", "DELETE"):
        _WATCH.mark(f"sql {word}")
    elif _WATCH.is_dead and _WATCH.folders is not None:
        raise Killed("sql")


@contextmanager
def counted(*folders: Path, kill_at: int | None = None) -> Iterator[list[str]]:
    """Lists what is done below these folders and to catalogs; killed before the n-th of it, counted from 0, where that
    comes. The block ends there as if it had been left."""
    _WATCH.folders, _WATCH.at, _WATCH.done, _WATCH.is_dead = tuple(map(str, folders)), kill_at, [], False
    done = _WATCH.done
    try:
        yield done
    except Killed:
        _drop_locks(_WATCH.folders or ())
    finally:
        _WATCH.folders = None


def _drop_locks(folders: tuple[str, ...]) -> None:
    """A process that is killed holds no lock any more; here, what was to close them was killed too."""
    for handle in list(Path("/proc/self/fd").iterdir()):
        try:
            path = handle.readlink()
        except OSError:
            continue
        if str(path).startswith(folders) and (path.suffix == ".lock" or path.name == ".lock" or path.is_dir()):
            os.close(int(handle.name))
