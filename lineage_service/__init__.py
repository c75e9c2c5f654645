"""smoke-lineage: exact row-level lineage for data pipelines on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lineage_service.errors import (
    CaptureSuspect,
    ChecksFailed,
    DamagedFile,
    LineageError,
    LineageInterrupted,
    NotFound,
    Position,
    Problem,
    QuestionError,
    RunError,
    SourceError,
    StoreError,
    WorkflowError,
)

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer

    __version__: str

__all__ = [
    "Answer",
    "CaptureSuspect",
    "ChecksFailed",
    "DamagedFile",
    "Home",
    "LineageError",
    "LineageInterrupted",
    "NotFound",
    "Position",
    "Problem",
    "QuestionError",
    "RunError",
    "SourceError",
    "StoreError",
    "WorkflowError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # Late, so that importing a part of the package does not import all of it.
    if name == "Home":
        from lineage_service.home import Home

        return Home
    if name == "Answer":
        from lineage_service.query.answer import Answer

        return Answer
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("smoke-lineage")
        except PackageNotFoundError:  # a source tree that is not installed
            return "0+unknown"
    raise AttributeError(f"module 'lineage_service' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
