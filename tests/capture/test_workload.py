"""Questions that are declared ahead: what is prepared must answer as if it had been asked of everything.

The oracle is Spark itself, over the rows that a run without a workload traces.
"""

from __future__ import annotations

import json
import math
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from lineage_service import Home
from lineage_service.errors import QuestionError, WorkflowError
from tests.support.strategies import where_sound

CAPTURES = ("auto", "stage", "inject")
DOUBLES = [0.0, -0.0, math.nan, 1.5, -7.25, None, math.inf]


def lines() -> pa.Table:
    count = 240
    return pa.table(
        {
            "line": range(count),
            "item": [i % 8 for i in range(count)],
            "flag": [("A", "B", None)[i % 3] for i in range(count)],
            "mode": [("AIR", "RAIL", "SHIP", "it's")[i % 4] for i in range(count)],
            "day": [date(1995 + i % 3, i % 12 + 1, i % 28 + 1) for i in range(count)],
            "price": pa.array([Decimal(i * 37 % 1000) / 100 - 3 for i in range(count)], pa.decimal128(9, 2)),
            "weight": [DOUBLES[i % 7] for i in range(count)],
            "few": pa.array([None if i % 5 == 0 else i % 13 for i in range(count)], pa.int32()),
        }
    )


def items() -> pa.Table:
    return pa.table({"item": range(8), "kind": [("big", "small")[i % 2] for i in range(8)]})


STEPS = [
    {"name": "by_flag", "op": "aggregate", "input": "lines", "by": ["flag"], "measures": {"n": "count(*)"}},
    {"name": "both", "op": "join", "left": "items", "right": "lines", "using": ["item"]},
    {"name": "by_kind", "op": "aggregate", "input": "both", "by": ["kind"], "measures": {"n": "count(*)"}},
    {"name": "kinds", "op": "join", "left": "by_kind", "right": "items", "using": ["kind"]},
    {"name": "priced", "op": "with_columns", "input": "lines", "columns": {"twice": "price * 2"}},
    {"name": "by_mode", "op": "aggregate", "input": "priced", "by": ["mode"], "measures": {"n": "sum(twice)"}},
]  # fmt: skip
OUTPUTS = ("by_flag", "by_kind", "kinds", "by_mode")
ODD = [
    {"name": "ranked", "op": "window", "input": "lines", "partition_by": ["flag"], "order_by": ["line"],
     "measures": {"place": "row_number()"}},
    {"name": "line_items", "op": "project", "input": "lines", "columns": ["item"]},
    {"name": "item_items", "op": "project", "input": "items", "columns": ["item"]},
    {"name": "common", "op": "intersect", "left": "line_items", "right": "item_items"},
    {"name": "unused", "op": "join", "left": "lines", "right": "items", "using": ["item"], "how": "anti"},
]  # fmt: skip


def workflow(
    folder: Path, workload: list[dict], name: str = "flow", keep: tuple[str, ...] = (), odd: list[dict] = ()
) -> Path:
    for source, table in (("lines", lines()), ("items", items())):
        if not (folder / f"{source}.parquet").exists():
            pq.write_table(table, folder / f"{source}.parquet", row_group_size=50)
    sources = {source: {"path": f"{source}.parquet"} for source in ("lines", "items")}
    lineage = {"workload": workload, "keep": list(keep)}
    body = {"version": 1, "name": name, "sources": sources, "steps": [*STEPS, *odd],
            "outputs": {name: {} for name in (*OUTPUTS, *(each["name"] for each in odd if "_items" not in each["name"]))}, "lineage": lineage}  # fmt: skip
    path = folder / f"{name}.yml"
    path.write_text(json.dumps(body))
    return path


def canonical(value: object) -> object:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else 0.0 if value == 0 else round(value, 9)
    return value


def table(rows: list[dict]) -> list[tuple]:
    return sorted((tuple(canonical(value) for value in row.values()) for row in rows), key=repr)


class Oracle:
    """The same question over a run without a workload: its rows by the verbs, its expressions by Spark."""

    def __init__(self, spark, home: Home) -> None:
        self.spark, self.home = spark, home
        self.frames: dict[str, object] = {}
        self.asked: dict[tuple[str, ...], list[tuple]] = {}  # the tests ask the same for each way of capture

    def rows(self, near: str, far: str, where: str, direction: str = "backward") -> list[dict]:
        verb = getattr(self.home, direction)
        return verb(f"all.{near}", to=f"all.{far}", where=where).to_pylist()

    def ask(self, near: str, far: str, where: str, sql: str, direction: str = "backward") -> list[tuple]:
        key = (near, far, where, sql, direction)
        if key not in self.asked:
            self.asked[key] = self.computed(*key)
        return self.asked[key]

    def computed(self, near: str, far: str, where: str, sql: str, direction: str) -> list[tuple]:
        rids = [str(row["_rid"]) for row in self.rows(near, far, where, direction)]
        # One text instead of a column per id, each of which is a round trip to Java.
        self.frame(far).where(f"_rid IN ({', '.join(rids) or 'NULL'})").createOrReplaceTempView("traced")
        return table([row.asDict() for row in self.spark.sql(sql).collect()])

    def frame(self, far: str):
        if far not in self.frames:
            files = self.home._open.questions.scan(self.home._open.questions.find(f"all.{far}")).paths
            self.frames[far] = self.spark.read.parquet(*files).selectExpr("*", "_metadata.row_index AS _rid")
        return self.frames[far]


