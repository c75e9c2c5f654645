"""Columns of interval types through the verbs: shown as Spark prints them, asked for as intervals, kept as they are."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError, WorkflowError
from lineage_service.render.json.diff_document import diff_document
from lineage_service.render.json.documents import trace_document
from lineage_service.render.rows.csv_rows import csv_rows
from lineage_service.render.rows.json_rows import json_rows
from lineage_service.render.rows.parquet_rows import write_parquet

FLOW = """
version: 1
name: flow
sources: {s: {path: s.parquet}}
steps:
  - name: waits
    op: sql
    query: |
      SELECT id, c, make_dt_interval(0, 0, 0, sec) AS d, CAST(make_ym_interval(1, n) AS INTERVAL YEAR TO MONTH) AS ym,
             CAST(make_dt_interval(id) AS INTERVAL DAY) AS days, array(make_dt_interval(0, 0, n)) AS ds,
             named_struct('m', map('k', make_ym_interval(0, n))) AS st
      FROM s
  - {name: longest, op: aggregate, input: waits, by: [c], measures: {d: max(d), n: count(*)}}
  - {name: by_wait, op: aggregate, input: waits, by: [d], measures: {n: count(*)}}
outputs: {waits: , longest: , by_wait: }
"""
ROWS = {"id": [1, 2, 3], "c": ["a", "a", "b"], "sec": pa.array([61.5, 5.0, -3.0]), "n": pa.array([2, 3, 0], pa.int32())}


def write_source(folder: Path, **changed) -> None:
    columns = dict(ROWS, **changed)
    columns["sec"] = pc_decimal(columns["sec"])
    pq.write_table(pa.table({**columns, "id": pa.array(columns["id"], pa.int32())}), folder / "s.parquet")


def pc_decimal(seconds) -> pa.Array:
    return pa.array(seconds).cast(pa.decimal128(18, 6), safe=False)


@pytest.fixture
def home(tmp_path, spark, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_source(tmp_path)
    (tmp_path / "flow.yml").write_text(FLOW)
    with Home.open(tmp_path / "home") as opened:
        opened.run("flow.yml")
        yield opened


D = [
    "INTERVAL '0 00:01:01.5' DAY TO SECOND",
    "INTERVAL '0 00:00:05' DAY TO SECOND",
    "INTERVAL '-0 00:00:03' DAY TO SECOND",
]
FIRST = {
    "_rid": 0, "id": 1, "c": "a", "d": D[0], "ym": "INTERVAL '1-2' YEAR TO MONTH", "days": "INTERVAL '1' DAY",
    "ds": ["INTERVAL '0 00:02:00' DAY TO SECOND"], "st": {"m": {"k": "INTERVAL '0-2' YEAR TO MONTH"}},
}  # fmt: skip


def test_rows_print_intervals_as_spark_does(home, spark, tmp_path):
    answer = home.rows("waits")
    assert json.loads(b"".join(json_rows(answer)))[0] == FIRST
    assert D[0] in b"".join(csv_rows(answer)).decode()
    with (tmp_path / "out.parquet").open("wb") as file:
        write_parquet(answer, file)
    assert pq.read_table(tmp_path / "out.parquet").column("d").to_pylist() == D
    stored = next((tmp_path / "home").glob("**/waits/*.parquet"))
    printed = spark.read.parquet(str(stored)).selectExpr(
        "CAST(d AS STRING)", "CAST(ym AS STRING)", "CAST(days AS STRING)"
    )
    mine = [(row["d"], row["ym"], row["days"]) for row in answer.to_pylist()]
    assert mine == [tuple(row) for row in printed.collect()]


def test_predicates_keys_and_orders_are_of_intervals(home):
    assert home.rows("waits", where="d > INTERVAL '10 seconds'").arrow()["id"].to_pylist() == [1]
    assert home.rows("waits", where="ym >= INTERVAL '1 year 3 months'").arrow()["id"].to_pylist() == [2]
    assert home.rows("waits", where="ds[1] = INTERVAL '3 minutes'").arrow()["id"].to_pylist() == [2]
    assert home.rows("waits", key={"d": D[2]}).arrow()["id"].to_pylist() == [3]
    assert home.rows("waits", order_by=["d"], limit=2).arrow()["id"].to_pylist() == [3, 2]
    with pytest.raises(QuestionError, match="is no interval day to second"):
        home.rows("waits", key={"d": "5 seconds"})


def test_lineage_of_groups_by_intervals(home):
    (row,) = home.rows("by_wait", key={"d": D[1]}).to_pylist()
    assert home.backward("by_wait", rid=row["_rid"], to="s").arrow()["id"].to_pylist() == [2]
    shown = home.backward("by_wait", rid=row["_rid"], to="waits").to_pylist()
    assert [each["d"] for each in shown] == [D[1]]
    assert home.forward("s", rid=1, to="by_wait").to_pylist() == [{"_rid": row["_rid"], "d": D[1], "n": 1}]
    top = home.backward("longest", key={"c": "a"}, to="waits", top=1, by="epoch(d)").to_pylist()
    assert top[0]["d"] == D[0]


def test_queries_compute_with_intervals(home, tmp_path):
    found = home.query("SELECT id, d + INTERVAL '1 minute' > INTERVAL '2 minutes' AS long FROM waits ORDER BY id")
    assert found.arrow()["long"].to_pylist() == [True, False, False]
    answer = home.query("SELECT d FROM waits ORDER BY id")
    assert json.loads(b"".join(json_rows(answer))) == [{"d": "PT61.5S"}, {"d": "PT5S"}, {"d": "PT-3S"}]
    with (tmp_path / "q.parquet").open("wb") as file:
        write_parquet(answer, file)
    assert pq.read_table(tmp_path / "q.parquet").column("d").to_pylist() == ["PT61.5S", "PT5S", "PT-3S"]


def test_traces_and_differences_print_intervals(home, tmp_path):
    assert D[0] in trace_document(home.trace("waits", rid=0))
    write_source(tmp_path, sec=[61.5, 7.0, -3.0])
    home.run("flow.yml")
    found = "".join(diff_document(home.diff("waits")))
    assert D[1] in found
    assert "INTERVAL '0 00:00:07' DAY TO SECOND" in found


def test_lost_rows_and_supposed_changes(home):
    assert home.why_not("s", to="longest", rid=1) is not None
    (change,) = home.what_if(without="s", rid=0, on="longest").to_pylist()
    assert (change["d_before"], change["d_after"]) == (D[0], D[1]) or (change["d_before"], change["d_after"]) == (
        D[1],
        D[0],
    )
    (change,) = home.what_if(without="s", rid=1, on="by_wait").to_pylist()
    assert change["d"] == D[1]


def test_a_refresh_keeps_intervals(home, tmp_path):
    write_source(tmp_path, sec=[61.5, 7.0, -3.0])
    home.refresh("flow")
    shown = [row["d"] for row in home.rows("waits").to_pylist()]
    assert sorted(shown) == sorted([D[0], "INTERVAL '0 00:00:07' DAY TO SECOND", D[2]])
    longest = {row["c"]: row["d"] for row in home.rows("longest").to_pylist()}
    assert longest == {"a": D[0], "b": D[2]}


WORKLOAD = """lineage:
  keep: [waits]
  workload:
    - {name: sorted, backward: longest, to: waits, parameters: [d]}
    - {name: long, backward: longest, to: waits, where: "d > INTERVAL '10' SECOND"}
