from pyspark import pipelines as dp


@dp.materialized_view(name="visits")
def read_visits():
    return spark.read.option("header", True).option("inferSchema", True).csv("data/visits.csv")  # noqa: F821
