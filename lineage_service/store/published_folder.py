"""A published copy: a folder of Parquet files, with a mark that says who wrote which files, and how it is replaced.

A copy is replaced as a whole, by renames beside its place: the old one becomes `.NAME.ID.old`, the new one, which
waited as `.NAME.ID.new`, takes its place, and the old one is removed. Killed at any point, doing it again finishes it.
What somebody else has put into the folder is never removed: the mark tells.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lineage_service.errors import StoreError
from lineage_service.store.checksums import crc_of, crcs_of
from lineage_service.store.permissions import make_private

MARK = "_smoke_lineage"  # readers of Parquet folders pass over names that begin with an underscore
TEXT = "published by smoke-lineage; replaced as a whole by the next run"
# What we wrote before marks said which files are ours.
_WRITTEN = re.compile(r"part-[-0-9A-Za-z.]*\.parquet|\.part-[-0-9A-Za-z.]*\.parquet\.crc|_SUCCESS|\._SUCCESS\.crc")


@dataclass(frozen=True)
class Mark:
    """What stands in the mark of a published copy; `files` with their sizes and `sums`, the crc32 of each, are None in
    marks of earlier versions."""

    run: str | None = None
    workflow: str | None = None
    output: str | None = None
    files: Mapping[str, int] | None = None
    sums: Mapping[str, int] | None = None


def write_mark(folder: Path, run_id: str, workflow: str, output: str) -> None:
    """Marks a copy that is complete as ours, on the disk itself: it is about to be committed."""
    paths = {str(path.relative_to(folder)): path for path in _files(folder) if path.name != MARK}
    files = {name: path.stat().st_size for name, path in paths.items()}
    sums = dict(zip(paths, crcs_of(list(paths.values())), strict=True))
    body = {"": TEXT, "run": run_id, "workflow": workflow, "output": output, "files": files, "sums": sums}
    (folder / MARK).write_text(json.dumps(body), encoding="utf-8")
    make_private(folder)
    for path in (*_files(folder), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_mark(folder: Path) -> Mark | None:
    """The mark of a published copy; None where there is none."""
    try:
        text = (folder / MARK).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    try:
        body = json.loads(text)
        files = {str(name): int(size) for name, size in body["files"].items()}
        sums = {str(name): int(crc) for name, crc in body["sums"].items()} if "sums" in body else None
        return Mark(str(body["run"]), str(body["workflow"]), str(body["output"]), files, sums)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Mark()


def foreign_file(folder: Path) -> str | None:
    """The first thing in a folder that is not of a copy that we published; None where all of it is."""
    if not folder.is_dir():
        return None
    mark = read_mark(folder)
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                return f"{name}/"
        elif mark is None or path.is_symlink() or (name != MARK and not _is_ours(mark, name, path)):
            return name
    return None


def _is_ours(mark: Mark, name: str, path: Path) -> bool:
    if mark.files is None:
        return _WRITTEN.fullmatch(name) is not None
    return name in mark.files and path.stat().st_size == mark.files[name]


@dataclass
class ChangedFiles:
    """Looks for files of published copies that others have changed since. Sizes are always compared, and bytes as long
    as they are not more than `most` in all (None: all of them); `passed_over` counts the files beyond."""

    most: int | None
    passed_over: int = 0

    def of(self, folder: Path, mark: Mark) -> list[str]:
        """What is missing in a copy, changed or added, in words. Hidden files and those of Spark may be missing."""
        found = {str(path.relative_to(folder)): path for path in _files(folder) if path.name != MARK}
        if mark.files is None:
            return [f"'{name}' was added" for name in found if not _WRITTEN.fullmatch(name)]
        missing = [name for name in mark.files if name not in found and not Path(name).name.startswith((".", "_"))]
        changed = [name for name, path in found.items() if name in mark.files and self._is_changed(name, path, mark)]
        added = [name for name in found if name not in mark.files]
        words = {"is missing": missing, "was changed": changed, "was added": added}
        return [f"'{name}' {word}" for word, names in words.items() for name in names]

    def _is_changed(self, name: str, path: Path, mark: Mark) -> bool:
        if path.is_symlink() or not _is_ours(mark, name, path):
            return True
        if mark.sums is None or name not in mark.sums:
            return False
        size = path.stat().st_size
        if self.most is not None and size > self.most:
            self.passed_over += 1
            return False
        self.most = None if self.most is None else self.most - size
        return crc_of(path) != mark.sums[name]


def remove_copy(folder: Path) -> bool:
    """Removes what we published to a folder; whether nothing is left of it. What others have put there stays."""
    mark = read_mark(folder)
    if mark is None:
        return not folder.exists()
    with translate_replace_errors(folder):
        for path in list(_files(folder)):
            if path.name != MARK and not path.is_symlink() and _is_ours(mark, str(path.relative_to(folder)), path):
                path.unlink()
        (folder / MARK).unlink()
        for path in sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True):
            with suppress(OSError):
                path.rmdir()
        with suppress(OSError):
            folder.rmdir()
    return not folder.exists()


def put_in_place(target: Path, waiting: Path | None) -> None:
    """The waiting copy in the place of the old one, whatever an earlier try has done of it; None: the old one goes.
    StoreError where it cannot be done, or where somebody else's files are in the way; nothing is lost then."""
    with translate_replace_errors(target):
        if target.exists() and (waiting is None or waiting.exists()):
            refuse_foreign(target)
            if waiting is not None or read_mark(target) is not None:
                # One name per try is enough: what has it already is an older copy that was replaced before.
                old = target.with_name(f".{target.name}.{_id_of(waiting, target)}.old")
                if old.exists():
                    shutil.rmtree(old)
                target.rename(old)
        if waiting is not None and waiting.exists():
            waiting.rename(target)
        _sync(target.parent)
    remove_replaced(target)


