"""Mistakes that `validate` catches, each with what to write instead; and Spark refuses the same, in both modes of its
type coercion: nothing is refused that it would accept."""

import json
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service.errors import WorkflowError
from lineage_service.plan.arities import ARITIES, accepts_argument_count
from lineage_service.plan.expressions import Expression, ExpressionError
from lineage_service.runs.workflow_file import validate_workflow
from lineage_service.spec.loader import load_workflow
from lineage_service.store.formats.parquet_format import file_type

COLUMNS = {"t": "string", "i": "int", "d": "double", "b": "boolean", "day": "date", "arr": "array<int>",
           "st": "struct<a:int>", "m": "map<string,int>", "dec": "decimal(10,2)", "ts": "timestamp", "bin": "binary",
           "deep": "struct<xs:array<struct<q:string>>,inner:struct<k:int,`odd name`:map<string,int>>>"}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("hints")
    schema = pa.schema({"t": pa.string(), "i": pa.int32(), "d": pa.float64(), "b": pa.bool_(), "day": pa.date32(),
                        "dec": pa.decimal128(10, 2), "st": pa.struct({"a": pa.int32()}), "arr": pa.list_(pa.int32()),
                        "m": pa.map_(pa.string(), pa.int32()), "ts": pa.timestamp("us", "UTC"), "bin": pa.binary(),
                        "deep": pa.struct({
                            "xs": pa.list_(pa.struct({"q": pa.string()})),
                            "inner": pa.struct({"k": pa.int32(), "odd name": pa.map_(pa.string(), pa.int32())}),
                        })})  # fmt: skip
    pq.write_table(schema.empty_table(), made / "s.parquet")
    pq.write_table(pa.schema({"id": pa.int64(), "i": pa.int32()}).empty_table(), made / "r.parquet")
    (made / "typed.csv").write_text("", encoding="utf-8")
    return made


def told(folder: Path, *steps: dict, variables: str = "") -> list[str]:
    """What validate says of steps, the last one called x, over the sources `s` (all types), `p` (Parquet) and `r`."""
    ddl = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    sources = {"s": {"path": "typed.csv", "schema": ddl}, "p": {"path": "s.parquet"}, "r": {"path": "r.parquet"}}
    lines = ["version: 1", "name: w", variables, f"sources: {json.dumps(sources)}", "steps:",
             *(f"  - {json.dumps({'name': 'x', **step})}" for step in steps), "outputs: {x: }", ""]  # fmt: skip
    file = folder / "w.yml"
    file.write_text("\n".join(lines), encoding="utf-8")
    try:
        found = validate_workflow(file, home=folder / "home")
    except WorkflowError as error:
        found = error.problems
    return [str(problem) for problem in found if "no step reads source" not in problem.message]


