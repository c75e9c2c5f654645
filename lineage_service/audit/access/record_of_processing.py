"""The record of processing (GDPR Art. 30): the declarations of workflow files, and where personal data goes according
to the plan.

Built from files without Spark, or from the latest run of each workflow. No data is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lineage_catalog.records import RunRecord

from lineage_service.audit.privacy_declarations import content_of, missing_keys, personal_columns, privacy_of
from lineage_service.query.open_home import OpenHome
from lineage_service.query.questions import Questions
from lineage_service.store.dataset_names import find_dataset
from lineage_service.store.versions import Version

VERSION = 1
NEEDED = ("purpose", "legal_basis", "controller", "contact", "categories", "recipients", "transfers", "security",
          "retention_days")  # fmt: skip
Record = dict[str, Any]
Personal = Mapping[str, Sequence[str]]  # by dataset: the columns with personal data


def record_of_processing(home: OpenHome, files: Sequence[str | Path] = ()) -> Record:
    """The record of these workflow files, otherwise of each workflow's latest run in the catalog."""
    if files:
        workflows = [_workflow_from_file(home, file) for file in files]
    else:
        ask = home.questions
        latest = [run for flow in ask.reader.workflows() if (run := ask.reader.latest_run(flow)) is not None]
        workflows = [_workflow_from_run(ask, run) for run in latest if run.capture != "query"]
    return {
        "document": "record of processing",
        "version": VERSION,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "workflows": sorted(workflows, key=lambda each: str(each["workflow"])),
    }


def _workflow_from_file(home: OpenHome, file: str | Path) -> Record:
    from lineage_service.plan.column_lineage import column_lineage
    from lineage_service.runs.validation import checked_workflow

    def version_of(name: str) -> Version:
        found = find_dataset(home.reader, name, str(home.layout.path))
        record = home.reader.version(found.version_id)
        assert record is not None  # a dataset of the catalog has its version there
        return Version.from_json(record.id, record.body)

    loaded, plan, _ = checked_workflow(file, None, version_of, missing="warning")
    content = loaded.content_to_show()
    personal = {
        name: [each for each in source.schema.names if source.is_pii(each)] for name, source in plan.sources.items()
    }
    for name, step in plan.outputs.items():
        columns = column_lineage(plan.steps[step])
        personal[name] = [each for each, lineage in columns.items() if lineage.pii]
    return _describe_workflow(content, personal, {"file": str(file)})


def _workflow_from_run(ask: Questions, run: RunRecord) -> Record:
    personal = {}
    for dataset in ask.graph.datasets(run.id):
        marked = personal_columns(ask, dataset)
        names = [each.name for each in ask.scan(dataset).version.columns]
        personal[dataset.name] = [name for name in names if name.lower() in marked]
    return _describe_workflow(content_of(ask, run.id), personal, {"run": run.id}) | {"workflow": run.workflow}


def _describe_workflow(content: Record, personal: Personal, origin: Record) -> Record:
    privacy = privacy_of(content)
    sources = [_source(name, each, personal.get(name, ())) for name, each in content.get("sources", {}).items()]
    outputs = [_output(name, each or {}, personal.get(name, ())) for name, each in content.get("outputs", {}).items()]
    concerned = any(each["persons"] or each["personal_data"] for each in sources)
    return {
        "workflow": content.get("name"),
        "description": content.get("description"),
        "owner": content.get("owner"),
        **origin,
        "concerns_persons": concerned,
        "persons": sorted({kind for each in sources for kind in each["persons"]}),
        **privacy,
        "sources": sources,
        "outputs": outputs,
        "not_said": missing_keys(privacy, NEEDED) if concerned else [],
    }


def _source(name: str, source: Record, personal: Sequence[str]) -> Record:
    subject = source.get("subject") or {}
    return {
        "name": name,
        "reads": source.get("path") or source.get("output"),
        "persons": dict(subject),
        "personal_data": list(dict.fromkeys([*subject.values(), *personal])),
        "origin": source.get("origin"),
        "legal_hold": source.get("legal_hold"),
    }


def _output(name: str, output: Record, personal: Sequence[str]) -> Record:
    return {
        "name": name,
        "published_at": output.get("path"),
        "personal_data": list(personal),
        "on_erasure": output.get("on_erasure") or "recompute",
        "keep": output.get("keep"),
    }
