"""A home with one committed run, made without Spark: a source read in place, an output, and the index between."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from lineage_catalog.engine import connect
from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord, VersionRecord
from lineage_catalog.schema_upgrade import migrate
from lineage_catalog.writer import commit_run

from lineage_service.store.file_records import with_noted_files
from lineage_service.store.layout import HomeLayout
from lineage_service.store.permissions import make_private
from lineage_service.store.versions import Version, VersionColumn, VersionFile, file_state

RUN = "0123456789abcdef"
COLUMNS = (VersionColumn("k", "bigint", "k"),)


def made_home(folder: Path, run_id: str = RUN, catalog: str | None = None, *, checksums: bool = True) -> Path:
    """`flow.a` has the rows k = 0..3, `flow.out` k = 0, 1; each output row is made of two source rows.
    Without `checksums`, as a version made it that noted none."""
    home = HomeLayout(folder / "home")
    run = home.run_folder(run_id)
    for needed in (run.dataset("out"), run.index):
        needed.mkdir(parents=True)
    source, output = folder / "a.parquet", run.dataset("out") / "part-0.parquet"
    if not source.exists():
        pq.write_table(pa.table({"k": [0, 1, 2, 3]}), source)
    pq.write_table(pa.table({"k": [0, 1]}), output)
    backward, forward = run.index / "0.backward.parquet", run.index / "0.forward.parquet"
    for path in (backward, forward):
        pq.write_table(pa.table({"a": [0, 0, 1, 1], "b": [0, 1, 2, 3]}), path)
    versions = (
        version(home, "source", "version-of-a", source, 4),
        version(home, "output", f"version-of-out-{run_id}", output, 2),
    )
    size = backward.stat().st_size + forward.stat().st_size
    commit = Commit(
        RunRecord(run_id, "flow", "w" * 64, "committed", "stage", "{}", "{}", "2026-01-01", "2026-01-02"),
        "{}",
        (),
        tuple(VersionRecord(v.id, v.kind, run_id, v.rows, v.bytes, v.to_json()) for v in versions),
        (
            DatasetRecord(run_id, "flow", "a", "source", "source:a", versions[0].id, "{}"),
            DatasetRecord(run_id, "flow", "out", "output", "step:out", versions[1].id, "{}"),
        ),
        (
            HopRecord(
                run_id, "step:out", "source:a", 0, "pairs", 4, size, home.relative(backward), home.relative(forward)
            ),
        ),
    )
    url = catalog or f"sqlite:///{home.path / 'catalog.db'}"
    migrate(url)
    engine = connect(url)
    commit_run(engine, with_noted_files(commit, home) if checksums else commit)
    engine.dispose()
    run.mark_committed()
    make_private(home.path)
    return home.path


def version(home: HomeLayout, kind: str, name: str, path: Path, rows: int) -> Version:
    state = replace(file_state(str(path)), path=home.relative(path))
    file = VersionFile(state.path, state.size, state.mtime_ns, state.fingerprint, rows, 0, {})
    return Version(name, kind, (file,), COLUMNS)
