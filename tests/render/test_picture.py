"""Workflows as pictures: what is in them, how they are laid out, and that each format says it without harm."""

import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lineage_catalog.engine import connect
from lineage_catalog.records import Commit, DatasetRecord, RunRecord, VersionRecord
from lineage_catalog.schema_upgrade import migrate
from lineage_catalog.writer import commit_run

from lineage_service import Home
from lineage_service.errors import NotFound, WorkflowError
from lineage_service.render.html.picture_page import picture_page
from lineage_service.render.pictures.box_layout import Rectangle, Size, lay_out
from lineage_service.render.pictures.dot import dot
from lineage_service.render.pictures.mermaid import markdown_block, mermaid
from lineage_service.render.pictures.svg import svg
from lineage_service.render.pictures.text_width import bold_width, cells, mono_width, wrap_text
from lineage_service.runs.run_sizes import LastRun, PairCount, step_row_counts
from lineage_service.runs.workflow_file import picture_of_workflow
from lineage_service.runs.workflow_graph import Box, Picture, PictureEdge, workflow_picture
from tests.capture.test_golden_plans import same_as_golden
from tests.support.paths import GOLDEN, SHOP

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "a < 'b' AND c <> \"d\\n\" && `e|f` %% #quot; $$x$$ *g* ]]> {h} 日本語"


def content(name: str, sources: dict, steps: list, outputs: dict, keep: tuple = ()) -> dict:
    return {"name": name, "sources": sources, "steps": steps, "outputs": outputs, "lineage": {"keep": list(keep)}}


def filtered(name: str, below: str, where: str = "x > 1") -> dict:
    return {"name": name, "op": "filter", "input": below, "where": where}


def commit(
    home: Path,
    run_id: str,
    flow: dict,
    rows: dict[str, int],
    versions: dict[str, str],
    time: str = "1",
    variables: dict[str, str] | None = None,
) -> None:
    """A run in the catalog as a run would leave it; versions of the same id are the same rows."""
    url = f"sqlite:///{home / 'catalog.db'}"
    home.mkdir(exist_ok=True)
    migrate(url)
    datasets, body = [], flow["name"]
    for name, source in flow["sources"].items():
        datasets.append(
            DatasetRecord(run_id, body, name, "source", f"source:{name}", versions[name], json.dumps(source))
        )
    for name, output in flow["outputs"].items():
        step = output.get("step") or name
        datasets.append(DatasetRecord(run_id, body, name, "output", f"step:{step}", versions[name], json.dumps(output)))
    capture = {
        name: {source: {"strategy": "stage", "pairs": 7} for source in flow["sources"]} for name in flow["outputs"]
    }
    engine = connect(url)
    commit_run(
        engine,
        Commit(
            RunRecord(
                run_id,
                body,
                f"v-{body}",
                "committed",
                "stage",
                json.dumps(variables or {}),
                json.dumps({"capture": capture}),
                "1",
                time,
            ),
            json.dumps(flow),
            (),
            tuple(VersionRecord(versions[d.name], "x", run_id, rows[d.name], 1, "{}") for d in datasets),
            tuple(datasets),
            (),
        ),
    )
    engine.dispose()


RATES = content("rates", {"raw": {"path": "raw.csv"}}, [filtered("daily", "raw")], {"daily": {}})
REVENUE = content(
    "revenue",
    {"fx": {"output": "rates.daily"}, "orders": {"path": "orders.csv"}},
    [{"name": "totals", "op": "join", "left": "orders", "right": "fx", "using": ["day"]}],
    {"totals": {}, "report": {"step": "totals", "path": "out/report"}},
)
CRM = content("crm", {"people": {"path": "orders.csv"}}, [filtered("known", "people")], {"known": {}})


@pytest.fixture
def home(tmp_path):
    """Three workflows: revenue reads an output of rates; revenue and crm read the same files."""
    home = tmp_path / "home"
    commit(home, "r1", RATES, {"raw": 100, "daily": 30}, {"raw": "raw1", "daily": "daily1"})
    rows = {"fx": 30, "orders": 50, "totals": 20, "report": 20}
    commit(home, "r2", REVENUE, rows, {"fx": "daily1", "orders": "orders1", "totals": "t1", "report": "t1"})
    commit(home, "r3", CRM, {"people": 50, "known": 5}, {"people": "orders1", "known": "k1"})
    return home


# --- one workflow -------------------------------------------------------------------------------------------------


