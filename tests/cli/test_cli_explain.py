"""The plan for people: `explain` as a tree and tables, `graph` in its formats, and trees as such."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_cli.tree_drawing import Tree, draw_tree, prints_guides, truncate, width_of

from lineage_service.runs.workflow_graph import Box, Picture, PictureEdge
from tests.capture.test_golden_plans import same_as_golden
from tests.cli.conftest import Call
from tests.cli.fakes import FakeHome
from tests.render.test_picture import commit, content
from tests.support.paths import GOLDEN, SHOP


@pytest.fixture
def none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is not there."""
    monkeypatch.delenv("SMOKE_HOME", raising=False)
    monkeypatch.delenv("SMOKE_CATALOG", raising=False)
    return tmp_path / "none"


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """A workflow over a file of three rows: two outputs that share an aggregate, and one of another name."""
    table = pa.table({"id": [1, 2, 3], "city": ["a", "b", "b"], "unread": [1, 2, 3]})
    pq.write_table(table, tmp_path / "people.parquet")
    file = tmp_path / "flow.yml"
    file.write_text(
        """
version: 1
name: flow
sources: {people: {path: people.parquet}}
steps:
  - {name: known, op: filter, input: people, where: "id > 0"}
  - {name: sizes, op: aggregate, input: known, by: [city], measures: {n: count(*)}, having: n > 0}
  - {name: large, op: filter, input: sizes, where: n > 1}
  - {name: small, op: difference, left: sizes, right: large}
outputs: {small: , published: {step: large, path: out}}
"""
    )
    return file


# --- explain ------------------------------------------------------------------------------------------------------


def test_the_shop_as_a_tree(call: Call, none: Path) -> None:
    same_as_golden(
        call(["explain", str(SHOP), "--home", str(none)]).out.removesuffix("\n"), GOLDEN / "explain-shop.txt"
    )


def test_a_step_that_is_read_twice_is_shown_once(call: Call, flow: Path, none: Path) -> None:
    lines = call(["explain", str(flow), "--home", str(none)]).out.splitlines()
    start = lines.index("rows  capture  step")
    assert lines[start + 1 : lines.index("", start)] == [
        " ≤ 3  inject   small  [output] difference",
        " ≤ 3  inject   ├─ sizes  aggregate by city: n = count(*), having n > 0",
        " ≤ 3           │  └─ known  filter where id > 0",
        "   3           │     └─ people  source people.parquet",
        " ≤ 3           └┄ large  influences by absence only: [output published] filter where n > 1",
        "                  └─ sizes  (see above)",
    ]


def test_what_is_written_once_pruned_and_pushed_down(call: Call, flow: Path, none: Path) -> None:
    out = call(["explain", str(flow), "--home", str(none)]).out
    assert re.search(r"^sizes +read 2 times and expensive to compute again$", out, re.MULTILINE)
    assert re.search(r"^people +id, city +unread +id > 0$", out, re.MULTILINE)
    assert re.search(r"^published +city +people\.city$", out, re.MULTILINE)
    assert re.search(r"^published +n +no column$", out, re.MULTILINE)


