"""`python -m benchmarks NAME [--scale X] [--json FILE] [--keep DIR]`: one experiment, its figures as a table."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from benchmarks.figures import Figure, machine, table

NAMES = ("lookup", "memory")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data; bars are meant for 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep data and home there, and reuse what is there")
    options = parser.parse_args()
    experiment = import_module(f"benchmarks.{options.name}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures: list[Figure] = experiment.measure(folder.absolute(), options.scale)
    print(table(figures))
    if options.json:
        content = {
            "name": options.name,
            "scale": options.scale,
            "machine": machine(),
            "figures": [figure.to_json() for figure in figures],
        }
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
