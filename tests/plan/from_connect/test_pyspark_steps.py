"""Data frames as steps of a workflow that only a program makes: in plans, in the catalog, and not in files."""

import json

import pytest

from lineage_service.capture.instrument import instrument
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.column_lineage import column_lineage
from lineage_service.plan.from_connect.messages import to_json
from lineage_service.plan.node_description import describe_node
from lineage_service.plan.nodes import Node
from lineage_service.plan.plan_rewriting import nodes_inputs_first
from lineage_service.spec.json_schema import workflow_json_schema
from lineage_service.spec.loader import load_recorded_workflow, load_workflow
from lineage_service.spec.step_models import PysparkStep
from tests.plan.from_connect.test_compiled_frames import FRAMES, SESSION, SOURCES
from tests.support.connect_frames import compiled, message_of, with_tables_as_sources


def recorded(frame, **fields):
    """A workflow with one data frame, as the catalog holds it."""
    message = with_tables_as_sources(message_of(frame))
    step = PysparkStep(name="out", op="pyspark", inputs=("orders",), plan=to_json(message), **fields)
    content = {
        "version": 1,
        "name": "job",
        "sources": {"orders": {"path": "orders.parquet"}},
        "steps": [json.loads(step.model_dump_json())],
        "outputs": {"out": {"step": "out"}},
    }
    return load_recorded_workflow(json.dumps(content), "run 1")


def test_a_recorded_step_is_built():
    frame = SESSION.table("orders").where("amount > 1").select("id")
    plan_id = message_of(frame).message("common").number("plan_id")
    loaded = recorded(frame, files=("job.py",), origins={plan_id: (0, 4)}, tables={"orders": "orders"})
    assert loaded.spec.steps[0].reads == ("orders",)
    plan = build_plan(loaded, {"orders": SOURCES["orders"].columns})
    assert plan.steps["out"].schema.names == ("id",)
    assert load_recorded_workflow(loaded.spec.model_dump_json(by_alias=True), "run 1").spec == loaded.spec


def test_unknown_columns_are_no_error():
    plan = build_plan(recorded(SESSION.table("orders").select("nonsense")), {})
    assert not plan.steps["out"].schema.known


def test_a_file_cannot_have_such_a_step(tmp_path):
    path = tmp_path / "w.yml"
    path.write_text(
        "version: 1\nname: w\nsources: {a: {path: a.csv}}\n"
        "steps: [{name: out, op: pyspark, inputs: [a], plan: x}]\noutputs: {out: }\n",
        encoding="utf-8",
    )
    (problem,) = load_workflow(path).errors
    assert problem.message == (
        "op 'pyspark' in step 'out': a data frame of a program is no step that a workflow file can have"
    )
    assert "pyspark" not in json.dumps(workflow_json_schema()).lower()


@pytest.mark.parametrize("name", FRAMES)
def test_plans_of_programs_pass_every_layer(name):
    names = ["y", "z"] if name == "texts" else None
    node: Node = compiled(FRAMES[name], SOURCES, names=names)
    read = {each.step: each for each in nodes_inputs_first(node) if each.step in SOURCES}
    plan = Plan("job", {name: SOURCES[name] for name in read}, {"out": node}, {"out": "out"}, ())
    for capture in ("auto", "stage", "off"):
        assert len(instrument(plan, capture).nodes) == len(plan.nodes())
    assert set(column_lineage(node)) == set(node.schema.names)
    assert all(isinstance(describe_node(each), str) for each in plan.nodes() if each.step == "out")