def test_rows_of_the_last_run_come_first(call: Call, flow: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    ran = content("flow", {"people": {"path": "p"}}, [], {"published": {"step": "large"}})
    commit(
        home,
        "abc123",
        ran,
        {"people": 30, "published": 12345},
        {"people": "p", "published": "q"},
        "2026-01-02T03:04:05",
    )
    result = call(["explain", str(flow), "--home", str(home)])
    assert "rows: of run abc123, 2026-01-02 03:04 UTC\n" in result.out
    assert "12,345           └┄ large" in result.out
    assert "    30           │     └─ people" in result.out
    assert result.err.startswith("note: the last run (abc123) was of another version of this workflow")
    facts = call(["explain", str(flow), "--home", str(home), "--json"]).json
    assert facts["last_run"] == {"run_id": "abc123", "committed_at": "2026-01-02T03:04:05"}
    assert facts["sources"]["people"]["rows_last_run"] == 30
    assert facts["outputs"]["published"]["rows_last_run"] == 12345


@pytest.mark.parametrize("columns", [60, 80, 140])
@pytest.mark.usefixtures("terminal")
def test_a_terminal_is_never_overrun(
    call: Call, flow: Path, none: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    for file in (flow, SHOP):
        lines = re.sub("\x1b\\[[0-9;]*m", "", call(["explain", str(file), "--home", str(none)]).out).splitlines()
        assert max(width_of(line.rstrip()) for line in lines) <= columns
        assert any("orders" in line or "people" in line for line in lines)


@pytest.mark.usefixtures("terminal")
def test_narrow_terminals_do_not_indent_chains(call: Call, none: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    lines = call(["explain", str(SHOP), "--home", str(none)]).out.splitlines()
    start = lines.index("capture  step")
    assert lines[start + 1 : start + 8] == [
        "         ranked  [output] sort by revenue desc, c…",
        "stage    │  revenue  aggregate by customer_id, ci…",
        "         │  named  inner join using customer_id",
        "         ├─ priced  [kept] with_columns amount =…",
        "         │  │  lines  inner join using order_id",
        "         │  ├─ recent  filter where ordered >= DA…",
        "         │  │     orders  source data/orders.csv",
    ]


@pytest.mark.usefixtures("terminal")
def test_a_long_chain_of_steps_is_explained(call: Call, flow: Path, none: Path) -> None:
    steps = "".join(
        f"  - {{name: s{n}, op: filter, input: {f's{n - 1}' if n else 'people'}, where: id > {n}}}\n"
        for n in range(240)
    )
    flow.write_text(
        f"version: 1\nname: w\nsources: {{people: {{path: people.parquet}}}}\nsteps:\n{steps}outputs: {{s239: }}\n"
    )
    result = call(["explain", str(flow), "--home", str(none)])
    assert (result.code, result.err) == (0, "")
    assert " ≤ 3     s0  filter where id > 0\n   3     people  source people.parquet\n" in result.out


def test_json_keeps_its_keys(call: Call, flow: Path, none: Path) -> None:
    facts = call(["explain", str(flow), "--home", str(none), "--json", "--capture", "stage"]).json
    assert facts["capture"] == "stage"
    assert facts["last_run"] is None
    assert {"rows", "columns_read", "columns_pruned", "filters_pushed_down"} <= set(facts["sources"]["people"])
    sizes = next(step for step in facts["steps"] if step["name"] == "sizes:aggregate")
    assert {"operator", "reads", "columns", "rows_at_most", "capture", "written_once", "absence", "carries"} <= set(
        sizes
    )
    assert sizes["does"] == "aggregate by city: n = count(*), having n > 0"
    assert sizes["capture"] == {
        "strategy": "stage", "reason": "asked for", "rows_expected": 1, "rows_read": None, "groups": None,
    }  # fmt: skip


def test_explain_passes_its_options_on(call: Call, flow: Path, none: Path) -> None:
    result = call(["explain", str(flow), "--home", str(none), "--capture", "off"])
    assert "workflow flow, capture off" in result.out
    assert "Pipeline breakers" not in result.out
    assert "influences by absence only" in result.out
    assert call(["explain", str(flow), "--var", "x=1"]).code == 1, "there is no such variable"


def test_a_missing_source_leaves_columns_unknown(call: Call, flow: Path, none: Path) -> None:
    (flow.parent / "people.parquet").unlink()
    result = call(["explain", str(flow), "--home", str(none)])
    assert result.code == 0
    assert "warning: source 'people'" in result.err
    assert re.search(r"^people +unknown +unknown +id > 0$", result.out, re.MULTILINE)


# --- graph --------------------------------------------------------------------------------------------------------


def test_graph_is_mermaid_by_default(call: Call, none: Path) -> None:
    result = call(["graph", str(SHOP), "--home", str(none)])
    assert result.out.startswith('---\ntitle: "shop"\n---\nflowchart TD\n')
    assert '  n_orders -.->|"absence"| n_silent\n' in result.out
    assert (result.code, result.err) == (0, "")
    assert not none.exists()


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("a.mmd", "---\ntitle"), ("a.md", "```mermaid\n---\n"), ("a.dot", "digraph"), ("a.GV", "digraph"),
        ("a.svg", "<svg"), ("a.html", "<!doctype html>"), ("a.txt", "---\ntitle"),
    ],
)  # fmt: skip
def test_graph_takes_its_format_from_the_suffix(
    call: Call, none: Path, tmp_path: Path, name: str, beginning: str
) -> None:
    result = call(["graph", str(SHOP), "--home", str(none), "--out", str(tmp_path / name)])
    assert (result.code, result.out) == (0, "")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(beginning)


def test_graph_format_wins_over_the_suffix(call: Call, none: Path, tmp_path: Path) -> None:
    call(["graph", str(SHOP), "--home", str(none), "--format", "svg", "--out", str(tmp_path / "a.txt")])
    assert ElementTree.parse(tmp_path / "a.txt").getroot().tag.endswith("svg")


def test_graph_of_everything_asks_the_home(call: Call) -> None:
    boxes = (Box("a.x", "output", "x", "a", rows=3), Box("b.y", "source", "y", "b", rows=3))
    picture = Picture("all workflows", boxes, (PictureEdge("a.x", "b.y", 3, "link"),), ("a", "b"))
    home = FakeHome(picture)
    result = call("graph --all --home h --catalog c", home=home)
    assert home.asked == [("graph", (), {})]
    assert home.opened_with == ("h", "c")
    assert home.closed
    assert 'subgraph lane1["a"]' in result.out
    assert 'n_a_x ==>|"3"| n_b_y' in result.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("graph", "Give a workflow FILE, or --all"),
        ("graph x.yml --all", "not both"),
        ("graph --all --var a=1", "--var needs FILE"),
        ("graph x.yml --format png", "'png' is not one of"),
    ],
)
def test_graph_wrong_usage(call: Call, arguments: str, said: str) -> None:
    result = call(arguments, Picture("t", (), (), ()))
    assert result.code == 2
    assert said in result.err


