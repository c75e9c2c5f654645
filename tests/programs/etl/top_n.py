"""The two largest orders of each city, by SQL over views."""

import sys

from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(f"{data}/orders").createOrReplaceTempView("orders")
spark.read.parquet(f"{data}/customers.parquet").createOrReplaceTempView("customers")
ranked = spark.sql(
    """
    SELECT c.city, o.order_id, o.amount,
           row_number() OVER (PARTITION BY c.city ORDER BY o.amount DESC, o.order_id) AS place
    FROM orders o JOIN customers c ON o.customer_id = c.customer_id
    """
)
ranked.where("place <= 2").write.mode("overwrite").parquet(f"{out}/top")
