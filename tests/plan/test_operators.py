"""Every operator in every layer that mypy does not check: places that work on text, and the tests' own.

Layers that work on nodes or models end in `assert_never`, so mypy names the operator they forget.
"""

import ast
import inspect
from typing import get_args

import pytest

from lineage_service.plan.nodes import Node
from lineage_service.spec import step_description
from lineage_service.spec.step_models import STEP_TYPES
from tests.oracle import reference
from tests.random_plans import generate
from tests.support.paths import ROOT

PACKAGE = ROOT / "lineage_service"
# Matches over nodes that name only some, each with the reason why an operator that is not named is right there.
OPEN_MATCHES = {
    ("DuckDB", "_rows"),  # what DuckDB cannot compute is left to Spark
    ("DuckDB", "apply_above_groups"),  # likewise
}
# Steps that hold a query and become many nodes: the oracle of single steps cannot judge them, and random plans have none.
WHOLE_QUERIES = {"sql"}
NODES = {each.__name__ for each in get_args(Node)}


def described() -> set[str]:
    tree = ast.parse(inspect.getsource(step_description._detail))
    return {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)} & set(STEP_TYPES)


@pytest.mark.parametrize("op", STEP_TYPES)
def test_operator_is_in_every_layer_without_types(op):
    assert op in described(), "spec/step_description.py, _detail"
    assert set(STEP_TYPES[op].model_fields) & {*step_description.INPUT_KEYS}, "INPUT_KEYS of spec/step_description.py"
    assert f"`{op}`" in (ROOT / "docs" / "workflow-file.md").read_text(encoding="utf-8"), "docs/workflow-file.md"
    if op not in WHOLE_QUERIES:
        assert op in reference.OPERATORS, "the oracle, tests/reference.py"
        assert hasattr(generate.Generator, op), "random plans, tests/generate.py"


def open_matches() -> set[tuple[str, str]]:
    """Functions with a match over several nodes whose last case is a default other than assert_never."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
            for match in (each for each in ast.walk(function) if isinstance(each, ast.Match)):
                patterns = [each for case in match.cases for each in ast.walk(case.pattern)]
                classes = {each.cls.id for each in patterns
                           if isinstance(each, ast.MatchClass) and isinstance(each.cls, ast.Name)}  # fmt: skip
                last = match.cases[-1]
                if len(classes & NODES) > 1 and "assert_never" not in ast.unparse(last):
                    place = str(path.relative_to(PACKAGE))
                    found.add(("DuckDB" if place.startswith("refresh/") else place, function.name))
    return found


def test_a_match_over_nodes_names_them_all():
    assert open_matches() == OPEN_MATCHES
