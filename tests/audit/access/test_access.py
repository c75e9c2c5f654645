"""What a person is told: over homes made by hand, without Spark."""

import json
import re
from dataclasses import asdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from lineage_catalog import models
from lineage_catalog.engine import connect
from lineage_cli.main import cli
from sqlalchemy import insert, text

from lineage_service import Home
from lineage_service.audit.person_search import rows_of_subjects
from lineage_service.errors import LineageError, NotFound, QuestionError
from lineage_service.store.home_key import home_key
from lineage_service.store.versions import Version
from lineage_service.subjects.subject_arguments import Subject, subjects_in_file
from tests.support.made_runs import Made, MadeHome
from tests.support.sealing import seal_anew

PEOPLE = pa.table({"id": [1, 2, 3, 4, 5, 6], "name": ["a", "b", "c", "d", "e", "f"]})
ORDERS = pa.table({"o": [10, 11, 12, 13], "person": [1, 1, 2, 3], "amount": [5, 6, 7, 8]})
SAME = [(n, n) for n in range(6)]
SUBJECT = {"subject": {"person": "id"}, "pii": ["name"]}
ORDERED = {"subject": {"person": "person"}}
SPEC = {
    "description": "for tests",
    "privacy": {"purpose": "testing", "recipients": ["Us Ltd"], "retention_days": 30, "authority": "the authority"},
    "sources": {"people": {"origin": "a register"}, "orders": {}},
}


def shop(folder):
    """Orders of each person, those of all, and people without an order."""
    made = MadeHome(folder / "home")
    per_person = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "total": [11, 7, 8]})
    run = made.run(
        "shop",
        {
            "people": Made(PEOPLE, "source", SUBJECT),
            "orders": Made(ORDERS, "source", ORDERED),
            "totals": Made(
                per_person,
                hops={"people": [(0, 0), (1, 1), (2, 2)], "orders": [(0, 0), (0, 1), (1, 2), (2, 3)]},
            ),
            "all": Made(pa.table({"total": [26]}), hops={"totals": [(0, 0), (0, 1), (0, 2)]}),
            "silent": Made(
                pa.table({"id": [4, 5, 6], "name": ["d", "e", "f"]}),
                hops={"people": [(0, 3), (1, 4), (2, 5)], "orders": "everything"},
            ),
        },
        spec=SPEC,
    )
    engine = connect(made.url)
    with engine.begin() as connection:  # as a run keeps it: the rows have a side, and the side is all of a source
        side = "'step:silent', 'side:silent', 2, 'constant', rows, bytes, backward, forward, body"
        connection.execute(text(f"INSERT INTO hops SELECT run_id, 99, {side} FROM hops WHERE form = 'everything'"))
        connection.execute(text("UPDATE hops SET from_space = 'side:silent' WHERE form = 'everything'"))
        seal_anew(connection)
    engine.dispose()
    return made, run


def told(made, *subjects, **options):
    with made.home as home:
        return home.audit.access(list(subjects), **options).document


def rows_of(document, dataset):
    (found,) = [each for each in document["data"] if each["dataset"] == dataset]
    return found["rows"]


def test_rows_of_the_person_and_what_was_made_of_them(tmp_path):
    made, _ = shop(tmp_path)
    document = told(made, "person=1")
    assert [each["dataset"] for each in document["data"]] == ["shop.orders", "shop.people", "shop.all", "shop.totals"]
    assert rows_of(document, "shop.people") == [
        {"rid": 0, "role": "own", "about": "alone", "persons": 1, "values": {"id": 1, "name": "a"}}
    ]
    assert [row["rid"] for row in rows_of(document, "shop.orders")] == [0, 1]
    assert rows_of(document, "shop.totals")[0]["values"] == {"id": 1, "name": "a", "total": 11}
    assert document["held"] and document["complete"]
    assert document["summary"] == {"datasets": 4, "rows": 5, "alone": 4, "influenced": 1, "not_looked_into": 0}


