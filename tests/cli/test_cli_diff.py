"""`diff` on the command line: blocks that fit 60 columns, colours only for people, JSON by the contract."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lineage_service.errors import QuestionError
from lineage_service.query.diff.diff_result import Behind, ChangedRows, Counts, Diff, RowBehind, RunSide, SourceIdentity
from tests.cli.conftest import Call
from tests.cli.fakes import FakeHome

ORDERS = SourceIdentity("shop.orders", "key", ("order_id",), True)
ITEMS = SourceIdentity("shop.items", None, note="rows of this version are no longer there (snapshot: true keeps them)")
RATES = SourceIdentity("rates.raw", "content", by_absence=True, absence=Counts(1, 0, 2, None))


def order(rid: int, number: int, status: str) -> dict[str, Any]:
    return {
        "_rid": rid,
        "order_id": number,
        "status": status,
        "comment": "a comment that is far too long for a terminal",
    }


BEHIND = {
    1: (
        Behind(
            ORDERS,
            Counts(3, 1, 1, 7, new=2, gone=0),
            (9, 11),
            (
                RowBehind("changed", order(4, 40, "open"), order(3, 40, "paid"), True, ("status",)),
                RowBehind("added", None, order(17, 90, "open"), False),
                RowBehind("removed", order(2, 20, "open"), order(1, 20, "cancelled"), True, ("status",)),
            ),
        ),
        Behind(ITEMS, None, (12, 14)),
    ),
    2: (
        Behind(ORDERS, Counts(1, 0, 0, 0, new=0, gone=0), (0, 1), (RowBehind("added", None, order(5, 5, "x"), True),)),
    ),
    3: (Behind(ORDERS, Counts(0, 0, 0, 4, new=0, gone=0), (4, 4)), Behind(RATES, RATES.absence, absent=True)),
    4: (Behind(ORDERS, Counts(0, 0, 0, 4, new=0, gone=0), (4, 4)),),
}


def a_diff(**more: Any) -> Diff:
    lines = pa.table({
        "change": ["changed", "added", "removed", "changed"],
        "rid_before": pa.array([0, None, 2, 3], pa.int64()),
        "rid_after": pa.array([2**60, 1, None, 3], pa.int64()),
        "differs": pa.array([[0, 1], None, None, [1]], pa.list_(pa.int32())),
    })  # fmt: skip
    kind = pa.schema([
        ("_rid", pa.int64()), ("customer_id", pa.int64()), ("revenue", pa.decimal128(12, 2)), ("note", pa.string()),
    ])  # fmt: skip

    def rows(*values: tuple[int, int, str, str | None]) -> pa.Table:
        columns = zip(*((a, b, Decimal(c), d) for a, b, c, d in values), strict=True)
        return pa.table([pa.array(column, each.type) for column, each in zip(columns, kind, strict=True)], schema=kind)

    content: dict[str, Any] = {
        "dataset": "shop.ranked",
        "before": RunSide("3f2a9c0112345678", "2026-01-01T08:00:00"),
        "after": RunSide("9c01aabb12345678", "2026-01-02T08:00:00"),
        "key": ("customer_id",),
        "key_origin": "check",
        "counts": Counts(1, 1, 2, 1234),
        "rows": ChangedRows(
            lines,
            rows((0, 6, "120.00", "a\x1b[31mred"), (2, 8, "7.00", None), (3, 9, "1.00", "x")),
            rows((1, 7, "9.50", "new"), (3, 9, "1.00", "y"), (2**60, 6, "95.50", None)),
        ),
        "compared": ("revenue", "note"),
        "variables_changed": {"since": ("2024-01-01", None)},
        "workflows_changed": ("shop",),
        "steps_changed": ("revenue", "ranked"),
        "sources": (ORDERS, ITEMS, RATES),
        "behind": BEHIND,
        "traced": True,
        "notes": ("rows are matched by customer_id",),
    }
    return Diff(**{**content, **more})


EXPECTED = """\
shop.ranked  3f2a9c0112345678 → 9c01aabb12345678
1 added, 1 removed, 2 changed, 1,234 unchanged; by
  customer_id
