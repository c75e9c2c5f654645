"""What is caught before Spark starts: every problem of a file at once, each with place, names and hint."""

import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service.errors import WorkflowError
from lineage_service.plan.conjuncts import parse_equi_condition
from lineage_service.plan.expressions import Expression, ExpressionError, sort_key, with_stars_expanded
from lineage_service.plan.window_calls import add_over_clauses
from lineage_service.runs.workflow_file import validate_workflow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"id": [1], "amount": [1.0], "name": ["x"], "tags": [["a"]]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1], "price": [1.0], "name": ["x"]}), tmp_path / "b.parquet")
    return tmp_path


def problems(folder: Path, steps: str, outputs: str = "{out: }", extra: str = "") -> list[str]:
    """The problems of a workflow over a and b, as lines without the file's name; a source may stay unread."""
    text = (
        "version: 1\nname: w\nsources:\n  a: {path: a.parquet}\n  b: {path: b.parquet}\n"
        f"steps:\n{textwrap.indent(textwrap.dedent(steps).strip(), '  ')}\noutputs: {outputs}\n{extra}"
    )
    file = folder / "w.yml"
    file.write_text(text)
    try:
        found = list(validate_workflow(file, home=folder / "home"))
    except WorkflowError as error:
        found = [*error.problems]
    told = [str(problem).replace(str(file) + ":", "") for problem in found]
    return [text for text in told if "no step reads source" not in text]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            "- {name: out, op: filter, input: a, where: amnt > 1}",
            "7:46: unknown column 'amnt'; columns here: id, amount",
        ),
        ("- {name: out, op: filter, input: a, where: sum(amount) > 1}", "a filter's `where` has an aggregate function"),
        ("- {name: out, op: filter, input: a, where: row_number() > 1}", "has a window function"),
        ("- {name: out, op: filter, input: a, where: amount >}", "cannot read the expression"),
        ("- {name: out, op: filter, input: a, where: id in (select 1)}", "subqueries"),
        ("- {name: out, op: filter, input: a, where: foo(id) = 1}", "unknown function 'foo'"),
        ("- {name: out, op: filter, input: a, where: input_file_name() = 'x'}", "would change under capture"),
        ("- {name: out, op: project, input: a, columns: [id, nme]}", "7:54: unknown column 'nme'"),
        ("- {name: out, op: project, input: a, columns: {x: id, X: name}}", "two columns are called 'X'"),
        ("- {name: out, op: project, input: a, columns: {x: id as y}}", "gives a name with AS"),
        ("- {name: out, op: project, input: a, columns: {_rid: id}}", "reserved"),
        ("- {name: out, op: with_columns, input: a, columns: {x: count(*)}}", "aggregate"),
        ("- {name: out, op: aggregate, input: a, by: [id], measures: {m: amount}}", "measure 'm' is no aggregate"),
        (
            "- {name: out, op: aggregate, input: a, by: [id], measures: {m: max(1 + sum(amount))}}",
            "measure 'm' has an aggregate function inside another",
        ),
        ("- {name: out, op: aggregate, input: a, by: [id], measures: {m: sum(amount) + name}}", "outside an aggregate"),
        ("- {name: out, op: aggregate, input: a, by: [idd], measures: {m: count(*)}}", "unknown column 'idd'"),
        (
            "- {name: out, op: aggregate, input: a, by: [id], measures: {m: count(*)}, having: amount > 1}",
            "unknown column",
        ),
        (
            "- {name: out, op: aggregate, input: a, by: [id], measures: {m: count(*)}, having: count(*) > 1}",
            "aggregate",
        ),
        ("- {name: out, op: aggregate, input: a, by: [id], measures: {m: rank()}}", "window function"),
        ("- {name: out, op: join, left: a, right: b, on: id = id}", "column 'id' is on both sides of the join"),
        ("- {name: out, op: join, left: a, right: b, on: left.id = right.idd}", "unknown column 'idd'"),
        ("- {name: out, op: join, left: a, right: b, on: left.id = right.id}", "'id' is ambiguous"),
        ("- {name: out, op: join, left: a, right: b, using: [amount]}", "unknown column 'amount'"),
        (
            "- {name: out, op: union, inputs: [a, b]}",
            "'a' and 'b' have different columns: 'b' lacks amount, tags; 'b' also has price",
        ),
        ("- {name: out, op: intersect, left: a, right: b}", "different columns"),
        ("- {name: out, op: window, input: a, partition_by: [id], measures: {m: amount}}", "is no window function"),
        (
            "- {name: out, op: window, input: a, partition_by: [x], order_by: id, measures: {m: rank()}}",
            "unknown column 'x'",
        ),
        ("- {name: out, op: window, input: a, partition_by: [id], measures: {m: rank() over ()}}", "OVER of its own"),
        ("- {name: out, op: sort, input: a, by: [nope desc]}", "unknown column 'nope'"),
        ("- {name: out, op: limit, input: a, n: 1, by: sum(id)}", "aggregate"),
        ("- {name: out, op: explode, input: a, column: tag, as: t}", "unknown column 'tag'"),
    ],
)
def test_problem(folder, steps, expected):
    found = problems(folder, steps)
    assert len(found) == 1, found
    assert expected in found[0]
    assert found[0][0].isdigit(), "it has a place"


