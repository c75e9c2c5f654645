"""Data frames as plans, and what is refused with its reason and line, as golden text.

SMOKE_GOLDEN=1 writes the files anew.
"""

import os
import warnings

import pytest
from pyspark.sql.types import BooleanType, DoubleType, IntegerType

from lineage_service.errors import Position
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.relation_compiler import compile_relation
from lineage_service.plan.from_connect.source_references import source_reference
from lineage_service.plan.from_connect.untraceable import Untraceable
from tests.plan.from_sql.plan_printing import printed
from tests.support.connect_frames import (
    compiled,
    message_of,
    session_without_server,
    source,
    sql_frame,
    with_tables_as_sources,
)
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "plan" / "from_connect" / "golden"
SESSION = session_without_server()
SOURCES = {
    "orders": source("orders", id="int", customer="int", amount="double", tags="array<string>", day="date"),
    "customers": source("customers", id="int", name="string", city="struct<name:string,zip:string>"),
}


def frames():
    from pyspark.sql.connect import functions as F  # noqa: N812 (Spark's own convention)
    from pyspark.sql.connect.window import Window

    o, c = SESSION.table("orders"), SESSION.table("customers")
    by_customer = Window.partitionBy("customer").orderBy(F.desc("day"))
    yield "filter_and_group", o.where((o.amount > 0) & o.day.isNotNull()).groupBy("customer").agg(F.sum("amount").alias("total"))  # fmt: skip
    yield "latest_per_customer", o.withColumn("n", F.row_number().over(by_customer)).where("n = 1").drop("n")
    yield "join_by_names", o.withColumnRenamed("customer", "id2").join(c, "id", "left").select("id", c.id.alias("c"), "city.name")  # fmt: skip
    yield "frame_with_itself", o.alias("a").join(o.alias("b"), F.expr("a.id = b.id + 1 OR a.id < 0")).select("a.id", F.col("b.day"))  # fmt: skip
    yield "udf", o.where(F.udf(lambda x: x > 1, BooleanType())("id") & (o.amount > 1)).select(F.udf(lambda x: x, IntegerType())("id").alias("u"))  # fmt: skip
    yield "texts", o.selectExpr("id + 1 as x", "amount").select((F.expr("x + amount") * 2).alias("y"), F.expr("x > 1 or x < 0") & F.lit(True))  # fmt: skip
    yield "duplicates", o.dropDuplicates(["customer"]).select("customer", "day")
    yield "as_of", o._joinAsOf(c.withColumnRenamed("id", "cid"), o.id, F.col("cid")).select("amount", "name")
    yield "subqueries", o.where(~c.where(F.col("id") == F.col("customer").outer()).exists()).where(o.amount > o.agg(F.avg("amount")).scalar())  # fmt: skip
    yield "sql", sql_frame(SESSION, "SELECT customer, :n AS n FROM orders WHERE amount > :n", {"n": 3})
    yield "rollup", o.rollup("customer", "day").agg(F.sum("amount").alias("s"), F.grouping_id().alias("g"))
    yield "nulls", o.fillna(0).dropna(subset=["day"]).select("id", "amount")


FRAMES = dict(frames())


