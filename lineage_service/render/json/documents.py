"""JSON documents, one function for each kind of answer that is one document: the text that `--json` prints.

Rows are in `render/rows/json_rows.py`. A diff may be long and is streamed by `diff_document.py`. Documents that
people also read are indented.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from lineage_service.render.json_values import dump_json

INDENT = 2


class JsonAnswer(Protocol):
    """An answer that knows its members; their values are Python's own."""

    def to_json(self) -> Mapping[str, Any]:
        """Returns the members of the JSON object."""
        ...


# --- runs ---------------------------------------------------------------------------------------------------------


def run_document(report: JsonAnswer) -> str:
    """The report of a run or a refresh."""
    return f"{dump_json(report.to_json())}\n"


def chain_document(results: Sequence[JsonAnswer]) -> str:
    """The reports of several workflows, as an array."""
    return f"{dump_json([result.to_json() for result in results])}\n"


def index_document(reports: Sequence[JsonAnswer]) -> str:
    """The reports of the runs whose lineage was finished, as an array."""
    return f"{dump_json([report.to_json() for report in reports])}\n"


def explanation_document(explanation: JsonAnswer) -> str:
    """What a run would do, or did."""
    return f"{dump_json(explanation.to_json(), indent=INDENT)}\n"


def import_document(imported: JsonAnswer) -> str:
    """What `import` made, and what it left out."""
    return f"{dump_json(imported.to_json(), indent=INDENT)}\n"


def gc_document(result: Mapping[str, Any]) -> str:
    """What `gc` removed, or would remove."""
    return f"{json.dumps(result)}\n"


def diagnosis_document(diagnosis: JsonAnswer) -> str:
    """The checks of `doctor`."""
    return f"{dump_json(diagnosis.to_json())}\n"


def schema_document(schema: Mapping[str, Any]) -> str:
    """The JSON Schema of the workflow file."""
    return f"{dump_json(schema, indent=INDENT)}\n"


# --- questions ----------------------------------------------------------------------------------------------------


def trace_document(trace: JsonAnswer) -> str:
    """The whole way of one record."""
    return f"{dump_json(trace.to_json(), indent=INDENT)}\n"


def why_not_document(answer: JsonAnswer) -> str:
    """Where rows are lost, and why."""
    return f"{dump_json(answer.to_json(), indent=INDENT)}\n"


# --- audit --------------------------------------------------------------------------------------------------------


def access_document(documents: Sequence[Mapping[str, Any]]) -> str:
    """What is held about a person; an array if several persons were asked about."""
    return f"{dump_json(documents[0] if len(documents) == 1 else list(documents), indent=INDENT)}\n"


def record_document(record: Mapping[str, Any]) -> str:
    """The record of processing."""
    return f"{dump_json(record, indent=INDENT)}\n"


def sealed_document(document: Mapping[str, Any]) -> str:
    """The plan or the certificate of an erasure or a rectification."""
    return f"{dump_json(document)}\n"


def case_document(result: JsonAnswer) -> str:
    """The case after it was approved or refused."""
    return f"{dump_json(result.to_json())}\n"


def verdict_document(verdict: JsonAnswer) -> str:
    """Whether an erasure holds, or whether the log is complete."""
    return f"{dump_json(verdict.to_json())}\n"


def log_head_document(head: Mapping[str, Any]) -> str:
    """Number and hash of the last entry in the log."""
    return f"{dump_json(head)}\n"


def log_retention_document(result: JsonAnswer) -> str:
    """How many entries and cases were removed from the log."""
    return f"{dump_json(result.to_json())}\n"
