"""`why-not`, operator by operator: where rows are lost, and why; checked by hand on one small workflow."""

import datetime
import json

import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service import Home
from lineage_service.errors import NotFound, QuestionError, SourceError
from lineage_service.plan.conjuncts import conjuncts_of
from lineage_service.plan.expressions import Expression
from tests.support.harness import Flow

SCHEMAS = {
    "people": {"id": "BIGINT", "boss": "BIGINT", "city": "STRING", "age": "INT", "tags": "ARRAY<STRING>"},
    "orders": {"person": "BIGINT", "amount": "INT", "day": "INT"},
    "blocked": {"id": "BIGINT"},
}
PEOPLE = [
    {"id": 1, "boss": None, "city": "Köln", "age": 50, "tags": ["a", "b"]},
    {"id": 2, "boss": 1, "city": "Bonn", "age": 30, "tags": []},
    {"id": 3, "boss": 1, "city": None, "age": None, "tags": None},
    {"id": 4, "boss": 9, "city": "Bonn", "age": 17, "tags": ["a"]},
]
ORDERS = [
    {"person": 1, "amount": 10, "day": 1},
    {"person": 1, "amount": 20, "day": 2},
    {"person": 2, "amount": 5, "day": 1},
    {"person": 4, "amount": 7, "day": 9},
    {"person": 8, "amount": 1, "day": 1},
    {"person": 2, "amount": 5, "day": 1},
]
BLOCKED = [{"id": 2}, {"id": 7}]
STEPS = [
    {"name": "adults", "op": "filter", "input": "people", "where": "age >= 18 and city = 'Köln' and id between 0 and 9"},
    {"name": "safe", "op": "filter", "input": "people", "where": "age <> 17 AND 1 / (age - 17) < 1"},
    {"name": "early", "op": "filter", "input": "orders", "where": "day < 5"},
    {"name": "bought", "op": "join", "left": "people", "right": "early", "on": "id = person"},
    {"name": "spent", "op": "aggregate", "input": "early", "by": ["person"], "measures": {"total": "sum(amount)"},
     "having": "total > 9 and person < 5"},
    {"name": "named", "op": "join", "left": "people", "right": "spent", "on": "id = person"},
    {"name": "grown", "op": "filter", "input": "people", "where": "age <> 17"},
    {"name": "shares", "op": "project", "input": "grown", "columns": {"owner": "id", "share": "100 div (age - 17)"}},
    {"name": "shared", "op": "join", "left": "orders", "right": "shares", "on": "person = owner and share > 0"},
    {"name": "top", "op": "limit", "input": "orders", "n": 2, "by": ["amount desc"]},
    {"name": "topped", "op": "join", "left": "people", "right": "top", "on": "id = person", "how": "semi"},
    {"name": "free", "op": "join", "left": "people", "right": "blocked", "using": ["id"], "how": "anti"},
    {"name": "shown", "op": "explode", "input": "people", "column": "tags", "as": "tag"},
    {"name": "ids", "op": "project", "input": "people", "columns": ["id"]},
    {"name": "customers", "op": "project", "input": "early", "columns": {"id": "person"}},
    {"name": "both", "op": "intersect", "left": "ids", "right": "customers"},
    {"name": "others", "op": "difference", "left": "ids", "right": "blocked"},
    {"name": "late", "op": "difference", "left": "orders", "right": "early", "distinct": False},
    {"name": "kinds", "op": "distinct", "input": "orders"},
    {"name": "cheap", "op": "filter", "input": "kinds", "where": "amount < 6"},
    {"name": "ranked", "op": "window", "input": "orders", "partition_by": ["person"], "order_by": ["amount"],
     "measures": {"place": "rank()", "share": "percent_rank()"}},
    {"name": "first", "op": "filter", "input": "ranked", "where": "place = 1"},
    {"name": "pairs", "op": "project", "input": "people", "columns": {"worker": "id", "chief": "boss"}},
    {"name": "led", "op": "join", "left": "pairs", "right": "people", "on": "chief = id"},
    {"name": "old", "op": "filter", "input": "ids", "where": "id > 3"},
    {"name": "young", "op": "filter", "input": "ids", "where": "id < 2"},
    {"name": "some", "op": "union", "inputs": ["old", "young"]},
    {"name": "lucky", "op": "filter", "input": "people", "where": "rand() < 2 and age > 20"},
    {"name": "few", "op": "limit", "input": "lucky", "n": 1},
    {"name": "luckier", "op": "join", "left": "few", "right": "blocked", "using": ["id"]},
]  # fmt: skip
OUTPUTS = ["shared", "adults", "safe", "bought", "spent", "named", "top", "topped", "free", "shown", "both", "others", "late", "kinds",
           "cheap", "first", "led", "some", "lucky", "luckier"]  # fmt: skip


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("why_not")
    tables = {"people": [PEOPLE[:3], PEOPLE[3:]], "orders": [ORDERS], "blocked": [BLOCKED]}
    with Home.open(folder / "home") as opened:
        opened.run(Flow(SCHEMAS, tables, STEPS, OUTPUTS).write(folder))
        yield opened