def test_graph_tells_the_problems_of_a_file(call: Call, tmp_path: Path, none: Path) -> None:
    file = tmp_path / "w.yml"
    file.write_text("version: 1\nname: w\nsources: {a: {path: a.csv, oops: 1}}\nsteps: []\noutputs: {b: }\n")
    result = call(["graph", str(file), "--home", str(none)])
    assert (result.code, result.out) == (1, "")
    assert f"{file}:3:28: " in result.err
    assert "unknown step 'b'" in result.err
    assert call(["graph", str(tmp_path / "no.yml")]).code == 1


# --- trees --------------------------------------------------------------------------------------------------------

TREE = Tree(
    ("ranked", "8 rows"),
    (Tree(("a",), (Tree(("b", "more")), Tree(("c",), dashed=True))), Tree(("d",), (Tree(("e",)), Tree(("e",))))),
)


def test_a_tree_is_drawn_with_its_guides() -> None:
    assert list(draw_tree(TREE, None)) == [
        "ranked",
        "│  8 rows",
        "├─ a",
        "│  ├─ b",
        "│  │     more",
        "│  └┄ c",
        "└─ d",
        "   ├─ e",
        "   └─ e",
    ]
    assert list(draw_tree(TREE, None, ascii=True))[2:6] == ["|- a", "|  |- b", "|  |     more", "|  `~ c"]


def test_equal_children_are_told_apart() -> None:
    same = Tree(("e",))
    assert list(draw_tree(Tree(("d",), (same, same)), None)) == ["d", "├─ e", "└─ e"]


def test_lines_are_cut_to_the_width_of_the_screen() -> None:
    assert list(draw_tree(Tree(("abcdef",), (Tree(("日本語日本語",)),)), 9)) == ["abcdef", "└─ 日本…"]
    assert list(draw_tree(Tree(("abcdefghij",)), 6)) == ["abcde…"]
    assert list(draw_tree(Tree(("abcdefghij",)), 6, ascii=True)) == ["abc..."]
    assert truncate("abc", 0) == ""
    assert all(width_of(truncate("a日b本c語", width)) <= width for width in range(12))


def test_a_deep_tree_is_no_error() -> None:
    tree = Tree(("leaf",))
    for _ in range(3000):
        tree = Tree(("x",), (tree,))
    assert sum(1 for _ in draw_tree(tree, 60)) == 3001


def test_what_a_stream_can_print() -> None:
    assert prints_guides("utf-8")
    assert not prints_guides("ascii")
    assert not prints_guides("latin-1")
    assert not prints_guides(None)
    assert not prints_guides("no-such-encoding")


def test_the_explanation_is_json_all_through(call: Call, none: Path) -> None:
    assert json.loads(call(["explain", str(SHOP), "--home", str(none), "--json"]).out)["workflow"] == "shop"
