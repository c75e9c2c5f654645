"""Every query of docs/queries.md, over the example that the page names."""

import re
import shutil

import pytest

from lineage_service import Home
from tests.support.paths import ROOT

QUERIES = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "queries.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(ROOT / "workflows" / "shop", folder / "shop")
    with Home.open(folder / "home") as home:
        home.run(folder / "shop" / "revenue.yml")
        yield home


@pytest.mark.parametrize("sql", QUERIES)
def test_it_is_answered(home, sql):
    assert home.query(sql).arrow().num_rows > 0


def test_the_saved_one_has_lineage(home):
    (sql,) = [each for each in QUERIES if "quantity * price" in each]
    saved = home.query(sql, save="products").to_pylist()
    assert saved and home.backward("products", to="items", rid=0).count() == saved[0]["n"]
