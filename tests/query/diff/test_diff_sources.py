"""Diff, the source rows behind a change: what identifies them, what is left where they cannot be read."""

import pyarrow as pa
import pytest

from lineage_service.errors import QuestionError, SourceError
from tests.support.made_runs import Made, MadeHome


@pytest.fixture
def made(tmp_path):
    return MadeHome(tmp_path / "home")


def kinds(diff):
    return [(each.change, tuple(each.key.values()), each.columns) for each in diff.changes()]


def numbers(*values):
    return pa.table(
        {"k": pa.array([k for k, _ in values], pa.int64()), "v": pa.array([v for _, v in values], pa.int64())}
    )


def items_table(rows):
    return pa.table(
        {"id": pa.array([r[0] for r in rows], pa.int64()), "v": pa.array([r[1] for r in rows], pa.string())}
    )


def with_items(made, *versions, kind=None, declared=None, **more):
    """Runs whose one output row has all items behind it; its number moves with every run."""
    for number, rows in enumerate(versions):
        version = rows if not isinstance(rows, list) else items_table(rows)
        out = Made(
            pa.table({"k": [1], "n": [number]}),
            hops={"items": [(0, rid) for rid in range(len(rows) if isinstance(rows, list) else version.rows)]},
        )
        made.run("flow", {"items": Made(version, "source", declared or {}, kind=kind), "out": out}, **more)
    return made.home


def only_behind(diff):
    (change,) = diff.changes()
    (behind,) = change.behind
    return behind


def test_a_source_is_compared_like_any_dataset(made):
    home = with_items(made, [(1, "a"), (2, "b")], [(2, "c"), (3, "d")])
    diff = home.diff("items")
    assert kinds(diff) == [("removed", (1,), ()), ("changed", (2,), ("v",)), ("added", (3,), ())]
    assert (diff.sources, [each.reason for each in diff.changes()]) == ((), [None] * 3)


def test_the_identity_of_source_rows(made):
    home = with_items(made, [(1, "a"), (2, "b"), (2, "b")], [(1, "a"), (2, "b")], declared={"subject": {"person": "v"}})
    behind = only_behind(home.diff("out"))
    assert (behind.source.identity, behind.counts.removed, behind.counts.gone, behind.counts.same) == (
        "content",
        1,
        1,
        2,
    )
    with pytest.raises(QuestionError, match="1 key occurs more than once in the run before"):
        home.diff("out", source_key={"items": "id"})
    with pytest.raises(QuestionError, match=r"no source 'itens' .*\n.*did you mean 'items'"):
        home.diff("out", source_key={"itens": ["id"]})
    with pytest.raises(QuestionError, match="unknown column 'idd'"):
        home.diff("out", source_key={"flow.items": ["idd"]})


def test_a_declared_subject_comes_before_the_leftmost_column(made):
    home = with_items(made, [(1, "a"), (2, "b")], [(2, "a"), (3, "b")], declared={"subject": {"person": "V"}})
    behind = only_behind(home.diff("out"))
    assert (behind.source.key, behind.source.inferred, behind.counts.changed) == (("v",), True, 2)
    behind = only_behind(home.diff("out", source_key={"items": "id"}))
    assert (behind.source.key, behind.source.inferred) == (("id",), False)
    assert behind.counts.to_json() == {"added": 1, "removed": 1, "changed": 1, "same": 0, "new": 1, "gone": 1}


def test_rows_shown_take_turns(made):
    old = [(n, "a") for n in range(10)]
    new = [(n, "b" if n < 4 else "a") for n in range(7)] + [(n, "n") for n in range(20, 26)]
    behind = only_behind(with_items(made, old, new).diff("out", rows=4))
    assert [row.change for row in behind.rows] == ["changed", "added", "removed", "changed"]
    assert (behind.hidden, behind.counts.changed, behind.counts.added, behind.counts.removed) == (9, 4, 6, 3)


def test_the_same_source_rows_leave_the_workflow_as_the_reason(made):
    items = made.run("seed", {"items": Made(items_table([(1, "a")]), "source")})
    version = made.versions[items, "items"]
    steps = [
        {
            "steps": [
                {"name": "out", "op": "filter", "input": "items", "where": text},
                {"name": "x", "op": "sort", "input": "out"},
            ]
        }
        for text in ("a", "b")
    ]
    with_items(made, version, spec=steps[0])
    for number, (spec, variables) in enumerate([(steps[0], {}), (steps[0], {"since": "2"}), (steps[1], {})], start=1):
        out = Made(pa.table({"k": [1], "n": [number]}), hops={"items": [(0, 0)]})
        made.run("flow", {"items": Made(version, "source"), "out": out}, spec=spec, variables=variables)
    with made.home as home:
        first, *runs = [row["run_id"] for row in home.runs(workflow="flow").to_pylist()][::-1]
        found = [home.diff(f"out@{first}", f"out@{run}") for run in runs]
    assert [next(diff.changes()).reason for diff in found] == [
        "same source rows", "same source rows; variables changed", "same source rows; the workflow changed",
    ]  # fmt: skip
    assert (found[2].workflows_changed, found[2].steps_changed) == (("flow",), ("out",))
    assert dict(found[1].variables_changed) == {"since": (None, "2")}


