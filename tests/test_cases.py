"""Every case file through all layers: workflow file, Spark, index, catalog, DuckDB; against its expectations.

Cases of a folder are merged into one workflow, so that they share a run; each is judged on its own.
"""

from pathlib import Path

import pytest

from lineage_service import Home
from tests.generate import Plan
from tests.harness import Flow, absence_of, traced_rows
from tests.judging import same_as_expected
from tests.strategies import every_way
from tests.test_reference_cases import CASES, load, typed_table

FOLDERS = sorted(path.name for path in CASES.iterdir() if path.is_dir())


def case_plan(path: Path, case: dict) -> Plan:
    tables, schemas, files = {}, {}, {}
    for name, table in case["tables"].items():
        schemas[name], tables[name] = typed_table(table)
        sizes = [len(tables[name])] if isinstance(table, list) else [len(rows) for rows in table["files"]]
        rows = iter(tables[name])
        files[name] = [[next(rows) for _ in range(size)] for size in sizes]
    outputs = case.get("outputs", [case["steps"][-1]["name"]])
    return Plan(0, tables, schemas, files, case["steps"], outputs, case.get("keep", []))


def merged_flow(plans: list[Plan], name: str) -> Flow:
    flow = Flow({}, {}, [], [], [], name)
    for plan in plans:
        flow.schemas |= plan.schemas
        flow.files |= plan.files
        flow.steps += plan.steps
        flow.outputs += plan.outputs
        flow.keep += plan.keep
    return flow


@every_way
@pytest.mark.parametrize("folder", FOLDERS)
def test_cases(folder, way, spark, tmp_path):
    paths = sorted((CASES / folder).glob("*.yml"))
    cases = {f"c{number}_": load(path) for number, path in enumerate(paths)}
    plans = {prefix: case_plan(path, case).prefixed(prefix) for path, (prefix, case) in zip(paths, cases.items(), strict=True)}
    failures = []
    with way.in_force(), Home.open(tmp_path / "home") as home:
        report = home.run(merged_flow(list(plans.values()), "cases").write(tmp_path), capture=way.capture)
        for path, (prefix, case) in zip(paths, cases.items(), strict=True):
            plan = plans[prefix]
            expectations = case["expect"].get("outputs") or {plan.outputs[0].removeprefix(prefix): case["expect"]}
            for output, expected in expectations.items():
                rows = traced_rows(home, prefix + output, list(plan.tables), report.run_id)
                problem = same_as_expected(rows, expected, prefix, ordered=case.get("ordered", False))
                if not problem and "absence" in expected:
                    found = {name.removeprefix(prefix) for name in absence_of(home, prefix + output)}
                    problem = "" if found == set(expected["absence"]) else f"absence is {found}"
                if problem:
                    failures.append(f"{folder}/{path.stem} ({case['title']}), output {output}: {problem}")
    assert not failures, "\n".join(failures)
