"""How long does what-if take? The flights of the demo, without one flight, a day, an airline; Spark is not started."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from benchmarks.asking import figures_of
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from benchmarks.session import running_spark
from lineage_service import Home

OUTPUTS = ("monthly", "routes", "fleet")
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX")
ASKED = 30


def measure(folder: Path, options: Options) -> list[Result]:
    from lineage_cli import demo
    from lineage_cli.demo.data import make_flights

    _ = options
    place = folder / "flights"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    make_flights(place / "data")
    shutil.copy(Path(str(demo.__file__)).parent / "project" / "flights.yml", place)
    with running_spark(), Home.open(place / "home") as home:
        began = time.perf_counter()
        home.run(place / "flights.yml")
        full = time.perf_counter() - began
    chance = random.Random(5)
    predicates = {
        "one flight": lambda: f"month = {chance.randint(1, 12)} AND day = {chance.randint(1, 28)} AND flight = 1545",
        "one day": lambda: f"month = {chance.randint(1, 12)} AND day = {chance.randint(1, 28)}",
        "one airline": lambda: f"carrier = '{chance.choice(CARRIERS)}'",
    }
    results = []
    for output in OUTPUTS:
        tell(f"whatif {output}")
        for label, predicate in predicates.items():
            with Home.open(place / "home") as home:
                took, rows = [], 0
                for number in range(ASKED + 2):
                    where = predicate()
                    began = time.perf_counter()
                    answer = home.what_if(without="flights", where=where, on=output)
                    rows = answer.arrow().num_rows
                    if number >= 2:
                        took.append(time.perf_counter() - began)
                    if any("Spark" in note for note in answer.notes):
                        raise AssertionError("Spark was needed")
            results.append(
                Result(experiment="whatif", case=output, technique=label, base_s=full, rows=rows, **figures_of(took))
            )
    return results
