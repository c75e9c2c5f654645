"""A .sql file as a workflow: its name, its sources, the places of its problems, and its version."""

from pathlib import Path

import pytest

from lineage_service.errors import LineageError, NotFound
from lineage_service.plan.build import build_plan
from lineage_service.plan.schema import Column, Schema
from lineage_service.runs.validation import source_schemas
from lineage_service.spec.legal_names import legal_name
from lineage_service.spec.loader import load_workflow

SCHEMA = Schema((Column("id", "bigint"), Column("v", "bigint")))


def no_output(name):
    raise NotFound(f"no dataset '{name}'")


def written(folder: Path, query: str, name: str = "q.sql") -> Path:
    path = folder / name
    path.write_text(query, encoding="utf-8")
    return path


def problems(path: Path, variables=None, sources=()) -> list[str]:
    try:
        loaded = load_workflow(path, variables, sources)
        _, found, _ = source_schemas(loaded, no_output)
        told = [each for each in found if "unknown table" in each.message]  # no file is there
        told += build_plan(loaded, dict.fromkeys(loaded.spec.sources, SCHEMA)).warnings
    except LineageError as error:
        told = error.problems
    return [str(problem).replace(f"{path.parent}/", "") for problem in told]


@pytest.mark.parametrize(
    ("stem", "name"),
    [("revenue", "revenue"), ("Top Customers-2024", "top_customers_2024"), ("2024", "query_2024"), ("größe", "grosse"),
     ("été", "ete"), ("数据", "query"), ("all", "query_all"), ("a__b", "a__b"), ("_x", "x")],
)  # fmt: skip
def test_the_name_is_that_of_the_file(tmp_path, stem, name):
    loaded = load_workflow(written(tmp_path, "SELECT id FROM a", f"{stem}.sql"), sources={"a": "a.parquet"})
    assert (loaded.spec.name, list(loaded.spec.outputs)) == (name, [name])
    assert legal_name(stem, "query") == name


def test_tables_become_sources_of_the_workflow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sql").mkdir()
    query = """
WITH big AS (SELECT id FROM Orders WHERE v > 1)
SELECT b.id FROM big b JOIN parquet.`../data/item/*.parquet` i ON b.id = i.id JOIN csv.`x.tsv` USING (id)
JOIN raw.customer ON customer.id = raw.customer.v JOIN `my table` m USING (id)
JOIN parquet.`../data/item/*.parquet` j USING (id) JOIN rates.daily USING (id)"""
    given = {"orders": "data/orders", "RAW.customer": "/abs/c.json", "my table": "m.parquet"}
    loaded = load_workflow(written(tmp_path / "sql", query), sources=given)
    assert not loaded.errors
    assert {name: source.path or source.output for name, source in loaded.spec.sources.items()} == {
        "orders": "../data/orders",
        "item": "../data/item/*.parquet",
        "x": "x.tsv",
        "customer": "/abs/c.json",
        "my_table": "../m.parquet",
        "daily": "rates.daily",
    }
    assert loaded.spec.sources["x"].reader_options == {"sep": ","}, "Spark's csv.`path` knows nothing of suffixes"
    text = loaded.spec.steps[0].query
    assert "FROM Orders WHERE" in text
    assert "JOIN item i ON" in text
    assert "JOIN x USING" in text
    assert "JOIN customer ON customer.id = customer.v JOIN my_table m USING" in text
    assert text.endswith("JOIN item j USING (id) JOIN daily USING (id)")
    assert loaded.spec.steps[0].inputs == ("orders", "item", "x", "customer", "my_table", "daily")


@pytest.mark.parametrize(
    ("query", "sources", "text"),
    [
        # The query, its CTEs and reserved words keep their names for themselves.
        ("SELECT q.id FROM q", {"q_source": "q"}, "SELECT q.id FROM q_source AS q"),
        ("WITH o AS (SELECT * FROM parquet.`o`) SELECT id FROM o", {"o_2": "o"},
         "WITH o AS (SELECT * FROM o_2) SELECT id FROM o"),
        ("SELECT id FROM parquet.`order.parquet`", {"order": "order.parquet"}, "SELECT id FROM `order`"),
        ("SELECT id FROM parquet.`*`", {"source": "*"}, "SELECT id FROM source"),
        ("SELECT `My Q`.id FROM `My Q`", {"my_q": "m"}, "SELECT `My Q`.id FROM my_q AS `My Q`"),
        ("SELECT a.id FROM parquet.`a/a.parquet` x, a", {"a": "a", "a_2": "a/a.parquet"}, "SELECT a.id FROM a_2 x, a"),
    ],
)  # fmt: skip
def test_names_that_are_taken(tmp_path, query, sources, text, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = load_workflow(written(tmp_path, query), sources={"q": "q", "my q": "m", "a": "a"})
    assert {name: source.path for name, source in loaded.spec.sources.items()} == sources
    assert loaded.spec.steps[0].query == text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT id\nFROM a JOIN ordrs USING (id)",
         "q.sql:2:13: unknown table 'ordrs'; sources given: a, orders\n  hint: did you mean 'orders'?"),
        ("SELECT id FROM parquet.`x`\n JOIN db.t USING (id)", "q.sql:2:7: unknown table 'db.t'; sources given: a, "
         "orders\n  hint: say where it is with --source db.t=PATH, or write parquet.`PATH`"),
        ("SELECT id FROM q", "q.sql:1:16: unknown table 'q'; sources given: a, orders\n  hint: say where it is with "
         "--source q=PATH, or write parquet.`PATH`"),
        ("SELECT id FROM `no name`", "q.sql:1:16: unknown table 'no name'; sources given: a, orders\n  hint: say where "
         "it is with --source no name=PATH, or write parquet.`PATH`"),
        ("SELECT id FROM orc.`x`", "q.sql:1:16: files of the format 'orc' are not read; formats: parquet, csv, json"),
        ("SELECT i.id, i.nope FROM\n parquet.`some/path/i.parquet` i, a",
         "q.sql:1:14: unknown column 'i.nope'; columns of 'i': id, v"),
        ("SELECT id FROM parquet.`some/path/i.parquet` WHERE ${col} > 1\n  AND nope = 1",
         "q.sql:2:7: unknown column 'nope'; columns here: id, v"),
        ("SELECT 1; SELECT 2",
         "q.sql:1:10: the file has several queries; a workflow has one\n  hint: put each into a file of its own"),
        ("", "q.sql:1:1: the file has no query"),
        ("-- none\n/* at all */", "q.sql:1:1: the file has no query"),
        ("SELECT id FROM a WHERE '", "q.sql:1:24: a text in quotes begins here and is not closed"),
        ("CREATE TABLE t AS SELECT id FROM a", "q.sql:1:1: a workflow is one query\n  hint: begin it with SELECT or "
         "WITH"),
    ],
)  # fmt: skip
def test_problems_have_their_place_in_the_file(tmp_path, query, message):
    path = written(tmp_path, query)
    variables = {"col": "id"} if "${col}" in query else {}
    found = problems(path, variables, {"a": "a.parquet", "orders": "o.parquet"})
    assert [each for each in found if "for which a source was given" not in each] == [message]


