"""`trace`: every set of rows in the tree is what `backward` and `forward` say, and the tree shows the way to it."""

import json
from html.parser import HTMLParser

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_cli.trace_tree import trace_tree
from lineage_cli.tree_drawing import draw_tree, width_of

from lineage_service import Home
from lineage_service.errors import NotFound, QuestionError
from lineage_service.render.html.trace_page import trace_page

FIRST = {
    "version": 1,
    "name": "first",
    "sources": {
        "orders": {"path": "orders/*.csv", "options": {"header": True}, "schema": "id INT, who STRING, amount INT"},
        "people": {"path": "people.parquet"},
        "blocked": {"path": "blocked.json", "schema": "who STRING"},
    },
    "steps": [
        {"name": "allowed", "op": "join", "how": "anti", "left": "orders", "right": "blocked", "using": ["who"]},
        {"name": "named", "op": "join", "how": "left", "left": "allowed", "right": "people", "using": ["who"]},
        {"name": "per_city", "op": "aggregate", "input": "named", "by": ["city"], "measures": {"total": "sum(amount)"}},
        {"name": "ranked", "op": "window", "input": "named", "partition_by": ["city"], "measures": {"n": "count(*)"}},
        # A diamond: both ways lead to the same kept rows.
        {"name": "large", "op": "filter", "input": "named", "where": "amount > 10"},
        {"name": "met", "op": "join", "left": "large", "right": "per_city", "on": "left.city <=> right.city"},
        {
            "name": "shown",
            "op": "project",
            "input": "met",
            "columns": {"id": "id", "amount": "amount", "total": "total"},
        },
    ],
    "outputs": {"per_city": None, "ranked": None, "shown": None},
    "lineage": {"keep": ["named"]},
}
SECOND = {
    "version": 1,
    "name": "second",
    "sources": {"cities": {"output": "first.per_city", "rename": {"total": "euro"}}},
    "steps": [{"name": "rich", "op": "filter", "input": "cities", "where": "euro > 20"}],
    "outputs": {"rich": None},
}


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    (folder / "orders").mkdir()
    (folder / "orders" / "a b.csv").write_text("id,who,amount\n1,ann,5\n\n2,bob,50\n3,eve,7\n")
    (folder / "orders" / "b.csv").write_text("id,who,amount\n4,ann,20\n5,zoe,30\n6,bob,1\n")
    (folder / "blocked.json").write_text('{"who": "eve"}\n\n{"who": "mallory"}\n')
    pq.write_table(pa.table({"who": ["ann", "bob"], "city": ["Oslo", "Köln"]}), folder / "people.parquet")
    with Home.open(folder / "home") as opened:
        for body in (FIRST, SECOND):
            (folder / f"{body['name']}.yml").write_text(json.dumps(body))
            opened.run(folder / f"{body['name']}.yml")
        yield opened


def sets_below(sets):
    for each in sets:
        yield each
        yield from sets_below(each.next)


@pytest.mark.parametrize("dataset", ["per_city", "ranked", "shown", "rich", "named"])
def test_every_set_is_what_backward_says(home, dataset):
    rows = home.rows(dataset).to_pylist()
    assert rows
    for row in rows:
        traced = home.trace(dataset, rid=row["_rid"], rows=1000)
        assert traced.record.values == {name: value for name, value in row.items() if name != "_rid"}
        reached = {}
        for each in sets_below(traced.behind):
            assert each.count == len(each.rows) or each.link == "absence"
            reached.setdefault(each.dataset, set()).update(shown.rid for shown in each.rows)
        counted = {each["dataset"]: each["rows"] for each in home.backward(dataset, rid=row["_rid"]).to_pylist()}
        for name, rids in reached.items():
            told = home.backward(dataset, rid=row["_rid"], to=name, rids=True).arrow().column("_rid").to_pylist()
            assert rids == set(told), (dataset, row["_rid"], name)
        for each in sets_below(traced.behind):
            if each.link == "contributes" and each.count:
                pairs = home.backward(dataset, rid=row["_rid"], to=each.dataset, pairs=True, roles=True).to_pylist()
                own = {pair["rid"] for pair in pairs if pair["role"] == "own"}
                assert {shown.rid for shown in each.rows if not shown.peer} <= own
                if sum(other.dataset == each.dataset for other in sets_below(traced.behind)) == 1:
                    assert {shown.rid for shown in each.rows if not shown.peer} == own
        # Everything with rows is in the tree; a source that another workflow made stands there under its maker's name.
        assert {name for name, rows in counted.items() if rows} - {"second.cities"} == {
            n for n, r in reached.items() if r
        }


