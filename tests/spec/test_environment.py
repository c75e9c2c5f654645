"""Values of the environment: the run uses them, and nothing of them is kept but references and keyed digests."""

import json
import os
import secrets

import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import LineageError, StoreError
from lineage_service.runs.workflow_content import load_run_workflow
from lineage_service.spec.environment import with_references, with_values
from lineage_service.spec.loader import load_workflow
from lineage_service.store.layout import HomeLayout

WORKFLOW = """
version: 1
name: secretive
vars: {who: "${env:SMOKE_TEST_SECRET}", plain: told}
sources:
  orders:
    path: ${env:SMOKE_TEST_PART}/orders.csv
    format: csv
    options: {nullValue: "${env:SMOKE_TEST_SECRET}"}
    schema: "id int, name string"
steps:
  - {name: others, op: filter, input: orders, where: "name is null or name <> '${env:SMOKE_TEST_SECRET}'"}
  - {name: named, op: with_columns, input: others, columns: {same: "name = '${who}' and '$${x}' is not null"}}
outputs: {named: {checks: [{where: "name <> '${who}'"}]}}
"""


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    secret, part = f"s{secrets.token_hex(12)}", "part"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SMOKE_TEST_SECRET", secret)
        patched.setenv("SMOKE_TEST_PART", part)
        (folder / part).mkdir()
        (folder / part / "orders.csv").write_text(f"1,a\n2,b\n3,{secret}\n")
        (folder / "flow.yml").write_text(WORKFLOW.replace(" and '$${x}' is not null", ""))
        with Home.open(folder / "home") as home:
            report = home.run(folder / "flow.yml")
            assert len(home.rows("named").to_pylist()) == 3
            yield folder / "home", secret, report


def test_no_byte_of_the_home_tells_the_value(made):
    home, secret, report = made
    files = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.name == "catalog.db" for path in files)
    for path in files:
        assert secret.encode() not in path.read_bytes(), path
        if path.suffix == ".parquet":
            assert secret not in str(pq.read_table(path).to_pydict()), path
    assert secret not in json.dumps(report.to_json())
    with Home.open(home) as opened:
        content = opened._open.reader.content(report.run_id)
        assert "${env:SMOKE_TEST_SECRET}" in content
        assert "${env:SMOKE_TEST_PART}/orders.csv" in content
        assert json.loads(opened._open.reader.run(report.run_id).variables) == {
            "who": "${env:SMOKE_TEST_SECRET}",
            "plain": "told",
        }


def test_the_run_is_understood_again_as_long_as_the_environment_is_the_same(made, monkeypatch):
    home, secret, report = made
    with Home.open(home) as opened:
        assert secret not in repr(opened.graph())
        explained = json.dumps(opened.explained_run(report.run_id).to_json())
        assert secret not in explained
        assert "name <> '${env:SMOKE_TEST_SECRET}'" in explained
        monkeypatch.delenv("SMOKE_TEST_SECRET")
        with pytest.raises(LineageError, match="environment variable 'SMOKE_TEST_SECRET', which is not set"):
            opened.explained_run(report.run_id)
        monkeypatch.setenv("SMOKE_TEST_SECRET", "another")
        with pytest.raises(LineageError, match="is not what it was") as changed:
            opened.refresh("named", removed={"orders": "id = 1"})
        assert secret not in str(changed.value)
        assert "another" not in str(changed.value)
        assert len(opened.rows("named").to_pylist()) == 3, "what was made can be read without"


def test_references_and_texts_that_look_like_them():
    for text in ("${env:X}", "$${env:X}", "a ${b} $${c}", "$$${env:X}"):
        kept = with_references({"k": text.replace("${env:X}", "\ue0f0X\ue0f1", 1) if text == "${env:X}" else text})
        assert with_values(kept, {"X": "${env:X}"}) == {"k": text}


def test_a_value_of_the_environment_stands_in_texts_only(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_TEST_NUMBER", "3")
    (tmp_path / "flow.yml").write_text(
        """
version: 1
name: flow
sources: {a: {path: a.parquet}}
steps: [{name: l, op: limit, input: a, n: "${env:SMOKE_TEST_NUMBER}"}]
outputs: {l: {}}
"""
    )
    loaded = load_workflow(tmp_path / "flow.yml")
    assert loaded.errors, "a number would have to be kept"
    assert os.environ["SMOKE_TEST_NUMBER"] == "3"


def test_a_lost_key_is_told_with_the_run(tmp_path):
    with pytest.raises(StoreError, match="the environment of run 'ab12' cannot be checked"):
        load_run_workflow(HomeLayout(tmp_path), json.dumps({"environment": {"NAME": "digest"}}), "ab12")
