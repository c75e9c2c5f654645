"""A small project to start from: its templates, and their copy into a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from lineage_service.errors import LineageError, StoreError, join_names

DEFAULT_NAME = "bakery"
_NAME = re.compile(r"[a-z][a-z0-9_]*")  # as in spec/fields.py, which imports pydantic
_PLACEHOLDER = "__name__"


@dataclass(frozen=True, slots=True)
class StarterFile:
    """One file of the project: its path, its template, and a short description."""

    path: str
    template: str
    what: str


def starter_files(name: str) -> tuple[StarterFile, ...]:
    """The files of a project whose workflow is called `name`, in the order to look at them."""
    return (
        StarterFile(f"{name}.yml", "workflow.yml", "what is read, done and kept"),
        StarterFile("data/deliveries.csv", "data/deliveries.csv", "who got what"),
        StarterFile("data/products.json", "data/products.json", "what it costs"),
        StarterFile("README.md", "README.md", "what to try"),
        StarterFile(".gitignore", "gitignore.txt", "keeps .smoke out of git"),
    )


def make_project(folder: Path, name: str = DEFAULT_NAME) -> tuple[StarterFile, ...]:
    """Makes the project in `folder`, all of it or nothing; a file that is there already is never overwritten."""
    if not _NAME.fullmatch(name):
        raise LineageError(
            f"'{name}' is no name of a workflow",
            hint="a name consists of lower-case letters, digits and _, and begins with a letter: my_flow",
        )
    made = starter_files(name)
    _refuse_what_is_there(folder, made)
    contents = {each.path: _content(each.template, name) for each in made}
    try:
        _write_all(folder, contents)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"cannot make a project in '{folder}': {reason}", hint="choose another folder") from error
    return made


def _refuse_what_is_there(folder: Path, files_: tuple[StarterFile, ...]) -> None:
    # Links that lead nowhere count too: writing through one would make a file elsewhere.
    for place in (folder, *folder.parents):
        if os.path.lexists(place) and not place.is_dir():
            raise StoreError(
                f"cannot make a project in '{folder}': '{place}' is no folder", hint="choose another folder"
            )
    taken = [each.path for each in files_ if os.path.lexists(folder / each.path)]
    data = folder / "data"
    if os.path.lexists(data) and not data.is_dir():
        taken.append("data")
    if taken:
        raise StoreError(
            f"files are in the way in '{folder}': {join_names(taken)}; nothing was written",
            hint="choose another folder, as in: smoke-lineage init my_project",
        )


def _content(template: str, name: str) -> bytes:
    text = (files("lineage_service.starter") / "project" / template).read_text(encoding="utf-8")
    return text.replace(_PLACEHOLDER, name).encode("utf-8")


def _write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    begun: list[Path] = []
    try:
        for path, content in contents.items():
            target = folder / path
            for missing in _missing_folders(target.parent):
                missing.mkdir()
                begun.append(missing)
            with target.open("xb") as stream:
                begun.append(target)
                stream.write(content)
    except OSError:
        for path_ in reversed(begun):
            path_.rmdir() if path_.is_dir() else path_.unlink(missing_ok=True)
        raise


def _missing_folders(folder: Path) -> Iterator[Path]:
    """The folders that are not there yet, outermost first."""
    yield from [each for each in (*reversed(folder.parents), folder) if not each.exists()]
