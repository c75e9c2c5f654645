"""A committed run as a value: the one way to load what a run read, wrote and computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.capture.handles import Space, source_space
from lineage_service.errors import StoreError
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.schema import Column, Schema
from lineage_service.runs.workflow_content import load_run_workflow
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import SourceSpec
from lineage_service.store.layout import HomeLayout, RunFolder
from lineage_service.store.session_settings import load_settings
from lineage_service.store.versions import Version, apply_source_renames


@dataclass(frozen=True)
class CommittedRun:
    """A run in the catalog. Everything is loaded on first access and cached, because a committed run never changes
    unless an erasure replaces it.
    """

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
        """Its workflow as stored in the catalog: JSON, with references to the environment."""
        return self.reader.content(self.id) or "{}"

    @cached_property
    def workflow(self) -> LoadedWorkflow:
        """Its workflow as it was read. Raises RunError if the environment has changed."""
        return load_run_workflow(self.home, self.content, self.id)

    @cached_property
    def settings(self) -> dict[str, str] | None:
        """The Spark settings under which its expressions were evaluated; None if they were not stored."""
        return load_settings(self.folder)

    @cached_property
    def recorded_versions(self) -> dict[Space, Version]:
        """The versions that it read and wrote, by space, as in the catalog."""
        found = {}
        for dataset in self.datasets:
            record = self.reader.version(dataset.version_id)
            if record is not None:
                found[dataset.space] = Version.from_json(record.id, record.body)
        return found

    @cached_property
    def versions(self) -> dict[Space, Version]:
        """The same versions with the run's column names. A run may rename columns of another workflow's output."""
        by_space = {dataset.space: dataset for dataset in self.datasets}
        return {
            space: apply_source_renames(version, by_space[space]) for space, version in self.recorded_versions.items()
        }

    @property
    def step_versions(self) -> dict[str, Version]:
        """The versions that it wrote, by node."""
        return {space.name: each for space, each in self.versions.items() if space.is_step}

    @cached_property
    def sources(self) -> dict[str, SourceSpec]:
        """Its sources, as its workflow declares them."""
        return self.workflow.spec.valid_sources

    def source_version(self, name: str) -> Version:
        """The version of a source with the column names of its maker, for opening it again."""
        version = self.recorded_versions.get(source_space(name))
        if version is None:
            raise StoreError(f"the version of source '{name}' of run '{self.id}' is not in the catalog")
        return version

    @cached_property
    def plan(self) -> Plan:
        """Its plan over the columns that it read, without marks of personal data."""
        return self.plan_with_masks({})

    def plan_with_masks(self, masked: Mapping[Space, Collection[str]]) -> Plan:
        """Its plan with these columns of sources (lower case, by space) marked as personal data."""
        schemas = {
            space.name: Schema(
                tuple(
                    Column(each.name, each.type, pii=each.name.lower() in masked.get(space, ()))
                    for each in version.columns
                )
            )
            for space, version in self.versions.items()
            if space.is_source
        }
        return build_plan(self.workflow, schemas)


def load_run(home: HomeLayout, reader: CatalogReader, run_id: str) -> CommittedRun:
    """A run by its id. Raises StoreError if the catalog does not have it."""
    record = reader.run(run_id)
    if record is None:
        raise StoreError(f"run '{run_id}' is not in the catalog of the home '{home.path}'")
    return CommittedRun(home, reader, record)
