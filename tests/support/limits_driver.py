"""Asks a home what no machine can answer, and tells how each question ended: run as a program, under small limits."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from lineage_service import Home
from lineage_service.errors import LineageError

SECONDS = 0.5
# Names of what is asked, and the SELECT. Each takes more memory, or time, than any machine has.
KINDS = {
    "generate_series": "SELECT generate_series(1, 2000000000)",
    "range": "SELECT range(2000000000)",
    "lpad": "SELECT lpad('x', 2000000000, 'y')",
    "rpad": "SELECT rpad('x', 2000000000, 'y')",
    "repeat": "SELECT repeat('x', 2000000000)",
    "repeat of rows": "SELECT repeat('x' || k, 900000000) FROM a",
    "repeat of repeat": "SELECT length(repeat(repeat('x', 10000), 100000))",
    "regexp_replace": "SELECT length(regexp_replace(repeat('a', 10000000), 'a', repeat('b', 10000), 'g'))",
    "regexp_extract_all": "SELECT len(regexp_extract_all(repeat('ab', 50000000), '(a)(b)', 1))",
    "regexp_split": "SELECT len(regexp_split_to_array(repeat('a,', 100000000), ','))",
    "replace": "SELECT length(replace(repeat('a', 10000000), 'a', repeat('b', 10000)))",
    "translate": "SELECT length(translate(repeat('ä', 200000000), 'ä', 'ö'))",
    "levenshtein": "SELECT levenshtein(repeat('ab', 500000), repeat('ba', 500000))",
    "damerau_levenshtein": "SELECT damerau_levenshtein(repeat('ab', 50000), repeat('ba', 50000))",
    "list_transform": "SELECT len(list_transform(range(500000000), lambda x: x * 2))",
    "list_reduce": "SELECT list_reduce(range(500000000), lambda x, y: x + y)",
    "list_filter": "SELECT len(list_filter(range(500000000), lambda x: x > 2))",
    "list_sort": "SELECT len(list_sort(range(500000000)))",
    "list_concat": "SELECT len(list_concat(range(300000000), range(300000000)))",
    "list of lists": "SELECT len(flatten(list_transform(range(100000), lambda x: range(100000))))",
    "printf": "SELECT length(printf('%2000000000d', 1))",
    "format": "SELECT length(format('{:>2000000000}', 'x'))",
    "array_to_string": "SELECT array_to_string(range(100000000), ',')",
    "string_split": "SELECT len(string_split(repeat('a,', 100000000), ','))",
    "md5": "SELECT md5(repeat('x', 1000000000))",
    "to_base64": "SELECT to_base64(encode(repeat('x', 1000000000)))",
    "hex": "SELECT length(hex(repeat('x', 1000000000)))",
    "bitstring": "SELECT bit_count(bitstring('1', 2000000000))",
    "json": "SELECT length(to_json(range(100000000))::VARCHAR)",
    "struct": "SELECT length(list_transform(range(100000000), lambda x: {'a': x})::VARCHAR)",
    "concat": "SELECT length(concat(" + ", ".join(["repeat('x', 400000000)"] * 5) + "))",
    "url_encode": "SELECT length(url_encode(repeat('ä', 500000000)))",
    "string_agg": "SELECT length(string_agg(repeat('x', 1000), ',')) FROM range(100000000)",
    "list": "SELECT len(list(x)) FROM range(3000000000) t(x)",
    "histogram": "SELECT cardinality(histogram(x)) FROM range(1000000000) t(x)",
    "quantile": "SELECT quantile_cont(hash(x), 0.5) FROM range(3000000000) t(x)",
    "count distinct": "SELECT count(DISTINCT 'text ' || x) FROM range(3000000000) t(x)",
    "sort": "SELECT x FROM range(10000000000) t(x) ORDER BY hash(x) OFFSET 5000000000",
    "window": "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY hash(x)) AS r FROM range(3000000000) t(x))",
    "cross joins": "SELECT count(*) FROM a, " + ", ".join(f"range(100000) t{i}(x{i})" for i in range(5)),
    "like": "SELECT count(*) FROM range(1000000000) t(x) WHERE repeat('ab', x + 9) LIKE '%aa%' || x || '%b'",
    "unnest": "SELECT count(*) FROM (SELECT unnest(range(1000000000)) AS x)",
    "recursive": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "doubled text": "WITH RECURSIVE r(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r",
    "doubled rows": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + i FROM r, range(10) t(i)) SELECT count(*) FROM r",
    "doubled list": "WITH RECURSIVE r(l) AS (SELECT [1] UNION ALL SELECT list_concat(l, l) FROM r) SELECT max(len(l)) FROM r",
    "doubled tables": "WITH t0 AS (SELECT 1 AS x FROM range(10)), "
    + ", ".join(f"t{i} AS (SELECT a.x FROM t{i - 1} a, t{i - 1} b)" for i in range(1, 6))
    + " SELECT count(*) FROM t5",
    "doubled columns": "WITH t0 AS (SELECT * FROM a), "
    + ", ".join(f"t{i} AS (SELECT *, * FROM t{i - 1})" for i in range(1, 26))
    + " SELECT * FROM t25",
    "factorial": "SELECT max(factorial((x % 30)::INT)) FROM range(100000000000) t(x)",
    "parentheses": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "rows in rows": "SELECT " + "row(" * 40 + "1" + ")" * 40,
    "lists in lists": "SELECT " + "[" * 5_000 + "1" + "]" * 5_000,
    "long text": "SELECT '" + "x" * 1_000_000 + "'",
    "wide answer": "SELECT repeat('x', 1000000) FROM range(10000000)",
    "folded": "SELECT k FROM a WHERE length(repeat('x', 2000000000)) > k",
    "bound": "SELECT k FROM a LIMIT length(repeat('x', 2000000000))",
    "explained": "EXPLAIN SELECT k FROM backward('out', 'a', 'length(repeat(''x'', 2000000000)) > k')",
    "predicate": "SELECT k FROM backward('out', 'a', 'length(repeat(''x'', 2000000000 + k)) > k')",
    "subquery": "SELECT k FROM backward('out', 'a', (SELECT length(repeat('x', 2000000000)) AS _rid FROM out))",
}  # fmt: skip
# Predicates, orders and measures over a column k.
EXPRESSIONS = {
    "repeat": "length(repeat('x', 2000000000 + k))",
    "levenshtein": "levenshtein(repeat('ab', 500000 + k), repeat('ba', 500000))",
    "replace": "length(replace(repeat('a', 10000000 + k), 'a', repeat('b', 10000)))",
    "reverse": "length(reverse(repeat('ä', 400000000 + k)))",
    "parentheses": "(" * 5_000 + "k" + ")" * 5_000,
    "terms": " + ".join(["k"] * 4_000),
}
NEXT = "SELECT count(*) AS n FROM a"


def told(question) -> str:
    """How a question ended: an error's first line, what else was raised, or that it was answered."""
    try:
        question()
    except LineageError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    except Exception as error:
        return f"bare {type(error).__name__}"
    return "answered"


