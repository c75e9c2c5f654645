"""Questions over homes made by hand: keys that are exact, readers that are behind, files that are gone, zones."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lineage_service import Home
from lineage_service.errors import NotFound, QuestionError, SourceError, WorkflowError
from lineage_service.workflow import validate_workflow
from tests.made_runs import Made, MadeHome

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
    with pytest.raises(WorkflowError, match=r"schema: 'BIGNT' is no type of Spark's\n  hint: did you mean 'bigint'\?"):
        validate_workflow(file, home=tmp_path / "home")
    file.write_text(f"version: 1\nname: flow\nsources: {{b: {{output: other.out}}}}\n{steps % 'b'}")
    (warning,) = validate_workflow(file, home=tmp_path / "home")
    assert "source 'b': no committed run has made 'other.out'" in str(warning)
    with (
        Home.open(tmp_path / "home") as home,
        pytest.raises(WorkflowError, match="run the workflow that makes it first"),
    ):
        home.run(file)
