"""The command line as a user has it: the example workflow run by the real command, asked by the real commands."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.spark  # in a process of its own
COMMAND = Path(sys.executable).parent / "smoke-lineage"


def command(home: Path, *arguments: str, check: int = 0, text: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SMOKE_HOME": str(home), "NO_COLOR": "1"}
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, env=environment, cwd=home.parent, input=text, check=False
    )
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A home with one run of the shop example, made by the command in a process of its own."""
    home = tmp_path_factory.mktemp("user") / "my home ü"
    quick = [
        "--conf",
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
        "--conf",
        "spark.sql.shuffle.partitions=2",
    ]
    done = command(home, "run", str(ROOT / "workflows" / "shop" / "revenue.yml"), "--json", *quick)
    report = json.loads(done.stdout)
    assert list(report) == ["run_id", "workflow", "status", "vars", "outputs", "sources", "capture", "seconds"]
    assert report["status"] == "committed"
    assert report["sources"] == {"customers": {"rows": 12}, "orders": {"rows": 40}, "items": {"rows": 110}}
    assert set(report["capture"]["ranked"]) == {"customers", "orders", "items"}
    assert report["seconds"].keys() == {"execute", "capture", "index"}
    assert done.stderr == "", "quiet where there is no terminal"
    return home


def test_the_number_and_the_records_behind_it(home):
    (top,) = json.loads(command(home, "rows", "ranked", "--rid", "0", "--json").stdout)
    items = [json.loads(line) for line in command(home, "backward", "ranked", "--rid", "0", "--to", "items", "--format", "ndjson").stdout.splitlines()]  # fmt: skip
    assert top["items"] == len(items)
    total = sum(round(item["quantity"] * float(item["price"]) * 100) for item in items)
    assert float(top["revenue"]) == total / 100
    with (ROOT / "workflows" / "shop" / "data" / "items.json").open() as stream:
        records = [json.loads(line) for line in stream]
    for item in items:
        original = records[item["_rid"]]
        assert (item["order_id"], item["product"]) == (original["order_id"], original["product"])


def test_pairs_in_every_format(home, tmp_path):
    arguments = ["backward", "shop.ranked", "--all", "--to", "orders", "--pairs"]
    as_json = [(row["out_rid"], row["rid"]) for row in json.loads(command(home, *arguments, "--json").stdout)]
    as_csv = list(csv.reader(io.StringIO(command(home, *arguments, "--format", "csv").stdout)))
    assert as_csv[0] == ["out_rid", "rid"]
    assert [(int(out), int(rid)) for out, rid in as_csv[1:]] == as_json
    command(home, *arguments, "--out", str(tmp_path / "pairs.parquet"))
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "pairs.parquet")
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == as_json
    forward = json.loads(command(home, "forward", "orders", "--all", "--to", "ranked", "--pairs", "--json").stdout)
    assert sorted((row["out_rid"], row["rid"]) for row in forward) == sorted(as_json)


def test_rids_from_standard_input(home):
    rids = command(home, "forward", "customers", "--key", "customer_id=6", "--to", "ranked", "--rids", "--format", "csv").stdout  # fmt: skip
    counted = command(home, "backward", "ranked", "--rid", "-", "--to", "orders", "--count", "--json", text=rids).stdout
    assert json.loads(counted)["count"] > 0


def test_absence_is_said(home):
    done = command(home, "backward", "silent", "--all", "--to", "orders", "--count", "--json")
    assert json.loads(done.stdout) == {"count": 0, "absence": ["orders"]}
    assert "absence" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["rows", "rankd"], 1, "did you mean 'ranked'"),
        (["backward", "ranked", "--rid", "99", "--to", "items"], 1, "rids run from 0 to 7"),
        (["backward", "ranked", "--where", "revenue > 1; drop table x", "--to", "items"], 1, "predicate"),
        (["backward", "ranked", "--where", "revenu > 1", "--to", "items"], 1, "did you mean 'revenue'"),
        (["backward", "ranked", "--key", "customer_id=abc", "--to", "items"], 1, "is no BIGINT"),
        (["backward", "ranked", "--to", "items"], 2, "--rid"),
        (["rows", "ranked@ffff"], 1, "no run 'ffff'"),
        (["run", "nowhere.yml"], 1, "nowhere.yml"),
        (["validate", "nowhere.yml"], 1, "nowhere.yml"),
        (["backward", "ranked", "--all", "--semantics", "how", "--pairs"], 2, "--pairs cannot be combined with"),
        (["backward", "ranked", "--all", "--evaluate", "count"], 2, "needs --semantics how"),
        (["nosuchverb"], 2, "nosuchverb"),
    ],
)
def test_wrong_uses(home, arguments, code, said):
    done = command(home, *arguments, check=code)
    assert said in done.stderr
    assert done.stdout == ""


def test_questions_never_import_pyspark(home):
    code = (
        "import sys\n"
        "from lineage_cli.main import main\n"
        "sys.argv[1:] = ['backward', 'ranked', '--all', '--to', 'items', '--count']\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "assert 'duckdb' in sys.modules\n"
        "assert 'pyspark' not in sys.modules and 'alembic' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    environment = {**os.environ, "SMOKE_HOME": str(home)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)


def test_runs_and_datasets(home):
    (run,) = json.loads(command(home, "runs", "--json").stdout)
    names = {row["dataset"]: row["rows"] for row in json.loads(command(home, "datasets", "--json").stdout)}
    assert names["shop.orders"] == 40
    assert run["workflow"] == "shop"
    assert json.loads(command(home, "rows", f"shop.ranked@{run['run_id'][:8]}", "--limit", "1", "--json").stdout)


def test_explain_and_schema(home):
    explained = json.loads(command(home, "explain", str(ROOT / "workflows" / "shop" / "revenue.yml"), "--json").stdout)
    assert explained["outputs"]["ranked"]["columns"]["revenue"] == ["items.quantity", "items.price"]
    schema = json.loads(command(home, "schema").stdout)
    assert schema["properties"]["steps"]
