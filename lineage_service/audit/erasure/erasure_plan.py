"""Plans an erasure or rectification by performing it without committing it.

The plan leaves the home, so it contains names, counts and keyed hashes only. It is bound to the versions it was made
from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.audit.erasure.source_rewrites import find_file_cuts, refuse_unwritable, spread_to_all_readers
from lineage_service.audit.erasure.superseding_run import DatasetChange, RequestedChanges, SupersedingRun
from lineage_service.audit.erasure.supersession import Supersession
from lineage_service.audit.log.sealed_documents import ONLY_READ
from lineage_service.audit.person_search import PersonRows, SubjectRows
from lineage_service.errors import LineageError, NotFound
from lineage_service.progress import Stages
from lineage_service.query.open_home import OpenHome
from lineage_service.query.questions import Questions
from lineage_service.query.staleness_notes import cut_note
from lineage_service.settings import IndexOptions
from lineage_service.store.formats.source_format import FileCut
from lineage_service.store.layout import new_run_id
from lineage_service.store.pending_publications import target_of
from lineage_service.store.version_patcher import Ids
from lineage_service.store.versions import file_state, true_path

if TYPE_CHECKING:
    import pyarrow as pa

ERASURE, RECTIFICATION = "erasure", "rectification"


@dataclass(frozen=True)
class PlanOptions:
    """Options of a plan: rewrite source files too; remove runs that cannot be traced as a whole."""

    rewrite_sources: bool = False
    drop_runs: bool = False

    def to_json(self) -> dict[str, bool]:
        return {"rewrite_sources": self.rewrite_sources, "drop_runs": self.drop_runs}


@dataclass
class RequestScope:
    """The scope of a request.

    rows: the persons' rows
    retained: rows that a legal hold keeps, with the ground
    wanted: the changes of versions
    going: source rows that are removed or corrected
    in_outputs: the persons' rows in other workflows' outputs, which derive from those
    """

    rows: SubjectRows
    retained: list[tuple[PersonRows, Mapping[str, Any]]] = field(default_factory=list)
    wanted: RequestedChanges = field(default_factory=RequestedChanges)
    going: list[PersonRows] = field(default_factory=list)
    in_outputs: list[PersonRows] = field(default_factory=list)
    cut: dict[str, FileCut] = field(default_factory=dict)  # source files to rewrite

    def check(self, ask: Questions, supersession: Supersession) -> None:
        """Raises LineageError if rows of the person stay in an output because its sources do not declare them as
        theirs. Removed only there, they would reappear with the next run.
        """
        if self.retained or self.wanted.corrected:
            return
        for found in self.in_outputs:
            change = supersession.versions.get(found.dataset.version_id)
            removed = {each.old.id for each in supersession.made if each.commit is None}
            makers = {each.run_id for each in ask.reader.makers_of([found.dataset.version_id])}
            left = (
                len(found.rids)
                if change is None
                else len(np.setdiff1d(found.rids, np.setdiff1d(change.removed_rids, change.added_rids)))
            )
            if left and not makers <= removed:
                output = json.loads(found.dataset.declared)["output"]
                raise LineageError(
                    f"'{found.dataset.full_name}' has {left:,} rows of the person that stay in '{output}': the sources "
                    "of that workflow do not declare them as rows of the person",
                    hint="declare the subject at the sources that the rows come from, and run that workflow again",
                )


def scope_of(
    ask: Questions, rows: SubjectRows, options: PlanOptions, corrected: ValueCorrection | None = None
) -> RequestScope:
    """The scope of a request: the persons' rows are removed unless a hold keeps them, or get corrected values.

    Rows of another workflow's output that a source declares as the person's derive from that workflow's own sources.
    """
    if rows.unsearched:
        raise LineageError(
            [
                _unsearched_source_problem(each.dataset, each.reason)
                for each in {(e.dataset.version_id, e.reason): e for e in rows.unsearched}.values()
            ]
        )
    scope = RequestScope(rows)
    removed: dict[str, Ids] = {}
    tables: dict[str, pa.Table] = {}
    held: set[tuple[str, str]] = set()
    for found in rows.found:
        declared, version = json.loads(found.dataset.declared), found.dataset.version_id
        hold = active_hold(declared.get("legal_hold"))
        if hold is None and found.declared_by is not None:  # a hold applies to rows, whichever source reads them
            hold = active_hold(json.loads(found.declared_by.declared).get("legal_hold"))
        if declared.get("output") is not None:
            scope.in_outputs.append(found)
        elif hold is not None and corrected is None:
            scope.retained.append((found, hold))
            held.add((found.dataset.run_id, found.dataset.name))
        elif corrected is None:
            scope.going.append(found)
            removed[version] = np.union1d(removed.get(version, np.array([], np.int64)), found.rids)
        elif (table := corrected.rows(ask, found)) is not None:
            scope.going.append(found)
            tables[version] = table
    if options.rewrite_sources:
        kept = find_file_cuts(ask, {found.dataset.version_id: found.rids for found, _ in scope.retained})
        scope.cut = {path: cut for path, cut in find_file_cuts(ask, removed).items() if path not in kept}
        refuse_unwritable(scope.cut)
        removed = spread_to_all_readers(ask, removed, scope.cut)
    scope.wanted = RequestedChanges(removed, tables, frozenset(held), options.drop_runs)
    return scope


def _column_names(ask: Questions, person_rows: PersonRows) -> dict[str, str]:
    """A source's columns by the (lower-case) names under which new values are given.

    These are its own names, or those of the source that declares its rows as a person's, which may rename columns of
    the file.
    """
    columns = ask.scan(person_rows.dataset).version.columns
    if person_rows.declared_by is None:
        return {each.name.lower(): each.name for each in columns}
    own = {each.original.lower(): each.name for each in columns}
    there = ask.scan(person_rows.declared_by).version.columns
    return {each.name.lower(): own[each.original.lower()] for each in there if each.original.lower() in own}


@dataclass(frozen=True)
class ValueCorrection:
    """New values of columns, for every row of a person in sources that have these columns."""

    values: Mapping[str, str | None]

    def rows(self, ask: Questions, person_rows: PersonRows) -> pa.Table | None:
        import pyarrow as pa

        names = _column_names(ask, person_rows)
        own = {names[name.lower()]: value for name, value in self.values.items() if name.lower() in names}
        if not own:
            return None
        columns: dict[str, pa.Array] = {"_rid": pa.array(person_rows.rids, pa.int64())}
        columns |= {name: pa.array([value] * len(person_rows.rids), pa.string()) for name, value in own.items()}
        return pa.table(columns)


def active_hold(hold: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A legal hold that is in force today."""
    if hold is None:
        return None
    until = hold.get("until")
    return hold if until is None or str(until) >= datetime.now(UTC).date().isoformat() else None


