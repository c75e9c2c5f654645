"""A row that a refresh computes anew keeps its old value where no row behind it was added, removed or changed.

Sums of doubles differ in their last digits only by chance, so here every computation of a refresh is made to differ:
each double that it writes is a little larger than it should be.
"""

import os
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from tests.oracle.reference import Unsupported, evaluate
from tests.random_plans.generate import random_plan
from tests.refresh.test_refresh_random import Changing
from tests.support.harness import merged_flow, traced_rows

PLANS = int(os.environ.get("SMOKE_REFRESHES", "6"))
SEED = int(os.environ.get("SMOKE_SEED", "0")) + 9000
BATCH = 6
LARGER = 1 + 2**-49


@pytest.fixture
def noise(monkeypatch):
    """Makes every double that a refresh computes larger in its last digits, by DuckDB and by Spark."""
    from lineage_service.refresh.duckdb_refresh import DuckDbRefresh
    from lineage_service.spark.recomputation import TouchedRowWriter

    written, dataset = DuckDbRefresh._write_version, TouchedRowWriter.dataset

    def noisy_table(self, node, table, columns):
        for name, kind in columns:
            if kind == "double":
                self.engine.rows(f'UPDATE {table} SET "{name}" = "{name}" * {LARGER!r}')
        return written(self, node, table, columns)

    def noisy_frame(self, each, relation):
        from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

        frame = relation.frame
        for field in frame.schema.fields:
            if field.dataType.typeName() == "double" and field.name in relation.columns:
                frame = frame.withColumn(field.name, F.col(f"`{field.name}`") * F.lit(LARGER))
        return dataset(self, each, type(relation)(frame, relation.columns, relation.handles))

    monkeypatch.setattr(DuckDbRefresh, "_write_version", noisy_table)
    monkeypatch.setattr(TouchedRowWriter, "dataset", noisy_frame)


FLOW = """
version: 1
name: flow
sources: {parts: {path: parts}, names: {path: names.parquet}}
steps:
  - {name: sums, op: aggregate, input: parts, by: [k], measures: {s: sum(x), n: count(*)}}
  - {name: joined, op: join, left: parts, right: names, using: [k]}
  - {name: named, op: aggregate, input: joined, by: [name], measures: {s: sum(x)}}
  - {name: scaled, op: join, left: names, right: means, using: [k]}
  - {name: means, op: aggregate, input: parts, by: [k], measures: {m: avg(x)}}
  - {name: half, op: project, input: scaled, columns: {h: m / 2}}
outputs: {sums: , named: , half: }
"""


def write_part(number: int, rows: list[tuple[int, str, float]]) -> None:
    columns = {"id": [r[0] for r in rows], "k": [r[1] for r in rows], "x": [r[2] for r in rows]}
    pq.write_table(pa.table(columns), f"parts/p{number}.parquet")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    write_part(0, [(0, "a", 0.1), (1, "a", 0.2), (2, "b", 0.3)])
    write_part(1, [(3, "b", 0.4), (4, "c", 0.5)])
    pq.write_table(pa.table({"k": ["a", "b", "c", "q"], "name": ["Ada", "Bo", "Cy", "Ada"]}), "names.parquet")
    Path("flow.yml").write_text(FLOW)
    with Home.open(tmp_path / "home") as opened:
        opened.run("flow.yml")
        yield opened


def values(home: Home, dataset: str, key: str) -> dict:
    return {row.pop(key): row for row in home.rows(dataset).to_pylist()}


def pairs(home: Home, dataset: str, source: str) -> set[tuple[int, int]]:
    back = home.backward(dataset, to=source, all=True, pairs=True).to_pylist()
    ahead = home.forward(source, to=dataset, all=True, pairs=True).to_pylist()
    found = {(row["out_rid"], row["rid"]) for row in back}
    assert found == {(row["out_rid"], row["rid"]) for row in ahead}
    return found


