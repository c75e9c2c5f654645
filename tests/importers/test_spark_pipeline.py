"""`import spark-pipeline`, without Spark: projects made of texts, and the two that are also run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service.errors import LineageError
from lineage_service.importers.imported_file import import_project
from lineage_service.importers.spark_pipeline.project import pipeline_project
from lineage_service.importers.spark_pipeline.statements import statements_of
from lineage_service.spec.yaml_tree import parse_tree

PIPELINES = Path(__file__).parent / "pipelines"
SPEC = "name: flow\nstorage: file:///path/to/storage\nlibraries:\n  - glob: {include: transformations/**}\n"


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Imports a project that has one SQL file, or the files given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n1,x\n", encoding="utf-8")

    def run(sql: str | dict = "", spec: str | None = SPEC, sources=(("t", "t.csv"),)):
        folder = tmp_path / "p"
        (folder / "transformations").mkdir(parents=True, exist_ok=True)
        if spec is not None:
            (folder / "spark-pipeline.yml").write_text(spec, encoding="utf-8")
        for name, text in ({"x.sql": sql} if isinstance(sql, str) else sql).items():
            file = folder / "transformations" / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return import_project(lambda: pipeline_project(folder), sources, tmp_path / "flow.yml")

    return run


def queries(made) -> dict[str, str]:
    return {step["name"]: step["query"] for step in parse_tree(made.text, "flow.yml").value["steps"]}


def omitted(made) -> dict[tuple[str, str], str]:
    return {(each.what, each.name): each.reason for each in made.workflow.omissions}


def test_the_projects(tmp_path):
    made = import_project(lambda: pipeline_project(PIPELINES / "sales"), (), tmp_path / "flow.yml")
    assert made.problems == ()
    assert made.workflow.outputs == ("by_country", "products", "best", "at_home")
    found = queries(made)
    assert found["orders"].startswith(
        "/* Both files are delivered every night.\nThe first has a header. */\nSELECT\n  CAST("
    )
    assert "\nFROM orders_csv\n" in found["orders"] and "-- may be missing" in found["orders"]
    assert found["items"].startswith("-- no header in this one\nSELECT") and "-- the end of staging" in found["items"]
    assert "SELECT coalesce(country, '?;') AS country, amount FROM orders\n" in found["by_country"]
    assert "country = '${sales_country}'" in found["at_home"]
    assert found["best"].startswith("SELECT products.product, quantity FROM products\n")
    assert found["best"].endswith("LIMIT 3\n")
    assert "  # Orders and amounts of each country\n" in made.text
    web = import_project(lambda: pipeline_project(PIPELINES / "web" / "spark-pipeline.yaml"), (), tmp_path / "web.yml")
    assert [each.flag for each in web.workflow.missing] == ["--source visits=PATH"]
    assert ("Python materialized view", "visits") in omitted(web)


@pytest.mark.parametrize(
    ("files", "name", "path"),
    [
        ("csv.`data/*.csv`", "data", "p/data/*.csv"),
        ("parquet.`s3a://bucket/2024/*`", "table_2024", "s3a://bucket/2024/*"),
        ("parquet.`s3a://bucket`", "bucket", "s3a://bucket"),
        ("json.`*.json`", "files", "p/*.json"),
        ("json.`file:///x/{a,b}.json`", "x", "/x/{a,b}.json"),
        ("json.`file:/x/a.json`", "a", "/x/a.json"),
    ],
)
def test_files_named_in_a_query(imported, files, name, path):
    made = imported(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {files}", sources=())
    assert [(each.name, each.path) for each in made.workflow.sources] == [(name, path)]


def test_statements_keep_their_texts():
    text = """-- one
CREATE /* two */ MATERIALIZED VIEW IF NOT EXISTS `a b`.c -- three
  (x COMMENT ';', y STRUCT<p: INT, q: ARRAY<INT>>, CONSTRAINT z)
  COMMENT 'AS; ''it''' TBLPROPERTIES ('AS' = (1)) CLUSTER BY (x)
AS -- four
  SELECT ';' AS x, /* ; */ 1
