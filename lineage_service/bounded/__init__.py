"""What users write runs in a child process with a hard ceiling of memory and time.

DuckDB's memory limit and its interrupt do not act inside one call of a function: `repeat('x', 2000000000)` takes what
it wants. The operating system's limits hold there, and a process can be ended at any moment.
"""