@pytest.fixture(scope="module")
def everything(spark, tmp_path_factory):
    """A home in which a workflow without a workload was run, and those of the tests are."""
    folder = tmp_path_factory.mktemp("workload")
    with Home.open(folder / "home") as home:
        home.run(workflow(folder, [], "all"))
        yield folder, home, Oracle(spark, home)


# --- pruning --------------------------------------------------------------------------------------------------------


def test_what_no_declared_question_needs_is_pruned_and_told(everything):
    folder, home, oracle = everything
    report = home.run(workflow(folder, [{"name": "details", "backward": "by_flag", "to": "lines"}], "pruned"))
    assert report.capture["by_flag"]["lines"]["pairs"] == 240
    for start in ("flag = 'A'", "flag IS NULL", "n > 0"):
        wanted = table(oracle.rows("by_flag", "lines", start))
        assert table(home.backward("pruned.by_flag", to="lines", where=start).to_pylist()) == wanted
        found = home.query(f"FROM workload('pruned.details', '{start.replace(chr(39), chr(39) * 2)}')")
        assert table(found.to_pylist()) == wanted
    for ask in (
        lambda: home.forward("pruned.lines", to="pruned.by_flag", rid=0),
        lambda: home.backward("pruned.by_kind", to="lines", rid=0),
        lambda: home.backward("pruned.by_kind", to="items", rid=0, count=True),
        lambda: home.query("FROM backward('pruned.by_kind', 'items', 'n > 0')"),
    ):
        with pytest.raises(
            QuestionError, match=r"was pruned in run .*(?s:.)*add this .*- \{name: \w+, (back|for)ward: "
        ):
            ask()
    counted = home.backward("pruned.by_kind", rid=0)
    assert counted.to_pylist() == [] and "pruned" in counted.notes[0]
    assert home.trace("pruned.by_flag", rid=0) is not None


def test_what_is_pruned_is_not_refused(everything):
    """A window cannot be captured by inject; where nobody asks for it, it need not be."""
    folder, home, _ = everything
    entry = {"name": "q", "backward": "by_flag", "to": "lines"}
    home.run(workflow(folder, [entry], "odd", odd=ODD), capture="inject")
    with pytest.raises(WorkflowError, match="step 'ranked' cannot be captured by inject"):
        home.run(workflow(folder, [{**entry, "backward": "ranked"}], "odd", odd=ODD), capture="inject")


def test_the_line_that_is_told_keeps_what_was_pruned(everything):
    folder, home, oracle = everything
    with pytest.raises(QuestionError) as caught:
        home.run(workflow(folder, [{"name": "details", "backward": "by_flag", "to": "lines"}], "told"))
        home.forward("told.items", to="told.by_kind", rid=3)
    line = str(caught.value).partition("run again:  ")[2]
    (added,) = YAML(typ="safe").load(line)  # what users paste
    home.run(workflow(folder, [{"name": "details", "backward": "by_flag", "to": "lines"}, added], "told"))
    wanted = table(oracle.rows("items", "by_kind", "_rid = 3", "forward"))
    assert table(home.forward("told.items", to="told.by_kind", rid=3).to_pylist()) == wanted


