"""Compares two runs of a dataset: rows added, removed and changed, and the source rows behind each. Does not use Spark.

Rows are matched by a key. Values are equal as in GROUP BY: null equals null, NaN equals NaN, -0.0 equals 0.0, and the
order of entries in a map is ignored. Floating-point numbers of the dataset are equal within a relative tolerance; a
note says where the tolerance made a difference. Rows of sources are compared exactly, because no run computed them.
Columns that exist in only one run are noted and do not count as changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.errors import NotFound, QuestionError, join_names
from lineage_service.query.changed_files import refuse_changed
from lineage_service.query.diff import diff_sql as sql
from lineage_service.query.diff.diff_result import Behind, ChangedRows, Counts, Diff, RunSide, SourceIdentity
from lineage_service.query.diff.row_keys import (
    RowKey,
    Versions,
    column_key,
    declared_key,
    given_key,
    grouped_by,
    grouping_key,
    require_unique,
    versions_of,
)
from lineage_service.query.diff.source_pairs import Origins, source_pairs, wanted_keys
from lineage_service.query.diff.source_rows import BehindChanges, rows_by_rid, temporary_tables
from lineage_service.query.diff.tolerance import TOLERANCE, checked_tolerance
from lineage_service.query.masks import refuse_masked
from lineage_service.query.questions import Questions
from lineage_service.store.dataset_names import DatasetName

if TYPE_CHECKING:
    import pyarrow as pa

_ORIGINS = {
    "check": "its check `unique`",
    "group": "what it is grouped by",
    "column": "the leftmost column that is unique and never null",
}


@dataclass(frozen=True)
class DiffOptions:
    """Options of a diff: the key (inferred if None), the keys of sources, the limits, and whether to find source rows.

    `reveal` shows values of masked columns. `tolerance` applies to floating-point numbers. Rows are always matched by
    their unmasked values.
    """

    key: tuple[str, ...] | None = None
    source_key: Mapping[str, Sequence[str]] = field(default_factory=dict)
    limit: int | None = None
    rows: int = 3
    behind: bool = True
    reveal: bool = False
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        checked_tolerance(self.tolerance)
        if self.limit is not None and self.limit < 0:
            raise QuestionError("a limit cannot be negative")
        if self.rows < 0:
            raise QuestionError("the number of source rows to show cannot be negative")
        if self.source_key and not self.behind:
            raise QuestionError("keys of sources need the rows behind the changes: leave them out, or show those rows")


def diff(questions: Questions, before: str, after: str | None, options: DiffOptions) -> Diff:
    """Compares `before` with `after`.

    Without `after`, compares the named run with the latest one; without any run, the previous run with the latest one.
    The rows of the dataset itself must be readable. If the rows of a source are gone, the result says so.
    """
    old, new = _two_runs(questions, before, after)
    runs = _run(questions, old), _run(questions, new)
    if old.role == "source":
        for each in (old, new):
            _require_readable(questions, each, same=old.version_id == new.version_id)
    engine = questions.engine
    versions = versions_of(engine, questions.scan(old), questions.scan(new))
    masks = [questions.masks.over(each, reveal=options.reveal) for each in (old, new)]
    masked = masks[0] | masks[1]
    refuse_masked(options.key or (), masked, new.full_name, "a key would disclose its values")
    key = _key(questions, versions, old, new, runs, options.key)
    values = [each.name for each in versions.values(key.columns)]
    types = [each.type for each in versions.values(key.columns)]
    within = 0
    with temporary_tables(engine) as tables:
        if old.version_id == new.version_id:
            changes = tables.keep(sql.NO_CHANGES)
        else:
            sides = versions.sides(key.columns, values)
            shown_in_order = not any(name.lower() in masked for name in key.columns)
            query = sql.changes_sql(*sides, len(key.columns), types, tolerance=options.tolerance, by_key=shown_in_order)
            changes = tables.keep(query)
            within = engine.scalar(f"SELECT count(*) FROM {changes} WHERE len(differs) = 0")
            if within:
                changes = tables.keep(f"SELECT * FROM {changes} WHERE len(differs) IS DISTINCT FROM 0 ORDER BY n")
        counts = _counts(questions, changes, new)
        total = counts.added + counts.removed + counts.changed
        shown = total if options.limit is None else min(total, options.limit)
        if shown < total:
            changes = tables.keep(f"SELECT * FROM {changes} WHERE n <= {shown} ORDER BY n")
        rows = ChangedRows(
            _lines(questions, changes),
            rows_by_rid(
                questions, old, f"SELECT rid_before AS b FROM {changes} WHERE rid_before IS NOT NULL", options.reveal
            ),
            rows_by_rid(
                questions, new, f"SELECT rid_after AS b FROM {changes} WHERE rid_after IS NOT NULL", options.reveal
            ),
        )
        behind = (
            _find_source_changes(questions, old, new, runs, changes, options) if options.behind else _SourceChanges()
        )
    variables = {run.id: json.loads(run.variables) for run in runs}
    return Diff(
        dataset=new.full_name,
        before=RunSide(runs[0].id, runs[0].committed_at),
        after=RunSide(runs[1].id, runs[1].committed_at),
        key=key.columns,
        key_origin=key.origin,
        counts=counts,
        rows=rows,
        compared=tuple(values),
        remaining=total - shown,
        columns_added=versions.added,
        columns_removed=versions.removed,
        types_changed=versions.retyped,
        variables_changed=_changed_variables(variables[runs[0].id], variables[runs[1].id]),
        workflows_changed=behind.workflows_changed or _workflows_changed([runs]),
        steps_changed=_steps_changed(questions, *runs),
        sources=behind.sources,
        behind=behind.changes,
        traced=behind.traced,
        tolerance=float(options.tolerance),
        within_tolerance=within,
        masked=masked,
        notes=(*_notes(versions, key, runs), *_within_note(within, options.tolerance), *behind.notes),
    )


# --- the two runs ---------------------------------------------------------------------------------------------


def _two_runs(questions: Questions, before: str, after: str | None) -> tuple[DatasetRecord, DatasetRecord]:
    asked = DatasetName.parse(before)
    first = questions.find(before)
    if after is not None:
        second = questions.find(after)
        if first.full_name != second.full_name:
            raise QuestionError(
                f"a diff compares two runs of one dataset, and '{first.full_name}' is not '{second.full_name}'",
                hint=f"give the run to compare with: {first.full_name}@RUN",
            )
        return first, second
    if asked.run is not None:
        return first, questions.find(first.full_name)
    for run in _earlier_runs(questions, first):
        found = [each for each in questions.graph.datasets(run.id) if each.name == first.name]
        if found:
            return found[0], first
    raise QuestionError(
        f"'{first.full_name}' has only one committed run, '{first.run_id}', in the home '{questions.home.path}': "
        "there is nothing to compare it with",
        hint="run the workflow again",
    )


def _earlier_runs(questions: Questions, dataset: DatasetRecord) -> list[RunRecord]:
    runs = questions.reader.runs(dataset.workflow)
    position = next((index for index, run in enumerate(runs) if run.id == dataset.run_id), len(runs))
    return runs[position + 1 :]


def _run(questions: Questions, dataset: DatasetRecord) -> RunRecord:
    run = questions.reader.run(dataset.run_id)
    if run is None:
        raise NotFound(f"run '{dataset.run_id}' is not in the catalog of '{questions.home.path}'")
    return run


def _require_readable(questions: Questions, dataset: DatasetRecord, *, same: bool) -> None:
    if not same:  # one version compared with itself has no changes, so its files need not be readable
        scan = questions.scan(dataset)
        refuse_changed(dataset, scan, range(len(scan.paths)))


# --- rows -----------------------------------------------------------------------------------------------------


def _key(
    questions: Questions,
    versions: Versions,
    old: DatasetRecord,
    new: DatasetRecord,
    runs: tuple[RunRecord, RunRecord],
    given: Sequence[str] | None,
) -> RowKey:
    engine, same = questions.engine, old.version_id == new.version_id
    if given:
        key = given_key(versions, given, new.full_name)
        if not same:
            require_unique(engine, versions, key, new.full_name, "--key COLUMN,COLUMN")
        return key
    if same:
        return RowKey((), "same version")
    found = declared_key(engine, versions, new.declared)
    if found is None and new.role != "source":
        groups = [grouped_by(questions.reader.content(run.id), new.name) for run in runs]
        if groups[0] is not None and groups[0] == groups[1]:
            found = grouping_key(engine, versions, groups[0])
    found = found or column_key(engine, versions)
    if found is None:
        raise QuestionError(
            f"no single column identifies the rows of '{new.full_name}' in both runs; "
            f"columns: {join_names(versions.names)}",
            hint="name columns that do so together: --key COLUMN,COLUMN",
        )
    return found


def _counts(questions: Questions, changes: str, new: DatasetRecord) -> Counts:
    count = questions.engine.scalar
    added = count(f"SELECT count(*) FROM {changes} WHERE rid_before IS NULL")
    removed = count(f"SELECT count(*) FROM {changes} WHERE rid_after IS NULL")
    changed = count(f"SELECT count(*) FROM {changes}") - added - removed
    return Counts(added, removed, changed, questions.scan(new).version.rows - added - changed)


def _lines(questions: Questions, changes: str) -> pa.Table:
    kind = "CASE WHEN rid_before IS NULL THEN 'added' WHEN rid_after IS NULL THEN 'removed' ELSE 'changed' END"
    query = f"SELECT {kind} AS change, rid_before, rid_after, differs FROM {changes} ORDER BY n"
    return questions.engine.stream(query).read_all()


# --- source rows behind the changes ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _SourceChanges:
    sources: tuple[SourceIdentity, ...] = ()
    changes: Mapping[int, tuple[Behind, ...]] = field(default_factory=dict)
    workflows_changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    traced: bool = False


def _find_source_changes(
    questions: Questions,
    old: DatasetRecord,
    new: DatasetRecord,
    runs: tuple[RunRecord, RunRecord],
    changes: str,
    options: DiffOptions,
) -> _SourceChanges:
    off = [run.id for run in dict.fromkeys(runs) if run.capture == "off"] if new.role != "source" else []
    if off:
        notes = [f"run '{run}' was made with capture off: the rows behind its rows are unknown" for run in off]
        return _SourceChanges(notes=tuple(notes))
    before, after = Origins.of(questions, old), Origins.of(questions, new)
    unkept = {each.full_name for side in (before, after) for each in side.partly_known}
    pairs = sorted(
        (pair for pair in source_pairs(before, after) if not unkept & pair.names),
        key=lambda pair: not (before.contributes(pair.before) or after.contributes(pair.after)),
    )
    keys = wanted_keys(options.source_key, pairs)
    asking = BehindChanges(
        questions, before, after, changes, options.rows, reveal=options.reveal, tolerance=options.tolerance
    )
    sources, found = [], dict[int, list[Behind]]()
    numbers = questions.engine.ids(f"SELECT n FROM {changes} ORDER BY n")
    for pair in pairs if numbers else ():
        identity, behind = asking.of_source(pair, keys.get(pair.name))
        sources.append(identity)
        moved = identity.absence is None or identity.absence.any
        for n in numbers:
            if n in behind:
                found.setdefault(n, []).append(behind[n])
            if identity.by_absence and (moved or n not in behind):
                found.setdefault(n, []).append(Behind(identity, identity.absence, absent=True))
    upstream = [(each.before, each.after) for each in pairs if each.before is not None and each.after is not None]
    involved = [runs, *((_run(questions, early), _run(questions, late)) for early, late in upstream)]
    return _SourceChanges(
        tuple(sources),
        {n: tuple(each) for n, each in found.items()},
        _workflows_changed(involved),
        notes=tuple(dict.fromkeys((*before.notes, *after.notes))),
        traced=bool(pairs),
    )


def _workflows_changed(pairs: Sequence[tuple[RunRecord, RunRecord]]) -> tuple[str, ...]:
    changed = (late.workflow for early, late in pairs if early.workflow_version != late.workflow_version)
    return tuple(dict.fromkeys(changed))


def _steps_changed(questions: Questions, before: RunRecord, after: RunRecord) -> tuple[str, ...]:
    """Steps of the dataset's workflow that were added, removed or redefined."""
    if before.workflow_version == after.workflow_version:
        return ()
    old, new = (_steps(questions.reader.content(run.id)) for run in (before, after))
    return tuple(name for name in dict.fromkeys([*new, *old]) if old.get(name) != new.get(name))


