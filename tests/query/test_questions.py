"""Questions over homes made by hand: keys that are exact, readers that are behind, files that are gone, zones."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from lineage_cli.trace_tree import trace_tree
from lineage_cli.tree_drawing import draw_tree

from lineage_service import Home
from lineage_service.errors import NotFound, QuestionError, SourceError, WorkflowError
from lineage_service.render.html.trace_page import trace_page
from lineage_service.runs.workflow_file import validate_workflow
from tests.support.made_runs import Made, MadeHome

ROWS = pa.table(
    {
        "id": [7, 8, 9],
        "amount": pa.array([Decimal("66.50"), Decimal("7.00"), None], pa.decimal128(8, 2)),
        "day": [datetime.date(2025, 3, 5), datetime.date(2025, 3, 6), None],
        "rate": [0.5, 1.5, float("nan")],
        "text": ["7", "7.0", " 7"],
    }
)


@pytest.fixture
def home(tmp_path):
    made = MadeHome(tmp_path / "home")
    made.run("flow", {"s": Made(ROWS, "source"), "out": Made(ROWS, hops={"s": [(0, 0), (1, 1), (2, 2)]})})
    with made.home as opened:
        yield opened


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (("id", "8"), [1]), (("id", " 8 "), [1]), (("id", "8.0"), [1]), (("amount", "66.5"), [0]),
        (("amount", "66.500"), [0]), (("amount", "6.65e1"), [0]), (("amount", "66.499"), []), (("amount", "66.504"), []),
        (("amount", "1e-9"), []), (("day", "2025-03-05"), [0]), (("day", "2025-03-05 00:00:00"), [0]),
        (("rate", "1.5"), [1]), (("rate", "nan"), [2]), (("text", "7"), [0]), (("text", "7.0"), [1]),
    ],
)  # fmt: skip
def test_a_key_means_just_this_value(home, key, found):
    assert home.rows("out", key=[key]).arrow()["_rid"].to_pylist() == found


@pytest.mark.parametrize(
    ("key", "kind"),
    [(("id", "7.6"), "BIGINT"), (("id", "x"), "BIGINT"), (("day", "2025-03-05T10:00:00"), "DATE"),
     (("id", "99999999999999999999"), "BIGINT"), (("amount", "12345678.9"), r"DECIMAL\(8,2\)")],
)  # fmt: skip
def test_a_key_that_is_no_value_of_the_column_is_refused(home, key, kind):
    with pytest.raises(QuestionError, match=f"the value given for column '{key[0]}' is no {kind}"):
        home.backward("out", key=[key], to="s")


@pytest.mark.parametrize("start", [{"rid": [0, 2]}, {"rid": 1}, {"key": {"id": 8}}, {"where": "id > 7"}, {"all": True}])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_some_rows_in_an_order_up_to_a_limit(home, start, limit):
    """DuckDB would fetch the other columns late, by row numbers that it then mistakes."""
    wanted = sorted((row for row in home.rows("out", **start).to_pylist()), key=lambda row: row["text"], reverse=True)[
        :limit
    ]
    assert [row["_rid"] for row in wanted]
    found = {
        "rows": home.rows("out", order_by="text desc", limit=limit, **start),
        "backward": home.backward("out", to="s", order_by="text desc", limit=limit, **start),
        "forward": home.forward("s", to="out", order_by="text desc", limit=limit, **start),
    }
    for what, answer in found.items():
        assert [row["_rid"] for row in answer.to_pylist()] == [row["_rid"] for row in wanted], what
    rids = ", ".join(str(row["_rid"]) for row in wanted)
    asked = f"SELECT _rid FROM out WHERE _rid IN ({rids}) ORDER BY text DESC LIMIT {limit}"
    assert [row["_rid"] for row in home.query(asked).to_pylist()] == [row["_rid"] for row in wanted]


def test_who_read_an_earlier_version_is_told(tmp_path):
    made = MadeHome(tmp_path / "home")
    for rows in (ROWS, ROWS.slice(0, 2)):
        pairs = [(n, n) for n in range(rows.num_rows)]
        last = made.run("first", {"s": Made(rows, "source"), "out": Made(rows, hops={"s": pairs})})
        if rows is ROWS:
            old = last
            read = Made(made.versions[old, "out"], "source", {"output": "first.out"})
            made.run("second", {"fx": read, "total": Made(rows, hops={"fx": pairs})})
    with made.home as home:
        told = f"workflow 'second' last read 'first.out' of run '{old}'"
        for answer in (home.forward("s", rid=0), home.forward("s", rid=0, to="all")):
            (note,) = answer.notes
            assert note.startswith(told)
            assert note.endswith(f"run it again, or ask s@{old[:8]}")
        assert home.trace("s", rid=0).notes[0].startswith(told)
        with pytest.raises(QuestionError, match=r"not linked[\s\S]*hint: workflow 'second' last read"):
            home.forward("s", rid=0, to="total")
        asked = home.forward(f"s@{old}", rid=0)
        assert {"dataset": "second.total", "rows": 1} in asked.to_pylist()
        assert asked.notes == []


def test_nothing_is_behind_a_source(home):
    assert "nothing is behind it" in home.backward("s", rid=0).notes[0]


def test_a_file_that_is_gone_is_not_called_changed(tmp_path):
    made = MadeHome(tmp_path / "home")
    made.run("flow", {"s": Made(ROWS, "source", kind="source"), "out": Made(ROWS, hops={"s": [(0, 0)]})})
    (tmp_path / "home" / "files" / "s.parquet").unlink()
    with made.home as home:
        with pytest.raises(SourceError, match=r"is no longer where it was in run '0001flow': file '.*s\.parquet'"):
            home.rows("s")
        assert home.backward("out", rid=0, to="s", count=True).count() == 1


def test_moments_are_in_utc_whatever_the_zone_here(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Vienna")
    moment = datetime.datetime(2025, 3, 7, 20, 46, tzinfo=datetime.UTC)
    made = MadeHome(tmp_path / "home")
    made.run("flow", {"out": Made(pa.table({"ts": pa.array([moment], pa.timestamp("us", tz="UTC"))}))})
    with made.home as home:
        for value in (home.rows("out").to_pylist()[0]["ts"], home.trace("out", rid=0).record.values["ts"]):
            assert value.isoformat() == "2025-03-07T20:46:00+00:00"


def test_runs_of_a_workflow_that_is_not_there(home):
    with pytest.raises(NotFound, match=r"no workflow 'flwo' has a run in the home .*; workflows: flow\n.*'flow'"):
        home.runs(workflow="flwo")
    assert home.runs(workflow="flow", failed=True).count() == 0


def test_what_was_never_made_and_a_mistyped_type_are_told_without_spark(tmp_path):
    file = tmp_path / "flow.yml"
    source = 'a: {path: a.csv, options: {header: true}, schema: "id BIGNT, v STRING"}'
    steps = "steps: [{name: out, op: distinct, input: %s}]\noutputs: {out: }\n"
    (tmp_path / "a.csv").write_text("id,v\n1,x\n")
    file.write_text(f"version: 1\nname: flow\nsources:\n  {source}\n{steps % 'a'}")
    with pytest.raises(WorkflowError, match=r"schema: 'BIGNT' is not a Spark type\n  hint: did you mean 'bigint'\?"):
        validate_workflow(file, home=tmp_path / "home")
    file.write_text(f"version: 1\nname: flow\nsources: {{b: {{output: other.out}}}}\n{steps % 'b'}")
    (warning,) = validate_workflow(file, home=tmp_path / "home")
    assert "source 'b': there is no catalog in the home" in str(warning)
    with (
        Home.open(tmp_path / "home") as home,
        pytest.raises(WorkflowError, match="no workflow 'other' has a committed"),
    ):
        home.run(file)


def names(sets):
    return {(each.dataset, each.run_id) for top in sets for each in (top, *below(top))}


def below(each):
    for under in each.next:
        yield under
        yield from below(under)


def test_one_file_under_two_names(tmp_path):
    """A row is the same row under either name: what came of it as one source came of it as the other."""
    made = MadeHome(tmp_path / "home")
    made.run("before", {"f": Made(ROWS, "source"), "p": Made(ROWS, hops={"f": [(0, 0)]})})
    same = made.versions["0001before", "f"]
    hops = {"s0": [(0, 0)], "s1": [(1, 0)]}
    made.run("flow", {"s0": Made(same, "source"), "s1": Made(same, "source"), "o": Made(ROWS, hops=hops)})
    with made.home as home:
        for to in ("o", "all", ["o", "p"]):
            answer = home.forward("flow.s0", rid=0, to=to, pairs=True)
            rows = [
                row for part in answer.parts if part.dataset in (None, "flow.o") for row in part.arrow().to_pylist()
            ]
            assert rows == [{"out_rid": 0, "rid": 0}, {"out_rid": 1, "rid": 0}]
        for name in ("s0", "s1", "before.f"):
            assert home.backward("o", rid=0, to=name, rids=True).to_pylist() == [{"_rid": 0}]
            assert home.backward("o", rid=1, to=name, rids=True).to_pylist() == [{"_rid": 0}]
        ahead = [each for each in home.trace("flow.s0", rid=0).ahead if each.dataset == "flow.o"]
        assert sorted(row.rid for each in ahead for row in each.rows) == [0, 1]


def chain(tmp_path):
    """first -> second (run twice) -> third, which read the earlier run of second."""
    made = MadeHome(tmp_path / "home")
    pairs = [(n, n) for n in range(3)]
    first = made.run("first", {"s": Made(ROWS, "source"), "a": Made(ROWS, hops={"s": pairs})})
    read = Made(made.versions[first, "a"], "source", {"output": "first.a"})
    earlier = made.run("second", {"i": read, "b": Made(ROWS, hops={"i": pairs})})
    later = made.run("second", {"i": read, "b": Made(ROWS, hops={"i": pairs})})
    read = Made(made.versions[earlier, "b"], "source", {"output": "second.b"})
    third = made.run("third", {"j": read, "c": Made(ROWS, hops={"j": pairs})})
    return made, (first, earlier, later, third)


def test_a_trace_goes_through_earlier_runs_to_what_is_there_now(tmp_path):
    made, (first, earlier, later, third) = chain(tmp_path)
    with made.home as home:
        ahead = home.trace("s", rid=1).ahead
        assert names(ahead) == {
            ("first.a", first), ("second.b", later), ("second.b", earlier), ("third.c", third),
        }  # fmt: skip
        marked = {each.run_id for top in ahead for each in below(top) if each.earlier}
        assert marked == {earlier}
        # Behind a source that another workflow made stands the same row there.
        behind = home.trace("third.j", rid=1).behind
        assert [(each.dataset, each.run_id, each.read_as) for each in behind] == [("second.b", earlier, "j")]
        assert names(behind) == {("second.b", earlier), ("first.a", first), ("first.s", first)}


def test_depth_leaves_out_only_what_is_too_deep(tmp_path):
    made = MadeHome(tmp_path / "home")
    made.run(
        "flow",
        {
            "s": Made(ROWS, "source"),
            "base": Made(ROWS, "step", hops={"s": [(0, 0)]}),
            "mid": Made(ROWS, "step", hops={"base": [(0, 0)]}),
            "o": Made(ROWS, hops={"mid": [(0, 0)], "base": [(0, 0)]}),
        },
    )
    with made.home as home:
        assert ("flow.s", "0001flow") in names(home.trace("o", rid=0, depth=2).behind)


def test_a_record_that_cannot_be_read_is_followed_all_the_same(tmp_path):
    made = MadeHome(tmp_path / "home")
    made.run("flow", {"s": Made(ROWS, "source", kind="source"), "out": Made(ROWS, hops={"s": [(0, 0)]})})
    (tmp_path / "home" / "files" / "s.parquet").unlink()
    with made.home as home:
        trace = home.trace("s", rid=0)
        assert trace.record.rid == 0
        assert trace.record.values == {}
        assert "no longer where it was" in trace.root.unreadable
        assert [each.dataset for each in trace.ahead] == ["flow.out"]
        told = "\n".join(draw_tree(trace_tree(trace, 60), 60))
        assert "came from " in told
        assert "(the file is no longer there)" in told
        assert "rows not shown: source 'flow.s' is no longer where" in told
        assert "is no longer where it was" in trace_page(trace)


def test_diff_of_types_that_lose_digits_and_of_maps_with_nested_keys(tmp_path):
    made = MadeHome(tmp_path / "home")
    kind = pa.map_(pa.struct([("a", pa.int64())]), pa.int64())
    for big, value in ((pa.array([2**53 + 1]), 1), (pa.array([float(2**53)]), 2)):
        nested = pa.array([[({"a": 1}, value)]], kind)
        made.run("flow", {"out": Made(pa.table({"k": [1], "big": big, "m": nested}))})
    with made.home as home:
        (change,) = home.diff("out", key="k").to_json()["changes"]
        assert sorted(change["columns"]) == ["big", "m"]
