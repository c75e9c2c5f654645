"""Runs a saved query again over the superseding runs of its sources. Its rows keep their rids."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord

from lineage_service.audit.erasure.catalog_preview import preview_catalog
from lineage_service.audit.erasure.run_purge import RunPurge
from lineage_service.audit.erasure.superseding_run import DatasetChange, SupersedingRun, VersionChange
from lineage_service.capture.handles import Space
from lineage_service.errors import DamagedFile, LineageError
from lineage_service.index.index_engine import sorted_pairs
from lineage_service.index.pairs import ROW_GROUP, write_pairs
from lineage_service.query.questions import Questions
from lineage_service.refresh.fresh_lineage import copy_hops
from lineage_service.refresh.row_replacement import RowReplacement, match_rows
from lineage_service.spec.redaction_markers import is_computable
from lineage_service.sql.preparations import Preparations
from lineage_service.sql.query_context import QueryContext
from lineage_service.sql.question_parsing import read_question
from lineage_service.sql.question_rewriting import PREFIX, QuestionRewriter
from lineage_service.sql.saved_query import QuerySaver
from lineage_service.store.dataset_names import DatasetName
from lineage_service.store.duckdb_engine import file_literal
from lineage_service.store.layout import RunFolder
from lineage_service.store.version_patcher import Ids, Patcher
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import Version, apply_source_renames
from lineage_service.subjects.source_indexing import scan_of

NOT_AGAIN = "the saved query cannot be run again"


class RunsBefore(Protocol):
    """The superseding runs made so far, and the versions that they changed."""

    ask: Questions
    versions: dict[str, VersionChange]
    made: list[SupersedingRun]
    as_they_are: dict[str, Version]

    def new_folder(self) -> RunFolder: ...


def rerun_saved_query(superseding: RunsBefore, run: RunRecord) -> SupersedingRun:
    """The saved query's run over its new sources. If the query cannot be run again, rows derived from removed rows are
    deleted, and the others stay.
    """
    from lineage_service.audit.erasure.erasure_policies import has_remaining_contributors

    ask, folder = superseding.ask, superseding.new_folder()
    records = ask.graph.datasets(run.id)
    output = next(each for each in records if each.role == "output")
    before = ask.scan(output)
    reason, is_reduced = None, False
    try:
        commit, rows, version = _rerun(superseding, run, folder, before)
    except DamagedFile:
        raise
    except LineageError as error:
        if _is_fatal(error):
            raise
        commit, rows, version = _delete_derived_rows(superseding, run, folder, records, before)
        is_reduced = True
        step, went = output.space.name, _removed_rows(superseding, records)
        # A row with no other contributors is removed anyway.
        reason = NOT_AGAIN if has_remaining_contributors(ask, run.id, step, rows.removed_rids, went) else None
    if len(rows.removed_rids) or len(rows.added_rids):
        superseding.versions[output.version_id] = VersionChange(
            before.version, version, rows.removed_rids, rows.added_rids
        )
    way = "untouched" if not (len(rows.removed_rids) or len(rows.added_rids)) else "deleted" if is_reduced else "all"
    change = DatasetChange(output, way, rows.counts, version.rows, reason, rows.removed_rids, rows.added_rids)
    return SupersedingRun(run, commit, folder, (change,))


def _removed_rows(superseding: RunsBefore, records: list[DatasetRecord]) -> dict[Space, Ids]:
    """The removed rows by source."""
    versions = superseding.versions
    return {
        each.space: versions[each.version_id].removed_rids
        for each in records
        if each.role == "source" and each.version_id in versions
    }


def _is_fatal(error: LineageError) -> bool:
    from lineage_service.errors import StoreError

    return isinstance(error, StoreError)  # a disk error, not a problem of the query


def _rerun(
    superseding: RunsBefore, run: RunRecord, folder: RunFolder, before: VersionScan
) -> tuple[Commit, RowReplacement, Version]:
    ask = superseding.ask
    text = ask.reader.content(run.id) or "{}"
    if not is_computable(text):
        raise LineageError(NOT_AGAIN)
    content = json.loads(text)
    switched = [(each.old.id, each.commit) for each in superseding.made if each.commit is not None]
    reader = preview_catalog(ask.reader, switched, before=run.id)
    then = _QuestionsAtSaveTime(ask.home, reader, ask.engine)
    then.graph.versions |= superseding.as_they_are  # source files are rewritten only after the switch
    try:
        asking = QueryContext(then, Preparations(then))
        question = read_question(content["query"])
        prefix = PREFIX
        while prefix in content["query"].lower():
            prefix += "_"
        rewritten = QuestionRewriter(asking, question, prefix, reveal=True).rewrite(rows=True)
        made = QuerySaver(asking, question, rewritten, run.workflow).write_run(folder)
    finally:
        then.close()
        reader.close()
    fresh = Version.from_json(made.versions[0].id, made.versions[0].body)
    rows = match_rows(ask.engine, before, scan_of(folder, fresh), None, None)
    is_same = not len(rows.removed_rids) and not len(rows.added_rids)
    patched = Patcher(folder).patch_version(before.version, rows.replaced, rows.files, all_gone=True)
    version = replace(patched, columns=fresh.columns, id=before.version.id if is_same else patched.id)
    hops = [_renumber_pairs(superseding, hop, rows.rids, folder) for hop in made.hops]
    return _commit(run, made, folder, version, hops), rows, version


def _renumber_pairs(superseding: RunsBefore, hop: HopRecord, rids: Ids, folder: RunFolder) -> HopRecord:
    """Pairs with the rids of the nearer rows instead of their positions."""
    if hop.form is not HopForm.PAIRS:
        return hop
    engine = superseding.ask.engine
    given = pa.table({"place": np.arange(len(rids), dtype=np.int64), "rid": rids})
    engine.connection.register("rids_given", given)
    table = engine.keep(
        f"SELECT g.rid AS a, p.b FROM read_parquet({file_literal(folder.home.absolute(str(hop.backward)))}) p "
        "JOIN rids_given g ON g.place = p.a"
    )
    engine.connection.unregister("rids_given")
    paths = []
    for way in ("backward", "forward"):
        pairs = engine.connection.sql(sorted_pairs(f"SELECT a, b FROM {table}", way, None, distinct=False))
        name = f"{hop.to_space.name}.again.{way}"
        paths.append(write_pairs(folder.index / name, pairs.to_arrow_reader(ROW_GROUP)))
    engine.drop(table)
    size = sum(path.stat().st_size for path in paths)
    inside = [folder.home.relative(path) for path in paths]
    return replace(hop, bytes=size, backward=inside[0], forward=inside[1])


def _commit(run: RunRecord, made: Commit, folder: RunFolder, version: Version, hops: list[HopRecord]) -> Commit:
    report = {**json.loads(made.run.report), "supersedes": run.id}
    report["outputs"] = {run.workflow: {"rows": version.rows, "bytes": version.bytes}}
    datasets = tuple(replace(each, version_id=version.id) if each.role == "output" else each for each in made.datasets)
    record = replace(
        made.versions[0], id=version.id, rows=version.rows, bytes=version.bytes, body=version.to_json(),
        run_id=folder.run_id,
    )  # fmt: skip
    superseded = replace(
        made.run,
        report=json.dumps(report),
        workflow_version=run.workflow_version,
        held_since=run.held_since or run.committed_at,
    )
    return replace(made, run=superseded, versions=(record,), datasets=datasets, hops=tuple(hops))


def _delete_derived_rows(
    superseding: RunsBefore, run: RunRecord, folder: RunFolder, records: list[DatasetRecord], before: VersionScan
) -> tuple[Commit, RowReplacement, Version]:
    """The saved rows without those derived from removed rows."""
    from lineage_service.audit.erasure.erasure_policies import derived_rows

    ask = superseding.ask
    output = next(each for each in records if each.role == "output")
    changes = {each.space: superseding.versions[each.version_id] for each in records
               if each.role == "source" and each.version_id in superseding.versions}  # fmt: skip
    removed = derived_rows(ask, run.id, output.space.name, {s: c.removed_rids for s, c in changes.items()})
    patcher = Patcher(folder)
    version = patcher.patch_version(before.version, removed, []) if len(removed) else before.version
    versions = {each.space: ask.scan(each).version for each in records}
    versions |= {
        each.space: apply_source_renames(changes[each.space].after, each) for each in records if each.space in changes
    } | {output.space: version}
    hops = copy_hops(
        ask.graph.hops(run.id),
        folder.run_id,
        Space(output.space),
        patcher.write_mask(removed) if len(removed) else None,
    )
    changed = frozenset([*changes, *([output.space] if len(removed) else [])])
    purging = RunPurge(ask.engine, folder, versions, changed)
    hops = purging.purge_hops(hops)
    version = purging.purge_version(output.space)
    none = np.array([], np.int64)
    rows = RowReplacement(removed, [], none, removed, none, {"removed": len(removed), "changed": 0, "added": 0}, none)
    datasets = tuple(
        replace(
            each,
            run_id=folder.run_id,
            version_id=version.id if each is output else versions[each.space].id,
        )
        for each in records
    )
    kept = ask.reader.version(output.version_id)
    assert kept is not None
    record = replace(kept, id=version.id, rows=version.rows, bytes=version.bytes, body=version.to_json())
    report = {**json.loads(run.report), "run_id": folder.run_id, "supersedes": run.id}
    columns = tuple(replace(each, run_id=folder.run_id) for each in ask.reader.columns(run.id))
    new = replace(run, id=folder.run_id, report=json.dumps(report), held_since=run.held_since or run.committed_at)
    content = ask.reader.content(run.id) or "{}"
    return Commit(new, content, (), (record,), datasets, tuple(hops), columns), rows, version


class _QuestionsAtSaveTime(Questions):
    """Resolves names as they were when the query was saved. A superseded run is replaced by its successor."""

    def find(self, dataset: str) -> DatasetRecord:
        asked = DatasetName.parse(dataset)
        if asked.run is None:
            return super().find(dataset)
        runs = self.reader.runs_with_prefix(asked.run)
        run = runs[0] if len(runs) == 1 else next((each for each in runs if each.id == asked.run), None)
        while run is not None and run.superseded_by is not None:
            run = self.reader.run(run.superseded_by)
        name = f"{asked.workflow}.{asked.name}" if asked.workflow else asked.name
        return super().find(dataset if run is None else f"{name}@{run.id}")
