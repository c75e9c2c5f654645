"""What the columns of a saved query are made of: read off its SQL, or not known at all."""

import pytest

from lineage_service.sql.query_columns import query_columns

RELATIONS = {"r": {"a": False, "name": True, "_rid": False}, "s": {"a": False, "z": False, "_rid": False}}

KNOWN = {
    "SELECT a, upper(name) FROM r": ["r.a ~", "r.name ~ !"],
    "FROM r": ["r.a ~", "r.name ~ !", "r._rid ~"],
    "SELECT x.* EXCLUDE (_rid) FROM r x WHERE name = 'Bob'": ["r.a ~ r.name", "r.name ~ !"],
    "SELECT a, count(name) AS n, max(name) FROM r GROUP BY ALL HAVING n > 1": [
        "r.a ~ r.name", "r.name ~ r.a", "r.name ~ r.a !",
    ],
    "SELECT count(*) FROM r": ["~"],
    "SELECT sum(z) FILTER (WHERE z > 1) FROM s GROUP BY a": ["s.z ~ s.a"],
    "WITH t AS (SELECT name AS n, a FROM r WHERE a > 1) SELECT n, z FROM t JOIN s USING (a)": [
        "r.name ~ r.a s.a !", "s.z ~ r.a s.a",
    ],
    "SELECT name FROM r UNION SELECT z::VARCHAR FROM s": ["r.name s.z ~ !"],
    "SELECT count(*), max(z), count(DISTINCT z) FROM (SELECT DISTINCT a, z FROM s)": ["~ s.a s.z", "s.z ~", "s.z ~"],
    "SELECT count(*) FROM (SELECT a FROM s GROUP BY a, z)": ["~ s.a s.z"],
    "SELECT sum(1) FROM (SELECT z FROM s UNION SELECT a FROM s)": ["~ s.a s.z"],
    "SELECT z FROM s ORDER BY a": ["s.z ~"],
    "SELECT z AS y FROM s ORDER BY a + y LIMIT 2": ["s.z ~ s.a"],
    "SELECT u FROM r, unnest([1, 2]) q(u) WHERE a > u": ["~ r.a"],
}  # fmt: skip
UNKNOWN = [
    "SELECT u FROM r, unnest([r.name]) q(u)", "SELECT COLUMNS('n.*') FROM r", "SELECT count(*) OVER () FROM r",
    "SELECT (SELECT max(z) FROM s) FROM r", "SELECT a FROM r EXCEPT SELECT a FROM s", "SELECT a FROM r UNION BY NAME SELECT a FROM s",
    "PIVOT r ON a USING count(*)", "VALUES (1)", "SELECT b FROM r", "SELECT row(*) FROM r",
]  # fmt: skip


@pytest.mark.parametrize("sql", KNOWN)
def test_what_can_be_read_off_the_sql(sql):
    found = query_columns(sql, RELATIONS, len(KNOWN[sql]))
    assert found is not None
    assert [
        f"{' '.join(map(str, each.reads))} ~ {' '.join(sorted(map(str, each.influenced_by)))}".strip()
        + (" !" if each.pii else "")
        for each in found
    ] == KNOWN[sql]


@pytest.mark.parametrize("sql", UNKNOWN)
def test_in_doubt_nothing_is_said(sql):
    assert query_columns(sql, RELATIONS, 1) is None
