"""Forms that look like those of other dialects and are Spark SQL: none of them is refused by the text alone."""

import pytest

from lineage_service.spec.sql_parsing import parse_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

SPARK_SQL = (
    "SELECT position('a' IN name) AS x FROM t",
    "SELECT trim(BOTH 'a' FROM 'banana') AS x, extract(year FROM '2020-01-01') AS y FROM t",
    "SELECT id FROM t WHERE name IS DISTINCT FROM 'x' OR name IS NOT DISTINCT FROM 'y' OR name IS UNKNOWN",
    "SELECT left(name, 1) AS l, right(name, 1) AS r FROM t ORDER BY l, left(name, 2)",
    "SELECT a, b FROM t GROUP BY a, b GROUPING SETS ((a), (b), ())",
    "SELECT transform(tags, x -> 'a') AS x, aggregate(tags, 0, (s, x) -> s + x, s -> s * 2) AS y FROM t",
    "SELECT isnull(a) AS x, isnotnull(a) AS y, NOT NULL AS z, a IS NOT NULL AS w FROM t",
    "SELECT tags[0] AS x, tags[0][1] AS y, m['a'] AS z, split(a, ',')[0] AS v FROM t",
    "SELECT DATE '2020-01-01' AS x, TIMESTAMP '2020-01-01' AS y, INTERVAL '1' DAY AS z, X'1F' AS b, r'a' AS r FROM t",
    "SELECT 'a' 'b' AS x FROM t",
    "SELECT a FROM t, DATE",
    "(SELECT a FROM t ORDER BY a LIMIT 1) UNION (SELECT a FROM u ORDER BY a) ORDER BY a LIMIT 3",
    "SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 1) UNION SELECT a FROM u ORDER BY a",
    "SELECT a FROM t WHERE a IN (SELECT b FROM u ORDER BY b LIMIT 1) UNION SELECT a FROM u",
    "SELECT * EXCEPT (a) FROM t MINUS SELECT b FROM u",
    "SELECT sum(a) OVER w AS x, sum(a) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING) AS y FROM t WINDOW w AS ()",
    "SELECT first_value(a) IGNORE NULLS OVER (ORDER BY b) AS x FROM t",
    "SELECT listagg(name, ',') WITHIN GROUP (ORDER BY name) AS x, percentile_cont(0.5) WITHIN GROUP (ORDER BY a) AS y FROM t",
    "SELECT a.id FROM a JOIN b USING (id) JOIN c ON a.id = c.id LEFT SEMI JOIN d ON left(a.x, 1) = d.x, e",
    "SELECT a.id FROM a LEFT ANTI JOIN b ON a.id = b.id CROSS JOIN c NATURAL JOIN d",
    "SELECT * FROM t LATERAL VIEW OUTER explode(tags) e AS tag",
    "SELECT * FROM (SELECT a, b FROM t) PIVOT (sum(b) FOR a IN ('x', 'y'))",
    "SELECT count(DISTINCT a, b) AS x, count(*) AS y, current_date() AS z, array() AS w, map() AS v FROM t",
    "SELECT a AS on FROM t",
    "SELECT cast(NULL AS STRUCT<a: INT NOT NULL, b: STRING>) AS x FROM t",
    "SELECT a * -1 AS x, 2 * (3) AS y, -(a) AS z FROM t",
    "SELECT max(a) FILTER (WHERE b > 0) AS x FROM t",
    "WITH a (x) AS (SELECT 1), b AS (SELECT 2) SELECT * FROM a, b ORDER BY x DESC NULLS LAST",
)


@pytest.mark.parametrize("query", SPARK_SQL)
def test_it_is_read(query):
    assert parse_query(query)


def test_the_parser_prints_nothing(capfd):
    with pytest.raises(SqlSyntaxError):
        parse_query("WITH s AS (CREATE * FROM t) SELECT * FROM s")
    assert capfd.readouterr() == ("", "")
