"""The progress of Spark's running jobs, polled twice a second. For display only, so errors are ignored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from lineage_service.progress import Moved, Tell, silent

SECONDS = 0.5


@contextmanager
def report_job_progress(spark: SparkSession, tell: Tell) -> Iterator[None]:
    """Reports the number of finished tasks while the block runs."""
    if tell is silent:
        yield
        return
    stop = threading.Event()
    remote = _register_handler(spark, tell)
    watcher = threading.Thread(target=_watch, args=(spark, tell, stop), daemon=True, name="smoke-meter")
    if remote is None:
        watcher.start()
    try:
        yield
    finally:
        stop.set()
        if remote is None:
            watcher.join(timeout=2 * SECONDS)
        else:
            with suppress(Exception):
                spark.removeProgressHandler(remote)


def _register_handler(spark: SparkSession, tell: Tell) -> Any:
    """Registers a progress handler with a remote session; None for a local session, which has to be polled."""

    def report_tasks(stages: Any, *_: object) -> None:
        known = list(stages or ())
        tell(Moved(sum(each.num_completed_tasks for each in known), sum(each.num_tasks for each in known)))

    handler: Any = report_tasks
    try:
        spark.registerProgressHandler(handler)
    except Exception:  # only a remote session takes handlers
        return None
    return handler


def _watch(spark: SparkSession, tell: Tell, stop: threading.Event) -> None:
    while not stop.wait(SECONDS):
        with suppress(Exception):
            tracker = spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            known = [each for each in stages if each is not None]
            if known and not stop.is_set():
                tell(Moved(sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)))