def test_a_hint_names_the_closest_column(folder):
    (found,) = problems(folder, "- {name: out, op: filter, input: a, where: amnt > 1}")
    assert "hint: did you mean 'amount'?" in found


def test_all_problems_at_once_in_file_order(folder):
    found = problems(
        folder,
        """
        - {name: one, op: filter, input: a, where: nope = 1}
        - {name: two, op: join, left: one, right: b, on: id = 1}
        - {name: three, op: aggregate, input: two, by: [idx], measures: {m: price}}
        - {name: four, op: filter, input: b, where: price > sum(price)}
        - {name: out, op: union, inputs: [three, four]}
        """,
    )
    lines = [int(text.split(":")[0]) for text in found]
    assert lines == sorted(lines)
    assert len(found) == 3, found  # what reads a broken step is checked as if it had any column


def test_a_clash_is_an_error_only_where_it_is_read(folder):
    fine = """
        - {name: both, op: join, left: a, right: b, on: left.id = right.id}
        - {name: out, op: project, input: both, columns: [amount, price]}
        """
    assert problems(folder, fine) == []
    (read,) = problems(folder, fine.replace("[amount, price]", "[amount, name]"))
    assert "'name' is ambiguous: both sides of a join below have it" in read


def test_declarations_name_columns_that_exist(folder):
    found = problems(
        folder,
        "- {name: out, op: filter, input: a, where: id > 1, checks: [{not_null: idd}]}",
        outputs="{out: {checks: [{where: nope > 1}]}}",
        extra="lineage: {workload: [{name: q, backward: out, to: a, where: zip = 1}]}\n",
    )
    assert [text.split("'")[1] for text in found] == ["idd", "nope", "zip"]


def test_a_missing_source_is_a_warning_to_validate(folder):
    (folder / "b.parquet").unlink()
    (found,) = problems(folder, "- {name: out, op: filter, input: b, where: any_name > 1}")
    assert "warning: source 'b': no such file or folder" in found
    assert "a.parquet" in found, "what is there instead"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a + `b c`.d", ["a", "b c.d"]),
        ("transform(xs, x -> x + k)", ["xs", "k"]),
        ("count(*)", []),
        ("timestampdiff(MONTH, a, b) + date_add(DAY, 1, c)", ["b", "a", "c"]),
        ("left.a = right.b", ["left.a", "right.b"]),
        ("case when a > 1 then 'b' else c end", ["a", "c"]),
        ("current_date > d", ["d"]),
        ("user = u", ["u"]),
    ],
)
def test_columns_of_an_expression(text, columns):
    assert sorted(str(ref) for ref in Expression(text).columns) == sorted(columns)