# --- words of other tools -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ({"op": "aggregate", "input": "s", "group_by": ["t"], "measures": {"n": "count(*)"}}, "here it is `by`"),
        ({"op": "aggregate", "input": "s", "by": ["t"], "aggs": {"n": "count(*)"}}, "here it is `measures`"),
        ({"op": "aggregate", "input": "s", "by": ["t"], "measures": {"n": "count(*)"}, "where": "i > 1"}, "`having`"),
        ({"op": "aggregate", "input": "s", "by": ["t"], "measures": {"n": "count(*)"}, "frame": "ROWS"}, "op: window"),
        ({"op": "project", "input": "s", "select": ["t"]}, "here it is `columns`"),
        ({"op": "filter", "source": "s", "where": "i > 1"}, "here it is `input`"),
        ({"op": "filter", "from": "s", "where": "i > 1"}, "here it is `input`"),
        ({"op": "filter", "table": "s", "where": "i > 1"}, "here it is `input`"),
        ({"op": "filter", "input": "s", "condition": "i > 1"}, "here it is `where`"),
        ({"op": "sort", "input": "s", "order": ["i"]}, "here it is `by`"),
        ({"op": "sort", "input": "s", "by": ["i"], "descending": True}, "x desc"),
        ({"op": "limit", "input": "s", "limit": 3}, "here it is `n`"),
        (
            {"op": "window", "input": "s", "order_by": ["i"], "measures": {"m": "sum(i)"}, "rows": "2"},
            "here it is `frame`",
        ),
        ({"op": "window", "input": "s", "by": ["t"], "measures": {"m": "sum(i)"}}, "here it is `partition_by`"),
        ({"op": "join", "left": "s", "right": "r", "condition": "id = d"}, "here it is `on`"),
        ({"op": "join", "left": "s", "right": "r", "on": "id = d", "type": "left"}, "here it is `how`"),
        ({"op": "join", "left": "s", "right": "r", "left_on": "d", "right_on": "id"}, "left.a = right.b"),
        ({"op": "join", "left": "s", "right": "r", "on": "id = d", "how": "outer"}, "here it is `full`"),
        ({"op": "union", "left": "s", "right": "r"}, "`inputs` lists the steps"),
        ({"op": "explode", "input": "s", "column": "arr", "alias": "e"}, "here it is `as`"),
        ({"op": "select", "input": "s", "columns": ["t"]}, "here it is `project`"),
        ({"op": "group_by", "input": "s", "by": ["t"]}, "here it is `aggregate`"),
        ({"op": "left_join", "left": "s", "right": "r", "on": "id = d"}, "`how: left`"),
        ({"type": "filter", "input": "s", "where": "i > 1"}, "here it is `op`"),
        ({"op": "filter", "input": "s", "where": "i > 1", "tests": []}, "here it is `checks`"),
        ({"op": "filter", "input": "s", "wher": "i > 1"}, "did you mean 'where'"),
    ],
)
def test_words_of_other_tools_get_a_hint(folder, step, hint):
    found = told(folder, step)
    assert any(hint in text for text in found), found


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("sources: {s: {file: s.parquet}}", "here it is `path`"),
        ("sources: {s: {path: s.csv, header: true}}", "under `options`: {header"),
        ("sources: {s: {path: s.csv, type: csv}}", "here it is `format`"),
        ("outputs: {x: {location: out}}", "here it is `path`"),
        ("outputs: {x: {from: x}}", "here it is `step`"),
        ("variables: {a: 1}", "here it is `vars`"),
        ("outputs: {x: {checks: [{notnull: a}]}}", "here it is `not_null`"),
    ],
)
def test_words_of_other_tools_outside_steps(tmp_path, text, hint):
    rest = {"sources": "sources: {s: {path: s.parquet}}", "outputs": "outputs: {x: }"}
    lines = [line for key, line in rest.items() if not text.startswith(key)]
    file = tmp_path / "w.yml"
    steps = "steps: [{name: x, op: distinct, input: s}]"
    file.write_text("\n".join(["version: 1", "name: w", steps, text, *lines, ""]), encoding="utf-8")
    found = [str(problem) for problem in load_workflow(file).problems]
    assert any(hint in each for each in found), found


# --- expressions: refused here and by Spark -------------------------------------------------------------------------

