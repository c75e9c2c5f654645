"""A dbt manifest as a `ForeignProject`: which models become steps, which tables are sources, what is not imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lineage_service.errors import WorkflowError
from lineage_service.importers.dbt.checks import imported_checks
from lineage_service.importers.dbt.manifest import Manifest, Node, mapping, read_manifest, text, texts
from lineage_service.importers.dbt.relations import Relations, tokens_of
from lineage_service.importers.foreign_project import (
    ForeignProject,
    ForeignQuery,
    ForeignTable,
    Omission,
    Parts,
    name_suffixes,
)
from lineage_service.importers.named_files import named_files
from lineage_service.importers.source_paths import CSV_OPTIONS
from lineage_service.importers.spark_spelling import SPARK_ADAPTERS, dialect_of, in_spark_spelling
from lineage_service.importers.streams import reads_stream
from lineage_service.importers.table_mentions import table_mentions
from lineage_service.importers.text_lines import with_line_feeds

_COMPILE_AND_IMPORT = "in the dbt project, run `dbt compile`, and import again"
_MISSING_BRANCH = "; if it was compiled for a full run, the is_incremental() branch is missing from the compiled code"
_EMPTY = re.compile(r"\(\s*select\s+\*\s+from\s+[^()]+\swhere\s+false\s+limit\s+0\s*\)", re.IGNORECASE)
_STORED = ("table", "incremental", "materialized_view", "dynamic_table", "external")
_SECTIONS = (
    ("exposures", "exposure", "it says who uses the data, and a workflow has no place for that"),
    ("metrics", "metric", "metrics are computed at query time"),
    ("semantic_models", "semantic model", "it describes metrics"),
    ("saved_queries", "saved query", "it queries metrics"),
    ("unit_tests", "unit test", "it tests a model with rows given in the test"),
    ("functions", "function", "functions of users are not traced"),
)
_NODES = (
    ("snapshot", "it keeps rows of earlier runs, and a workflow is computed from its sources alone"),
    ("analysis", "dbt does not build it"),
    ("operation", "it is a statement before or after a run"),
    ("sql_operation", "dbt does not build it"),
)


def dbt_project(path: Path) -> ForeignProject:
    """The project of a manifest. WorkflowError if there is nothing to import."""
    manifest = read_manifest(path)
    models = _Models(manifest)
    if not models.imported:
        if any(each.reason == _NOT_COMPILED for each in models.omitted):
            raise WorkflowError(f"no model of '{manifest.path}' is compiled", hint=_COMPILE_AND_IMPORT)
        raise WorkflowError(
            f"'{manifest.path}' has no model that can be imported", hint="only compiled SQL models are imported"
        )
    dialect = models.dialect
    imported = {key for key, _ in models.imported}
    checks, tests = imported_checks(manifest, imported, dialect)
    owner = models.owner()
    named = tuple(_tables(manifest, models))
    built = {key: _names_of_table(key, named, models) for key in imported}
    queries = tuple(
        replace(_query(key, node, owner, models), checks=tuple(checks.get(key, ())), table_names=built.get(key, ()))
        for key, node in models.imported
    )
    tables = [
        replace(table, names=_names_of_table(table.key, named, models))
        for table in named
        if models.relations.same_table(table.key)[0] == table.key
    ]
    version = text(manifest.metadata, "dbt_version")
    return ForeignProject(
        tool=f"the dbt project '{manifest.project}' (dbt {version or 'unknown'}, compiled for {manifest.adapter})",
        name=manifest.project,
        description=None,
        owner=owner,
        queries=queries,
        tables=tuple(tables),
        omissions=(*models.omitted, *_omissions(manifest), *tests, *models.parts_left),
        warnings=tuple(_warnings(manifest, models)),
        resolve=lambda _, parts: models.relations.resolve(parts),
        unknown_table=_unknown_table,
    )


_READS_STREAM = "it reads a stream"
_NOT_COMPILED = "it is not compiled: run `dbt compile`"


class _Models:
    """The models of a manifest: those that become steps, and those that do not."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.dialect = dialect_of(manifest.adapter)
        self.relations = Relations(manifest, self.dialect)
        self.omitted: list[Omission] = []
        self.parts_left: list[Omission] = []
        self.omitted_nodes: dict[str, Node] = {}
        self.imported: list[tuple[str, Node]] = []
        self.code: dict[str, str] = {}
        inline = []
        for key, node in manifest.nodes("model"):
            if text(node, "config", "materialized") == "ephemeral":
                inline.append((key, node))
                continue
            reason = self._reason_to_omit(key, node)
            if reason is None:
                self.imported.append((key, node))
                self.parts_left += _parts_left(node)
            else:
                self.omitted.append(Omission("model", _model_name(node) or key, reason))
                self.omitted_nodes[key] = node
        self._add_missing_inlines(inline)

    def _reason_to_omit(self, key: str, node: Node) -> str | None:
        if text(node, "language") not in ("", "sql"):
            return f"it is written in {text(node, 'language').capitalize()}; only SQL is traced"
        kind = text(node, "config", "materialized")
        if kind == "streaming_table":
            return _READS_STREAM
        code = text(node, "compiled_code")
        if not code.strip():
            return _NOT_COMPILED
        tokens = tokens_of(code, self.dialect)
        if any(token in ("{{", "{%") for token in tokens):
            return "Jinja is left in its compiled code: run `dbt compile`"
        self.code[key] = code = self._in_spark_sql(code)
        if self.manifest.adapter in SPARK_ADAPTERS and reads_stream(code):
            return _READS_STREAM
        if kind == "incremental" and self._reads_itself(key, node, code):
            return "it is compiled for an incremental run, and reads its own rows: run `dbt compile --full-refresh`"
        return None

    def _in_spark_sql(self, code: str) -> str:
        code = self.relations.with_names(with_line_feeds(code.removeprefix("\ufeff")))
        return in_spark_spelling(code, self.dialect).strip("\n")

    def _reads_itself(self, key: str, node: Node, code: str) -> bool:
        last = (self.relations.parts_of(key) or (text(node, "name"),))[-1]
        if last.lower() not in code.lower():
            return False
        return any(self.relations.resolve(each.parts) == key for each in table_mentions(code))

    def _add_missing_inlines(self, inline: list[tuple[str, Node]]) -> None:
        """Ephemeral models are in the compiled code of the models that read them. One that is only named there, under
        its name as a part of a query, becomes a step.
        """
        pending = [key for key, _ in self.imported]
        ephemeral = dict(inline)
        named = {f"__dbt__cte__{text(node, 'name').lower()}": key for key, node in inline}
        added: set[str] = set()
        while pending:
            code = self.code[pending.pop()]
            if "__dbt__cte__" not in code.lower():
                continue
            for mention in table_mentions(code):
                key = named.get(mention.parts[-1].lower())
                if key is None or key in added or len(mention.parts) > 1:
                    continue
                added.add(key)
                node = ephemeral[key]
                reason = self._reason_to_omit(key, node)
                if reason is None:
                    self.imported.append((key, node))
                    pending.append(key)
                else:
                    self.omitted.append(Omission("model", _model_name(node) or key, reason))
                    self.omitted_nodes[key] = node

    def owner(self) -> str | None:
        """The owner of all models; None if there are several, or none."""
        owners = {_owner(node, self.manifest) for _, node in self.imported}
        return owners.pop() if len(owners) == 1 else None


