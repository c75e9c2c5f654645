"""A committed run as a value: the one way to load what a run read, wrote and computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.errors import StoreError
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.schema import Column, Schema
from lineage_service.runs.workflow_content import load_run_workflow
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource, SourceSpec
from lineage_service.store.layout import HomeLayout, RunFolder
from lineage_service.store.session_settings import load_settings
from lineage_service.store.versions import Version, apply_source_renames


@dataclass(frozen=True)
class CommittedRun:
    """A run that the catalog has. Everything is loaded when first asked for, and kept: a committed run never changes,
    unless an erasure replaces it."""

    home: HomeLayout
    reader: CatalogReader
    record: RunRecord

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def workflow_name(self) -> str:
        return self.record.workflow

    @property
    def folder(self) -> RunFolder:
        return self.home.run_folder(self.id)

    @cached_property
    def datasets(self) -> list[DatasetRecord]:
        """The datasets that it read and wrote."""
        return self.reader.datasets(self.id)

    @cached_property
    def content(self) -> str:
        """Its workflow as the catalog keeps it: JSON, with references to the environment."""
        return self.reader.content(self.id) or "{}"

    @cached_property
    def workflow(self) -> LoadedWorkflow:
        """Its workflow as it read it; RunError where the environment is no longer what it was."""
        return load_run_workflow(self.home, self.content, self.id)

    @cached_property
    def settings(self) -> dict[str, str] | None:
        """The settings of Spark that its expressions were evaluated under; None where they were not kept."""
        return load_settings(self.folder)

    @cached_property
    def recorded_versions(self) -> dict[str, Version]:
        """The versions that it read and wrote, by space, as the catalog has them."""
        found = {}
        for dataset in self.datasets:
            record = self.reader.version(dataset.version_id)
            if record is not None:
                found[dataset.space] = Version.from_json(record.id, record.body)
        return found

    @cached_property
    def versions(self) -> dict[str, Version]:
        """The same under the names that the run gives their columns: it may rename another workflow's output."""
        by_space = {dataset.space: dataset for dataset in self.datasets}
        return {
            space: apply_source_renames(version, by_space[space]) for space, version in self.recorded_versions.items()
        }

    @property
    def step_versions(self) -> dict[str, Version]:
        """The versions that it wrote, by node."""
        return {space.removeprefix("step:"): each for space, each in self.versions.items() if space.startswith("step:")}

    @cached_property
    def sources(self) -> dict[str, SourceSpec]:
        """Its sources, as its workflow declares them."""
        declared = self.workflow.spec.sources
        return {
            name: source
            for name, source in declared.items()
            if isinstance(source, SourceSpec) and not isinstance(source, BrokenSource)
        }

    def source_version(self, name: str) -> Version:
        """What it read of a source, under the names of who made it, as opening it again wants it."""
        version = self.recorded_versions.get(f"source:{name}")
        if version is None:
            raise StoreError(f"the version of source '{name}' of run '{self.id}' is not in the catalog")
        return version

    @cached_property
    def plan(self) -> Plan:
        """Its plan over the columns that it read; none of them counts as personal data."""
        return self.plan_with_masks({})

    def plan_with_masks(self, masked: Mapping[str, Collection[str]]) -> Plan:
        """Its plan, where these columns of sources, in lower case, by space, count as personal data."""
        schemas = {
            space.removeprefix("source:"): Schema(
                tuple(
                    Column(each.name, each.type, pii=each.name.lower() in masked.get(space, ()))
                    for each in version.columns
                )
            )
            for space, version in self.versions.items()
            if space.startswith("source:")
        }
        return build_plan(self.workflow, schemas)


def load_run(home: HomeLayout, reader: CatalogReader, run_id: str) -> CommittedRun:
    """A run by its id; StoreError where the catalog does not have it."""
    record = reader.run(run_id)
    if record is None:
        raise StoreError(f"run '{run_id}' is not in the catalog of the home '{home.path}'")
    return CommittedRun(home, reader, record)
