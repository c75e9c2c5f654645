"""How long does `validate` take for an sql step, beyond start-up? All queries of TPC-DS, as commands.

Start-up is the same command on a step that selects one column of one table.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.figures import measured
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from benchmarks.sql_queries import SqlQuery, queries_of, workflow_of
from benchmarks.tpcds_data import SLICE

SMALLEST = "SELECT r_reason_sk FROM reason\n"


def measure(folder: Path, options: Options) -> list[Result]:
    """One result per query: the seconds of the command, those of the smallest one, and what is between them."""
    folder.mkdir(parents=True, exist_ok=True)
    smallest = folder / "smallest.sql"
    smallest.write_text(SMALLEST, encoding="utf-8")
    start = SqlQuery("tpcds", smallest)
    queries = [query for query in queries_of("tpcds") if options.wants_case(query.name)]
    tries: dict[str, list[float]] = {query.name: [] for query in (start, *queries)}
    failures: dict[str, str] = {}
    for turn in range(-options.warmups, options.rounds):
        tell(f"compile: round {turn + 1} of {options.rounds}")
        for query in (start, *queries):
            file = folder / f"{query.name}.yml"
            file.write_text(workflow_of([query]), encoding="utf-8")
            command = measured("validate", str(file), "--var", f"data={SLICE}", "--home", str(folder / "home"))
            if command.failure is not None:
                failures[query.name] = command.failure
            elif turn >= 0:
                tries[query.name].append(command.seconds)
    base = median(tries[start.name])
    return [_result(query, tries[query.name], base, failures.get(query.name)) for query in queries]


def _result(query: SqlQuery, seconds: list[float], base: float, failure: str | None) -> Result:
    if failure is not None or not seconds:
        return Result(experiment="compile", case=query.name, technique="validate", note=failure)
    took = median(seconds)
    return Result(
        experiment="compile", case=query.name, technique="validate", base_s=base, total_s=took,
        capture_s=max(took - base, 0.0), rounds=len(seconds), total_s_all=tuple(round(each, 3) for each in seconds),
    )  # fmt: skip
