"""What capture promises beside exact pairs: outputs first, lineage after; choices, refusals, faults, two engines."""

import json
import random
import shutil
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import CaptureSuspect, LineageError, LineageInterrupted, SourceError, WorkflowError
from lineage_service.index.column_inversion import fits_in_memory, write_inverted_column
from lineage_service.index.index_engine import DuckIndexEngine
from lineage_service.runs import unfinished_lineage as reindex
from lineage_service.runs.lineage_indexing import LineageBuild
from lineage_service.runs.workflow_file import explain_workflow
from tests.support.strategies import ASKED_FOR

GROUPED = {"name": "t", "op": "aggregate", "input": "a", "by": ["k"], "measures": {"n": "count(*)", "s": "sum(v)"}}
COMPUTED = {**GROUPED, "by": {"k": "k % 3"}}


def flow(folder: Path, steps: list[dict], rows: int = 30, name: str = "flow", output: str = "t", **more) -> Path:
    """A workflow over `a(k, v)`: k runs from 0 to 6 again and again, v counts. Beside it is a copy, `b.parquet`."""
    folder.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY (SELECT range % 7 AS k, range AS v FROM range({rows})) TO '{folder / 'a.parquet'}'")
    shutil.copyfile(folder / "a.parquet", folder / "b.parquet")
    body = {
        "version": 1,
        "name": name,
        "sources": {"a": {"path": "a.parquet"}},
        "steps": steps,
        "outputs": {output: {}},
    }
    path = folder / f"{name}.yml"
    path.write_text(json.dumps({**body, **more}))
    return path


def pairs(home: Home, to: str = "a", of: str = "t") -> list[tuple[int, int]]:
    table = home.backward(of, to=to, all=True, pairs=True).arrow()
    return sorted(zip(table.column("out_rid").to_pylist(), table.column("rid").to_pylist(), strict=True))


def state(home: Home) -> str:
    return home.runs().to_pylist()[0]["lineage"]


def hops(home: Home) -> list:
    return home._open.reader.hops(home.runs().to_pylist()[0]["run_id"])


# --- outputs first ----------------------------------------------------------------------------------------------


def failing_settle(monkeypatch, error: BaseException) -> None:
    def fail(self, stages):
        raise error

    monkeypatch.setattr(LineageBuild, "build", fail)


@pytest.mark.parametrize("steps", [[GROUPED], [COMPUTED]], ids=["direct", "read again"])
@pytest.mark.parametrize("capture", ["auto", "defer", "inject", "stage"])
def test_an_interrupt_after_the_commit_keeps_the_outputs(spark, tmp_path, monkeypatch, steps, capture):
    path = flow(tmp_path, steps)
    with Home.open(tmp_path / "whole") as home:
        home.run(path, capture=capture)
        wanted, groups = pairs(home), home.rows("t").arrow().num_rows
    with monkeypatch.context() as patched, Home.open(tmp_path / "home") as home:
        failing_settle(patched, KeyboardInterrupt())
        with pytest.raises(LineageInterrupted, match="outputs are committed"):
            home.run(path, capture=capture)
        assert home.rows("t").arrow().num_rows == groups
        assert state(home) == "pending"
        assert home.gc()["removed"] == 0, "what the index is to be made of stays"
    with Home.open(tmp_path / "home") as home:  # a later process
        assert len(home.index()) == 1
        assert state(home) == "complete"
        assert pairs(home) == wanted
        assert home.index() == []
        assert not (home.layout.runs / home.runs().to_pylist()[0]["run_id"] / "lineage").exists()


def test_a_question_finishes_what_it_needs(spark, tmp_path, monkeypatch):
    path = flow(tmp_path, [COMPUTED])
    with monkeypatch.context() as patched, Home.open(tmp_path / "home") as home:
        failing_settle(patched, KeyboardInterrupt())
        with pytest.raises(LineageInterrupted):
            home.run(path, capture="defer")
    with Home.open(tmp_path / "home") as home:
        assert home.backward("t", to="a", rid=0, count=True).count() in (13, 9, 8)
        assert state(home) == "complete"


