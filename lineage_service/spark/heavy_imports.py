"""What the command line hides from imports while nothing needs Spark: pyspark wants it."""

from __future__ import annotations

import sys


def allow_heavy_imports() -> None:
    """Ends the hiding; a no-op outside of the command line."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not getattr(finder, "until_spark", False)]
