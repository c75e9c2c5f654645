import sys

from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.adaptive.enabled", "false")
totals = spark.read.parquet(f"{data}/orders").groupBy("customer_id").count()
totals.orderBy("customer_id").coalesce(1).write.csv(f"{out}/one_file", header=True)
spark.read.csv(f"{out}/one_file", header=True).write.parquet(f"{out}/of_one_file")
print(spark.read.text(f"{out}/one_file").collect())
totals.coalesce(1).withColumnRenamed("count", "orders").where("orders > 1").write.parquet(f"{out}/one_part")
spark.conf.unset("spark.sql.adaptive.enabled")
