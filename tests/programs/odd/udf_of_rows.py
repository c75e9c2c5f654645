import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()


@udf("string")
def shout(text):
    return None if text is None else text.upper() + "!"


spark.read.parquet(f"{data}/customers.parquet").select("customer_id", shout("city").alias("city")).write.parquet(
    f"{out}/udf_of_rows"
)
