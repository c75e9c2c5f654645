"""A .sql file as a workflow of its own: one sql step, called like the file, over the tables that its query names.

A table is one that was given as NAME=PATH, or files as Spark names them (parquet.`path`), or else an output of another
workflow. Each becomes a source of the workflow; in the query, the source's name takes the place of any other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lineage_service.errors import Problem, WorkflowError, did_you_mean, join_names
from lineage_service.spec.fields import NAME_PATTERN
from lineage_service.spec.file_formats import FORMAT_BY_SUFFIX, FORMAT_NAMES
from lineage_service.spec.given_sources import GivenSources, given_sources
from lineage_service.spec.legal_names import legal_name, unused_name
from lineage_service.spec.problems import Collector
from lineage_service.spec.source_models import SourceSpec
from lineage_service.spec.sql_parsing import (
    parse_query,
    table_nodes,
    tokenize_query,
    words_of_sql,
)
from lineage_service.spec.sql_syntax import SqlSyntaxError
from lineage_service.spec.sql_text import SqlText, whole_file
from lineage_service.spec.variables import literal_text, referenced_variables, replaced_ranges
from lineage_service.spec.yaml_tree import Place, Tree, YamlPositions, read_text

if TYPE_CHECKING:
    from sqlglot import exp

SUFFIX = ".sql"
# Formats that Spark reads by a name before the path, and that are not read here.
_OTHER_FORMATS = ("avro", "binaryfile", "delta", "hive", "iceberg", "image", "jdbc", "libsvm", "orc", "text", "xml")
_STEP = ("steps", 0)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A .sql file as it was read.

    tree: the workflow, without its sources.
    text: the query as written.
    given: paths by table name, in lower case.
    """

    tree: Tree
    text: SqlText
    given: Mapping[str, str]

    @property
    def name(self) -> str:
        name: str = self.tree.value["name"]
        return name


@dataclass(frozen=True, slots=True)
class QueryTables:
    """The workflow of a query file with its sources.

    text: the query, with the names of sources in it.
    names: the tables that it names, in lower case.
    readable: whether the text is a query.
    assumed: sources that are taken for outputs of other workflows, since nothing says where the table is; and what to
        say where there is no such output.
    """

    whole: dict[str, Any]
    text: SqlText
    names: Collection[str] = ()
    readable: bool = True
    assumed: Mapping[str, Problem] = field(default_factory=dict)


def is_query_file(path: Path) -> bool:
    return path.suffix.lower() == SUFFIX


def query_name(path: Path) -> str:
    """The name of the workflow that a .sql file is."""
    return legal_name(path.stem, "query")


def read_query_file(path: Path, sources: GivenSources, variables: Mapping[str, str]) -> QueryFile:
    """Raises NotFound or WorkflowError where there is nothing to go on with. A variable is declared by being given."""
    shown = str(path)
    text = whole_file(read_text(path, shown).replace("\r\n", "\n"), shown)
    given = given_sources(sources, path.parent)
    name = query_name(path)
    marks = YamlPositions(shown, {_STEP: _first_word(text), ("sources",): (0, 0)}, lines=tuple(text.text.split("\n")))
    referenced = dict(referenced_variables(text.text))
    missing = [
        Problem(f"variable '{each}' has no value", text.position(offset), f"give it: --var {each}=…")
        for each, offset in referenced.items()
        if each not in variables
    ]
    if missing:
        raise WorkflowError(missing)
    value = {
        "version": 1,
        "name": name,
        "vars": dict.fromkeys(referenced, ""),
        "sources": {table: {"path": literal_text(where)} for table, where in given.items()},
        "steps": [{"name": name, "op": "sql", "query": text.text}],
        "outputs": {name: None},
    }
    return QueryFile(Tree(value, marks, ()), text, given)