variable since: 2024-01-01 → null
changed since: sources orders, items, rates.raw; workflow
  shop (steps revenue, ranked)
source rows matched: orders by order_id, items (not),
  rates.raw by all values

~ customer_id 6
    revenue  120.00 → 95.50
    note     a\\x1b[31mred → null
  orders: 3 added, 1 removed, 1 changed, 7 unchanged
    ~ row 3: changed
      order_id 40
      status  open → paid
    + row 17: new in orders
      order_id 90, status open, comment a comment that is f…
    - row 2: still exists, but no longer contributes
      order_id 20
      status  open → cancelled
    … and 2 more; --rows shows more
  items: 12 rows before, 14 after; rows of this version are
    no longer there (snapshot: true keeps them)

+ customer_id 7
    revenue 9.50, note new
  orders: 1 added
    + row 5: existed, but did not contribute before
      order_id 5, status x, comment a comment that is far t…

- customer_id 8
    revenue 7.00, note null
  rates.raw: influences by absence; 1 added, 2 changed in
    all of it

~ customer_id 9
    note  x → y
  same source rows; the workflow changed; variables changed
"""


def test_a_diff_fits_sixty_columns(call: Call, terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    result = call("diff ranked", a_diff())
    assert result.out == EXPECTED
    assert max(map(len, result.out.splitlines())) <= 60
    assert result.err == "note: rows are matched by customer_id\n"


def test_colours_are_for_people(call: Call, terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = call("diff ranked", a_diff()).out
    for colour, text in ((33, "~ customer_id 6"), (32, "+ customer_id 7"), (31, "- customer_id 8")):
        assert f"\x1b[{colour}m{text}\x1b[0m\n" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in call("diff ranked", a_diff()).out


def test_elsewhere_lines_are_whole_and_plain(call: Call) -> None:
    out = call("diff ranked", a_diff()).out
    assert "\x1b" not in out
    assert "      order_id 90, status open, comment a comment that is far too long for a terminal\n" in out


def test_json_is_one_object(call: Call) -> None:
    result = call("diff ranked --json", a_diff())
    found = result.json
    assert list(found) == [
        "dataset", "before", "after", "committed_at", "key", "key_inferred", "counts", "tolerance",
        "within_tolerance", "variables_changed", "workflows_changed", "steps_changed", "columns_added",
        "columns_removed", "types_changed", "sources", "notes", "remaining", "changes",
    ]  # fmt: skip
    assert (found["before"], found["key"], found["key_inferred"]) == ("3f2a9c0112345678", ["customer_id"], True)
    assert found["counts"] == {"added": 1, "removed": 1, "changed": 2, "same": 1234}
    assert found["variables_changed"] == {"since": {"before": "2024-01-01", "after": None}}
    assert found["sources"][2]["absence"] == {"added": 1, "removed": 0, "changed": 2}
    first = found["changes"][0]
    assert {
        name: first[name] for name in ("change", "key", "before", "after", "columns", "rid_before", "rid_after")
    } == {
        "change": "changed",
        "key": {"customer_id": 6},
        "before": {"customer_id": 6, "revenue": "120.00", "note": "a\x1b[31mred"},
        "after": {"customer_id": 6, "revenue": "95.50", "note": None},
        "columns": ["revenue", "note"],
        "rid_before": 0,
        "rid_after": str(2**60),
    }
    orders, items = first["behind"]
    assert orders["counts"] == {"added": 3, "removed": 1, "changed": 1, "same": 7, "new": 2, "gone": 0}
    assert [row["existed"] for row in orders["added"]] == [False]
    assert orders["added"][0]["row"]["order_id"] == 90
    assert orders["removed"][0]["exists"] is True
    assert orders["removed"][0]["after"]["status"] == "cancelled"
    assert orders["changed"][0]["columns"] == ["status"]
    assert (items["counts"], items["contributing"]) == (None, {"before": 12, "after": 14})
    assert found["changes"][1]["before"] is None
    assert found["changes"][2]["behind"][1] == {
        "source": "rates.raw", "identity": "content", "absence": True, "counts": {"added": 1, "removed": 0, "changed": 2},
    }  # fmt: skip
    assert found["changes"][3]["reason"] == "same source rows; the workflow changed; variables changed"


def test_json_is_what_the_python_class_gives(call: Call) -> None:
    from lineage_service.render.json_values import to_json_value

    assert call("diff ranked --json", a_diff()).json == json.loads(json.dumps(to_json_value(a_diff().to_json())))


def test_no_changes_are_one_line_and_an_empty_list(call: Call) -> None:
    full = a_diff()
    nothing = a_diff(
        counts=Counts(same=3),
        rows=ChangedRows(full.rows.lines.slice(0, 0), full.rows.before.slice(0, 0), full.rows.after.slice(0, 0)),
        variables_changed={},
        workflows_changed=(),
        sources=(),
        behind={},
        notes=(),
    )
    result = call("diff ranked", nothing)
    assert result.out.splitlines()[1:] == ["0 added, 0 removed, 0 changed, 3 unchanged; by customer_id"]
    assert call("diff ranked --json", nothing).json["changes"] == []
    assert call("diff ranked --format csv", nothing).out.count("\n") == 1


def test_csv_has_a_row_per_change(call: Call) -> None:
    home = FakeHome(a_diff(remaining=3))
    result = call("diff ranked --format csv", home=home)
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert list(rows[0]) == [
        "change", "customer_id", "_rid_before", "_rid_after", "revenue_before", "revenue_after", "note_before",
        "note_after",
    ]  # fmt: skip
    assert [(row["change"], row["customer_id"], row["revenue_after"]) for row in rows] == [
        ("changed", "6", "95.50"), ("added", "7", "9.50"), ("removed", "8", ""), ("changed", "9", "1.00"),
    ]  # fmt: skip
    assert home.options["behind"] is False  # what is behind has no place in a flat row
    assert "and 3 more rows" in result.err


def test_options_reach_the_home(call: Call) -> None:
    home = FakeHome(a_diff(remaining=1))
    result = call(
        ["diff", "ranked@3f", "ranked@9c", "--key", 'a, "b,c"', "--key", "d", "--source-key", "orders=x,y",
         "--source-key", "orders=z", "--rows", "0", "--limit", "7", "--home", "/h",
         "--tolerance", "1e-6"],
        home=home,
    )  # fmt: skip
    verb, arguments, given = home.asked[0]
    assert (verb, arguments) == ("diff", ("ranked@3f", "ranked@9c"))
    assert given == {
        "key": ["a", "b,c", "d"], "source_key": {"orders": ("x", "y", "z")}, "limit": 7, "rows": 0, "behind": True,
        "reveal": False, "tolerance": 1e-6,
    }  # fmt: skip
    assert "… and 1 more change; use --limit to see more\n" in result.err
    assert home.closed


def test_a_file_gets_the_whole_answer(call: Call, tmp_path: Path) -> None:
    result = call(["diff", "ranked", "--out", str(tmp_path / "changes.json")], a_diff())
    assert (result.out, result.err.splitlines()[0]) == ("", f"wrote 4 changes to {tmp_path / 'changes.json'}")
    assert len(json.loads((tmp_path / "changes.json").read_text())["changes"]) == 4


def test_defaults(call: Call, terminal: None) -> None:
    home = FakeHome(a_diff())
    call("diff ranked", home=home)
    assert home.asked[0][1] == ("ranked", None)
    assert home.options == {
        "key": None, "source_key": None, "limit": 50, "rows": 3, "behind": True, "reveal": False, "tolerance": 1e-9,
    }  # fmt: skip
    call("diff ranked --json", home=home)
    assert home.options["limit"] is None


def test_wrong_use(call: Call) -> None:
    assert call("diff").code == 2
    assert call("diff ranked --no-behind --source-key orders=id", a_diff()).code == 2
    assert call("diff ranked --source-key orders", a_diff()).code == 2
    failed = call("diff ranked", QuestionError("no single column identifies the rows", hint="--key"))
    assert (failed.code, failed.out, failed.err) == (
        1,
        "",
        "error: no single column identifies the rows\n  hint: --key\n",
    )