REFUSED = {
    "filter": [("sum(i) > 1", "aggregate"), ("row_number() > 1", "window"), ("round() > 1", "1 or 2 arguments"),
               ("upper(t, t) = 'A'", "takes 1 argument, not 2"), ("p.i > 1", "without the name of their step: i"),
               ("t", "compare it"), ("i", "needs a condition"), ("t.a = 1", "has no fields"), ("i.x > 1", "has no fields"),
               ("size(t) > 1", "split(t"), ("array_contains(t, 'a')", "an array"), ("abs(b) > 1", "numbers"),
               ("substring(t) = 'a'", "2 or 3 arguments"), ("coalesce() = 1", "argument"), ("sqrt(day) > 1", "numbers"),
               ("length(arr) > 1", "size(arr)"), ("upper(st) = 'A'", "takes text"), ("map_keys(arr) is null", "a map"),
               ("ts", "needs a condition"), ("bin", "needs a condition"), ("st.q > 1", "its fields: a"),
               ("deep.inner.kk > 1", "did you mean 'k'"), ("deep.inner.k.x > 1", "field 'k' is int and has no fields")],
    "aggregate": [("sum(i, d)", "sum(i + d)"), ("avg()", "takes 1 argument, not none"), ("max(i, d)", "greatest()"),
                  ("sum(b)", "count_if(b)"), ("sum(day)", "numbers"), ("avg(arr)", "numbers"), ("count_if(i)", "i > 0"),
                  ("stddev(st)", "numbers"), ("sum(distinct m)", "numbers"), ("1 + sum(b)", "count_if")],
    "window": [("row_number()", "order_by"), ("rank()", "order_by"), ("lag(i)", "order_by"), ("ntile(4)", "order_by"),
               ("cume_dist()", "order_by"), ("nth_value(t, 2)", "order_by"), ("sum(b)", "count_if")],
    "explode": [("t", "split(t"), ("i", "an array or a map"), ("st", "an array or a map"), ("day", "an array or a map"),
                ("ts", "an array or a map"), ("bin", "an array or a map"), ("deep", "`xs: deep.xs`"), ("b", "a map"),
                ("d", "a map"), ("dec", "a map")],
}  # fmt: skip
STEPS = {
    "filter": lambda text: {"op": "filter", "input": "s", "where": text},
    "aggregate": lambda text: {"op": "aggregate", "input": "s", "by": ["i"], "measures": {"v": text}},
    "window": lambda text: {"op": "window", "input": "s", "partition_by": ["t"], "measures": {"v": text}},
    "explode": lambda text: {"op": "explode", "input": "s", "column": text},
}


@pytest.fixture(scope="module")
def frames(spark):
    ddl = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return spark.createDataFrame([], ddl)


def spark_accepts(frame, op: str, text: str) -> bool:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

    from lineage_service.plan.window_calls import add_over_clauses

    try:
        match op:
            case "filter":
                made = frame.filter(F.expr(text))
            case "aggregate":
                made = frame.groupBy("i").agg(F.expr(text).alias("v"))
            case "window":
                try:
                    text = add_over_clauses(Expression(text), "PARTITION BY t")
                except ExpressionError:
                    return False
                made = frame.withColumn("v", F.expr(text))
            case _:
                made = frame.select(F.explode(F.col(text)))
        _ = made.schema
    except PySparkException:
        return False
    return True


@pytest.mark.parametrize(("op", "text", "said"), [(op, *case) for op, cases in REFUSED.items() for case in cases])
def test_what_is_refused_spark_refuses_too(spark, frames, folder, op, text, said):
    found = told(folder, STEPS[op](text))
    assert found and "warning" not in found[0] and any(said in each for each in found), found
    for ansi in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            assert not spark_accepts(frames, op, text), f"Spark accepts it with ANSI {ansi}"
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")


ACCEPTED = {
    "filter": ["b", "t > 1", "t + 1 > 2", "upper(i) = '1'", "st.a > 1", "m.a > 1", "arr[0] > 1", "i in (1, 2, 3)",
               "cast(d as decimal(10, 2)) > 1", "date_add(DAY, 1, day) > day", "trim(both 'x' from t) = 'a'",
               "extract(year from day) > 1", "substring(t from 2 for 3) = 'a'", "i div (i + 1) > 0", "position('a' in t) > 0",
               "exists(arr, x -> x > i)", "t like ('a%')", "t rlike ('a')", "concat(t, t, t) = ''", "abs(t) > 1",
               "aggregate(arr, 0, (a, x) -> a + x) > 1", "overlay(t placing 'a' from 1) = ''", "nvl2(t, i, i) > 1",
               "round(d, 1) > 1", "case when b then i end > 1", "struct(i, d).i > 1", "not (b)", "size(m) > 1",
               "timestampdiff(DAY, day, day) > 1", "t::decimal(10, 2) > 1", "filter(arr, t -> t > 1)[0] > 1",
               "transform(arr, t -> abs(t))[0] > 1", "to_char(dec, '999.99') = ''", "mask(t, 'X') = ''", "length(i) > 0",
               "deep.xs.q is null", "deep.inner.`odd name`.k > 1", "DEEP.INNER.K > 1", "deep.xs[0].q = 'a'"],
    "aggregate": ["sum(t)", "avg(t)", "sum(distinct i)", "count(distinct t, i)", "count(*)", "count(t, i)", "max(arr)",
                  "max_by(t, i)", "percentile_cont(0.5) within group (order by d)", "sum(i) filter (where d > 1)",
                  "first(t, true)", "any_value(t)", "mode() within group (order by t)", "listagg(t, ',')", "count_if(b)",
                  "bool_and(b)", "approx_percentile(d, array(0.1, 0.5))", "median(d)", "collect_list(st)"],
    "window": ["sum(i)", "first_value(t)", "count(*)", "avg(dec)"],
    "explode": ["arr", "m"],
}  # fmt: skip


