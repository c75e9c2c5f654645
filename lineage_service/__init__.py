"""smoke-lineage: exact row-level lineage for data pipelines on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_service.home import Home

__all__ = ["Home"]


def __getattr__(name: str) -> Any:
    # Late, so that importing a part of the package does not import all of it.
    if name == "Home":
        from lineage_service.home import Home

        return Home
    raise AttributeError(f"module 'lineage_service' has no attribute '{name}'")
