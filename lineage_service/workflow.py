"""A workflow file looked at without Spark: validated, explained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.checked import VersionOf, checked_workflow
from lineage_service.errors import Problem
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.explain import Explanation


def validate_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
) -> tuple[Problem, ...]:
    """Warnings of a good file; WorkflowError with all problems of a bad one. Never starts Spark."""
    _, _, warnings = checked_workflow(file, vars, outputs_in(home, catalog), missing="warning")
    return warnings


def explain_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    capture: str | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
) -> Explanation:
    """What a run of the file would do. Never starts Spark."""
    from lineage_service.explain import explained

    loaded, plan, warnings = checked_workflow(file, vars, outputs_in(home, catalog), missing="warning")
    return explained(loaded, plan, capture or loaded.spec.lineage.capture, warnings)


def outputs_in(home: str | Path | None, catalog: str | None) -> VersionOf:
    """Looks up another workflow's output where the home has a catalog; the catalog is opened only when asked."""

    def version_of(name: str) -> Version | None:
        from lineage_service.home import Home

        with Home.open(home, catalog=catalog) as opened:
            return opened.version_of(name)

    return version_of
