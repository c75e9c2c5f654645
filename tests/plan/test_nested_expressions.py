"""Expressions that are nested deeply, or long: read, or refused in plain words, without much work. No RecursionError."""

import sys

import pytest

from lineage_service.capture.estimate import selectivity
from lineage_service.equivalence.portable_predicates import translate_predicate
from lineage_service.errors import WorkflowError
from lineage_service.plan import expressions
from lineage_service.plan.bounded_parsing import MOST_NESTED
from lineage_service.plan.expressions import Expression, ExpressionError, sort_key
from lineage_service.runs.workflow_file import validate_workflow

NESTED = {
    "parentheses": ("(", "x", ")"),
    "calls": ("abs(", "x", ")"),
    "calls of two": ("coalesce(", "x", ", 1)"),
    "case": ("case when x > 1 then ", "1", " else 2 end"),
    "case of a value": ("case ", "x", " when 1 then 1 end"),
    "cast": ("cast(", "x", " as int)"),
    "arrays": ("array(", "x", ")"),
    "brackets": ("y[", "0", "]"),
    "not": ("not ", "b", ""),
    "minus": ("- ", "x", ""),
    "tilde": ("~ ", "x", ""),
    "in": ("x in (", "x", ", 2)"),
    "if": ("if(x > 1, ", "x", ", 2)"),
    "operators": ("(1 + ", "x", " * 2)"),
}


def nested(kind: str, levels: int) -> str:
    before, inner, after = NESTED[kind]
    return before * levels + inner + after * levels


@pytest.fixture(autouse=True)
def recursion_limit_of_a_new_process():
    """Plans with long chains raise the limit for good; how deep a text may be is tried with Python's own."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("kind", NESTED)
def test_a_hundred_levels_are_read_however_deep_the_caller_stands(kind):
    def call(depth: int, text: str) -> Expression:
        return call(depth - 1, text) if depth else Expression(text)

    limit = sys.getrecursionlimit()
    assert Expression(nested(kind, MOST_NESTED)).columns or kind == "arrays"
    assert call(500, nested(kind, MOST_NESTED - 1)).tree is not None
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("levels", [MOST_NESTED + 1, 3_000])
@pytest.mark.parametrize("kind", NESTED)
def test_more_levels_are_refused_before_anything_is_parsed(kind, levels, monkeypatch):
    for costly in ("parse_statements", "wrong_arity"):
        monkeypatch.setattr(expressions, costly, lambda *_: pytest.fail("work was done for an expression too deep"))
    with pytest.raises(ExpressionError) as caught:
        Expression(nested(kind, levels))
    assert f"nested {levels:,} levels deep; the most is {MOST_NESTED}" in caught.value.message
    assert "with_columns" in caught.value.hint


@pytest.mark.parametrize("text", ["(" * 3_000 + "x", "abs(" * 3_000, "case when " * 3_000, "struct(" * 3_000 + "x"])
def test_what_is_not_closed_is_refused_as_well(text):
    with pytest.raises(ExpressionError, match="levels deep"):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    ["struct(" * 40 + "x" + ")" * 40, "int(" * 40 + "x" + ")" * 40, "x" + "[0]" * 3_000, "interval " * 1_000 + "1 day",
     "cast(null as " + "array<" * 1_000 + "int" + ">" * 1_000 + ") is null"],
    ids=lambda text: text[:15],
)  # fmt: skip
def test_texts_that_take_the_parser_too_many_steps_are_refused(text):
    """For some of them it would go back and try again without end."""
    with pytest.raises(ExpressionError, match="nested too deeply to be read"):
        Expression(text)


@pytest.mark.parametrize("levels", [2, 6])
def test_structs_in_structs_are_read(levels):
    assert Expression("struct(" * levels + "x" + ")" * levels).columns


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    ["x in (" + ", ".join(map(str, range(10_000))) + ")", "y in (" + ", ".join(f"'v{i}'" for i in range(10_000)) + ")",
     " and ".join(["x > 1"] * 5_000), " or ".join(["x > 1"] * 5_000), " + ".join(["x"] * 5_000) + " > 1",
     "case " + " ".join(f"when x = {i} then {i}" for i in range(3_000)) + " end > 1",
     "coalesce(" + ", ".join(["x"] * 5_000) + ") > 1", "'((((' = y and " * 500 + "`case(` > 1"],
    ids=lambda text: text[:15],
)  # fmt: skip
def test_long_expressions_are_legal(text):
    expression = Expression(text)
    assert len(expression.columns) <= 2
    assert 0 <= selectivity(expression) <= 1
    assert expression.repeatable and not expression.has_aggregate


def test_a_chain_that_is_too_deep_for_duckdb_is_left_to_spark():
    long, short = (Expression(" and ".join(["x > 1"] * count)) for count in (5_000, 20))
    assert long.is_deep and not short.is_deep
    assert translate_predicate(long, lambda _: pytest.fail("it would be translated")) is None


def test_an_order_is_refused_alike():
    with pytest.raises(ExpressionError, match="levels deep"):
        sort_key(nested("calls", 3_000) + " desc nulls last", None)


def test_a_semicolon_is_refused():
    """sqlglot reads what stands before it, Spark refuses all of it."""
    for text in ("x > 1;", "x > 1; y > 2"):
        with pytest.raises(ExpressionError, match="without ';'"):
            Expression(text)
    assert Expression("y = ';'").columns


def test_a_schema_that_is_nested_too_deeply_is_told_at_its_place(tmp_path):
    (tmp_path / "s.csv").touch()
    kind = "array<" * 5_000 + "int" + ">" * 5_000
    file = tmp_path / "w.yml"
    lines = ["version: 1", "name: w", "sources:", f"  s: {{path: s.csv, schema: x {kind}}}",
             "steps: [{name: x, op: distinct, input: s}]", "outputs: {x: }", ""]  # fmt: skip
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(WorkflowError) as caught:
        validate_workflow(file, home=tmp_path / "home")
    (problem,) = caught.value.problems
    assert "nested too deeply" in problem.message
    assert (problem.position.line, problem.position.column) == (4, lines[3].index("x array") + 1)
