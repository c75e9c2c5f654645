"""`python -m benchmarks NAME`: one experiment; its figures as tables, as JSON, as a picture. Ends with 1 where a bar
fails. Bars are meant for --scale 1 on a machine that does nothing else."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from benchmarks import plot
from benchmarks.bars import verdicts
from benchmarks.figures import Figure, machine, table
from benchmarks.report import text
from benchmarks.results import Result, save
from benchmarks.rounds import Options, all_techniques, measure_case
from benchmarks.session import running_spark

CAPTURE = ("groupby", "pkfk", "mn", "selection", "tpch", "sql")
ASKING = ("lookup", "consume", "whatif", "semantics", "commands", "compile")
BOTH = ("prune", "pushdown", "skipping", "cube")  # with runs of their own to time, the last two also with questions
NAMES = (*CAPTURE, *ASKING, *BOTH, "refresh", "audit", "window", "memory", "scoreboard")


def main() -> int:
    given = _parsed()
    if given.plot:
        plot.require()
    options = Options(given.scale, given.rounds, given.warmups, _names(given.only), _names(given.cases))
    with tempfile.TemporaryDirectory(prefix="smoke-benchmark-") as temporary:
        folder = (given.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if given.name == "memory":
            return _memory(folder, given)
        if given.name == "scoreboard":
            return _scoreboard(folder, given.suite, options)
        print(", ".join(f"{name} {value}" for name, value in machine().items()), file=sys.stderr)
        results = _results(given.name, folder, options, given.json)
    if given.json:
        save(results, given.json)
    if given.plot:
        plot.plot(results, given.plot)
    print(text(results))
    return 1 if any(verdict.failed for verdict in verdicts(results)) else 0


def _capture(name: str, folder: Path, options: Options, file: Path | None) -> list[Result]:
    """The results of all cases. What is known after each case is in `file`: an experiment may take an hour."""
    module = import_module(f"benchmarks.{name}")
    options = replace(options, only=options.only or frozenset(getattr(module, "TECHNIQUES", ())))
    cases = module.cases(folder / "data", options.scale)
    wanted = [case for case in cases if options.wants_case(case.label)]
    if not wanted:
        raise SystemExit(f"no such case; cases of {name}: {', '.join(case.label for case in cases)}")
    techniques = [technique.name for technique in all_techniques()]
    if not options.only <= {*techniques}:
        raise SystemExit(f"no such technique; techniques: {', '.join(techniques)}")
    results: list[Result] = []
    with running_spark() as spark:
        for number, case in enumerate(wanted):
            results += measure_case(case, options, folder / f"tries-{number}", spark)
            if file:
                save(results, file)
    return results


def _results(name: str, folder: Path, options: Options, file: Path | None) -> list[Result]:
    if name in CAPTURE:
        return _capture(name, folder, options, file)
    module = import_module(f"benchmarks.{name}")
    results: list[Result] = []
    if name in ("prune", "pushdown", "refresh", "audit", "window"):
        with running_spark() as spark:
            results += module.measure(folder, options, spark)
        return results
    results += module.measure(folder, options)
    if name in BOTH and options.wants_case("capture"):
        with running_spark() as spark:
            results += module.capture(folder, options, spark)
    return results


def _memory(folder: Path, given: argparse.Namespace) -> int:
    """The experiment that has figures of its own kind: no techniques, no ratios."""
    from benchmarks.memory import measure

    figures: list[Figure] = measure(folder, given.scale)
    print(table(figures))
    if given.json:
        content = {
            "name": given.name,
            "scale": given.scale,
            "machine": machine(),
            "figures": [figure.to_json() for figure in figures],
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0 if all(figure.holds for figure in figures) else 1


def _scoreboard(folder: Path, suite: str | None, options: Options) -> int:
    """The experiment that has no figures: each query is exact, wrong or refused."""
    from benchmarks.scoreboard import measure

    with running_spark() as spark:
        return 0 if all(verdict.is_exact for verdict in measure(folder, suite, options, spark)) else 1


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("suite", nargs="?", choices=("tpch", "tpcds"), help="of scoreboard: only these queries")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data; bars are meant for 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw them there; needs matplotlib")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the data there, and reuse what is there")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds; medians are over them")
    parser.add_argument("--warmups", type=int, default=2, help="rounds before, not counted")
    parser.add_argument("--only", metavar="TECHNIQUE,…", help="these techniques, and the baseline")
    parser.add_argument("--cases", metavar="CASE,…", help="these cases")
    return parser.parse_args()


def _names(given: str | None) -> frozenset[str]:
    return frozenset(name.strip() for name in (given or "").split(",") if name.strip())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except plot.NoPlot as problem:
        sys.exit(str(problem))