def test_a_declared_question_is_whole_or_refused_where_other_runs_lead_to_the_same_rows(everything):
    """What was joined was made from the same file by another workflow; windows are pruned as other steps are."""
    folder, home, _ = everything
    declared = [
        {"name": "w", "backward": "o", "to": "lines"},
        {"name": "air", "backward": "o", "to": "lines", "where": "mode = 'AIR'"},
        {"name": "places", "backward": "ranked", "to": "lines"},
    ]
    body = {"version": 1, "name": "mixed", "outputs": {"o": {}, "ranked": {}}, "lineage": {"workload": declared},
            "sources": {"lines": {"path": "lines.parquet"}, "flags": {"output": "all.by_flag"}},
            "steps": [{"name": "few", "op": "filter", "input": "lines", "where": "line < 2"},
                      {"name": "o", "op": "join", "left": "few", "right": "flags", "using": ["flag"]},
                      {"name": "ranked", "op": "window", "input": "o", "order_by": ["line"],
                       "measures": {"place": "row_number()"}}]}  # fmt: skip
    path = folder / "mixed.yml"
    path.write_text(json.dumps(body))
    home.run(path)
    lost = []
    for near in ("o", "ranked"):
        with pytest.raises(QuestionError, match=r"by way of mixed\.flags, was pruned in run") as caught:
            home.backward(f"mixed.{near}", to="mixed.lines", rid=0, rids=True)
        lost += YAML(typ="safe").load(str(caught.value).partition("run again:  ")[2])
    assert [(each["backward"], each["to"]) for each in lost] == [("o", "flags"), ("ranked", "flags")]
    for name in ("w", "places"):
        with pytest.raises(QuestionError, match="was pruned in run"):
            home.query(f"FROM workload('mixed.{name}', 'line = 0')")
    with pytest.raises(QuestionError, match="are reached over other runs too"):
        home.query("FROM workload('mixed.air', 'line = 0')")
    with pytest.raises(QuestionError, match="was pruned in run"):
        home.backward("mixed.o", to="mixed.lines", rid=0, semantics="how")
    path.write_text(json.dumps(body | {"lineage": {"workload": declared + lost}}))
    home.run(path)
    behind = home.backward("mixed.o", to="mixed.lines", where="line = 0", rids=True).to_pylist()
    assert [row["_rid"] for row in behind] == list(range(0, 240, 3))
    assert home.backward("mixed.ranked", to="mixed.lines", where="line = 0", rids=True).count() == 80


@pytest.mark.parametrize("capture", CAPTURES)
def test_pruning_keeps_less_and_the_same(everything, capture):
    folder, home, oracle = everything
    full = home.run(workflow(folder, [], "all"), capture=capture)
    one = home.run(workflow(folder, [{"name": "q", "forward": "lines", "to": "by_kind"}], "one"), capture=capture)
    assert one.capture["by_kind"]["lines"]["bytes"] <= full.capture["by_kind"]["lines"]["bytes"] / 2 + 600
    assert set(one.capture["by_flag"]) <= {"lines"}
    for rid in range(0, 240, 17):
        wanted = table(oracle.rows("lines", "by_kind", f"_rid = {rid}", "forward"))
        assert table(home.forward("one.lines", to="by_kind", rid=rid).to_pylist()) == wanted


# --- what is prepared -----------------------------------------------------------------------------------------------

WHERES = [
    "mode = 'AIR'",  # DuckDB may evaluate it
    "upper(mode) = 'AIR' OR flag IS NULL",  # only Spark may
    "weight > 1.0",
    "date_format(day, 'yyyy-MM') < '1996-03'",
    "few IS NULL",
]


@pytest.mark.parametrize("capture", CAPTURES)
def test_selected_rows_are_those_that_spark_selects(everything, capture):
    folder, home, oracle = everything
    workload = [
        {"name": f"{near}_{number}", "backward": near, "to": "lines", "where": where}
        for number, where in enumerate(WHERES)
        for near in ("by_flag", "by_kind", "kinds")
    ]
    home.run(workflow(folder, workload, "selected"), capture=capture)
    for question in workload:
        for start in ("_rid = 0", "_rid < 2", "n > 0"):
            sql = f"SELECT _rid FROM traced WHERE {question['where']}"
            wanted = oracle.ask(question["backward"], "lines", start, sql)
            found = home.query(f"SELECT _rid FROM workload('selected.{question['name']}', '{start}')")
            assert table(found.to_pylist()) == wanted, (question, start)


@pytest.mark.parametrize("capture", CAPTURES)
def test_rows_sorted_by_parameters_answer_without_the_source(everything, tmp_path, capture):
    _, _, oracle = everything
    workload = [
        {"name": "modes", "backward": "by_flag", "to": "lines", "parameters": ["mode", "few"]},
        {"name": "days", "backward": "kinds", "to": "lines", "parameters": ["day"], "columns": ["price"]},
        {"name": "odd", "backward": "by_flag", "to": "lines", "parameters": ["weight"], "where": "length(mode) > 3"},
        {"name": "ahead", "forward": "items", "to": "by_kind", "parameters": ["kind"]},
    ]
    with Home.open(tmp_path / "home") as home:
        home.run(workflow(tmp_path, workload, "rows"), capture=capture)
        (tmp_path / "lines.parquet").unlink()
        for start in ("_rid = 1", "n > 0"):
            for text in ("mode = 'it''s'", "mode > 'B' AND few BETWEEN 3 AND 9", "few IS NULL"):
                spark = text.replace("''", "\\'")
                wanted = oracle.ask(
                    "by_flag", "lines", start, f"SELECT _rid, line, mode, few, price FROM traced WHERE {spark}"
                )
                for table_ in (f"workload('modes', '{start}')", f"backward('by_flag', 'lines', '{start}')"):
                    found = home.query(f"SELECT _rid, line, mode, few, price FROM {table_} WHERE {text}")
                    assert table(found.to_pylist()) == wanted
            wanted = oracle.ask("kinds", "lines", start, "SELECT sum(price) AS p, day FROM traced GROUP BY day")
            for table_ in (f"workload('days', '{start}')", f"backward('kinds', 'lines', '{start}')"):
                found = home.query(f"SELECT sum(price) AS p, day FROM {table_} GROUP BY day")
                assert table(found.to_pylist()) == wanted
            wanted = oracle.ask("by_flag", "lines", start, "SELECT _rid, weight FROM traced WHERE length(mode) > 3")
            assert table(home.query(f"SELECT _rid, weight FROM workload('odd', '{start}')").to_pylist()) == wanted
        wanted = table(oracle.rows("items", "by_kind", "item < 3", "forward"))
        assert table(home.query("FROM workload('ahead', 'item < 3')").to_pylist()) == wanted
        for sql in (
            "SELECT line FROM backward('kinds', 'lines', '_rid = 0')",
            "SELECT count(*) AS n FROM forward('lines', 'by_flag', (FROM workload('modes', '_rid = 1')))",
        ):
            with pytest.raises(QuestionError, match="pruned"):
                home.query(sql)


