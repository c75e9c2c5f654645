"""`import dbt`, without Spark: a manifest that dbt wrote, changed in one place at a time."""

import copy
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service.errors import LineageError
from lineage_service.importers.dbt.project import dbt_project
from lineage_service.importers.imported_file import import_project
from lineage_service.runs.workflow_file import validate_workflow
from lineage_service.spec.yaml_tree import parse_tree

SHOP = Path(__file__).parent / "dbt_shop"
MANIFEST = SHOP / "target" / "manifest.json"
MODEL = "model.jaffle_shop."


@pytest.fixture
def manifest() -> dict:
    return json.loads(MANIFEST.read_text(encoding="utf-8"))


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Imports a changed manifest; seeds and sources are where the manifest's project has them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target").mkdir()
    for name in ("seeds", "data"):
        (tmp_path / name).symlink_to(SHOP / name)

    def run(content: object, sources=(("raw.orders", "data/orders.csv"),), file="shop.yml"):
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = tmp_path / "target" / "manifest.json"
        path.write_bytes(raw)
        return import_project(lambda: dbt_project(path), sources, Path(file))

    return run


def value_of(made) -> dict:
    return parse_tree(made.text, "shop.yml").value


def query_of(made, step: str) -> str:
    return next(each["query"] for each in value_of(made)["steps"] if each["name"] == step)


def model(name: str, code: str, relation: str | None = None, **more) -> dict:
    """A node for a model; `kind` is its materialization."""
    config = {"materialized": more.pop("kind", "view"), **more.pop("config", {})}
    return {
        "resource_type": "model", "name": name, "package_name": "jaffle_shop", "language": "sql", "alias": name,
        "database": "shop", "schema": "main", "original_file_path": f"models/{name}.sql", "compiled_code": code,
        "relation_name": relation or f'"shop"."main"."{name}"', "config": config, **more,
    }  # fmt: skip


def dbt_test(model_: str, kind: str, config: dict | None = None, **arguments) -> dict:
    return {
        "resource_type": "test", "name": f"{kind}_of_{model_}", "attached_node": MODEL + model_,
        "test_metadata": {"name": kind, "kwargs": arguments, "namespace": None},
        "depends_on": {"macros": [f"macro.dbt.test_{kind}"], "nodes": [MODEL + model_]},
        "config": {"severity": "ERROR", "error_if": "!= 0", "warn_if": "!= 0", "fail_calc": "count(*)", **(config or {})},
    }  # fmt: skip


def test_the_project(imported, manifest):
    made = imported(manifest)
    assert made.problems == ()
    flow = made.workflow
    assert (flow.name, flow.owner) == ("jaffle_shop", None)
    names = [step.name for step in flow.steps]
    assert set(names) == {
        "stg_payments", "stg_orders", "stg_customers", "orders", "customers", "open_orders", "stg_orders_table",
    }  # fmt: skip
    for before, behind in (("stg_payments", "orders"), ("orders", "customers"), ("orders", "open_orders")):
        assert names.index(before) < names.index(behind)
    assert sorted(flow.outputs) == ["customers", "open_orders", "orders"]
    assert {source.name: source.path for source in flow.sources} == {
        "raw_orders": "data/orders.csv",
        "raw_payments": "seeds/raw_payments.csv",
        "raw_customers": "seeds/raw_customers.csv",
    }
    assert [each.what for each in flow.renamed] == ["source 'raw.orders'"]
    (tmp := Path("shop.yml")).write_text(made.text, encoding="utf-8")
    assert validate_workflow(tmp) == ()


def test_the_text_of_queries_stays(imported, manifest):
    made = imported(manifest)
    code = manifest["nodes"][MODEL + "customers"]["compiled_code"]
    expected = code.replace('"shop"."main"."stg_orders"', "stg_orders", 1)
    expected = expected.replace('"shop"."main"."stg_orders"', "stg_orders_table", 1)
    expected = expected.replace('"shop"."main"."orders"', "orders").replace(
        '"shop"."main"."stg_customers"', "stg_customers"
    )
    expected = expected.replace('"name"', "`name`")
    assert query_of(made, "customers") == expected.strip("\n") + "\n"
    assert "-- reads the model again, not the query above of the same name" in made.text
    assert query_of(made, "stg_orders_table") == "SELECT * FROM stg_orders\n"
    assert "__dbt__cte__order_payments as (" in query_of(made, "orders")


