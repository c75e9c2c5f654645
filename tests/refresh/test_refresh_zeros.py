"""-0.0 is another value than 0.0 wherever a refresh compares rows, nested ones too; one NaN is the same as another."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.query.query_engine import QueryEngine
from lineage_service.refresh.row_replacement import COPY, number_equal_rows, same_values
from lineage_service.store.versions import VersionColumn

TYPES = {
    "double": "DOUBLE",
    "float": "FLOAT",
    "array<double>": "DOUBLE[]",
    "struct<a:double,b:string>": "STRUCT(a DOUBLE, b VARCHAR)",
    "map<string,float>": "MAP(VARCHAR, FLOAT)",
    "array<struct<x:array<double>>>": "STRUCT(x DOUBLE[])[]",
}
VALUES = {
    "double": "{}",
    "float": "{}",
    "array<double>": "[1, {}, NULL]",
    "struct<a:double,b:string>": "{{'a': {}, 'b': '-nan'}}",
    "map<string,float>": "MAP {{'k': {}}}",
    "array<struct<x:array<double>>>": "[{{'x': [{}]}}]",
}
ZERO, MINUS_ZERO, NAN, MINUS_NAN = "0e0", "-0e0", "'nan'::DOUBLE", "-('nan'::DOUBLE)"


@pytest.fixture
def engine(tmp_path):
    made = QueryEngine(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("kind", TYPES)
def test_which_values_are_the_same(engine, kind):
    columns = [VersionColumn("v", kind, "v")]

    def is_same(one: str | None, other: str | None) -> bool:
        sides = [
            f"(SELECT {'NULL' if each is None else VALUES[kind].format(each)}::{TYPES[kind]} AS v) {name}"
            for each, name in ((one, "o"), (other, "n"))
        ]
        return bool(engine.scalar(f"SELECT {same_values(columns, 'o', 'n')} FROM {sides[0]}, {sides[1]}"))

    assert is_same(ZERO, ZERO) and is_same(MINUS_ZERO, MINUS_ZERO) and is_same(None, None) and is_same("1.5", "1.5")
    assert is_same(NAN, NAN) and is_same(NAN, MINUS_NAN)
    assert not is_same(ZERO, MINUS_ZERO) and not is_same(MINUS_ZERO, ZERO)
    assert not is_same(ZERO, None) and not is_same(None, MINUS_ZERO) and not is_same("1.5", "-1.5")


def test_rows_with_unlike_zeros_are_numbered_apart(engine):
    columns = [VersionColumn("v", "double", "v")]
    rows = f"SELECT * FROM (VALUES ({ZERO}, 0), ({MINUS_ZERO}, 1), ({ZERO}, 2)) t(v, _rid)"
    found = engine.rows(f"SELECT _rid, {COPY} FROM ({number_equal_rows(rows, columns)}) ORDER BY 1")
    assert [tuple(row) for row in found] == [(0, 1), (1, 1), (2, 2)]


def write_rows(zeros: list[float]) -> None:
    table = {
        "id": list(range(len(zeros))),
        "f": zeros,
        "st": pa.array([{"a": value, "xs": [value]} for value in zeros]),
    }
    pq.write_table(pa.table(table), "s.parquet")


BELOW = """
version: 1
name: below
sources: {s: {path: s.parquet}}
steps: [{name: o, op: aggregate, input: s, by: [id], measures: {f: min(f), st: min(st)}}]
outputs: {o: }
"""
ABOVE = """
version: 1
name: above
sources: {o: {output: below.o}}
steps:
  - {name: shown, op: project, input: o, columns: {id: id, f: f, t: cast(f as string), j: to_json(st), st: st}}
  - {name: groups, op: aggregate, input: o, by: [f], measures: {n: count(*), least: min(id)}}
outputs: {shown: , groups: }
"""


def shown(home: Home) -> list[tuple]:
    rows = sorted(home.rows("shown").to_pylist(), key=lambda row: row["id"])
    return [(row["id"], str(row["f"]), row["t"], row["j"], str(row["st"])) for row in rows]


def grouped(home: Home) -> list[tuple]:
    rows = sorted(home.rows("groups").to_pylist(), key=lambda row: row["least"])
    return [(str(row["f"]), row["n"], row["least"]) for row in rows]


def test_a_sign_of_zero_reaches_the_readers_of_an_output(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below.yml").write_text(BELOW, encoding="utf-8")
    (tmp_path / "above.yml").write_text(ABOVE, encoding="utf-8")
    write_rows([0.0, 0.0, math.nan, 1.0])
    with Home.open(tmp_path / "home") as home:
        home.run("below.yml")
        home.run("above.yml")
        assert shown(home)[0][1:3] == ("0.0", "0.0")
        home.refresh("below.s", changed=[{"_rid": 0, "f": -0.0}])
        report = home.refresh("above.o")
        assert report.sources == {"o": {"removed": 0, "changed": 1, "added": 0}}
        assert shown(home)[0][1:3] == ("-0.0", "-0.0")
        home.refresh("below.s", changed=[{"_rid": 1, "st": {"a": -0.0, "xs": [-0.0]}}])
        assert home.refresh("above.o").sources == {"o": {"removed": 0, "changed": 1, "added": 0}}
        refreshed, groups = shown(home), grouped(home)
        home.run("above.yml")
        assert (shown(home), grouped(home)) == (refreshed, groups), "as a full run gives it"
        assert groups == [("0.0", 2, 0), ("nan", 1, 2), ("1.0", 1, 3)], "0.0 and -0.0 are one group"
