"""Questions of the command line over runs whose lineage is pending: a process of its own, as users start it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lineage_service import Home
from lineage_service.errors import LineageInterrupted
from lineage_service.runs.lineage_indexing import LineageBuild

WORKFLOW = """
version: 1
name: pending
sources:
  orders: {path: orders.csv, format: csv, schema: "id int, person int, amount int"}
  persons: {path: persons.csv, format: csv, schema: "person int, name string"}
steps:
  - {name: sorted, op: sort, input: orders, by: [amount desc]}
  - {name: named, op: join, how: left, left: sorted, right: persons, using: [person]}
  - {name: totals, op: aggregate, input: orders, by: [person], measures: {total: sum(amount)}}
outputs: {sorted: {}, named: {}, totals: {}}
"""


@pytest.fixture(scope="module", params=["auto"])
def pending(spark, tmp_path_factory, request):
    """A home with a run that was interrupted after its outputs were committed."""
    folder = tmp_path_factory.mktemp("pending")
    (folder / "pending.yml").write_text(WORKFLOW)
    orders = "".join(f"{n},{n % 4},{(n * 7) % 11}\n" for n in range(40))
    (folder / "orders.csv").write_text(orders)
    (folder / "persons.csv").write_text("1,a\n2,b\n")  # half of the orders have no person

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, Home.open(folder / "home") as home:
        patched.setattr(LineageBuild, "build", interrupt)
        with pytest.raises(LineageInterrupted):
            home.run(folder / "pending.yml", capture=request.param)
        assert home.runs().to_pylist()[0]["lineage"] == "pending"
    return folder / "home"


QUESTIONS = {
    "backward": ["backward", "named", "--rid", "3", "--to", "all", "--rids", "--json"],
    "forward": ["forward", "orders", "--rid", "3", "--json"],
    "forward to": ["forward", "persons", "--rid", "1", "--to", "named", "--rids", "--json"],
    "trace": ["trace", "totals", "--rid", "1", "--json"],
    "query": ["query", "SELECT count(*) AS n FROM backward('totals', 'orders')", "--json"],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finishes_pending_lineage(pending, tmp_path, question):
    """The same answer as from a home whose lineage was finished before."""
    finished = shutil.copytree(pending, tmp_path / "finished")
    with Home.open(finished) as home:
        home.index()
    asked = shutil.copytree(pending, tmp_path / "asked")
    assert answer(asked, question) == answer(finished, question)
    with Home.open(asked) as home:
        assert home.runs().to_pylist()[0]["lineage"] == "complete"


def answer(home, question):
    program = Path(sys.executable).with_name("smoke-lineage")
    done = subprocess.run([program, *QUESTIONS[question], "--home", home], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
