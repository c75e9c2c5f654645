"""Reasons for which a run cannot be refreshed."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import HopRecord, RunRecord

from lineage_service.errors import LineageError
from lineage_service.query.lineage_graph import is_pruned
from lineage_service.spec.redaction_markers import is_computable


def refuse_redacted(run: RunRecord, content: str | None) -> None:
    """Raises LineageError if the run's workflow text was redacted."""
    if not is_computable(content or "{}"):
        raise LineageError(
            f"a value in the text of run '{run.id}' was erased: its steps can no longer be computed as they were",
            hint="run the workflow again",
        )


def refuse_unanswerable(run: RunRecord, hops: Sequence[HopRecord]) -> None:
    """Raises LineageError if the run's lineage is incomplete, because affected rows could not be found."""
    if run.capture == "query":
        raise LineageError(f"run '{run.id}' is of the saved query '{run.workflow}'", hint="save the query again")
    if run.capture == "off":
        raise LineageError(
            f"run '{run.id}' was made with capture off: it has no lineage to refresh it by",
            hint="run the workflow again with --capture auto",
        )
    pruned = next((hop for hop in hops if is_pruned(hop, "backward") or is_pruned(hop, "forward")), None)
    if pruned is not None:
        ends = [space.name for space in (pruned.from_space, pruned.to_space)]
        raise LineageError(
            f"the lineage of run '{run.id}' between '{ends[0]}' and '{ends[1]}' was pruned",
            hint=f"declare it and run again: {{name: …, backward: {ends[0]}, to: {ends[1]}}} and "
            f"{{name: …, forward: {ends[1]}, to: {ends[0]}}}, or leave `workload` empty",
        )
    lazy = next((hop for hop in hops if hop.form is HopForm.LAZY), None)
    if lazy is not None:
        raise LineageError(
            f"the lineage of run '{run.id}' is captured on demand only: it cannot be carried on by a refresh",
            hint="run the workflow again with --capture auto",
        )
