"""An access document as text for a terminal: what was found where, without the data itself."""

from __future__ import annotations

from typing import Any

from lineage_cli.tables import safe


def access_text(document: dict[str, Any]) -> str:
    """A summary; values are in the JSON and on the page."""
    person = ", ".join(f"{each['kind']}={each['value']}" for each in document["subject"])
    lines = [f"{person}: {_summary(document)}"]
    for each in document["data"]:
        others = each["count"] - each["alone"]
        shared = f", {others:,} of them include others, or may" if others else ""
        lines.append(f"  {each['dataset']}@{each['run'][:8]}  {_rows(each['count'])}{shared}")
        if len(each["way"]) > 1:
            lines.append(f"    by way of {' → '.join(each['way'])}")
        if each["unreadable"]:
            lines.append(f"    values cannot be read any more: {each['unreadable']}")
    for each in document["influenced"]:
        lines.append(f"  {each['dataset']}@{each['run'][:8]}  influenced only, by {each['by']}")
    for each in document["processing"]:
        said = each["purpose"] or "no purpose is declared"
        lines.append(f"  workflow {each['workflow']}: {said}")
        if each["not_said"]:
            lines.append(f"    its file does not say: {', '.join(each['not_said'])}")
    for each in document["not_looked_into"]:
        lines.append(f"  could not be looked into: {each['dataset']}@{each['run'][:8]}: {each['reason']}")
    return "".join(f"{safe(line)}\n" for line in lines)


def _summary(document: dict[str, Any]) -> str:
    if not document["held"]:
        return "nothing is held" if document["complete"] else "nothing was found, but not everything was looked into"
    summary = document["summary"]
    datasets = "1 dataset" if summary["datasets"] == 1 else f"{summary['datasets']:,} datasets"
    return f"{_rows(summary['rows'])} in {datasets}"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