def test_what_is_left_out_is_told(imported, manifest):
    made = imported(manifest)
    told = {(each.what, each.name): each.reason for each in made.workflow.omissions}
    assert set(told) == {
        ("model", "order_scores"), ("model", "old_orders"), ("snapshot", "orders_snapshot"),
        ("exposure", "weekly_report"), ("macro", "to_units"), ("test", "orders_have_amounts"),
        ("test", "relationships_orders_customer_id__customer_id__ref_customers_"),
        ("test", "source_not_null_raw_orders_id"),
    }  # fmt: skip
    assert "Python" in told["model", "order_scores"] and "disabled" in told["model", "old_orders"]
    for what, name in told:
        assert f"{what} {name}" in made.text.partition("version: 1")[0]
    assert any("incremental model 'orders' is imported as a full one" in each for each in made.workflow.warnings)
    assert any("compiled for duckdb" in each for each in made.workflow.warnings)


def test_descriptions_owners_and_tags_are_comments(imported, manifest):
    text = imported(manifest).text
    for line in (
        "  # models/staging/stg_orders.sql: view",
        '  # Orders come from the shop\'s system: "raw".',
        "  # tags: staging",
        "  # owner: Sales team",
    ):
        assert f"{line}\n" in text
    for node in manifest["nodes"].values():
        if node["resource_type"] == "model":
            node["config"]["meta"] = {"owner": "Data team"}
    made = imported(manifest)
    assert value_of(made)["owner"] == "Data team" and "# owner" not in made.text


def checks_of(made, step: str) -> list[dict]:
    return next(each.get("checks", []) for each in value_of(made)["steps"] if each["name"] == step)


def test_tests_become_checks(imported, manifest):
    made = imported(manifest)
    assert checks_of(made, "customers") == [{"unique": "customer_id"}, {"not_null": "customer_id"}]
    assert checks_of(made, "stg_payments") == [
        {"where": "(payment_method <> 'coupon') IS NOT TRUE OR amount IS NOT NULL"}
    ]
    assert {
        "where": "status IN ('placed', 'shipped', 'completed', 'return_pending', 'returned')",
        "severity": "warn",
    } in checks_of(made, "stg_orders")


@pytest.mark.parametrize(
    ("test", "check"),
    [
        (dbt_test("m", "not_null", column_name='"Two words"'), {"not_null": "Two words"}),
        (dbt_test("m", "not_null", column_name="id", config={"severity": "warn"}), {"not_null": "id", "severity": "warn"}),
        (dbt_test("m", "not_null", column_name='"A b"', config={"where": '"c d" = 1'}),
         {"where": "(`c d` = 1) IS NOT TRUE OR `A b` IS NOT NULL"}),
        (dbt_test("m", "accepted_values", column_name="id", values=["it's", 1]), {"where": r"id IN ('it\'s', '1')"}),
        (dbt_test("m", "accepted_values", column_name="id", values=[1, 2.5], quote=False), {"where": "id IN (1, 2.5)"}),
        (dbt_test("m", "unique", column_name="a + b"), "expression"),
        (dbt_test("m", "unique", column_name="id", config={"where": "x > 1"}), "has a where"),
        (dbt_test("m", "not_null", column_name="id", config={"where": "x > {{ y }}"}), "is not a plain predicate"),
        (dbt_test("m", "not_null", column_name="id", config={"where": "x IN (SELECT 1)"}), "is not a plain predicate"),
        (dbt_test("m", "not_null", column_name="id", config={"error_if": "> 10"}), "error_if"),
        (dbt_test("m", "not_null", column_name="id", config={"severity": "warn", "warn_if": ">5"}), "warn_if"),
        (dbt_test("m", "not_null", column_name="id", config={"limit": 5}), "limit"),
        (dbt_test("m", "accepted_values", column_name="id", values=["x y"], quote=False), "plain texts"),
        (dbt_test("m", "equal_rowcount", column_name="id"), "only not_null, unique and accepted_values"),
        (dbt_test("m", "relationships", column_name="id", to="x", field="y"), "another model"),
        ({**dbt_test("m", "unique", column_name="id"), "depends_on": {"macros": ["macro.mine.test_unique"]}}, "of its own"),
        (dbt_test("order_payments", "unique", column_name="id"), "not a step"),
    ],
)  # fmt: skip
def test_each_test_is_a_check_or_told(imported, manifest, test, check):
    manifest["nodes"][MODEL + "m"] = model("m", 'select * from "shop"."main"."stg_orders"')
    manifest["nodes"]["test.m"] = test
    made = imported(manifest)
    if isinstance(check, dict):
        assert checks_of(made, "m") == [check]
    else:
        assert checks_of(made, "m") == []
        assert [each.reason for each in made.workflow.omissions if each.name == test["name"] and check in each.reason]


