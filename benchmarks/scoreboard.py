"""Runs each query text of TPC-H and TPC-DS as an sql step over small data: rows as in `spark.sql`, lineage checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.rounds import Options, reason
from benchmarks.sql_lineage import LineageCheck, Replay, check_lineage
from benchmarks.sql_queries import SUITES, SqlQuery, queries_of, workflow_of
from benchmarks.sql_rows import differences
from lineage_service import Home
from lineage_service.errors import LineageError
from lineage_service.runs.workflow_file import validate_workflow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_service.runs.run_report import RunReport

TPCH_SCALE = 0.02  # the smallest at which no query is empty
YAML = Path(__file__).parent.parent / "workflows" / "tpch"
# The data is small: what Spark does for the sake of large data would only take time.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass
class Verdict:
    """What was found about one query: the rows of its step, the pairs by source, and what is wrong with them.

    refusal: why it is not compiled, with the place; then nothing else is known.
    """

    query: SqlQuery
    found: pa.Table | None = None
    pairs_by_table: dict[str, pa.Table] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lineage: LineageCheck | None = None
    refusal: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return 0 if self.found is None else self.found.num_rows

    @property
    def pairs(self) -> int:
        return sum(each.num_rows for each in self.pairs_by_table.values())

    @property
    def is_exact(self) -> bool:
        return self.refusal is None and not self.faults and self.rows > 0

    def __str__(self) -> str:
        name = f"{self.query.suite} {self.query.name}"
        if self.refusal is not None:
            return f"{name}: refused: {self.refusal}"
        if self.faults:
            return f"{name}: WRONG: " + "; ".join(self.faults)
        if not self.rows:
            return f"{name}: no rows, so that nothing is shown"
        notes = "".join(f"; {note}" for note in self.notes)
        return f"{name}: {self.rows} rows equal, {self.pairs:,} pairs; {self.lineage}{notes}"


class Scoreboard:
    """The queries of a suite over the tables in one folder, in one Spark session and one home."""

    def __init__(
        self, suite: str, data: Path, scratch: Path, spark: SparkSession, home: Home, *,
        together: int = 10, beside_steps: bool = True, sampled: int = 4,
    ) -> None:  # fmt: skip
        """together: how many queries are steps of one run. beside_steps: also run the workflows of steps that exist.
        sampled: how many output rows of a query are checked.
        """
        self.suite, self.data, self.scratch, self.spark, self.home = suite, data.absolute(), scratch, spark, home
        self.together, self.beside_steps, self.sampled = together, beside_steps, sampled
        self.replay = Replay(data)
        for file in sorted(data.glob("*.parquet")):
            spark.read.parquet(str(file)).createOrReplaceTempView(file.stem)

    def verdicts(self, queries: Sequence[SqlQuery]) -> Iterator[Verdict]:
        """Queries that compile are run together, some at a time; the order stays."""
        verdicts = [Verdict(query, refusal=self._refusal(query)) for query in queries]
        for first in range(0, len(verdicts), self.together):
            some = verdicts[first : first + self.together]
            self._run([verdict for verdict in some if verdict.refusal is None])
            yield from some

    def _refusal(self, query: SqlQuery) -> str | None:
        try:
            validate_workflow(self._file([query]), {"data": str(self.data)}, self.home.layout.path)
        except LineageError as error:
            return str(error.problems[0]).replace(f"{query.file.parent}/", "")
        return None

    def _file(self, queries: Sequence[SqlQuery]) -> Path:
        file = self.scratch / f"{queries[0].name}_{len(queries)}.yml"
        file.write_text(workflow_of(queries), encoding="utf-8")
        return file

    def _run(self, verdicts: Sequence[Verdict]) -> None:
        if not verdicts:
            return
        try:
            report = self.home.run(self._file([each.query for each in verdicts]), vars={"data": str(self.data)})
        except Exception as error:  # whatever goes wrong with one query, the others are judged
            if len(verdicts) == 1:
                verdicts[0].faults.append(f"the run failed: {reason(error)}")
            else:
                for verdict in verdicts:
                    self._run([verdict])
            return
        for verdict in verdicts:
            try:
                self.judge(verdict, report)
            except Exception as error:
                verdict.faults.append(f"not judged: {reason(error)}")

    def judge(self, verdict: Verdict, report: RunReport) -> None:
        """Compares the rows of a run that ran the query, and checks its lineage."""
        query = verdict.query
        output = f"{report.workflow}.{query.name}@{report.run_id}"
        found = self.home.rows(output).arrow().sort_by("_rid")
        verdict.found = found
        if found.column("_rid").to_pylist() != list(range(found.num_rows)):
            verdict.faults.append("rids are not 0, 1, 2, …")
        expected = self.spark.sql(query.text).toArrow()
        is_cut = query.limit is not None and expected.num_rows == query.limit
        whole = self.spark.sql(query.unlimited).toArrow() if is_cut else expected
        verdict.faults += differences(query, found.drop_columns("_rid"), expected, whole)
        pairs = verdict.pairs_by_table
        for table in query.tables:
            source = f"{report.workflow}.{table}@{report.run_id}"
            pairs[table] = self.home.backward(output, to=source, all=True, pairs=True).arrow()
            ahead = self.home.forward(source, to=output, all=True, pairs=True).arrow()
            if _as_set(pairs[table]) != _as_set(ahead) or len(_as_set(ahead)) != ahead.num_rows:
                verdict.faults.append(f"backward and forward pairs of {table} are not the same")
        if not verdict.faults:
            verdict.lineage = check_lineage(self.replay, query, found, pairs, self.sampled)
            verdict.faults += verdict.lineage.faults
            if self.beside_steps:
                self._compare_with_steps(verdict, found, pairs)

    def _compare_with_steps(self, verdict: Verdict, found: pa.Table, pairs: dict[str, pa.Table]) -> None:
        """The same query as a workflow of steps, where there is one, has the same pairs."""
        file = YAML / f"{verdict.query.name}.yml"
        if self.suite != "tpch" or not file.is_file():
            return
        given = {"data": str(self.data)}
        if "${out}" in file.read_text(encoding="utf-8"):
            given["out"] = str(self.scratch / f"out_{verdict.query.name}")
        report = self.home.run(file, vars=given)
        (name,) = report.outputs
        output = f"{report.workflow}.{name}@{report.run_id}"
        theirs = self.home.rows(output).arrow()
        ours, others = _named_rows(found), _named_rows(theirs)
        for table, each in pairs.items():
            source = f"{report.workflow}.{table}@{report.run_id}"
            answers = [
                self.home.backward(output, to=source, all=True, pairs=True).arrow(),
                self.home.forward(source, to=output, all=True, pairs=True).arrow(),
            ]
            wanted = {(ours[out], rid) for out, rid in _as_set(each)}
            if any({(others[out], rid) for out, rid in _as_set(answer)} != wanted for answer in answers):
                verdict.faults.append(f"pairs of {table} are not those of the workflow of steps")
        verdict.notes.append("pairs as in the workflow of steps")


def _as_set(pairs: pa.Table) -> set[tuple[int, int]]:
    return set(zip(pairs.column("out_rid").to_pylist(), pairs.column("rid").to_pylist(), strict=True))


def _named_rows(table: pa.Table) -> dict[int, Any]:
    """By rid, each row as its values: rows of equal keys may be numbered otherwise in another run."""
    return {row.pop("_rid"): tuple(map(repr, row.values())) for row in table.to_pylist()}


def measure(folder: Path, suite: str | None, options: Options, spark: SparkSession) -> list[Verdict]:
    """The verdicts of all queries, or of those that `options` names, each printed as soon as it is known."""
    for key, value in SMALL.items():
        spark.conf.set(key, value)
    found = []
    for each in (suite,) if suite else SUITES:
        data = _data(each, folder / "data", options.scale)
        scratch = folder / f"scoreboard-{each}"
        scratch.mkdir(parents=True, exist_ok=True)
        with Home.open(scratch / "home") as home:
            board = Scoreboard(each, data, scratch, spark, home)
            for verdict in board.verdicts([query for query in queries_of(each) if options.wants_case(query.name)]):
                print(verdict, flush=True)
                found.append(verdict)
    print(summary(found))
    return found


def summary(verdicts: Sequence[Verdict]) -> str:
    lines = []
    for suite in SUITES:
        of_suite = [verdict for verdict in verdicts if verdict.query.suite == suite]
        if of_suite:
            exact = sum(verdict.is_exact for verdict in of_suite)
            refused = sum(verdict.refusal is not None for verdict in of_suite)
            lines.append(f"{suite}: {exact} of {len(of_suite)} exact, {refused} refused")
    return "\n".join(lines)


def _data(suite: str, folder: Path, scale: float) -> Path:
    from benchmarks.data import whole_tpch_folder
    from benchmarks.tpcds_data import SLICE, tpcds_folder

    if suite == "tpch":
        return whole_tpch_folder(folder, TPCH_SCALE * scale)
    return SLICE if scale == 1 else tpcds_folder(folder, scale)
