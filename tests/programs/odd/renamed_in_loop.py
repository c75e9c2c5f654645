import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
df = spark.read.option("header", "true").csv(f"{data}/typed.csv")
for name in df.columns:
    df = df.withColumnRenamed(name, name.upper())
df = df.select([F.col(name).alias(name.lower()) for name in df.columns])
df = df.filter(df["customer_id"].isNotNull()).groupBy("customer_id").count()
df.write.parquet(f"{out}/renamed_in_loop")
