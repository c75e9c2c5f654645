"""Settings of Spark for which the statements of this package hold."""

from __future__ import annotations

from collections.abc import Mapping

# Settings under which Spark may read or compute otherwise than the files and the standard say.
UNLIKE = ("spark.sql.legacy.", "spark.sql.parquet.datetimeRebase", "spark.sql.parquet.int96Rebase",
          "spark.sql.decimalOperations", "spark.sql.caseSensitive", "spark.sql.session.collation")  # fmt: skip
# Settings that make Spark count the days of before 1582 by the old calendar, reading or writing.
REBASE = tuple(f"spark.sql.parquet.datetimeRebaseModeIn{way}" for way in ("Read", "Write"))


def means_the_same(settings: Mapping[str, str]) -> bool:
    """Whether the statements of this package hold under these settings of Spark."""
    return not any(key.startswith(UNLIKE) for key in settings)
