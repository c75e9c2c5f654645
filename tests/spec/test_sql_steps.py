"""The sql steps of workflow files: what they read, and where problems of their queries are told."""

from pathlib import Path

import pytest

from lineage_service.errors import LineageError
from lineage_service.plan.build import build_plan
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.loader import load_workflow
from lineage_service.spec.sql_parsing import parse_query, tables_of
from lineage_service.spec.sql_syntax import SqlSyntaxError

SCHEMAS = {name: Schema((Column("id", "bigint"), Column("v", "bigint"))) for name in ("a", "b")}
HEAD = """version: 1
name: w
vars: {least: 5}
sources: {a: {path: a.parquet}, b: {path: b.parquet}}
steps:
"""
TAIL = "\noutputs: {out: {}}\n"


def written(folder: Path, steps: str) -> Path:
    path = folder / "w.yml"
    path.write_text(HEAD + steps + TAIL, encoding="utf-8")
    return path


def problems(path: Path) -> list[str]:
    loaded = load_workflow(path)
    try:
        plan = build_plan(loaded, SCHEMAS)
    except LineageError as error:
        found = error.problems
    else:
        found = plan.warnings
    return [str(problem).replace(f"{path.parent}/", "") for problem in found]


def test_a_query_reads_the_sources_and_steps_that_it_names(tmp_path):
    steps = """
  - {name: out, op: sql, query: "WITH b AS (SELECT id FROM Big) SELECT b.id FROM b WHERE b.id > ${least}"}
  - {name: big, op: filter, input: a, where: v > 1}
"""
    loaded = load_workflow(written(tmp_path, steps))
    assert loaded.spec.steps[0].reads == ("big",)
    assert "b.id > 5" in loaded.spec.steps[0].query
    assert [problem.message for problem in loaded.problems] == ["no step reads source 'b'"]


@pytest.mark.parametrize(
    ("steps", "place"),
    [
        ('  - {name: out, op: sql, query: "SELECT nope FROM a, b"}', "7:41"),
        ("  - {name: out, op: sql, query: SELECT a.nope FROM a}", "7:40"),
        ("  - name: out\n    op: sql\n    query: |\n      SELECT a.id,\n\n             a.nope\n      FROM a", "12:14"),
        ("  - name: out\n    op: sql\n    query: |2\n        SELECT a.id,\n       a.nope\n      FROM a", "11:8"),
        ("  - name: out\n    op: sql\n    query: >\n      SELECT a.id,\n      a.nope FROM a", "9:12"),
        ('  - {name: out, op: sql, query: "SELECT ${least} AS x, nope FROM a"}', "7:56"),
    ],
)
def test_the_place_of_a_column_is_that_in_the_file(tmp_path, steps, place):
    (found,) = (each for each in problems(written(tmp_path, "\n" + steps)) if "nope" in each)
    assert found.startswith(f"w.yml:{place}: unknown column")


def test_a_file_is_read_beside_the_workflow_and_has_places_of_its_own(tmp_path):
    (tmp_path / "q.sql").write_text("SELECT id\nFROM a\nWHERE idd > ${least}", encoding="utf-8")
    path = written(tmp_path, "  - {name: out, op: sql, file: q.sql}")
    assert "q.sql:3:7: unknown column 'idd'; columns here: id, v\n  hint: did you mean 'id'?" in problems(path)
    before = load_workflow(path).version
    (tmp_path / "q.sql").write_text("SELECT id FROM a", encoding="utf-8")
    assert load_workflow(path).version != before
    assert load_workflow(path).spec.steps[0].query == "SELECT id FROM a"


def test_a_file_that_is_not_there(tmp_path):
    (tmp_path / "other.sql").write_text("SELECT 1", encoding="utf-8")
    path = written(tmp_path, "  - {name: out, op: sql, file: q.sql}")
    (found,) = (each for each in problems(path) if "warning" not in each)
    assert found == "w.yml:6:32: the file 'q.sql' does not exist\n  hint: files there: other.sql"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("query: SELECT id FROM a, file: q.sql", "needs exactly one of 'query', 'file'"),
        ("checks: []", "needs exactly one of 'query', 'file'"),
        ("query: SELECT id FROM a, inputs: [a]", "unknown key 'inputs'"),
        ("query: SELECT id FROM, checks: []", "cannot read the query"),
        ("query: SELECT id FROM aa", "unknown table 'aa'"),
        ("query: 'SELECT id FROM a WHERE v > ${lest}'", "unknown variable 'lest'"),
    ],
)
def test_problems_of_a_step(tmp_path, keys, message):
    found = [
        each for each in problems(written(tmp_path, f"  - {{name: out, op: sql, {keys}}}")) if "warning" not in each
    ]
    assert len(found) == 1, found
    assert message in found[0]


def test_steps_that_read_each_other_by_queries(tmp_path):
    steps = "  - {name: out, op: sql, query: SELECT id FROM c}\n  - {name: c, op: sql, query: SELECT id FROM out}"
    assert "steps read each other in a cycle: out -> c -> out" in "\n".join(problems(written(tmp_path, steps)))


MISSPELT = {
    "SELECT v FROM a GROUP v": "write GROUP BY",
    "SELECT v AS FROM orders": None,
    "SELECT v orders.v FROM orders": None,
    "SELECT v FORM a": "did you mean 'FROM'?",
    "SELECT v FROM cross": "write `cross`",
    "SELECT v FROM": None,
}


@pytest.mark.parametrize("query", MISSPELT)
def test_hints_name_what_was_meant_and_no_tables(query):
    with pytest.raises(SqlSyntaxError) as found:
        parse_query(query)
    assert found.value.hint == MISSPELT[query]
    assert "Token" not in found.value.message


def test_a_query_may_end_with_several_semicolons_and_comments():
    assert tables_of(parse_query("SELECT v FROM a;\n-- done\n;\n")) == ("a",)
    with pytest.raises(SqlSyntaxError, match="the query is empty"):
        parse_query(" ; ")


def test_tables_of_a_query_with_thousands_of_terms():
    terms = " OR ".join(f"v = {number}" for number in range(3000))
    assert tables_of(parse_query(f"SELECT v FROM a WHERE {terms}")) == ("a",)


def test_a_variable_in_the_path_of_a_query_is_used(tmp_path):
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "q.sql").write_text("SELECT 1 AS k FROM s", encoding="utf-8")
    file = tmp_path / "w.yml"
    file.write_text(
        "version: 1\nname: w\nvars: {folder: queries}\nsources: {s: {path: s.parquet}}\n"
        "steps: [{name: x, op: sql, file: '${folder}/q.sql'}]\noutputs: {x: }\n",
        encoding="utf-8",
    )
    assert load_workflow(file).problems == ()
