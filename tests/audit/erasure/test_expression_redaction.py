"""Values of erased persons in expressions and SQL queries: replaced, and marked where the text no longer means the same."""

import json
import re

import pyarrow as pa
import pytest

from lineage_service.audit.erasure.identifying_values import IdentifyingValues, find_identifying_values
from lineage_service.audit.erasure.text_redaction import redact_text
from lineage_service.audit.person_search import PersonRows
from lineage_service.spec.redaction_markers import is_computable
from tests.support.made_runs import Made, MadeHome

IDENTIFYING = IdentifyingValues(
    texts={"Annabel Smith", "O'Hara Jim"},
    numbers={"7394810", "2020-02-29", "42", "12.50"},
    columns={"name", "id", "born", "code"},
    ambiguous={"code"},
)
STAYS_COMPUTABLE = [
    "SELECT * FROM p c WHERE c.name = 'Annabel Smith' -- Annabel Smith, 7394810, is out",
    "/* Annabel Smith left on 2020-02-29; ANNABEL SMITH */ SELECT 1 AS x FROM p",
    "SELECT name = 'Annabel Smith' AS it FROM p",
    "SELECT * FROM p JOIN b ON p.id = 7394810 JOIN c ON c.k = b.k",
    "SELECT * FROM p WHERE id = 7394810 EXCEPT SELECT * FROM q",
    "SELECT * FROM p WHERE id = 7394810L",
    "SELECT * FROM p WHERE `p`.`id` <=> 7394810 LIMIT 3",
    "SELECT * FROM p WHERE 7394810 = id /* him */",
    "SELECT CASE id WHEN 7394810 THEN 1 ELSE 2 END AS x FROM p",
    "SELECT * FROM p WHERE id IN (5, 7394810) AND x = 1",
    "SELECT * FROM p WHERE id NOT IN (7394810)",
    "SELECT * FROM p WHERE born = DATE '2020-02-29'",
    "SELECT * FROM p WHERE born <> '2020-02-29' OR x = 1",
    "SELECT * FROM p WHERE name = 'O''Hara Jim' AND name != \"O'Hara Jim\" OR name = 'O\\'Hara Jim'",
    "SELECT * FROM p WHERE name = 'Annabel ' 'Smith' GROUP BY name",
    "SELECT * FROM p WHERE id = 12.5",
    "SELECT * FROM p WHERE id = +7394810",
    "SELECT * FROM p WHERE name = 'Ann\\u0061bel Smith' OR name = '\\101nnabel Smith'",
    "WITH t(name, k) AS (SELECT name, x FROM p) SELECT * FROM t WHERE name = 'Annabel Smith'",
    "SELECT name FROM p WHERE name = 'Annabel Smith' UNION ALL SELECT q.name FROM q",
    "SELECT * FROM p WHERE name = 'Annabel Smith' UNION SELECT * FROM p WHERE x = 1",
    "SELECT note FROM (SELECT name, x AS note FROM p UNION SELECT name, y FROM q) WHERE name = 'Annabel Smith'",
    "SELECT x FROM p WHERE name = 'Annabel Smith' UNION BY NAME SELECT * FROM q",
    "SELECT q.id AS id, q.x FROM (SELECT DISTINCT p.name AS name, p.`id` AS id FROM p) q WHERE id = 7394810",
]
IS_MARKED = [
    "SELECT 'Annabel Smith' AS who FROM p",
    "SELECT * FROM p WHERE name LIKE 'Annabel Smith%'",
    "SELECT * FROM p WHERE upper(name) = 'ANNABEL SMITH'",
    "SELECT * FROM p WHERE name = 'ANNABEL SMITH'",  # not her, but it tells of her
    "SELECT * FROM p WHERE concat(name, 'x') = 'Annabel Smithx'",
    "SELECT * FROM p WHERE name || 'x' = 'Annabel Smith'",
    "SELECT * FROM p WHERE x + id = 7394810",
    "SELECT * FROM p WHERE id BETWEEN 5 AND 7394810",
    "SELECT * FROM p WHERE id NOT BETWEEN 7394810 AND 7394899",
    "SELECT * FROM p WHERE id >= 7394810",
    "SELECT * FROM p WHERE id IN (1 + 1, 7394810)",
    "SELECT * FROM p WHERE other = 'Annabel Smith'",
    "SELECT * FROM (SELECT k AS id FROM orders) WHERE id = 7394810",
    "SELECT * FROM (SELECT k id FROM orders) WHERE id = 7394810",
    "SELECT * FROM (SELECT 2 * id AS id FROM orders) WHERE id = 7394810",
    "WITH t(name) AS (SELECT note FROM orders) SELECT * FROM t WHERE name = 'Annabel Smith'",
    "SELECT * FROM (SELECT note, oid FROM orders) AS t(name, oid) WHERE name = 'Annabel Smith'",
    "SELECT * FROM orders AS t(name) WHERE name = 'Annabel Smith'",
    "SELECT * FROM orders UNPIVOT (name FOR k IN (note, who)) WHERE name = 'Annabel Smith'",
    "SELECT * FROM orders UNPIVOT (v FOR name IN (note, who)) WHERE name = 'Annabel Smith'",
    "SELECT * FROM orders PIVOT (max(note) FOR k IN ('name')) WHERE name = 'Annabel Smith'",
    "SELECT * FROM orders LATERAL VIEW explode(notes) l AS name WHERE name = 'Annabel Smith'",
    "SELECT * FROM (SELECT stack(2, note, who) AS (name, k) FROM orders) WHERE name = 'Annabel Smith'",
    "SELECT * FROM (VALUES ('x')) AS v(name) WHERE name = 'Annabel Smith'",
    "SELECT * FROM (SELECT name FROM p UNION ALL SELECT note FROM orders) WHERE name = 'Annabel Smith'",
    "SELECT * FROM (SELECT name FROM p UNION SELECT name FROM p UNION SELECT note FROM q) WHERE name = 'Annabel Smith'",
    "SELECT * FROM (SELECT * FROM p UNION ALL SELECT * FROM orders) WHERE name = 'Annabel Smith'",
    "SELECT filter(notes, name -> name = 'Annabel Smith') AS x FROM orders",
    "SELECT filter(notes, (name, i) -> name = 'Annabel Smith') AS x FROM orders",
    "SELECT * FROM (SELECT inline(array(named_struct('name', note))) FROM o) WHERE name = 'Annabel Smith'",
    "SELECT max(id) AS x FROM p HAVING max(id) = 7394810",
    "SELECT * FROM p WHERE 7394810 <= coalesce(id, 0)",
    "SELECT * FROM p WHERE (name, id) = ('x', 7394810)",
    "SELECT * FROM p WHERE (7394810, x) <=> (p.id, 5)",
    "SELECT * FROM p WHERE lower(name) = '\\u0041nnabel Smith'",
    "SELECT * FROM orders WHERE code = 7394810",  # another dataset has a `code` too
]
IS_NOT_CHANGED = [
    "SELECT * FROM p WHERE amount = 42 LIMIT 42",
    "SELECT * FROM p WHERE id IN (SELECT customer FROM orders WHERE amount = 42 LIMIT 42)",
    "SELECT * FROM p WHERE id = 421 AND id = 1 + 42 * 2 AND x BETWEEN 1 AND 42",
    "SELECT * FROM orders WHERE ordered >= DATE '2020-02-29'",
    "SELECT count(*) AS n FROM p GROUP BY name HAVING count(*) > 42",
    "SELECT count(id) AS n FROM p GROUP BY x HAVING count(id) > 42 AND max(x) = 42 AND (x, y) = (42, 1)",
]


