"""Runs whose lineage does not tell what was made of a row: nothing of them can be erased row by row."""

from __future__ import annotations

from collections.abc import Mapping

from lineage_catalog.records import RunRecord

from lineage_service.errors import DamagedFile, LineageError, Problem
from lineage_service.query.lineage_graph import is_pruned
from lineage_service.query.questions import Questions
from lineage_service.store.versions import has_changed


def untraceable_reason(ask: Questions, run: RunRecord) -> str | None:
    """Why the lineage of a run cannot be followed to all of its rows; None where it can."""
    if run.capture == "off":
        return "it was made with capture off"
    if run.lineage == "incomplete":
        return f"its lineage is incomplete: {run.lineage_note or 'it could not be captured'}"
    try:
        hops = ask.graph.hops(run.id)  # finishes lineage that is still pending
    except DamagedFile:
        raise
    except LineageError as error:
        return error.problems[0].message
    if any(hop.form == "lazy" for hop in hops):
        return "its lineage is only captured when asked for"
    pruned = next((hop for hop in hops if is_pruned(hop, "forward") or is_pruned(hop, "backward")), None)
    if pruned is not None:
        ends = [space.partition(":")[2] for space in (pruned.from_space, pruned.to_space)]
        return f"its lineage between '{ends[0]}' and '{ends[1]}' was pruned"
    return None


def refuse_untraceable_runs(runs: Mapping[str, RunRecord], reasons: Mapping[str, str]) -> None:
    """LineageError for runs that cannot be traced, each with the reason."""
    raise LineageError(
        [
            Problem(
                f"run '{run_id}' of '{runs[run_id].workflow}' cannot be traced: {reason}",
                hint="--drop-runs removes such runs as a whole; or run the workflow again with --capture auto and let "
                "the old run go by `gc --retention`",
            )
            for run_id, reason in reasons.items()
        ]
    )


def has_changed_sources(ask: Questions, run: RunRecord) -> bool:
    """Whether rows that the run read are no longer there, or a file is not what it was: it cannot be computed anew."""
    for record in ask.graph.datasets(run.id):
        if record.role != "source":
            continue
        scan = ask.scan(record)
        if scan.version.expired is not None:
            return True
        if scan.version.kind == "source" and any(
            has_changed(file, path) for file, path in zip(scan.version.files, scan.paths, strict=True)
        ):
            return True
    return False