@pytest.mark.parametrize("text", ["rand() < 0.5", "uuid()", "now()", "current_timestamp", "first(x)", "shuffle(xs)"])
def test_what_may_differ_when_read_again(text):
    assert not Expression(text).repeatable


def test_what_is_repeatable():
    assert Expression("upper(a) in ('x') and cast(b as decimal(3, 1)) > 1").repeatable


def test_stars_never_see_our_columns():
    assert with_stars_expanded(Expression("struct(*)"), ("a", "b`c")) == "struct(`a`, `b``c`)"
    assert with_stars_expanded(Expression("count(*) * 2"), ("a",)) == "count(*) * 2"
    assert with_stars_expanded(Expression("count(distinct *)"), ("a",)) == "count(distinct `a`)"


def test_window_functions_get_their_window():
    window = "PARTITION BY `k`"
    assert add_over_clauses(Expression("v / sum(v)"), window) == f"v / sum(v) OVER ({window})"
    assert add_over_clauses(Expression("lag(v) ignore nulls + 1"), window) == f"lag(v) ignore nulls OVER ({window}) + 1"
    filtered = add_over_clauses(Expression("sum(v) filter (where v > max_v)"), window)
    assert filtered == f"sum(v) filter (where v > max_v) OVER ({window})"


@pytest.mark.parametrize(
    ("text", "core", "descending", "nulls_first"),
    [("a", "a", False, True), ("a desc", "a", True, False), ("a + 1 asc nulls last", "a + 1", False, False)],
)
def test_sort_keys(text, core, descending, nulls_first):
    key = sort_key(text, None)
    assert (key.expression.text, key.descending, key.nulls_first) == (core, descending, nulls_first)


@pytest.mark.parametrize("text", ["", "a; drop table b", "a b", "{x}", "select 1", "sum("])
def test_no_expressions(text):
    with pytest.raises(ExpressionError):
        Expression(text)


@pytest.mark.parametrize(
    ("on", "keys"),
    [
        ("l1 = r1", [("l1", "r1")]),
        ("r1 = l1 + 1", [("l1 + 1", "r1")]),
        ("l1 = r1 AND r2 > 5 AND l2 < 3", [("l1", "r1")]),
        ("l1 = r1 AND l2 < r2", None),
        ("l1 = r1 OR l2 = r2", None),
        ("l1 BETWEEN r1 AND r2", None),
        ("NOT l1 = r1", None),
        ("l1 <=> r1", None),
        ("l1 = r1 AND rand() < 1", None),
        ("l1 = r1 IS NULL", None),
        ("l1 IN (r1, r2)", None),
        ("r2 > 5", None),
        ("(l1 = r1) AND l2 = r2", None),
    ],
)
def test_conjuncts_of_a_semi_join(on, keys):
    found = parse_equi_condition(Expression(on), lambda ref: "left" if ref.parts[0].startswith("l") else "right")
    assert (list(found.keys) if found else None) == keys


@pytest.mark.parametrize(
    ("text", "nested"),
    [
        ("sum(amount) FILTER (WHERE amount > 0)", False),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)", False),
        ("sum(amount) / count(DISTINCT id) + max(abs(amount))", False),
        ("max_by(id, amount)", False),
        ("collect_list(named_struct('a', amount))", False),
        ("aggregate(collect_list(amount), 0D, (a, x) -> a + x)", False),
        ("any_value(amount) IGNORE NULLS", False),
        ("sum(sum(amount))", True),
        ("max(1 + count(*))", True),
        ("sum(amount) FILTER (WHERE max(amount) > 0)", False),  # not inside the call; Spark says what it is
    ],
)
def test_aggregates_inside_others(text, nested):
    assert Expression(text).nests_aggregates is nested
