"""Lineage-consuming queries: DuckDB SQL over datasets and their lineage. Parses, checks, rewrites and runs them."""
