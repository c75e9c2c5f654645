"""The paths that `--source NAME=PATH` gives to tables of a foreign project."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from lineage_service.errors import Problem, WorkflowError, did_you_mean, join_names
from lineage_service.importers.foreign_project import ForeignTable
from lineage_service.spec.source_models import SourceSpec

CSV_OPTIONS: Mapping[str, str] = {"header": "true", "inferSchema": "true"}
"""How CSV files are read of which only the path is known."""


class SourcePaths:
    """Paths by table; names given are in lower case. WorkflowError, with all wrong names at once, if one
    means no table, or several.
    """

    def __init__(self, tables: Sequence[ForeignTable], given: Mapping[str, str], queries: Collection[str]) -> None:
        self._paths: dict[str, str] = {}
        self._names: dict[str, str] = {}
        problems = []
        for name, path in given.items():
            meant = [table for table in tables if name in map(_plain, table.names)]
            exact = [table for table in meant if name == _plain(table.names[0])]
            meant = exact if len(exact) == 1 else meant
            if len(meant) == 1 and meant[0].key in self._paths:
                other = self._names[meant[0].key]
                problems.append(Problem(f"--source {name}: '{other}' is the same table, and its path is given too"))
            elif len(meant) == 1:
                self._paths[meant[0].key], self._names[meant[0].key] = path, name
            elif meant:
                written = join_names([table.names[0] for table in meant])
                problems.append(Problem(f"--source {name}: several tables have this name; write one of: {written}"))
            elif name in queries:
                problems.append(Problem(f"--source {name}: '{name}' is built by the project, and becomes a step"))
            else:
                known = [table.names[0] for table in tables]
                message = f"--source {name}: no table of the project has this name; tables: {join_names(known)}"
                problems.append(Problem(message, hint=did_you_mean(name, known)))
        if problems:
            raise WorkflowError(problems)

    def path_of(self, table: ForeignTable) -> str | None:
        """The path that was given for a table."""
        return self._paths.get(table.key)

    def options_of(self, given: str | None, table: ForeignTable) -> Mapping[str, str]:
        """The reader options of a table's files: those of the project, and a header for CSV files of which only the
        path is known.
        """
        if given is None:
            return table.options
        is_csv = SourceSpec.model_construct(path=given, format=None).file_format == "csv"
        return {**CSV_OPTIONS, **table.options} if is_csv else {}

    def unused(self, read: Iterable[str]) -> list[str]:
        """The names given for tables that are not among those read."""
        known = set(read)
        return [name for key, name in self._names.items() if key not in known]


def _plain(name: str) -> str:
    """A name as `given_sources` returns it."""
    return name.replace("`", "").lower()
