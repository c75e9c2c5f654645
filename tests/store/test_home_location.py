"""A home that cannot be where it is said to be is refused when it is opened."""

import os

import pytest

from lineage_service import Home
from lineage_service.errors import StoreError


def refused(path=None, **options) -> str:
    with pytest.raises(StoreError) as caught:
        Home.open(path, **options)
    (problem,) = caught.value.problems
    assert problem.hint or "user" in problem.message
    return problem.message


def test_a_file(tmp_path):
    (tmp_path / "home").write_text("")
    assert refused(tmp_path / "home") == f"the home '{tmp_path}/home' is a file, not a folder"
    assert f"'{tmp_path}/home' is a file, not a folder" in refused(tmp_path / "home" / "inside" / "it")


def test_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none")
    assert refused(tmp_path / "link") == f"the home '{tmp_path}/link' is a link that leads nowhere"
    assert f"'{tmp_path}/link', above the home" in refused(tmp_path / "link" / "home")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "leads nowhere" in refused(tmp_path / "loop")


def test_a_link_that_leads_to_a_folder_is_a_home(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    Home.open(tmp_path / "link").close()
    Home.open(tmp_path / "link" / "new").close()
    assert not list((tmp_path / "folder").iterdir()), "nothing is created"


@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_may_not_be_read(tmp_path, monkeypatch, above):
    folder = tmp_path / "home"
    folder.mkdir()
    allowed = os.access
    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder and allowed(path, mode))
    assert refused(folder / "new" if above else folder).endswith("permission denied")


def test_a_path_that_is_none(tmp_path):
    assert refused("") == "the path of the home is empty"
    assert "no path can have" in refused("a\0b")
    assert "user that is not known" in refused("~nobody_of_that_name/home")
    assert "file name too long" in refused(tmp_path / ("x" * 5000))


def test_a_catalog_that_is_no_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "none")
    home = tmp_path / "home"
    assert "is a folder, not a file" in refused(home, catalog=f"sqlite:///{tmp_path}/folder")
    assert "is a link that leads nowhere" in refused(home, catalog=f"sqlite:///{tmp_path}/link")
    assert f"'{tmp_path}/file' is a file" in refused(home, catalog=f"sqlite:///{tmp_path}/file/catalog.db")
    assert "is no database URL" in refused(home, catalog="catalog.db")
    (home / "catalog.db").mkdir(parents=True)
    assert "is a folder, not a file" in refused(home)


def test_a_catalog_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_CATALOG", f"sqlite:///{tmp_path}")
    assert "is a folder, not a file" in refused(tmp_path / "home")
