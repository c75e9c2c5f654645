"""docs/why-not.md: every command is typed, and prints what the page says. SMOKE_GOLDEN=1 rewrites it."""

import shutil

from tests.support.pages import Reader, read_page
from tests.support.paths import ROOT


def test_the_page_is_true(spark, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "workflows" / "shop", tmp_path / "workflows" / "shop")
    said = read_page(ROOT / "docs" / "why-not.md", Reader(tmp_path, "why-not", monkeypatch))
    assert len(said) == 4
    assert not [str(each) for each in said if not each.holds]