def test_a_file_overwritten_in_place_changes_only_what_it_is_behind(spark, home, noise):
    """The rows of the old file can no longer be read; what they were behind is computed anew."""
    before = {name: values(home, name, key) for name, key in (("sums", "k"), ("named", "name"))}
    halves = {row["_rid"]: row["h"] for row in home.rows("half").to_pylist()}
    behind = pairs(home, "sums", "parts")
    write_part(1, [(3, "b", 0.7), (4, "c", 0.5)])
    report = home.refresh("parts")
    assert report.datasets["sums"].computed == 2
    after = {name: values(home, name, key) for name, key in (("sums", "k"), ("named", "name"))}
    assert after["sums"]["a"] == before["sums"]["a"], "no row behind it is of that file"
    assert after["named"]["Ada"] == before["named"]["Ada"]
    assert after["sums"]["b"]["s"] == pytest.approx(1.0) and after["sums"]["b"]["_rid"] == before["sums"]["b"]["_rid"]
    assert after["sums"]["c"]["s"] == 0.5 * LARGER, "the file's rows are new ones, also where they are equal"
    assert (report.datasets["sums"].removed, report.datasets["sums"].changed, report.datasets["sums"].added) == (
        0,
        2,
        0,
    )
    now = {row["_rid"]: row["h"] for row in home.rows("half").to_pylist()}
    assert len(halves.items() & now.items()) == 1, "the one of 'a', which no key tells"
    a = before["sums"]["a"]["_rid"]
    assert {pair for pair in pairs(home, "sums", "parts") if pair[0] == a} == {pair for pair in behind if pair[0] == a}
    diff = home.diff("sums", tolerance=0, behind=False)
    assert [change.key["k"] for change in diff.changes()] == ["b", "c"]
    assert [change.key["k"] for change in home.diff("sums", behind=False).changes()] == ["b"]
    # Once more, over a run that shares rows with the one before it.
    write_part(1, [(4, "c", 0.25)])
    home.refresh("parts")
    again = values(home, "sums", "k")
    assert again["a"] == before["sums"]["a"]
    assert again["b"]["s"] == 0.3 * LARGER and again["c"]["s"] == 0.25 * LARGER
    assert {pair for pair in pairs(home, "sums", "parts") if pair[0] == a} == {pair for pair in behind if pair[0] == a}


def test_a_group_that_two_changes_only_seem_to_touch(spark, home, noise):
    """A row that went beside one that came never were together: the group is computed anew and stays as it was."""
    before = values(home, "named", "name")
    home.refresh(removed={"names": [3]}, changed={"parts": [{"_rid": 4, "k": "q"}]})
    assert values(home, "named", "name") == {"Ada": before["Ada"], "Bo": before["Bo"]}


def test_a_row_whose_value_stays_but_whose_rows_changed_is_written(spark, home, noise):
    """Rows that cancel out: the sum is what it was, and what is behind it is not."""
    home.refresh("parts", added=[{"id": 9, "k": "a", "x": 0.0}])
    rows = values(home, "sums", "k")
    assert (rows["a"]["n"], rows["a"]["s"]) == (3, pytest.approx(0.3))
    assert rows["a"]["s"] != 0.1 + 0.2


def test_what_if_tells_no_change_where_there_is_none(spark, home, noise):
    found = home.what_if(without="parts", rid=2, on="sums").to_pylist()
    assert [(row["k"], row["change"]) for row in found] == [("b", "changes")]
    found = home.what_if(without="names", rid=1, on="named").to_pylist()
    assert [(row["name"], row["change"]) for row in found] == [("Bo", "vanishes")]


COPIES = """
version: 1
name: copies
sources: {given: {path: given.parquet}, taken: {path: taken.parquet}}
steps:
  - {name: rest, op: difference, left: given, right: taken, distinct: false}
  - {name: summed, op: aggregate, input: rest, by: [k], measures: {s: sum(x)}}
outputs: {summed: }
"""


