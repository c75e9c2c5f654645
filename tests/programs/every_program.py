"""Runs several programs one after the other in one process: every_program.py DATA OUT PROGRAM…"""

import runpy
import sys

data, out, *programs = sys.argv[1:]
for program in programs:
    sys.argv = [program, data, out]
    runpy.run_path(program, run_name="__main__")
