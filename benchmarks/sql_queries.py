"""The query texts of the scoreboard: TPC-H and TPC-DS in Spark SQL, one file per query below queries/.

Queries become sql steps of a workflow whose sources are the tables that they read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import sqlglot
from sqlglot import exp

FOLDER = Path(__file__).with_name("queries")
SUITES = ("tpch", "tpcds")


@dataclass(frozen=True)
class SqlQuery:
    """One query of a suite; its file holds the text and nothing else."""

    suite: str
    file: Path

    @property
    def name(self) -> str:
        return self.file.stem

    @cached_property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> exp.Expression:
        return sqlglot.parse_one(self.text, dialect="spark")

    @property
    def limit(self) -> int | None:
        clause = self.tree.args.get("limit")
        return None if clause is None else int(clause.expression.this)

    @cached_property
    def unlimited(self) -> str:
        """The text without its last LIMIT."""
        tree = self.tree.copy()
        tree.set("limit", None)
        return tree.sql("spark")

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads, in alphabetical order."""
        ctes = {cte.alias for cte in self.tree.find_all(exp.CTE)}
        return tuple(sorted({table.name for table in self.tree.find_all(exp.Table)} - ctes))


def workflow_of(queries: Sequence[SqlQuery], *, published: bool = False) -> str:
    """The text of a workflow file with a step and an output per query, both called like it.

    Its variable `data` is the folder of the tables. published: outputs are also written below the folder `out`, as a
    user's own tables.
    """
    tables = sorted({table for query in queries for table in query.tables})
    lines = [
        "version: 1",
        f"name: {queries[0].suite}_{queries[0].name}",
        "vars: {data: data, out: out}" if published else "vars: {data: data}",
        "sources:",
        *(f'  {table}: {{path: "${{data}}/{table}.parquet"}}' for table in tables),
        "steps:",
        *(f"  - {{name: {query.name}, op: sql, file: '{query.file}'}}" for query in queries),
        "outputs:",
        *(
            f'  {query.name}: {{path: "${{out}}/{query.name}"}}' if published else f"  {query.name}:"
            for query in queries
        ),
    ]
    return "\n".join(lines) + "\n"


def queries_of(suite: str) -> list[SqlQuery]:
    """The queries of a suite, in the order of their numbers."""
    return [SqlQuery(suite, file) for file in sorted((FOLDER / suite).glob("q*.sql"))]
