"""Homes made by hand, without Spark: catalog records, Parquet files and index files, as a run would leave them."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from lineage_catalog.engine import connect
from lineage_catalog.records import Commit, DatasetRecord, HopRecord, RunRecord, VersionRecord
from lineage_catalog.writer import commit_run
from sqlalchemy import text

from lineage_service import Home
from lineage_service.store.versions import Version, VersionColumn, VersionFile, file_state
from tests.support.empty_catalog import put_empty_catalog
from tests.support.sealing import seal_anew

OWN, PEER, ABSENCE = 0, 1, 2


@dataclass
class Made:
    """A dataset of a run: its rows (or the version that another run made), its role, what its workflow declares.

    `hops` are the dataset's ways back: to a dataset's name, by pairs (own rid, rid there) or, a form, without any;
    `peers` those of a window that was captured by partition.
    `pii` are marks in its version.
    """

    rows: pa.Table | Version
    role: str = "output"
    declared: dict[str, Any] = field(default_factory=dict)
    hops: dict[str, list[tuple[int, int]] | str] = field(default_factory=dict)
    peers: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    kind: str | None = None
    pii: tuple[str, ...] = ()


class MadeHome:
    """Commits runs of which every part is given; `home` asks about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.url = f"sqlite:///{folder / 'catalog.db'}"
        put_empty_catalog(folder / "catalog.db")
        self._numbers = itertools.count(1)
        self.versions: dict[tuple[str, str], Version] = {}

    @property
    def home(self) -> Home:
        return Home.open(self.folder)

    def run(
        self,
        workflow: str,
        datasets: dict[str, Made],
        *,
        variables: dict[str, str] | None = None,
        spec: dict[str, Any] | None = None,
        capture: str = "stage",
    ) -> str:
        """The id of a new run."""
        run_id = f"{next(self._numbers):04d}{workflow}"
        content = json.dumps(spec or {})
        records, versions, hops = [], [], []
        spaces = {name: f"{'source' if made.role == 'source' else 'step'}:{name}" for name, made in datasets.items()}
        for name, made in datasets.items():
            version = made.rows if isinstance(made.rows, Version) else self._version(run_id, name, made)
            self.versions[run_id, name] = version
            body = json.dumps(made.declared)
            records.append(DatasetRecord(run_id, workflow, name, made.role, spaces[name], version.id, body))
            versions.append(
                VersionRecord(version.id, version.kind, run_id, version.rows, version.bytes, version.to_json())
            )
            for target, pairs in made.hops.items():
                hops.append(self._hop(run_id, spaces[name], spaces[target], pairs))
            for target, pairs in made.peers.items():
                hops.append(self._hop(run_id, spaces[name], spaces[target], pairs, PEER))
        run = RunRecord(
            run_id, workflow, hashlib.sha256(content.encode()).hexdigest(), "committed", capture,
            json.dumps(variables or {}), "{}", "2026-01-01T00:00:00", f"2026-01-01T00:00:{run_id[:2]}",
        )  # fmt: skip
        engine = connect(self.url)
        commit_run(engine, Commit(run, content, (), tuple(versions), tuple(records), tuple(hops)))
        engine.dispose()
        return run_id

    def prune(self, workflow: str, target: str, kept: str, start: str | None = None) -> None:
        """Makes hops to a dataset of a workflow such as are pruned, or kept for one direction alone."""
        form, body = ("pruned", None) if kept == "pruned" else ("pairs", json.dumps({"only": kept}))
        where = "run_id LIKE :run AND to_space LIKE :target AND from_space LIKE :start"
        values = {"run": f"%{workflow}", "target": f"%:{target}", "start": f"%:{start or '%'}"}
        engine = connect(self.url)
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE hops SET form = :form, body = :body WHERE {where}"),
                               {"form": form, "body": body, **values})  # fmt: skip
            seal_anew(connection)
        engine.dispose()

    def _version(self, run_id: str, name: str, made: Made) -> Version:
        kind = made.kind or ("snapshot" if made.role == "source" else "output")
        path = self.folder / "runs" / run_id / name / "part-0.parquet"
        if kind == "source":
            path = self.folder / "files" / f"{name}.parquet"  # as a user has it: the next run finds it overwritten
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(made.rows, path)
        state = file_state(str(path))
        shown = str(path) if kind == "source" else str(path.relative_to(self.folder))
        file = VersionFile(shown, state.size, state.mtime_ns, state.fingerprint, made.rows.num_rows, 0, {})
        columns = tuple(
            VersionColumn(each.name, _spark_type(each.type), each.name, pii=each.name in made.pii)
            for each in made.rows.schema
        )
        return Version(f"{name}-{run_id}", kind, (file,), columns)

    def _hop(self, run_id: str, start: str, end: str, pairs: list[tuple[int, int]] | str, role: int = OWN) -> HopRecord:
        if isinstance(pairs, str):  # all of a side, by absence
            return HopRecord(run_id, start, end, ABSENCE, pairs, 0, 0, None, None)
        folder = self.folder / "runs" / run_id / "index"
        folder.mkdir(parents=True, exist_ok=True)
        names = []
        for direction, order in (("backward", sorted(pairs)), ("forward", sorted(pairs, key=lambda pair: pair[::-1]))):
            path = folder / f"{start}-{end}{'-peers' * (role == PEER)}.{direction}.parquet".replace(":", "_")
            columns = {"a": [a for a, _ in order], "b": [b for _, b in order]}
            pq.write_table(pa.table({name: pa.array(ids, pa.int64()) for name, ids in columns.items()}), path)
            names.append(str(path.relative_to(self.folder)))
        return HopRecord(run_id, start, end, role, "pairs", len(pairs), 0, *names)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    plain = {
        "int32": "int", "int64": "bigint", "double": "double", "float": "float", "string": "string", "bool": "boolean",
        "date32[day]": "date", "binary": "binary",
    }  # fmt: skip
    return plain.get(str(kind), "nested")
