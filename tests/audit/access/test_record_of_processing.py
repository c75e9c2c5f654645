"""The record of processing: from workflow files and from the catalog, without Spark."""

import json
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from click.testing import CliRunner
from lineage_cli.main import cli

from lineage_service import Home
from lineage_service.errors import WorkflowError
from lineage_service.render.html.record_page import record_markdown, record_page
from tests.support.made_runs import Made, MadeHome
from tests.support.paths import SHOP

FLOW = """
version: 1
name: letters
owner: marketing
privacy:
  purpose: A letter | to <everybody>
  controller: Example Ltd
  categories: [contact data]
  transfers: none
sources:
  people:
    path: people.csv
    options: {header: true}
    schema: "id BIGINT, name STRING, city STRING"
    subject: {customer: id}
    pii: [name]
    origin: a list that was bought
    legal_hold: {ground: tax law, until: 2031-12-31}
steps:
  - {name: greeting, op: project, input: people, columns: {hello: "concat('Dear ', name)", city: city}}
outputs:
  greeting: {path: out/letters, on_erasure: keep, keep: {ground: statistics, min_group: 10}}
"""


@pytest.fixture
def flow(tmp_path):
    (tmp_path / "people.csv").write_text("id,name,city\n1,a,b\n", encoding="utf-8")
    path = tmp_path / "letters.yml"
    path.write_text(FLOW, encoding="utf-8")
    return path


def test_a_file_tells_whose_data_goes_where(flow, tmp_path):
    with Home.open(tmp_path / "home") as home:
        (letters,) = home.audit.record(flow)["workflows"]
    assert letters["persons"] == ["customer"] and letters["controller"] == "Example Ltd"
    assert letters["sources"] == [
        {
            "name": "people",
            "reads": "people.csv",
            "persons": {"customer": "id"},
            "personal_data": ["id", "name"],
            "origin": "a list that was bought",
            "legal_hold": {"ground": "tax law", "until": "2031-12-31"},
        }
    ]
    (output,) = letters["outputs"]
    assert output["personal_data"] == ["hello"], "what is carried counts"
    assert output["on_erasure"] == "keep" and output["keep"]["min_group"] == 10
    assert letters["not_said"] == ["legal_basis", "contact", "recipients", "security", "retention_days"]


def test_without_files_the_latest_runs_are_told(tmp_path):
    made = MadeHome(tmp_path / "home")
    rows = pa.table({"id": [1], "name": ["a"]})
    spec = {
        "name": "flow",
        "privacy": {"purpose": "new"},
        "sources": {"people": {"path": "p.csv", "subject": {"customer": "id"}, "pii": ["name"]}},
        "outputs": {"out": {}},
    }
    declared = {"subject": {"customer": "id"}, "pii": ["name"]}
    datasets = {"people": Made(rows, "source", declared), "out": Made(rows)}
    made.run("flow", datasets, spec={**spec, "privacy": {"purpose": "old"}})
    latest = made.run("flow", datasets, spec=spec)
    with made.home as home:
        (flow,) = home.audit.record()["workflows"]
    assert (flow["workflow"], flow["run"], flow["purpose"]) == ("flow", latest, "new")
    assert flow["sources"][0]["personal_data"] == ["id", "name"]


def test_a_workflow_without_persons_owes_nothing(flow, tmp_path):
    text = FLOW.replace("subject: {customer: id}", "").replace("pii: [name]", "")
    flow.write_text(text, encoding="utf-8")
    with Home.open(tmp_path / "home") as home:
        record = home.audit.record(flow)
    assert record["workflows"][0]["not_said"] == [] and "none is declared" in record_markdown(record)


def test_a_bad_file_is_refused_with_all_its_problems(flow, tmp_path):
    flow.write_text(FLOW.replace("purpose:", "porpoise:"), encoding="utf-8")
    with Home.open(tmp_path / "home") as home, pytest.raises(WorkflowError, match="porpoise"):
        home.audit.record(flow)


def test_markdown_and_page_take_texts_for_nothing_else(flow, tmp_path):
    with Home.open(tmp_path / "home") as home:
        record = home.audit.record(flow)
    assert r"A letter \| to \<everybody\>" in record_markdown(record)
    page = record_page(record)
    assert "A letter | to &lt;everybody&gt;" in page and "<everybody>" not in page
    parser = _Links()
    parser.feed(page)
    assert parser.found == [], "it needs nothing but itself"
    for text in (record_markdown(record), page):
        assert "Example Ltd" in text and "tax law, until 2031-12-31" in text and "keep: statistics" in text


def test_the_verb_writes_each_format(flow, tmp_path):
    runner = CliRunner()
    for name, begins in (("r.md", "# Record"), ("r.html", "<!doctype html>"), ("r.json", "{")):
        out = tmp_path / name
        result = runner.invoke(cli, ["audit", "record", str(flow), "--home", str(tmp_path / "home"), "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert out.read_text(encoding="utf-8").startswith(begins)
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["document"] == "record of processing"
    assert "does not state: legal_basis" in result.stderr


def test_the_shop_has_a_record(tmp_path):
    with Home.open(tmp_path / "home") as home:
        (shop,) = home.audit.record(SHOP)["workflows"]
    assert shop["persons"] == ["customer"] and shop["retention_days"] == 730


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag in ("link", "script", "img", "iframe") or any(name in ("src", "href") for name, _ in attrs):
            self.found.append(tag)