def _unsearched_source_problem(dataset: DatasetRecord, reason: str) -> Any:
    from lineage_service.errors import Problem

    return Problem(
        f"'{dataset.full_name}@{dataset.run_id}' cannot be searched for the person: {reason}",
        hint="remove that run (`gc --retention`), or bring the files back",
    )


# --- the plan as a document -----------------------------------------------------------------------------------


def build_erasure_plan(
    home: OpenHome, kind: str, scope: RequestScope, options: PlanOptions, spark: IndexOptions, stages: Stages
) -> dict[str, Any]:
    """The plan, determined by making all new runs in folders that are then removed."""
    ask = home.questions
    with ExitStack() as folders:
        superseding = Supersession(home.layout, ask, spark, stages, scope.wanted, folders)
        try:
            made = superseding.supersede_runs()
            scope.check(ask, superseding)
            document = _document(ask, kind, scope, options, made)
        finally:
            for folder in {each.folder for each in superseding.made if each.folder is not None}:
                folder.remove()
    return document


def _document(
    ask: Questions, kind: str, scope: RequestScope, options: PlanOptions, superseding_runs: Sequence[SupersedingRun]
) -> dict[str, Any]:
    runs = [_run(each) for each in superseding_runs]
    if not superseding_runs:
        raise NotFound("no run is affected: every row of the person is under a legal hold")
    return {
        "plan_id": new_run_id(),
        "kind": kind,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "not_covered": not_covered(ask, scope),
        "persons": sum(len(hashes) for hashes in scope.rows.hashes.values()),
        "subjects": {each: sorted(hashes) for each, hashes in sorted(scope.rows.hashes.items())},
        "request": None,
        "options": options.to_json(),
        "totals": _totals(runs),
        "runs": runs,
        "retained": [
            {
                "dataset": found.dataset.full_name,
                "run": found.dataset.run_id,
                "rows": len(found.rids),
                "ground": hold.get("ground"),
                "until": hold.get("until"),
            }
            for found, hold in scope.retained
        ],
        "published": [
            {"dataset": record.full_name, "run": record.run_id, "path": str(target), "action": action}
            for action, record, target in _affected_copies(ask, superseding_runs)
        ],
        "sources": [{"path": path, "delete": len(cut.places)} for path, cut in sorted(scope.cut.items())],
        "recipients": recipients(ask, [each.old for each in superseding_runs]),
        "bound_to": run_fingerprints(ask, [each.old for each in superseding_runs]),
    }


