"""Group-bys that DuckDB finds in the sources' own files: only where it surely reads and compares what Spark does.

Every case was once a wrong pair: both ways must give what `stage` gives, which evaluates everything in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError, SourceError
from lineage_service.runs import lineage_indexing as settle
from tests.capture.test_capture import GROUPED, choice, flow, pairs

COUNTED = {"op": "aggregate", "measures": {"n": "count(*)"}}


def workflow(folder: Path, *steps: dict, sources: Mapping[str, dict]) -> Path:
    outputs = {step["name"]: {} for step in steps if step["name"].startswith("t")}
    body = {"version": 1, "name": "flow", "sources": dict(sources), "steps": list(steps), "outputs": outputs}
    path = folder / "flow.yml"
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


def found(
    home: Home, file: Path, capture: str, outputs: Iterable[str], sources: Iterable[str], conf=None
) -> dict[tuple[str, str], list]:
    """Per output and source, the members of each output row, by that row's values: its number may differ from run to
    run."""
    home.run(file, capture=capture, conf=conf or {})
    members = {}
    for output in outputs:
        rows = {row.pop("_rid"): tuple(row.values()) for row in home.rows(output).to_pylist()}
        for source in sources:
            members[output, source] = sorted((str(rows[out]), rid) for out, rid in pairs(home, source, output))
    return members


def same_as_staged(folder: Path, *steps: dict, sources: Mapping[str, dict], conf=None) -> dict[tuple[str, str], list]:
    """What `found` finds of the steps whose names begin with "t", the same however it is captured."""
    file = workflow(folder, *steps, sources=sources)
    outputs = [step["name"] for step in steps if step["name"].startswith("t")]
    with Home.open(folder / "home") as home:
        expected = found(home, file, "stage", outputs, sources, conf)
        for capture in ("defer", "auto", "lazy"):
            assert found(home, file, capture, outputs, sources, conf) == expected, capture
    return expected


def filtered_and_grouped(*wheres: str) -> list[dict]:
    """Steps that filter the source and group what is left, for each of the predicates."""
    filters = [{"name": f"f{n}", "op": "filter", "input": "a", "where": where} for n, where in enumerate(wheres)]
    return [*filters, *({**GROUPS, "name": f"t{n}", "input": f"f{n}"} for n in range(len(wheres)))]


def decimals(precision: int, scale: int, *values: str) -> pa.Array:
    return pa.array([Decimal(value) for value in values], pa.decimal128(precision, scale))


A = {"a": {"path": "a.parquet"}}
GROUPS = {**COUNTED, "name": "t", "input": "f", "by": ["k"]}


# --- decimals that no common type holds -----------------------------------------------------------------------------


def test_decimals_that_spark_rounds_before_it_compares(spark, tmp_path):
    table = pa.table({"k": [1, 1, 2, 2], "d": decimals(38, 0, "0", "1", "1", "2")})
    pq.write_table(table, tmp_path / "a.parquet")
    wheres = ("d > 0.5", "d IN (0.5, 2)", "d NOT IN (0.5, 2)", "d BETWEEN 0.5 AND 1")
    same_as_staged(tmp_path, *filtered_and_grouped(*wheres), sources=A)


def test_decimals_joined_with_whole_numbers(spark, tmp_path):
    table = pa.table({"k": [1, 2, 3], "d": decimals(30, 20, "1.00000000000000000001", "1", "2")})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(pa.table({"i": [1, 1, 2], "z": [1, 2, 3]}), tmp_path / "b.parquet")
    join = {"name": "f", "op": "join", "left": "a", "right": "b", "on": "d = i"}
    assert same_as_staged(tmp_path, join, GROUPS, sources={**A, "b": {"path": "b.parquet"}})["t", "b"]


# --- files that Spark reads as something else -----------------------------------------------------------------------

DAYS = pa.array([-141500, -141500, -140000, 0], pa.int32()).view(pa.date32())
LEGACY = "spark.sql.parquet.datetimeRebaseModeInRead"


@pytest.mark.parametrize("way", ["old writer", "old key", "option", "setting"])
def test_days_of_the_old_calendar(spark, tmp_path, way):
    written = {"old writer": {"org.apache.spark.version": "2.4.6"},
               "old key": {"org.apache.spark.version": "3.1.0", "org.apache.spark.legacyDateTime": ""}}  # fmt: skip
    table = pa.table({"x": [1, 2, 1, 2], "d": DAYS}).replace_schema_metadata(written.get(way))
    pq.write_table(table, tmp_path / "a.parquet")
    source = {"path": "a.parquet", **({"options": {"datetimeRebaseMode": "LEGACY"}} if way == "option" else {})}
    early = {"name": "f", "op": "filter", "input": "a", "where": "d < DATE '1582-08-01'"}
    try:
        conf = {LEGACY: "LEGACY"} if way == "setting" else None
        by_day, by_x = ({**GROUPS, "name": f"t_{by}", "by": [by]} for by in "dx")
        members = same_as_staged(tmp_path, early, by_day, by_x, sources={"a": source}, conf=conf)
        assert members["t_d", "a"] and members["t_x", "a"]
    finally:
        spark.conf.unset(LEGACY)


def test_binary_that_is_declared_as_text(spark, tmp_path):
    table = pa.table({"k": pa.array([rb"\x41", b"A", b"A", b"b", None], pa.binary())})
    pq.write_table(table, tmp_path / "a.parquet")
    source = {"a": {"path": "a.parquet", "schema": "k STRING"}}
    expected = same_as_staged(tmp_path, {**GROUPS, "input": "a"}, sources=source)
    assert len(expected["t", "a"]) == 5


def test_numbers_that_are_declared_wider_or_narrower(spark, tmp_path):
    pq.write_table(pa.table({"k": pa.array([1, 2, 2], pa.int32())}), tmp_path / "a.parquet")
    for kind, direct in (("BIGINT", True), ("INT", True), ("SMALLINT", False)):
        folder = tmp_path / kind
        folder.mkdir()
        source = {"a": {"path": str(tmp_path / "a.parquet"), "schema": f"k {kind}"}}
        same_as_staged(folder, {**GROUPS, "input": "a"}, sources=source)
        with Home.open(folder / "home") as home:
            reason = choice(home, home.run(folder / "flow.yml"))[1]
        assert ("indexed from the source's own files" in reason) is direct


def test_folders_that_are_declared_as_decimals(spark, tmp_path):
    for folder, x in (("k=1.25", 1), ("k=1.2", 2)):
        (tmp_path / "a" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"x": pa.array([x, x], pa.int32())}), tmp_path / "a" / folder / "p.parquet")
    source = {"a": {"path": "a", "schema": "x INT, k DECIMAL(10,2)"}}
    assert len(same_as_staged(tmp_path, {**GROUPS, "input": "a"}, sources=source)["t", "a"]) == 4


# --- what else there was --------------------------------------------------------------------------------------------


def test_days_that_python_does_not_have(spark, tmp_path):
    days = (
        "DATE '2020-01-01' + INTERVAL 9999 YEARS",
        "DATE '1000-01-01' - INTERVAL 1000 YEARS",
        "DATE '2020-01-01' + INTERVAL 99999 MONTHS",
        "DATE '1000-01-01' - INTERVAL '99999' DAYS - INTERVAL 99999 DAYS - INTERVAL 99999 DAYS - INTERVAL 99999 DAYS",
    )
    pq.write_table(pa.table({"k": [1, 2], "d": [date(2020, 1, 1), date(1999, 1, 1)]}), tmp_path / "a.parquet")
    same_as_staged(tmp_path, *filtered_and_grouped(*(f"d < {day}" for day in days)), sources=A)


def test_lazy_says_so_where_any_of_its_sources_has_changed(spark, tmp_path):
    """Also of a join, asked for the source that has not."""
    for name in "ab":
        pq.write_table(pa.table({"k": [1, 2, 2], name: [1, 2, 3]}), tmp_path / f"{name}.parquet")
    join = {"name": "f", "op": "join", "left": "a", "right": "b", "using": ["k"]}
    sources = {name: {"path": f"{name}.parquet"} for name in "ab"}
    with Home.open(tmp_path / "home") as home:
        home.run(workflow(tmp_path, join, GROUPS, sources=sources), capture="lazy")
        assert len(pairs(home, "b")) == 3
        pq.write_table(pa.table({"k": [2, 1, 1], "a": [1, 2, 3]}), tmp_path / "a.parquet")
        for ask in (lambda: pairs(home, "b"), lambda: home.forward("b", to="t", rid=[0], rids=True).arrow()):
            with pytest.raises(SourceError, match="source 'a' has changed since"):
                ask()


def test_settings_of_the_run_are_those_of_reading_again(spark, tmp_path):
    """A moment is another day elsewhere: what is read again later is read as the run read it."""
    hours = [0, 8, 14, 15, 16, 22, 23]
    moments = pa.array([1577836800_000000 + hour * 3600_000000 for hour in hours], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": moments, "v": list(range(7))}), tmp_path / "a.parquet")
    early = {"name": "f", "op": "filter", "input": "a", "where": "ts < TIMESTAMP '2020-01-02 00:00:00'"}
    groups = {**GROUPS, "by": {"odd": "v % 2"}}
    zone, before = "spark.sql.session.timeZone", spark.conf.get("spark.sql.session.timeZone")
    try:
        with Home.open(tmp_path / "home") as home:
            home.run(workflow(tmp_path, early, groups, sources=A), capture="lazy", conf={zone: "Asia/Tokyo"})
            spark.conf.set(zone, "UTC")
            assert sorted(rid for _, rid in pairs(home)) == [0, 1, 2]
            assert spark.conf.get(zone) == "UTC"
    finally:
        spark.conf.set(zone, before)


def test_what_is_too_large_for_duckdb_is_found_by_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(settle, "MOST_FOR_DUCKDB", 10)
    with Home.open(tmp_path / "home") as home:
        report = home.run(flow(tmp_path, [GROUPED]))
        assert report.warnings == ()
        assert len(pairs(home)) == 30


def test_a_text_that_is_none_is_told_as_that(spark, tmp_path):
    texts = pa.array([b"good", b"\xff\xfe bad", b"good"], pa.binary()).view(pa.utf8())
    pq.write_table(pa.table({"k": texts}), tmp_path / "a.parquet", write_statistics=False)
    with Home.open(tmp_path / "home") as home:
        home.run(workflow(tmp_path, {**GROUPS, "input": "a"}, sources=A))
        with pytest.raises(QuestionError, match="no valid UTF-8"):
            home.rows("t").arrow()
