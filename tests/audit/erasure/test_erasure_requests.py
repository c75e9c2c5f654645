"""Requests that are refused: each with a clear message, exit code 1, no value of the data, and nothing changed."""

import fcntl
import hashlib
import json
import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog import engine
from lineage_catalog.engine import connect
from lineage_cli.main import main

from lineage_service.audit.erasure import plan_application as applying
from lineage_service.audit.erasure.residue_scan import SearchedValues
from lineage_service.errors import StoreError
from lineage_service.store import home_store
from lineage_service.store.references import References
from tests.support.erasure_shop import FIRST_ID, GONE, PEOPLE, Shop, person, put_back, values

NOT_DATA = (".lock", "audit.anchors")  # locks, and what belongs to the log
WHO = f"customer={person(GONE)['id']}"


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """The shop and a plan, once for all; a CSV source beside, which is copied."""
    folder = tmp_path_factory.mktemp("requests")
    shop = Shop(folder / "live")
    (shop.folder / "mails.csv").write_text(
        "id,mail\n" + "".join(f"{FIRST_ID + n},m{n}@x.example\n" for n in range(3, 6))
    )
    (shop.folder / "mails.yml").write_text(
        "version: 1\nname: mails\nsources:\n  mails: {path: mails.csv, options: {header: true}, "
        'schema: "id BIGINT, mail STRING", subject: {customer: id}, pii: [mail]}\n'
        "  people: {path: people.parquet, subject: {customer: id}, pii: [name]}\n"
        "steps:\n  - {name: known, op: filter, input: mails, where: id > 0}\n"
        "  - {name: named, op: filter, input: people, where: id > 0}\noutputs: {known: , named: }\n"
    )
    home = shop.open()
    home.run(shop.folder / "mails.yml")
    home.close()
    shop.run().planned()
    put_back(shop.folder, folder / "kept")
    return shop


@pytest.fixture
def shop(made, monkeypatch):
    put_back(made.folder.parent / "kept", made.folder)
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def refused(shop, capsys):
    """What a command says on its way out. Nothing but the log is changed, and nothing of anybody is said."""

    def run(*words: object, code: int = 1) -> str:
        before = everything(shop)
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(["audit", *map(str, words), "--home", str(shop.folder / "home"), "--quiet"])
        out, told = capsys.readouterr()
        assert left.value.code == code, told
        assert not out
        assert "Traceback" not in told
        assert not [value for number in range(PEOPLE) for value in values(number) if value in told]
        assert everything(shop) == before
        return told

    return run


def applies(shop: Shop) -> None:
    """The plan as it was made still does its work."""
    home = shop.open()
    home.audit.apply(shop.plan, out=shop.certificate)
    assert home.audit.verify(shop.certificate, values=values(GONE)).holds
    assert home.audit.verify_log().ok
    home.close()


