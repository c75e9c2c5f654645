"""Cleans what people typed."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, trim, upper

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
raw = spark.read.csv(f"{data}/typed.csv", header=True, inferSchema=True)
clean = (
    raw.dropna(subset=["customer_id"])
    .fillna({"city": "unknown"})
    .withColumn("city", upper(trim(col("city"))))
    .replace(["N/A", "-"], [None, None], subset=["note"])
    .dropDuplicates()
)
clean.write.mode("overwrite").parquet(f"{out}/clean")
