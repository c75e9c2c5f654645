"""What goes wrong for users: one clear message with a place or a name, no data in it, and nothing left behind."""

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import LineageError, NotFound, QuestionError, RunError, SourceError, StoreError
from lineage_service.store.duckdb_engine import open_duckdb
from lineage_service.store.layout import HomeLayout, working_folder
from tests.support.waiting import wait_until

SECRET = "Q7secretQ7"  # in the data, and never in a message
INTERNAL = ("Traceback", "org.apache", "java.", "py4j", "JVM", "\tat ", "SQLSTATE", "duckdb.")


def table(path: Path, rows: int = 4, **columns) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"n": list(range(rows)), "name": [f"{SECRET}{number}" for number in range(rows)], **columns}
    pq.write_table(pa.table(body), path)
    return path


def flow(folder: Path, source: dict | None = None, steps: list[dict] | None = None, name: str = "flow") -> Path:
    """A workflow file in YAML whose lines are known: the source's path is in line 4, the first step in line 6."""
    source = {"path": "t.parquet"} if source is None else source
    steps = [{"name": "out", "op": "filter", "input": "s", "where": "true"}] if steps is None else steps
    lines = ["version: 1", f"name: {name}", "sources:", f"  s: {json.dumps(source)}", "steps:"]
    lines += [f"  - {json.dumps(step)}" for step in steps]
    path = folder / f"{name}.yml"
    path.write_text("\n".join([*lines, f"outputs: {{{steps[-1]['name']}: {{}}}}", ""]), encoding="utf-8")
    return path


def left_in(home: Path) -> list[str]:
    return [str(path) for path in (home / "runs").iterdir()] if (home / "runs").is_dir() else []


def refused(folder: Path, file: Path, *said: str, kind: type[LineageError] = LineageError, **options) -> str:
    """Runs a workflow that must fail with these words, tell nothing it should not, and leave nothing behind."""
    with Home.open(folder / "home") as home:
        before = home.runs().count() if (folder / "home" / "catalog.db").exists() else 0
        with pytest.raises(kind) as caught:
            home.run(file, **options)
        message = str(caught.value)
        assert home.runs().count() == before
    for each in said:
        assert each in message, message
    told = [each for each in (SECRET, *INTERNAL) if each in message]
    assert not told, f"{told} in: {message}"
    assert len(left_in(folder / "home")) == before
    return message


@pytest.fixture(autouse=True)
def _nothing_is_told_elsewhere(capfd):
    """What is not in the message is not beside it either: Spark's own loggers would quote the data."""
    yield
    written = "".join(capfd.readouterr())
    assert not [each for each in (SECRET, *INTERNAL) if each in written], written[:2000]


# --- sources that cannot be read ------------------------------------------------------------------------------------


def test_files_that_are_not_there_or_not_parquet(spark, tmp_path):
    """Found before Spark is asked, each at its place in the file."""
    place = "flow.yml:4:"
    message = refused(tmp_path, flow(tmp_path, {"path": "non.parquet"}), place, "source 's'", "'non.parquet'", "hint:")
    assert message.count("non.parquet") <= 3
    (tmp_path / "empty").mkdir()
    refused(tmp_path, flow(tmp_path, {"path": "empty"}), place, "source 's'", "holds no data files")
    (tmp_path / "nested" / "deep").mkdir(parents=True)
    table(tmp_path / "nested" / "deep" / "t.parquet")
    refused(tmp_path, flow(tmp_path, {"path": "nested"}), place, "holds no data files", "'deep/*'")
    (tmp_path / "text.parquet").write_text(f"{SECRET}\n" * 10)
    refused(tmp_path, flow(tmp_path, {"path": "text.parquet"}), place, "text.parquet", "no readable Parquet file")
    (tmp_path / "zero.parquet").touch()
    refused(tmp_path, flow(tmp_path, {"path": "zero.parquet"}), place, "zero.parquet", "no readable Parquet file")
    whole = table(tmp_path / "t.parquet").read_bytes()
    (tmp_path / "half.parquet").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path, flow(tmp_path, {"path": "half.parquet"}), place, "half.parquet", "truncated")
    # A broken file that is not the first of its folder.
    table(tmp_path / "some" / "1.parquet")
    (tmp_path / "some" / "2.parquet").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path, flow(tmp_path, {"path": "some"}), place, "some/2.parquet", "truncated", kind=SourceError)
    refused(tmp_path, flow(tmp_path, {"path": "some/*.pq"}), place, "no file matches", "holds: 1.parquet, 2.parquet")
    table(tmp_path / "_t.parquet")
    refused(tmp_path, flow(tmp_path, {"path": "_t.parquet"}), place, "Spark ignores", "_t.parquet")
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), tmp_path / "nanos.parquet")
    refused(tmp_path, flow(tmp_path, {"path": "nanos.parquet"}), place, "NANOS", "hint: Spark reads microseconds")
    refused(tmp_path, flow(tmp_path, {"path": "s3://bucket/x.parquet"}), place, "only local paths")
    refused(tmp_path, flow(tmp_path, {"output": "other.out"}), place, "other", str(tmp_path / "home"))