def everything(shop: Shop) -> tuple[dict[str, str], dict[str, list[str]] | None]:
    """Every file of the shop by a digest, and the rows of the catalog but the log's."""
    files = {
        str(path.relative_to(shop.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(shop.folder.rglob("*"))
        if path.is_file() and not path.name.endswith(NOT_DATA) and not path.name.startswith("catalog.db")
    }
    return files, shop.dump()


# --- who ------------------------------------------------------------------------------------------------------


def test_a_person_whom_nobody_knows(refused):
    told = refused("plan-erasure", "--subject", "customer=123456789", "--out", "other.json")
    assert "no row of any held run is about this person (customer)" in told
    assert "123456789" not in told


def test_a_value_that_is_none_of_the_columns_type(refused):
    told = refused("plan-erasure", "--subject", "customer=Ünknown Person", "--out", "other.json")
    assert "no row of any held run is about this person" in told and "nknown" not in told


def test_a_kind_that_nobody_declares(refused):
    told = refused("plan-erasure", "--subject", f"custmer={person(GONE)['id']}", "--out", "other.json")
    assert "no source of a run" in told and "did you mean 'customer'?" in told


def test_more_persons_than_are_taken_at_once(refused, shop):
    (shop.folder / "many.csv").write_text("customer\n" + "".join(f"{FIRST_ID + n}\n" for n in range(101)))
    assert "101 persons are named" in refused("plan-erasure", "--subjects", "many.csv", "--out", "other.json")
    two = ("--subject", WHO, "--subject", f"customer={FIRST_ID + 1}")
    assert "--max-subjects" in refused("plan-erasure", *two, "--max-subjects", 1, "--out", "other.json")


def test_no_person_at_all(refused, shop):
    assert "Name the person" in refused("plan-erasure", "--out", "other.json", code=2)
    (shop.folder / "none.csv").write_text("customer\n")
    assert "name the person" in refused("plan-erasure", "--subjects", "none.csv", "--out", "other.json")


@pytest.mark.parametrize("text", ["customer", "=4711", "customer="])
def test_a_person_that_is_spelled_wrong(refused, text):
    assert "a subject is KIND=VALUE" in refused("plan-erasure", "--subject", text, "--out", "other.json")


def test_a_new_value_that_is_none_of_the_columns_type(refused):
    told = refused("plan-rectification", "--subject", WHO, "--set", "id=abc", "--out", "other.json")
    assert "error: --set: 1 value of column 'id' of '" in told and "' is no bigint" in told
    assert "--changed" not in told and "abc" not in told


# --- the plan -------------------------------------------------------------------------------------------------


def test_a_file_in_a_folder_that_is_not_there(refused, shop):
    for verb in (["plan-erasure", "--subject", WHO], ["plan-rectification", "--subject", WHO, "--set", "name=A"],
                 ["apply", "plan.json"]):  # fmt: skip
        told = refused(*verb, "--out", "no/such/file.json")
        assert "error: cannot write 'no/such/file.json': the folder 'no/such' does not exist" in told
    assert not (shop.folder / "no").exists()


def edited_count(raw: bytes) -> bytes:
    return raw.replace(b'"delete": 3,', b'"delete": 2,', 1)


def another_person(raw: bytes) -> bytes:
    """One digit of a hash."""
    document = json.loads(raw)
    known = document["subjects"]["customer"][0].encode()
    return raw.replace(known, known[:-1] + (b"0" if known[-1:] != b"0" else b"1"))


def edited_seal(raw: bytes) -> bytes:
    mac = json.loads(raw)["seal"]["hmac"].encode()
    return raw.replace(mac, mac[:-1] + (b"0" if mac[-1:] != b"0" else b"1"))


EDITED = {
    "a count": edited_count,
    "a person": another_person,
    "the seal": edited_seal,
    "an option": lambda raw: raw.replace(b'"drop_runs": false', b'"drop_runs": true '),
    "white space at the end": lambda raw: raw + b" ",
    "white space inside": lambda raw: raw.replace(b'"kind": ', b'"kind":  ', 1),
    "a byte order mark": lambda raw: b"\xef\xbb\xbf" + raw,
    "a line end": lambda raw: raw.replace(b"\n", b"\r\n", 1),
    "a name twice": lambda raw: raw.replace(b'"kind": "erasure",', b'"kind": "erasure",\n  "kind": "erasure",', 1),
    "cut": lambda raw: raw[:-40],
    "empty": lambda _: b"",
    "not JSON": lambda _: b"erase them all",
    "JSON of another kind": lambda _: b"[1, 2]",
    "a number": lambda _: b"7",
    "a seal of another kind": lambda _: b'{"kind": "erasure", "seal": {"key": 1, "hmac": 2}}',
    "deep": lambda _: b"[" * 100_000,
    "binary": lambda _: bytes(range(256)) * 8,
}


@pytest.mark.parametrize("how", EDITED)
def test_a_plan_that_is_not_as_it_was_made(refused, shop, how):
    raw = shop.plan.read_bytes()
    assert EDITED[how](raw) != raw
    shop.plan.write_bytes(EDITED[how](raw))
    told = refused("apply", "plan.json")
    assert "was changed" in told or "another key" in told
    shop.plan.write_bytes(raw)
    if how == "a count":
        applies(shop)


def test_a_plan_that_is_not_there(refused, shop):
    assert "there is no file" in refused("apply", "nowhere.json")
    assert "cannot read" in refused("apply", "out")


def test_a_certificate_is_no_plan_and_a_plan_no_certificate(shop, capsys):
    applies(shop)
    for verb, path, told in (
        ("apply", "certificate.json", "is not a plan"),
        ("verify", "plan.json", "is not a certificate"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["audit", verb, path, "--home", str(shop.folder / "home")])
        assert left.value.code == 1 and told in capsys.readouterr().err


def test_applied_twice(refused, shop):
    applies(shop)
    assert "was applied already" in refused("apply", "plan.json")
    assert "was applied already" in refused("apply", "plan.json", "--out", "certificate.json")


def test_a_second_plan_for_the_same_person_after_the_first(refused, shop):
    put_back(shop.plan.parent / "out", shop.plan.parent / "out2")
    home = shop.open()
    home.audit.plan_erasure(WHO, out=shop.folder / "second.json")
    home.close()
    applies(shop)
    assert "no longer fits" in refused("apply", "second.json")
    assert "no row of any held run" in refused("plan-erasure", "--subject", WHO, "--out", "third.json")


# --- what moved since -----------------------------------------------------------------------------------------


def test_a_source_read_in_place_that_changed_since(refused, shop):
    rows = [person(number) for number in range(PEOPLE + 1)]
    pq.write_table(pa.Table.from_pylist(rows), shop.folder / "people.parquet")
    assert "no longer fits" in refused("apply", "plan.json")


def test_the_original_of_a_copy_that_changed_since(refused, shop):
    with (shop.folder / "mails.csv").open("a") as stream:
        stream.write(f"{FIRST_ID + GONE},another@x.example\n")
    assert "no longer fits" in refused("apply", "plan.json")


def test_a_source_that_is_gone_since(refused, shop):
    (shop.folder / "people.parquet").unlink()
    assert "no longer fits" in refused("apply", "plan.json")


def test_a_run_that_came_in_between_and_reads_the_person(refused, shop, spark):
    home = shop.open()
    home.run(shop.folder / "first.yml")
    home.close()
    assert "no longer fits" in refused("apply", "plan.json")


def test_a_saved_query_that_came_in_between(refused, shop):
    home = shop.open()
    home.query("SELECT name FROM first.large", save="names", reveal=True)
    home.close()
    assert "no longer fits" in refused("apply", "plan.json")


def test_verify_is_incomplete_where_files_that_runs_need_are_missing(shop):
    applies(shop)
    home = shop.open()
    try:
        needed = References(home._open.reader, home.layout).files_of_runs(home._open.reader.runs())
        lost = next(path for path in sorted(needed) if path.endswith(".parquet"))
        (home.layout.path / lost).unlink()
        verdict = home.audit.verify(shop.certificate, values=values(GONE))
    finally:
        home.close()
    assert not verdict.holds
    assert any(f"files that runs need are missing: '{lost}'" in each for each in verdict.incomplete)


# --- the house ------------------------------------------------------------------------------------------------


def test_a_published_path_that_cannot_be_written(refused, shop):
    (shop.folder / "out").rename(shop.folder / "elsewhere")
    (shop.folder / "out").write_text("a file where the folder was")
    told = refused("apply", "plan.json")
    assert str(shop.folder / "out") in told
    (shop.folder / "out").unlink()
    (shop.folder / "elsewhere").rename(shop.folder / "out")
    applies(shop)


def test_a_published_copy_that_cannot_be_replaced_after_the_switch(shop, monkeypatch, capsys):
    """Then it is not done, and is not told as done; once the path can be written, it is finished."""
    rename = Path.rename

    def refusing(self: Path, target: Path) -> Path:
        if self.name == "spend":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refusing)
        with pytest.raises(SystemExit) as left:
            main(["audit", "apply", "plan.json", "--home", str(shop.folder / "home"), "--quiet"])
    told = capsys.readouterr().err
    assert left.value.code == 1 and "could not be replaced: permission denied" in told
    assert shop.state() == "switched"
    assert not (shop.folder / "certificate.json").exists()
    applies(shop)
    assert shop.state() == "done" and not shop.left()


def test_a_catalog_that_somebody_reads_after_the_switch(shop, monkeypatch, capsys):
    """It cannot be written anew then, so that it is not done."""
    reader = sqlite3.connect(shop.folder / "home" / "catalog.db", isolation_level=None)
    sweep = applying.sweep

    def then_read(*given: Any, **more: Any) -> Any:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchall()
        return sweep(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(applying, "sweep", then_read)
        patched.setattr(home_store, "connect", partial(connect, wait=0.1))
        patched.setattr(engine, "WRITING_WAIT", 0.1)  # the same connection has written before
        with pytest.raises(SystemExit) as left:
            main(["audit", "apply", "plan.json", "--home", str(shop.folder / "home"), "--quiet"])
    told = capsys.readouterr().err
    assert (
        left.value.code == 1 and "could not be rewritten" in told and "try again when no other process uses it" in told
    )
    assert shop.state() == "switched"
    reader.close()
    applies(shop)
    assert shop.state() == "done" and not shop.left()


def test_a_key_that_is_lost(refused, shop):
    key = (shop.folder / "home" / "audit.key").read_text()
    (shop.folder / "home" / "audit.key").unlink()
    for words in (("apply", "plan.json"), ("plan-erasure", "--subject", WHO, "--out", "other.json")):
        assert "has no key" in refused(*words)
    assert not (shop.folder / "home" / "audit.key").exists()
    (shop.folder / "home" / "audit.key").write_text(key)
    applies(shop)


def test_another_key_than_the_homes(refused, shop, monkeypatch):
    monkeypatch.setenv("SMOKE_AUDIT_KEY", "ab" * 32)
    assert "another key" in refused("apply", "plan.json")
    told = refused("plan-erasure", "--subject", WHO, "--out", "other.json")
    assert "recorded with another key" in told
    monkeypatch.setenv("SMOKE_AUDIT_KEY", "no key")
    assert "holds no key" in refused("apply", "plan.json")


def test_a_key_that_is_lost_after_an_erasure(shop, spark):
    """A new one would not know whoever was erased: none is made by the next run."""
    applies(shop)
    (shop.folder / "home" / "audit.key").unlink()
    home = shop.open()
    with pytest.raises(StoreError, match="is lost: persons were noted with it"):
        home.run(shop.folder / "first.yml")
    assert not (shop.folder / "home" / "audit.key").exists()
    (shop.folder / "home" / "audit.key").write_text("ab" * 32)
    with pytest.raises(StoreError, match="under another key than it has now"):
        home.run(shop.folder / "first.yml")
    home.close()


def test_another_erasure_at_work(refused, shop):
    lock = os.open(shop.folder / "home" / ".audit.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert "another erasure is running" in refused("apply", "plan.json")
    finally:
        os.close(lock)
    applies(shop)


def test_a_run_without_lineage(refused, shop, spark):
    home = shop.open()
    home.run(shop.folder / "first.yml", capture="off")
    home.run(shop.folder / "second.yml")
    off = home.runs(workflow="first").to_pylist()[0]["run_id"]
    home.close()
    told = refused("plan-erasure", "--subject", WHO, "--out", "other.json")
    assert f"run '{off}' of 'first' cannot be traced: it was made with capture off" in told
    assert f"it reads what run '{off}' wrote" in told and "--drop-runs" in told
    home = shop.open()
    plan = home.audit.plan_erasure(WHO, drop_runs=True, out=shop.plan)
    assert [run["action"] for run in plan["runs"]].count("remove") == 2
    home.close()
    removed = {Path(each["path"]).name for each in plan["published"] if each["action"] == "remove"}
    assert removed == {"large", "spend", "best"}
    applies(shop)
    assert not shop.left()
    assert not shop.published()
    home = shop.open()
    assert off not in [run["run_id"] for run in home.runs().to_pylist()]
    with pytest.raises(Exception, match="was removed by an erasure"):
        home.rows(f"first.large@{off}")
    home.close()


def test_verify_does_not_pass_what_it_cannot_read(shop, capsys):
    applies(shop)
    broken = next((shop.folder / "home" / "runs").rglob("*.parquet"))
    broken.write_bytes(b"PAR1" + b"nothing to be read" + b"PAR1")
    with pytest.raises(SystemExit) as left:
        main(["audit", "verify", "certificate.json", "--home", str(shop.folder / "home")])
    assert left.value.code == 4
    assert "verdict: incomplete" in capsys.readouterr().out


def test_verify_finds_a_value_that_was_put_back(shop, capsys):
    applies(shop)
    name = str(person(GONE)["name"])
    (shop.folder / "home" / "note.txt").write_text(f"they were called {name}\n")
    with pytest.raises(SystemExit) as left:
        main(["audit", "verify", "certificate.json", "--home", str(shop.folder / "home")])
    told = capsys.readouterr().out
    assert left.value.code == 4 and "note.txt" in told and name not in told


def test_a_number_inside_of_a_longer_one_is_another():
    values_given = SearchedValues(frozenset(["70004", "Person-0004"]))
    assert values_given.occurs_inside("order 70004") and values_given.occurs_in_bytes(b"id70004,")
    assert not values_given.occurs_inside("17700041") and not values_given.occurs_in_bytes(b'"mtime_ns": 1794870004123')
    assert values_given.occurs_inside("xPerson-00041") and values_given.occurs_in_bytes(b"170004 and 70004")