def shop_run(**changes) -> LastRun:
    given = {
        "run_id": "f6fafb0393094c93",
        "workflow_version": "?",
        "committed_at": "2026-11-16T04:46:07.360+00:00",
        "variables": {},
        "spaces": {"source:customers": 12, "source:orders": 40, "source:items": 1100, "step:priced": 72, "step:ranked": 8, "step:silent": 2},
        "outputs": {"ranked": 8, "silent": 2},
        "pairs": (PairCount("ranked", "items", 72, "stage"), PairCount("gone", "items", 1, "stage")),
    }  # fmt: skip
    return LastRun(**{**given, **changes})


def shop(run: LastRun | None) -> Picture:
    from lineage_service.spec.loader import load_workflow

    return workflow_picture(load_workflow(SHOP).spec.model_dump(mode="json", by_alias=True), run)


def test_boxes_and_edges_of_the_shop():
    picture = shop(shop_run())
    kinds = {box.name: (box.kind, box.rows) for box in picture.boxes}
    assert kinds == {
        "customers": ("source", 12), "orders": ("source", 40), "items": ("source", 1100), "recent": ("step", None),
        "lines": ("step", None), "priced": ("kept", 72), "named": ("step", None), "revenue": ("step", None),
        "ranked": ("output", 8), "silent": ("output", 2),
    }  # fmt: skip
    assert {(edge.start[5:], edge.end[5:], edge.rows, edge.flow) for edge in picture.edges} == {
        ("orders", "recent", 40, "rows"), ("recent", "lines", None, "rows"), ("items", "lines", 1100, "rows"),
        ("lines", "priced", None, "rows"), ("priced", "named", 72, "rows"), ("customers", "named", 12, "rows"),
        ("named", "revenue", None, "rows"), ("revenue", "ranked", None, "rows"),
        ("customers", "silent", 12, "rows"), ("orders", "silent", 40, "absence"),
    }  # fmt: skip
    assert [each.output for each in picture.pairs] == ["ranked"], "of names that are still there"


def test_without_a_catalog_there_are_no_numbers(tmp_path):
    picture = picture_of_workflow(SHOP, home=tmp_path / "none")
    assert all(box.rows is None for box in picture.boxes)
    assert (picture.subtitle, picture.notes, picture.warnings) == ("", (), ())
    assert dict(picture.columns)["ranked"]["revenue"] == ("items.quantity", "items.price")
    assert not (tmp_path / "none").exists(), "looking makes no home"


def test_an_output_of_another_name_is_a_box_of_its_own():
    picture = workflow_picture(REVENUE, LastRun("r", "v", "2026", {}, {"step:totals": 3}, {"totals": 3, "report": 3}))
    report = next(box for box in picture.boxes if box.name == "report")
    assert (report.kind, report.place, report.rows) == ("output", "out/report", 3)
    assert PictureEdge("revenue.totals", "revenue.report", 3) in picture.edges
    assert "→ out/report" in svg(picture)


def test_difference_and_anti_join_influence_by_absence():
    steps = [{"name": "d", "op": "difference", "left": "a", "right": "a"}]
    picture = workflow_picture(content("w", {"a": {"path": "a.csv"}}, steps, {"d": {}}), None)
    assert [edge.flow for edge in picture.edges] == ["rows", "absence"]


def test_a_run_of_another_version_is_told(tmp_path):
    home = tmp_path / "home"
    flow = content("shop", {"customers": {"path": "x"}}, [filtered("ranked", "customers")], {"ranked": {}})
    commit(home, "old", flow, {"customers": 9, "ranked": 4}, {"customers": "c", "ranked": "r"})
    picture = picture_of_workflow(SHOP, home=home)
    assert "the last run (old) was of another version of this workflow" in picture.notes[0]
    assert {box.name: box.rows for box in picture.boxes if box.rows is not None} == {"customers": 9, "ranked": 4}


def test_other_values_of_variables_are_told():
    assert shop_run(workflow_version="v", variables={"since": "a"}).differences("v", {"since": "a"}) == ()
    (note,) = shop_run(workflow_version="v", variables={"since": "a"}).differences("v", {"since": "secret"})
    assert "had other values of since" in note
    assert "secret" not in note


def test_a_broken_catalog_costs_the_numbers_only(tmp_path):
    (tmp_path / "catalog.db").write_bytes(b"this is no database" * 100)
    picture = picture_of_workflow(SHOP, home=tmp_path)
    assert len(picture.boxes) == 10
    assert "shown without the rows of the last run" in picture.notes[0]