def test_damaged_pages_behind_an_intact_footer(spark, tmp_path):
    path = table(tmp_path / "t.parquet", 20_000)
    body = bytearray(path.read_bytes())
    at = len(body) // 2
    body[at : at + 4000] = b"\xff" * 4000
    path.write_bytes(body)
    refused(tmp_path, flow(tmp_path), "t.parquet", "damaged", kind=SourceError)
    refused(tmp_path, flow(tmp_path, {"path": "t.parquet", "snapshot": True}), "source 's'", kind=SourceError)


def test_text_records_that_do_not_fit(spark, tmp_path):
    """Named by file and record; a header is no record, and a value is never quoted."""
    schema = "n BIGINT, name STRING"
    header = {"header": True}
    for number, (bad, records) in enumerate(
        (
            (f"1,{SECRET}\n2\n3,c\n", [2]),  # too few
            (f"1,{SECRET}\n2,b\n3,c,d\n4\n", [3, 4]),  # too many, and too few
            (f"1,a\n{SECRET},b\n", [2]),  # no number
        )
    ):
        name = f"bad {number}.csv"
        (tmp_path / name).write_text(f"n,name\n{bad}")
        source = {"path": name, "schema": schema, "options": header}
        message = refused(tmp_path, flow(tmp_path, source), "flow.yml:4:", "source 's'", name, kind=SourceError)
        assert [f"record {record} " in message for record in range(1, 6)] == [r in records for r in range(1, 6)]
        assert "PERMISSIVE" in message
    (tmp_path / "bad.json").write_text(f'{{"n": 1}}\n{{"n": 2, {SECRET}\n{{"n": 3}}\n')
    given = {"path": "bad.json", "schema": "n BIGINT"}
    refused(tmp_path, flow(tmp_path, given), "flow.yml:4:", "bad.json", "record 2 ", kind=SourceError)
    refused(tmp_path, flow(tmp_path, {"path": "bad.json"}), "flow.yml:4:", "bad.json", kind=SourceError)
    dropping = {"path": "bad.json", "schema": "n BIGINT", "options": {"mode": "DROPMALFORMED"}}
    refused(tmp_path, flow(tmp_path, dropping), "flow.yml:4:", "DROPMALFORMED")
    unreadable = {"path": "bad.json", "schema": "n NUMBERZ"}
    refused(tmp_path, flow(tmp_path, unreadable), "flow.yml:4:", "NUMBERZ")
    # Where the user allows it, such records are there with nulls, and in their place.
    allowed = {"path": "bad 0.csv", "schema": schema, "options": {**header, "mode": "PERMISSIVE"}}
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path, allowed))
        assert [row["name"] is None for row in home.rows("s").to_pylist()] == [False, True, False]


