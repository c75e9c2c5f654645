"""Lets Spark itself read the queries of sql steps before anything runs: its parser has the last word on what is SQL.

Spark has no public function that only parses a query. A script does: all of it is parsed first, and what stands in a
branch that is not taken is neither resolved nor run. A query in which a semicolon stands is left out, also one in a
text or comment: where Spark reads it otherwise than our parser, it would end the branch, and what follows would run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from lineage_service.errors import Problem, WorkflowError
from lineage_service.spark.faults import error_condition, is_spark_error
from lineage_service.spec.sql_text import SqlText

_BEFORE, _AFTER = "BEGIN IF false THEN\n", "\n;\nEND IF; END"


def check_query_texts(spark: SparkSession, queries: Iterable[SqlText]) -> None:
    """WorkflowError for queries that Spark's parser refuses; none where the session cannot run scripts."""
    texts = [query for query in queries if ";" not in _single_query(query)]
    if not texts or _syntax_error(spark, texts) is None:
        return
    problems = []
    for query in texts:
        error = _syntax_error(spark, [query])
        if error is not None:
            problems.append(_problem(query, error))
    if problems:
        raise WorkflowError(problems)


def _syntax_error(spark: SparkSession, queries: Sequence[SqlText]) -> ParseException | None:
    script = _BEFORE + "\n;\n".join(map(_single_query, queries)) + _AFTER
    try:
        spark.sql(script)
    except ParseException as error:
        return None if "SCRIPT" in error_condition(error) else error
    except Exception as error:
        if not is_spark_error(error):
            raise
        return None  # a session that runs no scripts: the run itself will tell
    return None


def _single_query(query: SqlText) -> str:
    return query.text.rstrip().rstrip(";").rstrip()


def _problem(query: SqlText, error: ParseException) -> Problem:
    text = str(error)
    said = re.sub(r"^\s*\[[A-Z_.0-9]+\]\s*", "", text).partition("SQLSTATE")[0].partition("\n")[0].strip()
    said = re.sub(r"(at or near '.*'): .*", r"\1.", said)
    found = re.search(r"\(line (\d+), pos(ition)? (\d+)\)", text)
    offset = 0
    if found is not None:
        lines = _single_query(query).split("\n")
        line, column = int(found[1]) - 2, int(found[3]) - bool(found[2])
        if line >= len(lines) or ("near ';'" in said and line == len(lines)):
            said, line, column = "it ends too early.", len(lines) - 1, len(lines[-1])
        offset = sum(len(each) + 1 for each in lines[:line]) + column
    message = f"Spark cannot read the query: {said[:1].lower()}{said[1:].rstrip('.')}"
    return Problem(message, query.position(min(offset, len(query.text))))
