"""Access over a real run of the shop and a saved query: what it tells of each customer is what lineage tells."""

import pytest

from lineage_service import Home
from lineage_service.store.references import files_of_run
from tests.support.paths import SHOP

CITIES = "SELECT city, sum(revenue) AS revenue FROM ranked GROUP BY city"

AHEAD = {  # orders lead to those without any by absence only
    "customers": ("shop.ranked", "shop.silent", "cities.cities"),
    "orders": ("shop.priced", "shop.ranked", "cities.cities"),
}


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    with Home.open(tmp_path_factory.mktemp("access") / "home") as opened:
        opened.run(SHOP)
        opened.query(CITIES, save="cities")
        yield opened


@pytest.mark.parametrize("customer", range(1, 13))
def test_every_row_that_lineage_leads_to_is_told_and_no_other(home, customer):
    document = home.audit.access(f"customer={customer}").document
    assert document["complete"]
    told = {each["dataset"]: {row["rid"] for row in each["rows"]} for each in document["data"]}
    expected: dict[str, set[int]] = {}
    for source, targets in AHEAD.items():
        own = home.rows(f"shop.{source}", where=f"customer_id = {customer}").to_pylist()
        rids = [row["_rid"] for row in own]
        expected[f"shop.{source}"] = set(rids)
        for target in targets:
            found = home.forward(f"shop.{source}", to=target, rid=rids, rids=True).to_pylist() if rids else []
            expected.setdefault(target, set()).update(row["_rid"] for row in found)
    assert told == {name: rids for name, rids in expected.items() if rids}
    silent = customer in {row["customer_id"] for row in home.rows("silent").to_pylist()}
    assert ("shop.silent" in told) == silent
    if not silent:
        assert [each["dataset"] for each in document["influenced"]] == ["shop.silent"]


def test_rows_of_a_saved_query_are_counted_over_the_workflows_behind_it(home):
    per_city: dict[str, int] = {}
    for row in home.rows("ranked").to_pylist():
        per_city[row["city"]] = per_city.get(row["city"], 0) + 1
    seen = set()
    for row in home.rows("ranked").to_pylist():
        document = home.audit.access(f"customer={row['customer_id']}", min_group=2).document
        (cities,) = [each for each in document["data"] if each["dataset"] == "cities.cities"]
        (told,) = cities["rows"]
        assert cities["role"] == "query" and told["persons"] == per_city[row["city"]]
        assert told["about"] == ("alone" if per_city[row["city"]] == 1 else "others")
        seen.add(told["about"])
    assert seen == {"alone", "others"}


def test_all_that_a_run_left_is_a_file_that_it_needs(home):
    """But for what Spark writes beside its files."""
    runs = home._open.reader.runs()
    assert len(runs) == 2, "the shop's and the saved query's"
    for run in runs:
        folder = home.layout.run_folder(run.id).path
        there = {home.layout.relative(path) for path in folder.rglob("*.parquet")}
        assert there and there <= files_of_run(home._open.reader, home.layout, run.id)