def test_files_that_do_not_go_together(spark, tmp_path):
    table(tmp_path / "unlike" / "1.parquet")
    pq.write_table(pa.table({"n": ["a", "b"], "name": ["x", "y"]}), tmp_path / "unlike" / "2.parquet")
    said = ("column 'n' is int64", "unlike/1.parquet", "string", "unlike/2.parquet")
    refused(tmp_path, flow(tmp_path, {"path": "unlike"}), "flow.yml:4:", *said, kind=SourceError)
    refused(tmp_path, flow(tmp_path, {"path": "unlike", "snapshot": True}), *said, kind=SourceError)
    # One family, but Spark cannot read it as what the first file has.
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), tmp_path / "t.parquet")
    table(tmp_path / "wider" / "1.parquet", n=pa.array(range(4), pa.int32()))
    table(tmp_path / "wider" / "2.parquet", n=[2**40] * 4)
    refused(tmp_path, flow(tmp_path, {"path": "wider"}), "wider/2.parquet", "of another type", kind=SourceError)
    declared = {"path": "t.parquet", "schema": "n STRING"}
    refused(tmp_path, flow(tmp_path, declared), str(tmp_path / "t.parquet"), "of another type", kind=SourceError)
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "1.csv").write_text("n,name\n1,a\n")
    (tmp_path / "headers" / "2 ü.csv").write_text("name,n\nb,2\n")
    headers = {"path": "headers/*.csv", "options": {"header": True}}
    refused(tmp_path, flow(tmp_path, headers), "flow.yml:4:", "headers/2 ü.csv", "header differs", kind=SourceError)
    table(tmp_path / "parts" / "k=1" / "a.parquet")
    table(tmp_path / "parts" / "j=1" / "a.parquet")
    refused(tmp_path, flow(tmp_path, {"path": "parts"}), "partitioned differently", "(j)", "(k)")
    # Columns that only case tells apart.
    table(tmp_path / "case.parquet", N=[1, 2, 3, 4])
    refused(tmp_path, flow(tmp_path, {"path": "case.parquet"}), "flow.yml:4:", "'N'", "case")
    (tmp_path / "case.json").write_text('{"n": 1, "N": 2}\n')
    refused(tmp_path, flow(tmp_path, {"path": "case.json"}), "flow.yml:4:", "source 's'")
    (tmp_path / "case.csv").write_text("n,N\n1,2\n")
    case = {"path": "case.csv", "options": {"header": True, "inferSchema": True}}
    with Home.open(tmp_path / "other") as home:  # Spark numbers such columns of a CSV file
        home.run(flow(tmp_path, case))
        assert home.rows("s").arrow().column_names == ["_rid", "n0", "N1"]


# --- sources that change --------------------------------------------------------------------------------------------


def test_a_source_that_changes_during_the_run(spark, tmp_path):
    def during(change):
        return lambda event: change() if str(event) == "writing step 'out'" else None

    path = table(tmp_path / "t.parquet")
    file = flow(tmp_path)
    touched = during(lambda: os.utime(path, ns=(1, 1)))
    refused(tmp_path, file, "flow.yml:4:", "source 's' changed", str(path), "hint:", kind=SourceError, progress=touched)
    path = table(tmp_path / "t.parquet")
    longer = during(lambda: table(path, 5000))
    refused(tmp_path, file, str(path), kind=SourceError, progress=longer)
    path = table(tmp_path / "t.parquet")
    refused(tmp_path, file, str(path), kind=SourceError, progress=during(path.unlink))


def test_a_source_that_changed_after_the_run(spark, tmp_path):
    """Pairs, rids and counts are still given, and rows of the files that are what they were."""
    first, second = (table(tmp_path / "parts" / f"{number}.parquet") for number in (1, 2))
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path, {"path": "parts"}))
        for change in (lambda: table(second, 4, more=[1, 2, 3, 4]), second.unlink):
            change()
            assert home.backward("out", to="s", all=True, pairs=True).count() == 8
            assert home.backward("out", to="s", rid=7, rids=True).to_pylist() == [{"_rid": 7}]
            assert home.backward("out", to="s", rid=[0, 7], count=True).count() == 2
            assert home.forward("s", to="out", rid=[7]).to_pylist()[0]["n"] == 3
            assert [row["n"] for row in home.backward("out", to="s", rid=[1, 2]).to_pylist()] == [1, 2]
            assert home.rows("s", rid=[3]).to_pylist()[0]["n"] == 3
            for asked in (
                lambda: home.rows("s"),
                lambda: home.rows("s", rid=[3, 4]),
                lambda: home.rows("s", where="n = 1"),
                lambda: home.backward("out", to="s", rid=[0, 7]),
                lambda: home.forward("s", to="out", key={"n": 1}),
            ):
                with pytest.raises(SourceError) as caught:
                    asked()
                assert str(second) in str(caught.value)
                assert str(first) not in str(caught.value)


# --- expressions ----------------------------------------------------------------------------------------------------


def test_expressions_that_cannot_be(spark, tmp_path):
    table(tmp_path / "t.parquet", k=[[1], [2], [3], [4]])
    step = {"name": "out", "op": "filter", "input": "s"}
    for where, said in (
        ("k + 1", "k"),
        ("n + 1", "boolean"),
        ("no_such_function(n) > 1", "no_such_function"),
        ("nam = 'x'", "did you mean 'name'"),
        ("n > ", "cannot read the expression"),
        ("sum(n) > 1", "aggregate"),
        ("n in (select 1)", "subqueries"),
    ):
        refused(tmp_path, flow(tmp_path, steps=[{**step, "where": where}]), "flow.yml:6:", said)