def test_of_rows_of_few_persons_nothing_is_shown_and_of_many_what_concerns_all(tmp_path):
    made, _ = shop(tmp_path)
    (row,) = rows_of(told(made, "person=1"), "shop.all")
    assert row == {"rid": 0, "role": "own", "about": "others", "persons": "fewer than 5", "values": None}
    (row,) = rows_of(told(made, "person=1", min_group=3), "shop.all")
    assert row == {"rid": 0, "role": "own", "about": "others", "persons": 3, "values": {"total": 26}}


def test_personal_columns_are_not_shown_of_shared_rows(tmp_path):
    made = MadeHome(tmp_path / "home")
    made.run(
        "flow",
        {
            "people": Made(PEOPLE, "source", SUBJECT),
            "all": Made(
                pa.table({"first": ["a"], "n": [6]}),
                declared={"pii": ["first"]},
                hops={"people": [(0, n) for n in range(6)]},
            ),
        },
    )
    (row,) = rows_of(told(made, "person=2"), "flow.all")
    assert row["persons"] == 6 and row["values"] == {"n": 6}


def test_a_peer_is_told_no_values(tmp_path):
    made = MadeHome(tmp_path / "home")
    pairs = [(a, b) for a in range(6) for b in range(6)]
    run = made.run(
        "flow",
        {
            "people": Made(PEOPLE, "source", SUBJECT),
            "ranked": Made(PEOPLE, hops={"people": pairs}),
            "own": Made(PEOPLE, hops={"people": SAME}),
        },
    )
    engine = connect(made.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE hops SET role = 1 WHERE from_space = 'step:ranked'"))
        hops = (
            "INSERT INTO hops SELECT run_id, 7, 'step:ranked', to_space, 0, form, rows, bytes, backward, forward, body"
        )
        connection.execute(text(f"{hops} FROM hops WHERE from_space = 'step:own'"))
        seal_anew(connection)
    engine.dispose()
    rows = {row["rid"]: row for row in rows_of(told(made, "person=1"), "flow.ranked")}
    assert rows[0] == {"rid": 0, "role": "own", "about": "others", "persons": 6, "values": {"id": 1, "name": "a"}}
    assert all(rows[rid]["role"] == "peer" and rows[rid]["values"] is None for rid in range(1, 6))
    assert run


def test_what_was_only_influenced_is_told_apart(tmp_path):
    made, run = shop(tmp_path)
    (influenced,) = told(made, "person=1")["influenced"]
    assert (influenced["dataset"], influenced["rows"], influenced["by"]) == ("shop.silent", 3, "absence of a match")
    assert influenced["run"] == run


def test_every_run_and_workflow_that_is_held_is_looked_into(tmp_path):
    made, first = shop(tmp_path)
    totals = made.versions[first, "totals"]
    later = made.run("report", {"in": Made(totals, "source"), "out": Made(PEOPLE.slice(0, 3), hops={"in": SAME[:3]})})
    again, second = made.versions[first, "people"], None
    second = made.run("shop", {"people": Made(again, "source", SUBJECT), "totals": Made(PEOPLE, hops={"people": SAME})})
    document = told(made, "person=1")
    found = {(each["dataset"], each["run"]) for each in document["data"]}
    assert {("report.out", later), ("shop.totals", first), ("shop.totals", second)} <= found
    (report,) = [each for each in document["data"] if each["dataset"] == "report.out"]
    assert report["way"][1:] == ["shop.totals", "report.in", "report.out"]
    (people,) = [each for each in document["data"] if each["dataset"] == "shop.people"]
    assert people["runs"] == sorted([first, second])


def test_a_run_that_reads_the_same_rows_without_naming_persons_is_found(tmp_path):
    made, first = shop(tmp_path)
    made.run("other", {"p": Made(made.versions[first, "people"], "source"), "o": Made(PEOPLE, hops={"p": SAME})})
    assert rows_of(told(made, "person=4"), "other.o")[0]["values"] == {"id": 4, "name": "d"}


@pytest.mark.parametrize("how", ["off", "expired", "pruned"])
def test_where_lineage_behind_a_row_ends_too_early_it_is_not_taken_for_the_persons_alone(tmp_path, how):
    made = MadeHome(tmp_path / "home")
    spec = {"privacy": {"retention_days": 1}} if how == "expired" else {}
    hops = {} if how == "off" else {"people": [(0, n) for n in range(6)]}
    first = made.run(
        "first",
        {"people": Made(PEOPLE, "source", SUBJECT), "out": Made(pa.table({"n": [6]}), hops=hops)},
        capture="off" if how == "off" else "stage",
        spec=spec,
    )
    people = pa.table({"id": [1], "name": ["a"]})
    both = Made(pa.table({"secret": [1]}), hops={"p": [(0, 0)], "n": [(0, 0)]})
    made.run(
        "second", {"p": Made(people, "source", SUBJECT), "n": Made(made.versions[first, "out"], "source"), "o": both}
    )
    if how == "pruned":
        engine = connect(made.url)
        with engine.begin() as connection:
            connection.execute(text('UPDATE hops SET body = \'{"only": "forward"}\' WHERE run_id = :r'), {"r": first})
            seal_anew(connection)
        engine.dispose()
    with made.home as home:
        home.gc(retention=True)
    (row,) = rows_of(told(made, "person=1"), "second.o")
    assert (row["about"], row["persons"], row["values"]) == ("unknown", None, None)


def test_nothing_held_is_an_answer_too(tmp_path):
    made, _ = shop(tmp_path)
    document = told(made, "person=99")
    assert not document["held"] and document["complete"] and document["data"] == []
    assert log_of(made)[-1][1:] == ("access", "nothing held")


def test_an_unknown_kind_is_refused_and_names_those_there_are(tmp_path):
    made, _ = shop(tmp_path)
    with pytest.raises(NotFound, match="kinds: person"):
        told(made, "persn=1")


def test_what_cannot_be_looked_into_is_said(tmp_path):
    made, first = shop(tmp_path)
    people = made.versions[first, "people"]
    made.run("off", {"p": Made(people, "source", SUBJECT), "out": Made(PEOPLE)}, capture="off")
    lazy = made.run("lazy", {"p": Made(people, "source", SUBJECT), "out": Made(PEOPLE, hops={"p": SAME})})
    pruned = made.run("pruned", {"p": Made(people, "source", SUBJECT), "out": Made(PEOPLE, hops={"p": SAME})})
    bad = made.run("bad", {"p": Made(people, "source", SUBJECT), "out": Made(PEOPLE, hops={"p": SAME})})
    engine = connect(made.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE hops SET form = 'lazy' WHERE run_id = :run"), {"run": lazy})
        connection.execute(text("UPDATE hops SET form = 'pruned' WHERE run_id = :run"), {"run": pruned})
        why = "UPDATE runs SET lineage = 'incomplete', lineage_note = 'no memory' WHERE id = :run"
        connection.execute(text(why), {"run": bad})
        seal_anew(connection)
    engine.dispose()
    document = told(made, "person=1")
    reasons = {each["dataset"]: each["reason"] for each in document["not_looked_into"]}
    assert reasons.keys() == {"off.p", "lazy.p", "pruned.p", "bad.p"}
    assert "capture off" in reasons["off.p"] and "pruned" in reasons["pruned.p"]
    assert not document["complete"] and document["summary"]["not_looked_into"] == 4


def test_of_files_that_have_changed_rows_are_told_without_values(tmp_path):
    made = MadeHome(tmp_path / "home")
    run = made.run("flow", {"people": Made(PEOPLE, "source", SUBJECT, kind="source")})
    noted(made, run, "people", "id")
    pq.write_table(PEOPLE.slice(2), made.folder / "files" / "people.parquet")
    (entry,) = told(made, "person=2")["data"]
    assert entry["rows"] == [{"rid": 1, "role": "own", "about": "alone", "persons": 1, "values": None}]
    assert "changed" in entry["unreadable"]


def test_purpose_and_term_come_from_the_workflow(tmp_path):
    made, run = shop(tmp_path)
    (flow,) = told(made, "person=1")["processing"]
    assert flow["purpose"] == "testing" and flow["recipients"] == ["Us Ltd"] and flow["authority"] == "the authority"
    assert flow["origins"] == {"people": "a register"} and flow["kept_until"] == {run: "2026-01-31"}
    assert flow["not_said"] == ["legal_basis", "controller", "contact", "categories"]


def test_one_person_may_be_known_by_several_kinds(tmp_path):
    made = MadeHome(tmp_path / "home")
    made.run(
        "flow",
        {
            "people": Made(PEOPLE, "source", SUBJECT),
            "staff": Made(pa.table({"nr": [7], "boss": [8]}), "source", {"subject": {"staff": "nr"}}),
            "both": Made(pa.table({"x": [1]}), hops={"people": [(0, 0)], "staff": [(0, 0)]}),
        },
    )
    assert rows_of(told(made, "person=1"), "flow.both")[0]["about"] == "others"
    assert rows_of(told(made, "person=1", "staff=7"), "flow.both")[0]["about"] == "alone"


def test_no_answer_without_its_entry_and_no_value_in_it(tmp_path, monkeypatch):
    made, _ = shop(tmp_path)
    told(made, "person=1")
    (entry,) = log_of(made)
    assert entry[1:] == ("access", "done") and "person=1" not in entry[0]
    monkeypatch.setattr("lineage_catalog.audit.append_entry", None)
    monkeypatch.setattr("lineage_service.audit.log.log_transactions.append_entry", refuse)
    with pytest.raises(LineageError):
        told(made, "person=1")


def test_the_document_is_json(tmp_path):
    made, _ = shop(tmp_path)
    assert json.loads(json.dumps(told(made, "person=1")))["version"] == 1


def test_a_lost_key_is_refused(tmp_path):
    made, run = shop(tmp_path)
    noted(made, run, "people", "id")
    (made.folder / "audit.key").unlink()
    with pytest.raises(LineageError, match="has no key"):
        told(made, "person=1")


# --- helpers --------------------------------------------------------------------------------------------------


def refuse(*_):
    raise LineageError("the log cannot be written")


def log_of(made):
    engine = connect(made.url)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT subjects, verb, result FROM audit_log ORDER BY number")).all()
    engine.dispose()
    return [tuple(row) for row in found]


def noted(made, run, name, column):
    """As a run leaves it: whose the rows of a source are."""
    from lineage_service.store.layout import HomeLayout
    from lineage_service.subjects.source_indexing import index_sources
    from lineage_service.subjects.subject_index import DeclaredSubject

    folder = HomeLayout(made.folder).run_folder(run)
    version: Version = made.versions[run, name]
    records = index_sources(
        folder, [DeclaredSubject(name, "person", column)], {f"source:{name}": version}, lambda _: ()
    )
    engine = connect(made.url)
    with engine.begin() as connection:
        connection.execute(insert(models.subject_rows), [asdict(each) for each in records])
        seal_anew(connection)
    engine.dispose()


# --- the verb and the page ------------------------------------------------------------------------------------


def verb(made, *arguments, stdin=""):
    command = ["audit", "access", "--home", str(made.folder), *arguments]
    return CliRunner().invoke(cli, command, input=stdin, prog_name="smoke-lineage")


def test_the_verb_prints_a_summary_without_values(tmp_path):
    made, run = shop(tmp_path)
    result = verb(made, "--subject", "person=1")
    assert result.exit_code == 0, result.output
    assert "person=1: 5 rows in 4 datasets" in result.stdout
    assert f"shop.silent@{run[:8]}  only influenced, by the absence of a match" in result.stdout
    assert "11" not in result.stdout


def test_persons_come_from_a_file_or_standard_input_and_each_has_a_document(tmp_path):
    made, _ = shop(tmp_path)
    listed = tmp_path / "persons.csv"
    listed.write_text("kind,value\nperson,1\nperson,2\n", encoding="utf-8")
    documents = json.loads(verb(made, "--subjects", str(listed), "--json").stdout)
    assert [each["subject"][0]["value"] for each in documents] == ["1", "2"]
    document = json.loads(verb(made, "--subject", "-", "--json", stdin="person=3\n").stdout)
    assert document["subject"] == [{"kind": "person", "value": "3"}]
    assert len(log_of(made)) == 3


def test_too_many_persons_are_refused_and_nothing_is_logged(tmp_path):
    made, _ = shop(tmp_path)
    result = verb(made, "--subject", "-", "--max-subjects", "2", stdin="person\n1\n2\n3\n")
    assert result.exit_code != 0 and log_of(made) == []


def test_the_page_is_for_one_person(tmp_path):
    made, _ = shop(tmp_path)
    page = tmp_path / "page.html"
    result = verb(made, "--subject", "person=1", "--subject", "person=2", "--html", str(page))
    assert result.exit_code == 2 and not page.exists() and log_of(made) == []


def test_the_page_tells_a_layperson_and_needs_nothing_but_itself(tmp_path):
    made = MadeHome(tmp_path / "home")
    people = pa.table({"id": [1, 2], "name": ["<script>alert(1)</script>", "b"]})
    spec = {"privacy": {"purpose": "<b>bold</b>", "authority": "the authority", "recipients": ["A & B"]}}
    made.run(
        "flow", {"people": Made(people, "source", SUBJECT), "out": Made(people, hops={"people": SAME[:2]})}, spec=spec
    )
    page = tmp_path / "page.html"
    assert verb(made, "--subject", "person=1", "--html", str(page)).exit_code == 0
    text_ = page.read_text(encoding="utf-8")
    assert "<script" not in text_ and "&lt;script&gt;" in text_ and "<b>bold" not in text_
    assert not re.search(r"(src|href)=|url\(|@import", text_)
    for heading in ("The data about you", "What was made from it", "What it is used for", "Who gets it",
                    "How long it is kept", "Your rights, and whom to complain to"):  # fmt: skip
        assert f"<h2>{heading}</h2>" in text_
    assert "A &amp; B" in text_ and "the authority" in text_


def test_the_page_says_that_nothing_is_held(tmp_path):
    made, _ = shop(tmp_path)
    page = tmp_path / "page.html"
    verb(made, "--subject", "person=99", "--html", str(page))
    assert "We hold <b>no data</b> about you" in page.read_text(encoding="utf-8")


def test_a_case_is_answered(tmp_path):
    made, _ = shop(tmp_path)
    assert verb(made, "--subject", "person=1", "--request", "2026-1", "--verified-by", "Ann").exit_code == 0
    with made.home as home:
        (case,) = home.audit.requests(all=True).to_pylist()
    assert (case["status"], case["verified_by"]) == ("done", "Ann")


def test_sources_of_one_version_may_declare_persons_in_unlike_columns(tmp_path):
    """Whose rows they are is known from all of them together, in each of them and where none declares anybody."""
    made = MadeHome(tmp_path / "home")
    rows = pa.table({"who": [1, 2, 3], "manager": [2, 3, 4]})
    run = made.run("a", {"src": Made(rows, "source", {"subject": {"person": "who"}})})
    same = made.versions[run, "src"]
    made.run("b", {"src": Made(same, "source", {"subject": {"person": "manager"}})})
    made.run("c", {"src": Made(same, "source"), "o": Made(rows, hops={"src": [(0, 0), (1, 1), (2, 2)]})})
    with made.home as home:
        found = rows_of_subjects(home._open.questions, home_key(home.layout), [Subject("person", "2")])
    assert {each.dataset.workflow: each.rids.tolist() for each in found.found} == {name: [0, 1] for name in "abc"}


def test_nobody_is_declared_and_there_never_was_a_key(tmp_path):
    made = MadeHome(tmp_path / "home")
    made.run("flow", {"a": Made(pa.table({"id": [1]}), "source")})
    with Home.open(made.folder) as home, pytest.raises(NotFound, match="declares a subject of the kind 'customer'"):
        home.audit.plan_erasure([Subject("customer", "1")])


def test_a_file_of_persons_that_is_not_there(tmp_path):
    with pytest.raises(QuestionError, match=r"nobody\.csv' cannot be read: no such file"):
        subjects_in_file(tmp_path / "nobody.csv")
