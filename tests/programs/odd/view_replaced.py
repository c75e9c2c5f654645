import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(f"{data}/orders").createOrReplaceTempView("v")
before = spark.sql("SELECT order_id, amount FROM v WHERE amount > 3")
spark.read.parquet(f"{data}/orders").where("status = 'open'").createOrReplaceTempView("v")
before.write.parquet(f"{out}/view_replaced")
