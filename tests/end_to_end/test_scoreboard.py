"""Queries of TPC-H and TPC-DS as sql steps: rows, names, types and order as in spark.sql, and lineage that is right.

The texts and the tables, slices of TPC-H and TPC-DS over which each query has rows, are those of benchmarks/.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.scoreboard import Scoreboard, Verdict
from benchmarks.sql_queries import queries_of
from lineage_service import Home
from tests.support.paths import ROOT

SLICES = ROOT / "benchmarks" / "slices"
TRUTH = Path(__file__).parent / "tpch"
TPCH = [query.name for query in queries_of("tpch")]
# With ROLLUP, windows, set operations, outer joins, EXISTS and NOT EXISTS, CTEs that are read several times.
TPCDS = ("q05", "q08", "q16", "q34", "q36", "q38", "q47", "q51", "q69", "q78", "q87")


@pytest.fixture(scope="module")
def board(spark, tmp_path_factory):
    """Makes the verdicts of one suite, all its queries in one run."""
    homes = []

    def verdicts(suite: str, names) -> dict[str, Verdict]:
        folder = tmp_path_factory.mktemp(suite)
        homes.append(Home.open(folder / "home"))
        board = Scoreboard(
            suite, SLICES / suite, folder, spark, homes[-1], together=len(names), beside_steps=False, sampled=2
        )
        queries = [query for query in queries_of(suite) if query.name in names]
        return {verdict.query.name: verdict for verdict in board.verdicts(queries)}

    yield verdicts
    for home in homes:
        home.close()
    for file in SLICES.glob("*/*.parquet"):
        spark.catalog.dropTempView(file.stem)


@pytest.fixture(scope="module")
def tpch(board):
    return board("tpch", TPCH)


@pytest.fixture(scope="module")
def tpcds(board):
    return board("tpcds", TPCDS)


@pytest.mark.parametrize("name", TPCH)
def test_tpch(name, tpch):
    assert tpch[name].is_exact, str(tpch[name])


@pytest.mark.parametrize("name", TPCDS)
def test_tpcds(name, tpcds):
    assert tpcds[name].is_exact, str(tpcds[name])


def test_most_lineage_can_be_checked_by_running_again(tpch, tpcds):
    checks = [verdict.lineage for verdict in (*tpch.values(), *tpcds.values())]
    assert all(check is not None and check.unchecked is None for check in checks)
    assert sum(check.replayed for check in checks) >= 0.8 * sum(check.sampled for check in checks) > 30
    assert sum(check.seen for check in checks) >= 0.6 * sum(check.removed for check in checks) > 150


@pytest.mark.parametrize("name", sorted(path.name.partition(".")[0] for path in TRUTH.glob("*.lineage.sql")))
def test_pairs_of_tpch_are_those_of_the_contract(name, tpch):
    """The true lineage, written out by hand as SQL: keys of the output row, and the rids of the rows behind it."""
    verdict = tpch[name]
    lineage = (TRUTH / f"{name}.lineage.sql").read_text(encoding="utf-8")
    with duckdb.connect() as connection:
        for file in (SLICES / "tpch").glob("*.parquet"):
            connection.execute(f"CREATE VIEW {file.stem} AS SELECT *, file_row_number AS rid FROM '{file}'")
        connection.register("found_rows", verdict.found)
        keys = [column for column in connection.sql(lineage).columns if column not in verdict.query.tables]
        same = " AND ".join(f"f.{key} = t.{key}" for key in keys) or "true"
        assert verdict.pairs_by_table
        for table, pairs in verdict.pairs_by_table.items():
            truth = connection.sql(
                f"SELECT DISTINCT f._rid, t.{table} FROM ({lineage}) t JOIN found_rows f ON {same}"
            ).fetchall()
            assert truth, f"{table} has lineage"
            assert set(truth) == set(zip(*pairs.to_pydict().values(), strict=True)), table