"""


def test_prepared_answers_have_intervals_too(home, tmp_path):
    (tmp_path / "prepared.yml").write_text(FLOW.replace("name: flow", "name: prepared") + WORKLOAD)
    home.run("prepared.yml")
    rows = "workload('prepared.sorted', 'c = ''a''')"
    found = home.query(f"SELECT d FROM {rows} ORDER BY d")
    assert b"".join(json_rows(found)) == b'[\n{"d": "PT5S"},\n{"d": "PT61.5S"}\n]\n'
    above = home.query(f"SELECT id FROM {rows} WHERE d > INTERVAL '10 seconds'")
    assert above.to_pylist() == [{"id": 1}]
    found = home.query("SELECT d FROM workload('prepared.long', 'c = ''a''')")
    assert b"".join(json_rows(found)) == b'[\n{"d": "PT61.5S"}\n]\n'


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("TIME '01:02:03'", "Spark does not write a TIME"),
        ("array(TIME '01:02:03')", "Spark does not write a TIME"),
        ("parse_json('[1]')", "the parts of a VARIANT cannot be shown and compared"),
        ("make_interval(1)", "a calendar interval has no Parquet type"),
    ],
)
def test_types_that_cannot_be_kept_are_refused(home, tmp_path, expression, message):
    text = FLOW.partition("steps:")[0].replace("name: flow", "name: other")
    step = f'steps: [{{name: o, op: sql, query: "SELECT id, {expression} AS x FROM s"}}]\noutputs: {{o: }}\n'
    (tmp_path / "other.yml").write_text(text + step)
    with pytest.raises(WorkflowError, match=f"column 'x' cannot be written to Parquet: {message}"):
        home.run("other.yml")


def test_an_erasure_and_an_access_report_take_intervals(home, tmp_path):
    text = FLOW.replace("name: flow", "name: persons").replace("s.parquet", "s.parquet, subject: {person: id}")
    (tmp_path / "persons.yml").write_text(text)
    home.run("persons.yml")
    assert D[1] in json.dumps(home.audit.access("person=2").document, default=str)
    home.audit.plan_erasure("person=1", out=tmp_path / "plan.json")
    home.audit.apply(tmp_path / "plan.json", out=tmp_path / "certificate.json")
    assert [row["d"] for row in home.rows("persons.waits").to_pylist()] == D[1:]
    assert {row["c"]: row["d"] for row in home.rows("persons.longest").to_pylist()} == {"a": D[1], "b": D[2]}
