"""Seals: digests over the catalog's own records, by which a damaged or lost row is detected before it is used.

A seal covers a *scope*: a run itself (`run:<id>`), all that is held of it (`of:<id>`), a dataset version and whose its
rows are (`version:<id>`), a workflow (`workflow:<version>`), what was erased (`erasures`); `runs` covers which runs
there are, with the digests of each, and `names` the columns by which runs and datasets are found, so that none is
passed over. Whoever writes records of a scope seals it anew in the same transaction; readers compare.

Columns that are null do not count: a migration may add such a column without breaking any seal. These are plain
digests against decay; what must stand against people, such as the audit log, is sealed with a key instead.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import BindParameter, Column, Connection, Select, bindparam, delete, insert, literal, or_, select

from lineage_catalog import models

RUNS, ERASURES, NAMES = "runs", "erasures", "names"
# The tables of each kind of scope, with the column that names the owner of a row.
TABLES: Mapping[str, tuple[Column[Any], ...]] = {
    "run": (models.runs.c.id,),
    "of": (
        models.run_steps.c.run_id,
        models.run_datasets.c.run_id,
        models.dataset_columns.c.run_id,
        models.hops.c.run_id,
        models.prepared.c.run_id,
        models.run_files.c.run_id,
    ),
    "version": (models.dataset_versions.c.id, models.subject_rows.c.version_id),
    "workflow": (models.workflow_versions.c.version,),
}
OWNERS = {"run": models.runs.c.id, "of": models.runs.c.id, "version": models.dataset_versions.c.id,
          "workflow": models.workflow_versions.c.version}  # fmt: skip
# The columns by which runs and datasets are found.
FOUND_BY = (
    (models.runs.c.id, models.runs.c.workflow, models.runs.c.lineage, models.runs.c.capture),
    tuple(models.run_datasets.c[name] for name in ("run_id", "workflow", "name", "role", "version_id")),
)
WORDS = {
    "run": "run '{}'",
    "of": "what is held of run '{}'",
    "version": "dataset version '{}'",
    "workflow": "workflow version '{}'",
    RUNS: "the list of runs",
    ERASURES: "the list of erasures",
    NAMES: "the list of names",
}
MOST = 500  # names in one query
_SOME: BindParameter[Any] = bindparam("names", expanding=True)
# Built once: each question asks some of these several times.
_SEALED = select(models.seals.c.scope, models.seals.c.digest).where(models.seals.c.scope.in_(_SOME))
_RECORDS = {column: select(column.table).where(column.in_(_SOME)) for columns in TABLES.values() for column in columns}
_FOUND_BY = [select(*columns) for columns in FOUND_BY]
_RUNS = select(models.runs.c.id, models.runs.c.ordinal, models.runs.c.status)
_SEALS_OF_RUNS = select(models.seals).where(
    or_(models.seals.c.scope.startswith("run:"), models.seals.c.scope.startswith("of:"))
)


class RowFetcher(Protocol):
    """Executes a query on the catalog."""

    def __call__(self, query: Select[Any], parameters: Mapping[str, Any] | None = None, /) -> Sequence[Any]: ...


def scope_text(scope: str) -> str:
    """Describes a scope in words."""
    kind, _, name = scope.partition(":")
    return WORDS.get(kind, "a seal").format(name)


def broken_scopes(scopes: Iterable[str], rows: RowFetcher) -> list[str]:
    """Returns the scopes whose records have changed since they were sealed."""
    wanted = list(dict.fromkeys(scopes))
    sealed: dict[str, str] = {}
    for some in _batches(wanted):
        sealed |= {str(row[0]): str(row[1]) for row in rows(_SEALED, {"names": some})}
    found = digests(wanted, rows)
    # Catalogs of earlier versions have no seal of names before their next run is committed.
    return [scope for scope in wanted if sealed.get(scope) != found.get(scope) and (scope != NAMES or NAMES in sealed)]


def all_broken_scopes(rows: RowFetcher) -> list[str]:
    """Returns every scope whose records have changed since they were sealed, or that lacks its seal."""
    sealed = [str(row[0]) for row in rows(select(models.seals.c.scope))]
    return broken_scopes([*_scopes(rows), *sealed], rows)


def digests(scopes: Iterable[str], rows: RowFetcher) -> dict[str, str]:
    """The digests of scopes as they are now; none of a scope that has no records at all."""
    names = defaultdict[str, list[str]](list)
    for scope in scopes:
        kind, _, name = scope.partition(":")
        names[kind].append(name)
    found: dict[str, str] = {}
    for kind, wanted in names.items():
        if kind == RUNS:
            found[RUNS] = _digest_of_runs(rows)
        elif kind == NAMES:
            # All in one text: there are many of them.
            listed = [[str(value) for value in row] for query in _FOUND_BY for row in rows(query)]
            found[NAMES] = _digest([json.dumps(sorted(listed))])
        elif kind == ERASURES:
            tables = models.erasures, models.erased_subjects
            found[ERASURES] = _digest(line for table in tables for line in _lines(table, rows(select(table))))
        elif kind in TABLES:
            found |= {f"{kind}:{name}": digest for name, digest in _digests_by_name(kind, wanted, rows).items()}
    return found


def _digests_by_name(kind: str, names: Sequence[str], rows: RowFetcher) -> dict[str, str]:
    lines = defaultdict[str, list[str]](list)
    for some in _batches(names):
        for column in TABLES[kind]:
            for row in rows(_RECORDS[column], {"names": some}):
                lines[str(row._mapping[column.name])] += _lines(column.table, [row])
    return {name: _digest(each) for name, each in lines.items()}


def _digest_of_runs(rows: RowFetcher) -> str:
    return _digest([*_lines(models.runs, rows(_RUNS)), *_lines(models.seals, rows(_SEALS_OF_RUNS))])


def _lines(table: Any, rows: Iterable[Any]) -> list[str]:
    return [
        json.dumps(
            [table.name, {key: value for key, value in row._mapping.items() if value is not None}], sort_keys=True
        )
        for row in rows
    ]


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _batches(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[begin : begin + MOST] for begin in range(0, len(names), MOST))


def _scopes(rows: RowFetcher) -> list[str]:
    """Every scope that must have a seal, if it has records."""
    return [f"{kind}:{row[0]}" for kind, column in OWNERS.items() for row in rows(select(column))] + [
        *(RUNS, ERASURES, NAMES)
    ]


# --- writing --------------------------------------------------------------------------------------------------


def seal(
    connection: Connection, *, runs: Iterable[str] = (), versions: Iterable[str] = (), workflows: Iterable[str] = ()
) -> None:
    """Seals these scopes again after a change, and the list of runs. Seals of removed records are removed."""
    changed = {"run": [*runs], "version": [*versions], "workflow": [*workflows]}
    changed["of"] = changed["run"]
    _seal(connection, [f"{kind}:{name}" for kind, names in changed.items() for name in names])
    seals, known = models.seals, models.dataset_versions
    sealed = select(literal("version:").concat(known.c.id))
    connection.execute(delete(seals).where(seals.c.scope.startswith("version:"), seals.c.scope.not_in(sealed)))
    _seal(connection, [RUNS, NAMES])


def seal_erasures(connection: Connection) -> None:
    _seal(connection, [ERASURES])


def seal_missing(connection: Connection) -> None:
    """Seals records without a seal: those of a catalog that was just migrated."""
    rows = row_fetcher(connection)
    sealed = {str(row[0]) for row in rows(select(models.seals.c.scope))}
    missing = [scope for scope in _scopes(rows) if scope not in sealed]
    _seal(connection, [scope for scope in missing if scope != RUNS])
    _seal(connection, [scope for scope in missing if scope == RUNS])


def _seal(connection: Connection, scopes: Iterable[str]) -> None:
    table, wanted = models.seals, list(dict.fromkeys(scopes))
    found = digests(wanted, row_fetcher(connection))
    for some in _batches(wanted):
        connection.execute(delete(table).where(table.c.scope.in_(some)))
    if found:
        connection.execute(insert(table), [{"scope": scope, "digest": digest} for scope, digest in found.items()])


def row_fetcher(connection: Connection) -> RowFetcher:
    return lambda query, parameters=None: connection.execute(query, parameters).all()


def refuse_broken(connection: Connection, scopes: Iterable[str]) -> None:
    """Raises DamagedCatalog if one of these is damaged: a change would otherwise seal the damage."""
    from lineage_catalog.engine import DamagedCatalog, catalog_label

    for scope in broken_scopes(scopes, row_fetcher(connection)):
        raise DamagedCatalog(
            f"{catalog_label(connection.engine)} is damaged: {scope_text(scope)} is not as it was written"
        )
