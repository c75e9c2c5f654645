import sys
from pyspark.sql import SparkSession

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
orders.write.mode("ignore").csv(f"{out}/once", header=True)
orders.where("order_id = 1").write.mode("ignore").csv(f"{out}/once", header=True)
try:
    orders.write.json(f"{out}/once")
except Exception as error:
    print(type(error).__name__)
try:
    spark.read.parquet(f"{data}/year_2023.parquet").write.mode("overwrite").parquet(f"{data}/year_2023.parquet")
except Exception as error:
    print(type(error).__name__)