def _run(superseding_run: SupersedingRun) -> dict[str, Any]:
    return {
        "run": superseding_run.old.id,
        "workflow": superseding_run.old.workflow,
        "action": "remove" if superseding_run.commit is None else "supersede",
        "datasets": [_dataset(each) for each in superseding_run.datasets],
        **({"warnings": [str(each) for each in superseding_run.warnings]} if superseding_run.warnings else {}),
    }


def _dataset(change: DatasetChange) -> dict[str, Any]:
    """Rows deleted, recomputed with other values, and added; the affected ids as a hash."""
    ids = hashlib.sha256(
        np.sort(change.removed_rids).tobytes() + b"|" + np.sort(change.added_rids).tobytes()
    ).hexdigest()[:32]
    found = {
        "dataset": change.dataset.full_name,
        "version": change.dataset.version_id,
        "role": change.dataset.role,
        "way": change.way,
        "delete": change.counts["removed"],
        "recompute": change.counts["changed"],
        "insert": change.counts["added"],
        "retain": change.kept,
        "rows_after": change.rows,
        "rows_hash": ids,
    }
    found |= {"reason": change.reason} if change.reason else {}
    return found | ({"all_because": change.all_because} if change.all_because else {})


def _totals(runs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    datasets = [each for run in runs for each in run["datasets"]]
    return {
        "runs": len(runs),
        "datasets": sum(1 for each in datasets if each["delete"] or each["recompute"] or each["insert"]),
        **{what: sum(each[what] for each in datasets) for what in ("delete", "recompute", "insert")},
    }


def _affected_copies(
    ask: Questions, superseding_runs: Sequence[SupersedingRun]
) -> Iterable[tuple[str, DatasetRecord, Path]]:
    from lineage_service.audit.erasure.copy_publishers import copies_of_removed_runs, last_publishers

    publishers = last_publishers(ask, list(reversed(ask.reader.runs())))
    removed = copies_of_removed_runs(ask, [each.old.id for each in superseding_runs if each.commit is None])
    yield from (("remove", record, path) for record, path in removed)
    for each in superseding_runs:
        for change in each.datasets:
            target = target_of(change.dataset)
            touched = len(change.removed_rids) or len(change.added_rids)
            if target is not None and touched and publishers.get(target) == each.old.id:
                yield "replace", change.dataset, target


def not_covered(ask: Questions, scope: RequestScope) -> list[str]:
    """What the plan does not cover. A plan and a certificate state this first."""
    exclusions = []
    read = {path: called for found in scope.rows.found for path, called in _read_in_place(ask, found.dataset).items()}
    files = sorted({called for path, called in read.items() if path not in scope.cut})
    if files:
        shown = ", ".join(f"'{path}'" for path in files[:10]) + (f" and {len(files) - 10} more" if files[10:] else "")
        if scope.wanted.corrected:
            exclusions.append(f"{ONLY_READ}: {shown}; they hold the old values. Correct them there too")
        else:
            exclusions.append(
                f"{ONLY_READ}: {shown}; they still hold the person's rows. Remove them where they "
                "come from, or plan with --rewrite-sources"
            )
    if scope.retained:
        grounds = sorted({str(hold.get("ground")) for _, hold in scope.retained})
        exclusions.append(f"rows that a legal hold retains ({', '.join(grounds)})")
    exclusions += [
        cut_note(source, run_id) for source, run_id in ask.cuts.cut_sources(run.id for run in ask.reader.runs())
    ]
    exclusions.append("backups and disk snapshots, and earlier file versions that a file system or bucket keeps")
    exclusions.append("copies of outputs, reports or answers that others made: notify the recipients (Art. 19)")
    exclusions.append(
        "data that a database server keeps outside its tables: write-ahead logs, replicas, its own backups"
    )
    exclusions.append("unused disk blocks of removed files, unless the disk is encrypted or trimmed")
    return exclusions


def _read_in_place(ask: Questions, dataset: DatasetRecord) -> dict[str, str]:
    """Files outside the home that hold a source's rows, read in place or copied; and their name in the workflow. Paths
    are not shown, because a folder may be named after a value.
    """
    declared = json.loads(dataset.declared)
    version = ask.scan(dataset).version
    if declared.get("output") is not None:
        return {}
    own = [true_path(file) for file in version.files if Path(file.path).is_absolute()]
    called = str(Path(str(declared.get("folder") or "")) / str(declared.get("path")))
    return dict.fromkeys([*own, *(true_path(origin) for origin in version.origins)], called)


def recipients(ask: Questions, runs: Sequence[RunRecord]) -> list[str]:
    """The recipients, as declared by workflows, of the data that is erased or corrected."""
    found: set[str] = set()
    for run in runs:
        privacy = json.loads(ask.reader.content(run.id) or "{}").get("privacy") or {}
        found |= set(privacy.get("recipients") or ())
    return sorted(found)


def run_fingerprints(ask: Questions, runs: Sequence[RunRecord]) -> dict[str, Any]:
    """The versions that a plan was made from, and the state of the files that are read in place."""
    return {run.id: _run_fingerprint(ask, run.id) for run in runs}


def _run_fingerprint(ask: Questions, run_id: str) -> str:
    parts = []
    for record in sorted(ask.reader.datasets(run_id), key=lambda each: each.name):
        parts.append(f"{record.name} {record.version_id}")
        version = ask.scan(record).version
        for file in version.files:
            if Path(file.path).is_absolute():
                parts.append(_state(file.path))
        parts += [_state(origin.path) for origin in version.origins]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _state(path: str) -> str:
    try:
        state = file_state(path)
    except LineageError:
        return f"{path} gone"
    return f"{path} {state.size} {state.mtime_ns} {state.fingerprint}"


def changed_runs(ask: Questions, plan: Mapping[str, Any]) -> list[str]:
    """Runs of a plan that have changed since it was made."""
    wrong = []
    for run_id, digest in plan["bound_to"].items():
        run = ask.reader.run(run_id)
        if run is None or run.status != "committed" or _run_fingerprint(ask, run_id) != digest:
            wrong.append(run_id)
    return wrong


def is_same_work(plan: Mapping[str, Any], superseding_runs: Sequence[SupersedingRun]) -> bool:
    """Whether the new runs match the plan exactly."""

    def comparable_runs(runs: Sequence[Mapping[str, Any]]) -> list[Any]:
        names = ("dataset", "version", "delete", "recompute", "insert", "retain", "rows_after", "rows_hash")
        return [
            (run["run"], run["action"], [[each[name] for name in names] for each in run["datasets"]]) for run in runs
        ]

    return json.dumps(comparable_runs(plan["runs"])) == json.dumps(
        comparable_runs([_run(each) for each in superseding_runs])
    )
