"""Examines the installation: Python, Java, Spark, the home, its catalog, and the files of every run.

Changes nothing. Damage does not stop the examination: parts that cannot be examined are reported.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lineage_catalog.engine import (
    RESTORE,
    CatalogError,
    catalog_label,
    check_pages,
    connect,
    may_exist,
    revision,
    url_without_password,
)
from lineage_catalog.hop_forms import HopForm
from lineage_catalog.models import HEAD
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.audit.home_integrity import ChecksumComparison, has_sorted_row_groups, key_fault, unreported_faults
from lineage_service.doctor.diagnosis import MOST, Diagnosis, HealthCheck, Status, other_owner, pluralise, run_folders
from lineage_service.errors import DamagedFile, LineageError, join_names
from lineage_service.progress import format_bytes
from lineage_service.query.home_files import index_files
from lineage_service.settings import catalog_url, command, home_path
from lineage_service.store.home_catalog import HomeCatalog
from lineage_service.store.layout import HomeLayout
from lineage_service.store.permissions import VARIABLE, is_private
from lineage_service.store.versions import Version, has_changed, is_as_written

PACKAGES = ("smoke-lineage", "duckdb", "pyarrow", "sqlalchemy", "alembic", "sqlglot")
LITTLE_SPACE = 1 << 30
LOCK_WAIT = 1.0  # seconds; doctor reports a lock that is held longer
READ_WHOLE = 1 << 20  # indexes up to this size in bytes are read, otherwise only their footers


def examine(
    home: str | Path | None = None, catalog: str | None = None, *, spark: bool = False, deep: bool = False
) -> Diagnosis:
    """Performs all checks. With `spark`, starts Spark for a small job; otherwise only its version is reported. With
    `deep`, reads every file that a run needs and compares it with its checksums.
    """
    with ThreadPoolExecutor(1) as pool:  # Java takes long to report its version
        java = pool.submit(lambda: list(_checks_or_problem("java", _java_checks)))
        checks = [*_checks_or_problem("python", _python_checks)]
        kept = [*_checks_or_problem("home", lambda: _home_and_catalog(home, catalog, deep=deep))]
        checks += java.result()
    checks += _checks_or_problem("spark", _spark_job_checks if spark else _spark_checks)
    return Diagnosis((*checks, *kept))


def _checks_or_problem(name: str, look: Callable[[], Iterable[HealthCheck]]) -> Iterator[HealthCheck]:
    """The checks of one part. If an error stops them, it is reported as the last check."""
    try:
        yield from look()
    except LineageError as error:
        yield from (HealthCheck(name, "problem", each.message, each.hint) for each in error.problems)
    except CatalogError as error:
        yield HealthCheck(name, "problem", str(error), error.hint)
    except OSError as error:
        yield HealthCheck(name, "problem", f"cannot be examined: {(error.strerror or type(error).__name__).lower()}")
    except Exception as error:  # a damaged file may cause any error, and the other parts must be examined too
        yield HealthCheck(name, "problem", f"cannot be examined: {type(error).__name__}")


# --- the machine ----------------------------------------------------------------------------------------------


def _python_checks() -> Iterator[HealthCheck]:
    found = {name: _package_version(name) for name in PACKAGES}
    summary = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    yield HealthCheck("python", "ok", f"{platform.python_version()} on {platform.system()}; {summary}")
    missing = [name for name, number in found.items() if number is None]
    if missing:
        yield HealthCheck("python", "problem", f"not installed: {join_names(missing)}", "pip install smoke-lineage")


def _package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java_checks() -> Iterator[HealthCheck]:
    from lineage_service.spark.java import HINT, find_java

    java = find_java()
    yield from (HealthCheck("java", "warning", f"not used: {reason}", HINT) for reason in java.refused)
    yield HealthCheck("java", "ok", f"{java.version}, {java.why}")


def _spark_checks() -> Iterator[HealthCheck]:
    found = _package_version("pyspark")
    if found is None:
        yield HealthCheck("spark", "problem", "PySpark is not installed", "pip install smoke-lineage")
    else:
        yield HealthCheck("spark", "ok", f"PySpark {found}; not started (--spark tries it)")


def _spark_job_checks() -> Iterator[HealthCheck]:
    from lineage_service.spark.spark_session import try_spark

    yield HealthCheck("spark", "ok", f"PySpark {_package_version('pyspark')} started, and counted {try_spark():,} rows")


# --- home and catalog -----------------------------------------------------------------------------------------


def _home_and_catalog(given: str | Path | None, catalog: str | None, *, deep: bool) -> Iterator[HealthCheck]:
    home = HomeLayout(home_path(given), url_without_password(catalog) if catalog else None)
    looked = [*_checks_or_problem("home", lambda: _home_checks(home))]
    yield from looked
    if any(check.status == "problem" for check in looked):
        return
    url = catalog_url(home.path, catalog)
    found = [*_checks_or_problem("catalog", lambda: _catalog_checks(home, url))]
    yield from found
    if any(check.name == "catalog" and check.status == "ok" for check in found):
        engine = connect(url, wait=LOCK_WAIT)
        with closing(HomeCatalog(engine, home)) as reader, reader.snapshot():
            yield from _checks_or_problem("catalog", lambda: _record_checks(reader))
            yield from _checks_or_problem("key", lambda: _key_checks(home, reader))
            yield from _checks_or_problem("log", lambda: _log_checks(home, url))
            yield from _checks_or_problem("files", lambda: _run_checks(home, reader, deep=deep))
            if deep:
                from lineage_service.doctor.deep_checks import deep_checks

                yield from _checks_or_problem("deep", lambda: deep_checks(home, reader))
            from lineage_service.doctor.leftovers import erasure_checks, leftover_checks, publication_checks
            from lineage_service.doctor.published_copies import copy_checks

            yield from _checks_or_problem("leftovers", lambda: leftover_checks(home, url, reader))
            yield from _checks_or_problem("published", lambda: publication_checks(home, reader))
            yield from _checks_or_problem("published", lambda: copy_checks(home, reader, deep=deep))
            yield from _checks_or_problem("erasures", lambda: erasure_checks(reader))


def _home_checks(home: HomeLayout) -> Iterator[HealthCheck]:
    path = home.path
    if not path.exists():
        detail = f"'{path}' is not there yet; the first run makes it"
        yield HealthCheck("home", "note", detail, "another is chosen with --home or SMOKE_HOME")
        return
    if not path.is_dir():
        yield HealthCheck(
            "home", "problem", f"'{path}' is a file, not a folder", "choose another with --home or SMOKE_HOME"
        )
        return
    whose = other_owner(path)
    free = shutil.disk_usage(path).free
    summary = f"'{path}'{'' if whose is None else f' of user {whose}'}, {format_bytes(free)} free on its disk"
    if not os.access(path, os.R_OK | os.X_OK):
        yield HealthCheck(
            "home", "problem", f"{summary}; you may not read it", "ask its owner, or choose another with --home"
        )
    elif not os.access(path, os.W_OK):
        yield HealthCheck("home", "warning", f"{summary}; you may read it, but not run workflows in it")
    elif free < LITTLE_SPACE:
        yield HealthCheck(
            "home", "warning", summary, "runs need room for staged rows; make some, or choose another home"
        )
    else:
        yield HealthCheck("home", "ok", summary)
    if not is_private(path):
        detail = f"other users can read '{path}': it holds rows of your sources"
        yield HealthCheck(
            "home", "note", detail, f"chmod -R go-rwx '{path}'; the next run does it too, unless {VARIABLE} is set"
        )


def _catalog_checks(home: HomeLayout, url: str) -> Iterator[HealthCheck]:
    shown = url_without_password(url)
    folders = run_folders(home)
    engine = connect(url, wait=LOCK_WAIT) if may_exist(url) else None
    try:
        found = None if engine is None else revision(engine)
    except CatalogError as error:
        locked = "wait until the process that writes is done, or end it"
        other = "is the URL right? else restore it from a backup" if "sqlite" in shown else "is the server up?"
        hint = error.hint or (locked if "locked" in str(error) else other)
        yield HealthCheck("catalog", "problem", f"{shown}: {error}", hint)
        return
    finally:
        if engine is not None:
            engine.dispose()
    if found is None and folders:
        detail = f"{shown}: there is none, but the home has the files of {pluralise(len(folders), 'run')}"
        hint = "is it elsewhere (--catalog, SMOKE_CATALOG)? without it these files cannot be queried"
        yield HealthCheck("catalog", "problem", detail, hint)
    elif found is None:
        yield HealthCheck("catalog", "note", f"{shown}: not there yet; the first run makes it")
    elif found > HEAD:
        detail = f"{shown}: of a newer version (revision {found}, this one knows {HEAD})"
        yield HealthCheck("catalog", "problem", detail, "upgrade: pip install --upgrade smoke-lineage")
    elif found < HEAD:
        detail = f"{shown}: revision {found}; it is brought to {HEAD} when it is next used. Its runs were not examined"
        yield HealthCheck("catalog", "note", detail, "any verb that reads it does so, such as `smoke-lineage runs`")
    else:
        yield HealthCheck("catalog", "ok", f"{shown}, revision {found}")


def _record_checks(reader: HomeCatalog) -> Iterator[HealthCheck]:
    """Checks the seals of records."""
    check_pages(reader.engine, whole=True)
    found = reader.broken_scopes()
    if found:
        summary = f"{catalog_label(reader.engine)} is damaged; changed since it was written: {join_names(found, 3)}"
        yield HealthCheck("catalog", "problem", summary, RESTORE)


def _key_checks(home: HomeLayout, reader: HomeCatalog) -> Iterator[HealthCheck]:
    fault = key_fault(home, reader)
    if fault is not None:
        yield HealthCheck("key", "problem", fault, "restore it from a backup: without it no person is found")


def _log_checks(home: HomeLayout, url: str) -> Iterator[HealthCheck]:
    from lineage_service.home import Home

    with Home.open(home.path, catalog=url) as opened:
        found = [str(each) for each in opened.audit.verify_log().problems]
    if found:
        again = command(home.path, "audit", "log", "--verify", catalog=home.catalog)
        yield HealthCheck(
            "log",
            "problem",
            f"the audit log is not intact: {join_names(found, 3)}",
            f"look closer: {again}",
        )


# --- the files of runs ----------------------------------------------------------------------------------------


def _run_checks(home: HomeLayout, reader: HomeCatalog, *, deep: bool = False) -> Iterator[HealthCheck]:
    runs, comparing = reader.runs(), ChecksumComparison(home, reader, deep)
    seen: dict[str, tuple[int, str | None]] = {}
    sources: dict[str, set[str]] = {}
    files = indexes = 0
    broken: list[HealthCheck] = []
    for run in runs:
        wrong: list[str] = []
        for dataset in reader.datasets(run.id):
            if dataset.version_id not in seen:
                seen[dataset.version_id] = _version_fault(home, reader, dataset, sources)
            count, fault = seen[dataset.version_id]
            files += count
            wrong += [] if fault is None else [fault]
        for hop in reader.hops(run.id):
            paths = [path for path in (hop.backward, hop.forward) if path is not None]
            indexes += len(paths)
            # A column in the dataset's own files counts towards a hop's bytes.
            wrong += _index_faults(home, paths, hop.rows, None if hop.form is HopForm.COLUMN else hop.bytes)
        for made in reader.prepared_questions(run.id):
            if made.path is not None:
                indexes += 1
                wrong += _index_faults(home, [made.path], made.rows, made.bytes)
        wrong += unreported_faults(comparing.faults(run.id), wrong)
        if wrong:
            broken.append(_broken_run(home, run, wrong))
    yield from broken[:MOST]
    if len(broken) > MOST:
        yield HealthCheck(
            "files", "problem", f"{pluralise(len(broken) - MOST, 'more run')} with missing or damaged files"
        )
    if not broken:
        yield HealthCheck(
            "files", "ok", f"{pluralise(len(runs), 'run')}: {files:,} data and {indexes:,} index files are as written"
        )
    yield from _comparison_notes(home, comparing)
    yield from _lineage_checks(home, runs)
    yield from _source_checks(sources)


def _comparison_notes(home: HomeLayout, comparing: ChecksumComparison) -> Iterator[HealthCheck]:
    if comparing.passed_over:
        again = command(home.path, "doctor", "--deep", catalog=home.catalog)
        summary = (
            f"of {pluralise(comparing.passed_over, 'large file')} only the footers were compared with their checksums"
        )
        yield HealthCheck("files", "note", summary, f"compare every byte: {again}")
    if comparing.old_runs:
        summary = f"{pluralise(len(comparing.old_runs), 'run')} not checksummed, made by an earlier version: {{}}"
        yield HealthCheck(
            "files", "note", summary.format(join_names(sorted(comparing.old_runs), 3)), "run the workflow again"
        )


def _lineage_checks(home: HomeLayout, runs: list[RunRecord]) -> Iterator[HealthCheck]:
    again = command(home.path, "index", catalog=home.catalog)
    states: tuple[tuple[str, Status, str], ...] = (
        ("pending", "note", f"finish it: {again}; a question that needs it does so too"),
        ("incomplete", "warning", f"try again: {again}"),
    )
    for state, level, hint in states:
        found = [run for run in runs if run.lineage == state]
        if found:
            summary = join_names([f"{run.id} ({run.lineage_note})" if run.lineage_note else run.id for run in found], 3)
            yield HealthCheck("lineage", level, f"{state} in {pluralise(len(found), 'run')}: {summary}", hint)


def _broken_run(home: HomeLayout, run: RunRecord, wrong: list[str]) -> HealthCheck:
    name = f"run {run.id} ({run.workflow})"
    again = f"run workflow '{run.workflow}' again; what is lost of this run stays lost"
    if not home.run_folder(run.id).path.is_dir():
        hint = f"{again}. Or is the run of another home that shares this catalog?"
        return HealthCheck("files", "problem", f"{name}: its folder is gone from the home", hint)
    summary = join_names([each.replace(f"runs/{run.id}/", "") for each in wrong], 3)
    return HealthCheck("files", "problem", f"{name}: {summary}", again)


def _version_fault(
    home: HomeLayout, reader: HomeCatalog, dataset: DatasetRecord, sources: dict[str, set[str]]
) -> tuple[int, str | None]:
    """The number of a version's files in the home, and what is wrong with it. Changed sources are only collected."""
    record = reader.version(dataset.version_id)
    if record is None:
        return 0, f"'{dataset.name}' is not in the catalog"
    try:
        found = Version.from_json(record.id, record.body)
    except (ValueError, KeyError, TypeError):
        return 0, f"what the catalog holds of '{dataset.name}' is damaged"
    sides = [found.positions, *(side for file in found.files for side in (file.without, file.only))]
    for side in (side for side in sides if side is not None):
        if not Path(home.absolute(side)).is_file():
            return len(found.files), f"'{side}', which lists the valid rows, is missing"
    if found.expired is not None:  # its rows were removed by retention
        return 0, None
    if found.kind == "source" and any(has_changed(file, home.absolute(file.path)) for file in found.files):
        sources.setdefault(dataset.full_name, set()).add(found.id)
    ours = [file for file in found.files if file.is_ours]
    for file in ours:
        if not os.access(home.absolute(file.path), os.R_OK):
            return len(ours), f"'{file.path}' is missing or cannot be read"
        if not is_as_written(file, home.absolute(file.path)):
            return len(ours), f"'{file.path}' is not as it was written"
    return len(ours), None


