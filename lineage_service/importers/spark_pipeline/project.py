"""A Spark Declarative Pipelines project as a `ForeignProject`: views become steps, materialized ones also outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, assert_never

from lineage_service.errors import WorkflowError
from lineage_service.importers.foreign_project import (
    ForeignProject,
    ForeignQuery,
    ForeignTable,
    Omission,
    Parts,
    name_suffixes,
)
from lineage_service.importers.named_files import named_files
from lineage_service.importers.spark_pipeline.pipeline_spec import PipelineSpec, read_pipeline_spec
from lineage_service.importers.spark_pipeline.python_definitions import python_definitions
from lineage_service.importers.spark_pipeline.references import with_settings
from lineage_service.importers.spark_pipeline.statements import Statement, statements_of
from lineage_service.importers.streams import reads_stream
from lineage_service.importers.text_lines import with_line_feeds
from lineage_service.spec.sql_syntax import SqlSyntaxError

MAX_BYTES = 1024 * 1024
_REASONS: Mapping[Literal["streaming table", "flow", "other"], str] = {
    "streaming table": "it keeps rows of earlier runs, and a workflow is computed from its sources alone",
    "flow": "it adds rows to a streaming table",
    "other": "pipelines have no such statement",
}
_ONLY_SQL = "only SQL is imported"
_SETTING = "a run takes settings by --conf NAME=VALUE"


def pipeline_project(path: Path) -> ForeignProject:
    """The project in a folder. WorkflowError if there is nothing to import."""
    spec = read_pipeline_spec(path)
    reading = _Reading(spec)
    reading.omissions += [Omission("setting", key, _SETTING) for key in spec.configuration if key.startswith("spark.")]
    for file in spec.files:
        reading.read(file)
    if not reading.queries:
        found = "; ".join(map(str, reading.omissions[:3]))
        raise WorkflowError(
            f"the pipeline '{spec.name}' has no view in SQL that can be imported{': ' if found else ''}{found}",
            hint="CREATE MATERIALIZED VIEW and CREATE TEMPORARY VIEW in .sql files are imported",
        )
    return ForeignProject(
        tool=f"the Spark Declarative Pipelines project '{spec.name}'",
        name=spec.name,
        description=None,
        owner=None,
        queries=tuple(reading.queries.values()),
        tables=tuple(reading.tables.values()),
        omissions=tuple(reading.omissions),
        warnings=(*spec.warnings, *reading.warnings),
        resolve=reading.resolve,
        unknown_table=reading.unknown_table,
        variables=reading.variables,
    )


@dataclass(slots=True)
class _Place:
    """Where tables are whose names have fewer parts; `USE` changes it for the rest of a file."""

    catalog: str
    database: str

    def full(self, parts: Parts) -> Parts:
        lower = tuple(part.lower() for part in parts)
        return (self.catalog, self.database, *lower)[-3:] if len(lower) == 1 else (self.catalog, *lower)[-3:]


@dataclass(slots=True)
class _Reading:
    spec: PipelineSpec
    queries: dict[str, ForeignQuery] = field(default_factory=dict)
    tables: dict[str, ForeignTable] = field(default_factory=dict)
    places: dict[str, _Place] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    omissions: list[Omission] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read(self, file: Path) -> None:
        shown = _shown(file, self.spec.folder)
        if file.suffix not in (".sql", ".py"):
            self._omit("file", shown, "definitions are in .sql and .py files")
            return
        try:
            if file.stat().st_size > MAX_BYTES:
                self._omit("file", shown, f"it has more than {MAX_BYTES:,} bytes")
                return
            text = file.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "it cannot be read"
            self._omit("file", shown, reason)
            return
        if file.suffix == ".py":
            self._read_python(text, shown)
            return
        try:
            statements = statements_of(with_line_feeds(text))
        except SqlSyntaxError as error:
            self._omit("file", shown, error.message)
            return
        place = _Place(self.spec.catalog, self.spec.database)
        for statement in statements:
            self._add(statement, f"{shown}:{statement.line}", place)

    def _read_python(self, text: str, shown: str) -> None:
        found = python_definitions(text)
        if not found:
            self._omit("file", shown, "it is not valid Python" if found is None else _ONLY_SQL)
        place = _Place(self.spec.catalog, self.spec.database)
        for kind, name in found or ():
            self._omit(f"Python {kind}", name, f"{_ONLY_SQL} ({shown})")
            self._add_table(tuple(name.split(".")), f"Python {kind}", place)

    def _add(self, statement: Statement, at: str, place: _Place) -> None:
        match statement.kind:
            case "set":
                key = " ".join(statement.words).partition("=")[0].strip()
                self._omit("setting", f"{key} ({at})", _SETTING)
            case "use":
                self._use(statement.words, place)
            case "materialized view" | "temporary view" | "view" if statement.name and statement.query:
                self._add_query(statement, at, _Place(place.catalog, place.database))
            case "materialized view" | "temporary view" | "view":
                reason = "it has no query" if statement.name else "its name is computed"
                self._omit(statement.kind, f"{'.'.join(statement.name)} ({at})".strip(), reason)
            case "streaming table" | "flow" | "other" as kind:
                name = ".".join(statement.name) or statement.shown
                what = "statement" if kind == "other" else kind
                self._omit(what, f"{name} ({at})", _REASONS[kind])
                if statement.name and kind == "streaming table":
                    self._add_table(statement.name, kind, place)
            case _:
                assert_never(statement.kind)

    def _use(self, words: Parts, place: _Place) -> None:
        names = [word.strip("`").lower() for word in words]
        if names[:1] == ["catalog"]:
            place.catalog = names[-1]
            return
        parts = names[-1].split(".") if names else []
        place.catalog, place.database = (place.catalog, *parts)[-2:] if parts else (place.catalog, place.database)

    def _add_query(self, statement: Statement, at: str, place: _Place) -> None:
        is_temporary, is_stored = statement.kind == "temporary view", statement.kind == "materialized view"
        name = statement.name[-1]
        key = f"{name.lower()} (temporary)" if is_temporary else ".".join(place.full(statement.name))
        label = f"{statement.kind} '{'.'.join(statement.name)}'"
        if key in self.queries:
            self._omit(statement.kind, f"{name} ({at})", f"{self.queries[key].file} defines it already")
            return
        if reads_stream(statement.query):
            self._omit(statement.kind, f"{name} ({at})", "it reads a stream")
            self._add_table(statement.name, statement.kind, place)
            return
        query, unknown = with_settings(statement.query, self.spec.configuration, self.variables)
        if unknown:
            reason = f"it uses {', '.join(unknown)}, which the configuration of the pipeline does not set"
            self._omit(statement.kind, f"{name} ({at})", reason)
            self._add_table(statement.name, statement.kind, place)
            return
        if statement.columns and not is_stored:
            reason = "pipelines give the columns of such a view the names that its query gives"
            self._omit("column list", f"of {name} ({at})", reason)
        elif any(column.declares for column in statement.columns):
            self._omit("column types", f"of {name} ({at})", "the columns of a step have the types of its query")
        for clause in statement.clauses:
            self._omit(clause, f"of {name} ({at})", "the home decides how rows are stored")
        comments = [f"{at}: {statement.kind}", *statement.comment.splitlines()]
        self.places[key] = place
        self.queries[key] = ForeignQuery(
            key=key,
            label=label,
            name=name,
            other_name="_".join(statement.name[-2:] if len(statement.name) > 1 else (place.database, name)),
            kind=statement.kind,
            file=at,
            query=query,
            comments=tuple(comments),
            stored=is_stored,
        )

    def _add_table(self, name: Parts, what: str, place: _Place) -> None:
        key = f"{'.'.join(place.full(name))} (table)"
        table = ForeignTable(key, name[-1], "_".join(name[-2:]), name_suffixes(name), what)
        self.tables.setdefault(key, table)

    def _omit(self, what: str, name: str, reason: str) -> None:
        self.omissions.append(Omission(what, name, reason))

    def resolve(self, key: str, parts: Parts) -> str | None:
        """A temporary view, or else a table in the place where the query's file is."""
        temporary = f"{parts[0].lower()} (temporary)"
        if len(parts) == 1 and temporary in self.queries:
            return temporary
        full = ".".join(self.places[key].full(parts))
        return full if full in self.queries else f"{full} (table)"

    def unknown_table(self, key: str, parts: Parts) -> ForeignTable:
        """A table that the pipeline does not make, or files that the query names."""
        files = named_files(parts, self.spec.folder)
        if files is not None:
            return files
        full = f"{'.'.join(self.places[key].full(parts))} (table)"
        return ForeignTable(full, parts[-1], "_".join(parts[-2:]), name_suffixes(parts), "table")


def _shown(file: Path, folder: Path) -> str:
    try:
        return file.relative_to(folder).as_posix()
    except ValueError:
        return str(file)
