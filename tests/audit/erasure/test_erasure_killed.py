"""`kill -9` while a plan is carried out: whatever it was doing, done again it finishes, and nothing is half erased.

Killed before each kind of thing that it does to files and to the catalog, before some of all of them by chance, and in
the middle of writing files: SMOKE_KILLS=50 for more of these. Points are counted, never timed.
"""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service.errors import RunError
from lineage_service.store.layout import RunFolder
from tests.support.audit_chain import texts_in_file
from tests.support.erasure_shop import GONE, Shop, put_back, values

KILLS = int(os.environ.get("SMOKE_KILLS", "3"))
SEED = int(os.environ.get("SMOKE_SEED", "17"))
ALWAYS = ("after switch_runs", "before put_in_place", "before vacuum", "before finish_erasure", "before write_document")


class Killed:
    """A shop with a plan, put back before each try, and the process that carries the plan out."""

    def __init__(self, folder: Path) -> None:
        self.kept = folder / "kept"
        self.shop = Shop(folder / "live").run().planned()
        put_back(self.shop.folder, self.kept)
        self.old = self.shop.rows(), self.shop.published()
        fresh = Shop(folder / "fresh", without=(GONE,)).run()
        self.new = fresh.rows(), fresh.published()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.erasure_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        put_back(self.kept, self.shop.folder)
        whole = self.applied()
        assert (whole["signal"], whole["code"]) == (0, 0)
        self.marks: list[str] = whole["marks"]

    def applied(self, **kill: Any) -> dict[str, Any]:
        """The plan carried out over the shop as it was, or killed on the way."""
        put_back(self.kept, self.shop.folder)
        shop = self.shop
        order = {"home": str(shop.folder / "home"), "plan": str(shop.plan), "out": str(shop.certificate), **kill}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def put_back(self) -> None:
        put_back(self.kept, self.shop.folder)

    # --- what must hold ---------------------------------------------------------------------------------------

    def survives(self, *, collected: bool) -> str | None:
        """Everything that holds after a kill; the state it was found in. `collected`: `gc` comes before the next try."""
        shop, state = self.shop, self.shop.state()
        rows = shop.rows()
        assert rows == (self.old[0] if state is None else self.new[0])
        for name, found in shop.published().items():
            assert found in (self.old[1][name], self.new[1][name]), name
        if state == "done":
            assert shop.published() == self.new[1]
            assert not shop.left()
        if collected:
            self.gc()
            assert shop.rows() == rows
        home = shop.open()
        try:
            if state == "done":
                with pytest.raises(RunError, match="was applied already"):
                    home.audit.apply(shop.plan, out=shop.certificate)
            else:
                home.audit.apply(shop.plan, out=shop.certificate)
            verdict = home.audit.verify(shop.certificate, values=values(GONE))
            assert verdict.holds, verdict.to_json()
            log = home.audit.verify_log()
            assert log.ok, log.problems
        finally:
            home.close()
        assert shop.state() == "done"
        self.gc()
        assert (shop.rows(), shop.published()) == self.new
        assert not shop.left()
        beside = [path.name for path in (shop.folder / "out").iterdir() if path.name.startswith(".")]
        assert not beside
        return state

    def gc(self) -> None:
        home = self.shop.open()
        home.gc()
        home.close()


@pytest.fixture(scope="module")
def killed(spark, tmp_path_factory):
    made = Killed(tmp_path_factory.mktemp("killed"))
    yield made
    made.close()


def test_killed_before_each_kind_of_thing_that_it_does(killed):
    """The first and the last time, as they differ: the same call makes, switches and sweeps. Always around the switch,
    and where all is done but the certificate; of all others a few by chance, unless many were asked for."""
    marks = killed.marks
    for needed in (
        "sql commit",
        "os.rename",
        "os.remove",
        "before vacuum",
        "after switch_runs",
        "before finish_erasure",
    ):
        assert needed in marks
    points = first_and_last(marks, ALWAYS) | set(random.Random(SEED).sample(range(len(marks)), KILLS))
    if KILLS >= 50:
        points |= first_and_last(marks, tuple(marks))
    states = set()
    for at in sorted(points):
        answer = killed.applied(at=at)
        assert answer["signal"] == signal.SIGKILL, (at, marks[at])
        assert len(answer["marks"]) == at
        try:
            states.add(killed.survives(collected=at % 2 == 0))
        except BaseException as error:
            error.add_note(f"killed before {at}, '{marks[at]}' after {marks[max(0, at - 3) : at]}")
            raise
    assert states == {None, "switched", "done"}


def first_and_last(marks: list[str], names: tuple[str, ...]) -> set[int]:
    return {marks.index(each) for each in names} | {len(marks) - 1 - marks[::-1].index(each) for each in names}


