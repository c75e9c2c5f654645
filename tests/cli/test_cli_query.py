"""`query` as a command: its output, and what it says where it was stopped."""

import subprocess
import sys

import pytest

from tests.support.made_home import made_home


def asked(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lineage_cli.main", "query", *arguments, "--home", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_rows_notes_and_exit_codes(tmp_path):
    home = made_home(tmp_path)
    found = asked(home, "SELECT k, _rid FROM backward('out', 'a', 'k = 1') ORDER BY k", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split() == ["[", '{"k":', "2,", '"_rid":', "2},", '{"k":', "3,", '"_rid":', "3}", "]"]
    cut = asked(home, "FROM a", "--limit", "1", "--format", "csv")
    assert cut.stdout.splitlines() == ["_rid,k", "0,0"] and "… and 3 more rows" in cut.stderr
    most = asked(home, "FROM a", "--max-rows", "2", "--format", "ndjson")
    assert len(most.stdout.splitlines()) == 2 and "cut after 2 rows" in most.stderr
    saved = asked(home, "--save", "twice", "SELECT k, count(*) AS n FROM a GROUP BY k ORDER BY k")
    assert saved.returncode == 0 and "saved as 'twice'" in saved.stderr
    assert asked(home, "SELECT nope FROM a").returncode == 1
    assert asked(home, "FROM a", "--timeout", "0").returncode == 2


@pytest.mark.long
def test_what_is_stopped_says_one_thing(tmp_path):
    home = made_home(tmp_path)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    found = asked(home, endless, "--timeout", "0.5")
    assert found.returncode == 1 and found.stdout == ""
    assert found.stderr == (
        "error: the question took longer than 0.5 s and was stopped\n  hint: --timeout allows more\n"
    )