def test_all_missing_sources_are_told_at_once(imported, manifest):
    for name in ("raw_customers", "raw_payments"):
        manifest["nodes"][f"seed.jaffle_shop.{name}"]["original_file_path"] = f"elsewhere/{name}.csv"
    made = imported(manifest, ())
    assert [each.hint for each in made.errors] == [
        "--source raw.orders=PATH, or write the path here",
        "--source raw_payments=PATH, or write the path here",
        "--source raw_customers=PATH, or write the path here",
    ]
    lines = made.text.split("\n")
    assert [lines[each.position.line - 1].strip() for each in made.errors] == [
        "path: path/to/raw_orders.parquet", "path: path/to/raw_payments.parquet", "path: path/to/raw_customers.parquet",
    ]  # fmt: skip
    given = [
        ("ORDERS", "data/orders.csv"),
        ("main.raw_payments", "seeds/raw_payments.csv"),
        ("raw_customers", "x/*.parquet"),
    ]
    made = imported(manifest, given)
    assert [source.path for source in made.workflow.sources] == [
        "data/orders.csv",
        "seeds/raw_payments.csv",
        "x/*.parquet",
    ]
    assert made.errors == ()


def test_wrong_names_of_sources_are_told_at_once(imported, manifest):
    with pytest.raises(LineageError) as raised:
        imported(manifest, [("raw.ordrs", "a"), ("stg_orders", "b"), ("raw_orders", "c")])
    messages = [str(each) for each in raised.value.problems]
    assert len(messages) == 3
    assert "did you mean 'raw.orders'?" in messages[0] and "becomes a step" in messages[1]


def test_paths_are_relative_to_the_file(imported, manifest, tmp_path):
    (tmp_path / "flows").mkdir()
    made = imported(manifest, file="flows/shop.yml")
    assert {source.path for source in made.workflow.sources} == {
        "../data/orders.csv", "../seeds/raw_payments.csv", "../seeds/raw_customers.csv",
    }  # fmt: skip
    assert made.problems == ()


def test_models_not_imported_are_sources_of_others(imported, manifest):
    manifest["nodes"][MODEL + "late"] = model("late", 'select * from "shop"."main"."order_scores"')
    made = imported(manifest)
    assert [each.flag for each in made.workflow.missing] == ["--source order_scores=PATH"]
    assert "model 'order_scores'" in made.errors[0].message
    nodes = manifest["nodes"]
    nodes[MODEL + "late"]["compiled_code"] = 'select * from "shop"."main_snapshots"."orders_snapshot"'
    assert [each.flag for each in imported(manifest).workflow.missing] == ["--source orders_snapshot=PATH"]


def test_a_table_without_ref_is_a_source(imported, manifest):
    manifest["nodes"][MODEL + "hard"] = model("hard", "select * from lake.rates, stg_orders o, main.orders p")
    made = imported(manifest)
    assert query_of(made, "hard") == "select * from rates, stg_orders o, orders p\n"
    assert [each.flag for each in made.workflow.missing] == ["--source lake.rates=PATH"]


def source_node(package: str, name: str, relation: str) -> dict:
    return {
        "resource_type": "source", "source_name": package, "name": name, "identifier": name, "package_name": package,
        "relation_name": relation,
    }  # fmt: skip


TABLE, CALL = '"shop"."raw"."orders_2024"', "read_csv('orders.csv')"
NAMES = ("raw_copy.orders", "raw.orders", "orders")


