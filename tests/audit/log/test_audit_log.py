"""Anchors, the key, retention and actors of the log; and the verb `audit log`."""

import http.server
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
from lineage_cli.main import main

from lineage_service.audit.actor import Actor, current_actor
from lineage_service.audit.log.anchors import anchor_file
from lineage_service.audit.log.log_retention import remove_expired_log_entries
from lineage_service.audit.log.log_transactions import LogEntry, log_reveal, write_entry
from lineage_service.errors import DamagedFile, LineageError, NotFound, StoreError
from tests.support.audit_logs import (
    anchor_lines,
    by_hand,
    database,
    entry,
    home_with_entries,
    in_days,
    problems,
    put_back,
    taken,
    write_anchors,
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("SMOKE_ANCHOR_FILE", "SMOKE_ANCHOR_URL", "SMOKE_ANCHOR_SYSLOG", "SMOKE_ACTOR", "SMOKE_AUDIT_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path):
    with home_with_entries(tmp_path, 4) as opened:
        yield opened


@pytest.fixture
def call(capsys):
    def run(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(map(str, words)))
        return left.value.code, *capsys.readouterr()

    return run


# --- the anchor file ------------------------------------------------------------------------------------------


def test_each_head_is_anchored_in_a_file_of_ours_alone(home):
    path = home.layout.path / "audit.anchors"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [json.loads(line)["number"] for line in anchor_lines(home)] == [1, 2, 3, 4]
    assert json.loads(anchor_lines(home)[-1])["hash"] == home.audit.log_head()["hash"]


def test_a_forged_anchor_is_found(home):
    lines = anchor_lines(home)
    forged = json.dumps(json.loads(lines[3]) | {"number": 3})
    write_anchors(home, [*lines, forged])
    (problem,) = problems(home)
    assert problem.startswith("line 5 of the anchors")
    assert problem.endswith("was forged or changed")


def test_a_seal_of_an_entry_is_none_of_an_anchor(home):
    lines = anchor_lines(home)
    write_anchors(home, [*lines[:3], json.dumps(json.loads(lines[3]) | {"seal": home.audit.log_head()["hash"]})])
    assert "forged" in problems(home)[0]


def test_lost_anchors_are_told(home):
    (home.layout.path / "audit.anchors").unlink()
    (problem,) = problems(home)
    assert "whether the tail of the log was cut off cannot be determined" in problem
    write_anchors(home, [])
    assert problems(home) == [problem]


def test_a_line_that_was_torn_is_covered_by_the_next(home):
    path = home.layout.path / "audit.anchors"
    whole = path.read_text()
    path.write_text(whole[:-40])
    (problem,) = problems(home)
    assert "line 4 " in problem
    assert "cannot be read, and none behind it covers it" in problem
    write_entry(home._open, entry(5))
    verdict = home.audit.verify_log()
    assert verdict.ok
    assert verdict.anchored == ((1, 5),)
    assert "line 4 " in verdict.notes[0]


def test_a_tail_cut_with_its_anchors_is_found_by_anchors_kept_elsewhere_alone(home, tmp_path):
    """As docs/audit-log.md says: who can write both can cut both; a URL or a syslog is for that."""
    elsewhere = tmp_path / "syslog"
    elsewhere.write_text("".join(f"Nov 17 10:00:00 host smoke-lineage: audit anchor {x}\n" for x in anchor_lines(home)))
    by_hand(home, "DELETE FROM audit_log WHERE number > 2")
    write_anchors(home, anchor_lines(home)[:2])
    assert problems(home) == []
    assert problems(home, elsewhere) == [
        "entry 3 and all up to entry 4 are missing: the tail was cut off behind an anchored entry"
    ]
    with pytest.raises(NotFound, match="there is no anchor file"):
        home.audit.verify_log(tmp_path / "nowhere")


def test_a_crash_between_commit_and_anchor_leaves_an_unanchored_tail(home):
    code = (
        "import os, sys; import lineage_service.audit.log.log_transactions as log; from lineage_service import Home;"
        "log.anchor = lambda *_: os._exit(9);"
        "log.write_entry(Home.open(sys.argv[1])._open, log.LogEntry('access'))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(home.layout.path)], check=False).returncode == 9
    verdict = home.audit.verify_log()
    assert (verdict.ok, verdict.anchored, verdict.unanchored) == (True, ((1, 4),), ((5, 5),))


def test_an_anchor_that_fails_loses_neither_entry_nor_answer(home, tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_ANCHOR_FILE", str(tmp_path / "no" / "such" / "folder"))
    record, (note,) = write_entry(home._open, entry(5))
    assert record.number == 5
    assert note.startswith("entry 5 of the audit log is written, but not anchored: cannot write '")
    monkeypatch.delenv("SMOKE_ANCHOR_FILE")
    assert home.audit.verify_log().unanchored == ((5, 5),)


def test_anchors_of_several_homes_may_share_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_ANCHOR_FILE", str(tmp_path / "anchors"))
    with home_with_entries(tmp_path / "one", 2) as one, home_with_entries(tmp_path / "two", 3) as two:
        assert anchor_file(one.layout) == tmp_path / "anchors"
        for home, count in ((one, 2), (two, 3)):
            verdict = home.audit.verify_log()
            assert (verdict.ok, verdict.anchored) == (True, ((1, count),))
            assert verdict.notes == (f"{5 - count} anchors in '{tmp_path / 'anchors'}' are of logs with another key",)


# --- anchors elsewhere ----------------------------------------------------------------------------------------


@pytest.fixture
def web_server(monkeypatch):
    """An HTTP server that answers what it is told, and keeps what it got."""
    monkeypatch.setattr("lineage_service.audit.log.anchors.TIMEOUT", 120.0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
            self.send_response(self.server.answer)
            if self.server.answer == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        running.got, running.answer = [], 204
        thread = threading.Thread(target=running.serve_forever, args=[0.01])
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_url_gets_each_head(home, web_server, monkeypatch):
    monkeypatch.setenv("SMOKE_ANCHOR_URL", f"http://127.0.0.1:{web_server.server_port}/anchors")
    assert write_entry(home._open, entry(5))[1] == []
    ((path, kind, anchor),) = web_server.got
    assert (path, kind) == ("/anchors", "application/json")
    assert anchor == json.loads(anchor_lines(home)[-1])


@pytest.mark.parametrize("answer", [302, 404, 503])
def test_a_url_that_refuses_is_told_without_its_secrets(home, web_server, monkeypatch, answer):
    web_server.answer = answer
    monkeypatch.setenv("SMOKE_ANCHOR_URL", f"http://127.0.0.1:{web_server.server_port}/anchors?token=sesame")
    (note,) = write_entry(home._open, entry(5))[1]
    assert "the server of SMOKE_ANCHOR_URL answered" in note
    assert str(answer) in note
    assert "sesame" not in note
    assert home.audit.verify_log().anchored == ((1, 5),), "the file has it"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/sesame", "file:///sesame", "http://[sesame", "https://x y/sesame"])
def test_a_url_that_nobody_answers_is_told(home, url, monkeypatch):
    monkeypatch.setenv("SMOKE_ANCHOR_URL", url)
    (note,) = write_entry(home._open, entry(5))[1]
    assert "SMOKE_ANCHOR_URL" in note
    assert "sesame" not in note


def test_a_url_that_is_slow_is_given_up(home, monkeypatch):
    monkeypatch.setattr("lineage_service.audit.log.anchors.TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("SMOKE_ANCHOR_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        (note,) = write_entry(home._open, entry(5))[1]
    assert "timed out" in note


def test_a_syslog_gets_each_head(home, monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as syslog:
        syslog.bind(("127.0.0.1", 0))
        syslog.settimeout(120)
        monkeypatch.setenv("SMOKE_ANCHOR_SYSLOG", f"127.0.0.1:{syslog.getsockname()[1]}")
        assert write_entry(home._open, entry(5))[1] == []
        got = syslog.recv(4096).decode()
    assert got.startswith("<86>smoke-lineage: audit anchor {"), "authpriv, informational"
    assert json.loads(got[got.index("{") :].rstrip("\0")) == json.loads(anchor_lines(home)[-1])


@pytest.mark.parametrize("address", ["/no/such/socket", "host:port"])
def test_a_syslog_that_is_not_there_is_told(home, address, monkeypatch):
    monkeypatch.setenv("SMOKE_ANCHOR_SYSLOG", address)
    (note,) = write_entry(home._open, entry(5))[1]
    assert "SMOKE_ANCHOR_SYSLOG cannot be reached" in note


# --- the key --------------------------------------------------------------------------------------------------


def test_without_the_key_nothing_is_written_and_nothing_vouched_for(home):
    path = home.layout.path / "audit.key"
    secret = path.read_text()
    path.unlink()
    with pytest.raises(StoreError, match="is lost: its log cannot be continued"):
        write_entry(home._open, entry(5))
    assert not path.exists(), "a new key would hide that the old one is lost"
    assert problems(home) == ["the key of this home is lost: whether entries were changed cannot be checked without it"]
    path.write_text(secret)
    assert home.audit.verify_log().ok


def test_another_key_is_refused(home, monkeypatch):
    monkeypatch.setenv("SMOKE_AUDIT_KEY", "ab" * 32)
    with pytest.raises(StoreError, match="is not the one that its log was written with"):
        write_entry(home._open, entry(5))
    found = problems(home)
    assert any("was written with another key" in problem for problem in found)
    assert home.audit.log().count() == 4, "it can still be read"


def test_an_entry_whose_key_is_damaged_is_no_wrong_key(home):
    """Entries before it hold under the key, which is right then: it is the catalog that is told of."""
    by_hand(home, "UPDATE audit_log SET key_id = '0000' WHERE number = (SELECT max(number) FROM audit_log)")
    with pytest.raises(DamagedFile, match=r"the catalog 'catalog.db' is damaged: entry 4 of the log"):
        write_entry(home._open, entry(5))
    by_hand(home, "UPDATE audit_log SET key_id = '0000'")
    with pytest.raises(
        StoreError, match=r"is not the one that its log was written with \(.*in the catalog 'catalog.db'"
    ):
        write_entry(home._open, entry(5))


def test_gaps_show_also_without_the_key(home):
    (home.layout.path / "audit.key").write_text("damaged")
    by_hand(home, "DELETE FROM audit_log WHERE number = 2")
    assert "entry 2 is missing" in problems(home)


# --- who ------------------------------------------------------------------------------------------------------


def test_the_user_is_the_systems_the_name_a_claim(home, monkeypatch):
    monkeypatch.setenv("USER", "somebody-else")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    monkeypatch.setenv("SMOKE_ACTOR", "Ada")
    write_entry(home._open, entry(5))
    write_entry(home._open, entry(6), actor=current_actor("Grace"))
    rows = home.audit.log(limit=2).to_pylist()
    assert [row["actor"] for row in rows] == ["Grace", "Ada"]
    assert {row["os_user"] for row in rows} == {current_actor().user}
    assert current_actor().user != "somebody-else"


def test_a_user_without_a_name_is_a_number(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 987_654)
    assert current_actor().user == "987654"


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, "\udcff"])
def test_a_name_must_be_one(name):
    with pytest.raises(LineageError, match="the name of an actor"):
        current_actor(name)


@pytest.mark.parametrize(
    ("one", "other", "another"),
    [
        (Actor("a"), Actor("b"), True),
        (Actor("a", "Ada"), Actor("b"), True),
        (Actor("a", "Ada"), Actor("b", "Bob"), True),
        (Actor("a", "Ada"), Actor("b", "Ada"), False),
        (Actor("a", "Ada"), Actor("a", "Bob"), False),
        (Actor("a"), Actor("a"), False),
    ],
)
def test_two_actors_differ_in_user_and_name(one, other, another):
    assert one.is_another_than(other) is another
    assert other.is_another_than(one) is another


# --- log, then answer -----------------------------------------------------------------------------------------


def test_where_the_entry_cannot_be_written_nothing_is_revealed(home):
    (home.layout.path / "audit.key").unlink()
    with pytest.raises(StoreError, match="is lost"):
        log_reveal(home._open, "rows", ["flow.a"])
    assert home.audit.log_head()["number"] == 4


def test_a_locked_catalog_is_told(home, monkeypatch):
    monkeypatch.setattr("lineage_catalog.engine.WRITING_WAIT", 0.1)
    with database(home) as execute:
        execute("UPDATE audit_log SET verb = verb")
        with pytest.raises(StoreError, match="it is locked: another process is writing to it"):
            write_entry(home._open, entry(5))


def test_a_reveal_is_logged(home):
    assert log_reveal(home._open, "rows", ["flow.a"]) == []
    (row,) = home.audit.log(verb="reveal").to_pylist()
    assert (json.loads(row["datasets"]), json.loads(row["details"])) == (["flow.a"], {"verb": "rows"})


# --- retention ------------------------------------------------------------------------------------------------


def test_the_front_goes_and_the_chain_still_holds(home):
    assert remove_expired_log_entries(home._open, 30, today=in_days(29)).entries == 0
    assert home.audit.log_head()["number"] == 4, "nothing was removed, nothing is logged"
    result = remove_expired_log_entries(home._open, 30, today=in_days(31))
    assert (result.entries, result.up_to, result.notes) == (4, 4, ())
    verdict = home.audit.verify_log()
    assert (verdict.ok, verdict.first, verdict.last, verdict.removed) == (True, 5, 5, 4)
    write_entry(home._open, entry(6))
    remove_expired_log_entries(home._open, 1, today=in_days(2))
    verdict = home.audit.verify_log()
    assert (verdict.ok, verdict.first, verdict.removed, verdict.anchored) == (True, 7, 6, ((7, 7),))


def test_nothing_younger_goes(home):
    old = (datetime.now(UTC) - timedelta(days=40)).isoformat(timespec="milliseconds")
    by_hand(home, "UPDATE audit_log SET at = :old WHERE number IN (1, 2, 4)", old=old)
    result = remove_expired_log_entries(home._open, 30)
    assert (result.entries, result.up_to) == (2, 2), "entry 4 is behind a younger one"


def test_removing_from_the_front_by_hand_is_found(home):
    remove_expired_log_entries(home._open, 1, today=in_days(2))
    for number in (6, 7):
        write_entry(home._open, entry(number))
    by_hand(home, "DELETE FROM audit_log WHERE number = 5")
    assert problems(home) == ["entry 1 and all up to entry 5 are missing"], "with it went what vouched for the front"


def test_more_than_retention_took_is_found(home):
    write_entry(home._open, entry(5))
    by_hand(
        home, "UPDATE audit_log SET at = '2020-01-01T00:00:00.000+00:00' WHERE number <= 2"
    )  # as if they had been written so long ago; they go
    remove_expired_log_entries(home._open, 30)
    assert home.audit.verify_log().ok
    by_hand(home, "DELETE FROM audit_log WHERE number = 3")
    assert problems(home) == ["entry 3 is missing"]


def test_what_retention_took_cannot_come_back(home):
    row = taken(home, 4)
    remove_expired_log_entries(home._open, 1, today=in_days(2))
    put_back(home, row)
    assert problems(home) == ["entry 4 was removed by retention, and is there again"]


def test_a_front_that_was_written_anew_before_retention_is_found_by_its_anchor(home):
    by_hand(home, "DELETE FROM audit_log WHERE number = 4")
    write_entry(home._open, entry(44))
    remove_expired_log_entries(home._open, 1, today=in_days(2))
    assert problems(home) == ["entry 4 was removed by retention, and differs from the anchored entry"]


def test_an_entry_of_an_earlier_life_of_the_log_is_found(home):
    """Sealed as it must be, but of a tail that was cut off: it does not follow what is before it now."""
    row = taken(home, 3)
    by_hand(home, "DELETE FROM audit_log WHERE number > 1")
    for number in (22, 33, 44):
        write_entry(home._open, entry(number))
    write_anchors(home, anchor_lines(home)[-1:])
    put_back(home, row)
    assert problems(home) == [
        "entry 3 does not follow the entry before it",
        "entry 4 does not follow the entry before it",
    ]


def test_the_same_at_the_front_is_found(home):
    row = taken(home, 3)
    by_hand(home, "DELETE FROM audit_log WHERE number > 1")
    for number in (22, 33, 44):
        write_entry(home._open, entry(number))
    write_anchors(home, anchor_lines(home)[-1:])
    by_hand(home, "UPDATE audit_log SET at = '2020-01-01T00:00:00.000+00:00' WHERE number <= 2")
    assert remove_expired_log_entries(home._open, 30).up_to == 2
    put_back(home, row)
    assert "entry 3 does not follow the entry before it, which is no longer there" in problems(home)


def test_removed_entries_are_gone_from_the_file(home):
    write_entry(home._open, LogEntry("access", "a-reference-to-be-forgotten"))
    files = list(home.layout.path.glob("catalog.db*"))
    assert any(b"a-reference-to-be-forgotten" in each.read_bytes() for each in files)
    remove_expired_log_entries(home._open, 1, today=in_days(2))
    assert not any(b"a-reference-to-be-forgotten" in each.read_bytes() for each in files)


# --- the verb -------------------------------------------------------------------------------------------------


def test_audit_log_lists_newest_first(home, call):
    code, out, err = call("audit", "log", "--home", home.layout.path, "--limit", 2)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["4", "3"]
    assert "… and 2 more rows" in err
    code, out, _ = call("audit", "log", "--home", home.layout.path, "--request", "R-1", "--json")
    (row,) = json.loads(out)
    assert (row["number"], row["counts"], row["datasets"]) == (2, {"rows": 1}, ["flow.a", "flow.b"])
    assert list(row["subjects"]) == ["customer"]


@pytest.mark.parametrize("format_", ["ndjson", "csv", "parquet"])
def test_audit_log_in_every_format(home, call, format_, tmp_path):
    out = tmp_path / f"log.{format_}"
    assert call("audit", "log", "--home", home.layout.path, "--out", out)[0] == 0
    assert out.stat().st_size > 100


def test_audit_log_verify_says_yes_or_no(home, call):
    code, out, _ = call("audit", "log", "--verify", "--home", home.layout.path)
    assert code == 0
    assert "anchored:      1…4" in out
    assert out.endswith("the log is intact\n")
    by_hand(home, "UPDATE audit_log SET os_user = 'nobody' WHERE number = 2")
    code, out, _ = call("audit", "log", "--verify", "--home", home.layout.path)
    assert code == 4
    assert "problem: entry 2 was changed" in out
    code, out, _ = call("audit", "log", "--verify", "--json", "--home", home.layout.path)
    verdict = json.loads(out)
    assert (code, verdict["ok"], verdict["problems"]) == (4, False, [{"what": "was changed", "number": 2}])
    assert (verdict["anchored"], verdict["unanchored"]) == ([[1, 1], [3, 4]], [[2, 2]])


def test_audit_log_verify_without_anchors_is_no_yes(home, call):
    (home.layout.path / "audit.anchors").unlink()
    code, out, _ = call("audit", "log", "--verify", "--home", home.layout.path)
    assert code == 4
    assert "cannot be determined" in out


def test_audit_log_head(home, call):
    head = home.audit.log_head()
    assert call("audit", "log", "--head", "--home", home.layout.path)[:2] == (0, f"4 {head['hash']}\n")
    assert json.loads(call("audit", "log", "--head", "--json", "--home", home.layout.path)[1]) == head


def test_audit_log_retains(home, call):
    by_hand(home, "UPDATE audit_log SET at = '2020-01-01T00:00:00.000+00:00' WHERE number = 1")
    code, out, _ = call("audit", "log", "--retain-days", 30, "--actor", "Ada", "--home", home.layout.path)
    assert (code, out) == (0, "removed 1 entry and 0 closed cases\n")
    (row,) = home.audit.log(limit=1).to_pylist()
    assert (row["verb"], row["actor"]) == ("log-retention", "Ada")


def test_an_anchor_that_fails_is_told_on_standard_error(home, call, monkeypatch):
    by_hand(home, "UPDATE audit_log SET at = '2020-01-01T00:00:00.000+00:00' WHERE number = 1")
    monkeypatch.setenv("SMOKE_ANCHOR_SYSLOG", "/no/such/socket")
    code, _, err = call("audit", "log", "--retain-days", 30, "--home", home.layout.path)
    assert code == 0
    assert err.startswith("note: entry 5 of the audit log is written, but not anchored")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--verify", "--head"], "--verify and --head cannot be combined"),
        (["--anchors", "x"], "--anchors needs --verify"),
        (["--verify", "--verb", "x"], "--verify concerns the whole log"),
        (["--head", "--format", "csv"], "--head supports only text and --json"),
        (["--retain-days", "0"], "1 or larger"),
    ],
)
def test_audit_log_refuses_mixtures(home, call, words, told):
    code, _, err = call("audit", "log", *words, "--home", home.layout.path)
    assert code == 2
    assert told in err


def test_a_home_without_a_catalog_is_told(call, tmp_path):
    code, _, err = call("audit", "log", "--home", tmp_path / "nowhere")
    assert code == 1
    assert "there is no catalog" in err
    assert not (tmp_path / "nowhere").exists()


def test_a_log_whose_table_is_damaged_is_told_with_the_catalog(home):
    """A flipped bit in the schema gives a column another name, and SQLite finds nothing wrong with that."""
    by_hand(home, "ALTER TABLE audit_log RENAME COLUMN request TO sequest")
    with pytest.raises(StoreError, match=r"cannot use the audit log in the catalog 'catalog\.db': no such column"):
        write_entry(home._open, entry(5))
