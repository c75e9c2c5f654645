"""Random SQL texts as sql steps: each is refused by `validate`, or gives the rows and the pairs of the oracle for SQL.

SMOKE_SQL_STEPS=2000 tries as many.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import ParseException

from lineage_service import Home
from lineage_service.errors import LineageError, QuestionError
from lineage_service.runs.workflow_file import validate_workflow
from tests.oracle.reference_values import canonical
from tests.oracle.sql_reference import evaluate_sql
from tests.random_plans.generate_sql import generate_sql

BATCH = 25  # neighbouring seeds share their tables
TRIED = int(os.environ.get("SMOKE_SQL_STEPS", "25"))
FIRST = int(os.environ.get("SMOKE_SEED", "0")) // BATCH * BATCH
TYPES = {"INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(), "DATE": pa.date32(),
         "BOOLEAN": pa.bool_(), "ARRAY<INT>": pa.list_(pa.int32())}  # fmt: skip


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(FIRST, FIRST + TRIED, BATCH))
def test_random_queries(first, spark, tmp_path: Path):
    made = {seed: generate_sql(seed) for seed in range(first, first + BATCH)}
    tables = made[first][1]
    for name, table in tables.items():
        columns = {
            column: pa.array([row.get(column) for row in table.rows], TYPES[kind.upper()])
            for column, kind in table.schema.items()
        }
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    compiled = {f"q{seed}": text for seed, (text, _) in made.items()
                if _is_read_by_spark(spark, text) and _is_compiled(tmp_path, tables, text)}  # fmt: skip
    print(f"{len(compiled)} of {BATCH} compiled")
    assert compiled, "all were refused"
    file = _write(tmp_path, tables, compiled)
    with Home.open(tmp_path / "home") as home:
        home.run(file)
        wrong = {name: found for name, text in compiled.items() if (found := _difference(home, name, text, tables))}
    assert not wrong, "\n\n".join(f"{name}: {found}\n{compiled[name]}" for name, found in wrong.items())


def _write(folder, tables, queries):
    flow = {
        "version": 1,
        "name": "random",
        "sources": {name: {"path": f"{name}.parquet"} for name in tables},
        "steps": [{"name": name, "op": "sql", "query": text} for name, text in queries.items()],
        "outputs": {name: {} for name in queries},
    }
    (folder / "random.yml").write_text(json.dumps(flow), encoding="utf-8")
    return folder / "random.yml"


def _is_read_by_spark(spark, text):
    """Not so is PIVOT or UNPIVOT of the right side of a join before its ON, which `run` refuses, `validate` does not."""
    try:
        spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except ParseException:
        return False
    return True


def _is_compiled(folder, tables, text):
    try:
        return not [each for each in validate_workflow(_write(folder, tables, {"q": text})) if each.severity == "error"]
    except LineageError:
        return False


def _difference(home, name, text, tables):
    answer = evaluate_sql(text, tables)
    expected = Counter(
        (canonical(list(row.values)), frozenset((table, rid) for table, rids in row.lineage.items() for rid in rids))
        for row in answer.rows
    )
    behind: dict[int, set] = {}
    for table in tables:
        try:
            pairs = home.backward(f"random.{name}", to=f"random.{table}", all=True, pairs=True).to_pylist()
        except QuestionError as error:
            if "not linked" not in str(error):
                raise
            pairs = []
        for pair in pairs:
            behind.setdefault(pair["out_rid"], set()).add((table, pair["rid"]))
    found = Counter()
    for row in home.rows(f"random.{name}").to_pylist():
        rid = row.pop("_rid")
        found[canonical(list(row.values())), frozenset(behind.get(rid, ()))] += 1
    if expected == found:
        return None
    return f"only the oracle has {dict(expected - found)}, only the run has {dict(found - expected)}"
