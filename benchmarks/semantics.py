"""What do witnesses and polynomials cost beside the rows alone? TPC-H Q3 and Q10, one row of the result at a time."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.asking import asked, figures_of
from benchmarks.data import tpch_folder
from benchmarks.declared import OUTPUT, tpch_case
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from benchmarks.session import running_spark
from benchmarks.tpch import QUERIES
from lineage_service import Home

CASES = ("Q3", "Q10")
ASKED = 100


def measure(folder: Path, options: Options) -> list[Result]:
    results: list[Result] = []
    for name in (each for each in CASES if options.wants_case(each)):
        data = tpch_folder(folder / "data", options.scale)
        place = folder / f"semantics-{name.lower()}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "flow.yml").write_text(tpch_case("semantics", name, folder / "data", options.scale).workflow)
        with running_spark(), Home.open(place / "home") as home:
            rows = home.run(place / "flow.yml", vars={"data": str(data)}).outputs[OUTPUT]["rows"]
        sources = list(QUERIES[name].tables)
        starts = random.Random(3).sample(range(rows), min(ASKED, rows))
        tell(f"semantics {name}: asking")
        with Home.open(place / "home") as home:
            took: dict[str, list[float]] = {"which": [], "why": [], "how": []}
            ways = _ways(home, sources)
            for start in starts[:5]:
                for way in ways.values():
                    way(start)
            for start in starts:
                for label, way in ways.items():
                    took[label] += asked([start], way)
        base = figures_of(took["which"])["p50_ms"]
        for label, seconds in took.items():
            figures = figures_of(seconds)
            results.append(
                Result(
                    experiment="semantics", case=name, technique=label, ratio=figures["p50_ms"] / base,
                    note="ratio is to which" if label != "which" else None, scale=options.scale, **figures,
                )
            )  # fmt: skip
    return results


def _ways(home: Home, sources: list[str]) -> dict[str, Callable[[int], object]]:
    return {
        "which": lambda rid: [home.backward(OUTPUT, rid=rid, to=each, rids=True).arrow() for each in sources],
        "why": lambda rid: home.backward(OUTPUT, rid=rid, to=sources, semantics="why").arrow(),
        "how": lambda rid: home.backward(OUTPUT, rid=rid, to=sources, semantics="how").arrow(),
    }
