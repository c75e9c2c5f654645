"""What values look like in each format, and how answers of several parts are put together."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lineage_service.render.column_text import json_text, plain_text
from tests.cli.conftest import Call
from tests.cli.fakes import FakeAnswer, FakePart, answer
from tests.support.work import calls_of

VIENNA = "Europe/Vienna"
NOON = int(dt.datetime(2020, 7, 1, 12, tzinfo=dt.UTC).timestamp())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([2**53, -(2**53), None]), [2**53, -(2**53), None]),
        (pa.array([2**53 + 1, -(2**53) - 1, 5, None]), ["9007199254740993", "-9007199254740993", 5, None]),
        (pa.array([2**64 - 1, 0], pa.uint64()), ["18446744073709551615", 0]),
        (pa.array([Decimal("1.50"), Decimal("0"), None], pa.decimal128(38, 2)), ["1.50", "0.00", None]),
        (pa.array([Decimal("0"), Decimal("1e-10")], pa.decimal128(38, 10)), ["0.0000000000", "0.0000000001"]),
        (
            pa.array([float("nan"), float("inf"), float("-inf"), -0.0, 1e300, 0.1, None]),
            ["NaN", "Infinity", "-Infinity", -0.0, 1e300, 0.1, None],
        ),
        (pa.array([0.1, 16777216.0], pa.float32()), [0.1, 16777216.0]),
        (pa.array([True, False, None]), [True, False, None]),
        (pa.array([dt.date(2020, 2, 29), None]), ["2020-02-29", None]),
        (pa.array([NOON], pa.timestamp("s")), ["2020-07-01T12:00:00"]),
        (pa.array([NOON * 10**6 + 5], pa.timestamp("us")), ["2020-07-01T12:00:00.000005"]),
        (pa.array([NOON * 10**9 + 1, None], pa.timestamp("ns")), ["2020-07-01T12:00:00.000000001", None]),
        (pa.array([NOON * 10**6], pa.timestamp("us", VIENNA)), ["2020-07-01T12:00:00+00:00"]),
        (pa.array([-1], pa.timestamp("us", "UTC")), ["1969-12-31T23:59:59.999999+00:00"]),
        (pa.array([dt.time(12, 30), dt.time(1, 2, 3, 400)]), ["12:30:00", "01:02:03.000400"]),
        (pa.array([1500], pa.duration("ms")), ["PT1.5S"]),
        (pa.array([pa.MonthDayNano([1, 2, 0]), pa.MonthDayNano([0, 0, 0])]), ["P1M2D", "PT0S"]),
        (pa.array([b"\x00\xff", b"", None]), ["AP8=", "", None]),
        (pa.array(['say "hi"\n\\ \x01 ü €', "", None]), ['say "hi"\n\\ \x01 ü €', "", None]),
        (pa.array(["plain ü", None], pa.string_view()), ["plain ü", None]),
        (pa.array(["a", "b", None]).dictionary_encode(), ["a", "b", None]),
        (pa.nulls(2), [None, None]),
        (pa.array([[1, None], [], None, [2**60]]), [[1, None], [], None, ["1152921504606846976"]]),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), [[1, 2], None]),
        (pa.array([{"a": 1, "b": {"c": b"x"}}, None]), [{"a": 1, "b": {"c": "eA=="}}, None]),
        (
            pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
            [{"k": 1.5}, None, {}],
        ),
        (
            pa.array([[(1, Decimal("2.5"))], None], pa.map_(pa.int64(), pa.decimal128(5, 1))),
            [[{"key": 1, "value": "2.5"}], None],
        ),
        (pa.array([[dt.datetime(2020, 1, 1)]], pa.list_(pa.timestamp("ns"))), [["2020-01-01T00:00:00"]]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_json_values(column: pa.Array, expected: list[Any]) -> None:
    assert [json.loads(text) for text in json_text(column).to_pylist()] == expected
    # A slice sees its own values only: offsets into shared memory are a classic trap.
    assert [json.loads(text) for text in json_text(column.slice(1)).to_pylist()] == expected[1:]
    assert [text is None for text in plain_text(column).to_pylist()] == [value is None for value in expected]


def test_uuid_extension() -> None:
    column = pa.array([bytes(range(16))], pa.binary(16)).cast(pa.uuid())
    assert json_text(column).to_pylist() == ['"00010203-0405-0607-0809-0a0b0c0d0e0f"']


def test_json_is_one_array(call: Call) -> None:
    rows = answer({"_rid": [0, 1, 2], "na%me": ["a", None, '"']}, batch_size=2)
    result = call("rows totals --json", rows)
    assert result.code == 0
    assert result.json == [{"_rid": 0, "na%me": "a"}, {"_rid": 1, "na%me": None}, {"_rid": 2, "na%me": '"'}]
    assert result.err == ""


def test_json_of_nothing_is_an_empty_array(call: Call) -> None:
    assert call("rows totals --json", answer({"_rid": pa.array([], pa.int64())})).out == "[]\n"
    assert call("rows totals --json", FakeAnswer([])).out == "[]\n"


def test_ndjson(call: Call) -> None:
    result = call("rows totals --format ndjson", answer({"_rid": [0, 1], "x": [1.0, None]}, batch_size=1))
    assert result.out == '{"_rid": 0, "x": 1.0}\n{"_rid": 1, "x": null}\n'


def test_csv_quotes_what_needs_it(call: Call) -> None:
    values = ['a,"b"', "two\nlines", "", None, " lead", "plain"]
    table = {"_rid": list(range(6)), "a,b": values, "tags": [["x", "y"], [], None, [], [], []]}
    result = call("rows totals --format csv", answer(table))
    assert result.out.splitlines()[0] == '_rid,"a,b",tags'
    assert '2,"",\n3,,[]\n' in result.out  # an empty string and a null stay apart
    read = list(csv.reader(io.StringIO(result.out)))
    assert [row[1] for row in read[1:]] == [value or "" for value in values]
    assert read[1][2] == '["x", "y"]'


def test_csv_of_one_column_has_no_empty_lines(call: Call) -> None:
    assert call("rows t --format csv --columns a", answer({"a": ["x", None, ""]})).out == 'a\nx\n""\n""\n'


def test_csv_numbers_are_plain(call: Call) -> None:
    table = {"big": [2**60], "d": pa.array([Decimal("1.20")]), "f": [float("nan")], "t": [dt.date(2020, 1, 2)]}
    assert call("rows t --format csv", answer(table)).out == "big,d,f,t\n1152921504606846976,1.20,NaN,2020-01-02\n"


def test_parquet_keeps_types(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    table = {"_rid": [0, 1], "d": pa.array([Decimal("1.20"), None]), "l": [[1], None]}
    result = call(["rows", "t", "--out", str(file)], answer(table, batch_size=1))
    assert (result.code, result.out) == (0, "")
    assert "wrote 2 rows" in result.err
    assert pq.read_table(file).equals(pa.table(table))


def test_parquet_of_nothing_has_its_columns(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    assert call(["rows", "t", "--out", str(file)], answer({"_rid": pa.array([], pa.int64())})).code == 0
    assert pq.read_table(file).num_rows == 0
    assert pq.read_schema(file).names == ["_rid"]


def test_parquet_refuses_clearly(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    result = call(["rows", "t", "--out", str(file)], answer({"i": pa.array([[pa.MonthDayNano([1, 2, 3])]])}))
    assert result.code == 1
    assert "formats that can: table, json, ndjson, csv" in result.err
    assert list(tmp_path.iterdir()) == []


def two_parts(**columns: Any) -> FakeAnswer:
    first = FakePart(pa.table({"_rid": [1, 2], "a": ["x", "y"]}), dataset="orders")
    second = FakePart(pa.table(columns or {"_rid": [7], "a": ["z"]}), dataset="lineitem")
    return FakeAnswer([first, second])


def test_several_datasets_of_like_columns(call: Call, tmp_path: Path) -> None:
    question = "backward totals --all --to orders --to lineitem"
    expected = [("orders", 1, "x"), ("orders", 2, "y"), ("lineitem", 7, "z")]
    objects = [{"dataset": d, "_rid": r, "a": a} for d, r, a in expected]
    assert call(f"{question} --json", two_parts()).json == objects
    lines = call(f"{question} --format ndjson", two_parts()).out.splitlines()
    assert [json.loads(line) for line in lines] == objects
    assert call(f"{question} --format csv", two_parts()).out == "dataset,_rid,a\norders,1,x\norders,2,y\nlineitem,7,z\n"
    table = call(question, two_parts()).out.splitlines()
    assert [line.split() for line in table if "-" not in line] == [
        ["dataset", "_rid", "a"],
        ["orders", "1", "x"],
        ["orders", "2", "y"],
        ["lineitem", "7", "z"],
    ]
    file = tmp_path / "x.parquet"
    assert call([*question.split(), "--out", str(file)], two_parts()).code == 0
    assert pq.read_table(file).to_pylist() == objects


def test_several_datasets_of_unlike_columns(call: Call, tmp_path: Path) -> None:
    question = "backward totals --all --to all"
    unlike = {"_rid": [7], "b": [1.5], "dataset": ["mine"]}
    objects = call(f"{question} --json", two_parts(**unlike)).json
    assert objects[2] == {"dataset": "lineitem", "_rid": 7, "b": 1.5, "dataset_1": "mine"}
    table = call(question, two_parts(**unlike)).out
    assert table.count("dataset  ") == 2
    for format_ in ("csv", "ndjson", "parquet"):
        result = call([*question.split(), "--format", format_, "--out", str(tmp_path / "x")], two_parts(**unlike))
        assert result.code == 1
        assert "formats that can: table, json" in result.err
        assert result.out == ""
    assert list(tmp_path.iterdir()) == []


def test_count_is_one_object_or_just_the_number(call: Call) -> None:
    question = "backward totals --all --to orders --count"
    assert call(f"{question} --json", answer({"count": [42]}, "count")).json == {"count": 42}
    absent = answer({"count": [0]}, "count", absence=["orders"], notes=["orders influences by absence only"])
    result = call(f"{question} --json", absent)
    assert result.json == {"count": 0, "absence": ["orders"]}
    assert result.err == "note: orders influences by absence only\n"
    assert call(f"{question} --format ndjson", answer({"count": [42]}, "count")).out == '{"count": 42}\n'
    assert call(question, answer({"count": [42]}, "count")).out == "42\n"
    assert call(f"{question} --format csv", answer({"count": [42]}, "count")).out == "count\n42\n"


def test_counts_of_several_datasets(call: Call) -> None:
    def counts() -> FakeAnswer:
        return answer({"dataset": ["orders", "banned"], "rows": [3, 0]}, "counts", absence=["banned"])

    assert call("backward totals --all --json", counts()).json == [
        {"dataset": "orders", "rows": 3},
        {"dataset": "banned", "rows": 0, "absence": ["banned"]},
    ]
    assert [line.split() for line in call("backward totals --all", counts()).out.splitlines()][2:] == [
        ["orders", "3"],
        ["banned", "0"],
    ]


def test_a_count_for_each_of_several_datasets(call: Call) -> None:
    parts = [FakePart(pa.table({"count": [n]}), dataset=name) for name, n in (("flow.orders", 3), ("flow.banned", 0))]
    question = "backward totals --all --to all --count"
    assert call(f"{question} --json", FakeAnswer(parts, "count", absence=["banned"])).json == [
        {"dataset": "flow.orders", "count": 3},
        {"dataset": "flow.banned", "count": 0, "absence": ["flow.banned"]},
    ]
    assert call(f"{question} --format csv", FakeAnswer(parts, "count")).out.splitlines()[1:] == [
        "flow.orders,3",
        "flow.banned,0",
    ]


@pytest.mark.parametrize("format_", ["csv", "ndjson", "json"])
def test_pairs_are_written_by_the_batch(call: Call, format_: str, tmp_path: Path) -> None:
    """Nothing is done in Python for each of them; how fast that is, `python -m benchmarks commands` tells."""
    n = 100_000
    rids = pa.array(range(n))
    pairs = FakeAnswer([FakePart(pa.table({"out_rid": rids, "rid": pc.multiply(rids, 3)}), batch_size=10_000)], "pairs")
    file = tmp_path / "pairs"
    command = ["backward", "t", "--all", "--to", "s", "--pairs", "--format", format_, "--out", str(file)]
    assert call(command, FakeAnswer([FakePart(pa.table({"out_rid": [0], "rid": [0]}))], "pairs")).code == 0
    calls_of(lambda: call(command, pairs), most=n // 10)
    last = file.read_text().rstrip("\n]").splitlines()[-1]
    assert last == ("99999,299997" if format_ == "csv" else '{"out_rid": 99999, "rid": 299997}')