def test_a_fault_of_capture_is_told_by_every_question_and_can_be_tried_again(spark, tmp_path, monkeypatch):
    path = flow(tmp_path, [COMPUTED])
    with monkeypatch.context() as patched, Home.open(tmp_path / "home") as home:
        failing_settle(patched, LineageError("the disk is full"))
        report = home.run(path)
        assert report.status == "committed"
        assert any("lineage is incomplete: the disk is full" in warning for warning in report.warnings)
        for ask in (
            lambda: home.backward("t", to="a", rid=0),
            lambda: home.forward("a", to="t", rid=0),
            lambda: home.trace("t", rid=0),
            lambda: home.backward("t", rid=0),
        ):
            with pytest.raises(LineageError, match=r"is incomplete: the disk is full"):
                ask()
        assert home.rows("t").arrow().num_rows == 3
    with Home.open(tmp_path / "home") as home:
        home.index()
        assert len(pairs(home)) == 30


def test_whatever_duckdb_says_the_outputs_are_there_and_the_lineage_is_incomplete(spark, tmp_path, monkeypatch):
    path = flow(tmp_path, [COMPUTED])
    with Home.open(tmp_path / "home") as home:
        with monkeypatch.context() as patched:
            patched.setattr(
                DuckIndexEngine, "number", lambda self, _: self.connection.execute("SELECT error('secret')")
            )
            report = home.run(path, capture="stage")
        assert state(home) == "incomplete"
        assert "DuckDB reports InvalidInputException" in report.warnings[-1]
        assert "secret" not in report.warnings[-1]
        home.index()
        assert len(pairs(home)) == 30


def test_an_engine_that_does_not_exist_is_refused(tmp_path):
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(LineageError, match="unknown index engine 'polars'; engines: auto, duckdb, spark"):
            home.index(index_engine="polars")
        with pytest.raises(LineageError, match="unknown index engine 'polars'"):
            home.run(flow(tmp_path, [GROUPED]), index_engine="polars")


