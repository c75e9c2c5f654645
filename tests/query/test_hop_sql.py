"""The SQL of single hops, executed over small relations: what each form of lineage adds to the rows before it."""

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import source_space, step_space
from lineage_service.query import hop_sql
from lineage_service.query.home_files import HomeFiles
from lineage_service.query.hop_sql import formula_part, interval_part, positions_in, refreshed_row_files, stored_file

ROLE = "greatest(r.role, 0) AS role"


def hop(form: str, backward: str | None = None, forward: str | None = None, **body: object) -> HopRecord:
    ends = step_space("out"), source_space("in")
    return HopRecord("r1", *ends, 0, form, 0, 0, backward, forward, json.dumps(body) if body else None)


def before(*pairs: tuple[int, int]) -> str:
    rows = ", ".join(f"({a}::BIGINT, {b}::BIGINT, 0)" for a, b in pairs)
    return f"(SELECT * FROM (VALUES {rows}) t(a, b, role))"


def ask(sql: str) -> list[tuple]:
    with duckdb.connect() as connection:
        return sorted(connection.execute(sql).fetchall())


@pytest.fixture
def files(tmp_path: Path) -> HomeFiles:
    """Files of this folder; there are no datasets."""

    def scan(place: object) -> None:
        raise AssertionError(place)

    return HomeFiles(lambda path: str(tmp_path / path), scan)


# The id behind row a is (a + shift) // div % mod, for low <= a < high.
FORMULAS = {
    "the same row": {"shift": 0, "div": 1, "mod": 0, "low": 0, "high": 6},
    "the second input of a union": {"shift": -2, "div": 1, "mod": 0, "low": 2, "high": 6},
    "the left side of a cross product": {"shift": 0, "div": 3, "mod": 0, "low": 0, "high": 6},
    "the right side of a cross product": {"shift": 0, "div": 1, "mod": 3, "low": 0, "high": 6},
    "a part of a cross product": {"shift": 1, "div": 1, "mod": 3, "low": 1, "high": 5},
}


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_a_formula_in_both_directions(formula):
    rows = range(formula["low"], formula["high"])
    wanted = [(a, (a + formula["shift"]) // formula["div"] % (formula["mod"] or 1000)) for a in rows]
    found = ask(formula_part(hop("formula", **formula), before(*((a, a) for a in range(8))), ROLE, "backward"))
    assert found == [(a, b, 0) for a, b in wanted]
    ids = range(8)
    found = ask(formula_part(hop("formula", **formula), before(*((b, b) for b in ids)), ROLE, "forward"))
    assert found == sorted((b, a, 0) for a, b in wanted)


@pytest.mark.parametrize("piece", [1, 2, 100_000])
def test_positions_of_ranges_are_listed_once(monkeypatch, piece):
    monkeypatch.setattr(hop_sql, "PIECE", piece)
    found = ask(positions_in("(SELECT * FROM (VALUES (0, 2), (1, 3), (7, 7)) t(lo, hi))"))
    assert found == [(0,), (1,), (2,), (3,), (7,)]


@pytest.fixture
def window(tmp_path: Path) -> HopRecord:
    """Each of four rows reads itself and the row before; the last one reads row 0 too."""
    frames = {"a": [0, 1, 2, 3], "lo0": [0, 0, 1, 2], "hi0": [0, 1, 2, 3], "lo1": [None, None, None, 0],
              "hi1": [None, None, None, 0]}  # fmt: skip
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in frames.items()})
    pq.write_table(table, tmp_path / "window.parquet")
    return hop("interval", backward="window.parquet", frames=2)


def test_what_a_window_reads(window, files):
    found = ask(interval_part(window, before((10, 0), (10, 1), (20, 3)), ROLE, "backward", files, pairs=True))
    assert found == [(10, 0, 0), (10, 1, 0), (20, 0, 0), (20, 2, 0), (20, 3, 0)]


@pytest.mark.parametrize("pairs", [True, False])
def test_who_reads_a_row_of_a_window(window, files, pairs):
    """Without pairs all start rows are one: a is 0."""
    part = interval_part(window, before((0, 0), (0, 2)), ROLE, "forward", files, pairs=pairs)
    assert sorted(set(ask(part))) == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0)]


def test_rows_that_a_refresh_has_made_anew_are_left_out(tmp_path, files):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "gone.parquet")
    old = hop("pairs", backward="pairs.parquet", without=["gone.parquet"])
    assert refreshed_row_files(old) == ["gone.parquet"]
    relation = "SELECT * FROM (VALUES (0, 5), (1, 6)) t(a, b)"
    assert ask(hop_sql.exclude_refreshed_rows(old, relation, "a", files)) == [(0, 5)]
    assert hop_sql.exclude_refreshed_rows(hop("pairs"), relation, "a", files) == relation


def test_files_that_hold_all_pairs_in_order():
    both = {"backward": "b.parquet", "forward": "f.parquet"}
    assert stored_file(hop("pairs", **both), "backward") == "b.parquet"
    assert stored_file(hop("pairs", **both), "forward") == "f.parquet"
    assert stored_file(hop("column", **both), "backward") is None
    assert stored_file(hop("column", **both), "forward") == "f.parquet"
    assert stored_file(hop("keyed", **both), "backward") == "b.parquet"
    assert stored_file(hop("keyed", **both), "forward") is None
    assert stored_file(hop("pairs", **both, without=["gone.parquet"]), "backward") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "k IS NULL"),
        (True, "k = true"),
        (-3, "k = -3"),
        (Decimal("1E+2"), "k = 100"),
        ("it's", "k = 'it''s'"),
        (date(2024, 2, 29), "k = DATE '2024-02-29'"),
        (0.5, None),
    ],
)
def test_keys_are_spelled_out_where_that_is_exact(value, text):
    assert hop_sql._equals("k", value) == text
