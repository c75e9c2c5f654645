import sys

from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.where("order_id < 10").createOrReplaceTempView("half")
orders.where("order_id >= 10").createOrReplaceGlobalTempView("half")
spark.table("half").write.parquet(f"{out}/beside_global_view")
spark.catalog.dropGlobalTempView("half")
spark.table("half").where("amount > 3").write.parquet(f"{out}/after_global_view")
spark.catalog.dropTempView("half")