MEASURES = {
    "n": "count(*)", "known": "count(few)", "total": "sum(price)", "least": "min(mode)", "most": "max(day)",
    "mean": "avg(price)", "whole": "sum(few)", "middle": "avg(few)", "kinds": "count(DISTINCT few)",
    "modes": "count(DISTINCT mode)", "scaled": "sum(price * 1.5)", "heavy": "max(weight)", "weights": "count(DISTINCT weight)",
}  # fmt: skip
BYS = [
    {"year": "year(day)", "month": "month(day)"},  # DuckDB may evaluate it
    {"weight": "weight"},
    {"text": "concat(mode, '-', coalesce(flag, '?'))"},
    {},
]


@pytest.mark.parametrize("capture", CAPTURES)
def test_groups_are_what_spark_makes_of_the_traced_rows(everything, capture):
    folder, home, oracle = everything
    workload = [
        {"name": f"{near}_{number}", "backward": near, "to": "lines", "by": by, "measures": MEASURES,
         **({"parameters": ["mode"]} if number == 0 else {}), **({"where": "line > 20"} if number == 1 else {})}
        for number, by in enumerate(BYS)
        for near in ("by_flag", "by_kind")
    ]  # fmt: skip
    home.run(workflow(folder, workload, "grouped"), capture=capture)
    for question in workload:
        keys = {**{name: name for name in question.get("parameters", ())}, **question["by"]}
        items_ = ", ".join(f"{text} AS {name}" for name, text in {**keys, **MEASURES}.items())
        grouped = f" GROUP BY {', '.join(keys.values())}" if keys else ""
        where = f" WHERE {question['where']}" if "where" in question else ""
        for start in ("_rid = 0", "n > 0"):
            wanted = oracle.ask(question["backward"], "lines", start, f"SELECT {items_} FROM traced{where}{grouped}")
            answer = home.query(f"FROM workload('grouped.{question['name']}', '{start}')")
            assert table(answer.to_pylist()) == wanted, (question["name"], start)
            kinds = {each.name: str(each.type) for each in answer.arrow().schema}
            assert kinds["total"] == "decimal128(19, 2)" and kinds["mean"] == "decimal128(13, 6)"
            assert kinds["whole"] == "int64" and kinds["middle"] == "double"


ORDINARY = [
    "SELECT year(day) AS y, month(day) AS m, sum(price), count(*), count(DISTINCT few) FROM {} GROUP BY ALL",
    "SELECT extract(year FROM day) AS y, max(day), min(mode) FROM {} WHERE mode = 'AIR' GROUP BY 1 HAVING count(*) > 1",
    "SELECT count(*), sum(few), count(few) FROM {}",
    "SELECT mode, sum(price) AS p FROM {} WHERE month(day) IN (1, 2, 3) GROUP BY mode ORDER BY p DESC LIMIT 2",
    "SELECT month(day) * 100 AS m, sum(price) + 1 AS p FROM {} x WHERE x.mode <> 'AIR' GROUP BY month(day) * 100",
]  # fmt: skip


def test_an_ordinary_question_of_the_same_shape_is_answered_from_groups(everything):
    folder, home, _ = everything
    keys = {"parameters": ["mode"], "by": {"year": "year(day)", "month": "month(day)"}, "measures": MEASURES}
    home.run(workflow(folder, [{"name": "cube", "backward": "by_flag", "to": "lines", **keys}], "cubed"))
    for sql in ORDINARY:
        for start in ("_rid = 0", "n > 0"):
            told = home.query(f"EXPLAIN {sql.format(f(chr(99), start))}").to_pylist()
            assert "prepared groups of 'cube'" in told[1]["text"], sql
            found = home.query(sql.format(f("cubed", start)))
            wanted = home.query(sql.format(f("all", start)))
            assert found.arrow().schema == wanted.arrow().schema, sql
            assert table(found.to_pylist()) == table(wanted.to_pylist()), sql
    # What is not of that shape needs rows, which were pruned.
    for sql in ("SELECT avg(price) FROM {}", "SELECT flag, count(*) FROM {} GROUP BY 1", "SELECT sum(weight) FROM {}",
                "SELECT year(day), count(*) FROM {} WHERE line > 3 GROUP BY 1", "SELECT day, count(*) FROM {} GROUP BY 1",
                "SELECT DISTINCT mode FROM {}", "SELECT count(*) FROM {} AS a, items"):  # fmt: skip
        with pytest.raises(QuestionError, match="pruned"):
            home.query(sql.format(f("cubed", "_rid = 0")))


