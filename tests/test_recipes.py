"""CONTRIBUTING's recipes are true: a toy operator and a toy source format are added to a copy of the package.

First to the unions alone: mypy names each place that must follow. Then to these places: mypy passes, and a workflow
that uses both runs and is asked for its lineage.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COPIED = ("lineage_service", "catalog", "cli")

# --- the operator: rows of which a column is not null ---------------------------------------------------------

STEP = '''class DropNullsStep(OneInput):
    """Rows of which a column is not null."""

    op: Literal["drop_nulls"]
    column: Text = Field(description="The column")


Step = ('''
NODE = """@dataclass(frozen=True, eq=False)
class DropNulls(_Unary):
    column: str

    @property
    def where(self) -> Expression:
        return Expression(f"`{self.column}` IS NOT NULL")

    def expressions_with_schemas(self) -> Iterator[tuple[Expression, Schema]]:
        yield self.where, self.input.schema


Node = ("""
# By file and function, what the recipe's row for it asks for.
PLACES = {
    ("plan/step_nodes.py", "_node"): "return DropNulls(name, name, place, self.input(step.input), step.column)",
    ("plan/column_lineage.py", "_relation"): "return replace(below, rows=(*below.rows, *_value(node.where, below).all))",
    ("plan/extremum_columns.py", "_find"): "return self.find(node.input, name, function)",
    ("plan/extremum_columns.py", "_unchanged_origins"): "return [(node.input, name)]",
    ("plan/identity_columns.py", "identity_columns"): "return identity_columns(node.input)",
    ("plan/identity_columns.py", "column_names_above"): "return column_names_above(node.input, breaker, names)",
    ("plan/node_description.py", "describe_node"): "return node.column",
    ("plan/as_steps.py", "step"): (
        "return {**name, 'op': 'drop_nulls', 'input': self._of(node.input), 'column': node.column}"
    ),
    ("plan/nodes.py", "keeps_order"): "return keeps_order(node.input)",
    ("plan/plan_rewriting.py", "with_inputs"): "return replace(node, input=inputs[0])",
    ("capture/rules.py", "rule_for"): "return LineageRule(inputs[0].handles, inputs[0].once)",
    ("capture/row_id_demand.py", "_inputs_read_with_ids"): "return (wanted,)",
    ("capture/estimate.py", "_guess_rows"): "return below[0]",
    ("capture/stability.py", "stability"): "return below[0]",
    ("capture/nondeterminism.py", "_own_nondeterminism"): "return Nondeterminism(None, open_)",
    ("capture/row_paths.py", "may_drop_rows"): "return True",
    ("capture/row_paths.py", "operation_of"): 'return "drop_nulls"',
    ("capture/missing_rows.py", "nondeterminism_without_rows"): "return chance, why",
    ("capture/survival.py", "survival"): "return passed",
    ("capture/drop_reasons.py", "reasons_of"): 'return [DropReason("condition", "null")]',
    ("capture/join_relaxation.py", "_droppers"): "yield node",
    ("capture/join_relaxation.py", "_without_dropping"): "return _rebuild_relaxed(node.input, relaxed, done)",
    ("capture/instrument.py", "is_cheap_to_recompute"): "return is_cheap_to_recompute(node.input)",
    ("capture/breaker_survey.py", "_keeps_rows_single"): "return True",
    ("runs/explanation.py", "_row_upper_bound"): "return known[0]",
    ("plan/column_demand.py", "columns_needed"): "return (own | read) & there",
    ("spark/lowering.py", "_lower_node"): (
        "(below,) = inputs\n"
        "return Relation(below.frame.filter(expression_column(node.where, below)), below.columns, below.handles)"
    ),
    ("spark/failed_expression.py", "_node_expressions"): 'yield "`column`", node.where',
    ("spark/touched_rows.py", "_touches_of_operator"): (
        "return [self._filter_touch(each, node.where) for each in self.touches_of(node.input)]"
    ),
    ("spark/touched_rows.py", "_has_first_handle"): "return self._has_first_handle(node.input)",
}  # fmt: skip

# --- the format: values separated by | ------------------------------------------------------------------------

FORMAT = '''"""Values that are separated by |."""

from lineage_service.spec.file_formats import format_declaration
from lineage_service.store.formats.csv_format import CsvFormat


class PsvFormat(CsvFormat):
    declaration = format_declaration("psv")
    change_file_suffixes = ()
'''
FORMAT_PLACES = {
    ("spec/file_formats.py", "format_declaration"): (
        'return FormatDeclaration("psv", {".psv": {}}, _CSV.options, {"sep": "|"}, spark_reader="csv")'
    ),
    ("store/formats/format_registry.py", "source_format"): "return PsvFormat()",
}

WORKFLOW = """
version: 1
name: toy
sources:
  orders: {path: orders.psv, options: {header: true}, schema: "id INT, amount INT"}
steps:
  - {name: paid, op: drop_nulls, input: orders, column: amount}
outputs: {paid: {}}
"""
RUN = """
import json
from pathlib import Path
from lineage_service import Home
with Home.open(Path("home")) as home:
    home.run("toy.yml")
    rows = home.rows("paid").to_pylist()
    (answer,) = home.backward("paid", rid=[0, 1], to="orders", pairs=True).parts
    print(json.dumps([rows, answer.arrow().to_pylist(), home.trace("paid", rid=1).to_json()]))
"""


def edited(path: Path, *replacements: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in replacements:
        assert text.count(old) == 1, f"{path}: {old}"
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def add_case(path: Path, function: str, pattern: str, body: str) -> None:
    """A case before the last one of the function's match, which is assert_never."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    (found,) = (
        each
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.FunctionDef) and each.name == function and "assert_never" in ast.unparse(each)
    )
    matches = [each for each in ast.walk(found) if isinstance(each, ast.Match)]
    (match,) = (each for each in matches if "assert_never" in ast.unparse(each.cases[-1]))
    place = match.cases[-1].pattern.lineno - 1
    indent = re.match(" *", lines[place])[0]
    lines[place:place] = [f"{indent}case {pattern}:", *(f"{indent}    {line}" for line in body.split("\n"))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def add_import(path: Path, line: str) -> None:
    edited(path, ("from __future__ import annotations\n", f"from __future__ import annotations\n\n{line}\n"))


def run_mypy(folder: Path) -> list[tuple[str, str]]:
    """The functions in which mypy finds a fault, by file."""
    command = [sys.executable, "-m", "mypy", "--cache-dir", ".mypy_cache", "--no-error-summary"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment(folder))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [function_at(folder, *each) for each in re.findall(r"^(\S+?):(\d+): error:", done.stdout, re.MULTILINE)]


def function_at(folder: Path, file: str, line: str) -> tuple[str, str]:
    tree = ast.parse((folder / file).read_text(encoding="utf-8"))
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.lineno <= int(line) <= (each.end_lineno or 0)
    ]
    return file.removeprefix("lineage_service/"), max(around, key=lambda each: each.lineno).name if around else ""


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (folder, folder / "catalog", folder / "cli")))
    return {**os.environ, "PYTHONPATH": path, "MYPYPATH": ""}