def redacted(query: str, **more: object) -> tuple[str, bool]:
    text = redact_text(json.dumps({"steps": [{"name": "s", "op": "sql", "query": query}], **more}), IDENTIFYING)
    return json.loads(text)["steps"][0]["query"], is_computable(text)


def tells(text: str) -> bool:
    return bool(re.search(r"annabel|hara|7394810|2020-02-29|12\.5", text, re.IGNORECASE))


@pytest.mark.parametrize("query", STAYS_COMPUTABLE)
def test_a_value_compared_for_equality_is_replaced_by_one_that_nobody_has(query):
    new, computable = redacted(query)
    assert not tells(new)
    assert computable


def test_the_new_value_has_the_type_of_the_old_one():
    new, _ = redacted(
        "SELECT * FROM p WHERE born = DATE '2020-02-29' AND born = '2020-02-29' AND id = '42' AND id = 42"
    )
    assert re.fullmatch(
        r"SELECT \* FROM p WHERE born = DATE '88\d\d-\d\d-\d\d' AND born = '88\d\d-\d\d-\d\d' AND id = '-88\d{16}' "
        r"AND id = -88\d{16}",
        new,
    )


@pytest.mark.parametrize("query", IS_MARKED)
def test_any_other_use_is_marked(query):
    new, computable = redacted(query)
    assert not tells(new.replace("7394899", ""))
    assert not computable


