"""What a refresh owes besides rows and lineage: checks hold, or nothing is changed; published copies are new ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from lineage_service.capture.direct import Unlike, kind_of
from lineage_service.errors import Problem, RunError, StoreError
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import Limit, Node, Sort, keeps_order
from lineage_service.refresh.duckdb_sql import Near, Typed, order_of, predicate
from lineage_service.refresh.refreshed import Refresh
from lineage_service.spec.models import BrokenOutput, BrokenStep, CheckSpec
from lineage_service.store.engine import column, literal
from lineage_service.store.publish import Publication, refuse_foreign_copy, refuse_publication, target_path
from lineage_service.store.published_folder import replacing, write_mark
from lineage_service.store.scan import VersionScan, duckdb_type


def failed_checks(refresh: Refresh) -> list[Problem]:
    """Checks that rows fail now, of what the refresh has touched: warnings; RunError where one is an error."""
    found = []
    for target, step, check in _checks(refresh):
        node = refresh.plan.steps.get(step)
        if node is None or not refresh.spark.is_touched(node):
            continue
        failing = _failing(refresh, step, check)
        if failing:
            told = f"check {_told(check)} of '{target}' would fail for {failing:,} {'row' if failing == 1 else 'rows'}"
            hint = "nothing was changed" if check.severity == "error" else None
            found.append(Problem(told, None, hint, "warning" if check.severity == "warn" else "error"))
    if any(problem.severity == "error" for problem in found):
        raise RunError(found)
    return found


def _checks(refresh: Refresh) -> Iterator[tuple[str, str, CheckSpec]]:
    for name, output in refresh.loaded.spec.outputs.items():
        if not isinstance(output, BrokenOutput):
            yield from ((name, output.step or name, check) for check in output.checks)
    for step in refresh.loaded.spec.steps:
        if not isinstance(step, BrokenStep):
            yield from ((step.name, step.name, check) for check in step.checks)


def _told(check: CheckSpec) -> str:
    if check.not_null is not None:
        return f"not_null({', '.join(check.not_null)})"
    return f"unique({', '.join(check.unique)})" if check.unique is not None else f"where({check.where})"


def _failing(refresh: Refresh, step: str, check: CheckSpec) -> int:
    """How many rows fail: by DuckDB where it surely counts the same, else by Spark."""
    state = refresh.states.get(refresh.plan.steps[step].id)
    if state is not None:
        try:
            return refresh.ask.engine.scalar(_failing_query(state.after, check))
        except Unlike:
            pass
    return refresh.spark.failing(step, check)


def _rows(scan: VersionScan) -> Near:
    """The rows of a dataset, as far as its columns are of harmless types."""
    kinds = {each.name: kind for each in scan.version.columns if (kind := kind_of(each.type)) is not None}
    return Near(scan.select(list(kinds)), tuple(Typed(name, kind) for name, kind in kinds.items()), ())


def _order(node: Node, scan: VersionScan) -> str:
    """How a copy of a dataset is ordered; Unlike where its types or its order are not provably alike."""
    if any(duckdb_type(each.type) is None for each in scan.version.columns):
        raise Unlike
    if not keeps_order(node):
        return ""
    if not isinstance(node, Sort | Limit) or not node.by:
        raise Unlike
    return " ORDER BY " + ", ".join(f"{text} {how}" for text, how in order_of(node, _rows(scan)))


def _failing_query(scan: VersionScan, check: CheckSpec) -> str:
    rows = _rows(scan)
    known = {each.name.lower(): each.name for each in rows.columns}

    def of(names: tuple[str, ...]) -> list[str]:
        if not all(name.lower() in known for name in names):
            raise Unlike
        return [f"t.{column(known[name.lower()])}" for name in names]

    if check.not_null is not None:
        missing = " OR ".join(f"{name} IS NULL" for name in of(tuple(check.not_null)))
        return f"SELECT count(*) FROM ({rows.text}) t WHERE {missing}"
    if check.unique is not None:
        names = of(tuple(check.unique))
        there = " AND ".join(f"{name} IS NOT NULL" for name in names)
        groups = f"SELECT count(*) AS n FROM ({rows.text}) t WHERE {there} GROUP BY {', '.join(names)} HAVING n > 1"
        return f"SELECT coalesce(sum(n), 0) FROM ({groups})"
    return f"SELECT count(*) FROM ({rows.text}) t WHERE NOT {predicate(Expression(str(check.where)), rows)}"


def published_outputs(refresh: Refresh, targets: Collection[Path] | None = None) -> dict[str, tuple[str, Path]]:
    """Published outputs that the refresh has touched (for an erasure: at these places): step and target. RunError where
    one cannot be replaced."""
    found = {}
    for record in refresh.records:
        output = refresh.loaded.spec.outputs.get(record.name)
        if record.role != "output" or output is None or isinstance(output, BrokenOutput) or output.path is None:
            continue
        step = record.space.removeprefix("step:")
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
    """New copies of published outputs, complete with their marks, beside their places."""
    for each in publications:
        _write(refresh, each)
        with replacing(each.target):
            write_mark(each.waiting, refresh.folder.run_id, refresh.run.workflow, each.output)


def _write(refresh: Refresh, publication: Publication) -> None:
    node = refresh.plan.steps[publication.step]
    scan = refresh.states[node.id].after
    try:
        order = _order(node, scan)
    except Unlike:
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
