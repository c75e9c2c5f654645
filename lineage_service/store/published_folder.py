"""A published copy: a folder of Parquet files with a mark that lists who wrote which files, and its replacement.

A copy is replaced as a whole by renames: the old one becomes `.NAME.ID.old`, the new one, written as `.NAME.ID.new`,
takes its place, and the old one is removed. After a kill at any point, repeating this finishes it. Files that others
put into the folder are not in the mark and are never removed.
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
from lineage_service.store.file_sums import crc_of, crcs_of
from lineage_service.store.permissions import make_private

MARK = "_smoke_lineage"  # readers of Parquet folders pass over names that begin with an underscore
TEXT = "published by smoke-lineage; replaced as a whole by the next run"
# What we wrote before marks said which files are ours.
_WRITTEN = re.compile(r"part-[-0-9A-Za-z.]*\.parquet|\.part-[-0-9A-Za-z.]*\.parquet\.crc|_SUCCESS|\._SUCCESS\.crc")


@dataclass(frozen=True)
class Mark:
    """The content of a published copy's mark. `files` with their sizes and `sums`, the crc32 of each, are None in marks
    of earlier versions.
    """

    run: str | None = None
    workflow: str | None = None
    output: str | None = None
    files: Mapping[str, int] | None = None
    sums: Mapping[str, int] | None = None


def write_mark(folder: Path, run_id: str, workflow: str, output: str) -> None:
    """Marks a complete copy as ours and flushes it to disk, because it is about to be committed."""
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
    """The mark of a published copy; None if there is none."""
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
    """The first file in a folder that does not belong to our published copy; None if there is none."""
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
    """Finds files of published copies that others have changed since. Sizes are always compared; contents up to `most`
    bytes in total (None: all). `passed_over` counts the files beyond that limit.
    """

    most: int | None
    passed_over: int = 0

    def of(self, folder: Path, mark: Mark) -> list[str]:
        """The missing, changed and added files of a copy, as text. Hidden files and those of Spark may be missing."""
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
    """Removes what we published to a folder. Returns whether nothing is left; files of others stay."""
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
    """Replaces the old copy by the pending one, after whatever an earlier attempt did. With None, the old copy is
    removed.

    Raises StoreError, without losing anything, if that fails or files of others are in the way.
    """
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
    """Restores the previous copy if the one that was to be published is missing."""
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
    """Raises StoreError if a folder contains files that we did not write."""
    foreign = foreign_file(target)
    if foreign is not None:
        raise StoreError(
            foreign_file_message(target, foreign), hint=f"move '{foreign}' elsewhere, or name another folder"
        )


def foreign_file_message(target: Path, foreign: str) -> str:
    return f"cannot publish to '{target}': it holds '{foreign}', which smoke-lineage did not write"


def copies_beside(target: Path) -> list[Path]:
    """Copies beside the published one: pending ones, and replaced ones."""
    named = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.(old|new)")
    try:
        return sorted(path for path in target.parent.iterdir() if named.fullmatch(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def translate_replace_errors(target: Path) -> Iterator[None]:
    """Translates errors of the disk during the replacement of a published copy into StoreError."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the published copy '{target}' could not be replaced: {reason}") from error


@contextmanager
def writing_beside(target: Path) -> Iterator[None]:
    """Held while a copy is written beside its target, so that nothing treats it as left over, in whatever home."""
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def is_written_beside(target: Path) -> bool:
    """Whether some process is writing a copy beside a published one."""
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
