"""Case files of the operators as DataFrame programs: their plans, evaluated without Spark, give the rows and the
lineage of the steps."""

from collections import Counter

import pytest

from lineage_service.plan.from_connect.untraceable import Untraceable
from tests.oracle.plan_reference import evaluate_plan
from tests.oracle.reference import Ambiguous, evaluate
from tests.oracle.reference_expressions import Raised
from tests.oracle.reference_values import Unsupported
from tests.oracle.sql_reference import SqlTable
from tests.oracle.test_reference_cases import check, load, typed_table
from tests.plan.from_sql.random_queries import fingerprint, sources_of
from tests.support.connect_frames import compiled, message_of, session_without_server, with_tables_as_sources
from tests.support.paths import CASES
from tests.support.step_programs import StepProgram

pytest.importorskip("pyspark.sql.connect.proto")

PATHS = [path for path in sorted(CASES.glob("*/*.yml")) if load(path).get("oracle") is not False]


def judged(path):
    """The outputs of a case that were compared, and those that cannot be."""
    case = load(path)
    schemas, tables = {}, {}
    for name, table in case["tables"].items():
        schemas[name], tables[name] = typed_table(table)
    expected = evaluate(tables, schemas, case["steps"])
    given = {name: SqlTable(schemas[name], tables[name]) for name in tables}
    program = StepProgram(session_without_server(), schemas)
    frames = program.run(case["steps"])
    relations = {step["name"]: with_tables_as_sources(message_of(frames[step["name"]])) for step in case["steps"]}
    counts = Counter()
    for name in case.get("outputs", [case["steps"][-1]["name"]]):
        if name in expected.nondeterministic or name in tables:
            counts["open"] += 1
            continue
        node = compiled(frames[name], {**sources_of(given), **relations})
        try:
            rows = evaluate_plan(node, given)
        except (Unsupported, Ambiguous, Raised):
            counts["beyond"] += 1
            continue
        theirs, ours = Counter(map(fingerprint, expected[name])), Counter(map(fingerprint, rows))
        assert theirs == ours, f"{name}: only steps give {dict(theirs - ours)}, only the plan {dict(ours - theirs)}"
        counts["equal"] += 1
    return counts


SQL_PATHS = sorted((CASES / "sql").glob("*.yml"))


@pytest.mark.parametrize("path", SQL_PATHS, ids=lambda p: p.stem)
def test_case_of_sql(path):
    """`spark.sql(…)` over views, against what the case expects by hand."""
    case = load(path)
    schemas, tables = {}, {}
    for name, table in case["tables"].items():
        schemas[name], tables[name] = typed_table(table)
    given = {name: SqlTable(schemas[name], tables[name]) for name in tables}
    frames = StepProgram(session_without_server(), schemas).run(case["steps"])
    relations = {step["name"]: with_tables_as_sources(message_of(frames[step["name"]])) for step in case["steps"]}
    outputs = case.get("outputs", [case["steps"][-1]["name"]])
    expectations = case["expect"].get("outputs") or {outputs[0]: case["expect"]}
    assert outputs
    for name in outputs:
        node = compiled(frames[name], {**sources_of(given), **relations})
        if "either" in expectations[name]:
            continue
        try:
            rows = evaluate_plan(node, given)
        except (Unsupported, Ambiguous, Raised):
            continue
        check(rows, expectations[name], case.get("ordered", False))


@pytest.mark.parametrize("path", PATHS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path):
    try:
        counts = judged(path)
    except Untraceable as error:
        pytest.fail(str(error))
    assert sum(counts.values())


def test_most_cases_can_be_evaluated():
    counts = sum((judged(path) for path in PATHS), Counter())
    assert counts["equal"] > 10 * counts["beyond"], counts