def main(folder: str) -> None:
    found: dict[str, dict[str, str]] = {"query": {}, "where": {}, "order": {}, "top": {}, "save": {}}
    taken: dict[str, float] = {}
    with Home.open(folder) as home:
        asked = {
            ("query", name): lambda sql=sql: home.query(sql, timeout=SECONDS).arrow() for name, sql in KINDS.items()
        }
        for name, each in EXPRESSIONS.items():
            asked |= {
                ("where", name): lambda each=each: home.rows("a", where=f"{each} = 7").arrow(),
                ("order", name): lambda each=each: home.rows("a", order_by=each).arrow(),
                ("top", name): lambda each=each: home.backward("out", to="a", all=True, top=1, by=each).arrow(),
            }
        for name in ("repeat", "doubled tables", "recursive"):
            asked["save", name] = lambda sql=KINDS[name]: home.query(f"{sql} ", save="kept", timeout=SECONDS).arrow()
        for (verb, name), question in asked.items():
            began = time.monotonic()
            ended = told(question)
            taken[f"{verb} {name}"] = round(time.monotonic() - began, 2)
            if home.query(NEXT).to_pylist() != [{"n": 4}]:
                ended += ", and the next question failed"
            found[verb][name] = ended
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    left = [str(path) for path in (Path(folder) / "tmp").rglob("*")]
    json.dump({"found": found, "taken": taken, "peak": peak, "own": own, "left": left}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