def test_variables_are_declared_by_being_given(tmp_path):
    path = written(tmp_path, "SELECT id, '${a}' AS a\nFROM parquet.`${data}/item.parquet` WHERE v > ${least} -- $${x}")
    assert problems(path, {"a": "1"}) == [
        "q.sql:2:15: variable 'data' has no value\n  hint: give it: --var data=…",
        "q.sql:2:47: variable 'least' has no value\n  hint: give it: --var least=…",
    ]
    given = {"a": "1", "data": "/d", "least": "2"}
    loaded = load_workflow(path, given)
    assert {name: source.path for name, source in loaded.spec.sources.items()} == {"item": "/d/item.parquet"}
    assert loaded.variables == given
    assert loaded.version == load_workflow(path, {**given, "least": "3", "data": "/elsewhere"}).version
    assert (
        problems(path, {**given, "b": "1"})[0]
        == "q.sql:1:1: unknown variable 'b' was given; variables here: a, data, least"
    )


def test_names_of_sources_do_not_depend_on_variables(tmp_path):
    path = written(tmp_path, "SELECT id FROM parquet.`data/${year}`")
    names = [list(load_workflow(path, {"year": year}).spec.sources) for year in ("2023", "2024")]
    assert names[0] == names[1] == ["year"]


def test_values_of_the_environment_are_kept_as_references(tmp_path, monkeypatch):
    monkeypatch.setenv("WHERE_DATA_IS", "/secret")
    loaded = load_workflow(written(tmp_path, "SELECT id FROM parquet.`${env:WHERE_DATA_IS}/item` WHERE v > 1"))
    assert not loaded.problems
    assert loaded.spec.sources["item"].path == "/secret/item"
    assert loaded.content_to_show()["sources"]["item"]["path"] == "${env:WHERE_DATA_IS}/item"


def test_an_unchanged_file_is_the_same_version_from_wherever_it_is_run(tmp_path, monkeypatch):
    (tmp_path / "sql").mkdir()
    path = written(tmp_path / "sql", "SELECT id FROM a")
    monkeypatch.chdir(tmp_path)
    first = load_workflow(path, sources={"a": "data/a.parquet"})
    monkeypatch.chdir(tmp_path / "sql")
    again = load_workflow("q.sql", sources=[("A", "../data/a.parquet"), ("unused", "x.parquet")])
    assert first.version == again.version
    assert [problem.message for problem in again.problems] == [
        "the query names no table 'unused', for which a source was given"
    ]
    assert load_workflow("q.sql", sources={"a": "../data/b.parquet"}).version != first.version
    written(tmp_path / "sql", "SELECT id, v FROM a")
    assert load_workflow("q.sql", sources={"a": "../data/a.parquet"}).version != first.version


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([("a", "1.parquet"), ("A", "2.parquet")], "source 'A' is given twice: '1.parquet' and '2.parquet'"),
        ([("a", "x.xlsx")], "q.sql:1:16: the format of 'x.xlsx' cannot be inferred from its suffix\n  hint: write it "
         "into the query: csv.`x.xlsx`"),
        ([("a", " ")], "source 'a= ' needs a name and a path\n  hint: write NAME=PATH"),
    ],
)  # fmt: skip
def test_wrong_sources(tmp_path, sources, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert problems(written(tmp_path, "SELECT id FROM a"), sources=sources) == [message]


def test_a_yaml_file_says_itself_where_its_sources_are(tmp_path):
    path = written(tmp_path, "version: 1\nname: w\nsources: {a: {path: a}}\n", "w.yml")
    assert problems(path, sources={"a": "b"})[0] == (
        "w.yml:3:1: sources are given only for a .sql file: a YAML file says where its own are"
    )


def test_a_query_that_reads_no_table_is_told_what_to_do(tmp_path):
    (problem,) = load_workflow(written(tmp_path, "SELECT id FROM range(3)")).problems
    assert problem.message == "the query reads no table; a workflow has at least one source"
    assert problem.hint == "select from a table, and say where it is with --source NAME=PATH"