SHAPES = [
    "SELECT mode, count(*) FROM {} GROUP BY ALL ORDER BY mode",
    "SELECT mode, count(*) FROM {} GROUP BY 1 HAVING mode > 'B' ORDER BY mode DESC",
    "SELECT year(day) AS y, count(*) FROM {} GROUP BY y ORDER BY year(day)",
    "SELECT few + 1 AS g, count(*) FROM {} GROUP BY 1 ORDER BY few + 1 LIMIT 2",
    "SELECT -few AS few, count(*) AS n FROM {} GROUP BY few ORDER BY few LIMIT 1",
    "SELECT count(*) AS few FROM {} GROUP BY mode HAVING few > 2 ORDER BY 1",
    "SELECT few, -few AS k1, count(*) FROM {} GROUP BY few ORDER BY few LIMIT 1",
    "SELECT few, -few AS rows_1_k1, count(*) FROM {} GROUP BY few ORDER BY few LIMIT 1",
    "SELECT year(day) * 10000000 AS y, count(*) FROM {} GROUP BY 1 ORDER BY 1",
    "SELECT max(day), min(day) FROM {} t WHERE t.mode <> 'AIR'",
    "SELECT t.mode, sum(t.few) FROM {} t GROUP BY t.mode ORDER BY 1",
    "SELECT CAST(weight AS VARCHAR) AS x, count(*) FROM {} GROUP BY ALL ORDER BY x",
    "SELECT s.mode AS m, count(*) FROM {} GROUP BY s.mode ORDER BY 1",
    "SELECT count(*) FROM {} WHERE s.mode = 'S1'",
    "SELECT count(*), sum(s.few) FROM {}",
    "SELECT ts, count(*) FROM {} GROUP BY ts ORDER BY ts LIMIT 2",
    "SELECT day(ts) AS d, count(*) FROM {} GROUP BY 1 ORDER BY 1 LIMIT 3",
    "SELECT t FROM {} t ORDER BY t.line LIMIT 2",
    "SELECT mode FROM {} AS t(r, line, mode) ORDER BY 1 LIMIT 3",
    "SELECT mode, count(*) FROM {} AS t(r, line, mode) GROUP BY mode ORDER BY 1",
]


def test_questions_that_only_look_like_prepared_ones(spark, tmp_path):
    """Groups or rows are prepared, and all pairs too: whatever is asked is answered as if nothing were prepared."""
    from datetime import UTC, datetime

    rows = lines().num_rows
    struct = pa.array([{"mode": f"S{i % 3}", "few": 1000 * i} for i in range(rows)])
    moments = pa.array(
        [datetime(1995, 1, i % 28 + 1, i % 24, tzinfo=UTC) for i in range(rows)], pa.timestamp("us", "UTC")
    )
    table_ = lines().append_column("s", struct).append_column("ts", moments)
    pq.write_table(table_, tmp_path / "lines.parquet")
    plain = {"name": "plain", "backward": "by_flag", "to": "lines"}
    measures = {"n": "count(*)", "t": "sum(few)", "x": "max(day)", "y": "min(day)", "sf": "sum(s.few)"}
    groups = {"parameters": ["mode", "few"], "by": {"y": "year(day)", "w": "weight"}, "measures": measures}
    moments_ = {
        "by": {"d": "to_date(ts)", "e": "day(ts)", "m": "s.mode"},
        "measures": {"n": "count(*)", "x": "max(to_date(ts))"},
    }
    workload = [plain, {**plain, "name": "cube", **groups}, {**plain, "name": "days", **moments_},
                {**plain, "name": "rows", "parameters": ["mode"], "columns": ["few"]}]  # fmt: skip
    with Home.open(tmp_path / "home") as home:
        home.run(workflow(tmp_path, [], "bare"))
        home.run(workflow(tmp_path, workload, "full"))
        for sql in SHAPES:
            for start in ("_rid = 0", "n > 0"):
                bare, full = (home.query(sql.format(f(name, start))) for name in ("bare", "full"))
                assert full.arrow().schema == bare.arrow().schema, sql
                assert [*map(repr, full.to_pylist())] == [*map(repr, bare.to_pylist())], sql


