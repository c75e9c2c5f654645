"""A slowly changing dimension of type 2: rows that changed are closed, and their new versions added."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import coalesce, col, lit, when

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
current = spark.read.parquet(f"{data}/customers.parquet")
updates = spark.read.option("header", True).schema("customer_id BIGINT, city STRING").csv(f"{data}/updates.csv")

changed = (
    current.alias("c")
    .join(updates.alias("u"), col("c.customer_id") == col("u.customer_id"))
    .where(coalesce(col("c.city"), lit("")) != coalesce(col("u.city"), lit("")))
    .select(col("u.customer_id"), col("u.city"), lit(True).alias("is_current"))
)
closed = (
    current.join(changed.select("customer_id", lit(1).alias("hit")), "customer_id", "left")
    .withColumn("is_current", when(col("hit").isNotNull(), lit(False)).otherwise(lit(True)))
    .select("customer_id", "city", "is_current")
)
brand_new = updates.join(current, "customer_id", "left_anti").select(
    "customer_id", "city", lit(True).alias("is_current")
)
closed.unionByName(changed).unionByName(brand_new).orderBy("customer_id", "is_current").write.mode("overwrite").parquet(
    f"{out}/dimension"
)
