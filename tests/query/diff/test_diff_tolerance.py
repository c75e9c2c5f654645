"""Floating-point numbers in a diff: equal within a relative tolerance, which a note tells; everything else exact."""

import math
import random

import pyarrow as pa
import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service.errors import QuestionError
from lineage_service.query.diff.tolerance import differs
from tests.support.made_runs import Made, MadeHome

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def made(tmp_path):
    return MadeHome(tmp_path / "home")


def two_runs(made, before, after, kind=None, role="output"):
    for values in (before, after):
        table = pa.table({"id": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, kind or pa.float64())})
        made.run("flow", {"out": Made(table, role)})


def changed_ids(diff):
    assert all(change.change == "changed" for change in diff.changes())
    return [change.key["id"] for change in diff.changes()]


PAIRS = [  # before, after, whether they are equal within 1e-9
    (1.0, 1.0 + 1e-12, True),
    (1.0, 1.0 + 1e-6, False),
    (0.1 + 0.2, 0.3, True),
    (-5e300, -5e300 * (1 + 1e-12), True),
    (1e308, -1e308, False),
    (0.0, -0.0, True),
    (0.0, 1e-300, False),
    (5e-324, 1e-323, False),
    (NAN, NAN, True),
    (NAN, 1.0, False),
    (INF, INF, True),
    (INF, -INF, False),
    (INF, 1.7e308, False),
    (INF, NAN, False),
    (None, None, True),
    (None, 0.0, False),
    (NAN, None, False),
]


def test_doubles_are_equal_within_a_relative_tolerance(made):
    two_runs(made, [each[0] for each in PAIRS], [each[1] for each in PAIRS])
    diff = made.home.diff("out")
    assert changed_ids(diff) == [n for n, (_, _, equal) in enumerate(PAIRS) if not equal]
    assert (diff.counts.changed, diff.counts.same) == (10, 7)
    assert (diff.tolerance, diff.within_tolerance) == (1e-9, 3)
    assert diff.notes[-1] == (
        "3 rows differ only in floating-point numbers within 1e-9 and count as equal; --tolerance 0 shows them"
    )
    exact = made.home.diff("out", tolerance=0)
    assert set(changed_ids(exact)) - set(changed_ids(diff)) == {0, 2, 3}
    assert exact.within_tolerance == 0 and not any("within" in note for note in exact.notes)
    assert changed_ids(made.home.diff("out", tolerance=1e-5)) == [n for n in changed_ids(diff) if n != 1]


def test_no_note_where_it_did_not_matter(made):
    two_runs(made, [1.0, 2.0], [1.0, 3.0])
    diff = made.home.diff("out")
    assert (changed_ids(diff), diff.within_tolerance) == ([1], 0)
    assert not any("within" in note for note in diff.notes)


def test_a_changed_row_names_only_the_columns_beyond_the_tolerance(made):
    for a, b in ((1.0, 1.0), (1.0 + 1e-13, 2.0)):
        made.run("flow", {"out": Made(pa.table({"id": [0], "a": [a], "b": [b]}))})
    (change,) = made.home.diff("out").changes()
    assert change.columns == ("b",)
    assert (change.before["a"], change.after["a"]) == (1.0, 1.0 + 1e-13), "shown as they are"


@pytest.mark.parametrize(
    "kind, wrap",
    [
        (pa.list_(pa.float64()), lambda x: [7.0, x, None]),
        (pa.struct([("a", pa.float64()), ("b", pa.string())]), lambda x: {"a": x, "b": "t"}),
        (pa.map_(pa.string(), pa.float64()), lambda x: [("k", x), ("l", 1.0)]),
        (
            pa.list_(pa.struct([("m", pa.map_(pa.int64(), pa.list_(pa.float64())))])),
            lambda x: [{"m": [(1, [x]), (2, None)]}, None],
        ),
    ],
    ids=["list", "struct", "map", "nested"],
)
def test_numbers_inside_nested_values(made, kind, wrap):
    two_runs(made, [wrap(a) for a, _, _ in PAIRS] + [None], [wrap(b) for _, b, _ in PAIRS] + [wrap(1.0)], kind)
    wanted = [n for n, (_, _, equal) in enumerate(PAIRS) if not equal] + [len(PAIRS)]
    assert changed_ids(made.home.diff("out")) == wanted


@pytest.mark.parametrize(
    "kind, before, after",
    [
        (pa.list_(pa.float64()), [1.0, 2.0], [1.0]),
        (pa.list_(pa.float64()), [], None),
        (pa.list_(pa.float64()), [None], [1.0]),
        (pa.map_(pa.float64(), pa.float64()), [(1.0, 1.0)], [(1.0 + 1e-12, 1.0)]),
        (pa.struct([("a", pa.float64()), ("b", pa.string())]), {"a": 1.0, "b": "t"}, {"a": 1.0, "b": "u"}),
        (pa.struct([("a", pa.float64())]), {"a": None}, None),
        (pa.decimal128(20, 12), 1, 2),
        (pa.float32(), 1.0, 1.0 + 2**-23),
        (pa.int64(), 10**15, 10**15 + 1),
    ],
)
def test_what_is_no_double_or_is_shaped_otherwise_is_compared_exactly(made, kind, before, after):
    two_runs(made, [before], [after], kind)
    diff = made.home.diff("out")
    assert (changed_ids(diff), diff.within_tolerance) == ([0], 0)


def test_a_column_that_became_a_double_is_compared_as_one(made):
    made.run("flow", {"out": Made(pa.table({"id": [0, 1], "x": pa.array([1, 2], pa.int64())}))})
    made.run("flow", {"out": Made(pa.table({"id": [0, 1], "x": [1.0 + 1e-12, 3.0]}))})
    assert changed_ids(made.home.diff("out")) == [1]


