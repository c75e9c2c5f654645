import sys

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
seen = Observation("seen")
orders.observe(seen, F.count(F.lit(1)).alias("rows")).where("amount > 3").write.parquet(f"{out}/observed")
print("observed", seen.get["rows"])