@pytest.mark.parametrize(
    ("name", "relation"), [*((name, each) for name in NAMES for each in (TABLE, CALL)), ("raw.orders_2024", TABLE)]
)
def test_sources_with_one_table(imported, manifest, name, relation):
    manifest["sources"] = {
        f"source.{package}.orders": source_node(package, "orders", relation) for package in ("raw", "raw_copy")
    }
    manifest["nodes"] = {MODEL + "m": model("m", f"select id from {relation}")}
    made = imported(manifest, [(name, "data/orders.csv")])
    assert made.problems == () and not any("--source" in each for each in made.workflow.warnings)
    assert [each.name for each in made.workflow.sources] == ["orders"]
    with pytest.raises(LineageError, match=r"'raw.orders' is the same table, and its path is given too"):
        imported(manifest, [("raw.orders", "data/orders.csv"), ("raw_copy.orders", "data/x.csv")])


def test_a_source_that_is_the_table_of_a_model(imported, manifest):
    manifest["sources"] = {"source.mart.orders": source_node("mart", "orders", '"shop"."main"."a"')}
    manifest["nodes"] = {
        MODEL + "b": model("b", 'select a.k from "shop"."main"."a"'),
        MODEL + "a": model("a", "select 1 as k"),
    }
    made = imported(manifest, [])
    assert [each.name for each in made.workflow.steps] == ["a", "b"]
    assert made.workflow.sources == ()
    with pytest.raises(LineageError, match=r"'mart.orders' is built by the project"):
        imported(manifest, [("mart.orders", "data/orders.csv")])


@pytest.mark.parametrize("word", ["values", "cross", "select", "where", "lateral", "using", "on"])
def test_models_called_like_words_of_sql(imported, manifest, word):
    manifest["nodes"] = {
        MODEL + word: model(word, f"select 1 as k from {next(iter(manifest['sources'].values()))['relation_name']}"),
        MODEL + "m": model("m", f'select "{word}".k from "shop"."main"."{word}"'),
        MODEL + "n": model("n", f'with "{word}" as (select * from "shop"."main"."{word}") select k from "{word}"'),
    }
    made = imported(manifest)
    assert made.problems == ()
    assert query_of(made, "m") == f"select `{word}`.k from `{word}`\n"


def test_code_for_some_rows_is_told(imported, manifest):
    manifest["nodes"] = {
        MODEL + "m": model("m", 'select k from (select * from "shop"."main"."n" where false limit 0) as x'),
        MODEL + "n": model("n", "select 1 as k", kind="incremental", config={"incremental_strategy": "microbatch"}),
    }
    warnings = imported(manifest).workflow.warnings
    assert any("model 'm' is compiled with --empty, and reads no rows" in each for each in warnings)
    assert any("model 'n' may be compiled for one batch" in each for each in warnings)