def _index_faults(home: HomeLayout, paths: list[str], rows: int, size: int | None) -> list[str]:
    """Faults of a hop's files: numbers of rows and bytes, and row groups in the order that look-ups rely on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found, wrong = 0, []
    for path in dict.fromkeys(paths):  # one file may be sorted both ways
        try:
            files = [Path(each) for each in index_files(home.absolute(path))]
        except DamagedFile:
            files = []
        if not files or not all(file.is_file() for file in files):
            wrong.append(f"index '{path}' is missing")
            continue
        found += sum(file.stat().st_size for file in files)
        try:
            footers = [pq.read_metadata(file) for file in files]
            for file in files:
                if file.stat().st_size <= READ_WHOLE:
                    pq.read_table(file)
        except (pa.ArrowException, OSError):
            wrong.append(f"index '{path}' is no readable Parquet file")
            continue
        counted = sum(footer.num_rows for footer in footers)
        if counted != rows:
            wrong.append(f"index '{path}' has {counted:,} pairs instead of {rows:,}")
        elif not has_sorted_row_groups(footers, "forward" if ".forward" in path else "backward"):
            wrong.append(f"index '{path}' is not in order")
    if not wrong and size is not None and paths and found != size:
        wrong.append(f"index '{paths[0]}' and its inverse have {found:,} bytes instead of {size:,}")
    return wrong


def _source_checks(sources: dict[str, set[str]]) -> Iterator[HealthCheck]:
    if sources:
        summary = join_names([f"{name} ({pluralise(len(ids), 'version')})" for name, ids in sorted(sources.items())])
        hint = "rids, pairs and counts are still answered; `snapshot: true` keeps rows answerable"
        yield HealthCheck("sources", "note", f"files changed since they were read: {summary}", hint)
    else:
        yield HealthCheck("sources", "ok", "all files that runs read in place are unchanged since they were read")
