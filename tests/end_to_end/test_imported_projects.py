"""Imported projects run: rows are those of the tool itself, and are traced to the project's files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.importers.dbt.project import dbt_project
from lineage_service.importers.imported_file import import_project
from lineage_service.importers.spark_pipeline.project import pipeline_project
from tests.support import class_archive

PROJECTS = Path(__file__).parents[1] / "importers"
PIPELINES = {  # the project, paths of its sources, how its spec file is called
    "sales": ((), "spark-pipeline.yml"),
    "web": ((("visits", "data/visits.csv"),), "spark-pipeline.yaml"),
}
_MODELS = ("stg_customers", "stg_orders", "stg_payments", "orders", "customers", "open_orders")


def written(made, file: Path) -> Path:
    assert made.errors == (), made.errors
    file.write_text(made.text, encoding="utf-8")
    return file


def sorted_rows(rows) -> list[str]:
    """Rows in one order, with values that do not depend on a library's types: numbers of all kinds are equal, and lists
    have no order.
    """
    return sorted(json.dumps({name: _plain(value) for name, value in row.items()}, sort_keys=True) for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return sorted(map(_plain, value), key=str)
    if value is None or isinstance(value, bool):
        return value
    return float(value) if hasattr(value, "as_integer_ratio") else str(value)


def rows_of(home: Home, output: str) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "_rid"} for row in home.rows(output).to_pylist()]


def in_duckdb(folder: Path) -> dict[str, list[dict]]:
    """The rows of the dbt project's models, by the code that dbt compiled, in the database that it compiled it for."""
    nodes = json.loads((folder / "target" / "manifest.json").read_text(encoding="utf-8"))["nodes"]
    database = duckdb.connect()
    database.execute("ATTACH ':memory:' AS shop; CREATE SCHEMA shop.landing")
    for name in ("raw_customers", "raw_payments"):
        database.execute(f"CREATE TABLE shop.main.{name} AS FROM read_csv('{folder}/seeds/{name}.csv', header = true)")
    database.execute(
        f"CREATE TABLE shop.landing.orders_2026 AS FROM read_csv('{folder}/data/orders.csv', header = true)"
    )
    found = {}
    for name in _MODELS:
        code = nodes[f"model.jaffle_shop.{name}"]["compiled_code"]
        database.execute(f"CREATE VIEW shop.main.{name} AS {code}")
        found[name] = database.sql(f"FROM shop.main.{name}").to_arrow_table().to_pylist()
    return found


def test_a_dbt_project_gives_the_rows_that_dbt_gives(spark, tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    shutil.copytree(PROJECTS / "dbt_shop", folder)
    monkeypatch.chdir(folder)
    made = import_project(lambda: dbt_project(folder), [("raw.orders", "data/orders.csv")], Path("shop.yml"))
    expected = in_duckdb(folder)
    with Home.open(tmp_path / "home") as home:
        report = home.run(written(made, folder / "shop.yml"))
        assert set(report.to_json()["outputs"]) == {"orders", "customers", "open_orders"}
        for name in ("orders", "customers", "open_orders"):
            rows = rows_of(home, name)
            assert rows and sorted_rows(rows) == sorted_rows(expected[name])
        michael = home.rows("customers", where="customer_id = 1").to_pylist()[0]["_rid"]

        def behind(source: str) -> list[int]:
            return sorted(row["id"] for row in home.backward("customers", to=source, rid=michael).to_pylist())

        assert behind("raw_customers") == [1]
        assert behind("raw_orders") == [1, 4, 8]
        assert behind("raw_payments") == [1, 4, 8, 9]


def import_pipeline(name: str, folder: Path) -> Path:
    shutil.copytree(PROJECTS / "pipelines" / name, folder)
    sources = [(table, str(folder / path)) for table, path in PIPELINES[name][0]]
    return written(import_project(lambda: pipeline_project(folder), sources, folder / "flow.yml"), folder / "flow.yml")


def test_pipelines_run(spark, tmp_path):
    with Home.open(tmp_path / "home") as home:
        home.run(import_pipeline("sales", tmp_path / "sales"))
        assert sorted_rows(rows_of(home, "at_home")) == sorted_rows(
            [{"customer": "ann", "amount": 15.75}, {"customer": "cid", "amount": 7.0}]
        )
        assert {row["product"] for row in rows_of(home, "best")} == {"lamp", "chair", "table"}
        ann = home.rows("at_home", where="customer = 'ann'").to_pylist()[0]["_rid"]
        assert [row["_c0"] for row in home.backward("at_home", to="orders_csv", rid=ann).to_pylist()] == ["1", "3"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", PIPELINES)
def test_spark_pipelines_gives_the_same_rows(name, spark, tmp_path):
    """`spark-pipelines run` writes its tables to spark-warehouse in the current folder."""
    folder = tmp_path / name
    flow = import_pipeline(name, folder)
    spec = folder / PIPELINES[name][1]
    storage = tmp_path / "storage"
    storage.mkdir()
    spec.write_text(spec.read_text(encoding="utf-8").replace("/path/to/storage", str(storage)), encoding="utf-8")
    run_spark_pipelines(folder)
    with Home.open(tmp_path / "home") as home:
        outputs = home.run(flow).to_json()["outputs"]
        assert outputs
        for output in outputs:
            theirs = pq.read_table(folder / "spark-warehouse" / output).to_pylist()
            assert theirs and sorted_rows(rows_of(home, output)) == sorted_rows(theirs)


def run_spark_pipelines(folder: Path) -> None:
    import pyspark

    from lineage_service.spark.java import use_java

    use_java()
    home = Path(pyspark.__file__).parent
    # SPARK_TESTING: its server takes a free port, since another one may listen on the usual one.
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
    for name in class_archive.environment(Path(sys.prefix) / "spark.jsa"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash", str(home / "bin" / "spark-pipelines"), "run"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
