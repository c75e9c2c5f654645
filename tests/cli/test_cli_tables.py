"""Tables: whole and plain in a pipe, folded and dimmed on a terminal; cut answers say so."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from lineage_cli import tables
from lineage_cli.output_stream import OutputStream
from lineage_cli.why_not_text import _example, write_losses

from lineage_service.why_not.why_not_result import Arrival, ReasonCount, StepLoss, WhyNot
from tests.cli.conftest import Call
from tests.cli.fakes import FakeAnswer, FakeHome, FakePart, answer


def test_a_masked_group_that_was_dropped_is_a_mask_whatever_its_type():
    example = {"rid": 7, "group": {"born": None, "city": "Oslo"}, "values": {"oldest": None, "n": 2}}
    step = StepLoss("kept", "aggregate", "people", 1, 1, 1, True)
    told = "row 7 is in the group born = {0}, city = Oslo of 'kept', which has oldest = {0}, n = 2"
    assert _example(step, {**example, "masked": ["born", "oldest"]}) == told.format("•••")
    assert _example(step, example) == told.format("null")


@pytest.mark.parametrize(
    "limit, ids, arrive",
    [(None, "0, 1, 2, 3, 4 and 4 more", 5), (8, "0, 1, 2, 3, 4, 5, 6, 7 and 1 more", 8), (2, "0, 1 and 7 more", 2)],
)
def test_why_not_shows_as_many_row_ids_as_are_asked_for(limit, ids, arrive):
    reason = ReasonCount("condition", "a is false", 9, tuple(range(9)), 0)
    step = StepLoss("kept", "filter", "people", 20, 9, 9, False, (reason,))
    arrivals = [Arrival(rid, (rid,), 0, 0) for rid in range(9, 20)]
    found = WhyNot("w.people", "w.kept", "ab12", 20, 11, 0, 9, [step], arrivals)
    stream = io.BytesIO()
    write_losses(found, OutputStream(stream, "memory"), terminal=False, limit=limit)
    told = stream.getvalue().decode()
    assert f"  {ids}\n" in told
    assert told.count("is in row") == arrive
    assert f"… and {11 - arrive} more that arrive" in told


def test_a_piped_table_is_whole_and_plain(call: Call) -> None:
    long = "x" * 500
    result = call("rows totals", answer({"_rid": [0, 10], "name": ["ü" + long, None]}))
    head, rule, first, second = result.out.splitlines()
    assert head == "_rid  name"
    assert rule == "----  ----"
    assert first == f"   0  ü{long}"
    assert second == "  10  null"
    assert "\x1b" not in result.out


def test_a_long_cell_juts_out_of_a_piped_table_and_shifts_only_its_own_line(call: Call) -> None:
    result = call("rows totals", answer({"name": ["a", "x" * 100, "y" * 101], "n": [1, 2, 3]}))
    assert result.out.splitlines() == [
        f"name{' ' * 96}  n",
        f"{'-' * 100}  -",
        f"a{' ' * 99}  1",
        f"{'x' * 100}  2",
        f"{'y' * 101}  3",
    ]


@pytest.mark.parametrize("columns", ["80", "10"])  # as a table, and as records
def test_a_very_long_cell_is_cut_on_a_terminal(
    call: Call, terminal: None, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = call("rows totals", answer({"a": ["some words"], "name": ["y" * 161]}))
    assert result.out.count("y") == 159
    assert result.out.count("…") == 1
    assert result.err == ""


def test_long_tables_are_written_in_blocks(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK", 2)
    lines = call("rows totals", answer({"_rid": [1, 2, 3, 1000000]})).out.splitlines()
    assert lines == ["_rid", "----", "   1", "   2", "      3", "1000000"]


def test_wide_characters_keep_the_columns_straight(call: Call) -> None:
    lines = call("rows totals", answer({"a": ["日本", "ab"], "b": ["x", "y"]})).out.splitlines()
    assert lines[2:] == ["日本  x", "ab    y"]


def test_a_terminal_gets_fifty_rows_dim_nulls_and_its_width(call: Call, terminal: None) -> None:
    home = FakeHome(answer({"_rid": [0], "name": ["y" * 160], "n": pa.nulls(1)}, remaining=123))
    result = call("rows totals", home=home)
    assert home.options["limit"] == 50
    assert result.err == "… and 123 more rows; use --limit to see more\n"
    assert "\x1b[2m" in result.out
    plain = result.out.replace("\x1b[2m", "").replace("\x1b[0m", "").replace("\x1b[1m", "")
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert plain.count("y") == 160
    assert "…" not in plain


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_it_is_not_wanted(
    call: Call, terminal: None, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    result = call("rows totals", answer({"_rid": [0], "name": pa.nulls(1)}))
    assert "\x1b" not in result.out
    assert "null" in result.out


def test_too_many_columns_for_the_screen_are_shown_as_records(call: Call, terminal: None) -> None:
    result = call("rows totals", answer({f"column_{n:02}": ["some value"] for n in range(20)}))
    lines = result.out.splitlines()
    assert lines[0] == "-- row 1 --"
    assert lines[1] == "column_00  some value"
    assert len(lines) == 21


def test_data_cannot_steer_the_terminal(call: Call) -> None:
    out = call("rows totals", answer({"a": ["\x1b]0;gone\x07", "two\nlines", "\u202eback"]})).out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "two\\nlines" in out


def test_markup_in_data_is_data(call: Call, terminal: None) -> None:
    assert "[bold]x[/bold]" in call("rows totals", answer({"a": ["[bold]x[/bold]"]})).out


def test_the_limit_given_wins_and_pipes_have_none(call: Call) -> None:
    home = FakeHome(answer({"_rid": [0]}))
    call("rows totals", home=home)
    assert home.options["limit"] is None
    call("rows totals --limit 7", home=home)
    assert home.options["limit"] == 7


def test_only_tables_are_limited_on_a_terminal(call: Call, terminal: None) -> None:
    home = FakeHome(answer({"_rid": [0]}))
    call("rows totals --json", home=home)
    assert home.options["limit"] is None


def test_pairs_and_counts_are_never_cut(call: Call, terminal: None) -> None:
    home = FakeHome(answer({"out_rid": [0], "rid": [1]}, "pairs"))
    call("backward totals --all --to orders --pairs --limit 3", home=home)
    assert home.options["limit"] is None
    call("backward totals --all --to orders --rids --limit 3", home=home)
    assert home.options["limit"] == 3


def test_each_cut_dataset_says_so(call: Call) -> None:
    parts = [FakePart(pa.table({"_rid": [0]}), dataset=name, remaining=left) for name, left in (("a", 1), ("b", None))]
    result = call("backward totals --all --to all --limit 1 --rids", FakeAnswer(parts, "rids"))
    assert result.err == "… and 1 more row of a; use --limit to see more\n"
