import sys

from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(f"{data}/orders").createOrReplaceTempView("below")
spark.sql("SELECT order_id FROM below WHERE amount > 3").createOrReplaceTempView("above")
spark.read.parquet(f"{data}/orders").where("order_id < 2").createOrReplaceTempView("below")
spark.sql("SELECT * FROM above").write.parquet(f"{out}/view_of_a_view")
spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW above USING parquet OPTIONS (path '{data}/customers.parquet')")
spark.table("above").write.parquet(f"{out}/view_by_options")
spark.catalog.dropTempView("below")
