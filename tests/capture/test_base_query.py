"""The base query stays what it was: what capture leaves for later adds nothing to the plan that Spark runs."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service import Home
from lineage_service.errors import LineageError
from lineage_service.spark import file_scan as scan
from lineage_service.spark import staging
from lineage_service.spark.group_capture import UNHASHABLE
from tests.capture.test_capture import choice, flow, pairs
from tests.support.strategies import where_sound

SOME = {"name": "some", "op": "filter", "input": "a", "where": "v > 5"}
BOTH = {"name": "both", "op": "join", "left": "some", "right": "b", "on": "k = kk"}
BY_COLUMN = {"name": "t", "op": "aggregate", "input": "both", "by": ["k"], "measures": {"n": "sum(v)"}}
BY_VALUE = {"name": "t", "op": "aggregate", "input": "both", "by": {"g": "k % 2"}, "measures": {"n": "sum(v)"}}


@pytest.fixture
def written(monkeypatch) -> list[str]:
    """The physical plans of all that is written."""
    plans: list[str] = []
    original = staging.RunWriter._write

    def writing(self, frame, *words, **more):
        plans.append(physical(frame))
        return original(self, frame, *words, **more)

    monkeypatch.setattr(staging.RunWriter, "_write", writing)
    return plans


def physical(frame) -> str:
    """A plan without the numbers that Spark gives its columns and nodes."""
    with redirect_stdout(StringIO()) as told:
        frame.explain()
    return re.sub(r"#\d+L?|plan_id=\d+", "", told.getvalue())


def two_sources(folder: Path, *steps: dict) -> Path:
    file = flow(folder, list(steps), sources={name: {"path": f"{name}.parquet"} for name in "ab"})
    pq.write_table(pa.table({"kk": pa.array([0, 1, 2, 3], pa.int64())}), folder / "b.parquet")
    return file


def plain_plan(spark, folder: Path, key: str) -> str:
    rows = spark.read.parquet(str(folder / "a.parquet")).filter("v > 5")
    both = rows.join(spark.read.parquet(str(folder / "b.parquet")), F.expr("k = kk"))
    return physical(both.groupBy(F.expr(key).alias("k")).agg(F.expr("sum(v)").alias("n")))


@pytest.mark.parametrize("capture", ["off", "defer", "auto"])
def test_a_direct_group_by_runs_the_plain_plan(spark_as_shipped, tmp_path, written, capture):
    file = two_sources(tmp_path, SOME, BOTH, BY_COLUMN)
    with Home.open(tmp_path / "home") as home:
        home.run(file, capture=capture)
    handle = "" if capture == "off" else ", 0 AS _smoke_0"  # it keeps the place of the group's id in the output
    found = re.sub(r"_smoke_measure_?0", "n", written[0])
    assert len(written) == 1
    assert found.replace(handle, "") == plain_plan(spark_as_shipped, tmp_path, "k")


@pytest.mark.parametrize(("capture", "mentions"), [("off", False), ("defer", False), ("lazy", False), ("inject", True)])
def test_what_is_read_again_has_no_row_ids_before(spark, tmp_path, written, capture, mentions):
    file = two_sources(tmp_path, SOME, BOTH, BY_VALUE)
    with Home.open(tmp_path / "home") as home:
        home.run(file, capture=capture)
    assert ("row_index" in written[0]) is mentions


def test_row_ids_are_there_for_what_else_reads_them(spark, tmp_path, written):
    """One branch is read again, the other carries its rows' ids to the output: of both sources the latter's counts."""
    again = {**BY_VALUE, "name": "groups", "input": "a"}
    joined = {"name": "t", "op": "join", "left": "groups", "right": "b", "on": "g = kk"}
    file = two_sources(tmp_path, again, joined)
    with Home.open(tmp_path / "home") as home:
        home.run(file, capture="defer")
        scans = [line for line in written[0].splitlines() if "FileScan" in line]
        assert {"kk" in scan: "row_index" in scan for scan in scans} == {True: True, False: False}
        assert pairs(home, "b") == [(0, 0), (1, 1)]
        assert len(pairs(home, "a")) == 30


@pytest.mark.parametrize("capture", ["defer", "lazy"])
def test_keys_that_have_no_hash_cannot_be_read_again(spark, tmp_path, capture):
    text = {"name": "c", "op": "project", "input": "a", "columns": {"t": "collate(string(k), 'UTF8_LCASE')"}}
    groups = {"name": "t", "op": "aggregate", "input": "c", "by": ["t"], "measures": {"n": "count(*)"}}
    file = flow(tmp_path, [text, groups])
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(LineageError, match=f"step 't' cannot be captured by {capture}: a key has a type without"):
            home.run(file, capture=capture)
        with where_sound():
            assert choice(home, home.run(file, capture=capture))[:2] == ("stage", UNHASHABLE)
        assert len(pairs(home)) == 30


def test_rows_of_one_file_get_their_positions_without_a_struct(spark, tmp_path, written):
    file = flow(tmp_path, [{"name": "t", "op": "filter", "input": "a", "where": "v > 5"}])
    with Home.open(tmp_path / "home") as home:
        home.run(file)
        assert "named_struct" not in written[0]
        assert pairs(home) == [(out, out + 6) for out in range(24)]


def test_a_spark_that_gives_no_positions_stops_the_run(spark, tmp_path, monkeypatch):
    """The column is asked for by a name that nobody promises: a row without a position must never be written."""
    monkeypatch.setattr(scan, "ROW_INDEX", "no_such_column")
    file = flow(tmp_path, [{"name": "t", "op": "filter", "input": "a", "where": "v > 5"}])
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(LineageError, match="Spark returned a row without its position"):
            home.run(file)
        assert home.runs().to_pylist() == []