@pytest.mark.parametrize("dataset", ["orders", "people", "blocked", "named", "per_city"])
def test_every_set_is_what_forward_says(home, dataset):
    rows = home.rows(dataset).to_pylist()
    assert rows
    for row in rows:
        traced = home.trace(dataset, rid=row["_rid"], rows=1000)
        reached = {}
        for each in sets_below(traced.ahead):
            if each.link == "contributes":
                reached.setdefault(each.dataset, set()).update(shown.rid for shown in each.rows)
        counted = home.forward(dataset, rid=row["_rid"]).to_pylist()
        assert {each["dataset"] for each in counted if each["rows"]} - {"second.cities"} == set(reached)
        for name, rids in reached.items():
            assert rids == set(home.forward(dataset, rid=row["_rid"], to=name, rids=True).arrow()["_rid"].to_pylist())


def test_file_and_line(home):
    (row,) = home.rows("orders", key={"id": 2}).to_pylist()
    place = home.trace("orders", rid=row["_rid"]).record.place
    assert place.file.endswith("orders/a b.csv")
    assert place.line == 4, "the empty line counts"
    (row,) = home.rows("orders", key={"id": 6}).to_pylist()
    assert home.trace("orders", rid=row["_rid"]).record.place.line == 4
    assert home.trace("blocked", rid=1).record.place.line == 3
    place = home.trace("people", rid=1).record.place
    assert (place.row, place.line) == (1, None)


def test_absence_peers_and_what_was_seen_before(home):
    trace = home.trace("ranked", key={"id": 1})
    (named,) = trace.behind
    assert (named.dataset, named.count, named.peers) == ("first.named", 2, 1)
    assert [row.peer for row in named.rows] == [False, True]
    blocked = next(each for each in named.next if each.dataset == "first.blocked")
    assert (blocked.link, blocked.count, blocked.rows) == ("absence", 2, ())
    shown = home.trace("shown", key={"id": 2})
    behind = {each.dataset: each for each in shown.behind}
    assert set(behind) == {"first.named", "first.per_city"}
    (below,) = behind["first.per_city"].next
    assert (below.dataset, below.count) == ("first.named", 2)
    assert home.trace("blocked", rid=0).ahead[0].link == "absence"


def test_over_workflows(home):
    rich = home.trace("rich", where="euro = 51")
    (city,) = rich.behind
    assert (city.dataset, city.read_as, city.kind) == ("first.per_city", "cities", "output")
    assert [step.does for step in city.made_by] == ["aggregate by city: total = sum(amount)"]
    assert {each.dataset for each in sets_below(rich.behind)} == {
        "first.per_city", "first.named", "first.orders", "first.people", "first.blocked",
    }  # fmt: skip
    ahead = {each.dataset: each for each in sets_below(home.trace("orders", key={"id": 2}).ahead)}
    assert ahead["second.rich"].read_as == "cities"


def test_depth(home):
    assert [each.next for each in home.trace("rich", rid=0, depth=1).behind] == [()]
    assert home.trace("rich", rid=0, depth=1).behind[0].cut
    assert home.trace("rich", rid=0, depth=0).behind == ()
    assert not any(each.cut for each in sets_below(home.trace("rich", rid=0).behind))


def test_which_record(home):
    with pytest.raises(QuestionError, match=r"3 rows of 'first\.per_city' match.*\n.*--rid 0, 1, 2"):
        home.trace("per_city", where="true")
    with pytest.raises(NotFound, match="no row"):
        home.trace("per_city", key={"city": "Nowhere"})
    with pytest.raises(NotFound, match="no row 99"):
        home.trace("per_city", rid=99)
    with pytest.raises(QuestionError, match="say which record"):
        home.trace("per_city")


def test_sixty_columns_and_pipes(home):
    trace = home.trace("rich", rid=0)
    narrow = list(draw_tree(trace_tree(trace, 60), 60))
    assert all(width_of(line) <= 60 for line in narrow)
    whole = "\n".join(draw_tree(trace_tree(trace, None), None))
    assert "first.per_city: 1 row, read as cities" in whole
    assert "├┄ first.blocked: by the absence of a match in all 2 rows" in whole or "└┄ first.blocked" in whole
    assert "named: left join using who" in whole


def test_the_page_stands_alone(home):
    page = trace_page(home.trace("rich", rid=0))

    class Checked(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.linked = [], []

        def handle_starttag(self, tag, attrs):
            if tag in ("details", "table", "ul", "div", "summary"):
                self.open.append(tag)
            self.linked += [value for name, value in attrs if name in ("src", "href")]

        def handle_endtag(self, tag):
            if tag in ("details", "table", "ul", "div", "summary"):
                assert self.open.pop() == tag

    checked = Checked()
    checked.feed(page)
    assert checked.open == []
    assert checked.linked == []
    assert "<script" not in page
    assert "first.named" in page
    assert json.loads(json.dumps(home.trace("rich", rid=0).to_json(), default=str))["dataset"] == "second.rich"


def test_rows_that_were_counted_on_the_way_are_remembered(home):
    (run,) = home.runs(workflow="first").to_pylist()
    counted = {step.node: step.rows for step in home._open.reader.steps(run["run_id"])}
    assert counted["orders"] == 6
    assert (counted["named"], counted["per_city"], counted["ranked"], counted["shown"]) == (5, 3, 5, 3)
    assert counted["allowed"] is None, "nobody counted these"
