"""Compiles the data frames of PySpark programs, as Spark Connect's protocol describes them, to plan nodes.

Start at relation_compiler.compile_relation. messages: the protocol's messages as plain values · program_reads: what a
relation reads, and references in its place · coverage: every type of the protocol and what becomes of it.
"""