def test_limits_and_counts_leave_rows_within_the_tolerance_out(made):
    before = [float(n + 1) for n in range(20)]
    after = [x * (1 + 1e-12) if n % 2 else x + 1 for n, x in enumerate(before)]
    two_runs(made, before, after)
    diff = made.home.diff("out", limit=3)
    assert changed_ids(diff) == [0, 2, 4]
    assert (diff.remaining, diff.counts.changed, diff.counts.same, diff.within_tolerance) == (7, 10, 10, 10)
    summary = diff.to_json()
    assert (summary["tolerance"], summary["within_tolerance"]) == (1e-9, 10)


def test_keys_are_exact(made):
    for x in (1.0, 1.0 + 1e-12):
        made.run("flow", {"out": Made(pa.table({"x": [x], "n": [1]}))})
    diff = made.home.diff("out", key="x")
    assert (diff.counts.added, diff.counts.removed) == (1, 1)


def test_rows_of_files_behind_a_change_are_compared_exactly_and_computed_ones_within(made):
    """A small change in a file may be what made a large one; a row that another run computed is no culprit."""
    for kind, counts in (("snapshot", 1), ("output", 0)):
        for x, y in ((1.0, 1.0), (1.0 + 1e-12, 2.0)):
            source = Made(pa.table({"id": [0], "x": [x]}), "source", kind=kind)
            out = Made(pa.table({"id": [0], "y": [y]}), hops={"given": [(0, 0)]})
            made.run(f"flow_{kind}", {"given": source, "out": out})
        (change,) = made.home.diff(f"flow_{kind}.out").changes()
        (behind,) = change.behind
        assert behind.counts.changed == counts
        assert change.reason == (None if counts else "same source rows")


def test_rows_of_another_output_are_known_by_what_it_groups_them_by(made):
    """Without a key, a sum that differs in its last digits would be one row that went and one that came."""
    spec = {"steps": [{"name": "sums", "op": "aggregate", "input": "files", "by": ["a", "b"], "measures": {}}]}
    files = Made(pa.table({"id": [0, 1]}), "source")
    for noise, total in ((1.0, 5.0), (1.0 + 1e-13, 9.0)):
        sums = pa.table({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2], "s": [x * noise for x in (0.3, 4.0, 7.0, 7.0)]})
        made_by = made.run("up", {"files": files, "sums": Made(sums, hops={"files": [(0, 0), (1, 1)]})}, spec=spec)
        read = Made(made.versions[made_by, "sums"], "source", {"output": "up.sums"})
        out = Made(pa.table({"id": [0], "total": [total]}), hops={"sums": [(0, n) for n in range(4)]})
        made.run("down", {"sums": read, "out": out})
    (change,) = made.home.diff("down.out", key="id").changes()
    (behind,) = [each for each in change.behind if each.source.source == "down.sums"]
    assert (behind.source.identity, behind.source.key) == ("key", ("a", "b"))
    assert (behind.counts.added, behind.counts.removed, behind.counts.changed, behind.counts.same) == (0, 0, 0, 4)


@pytest.mark.parametrize("bad", [-1e-9, 1, 1.5, NAN, INF, "1e-9", None, True])
def test_bad_tolerances_are_refused(made, bad):
    two_runs(made, [1.0], [1.0])
    with pytest.raises(QuestionError, match=r"tolerance.* a number"):
        made.home.diff("out", tolerance=bad)


@pytest.mark.parametrize("bad", ["-1", "1", "nan", "inf", "much", ""])
def test_the_command_refuses_bad_tolerances(made, bad):
    found = CliRunner().invoke(cli, ["diff", "out", "--home", str(made.folder), f"--tolerance={bad}"])
    assert found.exit_code == 2
    assert "expected a number from 0 (exact) to below 1" in found.stderr


def test_the_command_tells_what_counts_as_equal(made):
    two_runs(made, [0.3, 1.0], [0.1 + 0.2, 1.0])
    arguments = ["diff", "out", "--home", str(made.folder), "--key", "id"]
    found = CliRunner().invoke(cli, arguments)
    assert "0 added, 0 removed, 0 changed, 2 unchanged" in found.stdout
    assert (
        "note: 1 row differs only in floating-point numbers within 1e-9 and counts as equal; --tolerance 0 shows it"
        in found.stderr
    )
    found = CliRunner().invoke(cli, [*arguments, "--tolerance", "0"])
    assert "0.3 → 0.30000000000000004" in found.stdout and "within" not in found.stderr


@pytest.mark.parametrize("seed", range(4))
def test_random_numbers_against_python(seed):
    import duckdb

    rng = random.Random(seed)
    special = [0.0, -0.0, NAN, INF, -INF, 5e-324, 1.7e308, None]

    def value():
        return rng.choice(special) if rng.random() < 0.3 else rng.choice((-1, 1)) * 10 ** rng.uniform(-320, 308)

    pairs = []
    for _ in range(500):
        a = value()
        near = rng.random() < 0.6 and a is not None and math.isfinite(a)
        pairs.append((a, a * (1 + rng.choice((0, 1e-13, 5e-10, 2e-9, -5e-10))) if near else value()))
    table = pa.table({"a": pa.array([a for a, _ in pairs]), "b": pa.array([b for _, b in pairs])})
    query = f"SELECT {differs('a', 'b', 'DOUBLE', 1e-9)} FROM pairs"
    connection = duckdb.connect()
    connection.register("pairs", table)
    found = [row[0] for row in connection.execute(query).fetchall()]

    def equal(a, b):
        if a is None or b is None:
            return a is b
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=1e-9)

    assert found == [not equal(a, b) for a, b in pairs]
