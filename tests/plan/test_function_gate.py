"""Which functions a workflow's expressions may call: an allow-list, found as Spark's own lexer finds calls."""

import json

import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service.plan.functions import ALLOWED, KNOWN, REFUSED
from lineage_service.plan.spark_lexer import Unreadable, lexemes, refuse_calls

ARGUMENTS = "('java.lang.System', 'getenv', 'HOME')"
REFLECTED = [
    "reflect{}",
    "REFLECT{}",
    "java_method{}",
    "try_reflect{}",
    "`reflect`{}",
    "reflect \n\t {}",
    "reflect /* a comment */ {}",
    "reflect -- a comment\n{}",
    "builtin.reflect{}",
    "system . builtin . reflect{}",
    "`system`.`builtin`.`reflect`{}",
    "IDENTIFIER('reflect'){}",
    "identifier('ref' || 'lect'){}",
    "`identifier`('reflect'){}",
    "'a' LIKE reflect{}",
    "'a' NOT RLIKE reflect{}",
    "transform(array(1), x -> reflect{})",
    "coalesce(null, upper(reflect{}))",
    "case when true then reflect{} end",
    "x[reflect{}]",
    "concat(r'\\', reflect{}, r'\\')",
    'concat(r"\\", reflect{}, r"\\")',
    "'it''s' || reflect{} || 'it''s'",
    "'\\'' || reflect{} || '\\''",
    "1 /* /*+ */ + length(reflect{}) -- */",
    "1 /* /* */ + length(reflect{}) -- */",
    "reflect\u00a0{}",
    "reflect\u200b{}",
    "$x$ ' $x$ || reflect{} || $x$ ' $x$",
    "concat('$', '{{') || reflect{}",
]


@pytest.mark.parametrize("text", REFLECTED)
def test_java_methods_are_refused_however_they_are_spelled(text):
    with pytest.raises(Unreadable):
        refuse_calls(text.format(ARGUMENTS))


@pytest.mark.parametrize(
    "text",
    [
        "'reflect(1)'",
        '"java_method(1)"',
        "r'reflect(\\'",
        "`reflect(` + 1",
        "reflect + 1",
        "a.reflect > 1",
        "1 /* reflect(1) */ + 1",
        "1 -- reflect(1)",
        "x LIKE ANY ('a%', 'b%')",
        "count(*) FILTER (WHERE x IN (1, 2) AND NOT (y > 1))",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
        "cast(x AS decimal(10, 2))",
        "extract(year FROM d) * (1 + 2)",
        "trim(BOTH 'x' FROM y)",
        "exists(xs, x -> x > (1))",
        "größe * (2)",
    ],
)
def test_what_only_looks_like_a_call(text):
    refuse_calls(text)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_each_refused_function_has_a_reason_and_a_way_on(name):
    with pytest.raises(Unreadable) as refused:
        refuse_calls(f"{name}(x)")
    assert refused.value.message.startswith(f"{name}() ")
    assert refused.value.hint


def test_settings_that_spark_would_put_into_the_text():
    for text in ("'${env:HOME}'", "'${system:user.home}'", "${spark.app.name}"):
        with pytest.raises(Unreadable, match="Spark would replace"):
            refuse_calls(text)


def test_a_text_is_taken_apart_as_spark_does():
    assert [each.text for each in lexemes("a||'b\\'c'--d\n+`e``f`/*g*/(r'\\')")] == [
        "a", "|", "|", "'b\\'c'", "+", "`e``f`", "(", "r'\\'", ")",
    ]  # fmt: skip


EXPRESSIONS = {
    "where": [{"name": "o", "op": "filter", "input": "a", "where": "reflect('x') = k"}],
    "columns": [{"name": "o", "op": "project", "input": "a", "columns": {"x": "reflect('x')"}}],
    "with_columns": [{"name": "o", "op": "with_columns", "input": "a", "columns": {"x": "reflect('x')"}}],
    "by": [{"name": "o", "op": "aggregate", "input": "a", "by": {"x": "reflect('x')"}, "measures": {"n": "count(*)"}}],
    "measures": [{"name": "o", "op": "aggregate", "input": "a", "by": ["k"], "measures": {"n": "max(reflect('x'))"}}],
    "having": [
        {"name": "o", "op": "aggregate", "input": "a", "by": ["k"], "measures": {"n": "count(*)"}, "having": "reflect(n)"}
    ],
    "on": [{"name": "o", "op": "join", "left": "a", "right": "b", "on": "left.k = reflect(right.k)"}],
    "sort": [{"name": "o", "op": "sort", "input": "a", "by": ["reflect(k) desc"]}],
    "order_by": [
        {"name": "o", "op": "window", "input": "a", "partition_by": ["k"], "order_by": ["reflect(v)"],
         "measures": {"n": "row_number()"}}
    ],
    "window": [
        {"name": "o", "op": "window", "input": "a", "partition_by": ["reflect(k)"], "order_by": ["v"],
         "measures": {"n": "row_number()"}}
    ],
    "explode": [{"name": "o", "op": "explode", "input": "a", "column": "reflect(k)", "as": "x"}],
}  # fmt: skip
MORE = {
    "check": {"outputs": {"o": {"checks": [{"where": "reflect(k) = 1"}]}}},
    "workload": {"lineage": {"workload": [{"name": "q", "backward": "o", "to": "a", "where": "reflect(k) = 1"}]}},
    "workload by": {
        "lineage": {
            "workload": [
                {"name": "q", "backward": "o", "to": "a", "by": {"x": "reflect(k)"}, "measures": {"n": "count(*)"}},
            ]
        }
    },
}


def validated(folder, steps, more):
    (folder / "a.csv").write_text("k,v\n1,2\n")
    source = {"path": "a.csv", "format": "csv", "schema": "k int, v int"}
    body = {"version": 1, "name": "flow", "sources": {"a": source, "b": source}, "steps": steps, "outputs": {"o": {}}}
    (folder / "flow.yml").write_text(json.dumps({**body, **more}, indent=1))
    found = CliRunner().invoke(cli, ["validate", str(folder / "flow.yml")], obj=None)
    return found.exit_code, str(found.output) + str(found.exception or "")


@pytest.mark.parametrize("key", [*EXPRESSIONS, *MORE])
def test_validate_refuses_it_in_every_expression(tmp_path, key):
    plain = [{"name": "o", "op": "filter", "input": "a", "where": "k > 0"}]
    code, told = validated(tmp_path, EXPRESSIONS.get(key, plain), MORE.get(key, {}))
    assert code != 0
    assert "reflect" in told
    assert "calls any Java method" in told or key in ("explode", "window"), told


def test_every_function_of_spark_is_allowed_or_refused_with_a_reason(spark):
    """A new version of Spark brings new functions: each is to be looked at, and put on one of the lists."""
    there = {each.name.lower() for each in spark.catalog.listFunctions()}
    words = {name for name in there if name.replace("_", "a").isalnum()}  # the others are operators
    assert words - KNOWN == set(), "look at them: allowed, or refused with a reason?"
    assert (ALLOWED | REFUSED.keys()) == KNOWN
