"""An access document as text for a terminal: which datasets hold data about the person, without the data itself."""

from __future__ import annotations

from typing import Any

from lineage_service.render.safe_text import escape_line


def access_text(document: dict[str, Any]) -> str:
    """Returns a summary. The values are in the JSON document and on the HTML page."""
    person = ", ".join(f"{each['kind']}={each['value']}" for each in document["subject"])
    lines = [f"{person}: {_summary(document)}"]
    for each in document["data"]:
        others = each["count"] - each["alone"]
        shared = f", {others:,} of them also concern other people, or may" if others else ""
        lines.append(f"  {each['dataset']}@{each['run'][:8]}  {_rows(each['count'])}{shared}")
        if len(each["way"]) > 1:
            lines.append(f"    by way of {' → '.join(each['way'])}")
        if each["unreadable"]:
            lines.append(f"    values can no longer be read: {each['unreadable']}")
    for each in document["influenced"]:
        lines.append(f"  {each['dataset']}@{each['run'][:8]}  only influenced, by the {each['by']}")
    for each in document["processing"]:
        purpose = each["purpose"] or "no purpose is stated"
        lines.append(f"  workflow {each['workflow']}: {purpose}")
        if each["not_said"]:
            lines.append(f"    not stated in its file: {', '.join(each['not_said'])}")
    for each in document["not_looked_into"]:
        lines.append(f"  could not be searched: {each['dataset']}@{each['run'][:8]}: {each['reason']}")
    return "".join(f"{escape_line(line)}\n" for line in lines)


def _summary(document: dict[str, Any]) -> str:
    if not document["held"]:
        return "no data is held" if document["complete"] else "no data was found, but not everything could be searched"
    summary = document["summary"]
    datasets = "1 dataset" if summary["datasets"] == 1 else f"{summary['datasets']:,} datasets"
    return f"{_rows(summary['rows'])} in {datasets}"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