def with_tables_as_sources(
    read: QueryFile, whole: Mapping[str, Any], values: Mapping[str, str | None], environment: Mapping[str, str],
    collector: Collector,
) -> QueryTables:  # fmt: skip
    """The workflow with a source for each table of its query; `whole` has its variables replaced."""
    query = whole["steps"][0]["query"]
    text = replace(read.text, text=query, replaced=replaced_ranges(read.text.text, values, environment))
    try:
        tree = parse_query(query)
    except SqlSyntaxError as error:
        hint = "put each into a file of its own" if "several" in error.message else error.hint
        collector.add(_of_a_file(error.message), text.position(error.offset), hint)
        return QueryTables(_without_sources(whole, read, collector), text, readable=False)
    tables = _TableSources(read, whole, text, tree, collector)
    tables.bind()
    if not tables.sources and not collector.has_errors:
        collector.add(
            "the query reads no table; a workflow has at least one source",
            text.position(0),
            "select from a table, and say where it is with --source NAME=PATH",
        )
    if not tables.sources:
        return QueryTables(_without_sources(whole, read, collector), text, readable=False)
    text = text.with_edits(tables.edits())
    step = {**whole["steps"][0], "query": text.text, "inputs": list(tables.sources)}
    return QueryTables(
        {**whole, "sources": tables.sources, "steps": [step]}, text, tables.name_of, assumed=tables.assumed
    )


def _of_a_file(message: str) -> str:
    """A message about a step's query in words for a file that has nothing else."""
    words = {
        "a step has one query, and this has several": "the file has several queries; a workflow has one",
        "the query is empty": "the file has no query",
        "an sql step is one query": "a workflow is one query",
    }
    return words.get(message, message)


def _without_sources(whole: Mapping[str, Any], read: QueryFile, collector: Collector) -> dict[str, Any]:
    collector.silence(read.tree.marks.at("sources"))  # that there are none follows from what was told
    return {**whole, "sources": {}}


class _TableSources:
    """Finds a source for each table of a query."""

    def __init__(
        self, read: QueryFile, whole: Mapping[str, Any], text: SqlText, tree: exp.Expr, collector: Collector
    ) -> None:
        from sqlglot import exp

        self.read, self.whole, self.text, self.tree, self.found = read, whole, text, tree, collector
        self.tables = sorted(table_nodes(tree, dotted=True), key=lambda each: _span(each)[0])
        self.sources: dict[str, dict[str, Any]] = {}
        self.assumed: dict[str, Problem] = {}
        self.name_of: dict[str, str] = {}  # written name in lower case -> source
        self.taken = {read.name, *(cte.alias.lower() for cte in tree.find_all(exp.CTE))}
        self.taken |= {table.name.lower() for table in self.tables if table.args.get("db") is None}

    def bind(self) -> None:
        for table in self.tables:
            full = _full_name(table)
            if full in self.name_of:
                continue
            declared = self._declaration(table, full)
            if declared is None:
                continue
            name = self._source_name(table, full, files="format" in declared)
            self.name_of[full], self.sources[name] = name, declared
            self.read.tree.marks.values["sources", name] = self._place(table)
            if "output" in declared:
                self.assumed[name] = self._unknown_table(table)
        names = [_full_name(table) for table in self.tables]
        for unused in [each for each in self.read.given if each not in names]:
            self.found.add(f"the query names no table '{unused}', for which a source was given",
                           self.text.position(0), did_you_mean(unused, names), "warning")  # fmt: skip

    def edits(self) -> Iterator[tuple[int, int, str]]:
        """The places in the query where a source's name replaces what is written."""
        from sqlglot import exp

        qualifiers: dict[str, str] = {}
        for table in self.tables:
            name = self.name_of.get(_full_name(table))
            if name is None:
                continue
            is_files = table.args.get("db") is not None and "format" in self.sources[name]
            alias = "" if is_files or table.args.get("alias") is not None else _quoted(table.name)
            if alias and not is_files and table.args.get("db") is not None:
                qualifiers[_full_name(table)] = alias
            if name == table.name.lower() and table.args.get("db") is None:
                continue
            begin, end = _span(table)
            shown = f" AS {alias}" if alias and table.name.lower() != name else ""
            yield begin, end, f"{_quoted(name)}{shown}"
        for column in self.tree.find_all(exp.Column):
            parts = column.parts
            for count in range(2, len(parts)):
                alias = qualifiers.get(".".join(part.name for part in parts[:count]).lower(), "")
                if alias:
                    yield parts[0].meta["start"], parts[count - 1].meta["end"] + 1, alias
                    break

    def _declaration(self, table: exp.Table, full: str) -> dict[str, Any] | None:
        """The source that a table is; None where that was told to be wrong."""
        kind, path = table.text("db").lower(), table.name
        if full in self.read.given:
            declared: dict[str, Any] = dict(self.whole["sources"][full])
            if SourceSpec.model_construct(path=declared["path"], format=None).file_format is None:
                self._add(f"the format of '{declared['path']}' cannot be inferred from its suffix", table,
                          f"write it into the query: csv.`{declared['path']}`")  # fmt: skip
                return None
            return declared
        if table.args.get("catalog") is None and kind in FORMAT_NAMES:
            # Spark takes the format's own defaults, whatever the suffix implies.
            return {"path": path, "format": kind, **({"options": {"sep": ","}} if _is_tsv(kind, path) else {})}
        if kind in _OTHER_FORMATS and table.this.args.get("quoted"):
            self._add(f"files of the format '{kind}' are not read; formats: {join_names(FORMAT_NAMES)}", table)
            return None
        parts = [part.name.lower() for part in table.parts]
        if len(parts) > 2 or not all(_is_name(part) for part in parts) or parts[0] == self.read.name:
            unknown = self._unknown_table(table)
            self.found.add(unknown.message, unknown.position, unknown.hint)
            return None
        return {"output": ".".join(parts)}

    def _unknown_table(self, table: exp.Table) -> Problem:
        written = ".".join(part.name for part in table.parts)
        given = join_names(self.read.given)
        hint = did_you_mean(written, self.read.given)
        return Problem(
            f"unknown table '{written}'; sources given: {given}",
            self.text.position(_span(table)[0]),
            hint or f"say where it is with --source {written}=PATH, or write parquet.`PATH`",
        )

    def _add(self, message: str, table: exp.Table, hint: str | None = None) -> None:
        self.found.add(message, self.text.position(_span(table)[0]), hint)

    def _source_name(self, table: exp.Table, full: str, *, files: bool) -> str:
        """Its own name where that is a name, and free: the query's, and those of CTEs, mean something else."""
        name = table.name
        if table.args.get("db") is None:
            if _is_name(full) and full != self.read.name:
                return full
        elif files:
            name = _file_name(self._as_written(table))
        wanted = legal_name(name, "source")
        if wanted == self.read.name:
            wanted = f"{wanted}_source"
        return unused_name(wanted, {*self.taken, *self.sources})

    def _as_written(self, table: exp.Table) -> str:
        """The path with references to variables in it: the name must not depend on their values."""
        begin, end = table.this.meta["start"], table.this.meta["end"] + 1
        return self.text.written(self.read.text.text, begin, end).strip("`")

    def _place(self, table: exp.Table) -> Place:
        position = self.text.position(_span(table)[0])
        return position.line - 1, position.column - 1


