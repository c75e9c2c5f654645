"""Errors and what is shown by chance say what the user wrote, in plain words, and no personal data."""

from pathlib import Path

import duckdb
import pytest

from lineage_service import Home
from lineage_service.arguments import checked_arguments
from lineage_service.audit.access.access_report import Access
from lineage_service.errors import QuestionError
from lineage_service.query.predicate_gate import checked_order, checked_predicate
from lineage_service.query.query_engine import translate_duckdb_errors
from tests.support.made_home import made_home


@pytest.mark.parametrize("written", ["lpad('x', 3, 'y')", "strptime('a', '%Y')", "make_date(1, 2, 3)"])
def test_a_refused_function_is_called_as_the_user_wrote_it(written):
    name = written.partition("(")[0]
    with pytest.raises(QuestionError, match=f"function '{name}' is not allowed in a predicate"):
        checked_predicate(f"a = 1 AND {written} IS NULL", ["a"])
    with pytest.raises(QuestionError, match=f"function '{name}' is not allowed in an order"):
        checked_order(written, ["a"])


@pytest.mark.parametrize("sql", ["regexp_matches('a', '(')", "format('{:d}', 'secret')", "'x' LIKE 'a' ESCAPE 'bb'"])
def test_a_value_that_a_function_cannot_take_is_told_in_plain_words(sql):
    with pytest.raises(QuestionError) as told, translate_duckdb_errors(Path(".smoke")):
        duckdb.sql(f"SELECT {sql}").fetchall()
    assert "Exception" not in str(told.value) and "secret" not in str(told.value)
    assert "a value that it cannot take" in str(told.value)


MANY_TERMS = "SELECT " + "+".join(["1"] * 20_000)
SETTINGS = ("SET ", "PRAGMA", "INSTALL", "LOAD", "max_expression_depth", "pivot_limit")


def test_a_query_of_too_many_terms_gets_a_hint_that_can_be_followed(tmp_path):
    with Home.open(made_home(tmp_path)) as home, pytest.raises(QuestionError) as told:
        home.query(MANY_TERMS).arrow()
    (problem,) = told.value.problems
    assert "an expression has too many parts" in problem.message and "IN (" in (problem.hint or "")
    assert not [word for word in SETTINGS if word in str(told.value)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (MANY_TERMS, "too many parts"),
        ("PIVOT t ON k USING sum(v)", "PIVOT would make too many columns"),
        ("SELECT k::inet FROM t", "type 'inet' belongs to DuckDB's extension 'inet'"),
        ("SELECT list_transform([1], x -> x + 1)", "lambda x"),
        ("SELECT st_point(1, 2)", "scalar function 'st_point' belongs to DuckDB's extension 'spatial'"),
        ('SELECT "SET x".y FROM t', "SET x"),  # a word of the user's own
    ],
)
def test_no_error_tells_to_change_settings_of_duckdb(sql, expected):
    config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config=config)
    connection.execute("CREATE TABLE t AS SELECT range AS k, 1 AS v FROM range(5); SET pivot_limit = 3")
    with pytest.raises(QuestionError) as told, translate_duckdb_errors(Path(".smoke")):
        connection.sql(sql).fetchall()
    assert expected in str(told.value)
    assert not [word for word in SETTINGS if word in str(told.value).replace(expected, "")]


def test_a_mapping_is_not_said_to_be_no_mapping():
    @checked_arguments
    class Asked:
        def ask(self, key: "Keys" = None) -> None:  # noqa: F821 (checks are found by the annotation's text)
            pass

    with pytest.raises(QuestionError, match="not such a mapping"):
        Asked().ask(key={1: 2})


@pytest.mark.long
def test_an_access_report_is_shown_without_the_person():
    summary = {"rows": 3, "datasets": 2}
    shown = repr(Access({"subject": [{"kind": "customer", "value": "Ada"}], "summary": summary}, []))
    assert shown == "<Access: 3 rows in 2 datasets>"