@pytest.mark.parametrize("name", FRAMES)
def test_plan(name):
    names = ["y", "z"] if name == "texts" else None
    text = printed(compiled(FRAMES[name], SOURCES, names=names)) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("SMOKE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def refused():
    from pyspark.sql.connect import functions as F  # noqa: N812
    from pyspark.sql.connect.udf import _create_udf

    o, c = SESSION.table("orders"), SESSION.table("customers")
    total = _create_udf(lambda s: s.sum(), DoubleType(), 202)
    yield o.select(c.name), "column 'name' is of another data frame, which is not part of this one"
    yield o.withColumn("id", o.id + 1).select(o.id), "column 'id' of another data frame is no longer part of this one"
    yield o.join(o.withColumn("x", o.id), o.id == F.col("x")).select(o.id), "column 'id' is ambiguous: its data frame is there several times"  # fmt: skip
    yield o.select("ammount"), "unknown column 'ammount'; columns here: id, customer, amount, tags, day; did you mean 'amount'?"  # fmt: skip
    yield o.join(c, o.customer == c.id), "two columns are called 'id'"
    yield (
        o.select(F.transform("tags", lambda each: each + 1)),
        "the name that Spark gives column 1 is not known here: use alias(…)",
    )
    yield o.groupBy("customer").agg(total("amount").alias("t")), "<lambda>() is a user-defined function over groups of rows: which rows a value comes from is not known"  # fmt: skip
    yield o.sample(0.5), "sample() draws rows by how they are stored"
    yield o.select(F.call_udf("mine", "id")), "unknown function 'mine'; did you mean 'min'?"
    yield SESSION.range(3), "the relation reads data (range) that is no source of the workflow"
    yield sql_frame(SESSION, "SELECT * FROM missing"), "a text of SQL reads 'missing', and it is not known what that is; known: customers, orders"  # fmt: skip
    yield sql_frame(SESSION, "DROP TABLE orders"), None


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the version of pandas
    REFUSED = list(refused())


@pytest.mark.parametrize(("frame", "reason"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_reasons(frame, reason):
    with pytest.raises(Untraceable) as caught:
        compiled(frame, SOURCES)
    assert caught.value.reason == reason or reason is None


@pytest.mark.parametrize("kind", ["map_partitions", "group_map", "co_group_map"])
def test_functions_over_partitions_and_groups(kind):
    with pytest.raises(Untraceable, match="a Python function over whole"):
        compile_relation(Message("Relation", {kind: Message("Any")}), "out", None, SOURCES)


def test_a_refusal_names_the_line_of_the_program():
    frame = SESSION.table("orders").select("id").select("day")
    message = with_tables_as_sources(message_of(frame))
    plan_id = message.message("common").number("plan_id")
    with pytest.raises(Untraceable) as caught:
        compile_relation(message, "out", None, SOURCES, {plan_id: ("job.py", 7)})
    position = caught.value.position
    assert position is not None
    assert (position.file, position.line) in {("job.py", 7), (__file__, position.line)}


def test_positions_of_nodes_are_lines_of_the_program():
    frame = SESSION.table("orders").where("amount > 1")
    message = with_tables_as_sources(message_of(frame))
    plan_id = message.message("common").number("plan_id")
    node = compile_relation(message, "out", Position("job.py", 1, 1), SOURCES, {plan_id: ("job.py", 7)})
    assert node.position == Position("job.py", 1, 1)
    assert node.inputs[0].position == Position("job.py", 7, 1)


def test_names_and_types_that_the_caller_knows():
    from pyspark.sql.connect import functions as F  # noqa: N812

    below = SESSION.table("orders").select(F.reverse("tags"), F.expr("amount / 2"))
    frame = below.fillna(0.0)
    schemas = {message_of(below).message("common").number("plan_id"): [("r", "array<string>"), ("h", "double")]}
    node = compile_relation(with_tables_as_sources(message_of(frame)), "out", None, SOURCES, None, None, schemas)
    assert node.schema.names == ("r", "h")
    assert "coalesce(nanvl(" in printed(node)


def test_a_stored_relation_stands_for_a_view():
    view = Message("Relation", {"filter": Message("Filter", {})})
    with pytest.raises(Untraceable, match="no input"):
        compile_relation(source_reference("v"), "out", None, {**SOURCES, "v": view})
    stored = with_tables_as_sources(message_of(SESSION.table("orders").where("id > 3").select("id")))
    node = compile_relation(source_reference("v", ("v",)), "out", None, {**SOURCES, "v": stored})
    assert node.schema.names == ("id",)


def test_loops_make_few_nodes():
    from pyspark.sql.connect import functions as F  # noqa: N812

    frame = SESSION.table("orders")
    for number in range(200):
        frame = frame.withColumn(f"x{number}", F.col("amount") + number)
    assert len(printed(compiled(frame, SOURCES)).splitlines()) == 4
