"""Names of datasets: `workflow.name` or `name`, optionally with `@RUN`; without it the latest committed run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.errors import NotFound, QuestionError, did_you_mean, join_names

ALL = "all"  # as a target: every dataset that is reached


@dataclass(frozen=True)
class DatasetName:
    """A dataset name as a user wrote it. Parts that are not given are None."""

    name: str
    workflow: str | None = None
    run: str | None = None

    @classmethod
    def parse(cls, text: str) -> DatasetName:
        body, at, run = text.partition("@")
        workflow, dot, name = body.rpartition(".")
        if not name or (at and not run) or (dot and not workflow) or "." in workflow:
            raise QuestionError(f"'{text}' is no dataset name", hint="write NAME, WORKFLOW.NAME or WORKFLOW.NAME@RUN")
        return cls(name, workflow or None, run or None)

    def matches(self, dataset: DatasetRecord) -> bool:
        return (
            dataset.name == self.name
            and self.workflow in (None, dataset.workflow)
            and (self.run is None or dataset.run_id.startswith(self.run))
        )


def find_run(reader: CatalogReader, text: str, home: str) -> RunRecord:
    """The run with this id or unique prefix."""
    found = reader.runs_with_prefix(text)
    if not found:
        known = [run.id for run in reader.runs(limit=5)]
        raise NotFound(f"no run '{text}' in the home '{home}'; latest runs: {join_names(known)}")
    if len(found) > 1 and not any(run.id == text for run in found):
        raise QuestionError(f"'{text}' is the beginning of several runs: {join_names([run.id for run in found])}")
    run = next((run for run in found if run.id == text), found[0])
    if run.status == "superseded":
        raise NotFound(
            f"run '{run.id}' in the home '{home}' was superseded by run '{run.superseded_by}': data was erased or "
            "corrected, and nothing is held under the old id",
            hint=f"ask for run '{run.superseded_by}'",
        )
    if run.status == "removed":
        raise NotFound(
            f"run '{run.id}' in the home '{home}' was removed by an erasure: it could not be traced row by row",
            hint="run the workflow again",
        )
    if run.status == "expired":
        raise NotFound(
            f"run '{run.id}' in the home '{home}' is past the retention of its workflow '{run.workflow}': nothing is "
            "held of it any more"
        )
    return run


def find_dataset(
    reader: CatalogReader, text: str, home: str, datasets: Callable[[str], list[DatasetRecord]] | None = None
) -> DatasetRecord:
    """The dataset with this name, in the named run or in the latest committed run of its workflow.

    `datasets` returns those of a run; callers may pass one that caches.
    """
    asked = DatasetName.parse(text)
    of_run = datasets or reader.datasets
    if asked.run is not None:
        run = find_run(reader, asked.run, home)
        if asked.workflow not in (None, run.workflow):
            raise NotFound(f"run '{run.id}' in '{home}' is of workflow '{run.workflow}', not of '{asked.workflow}'")
        return _in_run(of_run(run.id), asked.name, run, home)
    if asked.workflow is None:
        latest = _only_owner(reader, asked.name, home, of_run)
    else:
        # An output of a program is named by the program, too: job.big is of the workflow job_big.
        found = reader.latest_run(asked.workflow) or reader.latest_run(f"{asked.workflow}_{asked.name}")
        if found is None:
            workflows = reader.workflows()
            raise NotFound(
                f"no workflow '{asked.workflow}' has a committed run in the home '{home}'; "
                f"workflows: {join_names(workflows)}",
                hint=did_you_mean(asked.workflow, workflows) or "run that workflow first",
            )
        latest = found
    return _in_run(of_run(latest.id), asked.name, latest, home)


def without_readers(datasets: list[DatasetRecord]) -> list[DatasetRecord]:
    """The datasets that a name may mean, without sources that are another workflow's output read under its own name.
    The name means the output then; both have the same rows.
    """
    return [each for each in datasets if not any(_reads(each, other) for other in datasets)]


def _reads(source: DatasetRecord, other: DatasetRecord) -> bool:
    """Whether a source is declared as this output of another workflow, of whatever run."""
    output = json.loads(source.declared).get("output") if source.role == "source" else None
    if not isinstance(output, str) or source.workflow == other.workflow:
        return False
    read = DatasetName.parse(output)
    return other.name == read.name and read.workflow in (None, other.workflow)


def pinned_run(source: DatasetRecord) -> str | None:
    """The run that a workflow names for the output that a source reads: an id, or a prefix of one."""
    output = json.loads(source.declared).get("output") if source.role == "source" else None
    return DatasetName.parse(output).run if isinstance(output, str) else None


def _only_owner(reader: CatalogReader, name: str, home: str, of_run: Callable[[str], list[DatasetRecord]]) -> RunRecord:
    """The latest run of the only workflow that has a dataset with that name; or that had one, if none has it now."""
    owners = reader.latest_runs_of_owners(name)
    if len(owners) > 1:
        having = [each for owner in owners for each in of_run(owner.id) if each.name == name]
        meant = {each.run_id for each in without_readers(having)}
        owners = [owner for owner in owners if owner.id in meant] or owners
    if len(owners) > 1 and _are_one_source(owners, name, of_run):
        owners = [max(owners, key=lambda owner: owner.committed_at)]
    if len(owners) == 1:
        return owners[0]
    if owners:
        full = [f"{owner.workflow}.{name}" for owner in owners]
        raise QuestionError(
            f"several workflows have a dataset '{name}': {join_names(full)}", hint="name the workflow too"
        )
    known = sorted({each.name for flow in reader.workflows() for each in _latest(reader, flow)})
    raise NotFound(
        f"no dataset '{name}' in the home '{home}'; datasets: {join_names(known)}", hint=did_you_mean(name, known)
    )


def _are_one_source(owners: list[RunRecord], name: str, of_run: Callable[[str], list[DatasetRecord]]) -> bool:
    """Whether a name means the same rows of a source in all of these runs, which are writes of programs: each output of
    a program is a workflow of its own, and all of them call what they read alike.
    """
    having = [each for owner in owners for each in of_run(owner.id) if each.name == name]
    is_source = all(each.role == "source" for each in having) and len({each.version_id for each in having}) == 1
    return is_source and all(json.loads(owner.report).get("program") for owner in owners)


def _latest(reader: CatalogReader, workflow: str) -> list[DatasetRecord]:
    run = reader.latest_run(workflow)
    return reader.datasets(run.id) if run else []


def _in_run(datasets: list[DatasetRecord], name: str, run: RunRecord, home: str) -> DatasetRecord:
    found = next((each for each in datasets if each.name == name), None)
    if found is None:
        names = [each.name for each in datasets]
        raise NotFound(
            f"run '{run.id}' of workflow '{run.workflow}' has no dataset '{name}'; it has: {join_names(names)} "
            f"(home '{home}')",
            hint=did_you_mean(name, names) or "a step in between is a dataset only under `lineage: {keep: […]}`",
        )
    return found