def told(home: Home, source: str, to: str, **start) -> dict:
    """Step -> reason -> row ids, of all steps that lose any."""
    found = home.why_not(source, to=to, **(start or {"all": True}))
    return {
        (each.step, each.input): {reason.text: list(reason.rids) for reason in each.reasons}
        for each in found.steps
        if each.reasons
    }


def test_each_condition_of_a_filter_is_told(home):
    assert told(home, "people", "adults") == {
        ("adults", "people"): {
            "age >= 18 is false": [3],
            "age >= 18 is null": [2],
            "city = 'Köln' is false": [1, 3],
            "city = 'Köln' is null": [2],
        }
    }


def test_a_condition_that_another_one_guards_is_not_evaluated_alone(home):
    assert told(home, "people", "safe")[("safe", "people")] == {
        "age <> 17 is false": [3],
        "age <> 17 is null": [2],
    }


def test_a_partner_that_is_missing_or_was_lost_before(home):
    assert told(home, "people", "bought") == {
        ("bought", "people"): {"a row that matches was lost at step 'early'": [3], "no row of 'early' matches": [2]}
    }
    assert told(home, "orders", "bought") == {
        ("early", "orders"): {"day < 5 is false": [3]},
        ("bought", "early"): {"no row of 'people' matches": [4]},
    }


def test_a_side_that_fails_without_its_filter_is_left_alone(home):
    found = home.why_not("orders", to="shared", all=True)
    assert told(home, "orders", "shared") == {("shared", "orders"): {"no row of 'shares' matches": [3, 4]}}
    assert "whether partners were lost at earlier steps could not be determined" in found.notes


def test_having_drops_a_group_and_shows_it(home):
    found = home.why_not("orders", to="spent", all=True)
    having = found.steps[-1]
    assert [each.step for each in found.steps] == ["early", "spent", "spent"]
    assert (having.operation, having.rows_in, having.lost) == ("having", 5, 1)
    assert {reason.text: reason.rids for reason in having.reasons} == {
        "total > 9 is false": (4,),
        "person < 5 is false": (4,),
    }
    assert having.reasons[0].examples == ({"rid": 4, "group": {"person": 8}, "values": {"total": 1}},)


def test_a_partner_lost_to_having_or_below_the_aggregate(home):
    assert told(home, "people", "named") == {
        ("named", "people"): {"a row that matches was lost at step 'early'": [3], "no row of 'spent' matches": [2]}
    }


def test_limit_cuts_off_with_the_rank(home):
    found = home.why_not("orders", to="top", all=True)
    (limit,) = found.steps
    assert limit.reasons[0].text == "beyond the first 2 rows"
    assert limit.reasons[0].rids == (2, 3, 4, 5)
    assert limit.reasons[0].examples[1] == {"rid": 3, "rank": 3}
    assert (found.reached, found.lost) == (2, 4)


def test_semi_and_anti_join(home):
    assert told(home, "people", "topped") == {
        ("topped", "people"): {"a row that matches was lost at step 'top'": [1, 3], "no row of 'top' matches": [2]}
    }
    assert told(home, "people", "free") == {("free", "people"): {"a row of 'blocked' matches": [1]}}
    with pytest.raises(QuestionError, match="only influences it by the absence"):
        home.why_not("blocked", to="free", all=True)


def test_explode_of_nothing(home):
    assert told(home, "people", "shown") == {("shown", "people"): {"'tags' is null": [2], "'tags' is empty": [1]}}