def extend_unions(package: Path) -> None:
    edited(
        package / "spec" / "step_models.py",
        ("Step = (", STEP),
        ("    | SqlStep\n)", "    | SqlStep | DropNullsStep\n)"),
    )
    edited(
        package / "plan" / "nodes.py",
        ("Node = (", NODE),
        ("| Window | Sort | Limit | Explode", "| Window | Sort | Limit | Explode | DropNulls"),
    )
    edited(
        package / "spec" / "file_formats.py",
        ('Literal["parquet", "csv", "json"]', 'Literal["parquet", "csv", "json", "psv"]'),
    )


def follow_the_recipes(package: Path) -> None:
    for (file, function), body in PLACES.items():
        subject = "DropNullsStep()" if file == "plan/step_nodes.py" else "DropNulls()"
        add_case(package / file, function, subject, body)
    for file in {file for file, _ in PLACES} - {"plan/nodes.py"}:
        add_import(package / file, "from lineage_service.plan.nodes import DropNulls")
    add_import(package / "plan" / "step_nodes.py", "from lineage_service.spec.step_models import DropNullsStep")
    for (file, function), body in FORMAT_PLACES.items():
        add_case(package / file, function, '"psv"', body)
    (package / "store" / "formats" / "psv_format.py").write_text(FORMAT, encoding="utf-8")
    add_import(
        package / "store/formats/format_registry.py", "from lineage_service.store.formats.psv_format import PsvFormat"
    )


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    if (ROOT / ".mypy_cache").is_dir():  # so that mypy reads anew only what is changed
        shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")
    extend_unions(folder / "lineage_service")
    return folder


@pytest.mark.long
def test_mypy_names_the_places_that_a_new_operator_and_format_need(copied):
    package = copied / "lineage_service"
    faults = run_mypy(copied)
    assert set(faults) == {*PLACES, *FORMAT_PLACES}
    follow_the_recipes(package)
    assert run_mypy(copied) == []


@pytest.mark.long
@pytest.mark.spark
def test_a_workflow_with_the_new_operator_and_format_runs(copied, tmp_path):
    package = copied / "lineage_service"
    if not (package / "store" / "formats" / "psv_format.py").exists():
        follow_the_recipes(package)
    (tmp_path / "toy.yml").write_text(WORKFLOW, encoding="utf-8")
    (tmp_path / "orders.psv").write_text("id|amount\n1|10\n2|\n3|30\n", encoding="utf-8")
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment(copied))
    assert done.returncode == 0, done.stderr
    rows, pairs, trace = json.loads(done.stdout.splitlines()[-1])
    assert [(row["id"], row["amount"]) for row in rows] == [(1, 10), (3, 30)]
    assert sorted(tuple(pair.values())[:2] for pair in pairs) == [(0, 0), (1, 2)]
    assert '"line": 4' in json.dumps(trace)
