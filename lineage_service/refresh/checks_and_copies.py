"""Checks and published copies of a refresh: failing `error` checks stop it, and published outputs get new copies."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from lineage_service.equivalence.comparable_types import comparable_type
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.errors import Problem, RunError, StoreError
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import Limit, Node, Sort, keeps_order
from lineage_service.refresh.duckdb_groups import order_terms
from lineage_service.refresh.duckdb_values import DuckDbRelation, TypedColumn, predicate_sql
from lineage_service.refresh.run_refresh import Refresh
from lineage_service.spec.models import BrokenOutput, BrokenStep
from lineage_service.spec.step_models import CheckSpec
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.publications import Publication, refuse_foreign_copy, refuse_publication, target_path
from lineage_service.store.published_folder import translate_replace_errors, write_mark
from lineage_service.store.version_scan import VersionScan


def failed_checks(refresh: Refresh) -> list[Problem]:
    """The failing checks of the recomputed datasets, as warnings. Raises RunError if one of them is an `error`
    check.
    """
    found = []
    for target, step, check in _declared_checks(refresh):
        node = refresh.plan.steps.get(step)
        if node is None or not refresh.spark.is_touched(node):
            continue
        failing = _count_failing_rows(refresh, step, check)
        if failing:
            rows = "row" if failing == 1 else "rows"
            message = f"check {_check_text(check)} of '{target}' would fail for {failing:,} {rows}"
            hint = "nothing was changed" if check.severity == "error" else None
            found.append(Problem(message, None, hint, "warning" if check.severity == "warn" else "error"))
    if any(problem.severity == "error" for problem in found):
        raise RunError(found)
    return found


def _declared_checks(refresh: Refresh) -> Iterator[tuple[str, str, CheckSpec]]:
    for name, output in refresh.loaded.spec.outputs.items():
        if not isinstance(output, BrokenOutput):
            yield from ((name, output.step or name, check) for check in output.checks)
    for step in refresh.loaded.spec.steps:
        if not isinstance(step, BrokenStep):
            yield from ((step.name, step.name, check) for check in step.checks)


def _check_text(check: CheckSpec) -> str:
    if check.not_null is not None:
        return f"not_null({', '.join(check.not_null)})"
    return f"unique({', '.join(check.unique)})" if check.unique is not None else f"where({check.where})"


def _count_failing_rows(refresh: Refresh, step: str, check: CheckSpec) -> int:
    """The number of failing rows, counted by DuckDB if the check means the same there, otherwise by Spark."""
    state = refresh.states.get(refresh.plan.steps[step].id)
    if state is not None:
        try:
            return refresh.ask.engine.scalar(_failing_rows_query(state.after, check))
        except NotTranslatable:
            pass
    return refresh.spark.count_failing_rows(step, check)


def _translatable_rows(scan: VersionScan) -> DuckDbRelation:
    """The rows of a dataset, with only the columns whose types mean the same in DuckDB and Spark."""
    kinds = {each.name: kind for each in scan.version.columns if (kind := comparable_type(each.type)) is not None}
    return DuckDbRelation(scan.select(list(kinds)), tuple(TypedColumn(name, kind) for name, kind in kinds.items()), ())


def _copy_order(node: Node, scan: VersionScan) -> str:
    """The sort order of a copy. Raises NotTranslatable if its types or order may differ between DuckDB and Spark."""
    if any(duckdb_type(each.type) is None for each in scan.version.columns):
        raise NotTranslatable
    if not keeps_order(node):
        return ""
    if not isinstance(node, Sort | Limit) or not node.by:
        raise NotTranslatable
    return " ORDER BY " + ", ".join(f"{text} {how}" for text, how in order_terms(node, _translatable_rows(scan)))


def _failing_rows_query(scan: VersionScan, check: CheckSpec) -> str:
    rows = _translatable_rows(scan)
    known = {each.name.lower(): each.name for each in rows.columns}

    def column_references(names: tuple[str, ...]) -> list[str]:
        if not all(name.lower() in known for name in names):
            raise NotTranslatable
        return [f"t.{column(known[name.lower()])}" for name in names]

    if check.not_null is not None:
        missing = " OR ".join(f"{name} IS NULL" for name in column_references(tuple(check.not_null)))
        return f"SELECT count(*) FROM ({rows.text}) t WHERE {missing}"
    if check.unique is not None:
        names = column_references(tuple(check.unique))
        there = " AND ".join(f"{name} IS NOT NULL" for name in names)
        groups = f"SELECT count(*) AS n FROM ({rows.text}) t WHERE {there} GROUP BY {', '.join(names)} HAVING n > 1"
        return f"SELECT coalesce(sum(n), 0) FROM ({groups})"
    return f"SELECT count(*) FROM ({rows.text}) t WHERE NOT {predicate_sql(Expression(str(check.where)), rows)}"


def published_outputs(refresh: Refresh, targets: Collection[Path] | None = None) -> dict[str, tuple[str, Path]]:
    """The published outputs that the refresh recomputed (for an erasure: at these targets), as step and target. Raises
    RunError if one of them cannot be replaced.
    """
    found = {}
    for record in refresh.records:
        output = refresh.loaded.spec.outputs.get(record.name)
        if record.role != "output" or output is None or isinstance(output, BrokenOutput) or output.path is None:
            continue
        step = record.space.name
        folder = json.loads(record.declared).get("folder")
        state = refresh.states[refresh.plan.steps[step].id]
        if not state.is_changed or folder is None:
            continue
        target = target_path(folder, output.path)
        if targets is None:
            refuse_publication(target, refresh.home)
        elif target in targets:
            refuse_foreign_copy(target)
        else:
            continue
        found[record.name] = (step, target)
    return found


def write_copies(refresh: Refresh, publications: Iterable[Publication]) -> None:
    """Writes new copies of published outputs beside their targets, including their marker files."""
    for each in publications:
        _write_copy(refresh, each)
        with translate_replace_errors(each.target):
            write_mark(each.waiting, refresh.folder.run_id, refresh.run.workflow, each.output)


def _write_copy(refresh: Refresh, publication: Publication) -> None:
    node = refresh.plan.steps[publication.step]
    scan = refresh.states[node.id].after
    try:
        order = _copy_order(node, scan)
    except NotTranslatable:
        refresh.spark.publish(publication)
        return
    try:
        publication.waiting.mkdir(parents=True)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"cannot publish to '{publication.target}': {reason}", hint="nothing was changed") from error
    names = ", ".join(column(each.name) for each in scan.version.columns)
    path = literal(str(publication.waiting / "part-00000.parquet"))
    refresh.ask.engine.rows(f"COPY (SELECT {names} FROM ({scan.select()}) t{order}) TO {path} (FORMAT parquet)")