def test_problems_of_a_file_are_reported_as_by_validate(tmp_path):
    (tmp_path / "w.yml").write_text("version: 1\nname: w\nsources: {a: {path: a.csv}}\nsteps: []\noutputs: {b: }\n")
    with pytest.raises(WorkflowError) as raised:
        picture_of_workflow(tmp_path / "w.yml", home=tmp_path / "none")
    found = [problem.message for problem in raised.value.problems if problem.severity == "error"]
    assert [text.split(";")[0] for text in found] == [
        "'steps' of the workflow needs at least one entry",
        "unknown step 'b'",
    ]


# --- everything in the catalog ------------------------------------------------------------------------------------


def test_workflows_are_linked_where_they_share_rows(home):
    with Home.open(home) as opened:
        picture = opened.graph()
    boxes = {box.id: box for box in picture.boxes}
    assert picture.lanes == ("", "crm", "rates", "revenue"), "shared sources first, readers behind what they read"
    assert PictureEdge("rates.daily", "revenue.fx", 30, "link") in picture.edges
    shared = boxes[".orders1"]
    assert (shared.name, shared.rows, shared.lane) == ("people, orders", 50, "")
    assert {edge.end for edge in picture.edges if edge.start == ".orders1"} == {"crm.known", "revenue.totals"}
    assert "crm.people" not in boxes
    assert {(each.output, each.pairs) for each in picture.pairs} == {
        ("rates.daily", 7), ("revenue.totals", 7), ("revenue.report", 7), ("crm.known", 7),
    }  # fmt: skip


def test_a_link_to_what_was_made_anew_since_says_so(home):
    commit(home, "r4", RATES, {"raw": 101, "daily": 31}, {"raw": "raw2", "daily": "daily2"})
    with Home.open(home) as opened:
        picture = opened.graph()
    assert PictureEdge("rates.daily", "revenue.fx", 30, "link", "an earlier run") in picture.edges
    assert '"30, an earlier run"' in mermaid(picture)


def test_rows_of_steps_follow_from_what_was_counted():
    steps = [
        {"name": "sorted", "op": "sort", "input": "read", "by": ["a"]},
        {"name": "read", "op": "project", "input": "met", "columns": ["a"]},
        {"name": "met", "op": "join", "left": "s", "right": "t", "using": ["a"]},
        {"name": "some", "op": "filter", "input": "sorted", "where": "a > 1"},
        {"name": "once", "op": "project", "input": "some", "columns": ["a"], "distinct": True},
        {"name": "shown", "op": "with_columns", "input": "once", "columns": {"b": "a"}},
    ]
    assert step_row_counts({"steps": steps}, {"sorted": 7, "once": 2}) == {
        "sorted": 7, "read": 7, "met": 7, "once": 2, "shown": 2,
    }  # fmt: skip


def test_workflows_that_read_each_other_in_a_circle_are_drawn(home):
    """Each by an earlier run of the other: rates was run again, with what revenue had made."""
    circle = content("rates", {"raw": {"output": "revenue.totals"}}, [filtered("daily", "raw")], {"daily": {}})
    commit(home, "r4", circle, {"raw": 20, "daily": 31}, {"raw": "t1", "daily": "daily2"})
    with Home.open(home) as opened:
        picture = opened.graph()
    links = {(edge.start, edge.end) for edge in picture.edges if edge.flow == "link"}
    assert links == {("rates.daily", "revenue.fx"), ("revenue.totals", "rates.raw")}
    for draw in (svg, dot, mermaid, picture_page):
        assert draw(picture)


def test_each_run_is_drawn_as_it_was_read(home):
    """The same version of a workflow, with other values of variables."""
    for run_id, file in (("r4", "first.csv"), ("r5", "elsewhere.csv")):
        again = {**RATES, "sources": {"raw": {"path": file}}}
        commit(home, run_id, again, {"raw": 9, "daily": 8}, {"raw": "raw3", "daily": f"d{run_id}"})
    with Home.open(home) as opened:
        picture = opened.graph()
    assert next(box.place for box in picture.boxes if box.id == "rates.raw") == "elsewhere.csv"


def test_an_empty_catalog_is_told_with_its_home(tmp_path):
    with pytest.raises(NotFound, match=str(tmp_path)), Home.open(tmp_path) as opened:
        opened.graph()
    migrate(f"sqlite:///{tmp_path / 'catalog.db'}")
    with pytest.raises(NotFound, match="no run is committed"), Home.open(tmp_path) as opened:
        opened.graph()


# --- layout -------------------------------------------------------------------------------------------------------