def test_expressions_whose_names_mislead(spark, tmp_path):
    """Columns called like functions, days in texts, averages with many digits, groups of no rows."""
    days = [date(1997, 9, i % 28 + 1) for i in range(30)]
    wide = pa.array([Decimal(i) / 8 + 1000 for i in range(30)], pa.decimal128(38, 18))
    big = pa.array([(-1) ** i * (2**62 + i) for i in range(30)], pa.int64())
    table_ = pa.table({"k": [i % 3 for i in range(30)], "day": days, "text": [f"{day} 10:00:00" for day in days],
                       "wide": wide, "big": big, "few": [i % 4 for i in range(30)]})  # fmt: skip
    pq.write_table(table_, tmp_path / "a.parquet")
    step = {"name": "t", "op": "aggregate", "input": "a", "by": ["k"], "measures": {"n": "count(*)"}}
    entry = {"backward": "t", "to": "a"}
    measures = {"first": "min(day)", "last": "max(day)", "n": "count(DISTINCT day)"}
    declared = {
        "days": {"by": ["few"], "measures": measures},
        "named": {"by": {"x": "day"}, "measures": {"n": "count(*)"}},
        "texts": {"by": {"d": "to_date(text)"}, "measures": {"n": "count(*)"}},
        "wide": {"by": [], "measures": {"m": "avg(wide)", "b": "avg(few)", "s": "sum(wide)"}},
        "none": {
            "by": [],
            "where": "few > 100",
            "measures": {"n": "count(*)", "t": "sum(few)", "d": "count(DISTINCT few)"},
        },
    }
    body = {"version": 1, "name": "flow", "sources": {"a": {"path": "a.parquet"}}, "steps": [step], "outputs": {"t": {}},
            "lineage": {"workload": [{"name": name, **entry, **each} for name, each in declared.items()]}}  # fmt: skip
    (tmp_path / "flow.yml").write_text(json.dumps(body))
    frame = spark.read.parquet(str(tmp_path / "a.parquet"))
    with Home.open(tmp_path / "home") as home:
        for engine in ("auto", "spark"):
            home.run(tmp_path / "flow.yml", index_engine=engine)
            for start, traced in (("k = 1", "k = 1"), ("n > 0", "true"), ("k = 77", "false")):
                for name, each in declared.items():
                    by = each["by"] if isinstance(each["by"], dict) else {key: key for key in each["by"]}
                    items_ = ", ".join(f"{text} AS {key}" for key, text in {**by, **each["measures"]}.items())
                    group = f" GROUP BY {', '.join(by.values())}" if by else ""
                    frame.where(traced).where(each.get("where", "true")).createOrReplaceTempView("traced")
                    wanted = [row.asDict() for row in spark.sql(f"SELECT {items_} FROM traced{group}").collect()]
                    found = home.query(f"FROM workload('{name}', '{start}')").to_pylist()
                    assert table(found) == table(wanted), (engine, start, name)


def f(workflow_: str, start: str) -> str:
    name = "cubed" if workflow_ == "c" else workflow_
    return f"backward('{name}.by_flag', 'lines', '{start}')"


def test_measures_of_rows_that_share_rows_do_not_add_up(everything):
    folder, home, oracle = everything
    declared = [{"name": "shared", "backward": "kinds", "to": "lines", "by": ["mode"], "measures": {"n": "count(*)"}},
                {"name": "least", "backward": "kinds", "to": "lines", "by": ["mode"], "measures": {"n": "min(line)"}}]  # fmt: skip
    home.run(workflow(folder, declared, "shared"))
    wanted = oracle.ask("kinds", "lines", "_rid = 1", "SELECT mode, count(*) FROM traced GROUP BY mode")
    assert table(home.query("FROM workload('shared', '_rid = 1')").to_pylist()) == wanted
    with pytest.raises(QuestionError, match="do not add up"):
        home.query("FROM workload('shared', '_rid < 3')")
    wanted = oracle.ask("kinds", "lines", "_rid < 3", "SELECT mode, min(line) FROM traced GROUP BY mode")
    assert table(home.query("FROM workload('least', '_rid < 3')").to_pylist()) == wanted


def test_what_cannot_be_prepared_costs_nothing_else(spark, tmp_path):
    """Sums past 38 digits, and lineage that is captured on demand only: the rest is there, and it is said."""
    big = pa.table({"k": [0, 0, 1], "v": pa.array([Decimal("9" * 38)] * 3, pa.decimal128(38, 0))})
    pq.write_table(big, tmp_path / "a.parquet")
    step = {"name": "t", "op": "aggregate", "input": "a", "by": ["k"], "measures": {"n": "count(*)"}}
    entry = {"name": "q", "backward": "t", "to": "a"}
    workload = [{**entry, "name": "plain"}, {**entry, "name": "sums", "by": ["k"], "measures": {"s": "sum(v)"}}]
    body = {"version": 1, "name": "flow", "sources": {"a": {"path": "a.parquet"}}, "steps": [step], "outputs": {"t": {}},
            "lineage": {"workload": workload}}  # fmt: skip
    (tmp_path / "flow.yml").write_text(json.dumps(body))
    for capture in ("auto", "lazy"):
        with Home.open(tmp_path / capture) as home:
            report = home.run(tmp_path / "flow.yml", capture=capture)
            assert [each for each in report.warnings if "nothing is prepared for 'sums'" in each]
            assert home.query("SELECT count(*) AS n FROM workload('plain', 'k = 0')").to_pylist() == [{"n": 2}]
            with pytest.raises(QuestionError, match="nothing is prepared for 'sums'"):
                home.query("FROM workload('sums', 'k = 0')")


