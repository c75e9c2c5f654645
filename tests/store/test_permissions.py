"""Nobody but the owner may read what is written, whatever the umask of the shell, unless SMOKE_UMASK allows more."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lineage_service.audit.erasure.correction_values import save_correction_values
from lineage_service.doctor.examination import examine
from lineage_service.errors import StoreError
from lineage_service.store.layout import HomeLayout, working_folder
from lineage_service.store.permissions import make_private, permission_mask
from tests.support.made_runs import Made, MadeHome

WORKFLOW = """
version: 1
name: shop
sources:
  orders: {path: orders.csv, format: csv, schema: "id int, person int, amount int", subject: {person: person}}
steps:
  - {name: totals, op: aggregate, input: orders, by: [person], measures: {total: sum(amount)}}
outputs: {totals: {path: published}}
"""
VERBS = [
    ["run", "shop.yml"],
    ["rows", "totals", "--out", "out/rows.csv"],
    ["backward", "totals", "--rid", "0", "--to", "orders", "--out", "out/rows.ndjson"],
    ["query", "SELECT person FROM totals", "--save", "saved"],
    ["refresh", "orders", "--removed", "id = 3"],
    ["diff", "totals", "--key", "person", "--out", "out/diff.json"],
    ["trace", "totals", "--rid", "0", "--out", "out/trace.html"],
    ["graph", "--all", "--out", "out/graph.svg"],
    ["audit", "access", "--subject", "person=1", "--out", "out/access.json", "--html", "out/access.html"],
    ["audit", "record", "--out", "out/record.md"],
    ["audit", "plan-erasure", "--subject", "person=1", "--out", "out/plan.json"],
    ["audit", "apply", "out/plan.json", "--out", "out/certificate.json"],
    ["audit", "verify", "out/certificate.json"],
    ["index"],
    ["gc"],
    ["doctor"],
]


def loose(*tops):
    """Files and folders that others may read."""
    paths = [path for top in tops if top.exists() for path in (top, *top.rglob("*"))]
    return sorted(f"{path} {stat.S_IMODE(path.stat().st_mode):o}" for path in paths if path.stat().st_mode & 0o077)


@pytest.mark.spark
def test_every_file_after_each_verb(tmp_path):
    (tmp_path / "shop.yml").write_text(WORKFLOW)
    (tmp_path / "orders.csv").write_text("".join(f"{n},{n % 4},{n}\n" for n in range(20)))
    (tmp_path / "out").mkdir(mode=0o700)
    program = Path(sys.executable).with_name("smoke-lineage")
    for verb in VERBS:
        done = subprocess.run(
            [program, *verb, "--home", tmp_path / "home"], cwd=tmp_path, capture_output=True, text=True, umask=0o022,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, (verb, done.stderr)
        assert loose(tmp_path / "home", tmp_path / "published", tmp_path / "out") == [], verb


def test_what_python_begins_to_write_is_reached_by_nobody(tmp_path):
    """A program has the umask that it has: also what it leaves behind when it is killed lies in folders of ours alone."""
    home = HomeLayout(tmp_path / "home")
    before = os.umask(0o022)
    try:
        with working_folder(home) as folder:
            assert not folder.path.stat().st_mode & 0o077
        save_correction_values(home, "0123", {"name": "Ada"})
    finally:
        os.umask(before)
    assert loose(home.path / "plans") == []


@pytest.fixture
def old(tmp_path):
    """A home that others may read, as earlier versions made it."""
    made = MadeHome(tmp_path / "home")
    made.run("shop", {"totals": Made(pa.table({"id": [1, 2]}))})
    for path in (made.folder, *made.folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return made


def test_the_next_write_mends_an_old_home(old):
    with old.home as home:
        home.rows("totals").to_pylist()
        assert loose(old.folder), "a question changes nothing"
        home.query("SELECT id FROM totals", save="saved")
        assert loose(old.folder) == []


def test_the_doctor_tells_of_a_home_that_others_may_read(old):
    told = [each for each in examine(old.folder).checks if "other users can read" in each.detail]
    assert [each.status for each in told] == ["note"]
    make_private(old.folder)
    assert not [each for each in examine(old.folder).checks if "other users can read" in each.detail]


def test_more_is_allowed_where_it_was_asked_for(old, monkeypatch):
    monkeypatch.setenv("SMOKE_UMASK", "022")
    make_private(old.folder)
    assert loose(old.folder)
    assert not [each for each in examine(old.folder).checks if "other users can read" in each.detail]
    for wrong in ("077x", "888", "777"):
        monkeypatch.setenv("SMOKE_UMASK", wrong)
        with pytest.raises(StoreError, match="SMOKE_UMASK must be three octal digits"):
            permission_mask()


def test_links_are_not_followed(old, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    (old.folder / "link").symlink_to(outside)
    make_private(old.folder)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    shutil.rmtree(old.folder)
