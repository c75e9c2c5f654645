"""A trace as text and as a page, without a run: what its lines say, and what is left of them on a narrow screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lineage_cli.trace_tree import trace_tree
from lineage_cli.tree_drawing import draw_tree, width_of

from lineage_service.query.trace.trace_result import Trace, TracedRow, TracedSet, TracedStep
from lineage_service.render.html.trace_page import trace_page
from lineage_service.store.row_places import RowPlace
from tests.cli.conftest import Call

ITEMS = "workflows/shop/data/items.json"


def row(
    rid: int, line: int | None = None, *, file: str = ITEMS, peer: bool = False, changed: bool = False
) -> TracedRow:
    place = RowPlace(str(Path.cwd() / file), rid, line, changed) if line is not None or changed else None
    return TracedRow(rid, {"product": "lamp", "quantity": 2, "price": "149.90", "note": None}, place, peer)


def source(*rows: TracedRow, count: int | None = None, peers: int = 0) -> TracedSet:
    return TracedSet("shop.items", "r1", "source", "contributes", len(rows) if count is None else count, peers, rows)


def trace(*behind: TracedSet, values: dict[str, Any] | None = None, steps: int = 1) -> Trace:
    made_by = tuple(TracedStep(f"s{number}", "filter") for number in range(steps))
    record = TracedRow(0, values or {"city": "Köln"})
    root = TracedSet("shop.ranked", "0bc658a7d5034161", "output", "contributes", 1, rows=(record,), made_by=made_by)
    return Trace(root, "2026-11-16T05:58:11.088+00:00", behind, ())


def text(shown: Trace, width: int | None = None) -> list[str]:
    return [line.lstrip("│├└─ ") for line in draw_tree(trace_tree(shown, width), width)]


def test_one_file_stands_above_its_rows_and_ids_are_aligned() -> None:
    lines = text(trace(source(row(9, 10), row(21, 122))))
    assert f"shop.items: 2 rows in {ITEMS}" in lines
    assert "_rid  9  line  10  product lamp · quantity 2 · price 149.90 · note null" in lines
    assert "_rid 21  line 122  product lamp · quantity 2 · price 149.90 · note null" in lines


def test_of_rows_that_are_not_shown_no_file_is_told() -> None:
    assert f"shop.items: 15 rows, these 2 in {ITEMS}" in text(trace(source(row(1, 2), row(2, 3), count=15)))
    assert f"shop.items: 15 rows, this one in {ITEMS}" in text(trace(source(row(1, 2), count=15)))


def test_a_file_that_has_no_room_beside_its_dataset_stands_below() -> None:
    lines = text(trace(source(row(1, 2), count=15)), 60)
    place = lines.index("shop.items: 15 rows")
    assert lines[place + 1] == f"in {ITEMS}"
    assert lines[place + 2].startswith("_rid 1  line 2  product lamp")


def test_rows_of_several_files_tell_their_own() -> None:
    lines = text(trace(source(row(1, 2, file="a/x.csv"), row(12, 3, file="a/longer.csv"))))
    assert "shop.items: 2 rows" in lines
    assert any(line.startswith("_rid  1  a/x.csv:2       product") for line in lines)
    assert any(line.startswith("_rid 12  a/longer.csv:3  product") for line in lines)


def test_a_file_that_has_changed_is_told_once() -> None:
    lines = text(trace(source(row(1, changed=True), row(2, changed=True))))
    assert f"shop.items: 2 rows in {ITEMS} (the file has changed since)" in lines
    assert any(line.startswith("_rid 1  row 1  product") for line in lines)


def test_a_peer_is_marked_behind_its_id() -> None:
    lines = text(trace(source(row(8), row(10, peer=True), count=9, peers=8)))
    assert "shop.items: 9 rows, 8 of them only peers" in lines
    assert any(line.startswith("_rid  8         product") for line in lines)
    assert any(line.startswith("_rid 10 (peer)  product") for line in lines)


@pytest.mark.parametrize("file", ["b.csv", "/very/long/folder/names/all/the/way/down/to/the/data/orders.csv", "x" * 99])
def test_sixty_columns_still_show_values(file: str) -> None:
    together = source(row(1, 2, file=file), row(2, 3, file=file), count=15)
    apart = source(row(1, 2, file=file), row(2, 3, file=f"{file}2"))
    for shown in (together, apart):
        drawn_lines = list(draw_tree(trace_tree(trace(shown), 60), 60))
        assert all(width_of(line) <= 60 for line in drawn_lines)
        assert sum("product lamp" in line for line in drawn_lines) == 2
    assert sum(line.endswith(f"{file[-8:]}") for line in text(trace(together), 60)) == 1
    assert sum(f"{file[-5:]}:2" in line for line in text(trace(apart), 60)) == 1


@pytest.mark.parametrize(("steps", "last"), [(4, "s3: filter"), (5, "s4: filter"), (6, "… 2 more steps")])
def test_many_steps(steps: int, last: str) -> None:
    lines = text(trace(source(row(1)), steps=steps))
    assert lines[lines.index("shop.items: 1 row") - 1] == last


def test_the_page_tells_roles_first_and_null_apart_from_a_word() -> None:
    shown = source(row(8, 9), count=9, peers=8)
    page = trace_page(trace(shown, values={"a": None, "b": "null", "c": "two  spaces"}))
    assert "<dt>a</dt><dd class=soft>null</dd><dt>b</dt><dd>null</dd><dt>c</dt><dd>two  spaces</dd>" in page
    assert "dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }" in page
    assert "<th>_rid</th><th>role</th><th>file</th><th>product</th>" in page
    assert f"<tr><td>8</td><td>own</td><td>{ITEMS}:9</td><td>lamp</td>" in page
    assert "<td class=soft>null</td></tr>" in page
    assert "<span class=count>9 rows, 8 of them only peers</span>" in page
    assert "run 0bc658a7d5034161 · 2026-11-16 05:58:11 UTC</p>" in page
    assert "role" not in trace_page(trace(source(row(8, 9))))


def test_a_file_that_was_written_is_told(call: Call, tmp_path: Path) -> None:
    for name, start in (("x.html", "<!doctype html>"), ("x.json", "{"), ("x.txt", "shop.ranked"), ("x", "shop.ranked")):
        file = tmp_path / name
        result = call(["trace", "t", "--rid", "0", "--out", str(file)], trace(source(row(1))))
        assert (result.code, result.out, result.err) == (0, "", f"wrote {file}\n")
        assert file.read_text().startswith(start)
    assert call("trace t --rid 0 --out -", trace(source(row(1)))).out.startswith("shop.ranked _rid 0")
