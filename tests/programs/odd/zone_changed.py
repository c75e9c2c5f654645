import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

data, out = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = spark.read.parquet(f"{data}/orders")
zone = spark.conf.get("spark.sql.session.timeZone")
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
days = orders.select("order_id", F.hour(F.timestamp_seconds("order_id")).alias("hour"))
days.createOrReplaceTempView("hours_in_tokyo")
spark.table("hours_in_tokyo").write.parquet(f"{out}/zone_kept")
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.sql("SELECT * FROM hours_in_tokyo").write.parquet(f"{out}/zone_changed")
spark.conf.set("spark.sql.session.timeZone", zone)
