"""A foreign project as a workflow: steps in dependency order, sources, outputs, legal names."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lineage_service.importers.foreign_project import (
    Check,
    ForeignProject,
    ForeignQuery,
    ForeignTable,
    Omission,
    Parts,
)
from lineage_service.importers.name_list import NameList
from lineage_service.importers.named_files import is_complete
from lineage_service.importers.source_paths import SourcePaths
from lineage_service.importers.spark_spelling import quoted
from lineage_service.importers.table_aliases import NamedTable, TableAliases, qualifies, table_aliases
from lineage_service.importers.table_mentions import Mention, replace_spans, table_mentions
from lineage_service.spec.given_sources import GivenSources, given_sources
from lineage_service.spec.legal_names import legal_name, unused_name
from lineage_service.spec.sql_parsing import words_of_sql

PLACEHOLDER = "path/to"


@dataclass(frozen=True, slots=True)
class ImportedStep:
    """One `sql` step. `made_from` is what messages call the query that it comes from."""

    name: str
    query: str
    made_from: str
    comments: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedSource:
    """A source; `missing` if nobody has said where its files are, and `path` only shows where to write it."""

    name: str
    path: str
    made_from: str
    flag: str
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Renaming:
    """A name that is another one in the workflow."""

    what: str
    name: str


@dataclass(frozen=True, slots=True)
class ImportedWorkflow:
    """A workflow made from a foreign project, and everything that its user must know about it."""

    tool: str
    name: str
    description: str | None
    owner: str | None
    variables: Mapping[str, str]
    sources: tuple[ImportedSource, ...]
    steps: tuple[ImportedStep, ...]
    outputs: tuple[str, ...]
    renamed: tuple[Renaming, ...]
    omissions: tuple[Omission, ...]
    warnings: tuple[str, ...]

    @property
    def missing(self) -> tuple[ImportedSource, ...]:
        return tuple(source for source in self.sources if source.missing)


def imported_workflow(project: ForeignProject, given: GivenSources, folder: Path) -> ImportedWorkflow:
    """The workflow for a file in `folder`; `given` has the paths of sources by their names in the project.

    Raises WorkflowError for names in `given` that mean no table, or several.
    """
    return _Assembly(project, given, folder).workflow()


class _Assembly:
    def __init__(self, project: ForeignProject, given: GivenSources, folder: Path) -> None:
        self.project, self.folder = project, folder
        self.queries = {query.key: query for query in project.queries}
        self.tables = {table.key: table for table in project.tables}
        self.mentions = {query.key: table_mentions(query.query) for query in project.queries}
        self.reads = {key: self._keys_read(key) for key in self.queries}
        used = {key for keys in self.reads.values() for key in keys if key not in self.queries}
        self.used_tables = [table for key, table in self.tables.items() if key in used]
        built = {name.lower() for query in project.queries for name in (query.name, *query.table_names)}
        self.paths = SourcePaths(tuple(self.tables.values()), given_sources(given, folder), built)
        self.names: dict[str, str] = {}
        self.taken = NameList()
        self.renamed: list[Renaming] = []
        self.extra: dict[str, str] = {}  # key of what is read: name of the step that reads it under another name
        self.warnings = list(project.warnings)

    def workflow(self) -> ImportedWorkflow:
        self._give_names()
        self.taken.avoid(cte for mentions in self.mentions.values() for each in mentions for cte in each.ctes)
        ordered = self._in_order()
        steps = [step for query in ordered for step in self._steps_of(query)]
        for name in self.paths.unused(table.key for table in self.used_tables):
            self.warnings.append(f"--source {name} has no effect: no imported query reads this table")
        project = self.project
        return ImportedWorkflow(
            tool=project.tool,
            name=legal_name(project.name, "workflow"),
            description=project.description,
            owner=project.owner,
            variables=project.variables,
            sources=tuple(map(self._source, self.used_tables)),
            steps=tuple(steps),
            outputs=tuple(self._outputs(ordered)),
            renamed=tuple(self.renamed),
            omissions=project.omissions,
            warnings=tuple(self.warnings),
        )

    def _keys_read(self, key: str) -> tuple[str, ...]:
        """The queries and tables that a query reads; a name that the project does not know becomes a table."""
        found: dict[str, None] = {}
        for mention in self.mentions[key]:
            target = self.project.resolve(key, mention.parts)
            if target is None or (target not in self.queries and target not in self.tables):
                table = self.project.unknown_table(key, mention.parts)
                self.tables.setdefault(table.key, table)
                target = table.key
            found[target] = None
        return tuple(found)

    def _known(self, key: str, parts: Parts) -> str | None:
        target = self.project.resolve(key, parts)
        return target if target is not None and (target in self.queries or target in self.tables) else None

    def _target(self, key: str, mention: Mention) -> str:
        return self._known(key, mention.parts) or self.project.unknown_table(key, mention.parts).key

    def _give_names(self) -> None:
        """Names queries before tables, because users ask for the rows of queries. If a name is taken, `other_name` is
        used. Names that are already legal are given first.
        """
        everything: list[ForeignQuery | ForeignTable] = [*self.project.queries, *self.used_tables]
        everything.sort(key=lambda each: (legal_name(each.name, "") != each.name, isinstance(each, ForeignTable)))
        for each in everything:
            self.names[each.key] = name = self.taken.add(each.name, each.other_name)
            if name != each.name:
                what = each.label if isinstance(each, ForeignQuery) else f"{each.what} '{each.names[0]}'"
                self.renamed.append(Renaming(what, name))

    def _in_order(self) -> list[ForeignQuery]:
        """The queries, each behind those that it reads; in the order of the project where there is a choice. Queries
        that read each other stay as they are: the cycle is reported when the workflow is checked.
        """
        done: dict[str, None] = {}
        for first in self.queries:
            stack, entered = [first], set()
            while stack:
                key = stack[-1]
                waiting = [each for each in self.reads[key] if each in self.queries and each not in done]
                if key in done or key in entered or not waiting:
                    stack.pop()
                    done.setdefault(key)
                    continue
                entered.add(key)
                stack += [each for each in reversed(waiting) if each not in entered]
        return [self.queries[key] for key in done]

    def _steps_of(self, query: ForeignQuery) -> Iterator[ImportedStep]:
        aliases = self._aliases(query)
        spans = [(begin, end, quoted_if_needed(word)) for begin, end, word in aliases.qualifiers]
        for mention in self.mentions[query.key]:
            target = self._target(query.key, mention)
            name = self.names[target]
            if name in mention.ctes:
                yield from self._reading_step(target)
                name = self.extra[target]
            alias = None if mention.has_alias else self._alias(target, name, mention, query, aliases)
            words = quoted_if_needed(name)
            if alias is not None:
                words = f"{words} AS {quoted_if_needed(alias)}"
            if len(mention.parts) > 1 or mention.parts[0].lower() != name or alias is not None:
                spans.append((mention.begin, mention.end, words))
        text = replace_spans(query.query, spans).rstrip("\n") + "\n"
        yield ImportedStep(self.names[query.key], text, query.label, query.comments, query.checks)

    def _aliases(self, query: ForeignQuery) -> TableAliases:
        named = {}
        for mention in self.mentions[query.key]:
            if not mention.has_alias:
                target = self._target(query.key, mention)
                named[mention.begin] = NamedTable(target, self._own_word(target, mention))
        found = table_aliases(query.query, named, lambda parts: self._known(query.key, parts), self.taken)
        for each in dict.fromkeys(found.unclear):
            self.warnings.append(
                f"{query.label}: '{each}' qualifies a column, and the query has another '{each.rpartition('.')[2]}': "
                "give the tables aliases in the project, qualify the columns by them, and import again"
            )
        return found

    def _alias(
        self, target: str, name: str, mention: Mention, query: ForeignQuery, aliases: TableAliases
    ) -> str | None:
        """The alias that a table without one needs: it qualifies its columns as before, and by no new name."""
        word = self._own_word(target, mention)
        if target in aliases.new:
            return aliases.new[target]
        if word.lower() == name or not (qualifies(word, query.query) or qualifies(name, query.query)):
            return None
        return word or unused_name(f"{name}_files", {each.lower() for each in re.findall(r"\w+", query.query)})

    def _own_word(self, target: str, mention: Mention) -> str:
        """What qualifies the columns of a table without alias: nothing, if the table is files."""
        return "" if target in self.tables and self.tables[target].is_files else mention.parts[-1]

    def _reading_step(self, target: str) -> Iterator[ImportedStep]:
        """A step that reads a table under another name, for queries in which a part of the query has its name."""
        if target in self.extra:
            return
        name = self.names[target]
        self.extra[target] = other = self.taken.add(f"{name}_table")
        reason = f"'{name}' under another name, for queries that have a part called {name}"
        yield ImportedStep(other, f"SELECT * FROM {quoted_if_needed(name)}\n", reason, (reason,))

    def _source(self, table: ForeignTable) -> ImportedSource:
        name = self.names[table.key]
        given = self.paths.path_of(table)
        path = given
        if path is None and table.path is not None:
            path = relative_path(table.path, table.folder or Path(), self.folder)
        return ImportedSource(
            name=name,
            path=f"{PLACEHOLDER}/{name}.parquet" if path is None else path,
            made_from=f"{table.what} '{table.names[0]}'",
            flag=f"--source {shlex.quote(table.names[0])}=PATH",
            format=table.format if given is None else None,
            options=self.paths.options_of(given, table) if path is not None else {},
            comments=table.comments,
            missing=path is None,
        )

    def _outputs(self, ordered: Sequence[ForeignQuery]) -> Iterable[str]:
        """What the tool stores, and what nobody reads."""
        read = {key for keys in self.reads.values() for key in keys}
        return [self.names[query.key] for query in ordered if query.stored or query.key not in read]


def relative_path(path: str, base: Path, folder: Path) -> str:
    """A path that is relative to `base`, relative to `folder`; absolute paths stay, and addresses such as s3://b/x."""
    if is_complete(path):
        return path
    whole = os.path.relpath(base.absolute() / path, folder.absolute())
    return Path(whole).as_posix() + ("/" if path.endswith("/") else "")


def quoted_if_needed(name: str) -> str:
    """A name as it is written in Spark SQL: words of SQL are in backticks too."""
    is_plain = name.isascii() and name.isidentifier() and name.upper() not in words_of_sql()
    return name if is_plain else quoted(name)