def random_picture(seed: int, steps: int, lanes: int = 1) -> Picture:
    chance = random.Random(seed)
    boxes = [Box(f"{lane}.s{n}", "source", f"s{n}", f"w{lane}") for lane in range(lanes) for n in range(3)]
    edges = []
    for number in range(steps):
        lane = chance.randrange(lanes)
        own = [box for box in boxes if box.lane == f"w{lane}"]
        box = Box(
            f"{lane}.t{number}",
            chance.choice(["step", "kept", "output"]),
            "t" * chance.randint(1, 30),
            f"w{lane}",
            "does " * chance.randint(0, 30),
        )
        for below in chance.sample(own, k=chance.randint(1, 3)):
            edges.append(
                PictureEdge(below.id, box.id, chance.choice([None, 5, 10**9]), chance.choice(["rows", "absence"]))
            )
        boxes.append(box)
    for _ in range(lanes * 2):
        start, end = chance.sample(boxes, 2)
        if start.lane != end.lane:
            edges.append(PictureEdge(start.id, end.id, 3, "link"))
    return Picture("random", tuple(boxes), tuple(edges), tuple(f"w{lane}" for lane in range(lanes)))


@pytest.mark.parametrize(("seed", "lanes"), [(seed, 1 + seed % 4) for seed in range(12)])
def test_no_edge_runs_through_a_box_and_no_boxes_overlap(seed, lanes):
    picture = random_picture(seed, 30, lanes)
    chance = random.Random(seed)
    sizes = {box.id: Size(chance.uniform(60, 300), chance.uniform(30, 100)) for box in picture.boxes}
    layout = lay_out(picture, sizes, {})
    frames = list(layout.frames.items())
    for position, (_, frame) in enumerate(frames):
        assert 0 <= frame.x <= frame.x + frame.width <= layout.width + 0.01
        assert 0 <= frame.y <= frame.y + frame.height <= layout.height + 0.01
        assert not any(frame.overlaps(other) for _, other in frames[position + 1 :])
    assert [route.edge for route in layout.routes] == list(picture.edges), "every edge is there"
    for route in layout.routes:
        start, end = layout.frames[route.edge.start], layout.frames[route.edge.end]
        assert start.x < route.stretches[0][0][0] < start.x + start.width
        assert end.x < route.stretches[-1][1][0] < end.x + end.width
        # A curve stays within the rectangle of its ends.
        parts = [*route.stretches, *route.gaps]
        for (x1, y1), (x2, y2) in parts:
            if abs(y1 - y2) < 0.01:
                continue  # it only touches the side of its box
            inside = Rectangle(min(x1, x2), min(y1, y2) + 0.001, abs(x1 - x2) + 0.001, abs(y1 - y2) - 0.002)
            hit = [name for name, frame in frames if frame.overlaps(inside)]
            assert not hit, (route.edge, hit)


def test_lanes_keep_their_boxes():
    picture = random_picture(3, 40, 3)
    layout = lay_out(picture, {box.id: Size(100, 40) for box in picture.boxes}, {"w1": 900.0})
    assert layout.lanes["w1"].width >= 900
    for box in picture.boxes:
        lane, frame = layout.lanes[box.lane], layout.frames[box.id]
        assert lane.x < frame.x < frame.x + frame.width < lane.x + lane.width


def test_a_chain_of_five_hundred_steps_is_drawn():
    boxes = tuple(Box(f"b{n}", "step", f"b{n}", "w") for n in range(500))
    edges = tuple(PictureEdge(f"b{n}", f"b{n + 1}") for n in range(499))
    assert svg(Picture("long", boxes, edges, ("w",))).count('class="box') == 500


# --- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "one", "two words", "x" * 200, "日本語" * 40, "a b " * 60, "tab\tand\nline"])
def test_wrapped_text_fits(text):
    lines = wrap_text(text, 34, 3)
    assert len(lines) <= 3
    assert all(cells(line) <= 34 for line in lines)
    joined = "".join(lines).replace(" ", "")
    whole = "".join(text.split())
    assert joined == whole or (joined.endswith("…") and whole.startswith(joined[:-1]))


def test_text_is_not_measured_too_small():
    assert mono_width("x" * 34, 10) >= 34 * 6.02, "DejaVu Sans Mono"
    assert bold_width("mmWW", 10) > 4 * 8.5
    assert bold_width("日本", 10) >= 20


