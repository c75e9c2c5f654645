"""Builds the catalog records of a refreshed run: its datasets, lineage, subjects and report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lineage_catalog.records import Commit, DatasetRecord, SubjectRecord, VersionRecord

from lineage_service.capture.handles import source_space, step_space
from lineage_service.errors import Problem
from lineage_service.refresh.refresh_report import RefreshReport
from lineage_service.refresh.run_refresh import Refresh
from lineage_service.refresh.source_changes import SourceChange
from lineage_service.store.home_key import home_key
from lineage_service.store.session_settings import save_settings
from lineage_service.subjects.derived_index import add_refresh_layer, rewrite_index
from lineage_service.subjects.source_indexing import existing_index, scan_of
from lineage_service.subjects.subject_index import SubjectIndex, declared_subjects


def refresh_commit(
    refresh: Refresh, changes: Mapping[str, SourceChange], started: datetime, warnings: Sequence[Problem]
) -> tuple[Commit, RefreshReport]:
    """All catalog records of the new run."""
    if refresh.settings is not None:
        save_settings(refresh.folder, refresh.settings)
    datasets, versions = [], {}
    for record in refresh.records:
        if record.role == "failing":
            continue
        version = refresh.versions[record.space]
        datasets.append(replace(record, run_id=refresh.folder.run_id, version_id=version.id))
        versions[version.id] = version
    shown = {
        record.name: refresh.reports[record.space.name]
        for record in refresh.records
        if record.role in ("output", "step")
    }
    report = RefreshReport(
        refresh.folder.run_id,
        refresh.run.id,
        refresh.run.workflow,
        {name: each.counts for name, each in changes.items()},
        shown,
        refresh.seconds,
        tuple(str(each) for each in warnings),
    )
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    run = replace(
        refresh.run,
        id=refresh.folder.run_id,
        report=json.dumps(_run_report(refresh, report, datasets)),
        started_at=started.isoformat(timespec="milliseconds"),
        committed_at=now,
        lineage="complete",
        lineage_note=None,
        held_since=refresh.run.held_since or refresh.run.committed_at if refresh.in_place else None,
    )
    steps = tuple(
        replace(each, rows=_rows_of(refresh, each.node, each.rows)) for each in refresh.ask.reader.steps(refresh.run.id)
    )
    return Commit(
        run,
        refresh.ask.reader.content(refresh.run.id) or "{}",
        steps,
        tuple(
            VersionRecord(v.id, v.kind, refresh.folder.run_id, v.rows, v.bytes, v.to_json()) for v in versions.values()
        ),
        tuple(datasets),
        tuple(dict.fromkeys(refresh.hops)),
        tuple(
            replace(each, run_id=refresh.folder.run_id)
            for each in refresh.ask.reader.columns(refresh.run.id)
            if each.dataset in {record.name for record in datasets}
        ),
        tuple(_subjects(refresh, changes)),
    ), report


def _subjects(refresh: Refresh, changes: Mapping[str, SourceChange]) -> Iterator[SubjectRecord]:
    """The persons of the rows in the changed sources. If none are recorded for a source, they are read from its
    rows.
    """
    key = home_key(refresh.home)
    index = SubjectIndex(refresh.ask.engine.connection, refresh.folder, key)
    for record in refresh.records:
        change = changes.get(record.name)
        if record.role != "source" or change is None:
            continue
        for each in declared_subjects(record.name, json.loads(record.declared).get("subject")):
            known = existing_index(each, change.before, refresh.ask.reader.subjects, key)
            after = scan_of(refresh.folder, change.after)
            if existing_index(each, change.after, refresh.ask.reader.subjects, key) is None and known is not None:
                carried = (
                    rewrite_index(index, each, known, after, change.added_rids)
                    if refresh.in_place
                    else add_refresh_layer(index, each, known, after, change.removed_rids, change.added_rids)
                )
                yield carried


def _rows_of(refresh: Refresh, node: str, rows: int | None) -> int | None:
    version = refresh.versions.get(step_space(node)) or refresh.versions.get(source_space(node))
    return version.rows if version is not None and rows is not None else rows


def _run_report(refresh: Refresh, report: RefreshReport, datasets: Sequence[DatasetRecord]) -> dict[str, object]:
    """The report in the format of `run --json`, with a section about the refresh."""
    found: dict[str, object] = json.loads(refresh.run.report)
    captured: dict[str, Any] = json.loads(refresh.run.report).get("capture", {})
    by_role = {role: [each for each in datasets if each.role == role] for role in ("output", "source")}
    found |= {
        "run_id": refresh.folder.run_id,
        "outputs": {
            each.name: {"rows": refresh.versions[each.space].rows, "bytes": refresh.versions[each.space].bytes}
            for each in by_role["output"]
        },
        "sources": {each.name: {"rows": refresh.versions[each.space].rows} for each in by_role["source"]},
        "capture": {
            output: {source: {**facts, "pairs": None, "bytes": None} for source, facts in sources.items()}
            for output, sources in captured.items()
        },
        "seconds": {"execute": refresh.seconds.get("refresh", 0.0), "capture": 0.0, "index": 0.0},
        **({"supersedes": refresh.run.id} if refresh.in_place else {"refreshed": report.to_json()}),
    }
    return found
