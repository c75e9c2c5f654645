import datetime
import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
rates = spark.createDataFrame(
    [("open", 1.5, datetime.date(2026, 1, 1)), ("paid", 2.0, None), ("paid", 2.0, None)],
    "status string, rate double, day date",
)
orders = spark.read.parquet(f"{data}/orders")
orders.join(rates, orders.status == rates["status"]).select("order_id", "rate", rates.status, "day").write.parquet(
    f"{out}/own_rows"
)
