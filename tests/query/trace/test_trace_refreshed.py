"""Where rows of a source are from, after refreshes: the file and line that they were read from, or what is known."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_cli.trace_tree import trace_tree
from lineage_cli.tree_drawing import draw_tree

from lineage_service import Home
from lineage_service.store.row_places import GIVEN

FLOW = """
version: 1
name: flow
sources:
  parts: {path: parts}
  lines: {path: lines, format: csv, options: {header: true}, schema: "id INT, x DOUBLE"}
  days: {path: days}
steps:
  - {name: sums, op: aggregate, input: parts, by: [k], measures: {x: sum(x)}}
  - {name: big, op: filter, input: lines, where: x > 0}
  - {name: some, op: filter, input: days, where: x > 0}
outputs: {sums: , big: , some: }
"""


def write_lines(name: str, rows: list[tuple[int, float]]) -> None:
    Path("lines").mkdir(exist_ok=True)
    Path(f"lines/{name}").write_text("id,x\n" + "".join(f"{id},{x}\n" for id, x in rows))


def write_part(name: str, keys: list[str], values: list[float]) -> None:
    Path("parts").mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": keys, "x": values}), f"parts/{name}")


@pytest.fixture
def home(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_part("a.parquet", ["a", "b"], [1.0, 2.0])
    write_part("b.parquet", ["a", "c"], [3.0, 4.0])
    write_lines("one.csv", [(1, 1.5), (2, 2.5)])
    write_lines("two.csv", [(3, 3.5), (4, 4.5), (5, 5.5)])
    Path("days/day=1").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1, 2]}), "days/day=1/a.parquet")
    Path("flow.yml").write_text(FLOW)
    with Home.open(tmp_path / "home") as opened:
        opened.run("flow.yml")
        yield opened


def came_from(home: Home, dataset: str, rid: int) -> str:
    """What the text of a trace says of a source's row."""
    trace = home.trace(dataset, rid=rid)
    (line,) = [line for line in draw_tree(trace_tree(trace, None), None) if "came from" in line]
    place, shown = trace.record.place, json.loads(json.dumps(trace.record.to_json(), default=str))
    assert (place is None) == ("file" not in shown) and (trace.record.origin is None) == ("origin" not in shown)
    return line.partition("came from ")[2]


def rid_of(home: Home, dataset: str, **key: object) -> int:
    (row,) = [r for r in home.rows(dataset).to_pylist() if all(r[name] == value for name, value in key.items())]
    return row["_rid"]


def test_rows_of_files_that_are_read_in_place(home):
    assert came_from(home, "parts", 3) == "parts/b.parquet row 1"
    home.refresh("parts", removed=[0], changed=[{"_rid": 1, "x": 9.0}], added=[{"k": "d", "x": 7.0}])
    assert came_from(home, "parts", 3) == "parts/b.parquet row 1"
    assert came_from(home, "parts", 1) == GIVEN
    assert came_from(home, "parts", rid_of(home, "parts", k="d")) == GIVEN
    # A file comes, and one changes: its old rows are no longer in the latest run, and those of the other stand.
    write_part("c.parquet", ["e"], [5.0])
    home.refresh("parts")
    assert came_from(home, "parts", rid_of(home, "parts", k="e")) == "parts/c.parquet row 0"
    assert came_from(home, "parts", 3) == "parts/b.parquet row 1"
    earlier = home.runs().to_pylist()[1]["run_id"]
    write_part("b.parquet", ["c"], [8.0])
    assert came_from(home, f"parts@{earlier}", 3) == "parts/b.parquet row 1 (the file has changed since)"
    Path("parts/b.parquet").unlink()
    assert came_from(home, f"parts@{earlier}", 3) == "parts/b.parquet row 1 (the file is no longer there)"


def test_rows_of_copies_keep_the_lines_that_they_were_read_from(home):
    assert came_from(home, "lines", 3) == "lines/two.csv:3"
    home.refresh("lines", changed=[{"_rid": 0, "x": 9.0}])
    assert came_from(home, "lines", 0) == GIVEN
    assert (came_from(home, "lines", 1), came_from(home, "lines", 4)) == ("lines/one.csv:3", "lines/two.csv:4")
    write_lines("one.csv", [(7, 7.5), (2, 2.5), (8, 8.5)])
    home.refresh("lines")
    assert came_from(home, "lines", 1) == "lines/one.csv row 1 (the file has changed since)", "as it was read"
    assert came_from(home, "lines", 4) == "lines/two.csv:4"
    assert came_from(home, "lines", rid_of(home, "lines", id=7)) == "lines/one.csv:2"
    assert came_from(home, "lines", rid_of(home, "lines", id=8)) == "lines/one.csv:4"
    write_lines("three.csv", [(9, 9.5)])
    home.refresh("lines")
    assert came_from(home, "lines", rid_of(home, "lines", id=8)) == "lines/one.csv:4"
    assert came_from(home, "lines", rid_of(home, "lines", id=9)) == "lines/three.csv:2"
    # Every row says what it was read from, and what stands there is that row.
    for row in home.rows("lines").to_pylist():
        place = home.trace("lines", rid=row["_rid"]).record.place
        if place is not None and place.line is not None:
            assert Path(place.file).read_text().splitlines()[place.line - 1] == f"{row['id']},{row['x']}"
    rows = home.trace("big", rid=rid_of(home, "big", id=8)).behind[0].rows
    assert [(Path(row.place.file).name, row.place.line) for row in rows] == [("one.csv", 4)]


def test_a_row_behind_an_output_and_a_folder_named_after_a_value(home):
    home.refresh("days", added=[{"x": 3, "day": 1}])
    assert came_from(home, "days", 1) == "days/day=1/a.parquet row 1"
    assert came_from(home, "days", 2) == GIVEN
    assert [row.origin for row in home.trace("some", rid=rid_of(home, "some", x=3)).behind[0].rows] == [GIVEN]
