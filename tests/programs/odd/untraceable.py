import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")


def doubled(batches):
    for batch in batches:
        batch["amount"] = batch["amount"] * 2
        yield batch


orders.mapInPandas(doubled, orders.schema).write.parquet(f"{out}/untraceable")
