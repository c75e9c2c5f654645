"""Imports that the command line disables until Spark is needed; pyspark needs them."""

from __future__ import annotations

import sys


def allow_heavy_imports() -> None:
    """Enables these imports again. Does nothing outside of the command line."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not getattr(finder, "until_spark", False)]