def test_kept_steps_are_ends_of_declared_questions(everything):
    folder, home, oracle = everything
    declared = [
        {"name": "to_kept", "backward": "by_mode", "to": "priced", "where": "twice > 1"},
        {"name": "from_kept", "backward": "priced", "to": "lines"},
        {"name": "cube", "backward": "by_mode", "to": "priced", "by": ["flag"], "measures": {"t": "sum(twice)"}},
    ]
    home.run(workflow(folder, declared, "kept", keep=("priced",)))
    wanted = oracle.ask("by_mode", "lines", "_rid = 0", "SELECT _rid FROM traced WHERE price * 2 > 1")
    assert table(home.query("SELECT _rid FROM workload('to_kept', '_rid = 0')").to_pylist()) == wanted
    wanted = oracle.ask("by_mode", "lines", "_rid = 0", "SELECT flag, sum(price * 2) FROM traced GROUP BY flag")
    assert table(home.query("FROM workload('kept.cube', '_rid = 0')").to_pylist()) == wanted
    assert home.query("SELECT _rid FROM workload('from_kept', '_rid = 7')").to_pylist() == [{"_rid": 7}]


def test_spark_indexes_the_same(everything, tmp_path):
    _, _, oracle = everything
    declared = [
        {"name": "some", "backward": "by_kind", "to": "lines", "where": "mode = 'AIR'"},
        {"name": "rows", "backward": "by_flag", "to": "lines", "parameters": ["mode"]},
        {"name": "cube", "backward": "by_flag", "to": "lines", "by": ["mode"], "measures": MEASURES},
    ]
    with Home.open(tmp_path / "home") as home:
        home.run(workflow(tmp_path, declared, "flow"), index_engine="spark")
        wanted = oracle.ask("by_kind", "lines", "_rid = 0", "SELECT _rid FROM traced WHERE mode = 'AIR'")
        assert table(home.query("SELECT _rid FROM workload('some', '_rid = 0')").to_pylist()) == wanted
        wanted = oracle.ask("by_flag", "lines", "_rid = 0", "SELECT line, price FROM traced WHERE mode = 'AIR'")
        found = home.query("SELECT line, price FROM workload('rows', '_rid = 0') WHERE mode = 'AIR'")
        assert table(found.to_pylist()) == wanted
        items_ = ", ".join(f"{text} AS {name}" for name, text in {"mode": "mode", **MEASURES}.items())
        wanted = oracle.ask("by_flag", "lines", "n > 0", f"SELECT {items_} FROM traced GROUP BY mode")
        assert table(home.query("FROM workload('cube', 'n > 0')").to_pylist()) == wanted


# --- bad input ------------------------------------------------------------------------------------------------------

LINES = {"name": "q", "backward": "by_flag", "to": "lines"}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({**LINES, "where": "modee = 'x'"}, "did you mean 'mode'"),
        ({**LINES, "where": "rand() < 0.5"}, "another value when it is computed again"),
        ({**LINES, "where": "count(*) > 1"}, "aggregates and windows are not allowed"),
        ({**LINES, "parameters": ["modee"]}, "did you mean 'mode'"),
        ({**LINES, "columns": ["pric"]}, "did you mean 'price'"),
        ({**LINES, "by": ["mode"]}, "'by' needs 'measures'"),
        ({**LINES, "measures": {"x": "stddev(price)"}}, "cannot be prepared.*sum, count, min, max, avg"),
        ({**LINES, "measures": {"x": "sum(price) + 1"}}, "cannot be prepared"),
        ({**LINES, "measures": {"x": "price"}}, "is no aggregate"),
        ({**LINES, "by": {"x": "nosuch(mode)"}, "measures": {"n": "count(*)"}}, "nosuch"),
        ({**LINES, "measures": {"x": "sum(mode)"}}, "measure 'x' is over string, which cannot be prepared"),
        ({**LINES, "by": {"x": "array(mode)"}, "measures": {"n": "count(*)"}}, "'x' is array<string>"),
        ({**LINES, "measures": {"x": "max(map(mode, 1))"}}, "(?i)map"),
        ({**LINES, "to": ["lines", "items"], "where": "item = 1"}, "need one dataset in 'to'"),
        ({**LINES, "forward": "lines"}, "exactly one of"),
        ({"name": "q", "backward": "nope", "to": "lines"}, "'nope' is none"),
        ({"name": "q", "backward": "both", "to": "lines"}, "add 'both' to keep"),
        ({**LINES, "semantics": "why", "where": "item = 1"}, "stands without"),
        ({"name": "q", "backward": "by_flag", "to": "items"}, "'by_flag' and 'items' are not linked"),
        ({"name": "q", "backward": "unused", "to": "items"}, "by the absence of a match only"),
        ({"name": "q", "backward": "common", "to": "lines", "semantics": "why"}, "through intersect 'common'"),
        ({**LINES, "paramters": ["mode"]}, "did you mean 'parameters'"),
    ],
)
def test_a_bad_entry_is_told_before_the_run(spark, tmp_path, entry, told):
    with Home.open(tmp_path / "home") as home:
        with pytest.raises(WorkflowError, match=f"(?s){told}") as caught:
            home.run(workflow(tmp_path, [entry], odd=ODD))
        assert caught.value.problems[0].position is not None
        assert not home.layout.runs.exists() or not list(home.layout.runs.iterdir())


