"""Which files of a home a run needs: all that it is read from, shared or not, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from lineage_catalog import models
from lineage_catalog.engine import connect
from sqlalchemy import insert, update

from lineage_service.store.layout import HomeLayout
from lineage_service.store.patched_rids import write_positions
from lineage_service.store.references import References, files_of_run
from lineage_service.store.versions import Version
from tests.support.made_runs import Made, MadeHome
from tests.support.sealing import seal_anew

ROWS = pa.table({"k": [1, 2, 3]})
SAME = [(0, 0), (1, 1), (2, 2)]


def written(home: Path, *names: str) -> None:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": [1]}), home / name)


def test_a_run_needs_what_it_is_read_from(tmp_path):
    made = MadeHome(tmp_path / "home")
    first = made.run("flow", {"s": Made(ROWS, "source"), "out": Made(ROWS, hops={"s": SAME})})
    written(made.folder, f"runs/{first}/index/left_over.parquet", f"runs/{first}/index/spark/part-0.parquet")
    written(made.folder, f"runs/{first}/mask.parquet", f"runs/{first}/persons.parquet", f"runs/{first}/rows.parquet")
    (made.folder / "runs" / first / "settings.json").write_text("{}", encoding="utf-8")
    layer = {"persons": f"runs/{first}/persons.parquet", "rows": f"runs/{first}/rows.parquet"}
    engine = connect(made.url)
    with engine.begin() as connection:
        connection.execute(
            update(models.hops).values(
                forward=f"runs/{first}/index/spark", body=json.dumps({"without": [f"runs/{first}/mask.parquet"]})
            )
        )
        connection.execute(
            insert(models.subject_rows).values(
                version_id=f"s-{first}", kind="person", column="k", run_id=first, key_id="k", persons=1, rows=1,
                body=json.dumps({"layers": [layer]}),
            )
        )  # fmt: skip
        connection.execute(
            insert(models.prepared).values(
                run_id=first, name="q", kind="rows", rows=1, bytes=1, path=f"runs/{first}/gone.parquet", body="{}"
            )
        )
        seal_anew(connection)
    engine.dispose()
    with made.home as home:
        assert files_of_run(home._open.reader, home.layout, first) == {
            f"runs/{first}/{name}"
            for name in ("s/part-0.parquet", "out/part-0.parquet", "settings.json", "mask.parquet", "persons.parquet",
                         "rows.parquet", "index/step_out-source_s.backward.parquet", "index/spark/part-0.parquet")
        }  # fmt: skip


def test_files_of_another_run_are_needed_where_they_are_shared(tmp_path):
    made = MadeHome(tmp_path / "home")
    first = made.run("flow", {"s": Made(ROWS, "source"), "out": Made(ROWS, hops={"s": SAME})})
    base = made.versions[first, "out"]
    write_positions(made.folder / "runs" / "later" / "without.parquet", pa.array([1]))
    patched = replace(base.files[0], without="runs/later/without.parquet", left_out=1)
    out = Version("patched", "output", (patched,), base.columns)
    second = made.run("flow", {"s": Made(made.versions[first, "s"], "source"), "out": Made(out)})
    with made.home as home:
        needed = files_of_run(home._open.reader, home.layout, second)
        assert needed == {
            f"runs/{first}/s/part-0.parquet", f"runs/{first}/out/part-0.parquet", "runs/later/without.parquet",
        }  # fmt: skip
        everything = References(home._open.reader, home.layout).files_of_runs(home._open.reader.runs())
        assert everything == needed | files_of_run(home._open.reader, home.layout, first)


def test_files_read_in_place_are_not_the_homes(tmp_path):
    made = MadeHome(tmp_path / "home")
    source = made.versions[made.run("other", {"s": Made(ROWS, "source")}), "s"]
    outside = tmp_path / "s.parquet"
    pq.write_table(ROWS, outside)
    read = Version("outside", "source", (replace(source.files[0], path=str(outside)),), source.columns)
    run = made.run("flow", {"s": Made(read, "source")})
    with made.home as home:
        assert files_of_run(home._open.reader, HomeLayout(made.folder), run) == set()
