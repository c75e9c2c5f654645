"""Lineage-consuming queries: SQL of DuckDB over datasets and their lineage, read, checked, rewritten and run."""
