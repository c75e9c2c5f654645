"""`validate` refuses targets of outputs that a run would refuse, as far as that can be told without a home."""

import pytest

from lineage_service.errors import WorkflowError
from lineage_service.runs.workflow_file import validate_workflow

WORKFLOW = """
version: 1
name: shop
sources: {orders: {path: orders/*.csv, format: csv, schema: "id int"}}
steps: [{name: large, op: filter, input: orders, where: id > 1}]
outputs: {large: {path: %s}, again: {step: large, path: %s}}
"""


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (("orders", "copy"), "source 'orders' is read from there"),
        (("copy", "orders/part.csv"), "source 'orders' is read from there"),
        (("copy", "copy"), "two outputs are published"),
        (("copy", "flow.yml"), "a file is there"),
        (("s3://bucket/copy", "copy"), "only local folders"),
        (("one", "other"), None),
    ],
)
def test_targets_are_checked(tmp_path, paths, said):
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "a.csv").write_text("1\n")
    file = tmp_path / "flow.yml"
    file.write_text(WORKFLOW % paths)
    if said is None:
        assert validate_workflow(file) == ()
        return
    with pytest.raises(WorkflowError, match=said) as refused:
        validate_workflow(file)
    assert str(refused.value).startswith(f"{file}:6:")