def _steps(content: str | None) -> dict[str, Any]:
    """Steps by name, without their checks. Checks never change the data."""
    steps = json.loads(content or "{}").get("steps") or ()
    return {step["name"]: {key: value for key, value in step.items() if key != "checks"} for step in steps}


def _changed_variables(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    names = dict.fromkeys([*new, *old])
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _within_note(rows: int, tolerance: float) -> list[str]:
    if not rows:
        return []
    differ, count, them = ("row differs", "counts", "it") if rows == 1 else ("rows differ", "count", "them")
    bound = f"{tolerance:g}".replace("e-0", "e-")
    return [
        f"{rows:,} {differ} only in floating-point numbers within {bound} and {count} as equal; "
        f"--tolerance 0 shows {them}"
    ]


def _notes(versions: Versions, key: RowKey, runs: tuple[RunRecord, RunRecord]) -> list[str]:
    notes = []
    if runs[0].id == runs[1].id:
        notes.append(f"both are run '{runs[0].id}'")
    if key.origin in _ORIGINS:
        by = ", ".join(key.columns) or "nothing: there is one row"
        notes.append(f"rows are matched by {by} ({_ORIGINS[key.origin]}); --key names others")
    for columns, which in ((versions.added, "after"), (versions.removed, "before")):
        if columns:
            notes.append(
                f"only in the run {which}: {'column' if len(columns) == 1 else 'columns'} {join_names(columns)}"
            )
    for name, (early, late) in versions.retyped.items():
        notes.append(f"column {name} was {early} and is {late}")
    return notes
