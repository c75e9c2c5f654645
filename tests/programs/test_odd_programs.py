"""Programs that do odd things: the same files with us as without, lineage where it is known, and a reason where not."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest

from lineage_service import Home
from tests.programs.running import assert_same_rows, run, run_with_and_without

PROGRAMS = sorted((Path(__file__).parent / "odd").glob("[a-z]*.py"))
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    report = run_with_and_without(folder, PROGRAMS)
    with Home.open(folder / "home") as home:
        yield folder, home, report


@pytest.mark.parametrize("output", ["view_replaced", "path_overwritten", "asked_before_append", "growing", "own_source",
                                    "appended", "totals", "large", "own_rows", "untraceable", "long_loop",
                                    "joined_with_itself", "udf_of_rows", "cached_frame", "cached_by_chance",
                                    "view_of_a_view", "view_by_options", "renamed_in_loop", "beside_global_view",
                                    "after_global_view", "zone_kept", "zone_changed", "cached_before_change",
                                    "cached_view", "observed", "commented", "still_commented", "of_one_file",
                                    "one_part", "more_files", "files_by_value", "sorted_files"])  # fmt: skip
def test_same_rows_as_without_us(ran, output):
    folder, _, _ = ran
    assert_same_rows(folder, output)


def test_where_lineage_ends_is_said_with_the_line(ran):
    _, _, report = ran
    untraced = {Path(each["place"]).name: each for each in report["writes"] if not each["traced"]}
    reasons = {
        "asked_before_append": ("frame = spark.read", "files that it reads have changed"),
        "own_source": ("frame.write.mode", "reads nothing that could be traced"),
        "untraceable": ("orders.mapInPandas", "a Python function over whole partitions"),
        "once": ("where", "the place exists already"),
        "cached_by_chance": ("drawn = spark.read", "the frame was cached"),
        "view_of_a_view": ("SELECT * FROM above", "a view has changed since view 'above' was made of it"),
        "view_by_options": ("spark.table", "table 'above'"),
        "zone_changed": ("SELECT * FROM hours", "settings of the session have changed since view 'hours_in_tokyo'"),
        "cached_before_change": ("cached = spark.read", "files have changed since a frame that reads them was cached"),
        "cached_view": ("drawn = spark.table", "the frame was cached"),
        "observed": ("orders.observe", "it is observed"),
        "files_by_value": ('4, "status"', "repartition() by columns decides"),
        "sorted_files": ("sortWithinPartitions", "decides the order of rows in each file"),
    }
    assert untraced.keys() == reasons.keys()
    for name, (text, reason) in reasons.items():
        program = {"once": "written_twice", "own_source": "own_source_by_cache",
                   "view_by_options": "view_of_a_view", "files_by_value": "more_files",
                   "sorted_files": "more_files"}.get(name, name)  # fmt: skip
        lines = (Path(__file__).parent / "odd" / f"{program}.py").read_text(encoding="utf-8").splitlines()
        (line,) = [number for number, each in enumerate(lines, 1) if text in each]
        assert untraced[name]["line"].endswith(f"odd/{program}.py:{line}:1"), name
        assert reason in untraced[name]["reason"], name


def test_what_is_drawn_by_chance_is_drawn_once(ran):
    folder, home, _ = ran
    held = home.rows("by_chance", all=True, columns=["order_id", "chance"]).to_pylist()
    written = ds.dataset(folder / "with" / "by_chance").to_table().to_pylist()
    assert [(row["order_id"], row["chance"]) for row in held] == [(row["order_id"], row["chance"]) for row in written]


def test_writes_to_one_place_are_versions_of_one_output(ran):
    _, home, report = ran
    runs = [each["run"]["run_id"] for each in report["writes"] if each["place"].endswith("with/appended")]
    statuses = [{row["status"] for row in home.rows(f"appended@{run_id}", all=True).to_pylist()} for run_id in runs]
    assert statuses == [{"open"}, {"paid"}]


def test_lineage_goes_on_through_files(ran):
    _, home, _ = ran
    orders = home.rows("every_program_totals.orders", all=True).to_pylist()
    large = home.rows("large", all=True).to_pylist()
    assert large
    for row in large:
        found = home.backward("large", to="every_program_totals.orders", rid=row["_rid"], rids=True).to_pylist()
        expected = {each["_rid"] for each in orders if each["customer_id"] == row["customer_id"]}
        assert {each["_rid"] for each in found} == expected
        assert expected


def test_rows_that_the_program_made_are_a_source(ran):
    _, home, _ = ran
    rates = home.rows("every_program_own_rows.rows", all=True).to_pylist()
    assert [row["rate"] for row in rates] == [1.5, 2.0, 2.0]
    behind = home.backward("own_rows", to="rows", all=True, pairs=True).to_pylist()
    assert {pair["rid"] for pair in behind} == {0, 1, 2}


def test_runs_of_one_execution_begin_alike(ran):
    _, _, report = ran
    assert {each["run"]["run_id"][:8] for each in report["writes"] if each["traced"]} == {report["execution"]}


STOPPING = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
spark.range(0).count()
rows = spark.createDataFrame([(n % 3, n) for n in range(30)], "k int, v int")
rows.groupBy("k").agg(F.sum("v").alias("s")).write.parquet("out/sums")
spark.stop()
"""


def test_a_program_that_stops_spark_has_its_lineage(tmp_path):
    (tmp_path / "job.py").write_text(STOPPING, encoding="utf-8")
    done = run(tmp_path, "job.py")
    assert "wrote 'sums', 3 rows" in done.stderr
    assert "from 'rows': 30 pairs" in done.stderr
    with Home.open(tmp_path / "home") as home:
        assert len(home.backward("sums", to="rows", rid=0, rids=True)) == 10
    assert list((tmp_path / "home" / "tmp").glob("rows-*")) == []


FAILING = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("reading", sys.argv[1:])
orders = spark.createDataFrame([(1, 2.0), (2, 3.0)], "id int, amount double")
orders.where("amount > 2").write.parquet("out/first")
if sys.argv[1] == "--exit":
    sys.exit(7)
orders.select("nope").write.parquet("out/second")
"""


def test_a_program_that_fails_keeps_what_was_written_before(tmp_path):
    (tmp_path / "job.py").write_text(FAILING, encoding="utf-8")
    done = run(tmp_path, "job.py", "--fail", expected=1)
    assert done.stdout == "reading ['--fail']\n"
    assert "UNRESOLVED_COLUMN" in done.stderr
    assert 'File "job.py", line 11' in done.stderr.replace(str(tmp_path) + "/", "")
    assert "program_run.py" not in done.stderr
    with Home.open(tmp_path / "home") as home:
        assert home.rows("first", all=True).to_pylist() == [{"_rid": 0, "id": 2, "amount": 3.0}]
        assert home.backward("job.first", to="rows", rid=0, rids=True).to_pylist() == [{"_rid": 1}]
    done = run(tmp_path, "--strict", "job.py", "--exit", expected=1)  # the place exists already
    assert "job.py:8:1: " in done.stderr
