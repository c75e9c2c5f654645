"""One Spark session for all tests: small plans run fastest with one shuffle partition and no code generation.

Tests get the marks `spark`, `server` and `wheel` by the fixtures of these names that they use, so that `make fast` can
leave them out. A test that starts Spark in another way, say in a process of its own, has to say so itself: elsewhere
Spark does not start.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.support import class_archive
from tests.support.faster_py4j import remember_classes
from tests.support.memory_files import use_memory_for_files

# Files that take longest come first, then others that start Spark, so that two workers end at about the same time.
LONGEST = ("test_odd_programs", "test_etl_programs", "test_corrected_rows", "test_workload", "test_over_workflows", "test_cases", "test_scoreboard", "test_damage", "test_capture", "test_walk",
           "test_refresh", "test_erasure_killed", "test_refresh_by_file", "test_windows", "test_erasure_rules",
           "test_direct", "test_snapshots", "test_properties", "test_erasure_chain", "test_limits",
           "test_refresh_kept", "test_tutorial", "test_end_to_end", "test_erasure_requests", "test_publish",
           "test_permissions", "test_erasure_sources", "test_why_not", "test_tpch", "test_catalogs",
           "test_bad_input", "test_refresh_random", "test_semantics", "test_query", "test_audit_log",
           "test_catalogs_spark", "test_refresh_many", "test_cli_escapes", "test_sources", "test_same_rows",
           "test_runs", "test_seals", "test_masking", "test_java", "test_pending_questions",
           "test_failing_expressions", "test_erasure", "test_report_pairs", "test_packaging", "test_examples",
           "test_erasure_page", "test_demo", "test_survival", "test_refresh_zeros", "test_erasure_reasons",
           "test_checks", "test_base_query", "test_why_not_properties", "test_why_not_page", "test_saved",
           "test_cli_query")  # fmt: skip


# What the machine at hand sets must not decide: homes and catalogs of its user, how it shows things, its proxies.
for name in list(os.environ):
    if name in (
        "SMOKE_HOME",
        "SMOKE_CATALOG",
        "SMOKE_MEMORY",
        "SMOKE_ACTOR",
        "SMOKE_AUDIT_KEY",
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "FORCE_COLOR",
    ) or (name.startswith(("SMOKE_ANCHOR_", "PG")) or name.lower().endswith("_proxy")):
        del os.environ[name]

# Tests write many small files and wait for the disk at each commit; none of them needs a file to outlive the machine.
use_memory_for_files()

# All Java processes, also those of programs that a test starts; with the archive that the Makefile makes, if it is there.
os.environ |= class_archive.environment(Path(sys.prefix) / "spark.jsa")
NO_SPARK = "/a test that starts Spark uses the fixture spark or is marked so: pytest.mark.spark"


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    if "PYTEST_XDIST_WORKER" in os.environ:
        rank = {name: number for number, name in enumerate(LONGEST)}
        with_spark = {item.path: len(LONGEST) for item in items if "spark" in item.fixturenames}
        last = len(LONGEST) + 1
        items.sort(key=lambda item: rank.get(item.path.stem, with_spark.get(item.path, last)))
    for item in items:
        for mark in {"spark", "server", "wheel"}.intersection(item.fixturenames):
            item.add_marker(mark)
        if hasattr(item, "callspec") and item.callspec.params.get("empty_url") == "postgresql":
            item.add_marker("server")
        if item.get_closest_marker("slow"):  # the limit ends what hangs; it is no test of the machine's speed
            item.add_marker(pytest.mark.timeout(3600))


@pytest.hookimpl(tryfirst=True)  # before fixtures are made
def pytest_runtest_setup(item):
    """Spark is looked for in SPARK_HOME first, also by the processes that a test starts."""
    if item.get_closest_marker("spark"):
        os.environ.pop("SPARK_HOME", None)
    else:
        os.environ["SPARK_HOME"] = NO_SPARK


FAST = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "3g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no .crc beside each file
    "spark.buffer.pageSize": "1m",  # else each sort and hash table takes 64 MB, for a handful of rows
    "spark.driver.extraJavaOptions": "-Xmn1500m",  # what a plan leaves behind must not grow old
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    remember_classes()
    builder = SparkSession.builder.master("local[2]").appName("smoke-lineage-tests")
    for key, value in FAST.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def spark_as_shipped(spark):
    """The session with Spark's own defaults for planning: code generation, adaptive execution, many partitions."""
    changed = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "7",
    }
    for key, value in changed.items():
        spark.conf.set(key, value)
    yield spark
    for key in changed:
        spark.conf.set(key, FAST[key])
