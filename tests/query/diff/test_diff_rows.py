"""Diff of a dataset's rows: which two runs, by which key, and when values are the same."""

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lineage_service.errors import NotFound, QuestionError
from lineage_service.query.diff.row_keys import grouped_by
from tests.support.made_runs import Made, MadeHome

NAN = float("nan")


@pytest.fixture
def made(tmp_path):
    return MadeHome(tmp_path / "home")


def two_runs(made, old, new, **declared):
    """Two runs of a workflow that has just one output."""
    for table in (old, new):
        made.run("flow", {"out": Made(table, declared=declared)})
    return made.home


def kinds(diff):
    return [(each.change, tuple(each.key.values()), each.columns) for each in diff.changes()]


def numbers(*values):
    return pa.table(
        {"k": pa.array([k for k, _ in values], pa.int64()), "v": pa.array([v for _, v in values], pa.int64())}
    )


def plain(value):
    """A value that compares as groups do: NaN equals NaN, -0.0 equals 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


# --- which runs -----------------------------------------------------------------------------------------------


def test_without_runs_the_previous_is_compared_with_the_latest(made):
    first, second, third = (made.run("flow", {"out": Made(numbers((1, n)))}) for n in range(3))
    with made.home as home:
        for arguments, runs in {
            ("out",): (second, third),
            ("flow.out",): (second, third),
            (f"out@{first[:4]}",): (first, third),
            (f"out@{third}", f"out@{first}"): (third, first),
            (f"out@{first}", "out"): (first, third),
        }.items():
            diff = home.diff(*arguments)
            assert (diff.before.run_id, diff.after.run_id) == runs
            assert kinds(diff) == [("changed", (1,), ("v",))]


def test_runs_that_lack_the_dataset_are_passed_over(made):
    first = made.run("flow", {"out": Made(numbers((1, 1)))})
    made.run("flow", {"other": Made(numbers((1, 1)))})
    made.run("flow", {"out": Made(numbers((1, 2)))})
    assert made.home.diff("out").before.run_id == first


def test_what_cannot_be_compared_says_why(made):
    made.run("flow", {"out": Made(numbers((1, 1))), "other": Made(numbers((1, 1)))})
    with made.home as home:
        with pytest.raises(QuestionError, match="only one committed run"):
            home.diff("out")
        with pytest.raises(QuestionError, match=r"'flow\.out' is not 'flow\.other'"):
            home.diff("out", "other")
        with pytest.raises(NotFound, match="did you mean 'out'"):
            home.diff("oot")
        with pytest.raises(NotFound, match="no run 'ffff'"):
            home.diff("out@ffff")


def test_a_run_against_itself_has_no_changes(made):
    run = made.run("flow", {"out": Made(pa.table({"x": [1.5, 1.5]}))})  # nothing identifies its rows; none is asked to
    diff = made.home.diff(f"out@{run}", f"out@{run}")
    assert diff.counts.to_json() == {"added": 0, "removed": 0, "changed": 0, "same": 2}
    assert (list(diff.changes()), diff.arrow().num_rows) == ([], 0)
    assert any("both are run" in note for note in diff.notes)


# --- keys -----------------------------------------------------------------------------------------------------


def test_the_key_of_a_unique_check_comes_first(made):
    old = pa.table({"n": [1, 2], "code": ["a", "b"], "v": [1, 2]})
    new = pa.table({"n": [2, 1], "code": ["a", "b"], "v": [1, 2]})
    checks = [{"not_null": ["n"]}, {"unique": ["code"]}]
    diff = two_runs(made, old, new, checks=checks).diff("out")
    assert (diff.key, diff.key_origin) == (("code",), "check")
    assert kinds(diff) == [("changed", ("a",), ("n",)), ("changed", ("b",), ("n",))]


def test_the_key_is_the_leftmost_column_that_identifies_rows(made):
    columns = {"measure": [0.5, 1.5], "twice": [1, 1], "nothing": [1, None], "id": [5, 6], "other": [7, 8]}
    diff = two_runs(made, pa.table(columns), pa.table({**columns, "other": [7, 9]})).diff("out")
    assert (diff.key, diff.key_origin, diff.key_inferred) == (("id",), "column", True)
    assert kinds(diff) == [("changed", (6,), ("other",))]
    assert any("matched by id" in note for note in diff.notes)


def test_without_a_key_the_columns_are_listed(made):
    table = pa.table({"a": [1, 1], "b": [2, 2]})
    with pytest.raises(QuestionError, match=r"columns: a, b\n.*--key"):
        two_runs(made, table, table).diff("out")


def test_a_key_that_is_not_unique_is_refused_with_a_count(made):
    old = pa.table({"a": [1, 1, 2, 2, 3], "b": [1, 2, 3, 4, 5]})
    home = two_runs(made, old, pa.table({"a": [1], "b": [1]}))
    with pytest.raises(QuestionError, match="2 keys occur more than once in the run before"):
        home.diff("out", key="a")
    with pytest.raises(QuestionError, match=r"unknown column 'bb'; .*\n.*did you mean 'b'"):
        home.diff("out", key=["a", "bb"])
    assert kinds(home.diff("out", key=["A", "b"])) == [("removed", (1, 2), ())] + [
        ("removed", (n // 2 + 1, n + 1), ()) for n in (2, 3, 4)
    ]


def test_null_nan_and_zero_are_keys_like_others(made):
    old = pa.table({"k": pa.array([None, NAN, -0.0, 1.0]), "v": [1, 2, 3, 4]})
    new = pa.table({"k": pa.array([0.0, NAN, None, 2.0]), "v": [3, 20, 10, 5]})
    found = [
        (kind, plain(key[0]), columns) for kind, key, columns in kinds(two_runs(made, old, new).diff("out", key="k"))
    ]
    assert found == [
        ("removed", 1.0, ()), ("added", 2.0, ()), ("changed", "NaN", ("v",)), ("changed", None, ("v",)),
    ]  # fmt: skip


GROUPED = {
    "steps": [
        {"name": "sums", "op": "aggregate", "input": "s", "by": ["region", "year"], "measures": {"n": "count(*)"}},
        {"name": "sorted", "op": "sort", "input": "sums", "by": ["n desc"]},
        {"name": "short", "op": "project", "input": "sorted", "columns": {"r": "region", "y": "year", "n": "n"}},
        {"name": "less", "op": "project", "input": "sorted", "columns": ["region", "n"]},
        {"name": "hidden", "op": "with_columns", "input": "sums", "columns": {"year": "1"}},
        {"name": "one", "op": "aggregate", "input": "s", "measures": {"n": "count(*)"}},
    ],
    "outputs": {"report": {"step": "short"}},
}


@pytest.mark.parametrize(
    ("dataset", "group"),
    {"sums": ("region", "year"), "sorted": ("region", "year"), "report": ("r", "y"), "less": None, "hidden": None,
     "one": (), "s": None}.items(),
)  # fmt: skip
def test_what_a_dataset_is_grouped_by(dataset, group):
    assert grouped_by(json.dumps(GROUPED), dataset) == group


def test_a_measure_is_no_key_of_groups(made):
    for n in (5, 6):
        made.run("flow", {"one": Made(pa.table({"n": [n]}))}, spec=GROUPED)
        made.run("wide", {"sums": Made(pa.table({"region": ["a", "a"], "year": [1, 2], "n": [n, 9]}))}, spec=GROUPED)
    with made.home as home:
        assert kinds(home.diff("one")) == [("changed", (), ("n",))]
        diff = home.diff("sums")
        assert (diff.key, kinds(diff)) == (("year",), [("changed", (1,), ("n",))])


# --- values ---------------------------------------------------------------------------------------------------


def test_values_that_group_together_are_the_same(made):
    old = pa.table({"k": [1, 2, 3], "x": pa.array([NAN, -0.0, None])})
    new = pa.table({"k": [3, 2, 1], "x": pa.array([None, 0.0, NAN])})
    assert two_runs(made, old, new).diff("out").counts.to_json() == {"added": 0, "removed": 0, "changed": 0, "same": 3}


def test_a_column_of_another_type_is_compared_in_a_common_one(made):
    big = 2**62
    old = pa.table(
        {"k": [1, 2, 3], "n": pa.array([1, 2, big]), "t": ["1", "x", None], "d": pa.array([1, 2, 3], pa.date32())}
    )
    new = pa.table({
        "k": pa.array([1, 2, 3], pa.int32()), "n": pa.array([Decimal(1), Decimal("2.5"), None], pa.decimal128(38, 30)),
        "t": [1, 2, None], "d": [[1], None, [3]],
    })  # fmt: skip
    diff = two_runs(made, old, new).diff("out", key="k")
    assert diff.types_changed["n"] == ("BIGINT", "DECIMAL(38,30)")
    # The large number fits no such decimal, so the column is compared as text: 1 is not 1.000….
    assert kinds(diff) == [
        ("changed", (1,), ("n", "d")),
        ("changed", (2,), ("n", "t", "d")),
        ("changed", (3,), ("n", "d")),
    ]
    assert any("column t was VARCHAR and is BIGINT" in note for note in diff.notes)
    assert diff.arrow().column("k").to_pylist() == [1, 2, 3]


def test_numbers_of_two_types_compare_as_numbers(made):
    old, new = pa.table({"k": ["a", "b"], "n": [1, 2]}), pa.table({"k": ["a", "b"], "n": [1.0, 2.5]})
    assert kinds(two_runs(made, old, new).diff("out")) == [("changed", ("b",), ("n",))]


def test_columns_of_one_run_are_noted_and_are_no_change(made):
    old, new = pa.table({"k": [1], "gone": [1], "Same": [1]}), pa.table({"k": [1], "same": [1], "came": [1]})
    diff = two_runs(made, old, new).diff("out")
    assert (diff.counts.any, diff.columns_added, diff.columns_removed) == (False, ("came",), ("gone",))
    assert diff.notes[1:] == ("only in the run after: column came", "only in the run before: column gone")


def test_nested_columns_are_compared_by_value(made):
    kind = pa.schema([
        ("k", pa.int64()), ("s", pa.struct([("a", pa.float64()), ("m", pa.map_(pa.string(), pa.int64()))])),
        ("l", pa.list_(pa.map_(pa.string(), pa.int64()))), ("m", pa.map_(pa.string(), pa.map_(pa.int64(), pa.string()))),
    ])  # fmt: skip
    row = {
        "k": 1,
        "s": {"a": NAN, "m": [("x", 1), ("y", 2)]},
        "l": [[("p", 1), ("q", 2)], None],
        "m": [("u", [(1, "a"), (2, "b")])],
    }
    turned = {
        "k": 1,
        "s": {"a": NAN, "m": [("y", 2), ("x", 1)]},
        "l": [[("q", 2), ("p", 1)], None],
        "m": [("u", [(2, "b"), (1, "a")])],
    }
    other = {"k": 2, "s": None, "l": None, "m": None}
    moved = {"k": 2, "s": {"a": None, "m": None}, "l": [], "m": [("u", None)]}
    old, new = pa.Table.from_pylist([row, other], kind), pa.Table.from_pylist([turned, moved], kind)
    diff = two_runs(made, old, new).diff("out")
    assert kinds(diff) == [("changed", (2,), ("s", "l", "m"))]
    assert next(diff.changes()).after == {"k": 2, "s": {"a": None, "m": None}, "l": [], "m": {"u": None}}


def test_rows_of_empty_versions(made):
    empty, full = numbers(), numbers((2, 1), (1, 1))
    for table in (empty, full, empty, empty):
        made.run("flow", {"out": Made(table)})
    with made.home as home:
        runs = [row["run_id"] for row in home.runs().to_pylist()][::-1]
        assert kinds(home.diff(f"out@{runs[0]}", f"out@{runs[1]}")) == [("added", (1,), ()), ("added", (2,), ())]
        assert kinds(home.diff(f"out@{runs[1]}", f"out@{runs[2]}")) == [("removed", (1,), ()), ("removed", (2,), ())]
        assert home.diff("out").counts.to_json() == {"added": 0, "removed": 0, "changed": 0, "same": 0}


def test_the_flat_table_has_a_row_per_change(made):
    old = pa.table({"change": [1, 2], "v": ["a", "b"], "gone": [1, 2]})
    new = pa.table({"change": [2, 3], "v": ["B", "c"], "came": [5, 6]})
    diff = two_runs(made, old, new).diff("out", key="change")
    assert diff.arrow().to_pylist() == [
        {"change": "removed", "change_1": 1, "_rid_before": 0, "_rid_after": None, "v_before": "a", "v_after": None, "came_after": None, "gone_before": 1},
        {"change": "changed", "change_1": 2, "_rid_before": 1, "_rid_after": 0, "v_before": "b", "v_after": "B", "came_after": 5, "gone_before": 2},
        {"change": "added", "change_1": 3, "_rid_before": None, "_rid_after": 1, "v_before": None, "v_after": "c", "came_after": 6, "gone_before": None},
    ]  # fmt: skip
    assert diff.answer().parts[0].columns == diff.arrow().column_names


def test_a_limit_cuts_the_changes_and_not_the_counts(made):
    home = two_runs(made, numbers(*((n, 0) for n in range(30))), numbers(*((n, n) for n in range(30))))
    diff = home.diff("out", limit=4)
    assert (diff.counts.changed, diff.remaining, kinds(diff)) == (
        29,
        25,
        [("changed", (n,), ("v",)) for n in range(1, 5)],
    )
    assert home.diff("out", limit=0).remaining == 29
