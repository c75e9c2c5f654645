"""Lineage of which a part was not kept: pruned by a workload, not captured, or past its retention. What is left of it is
never given as if it were all. Homes are made by hand: `a` sums a file up, `b` joins the file with those sums."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.audit.erasure.erasure_plan import RequestScope, not_covered
from lineage_service.audit.person_search import required_key, rows_of_subjects
from lineage_service.errors import QuestionError
from lineage_service.runs.workflow_file import explain_workflow, validate_workflow
from lineage_service.subjects.subject_arguments import Subject
from tests.support.made_runs import Made, MadeHome

ROWS = pa.table({"id": range(5), "k": [0, 1, 1, 3, 3]})
TOTALS = pa.table({"k": [0, 1, 3]})
IN_TOTALS = [(0, 0), (1, 1), (1, 2), (2, 3), (2, 4)]
SUBJECT = {"subject": {"person": "id"}}


def home_of(folder, kept=None, *, capture="stage", other=False, spec=None):
    """The question asked is from b.j to b.raw; `kept` is the direct hop of the other way, `other`: `a` has read some
    other file."""
    made = MadeHome(folder / "home")
    src = Made(ROWS, "source", SUBJECT, kind="source")
    tot = Made(TOTALS, hops={} if capture == "off" else {"src": IN_TOTALS})
    first = made.run("a", {"src": src, "tot": tot}, capture=capture, spec=spec)
    raw = (
        Made(ROWS, "source", SUBJECT, kind="source") if other else Made(made.versions[first, "src"], "source", SUBJECT)
    )
    made.run(
        "b",
        {
            "raw": raw,
            "tot": Made(made.versions[first, "tot"], "source"),
            "j": Made(pa.table({"id": [3]}), hops={"raw": [(0, 3)], "tot": [(0, 2)]}),
        },
    )
    if kept is not None:
        made.prune("b", "tot", kept)
    return made


@pytest.fixture(scope="module")
def pruned(tmp_path_factory):
    with home_of(tmp_path_factory.mktemp("pruned"), "pruned").home as home:
        yield home


@pytest.fixture(scope="module")
def off(tmp_path_factory):
    with home_of(tmp_path_factory.mktemp("off"), capture="off").home as home:
        yield home


def rids(answer):
    return sorted(row["_rid"] for row in answer.to_pylist())


ASKED = {
    "rows": lambda home, name: home.backward("b.j", rid=0, to=name),
    "rids": lambda home, name: home.backward("b.j", rid=0, to=name, rids=True),
    "count": lambda home, name: home.backward("b.j", all=True, to=name, count=True),
    "pairs": lambda home, name: home.backward("b.j", all=True, to=name, pairs=True),
    "query": lambda home, name: home.query(f"FROM backward('b.j', '{name}', 'id = 3')"),
}
AHEAD = {
    "rids": lambda home, name: home.forward(name, rid=4, to="b.j", rids=True),
    "count": lambda home, name: home.forward(name, rid=3, to="b.j", count=True),
    "pairs": lambda home, name: home.forward(name, all=True, to="b.j", pairs=True),
    "query": lambda home, name: home.query(f"FROM forward('{name}', 'b.j', 'id = 3')"),
}


@pytest.mark.parametrize("name", ["b.raw", "a.src"])
@pytest.mark.parametrize(
    ("asked", "line"),
    [
        *((ask, "- {name: j_from_tot, backward: j, to: tot}") for ask in ASKED.values()),
        *((ask, "- {name: tot_to_j, forward: tot, to: j}") for ask in AHEAD.values()),
    ],
)
def test_a_way_that_was_pruned_and_leads_to_the_same_file_is_named(pruned, name, asked, line):
    with pytest.raises(QuestionError) as caught:
        asked(pruned, name).to_pylist()
    told = str(caught.value)
    assert "was pruned in run '0002b'" in told and "b.tot" in told, told
    assert told.endswith(f"run again:  {line}"), told


def test_what_was_kept_for_one_direction_is_missed_in_the_other(tmp_path):
    with home_of(tmp_path, "backward").home as home:
        assert rids(home.backward("b.j", rid=0, to="b.raw", rids=True)) == [3, 4]
        with pytest.raises(QuestionError, match=r"pruned in run '0002b'.*(?s:.)*forward: tot, to: j"):
            home.forward("b.raw", rid=3, to="b.j", rids=True)


def test_what_leads_elsewhere_may_be_pruned(tmp_path):
    with home_of(tmp_path, "pruned", other=True).home as home:
        assert rids(home.backward("b.j", rid=0, to="b.raw", rids=True)) == [3]
        assert home.backward("b.j", rid=0, to="b.raw", count=True).count() == 1
        assert rids(home.forward("b.raw", rid=3, to="b.j", rids=True)) == [0]
        assert home.query("FROM backward('b.j', 'b.raw', 'id = 3')").to_pylist() == [{"_rid": 3, "id": 3, "k": 3}]
        with pytest.raises(QuestionError, match="pruned in run '0002b'"):
            home.backward("b.j", rid=0, to="a.src")


def test_counts_leave_out_what_is_known_in_part_and_say_so(pruned):
    for answer in (pruned.backward("b.j", rid=0), pruned.backward("b.j", rid=0, to="all", rids=True)):
        assert answer.to_pylist() == []
        (note,) = (note for note in answer.notes if "pruned" in note)
        assert all(name in note for name in ("b.raw", "b.tot", "a.tot", "a.src")), note
    ahead = pruned.forward("b.raw", rid=3)
    assert [row["dataset"] for row in ahead.to_pylist()] == ["a.tot", "b.tot"]
    assert any("pruned" in note and "b.j" in note for note in ahead.notes)
    assert any("pruned" in note for note in pruned.trace("b.j", rid=0).notes)
    assert any("pruned" in note for note in pruned.trace("b.raw", rid=3).notes)


def test_a_diff_tells_nothing_of_sources_that_are_known_in_part(tmp_path):
    made = home_of(tmp_path)
    raw, tot = made.versions["0002b", "raw"], made.versions["0002b", "tot"]
    hops = {"raw": [(0, 2)], "tot": [(0, 1)]}
    changed = Made(pa.table({"id": [2]}), hops=hops)
    made.run("b", {"raw": Made(raw, "source"), "tot": Made(tot, "source"), "j": changed})
    with made.home as home:
        diff = home.diff("b.j@0002b", "b.j@0003b", key=["id"])
        assert "b.raw" in str(diff.to_json()["changes"])
    made.prune("b", "tot", "pruned")
    with made.home as home:
        diff = home.diff("b.j@0002b", "b.j@0003b", key=["id"])
        assert "b.raw" not in str(diff.to_json()["changes"])
        assert any("pruned" in note and "b.raw" in note for note in diff.notes)


def test_two_ways_inside_a_run(tmp_path):
    """Each of two hops was declared, the third that leads there at once was not."""
    made = MadeHome(tmp_path / "home")
    hops = {"k": [(0, 0)], "s": [(0, 1)]}
    step = Made(pa.table({"n": [1]}), "step", hops={"s": [(0, 0)]})
    made.run("f", {"s": Made(ROWS, "source"), "k": step, "o": Made(pa.table({"n": [1]}), hops=hops)})
    with made.home as home:
        assert rids(home.backward("o", rid=0, to="s", rids=True)) == [0, 1]
    made.prune("f", "s", "pruned", start="o")
    with made.home as home:
        with pytest.raises(QuestionError, match=r"was pruned(?s:.)*backward: o, to: s\}"):
            home.backward("o", rid=0, to="s", rids=True)
        assert rids(home.backward("o", rid=0, to="k", rids=True)) == [0]
        assert home.backward("o", rid=0).to_pylist() == [{"dataset": "f.k", "rows": 1}]


@pytest.mark.parametrize("asked", [*ASKED.values(), *AHEAD.values()])
def test_a_way_over_a_run_without_capture_is_named(off, asked):
    with pytest.raises(QuestionError, match=r"by way of a\.(tot|src), .* run '0001a' was made with capture off"):
        asked(off, "b.raw").to_pylist()


def test_counts_tell_of_a_run_without_capture(off):
    notes = off.backward("b.j", rid=0).notes
    assert any("'0001a' was made with capture off" in note and "b.raw" in note for note in notes), notes


def test_a_run_without_capture_that_has_read_another_file(tmp_path):
    with home_of(tmp_path, capture="off", other=True).home as home:
        for name, asked in (*ASKED.items(), *AHEAD.items()):
            assert asked(home, "b.raw") is not None, name
        assert rids(home.backward("b.j", rid=0, to="b.raw", rids=True)) == [3]


def test_a_step_of_a_run_without_capture_that_reads_something_else(tmp_path):
    """Its text tells that the file is not behind what was read of it."""
    spec = {"steps": [{"name": "tot", "op": "limit", "input": "other", "n": 3}]}
    with home_of(tmp_path, capture="off", spec=spec).home as home:
        assert rids(home.backward("b.j", rid=0, to="b.raw", rids=True)) == [3]


def test_a_way_that_is_past_its_retention_is_told(tmp_path):
    made = home_of(tmp_path, spec={"privacy": {"retention_days": 1}})
    with made.home as home:
        assert rids(home.backward("b.j", rid=0, to="b.raw", rids=True)) == [3, 4]
        home.gc(retention=True)
    with made.home as home:
        document = home.audit.access("person=4").document
        assert not document["complete"]
        assert [each["dataset"] for each in document["not_looked_into"]] == ["b.tot"]
        rows = rows_of_subjects(home._open.questions, required_key(home._open.questions), [Subject("person", "4")])
        assert any(
            "lineage is cut at 'b.tot'" in each for each in not_covered(home._open.questions, RequestScope(rows))
        )
        for answer in (
            home.backward("b.j", rid=0, to="b.raw", rids=True),
            home.backward("b.j", rid=0, to="b.raw", count=True),
            home.forward("b.raw", rid=4, to="b.j", rids=True),
            home.forward("b.raw", rid=4),
            home.query("FROM backward('b.j', 'b.raw', 'id = 3')"),
            home.trace("b.raw", rid=4),
        ):
            assert any("lineage is cut at 'b.tot'" in note for note in answer.notes), answer


# --- told before the run ----------------------------------------------------------------------------------------------

READING = {
    "one file": ("{path: t.parquet}", "{path: t.parquet}"),
    "a folder and a file in it": ("{path: d}", "{path: d/t.parquet}"),
    "a pattern, other names": ("{path: '*.parquet', rename: {id: number}}", "{path: ./t.parquet, snapshot: true}"),
    "csv": ("{path: t.csv, options: {header: true}}", "{path: t.csv, options: {HEADER: 'TRUE', sep: ','}}"),
}
JOINED = """
  - {name: totals, op: aggregate, input: a, by: [k], measures: {n: count(*)}}
  - {name: j, op: join, left: b, right: totals, using: [k]}