# --- witnesses ------------------------------------------------------------------------------------------------------

ORDERS = [
    {"name": "joined", "op": "join", "left": "customers", "right": "orders", "using": ["cid"]},
    {"name": "counted", "op": "aggregate", "input": "joined", "by": ["cname", "pname"], "measures": {"n": "count(*)"}},
    {"name": "names", "op": "aggregate", "input": "counted", "by": ["pname"], "measures": {"n": "sum(n)"}},
    {"name": "pairs", "op": "join", "left": "orders", "right": "orders", "on": "left.oid < right.oid",
     "how": "inner"},
    {"name": "twice", "op": "project", "input": "same", "columns": ["cid"]},
    {"name": "same", "op": "union", "inputs": ["left_ones", "right_ones"]},
    {"name": "left_ones", "op": "project", "input": "customers", "columns": ["cid"]},
    {"name": "right_ones", "op": "project", "input": "orders", "columns": ["cid"]},
    {"name": "cids", "op": "distinct", "input": "twice"},
    {"name": "common", "op": "intersect", "left": "left_ones", "right": "right_ones"},
    {"name": "beside", "op": "window", "input": "joined", "partition_by": ["pname"], "measures": {"n": "count(*)"}},
]  # fmt: skip


@pytest.mark.parametrize("capture", CAPTURES)
def test_witnesses_are_the_rows_that_belong_together(spark, tmp_path, capture):
    """The example of the paper: (2, Bob, iPhone) has the witnesses (a1, b1) and (a1, b2)."""
    pq.write_table(pa.table({"cid": [1, 2], "cname": ["Bob", "Alice"]}), tmp_path / "customers.parquet")
    bought = {"oid": [1, 2, 3], "cid": [1, 1, 2], "pname": ["iPhone", "iPhone", "XBox"]}
    pq.write_table(pa.table(bought), tmp_path / "orders.parquet")
    steps = [each for each in ORDERS if each["name"] != "pairs"]
    both = ["customers", "orders"]
    workload = [
        {"name": f"why_{name}", "backward": name, "to": both, "semantics": "why"}
        for name in ("counted", "names", "cids", "common", "beside")
    ]
    body = {"version": 1, "name": "shop", "sources": {name: {"path": f"{name}.parquet"} for name in both}, "steps": steps,
            "outputs": {each["backward"]: {} for each in workload}, "lineage": {"workload": workload}}  # fmt: skip
    (tmp_path / "shop.yml").write_text(json.dumps(body))
    with Home.open(tmp_path / "home") as home:
        with where_sound():
            home.run(tmp_path / "shop.yml", capture=capture)

        def why(question: str, start: str) -> set[tuple]:
            rows = home.query(f"SELECT customers, orders FROM workload('{question}', '{start}')").to_pylist()
            return {tuple(row.values()) for row in rows}

        assert why("why_counted", "cname = ''Bob''") == {(0, 0), (0, 1)}
        assert why("why_counted", "cname = ''Alice''") == {(1, 2)}
        assert why("why_names", "pname = ''iPhone''") == {(0, 0), (0, 1)}
        assert why("why_cids", "cid = 1") == {(0, None), (None, 0), (None, 1)}
        assert why("why_common", "cid = 1") == {(0, 0), (0, 1)}
        assert why("why_beside", "oid = 2") == {(0, 1)}  # the row itself; its peers were no part of making it
        for output, start, ways in (("names", {"pname": "iPhone"}, "customers[0]·(orders[0] + orders[1])"),
                                    ("common", {"cid": 2}, "customers[1]·orders[2]")):  # fmt: skip
            found = home.backward(output, key=start, semantics="how", to=both).to_pylist()
            assert [row["how"] for row in found] == [ways]
        with pytest.raises(QuestionError, match="pruned"):
            home.backward("counted", to="customers", rid=0)