def test_intersect_and_difference(home):
    assert told(home, "people", "both") == {
        ("both", "ids"): {"an equal row was lost at step 'early'": [3], "no equal row in 'customers'": [2]}
    }
    assert told(home, "people", "others") == {("others", "ids"): {"an equal row is in 'blocked'": [1]}}
    # The right side is on nobody's way: it influences by absence alone.
    assert told(home, "orders", "late") == {("late", "orders"): {"as many equal rows are in 'early'": [0, 1, 2, 4, 5]}}


def test_distinct_merges_and_the_merged_row_may_be_lost(home):
    found = home.why_not("orders", to="kinds", rid=5)
    assert not found.spark
    assert (found.reached, found.merging) == (1, ["kinds"])
    (arrival,) = found.arrivals
    assert arrival.others == 1
    assert list(arrival.into) == home.forward("orders", rid=2, to="kinds", rids=True).arrow().column("_rid").to_pylist()
    (row,) = home.rows("kinds", rid=arrival.into[0]).to_pylist()
    assert (row["person"], row["amount"]) == (2, 5)
    assert told(home, "orders", "cheap") == {("cheap", "kinds"): {"amount < 6 is false": [0, 1, 3]}}


def test_rows_that_are_only_peers_are_lost_as_themselves(home):
    found = home.why_not("orders", to="first", all=True)
    assert (found.reached, found.peers, found.lost) == (5, 1, 0)
    assert {reason.text: reason.rids for reason in found.steps[-1].reasons} == {"place = 1 is false": (1,)}
    assert any("peers" in note for note in found.notes)


def test_a_row_is_told_on_each_of_its_ways_and_lost_on_the_last(home):
    found = home.why_not("people", to="led", all=True, rids=True)
    assert told(home, "people", "led") == {
        ("led", "pairs"): {"no row of 'people' matches": [3]},
        ("led", "people"): {"no row of 'pairs' matches": [3]},
    }
    assert (found.reached, found.lost) == (3, 1)
    assert found.rows.to_pylist() == [{"_rid": 3, "step": "led", "reason": "no row of 'pairs' matches"}]
    union = home.why_not("people", to="some", all=True)
    ends = {each.step: (each.ended, each.lost) for each in union.steps if each.ended}
    assert ends == {"old": (3, 0), "young": (3, 2)}


def test_what_is_left_to_chance_is_told_from_what_was_written(home):
    assert told(home, "people", "lucky") == {("lucky", "people"): {"age > 20 is false": [3], "age > 20 is null": [2]}}
    with pytest.raises(
        QuestionError, match=r"at step 'few' cannot be determined: step 'few' selects rows without a total order"
    ):
        home.why_not("people", to="luckier", all=True)
    # Whoever was lucky: a row that only has to find a partner there has found none where it is not in the output.
    found = home.why_not("blocked", to="luckier", all=True)
    assert {reason.text for step in found.steps for reason in step.reasons} == {"no row of 'few' matches"}
    assert 1 in found.steps[0].reasons[0].rids


def test_a_kept_step_is_asked_like_a_source(home):
    assert told(home, "kinds", "cheap", where="amount > 19") == {
        ("cheap", "kinds"): {"amount < 6 is false": [_rid(home)]}
    }


def _rid(home: Home) -> int:
    return home.rows("kinds", where="amount > 19").to_pylist()[0]["_rid"]


def test_no_row_matches(home):
    found = home.why_not("people", to="adults", where="id > 100")
    assert (found.asked, found.steps, found.notes) == (0, [], ["no row of 'flow.people' matches"])


@pytest.mark.parametrize(
    ("source", "to", "error", "match"),
    [
        ("nobody", "adults", NotFound, "no dataset 'nobody'"),
        ("people", "nothing", NotFound, "no dataset 'nothing'"),
        ("people", "orders", QuestionError, "'flow.orders' is a source"),
        ("blocked", "adults", QuestionError, "'flow.adults' is not made from 'flow.blocked'; it is made from: people"),
        ("adults", "adults", QuestionError, "the same rows"),
    ],
)
def test_questions_that_mean_nothing_are_refused(home, source, to, error, match):
    with pytest.raises(error, match=match):
        home.why_not(source, to=to, all=True)


def test_bad_starts_are_refused(home):
    with pytest.raises(QuestionError, match="unknown column 'nme'"):
        home.why_not("people", to="adults", where="nme = 1")
    with pytest.raises(NotFound, match="no row 77"):
        home.why_not("people", to="adults", rid=77)
    with pytest.raises(QuestionError, match="say which rows"):
        home.why_not("people", to="adults")


