"""Spark's classes, loaded once and kept for the tests' Java processes: `python -m tests.support.class_archive FILE`.

Half of what a Java process does for a small plan is to load and check classes. It writes those that a run needs into an
archive when it ends, and later ones map it into memory. Where the archive does not fit (another Java, other jars) Java
leaves it alone.

Beside it lies a jar with empty lists of Hadoop's defaults. Spark copies, sends and reads all 1,100 of them for each scan
of a file, which is a sixth of what Java does in the tests; none of them is needed for local files.
"""

import os
import sys
import tempfile
import zipfile
from pathlib import Path

# Short-lived plans: compiling them well costs more than running them badly. The first compiler alone has a small code
# cache, which is full after some hundred plans.
# Hadoop starts the program chmod for each file and folder that it makes: the shortest way to start one.
OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=400m -Xlog:disable "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
FLOW = """
version: 1
name: archived
sources: {rows: {path: rows.parquet}, text: {path: text.csv, options: {header: true}}}
steps:
  - {name: total, op: aggregate, input: rows, by: [k], measures: {n: count(*), total: sum(v)}}
  - {name: joined, op: join, left: total, right: rows, using: [k]}
  - {name: ranked, op: window, input: joined, partition_by: [k], order_by: [v], measures: {place: row_number()}}
  - {name: kept, op: filter, input: text, where: k > 0}
outputs: {ranked: , kept: , total: {path: total.parquet}}
"""


def environment(archive: Path) -> dict[str, str]:
    """What Java processes of the tests are started with: the archive and the jar, where they were made."""
    there = archive.is_file() and archive.stat().st_size > 0
    options = f"{OPTIONS} -Xshare:auto -XX:SharedArchiveFile={archive}" if there else OPTIONS
    return {"SPARK_SUBMIT_OPTS": options} | (_with_class_path(_defaults(archive)) if there else {})


def _defaults(archive: Path) -> Path:
    return archive.with_suffix(".jar")


def _with_class_path(jar: Path) -> dict[str, str]:
    return {"PYSPARK_SUBMIT_ARGS": f"--driver-class-path {jar} pyspark-shell"}


def _write_defaults(jar: Path) -> None:
    with zipfile.ZipFile(jar, "w") as file:
        for name in ("core", "mapred", "yarn"):
            file.writestr(f"{name}-default.xml", '<?xml version="1.0"?>\n<configuration/>\n')


def main() -> int:
    archive = Path(sys.argv[1]).resolve()
    _write_defaults(_defaults(archive))
    os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} -XX:ArchiveClassesAtExit={archive}"
    os.environ |= _with_class_path(_defaults(archive))
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark import SparkContext

    from lineage_service import Home

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table({"k": [1, 2, 2], "v": [1, 2, 3]}), folder / "rows.parquet")
        (folder / "text.csv").write_text("k,v\n1,2\n")
        (folder / "archived.yml").write_text(FLOW)
        with Home.open(folder / "home") as home:
            home.run(folder / "archived.yml")
        java = SparkContext._gateway.proc
        SparkContext._active_spark_context.stop()
        java.stdin.close()  # it ends with its input, and writes the archive before
        java.wait(timeout=300)
    return 0


if __name__ == "__main__":
    sys.exit(main())
