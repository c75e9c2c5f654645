"""The home folder: paths, locks of runs in progress, and leftovers.

Everything a run writes is below `runs/<run id>/`. A run in progress holds a lock on its folder. A folder without a
committed run and without a held lock is left over from a crash, and `gc` may remove it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lineage_service.errors import LineageError, StoreError
from lineage_service.store.permissions import permission_mask

COMMITTED = ".committed"
PUBLICATIONS = "publications.json"  # copies that a run has announced, until they are in their place
SWEEP_LOCK, PUBLISH_LOCK = ".sweep.lock", ".publish.lock"


@dataclass(frozen=True)
class HomeLayout:
    """The paths of a home. `catalog` is the catalog's URL in printable form, if the caller had to give it."""

    path: Path
    catalog: str | None = None

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def spill(self) -> Path:
        return self.path / "tmp"

    def run_folder(self, run_id: str) -> RunFolder:
        return RunFolder(self, run_id)

    def relative(self, path: str | Path) -> str:
        """A path relative to the home, so that a home can be moved; paths outside stay as they are."""
        try:
            return str(Path(path).relative_to(self.path))
        except ValueError:
            return str(path)

    def absolute(self, path: str) -> str:
        return str(self.path / path)


@dataclass(frozen=True)
class RunFolder:
    """All files of one run: datasets, snapshots of sources, lineage, and temporary files."""

    home: HomeLayout
    run_id: str
    _handed_over: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    def hand_over(self) -> None:
        """From now on the catalog may contain the run, so only `gc` may remove its files."""
        self._handed_over.set()

    @property
    def is_handed_over(self) -> bool:
        return self._handed_over.is_set()

    @property
    def path(self) -> Path:
        return self.home.runs / self.run_id

    @property
    def temporary(self) -> Path:
        return self.path / "temporary"

    @property
    def index(self) -> Path:
        return self.path / "index"

    @property
    def lineage(self) -> Path:
        """Lineage tables, until the index is made from them."""
        return self.path / "lineage"

    def dataset(self, name: str) -> Path:
        return self.path / "data" / name

    def snapshot(self, source: str) -> Path:
        return self.path / "sources" / source

    def sync(self) -> None:
        """Flushes the files to disk, because the catalog must never name files that a power failure can destroy."""
        with translate_disk_errors(self.home.path):
            for folder, _, names in os.walk(self.path):
                # What an index is still to be made of: lost with the power, it is noticed and captured again.
                if Path(folder).is_relative_to(self.temporary) or Path(folder).parent.is_relative_to(self.lineage):
                    continue
                for path in (*(Path(folder) / name for name in names), Path(folder)):
                    handle = os.open(path, os.O_RDONLY)
                    try:
                        os.fsync(handle)
                    finally:
                        os.close(handle)

    def mark_committed(self, sharer: str = "") -> None:
        """Marks the folder, so that `gc` with another catalog leaves it alone. The mark does not make the run
        committed.

        `sharer`: the catalog that alone knows whether the folder is needed, because it is about to have the run, or has
        only runs that share files in it.
        """
        with suppress(OSError):
            if not is_marked_by(self.path, sharer):
                fresh = self.path / f"{COMMITTED}.new"  # an empty mark would say that some catalog has the run
                fresh.touch(mode=0o600)
                fresh.write_text(sharer, encoding="utf-8")
                fresh.replace(self.path / COMMITTED)

    def clear(self) -> None:
        """Empties the folder for another attempt."""
        for part in (self.path / "data", self.path / "sources", self.lineage):
            shutil.rmtree(part, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def new_run_id(execution: str = "") -> str:
    """The id of a new run. Runs of one execution of a program begin alike."""
    return (execution + uuid.uuid4().hex)[:16]


def new_execution_id() -> str:
    return uuid.uuid4().hex[:8]


@contextmanager
def working_folder(home: HomeLayout, run_id: str | None = None) -> Iterator[RunFolder]:
    """A new run's folder, locked while the run is in progress. Removed with its content if the run fails."""
    folder = home.run_folder(run_id or new_run_id())
    with translate_disk_errors(home.path):
        lock = _create_locked_folder(folder)
    try:
        yield folder
    except OSError as error:
        _remove_unless_known(folder)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise store_error(error, home.path) from error
        raise
    except BaseException:
        _remove_unless_known(folder)
        raise
    finally:
        shutil.rmtree(folder.temporary, ignore_errors=True)
        os.close(lock)


@contextmanager
def run_folder_lock(folder: RunFolder, waiting: Callable[[], None]) -> Iterator[None]:
    """Locks the folder of a committed run to work on its lineage. `waiting` is called if another process holds the
    lock.
    """
    with translate_disk_errors(folder.home.path):
        lock = os.open(folder.path / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        shutil.rmtree(folder.temporary, ignore_errors=True)
        os.close(lock)


def _remove_unless_known(folder: RunFolder) -> None:
    if not folder.is_handed_over:
        folder.remove()


def _create_locked_folder(folder: RunFolder) -> int:
    """Creates the folder elsewhere and moves it to its place once it is locked, so that `gc` never sees it unlocked."""
    begun = folder.home.spill / f"new-{folder.run_id}"
    try:
        with commit_lock(folder.home):
            # Nobody reaches what is written in it, whatever it is written with.
            begun.mkdir(parents=True, mode=0o777 & ~permission_mask())
            (begun / folder.temporary.name).mkdir()
            lock = os.open(begun / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder.home.runs.mkdir(parents=True, exist_ok=True)
            begun.rename(folder.path)
            return lock
    except BaseException:
        shutil.rmtree(begun, ignore_errors=True)
        raise


@contextmanager
def commit_lock(home: HomeLayout) -> Iterator[None]:
    """Held while a commit is written, so that no files are removed meanwhile."""
    with _home_lock(home, fcntl.LOCK_SH):
        yield


@contextmanager
def sweep_lock(home: HomeLayout) -> Iterator[None]:
    """Held while unneeded files are removed, so that no run that might need them is committed meanwhile."""
    with _home_lock(home, fcntl.LOCK_EX):
        yield


@contextmanager
def publish_lock(home: HomeLayout) -> Iterator[None]:
    """Held while published copies are replaced, so that the latest copy is the one that stays."""
    with _home_lock(home, fcntl.LOCK_EX, PUBLISH_LOCK):
        yield


@contextmanager
def _home_lock(home: HomeLayout, kind: int, name: str = SWEEP_LOCK) -> Iterator[None]:
    with translate_disk_errors(home.path):
        home.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(home.path / name, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)


def try_lock(folder: Path) -> int | None:
    """The lock of a run's folder, to be closed when done; None if another process holds it or has just removed the
    folder.
    """
    try:
        lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error(error, folder.parent.parent) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def paths_below(folder: Path) -> Iterator[Path]:
    """Files and links in a folder and below. Paths that are removed meanwhile are left out."""
    for inside, folders, names in os.walk(folder):
        yield from (Path(inside) / name for name in names)
        yield from (path for name in folders if (path := Path(inside) / name).is_symlink())


def size_of(path: Path) -> int:
    """The size of a file in bytes; 0 if it does not exist."""
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def is_at_work(folder: Path) -> bool:
    """Whether some process holds the lock of that run's folder."""
    try:
        lock = os.open(folder / ".lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def is_marked_by_another(folder: Path, sharer: str) -> bool:
    """Whether a catalog other than this one may need the folder."""
    return (folder / COMMITTED).exists() and not is_marked_by(folder, sharer)


def is_marked_by(folder: Path, sharer: str) -> bool:
    """Whether this catalog alone knows if the folder is needed."""
    try:
        return (folder / COMMITTED).read_text(encoding="utf-8") == sharer
    except (OSError, ValueError):
        return False


def unfinished_folders(home: HomeLayout) -> list[Path]:
    """Folders of runs that were killed during creation (a new one may not be locked yet), and captured pairs that a
    killed question left.
    """
    if not home.spill.is_dir():
        return []
    begun = [folder for folder in home.spill.glob("new-*") if _age(folder) > 60]
    asked = [folder for folder in home.spill.glob("asked-*") if _age(folder) > 3600]
    return [folder for folder in begun if not is_at_work(folder)] + asked


def _age(folder: Path) -> float:
    """Seconds since the folder changed; 0 if it does not exist, because a run that begins moves its folder."""
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0


@contextmanager
def translate_disk_errors(home: Path) -> Iterator[None]:
    """Translates errors of the disk into StoreError."""
    try:
        yield
    except OSError as error:
        raise store_error(error, home) from error


def store_error(error: OSError, home: Path) -> LineageError:
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "permission denied",
        errno.EPERM: "permission denied",
        errno.ENOTDIR: "a file is in the way of a folder",
        errno.EEXIST: "a file is in the way of a folder",
    }
    reason = reasons.get(error.errno or 0, error.strerror or type(error).__name__)
    return StoreError(f"cannot write to the home '{home}': {reason}", hint="choose another with --home or SMOKE_HOME")
