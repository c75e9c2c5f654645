"""Stored intervals as Spark prints them, and as DuckDB computes with them."""

import duckdb
import pytest

from lineage_service.equivalence.intervals import duckdb_interval, has_intervals, printed_interval

DAY = 86_400_000_000
# As CAST(… AS STRING) of Spark 4.3 gives them; tests/end_to_end/test_interval_columns.py compares some with a run.
PRINTED = [
    ("interval day to second", DAY + 7_384_500_000, "'1 02:03:04.5' DAY TO SECOND"),
    ("interval day to second", 61_500_000, "'0 00:01:01.5' DAY TO SECOND"),
    ("interval day to second", 2**63 - 1, "'106751991 04:00:54.775807' DAY TO SECOND"),
    ("interval day to second", -(2**63), "'-106751991 04:00:54.775808' DAY TO SECOND"),
    ("interval second", -61_500_000, "'-61.5' SECOND"),
    ("interval second", 0, "'00' SECOND"),
    ("interval second", 5_000_100, "'05.0001' SECOND"),
    ("interval day", 3 * DAY, "'3' DAY"),
    ("interval hour", 3 * DAY // 24, "'03' HOUR"),
    ("interval hour", 100 * DAY // 24, "'100' HOUR"),
    ("interval minute", 180_000_000, "'03' MINUTE"),
    ("interval day to hour", -26 * DAY // 24, "'-1 02' DAY TO HOUR"),
    ("interval day to minute", DAY + 7_380_000_000, "'1 02:03' DAY TO MINUTE"),
    ("interval hour to minute", -7_380_000_000, "'-02:03' HOUR TO MINUTE"),
    ("interval hour to second", 7_384_000_001, "'02:03:04.000001' HOUR TO SECOND"),
    ("interval minute to second", -184_000_000, "'-03:04' MINUTE TO SECOND"),
    ("interval year to month", 14, "'1-2' YEAR TO MONTH"),
    ("interval year to month", -1, "'-0-1' YEAR TO MONTH"),
    ("interval year to month", -(2**31), "'-178956970-8' YEAR TO MONTH"),
    ("interval year", -12, "'-1' YEAR"),
    ("interval month", 0, "'0' MONTH"),
]


@pytest.mark.parametrize(("kind", "stored", "text"), PRINTED)
def test_intervals_are_printed_as_by_spark(kind, stored, text):
    with duckdb.connect() as connection:
        size = "INTEGER" if "month" in kind or "year" in kind else "BIGINT"
        connection.execute(f"CREATE TABLE t AS SELECT CAST(? AS {size}) AS v UNION ALL SELECT NULL", [stored])
        rows = connection.execute(f"SELECT {printed_interval('v', kind)} FROM t").fetchall()
    assert rows == [(f"INTERVAL {text}",), (None,)]


def test_nested_intervals_are_printed_where_they_are():
    kind = "struct<a:array<interval month>,m:map<string,struct<d:interval day,n:int>>,s:string>"
    value = f"{{'a': [14, NULL], 'm': MAP {{'x': {{'d': {DAY}, 'n': 1}}}}, 's': 'interval'}}"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT {value} AS v UNION ALL SELECT NULL")
        (row,), nothing = connection.execute(f"SELECT {printed_interval('v', kind)} FROM t").fetchall()
    assert row == {"a": ["INTERVAL '14' MONTH", None], "m": {"x": {"d": "INTERVAL '1' DAY", "n": 1}}, "s": "interval"}
    assert nothing == (None,)


def test_computed_intervals_are_of_the_same_size():
    seconds, months = duckdb_interval("v", "interval day to second"), duckdb_interval("v", "interval year")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT unnest([-90061500000, 0, 9223372036854775807]) AS v")
        text = f"SELECT {seconds} < INTERVAL '1 day', epoch_us({seconds}) FROM t WHERE v < {2**60}"
        assert connection.execute(text).fetchall() == [(True, -90_061_500_000), (True, 0)]
        assert connection.execute(f"SELECT count(*) FROM t WHERE {seconds} > INTERVAL '106751991 days'").fetchall() == [
            (1,)
        ]
        connection.execute("SELECT v FROM (SELECT CAST(14 AS INTEGER) AS v)")
        text = f"SELECT {months} = INTERVAL '1 year 2 months' FROM (SELECT CAST(14 AS INTEGER) AS v)"
        assert connection.execute(text).fetchall() == [(True,)]


def test_other_types_are_left_alone():
    for kind in ("bigint", "string", "struct<interval:int>", "array<int>", "map<string,bigint>"):
        assert not has_intervals(kind)
        assert printed_interval("v", kind) is None
