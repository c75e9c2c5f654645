"""Protobuf messages of Spark Connect to plain messages and back."""

import datetime
from decimal import Decimal

from lineage_service.plan.from_connect.messages import from_json, to_json
from lineage_service.spark.connect.protobuf_messages import plain_message, protobuf_message
from tests.support.connect_frames import session_without_server, sql_frame


def frames(session):
    from pyspark.sql.connect import functions as F  # noqa: N812 (Spark's own convention)
    from pyspark.sql.connect.window import Window

    t, u = session.table("t"), session.read.options(header=True, sep=";").csv("a.csv")
    spec = Window.partitionBy("a").orderBy(F.desc("b")).rowsBetween(-2, 0)
    values = [1, 2**40, 1.5, float("nan"), "x", b"\x00\xff", None, True, Decimal("1.50"), datetime.date(2024, 1, 1),
              datetime.datetime(2024, 1, 1, 2, 3), datetime.timedelta(days=1), [1, 2]]  # fmt: skip
    yield t.filter(t.a > 1).groupBy("b").agg(F.sum("c").alias("s"), F.countDistinct("d"))
    yield t.select("*", F.row_number().over(spec), F.expr("a + 1"), F.col("s").withField("x", F.lit(1)))
    yield t.select(*[F.lit(value) for value in values], F.col("a").alias("z", metadata={"k": [1]}))
    yield t.join(u, t.a == u.a, "left").drop(u.a).unionByName(t, allowMissingColumns=True).limit(3).offset(1)
    yield t.groupBy("a").pivot("b", ["x", "y"]).agg(F.sum("c")).fillna({"x": 0}).replace(1, 2)
    yield sql_frame(session, "SELECT * FROM t WHERE a > :n", {"n": 3})
    yield t.select(F.transform("l", lambda x: x + 1), F.udf(lambda x: x)("a"), F.col("a").cast("decimal(10,2)"))
    yield t.sample(0.5, seed=3).hint("broadcast").repartition(3, "a").alias("q")


def test_every_field_survives():
    checked = 0
    for frame in frames(session_without_server()):
        proto = frame._plan.plan(frame._session.client)
        message = plain_message(proto)
        again = protobuf_message(from_json(to_json(message)))
        assert again.SerializeToString(deterministic=True) == proto.SerializeToString(deterministic=True)
        checked += 1
    assert checked == 8
