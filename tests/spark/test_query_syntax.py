"""Spark's own parser reads the queries of sql steps before a run; sqlglot takes texts that it does not take."""

import pytest

from lineage_service.errors import WorkflowError
from lineage_service.spark.query_syntax import check_query_texts
from lineage_service.spec.sql_text import whole_file

GOOD = (
    "SELECT x FROM nowhere -- a comment",
    "WITH a AS (SELECT 1 AS `end`) SELECT nothing(*) FROM a ;\n",
    "VALUES (1)",
)


def problems_of(spark, *texts):
    with pytest.raises(WorkflowError) as error:
        check_query_texts(spark, [whole_file(text, f"q{number}.sql") for number, text in enumerate(texts)])
    return [str(problem) for problem in error.value.problems]


def test_queries_are_read_and_neither_resolved_nor_run(spark):
    check_query_texts(spark, [])
    check_query_texts(spark, [whole_file(text, "q.sql") for text in GOOD])


def test_an_error_has_its_place_in_the_query(spark):
    assert problems_of(spark, GOOD[0], "SELECT a\nFROM t\nWHERE a = b c d", "SELECT cast(a AS text) AS t FROM u") == [
        "q1.sql:3:13: Spark cannot read the query: syntax error at or near 'c'",
        'q2.sql:1:18: Spark cannot read the query: unsupported data type "TEXT"',
    ]
    assert problems_of(spark, "SELECT a\nFROM t JOIN u ON\n") == [
        "q0.sql:2:17: Spark cannot read the query: it ends too early"
    ]


def test_a_session_without_scripts_refuses_no_query(spark):
    spark.conf.set("spark.sql.scripting.enabled", "false")
    try:
        check_query_texts(spark, [whole_file(text, "q.sql") for text in GOOD])
    finally:
        spark.conf.unset("spark.sql.scripting.enabled")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; END IF; CREATE DATABASE escaped; IF false THEN SELECT 2",
        "SELECT '; END IF; CREATE DATABASE escaped; --' AS a",
    ],
)
def test_nothing_can_leave_the_branch_that_is_not_taken(spark, text):
    """Whatever a semicolon means to Spark, nothing behind it is given to Spark here."""
    check_query_texts(spark, [whole_file(text, "q.sql"), whole_file(GOOD[0], "p.sql")])
    assert [each.name for each in spark.catalog.listDatabases()] == ["default"]
