"""Runs user-written SQL in a child process with hard limits of memory and time.

DuckDB's memory limit and interrupt have no effect inside a single function call: `repeat('x', 2000000000)` allocates
what it wants. The operating system's limits apply there, and a process can be killed at any time.
"""
