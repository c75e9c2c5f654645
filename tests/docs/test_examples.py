"""The examples in workflows/: docs/examples.md runs each of them, and what it says of their lineage is so.

SMOKE_GOLDEN=1 rewrites the outputs in the page.
"""

import re
import shutil

import pytest

from lineage_service import Home
from tests.support.pages import Reader, read_page
from tests.support.paths import ROOT

EXAMPLES = ROOT / "workflows" / "examples"
PAGE = ROOT / "docs" / "examples.md"


@pytest.fixture(scope="module")
def told(spark, tmp_path_factory):
    """The page, with every command tried in a copy of the examples; and the home that this leaves."""
    folder = tmp_path_factory.mktemp("examples")
    ignored = shutil.ignore_patterns(".smoke", "out", "tpch")
    shutil.copytree(ROOT / "workflows", folder / "workflows", ignore=ignored)
    with pytest.MonkeyPatch.context() as monkeypatch:
        said = read_page(PAGE, Reader(folder, "examples", monkeypatch))
    return said, folder / "workflows" / "examples"


@pytest.fixture(scope="module")
def home(told):
    with Home.open(told[1] / ".smoke") as opened:
        yield opened


def test_the_page_is_true(told):
    assert told[0]
    assert not [str(each) for each in told[0] if not each.holds]


def test_every_example_is_run_and_explained():
    text = PAGE.read_text(encoding="utf-8")
    files = sorted(path.name for path in EXAMPLES.glob("*.yml"))
    assert len(files) == 10
    assert [name for name in files if f"$ smoke-lineage run {name}\n" not in text] == []
    assert [name for name in files if f"(../workflows/examples/{name})" not in text] == []


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yml")), ids=lambda path: path.name)
def test_every_example_begins_with_what_to_try(file):
    comment = re.match(r"(#.*\n)+", file.read_text(encoding="utf-8"))
    assert comment
    assert f"smoke-lineage run {file.name}" in comment[0]


def rids(answer) -> list[int]:
    return sorted(row["_rid"] for row in answer.to_pylist())


def test_smallest_one_row_behind_each(home):
    pairs = home.backward("large", to="orders", all=True, pairs=True).to_pylist()
    assert [(pair["out_rid"], pair["rid"]) for pair in pairs] == [(0, 2), (1, 4), (2, 6), (3, 11)]


def test_checks_only_rows_of_the_group_that_passed_the_filter(home):
    (assam,) = home.rows("checks.per_tea", key={"tea": "Assam"}).to_pylist()
    behind = home.backward("checks.per_tea", rid=assam["_rid"], to="checks.orders").to_pylist()
    assert [row["order_id"] for row in behind] == [5, 7, 12]
    assert sum(row["kilos"] for row in behind) == assam["kilos"] == 45


def test_joins_have_behind_them_what_they_are(home):
    noir = {"name": "Thé Noir"}
    assert rids(home.backward("everyone", key=noir, to="joins.customers")) == [5]
    assert rids(home.backward("everyone", key=noir, to="joins.orders")) == []
    assert rids(home.backward("buyers", key={"customer_id": 1}, to="joins.orders")) == [0, 3, 9]
    silent = home.backward("silent", all=True, to="joins.orders")
    assert (silent.count(), silent.absence) == (0, ["orders"])
    assert rids(home.backward("silent", all=True, to="joins.orders", influence=True)) == list(range(12))


def test_window_own_and_peer(home):
    asked = home.backward("ranked", key={"order_id": 11}, to="windows.orders", pairs=True, roles=True)
    assert sorted((pair["rid"], pair["role"]) for pair in asked.to_pylist()) == [(5, "peer"), (10, "own")]
    first = home.backward("heaviest", key={"tea": "Oolong"}, to="windows.orders", pairs=True, roles=True)
    assert [(pair["rid"], pair["role"]) for pair in first.to_pylist()] == [(5, "own")]


def test_sets_have_every_equal_row_behind_them(home):
    assert rids(home.backward("still_there", key={"tea": "Assam"}, to="spring")) == [0, 3]
    assert rids(home.backward("still_there", key={"tea": "Assam"}, to="summer")) == [0]
    assert home.backward("seasons.lines", all=True, to="spring", pairs=True).count() == 4
    assert rids(home.backward("catalogue", key={"garden": "Mangalam"}, to="spring")) == [0, 3]
    gone = home.backward("gone", all=True, to="summer")
    assert (gone.count(), gone.absence) == (0, ["summer"])


def test_nested_one_basket_two_teas(home):
    teas = home.forward("baskets", rid=0, to="nested.per_tea").to_pylist()
    assert sorted(row["tea"] for row in teas) == ["Assam", "Sencha"]
    assert home.forward("baskets", rid=2, to="nested.per_tea").count() == 0
    assert [row["tags"] for row in home.rows("gifts").to_pylist()] == [["gift", "express"], ["gift"], ["gift"]]


def test_options_two_runs_two_published_copies(home, told):
    import pyarrow.parquet as pq

    newest, before = (row["run_id"] for row in home.runs(workflow="harvests").to_pylist())
    assert home.rows(f"picked@{newest}").count() == home.rows(f"picked@{before}").count() + 1 == 6
    unweighed = home.backward(f"picked@{before}", key={"region": "Darjeeling", "month": 4}, to="harvest").to_pylist()
    assert [(row["_rid"], row["kilos"]) for row in unweighed] == [(4, None)]
    published = pq.read_table(told[1] / "out" / "picked")
    assert published.column_names == ["region", "month", "kilos", "harvests", "weighed", "computed_in"]
    assert published.num_rows == 5


def test_chain_lineage_goes_through_three_workflows(home):
    (japan,) = home.rows("per_country", key={"country": "JP"}).to_pylist()
    assert rids(home.backward("per_country", rid=japan["_rid"], to="rates.daily")) == [0, 1, 10]
    assert rids(home.backward("per_country", rid=japan["_rid"], to="euro.orders")) == [1, 4, 10]
    assert home.backward("per_country", key={"country": "DE"}, to="rates.daily").count() == 0
    reached = home.forward("rates.daily", rid=0, to="per_country").to_pylist()
    assert [row["country"] for row in reached] == ["JP"]


def test_examples_data_is_small():
    assert sum(path.stat().st_size for path in (EXAMPLES / "data").iterdir()) < 20_000
