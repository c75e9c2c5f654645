"""Published copies: killed at every point they are finished or removed; what is not ours is never replaced."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.doctor.examination import examine
from lineage_service.errors import LineageError, RunError, StoreError, WorkflowError
from lineage_service.store.notes import note_body
from lineage_service.store.published_folder import MARK, copies_beside, read_mark
from tests.support.erasure_shop import put_back
from tests.support.killing import counted


@pytest.fixture(autouse=True)
def without_java(monkeypatch):
    """`doctor` is asked again and again; which Java there is, takes longer than all the rest."""
    monkeypatch.setattr("lineage_service.doctor.examination._java_checks", lambda: [])


class Flow:
    """A workflow that publishes one output, `keep` rows with k below the limit of the file."""

    def __init__(self, folder: Path, path: str = "out/small", name: str = "flow", source: str = "t.parquet") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"{name}.json"
        self.name, self.target = name, folder / path
        self.body = {
            "version": 1,
            "name": name,
            "sources": {"t": {"path": source, "snapshot": True}},
            "steps": [{"name": "small", "op": "filter", "input": "t", "where": "k < 100"}],
            "outputs": {"small": {"path": path}},
        }
        self.file.write_text(json.dumps(self.body))
        if not (folder / "t.parquet").exists():
            self.write(3)

    def write(self, rows: int) -> None:
        pq.write_table(pa.table({"k": list(range(rows))}), self.folder / "t.parquet")

    @property
    def home(self) -> Home:
        return Home.open(self.folder / "home")

    def run(self) -> str:
        with self.home as home:
            return home.run(self.file).run_id

    def published(self) -> int | None:
        """How many rows lie at the published place; None where nothing does."""
        return pq.read_table(self.target).num_rows if self.target.is_dir() else None

    def beside(self) -> list[str]:
        return [path.name for path in copies_beside(self.target)]

    def told(self) -> list[tuple[str, str]]:
        return [(each.name, each.status) for each in examine(self.folder / "home", deep=True).checks
                if each.name in ("published", "leftovers", "deep")]  # fmt: skip


FINE = [("deep", "ok"), ("leftovers", "ok")]


@pytest.fixture(scope="module")
def two(spark, tmp_path_factory):
    """A home with one run that has published three rows; the source has four by now."""
    flow = Flow(tmp_path_factory.mktemp("two") / "live")
    flow.run()
    flow.write(4)
    shutil.copytree(flow.folder, flow.folder.with_name("kept"), symlinks=True)
    return flow


def fresh(two: Flow) -> Flow:
    """As it was, at the same place: the catalog holds the paths of published copies."""
    put_back(two.folder.with_name("kept"), two.folder)
    return Flow(two.folder)


def finished_by(flow: Flow, how: str) -> None:
    with flow.home as home:
        if how == "index":
            home.index()
        elif how == "gc":
            home.gc()
        elif how == "refresh":
            home.refresh("flow.t", removed="k = 99")
        else:
            home.run(flow.file)


def test_killed_at_every_point_of_a_refresh_the_copy_is_that_of_the_latest_commit(two):
    """Around the commit and the swap, point by point; what comes after finishes it, or has removed it."""
    flow = fresh(two)
    with flow.home as home, counted(flow.folder) as done:
        home.refresh("flow.t", removed="k = 1")
    assert flow.published() == 2 and flow.beside() == []
    commit = done.index("sql commit")
    first = next(number for number, each in enumerate(done) if "publications.json" in each)
    points = [*range(first, len(done))]
    assert len(points) > 20 and any(each.startswith("os.rename .small") for each in done[commit:])
    states = set()
    for number, at in enumerate(points):
        flow = fresh(two)
        with flow.home as home, counted(flow.folder, kill_at=at):
            home.refresh("flow.t", removed="k = 1")
        with flow.home as home:
            runs = len(home.runs().to_pylist())
        states.add((runs, flow.published()))
        expected = 3 if runs == 1 else 2
        if flow.beside() or flow.published() != expected:
            assert ("published", "warning") in flow.told(), (at, done[at])
        finished_by(flow, ("index", "gc")[number % 2])
        note = f"killed before {at}, '{done[at]}'"
        assert (flow.published(), flow.beside()) == (expected, []), note
        with flow.home as home:
            home.gc()
            assert len(home.runs().to_pylist()) == runs, note
            assert len(home.rows("flow.small").to_pylist()) == expected, note
        assert flow.told() == FINE, note
        assert not list((flow.folder / "home" / "runs").glob("*/publications.json")), note
    assert {(1, 3), (2, 3), (2, 2), (2, None)} <= states, "before the commit, before the swap, in it, and after it"


@pytest.mark.parametrize("how", ["run", "refresh"])
def test_the_next_run_finishes_what_a_killed_one_has_left(two, how):
    flow = fresh(two)
    with flow.home as home, counted(flow.folder) as done:
        home.refresh("flow.t", removed="k = 1")
    swap = next(number for number, each in enumerate(done) if each.startswith("os.rename .small"))
    flow = fresh(two)
    with flow.home as home, counted(flow.folder, kill_at=swap):
        home.refresh("flow.t", removed="k = 1")
    assert flow.published() is None and len(flow.beside()) == 2, "in the middle of the swap"
    finished_by(flow, how)
    assert (flow.published(), flow.beside()) == (4 if how == "run" else 2, [])


def test_a_run_that_is_killed(two):
    """The same with Spark: before its commit nothing has changed, behind it everything is done."""
    flow = fresh(two)
    with flow.home as home, counted(flow.folder) as done:
        home.run(flow.file)
    assert flow.published() == 4
    commits = [number for number, each in enumerate(done) if each == "sql commit"]
    for at in (
        commits[0],
        commits[0] + 1,
        next(n for n, each in enumerate(done) if each.startswith("os.rename .small")),
    ):
        flow = fresh(two)
        with flow.home as home, counted(flow.folder, kill_at=at):
            home.run(flow.file)
        finished_by(flow, "gc")
        with flow.home as home:
            runs = len(home.runs().to_pylist())
        assert (flow.published(), flow.beside()) == ({1: 3, 2: 4}[runs], []), done[at]
        assert runs == (1 if at == commits[0] else 2)


def test_a_newer_copy_is_not_replaced_by_an_older_one(two):
    """Killed before the swap; another home's or an older version's run has published there since."""
    flow = fresh(two)
    with flow.home as home, counted(flow.folder) as done:
        home.refresh("flow.t", removed="k = 1")
    at = next(number for number, each in enumerate(done) if each.startswith("os.rename small"))
    flow = fresh(two)
    with flow.home as home, counted(flow.folder, kill_at=at):
        home.refresh("flow.t", removed="k = 1")
    (note,) = (flow.folder / "home" / "runs").glob("*/publications.json")
    kept = note.read_text()
    flow.run()  # finishes it, and publishes four rows
    note.write_text(kept)
    shutil.copytree(flow.target, note_body(kept)[0]["waiting"])
    finished_by(flow, "gc")
    assert (flow.published(), flow.beside(), note.exists()) == (4, [], False)


def test_a_swap_that_cannot_be_made_is_told_and_made_later(two, monkeypatch):
    flow = fresh(two)
    renamed = Path.rename

    def full(self, target):
        if self == flow.target:
            raise OSError(28, "No space left on device")
        return renamed(self, target)

    with flow.home as home, monkeypatch.context() as patched:
        patched.setattr(Path, "rename", full)
        with pytest.raises(StoreError, match=r"is committed, but output 'small' is not published: .*no space left"):
            home.refresh("flow.t", removed="k = 1")
        assert home.gc()["unpublished"], "gc tells, and keeps what it needs for the next try"
        with pytest.raises(StoreError, match="not published"):
            home.index()
    assert flow.published() == 3 and ("published", "warning") in flow.told()
    finished_by(flow, "index")
    assert (flow.published(), flow.beside()) == (2, [])


def test_a_copy_that_waited_and_is_gone_is_told_until_the_workflow_is_run_again(two):
    flow = fresh(two)
    with flow.home as home, counted(flow.folder) as done:
        home.refresh("flow.t", removed="k = 1")
    at = next(number for number, each in enumerate(done) if each.startswith("os.rename .small"))
    flow = fresh(two)
    with flow.home as home, counted(flow.folder, kill_at=at):
        home.refresh("flow.t", removed="k = 1")
    shutil.rmtree(flow.folder / "out")
    with flow.home as home, pytest.raises(StoreError, match="its pending copy is missing"):
        home.index()
    assert ("published", "warning") in flow.told()
    flow.run()
    assert flow.published() == 4
    finished_by(flow, "gc")
    assert flow.told() == FINE


def test_copies_whose_note_is_lost_are_found_by_their_names(two):
    flow = fresh(two)
    for name in (".small.0123456789abcdef.new", ".small.fedcba9876543210.old"):
        shutil.copytree(flow.target, flow.target.with_name(name))
    (flow.target.with_name(".small.notes")).mkdir()
    assert ("published", "warning") in flow.told()
    finished_by(flow, "gc")
    assert flow.beside() == [] and flow.target.with_name(".small.notes").exists()
    assert flow.told() == FINE


def test_a_copy_that_somebody_writes_just_now_is_left_alone(two):
    from lineage_service.store.published_folder import writing_beside

    flow = fresh(two)
    shutil.copytree(flow.target, flow.target.with_name(".small.0123456789abcdef.new"))
    with writing_beside(flow.target):
        finished_by(flow, "gc")
        assert len(flow.beside()) == 1
    finished_by(flow, "gc")
    assert flow.beside() == []


# --- what is not ours -----------------------------------------------------------------------------------------


def test_a_users_file_in_a_published_folder_is_named_and_kept(two):
    flow = fresh(two)
    for name in ("letter.txt", "mine.parquet", "sub/deep.csv", "part-00000.parquet", ".hidden"):
        path = flow.target / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("dear")
        with flow.home as home:
            with pytest.raises(
                WorkflowError, match=rf"it holds '{name}', which smoke-lineage did not write"
            ) as refused:
                home.run(flow.file)
            assert refused.value.problems[0].position is not None and "move" in refused.value.problems[0].hint
            with pytest.raises(RunError, match=rf"it holds '{name}'"):
                home.refresh("flow.t", removed="k = 1")
            assert len(home.runs().to_pylist()) == 1
        assert path.read_text() == "dear"
        path.unlink()
        if path.parent != flow.target:
            with flow.home as home, pytest.raises(RunError, match="it holds 'sub/'"):
                home.refresh("flow.t", removed="k = 1")
            path.parent.rmdir()
    (written,) = flow.target.glob("part-*.parquet")
    pq.write_table(pa.table({"k": list(range(1000))}), written)
    with flow.home as home, pytest.raises(RunError, match="it holds 'part-"):
        home.refresh("flow.t", removed="k = 1")


def test_a_users_file_that_comes_while_the_run_is_at_work_is_kept_too(two, monkeypatch):
    from lineage_service.store.layout import RunFolder

    flow = fresh(two)
    marked = RunFolder.mark_committed

    def arriving(self, *given):
        (flow.target / "letter.txt").write_text("dear")
        return marked(self, *given)

    with flow.home as home, monkeypatch.context() as patched:
        patched.setattr(RunFolder, "mark_committed", arriving)
        with pytest.raises(StoreError, match=r"is not published: .*it holds 'letter.txt'"):
            home.refresh("flow.t", removed="k = 1")
    assert (flow.target / "letter.txt").read_text() == "dear"
    (flow.target / "letter.txt").unlink()
    finished_by(flow, "index")
    assert (flow.published(), flow.beside()) == (2, [])


def test_a_folder_with_a_mark_of_an_earlier_version(two):
    flow = fresh(two)
    (flow.target / MARK).write_text("published by smoke-lineage; replaced as a whole by the next run\n")
    (flow.target / "mine.parquet").write_bytes(b"PAR1")
    with flow.home as home:
        with pytest.raises(RunError, match=r"it holds 'mine.parquet'"):
            home.refresh("flow.t", removed="k = 1")
        (flow.target / "mine.parquet").unlink()
        home.refresh("flow.t", removed="k = 1")
    mark = read_mark(flow.target)
    assert flow.published() == 2 and mark is not None and mark.workflow == "flow"


@pytest.mark.parametrize(
    "path, reason",
    [
        ("home/out", "it is in the home"),
        ("home", "it is in the home"),
        ("x/../home/runs/out", "it is in the home"),
        ("link/runs/out", "it is in the home"),
        (".", "the home '.*' is in it"),
        ("..", "the home '.*' is in it"),
        ("t.parquet", "a file is there|source 't' is read from there"),
        ("t.parquet/out", "is a file|source 't' is read from there"),
        ("out/small/deeper", "is a published copy, which is replaced as a whole"),
        ("s3://bucket/out", "only local folders are written"),
    ],
)
def test_paths_that_are_refused(two, path, reason):
    kept = fresh(two)
    (kept.folder / "link").symlink_to(kept.folder / "home")
    flow = Flow(kept.folder, path)
    with flow.home as home, pytest.raises(WorkflowError, match=reason) as refused:
        home.run(flow.file)
    (problem,) = refused.value.problems
    assert problem.position is not None and problem.hint
    assert kept.published() == 3


@pytest.mark.parametrize(
    "source, path, refused",
    [
        ("data", "data/out", True),
        ("data/deep", "data", True),
        ("data/*.parquet", "data", True),
        ("data/*.parquet", "data/out", False),
        ("data/*", "data/out", True),
        ("data/*/x.parquet", "data/out", True),
        ("data/**/*.parquet", "data/out", True),
        ("data/../other/*.parquet", "other", True),
        ("linked/*.parquet", "data", True),
    ],
)
def test_a_target_that_meets_a_source(tmp_path, source, path, refused):
    from lineage_service.spec.loader import load_workflow
    from lineage_service.store.layout import HomeLayout
    from lineage_service.store.publications import prepare_publications

    (tmp_path / "data").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "data")
    loaded = load_workflow(Flow(tmp_path, path, source=source).file)
    try:
        prepare_publications(loaded, HomeLayout(tmp_path / "home"))
        found = False
    except WorkflowError as error:
        found = "source 't' is read from there" in str(error)
    assert found == refused


def test_two_outputs_and_two_workflows_do_not_share_a_place(two):
    flow = fresh(two)
    for path in ("out/small", "out/small/inner", "out"):
        flow.body["outputs"] = {"small": {"path": "out/small"}, "other": {"step": "small", "path": path}}
        flow.file.write_text(json.dumps(flow.body))
        with (
            flow.home as home,
            pytest.raises(WorkflowError, match=r"two outputs are published to|output 'small' is published"),
        ):
            home.run(flow.file)
    another = Flow(flow.folder, name="another")
    with another.home as home, pytest.raises(WorkflowError, match="workflow 'flow' publishes its output 'small' there"):
        home.run(another.file)
    assert flow.published() == 3


def test_a_link_to_a_folder_stays_and_the_folder_is_replaced(two):
    flow = fresh(two)
    (flow.folder / "elsewhere").mkdir()
    (flow.folder / "linked").symlink_to(flow.folder / "elsewhere")
    flow = Flow(flow.folder, "linked")
    flow.run()
    with flow.home as home:
        home.refresh("flow.t", removed="k = 1")
    assert (flow.folder / "linked").is_symlink() and flow.published() == 3
    assert copies_beside(flow.folder / "elsewhere") == []


def test_nothing_is_begun_where_the_copy_could_not_be_put(two, monkeypatch):
    flow = Flow(fresh(two).folder, "far/away/small")
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and allowed(path, mode))
    with flow.home as home, pytest.raises(LineageError, match="permission denied"):
        home.run(flow.file)
    assert not (flow.folder / "far").exists()
    with flow.home as home:
        assert home.gc() == {"removed": 0, "bytes": 0} and len(home.runs().to_pylist()) == 1
