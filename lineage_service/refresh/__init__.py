"""Incremental refresh of a committed run: applies changed source rows, recomputes the affected rows, and shares
everything else with that run.
"""