def test_files_named_in_a_query(imported, manifest, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("k\n1\n", encoding="utf-8")
    manifest["sources"] = {"source.json.t": source_node("json", "t", "json.t")}
    manifest["nodes"] = {
        MODEL + "m": model("m", f"select _c0 from csv.`{tmp_path}/in/*.csv`"),
        MODEL + "n": model("n", "select t.id from json.t"),
        MODEL + "o": model("o", "select _c0 from csv.`in/a.csv`"),
    }
    manifest["metadata"]["adapter_type"] = "spark"
    made = imported(manifest, [("json.t", "data/orders.csv")])
    found = {each.name: (each.path, each.format, each.missing) for each in made.workflow.sources}
    assert found["in"] == (f"{tmp_path}/in/*.csv", "csv", False)
    assert [each[2] for name, each in found.items() if name not in ("in", "t")] == [True]
    assert query_of(made, "n") == "select t.id from t\n"


def test_an_incremental_model_compiled_for_an_incremental_run(imported, manifest):
    node = manifest["nodes"][MODEL + "orders"]
    node["compiled_code"] += '\nwhere order_date > (select max(order_date) from "shop"."main"."orders")'
    made = imported(manifest)
    told = {each.name: each.reason for each in made.workflow.omissions}
    assert "dbt compile --full-refresh" in told["orders"]
    assert [each.flag for each in made.workflow.missing] == ["--source orders=PATH"]


def test_models_that_are_not_compiled(imported, manifest):
    manifest["nodes"][MODEL + "open_orders"]["compiled_code"] = None
    manifest["nodes"][MODEL + "customers"]["compiled_code"] = "select * from {{ ref(\"x\") }} where a = '{{'"
    made = imported(manifest)
    told = {each.name: each.reason for each in made.workflow.omissions}
    assert "dbt compile" in told["open_orders"] and "Jinja" in told["customers"]
    for node in manifest["nodes"].values():
        node.pop("compiled_code", None)
    with pytest.raises(LineageError, match=r"no model of .* is compiled") as raised:
        imported(manifest)
    assert "dbt compile" in raised.value.problems[0].hint


def test_a_template_within_a_text_is_text(imported, manifest):
    manifest["nodes"][MODEL + "m"] = model("m", 'select \'{{ x }} ${y}\' as t from "shop"."main"."orders"')
    made = imported(manifest)
    assert query_of(made, "m") == "select '{{ x }} $${y}' as t from orders\n"


def test_an_ephemeral_model_that_is_not_inlined_becomes_a_step(imported, manifest):
    manifest["nodes"][MODEL + "m"] = model("m", "select * from __dbt__cte__order_payments")
    made = imported(manifest)
    assert query_of(made, "m") == "select * from order_payments\n"
    assert "from stg_payments" in query_of(made, "order_payments")
    assert made.errors == ()


def test_names(imported, manifest):
    nodes = manifest["nodes"]
    nodes["model.other.orders"] = model(
        "orders", 'select 1 as a from "shop"."other"."Größe `x"', '"shop"."other"."orders"', package_name="other"
    )
    nodes["model.other.size"] = model(
        "Größe `x", 'select orders.order_id from "shop"."main"."orders"', '"shop"."other"."Größe `x"'
    )
    nodes["model.other.v"] = model("dim", 'select * from "shop"."other"."orders"', '"shop"."main"."dim_v2"', version=2)
    nodes["model.other.all"] = model("all", "select dim_v2.a from shop.main.dim_v2")
    made = imported(manifest)
    names = [step.name for step in made.workflow.steps]
    assert {"orders", "other_orders", "grosse_x", "dim_v2", "table_all"} <= set(names)
    assert query_of(made, "other_orders") == "select 1 as a from grosse_x\n"
    assert query_of(made, "dim_v2") == "select * from other_orders\n"
    assert query_of(made, "table_all") == "select dim_v2.a from dim_v2\n"
    assert "model 'Größe `x' is called grosse_x" in made.text


def test_a_renamed_table_keeps_its_name_within_the_query(imported, manifest):
    nodes = manifest["nodes"]
    nodes["model.other.o"] = model(
        "orders", 'select order_id from "shop"."main"."orders"', '"shop"."other"."orders"', package_name="other"
    )
    nodes[MODEL + "m"] = model(
        "m", 'select orders.order_id, "shop"."other"."orders".order_id as b from "shop"."other"."orders"'
    )
    assert (
        query_of(imported(manifest), "m")
        == "select orders.order_id, orders.order_id as b from other_orders AS orders\n"
    )


def test_parts_of_a_query_hide_no_table(imported, manifest):
    """Whatever the parts of a query are called, tables that it reads behind them are those that it names."""
    code = 'with orders as (select 1 as a from "shop"."main"."orders"), Orders_Table as (select * from orders) '
    code += 'select orders.a from orders join Orders_Table x using (a) join "shop"."main"."orders" o on true'
    manifest["nodes"][MODEL + "m"] = model("m", code)
    made = imported(manifest)
    assert (
        query_of(made, "m")
        == code.replace('"shop"."main"."orders"', "orders", 1).replace('"shop"."main"."orders"', "orders_table_2")
        + "\n"
    )
    assert query_of(made, "orders_table_2") == "SELECT * FROM orders\n"


def test_relations_of_other_adapters(imported, manifest):
    text = json.dumps(manifest).replace('\\"shop\\".', "").replace('\\"main\\".\\"', "`main`.`").replace('\\"', "`")
    manifest = json.loads(text.replace('"duckdb"', '"spark"'))
    manifest["nodes"][MODEL + "m"] = model(
        "m", "select * from main.orders join `Main`.`customers` using (customer_id)", "main.m"
    )
    made = imported(manifest)
    assert query_of(made, "m") == "select * from orders join customers using (customer_id)\n"
    assert not any("compiled for spark" in each for each in made.workflow.warnings)


def test_a_relation_that_reads_files(imported, manifest):
    source = manifest["sources"]["source.jaffle_shop.raw.orders"]
    source["relation_name"] = "read_csv('landing/orders_*.csv')"
    node = manifest["nodes"][MODEL + "stg_orders"]
    node["compiled_code"] = node["compiled_code"].replace('"shop"."landing"."orders_2026"', source["relation_name"])
    made = imported(manifest)
    assert "select * from raw_orders\n" in query_of(made, "stg_orders") and made.errors == ()


def test_what_the_compiler_refuses_is_told_with_its_line(imported, manifest):
    manifest["nodes"][MODEL + "m"] = model(
        "m", 'select\n  order_id,\n  no_such_column\nfrom "shop"."main"."stg_orders"'
    )
    made = imported(manifest)
    assert len(made.errors) == 1 and "no_such_column" in made.errors[0].message
    assert made.text.split("\n")[made.errors[0].position.line - 1].strip() == "no_such_column"


def test_models_that_read_each_other(imported, manifest):
    manifest["nodes"][MODEL + "a"] = model("a", 'select * from "shop"."main"."b"')
    manifest["nodes"][MODEL + "b"] = model("b", 'select * from "shop"."main"."a"')
    manifest["nodes"][MODEL + "c"] = model("c", 'select * from "shop"."main"."c"')
    made = imported(manifest)
    assert sum("cycle" in each.message for each in made.errors) == 2
    manifest["nodes"][MODEL + "d"] = model("d", "select * from range(3) as r")
    manifest["nodes"][MODEL + "e"] = model("e", 'select nope from "shop"."main"."a"')
    made = imported(manifest)
    assert len(made.errors) == 3, "all problems are told at once; what reads the cycle has unknown columns"


def test_line_breaks_tabs_and_marks(imported, manifest):
    manifest["nodes"][MODEL + "m"] = model("m", '\ufeffselect\r\n\torder_id -- x\r\nfrom "shop"."main"."orders"\r\n')
    manifest["nodes"][MODEL + "n"] = model("n", 'select \'a\r\nb\' as t from "shop"."main"."orders"')
    made = imported(b"\xef\xbb\xbf" + json.dumps(manifest).encode())
    assert query_of(made, "m") == "select\n\torder_id -- x\nfrom orders\n" and "      \torder_id -- x\n" in made.text
    assert query_of(made, "n") == "select 'a\r\nb' as t from orders\n"
    assert made.errors == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b'{"metadata": {', "not JSON"),
        (b"[1, 2]", "is not a dbt manifest"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 200_000, "is not a dbt manifest"),
        (b"{}", "is not a dbt manifest"),
        ({"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v11.json", "dbt_version": "1.7.3"}},
         "version 11 (dbt 1.7.3); version 12 is read"),
        ({"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v13.json"}}, "version 13"),
        ({"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/run-results/v6.json"}}, "run-results"),
        ({"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json"}}, "no model"),
    ],
)  # fmt: skip
def test_files_that_are_no_manifest(imported, content, message):
    with pytest.raises(LineageError) as raised:
        imported(content)
    assert message in str(raised.value)