"""
CROSSED = "\n  - {name: j, op: join, left: b, right: a, how: cross}\n"
APART = {
    "other files": ("{path: t.parquet}", "{path: t.csv, options: {header: true}}", JOINED),
    "other records": ("{path: t.csv, options: {header: true}}", "{path: t.csv, options: {header: false}}", CROSSED),
}
PAIRS = "{name: q, backward: j, to: b}"


def warned(folder, sources, *workload, steps=JOINED, capture=None):
    """What `validate` and `explain` say of the workload of a workflow over two sources."""
    one, other = (f"  {name}: {text}\n" for name, text in zip("ab", sources, strict=True))
    for path in (folder / "t.parquet", folder / "d" / "t.parquet"):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(ROWS, path)
    (folder / "t.csv").write_text("id,k\n0,0\n")
    entries = "".join(f"\n    {line if line.startswith('-') else f'- {line}'}" for line in workload)
    (folder / "w.yml").write_text(
        f"version: 1\nname: w\nsources:\n{one}{other}steps:{steps}outputs: {{j: }}\nlineage:\n  workload: {entries}\n"
    )
    found = validate_workflow(folder / "w.yml", home=folder / "home")
    told = explain_workflow(folder / "w.yml", home=folder / "home", capture=capture).warnings
    assert capture or told == found
    return [each for each in told if each.message.startswith("workload ")]


def lines_of(problem):
    return problem.hint.partition("`lineage: workload:`  ")[2].splitlines()


@pytest.mark.parametrize("sources", READING.values(), ids=READING)
def test_a_declared_question_that_would_be_refused_is_a_warning_with_the_line_to_add(tmp_path, sources):
    (found,) = warned(tmp_path, sources, PAIRS)
    assert found.message == (
        "workload 'q' will be refused: 'b' and source 'a' read the same rows, and lineage between 'j' and 'a' is pruned"
    )
    assert found.severity == "warning" and found.position.line == 12
    assert lines_of(found) == ["- {name: j_from_a, backward: j, to: a}"]
    assert warned(tmp_path, sources, PAIRS, *lines_of(found)) == []


def test_two_sources_of_one_output(tmp_path):
    """What the warning is based on: a source of the same output is another way to its rows."""
    made = home_of(tmp_path)
    tot = made.versions["0001a", "tot"]
    hops = {"a": [(0, 2)], "b": [(0, 1)]}
    made.run("w", {"a": Made(tot, "source"), "b": Made(tot, "source"), "j": Made(TOTALS.slice(0, 1), hops=hops)})
    made.prune("w", "a", "pruned")
    with made.home as home, pytest.raises(QuestionError, match=r"was pruned(?s:.)*backward: j, to: a\}"):
        home.backward("w.j", rid=0, to="w.b", rids=True)
    (found,) = warned(tmp_path, ("{output: a.tot}", "{output: a.tot}"), PAIRS)
    assert lines_of(found) == ["- {name: j_from_a, backward: j, to: a}"]


def test_a_question_ahead(tmp_path):
    ahead = "{name: q, forward: b, to: j}"
    (found,) = warned(tmp_path, READING["one file"], ahead, "{name: p, backward: j, to: [a, b]}")
    assert lines_of(found) == ["- {name: a_to_j, forward: a, to: j}"]
    assert warned(tmp_path, READING["one file"], ahead, *lines_of(found)) == []


def test_what_is_prepared_from_one_of_two_sources(tmp_path):
    prepared = "{name: q, backward: j, to: b, where: id > 1}"
    (found,) = warned(tmp_path, READING["one file"], prepared)
    assert found.message.endswith("what is prepared is of 'b' alone") and found.hint.startswith("ask with backward(…)")
    assert lines_of(found) == ["- {name: j_from_b, backward: j, to: b}", "- {name: j_from_a, backward: j, to: a}"]


@pytest.mark.parametrize("sources", APART.values(), ids=APART)
def test_sources_that_share_no_rows_may_be_pruned(tmp_path, sources):
    assert warned(tmp_path, sources[:2], PAIRS, steps=sources[2]) == []


def test_a_source_that_is_not_behind_it_or_only_by_absence(tmp_path):
    anti = "\n  - {name: j, op: join, left: b, right: a, using: [k], how: anti}\n"
    assert warned(tmp_path, READING["one file"], PAIRS, steps=anti) == []
    beside = "\n  - {name: j, op: filter, input: b, where: id > 0}\n  - {name: o, op: distinct, input: a}\n"
    assert warned(tmp_path, READING["one file"], PAIRS, steps=beside) == []


def test_where_nothing_is_captured_nothing_is_warned_of(tmp_path):
    assert warned(tmp_path, READING["one file"], PAIRS, capture="off") == []


@pytest.mark.parametrize("sources", READING.values(), ids=READING)
def test_a_warned_question_is_refused_and_answered_with_the_line(spark, tmp_path, sources):
    (found,) = warned(tmp_path, sources, PAIRS)
    with Home.open(tmp_path / "home") as home:
        assert any(found.message in each for each in home.run(tmp_path / "w.yml").warnings)
        with pytest.raises(QuestionError) as refused:
            home.backward("j", all=True, to="b", count=True)
        assert str(refused.value).endswith(lines_of(found)[0])
        warned(tmp_path, sources, PAIRS, *lines_of(found))
        home.run(tmp_path / "w.yml")
        assert home.backward("j", all=True, to="b", count=True).count() > 0


def test_what_is_prepared_from_one_of_two_sources_is_refused(spark, tmp_path):
    prepared = "{name: p, backward: j, to: b, where: id > 1}"
    (found,) = warned(tmp_path, READING["one file"], prepared)
    assert warned(tmp_path, READING["one file"], prepared, *lines_of(found))[0].hint == "ask with backward(…)"
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "w.yml")
        with pytest.raises(QuestionError, match=r"ask with backward"):
            home.query("FROM workload('p', 'id = 3')")
        assert home.backward("j", all=True, to="b", count=True).count() == 5


@pytest.mark.parametrize("sources", APART.values(), ids=APART)
def test_a_question_without_a_warning_is_answered(spark, tmp_path, sources):
    assert warned(tmp_path, sources[:2], PAIRS, steps=sources[2]) == []
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "w.yml")
        assert home.backward("j", all=True, to="b", count=True).count() > 0
