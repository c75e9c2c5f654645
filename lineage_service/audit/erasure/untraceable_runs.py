"""Finds runs whose lineage does not determine what was derived from a row, or whose steps can no longer be computed.
They cannot be erased row by row.
"""

from __future__ import annotations

from collections.abc import Mapping

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import RunRecord

from lineage_service.errors import DamagedFile, LineageError, Problem, RunError
from lineage_service.query.lineage_graph import is_pruned
from lineage_service.query.questions import Questions
from lineage_service.runs.workflow_content import refuse_changed_environment
from lineage_service.store.versions import has_changed


def untraceable_reason(ask: Questions, run: RunRecord) -> str | None:
    """The reason why a run cannot be followed to all of its rows, or not be computed again; None if it can."""
    if run.capture == "off":
        return "it was made with capture off"
    if run.lineage == "incomplete":
        return f"its lineage is incomplete: {run.lineage_note or 'it could not be captured'}"
    try:
        hops = ask.graph.hops(run.id)  # finishes pending lineage
    except DamagedFile:
        raise
    except LineageError as error:
        return error.problems[0].message
    if any(hop.form is HopForm.LAZY for hop in hops):
        return "its lineage is captured on demand only"
    pruned = next((hop for hop in hops if is_pruned(hop, "forward") or is_pruned(hop, "backward")), None)
    if pruned is not None:
        ends = [space.name for space in (pruned.from_space, pruned.to_space)]
        return f"its lineage between '{ends[0]}' and '{ends[1]}' was pruned"
    try:
        refuse_changed_environment(ask.home, ask.reader.content(run.id), run.id)
    except RunError as error:  # the value may be lost for good
        return f"{error.problems[0].message} ({error.problems[0].hint})"
    return None


def refuse_untraceable_runs(runs: Mapping[str, RunRecord], reasons: Mapping[str, str]) -> None:
    """Raises LineageError for runs that cannot be traced, each with its reason."""
    raise LineageError(
        [
            Problem(
                f"run '{run_id}' of '{runs[run_id].workflow}' cannot be traced: {reason}",
                hint="--drop-runs removes such runs as a whole; or run the workflow again with --capture auto and "
                "remove the old run with `gc --retention`",
            )
            for run_id, reason in reasons.items()
        ]
    )


def has_changed_sources(ask: Questions, run: RunRecord) -> bool:
    """Whether rows that the run read are gone or a file has changed, so that the run cannot be recomputed."""
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
