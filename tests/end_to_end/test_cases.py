"""Every case file through all layers: workflow file, Spark, index, catalog, DuckDB; against its expectations.

Cases of a folder are merged into one workflow, so that they share a run; each is judged on its own.
"""

from pathlib import Path

import pytest

from lineage_service import Home
from lineage_service.doctor.examination import examine
from tests.oracle.test_reference_cases import alternatives, load, typed_table
from tests.random_plans.generate import Plan
from tests.support.harness import absence_of, merged_flow, traced_rows
from tests.support.judging import same_as_expected
from tests.support.paths import CASES
from tests.support.strategies import ASKED_FOR, both_layouts, captures, lay_out

AS_SHIPPED = ("aggregate", "intersect", "window")
FOLDERS = sorted(path.name for path in CASES.iterdir() if path.is_dir())


def case_plan(case: dict) -> Plan:
    tables, schemas, files = {}, {}, {}
    for name, table in case["tables"].items():
        schemas[name], tables[name] = typed_table(table)
        sizes = [len(tables[name])] if isinstance(table, list) else [len(rows) for rows in table["files"]]
        rows = iter(tables[name])
        files[name] = [[next(rows) for _ in range(size)] for size in sizes]
    outputs = case.get("outputs", [case["steps"][-1]["name"]])
    return Plan(0, tables, schemas, files, case["steps"], outputs, case.get("keep", []))


def failures_of(home: Home, run_id: str, prefix: str, case: dict, plan: Plan) -> list[str]:
    found = []
    expectations = case["expect"].get("outputs") or {plan.outputs[0].removeprefix(prefix): case["expect"]}
    for output, expected in expectations.items():
        rows = traced_rows(home, prefix + output, list(plan.tables), run_id)
        ordered = case.get("ordered", False)
        problems = [same_as_expected(rows, each, prefix, ordered=ordered) for each in alternatives(expected)]
        problem = "" if "" in problems else "; or ".join(problems)
        if not problem and "absence" in expected:
            absent = {name.removeprefix(prefix) for name in absence_of(home, prefix + output)}
            problem = "" if absent == set(expected["absence"]) else f"absence is {absent}"
        if problem:
            found.append(f"{case['title']}, output {output}: {problem}")
    return found


# Folders whose cases are asked lazily too.
LAZILY = ("distinct",)
# Each folder under one strategy, all strategies under some folder; a second one where there is time.
PARTS = [
    pytest.param(folder, capture, marks=[pytest.mark.slow] if turn and not ASKED_FOR else [])
    for number, folder in enumerate(FOLDERS)
    for turn, capture in enumerate(captures(number))
]
PARTS += [pytest.param(folder, "lazy") for folder in LAZILY if not ASKED_FOR]


@pytest.mark.parametrize(("folder", "capture"), PARTS)
def test_cases(folder: str, capture: str, spark, request, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(
        "lineage_service.doctor.examination._java_checks", lambda: []
    )  # which Java there is, takes longer than the rest
    # Nested keys and sets are where code generation differs from interpretation; the others run fast.
    if folder in AS_SHIPPED:
        request.getfixturevalue("spark_as_shipped")
    cases = {f"c{number}_": load(path) for number, path in enumerate(sorted((CASES / folder).glob("*.yml")))}
    plans = {prefix: case_plan(case).prefixed(prefix) for prefix, case in cases.items()}
    with both_layouts() as hops:
        home = Home.open(tmp_path / "home")
        run_id = home.run(merged_flow(list(plans.values()), "cases").write(tmp_path), capture=capture).run_id
    broken = [check.detail for check in examine(tmp_path / "home", deep=True).checks if check.status == "problem"]
    assert not broken, "the doctor finds fault with a run that nothing has happened to"
    composed = [text for prefix in cases for text in failures_of(home, run_id, prefix, cases[prefix], plans[prefix])]
    assert not composed, "\n".join(composed)
    home = lay_out(home, run_id, hops[run_id])
    by_hops = [text for prefix in cases for text in failures_of(home, run_id, prefix, cases[prefix], plans[prefix])]
    assert not by_hops, "hop by hop:\n" + "\n".join(by_hops)
    home.close()
