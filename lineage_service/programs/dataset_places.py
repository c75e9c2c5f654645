"""Names of the datasets of a program: each path or table is called by the last part of its name."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lineage_service.spec.file_formats import FORMAT_BY_SUFFIX
from lineage_service.spec.legal_names import legal_name, unused_name
from lineage_service.store.listing import is_elsewhere, local_path

_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


def absolute_place(path: str) -> str:
    """A path of a program as an absolute one. A URL of another file system stays as it is."""
    if is_elsewhere(path):
        return path
    plain = path.removeprefix("file:") if path.startswith("file:") and not path.startswith("file://") else path
    return os.path.normpath(os.path.join(os.getcwd(), local_path(plain)))  # noqa: PTH109, PTH118 (Path keeps no `..`)


@dataclass
class DatasetNames:
    """Names by place. Two places never have the same name in one execution of a program."""

    _names: dict[str, str] = field(default_factory=dict)

    def name_of(self, place: str, wanted: str | None = None) -> str:
        """The name of a place: its last part (or what is `wanted`), with that of its parent folder in front where
        another place has it, and with a number where that is taken, too.
        """
        if place not in self._names:
            parts = [wanted] if wanted else [legal_name(_stem(part), "") for part in PurePosixPath(place).parts]
            parts = [part for part in parts if part]
            taken = set(self._names.values())
            name = parts[-1] if parts else "data"
            if name in taken and len(parts) > 1:
                name = legal_name("_".join(parts[-2:]), "data")
            self._names[place] = unused_name(name, taken)
        return self._names[place]


def _stem(part: str) -> str:
    """A part of a path without its suffixes of data files, and without glob characters."""
    pure = PurePosixPath(part)
    while pure.suffix.lower() in (*FORMAT_BY_SUFFIX, *_PACKED) and pure.stem != pure.name:
        pure = PurePosixPath(pure.stem)
    return "" if any(char in pure.name for char in "*?[]{}") else pure.name
