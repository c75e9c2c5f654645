"""Spark Declarative Pipelines projects: spark-pipeline.yml and its SQL files."""
