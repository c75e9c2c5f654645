"""Runs PySpark programs unchanged, and captures the lineage of what they write.

Start at program_run.run_program. What a program sends to Spark arrives in program_capture.ProgramCapture; one write is
captured in write_capture.
"""