def test_a_row_that_the_absent_have_a_say_in_is_written(spark, tmp_path, monkeypatch, noise):
    """One copy more is taken away: the same rows stand behind the sum, and it is another."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"k": ["a"] * 3 + ["b"] * 2, "x": [1.5] * 3 + [0.7] * 2}), "given.parquet")
    pq.write_table(pa.table({"k": ["a", "b"], "x": [1.5, 9.9]}), "taken.parquet")
    Path("copies.yml").write_text(COPIES)
    with Home.open(tmp_path / "home") as home:
        home.run("copies.yml")
        before, behind = values(home, "summed", "k"), pairs(home, "summed", "given")
        home.refresh("taken", added=[{"k": "a", "x": 1.5}])
        after = values(home, "summed", "k")
        assert pairs(home, "summed", "given") == behind
        assert (before["a"]["s"], after["a"]["s"]) == (3.0, 1.5 * LARGER)
        assert after["b"] == before["b"]
        # All rows of an overwritten file went: everything is computed anew, and 'b' is what it was.
        pq.write_table(pa.table({"k": ["a", "b"], "x": [1.5, 9.9]}), "taken.parquet")
        home.refresh("taken")
        assert values(home, "summed", "k")["b"] == before["b"]


def has_say_of_the_absent(plan) -> bool:
    """Whether rows that are not behind a row may decide its value."""
    return any(
        step["op"] in ("difference", "limit") or (step["op"] == "join" and step.get("how") == "anti")
        for step in plan.steps
    )


@pytest.mark.parametrize("first", range(SEED, SEED + PLANS, BATCH))
@pytest.mark.parametrize("by_spark", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_random_changes_leave_what_they_are_not_behind(first, by_spark, spark, tmp_path, monkeypatch, noise):
    if by_spark:
        monkeypatch.setattr("lineage_service.refresh.run_refresh.means_the_same", lambda _: False)
    plans = [random_plan(seed, size=3 + seed % 3).prefixed(f"p{seed}_") for seed in range(first, first + BATCH)]
    random, failures, kept = Random(first), [], 0
    with Home.open(tmp_path / "home") as home:
        home.run(merged_flow(plans, "random").write(tmp_path))
        now = Changing.of(plans)
        run_id = None
        for _ in range(2):
            then = {output: state(home, output, plan, run_id) for plan in plans for output in outputs(plan, now)}
            first_new = dict(now.next)
            said = now.change(random)
            run_id = home.refresh(**said).run_id
            touched = {
                name: touched_rids(said, name, range(first_new[name], now.next[name]))
                for plan in plans
                for name in plan.tables
            }
            for plan in plans:
                for output in outputs(plan, now):
                    if output not in then:
                        continue
                    old, new = (untouched(rows, touched) for rows in (then[output], state(home, output, plan, run_id)))
                    for behind in old.keys() & new.keys():
                        if len(old[behind]) == len(new[behind]):
                            kept += 1
                            if sorted(old[behind]) != sorted(new[behind]):
                                failures.append(f"seed {plan.seed}, {output}: {old[behind]} became {new[behind]}")
    assert not failures, "\n".join(failures)
    assert kept


def outputs(plan, now: Changing) -> list[str]:
    if has_say_of_the_absent(plan):
        return []
    tables = {name: [now.rows[name][rid] for rid in sorted(now.rows[name])] for name in plan.tables}
    try:
        oracle = evaluate(tables, plan.schemas, plan.steps)
    except Unsupported:
        return []
    return [output for output in plan.outputs if output not in oracle.nondeterministic]


def state(home: Home, output: str, plan, run_id: str | None) -> list:
    if run_id is None:
        run_id = home.runs().to_pylist()[0]["run_id"]
    return traced_rows(home, output, list(plan.tables), run_id, dense=False)


def touched_rids(said: dict, name: str, added: range) -> set[int]:
    """Rows that were removed, changed or added."""
    found = {*said["removed"].get(name, ()), *added}
    if name in said["changed"]:
        found |= set(said["changed"][name].column("_rid").to_pylist())
    return found


def untouched(rows: list, touched: dict[str, set[int]]) -> dict[tuple, list]:
    """Rows with their rids and values, by the rows behind them, where none of these was touched."""
    found: dict[tuple, list] = {}
    for row in rows:
        if not any(rids & touched.get(name, set()) for name, rids in row.lineage.items()):
            behind = tuple(sorted((name, tuple(sorted(rids))) for name, rids in row.lineage.items() if rids))
            found.setdefault(behind, []).append((row.rid, repr(row.values)))
    return found