@pytest.mark.parametrize(("op", "text"), [(op, text) for op, texts in ACCEPTED.items() for text in texts])
def test_what_spark_accepts_is_not_refused(spark, frames, folder, op, text):
    assert spark_accepts(frames, op, text), "or the case is of no use"
    refused = [each for each in told(folder, STEPS[op](text)) if "warning" not in each]
    assert not refused


PARQUET_REFUSED = [(op, *case) for op, cases in REFUSED.items() for case in cases if op != "window"]
PARQUET_ACCEPTED = [(op, text) for op, texts in ACCEPTED.items() for text in texts]


@pytest.mark.parametrize(("op", "text", "said"), PARQUET_REFUSED)
def test_types_of_a_parquet_file_are_checked_like_declared_ones(folder, op, text, said):
    found = told(folder, {**STEPS[op](text), "input": "p"})
    assert found and "warning" not in found[0] and any(said in each for each in found), found


@pytest.mark.parametrize(("op", "text"), PARQUET_ACCEPTED)
def test_what_is_accepted_of_declared_types_is_accepted_of_a_parquet_file(folder, op, text):
    assert not [each for each in told(folder, {**STEPS[op](text), "input": "p"}) if "warning" not in each]


def test_spark_reads_the_types_that_are_told_of_a_parquet_file(spark, tmp_path):
    kinds = {
        "st": pa.struct({"a": pa.int32(), "Odd name": pa.list_(pa.date32())}), "ls": pa.large_list(pa.string()),
        "fl": pa.list_(pa.int16(), 2), "m": pa.map_(pa.string(), pa.struct({"x": pa.float64()})),
        "ts": pa.timestamp("us", "UTC"), "ntz": pa.timestamp("ms"), "dic": pa.dictionary(pa.int32(), pa.string()),
        "fsb": pa.binary(4), "u1": pa.uint8(), "u2": pa.uint16(), "u4": pa.uint32(), "u8": pa.uint64(),
        "dec": pa.decimal128(9, 2), "b": pa.bool_(),
    }  # fmt: skip
    pq.write_table(pa.schema(kinds).empty_table(), tmp_path / "kinds.parquet")
    read = {name.lower(): kind for name, kind in spark.read.parquet(str(tmp_path / "kinds.parquet")).dtypes}
    assert {name: file_type(kind).replace("`", "") for name, kind in kinds.items()} == read


@pytest.mark.parametrize(
    ("first", "column"),
    [
        ({"op": "with_columns", "columns": {"y": "deep.inner"}}, "y"),
        ({"op": "project", "columns": {"y": "deep.inner.k"}}, "y"),
        ({"op": "explode", "column": "arr", "as": "y"}, "y"),
    ],
)
def test_types_are_followed_through_fields_and_elements(folder, first, column):
    steps = [{"name": "before", "input": "p", **first}, {"op": "explode", "input": "before", "column": column}]
    assert any("explode takes an array or a map" in each for each in told(folder, *steps))


def test_a_field_is_made_a_column_before_it_is_exploded(folder):
    (found,) = told(folder, {"op": "explode", "input": "p", "column": "deep.xs"})
    assert "`xs: deep.xs`" in found
    made = {"name": "before", "op": "with_columns", "input": "p", "columns": {"xs": "deep.xs"}}
    assert not told(folder, made, {"op": "explode", "input": "before", "column": "xs"})


