"""The manifest of a dbt project, read with care: anyone may have written it, and any part of it may be missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_service.errors import NotFound, Position, Problem, WorkflowError

VERSION = 12
MAX_BYTES = 512 * 1024 * 1024
_SCHEMA = re.compile(r"/(?P<kind>[a-z_-]+)/v(?P<version>[0-9]+)\.json")
_COMPILE = "in the dbt project, run `dbt compile`, and import target/manifest.json"

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest of version 12. `path` is its file."""

    path: Path
    content: Mapping[str, Any]

    @property
    def metadata(self) -> Node:
        return mapping(self.content, "metadata")

    @property
    def project(self) -> str:
        return text(self.metadata, "project_name") or "dbt_project"

    @property
    def adapter(self) -> str:
        return text(self.metadata, "adapter_type") or "an unknown database"

    def nodes(self, *kinds: str) -> Iterator[tuple[str, Node]]:
        """Ids and nodes: models, seeds, tests and the like, and what has a section of its own in the manifest."""
        for kind in kinds:
            section = {"source": "sources"}.get(kind, "nodes")
            for key, node in mapping(self.content, section).items():
                if isinstance(node, dict) and text(node, "resource_type") == kind:
                    yield key, node

    def section(self, name: str) -> Iterator[tuple[str, Node]]:
        """Ids and nodes of a section, such as `exposures`."""
        for key, node in mapping(self.content, name).items():
            if isinstance(node, dict):
                yield key, node

    def disabled(self) -> Iterator[Node]:
        """What is disabled in the project."""
        for nodes in mapping(self.content, "disabled").values():
            for node in nodes if isinstance(nodes, list) else [nodes]:
                if isinstance(node, dict):
                    yield node


def read_manifest(path: Path) -> Manifest:
    """Raises NotFound or WorkflowError for a file that is not a manifest of version 12."""
    if path.is_dir():
        inside = [path / "manifest.json", path / "target" / "manifest.json"]
        found = next((each for each in inside if each.is_file()), None)
        if found is None:
            raise NotFound(f"there is no manifest.json in '{path}' and none in its folder target", hint=_COMPILE)
        path = found
    content = _parse(_read(path), path)
    if not isinstance(content, dict):
        raise WorkflowError(f"'{path}' is not a dbt manifest: its top level is not an object", hint=_COMPILE)
    schema = text(mapping(content, "metadata"), "dbt_schema_version")
    match = _SCHEMA.search(schema)
    if match is None:
        raise WorkflowError(f"'{path}' is not a dbt manifest: it has no metadata.dbt_schema_version", hint=_COMPILE)
    if match["kind"] != "manifest":
        raise WorkflowError(f"'{path}' is not a dbt manifest: its schema is {match['kind']}", hint=_COMPILE)
    if int(match["version"]) != VERSION:
        dbt = text(mapping(content, "metadata"), "dbt_version") or "unknown"
        older = int(match["version"]) < VERSION
        raise WorkflowError(
            f"'{path}' is a manifest of version {match['version']} (dbt {dbt}); version {VERSION} is read",
            hint="dbt 1.8 and later write version 12: run `dbt compile` with one of them"
            if older
            else "run `dbt compile` with a dbt that writes version 12 (1.8 or later)",
        )
    return Manifest(path, content)


def _read(path: Path) -> str:
    try:
        if not path.exists():
            raise NotFound(f"'{path}' does not exist", hint=_COMPILE)
        if not path.is_file():
            raise WorkflowError(f"'{path}' is not a regular file", hint=_COMPILE)
        if path.stat().st_size > MAX_BYTES:
            raise WorkflowError(f"'{path}' has more than {MAX_BYTES // 1024**2} MiB")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise WorkflowError(f"'{path}' is not UTF-8", hint=_COMPILE) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WorkflowError(f"'{path}' cannot be read: {reason.lower()}") from None


def _parse(whole: str, path: Path) -> Any:
    try:
        return json.loads(whole)
    except json.JSONDecodeError as error:
        place = Position(str(path), error.lineno, error.colno)
        message = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise WorkflowError(Problem(message, place, "the file is damaged or cut off: run `dbt compile`")) from None
    except (RecursionError, ValueError):
        raise WorkflowError(f"'{path}' is not a dbt manifest: it is nested too deeply", hint=_COMPILE) from None


def mapping(node: Node, *keys: str) -> dict[str, Any]:
    """An object inside a node; an empty one if it is missing or something else."""
    found: Any = node
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def text(node: Node, *keys: str) -> str:
    """A text inside a node; empty if it is missing or something else. Halves of surrogate pairs are replaced."""
    *before, last = keys
    found = (mapping(node, *before) if before else node).get(last)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return ""
    return str(found).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def texts(node: Node, *keys: str) -> list[str]:
    """The texts of a list inside a node."""
    *before, last = keys
    found = (mapping(node, *before) if before else node).get(last)
    found = [found] if isinstance(found, str) else found
    return [text({"it": each}, "it") for each in found] if isinstance(found, list) else []
