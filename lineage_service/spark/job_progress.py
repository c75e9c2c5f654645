"""How far Spark's running jobs are, asked for twice a second. Only for show: whatever fails here is passed over."""

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
    """Tells how many tasks are done while the body runs."""
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
    """A remote session tells by itself; None for one in this process, which has to be asked."""

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
