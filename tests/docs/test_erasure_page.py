"""docs/erasure.md: every command is typed, and prints what the page says. SMOKE_GOLDEN=1 rewrites it."""

import shutil
from types import SimpleNamespace

from tests.support.pages import Reader, read_page
from tests.support.paths import ROOT


def test_the_page_is_true(spark, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "workflows" / "shop", tmp_path / "workflows" / "shop")
    monkeypatch.setenv("SMOKE_ACTOR", "Ada")
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_name="dpo"))
    said = read_page(ROOT / "docs" / "erasure.md", Reader(tmp_path, "erasure", monkeypatch))
    assert len(said) == 9
    assert not [str(each) for each in said if not each.holds]
