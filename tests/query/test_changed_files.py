"""One of many files of a source has changed since the run, one is gone, one came: questions are answered from the
others, and what needs rows of those two says which file it is."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from lineage_cli.main import cli, main

from lineage_service import Home
from lineage_service.errors import SourceError

CARRIERS = ["AA", "BB", "CC"]
FLOW = """
version: 1
name: air
sources: {flights: {path: flights}}
steps:
  - {name: flown, op: filter, input: flights, where: NOT cancelled}
  - {name: late, op: filter, input: flown, where: delay >= 60}
  - {name: monthly, op: aggregate, input: flown, by: [month], measures: {n: count(*), delay: avg(delay)}}
  - {name: carriers, op: aggregate, input: flown, by: [carrier], measures: {n: count(*)}, having: n > 20}
outputs: {late: , monthly: , carriers: }
"""
# Each month has ten flights: 0 to 9 of January, 10 to 19 of February and so on.
CHANGED, GONE = 7, 11


def month(number: int) -> pa.Table:
    flights = range((number - 1) * 10, number * 10)
    return pa.table(
        {
            "flight": pa.array(flights, pa.int64()),
            "carrier": [CARRIERS[each % 3] for each in flights],
            "delay": [float(each % 10 * 10) for each in flights],
            "cancelled": [each % 10 == 4 for each in flights],
        }
    )


def write(folder, number: int, table: pa.Table | None = None) -> None:
    path = folder / "flights" / f"month={number:02d}"
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(month(number) if table is None else table, path / "part.parquet")


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("air")
    for number in range(1, 13):
        write(folder, number)
    (folder / "air.yml").write_text(FLOW)
    with Home.open(folder / "home") as opened:
        opened.run(folder / "air.yml")
        before = {
            month: opened.backward("monthly", key={"month": month}, to="flights").to_pylist() for month in range(1, 13)
        }
        before["AA"] = opened.backward("carriers", key={"carrier": "AA"}, to="flights").to_pylist()
    write(folder, CHANGED, month(CHANGED).slice(0, 3))
    shutil.rmtree(folder / "flights" / f"month={GONE:02d}")
    write(folder, 13)
    with Home.open(folder / "home") as opened:
        opened.expected = before
        yield opened


@pytest.mark.parametrize("number", range(1, 13))
def test_rows_of_files_that_are_unchanged(home, number):
    if number in (CHANGED, GONE):
        happened = "has changed since" if number == CHANGED else "is no longer where it was in"
        told = rf"'air.flights' {happened} run '\w+': file '.*month={number:02d}/part.parquet', with 9 of the 9 rows"
        with pytest.raises(SourceError, match=told):
            home.backward("monthly", key={"month": number}, to="flights")
        assert home.backward("monthly", key={"month": number}, to="flights", count=True).count() == 9
        assert len(home.backward("monthly", key={"month": number}, to="flights", pairs=True).to_pylist()) == 9
    else:
        assert home.backward("monthly", key={"month": number}, to="flights").to_pylist() == home.expected[number]


def test_an_answer_that_needs_both(home):
    with pytest.raises(
        SourceError, match=r"files '.*month=07/part.parquet', '.*month=11/part.parquet', with 7 of the 36"
    ):
        home.backward("carriers", key={"carrier": "AA"}, to="flights")
    found = home.backward("carriers", key={"carrier": "AA"}, to="flights", unchanged=True)
    assert found.to_pylist() == [row for row in home.expected["AA"] if row["month"] not in (CHANGED, GONE)]
    assert found.notes[0].startswith("7 rows are not shown: source 'air.flights' has changed since run")
    first = home.backward("carriers", key={"carrier": "AA"}, to="flights", limit=5)
    assert first.to_pylist() == home.expected["AA"][:5]
    assert first.parts[0].remaining == len(home.expected["AA"]) - 5
    with pytest.raises(SourceError, match="month=07"):
        home.backward("carriers", key={"carrier": "AA"}, to="flights", order_by="flight desc", limit=1)


def test_rows_of_the_source_itself(home):
    assert [row["flight"] for row in home.rows("flights", limit=3).to_pylist()] == [0, 1, 2]
    assert [row["flight"] for row in home.rows("flights", rid=[119, 0]).to_pylist()] == [0, 119]
    assert home.rows("flights", unchanged=True).arrow().num_rows == 100
    for where in ("month = 3", "month IN (3, 4) AND month < 4 AND delay >= 0"):
        assert [row["flight"] for row in home.rows("flights", where=where).to_pylist()] == list(range(20, 30))
    assert home.forward("flights", key={"month": 3}, to="monthly").to_pylist()[0]["month"] == 3
    for start in ({"where": "delay > 50"}, {"where": "month >= 3"}, {"rid": [1, 65], "where": "delay >= 0"}, {}):
        with pytest.raises(SourceError, match="month=07"):
            home.rows("flights", **start)
    assert home.rows("flights", rid=[1, 11], where="delay >= 0").arrow().num_rows == 2
    assert home.forward("flights", rid=65, to="monthly", rids=True).arrow().num_rows == 1


def test_trace_query_and_diff_need_what_they_show(home):
    rid = next(row["_rid"] for row in home.rows("monthly").to_pylist() if row["month"] == 2)
    shown = home.trace("monthly", rid=rid).behind[0]
    assert [row.values["flight"] for row in shown.rows] == [10, 11, 12][: len(shown.rows)]
    assert shown.unreadable is None
    carrier = next(row["_rid"] for row in home.rows("carriers").to_pylist() if row["carrier"] == "AA")
    shown = home.trace("carriers", rid=carrier, rows=100).behind[0]
    assert len(shown.rows) == len(home.expected["AA"]) - 7
    assert "has changed since" in shown.unreadable
    query = "SELECT sum(flight) AS n FROM backward('monthly', 'flights', 'month = {}')"
    assert home.query(query.format(2)).to_pylist()[0]["n"] == sum(each for each in range(10, 20) if each != 14)
    with pytest.raises(SourceError, match="month=07"):
        home.query(query.format(7))
    with pytest.raises(SourceError, match="month=07"):
        home.query("SELECT count(*) FROM flights")


def test_why_not_of_rows_in_files_that_are_unchanged(home):
    found = home.why_not("flights", to="carriers", rid=[3, 14], rids=True)
    assert (found.reached, found.lost) == (1, 1)
    assert found.to_json()["rows"] == [{"rid": 14, "step": "flown", "reason": "NOT cancelled is false"}]
    found = home.why_not("flights", to="late", where="month = 2", rids=True)
    lost = {row["rid"]: row["step"] for row in found.to_json()["rows"]}
    assert lost == {**dict.fromkeys(range(10, 16), "late"), 14: "flown"}
    with pytest.raises(SourceError, match=r"month=07/part.parquet', '.*', with 2 of the 3 rows asked for"):
        home.why_not("flights", to="late", rid=[14, 64, 104])
    assert home.why_not("flights", to="late", rid=[69, 109]).reached == 2, "the index knows"


def test_the_command_says_what_it_leaves_out(home, capsys):
    words = ["backward", "carriers", "--key", "carrier=AA", "--to", "flights", "--home", str(home.layout.path)]
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "month=07" in said
    assert "--unchanged" in said
    result = CliRunner().invoke(cli, [*words, "--unchanged", "--json"])
    assert (result.exit_code, len(json.loads(result.stdout))) == (0, len(home.expected["AA"]) - 7)
    assert "7 rows are not shown" in result.stderr