def test_every_text_of_the_drawing_is_inside_its_box():
    root = ElementTree.fromstring(svg(random_picture(5, 25)))
    measured = 0
    for group in root.iter(f"{SVG}g"):
        if not group.get("class", "").startswith("box"):
            continue
        shape = next(each for each in group if each.get("class") == "shape")
        if shape.tag != f"{SVG}rect":
            continue
        right = float(shape.get("x")) + float(shape.get("width"))
        bottom = float(shape.get("y")) + float(shape.get("height"))
        for text in group.iter(f"{SVG}text"):
            measure = bold_width if text.get("font-weight") else mono_width
            assert float(text.get("x")) + measure(text.text, float(text.get("font-size"))) <= right
            assert float(text.get("y")) < bottom
            measured += 1
    assert measured > 25


# --- formats ------------------------------------------------------------------------------------------------------


def hostile() -> Picture:
    steps = [filtered("end", "graph", HOSTILE), filtered("class", "end"), filtered("style", "class")]
    flow = content("subgraph", {"graph": {"path": 'a"b\\c<d>&e\n.csv'}}, steps, {"style": {"path": "o|p"}})
    return workflow_picture(flow, LastRun("r", "v", "2026-01-01T00:00", {}, {"source:graph": 1}, {}))


def test_svg_says_everything_and_is_xml():
    root = ElementTree.fromstring(svg(hostile()))
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert f"end (step)\nfilter where {HOSTILE}" in titles
    assert 'graph (source)\na"b\\c<d>&e\n.csv\n1 row' in titles
    assert len([each for each in root.iter(f"{SVG}path") if each.get("class") == "edge rows"]) == 3 + 1, (
        "and the legend"
    )
    assert ElementTree.fromstring(svg(Picture("a\x00b\x1b", (Box("x", "step", "n\x07", "w"),), (), ("w",)))) is not None


def test_dot_says_everything():
    text = dot(hostile())
    assert '"subgraph.end" -> "subgraph.class"' in text
    assert r"a\"b\\c<d>&amp;e" in text
    # Strings taken out, only the grammar is left.
    grammar = re.sub(r'"(?:[^"\\]|\\.)*"', "S", text)
    assert not re.search(r"[^\w\s{}\[\]=,;>.\-]", grammar), grammar
    assert grammar.count("S -> S") == 3


def test_mermaid_says_everything():
    lines = mermaid(hostile()).splitlines()
    assert lines[:4] == ["---", 'title: "subgraph: rows of run r, 2026-01-01 00:00 UTC"', "---", "flowchart TD"]
    label = next(line for line in lines if line.startswith("  n_end("))
    inside = re.fullmatch(r'  n_end\("(.*)"\)', label)[1]
    assert not re.search(r"[\"`%$*\\|{};&]", re.sub(r"#\d+;", "", inside)), inside
    plain = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), inside).replace("\u200b", "")
    assert plain.startswith("<b>end</b><br/>filter where a < 'b' AND c <> \"d\\n\" && `e|f` %%")
    assert '  n_graph -->|"1"| n_end' in lines
    assert "  n_end --> n_class" in lines
    assert not any(line.strip() == "end" for line in lines), "only a subgraph ends so"


def test_mermaid_keeps_boxes_of_like_names_apart():
    boxes = tuple(Box(identity, "step", "x", lane) for identity, lane in (("a.b_c", "a"), ("a_b.c", "a_b")))
    ids = re.findall(r"^    (\w+)\(", mermaid(Picture("t", boxes, (), ("a", "a_b"))), re.MULTILINE)
    assert ids == ["n_a_b_c", "n_a_b_c_2"]


def test_markdown_is_a_fenced_block():
    assert markdown_block("flowchart TD\n") == "```mermaid\nflowchart TD\n```\n"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text, self.links = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_needs_nothing_else():
    parsed = Tags()
    parsed.feed(picture_page(hostile()))
    assert parsed.open == []
    assert parsed.links == []
    assert "script" not in parsed.seen
    assert not re.search(r"@import|url\((?!#)", picture_page(hostile()))
    assert f"filter where {HOSTILE}" in "".join(parsed.text)


def test_the_page_has_pairs_and_columns(home):
    picture = shop(shop_run())
    text = picture_page(picture)
    assert '<td>ranked</td><td>items</td><td>stage</td><td class="number">72</td>' in text
    assert "customers, orders (absence)" in text
    with Home.open(home) as opened:
        everything = picture_page(opened.graph())
    assert "read by several workflows" in everything
    assert "<td>several</td><td>people, orders</td>" in everything


@pytest.mark.parametrize(("draw", "suffix"), [(mermaid, "mmd"), (dot, "dot"), (svg, "svg")])
def test_the_shop_as_a_picture(draw, suffix):
    same_as_golden(draw(shop(shop_run())).removesuffix("\n"), GOLDEN / f"shop.{suffix}")
