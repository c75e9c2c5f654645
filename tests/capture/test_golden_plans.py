"""Instrumented plans as text, against golden files: what capture does is seen in a diff. SMOKE_GOLDEN=1 rewrites."""

import os
from pathlib import Path

import pytest

from lineage_service.capture.instrument import instrument
from lineage_service.capture.plan_text import format_plan
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.loader import load_workflow
from tests.end_to_end.test_cases import case_plan
from tests.oracle.test_reference_cases import load
from tests.support.harness import Flow
from tests.support.paths import CASES, GOLDEN

PLANS = [
    "aggregate/having",
    "aggregate/after_aggregate",
    "dag/kept_step",
    "dag/several_paths",
    "dag/window_in_difference",
    "difference/set",
    "explode/then_aggregate",
    "intersect/all",
    "join/anti",
    "join/q17",
    "join/self",
    "join/semi_mixed_inequality",
    "union/of_different_shapes",
    "window/over_join",
]


def plan_of(name: str, folder: Path) -> Plan:
    case = case_plan(load(CASES / f"{name}.yml"))
    flow = Flow(case.schemas, case.files, case.steps, case.outputs, case.keep)
    schemas = {
        table: Schema(tuple(Column(column, kind.lower()) for column, kind in schema.items()))
        for table, schema in case.schemas.items()
    }
    return build_plan(load_workflow(flow.write(folder)), schemas)


def same_as_golden(text: str, path: Path) -> None:
    if os.environ.get("SMOKE_GOLDEN"):
        path.write_text(text + "\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text + "\n"


@pytest.mark.parametrize("name", PLANS)
def test_instrumented_plan(name, tmp_path):
    plan = plan_of(name, tmp_path)
    same_as_golden(format_plan(instrument(plan, "stage")), GOLDEN / f"{name.replace('/', '-')}.txt")