def typed(home: Home, *words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["why-not", *words, "--home", str(home.layout.path)], prog_name="smoke-lineage")
    return result.exit_code, result.stdout, result.stderr


def test_the_command_prints_tables_json_and_rows(home):
    code, table, _ = typed(home, "orders", "--all", "--to", "spent")
    assert code == 0
    assert table.splitlines()[0] == "6 rows of flow.orders: 4 in flow.spent, 2 not"
    assert "row 4 is in the group person = 8 of 'spent', which has total = 1" in table
    code, text, _ = typed(home, "people", "--key", "id=4", "--to", "adults", "--json")
    found = json.loads(text)
    assert (code, found["asked"], found["lost"], found["spark"]) == (0, 1, 1, True)
    assert [each["reason"] for each in found["steps"][0]["reasons"]] == ["age >= 18 is false", "city = 'Köln' is false"]
    code, text, _ = typed(home, "people", "--all", "--to", "adults", "--rids", "--format", "csv", "--limit", "1")
    assert (code, text.splitlines()) == (0, ["_rid,step,reason", "1,adults,city = 'Köln' is false"])
    code, text, said = typed(home, "people", "--where", "id > 50", "--to", "adults")
    assert (code, text) == (0, "0 rows of flow.people: 0 in flow.adults, 0 not\n")
    assert said == "note: no row of 'flow.people' matches\n"
    assert typed(home, "people", "--all")[0] == 2


def test_a_changed_source_is_named(spark, tmp_path):
    steps = [step for step in STEPS if step["name"] in ("adults", "free")]
    flow = Flow(SCHEMAS, {"people": [PEOPLE], "blocked": [BLOCKED]}, steps, ["adults", "free"])
    with Home.open(tmp_path / "home") as home:
        home.run(flow.write(tmp_path), capture="off")
        found = home.why_not("people", to="adults", all=True)
        assert (found.reached, found.lost, found.arrivals) == (1, 3, [])
        assert any("capture off" in note for note in found.notes)
        (file,) = (tmp_path / "data" / "blocked").iterdir()
        file.write_bytes(file.read_bytes() + b" ")
        with pytest.raises(SourceError, match=r"source 'flow.blocked' has changed since run '\w+': file '.*blocked"):
            home.why_not("people", to="free", all=True)
        assert home.why_not("people", to="adults", all=True).lost == 3


def test_steps_mean_what_they_meant_to_the_run(spark, tmp_path):
    schema = {"at": "TIMESTAMP"}
    moments = [datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.UTC) for hour in (1, 12)]
    step = {"name": "mornings", "op": "filter", "input": "t", "where": "hour(at) < 10"}
    flow = Flow({"t": schema}, {"t": [[{"at": each} for each in moments]]}, [step], ["mornings"])
    zone = spark.conf.get("spark.sql.session.timeZone")
    with Home.open(tmp_path / "home") as home:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # 20:00 the day before, and 07:00
        try:
            home.run(flow.write(tmp_path))
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        assert told(home, "t", "mornings") == {("mornings", "t"): {"hour(at) < 10 is false": [0]}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 1", ["a > 1"]),
        ("a > 1 and b < 2", ["a > 1", "b < 2"]),
        ("a between 1 and 3 AND c", ["a between 1 and 3", "c"]),
        ("a or b and c", ["a or b and c"]),
        ("(a and (b or c)) and not d", ["a", "(b or c)", "not d"]),
        ("case when a and b then c else d end and e", ["case when a and b then c else d end", "e"]),
        ("case when a between 1 and 2 and b then c end", ["case when a between 1 and 2 and b then c end"]),
        ("s = 'x and y' and `and` > 1", ["s = 'x and y'", "`and` > 1"]),
        ("exists(xs, x -> x > 1 and x < 3) and b", ["exists(xs, x -> x > 1 and x < 3)", "b"]),
        ("((a and b))", ["a", "b"]),
        ("(a) = (b) and (c)", ["(a) = (b)", "(c)"]),
        ("not (a and b)", ["not (a and b)"]),
    ],
)
def test_conditions_of_a_predicate(text, expected):
    assert list(conjuncts_of(Expression(text))) == expected