@pytest.mark.slow
def test_every_count_of_arguments_that_is_refused_spark_refuses(spark):
    """For each function one more than the most that it takes, and one less than the least."""
    from pyspark.errors import PySparkException

    frame, wrong = spark.range(1), []
    for name, (counts, onwards) in ARITIES.items():
        tried = [min(chain(counts, [onwards] if onwards is not None else [])) - 1]
        tried += [max(counts) + 1] if onwards is None else []
        for count in (each for each in tried if each >= 0 and not accepts_argument_count(name, each)):
            try:
                _ = frame.selectExpr(f"{name}({', '.join(['id'] * count)}) AS x").schema
                wrong.append((name, count))
            except PySparkException as error:
                if "WRONG_NUM_ARGS" not in str(error):
                    wrong.append((name, count))
    assert wrong == []


# --- joins, sums of text, what nobody uses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "hint"),
    [
        ("s.d = r.id", "write left.d, or d alone"),
        ("d = r.id", "write right.id, or id alone"),
        ("s.i = r.i", "write left.i"),
        ("orders.id = d", "write right.id, or id alone"),
        ("i = d", "write left.i or right.i"),
        ("left.nope = right.id", "columns here"),
    ],
)
def test_the_sides_of_a_join(spark, folder, on, hint):
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

    found = told(folder, {"op": "join", "left": "s", "right": "r", "on": on})
    assert any(hint in each for each in found), found
    one = spark.createDataFrame([], "i int, d double").alias("left")
    other = spark.createDataFrame([], "id bigint, i int").alias("right")
    with pytest.raises(PySparkException):
        _ = one.join(other, F.expr(on)).schema


def test_a_side_behind_the_join_is_told(folder):
    assert any("without the name of their step: t" in each for each in told(folder, STEPS["filter"]("left.t = 'a'")))


@pytest.mark.parametrize("text", ["sum(t)", "avg(t)", "stddev(t)", "1 + sum(distinct t)"])
def test_a_sum_of_text_is_a_warning_that_says_what_to_write(folder, text):
    (found,) = told(folder, STEPS["aggregate"](text))
    assert "warning" in found and "over text" in found and "cast(t as decimal(18, 2))" in found


def test_having_compares_measures_by_name(folder):
    step = {"op": "aggregate", "input": "s", "by": ["t"], "measures": {"n": "count(*)"}, "having": "count(*) > 1"}
    (found,) = told(folder, step)
    assert "add it to `measures`" in found


def test_unread_sources_and_unused_variables_are_warnings(tmp_path):
    text = """
        version: 1
        name: w
        vars: {used: 1, unused: 2, "in_a_path": s}
        sources: {s: {path: "${in_a_path}.parquet"}, unread: {path: other.parquet}}
        steps: [{name: x, op: filter, input: s, where: "i > ${used}"}]
        outputs: {x: }
    """
    file = tmp_path / "w.yml"
    file.write_text("\n".join(line.strip() for line in text.strip().splitlines()), encoding="utf-8")
    found = load_workflow(file).problems
    assert [(each.severity, each.message) for each in found] == [
        ("warning", "nothing uses variable 'unused'"),
        ("warning", "no step reads source 'unread'"),
    ]


@pytest.mark.parametrize(
    ("text", "letter"),
    [("date_format(day, 'YYYY-MM')", "Y"), ("to_date(t, 'yyyy ww')", "w"), ("date_format(day, 'u')", "u"),
     ("date_format(day, 'yyyy-MM-dd')", None), ("date_format(day, 'E D')", None), ("concat(t, 'YYYY')", None)],
)  # fmt: skip
def test_patterns_that_count_weeks_are_warned_of(folder, text, letter):
    steps = [{"name": "x", "op": "project", "input": "s", "columns": {"y": text}}]
    content = {"version": 1, "name": "w", "sources": {"s": {"path": "s.parquet"}}, "steps": steps, "outputs": {"x": {}}}
    (folder / "weeks.yml").write_text(json.dumps(content), encoding="utf-8")
    warnings = "".join(map(str, validate_workflow(folder / "weeks.yml")))
    assert (f"has the letter '{letter}'" in warnings) == (letter is not None), warnings
    assert ("write 'yyyy'" in warnings) == (letter == "Y")