def _query(key: str, node: Node, owner: str | None, models: _Models) -> ForeignQuery:
    name, kind = _model_name(node), text(node, "config", "materialized") or "view"
    file = text(node, "original_file_path") or key
    own = _owner(node, models.manifest)
    comments = [f"{file}: {kind}"]
    comments += text(node, "description").strip().splitlines()
    if own and own != owner:
        comments.append(f"owner: {own}")
    tags = texts(node, "tags")
    if tags:
        comments.append(f"tags: {', '.join(tags)}")
    return ForeignQuery(
        key=key,
        label=f"model '{name}'",
        name=name,
        other_name=f"{text(node, 'package_name')}_{name}",
        kind=kind,
        file=file,
        query=models.code[key],
        comments=tuple(comments),
        stored=kind in _STORED,
    )


def _model_name(node: Node) -> str:
    version = text(node, "version")
    return f"{text(node, 'name')}_v{version}" if version else text(node, "name")


def _owner(node: Node, manifest: Manifest) -> str | None:
    group = text(node, "config", "group") or text(node, "group")
    owners = [text(each, "owner", "name") for _, each in manifest.section("groups") if text(each, "name") == group]
    own = text(node, "config", "meta", "owner") or text(node, "meta", "owner")
    return own or next((each for each in owners if group and each), None)


def _tables(manifest: Manifest, models: _Models) -> Iterator[ForeignTable]:
    for key, node in manifest.nodes("source"):
        name, source = text(node, "name") or key, text(node, "source_name")
        full = f"{source}.{name}" if source else name
        yield ForeignTable(
            key, name, f"{source}_{name}", (full, name, *_written(models, key)), "source",
            comments=tuple(text(node, "description").strip().splitlines()),
        )  # fmt: skip
    for key, node in manifest.nodes("seed"):
        name = text(node, "name") or key
        found = _seed_folder(manifest, node)
        delimiter = text(node, "config", "delimiter")
        options = {**CSV_OPTIONS, **({"sep": delimiter} if delimiter not in ("", ",") else {})}
        yield ForeignTable(
            key, name, f"{text(node, 'package_name')}_{name}", (name, *_written(models, key)), "seed",
            path=None if found is None else text(node, "original_file_path"),
            folder=found, options=options,
            comments=tuple(text(node, "description").strip().splitlines()),
        )  # fmt: skip
    others = [*models.omitted_nodes.items(), *manifest.nodes("snapshot")]
    for key, node in others:
        name = _model_name(node) or key
        kind = text(node, "resource_type") or "model"
        yield ForeignTable(key, name, f"{text(node, 'package_name')}_{name}", (name, *_written(models, key)), kind)


