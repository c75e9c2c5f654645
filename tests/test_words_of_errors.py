"""Errors and what is shown by chance say what the user wrote, in plain words, and no personal data."""

from pathlib import Path

import duckdb
import pytest

from lineage_service.arguments import checked_arguments
from lineage_service.audit.access import Access
from lineage_service.errors import QuestionError
from lineage_service.query.engine import translated
from lineage_service.query.gate import checked_order, checked_predicate


@pytest.mark.parametrize("written", ["lpad('x', 3, 'y')", "strptime('a', '%Y')", "make_date(1, 2, 3)"])
def test_a_refused_function_is_called_as_the_user_wrote_it(written):
    name = written.partition("(")[0]
    with pytest.raises(QuestionError, match=f"function '{name}' is not allowed in a predicate"):
        checked_predicate(f"a = 1 AND {written} IS NULL", ["a"])
    with pytest.raises(QuestionError, match=f"function '{name}' is not allowed in an order"):
        checked_order(written, ["a"])


@pytest.mark.parametrize("sql", ["regexp_matches('a', '(')", "format('{:d}', 'secret')", "'x' LIKE 'a' ESCAPE 'bb'"])
def test_a_value_that_a_function_cannot_take_is_told_in_plain_words(sql):
    with pytest.raises(QuestionError) as told, translated(Path(".smoke")):
        duckdb.sql(f"SELECT {sql}").fetchall()
    assert "Exception" not in str(told.value) and "secret" not in str(told.value)
    assert "a value that it cannot take" in str(told.value)


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
