"""Whether everything is as it must be: this Python, Java, Spark, the home, its catalog, and the files of every run.

Nothing is changed, and nothing that is damaged can stop the examination: what cannot be looked at is told as such.
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

from lineage_catalog.engine import RESTORE, CatalogError, check_pages, connect, hidden, may_exist, named, revision
from lineage_catalog.models import HEAD
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.audit.integrity import Comparing, in_order, key_fault, unlike
from lineage_service.doctor.diagnosis import Check, Diagnosis, Status, number, owner
from lineage_service.errors import DamagedFile, LineageError, listed
from lineage_service.progress import in_bytes
from lineage_service.query.files import index_files
from lineage_service.settings import catalog_url, command, home_path
from lineage_service.store.catalog import HomeCatalog
from lineage_service.store.layout import HomeLayout
from lineage_service.store.permissions import VARIABLE, is_private
from lineage_service.store.versions import Version, has_changed, is_as_written

PACKAGES = ("smoke-lineage", "duckdb", "pyarrow", "sqlalchemy", "alembic", "sqlglot")
LITTLE_SPACE = 1 << 30
LOCK_WAIT = 1.0  # seconds: a lock that lasts longer is what a doctor is asked about
READ_WHOLE = 1 << 20  # bytes up to which an index is read, not only its footer
MOST = 10  # runs that are named one by one


def examine(
    home: str | Path | None = None, catalog: str | None = None, *, spark: bool = False, deep: bool = False
) -> Diagnosis:
    """Looks at everything. With `spark`, Spark is started for a small job; else only its version is told. With `deep`,
    every file that a run needs is read wholly, and compared with its checksums."""
    with ThreadPoolExecutor(1) as pool:  # Java takes its time to say its version
        java = pool.submit(lambda: list(_guarded("java", _java)))
        checks = [*_guarded("python", _python)]
        kept = [*_guarded("home", lambda: _home_and_catalog(home, catalog, deep=deep))]
        checks += java.result()
    checks += _guarded("spark", _started_spark if spark else _spark)
    return Diagnosis((*checks, *kept))


def _guarded(name: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """The checks of one part; whatever stops them is the last of them."""
    try:
        yield from look()
    except LineageError as error:
        yield from (Check(name, "problem", each.message, each.hint) for each in error.problems)
    except CatalogError as error:
        yield Check(name, "problem", str(error), error.hint)
    except OSError as error:
        yield Check(name, "problem", f"cannot be looked at: {(error.strerror or type(error).__name__).lower()}")
    except Exception as error:  # a damaged file may bring up anything, and the other parts are to be looked at too
        yield Check(name, "problem", f"cannot be looked at: {type(error).__name__}")


# --- the machine ----------------------------------------------------------------------------------------------


def _python() -> Iterator[Check]:
    found = {name: _installed(name) for name in PACKAGES}
    told = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()}; {told}")
    missing = [name for name, number in found.items() if number is None]
    if missing:
        yield Check("python", "problem", f"not installed: {listed(missing)}", "pip install smoke-lineage")


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java() -> Iterator[Check]:
    from lineage_service.spark.java import HINT, find_java

    java = find_java()
    yield from (Check("java", "warning", f"not used: {reason}", HINT) for reason in java.refused)
    yield Check("java", "ok", f"{java.version}, {java.why}")


def _spark() -> Iterator[Check]:
    found = _installed("pyspark")
    if found is None:
        yield Check("spark", "problem", "PySpark is not installed", "pip install smoke-lineage")
    else:
        yield Check("spark", "ok", f"PySpark {found}; not started (--spark tries it)")


def _started_spark() -> Iterator[Check]:
    from lineage_service.spark.session import tried_spark

    yield Check("spark", "ok", f"PySpark {_installed('pyspark')} started, and counted {tried_spark():,} rows")


# --- home and catalog -----------------------------------------------------------------------------------------


def _home_and_catalog(given: str | Path | None, catalog: str | None, *, deep: bool) -> Iterator[Check]:
    home = HomeLayout(home_path(given), hidden(catalog) if catalog else None)
    looked = [*_guarded("home", lambda: _home(home))]
    yield from looked
    if any(check.status == "problem" for check in looked):
        return
    url = catalog_url(home.path, catalog)
    found = [*_guarded("catalog", lambda: _catalog(home, url))]
    yield from found
    if any(check.name == "catalog" and check.status == "ok" for check in found):
        engine = connect(url, wait=LOCK_WAIT)
        with closing(HomeCatalog(engine, home)) as reader, reader.snapshot():
            yield from _guarded("catalog", lambda: _records(reader))
            yield from _guarded("key", lambda: _key(home, reader))
            yield from _guarded("log", lambda: _log(home, url))
            yield from _guarded("files", lambda: _runs(home, reader, deep=deep))
            if deep:
                from lineage_service.doctor.deep import deep_checks

                yield from _guarded("deep", lambda: deep_checks(home, reader))
            from lineage_service.doctor.leftovers import erasure_checks, leftover_checks, publication_checks
            from lineage_service.doctor.published_copies import copy_checks

            yield from _guarded("leftovers", lambda: leftover_checks(home, url, reader))
            yield from _guarded("published", lambda: publication_checks(home, reader))
            yield from _guarded("published", lambda: copy_checks(home, reader, deep=deep))
            yield from _guarded("erasures", lambda: erasure_checks(reader))


def _home(home: HomeLayout) -> Iterator[Check]:
    path = home.path
    if not path.exists():
        detail = f"'{path}' is not there yet; the first run makes it"
        yield Check("home", "note", detail, "another is chosen with --home or SMOKE_HOME")
        return
    if not path.is_dir():
        yield Check("home", "problem", f"'{path}' is a file, not a folder", "choose another with --home or SMOKE_HOME")
        return
    whose = owner(path)
    free = shutil.disk_usage(path).free
    told = f"'{path}'{'' if whose is None else f' of user {whose}'}, {in_bytes(free)} free on its disk"
    if not os.access(path, os.R_OK | os.X_OK):
        yield Check("home", "problem", f"{told}; you may not read it", "ask its owner, or choose another with --home")
    elif not os.access(path, os.W_OK):
        yield Check("home", "warning", f"{told}; you may read it, but not run workflows in it")
    elif free < LITTLE_SPACE:
        yield Check("home", "warning", told, "runs need room for staged rows; make some, or choose another home")
    else:
        yield Check("home", "ok", told)
    if not is_private(path):
        detail = f"others may look into '{path}': it holds rows of your sources"
        yield Check(
            "home", "note", detail, f"chmod -R go-rwx '{path}'; the next run does it too, unless {VARIABLE} is set"
        )


def _catalog(home: HomeLayout, url: str) -> Iterator[Check]:
    shown = hidden(url)
    folders = _run_folders(home)
    engine = connect(url, wait=LOCK_WAIT) if may_exist(url) else None
    try:
        found = None if engine is None else revision(engine)
    except CatalogError as error:
        locked = "wait until the process that writes is done, or end it"
        other = "is the URL right? else restore it from a backup" if "sqlite" in shown else "is the server up?"
        hint = error.hint or (locked if "locked" in str(error) else other)
        yield Check("catalog", "problem", f"{shown}: {error}", hint)
        return
    finally:
        if engine is not None:
            engine.dispose()
    if found is None and folders:
        detail = f"{shown}: there is none, but the home has the files of {number(len(folders), 'run')}"
        hint = "is it elsewhere (--catalog, SMOKE_CATALOG)? without it these files cannot be asked about"
        yield Check("catalog", "problem", detail, hint)
    elif found is None:
        yield Check("catalog", "note", f"{shown}: not there yet; the first run makes it")
    elif found > HEAD:
        detail = f"{shown}: of a newer version (revision {found}, this one knows {HEAD})"
        yield Check("catalog", "problem", detail, "upgrade: pip install --upgrade smoke-lineage")
    elif found < HEAD:
        detail = f"{shown}: revision {found}; it is brought to {HEAD} when it is next used. Its runs were not looked at"
        yield Check("catalog", "note", detail, "any verb that reads it does so, such as `smoke-lineage runs`")
    else:
        yield Check("catalog", "ok", f"{shown}, revision {found}")


def _records(reader: HomeCatalog) -> Iterator[Check]:
    """Records that are not what was sealed."""
    check_pages(reader.engine, whole=True)
    found = reader.broken_scopes()
    if found:
        told = f"{named(reader.engine)} is damaged; not as it was written: {listed(found, 3)}"
        yield Check("catalog", "problem", told, RESTORE)


def _key(home: HomeLayout, reader: HomeCatalog) -> Iterator[Check]:
    fault = key_fault(home, reader)
    if fault is not None:
        yield Check("key", "problem", fault, "restore it from a backup: without it no person is found")


def _log(home: HomeLayout, url: str) -> Iterator[Check]:
    from lineage_service.home import Home

    with Home.open(home.path, catalog=url) as opened:
        found = [str(each) for each in opened.audit.verify_log().problems]
    if found:
        again = command(home.path, "audit", "log", "--verify", catalog=home.catalog)
        yield Check(
            "log",
            "problem",
            f"the audit log is not whole: {listed(found, 3)}",
            f"look closer: {again}",
        )


# --- the files of runs ----------------------------------------------------------------------------------------


def _runs(home: HomeLayout, reader: HomeCatalog, *, deep: bool = False) -> Iterator[Check]:
    runs, comparing = reader.runs(), Comparing(home, reader, deep)
    seen: dict[str, tuple[int, str | None]] = {}
    sources: dict[str, set[str]] = {}
    files = indexes = 0
    broken: list[Check] = []
    for run in runs:
        wrong: list[str] = []
        for dataset in reader.datasets(run.id):
            if dataset.version_id not in seen:
                seen[dataset.version_id] = _version(home, reader, dataset, sources)
            count, fault = seen[dataset.version_id]
            files += count
            wrong += [] if fault is None else [fault]
        for hop in reader.hops(run.id):
            paths = [path for path in (hop.backward, hop.forward) if path is not None]
            indexes += len(paths)
            # A column of the dataset's own files counts among a hop's bytes.
            wrong += _index(home, paths, hop.rows, None if hop.form == "column" else hop.bytes)
        for made in reader.prepared(run.id):
            if made.path is not None:
                indexes += 1
                wrong += _index(home, [made.path], made.rows, made.bytes)
        wrong += unlike(comparing.faults(run.id), wrong)
        if wrong:
            broken.append(_broken(home, run, wrong))
    yield from broken[:MOST]
    if len(broken) > MOST:
        yield Check("files", "problem", f"{number(len(broken) - MOST, 'more run')} with missing or damaged files")
    if not broken:
        yield Check(
            "files", "ok", f"{number(len(runs), 'run')}: {files:,} data and {indexes:,} index files are as written"
        )
    yield from _uncompared(home, comparing)
    yield from _unfinished(home, runs)
    yield from _changed(sources)


def _uncompared(home: HomeLayout, comparing: Comparing) -> Iterator[Check]:
    if comparing.passed_over:
        again = command(home.path, "doctor", "--deep", catalog=home.catalog)
        told = f"of {number(comparing.passed_over, 'large file')} only the footers were compared with their checksums"
        yield Check("files", "note", told, f"compare every byte: {again}")
    if comparing.old_runs:
        told = f"{number(len(comparing.old_runs), 'run')} not checksummed, made by an earlier version: {{}}"
        yield Check("files", "note", told.format(listed(sorted(comparing.old_runs), 3)), "run the workflow again")


def _unfinished(home: HomeLayout, runs: list[RunRecord]) -> Iterator[Check]:
    again = command(home.path, "index", catalog=home.catalog)
    states: tuple[tuple[str, Status, str], ...] = (
        ("pending", "note", f"finish it: {again}; a question that needs it does so too"),
        ("incomplete", "warning", f"try again: {again}"),
    )
    for state, level, hint in states:
        found = [run for run in runs if run.lineage == state]
        if found:
            told = listed([f"{run.id} ({run.lineage_note})" if run.lineage_note else run.id for run in found], 3)
            yield Check("lineage", level, f"{state} in {number(len(found), 'run')}: {told}", hint)


def _broken(home: HomeLayout, run: RunRecord, wrong: list[str]) -> Check:
    name = f"run {run.id} ({run.workflow})"
    again = f"run workflow '{run.workflow}' again; what is lost of this run stays lost"
    if not home.run_folder(run.id).path.is_dir():
        hint = f"{again}. Or is the run of another home that shares this catalog?"
        return Check("files", "problem", f"{name}: its folder is gone from the home", hint)
    told = listed([each.replace(f"runs/{run.id}/", "") for each in wrong], 3)
    return Check("files", "problem", f"{name}: {told}", again)


def _version(
    home: HomeLayout, reader: HomeCatalog, dataset: DatasetRecord, sources: dict[str, set[str]]
) -> tuple[int, str | None]:
    """How many files of a version are in the home, and what is wrong with it. Changed sources are only collected."""
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
            return len(found.files), f"'{side}', which says what rows count, is missing"
    if found.expired is not None:  # its rows went when they were to go
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


def _index(home: HomeLayout, paths: list[str], rows: int, size: int | None) -> list[str]:
    """What is wrong with the files of a hop: rows and bytes as counted, row groups in the order look-ups rely on."""
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
        elif not in_order(footers, "forward" if ".forward" in path else "backward"):
            wrong.append(f"index '{path}' is not in order")
    if not wrong and size is not None and paths and found != size:
        wrong.append(f"index '{paths[0]}' and its inverse have {found:,} bytes instead of {size:,}")
    return wrong


def _changed(sources: dict[str, set[str]]) -> Iterator[Check]:
    if sources:
        told = listed([f"{name} ({number(len(ids), 'version')})" for name, ids in sorted(sources.items())])
        hint = "rids, pairs and counts are still answered; `snapshot: true` keeps rows answerable"
        yield Check("sources", "note", f"files changed since they were read: {told}", hint)
    else:
        yield Check("sources", "ok", "all files that runs read in place are as they were read")


def _run_folders(home: HomeLayout) -> list[Path]:
    return sorted(home.runs.iterdir()) if home.runs.is_dir() else []
