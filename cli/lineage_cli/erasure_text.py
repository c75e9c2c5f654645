"""Plans and certificates of erasure and rectification as text: first what they do not cover, then every change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a plan."""
    persons = f"{plan['persons']:,} {'person' if plan['persons'] == 1 else 'persons'}"
    yield f"plan {plan['plan_id']}: {plan['kind']} of {persons}"
    yield from _not_covered(plan)
    yield ""
    yield from _runs(plan["runs"], "run")
    for each in plan["retained"]:
        until = f" until {each['until']}" if each["until"] else ""
        yield f"retained: {each['rows']:,} rows of {each['dataset']}@{each['run'][:8]} ({each['ground']}{until})"
    for each in plan["sources"]:
        yield f"source file to be rewritten: {each['path']}, {each['delete']:,} rows to be deleted"
    for each in plan["published"]:
        yield f"published copy to be {each['action']}d: {each['path']}"
    if plan["recipients"]:
        yield f"recipients to be notified: {', '.join(plan['recipients'])}"


def certificate_lines(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a certificate."""
    yield from _not_covered(certificate)
    yield ""
    from lineage_service.audit.log.sealed_documents import reservations

    done = f"{certificate['certificate_of']} done: plan {certificate['plan_id']}, {certificate['finished_at']}"
    yield "; but ".join([done, *(["; ".join(reserved)] if (reserved := reservations(certificate)) else [])])
    yield from _runs(certificate["runs"], "superseded")
    if certificate["recipients"]:
        yield f"recipients to be notified: {', '.join(certificate['recipients'])}"


def _not_covered(document: Mapping[str, Any]) -> Iterator[str]:
    yield "not covered:"
    yield from (f"  {each}" for each in document["not_covered"])


def _runs(runs: list[Mapping[str, Any]], key: str) -> Iterator[str]:
    for run in runs:
        new = f" → {run['by'][:8]}" if run.get("by") else ""
        removed = "  removed entirely" if run.get("action") == "remove" or ("by" in run and not run["by"]) else ""
        yield f"{run['workflow']}  run {run[key][:8]}{new}{removed}"
        for each in run["datasets"]:
            counts = [
                f"{each[name]:,} {word}"
                for name, word in (
                    ("delete", "deleted"),
                    ("recompute", "recomputed"),
                    ("insert", "inserted"),
                    ("retain", "retained"),
                )
                if each[name]
            ]
            reason = f"  ({each['reason']})" if each.get("reason") else ""
            line = f"  {each['dataset']}: {', '.join(counts) or 'nothing changes'}{reason}"
            if each.get("all_because") and (each["recompute"] or each["insert"]):
                line += f"; all rows are recomputed: {each['all_because']}"
            yield line
