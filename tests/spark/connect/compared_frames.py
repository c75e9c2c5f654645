"""Data frames, each computed by Spark as the program has it and by its compiled plan: one Connect session for all.

A program of its own, because a process has one kind of session. Prints what differs, as JSON: {name: difference}.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.connect_frames import difference, source

Frames = Iterator[tuple[str, Callable[[], Any]]]
TABLES = {
    "t": (
        "a int, b string, c double, arr array<int>, d date",
        [
            (1, "a", 1.5, [1, 2], datetime.date(2024, 1, 1)),
            (1, "b", None, [], None),
            (2, "a", 2.5, None, datetime.date(2024, 2, 1)),
            (None, None, 3.0, [3], datetime.date(2023, 1, 1)),
            (3, "c", -1.0, [4, 4], None),
        ],
    ),
    "u": ("a int, x string", [(1, "x"), (1, "y"), (2, "z"), (5, "q"), (None, "n")]),
    "n": (
        "id int, st struct<f:int,g:string>, m map<string,int>, rows array<struct<n:int,w:string>>",
        [(1, (10, "p"), {"k": 1, "l": 2}, [(1, "i"), (2, "j")]), (2, None, None, None)],
    ),
    "l": ("id int, t int, k string", [(1, 1, "a"), (2, 5, "b"), (3, 10, "a"), (4, 5, "b"), (5, None, "a")]),
    "r": ("t int, v string, k string", [(1, "x", "a"), (2, "y", "a"), (6, "z", "b"), (7, "w", "a"), (4, "v", "b")]),
}


def names_and_functions(t: Any, u: Any, n: Any, F: Any) -> Frames:  # noqa: N803
    yield "names", lambda: t.select("a", F.col("a") + 1, t.c * 2, F.lit(1), F.upper("b"), F.col("c").cast("string"))
    yield "names of measures", lambda: t.select(F.sum("a"), F.avg("c"), F.countDistinct("b"), F.max("d"), F.count("*"))
    yield "spelling", lambda: t.select("A", F.when(F.col("a") > 1, "x").otherwise("y"))
    yield "nested", lambda: n.select("st.f", F.col("st.g").alias("gg"), n.m.k.alias("k"), F.col("m")["l"].alias("l"))
    yield (
        "struct",
        lambda: t.select(F.struct("a", "b").alias("s"), F.struct(F.col("a").alias("q"), F.lit(2)).alias("z")),
    )
    yield "arrays_zip", lambda: t.select(F.arrays_zip("arr", F.array("a")).alias("z"))
    yield "lambda", lambda: t.select(F.transform("arr", lambda x: x + F.col("a")).alias("tr"))
    yield "fields", lambda: n.select(F.col("st").withField("h", F.lit(1.5)).alias("s"), F.col("st").dropFields("g").alias("d"))  # fmt: skip
    yield "literals", lambda: t.select(
        F.lit(datetime.datetime(2024, 1, 1, 3, 4, 5)).alias("ts"), F.lit(b"ab").alias("bin"), F.lit(1.1).alias("dbl"),
        F.lit(2**40).alias("l"), F.lit(None).alias("n"), F.lit(datetime.timedelta(days=1, seconds=5)).alias("iv"),
        F.lit("it's \\ ok\n${x}").alias("s"), F.lit([1, 2]).alias("arr"), F.lit(float("nan")).alias("nan"),
        F.lit(decimal.Decimal("12.340")).alias("dec"), F.lit(-5).alias("neg"),
    )  # fmt: skip
    yield "expressions", lambda: t.selectExpr("*", "a + c as z", "transform(arr, x -> x + a) as w", "explode(arr) as e")
    yield "earlier names", lambda: t.select((F.col("a") + 1).alias("z"), (F.col("z") * 2).alias("y"), "a")
    yield "regex", lambda: t.select(t.colRegex("`(a|b)`"))
    yield "metadata", lambda: t.select(F.col("a").alias("z", metadata={"k": 1}))
    yield "scalar udf", lambda: t.select(F.udf(lambda x: None if x is None else x * 2, "int")("a").alias("u"))
    yield "udf of a group", lambda: t.groupBy("b").agg(F.udf(lambda x: (x or 0) * 2, "bigint")(F.sum("a")).alias("z"))


def columns(t: Any, u: Any, n: Any, F: Any) -> Frames:  # noqa: N803
    renamed, more = t.withColumnRenamed("a", "q"), t.withColumn("z", t.a + 1)
    yield "frame with itself", lambda: t.join(renamed, t.a == renamed.q).select(t.a, renamed.q)
    yield (
        "aliases",
        lambda: t.alias("l").join(t.alias("r"), F.expr("l.a = r.a")).select("l.a", F.col("r.b").alias("rb")),
    )
    yield "replaced column", lambda: t.withColumn("a", F.col("a") + 1).filter(t.a > 2)
    yield "left out column", lambda: t.select("b").filter(t.a > 1)
    yield "column of a parent", lambda: more.groupBy("a").count().select(t.a)
    yield "hidden column", lambda: t.join(u, "a", "full").select("a", t.a.alias("ta"), u.a.alias("ua"), "x")
    yield "star of a frame", lambda: t.join(u, t.a == u.a).select(t["*"], u.x)
    yield "renamed twice", lambda: t.select("a", "b").withColumnsRenamed({"a": "q", "b": "a"})
    yield "dropped", lambda: t.join(u, t.a == u.a).drop(u.a, "b")
    yield "schema", lambda: t.select("b", "a").to(t.select("a", "b").schema)


def rows(t: Any, u: Any, n: Any, F: Any) -> Frames:  # noqa: N803
    yield "join by names", lambda: t.join(u, "a", "right").select("a", "b", t.a.alias("ta"))
    yield "anti join", lambda: t.join(u, (t.a == u.a) & (u.x > "x"), "anti")
    yield "udf in a join", lambda: t.join(u, F.udf(lambda x, y: x == y, "boolean")(t.a, u.a)).select(t.a, "x")
    yield "rollup", lambda: t.rollup("a", "b").agg(F.sum("c"), F.grouping("a"), F.grouping_id())
    yield "grouping sets", lambda: t.groupingSets([["a"], ["b"], []], "a", "b").agg(F.sum("c").alias("s"))
    yield "pivot", lambda: t.groupBy("d").pivot("b", ["a", "b"]).agg(F.sum("c").alias("s"), F.count("c").alias("n"))
    yield "union", lambda: t.select("a", "b").union(u).distinct()
    yield "missing columns", lambda: t.unionByName(u, allowMissingColumns=True)
    yield "except all", lambda: t.select("a").exceptAll(u.select("a"))
    yield "duplicates", lambda: t.select("a", "b").dropDuplicates(["a", "b"])
    yield "nulls", lambda: t.fillna({"a": 5, "b": "zz"}).dropna(thresh=4).replace({1: 100}, subset=["a", "c"])
    yield "unpivot", lambda: t.unpivot(["b"], ["a"], "name", "value")
    yield "explode", lambda: t.select("a", F.posexplode_outer("arr").alias("p", "e"))
    yield "entries", lambda: n.select("id", F.explode("m"), F.col("st"))
    yield "exists", lambda: t.alias("o").filter(u.where(F.col("x") > F.col("o.b").outer()).exists()).select("a")
    yield "not in", lambda: t.filter(~F.col("a").isin(u.where("a > 1").select("a"))).select("a")
    yield "scalar", lambda: t.filter(t.c > u.agg(F.avg("a")).scalar()).select("a", "c")
    yield (
        "sql",
        lambda: t._session.sql(
            "SELECT t.a, sum(c) AS s FROM t JOIN {q} q ON t.a = q.a WHERE c > :n GROUP BY t.a", args={"n": 0}, q=u
        ),
    )


def ordered(t: Any, u: Any, n: Any, F: Any) -> Frames:  # noqa: N803
    from pyspark.sql.connect.window import Window

    yield "sort", lambda: t.orderBy(F.desc("c"), F.length("b")).select("a")
    yield "limit", lambda: t.orderBy("c").offset(1).limit(2).select("c")
    yield (
        "window",
        lambda: t.select(
            "c",
            F.sum("c").over(Window.orderBy("c").rangeBetween(-1, 1)).alias("s"),
            F.lag("b").over(Window.orderBy("c")).alias("l"),
        ).orderBy("c"),
    )
    yield (
        "latest",
        lambda: (
            t.withColumn("rn", F.row_number().over(Window.partitionBy("b").orderBy(F.desc("c"))))
            .where("rn = 1")
            .orderBy("b")
        ),
    )


def nearest(session: Any) -> Frames:
    one, other = session.table("l"), session.table("r")
    yield "as of", lambda: one._joinAsOf(other, "t", "t", on="k").select("id", "v")
    yield "as of, forward", lambda: one._joinAsOf(other, "t", "t", how="left", direction="forward").select("id", "v")


def main() -> None:
    from pyspark.sql import SparkSession

    session: Any = SparkSession.builder.remote("local[1]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    from pyspark.sql.connect import functions as F  # noqa: N812

    for name, (schema, values) in TABLES.items():
        session.createDataFrame(values, schema).createOrReplaceTempView(name)
    sources = {
        name: source(name, **{each.name: each.dataType.simpleString() for each in session.table(name).schema})
        for name in TABLES
    }
    frames = [session.table(name) for name in ("t", "u", "n")]
    found: dict[str, str | None] = {}
    for group in (names_and_functions, columns, rows, ordered):
        for name, make in group(*frames, F):
            found[name] = _judged(session, make, sources, ordered=group is ordered)
    for name, make in nearest(session):
        found[name] = _judged(session, make, sources, ordered=False)
    print("RESULT" + json.dumps(found), flush=True)
    session.stop()


def _judged(session: Any, make: Callable[[], Any], sources: Any, *, ordered: bool) -> str | None:
    try:
        return difference(session, make(), sources, ordered=ordered)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
