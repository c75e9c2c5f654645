"""The catalog's records of files of runs: added with the commit, removed with the file."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from lineage_catalog import models
from lineage_catalog.engine import CatalogError, short_message
from lineage_catalog.records import Commit
from lineage_catalog.writer import forget_files
from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError

from lineage_service.store.checksums import noted_files
from lineage_service.store.layout import HomeLayout, translate_disk_errors


def with_noted_files(commit: Commit, home: HomeLayout) -> Commit:
    """The commit with the files that are now in its run's folder."""
    with translate_disk_errors(home.path):
        return replace(commit, files=tuple(noted_files(home.run_folder(commit.run.id))))


def forget_removed(engine: Engine, home: HomeLayout) -> None:
    """Removes the records of files that no longer exist, after a run expired or was replaced.

    A file that a committed run needs keeps its record; if it does not exist, it is lost.
    """
    files, runs = models.run_files, models.runs
    held = select(runs.c.id).where(runs.c.status.in_(("committed", "failed")))
    query = select(files.c.run_id, files.c.path).where(files.c.run_id.not_in(held))
    try:
        with engine.connect() as connection:
            noted = connection.execute(query).all()
        gone = defaultdict[str, list[str]](list)
        for run_id, path in noted:
            if not (home.run_folder(run_id).path / path).exists():
                gone[run_id].append(path)
        if gone:
            with engine.execution_options(writing=True).begin() as connection:
                forget_files(connection, gone)
    except SQLAlchemyError as error:
        raise CatalogError(f"the catalog could not be cleared: {short_message(error)}") from error