def test_two_that_finish_the_same_index_do_no_harm(spark, tmp_path, monkeypatch):
    path = flow(tmp_path, [GROUPED])
    with monkeypatch.context() as patched, Home.open(tmp_path / "home") as home:
        failing_settle(patched, KeyboardInterrupt())
        with pytest.raises(LineageInterrupted):
            home.run(path)
    program = Path(sys.executable).with_name("smoke-lineage")
    command = [program, "index", "--home", tmp_path / "home", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    done = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(map(len, done)) == [0, 1], "one does it, the other finds it done"
    with Home.open(tmp_path / "home") as home:
        assert len(pairs(home)) == 30


def test_a_question_waits_for_whoever_is_at_work(spark, tmp_path, monkeypatch):
    path = flow(tmp_path, [GROUPED])
    settle, locked = LineageBuild.build, reindex.run_folder_lock
    held, asked = threading.Event(), threading.Event()

    def slow(self, stages):
        held.set()
        assert asked.wait(120), "nobody waits"
        settle(self, stages)

    def told(folder, waiting):
        return locked(folder, lambda: (asked.set(), waiting()))

    monkeypatch.setattr(LineageBuild, "build", slow)
    monkeypatch.setattr(reindex, "run_folder_lock", told)
    with Home.open(tmp_path / "home") as home, Home.open(tmp_path / "home") as other:
        runner = threading.Thread(target=home.run, args=[path])
        runner.start()
        assert held.wait(120)
        monkeypatch.setattr(LineageBuild, "build", settle)
        assert other.rows("t").arrow().num_rows == 7, "outputs are readable before their lineage is"
        assert len(pairs(other)) == 30
        runner.join()


@pytest.mark.parametrize("steps", [[GROUPED], [COMPUTED]], ids=["direct", "read again"])
def test_a_source_that_changes_in_between_is_refused_and_outputs_stay(spark, tmp_path, monkeypatch, steps):
    path = flow(tmp_path, steps)
    with monkeypatch.context() as patched, Home.open(tmp_path / "home") as home:
        failing_settle(patched, KeyboardInterrupt())
        with pytest.raises(LineageInterrupted):
            home.run(path, capture="defer")
    flow(tmp_path, steps, rows=31)
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(SourceError, match=r"source 'a' has changed since run .* read it"):
            home.index()
        with pytest.raises(LineageError, match=r"incomplete: source 'a' has changed"):
            pairs(home)
        assert home.rows("t").arrow().num_rows in (3, 7)


def test_a_capture_that_fails_on_the_way_costs_no_outputs(spark, tmp_path, monkeypatch):
    from lineage_service.spark.group_capture import _InjectedGroups

    def fail(self, measures):
        raise CaptureSuspect("Spark ran out of memory")

    monkeypatch.setattr(_InjectedGroups, "aggregate", fail)
    path = flow(tmp_path, [COMPUTED])
    with Home.open(tmp_path / "home") as home:
        report = home.run(path, capture="inject")
        assert report.outputs == {"t": report.outputs["t"]} and report.outputs["t"]["rows"] == 3
        (warning,) = report.warnings
        assert "must fit into memory, and into one Spark row" in warning and "smoke-lineage index" in warning
        with pytest.raises(LineageError, match="capture by inject failed"):
            pairs(home)
        assert [report.run_id for report in home.index()] == [report.run_id]
        assert len(pairs(home)) == 30
        report = home.run(path)  # by our own choice: it is read again in the same command
        assert report.warnings == ()
        assert len(pairs(home)) == 30
        assert report.capture["t"]["a"]["strategy"] == "defer"


def test_failed_checks_have_lineage_too(spark, tmp_path):
    path = flow(tmp_path, [COMPUTED], outputs={"t": {"checks": [{"where": "n > 10", "severity": "warn"}]}})
    for capture in ("inject", "defer", "stage", "lazy"):
        with Home.open(tmp_path / capture) as home:
            home.run(path, capture=capture)
            assert len(pairs(home, of="t_failing")) == 17


# --- choices ----------------------------------------------------------------------------------------------------


def choice(home: Home, report) -> tuple[str, str, int | None]:
    (step,) = [step for step in home._open.reader.steps(report.run_id) if step.strategy]
    return step.strategy, step.reason, step.estimate


def test_auto_goes_by_what_it_remembers(spark, tmp_path):
    steps = [{"name": "f", "op": "filter", "input": "a", "where": "v < 5"}, {**COMPUTED, "input": "f"}]
    path = flow(tmp_path, steps, rows=100)
    with Home.open(tmp_path / "home") as home:
        strategy, reason, estimate = choice(home, home.run(path))
        assert (strategy, estimate) == ("inject", 33)
        assert "by the sources' sizes" in reason
        strategy, reason, estimate = choice(home, home.run(path))
        assert (strategy, estimate) == ("inject", 5)
        assert "as many as last time" in reason
        steps = {each["name"]: each for each in home.explained_run("flow").to_json()["steps"]}
        assert steps["t"]["capture"]["rows_expected"] == steps["t"]["capture"]["rows_read"] == 5


def test_explain_says_before_what_the_run_picks(spark, tmp_path):
    """Also for columns whose types Arrow names otherwise than Spark."""
    path = flow(tmp_path, [{**GROUPED, "by": ["k", "d"]}])
    columns = {"k": pa.array(["x", "y"], pa.string_view()), "v": pa.array([1, 2]), "d": [Decimal("1.50"), Decimal(2)]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with Home.open(tmp_path / "home") as home:
        (told,) = [
            step for step in explain_workflow(path, home=home.layout.path).to_json()["steps"] if "capture" in step
        ]
        assert "indexed from the source's own files" in told["capture"]["reason"]
        strategy, reason, _ = choice(home, home.run(path))
        assert (strategy, reason) == (told["capture"]["strategy"], told["capture"]["reason"])


def test_the_same_from_a_command(spark, tmp_path):
    path = flow(tmp_path, [COMPUTED])
    with Home.open(tmp_path / "home") as home:
        home.run(path)
    program = Path(sys.executable).with_name("smoke-lineage")
    for words in ([path, "--run"], ["--run", "flow"]):
        done = subprocess.run(
            [program, "explain", *words, "--home", tmp_path / "home"], capture_output=True, text=True, check=True
        )
        assert "as it was run" in done.stdout
        assert ["t", "inject", "30", "30"] in [line.split()[:4] for line in done.stdout.splitlines()]


REFUSED = {
    "chance": ("defer", [{"name": "f", "op": "filter", "input": "a", "where": "rand() < 0.5"}, {**GROUPED, "input": "f"}]),
    "a clock": ("lazy", [{**GROUPED, "by": {"k": "date_trunc('day', now())"}}]),
    "a limit": ("defer", [{"name": "l", "op": "limit", "input": "a", "n": 3}, {**GROUPED, "input": "l"}]),
    "a floating sum as key": (
        "defer",
        [{**GROUPED, "name": "g", "measures": {"x": "avg(v)"}},
         {"name": "t", "op": "aggregate", "input": "g", "by": ["x"], "measures": {"n": "count(*)"}}],
    ),
    "a floating sum in a predicate": (
        "lazy",
        [{**GROUPED, "name": "g", "measures": {"x": "sum(cast(v as double))"}, "having": "x > 3"},
         {"name": "t", "op": "aggregate", "input": "g", "by": ["k"], "measures": {"n": "count(*)"}}],
    ),
    "a window's list": ("inject", [{"name": "t", "op": "window", "input": "a", "partition_by": ["k"], "measures": {"n": "count(*)"}}]),
    "ties in a window's order": (
        "defer",
        [{"name": "w", "op": "window", "input": "a", "partition_by": ["k"], "order_by": ["k"], "measures": {"n": "row_number()"}},
         {"name": "t", "op": "distinct", "input": "w"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_unsound_is_refused_with_step_and_reason(tmp_path, why):
    """Before Spark is started."""
    capture, steps = REFUSED[why]
    path = flow(tmp_path, steps)
    with Home.open(tmp_path / "home") as home, pytest.raises(WorkflowError) as raised:
        home.run(path, capture=capture)
    assert all(f"cannot be captured by {capture}: " in problem.message for problem in raised.value.problems)
    assert all(problem.position and problem.hint for problem in raised.value.problems)
    assert not list((tmp_path / "home" / "runs").iterdir())


def test_a_list_that_no_row_can_hold_is_refused_before_the_run(tmp_path):
    from lineage_service.capture.estimate import Sizes
    from lineage_service.capture.instrument import capture_problems, instrument
    from lineage_service.runs.validation import checked_workflow

    path = flow(tmp_path, [{**GROUPED, "by": []}])
    _, plan, _ = checked_workflow(path, None, pytest.fail)
    large = Sizes({"a": 200_000_000})
    (problem,) = capture_problems(plan, "inject", large)
    assert "200,000,000 rows" in problem.message and "2 GiB" in problem.message
    assert not capture_problems(plan, "inject", Sizes({"a": 1000}))
    chosen = {each.choice.strategy for each in instrument(plan, "auto", large).nodes if each.choice}
    assert chosen == {"defer"}


def test_what_is_sound_is_not_refused(spark, tmp_path):
    """A sum of whole numbers as a predicate, chance in a column that nothing is grouped by, exact aggregates as keys."""
    steps = [
        {"name": "c", "op": "with_columns", "input": "a", "columns": {"noise": "rand()"}},
        {**GROUPED, "name": "g", "input": "c", "measures": {"x": "sum(v)", "y": "max(noise)"}, "having": "x > 3"},
        {"name": "t", "op": "aggregate", "input": "g", "by": ["x"], "measures": {"n": "count(*)"}},
    ]
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path, steps), capture="defer")
        assert len(pairs(home)) == 30


# --- forms ------------------------------------------------------------------------------------------------------


def forms(home: Home) -> set[tuple[str, str]]:
    return {(hop.to_space, hop.form) for hop in hops(home)}


def test_forms_that_store_nothing(spark, tmp_path):
    cases = {
        "formula": [{"name": "t", "op": "with_columns", "input": "a", "columns": {"w": "v + 1"}}],
        "column": [{"name": "t", "op": "filter", "input": "a", "where": "v % 3 = 1"}],
        "everything": [{**GROUPED, "by": []}],
        "keyed": [GROUPED],
    }
    for form, steps in cases.items():
        with Home.open(tmp_path / form) as home:
            home.run(flow(tmp_path, steps))
            assert forms(home) == {("source:a", form)}
            (hop,) = hops(home)
            assert hop.forward is None and (hop.backward is None or form == "keyed")
            found = pairs(home)
            ahead = home.forward("a", to="t", all=True, pairs=True).arrow()
            assert found == sorted(zip(*(ahead.column(name).to_pylist() for name in ("out_rid", "rid")), strict=True))
            for out, rid in found[:3]:
                assert out in home.forward("a", to="t", rid=rid, rids=True).arrow().column("_rid").to_pylist()
                assert rid in home.backward("t", to="a", rid=out, rids=True).arrow().column("_rid").to_pylist()


def test_a_cross_product_and_a_union_of_whole_inputs_are_formulas(spark, tmp_path):
    other = {"sources": {"a": {"path": "a.parquet"}, "b": {"path": "b.parquet", "rename": {"k": "bk", "v": "bv"}}}}
    with Home.open(tmp_path / "home") as home:
        home.run(flow(tmp_path, [{"name": "t", "op": "join", "left": "a", "right": "b", "how": "cross"}], **other))
        assert forms(home) == {("source:a", "formula"), ("source:b", "formula")}
        assert pairs(home, "a") == sorted((a * 30 + b, a) for a in range(30) for b in range(30))
        assert pairs(home, "b") == sorted((a * 30 + b, b) for a in range(30) for b in range(30))
        rows = home.forward("b", to="t", rid=7, rids=True).arrow().column("_rid").to_pylist()
        assert rows == [a * 30 + 7 for a in range(30)]
        rows = home.forward("a", to="t", rid=7, rids=True).arrow().column("_rid").to_pylist()
        assert rows == list(range(210, 240))
    other = {"sources": {"a": {"path": "a.parquet"}, "b": {"path": "b.parquet"}}}
    with Home.open(tmp_path / "union") as home:
        home.run(flow(tmp_path, [{"name": "t", "op": "union", "inputs": ["a", "b"]}], **other))
        assert forms(home) == {("source:a", "formula"), ("source:b", "formula")}
        assert pairs(home, "b") == [(30 + rid, rid) for rid in range(30)]
        assert home.forward("b", to="t", rid=4, rids=True).arrow().column("_rid").to_pylist() == [34]


@pytest.mark.parametrize("largest", [0, 9, 70_000, 2**33])
def test_a_column_of_ids_is_turned_round_as_a_sort_would(tmp_path, largest):
    chance = random.Random(largest)
    ids = [None if chance.random() < 0.1 else chance.randrange(largest + 1) for _ in range(5_000)]
    files = []
    for number, part in enumerate((ids[:1_234], ids[1_234:])):
        files.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(pa.table({"h": pa.array(part, pa.int64())}), files[-1])
    turned = pq.read_table(write_inverted_column(files, "h", tmp_path / "turned")).to_pylist()
    expected = sorted((each, row) for row, each in enumerate(ids) if each is not None)
    assert [(pair["b"], pair["a"]) for pair in turned] == expected


def test_what_does_not_fit_into_memory_is_turned_round_by_the_engine(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_MEMORY", "1kB")
    assert not fits_in_memory(30)
    monkeypatch.delenv("SMOKE_MEMORY")
    assert fits_in_memory(30)
    found = []
    for inside in (True, False):
        monkeypatch.setattr("lineage_service.index.hop_writer.fits_in_memory", lambda _, inside=inside: inside)
        with Home.open(tmp_path / f"home-{inside}") as home:
            home.run(flow(tmp_path, [{"name": "t", "op": "sort", "input": "a", "by": ["v DESC"]}]))
            assert forms(home) == {("source:a", "column")}
            found.append(home.forward("a", to="t", all=True, pairs=True).arrow().to_pydict())
    assert found[0] == found[1]


def test_a_keyed_index_answers_forward_when_the_source_has_changed(spark, tmp_path):
    path = flow(tmp_path, [GROUPED])
    with Home.open(tmp_path / "home") as home:
        home.run(path)
        before = home.forward("a", to="t", rid=[3, 4], pairs=True).arrow()
        flow(tmp_path, [GROUPED], rows=50)
        assert home.forward("a", to="t", rid=[3, 4], pairs=True).arrow() == before
        assert len(pairs(home)) == 30
        with pytest.raises(SourceError, match="has changed"):
            home.backward("t", to="a", rid=0).arrow()


def test_no_hash_of_a_key_stays_on_disk_but_salted_in_the_output(spark, tmp_path):
    """The index has small numbers; the salt goes with the tables that the index was made of."""
    steps = [
        COMPUTED | {"name": "g", "by": {"third": "k % 3"}},
        {"name": "t", "op": "join", "left": "a", "right": "g", "on": "k % 3 = third"},
    ]
    with Home.open(tmp_path / "home") as home:
        for capture in ("defer", "stage"):
            home.run(flow(tmp_path, steps), capture=capture)
            folder = home.layout.run_folder(home.runs().to_pylist()[0]["run_id"])
            assert not folder.lineage.exists()
            for file in folder.index.rglob("*.parquet"):
                columns = ", ".join(duckdb.sql(f"SELECT * FROM '{file}'").columns)
                ends = f"SELECT min(least({columns})), max(greatest({columns})) FROM '{file}'"
                low, high = duckdb.sql(ends).fetchall()[0]
                assert low >= 0 and high < 1000


# --- engines ----------------------------------------------------------------------------------------------------

DEEP = [
    {"name": "j", "op": "join", "left": "a", "right": "b", "on": "left.k = right.bk"},
    {"name": "g", "op": "aggregate", "input": "j", "by": ["k", "bv"], "measures": {"s": "sum(v)"}},
    {"name": "w", "op": "window", "input": "g", "partition_by": ["k"], "measures": {"m": "max(s)"}},
    {"name": "q", "op": "join", "left": "w", "right": "a2", "on": "left.k = right.k2"},
    {"name": "d", "op": "project", "input": "q", "columns": ["k", "m"], "distinct": True},
    {"name": "t", "op": "intersect", "left": "d", "right": "d"},
]
SOURCES = {
    "sources": {
        "a": {"path": "a.parquet"},
        "b": {"path": "b.parquet", "rename": {"k": "bk", "v": "bv"}},
        "a2": {"path": "a.parquet", "rename": {"k": "k2", "v": "v2"}},
    }
}


def everything(home: Home) -> dict[str, list[tuple[int, int]]]:
    return {source: pairs(home, source) for source in ("a", "b", "a2")}


@pytest.mark.parametrize("capture", ASKED_FOR or ("auto", "defer"))
def test_both_engines_give_the_same_pairs(spark, tmp_path, capture, monkeypatch):
    from tests.support.strategies import where_sound

    path = flow(tmp_path, DEEP, **SOURCES)
    found = {}
    with where_sound():
        for engine in ("duckdb", "spark"):
            with Home.open(tmp_path / engine) as home:
                home.run(path, capture=capture, index_engine=engine)
                found[engine] = everything(home)
                assert home.backward("t", to="a", rid=0, rids=True).arrow().num_rows > 0
                assert home.forward("a", to="t", rid=0, rids=True).arrow().num_rows > 0
    assert found["duckdb"] == found["spark"]
    assert all(found["duckdb"].values())


def test_what_duckdb_cannot_read_is_captured_by_spark(spark, tmp_path):
    """Text that is no UTF-8: Spark takes it, DuckDB refuses it."""
    path = flow(tmp_path, [GROUPED])
    texts = pa.array([b"good", b"\xff\xfe bad", b"good"], pa.binary()).view(pa.utf8())
    pq.write_table(pa.table({"k": texts, "v": [1, 2, 3]}), tmp_path / "a.parquet", write_statistics=False)
    with Home.open(tmp_path / "home") as home:
        report = home.run(path)
        assert report.warnings == ()
        assert sorted(len([1 for o, _ in pairs(home) if o == out]) for out in (0, 1)) == [1, 2]


def test_lazy_says_so_where_the_source_has_changed(spark, tmp_path):
    path = flow(tmp_path, [COMPUTED])
    with Home.open(tmp_path / "home") as home:
        report = home.run(path, capture="lazy")
        assert report.capture["t"]["a"] == {
            "strategy": "lazy",
            "pairs": None,
            "bytes": report.capture["t"]["a"]["bytes"],
        }
        assert report.capture["t"]["a"]["bytes"] < 200, "no more than an id for each row of the output"
        assert len(pairs(home)) == 30
        assert not list(home.layout.run_folder(report.run_id).index.rglob("*.parquet"))
        flow(tmp_path, [COMPUTED], rows=31)
        with pytest.raises(SourceError, match="captured when asked for"):
            pairs(home)
    assert not list((tmp_path / "home" / "tmp").glob("asked*"))