def remove_replaced(target: Path) -> None:
    """Removes the copies that the published one has replaced."""
    with translate_replace_errors(target):
        for path in copies_beside(target):
            if path.suffix == ".old":
                shutil.rmtree(path)


def put_back(target: Path) -> None:
    """The copy before the one that was to be put in place, where that is gone: better than none."""
    old = [path for path in copies_beside(target) if path.suffix == ".old" and read_mark(path) is not None]
    if old and not target.exists():
        with translate_replace_errors(target):
            max(old, key=lambda path: path.stat().st_mtime_ns).rename(target)


def _id_of(waiting: Path | None, target: Path) -> str:
    mark = read_mark(target)
    named = None if waiting is None else re.search(r"\.([0-9a-f]{16})\.new$", waiting.name)
    if named:
        return named.group(1)
    known = mark.run if mark is not None and mark.run else ""
    return known if re.fullmatch("[0-9a-f]{16}", known) else "0" * 16


def refuse_foreign(target: Path) -> None:
    """StoreError where a folder holds what we did not write."""
    foreign = foreign_file(target)
    if foreign is not None:
        raise StoreError(
            foreign_file_message(target, foreign), hint=f"move '{foreign}' elsewhere, or name another folder"
        )


def foreign_file_message(target: Path, foreign: str) -> str:
    return f"cannot publish to '{target}': it holds '{foreign}', which smoke-lineage did not write"


def copies_beside(target: Path) -> list[Path]:
    """Copies that are not in the place of the published one: not yet, or no more."""
    named = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.(old|new)")
    try:
        return sorted(path for path in target.parent.iterdir() if named.fullmatch(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def translate_replace_errors(target: Path) -> Iterator[None]:
    """Around whatever changes a published copy: what the disk answers is a StoreError."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the published copy '{target}' could not be replaced: {reason}") from error


@contextmanager
def writing_beside(target: Path) -> Iterator[None]:
    """While a copy is written beside its place: nobody takes it for left over, whatever home they use."""
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def is_written_beside(target: Path) -> bool:
    """Whether somebody writes a copy beside a published one just now."""
    try:
        handle = os.open(target.parent, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(handle)
    return False


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
