"""Chains: what is out of date and why, failures and what they stop, lineage through all of it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import LineageError
from lineage_service.runs.chain.chain_run import ChainFailed

SALES = """
version: 1
name: sales
vars: {least: 0}
sources: {orders: {path: data/orders.parquet}}
steps: [{name: big, op: filter, input: orders, where: "amount > ${least}"}]
outputs: {big: }
"""
REPORT = """
version: 1
name: report
sources: {totals: {output: by_customer.by_customer}}
steps: [{name: out, op: project, input: totals, columns: {cust: cust, share: 100 / total}}]
outputs:
  out: {checks: [{not_null: share}]}
"""
BY_CUSTOMER = "SELECT cust, sum(amount) AS total FROM sales.big GROUP BY cust"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    orders(tmp_path, [5.0, 2.0, 1.0])
    (tmp_path / "sales.yml").write_text(SALES)
    (tmp_path / "by_customer.sql").write_text(BY_CUSTOMER)
    (tmp_path / "report.yml").write_text(REPORT)
    (tmp_path / "apart.sql").write_text("SELECT id FROM orders")
    return tmp_path


def orders(folder: Path, amounts: list[float]) -> None:
    table = pa.table({"id": list(range(len(amounts))), "cust": [1, 1, 2][: len(amounts)], "amount": amounts})
    pq.write_table(table, folder / "data/orders.parquet")


def states(results) -> dict[str, tuple[str, str]]:
    return {each.workflow: (each.state, each.reason) for each in results}


def test_a_chain(project, spark):
    with Home.open(project / "home") as home:

        def run(*paths, **given):
            results = home.run_all(*paths or [project], sources={"orders": "data/orders.parquet"}, **given)
            return states(results)

        def ran(*paths, **given):
            return {name: reason for name, (state, reason) in run(*paths, **given).items() if state == "committed"}

        assert list(run()) == ["apart", "sales", "by_customer", "report"], "in dependency order"
        assert set(ran()) == set(), "nothing has changed"
        assert home.backward("report.out", to="sales.orders", all=True, pairs=True).to_pylist() == [
            {"out_rid": 0, "rid": 0}, {"out_rid": 0, "rid": 1}, {"out_rid": 1, "rid": 2}
        ]  # fmt: skip

        # A changed file of the workflow, and all that reads it.
        (project / "by_customer.sql").write_text(BY_CUSTOMER + " ORDER BY cust")
        assert ran() == {"by_customer": "its file has changed", "report": "'by_customer' will run before it"}
        # Other values of variables; a selection leaves the rest alone, and says what is behind.
        first = run(vars={"least": "1"}, select="sales")
        assert first == {"sales": ("committed", "the value of least has changed")}
        assert ran(select="+report", vars={"least": "1"}) == {
            "by_customer": "'sales.big' has a newer run", "report": "'by_customer' will run before it"
        }  # fmt: skip
        assert run(vars={"least": "2"}, select="report")["report"][1].endswith(
            "; but 'by_customer', which it reads, is out of date and not selected"
        )
        # Changed files of sources.
        orders(project, [5.0, 2.0, 7.0])
        assert ran(vars={"least": "1"}) == {
            "apart": "files of 'orders' have changed",
            "sales": "files of 'orders' have changed",
            "by_customer": "'sales' will run before it",
            "report": "'by_customer' will run before it",
        }
        assert ran(project / "apart.sql", all=True) == {"apart": "all workflows were requested"}

        # A failure stops what depends on it and nothing else; later it runs again.
        (project / "by_customer.sql").write_text("SELECT cust, int('x') AS total, amount FROM sales.big")
        (project / "apart.sql").write_text("SELECT id, amount FROM orders")
        with pytest.raises(ChainFailed) as failed:
            run(vars={"least": "1"})
        assert (
            str(failed.value)
            == "1 of 4 workflows failed: by_customer; skipped because they depend on a failed one: report"
        )
        assert {name: state for name, (state, _) in states(failed.value.results).items()} == {
            "apart": "committed", "sales": "up to date", "by_customer": "failed", "report": "skipped"
        }  # fmt: skip
        (project / "by_customer.sql").write_text("SELECT cust, sum(amount - 7) AS total FROM sales.big GROUP BY cust")
        with pytest.raises(ChainFailed) as failed:
            run(vars={"least": "1"})
        result = failed.value.results[-1]
        assert result.workflow == "report"
        assert isinstance(result.error, LineageError)


def test_a_run_without_lineage_is_out_of_date_where_lineage_is_wanted(project, spark):
    (project / "by_customer.sql").unlink()
    with Home.open(project / "home") as home:

        def run(capture):
            found = home.run_all("sales.yml", capture=capture)
            return states(found)["sales"]

        assert run("off")[0] == "committed"
        assert run("off")[0] == "up to date"
        assert run(None) == ("committed", "its latest run has no lineage: capture was off")
        assert run("off")[0] == "up to date", "it has more than is asked for"
        assert run("inject")[1].endswith("; its lineage was captured with --capture auto")
        assert len(home.backward("sales.big", to="sales.orders", all=True, pairs=True)) == 3