def test_any_part_of_a_manifest_may_be_something_else(imported, manifest):
    """Every value below the top, one after the other, is replaced by something that nobody expects."""
    kept_nodes = (MODEL + "stg_orders", MODEL + "orders_x", "seed.jaffle_shop.raw_payments")
    manifest["nodes"][MODEL + "orders_x"] = model(
        "orders_x", 'select * from "shop"."main"."raw_payments"', meta={}, tags=["a"]
    )
    manifest["nodes"] = {
        key: node for key, node in manifest["nodes"].items() if key in kept_nodes or "stg_orders" in key
    }
    node = manifest["nodes"][MODEL + "orders_x"]
    places = [(node, key) for key in node] + [(node["config"], key) for key in node["config"]]
    places += [(manifest["metadata"], key) for key in manifest["metadata"] if key != "dbt_schema_version"]
    places += [(manifest, key) for key in manifest if key not in ("metadata", "nodes")]
    places += [(manifest["nodes"], key) for key in manifest["nodes"]]
    places += [
        (manifest["sources"]["source.jaffle_shop.raw.orders"], key) for key in ("name", "relation_name", "identifier")
    ]
    survived = 0
    for index, (holder, key) in enumerate(places):
        kept = holder[key]
        holder[key] = [None, 7, "\ud800 '\"`", [{"x": []}], {"y": None}, True][index % 6]
        try:
            survived += bool(imported(copy.deepcopy(manifest)).text)
        except LineageError as error:
            assert error.problems
        holder[key] = kept
    assert survived > len(places) / 2