def _first_word(text: SqlText) -> Place:
    try:
        tokens = tokenize_query(text.text)
    except SqlSyntaxError:
        return 0, 0
    position = text.position(tokens[0].start if tokens else 0)
    return position.line - 1, position.column - 1


def _span(table: exp.Table) -> tuple[int, int]:
    """Begin and end of the name, without its alias."""
    parts = table.parts
    return parts[0].meta["start"], parts[-1].meta["end"] + 1


def _full_name(table: exp.Table) -> str:
    """Paths keep their case."""
    *before, last = table.parts
    is_path = len(before) == 1 and before[0].name.lower() in FORMAT_NAMES
    return ".".join([*(part.name.lower() for part in before), last.name if is_path else last.name.lower()])


def _file_name(path: str) -> str:
    """What files are called: the last part of their path that says something."""
    for part in reversed(PurePosixPath(path).parts):
        stem = part
        while PurePosixPath(stem).suffix.lower() in (*FORMAT_BY_SUFFIX, ".gz", ".zst", ".snappy"):
            stem = PurePosixPath(stem).stem
        if legal_name(stem, ""):
            return stem
    return ""


def _is_name(text: str) -> bool:
    return re.match(NAME_PATTERN, text) is not None


def _is_tsv(kind: str, path: str) -> bool:
    return kind == "csv" and bool(SourceSpec.model_construct(path=path, format="csv", options={}).reader_options)


def _quoted(name: str) -> str:
    """A name as it can stand in a query."""
    is_plain = name.isidentifier() and name.isascii() and name.upper() not in words_of_sql()
    return name if is_plain else f"`{name.replace('`', '``')}`"
