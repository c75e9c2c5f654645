"""Names of tables in queries, and spellings of other databases: exact places, everything else untouched."""

import pytest

from lineage_service.importers.spark_spelling import dialect_of, in_spark_spelling
from lineage_service.importers.table_mentions import replace_spans, table_mentions


def mentions(query: str) -> list[tuple]:
    return [(query[each.begin : each.end], each.parts, each.has_alias) for each in table_mentions(query)]


def test_every_mention_has_its_place():
    query = """with a as (select * from `db`.`s`.`or d`), b as (select x.y.id from x.y -- from c.d
    ) select 'from e.f', g.* from a join b using (id), db.s.g, (select 1 from h as i)"""
    assert mentions(query) == [
        ("`db`.`s`.`or d`", ("db", "s", "or d"), False),
        ("x.y", ("x", "y"), False),
        ("db.s.g", ("db", "s", "g"), False),
        ("h", ("h",), True),
    ]


def test_parts_of_the_query_are_no_tables():
    query = "with a as (select * from a), b as (select * from a) select * from b, A, (with c as (select 1) select * from c), c"
    found = table_mentions(query)
    assert [(each.parts, sorted(each.ctes)) for each in found] == [(("a",), []), (("c",), ["a", "b"])]
    query = "with recursive n as (select 1 as k union all select k + 1 from n join m on true) select * from n"
    assert [each.parts for each in table_mentions(query)] == [("m",)]


def test_a_text_that_cannot_be_parsed_is_searched_by_tokens():
    query = "with a as (select 1 from s.t x) select ) from a join `p`.q join range(3) join r as z"
    assert [each.parts for each in table_mentions(query)] == [("s", "t"), ("p", "q"), ("r",)]
    assert table_mentions("select 'open from x.y") == ()


def test_spans_are_replaced():
    assert replace_spans("abcdef", [(4, 5, "X"), (0, 1, "")]) == "bcdXf"


@pytest.mark.parametrize(
    ("dialect", "written", "spark"),
    [
        ("duckdb", """select "a""b", 'it''s "x"', '\\d' from "s"."t" -- "c" """,
         """select `a"b`, 'it''s "x"', '\\\\d' from `s`.`t` -- "c" """),
        ("postgres", 'select "a`b"', "select `a``b`"),
        ("tsql", "select [a b], 'x' from [dbo].[t]", "select `a b`, 'x' from `dbo`.`t`"),
        ("snowflake", """select "A", 'a\\'b'""", """select `A`, 'a\\'b'"""),
        ("bigquery", """select `a`, "text" """, """select `a`, "text" """),
        ("spark", """select `a`, "text" """, """select `a`, "text" """),
        (None, 'select "a"', 'select "a"'),
        ("duckdb", """select 'open "a" """, """select 'open "a" """),
    ],
)  # fmt: skip
def test_spelling(dialect, written, spark):
    assert in_spark_spelling(written, dialect) == spark


def test_dialects_of_adapters():
    assert [dialect_of(each) for each in ("spark", "databricks", "duckdb", "sqlserver", "bigquery", "nobody")] == [
        "spark", "spark", "duckdb", "tsql", "bigquery", None,
    ]  # fmt: skip