@pytest.mark.long
def test_queries_of_a_large_project_are_in_files_of_their_own(tmp_path, monkeypatch, manifest):
    monkeypatch.chdir(tmp_path)
    large = "-- " + "x" * 700_000
    for name in ("a", "b"):
        manifest["nodes"][MODEL + name] = model(
            name, f'{large}\nselect order_id -- ${{x}}\nfrom "shop"."main"."orders"'
        )
    manifest["nodes"][MODEL + "c"] = model("c", 'select no_such from "shop"."main"."a"')
    manifest["nodes"][MODEL + "d"] = model("d", 'select \'x\r\ny\' as t from "shop"."main"."a"')
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    names = [
        "raw.orders=data/orders.csv",
        "raw_customers=seeds/raw_customers.csv",
        "raw_payments=seeds/raw_payments.csv",
    ]
    sources = [word for name in names for word in ("--source", name.replace("=", f"={SHOP}/"))]
    done = run_cli("manifest.json", *sources, "--out", "shop.yml")
    assert "no_such" in str(done.exception) and "shop_sql/c.sql:1:8" in str(done.exception)
    assert (tmp_path / "shop_sql" / "c.sql").read_text(encoding="utf-8") == "select no_such from a\n"
    assert (
        (tmp_path / "shop_sql" / "b.sql")
        .read_text(encoding="utf-8")
        .endswith("\nselect order_id -- $${x}\nfrom orders\n")
    )
    steps = parse_tree((tmp_path / "shop.yml").read_text(encoding="utf-8"), "x").value["steps"]
    assert {step["name"]: step.get("file") for step in steps}["a"] == "shop_sql/a.sql"
    assert next(step["query"] for step in steps if step["name"] == "d") == "select 'x\r\ny' as t from a\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["manifest.json", "shop.yml", "shop_sql"]
    (tmp_path / "shop_sql" / "c.sql").write_text("select order_id from a", encoding="utf-8")
    assert validate_workflow("shop.yml") == ()
    (tmp_path / "shop.yml").unlink()
    again = run_cli("manifest.json", *sources, "--out", "shop.yml")
    assert "exists already" in str(again.exception) and not (tmp_path / "shop.yml").exists()


def run_cli(*arguments: str):
    return CliRunner().invoke(cli, ["import", "dbt", *arguments])


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = run_cli(str(MANIFEST), "--source", f"orders={SHOP}/data/orders.csv")
    assert shown.exception is None and shown.stdout.startswith("# Imported from the dbt project 'jaffle_shop'")
    assert "not imported: snapshot orders_snapshot: " in shown.stderr
    out = tmp_path / "shop.yml"
    written = run_cli(str(MANIFEST), "--source", f"orders={SHOP}/data/orders.csv", "--out", str(out), "--json")
    assert written.exception is None and out.stat().st_size > 1000
    report = json.loads(written.stdout)
    assert report["file"] == str(out) and report["outputs"] == ["orders", "open_orders", "customers"]
    assert {"what": "model", "name": "order_scores", "reason": "it is written in Python; only SQL is traced"} in report[
        "not_taken_over"
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["shop.yml"]
    out.write_text("mine", encoding="utf-8")
    refused = run_cli(str(MANIFEST), "--out", str(out))
    assert isinstance(refused.exception, LineageError) and "--force" in str(refused.exception)
    assert out.read_text(encoding="utf-8") == "mine"
    forced = run_cli(str(MANIFEST), "--out", str(out), "--force")
    assert "the files of source 'raw.orders' are not given" in str(forced.exception)  # written, and exit code 1
    assert out.read_text(encoding="utf-8").startswith("# Imported")