@pytest.mark.parametrize("query", IS_NOT_CHANGED)
def test_other_numbers_stay(query):
    assert redacted(query) == (query, True)


def test_a_name_that_another_step_gives_to_its_own_column_is_not_known_to_be_personal():
    step = {"name": "t", "op": "with_columns", "input": "orders", "columns": {"id": "amount * 2"}}
    text = json.dumps({"steps": [step, {"name": "u", "op": "filter", "input": "t", "where": "id = 42"}]})
    new = redact_text(text, IDENTIFYING)
    assert "42" not in json.loads(new)["steps"][1]["where"]
    assert not is_computable(new)


def test_a_step_that_passes_a_column_on_does_not_hide_what_is_in_it():
    step = {"name": "t", "op": "project", "input": "p", "columns": {"id": "id", "twice": "2 * id"}}
    text = json.dumps({"steps": [step, {"name": "u", "op": "filter", "input": "t", "where": "id = 42"}]})
    new = redact_text(text, IDENTIFYING)
    assert re.fullmatch(r"id = -88\d{16}", json.loads(new)["steps"][1]["where"])
    assert is_computable(new)


def test_saved_queries_are_read_as_duckdb_reads_them():
    text = json.dumps({"query": """SELECT "name" FROM p WHERE "name" = 'Annabel Smith' AND x = 'a\\' AND "id" = 42"""})
    new = json.loads(redact_text(text, IDENTIFYING))["query"]
    assert re.fullmatch(r"""SELECT "name" FROM p WHERE "name" = 'erased-\w+' AND x = 'a\\' AND "id" = -88\d+""", new)


def test_the_path_of_a_query_stays():
    text = json.dumps({"steps": [{"name": "s", "op": "sql", "file": "Annabel Smith.sql"}]})
    assert redact_text(text, IDENTIFYING) == text


def test_names_that_other_datasets_have_too(tmp_path):
    made = MadeHome(tmp_path / "home")
    people = pa.table({"id": [42, 7], "name": ["Annabel Smith", "Zoe Long"]})
    declared = {"subject": {"customer": "id"}, "pii": ["name"]}
    orders = pa.table({"id": [42, 43], "customer": [42, 7]})
    result = Made(pa.table({"n": [1]}))
    made.run("w", {"people": Made(people.slice(1), "source", declared), "o": result})  # an earlier state of the source
    made.run("v", {"contacts": Made(pa.table({"name": ["Zoe Long"]}), "source", {"pii": ["name"]}), "o": result})
    run_id = made.run("w", {"people": Made(people, "source", declared), "orders": Made(orders, "source"), "o": result})
    with made.home as home:
        ask = home._open.questions
        record = next(each for each in ask.graph.datasets(run_id) if each.name == "people")
        found = find_identifying_values(ask, [PersonRows(record, [0])])
    assert (found.columns, found.ambiguous) == ({"id", "name"}, {"id"})
