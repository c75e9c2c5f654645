"""The Spark session: the caller's if there is one, otherwise one with settings for a single machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from lineage_service.errors import LineageError, RunError
from lineage_service.spark.java import use_java
from lineage_service.store.permissions import permission_mask

# Settings that a session of ours gets unless the user says otherwise.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # not INT96, which DuckDB and others read poorly
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "512",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # a stack walk per column, for messages nobody sees
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def spark_session(
    master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """An open session. Raises RunError if Spark cannot be started, or if a setting can no longer be applied."""
    given = dict(conf or {})
    if master and remote:
        raise LineageError("give --master or --remote, not both")
    _silence_query_logs()
    if SparkContext._gateway is not None and not _is_java_alive():
        _discard_java()
    active = _active_session()
    if active is not None and not remote:
        for key, value in given.items():
            _set(active, key, value)
        return active
    # Workers must run this interpreter, whatever `python3` is elsewhere.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("smoke-lineage")
    builder = builder.remote(remote) if remote else builder.master(master or "local[*]")
    if not remote and given.get("spark.master", master or "local").startswith("local") and not _has_jvm():
        use_java()
    settings = (
        {}
        if remote
        else {**DEFAULTS, **_driver_memory(), "spark.hadoop.fs.permissions.umask-mode": f"{permission_mask():03o}"}
    )
    for key, value in {**settings, **given}.items():
        builder = builder.config(key, value)
    try:
        with _quiet_start():
            session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError, ImportError) as error:
        raise RunError(
            f"Spark could not be started: {str(error).splitlines()[0]}",
            hint="`smoke-lineage doctor --spark` shows which Java is used, and starts it",
        ) from error
    if not remote:
        session.sparkContext.setLogLevel(os.environ.get("SMOKE_SPARK_LOG", "OFF"))
    return session


_SECRET = re.compile(r"password|passwd|secret|token|credential|access.?key|private.?key", re.IGNORECASE)  # never kept
ZONE = "spark.sql.session.timeZone"


def sql_conf(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that expressions may depend on: those that were set, and the time zone."""
    made = {
        key: value
        for key, value in spark.conf.getAll.items()
        if key.startswith("spark.sql.") and not _SECRET.search(key)
    }
    return {**made, ZONE: str(spark.conf.get(ZONE))}


def session_under(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """A second session with these settings; the caller's session keeps its own."""
    beside = spark.newSession()
    for key, value in conf.items():
        if beside.conf.isModifiable(key):
            beside.conf.set(key, value)
    return beside


def local_frame(spark: SparkSession, table: Any) -> DataFrame:
    """A small Arrow table as a DataFrame. Creating one makes its session the active one, so the caller's session is
    made active again.
    """
    before = _active_session()
    frame = spark.createDataFrame(table)
    if before is not None and before is not spark:
        before.createDataFrame(table.slice(0, 0))
    return frame


def recover() -> None:
    """Discards a session that no longer works after a failure, so that the next call starts another."""
    active = _active_session() if _is_java_alive() else None
    try:
        if active is not None:
            active.range(1).count()
            return
    except Exception:
        with suppress(Exception):
            SparkSession.active().stop()
    _discard_java()


def _discard_java() -> None:
    """Ends the Java process of the sessions so far. The next session starts another."""
    gateway: Any = SparkContext._gateway
    with suppress(Exception):
        gateway.shutdown()
    with suppress(Exception):
        gateway.proc.kill()
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _is_java_alive() -> bool:
    gateway: Any = SparkContext._gateway
    try:
        gateway.jvm.System.currentTimeMillis()
    except Exception:
        return False
    return True


def try_spark() -> int:
    """Starts Spark and counts some rows with it; returns their number. A session that existed before stays open."""
    already = _active_session()
    session = spark_session()
    try:
        return session.range(1000).repartition(2).count()
    except PySparkException as error:
        raise RunError(f"Spark started, but a small job failed ({type(error).__name__})") from None
    finally:
        if already is None:
            session.stop()


def _has_jvm() -> bool:
    """Whether Spark's Java is running already, started by this process or by `spark-submit`."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _active_session() -> SparkSession | None:
    """The caller's session, including one created by another thread."""
    try:
        return SparkSession.active()
    except (PySparkException, OSError):
        return None


def _silence_query_logs() -> None:
    """Silences PySpark's log of failed queries, which contains values of the data. The exception is sufficient."""
    if not os.environ.get("SMOKE_SPARK_LOG"):
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


def _set(session: SparkSession, key: str, value: str) -> None:
    try:
        if session.conf.get(key, None) == value:
            return
        session.conf.set(key, value)
    except PySparkException as error:
        raise RunError(f"cannot set '{key}' on a running Spark session", hint="start a new process") from error


def _driver_memory() -> dict[str, str]:
    """Half of the machine's memory for the driver, which is also the executor on a single machine; at most 8 GiB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return {}
    gib = max(1, min(8, total // 2 // (1 << 30)))
    return {"spark.driver.memory": f"{gib}g"}


class _quiet_start:  # noqa: N801 (reads as a verb at its one use)
    """Discards what the JVM writes to standard error while it starts. A failure raises an exception."""

    def __enter__(self) -> None:
        self._kept: int | None = None
        if os.environ.get("SMOKE_SPARK_LOG"):
            return
        sys.stderr.flush()
        self._kept = os.dup(2)
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        os.close(sink)

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            os.dup2(self._kept, 2)
            os.close(self._kept)
