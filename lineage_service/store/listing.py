"""The files that a source's path means: a file, a folder, a glob, a hive-partitioned folder; sorted by path.

The rules are Spark's: names that begin with `_` or `.` are ignored, and only folders named `column=value` are entered.
Partition columns begin below the named folder, or below the part before the glob.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from lineage_service.errors import SourceError, join_names

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Listing:
    """Files of a source in path order. Partition columns begin below the folder `base`."""

    base: str
    files: tuple[str, ...]
    partitions: tuple[str, ...]

    def partition_values(self, file: str) -> dict[str, str | None]:
        """The values of partition columns in the file's folder names."""
        values: dict[str, str | None] = {}
        for part in Path(file).relative_to(self.base).parts[:-1]:
            name, equals, value = part.partition("=")
            if equals:
                values[_unescape(name)] = None if value == NULL_PARTITION else _unescape(value)
        return values


def is_elsewhere(path: str) -> bool:
    """Whether a path of a workflow is a URL of another file system."""
    return "://" in path and not path.startswith("file://")


def local_path(path: str) -> Path:
    """A path of a workflow as a local path. Resolves `file://` and `~`."""
    return Path(unquote(path.removeprefix("file://")) if path.startswith("file://") else path).expanduser()


def listing(path: str, folder: Path) -> Listing:
    """The files that `path`, relative to `folder`, means now. Raises SourceError if there are none."""
    if is_elsewhere(path):
        raise SourceError(f"cannot read '{path}': only local paths are read", hint="copy or mount the files")
    given = local_path(path)
    whole = Path(folder / given)
    try:
        if whole.is_file():
            if _is_hidden(whole):
                raise SourceError(f"Spark ignores '{whole}': its name begins with '{whole.name[0]}'")
            return _build_listing(whole.parent, [whole])
        if whole.is_dir():
            return _build_listing(whole, _walk(whole))
        if glob.has_magic(str(given)):
            return _glob_listing(given, folder)
    except PermissionError as error:
        raise SourceError(f"cannot read '{path}': permission denied on '{error.filename}'") from None
    raise SourceError(_missing(path, whole), hint=_neighbours(whole))


def is_vast(path: str, folder: Path, most: int = 20_000) -> bool:
    """Whether a path with `**` leads through folders with more entries than should be listed in passing."""
    given = Path(path).expanduser()
    if "**" not in given.parts:
        return False
    base = folder.joinpath(*given.parts[: given.parts.index("**")])
    seen = 0
    for _, folders, files in os.walk(base):
        seen += len(folders) + len(files)
        if seen > most:
            return True
    return False


def _glob_listing(pattern: Path, folder: Path) -> Listing:
    """The files of a glob. Only `pattern` may contain glob characters; the workflow's folder is taken literally."""
    plain = next(index for index, part in enumerate(pattern.parts) if glob.has_magic(part))
    base = folder.joinpath(*pattern.parts[:plain])
    found: list[Path] = []
    for match in glob.iglob(str(pattern), root_dir=folder, recursive=True):  # noqa: PTH207 (Path.glob takes no absolute pattern)
        whole = folder / match
        if not _is_hidden(whole):
            found += _walk(whole) if whole.is_dir() else [whole]
    if not found:
        raise SourceError(f"no file matches '{folder / pattern}'", hint=_neighbours(base / "x"))
    return _build_listing(base, found)


def _walk(folder: Path) -> list[Path]:
    files: list[Path] = []
    for entry in folder.iterdir():
        if _is_hidden(entry):
            continue
        if entry.is_dir():
            files += _walk(entry) if "=" in entry.name else []
        else:
            files.append(entry)
    return files


def _is_hidden(path: Path) -> bool:
    return path.name.startswith((".", "_")) and not (path.is_dir() and "=" in path.name)


def _build_listing(base: Path, files: list[Path]) -> Listing:
    if not files:
        raise SourceError(f"folder '{base}' holds no data files", hint=_subfolder_hint(base))
    given, base = base.absolute(), base.absolute()
    if ".." in base.parts:  # Spark would take it away with the part before it, which is another folder behind a link
        base = base.resolve()
    paths = sorted({str(base / file.absolute().relative_to(given)) for file in files})
    _refuse_files_read_twice(paths)
    columns: dict[tuple[str, ...], str] = {}
    for path in paths:
        names = tuple(
            _unescape(part.partition("=")[0]) for part in Path(path).relative_to(base).parts[:-1] if "=" in part
        )
        columns.setdefault(names, path)
    if len(columns) > 1:
        raise SourceError(
            f"files below '{base}' are partitioned differently: "
            + join_names([f"'{path}' by ({', '.join(names)})" for names, path in columns.items()], most=3)
        )
    (partitions,) = columns
    return Listing(str(base), tuple(paths), partitions)


def _refuse_files_read_twice(paths: list[str]) -> None:
    """SourceError if a link makes one file two of a source: each record would be two rows and, by its identity, one."""
    folders: dict[str, str] = {}
    seen: dict[str, str] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        real = os.path.realpath(path) if os.path.islink(path) else os.path.join(folders[folder], name)  # noqa: PTH114, PTH118 (speed)
        if real in seen:
            raise SourceError(
                f"'{path}' and '{seen[real]}' are one file, which the source would read twice",
                hint="remove the link, or name the files one by one",
            )
        seen[real] = path


def _unescape(text: str) -> str:
    """A partition's name or value as Spark reads it: each %XX is one character, not part of a UTF-8 sequence."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)


def _subfolder_hint(folder: Path) -> str | None:
    plain = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not _is_hidden(entry))
    if not plain:
        return None
    return f"only folders called column=value are entered; for others use a glob, as in '{plain[0]}/*'"


def _missing(path: str, whole: Path) -> str:
    return f"no such file or folder: '{path}' (looked at '{whole}')"


def _neighbours(whole: Path) -> str | None:
    folder = whole.parent
    if not folder.is_dir():
        return f"there is no folder '{folder}'"
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    return f"'{folder}' holds: {join_names(names, most=8)}"