def test_values_that_cannot_be_computed(spark, tmp_path):
    """Under ANSI rules: the step and the reason, with a hint, and never the value."""
    table(tmp_path / "t.parquet", zero=[0, 0, 0, 0], big=[2**62] * 4)
    for expression, said in (
        ("cast(name as int)", "try_cast"),
        ("cast(name as date)", "try_cast"),
        ("n / zero", "division by zero"),
        ("n % zero", "division by zero"),
        ("big * 4", "too large"),
        ("cast(big as int)", "too large"),
        ("to_timestamp(name, 'yyyy')", "try_to_timestamp"),
        ("element_at(array(n), 7)", "out of range"),
        ("raise_error(name)", "raise_error"),
    ):
        steps = [{"name": "out", "op": "project", "input": "s", "columns": {"x": expression}}]
        message = refused(tmp_path, flow(tmp_path, steps=steps), "flow.yml:6:", "step 'out'", said, kind=RunError)
        assert str(2**62) not in message


# --- the home -------------------------------------------------------------------------------------------------------


@contextmanager
def mounted(folder: Path, options: str):
    """A small file system of its own; False where mounting is not permitted here."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False, capture_output=True
    )
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(spark, tmp_path):
    rows, chance = 200_000, random.Random(1)
    table(tmp_path / "t.parquet", rows, noise=[chance.randrange(2**62) for _ in range(rows)])
    for snapshot in (False, True):
        with mounted(tmp_path / f"small{snapshot}", "size=1500k") as permitted:
            small = tmp_path / f"small{snapshot}"
            file = flow(tmp_path, {"path": "t.parquet", "snapshot": snapshot})
            if permitted:
                refused(small, file, str(small / "home"), "the disk is full", kind=StoreError)
            else:  # no file system of our own: a home whose files all go to a device that is always full
                (small / "home").mkdir()
                (small / "home" / "catalog.db").symlink_to("/dev/full")
                with Home.open(small / "home") as home, pytest.raises(StoreError):
                    home.run(file)


def test_a_disk_that_is_full_when_the_index_is_written(tmp_path):
    with pytest.raises(StoreError, match="the disk is full"), open_duckdb(tmp_path / "spill") as connection:
        connection.execute("COPY (SELECT range FROM range(1000000)) TO '/dev/full' (FORMAT parquet)")
    with pytest.raises(StoreError, match="the disk is full"), working_folder(HomeLayout(tmp_path / "home")):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert left_in(tmp_path / "home") == []


def test_a_home_that_cannot_be_written(spark, tmp_path):
    table(tmp_path / "t.parquet")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, not a folder") as caught:
        Home.open(tmp_path / "file" / "home")
    assert str(tmp_path / "file" / "home") in str(caught.value)
    with mounted(tmp_path / "fixed", "ro") as permitted:
        fixed, reason = (tmp_path / "fixed" / "home", "read-only") if permitted else (Path("/proc/self/home"), "")
        with Home.open(fixed) as home, pytest.raises(StoreError, match=f"cannot write to the home '{fixed}'.*{reason}"):
            home.run(flow(tmp_path))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "catalog.db").write_bytes(b"no database" * 500)
    with Home.open(tmp_path / "broken") as home:
        with pytest.raises(StoreError, match="catalog"):
            home.run(flow(tmp_path))
        with pytest.raises(StoreError, match="catalog"):
            home.rows("out")


def test_two_runs_at_once(spark, tmp_path):
    """Of the same workflow, in a home that neither has seen: both commit, both are right."""
    table(tmp_path / "t.parquet", 50)
    file = flow(tmp_path, {"path": "t.parquet", "snapshot": True})
    reports, failures = [], []

    def run() -> None:
        try:
            with Home.open(tmp_path / "home") as home:
                reports.append(home.run(file))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with Home.open(tmp_path / "home") as home:
        assert {row["run_id"] for row in home.runs().to_pylist()} == {report.run_id for report in reports}
        assert len(reports) == 2
        (tmp_path / "t.parquet").unlink()
        assert home.gc()["removed"] <= 1, "of two copies of one version, the one that came second is not needed"
        for report in reports:
            found = home.backward(f"out@{report.run_id}", to="s", all=True, pairs=True).to_pylist()
            assert [(row["out_rid"], row["rid"]) for row in found] == [(n, n) for n in range(50)]
            assert home.rows(f"s@{report.run_id}").count() == 50


def test_an_interrupt_leaves_nothing(spark, tmp_path, monkeypatch):
    """Before the outputs are committed; what comes after is in test_capture.py."""
    from lineage_service.spark.staging import RunWriter

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    table(tmp_path / "t.parquet")
    steps = [
        {"name": "totals", "op": "aggregate", "input": "s", "by": ["name"], "measures": {"n": "sum(n)"}},
        {"name": "out", "op": "filter", "input": "totals", "where": "n > 0"},
    ]
    for name in ("dataset", "write_once", "_write"):
        with monkeypatch.context() as patch, Home.open(tmp_path / "home") as home:
            patch.setattr(RunWriter, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                home.run(flow(tmp_path, steps=steps), capture="stage")
            assert home.runs().count() == 0
            assert left_in(tmp_path / "home") == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, BrokenPipeError])
def test_what_is_committed_stays_whatever_the_listener_does(spark, tmp_path, kind):
    def listener(event):
        if type(event).__name__ == "Ended" and event.label == "committing":
            raise kind

    table(tmp_path / "t.parquet")
    with Home.open(tmp_path / "home") as home:
        with contextlib.suppress(KeyboardInterrupt):
            home.run(flow(tmp_path), progress=listener)
        assert home.runs().count() == 1
        assert home.rows("out").count() == 4


KILLED = """
import sys
from pathlib import Path
from lineage_service import Home