FROM t -- five
;
-- between; them
;
CREATE OR REPLACE TEMP VIEW v AS SELECT 1; SET k = v w;
-- six
"""
    view, temporary, setting = statements_of(text)
    assert (view.kind, view.name, view.line, view.comment) == ("materialized view", ("a b", "c"), 2, "AS; 'it'")
    assert [(each.name, each.declares) for each in view.columns] == [("x", False), ("y", True), ("CONSTRAINT", True)]
    assert view.clauses == ("TBLPROPERTIES", "CLUSTER BY")
    assert view.query == "-- one\n/* two */\n-- three\n-- four\n  SELECT ';' AS x, /* ; */ 1\nFROM t -- five"
    assert (temporary.kind, temporary.name, temporary.query) == ("temporary view", ("v",), "-- between; them\nSELECT 1")
    assert (setting.kind, setting.words) == ("set", ("k", "=", "v", "w"))


@pytest.mark.parametrize(
    ("statement", "told", "reason"),
    [
        ("CREATE STREAMING TABLE s AS SELECT * FROM STREAM t", ("streaming table", "s"), "rows of earlier runs"),
        ("CREATE OR REFRESH STREAMING TABLE s", ("streaming table", "s"), "rows of earlier runs"),
        ("CREATE FLOW f AS INSERT INTO s BY NAME SELECT * FROM t", ("flow", "f"), "streaming table"),
        ("CREATE TEMPORARY VIEW s AS SELECT * FROM STREAM t", ("temporary view", "s"), "it reads a stream"),
        (
            "CREATE TEMPORARY VIEW s AS SELECT * FROM t JOIN stream(x.`t`) USING (a)",
            ("temporary view", "s"),
            "it reads a stream",
        ),
        (
            "CREATE TEMPORARY VIEW s AS WITH c AS (SELECT 1 FROM t, STREAM x.t) SELECT * FROM c",
            ("temporary view", "s"),
            "it reads a stream",
        ),
        ("CREATE VIEW s", ("view", "s"), "no query"),
        ("CREATE MATERIALIZED VIEW s", ("materialized view", "s"), "no query"),
        ("CREATE MATERIALIZED VIEW IDENTIFIER('s') AS SELECT * FROM t", ("materialized view", ""), "name is computed"),
        ("INSERT INTO s SELECT * FROM t", ("statement", "INSERT INTO s SELECT"), "no such statement"),
        ("DROP TABLE s", ("statement", "DROP TABLE s"), "no such statement"),
        ("CREATE MATERIALIZED VIEW V AS SELECT a FROM t", ("materialized view", "V"), "defines it already"),
        ("SET x = 1", ("setting", "x"), "--conf"),
    ],
)
def test_other_statements_are_told(imported, statement, told, reason):
    made = imported(f"CREATE MATERIALIZED VIEW v AS SELECT a FROM t;\n{statement};")
    (what, name) = told
    assert {key: value for key, value in omitted(made).items() if reason in value} == {
        (what, f"{name} (transformations/x.sql:2)".strip()): next(iter(omitted(made).values()))
    }
    assert list(queries(made)) == ["v"] and made.errors == ()


def test_clauses_and_column_lists(imported):
    made = imported(
        """CREATE TEMPORARY VIEW renamed (p COMMENT 'x', `q r`) AS SELECT a, b FROM t -- both
        ;CREATE MATERIALIZED VIEW typed (a INT NOT NULL, b STRING) USING parquet PARTITIONED BY (a) AS SELECT a, b FROM t;
        CREATE VIEW m AS SELECT a, b FROM renamed; CREATE MATERIALIZED VIEW n AS SELECT a FROM default.m"""
    )
    assert queries(made)["renamed"] == "SELECT a, b FROM t -- both\n"  # as spark-pipelines does: the list is ignored
    assert made.errors == ()
    assert queries(made)["n"] == "SELECT a FROM m\n" and "m" not in made.workflow.outputs
    assert set(omitted(made)) == {("column list", "of renamed (transformations/x.sql:1)")} | {
        (what, "of typed (transformations/x.sql:2)") for what in ("column types", "USING", "PARTITIONED BY")
    }


def test_names_of_several_parts(imported):
    spec = SPEC + "database: Shop\ncatalog: lake\n"
    made = imported(
        """CREATE MATERIALIZED VIEW a AS SELECT a FROM t;
        CREATE MATERIALIZED VIEW other.a AS SELECT a FROM Shop.A;
        CREATE MATERIALIZED VIEW b AS SELECT x.a FROM LAKE.other.a x, lake.shop.a, elsewhere.shop.a;
        CREATE TEMPORARY VIEW c AS SELECT a FROM a;
        USE other;
        CREATE MATERIALIZED VIEW d AS SELECT a.a FROM a;
        CREATE MATERIALIZED VIEW `Größe 1` AS SELECT a FROM lake.shop.a;
        CREATE MATERIALIZED VIEW e AS WITH a AS (SELECT 1 AS b FROM c) SELECT shop.a.a FROM shop.a, a""",
        spec,
        [("t", "t.csv"), ("elsewhere.shop.a", "t.csv")],
    )
    found = queries(made)
    assert found["a"] == "SELECT a FROM t\n"
    assert found["other_a"] == "SELECT a FROM a\n"
    assert found["b"] == "SELECT x.a FROM other_a x, a, shop_a\n"
    assert found["c"] == "SELECT a FROM a\n"
    assert found["d"] == "SELECT a.a FROM other_a AS a\n"
    assert found["grosse_1"] == "SELECT a FROM a\n"
    assert found["e"] == "WITH a AS (SELECT 1 AS b FROM c) SELECT a_2.a FROM a_table AS a_2, a\n"
    assert {"grosse_1", "d"} <= set(made.workflow.outputs)


def test_a_table_called_stream(imported):
    made = imported(
        "CREATE MATERIALIZED VIEW v AS SELECT stream.a, a stream FROM stream WHERE a = 1;"
        "CREATE MATERIALIZED VIEW w AS SELECT s.a FROM `stream` s, stream AS x",
        sources=[("stream", "t.csv")],
    )
    assert made.problems == () and list(queries(made)) == ["v", "w"]


def test_settings_with_settings_in_them(imported):
    spec = (
        SPEC + "configuration: {root: main, day: '${root}-${spark:n}', n: 3, x: '${y}', y: '${x}', z: '${day}${no}'}\n"
    )
    made = imported(
        """CREATE MATERIALIZED VIEW v AS SELECT a, '${day}' AS day FROM t;
        CREATE MATERIALIZED VIEW w AS SELECT a, '${x}' AS day FROM t;
        CREATE MATERIALIZED VIEW x AS SELECT a, '${z}' AS day FROM t""",
        spec,
    )
    assert parse_tree(made.text, "x").value["vars"] == {"day": "main-3"}
    assert list(queries(made)) == ["v"]
    reasons = [each.reason for each in made.workflow.omissions if each.what == "materialized view"]
    assert reasons == [
        f"it uses ${{{key}}}, which the configuration of the pipeline does not set" for key in ("x", "no")
    ]


def test_settings(imported):
    spec = SPEC + 'configuration:\n  my.k: "x\'${y}"\n  my.n: 3\n  my_n: "4"\n  spark.sql.ansi.enabled: "false"\n'
    made = imported(
        """CREATE MATERIALIZED VIEW v AS SELECT '${my.n}' AS k, '${spark:my.n} ${my_n}' AS n FROM t -- ${none}
        LIMIT ${my.n};
        SET none = 4;
        CREATE MATERIALIZED VIEW w AS SELECT '${none}' AS k, a FROM t;
        CREATE MATERIALIZED VIEW x AS SELECT '${my.k}' AS k, a FROM t;
        CREATE MATERIALIZED VIEW y AS SELECT '${env:HOME}' AS k, a FROM w""",
        spec,
    )
    assert queries(made) == {"v": "SELECT '${my_n}' AS k, '${my_n} 4' AS n FROM t -- $${none}\n        LIMIT 3\n"}
    assert parse_tree(made.text, "x").value["vars"] == {"my_n": "3"}
    assert made.errors == ()
    told = omitted(made)
    assert (
        "--conf" in told["setting", "spark.sql.ansi.enabled"]
        and "--conf" in told["setting", "none (transformations/x.sql:3)"]
    )
    for line, name, reference in ((4, "w", "${none}"), (5, "x", "${y}"), (6, "y", "${env:HOME}")):
        assert f"it uses {reference}," in told["materialized view", f"{name} (transformations/x.sql:{line})"]


def test_files_of_all_kinds(imported):
    made = imported(
        {
            "a.sql": b"\xef\xbb\xbf-- first\r\nCREATE MATERIALIZED VIEW a AS\r\n\tSELECT a\r\n\tFROM t\r\n",
            "sub/b.sql": "CREATE MATERIALIZED VIEW b AS SELECT 'x\r\ny' AS b FROM a",
            "broken.sql": "CREATE MATERIALIZED VIEW c AS SELECT 'open FROM t",
            "latin.sql": b"-- \xe9\nCREATE MATERIALIZED VIEW d AS SELECT 1",
            "jinja.sql": "CREATE MATERIALIZED VIEW e AS SELECT * FROM {{ t }}",
            "notes.txt": "nothing",
            "x.py": "import dp\n@dp.table\ndef u(): ...\n@dp.append_flow(target='u', name='f')\ndef g(): ...\n"
            "dp.create_streaming_table('w')\nx = (",
            "y.py": "@dp.table(name='shop.u')\ndef u(): ...\ndp.create_streaming_table(name='w')\n",
            "z.py": "print(1)",
        }
    )
    found = queries(made)
    assert found["a"] == "-- first\n\tSELECT a\n\tFROM t\n"
    assert found["b"] == "SELECT 'x\r\ny' AS b FROM a\n"
    reasons = omitted(made)
    assert "not closed" in reasons["file", "transformations/broken.sql"]
    assert "UTF-8" in reasons["file", "transformations/latin.sql"]
    assert "not valid Python" in reasons["file", "transformations/x.py"]
    assert {("Python table", "shop.u"), ("Python streaming table", "w")} <= set(reasons)
    assert {("file", "transformations/notes.txt"), ("file", "transformations/z.py")} <= set(reasons)
    assert [each.position.line for each in made.errors if each.position] == [
        number for number, line in enumerate(made.text.split("\n"), 1) if "{{" in line
    ]


def test_refusals_have_their_line(imported):
    made = imported(
        "CREATE MATERIALIZED VIEW v AS\nSELECT a,\n  no_such_function(b)\nFROM t;\nCREATE MATERIALIZED VIEW w AS SELECT x.a FROM v, u x"
    )
    lines = made.text.split("\n")
    assert ["no_such_function" in lines[each.position.line - 1] for each in made.errors] == [False, True]
    assert made.errors[0].hint == "--source u=PATH, or write the path here"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "there is no spark-pipeline.yml"),
        ("", "the file is empty"),
        ("libraries: [", "not valid YAML"),
        (SPEC.replace("transformations/**}", "/**}"), "'/**' is not a valid glob"),
        (SPEC + "configuration: [a]\n", "'configuration' needs a mapping"),
        ("name: x\nlibraries: [{glob: transformations}, {}]", "needs 'glob' with 'include'"),
        ("name: x\nlibraries: {}", "has no view in SQL"),
        ("name: x\nlibraries: 7", "needs a list of globs"),
    ],
)
def test_projects_that_are_none(imported, spec, message):
    with pytest.raises(LineageError) as raised:
        imported("CREATE MATERIALIZED VIEW v AS SELECT a FROM t", spec)
    assert message in str(raised.value)


def test_globs(imported):
    """Some that spark-pipelines refuses are read too: previews of Spark wrote them."""
    view = "CREATE MATERIALIZED VIEW {} AS SELECT a FROM t"
    spec = "name: x\ndefinitions:\n  - glob: {include: transformations/**/*.sql}\n"
    spec += "libraries:\n  - glob: {include: transformations/a.sql}\n  - glob: {include: nothing/**}\n"
    made = imported({"a.sql": view.format("a"), "sub/b.sql": view.format("b"), "c.py": "1"}, spec)
    assert sorted(queries(made)) == ["a", "b"] and not made.workflow.omissions
    assert ["spark-pipelines refuses" in each or "no file matches" in each for each in made.workflow.warnings] == [
        True
    ] * 2


def test_sources_of_files_may_be_named(imported):
    made = imported(
        "CREATE MATERIALIZED VIEW a AS SELECT _c0 FROM csv.`in/x y.csv`", sources=[("csv.`in/x y.csv`", "t.csv")]
    )
    assert [source.path for source in made.workflow.sources] == ["t.csv"]


def test_what_init_writes(imported):
    """The SQL example reads the Python example."""
    made = imported(
        {
            "example_python_materialized_view.py": "from pyspark import pipelines as dp\nfrom pyspark.sql import DataFrame\n\n"
            "@dp.materialized_view\ndef example_python_materialized_view() -> DataFrame:\n    return spark.range(10)\n",
            "example_sql_materialized_view.sql": "CREATE MATERIALIZED VIEW example_sql_materialized_view AS\n"
            "SELECT id FROM example_python_materialized_view\nWHERE id % 2 = 0\n",
        },
        sources=[("example_python_materialized_view", "ids.parquet")],
    )
    assert (
        queries(made)["example_sql_materialized_view"]
        == "SELECT id FROM example_python_materialized_view\nWHERE id % 2 = 0\n"
    )
    assert made.errors == ()


def test_the_command(tmp_path):
    out = tmp_path / "sales.yml"
    done = CliRunner().invoke(cli, ["import", "spark-pipeline", str(PIPELINES / "sales"), "--out", str(out), "--json"])
    assert done.exception is None
    report = json.loads(done.stdout)
    assert report["steps"]["orders"] == {"from": "temporary view 'orders'", "checks": 0}
    assert report["problems"] == [] and report["file"] == str(out) and "text" not in report
    assert list(parse_tree(out.read_text(encoding="utf-8"), "x").value["steps"][0]) == ["name", "op", "query"]
    assert f"written: {out} (6 steps, 2 sources, 4 outputs)" in done.stderr