def _names_of_table(key: str, tables: tuple[ForeignTable, ...], models: _Models) -> tuple[str, ...]:
    """The names of all nodes that have the table of a node; its own first."""
    nodes = models.relations.same_table(key)
    named = sorted((table for table in tables if table.key in nodes), key=lambda table: nodes.index(table.key))
    return tuple(dict.fromkeys(name for table in named for name in table.names))


def _written(models: _Models, key: str) -> tuple[str, ...]:
    return name_suffixes(models.relations.parts_of(key) or ())


def _seed_folder(manifest: Manifest, node: Node) -> Path | None:
    """The folder that the path of a seed starts from: beside the manifest's folder, or where the project was."""
    file, package = text(node, "original_file_path"), text(node, "package_name")
    if not file:
        return None
    project = manifest.path.absolute().parent.parent
    places = [project / "dbt_packages" / package] if package not in ("", manifest.project) else []
    places += [project]
    root = text(node, "root_path")
    try:
        return next((each for each in [*places, *([Path(root)] if root else [])] if (each / file).is_file()), None)
    except (OSError, ValueError):
        return None


def _unknown_table(_: str, parts: Parts) -> ForeignTable:
    """A table that a model names without ref() and source(), or files."""
    return named_files(parts, None) or ForeignTable(
        f"table.{'.'.join(parts).lower()}", parts[-1], "_".join(parts[-2:]), name_suffixes(parts), "table"
    )


def _omissions(manifest: Manifest) -> Iterator[Omission]:
    for kind, reason in _NODES:
        for key, node in manifest.nodes(kind):
            yield Omission(kind.replace("_", " "), text(node, "name") or key, reason)
    for section, kind, reason in _SECTIONS:
        for key, node in manifest.section(section):
            yield Omission(kind, text(node, "name") or key, reason)
    for key, node in manifest.section("macros"):
        if text(node, "package_name") == manifest.project:
            yield Omission("macro", text(node, "name") or key, "its result is already in the compiled code")
    for node in manifest.disabled():
        kind = text(node, "resource_type") or "node"
        yield Omission(kind, text(node, "name") or text(node, "unique_id"), "it is disabled in the project")


def _parts_left(node: Node) -> Iterator[Omission]:
    """What else a model declares, beside its query."""
    config, name = mapping(node, "config"), _model_name(node)
    for key in ("pre-hook", "pre_hook", "post-hook", "post_hook"):
        if config.get(key):
            yield Omission(key.replace("_", "-"), f"of model {name}", "statements around a query are not run")
    if text(config, "sql_header"):
        yield Omission("sql_header", f"of model {name}", "statements around a query are not run")
    columns = [each for each in mapping(node, "columns").values() if isinstance(each, dict)]
    if mapping(config, "contract").get("enforced") is True or any(each.get("constraints") for each in columns):
        yield Omission("contract", f"of model {name}", "types and constraints of columns are not enforced")


def _warnings(manifest: Manifest, models: _Models) -> Iterator[str]:
    adapter = manifest.adapter
    if adapter not in SPARK_ADAPTERS:
        unknown = "" if models.dialect else ", and its quotes are read as Spark reads them"
        yield (
            f"the models are compiled for {adapter}, and are read as Spark SQL here{unknown}: functions, types and "
            "divisions that mean something else to Spark give other rows"
        )
    for key, node in models.imported:
        if _EMPTY.search(models.code[key]):
            yield f"model '{_model_name(node)}' is compiled with --empty, and reads no rows: {_COMPILE_AND_IMPORT}"
        if text(node, "config", "incremental_strategy") == "microbatch":
            yield f"model '{_model_name(node)}' may be compiled for one batch of rows: look at its query"
        kind, name = text(node, "config", "materialized"), _model_name(node)
        if kind == "incremental":
            branch = _MISSING_BRANCH if "is_incremental" in text(node, "raw_code") else ""
            yield f"incremental model '{name}' is imported as a full one: every run computes all rows{branch}"
        elif kind not in ("view", *_STORED, "ephemeral", ""):
            yield f"model '{name}' has the unknown materialization '{kind}': only its query is imported"
    for key, node in manifest.nodes("seed"):
        if mapping(node, "config", "column_types"):
            yield f"column_types of seed '{text(node, 'name') or key}' are not imported: write them as its `schema`"