def progress(event):
    if str(event) == sys.argv[3]:
        Path(sys.argv[4]).touch()
        sys.stdin.read()  # for ever, but no longer than the tests

quick = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
Home.open(sys.argv[1]).run(sys.argv[2], progress=progress, conf=quick, master="local[1]")
"""


def test_a_killed_run_is_cleared_away_and_others_stay(spark, tmp_path):
    table(tmp_path / "t.parquet")
    file, mark = flow(tmp_path), tmp_path / "there"
    with Home.open(tmp_path / "home") as home:
        kept = home.run(file).run_id
        arguments = [str(tmp_path / "home"), str(file), "committing", str(mark)]
        killed = subprocess.Popen(
            [sys.executable, "-c", KILLED, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: mark.exists() or killed.poll() is not None, "the run is about to commit")
            assert killed.poll() is None
            assert len(left_in(tmp_path / "home")) == 2
            assert home.gc() == {"removed": 0, "bytes": 0}, "a run at work is left alone"
        finally:
            killed.send_signal(signal.SIGKILL)
            killed.communicate()
        assert home.runs().count() == 1
        assert home.gc(dry_run=True)["removed"] == 1
        assert len(left_in(tmp_path / "home")) == 2
        assert home.gc()["bytes"] > 0
        assert left_in(tmp_path / "home") == [str(tmp_path / "home" / "runs" / kept)]
        assert home.backward("out", to="s", rid=3).count() == 1
        with working_folder(HomeLayout(tmp_path / "home")) as folder:
            assert home.gc()["removed"] == 0
            assert folder.path.is_dir()
        shutil.rmtree(folder.path)


# --- questions ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(spark, tmp_path_factory):
    """A home with two workflows that both have `s` and `out`."""
    folder = tmp_path_factory.mktemp("asked")
    table(folder / "t.parquet", day=pa.array([0, 1, 2, 3], pa.date32()))
    with Home.open(folder / "home") as home:
        home.run(flow(folder))
        home.run(flow(folder, name="other"))
        yield home


PREDICATES = [
    "1=1; drop table x",
    "1) or (1=1",
    "n = 1) union select 1 --",
    "read_csv('/etc/passwd') is not null",
    "n in (select 1)",
    "exists (select 1)",
    "(select count(*) from read_text('/etc/passwd')) > 0",
    "n = any(select 1)",
    "getenv('HOME') = 'x'",
    "current_setting('memory_limit') = 'x'",
    "getvariable('x') = 1",
    "pragma database_list",
    "install httpfs",
    "attach 'x.db'",
    "copy (select 1) to '/tmp/x'",
    "set memory_limit = '1MB'",
    "select 1",
    "n > 0 as x",
    "*",
    "sum(n) > 1",
    "row_number() over () = 1",
    "count(*) > 0",
    "n = ?",
    "n = $1",
    "n = @x",
    "glob('/etc/*') is not null",
    "query('select 1') is not null",
    "nextval('x') > 0",
    "error(name)",
    "list_transform([n], x -> x) is not null",
    "'/etc/passwd'.read_text() is not null",
    "name",
    "",
    "   ",
    "name +",
    "((((n = 1)",
    "from range(10)",
    "unnest([1, 2]) = 1",
    "nam = 'x'",
    "main.t.n = 1",
    "columns(*) > 1",
    "rows_asked",
    "system.main.getenv('HOME') is null",
    "repeat(name, 1000000000) = 'x'",
]


@pytest.mark.parametrize("text", PREDICATES)
def test_predicates_that_are_none(asked, text):
    with pytest.raises(QuestionError) as caught:
        asked.rows("flow.s", where=text).arrow()
    assert not [each for each in (SECRET, *INTERNAL, "HOME=", "root:") if each in str(caught.value)], caught.value


def test_comments_are_not_run(asked):
    assert asked.rows("flow.s", where="n = 1 -- or true").count() == 1
    assert asked.rows("flow.s", where="n = 1 /* or true */").count() == 1


def test_questions_that_cannot_be_asked(asked):
    def said(ask, *words, kind=QuestionError):
        with pytest.raises(kind) as caught:
            ask().arrow()
        for word in words:
            assert word in str(caught.value), caught.value
        assert not [each for each in (SECRET, *INTERNAL) if each in str(caught.value)]

    home = str(asked.layout.path)
    said(lambda: asked.rows("flow.s", where="nmae = 'x'"), "unknown column 'nmae'", "did you mean 'name'")
    said(lambda: asked.rows("flow.s", key={"nmae": 1}), "unknown column 'nmae'", "did you mean 'name'")
    said(lambda: asked.rows("flow.s", key={"n": "abc"}), "is no ")
    said(lambda: asked.rows("flow.s", key={"day": "no day"}), "is no ")
    said(lambda: asked.rows("flow.s", key={"n": str(2**70)}), "is no ")
    said(lambda: asked.rows("flow.s", where="name = 1"), "converted")
    said(lambda: asked.rows("flow.s", rid=4), "no row 4", "0 to 3", kind=NotFound)
    said(lambda: asked.rows("flow.s", rid=-1), "no row -1", kind=NotFound)
    said(lambda: asked.rows("flow.s", rid=2**70), "a row id is a whole number of 64 bits")
    said(lambda: asked.backward("flow.out", to="s", rid=[0, 4, 9], pairs=True), "no row 4, 9", kind=NotFound)
    said(lambda: asked.rows("flow.s", all=True, rid=1), "stands alone")
    said(lambda: asked.rows("flow.s", columns=["nme"]), "unknown column 'nme'", "did you mean")
    said(lambda: asked.rows("flow.s", order_by="nme"), "unknown column 'nme'", "did you mean")
    said(lambda: asked.rows("flow.s", order_by="n; drop table x"), "order")
    said(lambda: asked.rows("flow.s", limit=-1), "negative")
    said(lambda: asked.rows("s"), "several workflows", "flow.s, other.s")
    said(lambda: asked.rows("flow.sss"), "no dataset 'sss'", home, kind=NotFound)
    said(lambda: asked.rows("folw.s"), "folw", "did you mean 'flow'", home, kind=NotFound)
    said(lambda: asked.rows("nothing"), "no dataset 'nothing'", home, kind=NotFound)
    said(lambda: asked.rows("flow.s@zzz"), "no run 'zzz'", home, kind=NotFound)
    said(lambda: asked.rows("flow.s@"), "no dataset name")
    said(lambda: asked.rows("a.b.c"), "no dataset name")
    said(lambda: asked.rows(""), "no dataset name")
    said(lambda: asked.backward("flow.out", to="other.nothing", all=True), "nothing", kind=NotFound)
    said(lambda: asked.backward("flow.out", to="s"), "which rows")
    said(lambda: asked.datasets(run="zzz"), "no run 'zzz'", kind=NotFound)


def test_files_without_columns(spark, tmp_path):
    for name in ("empty.csv", "empty.json"):
        (tmp_path / name).touch()
        refused(tmp_path, flow(tmp_path, {"path": name}), "source 's' has no columns: its files are empty", "`schema:")
    pq.write_table(pa.table({}), tmp_path / "none.parquet")
    refused(tmp_path, flow(tmp_path, {"path": "none.parquet"}), "none.parquet' has no columns", kind=SourceError)


def test_a_workflow_that_is_not_there_makes_no_home(tmp_path):
    with (
        Home.open(tmp_path / "home") as home,
        pytest.raises(NotFound, match=r"workflow file '.*nope\.yml' does not exist"),
    ):
        home.run(tmp_path / "nope.yml")
    assert not (tmp_path / "home").exists()
