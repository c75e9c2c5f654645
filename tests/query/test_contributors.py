"""Columns in the catalog, and the contributors that matter most: one workflow with personal data and extremes, another
that reads its output, a saved query over both; answers compared with what plain Python finds in the same rows."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError
from lineage_service.runs.workflow_file import explain_workflow

NAN = math.nan
SALES = [  # shop, price, quantity, seller
    ("a", 5.0, 2, "Ada"), ("a", 9.0, None, "Bob"), ("a", 9.0, 1, "Cy"), ("a", None, 7, "Di"), ("a", 5.0, 4, "Ed"),
    ("b", NAN, 3, "Fay"), ("b", 2.0, 3, "Gil"), ("b", NAN, 1, "Hal"), ("c", None, 6, "Ian"), ("d", -0.0, 1, "Jo"),
    ("d", 0.0, 1, "Kim"), ("d", 100.0, 0, "Lea"), ("z", 1.0, 5, "Moe"),
]  # fmt: skip
FLOW = {
    "version": 1,
    "name": "flow",
    "sources": {
        "sales": {"path": "sales.parquet", "pii": ["seller"]},
        "shops": {"path": "shops.parquet", "pii": ["owner"]},
    },
    "steps": [
        {"name": "sold", "op": "filter", "input": "sales", "where": "shop <> 'z'"},
        {"name": "named", "op": "project", "input": "sold", "columns": {"shop": "shop", "x": "price", "q": "quantity", "who": "seller"}},
        {"name": "grouped", "op": "aggregate", "input": "named", "by": ["shop"], "having": "n > 0",
         "measures": {"dearest": "max(x)", "cheapest": "min(x)", "most": "max(q + 0)", "n": "count(*)", "sellers": "count(who)",
                      "first": "min(who)"}},
        {"name": "joined", "op": "join", "left": "grouped", "right": "shops", "using": ["shop"]},
        {"name": "out", "op": "sort", "input": "joined", "by": ["shop"]},
        {"name": "ranked", "op": "window", "input": "sold", "partition_by": ["shop"], "measures": {"k": "count(*)"}},
        {"name": "peers", "op": "aggregate", "input": "ranked", "by": ["shop"], "measures": {"dearest": "max(price)"}},
    ],
    "outputs": {"out": {"checks": [{"where": "n > 1", "severity": "warn"}]}, "peers": {}},
    "lineage": {"keep": ["named"]},
}  # fmt: skip
NEXT = {
    "version": 1,
    "name": "next",
    "sources": {"totals": {"output": "flow.out", "rename": {"first": "someone"}}, "sales": {"path": "sales.parquet"}},
    "steps": [
        {"name": "letters", "op": "project", "input": "totals",
         "columns": {"shop": "shop", "initial": "substring(someone, 1, 1)", "n": "sellers"}},
        {"name": "best", "op": "aggregate", "input": "totals", "by": [], "measures": {"top": "max(dearest)"}},
    ],
    "outputs": {"letters": {}, "best": {}},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("contributors")
    names = ["shop", "price", "quantity", "seller"]
    columns = dict(zip(names, zip(*SALES, strict=True), strict=True))
    table = pa.table({name: pa.array(list(values), from_pandas=False) for name, values in columns.items()})
    pq.write_table(table, folder / "sales.parquet")
    shops = {"shop": ["a", "b", "c", "d"], "owner": ["Una", "Vic", "Wes", "Xia"], "share": [1, 2, 3, 4]}
    pq.write_table(pa.table(shops), folder / "shops.parquet")
    with Home.open(folder / "home") as home:
        for flow in (FLOW, NEXT):
            (folder / f"{flow['name']}.yml").write_text(json.dumps(flow))
            home.run(folder / f"{flow['name']}.yml")
    return folder


@pytest.fixture(scope="module")
def home(folder):
    with Home.open(folder / "home") as opened:
        yield opened


def marked(home, dataset) -> list[str]:
    return [row["column"] for row in home.columns(dataset).to_pylist() if row["pii"]]


# --- columns ------------------------------------------------------------------------------------------------------


def test_marks_arrive_where_they_should_and_nowhere_else(home):
    assert marked(home, "flow.sales") == ["seller"]
    assert marked(home, "named") == ["who"]
    assert marked(home, "out") == ["first", "owner"]
    assert marked(home, "peers") == []
    assert marked(home, "flow.out_failing") == [
        "first",
        "owner",
    ]  # rows that failed a check are rows of the same columns


def test_marks_go_on_into_the_workflow_that_reads_the_output(home, folder):
    assert marked(home, "next.totals") == ["someone", "owner"]
    assert marked(home, "letters") == ["initial"]
    explained = explain_workflow(folder / "next.yml", home=folder / "home").to_json()
    assert explained["sources"]["totals"]["pii"] == ["someone", "owner"]
    assert explained["sources"]["totals"]["output_columns"]["someone"] == "flow.out.first"
    assert explained["outputs"]["letters"]["pii"] == ["initial"]
    with Home.open(folder / "home") as opened:
        assert opened.explained_run("next").to_json()["outputs"]["letters"]["pii"] == ["initial"]


def test_the_catalog_says_what_columns_are_computed_from(home):
    rows = {row["column"]: row for row in home.columns("letters").to_pylist()}
    assert rows["initial"]["computed_from"] == ["next.totals.someone"]
    (someone,) = [row for row in home.columns("next.totals").to_pylist() if row["column"] == "someone"]
    assert someone["computed_from"] == ["flow.out.first"]
    assert someone["type"] == "string"
    (dearest,) = [row for row in home.columns("out").to_pylist() if row["column"] == "dearest"]
    assert dearest["computed_from"] == ["flow.sales.price"]
    assert set(dearest["influenced_by"]) == {"flow.sales.shop", "flow.shops.shop"}


def test_columns_are_followed_through_other_workflows_down_to_files(home):
    rows = {row["column"]: row for row in home.columns("letters", through=True).to_pylist()}
    assert rows["initial"]["computed_from"] == ["flow.sales.seller"]
    assert set(rows["initial"]["influenced_by"]) == {"flow.sales.shop", "flow.shops.shop"}
    assert rows["n"]["computed_from"] == ["flow.sales.seller"]
    assert not rows["n"]["pii"]
    assert set(rows["shop"]["computed_from"]) == {"flow.sales.shop", "flow.shops.shop"}
    (read,) = [row for row in home.columns("next.sales", through=True).to_pylist() if row["column"] == "seller"]
    assert read["computed_from"] == []  # a file's own column


def test_a_saved_query_carries_marks_on(home):
    home.query("SELECT shop, lower(owner) AS o, count(first) AS c FROM flow.out GROUP BY ALL", save="kept", reveal=True)
    home.query(
        "SELECT x.o AS who, x.c FROM kept x JOIN letters USING (shop) WHERE initial = 'A'", save="again", reveal=True
    )
    assert marked(home, "kept.kept") == ["o"]
    assert marked(home, "again.again") == ["who"]
    rows = {row["column"]: row for row in home.columns("again", through=True).to_pylist()}
    assert rows["who"]["computed_from"] == ["flow.shops.owner"]
    assert "flow.sales.seller" in rows["who"]["influenced_by"]  # by the predicate on the initial
    assert rows["c"]["computed_from"] == ["flow.sales.seller"]


def test_a_saved_query_whose_columns_nobody_can_follow_counts_as_personal_data(home):
    home.query("SELECT n, u FROM flow.out x, unnest([x.shop]) q(u)", save="doubtful")
    rows = home.columns("doubtful").to_pylist()
    assert [row["computed_from"] for row in rows] == [None, None]
    assert marked(home, "doubtful") == ["n", "u"]


def test_columns_of_runs_and_of_everything(home):
    run = home.datasets("out").to_pylist()[0]["run_id"]
    assert {row["dataset"] for row in home.columns(run=run).to_pylist()} >= {"flow.sales", "flow.out", "flow.named"}
    assert home.columns("out", run=run).to_pylist() == home.columns("out").to_pylist()
    answer = home.columns(limit=2)
    assert answer.count() == 2
    assert answer.parts[0].remaining > 20


# --- contributors -------------------------------------------------------------------------------------------------


def top(home, key: str, n: int, by: str, **options):
    answer = home.backward("out", key={"shop": key}, to="flow.sales", top=n, by=by, reveal=True, **options)
    return answer.to_pylist(), answer.parts[0].remaining


def test_the_largest_first_and_among_equals_the_row_id(home):
    rows, remaining = top(home, "a", 3, "price")
    assert [(row["_rid"], row["measure"], row["decides"]) for row in rows] == [
        (1, 9.0, "dearest"), (2, 9.0, "dearest"), (0, 5.0, "cheapest, first"),
    ]  # fmt: skip
    assert remaining == 2
    assert [row["share"] for row in rows] == [round(share / 28, 6) for share in (9, 9, 5)]


def test_deciding_rows_are_shown_whatever_their_rank(home):
    rows, remaining = top(home, "a", 1, "quantity")
    assert [(row["_rid"], row["measure"], row["decides"]) for row in rows] == [
        (3, 7, None), (4, 4, "cheapest"), (0, 2, "cheapest, first"), (2, 1, "dearest"),
    ]  # fmt: skip  # of rows that decide alike the one that ranks first
    assert remaining == 1


def test_nan_is_the_largest_and_decides(home):
    rows, _ = top(home, "b", 1, "quantity asc")
    assert [(row["_rid"], row["decides"]) for row in rows] == [(7, "dearest"), (5, "dearest, first"), (6, "cheapest")]


def test_nothing_decides_where_all_are_null(home):
    rows, _ = top(home, "c", 5, "quantity")
    assert [(row["_rid"], row["decides"]) for row in rows] == [(8, "first")]


def test_zeros_of_either_sign_are_one_value(home):
    rows, _ = top(home, "d", 3, "price desc")
    assert [row["decides"] for row in rows] == ["dearest", "cheapest, first", "cheapest"]


def test_several_start_rows_each_have_their_deciding_row(home):
    answer = home.backward("out", all=True, to="flow.sales", top=4, by="quantity")
    rows = answer.to_pylist()
    assert [row["_rid"] for row in rows][:4] == [3, 8, 4, 5]
    decided = {row["_rid"] for row in rows if row["decides"] and "dearest" in row["decides"]}
    assert decided & {1, 2} and decided & {5, 7} and 11 in decided
    fewer = home.backward("out", all=True, to="flow.sales", top=2, by="quantity").to_pylist()
    assert len(fewer) <= 2 + 3


def test_kept_steps_are_ranked_too(home):
    answer = home.backward("out", key={"shop": "a"}, to="named", top=1, by="x * q", reveal=True)
    assert [(row["_rid"], row["measure"], row["decides"]) for row in answer.to_pylist()] == [
        (4, 20.0, "cheapest"), (0, 10.0, "cheapest, first"), (2, 9.0, "dearest")
    ]  # fmt: skip


def test_shares_only_of_what_is_never_negative(home):
    assert "share" not in top(home, "a", 2, "price - 6")[0][0]
    assert "share" not in top(home, "a", 2, "seller")[0][0]
    assert "share" not in top(home, "b", 2, "price")[0][0]  # the total is NaN


def test_a_column_of_the_data_makes_room(home):
    (row,) = home.backward("out", key={"shop": "b"}, to="shops", top=1, by="share").to_pylist()
    assert (row["measure"], row["share"], row["share_1"]) == (2, 1.0, 2)


def test_row_ids_alone_and_chosen_columns(home):
    rows, remaining = top(home, "a", 2, "price", rids=True)
    assert [list(row.items()) for row in rows] == [[("_rid", 1)], [("_rid", 2)], [("_rid", 0)]]
    assert remaining == 2
    rows, _ = top(home, "a", 1, "price", columns=["seller"])
    assert list(rows[0]) == ["_rid", "measure", "share", "decides", "seller"]


def test_several_datasets_where_the_measure_fits_each(home):
    answer = home.backward("out", key={"shop": "a"}, to=["flow.sales", "shops"], top=1, by="length(shop)")
    assert [(part.dataset, part.arrow().num_rows) for part in answer.parts] == [("flow.sales", 2), ("flow.shops", 1)]
    with pytest.raises(
        QuestionError, match=r"the measure for 'flow.shops': unknown column 'price'; columns here: shop"
    ):
        home.backward("out", key={"shop": "a"}, to=["flow.sales", "shops"], top=1, by="price")


def test_what_is_not_known_exactly_is_said(home):
    answer = home.backward("peers", key={"shop": "a"}, to="flow.sales", top=1, by="price")
    assert "decides" not in answer.to_pylist()[0]
    assert any("decide dearest is not known exactly" in note for note in answer.notes)
    beyond = home.backward("best", all=True, to="flow.sales", top=1, by="quantity")
    assert any("decide top is not known exactly" in note for note in beyond.notes)


def test_all_ranked_rows_are_the_contributors(home):
    rows, remaining = top(home, "a", 100, "price")
    assert sorted(row["_rid"] for row in rows) == [0, 1, 2, 3, 4]
    assert rows[-1]["measure"] is None  # without a value: last, either way
    assert top(home, "a", 100, "price asc")[0][-1]["measure"] is None
    assert remaining == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 3}, "top needs a measure"),
        ({"by": "price"}, "by is the measure of top"),
        ({"top": 0, "by": "price"}, "1 or larger"),
        ({"top": -1, "by": "price"}, "1 or larger"),
        ({"top": 1, "by": "prize"}, "unknown column 'prize'; columns here: shop, price"),
        ({"top": 1, "by": "sum(price)"}, "aggregates and windows are not allowed"),
        ({"top": 1, "by": "row_number() over ()"}, "aggregates and windows are not allowed"),
        ({"top": 1, "by": "price; drop table x"}, "must be one expression"),
        ({"top": 1, "by": "1"}, "a measure reads columns"),
        ({"top": 1, "by": ""}, "must be one expression"),
        ({"top": 1, "by": "read_text('x')"}, "not allowed in a measure"),
        ({"top": 1, "by": "seller * 2"}, "the measure for 'flow.sales'"),
        ({"top": 1, "by": "CAST(seller AS INT)"}, "the measure for 'flow.sales': a value cannot be converted"),
        ({"top": 1, "by": "price", "pairs": True}, "does not go with pairs"),
        ({"top": 1, "by": "price", "count": True}, "does not go with count"),
        ({"top": 1, "by": "price", "limit": 3}, "does not go with limit"),
        ({"top": 1, "by": "price", "order_by": "price"}, "does not go with order_by"),
        ({"top": 1, "by": "price", "to": None}, "say which, with to"),
        ({"top": 1, "by": "price", "columns": ["prize"]}, "unknown column 'prize'"),
    ],
)
def test_bad_questions_are_refused_in_one_line(home, options, message):
    with pytest.raises(QuestionError) as refused:
        home.backward("out", key={"shop": "a"}, **{"to": "flow.sales", "reveal": True, **options}).to_pylist()
    assert message in str(refused.value)
    assert "Ada" not in str(refused.value)
