"""Every command of docs/import.md that needs no other tool prints what the page shows."""

import shutil

from tests.support.pages import Reader, read_page
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "import.md"
PROJECTS = ROOT / "tests" / "importers"


def test_the_page(tmp_path, monkeypatch):
    shutil.copytree(PROJECTS / "dbt_shop", tmp_path / "shop")
    shutil.copytree(PROJECTS / "pipelines" / "sales", tmp_path / "sales")
    said = read_page(PAGE, Reader(tmp_path, "import", monkeypatch))
    assert len(said) == 5
    for each in said:
        assert each.holds, str(each)
