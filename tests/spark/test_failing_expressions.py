"""A value that cannot be computed: the error names the step, the part of it, the expression and its columns, at their
place in the file, whatever step is being written when it happens; and never a value."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import LineageError, RunError, SourceError

SECRET = "Q7secretQ7"
LAST = {"name": "last", "op": "filter", "input": "x", "where": "true"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("failing")
    rows = {"k": [1, 2, 3], "word": [f"{SECRET}{n}" for n in range(3)], "zero": [0, 0, 0], "big": [2**62] * 3,
            "some": [[1], [2], [3]]}  # fmt: skip
    pq.write_table(pa.table(rows), made / "s.parquet")
    pq.write_table(pa.table({"j": [1, 2], "word": pa.array([1, 2], pa.int64())}), made / "t.parquet")
    return made


def flow(folder: Path, steps: list[dict], outputs: dict | None = None, name: str = "flow") -> Path:
    """A workflow file; the first step is in line 6, and each has a line of its own."""
    lines = ["version: 1", f"name: {name}", "sources:", "  {s: {path: s.parquet}, t: {path: t.parquet}}", "steps:"]
    lines += [f"  - {json.dumps(step)}" for step in steps]
    lines.append(f"outputs: {json.dumps(outputs or {steps[-1]['name']: {}})}")
    path = folder / f"{name}.yml"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def failure(folder: Path, steps: list[dict], outputs: dict | None = None, **options) -> str:
    with Home.open(folder / "home") as home, pytest.raises(RunError) as caught:
        home.run(flow(folder, steps, outputs), **options)
    message = str(caught.value)
    for told in (SECRET, str(2**62), "org.apache", "SQLSTATE", "java."):
        assert told not in message, message
    return message


def step(op: str, **keys) -> list[dict]:
    """The failing step in line 6, and another behind it, which is what is written."""
    inputs = {} if {"left", "inputs"} & keys.keys() else {"input": "s"}
    return [{"name": "x", "op": op, **inputs, **keys}, LAST]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (step("filter", where="cast(word as int) > 1"), ["step 'x', `where`", "cast(word as int)", "column 'word'", "STRING to INT"]),
        (step("filter", where="word > 1"), ["step 'x', `where`", "`word > 1`", "column 'word'", "try_cast"]),
        (step("with_columns", columns={"fine": "k + 1", "share": "1 + k / zero"}), ["column 'share'", "`k / zero`", "columns 'k', 'zero'", "division by zero"]),
        (step("project", columns={"y": "concat('a', 'b', cast(word as date))"}), ["column 'y'", "cast(word as date)"]),
        (step("project", columns={"y": "some[5]"}), ["column 'y'", "`some[5]`", "out of range"]),
        (step("project", columns={"y": "big * 4"}), ["column 'y'", "`big * 4`", "too large"]),
        (step("project", columns={"y": "to_date(word, 'yyyy')"}), ["column 'y'", "to_date(word, '…')", "no timestamp"]),
        (step("project", columns={"y": "date_format(date '2024-05-01' + int(k), 'YYYY')"}), ["column 'y'", "date_format(", "column 'k'", "'yyyy'"]),
        (step("project", columns={"y": "raise_error(word)"}), ["column 'y'", "raise_error"]),
        (step("project", columns={"y": "make_date(k, 13, 1)"}), ["column 'y'", "make_date(k, 13, 1)", "out of range"]),
        (step("join", left="s", right="t", on="left.word = right.word", how="semi"), ["step 'x', `on`", "left.word = right.word"]),
        (step("aggregate", by=["k"], measures={"n": "count(*)", "m": "1 + max(int(word))"}), ["measure 'm'", "int(word)"]),
        (step("aggregate", by={"c": "k div zero"}, measures={"n": "count(*)"}), ["key 'c'", "`k div zero`"]),
        (step("aggregate", by=[], measures={"total": "sum(big)"}), ["measure 'total'", "`sum(big)`", "too large"]),
        (step("aggregate", by=["k"], measures={"n": "count(*)"}, having="1 / (n - 1) > 0"), ["step 'x', `having`", "1 / (n - 1)"]),
        (step("window", partition_by=["zero"], order_by=["k"], measures={"r": "row_number()", "w": "sum(cast(word as int))"}), ["measure 'w'", "cast(word as int)"]),
        (step("window", partition_by=["zero"], order_by=["cast(word as int)"], measures={"r": "row_number()"}), ["`order_by`", "cast(word as int)"]),
        (step("sort", by=["k % zero desc"]), ["step 'x', `by`", "k % zero"]),
        ([{"name": "a", "op": "project", "input": "s", "columns": {"v": "cast(word as int)"}},
          {"name": "b", "op": "project", "input": "t", "columns": {"v": "cast(word as int)"}},
          {"name": "both", "op": "union", "inputs": ["a", "b"]}], ["step 'a', column 'v'", "step 'b', column 'v'", "may be"]),
        ([{"name": "a", "op": "project", "input": "s", "columns": ["word"]},
          {"name": "b", "op": "project", "input": "t", "columns": ["word"]},
          {"name": "x", "op": "union", "inputs": ["a", "b"]}, LAST], ["step 'x', columns of different types: 'word'"]),
    ],
    ids=lambda value: json.dumps(value)[:70] if isinstance(value, list) and isinstance(value[0], dict) else "",
)  # fmt: skip
def test_the_step_and_the_expression_are_named(spark, folder, steps, said):
    message = failure(folder, steps)
    for each in said:
        assert each in message, message
    if len(steps) == 2:
        assert message.startswith(f"{folder / 'flow.yml'}:6:"), message


def test_only_steps_that_the_failing_one_reads_are_candidates(spark, folder):
    steps = [{"name": "bad", "op": "project", "input": "s", "columns": {"v": "cast(word as int)"}},
             {"name": "good", "op": "project", "input": "t", "columns": {"v": "cast(word as int)"}}]  # fmt: skip
    message = failure(folder, steps, {"bad": {}, "good": {}})
    assert "step 'bad', column 'v'" in message and "'good'" not in message


def test_a_variable_pasted_into_an_expression_is_not_quoted(spark, folder, monkeypatch):
    monkeypatch.setenv("SMOKE_TEST_PEPPER", "pepper and salt")
    message = failure(folder, step("project", columns={"y": "cast(concat(word, '${env:SMOKE_TEST_PEPPER}') as int)"}))
    assert "pepper" not in message and "concat(word, '…')" in message


@pytest.mark.parametrize("capture", ["inject", "defer", "stage", "lazy", "off"])
def test_under_every_capture(spark, folder, capture):
    steps = [{"name": "x", "op": "with_columns", "input": "s", "columns": {"v": "cast(word as int)"}},
             {"name": "sums", "op": "aggregate", "input": "x", "by": ["v"], "measures": {"n": "count(*)"}}]  # fmt: skip
    assert "step 'x', column 'v'" in failure(folder, steps, capture=capture)


def test_a_check_is_named(spark, folder):
    rows = {"name": "x", "op": "filter", "input": "s", "where": "true"}
    message = failure(folder, [rows], {"x": {"checks": [{"where": "cast(word as int) > 0"}]}})
    assert "a check" in message and "cast(word as int)" in message and "flow.yml:7:" in message


def test_refresh_names_it_too(spark, tmp_path):
    rows = {"k": [1, 1, 2], "word": ["1", "2", "3"]}
    pq.write_table(pa.table(rows), tmp_path / "s.parquet")
    pq.write_table(pa.table({"j": [1]}), tmp_path / "t.parquet")
    steps = [{"name": "x", "op": "with_columns", "input": "s", "columns": {"v": "cast(word as int)"}},
             {"name": "sums", "op": "aggregate", "input": "x", "by": ["k"], "measures": {"n": "sum(v + 1)"}}]  # fmt: skip
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path, steps))
        pq.write_table(pa.table({**rows, "word": ["1", SECRET, "3"]}), tmp_path / "s.parquet")
        with pytest.raises(RunError) as caught:
            home.refresh("sums")
    message = str(caught.value)
    assert "step 'x', column 'v'" in message and "cast(word as int)" in message and SECRET not in message


def test_with_code_generation_as_shipped(spark_as_shipped, folder):
    assert "step 'x', column 'share'" in failure(folder, step("with_columns", columns={"share": "k / zero"}))


def test_a_record_that_does_not_fit_names_the_columns_without_value(spark, tmp_path):
    (tmp_path / "c.csv").write_text(f"a,b,c\n1,x,2\n3,y,{SECRET}\n", encoding="utf-8")
    lines = ["version: 1", "name: typed", "sources:",
             '  c: {path: c.csv, options: {header: true}, schema: "a BIGINT, b STRING, c BIGINT"}',
             "steps: [{name: x, op: filter, input: c, where: a > 0}]", "outputs: {x: }", ""]  # fmt: skip
    (tmp_path / "typed.yml").write_text("\n".join(lines), encoding="utf-8")
    with Home.open(tmp_path / "home") as home, pytest.raises(SourceError) as caught:
        home.run(tmp_path / "typed.yml")
    assert "record 2" in str(caught.value) and "look at column 'c' (bigint)" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_scalar_subquery_of_two_rows_names_its_place(spark, folder):
    query = "SELECT k, (SELECT word FROM t) AS w FROM s"
    message = failure(folder, [{"name": "x", "op": "sql", "query": query}, LAST])
    assert "more than one row returned by a subquery used as an expression: line 6, column " in message
    assert "LIMIT 1" in message and "raise_error" not in message


def test_errors_of_a_query_name_its_columns_and_not_those_of_the_plan(folder, spark):
    text = failure(folder, [{"name": "q", "op": "sql", "query": "SELECT cast(word AS int) AS n FROM s"}])
    assert "column 'n' failed while running" in text
    assert "which reads column 'word'" in text
    assert "__" not in text
    with Home.open(folder / "home") as home, pytest.raises(LineageError) as caught:
        home.run(flow(folder, [{"name": "q", "op": "sql", "query": "SELECT some + 1 AS n FROM s"}]))
    assert '"(some + 1)"' in str(caught.value)
    assert "__" not in str(caught.value)
    assert "line 1 pos" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        ("SELECT sum(k) / sum(zero) AS x FROM s", "`sum(k) / sum(zero)`, which reads columns 'sum(k)', 'sum(zero)'"),
        ("SELECT CAST(upper(word) AS INT) AS x FROM s GROUP BY upper(word)", "`CAST(upper(word) AS INT)`"),
        ("SELECT CAST(word || 'Q7secretQ7' AS INT) + max(k) AS x FROM s GROUP BY word || 'Q7secretQ7'", "word || '…'"),
        ("SELECT sum(big) AS x FROM s", "measure 'sum(big)' failed"),
        ("SELECT k / (SELECT min(zero) FROM s) AS x FROM s", "`k / min(zero)`"),
        ("SELECT k / (SELECT min(t.zero) FROM s t WHERE t.k = s.k) AS x FROM s", "`k / min(zero)`"),
        ("SELECT collect_list(k)[10] AS x FROM s", "`collect_list(k)[10]`"),
        ("SELECT 10 / (rank() OVER (ORDER BY k) - 1) AS x FROM s", "`10 / (rank() OVER (…) - 1)`"),
        ("SELECT k FROM s ORDER BY k / zero", "column 'k / zero' failed"),
        ("SELECT CAST(word AS INT) AS x FROM s UNION SELECT k FROM s", "column 'x' failed"),
        ("SELECT grouping(k) / 0 AS x FROM s GROUP BY ROLLUP (k)", "in `CAST(CASE WHEN (grouping set) IN"),
        ("SELECT * FROM (SELECT k, word FROM s) PIVOT (max(CAST(word AS INT)) FOR k IN (1))", "measure 'max(CAST(word"),
        ("SELECT max(some) + 1 AS x FROM s", 'Cannot resolve "(max(some) + 1)"'),
        ("SELECT size(sum(k)) AS x FROM s", 'Cannot resolve "size(sum(k))"'),
        ("SELECT x.l FROM s, LATERAL (SELECT s.k / s.zero AS l) x", "column 'l' failed"),
    ],
)
def test_errors_of_queries_name_no_column_of_the_plan(folder, spark, query, reported):
    with Home.open(folder / "home") as home, pytest.raises(LineageError) as caught:
        home.run(flow(folder, [{"name": "q", "op": "sql", "query": query}]))
    message = str(caught.value)
    assert reported in message
    assert re.search(r"[a-z]__\w", message) is None
    assert SECRET not in message