def test_a_source_whose_files_changed_is_told_and_the_rows_of_the_output_are_still_there(made):
    home = with_items(made, [(1, "a"), (2, "b")], [(1, "a"), (3, "c"), (4, "d")], kind="source")
    diff = home.diff("out")
    behind = only_behind(diff)
    assert kinds(diff) == [("changed", (1,), ("n",))]
    assert (behind.counts, behind.contributing, behind.rows) == (None, (2, 3), ())
    assert "no longer there (snapshot: true keeps them)" in behind.source.note
    assert next(diff.changes()).reason is None
    with pytest.raises(SourceError, match="has changed since run"):
        home.diff("items")


def test_one_version_whose_files_changed_still_has_counts(made):
    run = made.run("flow", {"items": Made(items_table([(1, "a"), (2, "b")]), "source", kind="source")})
    version = made.versions[run, "items"]
    for pairs in ([(0, 0)], [(0, 1)]):
        out = Made(pa.table({"k": [1], "n": [len(pairs) + pairs[0][1]]}), hops={"items": pairs})
        made.run("flow", {"items": Made(version, "source"), "out": out})
    (made.folder / "files" / "items.parquet").unlink()
    with made.home as home:
        behind = only_behind(home.diff("out"))
        assert (behind.source.identity, behind.counts.added, behind.counts.removed) == ("rid", 1, 1)
        assert [(row.change, row.before, row.after, row.known) for row in behind.rows] == [
            ("added", None, {"_rid": 1}, True), ("removed", {"_rid": 0}, None, True),
        ]  # fmt: skip
        assert home.diff("items").counts.same == 2


def test_a_source_that_only_one_run_reads(made):
    made.run("flow", {"out": Made(numbers((1, 1)))})
    made.run(
        "flow",
        {"items": Made(items_table([(1, "a")]), "source"), "out": Made(numbers((1, 2)), hops={"items": [(0, 0)]})},
    )
    behind = only_behind(made.home.diff("out"))
    assert (behind.source.identity, behind.source.note, behind.counts.added) == (None, "only the run after reads it", 1)
    assert [(row.change, row.known, row.after) for row in behind.rows] == [
        ("added", None, {"_rid": 0, "id": 1, "v": "a"})
    ]


def test_capture_off_leaves_the_row_changes(made):
    made.run("flow", {"out": Made(numbers((1, 1)))})
    made.run("flow", {"out": Made(numbers((1, 2)))}, capture="off")
    diff = made.home.diff("out")
    assert kinds(diff) == [("changed", (1,), ("v",))]
    assert any("capture off" in note for note in diff.notes)
    assert next(diff.changes()).reason is None


def test_changes_are_followed_over_workflows(made):
    for amount in (1, 2):
        raw = Made(items_table([(7, str(amount)), (8, "x")]), "source")
        rates = made.run(
            "rates", {"raw": raw, "daily": Made(numbers((1, amount), (2, 5)), hops={"raw": [(0, 0), (1, 1)]})}
        )
        fx = Made(made.versions[rates, "daily"], "source", {"output": "rates.daily", "rename": {"v": "rate"}})
        made.run("flow", {"fx": fx, "out": Made(numbers((1, amount * 10), (2, 50)), hops={"fx": [(0, 0), (1, 1)]})})
    diff = made.home.diff("out")
    (change,) = diff.changes()
    assert [(each.source.source, each.source.key) for each in change.behind] == [
        ("flow.fx", ("k",)),
        ("rates.raw", ("id",)),
    ]
    near, far = (each.rows for each in change.behind)
    assert [(row.before["rate"], row.after["rate"], row.columns) for row in near] == [(1, 2, ("rate",))]
    assert [(row.before["v"], row.after["v"]) for row in far] == [("1", "2")]


def test_wrong_options_are_refused(made):
    home = with_items(made, [(1, "a")], [(1, "b")])
    for options in ({"limit": -1}, {"rows": -1}, {"behind": False, "source_key": {"x": "y"}}):
        with pytest.raises(QuestionError):
            home.diff("out", **options)


def test_no_table_is_left_behind(made):
    home = with_items(made, [(1, "a")], [(1, "b"), (2, "a")])
    diff = home.diff("out")
    diff.arrow()
    with pytest.raises(QuestionError):
        home.diff("out", key="nothing")
    assert home._open._engine.connection.execute("SELECT count(*) FROM information_schema.tables").fetchall() == [(0,)]


def test_a_row_that_was_there_as_it_is_is_shown_once(made):
    for rows, pairs in (([(1, "a"), (2, "b"), (3, "c")], [(0, 0)]), ([(2, "b"), (1, "a")], [(0, 0), (0, 1)])):
        out = Made(numbers((1, len(pairs))), hops={"items": pairs})
        made.run("flow", {"items": Made(items_table(rows), "source"), "out": out})
    (row,) = only_behind(made.home.diff("out")).rows
    assert (row.change, row.known, row.before, row.after) == ("added", True, None, {"_rid": 0, "id": 2, "v": "b"})


def test_a_row_without_sources_says_so(made):
    for number in (1, 2):
        out = Made(numbers((1, 5), (2, number)), hops={"items": [(0, 0)]})
        made.run("flow", {"items": Made(items_table([(1, "a")]), "source"), "out": out})
    (change,) = made.home.diff("out").changes()
    assert (change.key, change.behind, change.reason) == ({"k": 2}, (), "no source rows behind it")