def test_killed_in_the_middle_of_writing_a_file(killed):
    """Half a file is there, whoever was writing it: DuckDB an output, SQLite its journal, Python a mark and the
    certificate."""
    marks = killed.marks
    points = {
        marks.index(each)
        for each in ("os.rename", "before switch_runs", "before put_in_place", "before write_document")
    }
    if KILLS >= 50:
        points |= set(random.Random(SEED).sample(range(marks.index("before write_document")), KILLS))
    for at in sorted(points):
        answer = killed.applied(at=at, bytes=20)
        assert answer["signal"] == signal.SIGXFSZ, (at, marks[at])
        halves = [path for path in killed.shop.folder.rglob("*") if path.is_file() and path.stat().st_size == 20]
        assert halves, (at, marks[at])
        try:
            killed.survives(collected=at % 2 == 0)
        except BaseException as error:
            error.add_note(f"killed while {halves} was written, after {answer['marks'][-3:]}")
            raise


def test_interrupted_just_after_the_switch(killed, monkeypatch):
    """Not killed: what cleans up behind a try that failed must see that this one has not."""
    killed.put_back()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RunFolder, "mark_committed", interrupted)
        home = killed.shop.open()
        try:
            home.audit.apply(killed.shop.plan)
        finally:
            home.close()
    assert killed.survives(collected=False) == "switched"


def interrupted(folder: RunFolder, *catalog: str) -> None:
    """Marked for its catalog before the switch, as ever; interrupted when it is marked behind it."""
    if not catalog:
        raise KeyboardInterrupt
    mark_committed(folder, *catalog)


mark_committed = RunFolder.mark_committed


def test_a_run_that_published_after_the_kill_keeps_its_copy(killed, spark):
    at = killed.marks.index("before put_in_place")
    killed.applied(at=at)
    shop = killed.shop
    shop.write_sources(without=(GONE, 0))
    home = shop.open()
    home.run(shop.folder / "first.yml")
    home.close()
    later = shop.published()
    assert later["large"] not in (killed.old[1]["large"], killed.new[1]["large"])
    home = shop.open()
    home.audit.apply(shop.plan, out=shop.certificate)
    assert home.audit.verify(shop.certificate, values=values(GONE)).holds
    home.close()
    assert shop.published() == {**killed.new[1], "large": later["large"], "spend": later["spend"]}
    assert not shop.left()


def test_copies_that_killed_runs_left_beside_the_published_ones_go_too(killed):
    killed.put_back()
    shop = killed.shop
    for name in (".large.0123456789abcdef.new", ".best.0123456789abcdef.old"):
        put_back(shop.folder / "out" / "large", shop.folder / "out" / name)
    (shop.folder / "out" / ".large.notes").mkdir()
    home = shop.open()
    home.audit.apply(shop.plan, out=shop.certificate)
    assert not shop.left()
    assert (shop.folder / "out" / ".large.notes").exists()
    # And where one comes there later, verify finds it.
    put_back(killed.kept / "out" / "large", shop.folder / "out" / ".large.0123456789abcdef.old")
    verdict = home.audit.verify(shop.certificate)
    home.close()
    assert not verdict.holds and any(".large.0123456789abcdef.old" in each for each in verdict.found)


def test_killed_while_source_files_are_rewritten(killed, spark, tmp_path, monkeypatch):
    """The source is as it was up to the switch; afterwards the rows are gone, and the next run has nothing to refuse."""
    killed.put_back()
    shop = killed.shop.planned(rewrite_sources=True)
    put_back(shop.folder, tmp_path / "kept")
    monkeypatch.setattr(killed, "kept", tmp_path / "kept")
    marks = killed.applied()["marks"]
    names = ("people.parquet", "orders.parquet")
    for mark in (
        "after switch_runs",
        "before replace_source_file",
        "after replace_source_file",
        "before finish_erasure",
    ):
        killed.applied(at=marks.index(mark))
        sources = [texts_in_file(shop.folder / each) for each in names]
        if mark == "after switch_runs":
            assert killed.shop.state() is None and all(values(GONE)[0] in each for each in sources)
        killed.survives(collected=False)
        sources = [texts_in_file(shop.folder / each) for each in names]
        assert not any(value in each for each in sources for value in values(GONE))
        assert not list(shop.folder.glob(".*.new"))
    home = shop.open()
    home.run(shop.folder / "first.yml")
    home.close()
    assert shop.rows()["first.large"] == killed.new[0]["first.large"]


def test_a_source_that_was_written_after_the_kill_is_left_alone(killed, tmp_path, monkeypatch):
    killed.put_back()
    shop = killed.shop.planned(rewrite_sources=True)
    put_back(shop.folder, tmp_path / "kept")
    monkeypatch.setattr(killed, "kept", tmp_path / "kept")
    marks = killed.applied()["marks"]
    killed.applied(at=marks.index("before replace_source_file"))
    assert shop.state() == "switched"
    pq.write_table(pa.table({"id": [1], "name": ["new"], "city": ["Rom"]}), shop.folder / "people.parquet")
    home = shop.open()
    told = home.audit.apply(shop.plan, out=shop.certificate)
    assert home.audit.verify(shop.certificate, values=values(GONE)).holds
    home.close()
    assert pq.read_table(shop.folder / "people.parquet").num_rows == 1
    assert any("written by others" in each and "people.parquet" in each for each in told["not_covered"])
    assert [Path(each["path"]).name for each in told["sources_rewritten"]] == ["orders.parquet"]
    assert not list(shop.folder.glob(".*.new"))
